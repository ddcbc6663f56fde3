"""Window-only functions: ranks, neighbours, ends of the frame."""

from __future__ import annotations

from streamsql.core.types import BIGINT, DOUBLE, INTEGER
from streamsql.functions.definitions import Poly, WindowDef

BY_PEERS = frozenset({"rank", "dense_rank", "percent_rank", "cume_dist"})
"""Those that give rows that are equal in ORDER BY the same result."""


def _positive(arg: int, name: str, sqlstate: str) -> str:
    """An argument that is an error below 1, and may be NULL."""
    message = f"streamsql:{sqlstate}:argument of {name} must be greater than zero"
    return f"CASE WHEN {{{arg}}} <= 0 THEN error('{message}') ELSE {{{arg}}} END"


WINDOWS: tuple[WindowDef, ...] = (
    WindowDef(name="row_number", args=(), result=BIGINT, sql="row_number()"),
    WindowDef(name="rank", args=(), result=BIGINT, sql="rank()"),
    WindowDef(name="dense_rank", args=(), result=BIGINT, sql="dense_rank()"),
    WindowDef(name="percent_rank", args=(), result=DOUBLE, sql="percent_rank()"),
    WindowDef(name="cume_dist", args=(), result=DOUBLE, sql="cume_dist()"),
    WindowDef(name="ntile", args=(INTEGER,), result=INTEGER,
              sql=f"ntile({_positive(0, 'ntile', '22014')})"),
    WindowDef(name="lag", args=(Poly.ANYELEMENT,), result=Poly.ANYELEMENT, sql="lag({0}{nulls})"),
    WindowDef(name="lag", args=(Poly.ANYELEMENT, INTEGER), result=Poly.ANYELEMENT,
              sql="lag({0}, {1}{nulls})"),
    WindowDef(name="lag", args=(Poly.ANYCOMPATIBLE, INTEGER, Poly.ANYCOMPATIBLE),
              result=Poly.ANYCOMPATIBLE, sql="lag({0}, {1}, {2}{nulls})"),
    WindowDef(name="lead", args=(Poly.ANYELEMENT,), result=Poly.ANYELEMENT, sql="lead({0}{nulls})"),
    WindowDef(name="lead", args=(Poly.ANYELEMENT, INTEGER), result=Poly.ANYELEMENT,
              sql="lead({0}, {1}{nulls})"),
    WindowDef(name="lead", args=(Poly.ANYCOMPATIBLE, INTEGER, Poly.ANYCOMPATIBLE),
              result=Poly.ANYCOMPATIBLE, sql="lead({0}, {1}, {2}{nulls})"),
    WindowDef(name="first_value", args=(Poly.ANYELEMENT,), result=Poly.ANYELEMENT,
              sql="first_value({0}{nulls})", framed=True),
    WindowDef(name="last_value", args=(Poly.ANYELEMENT,), result=Poly.ANYELEMENT,
              sql="last_value({0}{nulls})", framed=True),
    WindowDef(name="nth_value", args=(Poly.ANYELEMENT, INTEGER), result=Poly.ANYELEMENT,
              sql=f"nth_value({{0}}, {_positive(1, 'nth_value', '22016')}{{nulls}})", framed=True),
)  # fmt: skip
