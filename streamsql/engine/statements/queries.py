"""SELECT, VALUES, TABLE, WITH."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsql.dialect.statements import Query
from streamsql.engine.api import Result
from streamsql.engine.reads.select import run_select
from streamsql.engine.statements.common import bound_query
from streamsql.engine.statements.handler import Description, Handler, Types
from streamsql.functions.expressions import Literal

if TYPE_CHECKING:
    from streamsql.engine.session import Session


def describe_query(session: Session, statement: Query, declared: Types) -> Description:
    """Parameter and column types of a query."""
    tree = statement.query
    catalog = session.database.pg_catalog()
    if catalog.handles(tree):
        columns, types = catalog.describe(tree, session, declared)
        return Description(columns, types, catalog.parameter_oids(tree, declared))
    bound = bound_query(session, tree, statement, declared)
    return Description(bound.columns, bound.parameter_types)


def run_query(
    session: Session, statement: Query, values: tuple[Literal, ...], declared: Types
) -> Result:
    """Run a query over the newest version, or the transaction's."""
    tree = statement.query
    catalog = session.database.pg_catalog()
    if catalog.handles(tree):
        return catalog.query(tree, values, session)
    bound = bound_query(session, tree, statement, declared)
    for text in bound.notices:
        session.notice(text)
    rows = run_select(session, bound, session.read_view(), values)
    return Result("SELECT", bound.columns, rows)


HANDLER = Handler(run_query, describe_query, "SELECT")
