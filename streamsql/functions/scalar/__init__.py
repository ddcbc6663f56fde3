"""The scalar functions and operators, a file for each family."""

from __future__ import annotations

from streamsql.functions.definitions import FunctionDef
from streamsql.functions.scalar import (
    arithmetic,
    array,
    binary,
    comparison,
    conversion,
    datetime,
    flink,
    json,
    json_keys,
    logic,
    math,
    patterns,
    system,
    text,
)

FUNCTIONS: tuple[FunctionDef, ...] = (
    *logic.FUNCTIONS,
    *comparison.FUNCTIONS,
    *arithmetic.FUNCTIONS,
    *math.FUNCTIONS,
    *text.FUNCTIONS,
    *binary.FUNCTIONS,
    *patterns.FUNCTIONS,
    *datetime.FUNCTIONS,
    *conversion.FUNCTIONS,
    *json.FUNCTIONS,
    *json_keys.FUNCTIONS,
    *array.FUNCTIONS,
    *flink.FUNCTIONS,
    *system.FUNCTIONS,
)
