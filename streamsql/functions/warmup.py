"""The exercises that compile the kernels of functions; see `kernels.warmup`."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from streamsql.core import types as t
from streamsql.functions.textio.output import to_text
from streamsql.kernels.warmup import Exercise


def _texts() -> None:
    """What a client reads of the common types."""
    samples = (
        (t.BIGINT, 1), (t.DOUBLE, 1.5), (t.numeric(12, 2), Decimal("1.50")), (t.NUMERIC, 2),
        (t.BOOLEAN, True), (t.DATE, 1), (t.TIMESTAMP, 1), (t.TIMESTAMPTZ, 1), (t.INTERVAL, None),
    )  # fmt: skip
    for type_, value in samples:
        to_text(pa.array([value, None], type_.arrow), type_)


EXERCISES: tuple[Exercise, ...] = (("texts of values", _texts),)
