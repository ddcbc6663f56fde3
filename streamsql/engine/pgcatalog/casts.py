"""Conversions between PostgreSQL's types in DuckDB text."""

from __future__ import annotations

from dataclasses import replace

from streamsql.core.errors import CannotCoerce, InvalidTextRepresentation
from streamsql.engine.pgcatalog import pgtypes as t
from streamsql.engine.pgcatalog.scope import Context, Typed, quote_string

_FROM_NAME: dict[int, str] = {
    t.REGCLASS: "pgc.to_regclass({0})",
    t.REGTYPE: "pgc.to_regtype({0})",
    t.REGPROC: "pgc.to_regproc({0})",
    t.REGPROCEDURE: "pgc.to_regproc({0})",
    t.REGNAMESPACE: "pgc.to_regnamespace({0})",
    t.REGROLE: "pgc.to_regrole({0})",
    t.REGOPER: "pgc.to_regoper({0})",
    t.REGOPERATOR: "pgc.to_regoper({0})",
    t.REGCONFIG: "pgc.to_regconfig({0})",
    t.REGDICTIONARY: "CAST(NULL AS BIGINT)",
    t.REGCOLLATION: "pgc.to_regcollation({0})",
}
"""Macros of `store.py`: text -> OID."""

TO_NAME: dict[int, str] = {
    t.REGCLASS: "pgc.regclass_text({0})",
    t.REGTYPE: "pgc.regtype_text({0})",
    t.REGPROC: "pgc.regproc_text({0})",
    t.REGPROCEDURE: "pgc.regprocedure_text({0})",
    t.REGNAMESPACE: "pgc.regnamespace_text({0})",
    t.REGROLE: "pgc.regrole_text({0})",
    t.REGOPER: "pgc.regoper_text({0})",
    t.REGOPERATOR: "pgc.regoper_text({0})",
    t.REGCONFIG: "pgc.regconfig_text({0})",
    t.REGDICTIONARY: "CAST({0} AS VARCHAR)",
    t.REGCOLLATION: "pgc.regcollation_text({0})",
}
"""Macros of `store.py`: OID -> text."""


def duck_type(type_: int) -> str:
    """The DuckDB type that stores a PostgreSQL type."""
    return t.storage(type_).duckdb


def coerce(context: Context, value: Typed, target: int) -> Typed:
    """A value as another type implies it should be: open constants and parameters take the type,
    what is close enough stays as it is. target 0 = anything."""
    if value.parameter is not None:
        known = context.parameter(value.parameter)
        if not known:
            known = target if target and target != t.UNKNOWN else t.TEXT_OID
            if target in t.REGISTERED:  # clients send names
                known = t.TEXT_OID
            context.parameter_types[value.parameter - 1] = known
        typed = Typed(f"CAST({value.sql} AS {duck_type(known)})", known, value.name)
        return typed if known == target or not target else cast(context, typed, target)
    if value.literal is not None:
        if target in (0, t.UNKNOWN):
            return replace(value, literal=None, type=t.TEXT_OID)
        return cast(context, value, target)
    if target and target != value.type and _is_far(value.type, target):
        return cast(context, value, target)
    return value


def _is_far(source: int, target: int) -> bool:
    """Whether DuckDB would not treat the two as one type by itself."""
    if source in t.REGISTERED and target in t.TEXTS:
        return True
    if source in t.TEXTS and target in t.REGISTERED:
        return True
    return t.is_array(source) != t.is_array(target)


def cast(context: Context, value: Typed, target: int) -> Typed:
    """An explicit cast. Raises: CannotCoerce (42846), InvalidTextRepresentation (22P02)."""
    if value.parameter is not None:
        known = context.parameter(value.parameter)
        if not known and target in t.REGISTERED:  # clients send names
            known = context.parameter_types[value.parameter - 1] = t.TEXT_OID
        elif not known:
            context.parameter_types[value.parameter - 1] = target
            return replace(
                value, sql=f"CAST({value.sql} AS {duck_type(target)})", type=target, parameter=None
            )
        value = Typed(f"CAST({value.sql} AS {duck_type(known)})", known, value.name)
    if value.literal is not None:
        return replace(_literal(value, target), literal=None)
    sql = _cast_sql(value.sql, value.type, target)
    return replace(value, sql=sql, type=target, origin=(0, 0), fields=())


def _literal(value: Typed, target: int) -> Typed:
    """A constant in quotes as a value of `target`."""
    assert value.literal is not None
    text = value.literal
    if t.is_array(target):
        items = _array_items(text) if target not in t.VECTORS else text.split()
        element = t.element_of(target)
        parts = [
            "NULL" if i is None else _literal(replace(value, literal=i), element).sql for i in items
        ]
        return replace(value, sql=f"CAST([{', '.join(parts)}] AS {duck_type(target)})", type=target)
    quoted = quote_string(text)
    if target in t.REGISTERED:
        if text.isdigit() or text == "-":
            return replace(value, sql=f"CAST({text if text != '-' else 0} AS BIGINT)", type=target)
        return replace(value, sql=_existing(text, target), type=target)
    storage = t.storage(target)
    if storage is t.TEXT_STORAGE or target in (t.JSON_OID, t.JSONB_OID, t.UUID_OID):
        return replace(value, sql=quoted, type=target)
    if target == t.BOOL:
        words = {"t": "true", "f": "false", "on": "true", "off": "false", "1": "true", "0": "false"}
        quoted = quote_string(words.get(text.lower(), text))
    if storage.is_integer and not text.strip().lstrip("+-").isdigit():
        name = "oid" if target in t.OIDS else str(storage)
        raise InvalidTextRepresentation(f'invalid input syntax for type {name}: "{text}"')
    return replace(value, sql=f"CAST({quoted} AS {storage.duckdb})", type=target)


def _array_items(text: str) -> list[str | None]:
    """Items of `{a,"b c",NULL}`; no arrays in arrays."""
    import csv
    import io

    inner = text.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        raise InvalidTextRepresentation(f'malformed array literal: "{text}"')
    inner = inner[1:-1]
    if not inner:
        return []
    row = next(csv.reader(io.StringIO(inner), escapechar="\\"))
    return [None if item.upper() == "NULL" else item.strip() for item in row]


def _cast_sql(sql: str, source: int, target: int) -> str:
    if source == target:
        return sql
    if t.is_array(source) and t.is_array(target):
        inner = _cast_sql("e", t.element_of(source), t.element_of(target))
        return sql if inner == "e" else f"list_transform({sql}, lambda e: {inner})"
    if t.is_array(target):
        if source not in t.TEXTS:
            raise CannotCoerce(f"cannot cast type {t.name_of(source)} to {t.name_of(target)}")
        items = f"string_split(trim({sql}, '{{}}'), ',')"
        return f"CAST({items} AS {duck_type(target)})"
    if t.storage(target) is t.TEXT_STORAGE or target in (t.JSON_OID, t.JSONB_OID):
        return _to_text(sql, source)
    if target in t.OIDS:
        if source in t.REGISTERED or source in t.OIDS:
            return sql
        if source in t.TEXTS and target in t.REGISTERED:
            return _FROM_NAME[target].format(f"CAST({sql} AS VARCHAR)")
        return f"CAST({sql} AS BIGINT)"
    if source in t.TEXTS and target == t.BOOL:
        return f"CAST({sql} AS BOOLEAN)"
    return f"CAST({sql} AS {duck_type(target)})"


def _to_text(sql: str, source: int) -> str:
    if source in TO_NAME:
        return TO_NAME[source].format(sql)
    if source in t.VECTORS:
        return f"array_to_string({sql}, ' ')"
    if t.is_array(source):
        inner = _to_text("e", t.element_of(source))
        quoted = (
            f"CASE WHEN {inner} IS NULL THEN 'NULL'"
            f" WHEN regexp_full_match({inner}, '[^,{{}}\"\\\\\\s]+') AND upper({inner}) <> 'NULL'"
            f" THEN {inner}"
            f" ELSE '\"' || replace(replace({inner}, '\\', '\\\\'), '\"', '\\\"') || '\"' END"
        )
        return f"('{{' || array_to_string(list_transform({sql}, lambda e: {quoted}), ',') || '}}')"
    if source in t.TEXTS:
        return sql
    return f"CAST({sql} AS VARCHAR)"


def text_of(context: Context, value: Typed) -> str:
    """DuckDB text of a value as PostgreSQL's output text."""
    value = coerce(context, value, 0)
    return _to_text(value.sql, value.type)


_MISSING: dict[int, tuple[str, str]] = {
    t.REGCLASS: ("42P01", 'relation "{}" does not exist'),
    t.REGTYPE: ("42704", 'type "{}" does not exist'),
    t.REGPROC: ("42883", 'function "{}" does not exist'),
    t.REGPROCEDURE: ("42883", 'function "{}" does not exist'),
    t.REGNAMESPACE: ("3F000", 'schema "{}" does not exist'),
    t.REGROLE: ("42704", 'role "{}" does not exist'),
}


def _existing(text: str, target: int) -> str:
    """`'x'::regclass`: the OID, or the error that there is no x."""
    found = _FROM_NAME[target].format(quote_string(text))
    if target not in _MISSING:
        return found
    sqlstate, message = _MISSING[target]
    error = quote_string(f"streamsql:{sqlstate}:{message.format(text)}")
    return f"coalesce({found}, CAST(error({error}) AS BIGINT))"
