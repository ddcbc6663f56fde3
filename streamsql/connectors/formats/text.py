"""Cutting bytes into records: line feeds, quotes, blank lines, broken UTF-8. All by numpy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.connectors.formats.base import Int64Array

_LF, _CR, _SPACE = 10, 13, 32
BOM = b"\xef\xbb\xbf"


def line_ends(data: bytes) -> Int64Array:
    """int64 [lines]: the offset behind each line feed.

    >>> line_ends(b"a\\nbc\\nd").tolist()
    [2, 5]
    """
    found = np.flatnonzero(np.frombuffer(data, np.uint8) == _LF)
    return found.astype(np.int64) + 1


def quoted_line_ends(data: bytes, quote: int) -> Int64Array:
    """As `line_ends`, without the line feeds inside quotes (a doubled quote counts twice, so parity
    is all that is needed).

    >>> quoted_line_ends(b'a,"x\\ny"\\nb\\n', ord('"')).tolist()
    [8, 10]
    """
    ends = line_ends(data)
    quotes = np.flatnonzero(np.frombuffer(data, np.uint8) == quote)
    if not len(quotes):
        return ends
    inside = np.searchsorted(quotes, ends) % 2 == 1
    return ends[~inside]


def starts_of(ends: Int64Array) -> Int64Array:
    """int64 [records]: where each record starts."""
    starts = np.empty_like(ends)
    if len(ends):
        starts[0] = 0
        starts[1:] = ends[:-1]
    return starts


def filled_records(data: bytes, ends: Int64Array) -> Int64Array:
    """int64: numbers of the records that are not blank (empty, or only a carriage return)."""
    if not len(ends):
        return np.empty(0, np.int64)
    starts = starts_of(ends)
    length = ends - starts
    view = np.frombuffer(data, np.uint8)
    blank = length <= 1
    two = length == 2
    first = view[np.minimum(starts, len(view) - 1)]
    blank |= two & ((first == _CR) | (first == _SPACE))
    blank &= view[np.minimum(ends - 1, len(view) - 1)] == _LF
    return np.flatnonzero(~blank).astype(np.int64)


def invalid_utf8(data: bytes, ends: Int64Array) -> Int64Array:
    """int64: numbers of the records that are no UTF-8 or hold a zero byte (usually none)."""
    bad: list[int] = []
    if b"\x00" in data:
        zeros = np.flatnonzero(np.frombuffer(data, np.uint8) == 0)
        bad += np.searchsorted(ends, zeros, side="right").tolist()
    at = 0
    view = memoryview(data)
    while True:
        try:
            str(view[at:], "utf-8")
        except UnicodeDecodeError as error:
            record = int(np.searchsorted(ends, at + error.start, side="right"))
            bad.append(record)
            if record >= len(ends):
                break
            at = int(ends[record])
            continue
        break
    return np.unique(np.array(bad, np.int64))


def record_texts(data: bytes, ends: Int64Array, records: Int64Array) -> pa.Array:
    """string [records]: the text of these records with their line feeds. No copy when it is all of
    them; the bytes must be valid UTF-8."""
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    everything = pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(data))
    return everything if len(records) == len(ends) else everything.take(pa.array(records))


def record_text(data: bytes, ends: Int64Array, record: int) -> str:
    """One record for a message: no line end, broken bytes replaced."""
    start = int(ends[record - 1]) if record else 0
    return data[start : int(ends[record])].decode("utf-8", "replace").rstrip("\r\n")


def without(records: Int64Array, gone: Int64Array) -> Int64Array:
    """The records that are not in `gone`."""
    return records if not len(gone) else records[~np.isin(records, gone)]


def bool_mask(column: pa.Array) -> npt.NDArray[np.bool_]:
    """A boolean column as numpy, NULL = False."""
    return np.asarray(column.fill_null(False)).astype(np.bool_)
