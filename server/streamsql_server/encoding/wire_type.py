"""What a wire type is: the shape of each entry of the registry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from streamsql.core.types import SqlType
from streamsql.engine.api import to_text
from streamsql_server.encoding.pieces import Encoded


@dataclass(frozen=True, slots=True)
class WireContext:
    """What the session decides about texts. timezone: for timestamptz."""

    timezone: str = "UTC"


UTC = WireContext()

TextEncoder: TypeAlias = Callable[[pa.Array, SqlType, WireContext], pa.Array]
BinaryEncoder: TypeAlias = Callable[[pa.Array, SqlType], Encoded]


def cast_text(column: pa.Array, type_: SqlType, context: WireContext) -> pa.Array:
    """What a cast to text gives: the text form of nearly all types."""
    return to_text(column, type_, context.timezone)


@dataclass(frozen=True, slots=True)
class WireType:
    """One PostgreSQL type.

    oid, name, typlen, array_oid (0 = none): as in pg_type.
    binary: column [n] -> encoded values; None = no binary form, asking for it is 0A000.
    parse_binary: one parameter's bytes -> Python value (or text the engine reads); ValueError or
        struct.error when they can not be one.
    text: column [n] -> string array [n], PostgreSQL's output text, NULLs kept.
    text_value: Python value -> text, for a few rows without Arrow's fixed cost; None = use `text`.
    plain: the text never needs a quote or an escape in COPY.
    """

    oid: int
    name: str
    typlen: int
    array_oid: int
    binary: BinaryEncoder | None = None
    parse_binary: Callable[[bytes], Any] | None = None
    text: TextEncoder = cast_text
    text_value: Callable[[Any], str] | None = None
    plain: bool = False
