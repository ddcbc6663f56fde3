"""SUBSCRIBE: a result that never ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from streamsql.core.types import SqlType
from streamsql.dialect.statements import Subscribe
from streamsql.engine.api import Result, ResultColumn
from streamsql.engine.dml.returning import table_node
from streamsql.engine.parameters import settle
from streamsql.engine.reads.current import tell_suspended
from streamsql.engine.reads.versions import bind_versions, version_number
from streamsql.engine.relations import Relation
from streamsql.engine.statements.common import lookup
from streamsql.engine.statements.handler import Description, Handler, Types
from streamsql.engine.streams import ChangeStream, ephemeral_view, stream_schema
from streamsql.functions.expressions import Expr, Literal

if TYPE_CHECKING:
    from streamsql.engine.session import Session


def describe(session: Session, statement: Subscribe, declared: Types) -> Description:
    """version, [progressed,] weight and the relation's columns."""
    relation, query = target(session, statement)
    _, types = versions(session, statement, declared)
    if query is None:
        assert relation is not None
        schema = relation.columns
    else:
        from streamsql.plan.binder import bind_query

        schema = bind_query(query, session.scope.context()).plan.schema
    shown = stream_schema(schema, progress=statement.progress)
    return Description(tuple(ResultColumn(c.name, c.type) for c in shown), types)


def versions(
    session: Session, statement: Subscribe, declared: Types
) -> tuple[tuple[int | Expr | None, int | Expr | None], tuple[SqlType, ...]]:
    """AS OF and UP TO, and the types of their parameters. Raises: errors of binding, 42804."""
    context = session.scope.context(parameter_types=list(declared), text=statement.sql)
    bound: list[int | Expr | None] = []
    for given in (statement.as_of, statement.up_to):
        is_number = given is None or isinstance(given, int)
        bound.append(given if is_number else bind_versions([given], context)[0])
    return (bound[0], bound[1]), settle(context.parameter_types or [])


def target(session: Session, statement: Subscribe) -> tuple[Relation | None, exp.Expression | None]:
    """A stored relation, or the query to build a view of."""
    if statement.query is not None:
        return None, statement.query
    assert statement.relation is not None
    relation = lookup(session, statement.relation)
    if relation.stored:
        return relation, None
    query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=table_node(relation, None)))
    return None, query


def open_stream(
    session: Session,
    statement: Subscribe,
    values: tuple[Literal, ...] = (),
    declared: Types | None = None,
) -> ChangeStream:
    """The stream of a SUBSCRIBE."""
    relation, query = target(session, statement)
    as_of, up_to = versions(session, statement, declared or [])[0]
    if isinstance(as_of, Expr):
        as_of = version_number(session, as_of, values)
    if isinstance(up_to, Expr):
        up_to = version_number(session, up_to, values, ahead=True)
    ephemeral, past = query is not None, None
    if query is not None:
        relation, past = ephemeral_view(session.engine, query, session.scope, as_of)
    assert relation is not None
    tell_suspended(session, (relation.oid,))
    try:
        return ChangeStream(
            session.engine,
            relation,
            snapshot=statement.snapshot,
            progress=statement.progress,
            as_of=as_of,
            up_to=up_to,
            ephemeral=ephemeral,
            query_past=past,
        )
    except BaseException:
        if ephemeral:
            oid = relation.oid
            session.engine.call(lambda: session.engine.builder.drop_ephemeral(oid))
        raise


def stream_columns(stream: ChangeStream) -> tuple[ResultColumn, ...]:
    """The result columns of a stream."""
    return tuple(ResultColumn(c.name, c.type) for c in stream.schema)


def run(
    session: Session, statement: Subscribe, values: tuple[Literal, ...], declared: Types
) -> Result:
    """SUBSCRIBE."""
    stream = open_stream(session, statement, values, declared)
    batches = limited(stream.run(session.token), statement.limit)
    return Result("SUBSCRIBE", stream_columns(stream), batches, streaming=True)


def limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The batches as far as they hold `limit` rows; then the stream is closed."""
    left = limit
    with closing(batches) as stream:  # type: ignore[type-var]
        while left is None or left > 0:
            batch = next(stream, None)
            if batch is None:
                return
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            yield batch


HANDLER = Handler(run, describe, "SUBSCRIBE")
