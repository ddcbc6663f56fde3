"""INSERT: binding, the rows it proposes, and what becomes of those whose key is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from sqlglot import exp

from streamsql.core.delta import make_batch
from streamsql.core.errors import (
    DuplicateColumn,
    GeneratedAlways,
    InvalidColumnReference,
    SqlSyntaxError,
    UndefinedColumn,
    UndefinedObject,
)
from streamsql.core.schema import Column
from streamsql.core.types import SqlType
from streamsql.dialect.statements import Insert, OnConflict
from streamsql.engine.binding import BindScope
from streamsql.engine.definitions import TableProgram, standing_program
from streamsql.engine.dml import conflicts
from streamsql.engine.dml.conflicts import BoolArray, Resolved
from streamsql.engine.dml.constants import ConstantRows
from streamsql.engine.dml.pending import TableImage
from streamsql.engine.dml.returning import BoundReturning, bind_returning
from streamsql.engine.dml.rows import RowMaker
from streamsql.engine.dml.upsert import (
    ConflictAnswer,
    ConflictQuery,
    answer,
    bind_conflict_query,
)
from streamsql.engine.dml.values import FAST_ROWS_MIN, literal_column
from streamsql.engine.indexes import all_keys
from streamsql.engine.parameters import settle
from streamsql.engine.reads.plans import freeze_expression
from streamsql.engine.reads.select import run_plan
from streamsql.engine.reads.versions import at_versions, bind_versions, mark_versions
from streamsql.engine.relations import Key, Relation
from streamsql.functions.evaluator import Evaluator
from streamsql.functions.expressions import Expr, Literal, Subquery, walk
from streamsql.plan.nodes import LogicalPlan
from streamsql.plan.optimizer import optimize

if TYPE_CHECKING:
    from streamsql.engine.session import Session

EXCLUDED = "excluded"


@dataclass(frozen=True)
class BoundConflict:
    """ON CONFLICT. keys: the constraints it speaks of. assignments: (column, expression over the
    table's row ++ the proposed row), None = DEFAULT. where: over the same row. query: instead of
    both, where they hold subqueries."""

    action: str
    keys: tuple[Key, ...]
    assignments: tuple[tuple[int, Expr | None], ...] = ()
    where: Expr | None = None
    query: ConflictQuery | None = None


@dataclass
class BoundInsert:
    """columns: targets that are given, by position. fixed: their values where all are literals.
    plan: else, where they come from. count: rows, for DEFAULT VALUES and fixed ones. slots: the
    versions that the plan reads (FOR SYSTEM_TIME AS OF)."""

    relation: Relation
    program: TableProgram
    columns: tuple[int, ...]
    fixed: dict[int, pa.Array] | None
    plan: LogicalPlan | None
    count: int
    conflict: BoundConflict | None
    returning: BoundReturning | None
    parameter_types: tuple[SqlType, ...] = ()
    slots: tuple[Expr, ...] = ()
    maker: RowMaker = field(init=False)
    constants: ConstantRows | None = field(init=False)

    def __post_init__(self) -> None:
        self.maker = RowMaker(self.relation, self.program)
        self.constants = ConstantRows.of(self.plan)


def bind_insert(
    statement: Insert, relation: Relation, scope: BindScope, declared: Sequence[SqlType | None]
) -> BoundInsert:
    """Raises: 42703, 42701, 428C9, 42601, 42804, 42P10."""
    program = standing_program(relation, BindScope(scope.catalog, relation.context))
    targets = target_columns(statement, relation)
    types = list(declared)
    query, inner = statement.query, scope
    slots: tuple[Expr, ...] = ()
    if query is not None:
        query, inner, marked = mark_versions(query, scope)
        slots = bind_versions(marked, scope.context(parameter_types=types))
        statement = replace(statement, query=query) if marked else statement
    columns, fixed, plan, count = _source(statement, relation, program, targets, inner, types)
    conflict = None
    if statement.on_conflict is not None:
        conflict = bind_conflict(statement.on_conflict, statement, relation, program, scope, types)
    returning = bind_returning(
        statement.returning, relation, statement.alias, scope, types, statement.sql
    )
    return BoundInsert(
        relation, program, columns, fixed, plan, count, conflict, returning, settle(types), slots
    )


def target_columns(statement: Insert, relation: Relation) -> tuple[int, ...]:
    """Positions of the named columns, or of all."""
    if not statement.columns:
        return tuple(range(len(relation.columns)))
    positions = []
    for name in statement.columns:
        at = relation.columns.index(name)
        if at < 0:
            raise UndefinedColumn(f'column "{name}" of relation "{relation.name}" does not exist')
        if at in positions:
            raise DuplicateColumn(f'column "{name}" specified more than once')
        positions.append(at)
    return tuple(positions)


Source = tuple[tuple[int, ...], dict[int, pa.Array] | None, LogicalPlan | None, int]


def _source(
    statement: Insert,
    relation: Relation,
    program: TableProgram,
    targets: tuple[int, ...],
    scope: BindScope,
    types: list[SqlType | None],
) -> Source:
    """(columns given, fixed, plan, count)."""
    generated = {i for i, _ in program.generated}
    query = statement.query
    if query is None:
        return (), {}, None, 1
    values = query if isinstance(query, exp.Values) and not _has_tail(query) else None
    if values is not None:
        query, targets = _drop_generated(values, relation, targets, generated)
        if not isinstance(query, exp.Values):
            return (), {}, None, len(values.expressions)
        targets = targets[: _width(query)] if not statement.columns else targets
        fixed = _fixed(query, relation, targets, scope)
        if fixed is not None:
            return targets, fixed, None, len(query.expressions)
    else:
        if not statement.columns:
            targets = tuple(i for i in targets if i not in generated)
            targets = targets[: _select_width(query, len(targets))]
        _refuse_generated(targets, relation, generated)
    from streamsql.plan.binder import bind_insert_source

    context = scope.context(parameter_types=types, text=statement.sql)
    wanted = [Column(relation.columns[i].name, relation.columns[i].type) for i in targets]
    defaults = [program.defaults[i] for i in targets]
    bound = bind_insert_source(query, wanted, context, defaults)
    return targets, None, optimize(bound.plan), 0


def _has_tail(query: exp.Expression) -> bool:
    return any(query.args.get(k) for k in ("order", "limit", "offset", "with_"))


def _width(values: exp.Values) -> int:
    first = values.expressions[0]
    return len(first.expressions) if isinstance(first, exp.Tuple) else 1


def _select_width(query: exp.Expression, most: int) -> int:
    """Columns that a SELECT gives, where that can be seen without binding; else all targets."""
    items = query.expressions if isinstance(query, exp.Select) else []
    starred = any(e.is_star or isinstance(e, exp.Star) for e in items)
    return most if not items or starred else min(most, len(items))


def _is_default(cell: exp.Expression) -> bool:
    return isinstance(cell, exp.Var) and cell.name.upper() == "DEFAULT"


def _drop_generated(
    values: exp.Values, relation: Relation, targets: tuple[int, ...], generated: set[int]
) -> tuple[exp.Expression | None, tuple[int, ...]]:
    """VALUES without the columns of generated ones, for which only DEFAULT may be written; without
    a column list positions count all columns."""
    drop = [k for k, i in enumerate(targets) if i in generated]
    if not drop:
        return values, targets
    rows = [r.expressions if isinstance(r, exp.Tuple) else [r] for r in values.expressions]
    for k in drop:
        if any(k < len(row) and not _is_default(row[k]) for row in rows):
            raise _generated_error(relation, targets[k])
    keep = [k for k in range(len(targets)) if k not in drop]
    kept = [[row[k] for k in keep if k < len(row)] for row in rows]
    extra = [row[len(targets) :] for row in rows]
    if any(extra):
        raise SqlSyntaxError("INSERT has more expressions than target columns")
    if not keep:
        return None, ()
    tuples = [exp.Tuple(expressions=[c.copy() for c in row]) for row in kept]
    return exp.Values(expressions=tuples), tuple(targets[k] for k in keep)


def _refuse_generated(targets: Sequence[int], relation: Relation, generated: set[int]) -> None:
    for i in targets:
        if i in generated:
            raise _generated_error(relation, i)


def _generated_error(relation: Relation, column: int) -> GeneratedAlways:
    name = relation.columns[column].name
    return GeneratedAlways(
        f'cannot insert a non-DEFAULT value into column "{name}"',
        detail=f'Column "{name}" is a generated column.',
    )


def _fixed(
    values: exp.Values, relation: Relation, targets: tuple[int, ...], scope: BindScope
) -> dict[int, pa.Array] | None:
    """The columns of VALUES if every cell is a literal, else None."""
    rows = [r.expressions if isinstance(r, exp.Tuple) else [r] for r in values.expressions]
    if len(rows) < FAST_ROWS_MIN or any(len(row) != len(targets) for row in rows):
        return None
    fixed: dict[int, pa.Array] = {}
    for k, i in enumerate(targets):
        array = literal_column(
            [row[k] for row in rows], relation.columns[i].type, scope.definition.timezone
        )
        if array is None:
            return None
        fixed[i] = array
    return fixed


# --- ON CONFLICT ------------------------------------------------------------------------------
def bind_conflict(
    clause: OnConflict,
    statement: Insert,
    relation: Relation,
    program: TableProgram,
    scope: BindScope,
    types: list[SqlType | None],
) -> BoundConflict:
    """Raises: InvalidColumnReference (42P10) if no constraint has those columns."""
    keys = _conflict_keys(clause, relation, all_keys(relation, scope.catalog))
    if clause.action == "nothing":
        return BoundConflict("nothing", keys)
    from streamsql.plan.binder import bind_expression, bind_predicate

    context = scope.context(parameter_types=types, text=statement.sql)
    name = statement.alias or relation.name
    extra = ((EXCLUDED, relation.columns),)
    generated = {i for i, _ in program.generated}
    assignments: list[tuple[int, Expr | None]] = []
    for column, tree in clause.assignments:
        at = relation.columns.index(column)
        if at < 0:
            raise UndefinedColumn(f'column "{column}" of relation "{relation.name}" does not exist')
        if _is_default(tree):
            assignments.append((at, program.defaults[at]))
            continue
        _refuse_generated([at], relation, generated)
        bound = bind_expression(
            tree, relation.columns, context, name, target=relation.columns[at].type,
            clause="UPDATE", extra=extra,
        )  # fmt: skip
        assignments.append((at, bound))
    where = None
    if clause.where is not None:
        where = bind_predicate(clause.where, relation.columns, context, name, extra=extra)
    for expr in (*(e for _, e in assignments), where):
        if expr is not None and any(isinstance(e, Subquery) for e in walk(expr)):
            query = bind_conflict_query(clause, statement, relation, scope, types)
            return BoundConflict("update", keys, query=query)
    return BoundConflict("update", keys, tuple(assignments), where)


def _conflict_keys(
    clause: OnConflict, relation: Relation, known: tuple[Key, ...]
) -> tuple[Key, ...]:
    if clause.constraint is not None:
        for key in known:
            if key.name == clause.constraint:
                return (key,)
        raise UndefinedObject(
            f'constraint "{clause.constraint}" for table "{relation.name}" does not exist'
        )
    if not clause.targets:
        if clause.action == "nothing":
            return known
        if len(known) == 1:
            return known
        raise SqlSyntaxError(
            "ON CONFLICT DO UPDATE requires inference specification or constraint name",
            hint="For example, ON CONFLICT (column_name).",
        )
    wanted = []
    for name in clause.targets:
        at = relation.columns.index(name)
        if at < 0:
            raise UndefinedColumn(f'column "{name}" does not exist')
        wanted.append(at)
    for key in known:
        if set(key.columns) == set(wanted):
            return (key,)
    raise InvalidColumnReference(
        "there is no unique or exclusion constraint matching the ON CONFLICT specification"
    )


# --- running ----------------------------------------------------------------------------------
class InsertWrite:
    """An INSERT on its way into a table."""

    def __init__(self, session: Session, bound: BoundInsert, values: tuple[Literal, ...]) -> None:
        self.session = session
        self.bound = bound
        self.values = values
        self.relation_id = bound.relation.oid
        self.schema = bound.relation.columns
        self.rules = bound.relation.rules
        self.resolved: Resolved | None = None
        self.now_us = session.now_us()
        self.timezone = session.timezone
        self.rows = self._rows()
        self.answer: ConflictAnswer | None = None
        self.evaluate()

    def _rows(self) -> pa.RecordBatch:
        """The proposed rows, whole and without NULLs where none may be."""
        bound = self.bound
        arrays = None if bound.constants is None else bound.constants.arrays(self.values)
        if bound.plan is None:
            given, count = bound.fixed or {}, bound.count
        elif arrays is not None:
            given, count = dict(zip(bound.columns, arrays, strict=True)), len(arrays[0])
        else:
            view = at_versions(self.session, self.session.read_view(), bound.slots, self.values)
            table = run_plan(self.session, bound.plan, view, self.values)
            given, count = columns_of(table, bound.columns), table.num_rows
        rows = bound.maker.complete(given, count, self.now_us, self.timezone)
        bound.maker.check(rows)
        return rows

    def evaluate(self) -> None:
        """The proposed rows do not depend on the table; what subqueries make of them does."""
        clause = self.bound.conflict
        if clause is None or clause.query is None:
            return
        session, oid = self.session, self.relation_id
        table = session.table(oid)
        if table is None:
            return  # dropped: the commit says so
        transaction = session.transaction
        image = TableImage(table) if transaction is None else transaction.image(table)
        key = clause.keys[0].columns
        self.answer = answer(
            session, clause.query, image, key, self.bound.maker, self.rows, self.values
        )

    def resolve(self, image: TableImage) -> Resolved:
        """See `Write`."""
        self.resolved = resolve_insert(self, image)
        return self.resolved


def columns_of(table: pa.Table, positions: Sequence[int]) -> dict[int, pa.Array]:
    """Column of the table → array of the result, one chunk each."""
    whole = table.combine_chunks()
    return {
        i: c.chunk(0) if c.num_chunks else pa.array([], c.type)
        for i, c in zip(positions, whole.columns, strict=True)
    }


def resolve_insert(write: InsertWrite, image: TableImage) -> Resolved:
    """What becomes of the proposed rows."""
    clause, relation, rows = write.bound.conflict, write.bound.relation, write.rows
    if clause is None:
        return by_policy(relation, image, rows)
    if clause.action == "nothing":
        return conflicts.insert_do_nothing(image, rows, clause.keys)
    if write.answer is not None:
        return conflicts.insert_do_update(image, rows, clause.keys[0], write.answer)
    return conflicts.insert_do_update(
        image, rows, clause.keys[0], lambda old, new: _do_update(write, clause, old, new)
    )


def by_policy(relation: Relation, image: TableImage, rows: pa.RecordBatch) -> Resolved:
    """An INSERT without ON CONFLICT: what the table was created with decides."""
    policy = relation.on_conflict
    if policy == "error" or not relation.primary_key:
        return conflicts.insert_plain(image, rows)
    if policy == "do_nothing":
        return conflicts.insert_do_nothing(image, rows, relation.keys[:1])
    return conflicts.insert_overwrite(image, rows, merge=policy == "update_if_not_null")


def _do_update(
    write: InsertWrite, clause: BoundConflict, old: pa.RecordBatch, new: pa.RecordBatch
) -> tuple[pa.RecordBatch, BoolArray]:
    """DO UPDATE SET over pairs of stored and proposed rows."""
    relation = write.bound.relation
    n = len(relation.columns)
    schema = relation.columns + relation.columns
    before = old.columns[:n]
    pairs = make_batch([*before, *new.columns], schema.arrow, old.num_rows)
    chosen = np.ones(old.num_rows, np.bool_)
    if clause.where is not None:
        predicate = freeze_expression(clause.where, write.values, write.now_us)
        mask = Evaluator([predicate], schema).run(pairs, write.now_us, write.timezone)[0]
        chosen = np.asarray(mask.fill_null(False))
    columns = list(before)
    exprs = [
        (i, freeze_expression(e, write.values, write.now_us))
        for i, e in clause.assignments
        if e is not None
    ]
    if exprs and chosen.any():
        picked = pairs.filter(pa.array(chosen))
        results = Evaluator([e for _, e in exprs], schema).run(picked, write.now_us, write.timezone)
        spread = np.cumsum(chosen) - 1
        take = pa.array(np.where(chosen, spread, 0), mask=~chosen)
        for (i, _), result in zip(exprs, results, strict=True):
            columns[i] = result.take(take)
    for i, e in clause.assignments:
        if e is None:
            columns[i] = pa.nulls(old.num_rows, relation.columns[i].type.arrow)
    rows = make_batch(columns, relation.columns.arrow, old.num_rows)
    maker = write.bound.maker
    kept = rows.filter(pa.array(chosen))
    kept = maker.regenerate(kept, write.now_us, write.timezone)
    maker.check(kept)
    if not chosen.all():
        spread = np.cumsum(chosen) - 1
        if not kept.num_rows:
            return rows, chosen
        kept = kept.take(pa.array(np.maximum(spread, 0)))
    return kept, chosen
