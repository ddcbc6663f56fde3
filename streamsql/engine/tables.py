"""Making the run-time state of a table from its definition."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from streamsql.engine.binding import BindScope
from streamsql.engine.catalog import Catalog
from streamsql.engine.definitions import TableProgram, program_of
from streamsql.engine.relations import Relation
from streamsql.engine.storage.table import TableState
from streamsql.engine.storage.watermarks import Int64Array, WatermarkTracker, to_us
from streamsql.functions.evaluator import Evaluator


def new_table_state(relation: Relation, catalog: Catalog) -> TableState:
    """An empty table; its definition is bound under the settings it was written under."""
    program = program_of(relation, BindScope(catalog, relation.context))
    return TableState(relation, watermark_tracker(relation, program))


def watermark_tracker(relation: Relation, program: TableProgram) -> WatermarkTracker | None:
    """The tracker of a table or source, or None without WATERMARK."""
    if program.watermark is None or relation.watermark_column is None:
        return None
    return WatermarkTracker(
        relation.watermark_column,
        watermark_values(relation, program),
        program.policy,
        program.percentile,
    )


def watermark_values(
    relation: Relation, program: TableProgram
) -> Callable[[pa.RecordBatch, int], Int64Array]:
    """Rows → the watermark expression of each, µs; a row it fails on moves nothing."""
    assert program.watermark is not None
    evaluator = Evaluator([program.watermark], relation.columns)

    def values(rows: pa.RecordBatch, now_us: int) -> Int64Array:
        result = evaluator.run_skipping(rows, now_us, on_error="null")
        return to_us(result.columns[0])

    return values
