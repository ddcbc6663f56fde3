"""The words for kinds of objects, shared by DROP, ALTER and COMMENT ON."""

from __future__ import annotations

from streamsql.dialect.parser import Parser

KINDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("MATERIALIZED", "VIEW"), "materialized view"),
    (("MATERIALIZED", "TABLE"), "materialized view"),
    (("DYNAMIC", "TABLE"), "materialized view"),
    (("FOREIGN", "TABLE"), "table"),
    (("TABLE",), "table"),
    (("SOURCE",), "source"),
    (("STREAM",), "source"),
    (("VIEW",), "view"),
    (("SINK",), "sink"),
    (("INDEX",), "index"),
    (("SCHEMA",), "schema"),
    (("SUBSCRIPTION",), "subscription"),
)


def object_kind(parser: Parser) -> str | None:
    """Take the words of a kind; None, and nothing taken, if it is none of ours."""
    for words, kind in KINDS:
        if parser.accept_sequence(*words):
            return kind
    return None
