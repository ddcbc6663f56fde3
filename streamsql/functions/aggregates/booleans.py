"""bool_and (every) and bool_or."""

from __future__ import annotations

from streamsql.core.types import BOOLEAN
from streamsql.functions.definitions import AggregateDef

AGGREGATES: tuple[AggregateDef, ...] = (
    AggregateDef(name="bool_and", aliases=("every",), args=(BOOLEAN,), result=BOOLEAN,
                 sql="bool_and", incremental="linear", accumulator="bool_and"),
    AggregateDef(name="bool_or", args=(BOOLEAN,), result=BOOLEAN, sql="bool_or",
                 incremental="linear", accumulator="bool_or"),
)  # fmt: skip
