"""Order of nested values and JSON documents: one Python key a value."""

from __future__ import annotations

import math
from functools import total_ordering
from typing import Any

from streamsql.core.types import Kind, SqlType
from streamsql.functions.textio import json_text


@total_ordering
class _Last:
    """Sorts after everything: NULL inside of arrays and structs."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Last)

    def __lt__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 0


_NULL = _Last()


class _Float:
    """A float with NaN equal to itself and above all."""

    __slots__ = ("key",)

    def __init__(self, x: float) -> None:
        self.key = (1, 0.0) if math.isnan(x) else (0, x)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Float) and self.key == other.key

    def __lt__(self, other: Any) -> bool:
        return self.key < other.key if isinstance(other, _Float) else True

    def __gt__(self, other: Any) -> bool:
        return self.key > other.key if isinstance(other, _Float) else False

    def __hash__(self) -> int:
        return hash(self.key)


def sort_key(value: Any, t: SqlType) -> Any:
    """A key whose order is PostgreSQL's for the type; `value` as Arrow's as_py gives it."""
    if value is None:
        return _NULL
    if t.kind is Kind.ARRAY:
        assert t.element is not None
        return [sort_key(v, t.element) for v in value]
    if t.kind is Kind.STRUCT:
        return [sort_key(value[name], ft) for name, ft in t.fields]
    if t.kind is Kind.MAP:
        assert t.key is not None and t.value is not None
        key, item = t.key, t.value
        return sorted([sort_key(k, key), sort_key(v, item)] for k, v in value)
    if t.is_float:
        return _Float(value)
    if t.kind is Kind.INTERVAL:
        us = value.nanoseconds // 1000
        days = value.months * 30 + value.days + us // 86_400_000_000
        return days, us % 86_400_000_000
    if t.kind is Kind.JSONB:
        document = json_text.load(value)
        return (-1,) if document == [] else json_key(document)  # as PostgreSQL's history has it
    return value


def json_key(document: Any) -> Any:
    """jsonb's order: Object > Array > Boolean > Number > String > Null; more members are more."""
    from decimal import Decimal

    if document is None:
        return (0,)
    if isinstance(document, json_text.Number):
        return 2, Decimal(document)
    if isinstance(document, str):
        return 1, document
    if isinstance(document, bool):
        return 3, document
    if isinstance(document, list):
        return 4, len(document), [json_key(v) for v in document]
    items = sorted(document.items(), key=lambda kv: (len(kv[0].encode()), kv[0].encode()))
    return 5, len(items), [(k.encode(), json_key(v)) for k, v in items]
