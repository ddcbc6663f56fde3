"""ON CONFLICT DO UPDATE with subqueries: the values are a query over (stored row, proposed row).

The pairs are found and the query is run before the statement's turn comes; if the stored rows are
others by then, it is evaluated again, as an UPDATE is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from sqlglot import exp

from streamsql.core.delta import Int64Array, make_batch
from streamsql.core.schema import Column, Schema
from streamsql.core.types import BIGINT, SqlType
from streamsql.dialect.statements import Insert, OnConflict
from streamsql.engine.binding import BindScope
from streamsql.engine.dml.batches import one_batch
from streamsql.engine.dml.conflicts import BoolArray
from streamsql.engine.dml.given import (
    FIRST_ID,
    given_info,
    given_table,
    qualified_column,
    scope_with,
    table_of,
    view_with,
)
from streamsql.engine.dml.pending import TableImage
from streamsql.engine.dml.rows import RowMaker
from streamsql.engine.reads.select import run_plan
from streamsql.engine.relations import Relation
from streamsql.engine.requests import StaleRead
from streamsql.engine.storage.table import row_ids
from streamsql.functions.expressions import Literal
from streamsql.plan.nodes import LogicalPlan
from streamsql.plan.optimizer import optimize

if TYPE_CHECKING:
    from streamsql.engine.session import Session

PAIRS_ID = FIRST_ID + 4
_PAIRS, _NUMBER, _EXCLUDED = "\x00pairs", "\x00number", "\x00excluded."


@dataclass(frozen=True)
class ConflictQuery:
    """plan: number of the pair, then a column for each of `columns`, for pairs that WHERE is true
    for. defaulted: columns set to DEFAULT. pairs: schema of the relation that it reads."""

    plan: LogicalPlan
    columns: tuple[int, ...]
    defaulted: tuple[int, ...]
    pairs: Schema


def bind_conflict_query(
    clause: OnConflict,
    statement: Insert,
    relation: Relation,
    scope: BindScope,
    types: list[SqlType | None],
) -> ConflictQuery:
    """The clause as a query. Raises: errors of binding, 42804."""
    from streamsql.plan.binder import bind_insert_source

    alias = statement.alias or relation.name
    user = [Column(c.name, c.type) for c in relation.columns]
    proposed = [Column(_EXCLUDED + c.name, c.type) for c in relation.columns]
    pairs = Schema((*user, *proposed, Column(_NUMBER, BIGINT)))
    inner = scope_with(scope, {_PAIRS: given_info(PAIRS_ID - FIRST_ID, alias, pairs)})

    def renamed(node: exp.Expression) -> exp.Expression:
        owner = node.args.get("table") if isinstance(node, exp.Column) else None
        if owner is None or owner.name != "excluded":
            return node
        found = qualified_column(_EXCLUDED + node.name, alias)
        found.meta.update(node.meta)
        return found

    columns, defaulted, trees = [], [], []
    for name, tree in clause.assignments:
        at = relation.columns.index(name)
        if isinstance(tree, exp.Var) and tree.name.upper() == "DEFAULT":
            defaulted.append(at)
        else:
            columns.append(at)
            trees.append(tree.copy().transform(renamed))
    select = exp.Select(
        expressions=[qualified_column(_NUMBER, alias), *trees],
        from_=exp.From(this=given_table(_PAIRS, alias)),
    )
    if clause.where is not None:
        select.set("where", exp.Where(this=clause.where.copy().transform(renamed)))
    wanted = [Column(_NUMBER, BIGINT), *(user[at] for at in columns)]
    context = inner.context(parameter_types=types, text=statement.sql)
    plan = optimize(bind_insert_source(select, wanted, context).plan)
    return ConflictQuery(plan, tuple(columns), tuple(defaulted), pairs)


class ConflictAnswer:
    """What DO UPDATE makes of the rows that an INSERT meets, as of one moment."""

    def __init__(
        self,
        session: Session,
        query: ConflictQuery,
        maker: RowMaker,
        existing: pa.RecordBatch,
        proposed: pa.RecordBatch,
        values: tuple[Literal, ...],
    ) -> None:
        self._width = len(maker.schema)
        self._ids: Int64Array = row_ids(existing, self._width)
        n = existing.num_rows
        before = existing.columns[: self._width]
        numbers = pa.array(np.arange(n, dtype=np.int64))
        rows = {PAIRS_ID: table_of(query.pairs, [*before, *proposed.columns, numbers], n)}
        view = view_with(session.read_view(), rows)
        found = one_batch(run_plan(session, query.plan, view, values), query.plan.schema)
        at = np.asarray(found.column(0)).astype(np.int64)
        order = np.argsort(at, kind="stable")
        self.chosen: BoolArray = np.zeros(n, np.bool_)
        self.chosen[at] = True
        given = {c: found.column(k + 1).take(pa.array(order)) for k, c in enumerate(query.columns)}
        now_us, timezone = session.now_us(), session.timezone
        for column in query.defaulted:
            given[column] = maker.default(column, at.size, now_us, timezone)
        taken = pa.array(at[order])
        columns = [given[i] if i in given else before[i].take(taken) for i in range(self._width)]
        changed = make_batch(columns, maker.schema.arrow, at.size)
        changed = maker.regenerate(changed, now_us, timezone)
        maker.check(changed)
        spread = np.maximum(np.cumsum(self.chosen) - 1, 0)
        plain = make_batch(before, maker.schema.arrow, n)
        self.rows = changed.take(pa.array(spread)) if at.size else plain

    def __call__(
        self, existing: pa.RecordBatch, proposed: pa.RecordBatch
    ) -> tuple[pa.RecordBatch, BoolArray]:
        """See `conflicts.DoUpdate`. Raises: StaleRead if these are other rows."""
        if not np.array_equal(row_ids(existing, self._width), self._ids):
            raise StaleRead
        return self.rows, self.chosen


def answer(
    session: Session,
    query: ConflictQuery,
    image: TableImage,
    key: tuple[int, ...],
    maker: RowMaker,
    rows: pa.RecordBatch,
    values: tuple[Literal, ...],
) -> ConflictAnswer:
    """For the rows that an INSERT proposes, with the table as it is now."""
    with session.engine.lock:
        probe, existing = image.matches(key, rows)
    return ConflictAnswer(session, query, maker, existing, rows.take(pa.array(probe)), values)
