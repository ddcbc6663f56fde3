"""SUBSCRIBE: a result that never ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from streamsql.dialect.statements import Subscribe
from streamsql.engine.api import Result, ResultColumn
from streamsql.engine.dml.returning import table_node
from streamsql.engine.relations import Relation
from streamsql.engine.statements.common import lookup
from streamsql.engine.statements.handler import Description, Handler, Types
from streamsql.engine.streams import ChangeStream, ephemeral_view, stream_schema
from streamsql.functions.expressions import Literal

if TYPE_CHECKING:
    from streamsql.engine.session import Session


def describe(session: Session, statement: Subscribe, declared: Types) -> Description:
    """version, [progressed,] weight and the relation's columns."""
    relation, query = target(session, statement)
    if query is None:
        assert relation is not None
        schema = relation.columns
    else:
        from streamsql.plan.binder import bind_query

        schema = bind_query(query, session.scope.context()).plan.schema
    shown = stream_schema(schema, progress=statement.progress)
    return Description(tuple(ResultColumn(c.name, c.type) for c in shown))


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


def open_stream(session: Session, statement: Subscribe) -> ChangeStream:
    """The stream of a SUBSCRIBE."""
    relation, query = target(session, statement)
    ephemeral = query is not None
    if query is not None:
        relation = ephemeral_view(session.engine, query, session.scope)
    assert relation is not None
    try:
        return ChangeStream(
            session.engine,
            relation,
            snapshot=statement.snapshot,
            progress=statement.progress,
            as_of=statement.as_of,
            up_to=statement.up_to,
            ephemeral=ephemeral,
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
    stream = open_stream(session, statement)
    return Result("SUBSCRIBE", stream_columns(stream), stream.run(session.token), streaming=True)


HANDLER = Handler(run, describe, "SUBSCRIBE")
