"""The exercises that compile the kernels of functions; see `kernels.warmup`.

A kernel that the first INSERT had to compile would keep every writer waiting for seconds.
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial

import pyarrow as pa

from streamsql.core import types as t
from streamsql.core.schema import Schema
from streamsql.functions.evaluator import Evaluator
from streamsql.functions.expressions import Expr, Literal, column
from streamsql.functions.resolve import resolve_call
from streamsql.functions.textio.output import to_text
from streamsql.kernels.warmup import Exercise

_COLUMNS = (
    ("v", t.numeric(12, 3), Decimal("1.5")), ("q", t.numeric(10, 2), Decimal("2.5")),
    ("n", t.INTEGER, 2), ("k", t.TEXT, "ab"), ("at", t.TIMESTAMP, 1), ("d", t.DATE, 1),
    ("j", t.JSONB, '{"a": 1}'), ("x", t.DOUBLE, 0.5),
)  # fmt: skip
_CALLS: dict[str, tuple[tuple[str, tuple[object, ...]], ...]] = {
    "dates and JSON": (
        ("date_trunc", ("'hour'", "at")), ("extract", ("'year'", "d")), ("->>", ("j", "'a'")),
        ("->", ("j", "'a'")), ("jsonb_sort_key", ("j",)),
    ),
    "texts": (
        ("||", ("k", "'-'")), ("substr", ("k", 1, 1)), ("upper", ("k",)), ("length", ("k",)),
        ("like", ("k", "'a%'")), ("split_part", ("k", "'b'", 1)),
    ),
    "decimals": (
        ("+", ("v", "q")), ("-", ("v", 1)), ("*", ("v", "q")), ("*", ("n", "v")),
        ("<", ("v", "q")), ("round", ("v", 1)), ("/", ("v", "q")),
    ),
}  # fmt: skip
"""Calls of columns, numbers and 'texts', by exercise."""


def _calls(calls: tuple[tuple[str, tuple[object, ...]], ...]) -> None:
    schema = Schema.of(*((name, type_) for name, type_, _ in _COLUMNS))
    arrays = [pa.array([value, None], type_.arrow) for _, type_, value in _COLUMNS]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)

    def argument(given: object) -> Expr:
        if isinstance(given, int):
            return Literal(value=given, type=t.INTEGER)
        text = str(given)
        if text.startswith("'"):
            return Literal(value=text.strip("'"), type=t.TEXT)
        index = schema.index(text)
        return column(index, schema[index].type)

    exprs = [resolve_call(name, [argument(a) for a in args], None) for name, args in calls]
    Evaluator(exprs, schema).run(batch, 0)


def _texts_of_values() -> None:
    """What a client reads of the common types."""
    samples = (
        (t.BIGINT, 1), (t.DOUBLE, 1.5), (t.numeric(12, 2), Decimal("1.50")), (t.NUMERIC, 2),
        (t.BOOLEAN, True), (t.DATE, 1), (t.TIMESTAMP, 1), (t.TIMESTAMPTZ, 1), (t.INTERVAL, None),
    )  # fmt: skip
    for type_, value in samples:
        to_text(pa.array([value, None], type_.arrow), type_)


EXERCISES: tuple[Exercise, ...] = (
    ("texts of values", _texts_of_values),
    *((name, partial(_calls, calls)) for name, calls in _CALLS.items()),
)
