"""Kernels of LIKE, SIMILAR TO, and the regular expression functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.errors import (
    InvalidEscapeSequence,
    InvalidParameterValue,
    InvalidRegularExpression,
    StreamSqlError,
)
from streamsql.functions.compute.columns import flat
from streamsql.functions.compute.grouped import by_value, constants
from streamsql.functions.compute.regex import (
    Regex,
    compile_regex,
    like_pattern,
    like_regex,
    python_replacement,
    re2_replacement,
    similar_pattern,
)
from streamsql.functions.compute.texts import contains
from streamsql.functions.definitions import KernelCall

_NULL_BOOL = pa.scalar(None, pa.bool_())
_NULL_TEXT = pa.scalar(None, pa.string())
_TEXTS = pa.list_(pa.string())


def _escape_of(call: KernelCall, escape: Any) -> str | None:
    """The escape character; None after a failure."""
    text = "\\" if escape is None else escape.as_py()
    if len(text) > 1:
        call.fail(True, InvalidEscapeSequence, "invalid escape string")
        return None
    return str(text)


@constants(1, 2)
def like(call: KernelCall, a: pa.Array, pattern: pa.Scalar, escape: Any = None) -> Any:
    """LIKE."""
    character = _escape_of(call, escape)
    if character is None:
        return _NULL_BOOL
    found = like_pattern(pattern.as_py(), character)
    if found is None:
        return _unfinished(call, a, pattern.as_py()[: -len(character)], character, any_case=False)
    inner = found[1:-1]
    if found[:1] == found[-1:] == "%" and inner and not set(inner) & set("%_\\"):
        return contains(a, inner)
    return pc.match_like(a, found)


@constants(1, 2)
def ilike(call: KernelCall, a: pa.Array, pattern: pa.Scalar, escape: Any = None) -> Any:
    """ILIKE."""
    character = _escape_of(call, escape)
    if character is None:
        return _NULL_BOOL
    found = like_regex(pattern.as_py(), character)
    if found is None:
        return _unfinished(call, a, pattern.as_py()[: -len(character)], character, any_case=True)
    return pc.match_substring_regex(a, found, ignore_case=True)


def _unfinished(call: KernelCall, a: pa.Array, start: str, escape: str, *, any_case: bool) -> Any:
    """A pattern that ends with its escape: rows that reach the escape fail, others do not match."""
    ends_open = start.endswith("%") and not start.endswith(escape + "%")
    regex = like_regex(start if ends_open else start + "_%", escape)
    assert regex is not None
    reached = pc.match_substring_regex(a, regex, ignore_case=any_case)
    message = "LIKE pattern must not end with escape character"
    call.fail(reached, InvalidEscapeSequence, message)
    return pc.and_(reached, False)


@constants(1, 2)
def similar_to(call: KernelCall, a: pa.Array, pattern: pa.Scalar, escape: Any = None) -> Any:
    """SIMILAR TO."""
    character = _escape_of(call, escape)
    if character is None:
        return _NULL_BOOL
    return _matches(call, a, similar_pattern(pattern.as_py(), character), "")


def _regex(call: KernelCall, pattern: str, flags: str) -> Regex | None:
    """The compiled pattern; a bad one fails every row."""
    try:
        return compile_regex(pattern, flags)
    except StreamSqlError as e:
        call.fail(True, type(e), e.message)
        return None


def _matches(call: KernelCall, a: pa.Array, pattern: str, flags: str) -> Any:
    found = _regex(call, pattern, flags)
    if found is None:
        return _NULL_BOOL
    if found.re2 is not None:
        try:
            return pc.match_substring_regex(a, found.re2)
        except pa.ArrowInvalid as e:
            return _refused(call, e, pa.bool_())
    return by_value(a, lambda s: found.python.search(s) is not None, pa.bool_())


def _refused(call: KernelCall, error: Exception, t: pa.DataType) -> pa.Scalar:
    text = str(error).removeprefix("Invalid regular expression: ")
    call.fail(True, InvalidRegularExpression, f"invalid regular expression: {text}")
    return pa.scalar(None, t)


@constants(1)
def matches(call: KernelCall, a: pa.Array, pattern: pa.Scalar) -> Any:
    """~"""
    return _matches(call, a, pattern.as_py(), "")


@constants(1)
def matches_any_case(call: KernelCall, a: pa.Array, pattern: pa.Scalar) -> Any:
    """~*"""
    return _matches(call, a, pattern.as_py(), "i")


@constants(1, 2)
def regexp_like(call: KernelCall, a: pa.Array, pattern: pa.Scalar, flags: Any = None) -> Any:
    """regexp_like."""
    if "g" in _flags(flags):
        message = 'regexp_like() does not support the "global" option'
        call.fail(True, InvalidParameterValue, message)
        return _NULL_BOOL
    return _matches(call, a, pattern.as_py(), _flags(flags))


def _flags(flags: Any) -> str:
    return "" if flags is None else str(flags.as_py())


@constants(1, 2, 3)
def regexp_replace(
    call: KernelCall, a: pa.Array, pattern: pa.Scalar, new: pa.Scalar, flags: Any = None
) -> Any:
    """regexp_replace: the first match, all with flag g."""
    found = _regex(call, pattern.as_py(), _flags(flags))
    if found is None:
        return _NULL_TEXT
    limit = -1 if found.global_ else 1
    if found.re2 is not None:
        try:
            return pc.replace_substring_regex(
                a, found.re2, re2_replacement(new.as_py()),
                max_replacements=None if found.global_ else 1,
            )  # fmt: skip
        except pa.ArrowInvalid as e:
            return _refused(call, e, pa.string())
    replacement = python_replacement(new.as_py())
    count = 0 if limit < 0 else 1
    return by_value(a, lambda s: found.python.sub(replacement, s, count=count), pa.string())


def _groups(call: KernelCall, a: pa.Array, found: Regex) -> tuple[list[pa.Array], Any] | None:
    """(columns of the groups of the first match, or of the whole match without groups; matched
    rows).

    RE2 gives '' for a group that took no part; PostgreSQL NULL, so patterns with optional groups
    are for Python.
    """
    if found.re2 is None or "?" in found.source or "|" in found.source or "{0" in found.source:
        return None
    if "*)" in found.source or ")*" in found.source:
        return None
    pattern = found.re2 if found.groups else f"(?P<g0>{found.re2})"
    try:
        structs = flat(pc.extract_regex(a, pattern))
    except pa.ArrowInvalid as e:
        _refused(call, e, pa.string())
        return [], None
    matched = np.asarray(structs.is_valid())
    return [structs.field(i) for i in range(structs.type.num_fields)], matched


@constants(1, 2)
def regexp_match(call: KernelCall, a: pa.Array, pattern: pa.Scalar, flags: Any = None) -> Any:
    """regexp_match: the groups of the first match as an array, NULL without a match."""
    found = _regex(call, pattern.as_py(), _flags(flags))
    if found is None:
        return pa.scalar(None, _TEXTS)
    if found.global_:
        message = 'regexp_match() does not support the "global" option'
        call.fail(True, InvalidParameterValue, message)
        return pa.scalar(None, _TEXTS)

    def one(text: str) -> list[str | None] | None:
        m = found.python.search(text)
        if m is None:
            return None
        return list(m.groups()) if found.groups else [m[0]]

    return by_value(a, one, _TEXTS)


@constants(1, 2)
def regexp_matches(call: KernelCall, a: pa.Array, pattern: pa.Scalar, flags: Any = None) -> Any:
    """regexp_matches: an array of the matches' arrays; only the first without flag g."""
    found = _regex(call, pattern.as_py(), _flags(flags))
    if found is None:
        return pa.scalar(None, pa.list_(_TEXTS))

    def every(text: str) -> list[list[str | None]]:
        all_: list[list[str | None]] = [
            list(m.groups()) if found.groups else [m[0]] for m in found.python.finditer(text)
        ]
        return all_ if found.global_ else all_[:1]

    return by_value(a, every, pa.list_(_TEXTS))


@constants(1)
def substring_regex(call: KernelCall, a: pa.Array, pattern: pa.Scalar) -> Any:
    """substring(text from pattern): the first group, or the whole match."""
    found = _regex(call, pattern.as_py(), "")
    if found is None:
        return _NULL_TEXT
    taken = _groups(call, a, found)
    if taken is None:
        return by_value(a, lambda s: _first(found, s), pa.string())
    return _of_matched(taken, 0)


def _of_matched(taken: tuple[list[pa.Array], Any], index: int) -> Any:
    columns, matched = taken
    if matched is None:
        return _NULL_TEXT
    from streamsql.functions.compute.columns import from_bools

    return pc.if_else(from_bools(matched), columns[index], _NULL_TEXT)


def _first(found: Regex, text: str) -> str | None:
    m = found.python.search(text)
    if m is None:
        return None
    return m[1] if found.groups else m[0]


@constants(1, 2)
def substring_similar(call: KernelCall, a: pa.Array, pattern: pa.Scalar, escape: pa.Scalar) -> Any:
    """SUBSTRING(text SIMILAR pattern ESCAPE e): the part between escape-double-quotes."""
    mark = escape.as_py() + '"'
    parts = pattern.as_py().split(mark)
    if len(parts) not in (1, 3):
        message = (
            "SQL regular expression may not contain more than two escape-double-quote separators"
        )
        call.fail(True, InvalidParameterValue, message)
        return _NULL_TEXT
    bodies = [similar_pattern(p, escape.as_py())[1:-1] for p in parts]
    if len(bodies) == 1:
        bodies = ["", bodies[0], ""]
    import re

    compiled = re.compile(f"^{bodies[0]}({bodies[1]}){bodies[2]}$", re.DOTALL)

    def one(text: str) -> str | None:
        m = compiled.search(text)
        return None if m is None else m[1]

    return by_value(a, one, pa.string())


@constants(1, 2)
def regexp_extract(call: KernelCall, a: pa.Array, pattern: pa.Scalar, index: Any = None) -> Any:
    """Flink's REGEXP_EXTRACT: group `index` (0 = whole match); NULL without a match."""
    found = _regex(call, pattern.as_py(), "")
    number = 0 if index is None else index.as_py()
    if found is None or not 0 <= number <= found.groups:
        return _NULL_TEXT
    if found.re2 is None:
        return by_value(a, lambda s: _group(found, s, number), pa.string())
    wrapped = found.re2 if number else f"(?P<g0>{found.re2})"
    literal = required_literal(found.source)
    try:
        if literal and len(a) > 64:  # a substring search rules most rows out before RE2 runs
            hit = pc.fill_null(contains(a, literal), False)
            part = flat(pc.extract_regex(a.filter(hit), wrapped))
            return flat(
                pc.replace_with_mask(pa.nulls(len(a), pa.string()), hit, _extracted(part, number))
            )
        return _extracted(flat(pc.extract_regex(a, wrapped)), number)
    except pa.ArrowInvalid as e:
        return _refused(call, e, pa.string())


def _extracted(structs: pa.Array, number: int) -> pa.Array:
    group = structs.field(max(number - 1, 0))
    if not structs.null_count:
        return group
    return flat(pc.if_else(structs.is_valid(), group, _NULL_TEXT))


def _group(found: Regex, text: str, number: int) -> str | None:
    m = found.python.search(text)
    return None if m is None else m[number]


def required_literal(pattern: str) -> str | None:
    """A text of three or more plain characters at the top level that every match must hold.

    >>> required_literal("(&|^)channel_id=([^&]*)")
    'channel_id='
    """
    if "|" in _top_level(pattern):
        return None
    runs: list[str] = []
    run = ""
    body = _top_level(pattern)
    for i, c in enumerate(body):
        following = body[i + 1 : i + 2]
        plain = c.isalnum() or c in "_=/:&-, "
        if plain and following not in ("*", "?", "{", "+"):
            run += c
        else:
            runs.append(run)
            run = ""
    runs.append(run)
    best = max(runs, key=len)
    return best if len(best) >= 3 else None


def _top_level(pattern: str) -> str:
    """The pattern with groups, classes and escapes as a single dot."""
    out: list[str] = []
    depth = 0
    i = 0
    while i < len(pattern):
        c = pattern[i]
        if c == "\\":
            out.append("." if depth == 0 else "")
            i += 2
            continue
        if c == "[":
            end = pattern.find("]", i + 2)
            if depth == 0:
                out.append(".")
            i = (end if end > 0 else len(pattern)) + 1
            continue
        if c == "(":
            depth += 1
            if depth == 1:
                out.append(".")
        elif c == ")":
            depth -= 1
        elif depth == 0:
            out.append(c)
        i += 1
    return "".join(out)


@constants(1, 2)
def regexp_split_to_array(
    call: KernelCall, a: pa.Array, pattern: pa.Scalar, flags: Any = None
) -> Any:
    """The texts between matches."""
    found = _regex(call, pattern.as_py(), _flags(flags))
    if found is None:
        return pa.scalar(None, _TEXTS)

    def split(text: str) -> list[str]:
        parts: list[str] = []
        last = 0
        for m in found.python.finditer(text):
            if m.end() == m.start() and m.start() in (0, len(text)):
                continue
            parts.append(text[last : m.start()])
            last = m.end()
        return [*parts, text[last:]]

    return by_value(a, split, _TEXTS)
