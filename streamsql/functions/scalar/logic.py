"""AND, OR, NOT, IS …, COALESCE, NULLIF, GREATEST, LEAST, IN: what knows about NULL and branches."""

from __future__ import annotations

from collections.abc import Sequence

from streamsql.core.types import BOOLEAN, INTEGER, Kind, SqlType
from streamsql.functions.definitions import FunctionDef, Kernel, Poly, SqlTemplate
from streamsql.functions.duckdb_udfs import kernel_sql
from streamsql.functions.literals import sql_string
from streamsql.functions.scalar.json_keys import equal_key_sql, order_key_sql
from streamsql.functions.scalar.lazy import lazy


def _lazy(name: str) -> Kernel:
    return lazy("logic", name)


def _test(name: str, sql: SqlTemplate, *, any_type: bool = False) -> FunctionDef:
    """IS [NOT] NULL / TRUE / FALSE / UNKNOWN."""
    return FunctionDef(
        name=name, args=(Poly.ANY if any_type else BOOLEAN,), result=BOOLEAN, strict=False,
        can_fail=False, exact=True, sql=sql, kernel=_lazy(name),
    )  # fmt: skip


def _null_sql(negated: bool) -> SqlTemplate:
    """IS [NOT] NULL; a struct is NULL if all its fields are, and not if none is."""

    def write(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
        word = "IS NOT NULL" if negated else "IS NULL"
        if types[0].kind is not Kind.STRUCT or not types[0].fields:
            return f"({a[0]} {word})"
        parts = [f"struct_extract({a[0]}, {sql_string(n)}) {word}" for n, _ in types[0].fields]
        joined = " AND ".join(parts)
        return f"({a[0]} {word} {'AND' if negated else 'OR'} ({joined}))"

    return write


def _in_sql(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
    x, *members = (equal_key_sql(v, t) for v, t in zip(a, types, strict=True))
    return f"({x} IN ({', '.join(members)}))"


def _nullif_sql(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
    if not types[0].holds(Kind.JSONB):
        return f"nullif({a[0]}, {a[1]})"
    x, y = (equal_key_sql(v, t) for v, t in zip(a, types, strict=True))
    return f"CASE WHEN {x} = {y} THEN NULL ELSE {a[0]} END"


def _choice(name: str, aliases: tuple[str, ...] = (), kernel: Kernel | None = None) -> FunctionDef:
    """COALESCE, GREATEST, LEAST: arguments of one common type. DuckDB orders intervals by months,
    then days, and jsonb as text: there the kernel is called, if there is one."""

    def write(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
        if kernel is not None and any(t.kind in (Kind.JSONB, Kind.INTERVAL) for t in types):
            return kernel_sql(name, kernel, a, types, result, strict=False)
        if kernel is not None and types[0].holds(Kind.JSONB):
            pairs = (
                f"{{'k': {order_key_sql(x, t)}, 'x': {x}}}" for x, t in zip(a, types, strict=True)
            )
            known = f"list_filter([{', '.join(pairs)}], lambda p: p.x IS NOT NULL)"
            way = "DESC" if name == "greatest" else "ASC"
            return f"list_extract(list_sort({known}, '{way}', 'NULLS LAST'), 1).x"
        return f"{name}({', '.join(a)})"

    return FunctionDef(
        name=name, args=(Poly.ANYCOMPATIBLE,), variadic=True, strict=False, can_fail=False,
        result=Poly.ANYCOMPATIBLE, aliases=aliases, kernel=kernel, sql=write,
    )  # fmt: skip


def _count_nulls(name: str, word: str) -> FunctionDef:
    """How many of the arguments are NULL, or are not."""

    def write(a: Sequence[str], *_: object) -> str:
        return f"({' + '.join(f'CAST(({x}) {word} AS INTEGER)' for x in a)})"

    return FunctionDef(
        name=name, args=(Poly.ANY,), variadic=True, result=INTEGER, strict=False, can_fail=False,
        exact=True, sql=write, kernel=_lazy(name),
    )  # fmt: skip


# the evaluators know `and`, `or`, `coalesce` and `if` by name: they keep the rows that an earlier
# argument decides away from the later ones
FUNCTIONS: tuple[FunctionDef, ...] = (
    FunctionDef(name="and", args=(BOOLEAN,), variadic=True, result=BOOLEAN, strict=False,
                can_fail=False, exact=True, sql=lambda a, *_: f"({' AND '.join(a)})"),
    FunctionDef(name="or", args=(BOOLEAN,), variadic=True, result=BOOLEAN, strict=False,
                can_fail=False, exact=True, sql=lambda a, *_: f"({' OR '.join(a)})"),
    FunctionDef(name="not", args=(BOOLEAN,), result=BOOLEAN, can_fail=False, exact=True,
                sql="(NOT {0})", kernel=_lazy("not_")),
    _test("is_null", _null_sql(False), any_type=True),
    _test("is_not_null", _null_sql(True), any_type=True),
    _test("is_true", "coalesce({0}, false)"),
    _test("is_not_true", "coalesce(NOT {0}, true)"),
    _test("is_false", "coalesce(NOT {0}, false)"),
    _test("is_not_false", "coalesce({0}, true)"),
    _test("is_unknown", "({0} IS NULL)"),
    _test("is_not_unknown", "({0} IS NOT NULL)"),
    _choice("coalesce", ("ifnull", "nvl")),
    _choice("greatest", kernel=_lazy("greatest")),
    _choice("least", kernel=_lazy("least")),
    FunctionDef(name="nullif", args=(Poly.ANYCOMPATIBLE, Poly.ANYCOMPATIBLE), strict=False,
                result=Poly.ANYCOMPATIBLE, can_fail=False,
                sql=_nullif_sql, kernel=_lazy("nullif")),
    FunctionDef(name="in", args=(Poly.ANYCOMPATIBLE, Poly.ANYCOMPATIBLE), variadic=True,
                result=BOOLEAN, strict=False, can_fail=False, exact=True, kernel=_lazy("in_"),
                sql=_in_sql),
    _count_nulls("num_nulls", "IS NULL"),
    _count_nulls("num_nonnulls", "IS NOT NULL"),
    FunctionDef(name="array_num_nulls", args=(Poly.ANYARRAY,), result=INTEGER, can_fail=False,
                kernel=_lazy("array_num_nulls")),
    FunctionDef(name="if", args=(BOOLEAN, Poly.ANYCOMPATIBLE, Poly.ANYCOMPATIBLE), strict=False,
                result=Poly.ANYCOMPATIBLE, can_fail=False, aliases=("iff",),
                sql="CASE WHEN {0} THEN {1} ELSE {2} END"),
)  # fmt: skip
