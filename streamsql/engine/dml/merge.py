"""MERGE: which rows meet, which WHEN decides for each of them, and what becomes of the table.

First one query joins target and source. Then each WHEN in turn takes from the pairs of its kind
those that no earlier one took and its condition is true for, and only for these are its values
computed: an expression of a branch that is not taken can't fail. Conditions and values are queries
over the pairs (two relations with a common number), so they may hold subqueries, and names mean
what they mean in a join.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.delta import Int64Array, make_batch
from streamsql.core.errors import CardinalityViolation
from streamsql.core.schema import Schema
from streamsql.core.types import SqlType
from streamsql.engine.api import ResultColumn
from streamsql.engine.definitions import TableProgram
from streamsql.engine.dml.batches import one_batch
from streamsql.engine.dml.conflicts import Resolved, check_unique
from streamsql.engine.dml.given import FIRST_ID, table_of, view_with
from streamsql.engine.dml.pending import TableImage, joined
from streamsql.engine.dml.rows import RowMaker
from streamsql.engine.reads.select import run_plan
from streamsql.engine.reads.view import ReadView
from streamsql.engine.relations import Relation
from streamsql.engine.requests import StaleRead
from streamsql.functions.expressions import Literal
from streamsql.plan.nodes import LogicalPlan

if TYPE_CHECKING:
    from streamsql.engine.session import Session

BoolArray = npt.NDArray[np.bool_]

TARGET_ID = FIRST_ID
SOURCE_ID = FIRST_ID + 1
RESULT_ID = FIRST_ID + 2


@dataclass(frozen=True)
class BoundWhen:
    """kind: matched | by_target | by_source. action: update | insert | delete | nothing.
    condition: gives the numbers of the pairs it is true for; None = all. values: the number, then
    a column for each of `columns`. defaulted: columns set to DEFAULT."""

    kind: str
    action: str
    condition: LogicalPlan | None = None
    values: LogicalPlan | None = None
    columns: tuple[int, ...] = ()
    defaulted: tuple[int, ...] = ()


@dataclass
class BoundMerge:
    """join: stored columns of the target, columns of the source, whether there is a source row.
    stored, target, source: schemas of the parts; the latter two end with the pair's number.
    result: the target's columns after the action, number, name of the action, for `returning`."""

    relation: Relation
    program: TableProgram
    join: LogicalPlan
    stored: Schema
    target: Schema
    source: Schema
    result: Schema
    whens: tuple[BoundWhen, ...]
    returning: LogicalPlan | None = None
    returned: tuple[ResultColumn, ...] = ()
    parameter_types: tuple[SqlType, ...] = ()
    schema: Schema = field(init=False)
    maker: RowMaker = field(init=False)

    def __post_init__(self) -> None:
        self.schema = self.relation.columns
        self.maker = RowMaker(self.relation, self.program)


@dataclass
class _Pairs:
    """The joined rows. stored, source: their columns; ids: row ids of the target (0 = none)."""

    stored: pa.RecordBatch
    source: pa.RecordBatch
    kinds: dict[str, BoolArray]
    ids: Int64Array

    @property
    def count(self) -> int:
        return int(self.ids.size)


class MergeWrite:
    """A MERGE on its way into a table."""

    def __init__(self, session: Session, bound: BoundMerge, values: tuple[Literal, ...]) -> None:
        self.session = session
        self.bound = bound
        self.values = values
        self.relation_id = bound.relation.oid
        self.schema = bound.schema
        self.rules = bound.relation.rules
        self.resolved: Resolved | None = None
        self.returned: pa.RecordBatch | None = None
        self.now_us = session.now_us()
        self.timezone = session.timezone
        self.evaluate()

    def evaluate(self) -> None:
        """Join, decide, compute the new rows, in the newest version.

        Raises: CardinalityViolation (21000), errors of the expressions and constraints.
        """
        bound, view = self.bound, self.session.read_view()
        pairs = self._pairs(view)
        chosen = self._decide(pairs, view)
        acting = [(when, at) for when, at in chosen if when.action != "nothing" and at.size]
        touched = [pairs.ids[at] for when, at in acting if when.action in ("update", "delete")]
        ids = np.concatenate(touched) if touched else np.empty(0, np.int64)
        if np.unique(ids).size < ids.size:
            raise CardinalityViolation(
                "MERGE command cannot affect row a second time",
                hint="Ensure that not more than one source row matches any one target row.",
            )
        none = make_batch([pa.array([], f.type) for f in bound.stored.arrow], bound.stored.arrow, 0)
        old, new, new_at, shown, shown_at, names = [none], [], [], [], [], []
        for when, at in acting:
            before = pairs.stored.take(pa.array(at))
            if when.action != "insert":
                old.append(make_batch(before.columns, bound.stored.arrow, at.size))
            if when.action == "delete":
                rows = make_batch(before.columns[: len(bound.schema)], bound.schema.arrow, at.size)
            else:
                rows = self._new_rows(when, at, before, pairs, view)
                new.append(rows)
                new_at.append(at)
            shown.append(rows)
            shown_at.append(at)
            names += [when.action.upper()] * at.size
        self.old = joined(old)
        self.new = _ordered(new, new_at, bound.schema)
        self.affected = sum(at.size for _, at in acting)
        if bound.returning is not None:
            self.returned = self._return(shown, shown_at, names, pairs, view)

    def _pairs(self, view: ReadView) -> _Pairs:
        bound = self.bound
        rows = one_batch(run_plan(self.session, bound.join, view, self.values), bound.join.schema)
        width = len(bound.stored)
        stored = pa.RecordBatch.from_arrays(
            rows.columns[:width], names=[f.name for f in bound.stored.arrow]
        )
        present = np.asarray(pc.is_valid(rows.column(rows.num_columns - 1)))
        id_column = rows.column(len(bound.relation.columns))
        found = np.asarray(pc.is_valid(id_column))
        ids = np.asarray(id_column.fill_null(0)).astype(np.int64)
        numbers = pa.array(np.arange(rows.num_rows, dtype=np.int64))
        source = make_batch([*rows.columns[width:-1], numbers], bound.source.arrow, rows.num_rows)
        kinds = {
            "matched": found & present,
            "by_target": present & ~found,
            "by_source": found & ~present,
        }
        return _Pairs(stored, source, kinds, ids)

    def _decide(self, pairs: _Pairs, view: ReadView) -> list[tuple[BoundWhen, Int64Array]]:
        """(WHEN, numbers of the pairs that it takes) in order."""
        free = np.ones(pairs.count, np.bool_)
        chosen: list[tuple[BoundWhen, Int64Array]] = []
        for when in self.bound.whens:
            at = np.flatnonzero(pairs.kinds[when.kind] & free)
            if when.condition is not None and at.size:
                at = np.sort(_numbers(self._run(when.condition, at, pairs, view)))
            free[at] = False
            chosen.append((when, at))
        return chosen

    def _run(
        self, plan: LogicalPlan, at: Int64Array, pairs: _Pairs, view: ReadView
    ) -> pa.RecordBatch:
        """A condition or values over some of the pairs."""
        bound, take = self.bound, pa.array(at)
        n = len(bound.schema)
        target = [c.take(take) for c in pairs.stored.columns[:n]]
        rows = {
            TARGET_ID: table_of(bound.target, [*target, take], at.size),
            SOURCE_ID: pa.Table.from_batches([pairs.source.take(take)]),
        }
        found = run_plan(self.session, plan, view_with(view, rows), self.values)
        return one_batch(found, plan.schema)

    def _new_rows(
        self, when: BoundWhen, at: Int64Array, before: pa.RecordBatch, pairs: _Pairs, view: ReadView
    ) -> pa.RecordBatch:
        """The rows that UPDATE or INSERT makes of these pairs, in their order."""
        maker, schema = self.bound.maker, self.bound.schema
        given: dict[int, pa.Array] = {}
        if when.values is not None:
            found = self._run(when.values, at, pairs, view)
            order = pa.array(np.argsort(_numbers(found), kind="stable"))
            for k, column in enumerate(when.columns):
                given[column] = found.column(k + 1).take(order)
        if when.action == "update":
            for column in when.defaulted:
                given[column] = maker.default(column, at.size, self.now_us, self.timezone)
            columns = [given.get(i, before.column(i)) for i in range(len(schema))]
            rows = make_batch(columns, schema.arrow, at.size)
            rows = maker.regenerate(rows, self.now_us, self.timezone)
        else:
            rows = maker.complete(given, at.size, self.now_us, self.timezone)
        maker.check(rows)
        return rows

    def _return(
        self,
        shown: list[pa.RecordBatch],
        shown_at: list[Int64Array],
        names: list[str],
        pairs: _Pairs,
        view: ReadView,
    ) -> pa.RecordBatch:
        """RETURNING over (row after the action, source row) of each pair that was acted on."""
        bound = self.bound
        assert bound.returning is not None
        at = np.concatenate(shown_at) if shown_at else np.empty(0, np.int64)
        none = make_batch([pa.array([], f.type) for f in bound.schema.arrow], bound.schema.arrow, 0)
        rows = joined([none, *shown])
        columns = [*rows.columns, pa.array(at), pa.array(names, pa.string())]
        given = {
            RESULT_ID: table_of(bound.result, columns, at.size),
            SOURCE_ID: pa.Table.from_batches([pairs.source.take(pa.array(at))]),
        }
        found = run_plan(self.session, bound.returning, view_with(view, given), self.values)
        return one_batch(found, bound.returning.schema)

    def resolve(self, image: TableImage) -> Resolved:
        """See `Write`."""
        if not image.are_live(self.old).all():
            raise StaleRead
        if image.gone(self.old).any():
            raise CardinalityViolation("MERGE command cannot affect row a second time")
        check_unique(image, self.new, self.old)
        self.resolved = Resolved(self.old, self.new, self.affected)
        return self.resolved


def _numbers(rows: pa.RecordBatch) -> Int64Array:
    """The first column: the numbers of pairs."""
    return np.asarray(rows.column(0)).astype(np.int64)


def _ordered(parts: list[pa.RecordBatch], at: list[Int64Array], schema: Schema) -> pa.RecordBatch:
    """New rows in the order of their pairs."""
    none = make_batch([pa.array([], f.type) for f in schema.arrow], schema.arrow, 0)
    if not parts:
        return none
    order = np.argsort(np.concatenate(at), kind="stable")
    return joined(parts).take(pa.array(order))
