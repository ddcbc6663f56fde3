"""UPDATE, DELETE, TRUNCATE: which rows, and what becomes of them.

The rows are found by a query over the table with its hidden columns, so joins, subqueries and
everything else a SELECT can do work here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from sqlglot import exp

from streamsql.core.delta import make_batch
from streamsql.core.errors import (
    GeneratedAlways,
    SqlSyntaxError,
    UndefinedColumn,
    UndefinedTable,
)
from streamsql.core.schema import Column, Schema
from streamsql.core.types import SqlType
from streamsql.dialect.statements import Delete, Update
from streamsql.engine.binding import BindScope, relation_info
from streamsql.engine.definitions import TableProgram, standing_program
from streamsql.engine.dml.batches import one_batch
from streamsql.engine.dml.conflicts import Resolved, check_unique
from streamsql.engine.dml.pending import TableImage
from streamsql.engine.dml.returning import BoundReturning, bind_returning
from streamsql.engine.dml.rows import RowMaker
from streamsql.engine.parameters import settle
from streamsql.engine.reads.select import result_columns, run_plan
from streamsql.engine.relations import Relation
from streamsql.engine.requests import StaleRead
from streamsql.engine.storage.table import TableState, row_ids
from streamsql.functions.expressions import Literal
from streamsql.plan.nodes import LogicalPlan
from streamsql.plan.optimizer import optimize

if TYPE_CHECKING:
    from streamsql.engine.session import Session

TARGET = "\x00target"
"""Name under which the binder finds the table with its hidden columns."""


@dataclass
class BoundModify:
    """plan: stored columns of the rows to change, then a column for each of `assigned`, then those
    of RETURNING where it reads other relations too. defaulted: columns set to DEFAULT. delete:
    whether the rows go."""

    relation: Relation
    program: TableProgram
    plan: LogicalPlan
    stored: Schema
    assigned: tuple[int, ...]
    defaulted: tuple[int, ...]
    delete: bool
    returning: BoundReturning | None
    joined_returning: BoundReturning | None
    parameter_types: tuple[SqlType, ...] = ()
    maker: RowMaker = field(init=False)

    def __post_init__(self) -> None:
        self.maker = RowMaker(self.relation, self.program)


def bind_update(
    statement: Update, table: TableState, scope: BindScope, declared: Sequence[SqlType | None]
) -> BoundModify:
    """Raises: 42703, 42601, 42804, 428C9."""
    relation = table.relation
    program = standing_program(relation, BindScope(scope.catalog, relation.context))
    generated = {i for i, _ in program.generated}
    assigned: list[tuple[int, exp.Expression]] = []
    defaulted: list[int] = []
    seen: set[int] = set()
    for name, tree in statement.assignments:
        at = relation.columns.index(name)
        if at < 0:
            raise UndefinedColumn(f'column "{name}" of relation "{relation.name}" does not exist')
        if at in seen:
            raise SqlSyntaxError(f'multiple assignments to same column "{name}"')
        seen.add(at)
        default = isinstance(tree, exp.Var) and tree.name.upper() == "DEFAULT"
        if default:
            defaulted.append(at)
        elif at in generated:
            raise GeneratedAlways(
                f'column "{name}" can only be updated to DEFAULT',
                detail=f'Column "{name}" is a generated column.',
            )
        else:
            assigned.append((at, tree))
    return _bind(
        statement, statement.from_, table, program, scope, declared, assigned, tuple(defaulted)
    )


def bind_delete(
    statement: Delete, table: TableState, scope: BindScope, declared: Sequence[SqlType | None]
) -> BoundModify:
    """Raises: errors of binding."""
    program = standing_program(table.relation, BindScope(scope.catalog, table.relation.context))
    return _bind(statement, statement.using, table, program, scope, declared, None, ())


def _bind(
    statement: Update | Delete,
    others: tuple[exp.Expression, ...],
    table: TableState,
    program: TableProgram,
    scope: BindScope,
    declared: Sequence[SqlType | None],
    assigned: list[tuple[int, exp.Expression]] | None,
    defaulted: tuple[int, ...],
) -> BoundModify:
    relation = table.relation
    hidden = Schema(table.schema.columns[table.num_columns :])
    info = relation_info(relation, extra=hidden)
    inner = BindScope(
        scope.catalog, scope.definition, scope.inline, {**scope.extra, (TARGET,): info}
    )
    alias = statement.alias or relation.name
    types = list(declared)
    columns = list(table.schema.columns)
    items: list[exp.Expression] = [_column(c.name, alias) for c in columns]
    for at, tree in assigned or ():
        columns.append(Column(relation.columns[at].name, relation.columns[at].type))
        items.append(tree.copy())
    returning, joined = None, None
    if statement.returning:
        try:
            returning = bind_returning(
                statement.returning, relation, statement.alias, scope, types, statement.sql
            )
        except (UndefinedColumn, UndefinedTable):
            if not others:
                raise
            extra, joined = _joined_returning(statement, others, relation, alias, inner, types,
                                              dict(assigned or ()))  # fmt: skip
            items += extra
            columns += [Column(c.name, c.type) for c in joined.schema]
    from streamsql.plan.binder import bind_insert_source

    context = inner.context(parameter_types=types, text=statement.sql)
    tree = _query(items, statement, others, alias)
    bound = bind_insert_source(tree, columns, context)
    return BoundModify(
        relation,
        program,
        optimize(bound.plan),
        table.schema,
        tuple(at for at, _ in assigned or ()),
        defaulted,
        assigned is None,
        returning,
        joined,
        settle(types),
    )


def _column(name: str, table: str) -> exp.Column:
    return exp.Column(
        this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True)
    )


def _query(
    items: list[exp.Expression],
    statement: Update | Delete,
    others: tuple[exp.Expression, ...],
    alias: str,
) -> exp.Select:
    """SELECT items FROM target AS alias, others WHERE condition."""
    target = exp.Table(
        this=exp.to_identifier(TARGET, quoted=True),
        alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)),
    )
    select = exp.Select(expressions=items, from_=exp.From(this=target))
    if others:
        select.set("joins", [exp.Join(this=o.copy()) for o in others])
    if statement.where is not None:
        select.set("where", exp.Where(this=statement.where.copy()))
    return select


def _joined_returning(
    statement: Update | Delete,
    others: tuple[exp.Expression, ...],
    relation: Relation,
    alias: str,
    scope: BindScope,
    types: list[SqlType | None],
    assigned: dict[int, exp.Expression],
) -> tuple[list[exp.Expression], BoundReturning]:
    """RETURNING that reads FROM or USING relations: more columns of the same query. References to
    the table's own columns become the new values."""
    from streamsql.plan.binder import bind_query

    values = {relation.columns[at].name: tree for at, tree in assigned.items()}
    items: list[exp.Expression] = []
    for item in statement.returning:
        if isinstance(item, exp.Star):
            items += [_new_value(c.name, alias, values) for c in relation.columns]
            items += [_all_of(o) for o in others]
        elif item.is_star and item.args.get("table") and item.args["table"].name == alias:
            items += [_new_value(c.name, alias, values) for c in relation.columns]
        else:
            items.append(item.copy().transform(lambda n: _replaced(n, alias, values)))
    context = scope.context(parameter_types=types, text=statement.sql)
    bound = bind_query(_query([i.copy() for i in items], statement, others, alias), context)
    columns = result_columns(bound.plan.schema, bound.origins, scope.catalog)
    schema = bound.plan.schema
    return items, BoundReturning((), columns, relation.columns, schema)


def _new_value(name: str, alias: str, values: dict[str, exp.Expression]) -> exp.Expression:
    tree = values.get(name)
    value = _column(name, alias) if tree is None else exp.Paren(this=tree.copy())
    return exp.Alias(this=value, alias=exp.to_identifier(name, quoted=True))


def _replaced(
    node: exp.Expression, alias: str, values: dict[str, exp.Expression]
) -> exp.Expression:
    if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
        table = node.args.get("table")
        if node.name in values and (table is None or table.name == alias):
            return exp.Paren(this=values[node.name].copy())
    return node


def _all_of(item: exp.Expression) -> exp.Expression:
    return exp.Column(this=exp.Star(), table=exp.to_identifier(item.alias_or_name, quoted=True))


class ModifyWrite:
    """An UPDATE or DELETE on its way into a table."""

    def __init__(self, session: Session, bound: BoundModify, values: tuple[Literal, ...]) -> None:
        self.session = session
        self.bound = bound
        self.values = values
        self.relation_id = bound.relation.oid
        self.schema = bound.relation.columns
        self.rules = bound.relation.rules
        self.resolved: Resolved | None = None
        self.joined: pa.RecordBatch | None = None
        self.now_us = session.now_us()
        self.timezone = session.timezone
        self.evaluate()

    def evaluate(self) -> None:
        """Find the rows and compute what becomes of them, in the newest version."""
        bound = self.bound
        table = run_plan(self.session, bound.plan, self.session.read_view(), self.values)
        rows = one_batch(table, bound.plan.schema)
        width = len(bound.stored)
        ids = row_ids(rows, len(bound.relation.columns))
        first = np.unique(ids, return_index=True)[1]
        if first.size < rows.num_rows:  # a row that several others match is changed once
            rows = rows.take(pa.array(np.sort(first)))
        self.old = make_batch(rows.columns[:width], bound.stored.arrow, rows.num_rows)
        more = width + len(bound.assigned)
        self.new = self._updated(rows.columns[width:more])
        if bound.joined_returning is not None:
            schema = bound.joined_returning.schema
            self.joined = make_batch(rows.columns[more:], schema.arrow, rows.num_rows)

    def _updated(self, values: Sequence[pa.Array]) -> pa.RecordBatch:
        bound, old = self.bound, self.old
        schema = bound.relation.columns.arrow
        n = len(bound.relation.columns)
        if bound.delete:
            return make_batch([pa.array([], f.type) for f in schema], schema, 0)
        columns = list(old.columns[:n])
        for at, value in zip(bound.assigned, values, strict=True):
            columns[at] = value
        maker = bound.maker
        for at in bound.defaulted:
            columns[at] = maker.default(at, old.num_rows, self.now_us, self.timezone)
        rows = make_batch(columns, schema, old.num_rows)
        rows = maker.regenerate(rows, self.now_us, self.timezone)
        maker.check(rows)
        return rows

    def resolve(self, image: TableImage) -> Resolved:
        """See `Write`."""
        if not image.are_live(self.old).all():
            raise StaleRead
        bound = self.bound
        gone = image.gone(self.old)
        if gone.any():  # by another part of this statement: the first one counts
            kept = pa.array(~gone)
            self.old = self.old.filter(kept)
            self.new = self.new if bound.delete else self.new.filter(kept)
            self.joined = None if self.joined is None else self.joined.filter(kept)
        if not bound.delete and self._touches_keys(image):
            check_unique(image, self.new, self.old)
        shown = None
        if bound.delete:
            n = len(bound.relation.columns)
            schema = bound.relation.columns.arrow
            shown = make_batch(self.old.columns[:n], schema, self.old.num_rows)
        self.resolved = Resolved(self.old, self.new, self.old.num_rows, shown)
        return self.resolved

    def _touches_keys(self, image: TableImage) -> bool:
        changed = {*self.bound.assigned, *self.bound.defaulted, *self.bound.maker.generated}
        return any(changed & set(key.columns) for key in image.keys)


class TruncateWrite:
    """TRUNCATE of one table: all rows it has when its turn comes."""

    def __init__(self, relation: Relation) -> None:
        self.relation_id = relation.oid
        self.schema = relation.columns
        self.rules = relation.rules
        self.resolved: Resolved | None = None

    def evaluate(self) -> None:
        """Nothing is read before."""

    def resolve(self, image: TableImage) -> Resolved:
        """See `Write`."""
        table = image.table
        rows = one_batch(image.pending.over(table.snapshot()), table.schema)
        columns = table.relation.columns
        nothing = make_batch([pa.array([], f.type) for f in columns.arrow], columns.arrow, 0)
        self.resolved = Resolved(rows, nothing, rows.num_rows)
        return self.resolved
