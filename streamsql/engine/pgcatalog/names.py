"""Quoting of names, as PostgreSQL's quote_ident does it."""

from __future__ import annotations

import functools
import re

from streamsql.engine.pgcatalog.static import system_relations

_PLAIN = re.compile(r"[a-z_][a-z0-9_$]*\Z")


@functools.cache
def _keywords() -> frozenset[str]:
    rows = system_relations()["pg_catalog", "pg_get_keywords"].rows.to_pylist()
    return frozenset(r["word"] for r in rows if r["catcode"] != "U")


def quote_ident(name: str) -> str:
    """The name as it has to be written.

    >>> quote_ident("a"), quote_ident("A"), quote_ident("select")
    ('a', '"A"', '"select"')
    """
    if _PLAIN.match(name) and name not in _keywords():
        return name
    return '"' + name.replace('"', '""') + '"'
