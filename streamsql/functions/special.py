"""Calls whose typing overloads cannot say: constructors, field access, BETWEEN, NOT IN.

Each entry takes the bound arguments and the position, and returns the expression, or None to leave the
call to the ordinary overloads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamsql.core.errors import UndefinedColumn, WrongObjectType
from streamsql.core.types import BOOLEAN, TEXT, Kind, map_of, struct_of
from streamsql.functions.coerce import array_type, coerce, common_type
from streamsql.functions.expressions import Call, Expr, Literal

Special = Callable[[Sequence[Expr], int | None], Expr | None]


def _array(args: Sequence[Expr], position: int | None) -> Expr:
    """ARRAY[a, b, …]."""
    type_ = array_type([a.type for a in args])
    assert type_.element is not None
    elements = tuple(coerce(a, type_.element) for a in args)
    return Call(function="array", args=elements, type=type_, position=position)


def _known(expr: Expr) -> Expr:
    return coerce(expr, TEXT) if expr.type.kind is Kind.UNKNOWN else expr


def _row(args: Sequence[Expr], position: int | None) -> Expr:
    """ROW(a, b): a STRUCT with fields f1, f2, … as PostgreSQL names them."""
    values = tuple(_known(a) for a in args)
    fields = tuple((f"f{i + 1}", v.type) for i, v in enumerate(values))
    return Call(function="row", args=values, type=struct_of(fields), position=position)


def _struct(args: Sequence[Expr], position: int | None) -> Expr | None:
    """struct_pack('name', value, …): a STRUCT with names."""
    names = [a.value for a in args[::2] if isinstance(a, Literal) and isinstance(a.value, str)]
    if len(args) % 2 or len(names) != len(args) // 2:
        return None
    values = tuple(_known(a) for a in args[1::2])
    fields = tuple(zip(names, (v.type for v in values), strict=True))
    return Call(function="row", args=values, type=struct_of(fields), position=position)


def _field(args: Sequence[Expr], position: int | None) -> Expr:
    """(struct).name; the second argument is the name as a literal."""
    base, name = args
    assert isinstance(name, Literal)
    if base.type.kind is not Kind.STRUCT:
        raise WrongObjectType(
            f"column notation .{name.value} applied to type {base.type}, "
            "which is not a composite type",
            position=position,
        )
    for field_name, field_type in base.type.fields:
        if field_name == name.value:
            key = Literal(value=field_name, type=TEXT)
            return Call(function="field", args=(base, key), type=field_type, position=position)
    raise UndefinedColumn(f'column "{name.value}" not found in data type record', position=position)


def _map(args: Sequence[Expr], position: int | None) -> Expr | None:
    """MAP {k: v, …}: keys and values alternate."""
    if len(args) % 2 or (len(args) == 2 and args[0].type.kind is Kind.ARRAY):
        return None
    key = common_type([a.type for a in args[::2]], "MAP")
    value = common_type([a.type for a in args[1::2]], "MAP")
    entries = tuple(coerce(a, key if i % 2 == 0 else value) for i, a in enumerate(args))
    return Call(function="map", args=entries, type=map_of(key, value), position=position)


def _call(name: str, *args: Expr, position: int | None) -> Expr:
    from streamsql.functions.resolve import resolve_call

    return resolve_call(name, list(args), position)


def _negated(inner: str) -> Special:
    def make(args: Sequence[Expr], position: int | None) -> Expr:
        found = _call(inner, *args, position=position)
        return Call(function="not", args=(found,), type=BOOLEAN, position=position)

    return make


def _between(args: Sequence[Expr], position: int | None) -> Expr:
    value, low, high = args
    return Call(
        function="and",
        args=(
            _call("ge", value, low, position=position),
            _call("le", value, high, position=position),
        ),
        type=BOOLEAN,
        position=position,
    )


def _between_symmetric(args: Sequence[Expr], position: int | None) -> Expr:
    value, low, high = args
    either = (_between((value, low, high), position), _between((value, high, low), position))
    return Call(function="or", args=either, type=BOOLEAN, position=position)


SPECIAL: dict[str, Special] = {
    "array": _array,
    "row": _row,
    "struct_pack": _struct,
    "field": _field,
    "map": _map,
    "between": _between,
    "not_between": _negated("between"),
    "between_symmetric": _between_symmetric,
    "not_between_symmetric": _negated("between_symmetric"),
    "not_in": _negated("in"),
    "not_like": _negated("like"),
    "!~~": _negated("like"),
    "not_ilike": _negated("ilike"),
    "!~~*": _negated("ilike"),
    "not_similar_to": _negated("similar_to"),
    "!~": _negated("~"),
    "!~*": _negated("~*"),
}
