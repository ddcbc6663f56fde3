"""bit_and, bit_or, bit_xor of integers."""

from __future__ import annotations

from streamsql.core.types import BIGINT, INTEGER, SMALLINT
from streamsql.functions.definitions import AggregateDef

AGGREGATES: tuple[AggregateDef, ...] = tuple(
    AggregateDef(name=name, args=(t,), result=t, sql=name)
    for name in ("bit_and", "bit_or", "bit_xor")
    for t in (INTEGER, BIGINT, SMALLINT)
)
