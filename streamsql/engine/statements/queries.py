"""SELECT, VALUES, TABLE, WITH."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from streamsql.core.errors import FeatureNotSupported
from streamsql.dialect.statements import Query
from streamsql.engine.api import Result
from streamsql.engine.reads.select import run_select
from streamsql.engine.reads.view import ReadView
from streamsql.engine.statements.common import bound_query
from streamsql.engine.statements.handler import Description, Handler, Types
from streamsql.functions.expressions import Literal

if TYPE_CHECKING:
    from streamsql.engine.session import Session


def describe_query(session: Session, statement: Query, declared: Types) -> Description:
    """Parameter and column types of a query."""
    tree, _ = split_version(statement.query)
    catalog = session.database.pg_catalog()
    if catalog.handles(tree):
        columns, types = catalog.describe(tree, session, declared)
        return Description(columns, types, catalog.parameter_oids(tree, declared))
    bound = bound_query(session, tree, statement, declared)
    return Description(bound.columns, bound.parameter_types)


def run_query(
    session: Session, statement: Query, values: tuple[Literal, ...], declared: Types
) -> Result:
    """Run a query over the newest version, the transaction's, or the one AS OF names."""
    tree, version = split_version(statement.query)
    catalog = session.database.pg_catalog()
    if catalog.handles(tree):
        return catalog.query(tree, values, session)
    bound = bound_query(session, tree, statement, declared)
    for text in bound.notices:
        session.notice(text)
    view = session.read_view() if version is None else as_of(session, version)
    return Result("SELECT", bound.columns, run_select(session, bound, view, values))


def as_of(session: Session, version: int) -> ReadView:
    """The database as it was at a version. Raises: FeatureNotSupported for the future."""
    if version > session.engine.version:
        raise FeatureNotSupported(
            f"version {version} does not exist yet",
            hint=f"The newest version is {session.engine.version}.",
        )
    return session.engine.read_view(version)


def split_version(tree: exp.Expression) -> tuple[exp.Expression, int | None]:
    """A query without FOR SYSTEM_TIME AS OF <number>, and that number.

    Other forms (a column, PROCTIME()) belong to temporal joins and stay.
    """
    versions = [v for v in tree.find_all(exp.Version) if _number(v) is not None]
    if not versions:
        return tree, None
    numbers = {_number(v) for v in versions}
    if len(numbers) > 1:
        raise FeatureNotSupported(
            "a query reads one version",
            hint="Use the same FOR SYSTEM_TIME AS OF version for every relation.",
        )
    copy = tree.copy()
    for table in copy.find_all(exp.Table):
        found = table.args.get("version")
        if found is not None and _number(found) is not None:
            table.set("version", None)
    return copy, numbers.pop()


def _number(version: exp.Version) -> int | None:
    value = version.args.get("expression")
    if isinstance(value, exp.Literal) and not value.is_string and str(value.this).isdigit():
        return int(value.this)
    return None


HANDLER = Handler(run_query, describe_query, "SELECT")
