"""Names of arguments: f(name => value), for the functions that PostgreSQL documents with names.

An argument with a default may be left out wherever it stands; the others must be given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamsql.core.types import BOOLEAN, DOUBLE, INTEGER, TEXT, SqlType
from streamsql.functions.expressions import Expr, Literal

REQUIRED: Any = object()


@dataclass(frozen=True)
class Argument:
    """One argument: its name, and the value it has when it is left out."""

    name: str
    default: Any = REQUIRED
    type: SqlType = INTEGER

    def value(self) -> Expr | None:
        """The default as an expression; None if the argument must be given."""
        if self.default is REQUIRED:
            return None
        return Literal(value=self.default, type=self.type)


def _required(*names: str) -> tuple[Argument, ...]:
    return tuple(Argument(n) for n in names)


_CLOCK = ("hour", "min", "sec")
_PATH_QUERY = (
    *_required("target", "path"),
    Argument("vars", "{}", TEXT),
    Argument("silent", False, BOOLEAN),
)

ARGUMENTS: dict[str, tuple[Argument, ...]] = {
    "make_date": _required("year", "month", "day"),
    "make_time": _required(*_CLOCK),
    "make_timestamp": _required("year", "month", "mday", *_CLOCK),
    "make_timestamptz": (
        *_required("year", "month", "mday", *_CLOCK),
        Argument("timezone", None, TEXT),
    ),
    "make_interval": (
        *(Argument(n, 0) for n in ("years", "months", "weeks", "days", "hours", "mins")),
        Argument("secs", 0.0, DOUBLE),
    ),
    "parse_ident": (Argument("str"), Argument("strict", True, BOOLEAN)),
    "jsonb_set": (
        *_required("jsonb_in", "path", "replacement"),
        Argument("create_if_missing", True, BOOLEAN),
    ),
    "jsonb_set_lax": (
        *_required("jsonb_in", "path", "replacement"),
        Argument("create_if_missing", True, BOOLEAN),
        Argument("null_value_treatment", "use_json_null", TEXT),
    ),
    "jsonb_insert": (
        *_required("jsonb_in", "path", "replacement"),
        Argument("insert_after", False, BOOLEAN),
    ),
    "json_strip_nulls": _required("target"),
    "jsonb_strip_nulls": _required("target"),
    **dict.fromkeys(
        (f"{t}_{f}" for t in ("json", "jsonb")
         for f in ("array_elements", "array_elements_text", "each", "each_text")),
        _required("from_json"),
    ),
    **dict.fromkeys(
        ("jsonb_path_exists", "jsonb_path_match", "jsonb_path_query", "jsonb_path_query_array",
         "jsonb_path_query_first"),
        _PATH_QUERY,
    ),
}  # fmt: skip
"""Function → its arguments in their order."""
