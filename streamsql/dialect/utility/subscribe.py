"""SUBSCRIBE, and Materialize's TAIL."""

from __future__ import annotations

from sqlglot import exp

from streamsql.core.errors import InvalidParameterValue
from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import Statement, Subscribe

_TRUE = frozenset({"true", "on", "1", "yes"})
_FALSE = frozenset({"false", "off", "0", "no"})


def parse_subscribe(parser: Parser) -> Statement:
    """SUBSCRIBE [TO] {v | (query)} [WITH ([NO]SNAPSHOT, PROGRESS)] [AS OF n] [UP TO n] [LIMIT n].

    The clauses may come in any order.
    """
    if not parser.accept("SUBSCRIBE", "TAIL"):
        raise parser.error()
    parser.accept("TO")
    relation = query = None
    if parser.at("SELECT", "VALUES", "WITH"):
        query = parser.query()
    elif parser.at("("):
        subquery = parser.parenthesised_query()
        if subquery is None:
            raise parser.error()
        query = subquery.this
    else:
        relation = parser.object_name()
    snapshot, progress = True, False
    as_of: int | exp.Expression | None = None
    up_to: int | exp.Expression | None = None
    limit = None
    while True:
        if parser.at("WITH"):
            snapshot, progress = _options(parser)
        elif parser.accept_sequence("WITHOUT", "SNAPSHOT"):
            snapshot = False
        elif parser.accept_sequence("AS", "OF"):
            parser.accept_sequence("AT", "LEAST")
            as_of = _version(parser)
        elif parser.accept_sequence("UP", "TO"):
            up_to = _version(parser)
        elif parser.accept("LIMIT"):
            limit = parser.integer()
        elif parser.at("ENVELOPE", "WITHIN"):
            raise parser.not_supported(f"{parser.token.key} in SUBSCRIBE", "Read weight instead.")
        else:
            break
    parser.emit_clause()
    return Subscribe(
        relation=relation,
        query=query,
        snapshot=snapshot,
        progress=progress,
        as_of=as_of,
        up_to=up_to,
        limit=limit,
    )


def _version(parser: Parser) -> int | exp.Expression:
    """A number, or an expression for one: a parameter, a time."""
    start = parser.token
    found = parser.restricted_expression()
    if found.find(exp.Column) is not None:
        raise parser.error(start)
    value = found.this if isinstance(found, exp.Neg) else found
    if isinstance(value, exp.Literal) and not value.is_string and str(value.this).isdigit():
        return -int(value.this) if value is not found else int(value.this)
    return found


def _options(parser: Parser) -> tuple[bool, bool]:
    token = parser.advance()
    if parser.at("("):
        given = parser.options()
    else:  # TAIL v WITH SNAPSHOT
        given = {parser.label(): "true"}
    found = {"snapshot": True, "progress": False}
    for name, text in given.items():
        if name not in found:
            raise InvalidParameterValue(
                f'unrecognized SUBSCRIBE option "{name}"',
                position=token.start,
                hint="Options are SNAPSHOT and PROGRESS.",
            )
        if text.lower() not in _TRUE | _FALSE:
            raise InvalidParameterValue(f"{name} requires a Boolean value", position=token.start)
        found[name] = text.lower() in _TRUE
    return found["snapshot"], found["progress"]
