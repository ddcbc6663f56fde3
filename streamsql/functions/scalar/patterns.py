"""LIKE, ILIKE, SIMILAR TO, ~ and the regular expression functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamsql.core.errors import StreamSqlError
from streamsql.core.types import BOOLEAN, INTEGER, TEXT, SqlType, array_of
from streamsql.functions.definitions import FunctionDef, Pattern
from streamsql.functions.literals import sql_string
from streamsql.functions.scalar.lazy import lazy
from streamsql.functions.scalar.text import text_function
from streamsql.functions.sql_text import Writer, constant_text, native_or_kernel

TEXTS = array_of(TEXT)


def _pattern(
    name: str, args: tuple[Pattern, ...], result: SqlType = BOOLEAN, **more: Any
) -> FunctionDef:
    return text_function(name, args, result, module="patterns", fails=True, **more)


def _place(name: str, args: tuple[Pattern, ...], result: SqlType, **more: Any) -> FunctionDef:
    return text_function(name, args, result, module="regex_places", fails=True, **more)


def _like(a: Sequence[str], types: tuple[SqlType, ...]) -> str | None:
    """A constant pattern with the usual escape; one that ends with it is the kernel's to refuse."""
    pattern = constant_text(a[1])
    if len(a) > 2 or pattern is None or pattern.endswith("\\"):
        return None
    return f"({a[0]} LIKE {a[1]} ESCAPE '\\')"


def _regex(flags: str) -> Writer:
    """A constant regular expression that RE2 takes."""

    def write(a: Sequence[str], types: tuple[SqlType, ...]) -> str | None:
        from streamsql.functions.compute.regex import compile_regex

        pattern = constant_text(a[1])
        if pattern is None:
            return None
        try:
            found = compile_regex(pattern, flags).re2
        except StreamSqlError:  # the kernel says it for the rows that reach it
            return None
        return None if found is None else f"regexp_matches({a[0]}, {sql_string(found)})"

    return write


FUNCTIONS: tuple[FunctionDef, ...] = (
    _pattern("like", (TEXT, TEXT, TEXT), optional=1, aliases=("~~",),
             sql=native_or_kernel("like", lazy("patterns", "like"), _like)),
    _pattern("ilike", (TEXT, TEXT, TEXT), optional=1, aliases=("~~*",)),
    _pattern("similar_to", (TEXT, TEXT, TEXT), optional=1),
    _pattern("matches", (TEXT, TEXT), aliases=("~",),
             sql=native_or_kernel("matches", lazy("patterns", "matches"), _regex(""))),
    _pattern("matches_any_case", (TEXT, TEXT), aliases=("~*",),
             sql=native_or_kernel("matches_any_case", lazy("patterns", "matches_any_case"),
                                  _regex("i"))),
    _pattern("regexp_like", (TEXT, TEXT, TEXT), optional=1),
    _pattern("regexp_replace", (TEXT, TEXT, TEXT, TEXT), TEXT, optional=1),
    _place("regexp_replace", (TEXT, TEXT, TEXT, INTEGER, INTEGER, TEXT), TEXT, optional=2,
           kernel="regexp_replace_nth"),
    _pattern("regexp_match", (TEXT, TEXT, TEXT), TEXTS, optional=1),
    _pattern("regexp_matches_array", (TEXT, TEXT, TEXT), array_of(TEXTS), optional=1,
             kernel="regexp_matches"),
    _pattern("regexp_extract", (TEXT, TEXT, INTEGER), TEXT, optional=1),
    _place("regexp_count", (TEXT, TEXT, INTEGER, TEXT), INTEGER, optional=2),
    _place("regexp_substr", (TEXT, TEXT, INTEGER, INTEGER, TEXT, INTEGER), TEXT, optional=4),
    _place("regexp_instr", (TEXT, TEXT, INTEGER, INTEGER, INTEGER, TEXT, INTEGER), INTEGER,
           optional=5),
    _pattern("regexp_split_to_array", (TEXT, TEXT, TEXT), TEXTS, optional=1),
    _pattern("substring_regex", (TEXT, TEXT), TEXT, aliases=("substring",)),
    _pattern("substring_similar", (TEXT, TEXT, TEXT), TEXT, aliases=("substring",)),
)  # fmt: skip
