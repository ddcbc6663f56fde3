"""The dialects by name, and what a translation has to say about a statement.

Every spelling is understood under every dialect as long as it means one thing. The name decides
where one text means two: whether names keep their case, where NULLs sort, what an existing key does
to an INSERT, what CREATE VIEW makes.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamsql.core.errors import InvalidParameterValue

DIALECTS = ("streamsql", "risingwave", "flink", "materialize", "ksql", "feldera", "arroyo")
_ALIASES = {"ksqldb": "ksql", "rw": "risingwave", "mz": "materialize", "postgres": "streamsql"}

KEEPS_CASE = frozenset({"flink"})
"""Unquoted names are not folded."""

NULLS_LOW = frozenset({"flink"})
"""NULL sorts before every value: first under ASC, last under DESC."""

OVERWRITES = frozenset({"risingwave", "flink", "ksql", "feldera"})
"""A row with an existing primary key replaces the old one."""

VIEWS_ARE_KEPT = frozenset({"feldera"})
"""CREATE VIEW makes what is a materialized view here."""

CONNECTED_IS_SOURCE = frozenset({"flink", "arroyo"})
"""A table with a connector and without a primary key keeps no rows."""

INSERT_GOES_ON = frozenset({"flink", "ksql", "arroyo"})
"""INSERT INTO … SELECT is a job that never ends."""


@dataclass(frozen=True)
class Difference:
    """What the canonical form does not say as the other system meant it.

    kind: keys | types | time | lifetime | ignored (see docs/dialects.md).
    text: one sentence. position: 0-based offset in the statement's text.
    """

    kind: str
    text: str
    position: int = 0


def dialect_named(text: str) -> str:
    """The dialect of that name or alias.

    Raises: InvalidParameterValue (22023).

    >>> dialect_named("KsqlDB")
    'ksql'
    """
    name = text.strip().lower()
    name = _ALIASES.get(name, name)
    if name not in DIALECTS:
        raise InvalidParameterValue(
            f'invalid value for parameter "dialect": "{text}"',
            hint=f"Available values: {', '.join(DIALECTS)}.",
        )
    return name
