"""Calls whose typing overloads cannot say: constructors, field access, BETWEEN, NOT IN.

Each entry takes the bound arguments and the position, and returns the expression, or None to leave
the call to the ordinary overloads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from streamsql.core.errors import (
    IndeterminateDatatype,
    UndefinedColumn,
    UndefinedFunction,
    WrongObjectType,
)
from streamsql.core.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    Kind,
    SqlType,
    array_of,
    map_of,
    struct_of,
)  # fmt: skip
from streamsql.functions.coerce import array_type, coerce, common_type
from streamsql.functions.expressions import Call, Expr, Literal
from streamsql.functions.overloads import common_of

Special = Callable[[Sequence[Expr], int | None], Expr | None]


def _array(args: Sequence[Expr], position: int | None) -> Expr:
    """ARRAY[a, b, …]."""
    type_ = array_type([a.type for a in args])
    assert type_.element is not None
    elements = tuple(coerce(a, type_.element) for a in args)
    if elements and all(isinstance(e, Literal) for e in elements):
        values = tuple(e.value for e in elements if isinstance(e, Literal))
        return Literal(value=values, type=type_, position=position)
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


def _map(args: Sequence[Expr], position: int | None) -> Expr:
    """MAP {k: v, …}: keys and values alternate."""
    if not args:
        raise IndeterminateDatatype(
            "cannot determine type of empty map",
            position=position,
            hint="Give it an entry, or write NULL::MAP(TEXT, INTEGER).",
        )
    if len(args) % 2 or args[0].type.kind is Kind.ARRAY:
        types = ", ".join(str(a.type) for a in args)
        raise UndefinedFunction(
            f"function map({types}) does not exist",
            position=position,
            hint="Write MAP {key: value, …}.",
        )
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


def _concat_operator(args: Sequence[Expr], position: int | None) -> Expr | None:
    """||: of arrays, jsonb, bytea, or text with anything that is no array."""
    if len(args) != 2:
        return None
    kinds = [a.type.kind for a in args]
    if Kind.ARRAY in kinds:
        return _array_concat(args, position)
    for kind, name in ((Kind.JSONB, "jsonb_concat"), (Kind.BYTEA, "bytea_concat")):
        if kind in kinds and all(k in (kind, Kind.UNKNOWN) for k in kinds):
            return _call(name, *args, position=position)
    texts = (Kind.TEXT, Kind.VARCHAR, Kind.UNKNOWN)
    if any(k in texts for k in kinds):
        shown = [coerce(a, TEXT, "explicit") for a in args]
        return _call("concat_op", *shown, position=position)
    return None


def _one_leaf(left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """Two arrays with elements of one type, whatever their dimensions."""
    leaves, depths = [], []
    for side in (left, right):
        t, depth = side.type, 0
        while t.element is not None:
            t, depth = t.element, depth + 1
        leaves.append(t)
        depths.append(depth)
    if leaves[0] == leaves[1] or (common := common_of(leaves)) is None:
        return left, right
    made = []
    for side, depth in zip((left, right), depths, strict=True):
        target = common
        for _ in range(depth):
            target = array_of(target)
        made.append(coerce(side, target))
    return made[0], made[1]


def _array_concat(args: Sequence[Expr], position: int | None) -> Expr:
    left, right = args
    if left.type.kind is Kind.ARRAY and right.type.kind is Kind.ARRAY:
        left, right = _one_leaf(left, right)
        if left.type.element == right.type:  # an array of arrays takes an array as its element
            return _call("array_append", left, right, position=position)
        if right.type.element == left.type:
            return _call("array_prepend", left, right, position=position)
        return _call("array_cat", left, right, position=position)
    if Kind.UNKNOWN in (left.type.kind, right.type.kind):  # '{1,2}' or NULL: read as an array
        return _call("array_cat", left, right, position=position)
    if left.type.kind is Kind.ARRAY:
        return _call("array_append", left, right, position=position)
    return _call("array_prepend", left, right, position=position)


def _subscript(args: Sequence[Expr], position: int | None) -> Expr | None:
    """array[i], map[key], jsonb['key']."""
    base, index = args
    if base.type.kind is Kind.MAP:
        assert base.type.key is not None
        return _call("map_get", base, coerce(index, base.type.key), position=position)
    if base.type.kind is Kind.JSONB:
        return _call("->", base, index, position=position)
    if base.type.kind is Kind.ARRAY and index.type.is_integer:
        return _call("array_subscript", base, coerce(index, INTEGER, "assignment"),
                     position=position)  # fmt: skip
    return None


def _string_to_array(args: Sequence[Expr], position: int | None) -> Expr | None:
    """A NULL separator splits into characters."""
    if len(args) == 2 and isinstance(args[1], Literal) and args[1].value is None:
        return _call("string_to_chars", args[0], position=position)
    return None


def _json_object(name: str) -> Special:
    """Of one untyped literal: an array, of pairs if it has two dimensions."""

    def make(args: Sequence[Expr], position: int | None) -> Expr | None:
        if len(args) != 1 or args[0].type.kind is not Kind.UNKNOWN:
            return None
        return _call(name, coerce(args[0], array_of(TEXT), "explicit"), position=position)

    return make


def _now() -> Expr:
    return _call("now", position=None)


def _clock(type_: SqlType) -> Special:
    """current_date and kin: now() in the session's zone."""

    def make(args: Sequence[Expr], position: int | None) -> Expr | None:
        if args and not isinstance(args[0], Literal):
            return None
        made = _now() if type_.kind is Kind.TIMESTAMPTZ else coerce(_now(), type_, "explicit")
        places = args[0].value if args and isinstance(args[0], Literal) else None
        if isinstance(places, int) and type_.kind is not Kind.DATE:
            return coerce(made, replace(made.type, digits=min(places, 6)))
        return made

    return make


def _age(args: Sequence[Expr], position: int | None) -> Expr | None:
    """age(ts): from midnight of the current date."""
    if len(args) != 1:
        return None
    base = TIMESTAMPTZ if args[0].type.kind is Kind.TIMESTAMPTZ else TIMESTAMP
    today = coerce(coerce(_now(), DATE, "explicit"), base)
    return _call("age", today, coerce(args[0], base), position=position)


def _overlaps(args: Sequence[Expr], position: int | None) -> Expr | None:
    """(start, end) OVERLAPS (start, end), where an end may be a length."""
    if len(args) != 4 or not any(a.type.kind is Kind.INTERVAL for a in args):
        return None
    ends = []
    for start, end in (args[:2], args[2:]):
        length = end.type.kind is Kind.INTERVAL
        ends.append(_call("+", start, end, position=position) if length else end)
    return _call("overlaps", args[0], ends[0], args[2], ends[1], position=position)


def _typeof(args: Sequence[Expr], position: int | None) -> Expr | None:
    """pg_typeof(x): known when the statement is bound."""
    if len(args) != 1:
        return None
    t = args[0].type
    shown = f"{t.element}[]" if t.kind is Kind.ARRAY else t.kind.value
    return Literal(value=shown, type=TEXT, position=position)


def _unix_timestamp(args: Sequence[Expr], position: int | None) -> Expr | None:
    """UNIX_TIMESTAMP(): now."""
    return None if args else _call("unix_timestamp", _now(), position=position)


def _from_unixtime(args: Sequence[Expr], position: int | None) -> Expr | None:
    """FROM_UNIXTIME(seconds[, pattern])."""
    pattern = args[1] if len(args) > 1 else Literal(value="yyyy-MM-dd HH:mm:ss", type=TEXT)
    zero = Literal(value=0, type=INTEGER)
    moment = _call("to_timestamp_ltz", args[0], zero, position=position)
    return _call("date_format", moment, pattern, position=position)


def _timestamp_ms(args: Sequence[Expr], position: int | None) -> Expr | None:
    """TIMESTAMP_MS(t): the time of a count of milliseconds; a time as it is."""
    if len(args) != 1:
        return None
    if args[0].type.is_integer:
        three = Literal(value=3, type=INTEGER)
        return _call("to_timestamp_ltz", args[0], three, position=position)
    return coerce(args[0], TIMESTAMPTZ) if args[0].type.kind is Kind.UNKNOWN else args[0]


def _log10_integer(args: Sequence[Expr], position: int | None) -> Expr | None:
    """Flink's two-argument LOG(base, x) over floats is a quotient of logarithms."""
    if (
        len(args) == 2
        and all(a.type.is_float or a.type.is_integer for a in args)
        and any(a.type.is_float for a in args)
    ):
        base, x = (coerce(a, DOUBLE) for a in args)
        return _call("/", _call("ln", x, position=position), _call("ln", base, position=position),
                     position=position)  # fmt: skip
    return None


def _matching(what: str) -> Special:
    """COALESCE and kin: 42804 with PostgreSQL's words if the types do not match."""

    def check(args: Sequence[Expr], position: int | None) -> Expr | None:
        if args:
            common_type([a.type for a in args], what, position)
        return None

    return check


SPECIAL: dict[str, Special] = {
    "coalesce": _matching("COALESCE"),
    "greatest": _matching("GREATEST"),
    "least": _matching("LEAST"),
    "||": _concat_operator,
    "subscript": _subscript,
    "json_object": _json_object("json_object"),
    "jsonb_object": _json_object("jsonb_object"),
    "string_to_array": _string_to_array,
    "timestamp_ms": _timestamp_ms,
    "current_date": _clock(DATE),
    "current_timestamp": _clock(TIMESTAMPTZ),
    "localtimestamp": _clock(TIMESTAMP),
    "current_time": _clock(TIME),
    "localtime": _clock(TIME),
    "current_row_timestamp": _clock(TIMESTAMPTZ),
    "overlaps": _overlaps,
    "age": _age,
    "pg_typeof": _typeof,
    "unix_timestamp": _unix_timestamp,
    "from_unixtime": _from_unixtime,
    "log": _log10_integer,
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
