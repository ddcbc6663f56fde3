"""What several statement handlers share: bound statements from a cache, small results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from sqlglot import exp

from streamsql.core.schema import Schema
from streamsql.core.types import SqlType
from streamsql.dialect.statements import Name, Statement
from streamsql.engine.api import Result, ResultColumn
from streamsql.engine.binding import check_readable
from streamsql.engine.reads.select import BoundSelect, bind_select
from streamsql.engine.relations import Relation
from streamsql.engine.statements.handler import Types

if TYPE_CHECKING:
    from streamsql.engine.session import Session

T = TypeVar("T")


def cached(
    session: Session, kind: str, statement: Statement, declared: Types, make: Callable[[], T]
) -> T:
    """A bound statement: made once for a text, the settings it depends on and declared types."""
    scope = session.scope
    if session.transaction is not None and session.transaction.fork is not None:
        return make()
    if session.given is not None:  # a part of a statement: its text is the whole one's
        return make()
    key = (kind, statement.sql, scope.cache_key, tuple(declared))
    return session.database.plans.get(key, make)


def bound_query(
    session: Session, tree: exp.Expression, statement: Statement, declared: Types
) -> BoundSelect:
    """The bound form of a statement's query."""

    def make() -> BoundSelect:
        return bind_select(tree, session.reading_scope, declared, statement.sql)

    return cached(session, "query", statement, declared, make)


def lookup(
    session: Session, name: Name, *, kinds: Sequence[str] = (), position: int | None = None
) -> Relation:
    """A relation by its name as this session sees it. Raises: 42P01, 42809."""
    found = session.catalog.lookup(name, session.search_path, kinds=kinds, position=position)
    if not kinds:
        check_readable(found, position)
    return found


def rows_result(
    tag: str, columns: Sequence[tuple[str, SqlType]], rows: Sequence[Sequence[Any]]
) -> Result:
    """A result of a few Python rows."""
    schema = Schema.of(*columns).arrow
    arrays = [pa.array([row[i] for row in rows], f.type) for i, f in enumerate(schema)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    described = tuple(ResultColumn(name, type_) for name, type_ in columns)
    return Result(tag, described, iter([batch]), row_count=len(rows))
