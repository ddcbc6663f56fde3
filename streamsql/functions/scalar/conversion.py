"""to_char, to_date, to_timestamp, to_number, DATE_FORMAT and other text ↔ value conversions."""

from __future__ import annotations

from streamsql.core.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    NUMERIC,
    REAL,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
)  # fmt: skip
from streamsql.functions.definitions import FunctionDef, Pattern
from streamsql.functions.scalar.text import text_function


def _to_char(t: Pattern, kernel: str) -> FunctionDef:
    return text_function("to_char", (t, TEXT), TEXT, module="formatting", kernel=kernel)


FUNCTIONS: tuple[FunctionDef, ...] = (
    *(_to_char(t, "to_char") for t in (TIMESTAMP, TIMESTAMPTZ, DATE)),
    _to_char(INTERVAL, "interval_to_char"),
    *(_to_char(t, "number_to_char") for t in (INTEGER, BIGINT, NUMERIC, DOUBLE, REAL)),
    text_function("to_date", (TEXT, TEXT), DATE, module="formatting", fails=True),
    text_function("to_timestamp", (TEXT, TEXT), TIMESTAMPTZ, module="formatting", fails=True),
    text_function("to_number", (TEXT, TEXT), NUMERIC, module="formatting", fails=True),
    *(
        text_function("date_format", (t, TEXT), TEXT, module="formatting", fails=True)
        for t in (TIMESTAMP, TIMESTAMPTZ, DATE, TEXT)
    ),
)  # fmt: skip
