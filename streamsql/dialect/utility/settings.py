"""SET, RESET, SHOW of variables, DISCARD."""

from __future__ import annotations

import re

from streamsql.dialect.lexer import Kind
from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import (
    Discard,
    SetVariable,
    ShowVariable,
    Statement,
)
from streamsql.dialect.utility.transaction import transaction_modes

# SHOW and RESET spell these as words
_SPELLED: tuple[tuple[tuple[str, ...], str], ...] = (
    (("TRANSACTION", "ISOLATION", "LEVEL"), "transaction_isolation"),
    (("SESSION", "AUTHORIZATION"), "session_authorization"),
    (("TIME", "ZONE"), "timezone"),
    (("NAMES",), "client_encoding"),
)

_PLAIN = re.compile(r"[a-z_][a-z0-9_$]*")


def parse_set(parser: Parser) -> Statement:
    """SET [SESSION | LOCAL] name {= | TO} value, and all the spellings without = or TO."""
    parser.expect("SET")
    if parser.at_end():
        return ShowVariable(name="all")  # Flink's SET alone lists the settings
    if parser.at_string():
        return _flink(parser)
    if parser.at_sequence("SESSION", "CHARACTERISTICS"):
        parser.accept_sequence("SESSION", "CHARACTERISTICS")
        parser.expect("AS", "TRANSACTION")
        read_only = transaction_modes(parser)
        return SetVariable(name="default_transaction_read_only", value=_on(read_only))
    local = False
    if parser.at("SESSION", "LOCAL") and parser.peek().key not in ("=", "TO", "AUTHORIZATION", "."):
        local = parser.advance().key == "LOCAL"
    if parser.accept("TRANSACTION"):
        if parser.accept("SNAPSHOT"):
            raise parser.not_supported("SET TRANSACTION SNAPSHOT", "Use FOR SYSTEM_TIME AS OF.")
        read_only = transaction_modes(parser)
        return SetVariable(name="transaction_read_only", value=_on(read_only), local=True)
    special = _set_special(parser, local)
    if special is not None:
        return special
    name = variable_name(parser)
    if not parser.accept("=", "TO", ":="):
        raise parser.error()
    if parser.accept("DEFAULT"):
        return SetVariable(name=name, value=None, local=local)
    return SetVariable(name=name, value=_values(parser, name), local=local)


def _on(flag: bool) -> str:
    return "on" if flag else "off"


def _flink(parser: Parser) -> Statement:
    """SET 'key' = 'value'."""
    token = parser.token
    name = parser.string()
    if not name:
        raise parser.error(token)
    parser.expect("=")
    return SetVariable(name=name, value=_values(parser))


def _set_special(parser: Parser, local: bool) -> Statement | None:
    """TIME ZONE, NAMES, SCHEMA, ROLE, SESSION AUTHORIZATION, CONSTRAINTS, XML OPTION."""
    if parser.accept_sequence("TIME", "ZONE"):
        if parser.accept("DEFAULT", "LOCAL"):
            return SetVariable(name="timezone", value=None, local=local)
        if parser.token.key == "INTERVAL":
            return SetVariable(name="timezone", value=parser.option_value(), local=local)
        return SetVariable(name="timezone", value=_value(parser), local=local)
    if parser.at("NAMES") and parser.peek().key not in ("=", "TO"):
        parser.advance()
        if parser.at_end() or parser.accept("DEFAULT"):
            return SetVariable(name="client_encoding", value=None, local=local)
        return SetVariable(name="client_encoding", value=_value(parser), local=local)
    if parser.at("SCHEMA") and parser.peek().kind is Kind.STRING:
        parser.advance()
        return SetVariable(name="search_path", value=parser.string(), local=local)
    if parser.at("ROLE") and parser.peek().key not in ("=", "TO"):
        parser.advance()
        role = None if parser.accept("NONE", "DEFAULT") else _value(parser)
        return SetVariable(name="role", value=role, local=local)
    if parser.accept_sequence("SESSION", "AUTHORIZATION"):
        user = None if parser.accept("DEFAULT") else _value(parser)
        return SetVariable(name="session_authorization", value=user, local=local)
    if parser.accept("CONSTRAINTS"):
        if not parser.accept("ALL"):
            parser.comma_list(parser.object_name)
        if not parser.at("DEFERRED", "IMMEDIATE"):
            raise parser.error()
        return SetVariable(name="constraints", value=parser.advance().value, local=local)
    return None


def variable_name(parser: Parser) -> str:
    """name or prefix.name; variables are case-insensitive."""
    parts = [parser.label()]
    while parser.accept("."):
        parts.append(parser.label())
    return ".".join(parts).lower()


def _values(parser: Parser, name: str = "") -> str:
    """value, value, …: joined by ", " as PostgreSQL shows a list. Names of a search_path keep
    their quotes where they need them."""
    names = name.lower() == "search_path"
    return ", ".join(parser.comma_list(lambda: _name(parser) if names else _value(parser)))


def _name(parser: Parser) -> str:
    quoted = parser.token.kind is Kind.QUOTED
    value = _value(parser)
    if quoted and not _PLAIN.fullmatch(value):
        return '"' + value.replace('"', '""') + '"'
    return value


def _value(parser: Parser) -> str:
    token = parser.token
    if token.kind in (Kind.STRING, Kind.QUOTED, Kind.NUMBER, Kind.WORD):
        return parser.advance().value
    if token.key in ("-", "+") and parser.peek().kind is Kind.NUMBER:
        parser.advance()
        return token.key + parser.advance().value
    raise parser.error()


def parse_reset(parser: Parser) -> Statement:
    """RESET {name | ALL | …}; Flink's RESET 'key' and RESET alone."""
    if not parser.accept("RESET", "UNSET"):
        raise parser.error()
    if parser.at_end() or parser.accept("ALL"):
        return SetVariable(name="all", value=None)
    if parser.at_string():
        token = parser.token
        name = parser.string()
        if not name:
            raise parser.error(token)
        return SetVariable(name=name, value=None)
    return SetVariable(name=_spelled_or_plain(parser), value=None)


def parse_show_variable(parser: Parser) -> Statement:
    """SHOW {name | ALL | …}."""
    parser.expect("SHOW")
    if parser.at("ALL", "PARAMETERS"):
        parser.advance()
        return ShowVariable(name="all")
    return ShowVariable(name=_spelled_or_plain(parser))


def _spelled_or_plain(parser: Parser) -> str:
    for words, name in _SPELLED:
        if parser.accept_sequence(*words):
            return name
    return variable_name(parser)


def parse_discard(parser: Parser) -> Statement:
    """DISCARD {ALL | PLANS | SEQUENCES | TEMP | TEMPORARY}."""
    parser.expect("DISCARD")
    if not parser.at("ALL", "PLANS", "SEQUENCES", "TEMP", "TEMPORARY"):
        raise parser.error()
    what = parser.advance().value
    return Discard(what="temp" if what == "temporary" else what)
