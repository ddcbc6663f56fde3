"""Expressions as readable SQL text, for EXPLAIN and messages (not for execution)."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

from streamsql.core.schema import Schema
from streamsql.core.types import Kind
from streamsql.functions.expressions import (
    AggregateCall,
    Call,
    Case,
    Cast,
    ColumnRef,
    Expr,
    Frame,
    FrameBound,
    Literal,
    OuterRef,
    Parameter,
    SortKey,
    Subquery,
    WindowCall,
)
from streamsql.plan.names import call_name

_INFIX: dict[str, tuple[str, int]] = {
    "or": ("OR", 1),
    "and": ("AND", 2),
    "eq": ("=", 4),
    "ne": ("<>", 4),
    "lt": ("<", 4),
    "le": ("<=", 4),
    "gt": (">", 4),
    "ge": (">=", 4),
    "is_distinct_from": ("IS DISTINCT FROM", 4),
    "is_not_distinct_from": ("IS NOT DISTINCT FROM", 4),
    "like": ("LIKE", 5),
    "ilike": ("ILIKE", 5),
    "similar_to": ("SIMILAR TO", 5),
    "concat_op": ("||", 6),
    "add": ("+", 7),
    "subtract": ("-", 7),
    "multiply": ("*", 8),
    "divide": ("/", 8),
    "modulo": ("%", 8),
    "power": ("^", 9),
}
_POSTFIX = {
    "is_null": "IS NULL",
    "is_not_null": "IS NOT NULL",
    "is_true": "IS TRUE",
    "is_not_true": "IS NOT TRUE",
    "is_false": "IS FALSE",
    "is_not_false": "IS NOT FALSE",
    "is_unknown": "IS UNKNOWN",
    "is_not_unknown": "IS NOT UNKNOWN",
}
_ATOM = 20


def render(expr: Expr, schema: Schema | None = None) -> str:
    """The expression as SQL text; column names from `schema` (the node's input), else their own.

    >>> from streamsql.functions.expressions import Call, column, literal
    >>> from streamsql.core.types import BOOLEAN, INTEGER
    >>> c = Call(function="gt", args=(column(0, INTEGER, "a"), literal(1, INTEGER)), type=BOOLEAN)
    >>> render(c)
    'a > 1'
    """
    return _Renderer(schema).text(expr)


def render_sort_keys(keys: Sequence[SortKey], schema: Schema | None = None) -> str:
    """ORDER BY items; NULLS only where it is not the default."""
    return ", ".join(_sort_key(k, schema) for k in keys)


def _sort_key(key: SortKey, schema: Schema | None) -> str:
    text = render(key.expr, schema) + (" DESC" if key.descending else "")
    if key.nulls_first != key.descending:
        text += " NULLS FIRST" if key.nulls_first else " NULLS LAST"
    return text


def render_aggregate(call: AggregateCall, schema: Schema | None = None) -> str:
    """sum(DISTINCT x) FILTER (WHERE y)."""
    if call.function == "count_star":
        text = "count(*)"
    else:
        args = ", ".join(render(a, schema) for a in call.args)
        order = f" ORDER BY {render_sort_keys(call.order_by, schema)}" if call.order_by else ""
        text = f"{call_name(call.function)}({'DISTINCT ' if call.distinct else ''}{args}{order})"
    if call.filter is not None:
        text += f" FILTER (WHERE {render(call.filter, schema)})"
    return text


def render_window(call: WindowCall, schema: Schema | None = None) -> str:
    """rank() OVER (PARTITION BY a ORDER BY b)."""
    plain = AggregateCall(
        function=call.function,
        args=call.args,
        type=call.type,
        distinct=call.distinct,
        filter=call.filter,
    )
    parts = []
    if call.partition_by:
        parts.append("PARTITION BY " + ", ".join(render(e, schema) for e in call.partition_by))
    if call.order_by:
        parts.append("ORDER BY " + render_sort_keys(call.order_by, schema))
    if call.frame is not None:
        parts.append(_frame(call.frame, schema))
    nulls = " IGNORE NULLS" if call.ignore_nulls else ""
    return f"{render_aggregate(plain, schema)}{nulls} OVER ({' '.join(parts)})"


def _frame(frame: Frame, schema: Schema | None) -> str:
    start, end = _bound(frame.start, schema), _bound(frame.end, schema)
    text = f"{frame.mode.upper()} BETWEEN {start} AND {end}"
    if frame.exclude != "no_others":
        text += f" EXCLUDE {frame.exclude.replace('_', ' ').upper()}"
    return text


def _bound(bound: FrameBound, schema: Schema | None) -> str:
    words = bound.kind.replace("_", " ").upper()
    return words if bound.offset is None else f"{render(bound.offset, schema)} {words}"


def render_literal(literal: Literal) -> str:
    """A constant as SQL."""
    return _value(literal.value, literal.type.kind)


def _value(value: Any, kind: Kind) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if kind is Kind.INTERVAL:
        return f"interval '{interval_text(*value)}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'"
    if isinstance(value, datetime.datetime):
        word = "timestamptz" if kind is Kind.TIMESTAMPTZ else "timestamp"
        return f"{word} '{value.isoformat(sep=' ')}'"
    if isinstance(value, datetime.date):
        return f"date '{value.isoformat()}'"
    if isinstance(value, datetime.time):
        return f"time '{value.isoformat()}'"
    if isinstance(value, tuple | list):
        return "{" + ", ".join(_value(v, Kind.UNKNOWN) for v in value) + "}"
    return str(value)


def interval_text(months: int, days: int, us: int) -> str:
    """An interval the way an operator reads it: '1 mon 2 days 00:00:05'.

    >>> interval_text(0, 0, 90_000_000)
    '00:01:30'
    """
    parts = []
    if months:
        parts.append(f"{months} mon{'s' if abs(months) != 1 else ''}")
    if days:
        parts.append(f"{days} day{'s' if abs(days) != 1 else ''}")
    if us or not parts:
        sign, us = ("-", -us) if us < 0 else ("", us)
        seconds, fraction = divmod(us, 1_000_000)
        text = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        parts.append(text + (f".{fraction:06}".rstrip("0") if fraction else ""))
    return " ".join(parts)


class _Renderer:
    def __init__(self, schema: Schema | None) -> None:
        self.schema = schema

    def text(self, expr: Expr, above: int = 0) -> str:
        """The expression, in parentheses if it binds looser than `above`."""
        text, level = self._parts(expr)
        return f"({text})" if level < above else text

    def _parts(self, expr: Expr) -> tuple[str, int]:
        handler = _RENDERERS.get(type(expr))
        return (type(expr).__name__, _ATOM) if handler is None else handler(self, expr)

    def column(self, expr: ColumnRef) -> tuple[str, int]:
        """A column by the name its input has for it."""
        name = expr.name
        if self.schema is not None and expr.index < len(self.schema):
            name = self.schema[expr.index].name or name
        return _quoted(name) or f"#{expr.index}", _ATOM

    def outer(self, expr: OuterRef) -> tuple[str, int]:
        """A column of an enclosing row."""
        return f"outer.{_quoted(expr.name) or expr.index}", _ATOM

    def literal(self, expr: Literal) -> tuple[str, int]:
        """A constant."""
        return render_literal(expr), _ATOM

    def parameter(self, expr: Parameter) -> tuple[str, int]:
        """$n."""
        return f"${expr.index}", _ATOM

    def call(self, expr: Call) -> tuple[str, int]:
        """A call: infix, postfix or f(x)."""
        name, args = expr.function, expr.args
        if name in _INFIX and len(args) >= 2:
            word, level = _INFIX[name]
            return f" {word} ".join(self.text(a, level + (level > 2)) for a in args), level
        if name in _POSTFIX and len(args) == 1:
            return f"{self.text(args[0], 5)} {_POSTFIX[name]}", 4
        if name == "not":
            return f"NOT {self.text(args[0], 4)}", 3
        if name == "negate":
            return f"-{self.text(args[0], 10)}", 10
        if name == "in":
            members = ", ".join(self.text(a) for a in args[1:])
            return f"{self.text(args[0], 5)} IN ({members})", 4
        if name == "array":
            return f"ARRAY[{', '.join(self.text(a) for a in args)}]", _ATOM
        if name == "subscript":
            return f"{self.text(args[0], _ATOM)}[{self.text(args[1])}]", _ATOM
        if name == "field" and isinstance(args[1], Literal):
            return f"({self.text(args[0])}).{_quoted(str(args[1].value))}", _ATOM
        return f"{call_name(name)}({', '.join(self.text(a) for a in args)})", _ATOM

    def cast(self, expr: Cast) -> tuple[str, int]:
        """x::type."""
        if expr.try_:
            return f"TRY_CAST({self.text(expr.arg)} AS {expr.type})", _ATOM
        return f"{self.text(expr.arg, _ATOM)}::{expr.type}", _ATOM

    def case(self, expr: Case) -> tuple[str, int]:
        """CASE WHEN … END."""
        parts = [f"WHEN {self.text(c)} THEN {self.text(r)}" for c, r in expr.whens]
        if expr.otherwise is not None:
            parts.append(f"ELSE {self.text(expr.otherwise)}")
        return f"CASE {' '.join(parts)} END", _ATOM

    def subquery(self, expr: Subquery) -> tuple[str, int]:
        """A subquery, shortened to the relations that it reads."""
        inner = f"(SELECT {_columns(expr)} FROM {_reads(expr)})"
        operands = ", ".join(self.text(o, 5) for o in expr.operands)
        if len(expr.operands) > 1:
            operands = f"({operands})"
        match expr.kind:
            case "exists":
                return f"EXISTS {inner}", _ATOM
            case "array":
                return f"ARRAY{inner}", _ATOM
            case "in":
                return f"{operands} {'NOT IN' if expr.negated else 'IN'} {inner}", 4
            case "any" | "all":
                word = _INFIX.get(expr.operator, (expr.operator, 0))[0]
                return f"{operands} {word} {expr.kind.upper()} {inner}", 4
        return inner, _ATOM


def _columns(expr: Subquery) -> str:
    return ", ".join(_quoted(n) or "?" for n in expr.plan.schema.names)


def _reads(expr: Subquery) -> str:
    from streamsql.plan.nodes import Scan
    from streamsql.plan.visit import walk_plan

    names = [n.name for n in walk_plan(expr.plan) if isinstance(n, Scan)]
    return ", ".join(dict.fromkeys(names)) or "VALUES"


def _quoted(name: str) -> str:
    """A column's name as it must be written; a label that is an expression goes in parentheses."""
    if not name or name == "?column?" or all(map(_is_plain, name.split("."))):
        return name
    if any(mark in name for mark in " ()+-*/<>=|:'["):
        return f"({name})"
    return '"' + name.replace('"', '""') + '"'


def _is_plain(part: str) -> bool:
    bare = part.replace("_", "a")
    return bare.isalnum() and part == part.lower() and not part[0].isdigit()


_RENDERERS: dict[type[Expr], Callable[..., tuple[str, int]]] = {
    ColumnRef: _Renderer.column,
    OuterRef: _Renderer.outer,
    Literal: _Renderer.literal,
    Parameter: _Renderer.parameter,
    Call: _Renderer.call,
    Cast: _Renderer.cast,
    Case: _Renderer.case,
    Subquery: _Renderer.subquery,
}
