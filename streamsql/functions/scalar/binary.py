"""Functions of BYTEA: its bytes and bits, hashes, and texts in another encoding."""

from __future__ import annotations

from typing import Any

from streamsql.core.types import BIGINT, BYTEA, INTEGER, TEXT, SqlType
from streamsql.functions.definitions import FunctionDef, Pattern
from streamsql.functions.scalar.lazy import lazy


def _def(
    name: str, args: tuple[Pattern, ...], result: SqlType, kernel: str = "", **more: Any
) -> FunctionDef:
    return FunctionDef(name=name, args=args, result=result,
                       kernel=lazy("binary", kernel or name), **more)  # fmt: skip


FUNCTIONS: tuple[FunctionDef, ...] = (
    _def("get_byte", (BYTEA, INTEGER), INTEGER),
    _def("set_byte", (BYTEA, INTEGER, INTEGER), BYTEA),
    _def("get_bit", (BYTEA, BIGINT), INTEGER),
    _def("set_bit", (BYTEA, BIGINT, INTEGER), BYTEA),
    _def("bit_count", (BYTEA,), BIGINT, can_fail=False),
    *(_def(name, (BYTEA,), BYTEA, can_fail=False) for name in ("sha224", "sha384", "sha512")),
    _def("convert_from", (BYTEA, TEXT), TEXT),
    _def("convert_to", (TEXT, TEXT), BYTEA),
    _def("convert", (BYTEA, TEXT, TEXT), BYTEA),
    _def("octet_length", (BYTEA, TEXT), INTEGER, "length_in", aliases=("length",)),
    _def("substring", (BYTEA, INTEGER, INTEGER), BYTEA, optional=1, aliases=("substr",)),
    _def("position", (BYTEA, BYTEA), INTEGER, can_fail=False),
    _def("overlay", (BYTEA, BYTEA, INTEGER, INTEGER), BYTEA, optional=1),
    *(_def(name, (BYTEA, BYTEA), BYTEA, can_fail=False) for name in ("btrim", "ltrim", "rtrim")),
)  # fmt: skip
