"""Functions whose text depends on more than their arguments' text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamsql.core.errors import FeatureNotSupported
from streamsql.engine.pgcatalog import pgtypes as t
from streamsql.engine.pgcatalog.casts import cast, coerce, text_of
from streamsql.engine.pgcatalog.functions import QUOTE_IDENT, QUOTE_LITERAL
from streamsql.engine.pgcatalog.scope import Context, Typed

Compile = Callable[[Context, Sequence[Typed]], Typed]


_WIDENING = (t.INT2, t.INT4, t.OID, t.INT8, t.NUMERIC_OID, t.FLOAT4, t.FLOAT8)


def common(context: Context, values: Sequence[Typed]) -> tuple[list[Typed], int]:
    """Values brought to one type (that of the first that has one), and the type."""
    typed = [v.type for v in values if v.literal is None and v.parameter is None]
    known = [x for x in typed if x != t.UNKNOWN]
    target = known[0] if known else t.TEXT_OID
    if target in t.REGISTERED and any(x in t.TEXTS for x in known):
        target = t.TEXT_OID
    if all(x in _WIDENING for x in known) and known:
        target = max(known, key=_WIDENING.index)
    done = [coerce(context, value, target) for value in values]
    if target in t.TEXTS:
        done = [v if v.type in t.TEXTS else cast(context, v, t.TEXT_OID) for v in done]
    return done, target


def _same_type(name: str) -> Compile:
    def compile_(context: Context, arguments: Sequence[Typed]) -> Typed:
        values, type_ = common(context, arguments)
        return Typed(f"{name}({', '.join(v.sql for v in values)})", type_)

    return compile_


def _substring(context: Context, arguments: Sequence[Typed]) -> Typed:
    text = text_of(context, arguments[0])
    second = arguments[1]
    if second.literal is not None or second.type in t.TEXTS:
        pattern = coerce(context, second, t.TEXT_OID).sql
        group = 1 if "(" in (second.literal or "(") else 0
        found = f"regexp_extract({text}, {pattern}, {group})"
        return Typed(f"CASE WHEN regexp_matches({text}, {pattern}) THEN {found} END", t.TEXT_OID)
    rest = "".join(f", {coerce(context, a, t.INT8).sql}" for a in arguments[1:])
    return Typed(f"substring({text}{rest})", t.TEXT_OID)


def _concat(context: Context, arguments: Sequence[Typed]) -> Typed:
    return Typed(f"concat({', '.join(text_of(context, a) for a in arguments)})", t.TEXT_OID)


def _concat_ws(context: Context, arguments: Sequence[Typed]) -> Typed:
    return Typed(f"concat_ws({', '.join(text_of(context, a) for a in arguments)})", t.TEXT_OID)


def _format(context: Context, arguments: Sequence[Typed]) -> Typed:
    """format('%I.%I', …) of a constant: its pieces, joined."""
    pattern = arguments[0].literal
    if pattern is None:
        raise FeatureNotSupported(
            "format() of a pattern that is no constant is not supported here",
            hint="Put the parts together with ||.",
        )
    parts, rest, i = [], list(arguments[1:]), 0
    quoted = {"I": QUOTE_IDENT, "L": QUOTE_LITERAL, "s": "coalesce({0}, '')"}
    plain = ""
    while i < len(pattern):
        if pattern[i] == "%" and i + 1 < len(pattern):
            code = pattern[i + 1]
            i += 2
            if code in quoted and rest:
                parts.append(quote(plain))
                plain = ""
                parts.append(f"({quoted[code].format(text_of(context, rest.pop(0)))})")
            else:
                plain += code
            continue
        plain += pattern[i]
        i += 1
    return Typed("(" + " || ".join([*parts, quote(plain)]) + ")", t.TEXT_OID)


def quote(text: str) -> str:
    """A DuckDB string."""
    return "'" + text.replace("'", "''") + "'"


def _array_to_string(context: Context, arguments: Sequence[Typed]) -> Typed:
    array = coerce(context, arguments[0], 1009 if arguments[0].literal is not None else 0)
    separator = text_of(context, arguments[1])
    inner = text_of(context, Typed("e", t.element_of(array.type)))
    if len(arguments) > 2:
        inner = f"coalesce({inner}, {text_of(context, arguments[2])})"
    return Typed(
        f"array_to_string(list_transform({array.sql}, lambda e: {inner}), {separator})", t.TEXT_OID
    )


def _array_upper(context: Context, arguments: Sequence[Typed]) -> Typed:
    array = arguments[0]
    last = f"len({array.sql})" if array.type not in t.VECTORS else f"(len({array.sql}) - 1)"
    return Typed(f"CAST(CASE WHEN len({array.sql}) > 0 THEN {last} END AS INTEGER)", t.INT4)


def _array_lower(context: Context, arguments: Sequence[Typed]) -> Typed:
    first = 0 if arguments[0].type in t.VECTORS else 1
    return Typed(f"CASE WHEN len({arguments[0].sql}) > 0 THEN {first} END", t.INT4)


def subscripts(array: Typed) -> str:
    """DuckDB list of an array's subscripts."""
    if array.type in t.VECTORS:
        return f"range(0, len({array.sql}))"
    return f"range(1, len({array.sql}) + 1)"


def _generate_subscripts(context: Context, arguments: Sequence[Typed]) -> Typed:
    sql = f"unnest(CAST({subscripts(arguments[0])} AS INTEGER[]))"
    return Typed(sql, t.INT4, unnests=True)


def _generate_series(context: Context, arguments: Sequence[Typed]) -> Typed:
    values, type_ = common(context, arguments)
    series = f"generate_series({', '.join(v.sql for v in values)})"
    if type_ == t.INT4:
        series = f"CAST({series} AS INTEGER[])"
    return Typed(f"unnest({series})", type_, unnests=True)


def _unnest(context: Context, arguments: Sequence[Typed]) -> Typed:
    array = coerce(context, arguments[0], 1009 if arguments[0].literal is not None else 0)
    return Typed(f"unnest({array.sql})", t.element_of(array.type), unnests=True)


def _expand_array(context: Context, arguments: Sequence[Typed]) -> Typed:
    """information_schema._pg_expandarray: (x, n) for each element, n counts from 1."""
    array = arguments[0]
    rows = (
        f"list_transform(range(1, len({array.sql}) + 1),"
        f" lambda i: {{'x': {array.sql}[i], 'n': CAST(i AS INTEGER)}})"
    )
    fields = (("x", t.element_of(array.type)), ("n", t.INT4))
    return Typed(f"unnest({rows})", t.RECORD, fields=fields, unnests=True)


def _json_object(type_: int) -> Compile:
    def compile_(context: Context, arguments: Sequence[Typed]) -> Typed:
        parts = []
        for i, argument in enumerate(arguments):
            value = coerce(context, argument, 0)
            is_text = i % 2 == 0 or value.type in t.REGISTERED
            parts.append(text_of(context, value) if is_text else value.sql)
        return Typed(f"CAST(json_object({', '.join(parts)}) AS VARCHAR)", type_)

    return compile_


def _regexp_replace(context: Context, arguments: Sequence[Typed]) -> Typed:
    parts = [text_of(context, a) for a in arguments]
    if arguments[2].literal is not None:  # \\1 is written the same way in RE2
        parts[2] = quote(arguments[2].literal)
    return Typed(f"regexp_replace({', '.join(parts)})", t.TEXT_OID)


def _regexp_match(context: Context, arguments: Sequence[Typed]) -> Typed:
    text, pattern = (text_of(context, a) for a in arguments[:2])
    literal = arguments[1].literal or ""
    group = 1 if "(" in literal else 0
    found = f"[regexp_extract({text}, {pattern}, {group})]"
    return Typed(f"CASE WHEN regexp_matches({text}, {pattern}) THEN {found} END", 1009)


def _regexp_split(context: Context, arguments: Sequence[Typed]) -> Typed:
    text, pattern = (text_of(context, a) for a in arguments[:2])
    return Typed(f"string_split_regex({text}, {pattern})", 1009)


def _typeof(context: Context, arguments: Sequence[Typed]) -> Typed:
    return Typed(f"CAST({coerce(context, arguments[0], 0).type} AS BIGINT)", t.REGTYPE)


def _ancestors(context: Context, arguments: Sequence[Typed]) -> Typed:
    """Nothing is partitioned: the relation itself."""
    relation = coerce(context, arguments[0], t.REGCLASS)
    return Typed(f"unnest([{relation.sql}])", t.REGCLASS, unnests=True)


def _root(context: Context, arguments: Sequence[Typed]) -> Typed:
    return Typed("CAST(NULL AS BIGINT)", t.REGCLASS)


_ACL = (
    ("grantor", t.OID),
    ("grantee", t.OID),
    ("privilege_type", t.TEXT_OID),
    ("is_grantable", t.BOOL),
)


def _aclexplode(context: Context, arguments: Sequence[Typed]) -> Typed:
    """No privileges are kept: no rows."""
    row = (
        "{'grantor': CAST(0 AS BIGINT), 'grantee': CAST(0 AS BIGINT), 'privilege_type': '',"
        " 'is_grantable': false}"
    )
    return Typed(
        f"unnest(list_filter([{row}], lambda e: false))", t.RECORD, fields=_ACL, unnests=True
    )


def _acldefault(context: Context, arguments: Sequence[Typed]) -> Typed:
    return Typed("CAST(NULL AS VARCHAR[])", 1034)


def _options_to_table(context: Context, arguments: Sequence[Typed]) -> Typed:
    array = coerce(context, arguments[0], 1009)
    row = "{'option_name': split_part(e, '=', 1), 'option_value': substring(e, strpos(e, '=') + 1)}"
    return Typed(
        f"unnest(list_transform({array.sql}, lambda e: {row}))", t.RECORD, unnests=True,
        fields=(("option_name", t.TEXT_OID), ("option_value", t.TEXT_OID)),
    )  # fmt: skip


def _translate(context: Context, arguments: Sequence[Typed]) -> Typed:
    return Typed(f"translate({', '.join(text_of(context, a) for a in arguments)})", t.TEXT_OID)


def _to_char(context: Context, arguments: Sequence[Typed]) -> Typed:
    return Typed(text_of(context, arguments[0]), t.TEXT_OID)


def _sleep(context: Context, arguments: Sequence[Typed]) -> Typed:
    seconds = coerce(context, arguments[0], t.FLOAT8)
    context.sleeps.append(seconds.sql)
    return Typed("''", t.VOID)


def _nothing(context: Context, arguments: Sequence[Typed]) -> Typed:
    return Typed("unnest(CAST([] AS VARCHAR[]))", t.TEXT_OID, unnests=True)


SPECIAL_FUNCTIONS: dict[str, Compile] = {
    "coalesce": _same_type("coalesce"),
    "nullif": _same_type("nullif"),
    "greatest": _same_type("greatest"),
    "least": _same_type("least"),
    "substring": _substring,
    "substr": _substring,
    "concat": _concat,
    "concat_ws": _concat_ws,
    "format": _format,
    "array_to_string": _array_to_string,
    "array_upper": _array_upper,
    "array_lower": _array_lower,
    "generate_subscripts": _generate_subscripts,
    "generate_series": _generate_series,
    "unnest": _unnest,
    "_pg_expandarray": _expand_array,
    "json_build_object": _json_object(t.JSON_OID),
    "jsonb_build_object": _json_object(t.JSONB_OID),
    "regexp_replace": _regexp_replace,
    "regexp_match": _regexp_match,
    "regexp_matches": _regexp_match,
    "regexp_split_to_array": _regexp_split,
    "pg_typeof": _typeof,
    "pg_partition_ancestors": _ancestors,
    "pg_partition_root": _root,
    "aclexplode": _aclexplode,
    "acldefault": _acldefault,
    "pg_options_to_table": _options_to_table,
    "translate": _translate,
    "to_char": _to_char,
    "pg_sleep": _sleep,
    "pg_listening_channels": _nothing,
}
