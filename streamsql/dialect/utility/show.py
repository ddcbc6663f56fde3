"""SHOW of catalog objects, SHOW CREATE, DESCRIBE."""

from __future__ import annotations

from streamsql.core.errors import FeatureNotSupported
from streamsql.dialect.lexer import Kind
from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import (
    Describe,
    ShowCreate,
    ShowObjects,
    ShowVariable,
    Statement,
)
from streamsql.dialect.utility.settings import parse_show_variable

# words after SHOW -> kind of ShowObjects; longest first
KINDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("MATERIALIZED", "VIEWS"), "materialized views"),
    (("MATERIALIZED", "TABLES"), "materialized views"),
    (("DYNAMIC", "TABLES"), "materialized views"),
    (("TABLES",), "tables"),
    (("SOURCES",), "sources"),
    (("STREAMS",), "sources"),
    (("VIEWS",), "views"),
    (("SINKS",), "sinks"),
    (("INDEXES",), "indexes"),
    (("JOBS",), "jobs"),
    (("QUERIES",), "jobs"),
    (("SUBSCRIPTIONS",), "subscriptions"),
    (("SUBSCRIPTION", "CURSORS"), "subscription cursors"),
    (("SCHEMAS",), "schemas"),
    (("DATABASES",), "databases"),
    (("CATALOGS",), "databases"),
    (("FUNCTIONS",), "functions"),
    (("PROCESSLIST",), "processlist"),
)
_CREATE_KINDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("MATERIALIZED", "VIEW"), "materialized view"),
    (("TABLE",), "table"),
    (("SOURCE",), "source"),
    (("STREAM",), "source"),
    (("VIEW",), "view"),
    (("SINK",), "sink"),
    (("INDEX",), "index"),
    (("SUBSCRIPTION",), "subscription"),
)

_OPTIONS = "The options of a connector stand in the WITH of its source: SHOW CREATE SOURCE."
_NOT_HERE = {
    "CLUSTERS": "There is one process: SHOW PROCESSLIST lists its sessions.",
    "CLUSTER": "There is one process: SHOW PROCESSLIST lists its sessions.",
    "SECRETS": _OPTIONS,
    "CONNECTIONS": _OPTIONS,
}


def parse_show(parser: Parser) -> Statement:
    """SHOW (ksqlDB: LIST) objects, SHOW COLUMNS FROM r, SHOW CREATE kind n; else a variable."""
    if parser.peek().key == "CREATE":
        return _show_create(parser)
    if parser.peek().key == "COLUMNS" and parser.peek(2).key in ("FROM", "IN"):
        parser.expect("SHOW", "COLUMNS")
        parser.advance()
        return ShowObjects(kind="columns", relation=parser.object_name(), like=_like(parser))
    full = parser.peek().key in ("FULL", "EXTENDED")
    start = 2 if full else 1
    for words, kind in KINDS:
        if all(parser.peek(start + i).key == word for i, word in enumerate(words)):
            for _ in range(start + len(words)):
                parser.advance()
            return _show_objects(parser, kind)
    if parser.peek().key == "INDEX" and parser.peek(2).key in ("FROM", "IN"):
        parser.expect("SHOW", "INDEX")
        parser.advance()
        return ShowObjects(kind="indexes", relation=parser.object_name())
    if parser.peek().key in _NOT_HERE:
        raise FeatureNotSupported(
            f"SHOW {parser.peek().key} is not supported",
            position=parser.peek().start,
            hint=_NOT_HERE[parser.peek().key],
        )
    statement = parse_show_variable(parser)
    assert isinstance(statement, ShowVariable)
    return statement


def _show_objects(parser: Parser, kind: str) -> Statement:
    schema = relation = None
    if parser.accept("FROM", "IN", "ON"):
        name = parser.object_name()
        if kind == "indexes":
            relation = name
        else:
            schema = name[-1]
    return ShowObjects(kind=kind, relation=relation, schema=schema, like=_like(parser))


def _like(parser: Parser) -> str | None:
    return parser.string() if parser.accept("LIKE", "ILIKE") else None


def _show_create(parser: Parser) -> Statement:
    parser.expect("SHOW", "CREATE")
    for words, kind in _CREATE_KINDS:
        if parser.accept_sequence(*words):
            return ShowCreate(kind=kind, name=parser.object_name())
    raise parser.error(
        hint="SHOW CREATE TABLE | SOURCE | VIEW | MATERIALIZED VIEW | SINK | INDEX name."
    )


def parse_describe(parser: Parser) -> Statement:
    """DESCRIBE | DESC [TABLE | EXTENDED] r."""
    parser.advance()
    parser.accept("EXTENDED")
    if parser.at("TABLE", "VIEW", "SOURCE") and parser.peek().kind in (Kind.WORD, Kind.QUOTED):
        parser.advance()
    elif parser.at_sequence("MATERIALIZED", "VIEW"):
        parser.accept_sequence("MATERIALIZED", "VIEW")
    name = parser.object_name()
    parser.accept("EXTENDED")  # ksqlDB
    return Describe(name=name)
