"""Functions about the system and internal helpers of coercion."""

from __future__ import annotations

from typing import Any

from streamsql.core.types import INTEGER, TEXT, UUID
from streamsql.functions.definitions import FunctionDef, Poly, Volatility
from streamsql.functions.scalar.lazy import lazy


def _version(*_: Any) -> str:
    return "'PostgreSQL 15.0 (streamsql)'"


FUNCTIONS: tuple[FunctionDef, ...] = (
    # what assignment to VARCHAR(n) does: 22001 for a text that is too long
    FunctionDef(name="varchar_assign", args=(TEXT, INTEGER), result=TEXT,
                kernel=lazy("assignments", "varchar_assign")),
    # what TIMESTAMP(3) and its kin keep of a time, or of an array of them
    FunctionDef(name="time_digits", args=(Poly.ANY, INTEGER), result=lambda types: types[0],
                kernel=lazy("assignments", "time_digits"), can_fail=False, internal=True),
    FunctionDef(name="version", args=(), result=TEXT, sql=_version, can_fail=False),
    FunctionDef(name="gen_random_uuid", args=(), result=UUID, sql="CAST(uuid() AS VARCHAR)",
                can_fail=False, volatility=Volatility.VOLATILE),
)  # fmt: skip
