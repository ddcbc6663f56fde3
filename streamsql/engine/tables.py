"""Making the run-time state of a table from its definition."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from streamsql.core.errors import StatementError
from streamsql.engine import logs
from streamsql.engine.binding import BindScope
from streamsql.engine.catalog import Catalog
from streamsql.engine.definitions import TableProgram, standing_program, watermark_policy
from streamsql.engine.relations import Relation
from streamsql.engine.storage.table import TableState
from streamsql.engine.storage.watermarks import NULL_TIME, Int64Array, WatermarkTracker, to_us
from streamsql.functions.evaluator import Evaluator


def new_table_state(relation: Relation, catalog: Catalog) -> TableState:
    """An empty table; its definition is bound under the settings it was written under.

    It was bound before the statement that made it ran. If it can not be any more, the database is
    opened all the same: the table's rows can be read, its watermark stands still, and who writes to
    it gets the error.
    """
    try:
        program = standing_program(relation, BindScope(catalog, relation.context))
    except StatementError as error:
        logs.error("a definition is refused", relation=relation.name, reason=error.message)
        return TableState(relation, _standing_still(relation))
    return TableState(relation, watermark_tracker(relation, program))


def _standing_still(relation: Relation) -> WatermarkTracker | None:
    """A watermark that no row moves."""
    if relation.watermark_column is None:
        return None
    return WatermarkTracker(
        relation.watermark_column,
        lambda rows, now_us: np.full(rows.num_rows, NULL_TIME),
        watermark_policy(relation.options),
    )


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
