"""The format string of format(): %[position][flags][width]type."""

from __future__ import annotations

import re

Piece = str | tuple[int, str, int, bool]
"""Literal text, or (argument index, s | I | L, width, flush left)."""

_SPEC = re.compile(r"%(?:(\d+)\$)?(-?)(\d*)([a-zA-Z%])")


def pieces(pattern: str, arguments: int) -> tuple[list[Piece], str | None]:
    """The pieces, or an error message.

    >>> pieces("a %s", 1)
    (['a ', (0, 's', 0, False)], None)
    """
    found: list[Piece] = []
    at, following = 0, 0
    while at < len(pattern):
        percent = pattern.find("%", at)
        if percent < 0:
            found.append(pattern[at:])
            break
        if percent > at:
            found.append(pattern[at:percent])
        m = _SPEC.match(pattern, percent)
        if m is None:
            return [], "unterminated format() type specifier"
        at = m.end()
        if m[4] == "%":
            found.append("%")
            continue
        if m[4] not in "sIL":
            return [], f'unrecognized format() type specifier "{m[4]}"'
        index = int(m[1]) - 1 if m[1] else following
        following = index + 1
        if index < 0:
            return [], "format specifies argument 0, but arguments are numbered from 1"
        if index >= arguments:
            return [], "too few arguments for format()"
        found.append((index, m[4], int(m[3] or 0), m[2] == "-"))
    return found, None
