"""Kernels that count the matches of a regular expression, or take the n-th of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from streamsql.core.errors import InvalidParameterValue, StreamSqlError
from streamsql.functions.compute.grouped import by_value, constants
from streamsql.functions.compute.regex import Regex, compile_regex, python_replacement
from streamsql.functions.definitions import KernelCall


def _number(name: str, value: Any, default: int, least: int) -> int:
    """An optional integer argument. Raises: InvalidParameterValue (22023) below `least`."""
    number = default if value is None else value.as_py()
    if number < least:
        raise InvalidParameterValue(f'invalid value for parameter "{name}": {number}')
    return int(number)


def _compiled(function: str, pattern: pa.Scalar, flags: Any) -> Regex:
    options = "" if flags is None else str(flags.as_py())
    found = compile_regex(pattern.as_py(), options)
    if found.global_:
        raise InvalidParameterValue(f'{function}() does not support the "global" option')
    return found


def _nth(found: Regex, text: str, start: int, n: int) -> re.Match[str] | None:
    """The n-th match from character `start` (1 is the first) on."""
    if start > len(text) + 1:
        return None
    for i, match in enumerate(found.python.finditer(text, start - 1), 1):
        if i == n:
            return match
    return None


def _failing(t: pa.DataType) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: arguments that can not be, which are constants here, fail every row."""

    def decorate(kernel: Callable[..., Any]) -> Callable[..., Any]:
        def call(info: KernelCall, *args: Any) -> Any:
            try:
                return kernel(info, *args)
            except StreamSqlError as e:
                info.fail(True, type(e), e.message)
                return pa.scalar(None, t)

        return call

    return decorate


@constants(1, 2, 3)
@_failing(pa.int32())
def regexp_count(
    call: KernelCall, a: pa.Array, pattern: pa.Scalar, start: Any = None, flags: Any = None
) -> Any:
    """Matches from character `start` on."""
    first = _number("start", start, 1, 1)
    found = _compiled("regexp_count", pattern, flags)

    def count(text: str) -> int:
        if first > len(text) + 1:
            return 0
        return sum(1 for _ in found.python.finditer(text, first - 1))

    return by_value(a, count, pa.int32())


@constants(1, 2, 3, 4, 5, 6)
@_failing(pa.int32())
def regexp_instr(
    call: KernelCall,
    a: pa.Array,
    pattern: pa.Scalar,
    start: Any = None,
    n: Any = None,
    end: Any = None,
    flags: Any = None,
    group: Any = None,
) -> Any:
    """Where the n-th match (or its `group`) starts, with end 1 where it has ended; 0 if nowhere."""
    first, wanted = _number("start", start, 1, 1), _number("n", n, 1, 1)
    after = _number("endoption", end, 0, 0)
    if after > 1:
        raise InvalidParameterValue(f'invalid value for parameter "endoption": {after}')
    part = _number("subexpr", group, 0, 0)
    found = _compiled("regexp_instr", pattern, flags)

    def place(text: str) -> int:
        match = _nth(found, text, first, wanted)
        if match is None or part > found.groups:
            return 0
        at = match.end(part) if after else match.start(part)
        return at + 1

    return by_value(a, place, pa.int32())


@constants(1, 2, 3, 4, 5)
@_failing(pa.string())
def regexp_substr(
    call: KernelCall,
    a: pa.Array,
    pattern: pa.Scalar,
    start: Any = None,
    n: Any = None,
    flags: Any = None,
    group: Any = None,
) -> Any:
    """The n-th match, or a group of it; NULL if there is none."""
    first, wanted = _number("start", start, 1, 1), _number("n", n, 1, 1)
    part = _number("subexpr", group, 0, 0)
    found = _compiled("regexp_substr", pattern, flags)

    def cut(text: str) -> str | None:
        match = _nth(found, text, first, wanted)
        return None if match is None or part > found.groups else match[part]

    return by_value(a, cut, pa.string())


@constants(1, 2, 3, 4, 5)
@_failing(pa.string())
def regexp_replace_nth(
    call: KernelCall,
    a: pa.Array,
    pattern: pa.Scalar,
    new: pa.Scalar,
    start: pa.Scalar,
    n: Any = None,
    flags: Any = None,
) -> Any:
    """The n-th match from character `start` on replaced; every one if n is 0 (or only g is
    given)."""
    first = _number("start", start, 1, 1)
    wanted = _number("n", n, 1, 0)
    found = compile_regex(pattern.as_py(), "" if flags is None else str(flags.as_py()))
    replacement = python_replacement(new.as_py())

    def replaced(text: str) -> str:
        head, tail = text[: first - 1], text[first - 1 :]
        if wanted == 0:
            return head + found.python.sub(replacement, tail)
        match = _nth(found, text, first, wanted)
        if match is None:
            return text
        return text[: match.start()] + match.expand(replacement) + text[match.end() :]

    return by_value(a, replaced, pa.string())
