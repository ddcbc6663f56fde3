"""How many columns of a terminal a text takes."""

from __future__ import annotations


def width_of(text: str) -> int:
    """Columns that `text` takes; East Asian wide characters take two.

    >>> width_of("abc"), width_of("日本")
    (3, 4)
    """
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth, wcwidth

    total: int = wcswidth(text)
    if total >= 0:
        return total
    return sum(max(0, wcwidth(character)) for character in text)


def fit(text: str, width: int, *, right: bool = False) -> str:
    """`text` padded or cut (with …) to exactly `width` columns.

    >>> fit("abcdef", 4), fit("ab", 4), fit("ab", 4, right=True)
    ('abc…', 'ab  ', '  ab')
    """
    have = width_of(text)
    if have > width:
        text = _cut(text, width)
        have = width_of(text)
    padding = " " * (width - have)
    return padding + text if right else text + padding


def _cut(text: str, width: int) -> str:
    if width <= 0:
        return ""
    if text.isascii():
        return text[: width - 1] + "…"
    kept = ""
    for character in text:
        if width_of(kept + character) > width - 1:
            break
        kept += character
    return kept + "…"
