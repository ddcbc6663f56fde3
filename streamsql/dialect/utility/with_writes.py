"""WITH whose CTEs write: WITH w AS (INSERT … RETURNING …) SELECT … FROM w."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from streamsql.core.errors import DuplicateAlias
from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import Query, Statement, WithWrites, WriteCte

_DML = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})
Dml = Callable[[Parser, exp.With | None], Statement]


def at_writes(parser: Parser) -> bool:
    """Does a WITH start here that has a writing CTE at its own level?"""
    depth = 0
    tokens = parser.tokens
    for i in range(parser.index + 1, len(tokens) - 1):
        key = tokens[i].key
        if key == "(":
            if depth == 0 and tokens[i + 1].key in _DML:
                return True
            depth += 1
        elif key == ")":
            depth -= 1
        elif depth == 0 and (key in _DML or key in ("SELECT", "VALUES", "TABLE")):
            return False
    return False


def parse_with_writes(parser: Parser, dml: dict[str, Dml]) -> Statement:
    """WITH [RECURSIVE] name [(columns)] AS (query | INSERT | UPDATE | DELETE | MERGE), …
    then a query or one of these. Queries among the CTEs are seen by all that follows them."""
    parser.expect("WITH")
    recursive = parser.accept("RECURSIVE")
    queries: list[exp.CTE] = []
    writes: list[WriteCte] = []

    def known() -> exp.With | None:
        if not queries:
            return None
        copies = [cte.copy() for cte in queries]
        return exp.With(expressions=copies, recursive=recursive or None)

    names: set[str] = set()
    while True:
        token = parser.token
        if token.value in names:
            raise DuplicateAlias(
                f'WITH query name "{token.value}" specified more than once', position=token.start
            )
        names.add(token.value)
        write = _write(parser, dml, known)
        if write is None:
            queries.append(parser.cte())
        else:
            writes.append(write)
        if not parser.accept(","):
            break
    parse = dml.get(parser.token.key)
    if parse is not None:
        return WithWrites(ctes=tuple(writes), statement=parse(parser, known()))
    return WithWrites(ctes=tuple(writes), statement=Query(query=parser.query_under(known())))


def _write(
    parser: Parser, dml: dict[str, Dml], known: Callable[[], exp.With | None]
) -> WriteCte | None:
    """A CTE that writes; None, and nothing taken, if it is a query."""
    index, token = parser.index, parser.token
    name = parser.name()
    columns = parser.name_list() if parser.at("(") else ()
    if parser.accept("AS"):
        parser.accept("NOT")
        parser.accept("MATERIALIZED")
        parse = dml.get(parser.peek().key) if parser.at("(") else None
        if parse is not None:
            parser.advance()
            statement = parse(parser, known())
            parser.expect(")")
            position = parser.place(token)
            return WriteCte(name=name, columns=columns, statement=statement, position=position)
    parser.reset(index)
    return None
