"""Feldera's recursive views: DECLARE RECURSIVE VIEW v (…), then CREATE VIEW v AS … FROM v ….

The view that is made has WITH RECURSIVE in its definition, so that it stands for itself.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from sqlglot import exp

from streamsql.dialect.statements import CreateView, DeclareRecursive
from streamsql.engine.api import Result
from streamsql.engine.names import parts_of, table_references
from streamsql.engine.statements.handler import Handler, Types
from streamsql.functions.expressions import Literal

if TYPE_CHECKING:
    from streamsql.engine.session import Session


def run(
    session: Session, statement: DeclareRecursive, values: tuple[Literal, ...], declared: Types
) -> Result:
    """Remember the name for the session's next CREATE VIEW."""
    session.recursive[statement.name[-1]] = statement.columns
    return Result("DECLARE RECURSIVE VIEW")


def resolved(session: Session, statement: CreateView) -> CreateView:
    """The statement, with WITH RECURSIVE where the name was declared and the query reads it."""
    from streamsql.dialect import parse
    from streamsql.dialect.canonical import statement_sql

    name = statement.name[-1]
    columns = session.recursive.pop(name, None)
    if columns is None or all(parts_of(t) != (name,) for t in table_references(statement.query)):
        return statement

    def identifier(text: str) -> exp.Identifier:
        return exp.Identifier(this=text, quoted=True)

    alias = exp.TableAlias(this=identifier(name), columns=[identifier(c) for c in columns])
    cte = exp.CTE(this=statement.query.copy(), alias=alias)
    query = exp.Select(
        expressions=[exp.Column(this=identifier(c)) for c in columns],
        from_=exp.From(this=exp.Table(this=identifier(name))),
        with_=exp.With(expressions=[cte], recursive=True),
    )
    (made,) = parse(statement_sql(dataclasses.replace(statement, query=query)))
    assert isinstance(made, CreateView)
    return made


HANDLER = Handler(run, tag="DECLARE RECURSIVE VIEW")
