"""CREATE: reads what may stand before the kind of object, then hands over to that kind's file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streamsql.dialect.dialects import VIEWS_ARE_KEPT
from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import Statement
from streamsql.dialect.unsupported import refuse_create
from streamsql.dialect.utility.create_index import parse_create_index
from streamsql.dialect.utility.create_schema import parse_create_schema
from streamsql.dialect.utility.create_sink import parse_create_sink
from streamsql.dialect.utility.create_subscription import parse_create_subscription
from streamsql.dialect.utility.create_table import parse_create_table
from streamsql.dialect.utility.create_view import (
    parse_materialized,
    parse_recursive_view,
    parse_view,
)


@dataclass(frozen=True)
class CreateFlags:
    """Words between CREATE and the kind."""

    or_replace: bool = False
    temporary: bool = False
    unique: bool = False
    local: bool = False


_Create = Callable[[Parser, CreateFlags], Statement]


def parse_create(parser: Parser) -> Statement:
    """CREATE [OR REPLACE] [TEMPORARY | TEMP] [UNIQUE] kind …."""
    start = parser.token
    parser.expect("CREATE")
    or_replace = parser.accept_sequence("OR", "REPLACE")
    before = set()
    while parser.at("TEMPORARY", "TEMP", "LOCAL", "GLOBAL", "UNLOGGED"):
        before.add(parser.advance().key)
    unique = parser.accept("UNIQUE")
    temporary = not before.isdisjoint(("TEMPORARY", "TEMP"))
    if temporary and parser.dialect == "flink":
        parser.ignores("TEMPORARY has no effect: it stays until it is dropped", start)
        temporary = False
    flags = CreateFlags(or_replace, temporary, unique, local="LOCAL" in before)
    for words, parse_it in CREATES:
        if parser.at_sequence(*words):
            parser.accept_sequence(*words)
            if unique and words != ("INDEX",):
                raise parser.error(start)
            return parse_it(parser, flags)
    raise refuse_create(parser)


def _table(parser: Parser, flags: CreateFlags) -> Statement:
    return parse_create_table(parser, temporary=flags.temporary, or_replace=flags.or_replace)


def _stream(parser: Parser, flags: CreateFlags) -> Statement:
    return parse_create_table(parser, is_source=True, stream=True, or_replace=flags.or_replace)


def _connector(parser: Parser) -> Statement:
    raise parser.not_supported("CREATE CONNECTOR", "Put the options into WITH of a source or sink.")


def _default_index(parser: Parser) -> Statement:
    raise parser.not_supported("CREATE DEFAULT INDEX", "Name the columns: CREATE INDEX ON v (a).")


def _view(parser: Parser, flags: CreateFlags) -> Statement:
    if parser.dialect in VIEWS_ARE_KEPT and not flags.local:
        return parse_materialized(parser, or_replace=flags.or_replace)
    return parse_view(parser, or_replace=flags.or_replace, temporary=flags.temporary)


CREATES: tuple[tuple[tuple[str, ...], _Create], ...] = (
    (("TABLE",), _table),
    (("SOURCE", "TABLE"), lambda p, f: parse_create_table(p)),
    (("SOURCE", "CONNECTOR"), lambda p, f: _connector(p)),
    (("SINK", "CONNECTOR"), lambda p, f: _connector(p)),
    (("DEFAULT", "INDEX"), lambda p, f: _default_index(p)),
    (("SOURCE", "STREAM"), lambda p, f: parse_create_table(p, is_source=True)),
    (("SOURCE",), lambda p, f: parse_create_table(p, is_source=True)),
    (("STREAM",), _stream),
    (("MATERIALIZED", "VIEW"), lambda p, f: parse_materialized(p, or_replace=f.or_replace)),
    (("MATERIALIZED", "TABLE"), lambda p, f: parse_materialized(p, or_replace=f.or_replace)),
    (("DYNAMIC", "TABLE"), lambda p, f: parse_materialized(p, or_replace=f.or_replace)),
    (("RECURSIVE", "VIEW"), lambda p, f: parse_recursive_view(p, or_replace=f.or_replace)),
    (("VIEW",), _view),
    (("SINK",), lambda p, f: parse_create_sink(p)),
    (("INDEX",), lambda p, f: parse_create_index(p, unique=f.unique)),
    (("SCHEMA",), lambda p, f: parse_create_schema(p)),
    (("SUBSCRIPTION",), lambda p, f: parse_create_subscription(p)),
)
