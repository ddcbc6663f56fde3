"""RETURNING: expressions over the rows that a statement changed.

Subqueries there see the tables as before the statement; they are run as a query over the changed
rows, everything else by the evaluator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from streamsql.core.errors import FeatureNotSupported, GroupingError, WindowingError
from streamsql.core.schema import Column, Schema
from streamsql.core.types import SqlType
from streamsql.dialect import position_of
from streamsql.dialect.nodes import ArrayQuery
from streamsql.engine.api import ResultColumn
from streamsql.engine.binding import BindScope
from streamsql.engine.dml.batches import one_batch
from streamsql.engine.dml.given import FIRST_ID, given_info, given_table, scope_with, view_with
from streamsql.engine.reads.fast import project
from streamsql.engine.reads.plans import freeze_expression
from streamsql.engine.reads.select import result_columns, run_plan
from streamsql.engine.reads.view import ReadView
from streamsql.engine.relations import Relation
from streamsql.functions.expressions import Expr, Literal, Subquery, column, walk
from streamsql.functions.resolve import is_aggregate, is_set_returning
from streamsql.plan.nodes import LogicalPlan, Project, Scan
from streamsql.plan.optimizer import optimize

if TYPE_CHECKING:
    from streamsql.engine.session import Session

ROWS_ID = FIRST_ID + 3
_ROWS = "\x00changed rows"


@dataclass(frozen=True)
class BoundReturning:
    """exprs: over the user's columns of the table; plan: instead, a query over the changed rows
    (relation ROWS_ID), where there are subqueries."""

    exprs: tuple[Expr, ...]
    columns: tuple[ResultColumn, ...]
    table: Schema
    schema: Schema
    plan: LogicalPlan | None = None

    def run(
        self,
        session: Session,
        rows: pa.RecordBatch,
        values: tuple[Literal, ...],
        view: ReadView | None,
    ) -> pa.RecordBatch:
        """The result for these rows (user's schema). view: of before the statement, for `plan`."""
        now_us, timezone = session.now_us(), session.timezone
        if self.plan is not None:
            assert view is not None
            given = {ROWS_ID: pa.Table.from_batches([rows], schema=self.table.arrow)}
            found = run_plan(session, self.plan, view_with(view, given), values)
            return one_batch(found, self.schema)
        exprs = tuple(freeze_expression(e, values, now_us) for e in self.exprs)
        return project(exprs, rows, self.table, self.schema, now_us, timezone)


def bind_returning(
    items: Sequence[exp.Expression],
    relation: Relation,
    alias: str | None,
    scope: BindScope,
    parameter_types: list[SqlType | None],
    text: str,
) -> BoundReturning | None:
    """Bind RETURNING over the table's own row; None without RETURNING.

    Raises: GroupingError (42803), WindowingError (42P20), 0A000 for what makes other rows.
    """
    if not items:
        return None
    for item in items:
        refuse_other_rows(item)
    from streamsql.plan.binder import bind_query

    context = scope.context(parameter_types=parameter_types, text=text)
    bound = bind_query(returning_query(items, relation, alias), context)
    plan = bound.plan
    exprs: tuple[Expr, ...] | None = None
    if isinstance(plan, Scan):
        exprs = tuple(column(i, c.type, c.name) for i, c in enumerate(plan.schema))
    elif isinstance(plan, Project) and isinstance(plan.input, Scan):
        exprs = plan.exprs
    columns = result_columns(plan.schema, bound.origins, scope.catalog)
    if exprs is not None and not any(isinstance(e, Subquery) for x in exprs for e in walk(x)):
        return BoundReturning(exprs, columns, relation.columns, plan.schema)
    nullable = Schema(tuple(Column(c.name, c.type) for c in relation.columns))
    inner = scope_with(scope, {_ROWS: given_info(ROWS_ID - FIRST_ID, relation.name, nullable)})
    table = given_table(_ROWS, alias or relation.name)
    select = exp.Select(expressions=[e.copy() for e in items], from_=exp.From(this=table))
    again = bind_query(select, inner.context(parameter_types=parameter_types, text=text))
    return BoundReturning((), columns, nullable, again.plan.schema, optimize(again.plan))


def refuse_other_rows(item: exp.Expression) -> None:
    """Raises: GroupingError (42803), WindowingError (42P20), FeatureNotSupported (0A000) for calls
    that do not give one value a row; subqueries may hold them."""
    inside = [item]
    while inside:
        node = inside.pop()
        if isinstance(node, (exp.Subquery, exp.Exists, ArrayQuery)):
            continue
        position = position_of(node)
        if isinstance(node, exp.Window):
            raise WindowingError("window functions are not allowed in RETURNING", position=position)
        if isinstance(node, exp.Anonymous):
            if is_aggregate(node.name):
                raise GroupingError(
                    "aggregate functions are not allowed in RETURNING", position=position
                )
            if is_set_returning(node.name):
                raise FeatureNotSupported(
                    "set-returning functions are not allowed in RETURNING",
                    position=position,
                    hint="Use WITH … RETURNING, and the function in the query after it.",
                )
        inside += list(node.iter_expressions())


@contextmanager
def view_before(session: Session, returning: BoundReturning | None) -> Iterator[ReadView | None]:
    """What the subqueries of RETURNING read, kept while the statement is carried out; None if there
    are none."""
    if returning is None or returning.plan is None:
        yield None
        return
    version = session.engine.pin()
    try:
        yield session.read_view()
    finally:
        session.engine.unpin(version)


def returning_query(
    items: Sequence[exp.Expression], relation: Relation, alias: str | None
) -> exp.Expression:
    """SELECT items FROM relation AS alias."""
    table = table_node(relation, alias)
    return exp.Select(expressions=[e.copy() for e in items], from_=exp.From(this=table))


def table_node(relation: Relation, alias: str | None) -> exp.Table:
    """The relation as an item of FROM."""
    return exp.Table(
        this=exp.to_identifier(relation.name, quoted=True),
        db=exp.to_identifier(relation.schema, quoted=True),
        alias=exp.TableAlias(this=exp.to_identifier(alias or relation.name, quoted=True)),
    )
