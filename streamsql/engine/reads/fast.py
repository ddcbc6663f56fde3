"""Reads that need no DuckDB: constants, and filters and projections over few rows.

A DuckDB query costs a millisecond before it reads the first row. The evaluator that maintains views
runs the same bound expressions on Arrow arrays in microseconds.
"""

from __future__ import annotations

import pyarrow as pa

from streamsql.core.delta import make_batch
from streamsql.core.schema import Schema
from streamsql.engine.reads.view import ReadView
from streamsql.functions.evaluator import Evaluator
from streamsql.functions.expressions import (
    ColumnRef,
    Expr,
    Literal,
    Subquery,
    conjuncts,
    walk,
)
from streamsql.plan.nodes import Filter, Limit, LogicalPlan, Project, Scan, Values

FAST_ROWS_MAX = 20_000
"""Above this DuckDB's parallel scan is the faster one, where expressions are evaluated."""

FAST_VALUES_MAX = 100


def run_fast(
    plan: LogicalPlan, view: ReadView, now_us: int, timezone: str
) -> pa.RecordBatch | None:
    """The whole result, or None where this is not for us. The plan holds constants only."""
    if not is_simple(plan):
        return None
    return _run(plan, view, now_us, timezone)


def is_simple(plan: LogicalPlan) -> bool:
    """Whether `run_fast` takes such a plan, if there are not too many rows."""
    if isinstance(plan, Values):
        cells = len(plan.rows) * max(1, len(plan.schema))
        return cells <= FAST_VALUES_MAX and all(_plain(e) for r in plan.rows for e in r)
    if isinstance(plan, Scan):
        return True
    if isinstance(plan, Project):
        return all(_plain(e) for e in plan.exprs) and is_simple(plan.input)
    if isinstance(plan, Filter):
        return _plain(plan.predicate) and is_simple(plan.input)
    if isinstance(plan, Limit):
        constant = all(e is None or isinstance(e, Literal) for e in (plan.limit, plan.offset))
        return not plan.order_by and not plan.with_ties and constant and is_simple(plan.input)
    return False


def _plain(expr: Expr) -> bool:
    return not any(isinstance(e, Subquery) for e in walk(expr))


def _run(plan: LogicalPlan, view: ReadView, now_us: int, timezone: str) -> pa.RecordBatch | None:
    if isinstance(plan, Values):
        return values_batch(plan, now_us, timezone)
    if isinstance(plan, Scan):
        rows = view.tables([plan.relation_id])[plan.relation_id]
        if rows.num_rows > FAST_ROWS_MAX:
            return None
        return _as_batch(rows.select(list(range(len(plan.schema)))), plan.schema)
    assert isinstance(plan, Project | Filter | Limit)
    below = _run(plan.input, view, now_us, timezone)
    if below is None:
        return None
    if isinstance(plan, Project):
        return project(plan.exprs, below, plan.input.schema, plan.schema, now_us, timezone)
    if isinstance(plan, Filter):
        for part in conjuncts(plan.predicate):
            if below.num_rows:
                keep = Evaluator([part], plan.input.schema).run(below, now_us, timezone)[0]
                below = below.filter(keep)
        return below
    return _limited(plan, below)


def _limited(plan: Limit, rows: pa.RecordBatch) -> pa.RecordBatch | None:
    limit = plan.limit.value if isinstance(plan.limit, Literal) else None
    offset = plan.offset.value if isinstance(plan.offset, Literal) else None
    if (limit is not None and limit < 0) or (offset is not None and offset < 0):
        return None  # DuckDB's path raises 2201W and 2201X
    return rows.slice(offset or 0, limit)


def project(
    exprs: tuple[Expr, ...],
    rows: pa.RecordBatch,
    schema: Schema,
    out: Schema,
    now_us: int,
    timezone: str,
) -> pa.RecordBatch:
    """Expressions over rows; plain columns are passed on."""
    if all(isinstance(e, ColumnRef) for e in exprs):
        arrays = [rows.column(e.index) for e in exprs if isinstance(e, ColumnRef)]
    else:
        arrays = Evaluator(list(exprs), schema).run(rows, now_us, timezone)
    return make_batch(arrays, out.arrow, rows.num_rows)


def values_batch(plan: Values, now_us: int, timezone: str) -> pa.RecordBatch:
    """The rows of a Values node."""
    n = len(plan.rows)
    if not len(plan.schema):
        return make_batch([], plan.schema.arrow, n)
    blank = make_batch([], Schema(()).arrow, 1)
    columns: list[list[pa.Array]] = [[] for _ in plan.schema]
    for row in plan.rows:
        cells = Evaluator(list(row), Schema(())).run(blank, now_us, timezone)
        for column, cell in zip(columns, cells, strict=True):
            column.append(cell)
    arrays = [
        parts[0]
        if n == 1
        else pa.concat_arrays([p.cast(c.type.arrow) for p in parts])
        if n
        else pa.array([], c.type.arrow)
        for parts, c in zip(columns, plan.schema, strict=True)
    ]
    return make_batch(arrays, plan.schema.arrow, n)


def _as_batch(rows: pa.Table, schema: Schema) -> pa.RecordBatch:
    if rows.num_columns == 0:
        return make_batch([], schema.arrow, rows.num_rows)
    batches = rows.combine_chunks().to_batches()
    if not batches:
        arrays = [pa.array([], f.type) for f in schema.arrow]
        return make_batch(arrays, schema.arrow, 0)
    return make_batch(batches[0].columns, schema.arrow, rows.num_rows)


__all__ = ["is_simple", "project", "run_fast", "values_batch"]
