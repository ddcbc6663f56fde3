"""Arrays, structs and maps: constructors, subscripts, operators, functions; = ANY / ALL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from streamsql.core.types import (
    BIGINT,
    BOOLEAN,
    INTEGER,
    INTERVAL,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Kind,
    SqlType,
    array_of,
)  # fmt: skip
from streamsql.functions.definitions import FunctionDef, Kernel, Pattern, Poly
from streamsql.functions.duckdb_udfs import kernel_sql
from streamsql.functions.scalar.json_keys import equal_key_sql, order_key_sql, quoted
from streamsql.functions.scalar.lazy import lazy

INTEGERS = array_of(INTEGER)


def _def(
    name: str, args: tuple[Pattern, ...], result: Any, kernel: str = "", **more: Any
) -> FunctionDef:
    more.setdefault("can_fail", False)
    kernel = kernel or name
    series = kernel.endswith(("_series", "subscripts"))
    return FunctionDef(
        name=name, args=args, result=result, kernel=lazy("series" if series else "arrays", kernel),
        **more,
    )  # fmt: skip


def _array_sql(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
    return f"[{', '.join(a)}]"


def _row_sql(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
    items = zip(result.fields, a, strict=True)
    return "struct_pack(" + ", ".join(f"{quoted(n)} := {sql}" for (n, _), sql in items) + ")"


def _field_sql(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
    return f"struct_extract({a[0]}, {a[1]})"


def _map_sql(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
    return f"map([{', '.join(a[::2])}], [{', '.join(a[1::2])}])"


def _slice_sql(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
    low, high = f"greatest(coalesce({a[1]}, 1), 1)", f"greatest(coalesce({a[2]}, 2147483647), 0)"
    return f"list_slice({a[0]}, {low}, {high})"


def _cat_sql(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
    x, y = a
    return (
        f"CASE WHEN {x} IS NULL THEN {y} WHEN {y} IS NULL THEN {x} ELSE list_concat({x}, {y}) END"
    )


def _element(types: tuple[SqlType, ...]) -> SqlType:
    assert types[0].element is not None
    return types[0].element


def _flat_type(types: tuple[SqlType, ...]) -> SqlType:
    t = types[0]
    while t.element is not None and t.element.element is not None:
        t = t.element
    return t


def _flatten_sql(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
    sql, inner = a[0], types[0].element
    while inner is not None and inner.element is not None:
        sql, inner = f"flatten({sql})", inner.element
    return sql


def _map_value(types: tuple[SqlType, ...]) -> SqlType:
    assert types[0].value is not None
    return types[0].value


def _keys_type(types: tuple[SqlType, ...]) -> SqlType:
    assert types[0].key is not None
    return array_of(types[0].key)


def _values_type(types: tuple[SqlType, ...]) -> SqlType:
    assert types[0].value is not None
    return array_of(types[0].value)


def _result_of_literal(*_: Any) -> SqlType:
    raise AssertionError("constructed by special.py with its type")


_COMPARISONS = (
    ("=", "eq"), ("<>", "ne"), ("!=", "ne"), ("<", "lt"), ("<=", "le"), (">", "gt"), (">=", "ge"),
)  # fmt: skip
_PATTERNS = (
    ("~~", "like"), ("like", "like"), ("~~*", "ilike"), ("ilike", "ilike"), ("~", "matches"),
    ("~*", "matches_any_case"), ("!~~", "not_like"), ("!~~*", "not_ilike"),
)  # fmt: skip


def _quantified_kernel(operator: str, every: bool) -> Kernel:
    def kernel(call: Any, a: Any, b: Any) -> Any:
        from streamsql.functions.compute import quantified

        return quantified.quantified(operator, every, call, a, b)

    return kernel


def _quantified_sql(operator: str, every: bool, kernel: Kernel) -> Any:
    def write(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
        return kernel_sql(f"{operator}_{every}", kernel, a, types, result, strict=False)

    return write


def _quantifiers() -> Iterable[FunctionDef]:
    """x = ANY (array) and its kin are called "= any", "<> all", "like any"."""
    for every, word in ((False, "any"), (True, "all")):
        for operator in dict.fromkeys(o for _, o in (*_COMPARISONS, *_PATTERNS)):
            aliases = tuple(f"{s} {word}" for s, o in (*_COMPARISONS, *_PATTERNS) if o == operator)
            pattern = (operator, operator) in _PATTERNS or operator.startswith(("not_", "match"))
            pattern = pattern or operator in ("like", "ilike")
            kernel = _quantified_kernel(operator, every)
            args: tuple[Pattern, ...] = (Poly.ANYCOMPATIBLE, Poly.ANYCOMPATIBLEARRAY)
            if pattern:
                args = (TEXT, array_of(TEXT))
            yield FunctionDef(
                name=f"{operator}_{word}", aliases=aliases, args=args, result=BOOLEAN,
                strict=False, can_fail=pattern, kernel=kernel,
                sql=_quantified_sql(operator, every, kernel),
            )  # fmt: skip


def _series() -> Iterable[FunctionDef]:
    for t in (INTEGER, BIGINT):
        yield _def("integer_series", (t, t, t), array_of(t), optional=1, can_fail=True)
    yield FunctionDef(
        name="numeric_series", args=(NUMERIC, NUMERIC, NUMERIC), optional=1, can_fail=True,
        result=array_of(NUMERIC), kernel=lazy("series", "numeric_series"),
    )  # fmt: skip
    for t in (TIMESTAMP, TIMESTAMPTZ):
        yield _def("timestamp_series", (t, t, INTERVAL), array_of(t), can_fail=True)
    yield _def("array_subscripts", (Poly.ANYARRAY, INTEGER, BOOLEAN), INTEGERS, "subscripts",
               optional=1)  # fmt: skip


def _remove_sql(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
    x, gone = equal_key_sql("x", types[1]), equal_key_sql(a[1], types[1])
    return f"list_filter({a[0]}, lambda x: {x} IS DISTINCT FROM {gone})"


def _replace_sql(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
    x, old = equal_key_sql("x", types[1]), equal_key_sql(a[1], types[1])
    item = f"CASE WHEN {x} IS NOT DISTINCT FROM {old} THEN {a[2]} ELSE x END"
    return f"list_transform({a[0]}, lambda x: {item})"


def _distinct_sql(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
    keys = equal_key_sql(a[0], types[0])
    return f"list_filter({a[0]}, lambda x, i: list_position({keys}, {keys}[i]) = i)"


def _sort_sql(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
    way = "'ASC', 'NULLS LAST'"
    if not types[0].holds(Kind.JSONB):
        return f"list_sort({a[0]}, {way})"
    key = order_key_sql("x", _element(types))
    pairs = f"list_transform({a[0]}, lambda x: {{'k': {key}, 'x': x}})"
    return f"list_transform(list_sort({pairs}, {way}), lambda p: p.x)"


A, E = Poly.ANYCOMPATIBLEARRAY, Poly.ANYCOMPATIBLE


def _trim_sql(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
    """All but the last n elements; as many as there are, at most."""
    text = "'streamsql:2202E:number of elements to trim must be between 0 and ' || len({0})"
    refused = f"CAST(ssql_raise({text}) AS {result.duckdb})"
    whole = "CASE WHEN {1} < 0 OR {1} > len({0}) THEN " + refused
    return (whole + " ELSE list_slice({0}, 1, len({0}) - {1}) END").format(*a)


FUNCTIONS: tuple[FunctionDef, ...] = (
    _def("array", (E,), _result_of_literal, variadic=True, variadic_empty=True, strict=False,
         sql=_array_sql),
    _def("row", (Poly.ANY,), _result_of_literal, variadic=True, variadic_empty=True, strict=False,
         sql=_row_sql),
    _def("field", (Poly.ANYSTRUCT, TEXT), _result_of_literal, sql=_field_sql),
    _def("map", (Poly.ANY,), _result_of_literal, "map_", variadic=True, variadic_empty=True,
         strict=False, sql=_map_sql),
    _def("array_subscript", (Poly.ANYARRAY, INTEGER), _element, "subscript",
         sql="list_extract({0}, greatest({1}, 0))"),
    FunctionDef(name="map_get", args=(Poly.ANYMAP, Poly.ANY), result=_map_value, can_fail=False,
                kernel=lazy("arrays", "map_get"), sql="({0})[{1}]"),
    _def("slice", (Poly.ANYARRAY, INTEGER, INTEGER), Poly.ANYARRAY, "slice_", strict=False,
         sql=_slice_sql),
    _def("array_flatten", (Poly.ANYARRAY,), _flat_type, "flatten", sql=_flatten_sql),
    _def("array_length", (Poly.ANYARRAY, INTEGER), INTEGER, aliases=("array_upper",)),
    _def("array_lower", (Poly.ANYARRAY, INTEGER), INTEGER),
    _def("array_ndims", (Poly.ANYARRAY,), INTEGER),
    _def("array_dims", (Poly.ANYARRAY,), TEXT),
    _def("cardinality", (Poly.ANYARRAY,), INTEGER),
    _def("cardinality", (Poly.ANYMAP,), INTEGER, "map_cardinality", aliases=("map_length",)),
    _def("map_keys", (Poly.ANYMAP,), _keys_type, sql="map_keys({0})"),
    _def("map_values", (Poly.ANYMAP,), _values_type, sql="map_values({0})"),
    _def("array_cat", (A, A), A, strict=False, sql=_cat_sql),
    _def("array_append", (A, E), A, strict=False, sql="list_append({0}, {1})"),
    _def("array_prepend", (E, A), A, strict=False, sql="list_prepend({0}, {1})"),
    _def("array_position", (A, E, INTEGER), INTEGER, optional=1, strict=False),
    _def("array_positions", (A, E), INTEGERS, strict=False),
    _def("array_remove", (A, E), A, strict=False, sql=_remove_sql),
    _def("array_replace", (A, E, E), A, strict=False, sql=_replace_sql),
    _def("array_distinct", (Poly.ANYARRAY,), Poly.ANYARRAY,
         sql=_distinct_sql),
    _def("array_sort", (Poly.ANYARRAY,), Poly.ANYARRAY, sql=_sort_sql),
    _def("trim_array", (Poly.ANYARRAY, INTEGER), Poly.ANYARRAY, can_fail=True,
         sql=_trim_sql),
    _def("array_fill", (Poly.ANYELEMENT, INTEGERS), Poly.ANYARRAY, strict=False, can_fail=True),
    _def("array_contains", (A, A), BOOLEAN, "contains", aliases=("@>",)),
    _def("array_contained", (A, A), BOOLEAN, "contained", aliases=("<@",)),
    _def("array_overlap", (A, A), BOOLEAN, "overlap", aliases=("&&",)),
    *_quantifiers(),
    *_series(),
)  # fmt: skip
