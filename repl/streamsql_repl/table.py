"""Rows as text: aligned tables that fit the terminal, or one value a line (expanded)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streamsql_repl.answer import Column, Row
from streamsql_repl.width import fit, width_of

NULL_TEXT = "NULL"
_SEPARATOR = " │ "
_CONTROL = {ord("\n"): "↵", ord("\r"): "␍", ord("\t"): "→"} | {
    code: f"\\x{code:02x}" for code in (*range(9), 11, 12, *range(14, 32), 127)
}
MIN_WIDTH = 5
"""A column is never cut narrower than this; if even that does not fit, rows are shown expanded."""


@dataclass(frozen=True)
class Layout:
    """Widths of the columns of one result; kept for all of its batches."""

    columns: tuple[Column, ...]
    widths: tuple[int, ...]


def cell_text(value: str | None) -> str:
    """A value as it is shown: NULL visible, control characters as one sign each."""
    if value is None:
        return NULL_TEXT
    return value if value.isprintable() else value.translate(_CONTROL)


def layout_of(
    columns: tuple[Column, ...], rows: Sequence[Row], terminal_width: int | None
) -> Layout | None:
    """Widths that show `rows`; None if they can't fit and should be shown expanded.

    terminal_width: None = no limit (a pipe or a file).
    """
    widths = [width_of(cell_text(column.name)) for column in columns]
    for index in range(len(columns)):
        for row in rows:
            widths[index] = max(widths[index], width_of(cell_text(row[index])))
    if terminal_width is not None:
        room = terminal_width - 2 - len(_SEPARATOR) * (len(columns) - 1)
        if sum(widths) > room:
            fitted = shrink(widths, room)
            if fitted is None:
                return None
            widths = fitted
    return Layout(columns, tuple(widths))


def shrink(widths: Sequence[int], room: int) -> list[int] | None:
    """Cut the widest columns until all fit; None if they don't even at their least width.

    >>> shrink([3, 50, 20], 40)
    [3, 19, 18]
    """
    least = [min(width, MIN_WIDTH) for width in widths]
    if sum(least) > room:
        return None
    low, high = 0, max(widths)
    while low < high:  # the greatest width that columns may be cut to
        middle = (low + high + 1) // 2
        if sum(max(a, min(w, middle)) for w, a in zip(widths, least, strict=True)) <= room:
            low = middle
        else:
            high = middle - 1
    found = [max(a, min(w, low)) for w, a in zip(widths, least, strict=True)]
    spare = room - sum(found)
    for index, width in enumerate(widths):  # what is left over goes to the first that want it
        if spare and found[index] < width:
            found[index] += 1
            spare -= 1
    return found


def header_lines(layout: Layout) -> list[str]:
    """The names and the rule under them."""
    names = [
        fit(cell_text(column.name), width, right=column.numeric)
        for column, width in zip(layout.columns, layout.widths, strict=True)
    ]
    rule = "─┼─".join("─" * width for width in layout.widths)
    return [f" {_SEPARATOR.join(names)}".rstrip(), f"─{rule}─"]


def row_lines(layout: Layout, rows: Sequence[Row]) -> Iterator[str]:
    """One line a row."""
    facts = list(zip(layout.columns, layout.widths, strict=True))
    for row in rows:
        cells = [
            fit(cell_text(value), width, right=column.numeric)
            for value, (column, width) in zip(row, facts, strict=True)
        ]
        yield f" {_SEPARATOR.join(cells)}".rstrip()


def expanded_lines(
    columns: tuple[Column, ...], rows: Sequence[Row], first: int, terminal_width: int | None
) -> Iterator[str]:
    """One line a value; `first` is the number of the first row (1-based)."""
    name_width = max((width_of(cell_text(column.name)) for column in columns), default=0)
    for number, row in enumerate(rows, first):
        title = f"─[ RECORD {number} ]"
        yield title + "─" * max(0, name_width + 2 - len(title)) + "┬─"
        for column, value in zip(columns, row, strict=True):
            text = cell_text(value)
            if terminal_width is not None:
                room = max(MIN_WIDTH, terminal_width - name_width - len(_SEPARATOR) - 1)
                if width_of(text) > room:
                    text = fit(text, room)
            yield f" {fit(cell_text(column.name), name_width)}{_SEPARATOR}{text}".rstrip()


def footer(count: int) -> str:
    """(n rows)."""
    return f"({count} row{'' if count == 1 else 's'})"
