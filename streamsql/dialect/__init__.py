"""Text to statements: lexer, statement router, the grammar of queries.

Public: `parse`, `parse_expression`, `parse_type`, `type_of`, `interval_parts`, `position_of`,
`operator_of`, `split`, `to_sql`. Everything is loaded at the first call: importing this room costs
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamsql.dialect.generator import to_sql
    from streamsql.dialect.intervals import interval_parts
    from streamsql.dialect.operators import operator_of
    from streamsql.dialect.positions import position_of, position_of_name
    from streamsql.dialect.router import parse, parse_expression, split
    from streamsql.dialect.typenames import parse_type, type_of

_HOME = {
    "interval_parts": "intervals",
    "operator_of": "operators",
    "parse": "router",
    "parse_expression": "router",
    "parse_type": "typenames",
    "position_of": "positions",
    "position_of_name": "positions",
    "split": "router",
    "to_sql": "generator",
    "type_of": "typenames",
}

__all__ = [
    "interval_parts",
    "operator_of",
    "parse",
    "parse_expression",
    "parse_type",
    "position_of",
    "position_of_name",
    "split",
    "to_sql",
    "type_of",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"streamsql.dialect.{home}"), name)
    globals()[name] = value
    return value
