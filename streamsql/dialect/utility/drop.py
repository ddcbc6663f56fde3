"""DROP, and ksqlDB's TERMINATE."""

from __future__ import annotations

from streamsql.dialect.lexer import Kind
from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import Drop, Statement
from streamsql.dialect.utility.kinds import object_kind

# things PostgreSQL has and we never create: DROP … IF EXISTS of them finds nothing
_NEVER = frozenset(
    {"FUNCTION", "TYPE", "SEQUENCE", "EXTENSION", "DOMAIN", "TRIGGER", "ROLE", "USER",
     "CONNECTOR", "CONNECTION", "SECRET", "CLUSTER", "CATALOG", "AGGREGATE"}
)  # fmt: skip


# CREATE TABLE … AS, CREATE STREAM … AS, CREATE VIEW make a materialized view there
MADE_BY_QUERY = frozenset({("ksql", "table"), ("ksql", "source"), ("feldera", "view")})


def parse_drop(parser: Parser) -> Statement:
    """DROP kind [IF EXISTS] n, … [CASCADE | RESTRICT]."""
    parser.expect("DROP")
    if parser.dialect == "flink":
        parser.accept("TEMPORARY")
    token = parser.token
    kind = object_kind(parser)
    if kind is None:
        if token.key == "DATABASE":
            raise parser.not_supported("DROP DATABASE", "There is one database; drop schemas.")
        if token.key not in _NEVER:
            raise parser.error()
        kind = parser.advance().value
    parser.accept("CONCURRENTLY")
    if_exists = parser.exists_flag(negated=False)
    names = parser.comma_list(parser.object_name)
    cascade = parser.accept("CASCADE")
    if not cascade:
        parser.accept("RESTRICT")
    parser.accept_sequence("DELETE", "TOPIC")  # ksqlDB
    return Drop(
        kind=kind,
        names=tuple(names),
        if_exists=if_exists,
        cascade=cascade,
        made_by_query=(parser.dialect, kind) in MADE_BY_QUERY,
    )


def refuse_all(parser: Parser, what: str) -> None:
    """Raises: FeatureNotSupported (0A000) at ALL."""
    if parser.at("ALL") and parser.peek().kind is Kind.END:
        raise parser.not_supported(f"{what} ALL", "Name the views one by one.")


def parse_terminate(parser: Parser) -> Statement:
    """TERMINATE q: drop the materialized view that the persistent query is."""
    parser.expect("TERMINATE")
    refuse_all(parser, "TERMINATE")
    parser.accept("QUERY")
    return Drop(kind="materialized view", names=(parser.object_name(),))
