"""Functions of Flink, RisingWave and ksqlDB beside PostgreSQL's."""

from __future__ import annotations

from streamsql.core.types import (
    BIGINT,
    DATE,
    INTEGER,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
)  # fmt: skip
from streamsql.functions.definitions import FunctionDef, Volatility
from streamsql.functions.scalar.text import text_function

_STAMPS = (TIMESTAMP, TIMESTAMPTZ, DATE)

FUNCTIONS: tuple[FunctionDef, ...] = (
    text_function("to_timestamp_ltz", (BIGINT, INTEGER), TIMESTAMPTZ, module="flink",
                  kernel="from_epoch", optional=1, fails=True),
    *(
        text_function("unix_timestamp", (t,), BIGINT, module="flink", kernel="unix_seconds")
        for t in (TIMESTAMP, TIMESTAMPTZ)
    ),
    *(
        text_function("unix_milliseconds", (t,), BIGINT, module="flink")
        for t in (TIMESTAMP, TIMESTAMPTZ)
    ),
    *(
        text_function("timestampadd", (TEXT, BIGINT, t), TIMESTAMP if t is DATE else t,
                      module="flink", fails=True)
        for t in _STAMPS
    ),
    *(
        text_function("timestampdiff", (TEXT, t, u), BIGINT, module="flink", fails=True)
        for t in _STAMPS
        for u in _STAMPS
        if t is u or DATE in (t, u)
    ),
    text_function("count_char", (TEXT, TEXT), BIGINT, module="flink"),
    FunctionDef(name="uuid", args=(), result=TEXT, sql="CAST(uuid() AS VARCHAR)", can_fail=False,
                volatility=Volatility.VOLATILE),
)  # fmt: skip
