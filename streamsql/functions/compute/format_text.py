"""The format string of format(): %[position][flags][width]type."""

from __future__ import annotations

import re

Piece = str | tuple[int, str, int, bool, int | None]
"""Literal text, or (argument, s | I | L, width, flush left, argument that gives the width)."""

_SPEC = re.compile(r"%(?:(\d+)\$)?(-*)(\d+|\*(?:(\d+)\$)?)?(.)?", re.DOTALL)


def pieces(pattern: str, arguments: int) -> tuple[list[Piece], str | None]:
    """The pieces, or an error message.

    >>> pieces("a %s", 1)
    (['a ', (0, 's', 0, False, None)], None)
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
        if m is None or not m[5]:
            return [], "unterminated format() type specifier"
        at = m.end()
        if m[0] == "%%":
            found.append("%")
            continue
        width, width_from = 0, None
        if m[3] and m[3].startswith("*"):
            width_from = int(m[4]) - 1 if m[4] else following
            following = width_from + 1
        elif m[3]:
            width = int(m[3])
        index = int(m[1]) - 1 if m[1] else following
        following = index + 1
        if m[5] not in "sIL":
            return [], f'unrecognized format() type specifier "{m[5]}"'
        for place in (index, 0 if width_from is None else width_from):
            if place < 0:
                return [], "format specifies argument 0, but arguments are numbered from 1"
            if place >= arguments:
                return [], "too few arguments for format()"
        found.append((index, m[5], width, bool(m[2]), width_from))
    return found, None
