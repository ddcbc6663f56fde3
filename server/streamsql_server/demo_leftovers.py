"""What users have made above the demo's tables, which the demo drops and makes anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_RELATIONS = """
SELECT n.nspname, c.relname, c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'streamsql')
  AND c.relkind IN ('v', 'm', 'i') ORDER BY c.oid"""
_KINDS = {"v": "view", "m": "materialized view", "i": "index"}


@dataclass(frozen=True)
class Definition:
    """A view, materialized view, index or subscription, and the statement that makes it."""

    kind: str
    schema: str
    name: str
    sql: str


def definitions(session: Any) -> list[Definition]:
    """All that there are, each after what it stands on."""
    from streamsql.core.errors import StreamSqlError

    names = [
        (_KINDS[kind], schema, name)
        for schema, name, kind in session.execute(_RELATIONS).fetchall()
    ]
    names += [
        ("subscription", "public", row[0])
        for row in session.execute("SHOW SUBSCRIPTIONS").fetchall()
    ]
    found = []
    for kind, schema, name in names:
        try:
            shown = session.execute(f"SHOW CREATE {kind} {_quoted(schema)}.{_quoted(name)}")
        except StreamSqlError:  # the index of a key, which comes with its table
            continue
        found.append(Definition(kind, schema, name, str(shown.fetchall()[0][-1])))
    return found


def make_anew(session: Any, before: list[Definition]) -> Iterator[str]:
    """Make what has gone since; yields a line for each."""
    from streamsql.core.errors import StreamSqlError

    there = {(d.kind, d.schema, d.name) for d in definitions(session)}
    for definition in before:
        if (definition.kind, definition.schema, definition.name) in there:
            continue
        what = f'{definition.kind} "{definition.name}"'
        try:
            session.execute(f"SET search_path TO {_quoted(definition.schema)}, public")
            session.execute(definition.sql)
            yield f"{what}, which reads the demo's tables, was made anew"
        except StreamSqlError as error:
            yield (
                f"{what} was dropped with the demo's tables, and can't be made anew: {error}\n"
                f"    {definition.sql}"
            )
        finally:
            session.execute("RESET search_path")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
