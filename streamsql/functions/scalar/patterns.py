"""LIKE, ILIKE, SIMILAR TO, ~ and the regular expression functions."""

from __future__ import annotations

from typing import Any

from streamsql.core.types import BOOLEAN, INTEGER, TEXT, SqlType, array_of
from streamsql.functions.definitions import FunctionDef, Pattern
from streamsql.functions.scalar.text import text_function

TEXTS = array_of(TEXT)


def _pattern(
    name: str, args: tuple[Pattern, ...], result: SqlType = BOOLEAN, **more: Any
) -> FunctionDef:
    return text_function(name, args, result, module="patterns", fails=True, **more)


FUNCTIONS: tuple[FunctionDef, ...] = (
    _pattern("like", (TEXT, TEXT, TEXT), optional=1, aliases=("~~",)),
    _pattern("ilike", (TEXT, TEXT, TEXT), optional=1, aliases=("~~*",)),
    _pattern("similar_to", (TEXT, TEXT, TEXT), optional=1),
    _pattern("matches", (TEXT, TEXT), aliases=("~",)),
    _pattern("matches_any_case", (TEXT, TEXT), aliases=("~*",)),
    _pattern("regexp_like", (TEXT, TEXT, TEXT), optional=1),
    _pattern("regexp_replace", (TEXT, TEXT, TEXT, TEXT), TEXT, optional=1),
    _pattern("regexp_match", (TEXT, TEXT, TEXT), TEXTS, optional=1),
    _pattern("regexp_matches_array", (TEXT, TEXT, TEXT), array_of(TEXTS), optional=1,
             kernel="regexp_matches"),
    _pattern("regexp_extract", (TEXT, TEXT, INTEGER), TEXT, optional=1),
    _pattern("regexp_count", (TEXT, TEXT, INTEGER, TEXT), INTEGER, optional=2),
    _pattern("regexp_substr", (TEXT, TEXT), TEXT),
    _pattern("regexp_instr", (TEXT, TEXT), INTEGER),
    _pattern("regexp_split_to_array", (TEXT, TEXT, TEXT), TEXTS, optional=1),
    _pattern("substring_regex", (TEXT, TEXT), TEXT, aliases=("substring",)),
    _pattern("substring_similar", (TEXT, TEXT, TEXT), TEXT, aliases=("substring",)),
)  # fmt: skip
