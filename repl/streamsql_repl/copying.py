"""COPY data between text and rows, for the embedded database (a server does its own)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from streamsql_repl.answer import Row

_TEXT_ESCAPES = str.maketrans(
    {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
)


def encode(options: Any, names: Sequence[str], batches: Iterator[list[Row]]) -> Iterator[bytes]:
    """Rows as COPY TO STDOUT writes them; options: a CopyOut (format text or csv)."""
    if options.header:
        names_row = tuple(names)
        yield _line(options, names_row).encode()
    for rows in batches:
        if rows:
            yield "".join(_line(options, row) for row in rows).encode()


def _line(options: Any, row: Row) -> str:
    if options.format == "csv":
        cells = [_csv_cell(options, value, alone=len(row) == 1) for value in row]
    else:
        cells = [_text_cell(options, value) for value in row]
    return options.delimiter.join(cells) + "\n"


def _text_cell(options: Any, value: str | None) -> str:
    if value is None:
        null: str = options.null
        return null
    escaped = value.translate(_TEXT_ESCAPES)
    if options.delimiter != "\t":
        escaped = escaped.replace(options.delimiter, "\\" + options.delimiter)
    return escaped


def _csv_cell(options: Any, value: str | None, *, alone: bool) -> str:
    if value is None:
        null: str = options.null
        return null
    quote = options.quote
    special = (options.delimiter, quote, "\n", "\r")
    if (
        value == options.null
        or any(mark in value for mark in special)
        or (alone and value == "\\.")
    ):
        return quote + value.replace(quote, quote * 2) + quote
    return value
