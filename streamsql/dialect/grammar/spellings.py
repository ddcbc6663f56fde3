"""Functions that other systems call by another name, or whose name means something else there.

A call is rewritten while it is read, so everything behind the grammar knows one spelling. Names
that exist nowhere in PostgreSQL are understood under every dialect; a name that means two things
only under the dialect that it belongs to.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from streamsql.dialect.dialects import Difference
from streamsql.dialect.positions import position_of

INTERVAL_UNITS = frozenset(
    {"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND"}
)
Note = Callable[[Difference], None]
_Rewrite = Callable[[list[exp.Expression], Note], exp.Expression | None]
"""(arguments, remarks) → what stands for the call; None = leave it as it is."""


def respell(call: exp.Anonymous, dialect: str, note: Note) -> exp.Expression:
    """The call in our spelling; the call itself if that is ours already.

    >>> from streamsql.dialect.generator import to_sql
    >>> call = exp.Anonymous(this="mz_now", expressions=[])
    >>> to_sql(respell(call, "streamsql", lambda difference: None))
    'now()'
    """
    rewrite = _OF_DIALECT.get((dialect, call.name)) or _EVERYWHERE.get(call.name)
    if rewrite is None:
        return call
    at = position_of(call) or 0

    def remember(difference: Difference) -> None:
        note(Difference(difference.kind, difference.text, at))

    found = rewrite(list(call.expressions), remember)
    if found is None:
        return call
    found.meta.setdefault("start", at)
    return found


def _call(name: str, *arguments: exp.Expression) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _text(value: str) -> exp.Literal:
    return exp.Literal.string(value)


def _literal(node: exp.Expression) -> str | None:
    return str(node.name) if isinstance(node, exp.Literal) and node.is_string else None


# plain renamings ----------------------------------------------------------------------------------
def _renamed(name: str, count: int | None = None) -> _Rewrite:
    """The same arguments under another name, where there are `count` of them."""

    def rewrite(arguments: list[exp.Expression], note: Note) -> exp.Expression | None:
        if count is not None and len(arguments) != count:
            return None
        return _call(name, *arguments)

    return rewrite


def _distinct(name: str) -> _Rewrite:
    def rewrite(arguments: list[exp.Expression], note: Note) -> exp.Expression | None:
        if len(arguments) != 1:
            return None
        return _call(name, exp.Distinct(expressions=arguments))

    return rewrite


def _by_offset(name: str) -> _Rewrite:
    """ksqlDB's LATEST_BY_OFFSET, EARLIEST_BY_OFFSET: by arrival, NULLs left out."""

    def rewrite(arguments: list[exp.Expression], note: Note) -> exp.Expression | None:
        if len(arguments) != 1 or isinstance(arguments[0], exp.Distinct):
            return None
        value = arguments[0]
        present = exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))
        present.meta["is_not"] = True
        return exp.Filter(this=_call(name, value), expression=exp.Where(this=present))

    return rewrite


def _itself(arguments: list[exp.Expression], note: Note) -> exp.Expression | None:
    return exp.Paren(this=arguments[0]) if len(arguments) == 1 else None


def _mz_now(arguments: list[exp.Expression], note: Note) -> exp.Expression | None:
    if arguments:
        return None
    note(Difference("time", "mz_now() is a count of milliseconds there, a timestamp here"))
    return _call("now")


# text and time ------------------------------------------------------------------------------------
_JAVA = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_PATTERNS = {
    "yyyy": "YYYY", "yy": "YY", "uuuu": "YYYY", "M": "FMMM", "MM": "MM", "MMM": "Mon",
    "MMMM": "FMMonth", "d": "FMDD", "dd": "DD", "D": "FMDDD", "DDD": "DDD", "H": "FMHH24",
    "HH": "HH24", "h": "FMHH12", "hh": "HH12", "m": "FMMI", "mm": "MI", "s": "FMSS", "ss": "SS",
    "S": "FF1", "SS": "FF2", "SSS": "MS", "SSSSSS": "US", "a": "AM", "E": "Dy", "EEE": "Dy",
    "EEEE": "FMDay",
}  # fmt: skip


def java_pattern(pattern: str) -> str | None:
    """Java's date pattern as to_char's; None if it holds what to_char has no word for.

    >>> java_pattern("yyyy-MM-dd'T'HH:mm:ss.SSS")
    'YYYY-MM-DD"T"HH24:MI:SS.MS'
    """
    parts: list[str] = []
    at = 0
    for found in _JAVA.finditer(pattern):
        if found.start() != at:
            return None
        at = found.end()
        text = found.group()
        if text[0] == "'":
            parts.append('"' + (found.group(1).replace("''", "'") or "'") + '"')
        elif text[0].isalpha():
            if text not in _PATTERNS:
                return None
            parts.append(_PATTERNS[text])
        else:
            parts.append(text)
    return "".join(parts) if at == len(pattern) else None


def _with_pattern(name: str) -> _Rewrite:
    """f(x, 'java pattern') as `name(x, pattern)`."""

    def rewrite(arguments: list[exp.Expression], note: Note) -> exp.Expression | None:
        if len(arguments) != 2:
            return None
        pattern = _literal(arguments[1])
        found = None if pattern is None else java_pattern(pattern)
        return None if found is None else _call(name, arguments[0], _text(found))

    return rewrite


def _time_as_text(arguments: list[exp.Expression], note: Note) -> exp.Expression | None:
    """ksqlDB's TIMESTAMPTOSTRING(milliseconds, pattern); event times are timestamps here."""
    found = _with_pattern("to_char")(arguments, note)
    if found is not None:
        found.expressions[0].replace(_call("timestamp_ms", found.expressions[0].copy()))
    return found


def _to_timestamp(arguments: list[exp.Expression], note: Note) -> exp.Expression | None:
    """Flink's TO_TIMESTAMP(text [, pattern]) has no time zone."""
    timestamp = exp.DataType(this=exp.DType.TIMESTAMP)
    if len(arguments) == 1:
        return exp.Cast(this=arguments[0], to=timestamp)
    parsed = _with_pattern("to_timestamp")(arguments, note)
    return None if parsed is None else exp.Cast(this=parsed, to=timestamp)


def _from_unixtime(arguments: list[exp.Expression], note: Note) -> exp.Expression | None:
    pattern = "yyyy-MM-dd HH:mm:ss" if len(arguments) == 1 else _literal(arguments[-1])
    found = java_pattern(pattern) if pattern is not None and len(arguments) in (1, 2) else None
    if found is None:
        return None
    return _call("to_char", _call("to_timestamp", arguments[0]), _text(found))


def _concat(arguments: list[exp.Expression], note: Note) -> exp.Expression | None:
    """Flink's CONCAT is NULL if one argument is; PostgreSQL's leaves NULLs out."""
    if len(arguments) < 2:
        return None
    text = exp.DataType(this=exp.DType.TEXT)
    whole: exp.Expression = exp.Cast(this=arguments[0], to=text)
    for argument in arguments[1:]:
        whole = exp.DPipe(this=whole, expression=exp.Cast(this=argument, to=text.copy()))
    return exp.Paren(this=whole)


def _rounded(*, up: bool) -> _Rewrite:
    """FLOOR(t TO DAY), CEIL(t TO DAY)."""

    def rewrite(arguments: list[exp.Expression], note: Note) -> exp.Expression | None:
        unit = arguments[-1] if len(arguments) == 2 else None
        if not isinstance(unit, exp.Kwarg) or unit.this.name != "to":
            return None
        value, name = arguments[0], unit.expression.name
        if up:
            value = exp.Paren(this=exp.Sub(
                this=exp.Add(this=value, expression=exp.Interval(this=_text(f"1 {name}"))),
                expression=exp.Interval(this=_text("1 microsecond")),
            ))  # fmt: skip
        return _call("date_trunc", _text(name), value)

    return rewrite


# JSON ---------------------------------------------------------------------------------------------
_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\['([^']*)'\]|\[(\d+)\]")


def json_path(path: str) -> str | None:
    """A plain JSON path as the text of PostgreSQL's path array; None for filters and wildcards.

    >>> json_path("$.a.b[0]")
    '{a,b,0}'
    """
    path = path.strip().removeprefix("lax ").strip()
    if not path.startswith("$"):
        return None
    steps: list[str] = []
    at = 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            return None
        step = next(part for part in found.groups() if part is not None)
        plain = re.fullmatch(r"\w+", step) is not None
        steps.append(step if plain else '"' + step.replace("\\", "\\\\").replace('"', '\\"') + '"')
        at = found.end()
    return "{" + ",".join(steps) + "}"


def _json(operator: str) -> _Rewrite:
    """JSON_VALUE(j, '$.a') and its kin."""

    def rewrite(arguments: list[exp.Expression], note: Note) -> exp.Expression | None:
        path = _literal(arguments[1]) if len(arguments) == 2 else None
        steps = None if path is None else json_path(path)
        if steps is None:
            return None
        value = exp.Cast(this=arguments[0], to=exp.DataType(this=exp.DType.JSONB))
        reach = exp.Operator(this=value, operator=operator, expression=_text(steps))
        return exp.Paren(this=reach)

    return rewrite


def _unit(node: exp.Expression) -> exp.Literal | None:
    """A unit of time written as a bare word."""
    if isinstance(node, exp.Column) and not node.table and node.name.upper() in INTERVAL_UNITS:
        return _text(node.name)
    return None


def _truncated(arguments: list[exp.Expression], note: Note) -> exp.Expression | None:
    """TIMESTAMP_TRUNC(t, MONTH)."""
    unit = _unit(arguments[1]) if len(arguments) == 2 else None
    return None if unit is None else _call("date_trunc", unit, arguments[0])


def _difference(arguments: list[exp.Expression], note: Note) -> exp.Expression | None:
    """DATEDIFF(DAY, a, b)."""
    unit = _unit(arguments[0]) if len(arguments) == 3 else None
    return None if unit is None else _call("timestampdiff", unit, *arguments[1:])


def _parse_json(arguments: list[exp.Expression], note: Note) -> exp.Expression | None:
    if len(arguments) != 1:
        return None
    return exp.Cast(this=arguments[0], to=exp.DataType(this=exp.DType.JSONB))


def _element_of(arguments: list[exp.Expression], note: Note) -> exp.Expression | None:
    """ARRAY_CONTAINS(a, x): whether x is one of the elements."""
    if len(arguments) != 2:
        return None
    among = exp.Any(this=exp.Paren(this=arguments[0]))
    return exp.Paren(this=exp.EQ(this=arguments[1], expression=among))


def _greatest(*, distinct: bool) -> _Rewrite:
    """TOPK(x, n), TOPKDISTINCT(x, n): the n greatest values as an array."""

    def rewrite(arguments: list[exp.Expression], note: Note) -> exp.Expression | None:
        if len(arguments) != 2 or not isinstance(arguments[1], exp.Literal):
            return None
        value, count = arguments
        down = exp.Ordered(this=value.copy(), desc=True, nulls_first=True)
        ordered = exp.Order(this=value, expressions=[down])
        items = exp.Distinct(expressions=[ordered]) if distinct else ordered
        present = exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))
        every = exp.Filter(this=_call("array_agg", items), expression=exp.Where(this=present))
        return exp.Bracket(
            this=exp.Paren(this=every),
            expressions=[exp.Slice(this=exp.Literal.number(1), expression=count)],
        )

    return rewrite


def _listagg(arguments: list[exp.Expression], note: Note) -> exp.Expression | None:
    """LISTAGG(x): with commas between."""
    return _call("string_agg", *arguments, _text(",")) if len(arguments) == 1 else None


def _count_if(arguments: list[exp.Expression], note: Note) -> exp.Expression | None:
    if len(arguments) != 1:
        return None
    return exp.Filter(this=_call("count", exp.Star()), expression=exp.Where(this=arguments[0]))


_EVERYWHERE: dict[str, _Rewrite] = {
    # Materialize
    "mz_now": _mz_now,
    "mz_logical_timestamp": _mz_now,
    # ksqlDB
    "latest_by_offset": _by_offset("last_value"),
    "earliest_by_offset": _by_offset("first_value"),
    "collect_list": _renamed("array_agg", 1),
    "collect_set": _distinct("array_agg"),
    "count_distinct": _distinct("count"),
    "as_value": _itself,
    "topk": _greatest(distinct=False),
    "topkdistinct": _greatest(distinct=True),
    "array_length": _renamed("cardinality", 1),
    "explode": _renamed("unnest", 1),
    "extractjsonfield": _json("#>>"),
    "timestamptostring": _time_as_text,
    "format_timestamp": _with_pattern("to_char"),
    "stringtotimestamp": _with_pattern("to_timestamp"),
    "parse_timestamp": _with_pattern("to_timestamp"),
    # Flink, Calcite
    "json_value": _json("#>>"),
    "json_query": _json("#>"),
    "from_unixtime": _from_unixtime,
    "collect": _renamed("array_agg", 1),
    "listagg": _listagg,
    "timestamp_trunc": _truncated,
    "datediff": _difference,
    "parse_json": _parse_json,
    "countif": _count_if,
    "floor": _rounded(up=False),
    "ceil": _rounded(up=True),
    "ceiling": _rounded(up=True),
}
_OF_DIALECT: dict[tuple[str, str], _Rewrite] = {
    ("flink", "array_contains"): _element_of,
    ("ksql", "array_contains"): _element_of,
    ("feldera", "array_contains"): _element_of,
    ("feldera", "date_trunc"): _truncated,
    ("materialize", "list_length"): _renamed("cardinality", 1),
    ("flink", "to_timestamp"): _to_timestamp,
    ("flink", "to_date"): _with_pattern("to_date"),
    ("flink", "concat"): _concat,
}
