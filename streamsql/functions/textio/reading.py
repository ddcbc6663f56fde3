"""Reading columns of text: PostgreSQL's input functions, vectorised.

Each type has a fast way for the spellings machines write, decided by one test over the whole
column (or a mask), and the slow reader of `scalar_input.py` for each *distinct* other value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.errors import StreamSqlError
from streamsql.core.types import TIMESTAMP, Kind, SqlType
from streamsql.functions.compute.columns import flat
from streamsql.functions.literals import arrow_value
from streamsql.functions.textio import json_column
from streamsql.functions.textio.scalar_input import parse_value

Fail = Callable[[Any, type[StreamSqlError], "str | Callable[[int], str]", "str | None"], None]
"""(bad rows as a mask, error class, message by row, detail): as `KernelCall.fail`."""


def parse_text(text: Any, t: SqlType, timezone: str = "UTC") -> pa.Array:
    """The column of `t.arrow` that the texts mean; NULL stays NULL.

    Raises: the first bad value's error: 22P02, 22003, 22007, 22008, 22001.
    """
    failures: list[tuple[int, StreamSqlError]] = []

    def fail(rows: Any, error: type[StreamSqlError], message: Any, detail: str | None) -> None:
        row = int(np.flatnonzero(rows)[0])
        made = error(message if isinstance(message, str) else message(row), detail=detail)
        failures.append((row, made))

    result = read_column(flat(text), t, timezone, fail)
    if failures:
        raise min(failures, key=lambda f: f[0])[1]
    return result


def read_column(text: pa.Array, t: SqlType, timezone: str, fail: Fail) -> pa.Array:
    """As `parse_text`, but bad rows are told to `fail` and NULL in the result."""
    if not len(text):
        return pa.array([], t.arrow)
    if t.kind in (Kind.TEXT, Kind.UNKNOWN) or (t.kind is Kind.VARCHAR and t.length is None):
        return text
    if t.kind in (Kind.JSON, Kind.JSONB):
        return _json(text, t, timezone, fail)
    fast = _FAST.get(t.kind)
    if fast is not None:
        whole = fast(text, t)
        if whole is not None:
            return whole
    return _by_distinct(text, t, timezone, fail)


def _by_distinct(text: pa.Array, t: SqlType, timezone: str, fail: Fail) -> pa.Array:
    """The fast way for rows of a usual form, the slow reader for each distinct other text."""
    usual = _USUAL.get(t.kind)
    if usual is not None:
        mask = pc.fill_null(pc.match_substring_regex(text, usual), True)
        rest = pc.invert(mask)
        if pc.any(mask).as_py():
            blank = pa.scalar(None, pa.string())
            good = _FAST[t.kind](flat(pc.if_else(mask, text, blank)), t)
            if good is not None:
                others = _slow(flat(pc.if_else(rest, text, blank)), t, timezone, fail)
                return flat(pc.if_else(mask, good, others))
    return _slow(text, t, timezone, fail)


def _json(text: pa.Array, t: SqlType, timezone: str, fail: Fail) -> pa.Array:
    """Documents checked (json) or brought to normal form (jsonb) by the byte loop, the rest one by
    one."""
    done, hard = json_column.normalise(text)
    if t.kind is Kind.JSON:
        done = text
    if not hard.any():
        return done
    at = np.flatnonzero(hard)

    def told(rows: Any, error: type[StreamSqlError], message: Any, detail: str | None) -> None:
        bad = np.zeros(len(text), np.bool_)
        bad[at[rows]] = True
        place = {int(r): i for i, r in enumerate(at)}
        fail(bad, error, lambda row: message(place[row]), detail)

    others = _slow(json_column.hard_rows(text, hard), t, timezone, told)
    return json_column.merged(done, hard, others)


def _slow(text: pa.Array, t: SqlType, timezone: str, fail: Fail) -> pa.Array:
    encoded = flat(text.dictionary_encode())
    read: list[Any] = []
    bad: dict[int, StreamSqlError] = {}
    for i, word in enumerate(encoded.dictionary.to_pylist()):
        try:
            read.append(None if word is None else arrow_value(parse_value(word, t, timezone), t))
        except StreamSqlError as e:
            bad[i] = e
            read.append(None)
    result = pa.array(read, t.arrow).take(encoded.indices)
    if bad:
        _report(encoded.indices, bad, fail)
    return result


def _report(indices: pa.Array, bad: dict[int, StreamSqlError], fail: Fail) -> None:
    codes = np.asarray(indices.fill_null(-1))
    for error in {(type(e), e.detail) for e in bad.values()}:
        ours = {i: e for i, e in bad.items() if (type(e), e.detail) == error}
        rows = np.isin(codes, list(ours))
        fail(rows, error[0], lambda row, ours=ours: ours[int(codes[row])].message, error[1])  # type: ignore[misc]


def _cast(text: pa.Array, t: SqlType) -> pa.Array | None:
    try:
        return text.cast(t.arrow)
    except pa.ArrowInvalid:
        return None


_BOOLEAN_WORDS = {
    "t": True, "f": False, "true": True, "false": False, "1": True, "0": False, "y": True,
    "n": False, "yes": True, "no": False, "on": True, "off": False,
}  # fmt: skip


def _boolean(text: pa.Array, t: SqlType) -> pa.Array | None:
    words = pa.array(list(_BOOLEAN_WORDS))
    found = pc.index_in(text, value_set=words, skip_nulls=True)
    if found.null_count != text.null_count:
        return None
    return pa.array(list(_BOOLEAN_WORDS.values())).take(found)


def _float(text: pa.Array, t: SqlType) -> pa.Array | None:
    read = _cast(text, t)
    if read is None:
        return None
    # Arrow makes inf of what is too large and 0 of what is too small; words give inf, too
    if pc.any(pc.is_inf(read), min_count=0).as_py():
        return None
    if pc.any(pc.equal(read, pa.scalar(0, read.type)), min_count=0).as_py():
        zeros = text.filter(pc.fill_null(pc.equal(read, pa.scalar(0, read.type)), False))
        if pc.any(pc.match_substring_regex(zeros, "^[^eE]*[1-9]"), min_count=0).as_py():
            return None
    return read


def _numeric(text: pa.Array, t: SqlType) -> pa.Array | None:
    """Plain decimals whose digits all fit; others take the slow way."""
    precision, scale = t.storage_precision_scale
    whole = precision - scale
    if whole < 1:
        return None
    pattern = (
        f"^-?[0-9]{{1,{whole}}}(?:\\.[0-9]{{1,{scale}}})?$"
        if scale
        else (f"^-?[0-9]{{1,{whole}}}$")
    )
    if not pc.all(pc.match_substring_regex(text, pattern), min_count=0).as_py():
        return None
    return _cast(text, t)


def _date(text: pa.Array, t: SqlType) -> pa.Array | None:
    if not pc.all(pc.match_substring_regex(text, _ISO_DATE), min_count=0).as_py():
        return None
    return _cast(text, t)


def _time(text: pa.Array, t: SqlType) -> pa.Array | None:
    if not pc.all(pc.match_substring_regex(text, _ISO_TIME), min_count=0).as_py():
        return None
    # Arrow reads times only as part of a timestamp
    read = _cast(flat(pc.binary_join_element_wise("1970-01-01 ", text, "")), TIMESTAMP)
    return None if read is None else read.cast(t.arrow)


def _timestamp(text: pa.Array, t: SqlType) -> pa.Array | None:
    if not pc.all(pc.match_substring_regex(text, _ISO_TIMESTAMP), min_count=0).as_py():
        return None
    return _cast(text, t)


def _timestamptz(text: pa.Array, t: SqlType) -> pa.Array | None:
    if not pc.all(pc.match_substring_regex(text, _ISO_TIMESTAMPTZ), min_count=0).as_py():
        return None
    # Arrow wants four digits in the offset where PostgreSQL writes two
    full = pc.replace_substring_regex(text, "([+-][0-9][0-9])$", r"\1:00")
    return _cast(full, t)


def _uuid(text: pa.Array, t: SqlType) -> pa.Array | None:
    pattern = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
    if pc.all(pc.match_substring_regex(text, pattern), min_count=0).as_py():
        return text
    return None


def _varchar(text: pa.Array, t: SqlType) -> pa.Array | None:
    longest = pc.max(pc.utf8_length(text)).as_py()
    return text if longest is None or longest <= (t.length or 0) else None


_ISO_DATE = "^[0-9]{4}-[01][0-9]-[0-3][0-9]$"
_ISO_TIME = "^[0-2][0-9]:[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?$"
_ISO_TIMESTAMP = (
    "^[0-9]{4}-[01][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?$"
)
_ISO_TIMESTAMPTZ = _ISO_TIMESTAMP[:-1] + "(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)$"

_FAST: dict[Kind, Callable[[pa.Array, SqlType], pa.Array | None]] = {
    Kind.BOOLEAN: _boolean,
    Kind.SMALLINT: _cast,
    Kind.INTEGER: _cast,
    Kind.BIGINT: _cast,
    Kind.REAL: _float,
    Kind.DOUBLE: _float,
    Kind.NUMERIC: _numeric,
    Kind.DATE: _date,
    Kind.TIME: _time,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIMESTAMPTZ: _timestamptz,
    Kind.UUID: _uuid,
    Kind.VARCHAR: _varchar,
}
_USUAL: dict[Kind, str] = {
    Kind.SMALLINT: "^-?[0-9]{1,4}$",
    Kind.INTEGER: "^-?[0-9]{1,9}$",
    Kind.BIGINT: "^-?[0-9]{1,18}$",
    Kind.DOUBLE: "^-?[1-9][0-9]{0,14}(?:\\.[0-9]{1,15})?$",
    Kind.NUMERIC: "^-?[0-9]{1,9}(?:\\.[0-9]{1,2})?$",
    Kind.TIMESTAMP: "^[0-9]{4}-0[1-9]-(?:0[1-9]|1[0-9]|2[0-8])[ T][01][0-9]:[0-5][0-9]:"
    "[0-5][0-9](?:\\.[0-9]{1,6})?$",
}
