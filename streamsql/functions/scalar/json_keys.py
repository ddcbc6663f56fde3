"""JSONB as keys, alone or inside of arrays, structs and maps: what the optimizer puts around values
that are compared, grouped and sorted; and the SQL of comparisons, in which DuckDB sees text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamsql.core.types import BYTEA, JSONB, TEXT, Kind, SqlType
from streamsql.functions.definitions import FunctionDef, Kernel, Poly, SqlTemplate
from streamsql.functions.duckdb_udfs import kernel_sql
from streamsql.functions.literals import sql_string
from streamsql.functions.scalar.lazy import lazy

Leaf = Callable[[str], str]


def _nested_sql(x: str, t: SqlType, leaf: Leaf, depth: int = 0) -> str:
    """The value x with `leaf` of the documents in it. t: its type with JSONB where they are."""
    if t.kind is Kind.JSONB:
        return leaf(x)
    if not t.holds(Kind.JSONB):
        return x
    item = f"e{depth}"
    if t.kind is Kind.ARRAY:
        assert t.element is not None
        return (
            f"list_transform({x}, lambda {item}: {_nested_sql(item, t.element, leaf, depth + 1)})"
        )
    if t.kind is Kind.MAP:
        assert t.key is not None and t.value is not None
        key, value = (
            _nested_sql(f"{item}.{part}", inner, leaf, depth + 1)
            for part, inner in (("key", t.key), ("value", t.value))
        )
        pair = f"struct_pack(k := {key}, v := {value})"
        return f"map_from_entries(list_transform(map_entries({x}), lambda {item}: {pair}))"
    fields = []
    for name, inner in t.fields:
        made = _nested_sql(f"struct_extract({x}, {sql_string(name)})", inner, leaf, depth)
        fields.append(f"{quoted(name)} := {made}")
    return f"CASE WHEN {x} IS NULL THEN NULL ELSE struct_pack({', '.join(fields)}) END"


def quoted(name: str) -> str:
    """A field's name as DuckDB reads it."""
    return '"' + name.replace('"', '""') + '"'


def _leaf(name: str, kernel: Kernel, source: SqlType, target: SqlType) -> Leaf:
    return lambda x: kernel_sql(name, kernel, [x], (source,), target)


_EQUAL, _ORDER = lazy("json_keys", "key"), lazy("json_keys", "sort_key")
_SORTABLE, _UNSORTED = lazy("json_keys", "sortable"), lazy("json_keys", "unsorted")


def equal_key_sql(x: str, t: SqlType) -> str:
    """SQL of a value that is equal where x is, to DuckDB too."""
    return _nested_sql(x, t, _leaf("jsonb_equal_key", _EQUAL, JSONB, TEXT))


def order_key_sql(x: str, t: SqlType) -> str:
    """SQL of a value in the order of x, to DuckDB too."""
    return _nested_sql(x, t, _leaf("jsonb_sort_key", _ORDER, JSONB, BYTEA))


def by_value(template: str) -> SqlTemplate:
    """SQL that compares. {0}, {1}, …: the arguments; {k0}, {k1}, …: what is equal where they are;
    {s0}, {s1}, …: what is in their order."""

    def write(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
        named: dict[str, str] = {}
        for i, (x, t) in enumerate(zip(a, types, strict=True)):
            named |= {f"k{i}": equal_key_sql(x, t), f"s{i}": order_key_sql(x, t)}
        return template.format(*a, **named)

    return write


def _key(name: str, kernel: Kernel, target: SqlType) -> FunctionDef:
    leaf = _leaf(name, kernel, JSONB, target)
    return FunctionDef(
        name=name, args=(Poly.ANY,), result=lambda types: types[0].with_leaf(JSONB, target),
        kernel=kernel, can_fail=False, sql=lambda a, types, _: _nested_sql(a[0], types[0], leaf),
    )  # fmt: skip


def _unsorted_sql(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
    return _nested_sql(a[0], result, _leaf("jsonb_unsorted", _UNSORTED, BYTEA, JSONB))


def _never(_: tuple[SqlType, ...]) -> SqlType:
    raise AssertionError("constructed by the optimizer with its type")


FUNCTIONS: tuple[FunctionDef, ...] = (
    FunctionDef(name="json_object_key", args=(Poly.ANYELEMENT,), result=Poly.ANYELEMENT,
                kernel=lazy("json_keys", "object_key"), strict=False, can_fail=True),
    # equal values as equal ones that can be shown, and that every operator finds equal
    _key("jsonb_key", _EQUAL, JSONB),
    _key("jsonb_equal_key", _EQUAL, TEXT),
    # values in order as bytes; those that tell what they were made of, and that
    _key("jsonb_sort_key", _ORDER, BYTEA),
    _key("jsonb_sortable", _SORTABLE, BYTEA),
    FunctionDef(name="jsonb_unsorted", args=(Poly.ANY,), result=_never, kernel=_UNSORTED,
                can_fail=False, sql=_unsorted_sql, internal=True),
)  # fmt: skip
