"""COPY text and csv: blocks of lines to columns of strings, by Arrow's csv reader.

The reader splits lines and fields; PostgreSQL's escapes, which it does not know, are hidden from it
before and put back afterwards, for whole columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from streamsql.core.errors import BadCopyFileFormat, CharacterNotInRepertoire

# A NUL can be in no text value, so it can stand for what the reader must not see.
_BACKSLASH, _DELIMITER, _NEWLINE = b"\0A", b"\0B", b"\0C"
_SIMPLE = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_NUMERIC = re.compile(r"\\([0-7]{1,3}|x[0-9A-Fa-f]{1,2})")
END_OF_DATA = b"\\."


@dataclass(frozen=True)
class Dialect:
    """The options of COPY that say how lines are written."""

    csv: bool
    delimiter: str
    null: str
    quote: str = '"'
    escape: str = '"'


def split_block(data: bytes, dialect: Dialect, *, last: bool) -> tuple[bytes, bytes]:
    """(whole lines, the rest): the longest prefix that ends with a row."""
    if last:
        return data, b""
    cut = data.rfind(b"\n") + 1
    if dialect.csv and cut:
        quote = dialect.quote.encode()
        if dialect.escape != dialect.quote or data.count(quote, 0, cut) % 2:
            return b"", data  # a newline inside of quotes can not be told apart here
    return data[:cut], data[cut:]


def strip_end(data: bytes) -> bytes:
    """Without the line `\\.` that may end the data."""
    for ending in (b"\n", b"\r\n", b""):
        tail = END_OF_DATA + ending
        if data.endswith(tail) and (len(data) == len(tail) or data[-len(tail) - 1] == 0x0A):
            return data[: -len(tail)]
    return data


def read_block(
    data: bytes, names: list[str], dialect: Dialect, table: str, first_line: int
) -> pa.Table:
    """Whole lines as a table of string columns c0, c1, … (NULL where the null text stands).

    Raises: BadCopyFileFormat (22P04), CharacterNotInRepertoire (22021).
    """
    fields = [f"c{i}" for i in range(len(names))]
    if not data:
        return pa.table({f: pa.array([], pa.string()) for f in fields})
    if not dialect.csv and len(names) > 1 and (data[:1] == b"\n" or b"\n\n" in data):
        line = first_line + (
            0 if data[:1] == b"\n" else data[: data.index(b"\n\n")].count(b"\n") + 1
        )
        raise wrong_width(table, names, line, 0 if names[0] == "" else 1, "")
    if dialect.csv and dialect.escape == dialect.quote and data.count(dialect.quote.encode()) % 2:
        line = first_line + data.rstrip(b"\n").count(b"\n")
        raise BadCopyFileFormat(
            "unterminated CSV quoted field", detail=f"COPY {table}, line {line}"
        )
    given = data
    escaped = not dialect.csv and _has_escapes(data, dialect)
    if escaped:
        data = _hide(data, dialect)
    bad: list[tuple[int, int, str]] = []

    def keep_error(row: csv.InvalidRow) -> str:
        bad.append((row.number or 0, row.actual_columns, row.text))
        return "skip"

    quote: str | bool = dialect.quote if dialect.csv else False
    same = dialect.escape == dialect.quote
    try:
        found = csv.read_csv(
            pa.py_buffer(data),
            read_options=csv.ReadOptions(
                column_names=fields, use_threads=False, block_size=max(len(data) + 1, 1 << 20)
            ),
            parse_options=csv.ParseOptions(
                delimiter=dialect.delimiter,
                quote_char=quote,
                double_quote=dialect.csv and same,
                escape_char=dialect.escape if dialect.csv and not same else False,
                newlines_in_values=dialect.csv,
                ignore_empty_lines=False,
                invalid_row_handler=keep_error,
            ),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(fields, pa.string()),
                null_values=[dialect.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise _reader_error(error, given, table, first_line) from error
    if bad:
        number, actual, text = bad[0]
        raise wrong_width(table, names, first_line + max(number - 1, 0), actual, text)
    if escaped:
        place = f"COPY {table}", first_line
        columns = [_unescaped(c.combine_chunks(), dialect, place) for c in found.columns]
        found = pa.table(dict(zip(fields, columns, strict=True)))
    return found


def _has_escapes(data: bytes, dialect: Dialect) -> bool:
    null = dialect.null.encode()
    return data.count(b"\\") != (data.count(null) if b"\\" in null else 0)


def _hide(data: bytes, dialect: Dialect) -> bytes:
    """Escaped backslashes, delimiters and newlines become marks without meaning."""
    data = data.replace(b"\\\\", _BACKSLASH)
    data = data.replace(b"\\" + dialect.delimiter.encode(), _DELIMITER)
    return data.replace(b"\\\n", _NEWLINE)


def _unescaped(column: pa.Array, dialect: Dialect, place: tuple[str, int]) -> pa.Array:
    """A column with PostgreSQL's escapes replaced by what they stand for. place: for messages,
    what is read and the line of the first row."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    backslash = pc.fill_null(pc.match_substring(column, "\\"), False)
    if pc.any(backslash).as_py():
        column = _numeric_escapes(column, np.asarray(backslash), place)
        for letter, value in _SIMPLE.items():
            column = pc.replace_substring(column, "\\" + letter, value)
        column = pc.replace_substring_regex(column, r"\\(.)", r"\1")
    for mark, value in (
        (_DELIMITER, dialect.delimiter),
        (_NEWLINE, "\n"),
        (_BACKSLASH, "\\"),
    ):
        column = pc.replace_substring(column, mark.decode(), value)
    return column


def _numeric_escapes(column: pa.Array, candidates: np.ndarray, place: tuple[str, int]) -> pa.Array:
    """\\101 and \\x41: rare, so only the rows that have them are looked at one by one."""
    rows = np.flatnonzero(candidates)
    texts = column.take(pa.array(rows))
    hits = np.asarray(pc.match_substring_regex(texts, _NUMERIC.pattern))
    if not hits.any():
        return column
    values = column.to_pylist()
    for row in rows[hits].tolist():
        raw = _NUMERIC.sub(lambda m: chr(_code(m[1])), values[row])
        values[row] = _as_utf8(raw, f"{place[0]}, line {place[1] + row}")
    return pa.array(values, pa.string())


def _code(text: str) -> int:
    return int(text[1:], 16) if text[0] == "x" else int(text, 8) & 0xFF


def _as_utf8(text: str, place: str) -> str:
    """Numeric escapes are bytes: neighbouring ones may be one character."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeEncodeError:
        return text
    except UnicodeDecodeError as error:
        raise _not_utf8(error.object[error.start], place) from None


def _not_utf8(byte: int, place: str) -> CharacterNotInRepertoire:
    return CharacterNotInRepertoire(
        f'invalid byte sequence for encoding "UTF8": 0x{byte:02x}', detail=place
    )


def _reader_error(error: Exception, data: bytes, table: str, first_line: int) -> Exception:
    try:
        data.decode()
    except UnicodeDecodeError as bad:
        line = first_line + data.count(b"\n", 0, bad.start)
        return _not_utf8(data[bad.start], f"COPY {table}, line {line}")
    return BadCopyFileFormat(str(error).split("\n", maxsplit=1)[0], detail=f"COPY {table}")


def wrong_width(
    table: str, names: list[str], line: int, actual: int, text: str
) -> BadCopyFileFormat:
    """A line with too few or too many fields."""
    place = f'COPY {table}, line {line}: "{text}"'
    if actual < len(names):
        return BadCopyFileFormat(f'missing data for column "{names[actual]}"', detail=place)
    return BadCopyFileFormat("extra data after last expected column", detail=place)
