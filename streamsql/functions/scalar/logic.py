"""AND, OR, NOT, IS …, COALESCE, NULLIF, GREATEST, LEAST, IN: what knows about NULL and branches."""

from __future__ import annotations

from streamsql.core.types import BOOLEAN
from streamsql.functions.definitions import FunctionDef, Poly

FUNCTIONS: tuple[FunctionDef, ...] = (
    # and, or, coalesce and the evaluators: see duckdb_sql.py and arrow_eval.py, which keep the rows
    # that an earlier argument decides away from the later ones
    FunctionDef(name="and", args=(BOOLEAN,), variadic=True, result=BOOLEAN, strict=False,
                can_fail=False, exact=True, sql=lambda a, *_: f"({' AND '.join(a)})"),
    FunctionDef(name="or", args=(BOOLEAN,), variadic=True, result=BOOLEAN, strict=False,
                can_fail=False, exact=True, sql=lambda a, *_: f"({' OR '.join(a)})"),
    FunctionDef(name="not", args=(BOOLEAN,), result=BOOLEAN, can_fail=False, exact=True,
                sql="(NOT {0})"),
    FunctionDef(name="is_null", args=(Poly.ANY,), result=BOOLEAN, strict=False, can_fail=False,
                exact=True, sql="({0} IS NULL)"),
    FunctionDef(name="is_not_null", args=(Poly.ANY,), result=BOOLEAN, strict=False,
                can_fail=False, exact=True, sql="({0} IS NOT NULL)"),
    FunctionDef(name="is_true", args=(BOOLEAN,), result=BOOLEAN, strict=False, can_fail=False,
                exact=True, sql="coalesce({0}, false)"),
    FunctionDef(name="is_not_true", args=(BOOLEAN,), result=BOOLEAN, strict=False,
                can_fail=False, exact=True, sql="coalesce(NOT {0}, true)"),
    FunctionDef(name="is_false", args=(BOOLEAN,), result=BOOLEAN, strict=False, can_fail=False,
                exact=True, sql="coalesce(NOT {0}, false)"),
    FunctionDef(name="is_not_false", args=(BOOLEAN,), result=BOOLEAN, strict=False,
                can_fail=False, exact=True, sql="coalesce({0}, true)"),
    FunctionDef(name="is_unknown", args=(BOOLEAN,), result=BOOLEAN, strict=False, can_fail=False,
                exact=True, sql="({0} IS NULL)"),
    FunctionDef(name="is_not_unknown", args=(BOOLEAN,), result=BOOLEAN, strict=False,
                can_fail=False, exact=True, sql="({0} IS NOT NULL)"),
    FunctionDef(name="coalesce", args=(Poly.ANYCOMPATIBLE,), variadic=True, strict=False,
                result=Poly.ANYCOMPATIBLE, can_fail=False, aliases=("ifnull", "nvl"),
                sql=lambda a, *_: f"coalesce({', '.join(a)})"),
    FunctionDef(name="nullif", args=(Poly.ANYCOMPATIBLE, Poly.ANYCOMPATIBLE), strict=False,
                result=Poly.ANYCOMPATIBLE, can_fail=False, sql="nullif({0}, {1})"),
    FunctionDef(name="greatest", args=(Poly.ANYCOMPATIBLE,), variadic=True, strict=False,
                result=Poly.ANYCOMPATIBLE, can_fail=False,
                sql=lambda a, *_: f"greatest({', '.join(a)})"),
    FunctionDef(name="least", args=(Poly.ANYCOMPATIBLE,), variadic=True, strict=False,
                result=Poly.ANYCOMPATIBLE, can_fail=False,
                sql=lambda a, *_: f"least({', '.join(a)})"),
    FunctionDef(name="in", args=(Poly.ANYCOMPATIBLE, Poly.ANYCOMPATIBLE), variadic=True,
                result=BOOLEAN, strict=False, can_fail=False, exact=True,
                sql=lambda a, *_: f"({a[0]} IN ({', '.join(a[1:])}))"),
    FunctionDef(name="if", args=(BOOLEAN, Poly.ANYCOMPATIBLE, Poly.ANYCOMPATIBLE), strict=False,
                result=Poly.ANYCOMPATIBLE, can_fail=False, aliases=("iff",),
                sql="CASE WHEN {0} THEN {1} ELSE {2} END"),
)  # fmt: skip
