"""Kernels that make JSON of values, and that take documents apart into arrays."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.errors import (
    ArraySubscriptError,
    DataError,
    InvalidParameterValue,
    NullValueNotAllowed,
)
from streamsql.core.types import Kind
from streamsql.functions.compute import json_source
from streamsql.functions.compute.columns import Value, broadcast, flat
from streamsql.functions.compute.grouped import by_value_failing
from streamsql.functions.definitions import KernelCall
from streamsql.functions.textio import json_output, json_text
from streamsql.functions.textio.output import to_text

_TEXT = pa.string()
_NULL = pa.scalar(None, _TEXT)


def to_jsonb(call: KernelCall, a: Value) -> Any:
    """to_jsonb of any value."""
    return _to_json(call, a, jsonb=True)


def to_json(call: KernelCall, a: Value) -> Any:
    """to_json, row_to_json."""
    return _to_json(call, a, jsonb=False)


def _to_json(call: KernelCall, a: Value, *, jsonb: bool) -> Any:
    array = broadcast(a, call.num_rows)
    text = json_output.to_json(array, call.arg_types[0], call.timezone, jsonb=jsonb)
    if array.null_count:
        text = pc.if_else(array.is_valid(), text, _NULL)
    return text


def _items(call: KernelCall, args: tuple[Value, ...], *, jsonb: bool) -> list[pa.Array]:
    return [
        json_output.to_json(broadcast(a, call.num_rows), t, call.timezone, jsonb=jsonb)
        for a, t in zip(args, call.arg_types, strict=True)
    ]


def build_array(call: KernelCall, *args: Value) -> Any:
    """jsonb_build_array, json_build_array."""
    jsonb = call.type.kind is Kind.JSONB
    if not args:
        return pa.scalar("[]")
    items = _items(call, args, jsonb=jsonb)
    pieces: list[Any] = ["["]
    for i, item in enumerate(items):
        pieces += [", ", item] if i else [item]
    return pc.binary_join_element_wise(*pieces, "]", "")


def build_object(call: KernelCall, *args: Value) -> Any:
    """jsonb_build_object, json_build_object: keys and values alternate."""
    jsonb = call.type.kind is Kind.JSONB
    if len(args) % 2:
        call.fail(True, InvalidParameterValue, "argument list must have even number of elements")
        return _NULL
    if not args:
        return pa.scalar("{}")
    items = _items(call, args, jsonb=jsonb)
    pieces: list[Any] = ["{"]
    for i in range(0, len(args), 2):
        key = broadcast(args[i], call.num_rows)
        if key.null_count:
            call.fail(
                np.asarray(key.is_null()), InvalidParameterValue,
                f"argument {i + 1}: key must not be null",
            )  # fmt: skip
        shown = json_output.quote(pc.fill_null(to_text(key, call.arg_types[i], call.timezone), ""))
        pieces += [", " if i else "", shown, ": " if jsonb else " : ", items[i + 1]]
    text = flat(pc.binary_join_element_wise(*pieces, "}", ""))
    if not jsonb:
        return text
    if len(args) == 2:
        return text
    constant = all(isinstance(a, pa.Scalar) for a in args[::2])
    if constant and _sorted_keys(args[::2]):
        return text
    return json_output.normalised(text)


def _sorted_keys(keys: tuple[Value, ...]) -> bool:
    names = [str(k.as_py()).encode() for k in keys]
    order = [(len(n), n) for n in names]
    return all(a < b for a, b in pairwise(order))


def elements(call: KernelCall, a: pa.Array) -> Any:
    """jsonb_array_elements as an array."""
    if call.arg_types[0].kind is Kind.JSON:
        return by_value_failing(call, a, json_source.array_items, pa.list_(_TEXT))
    return _elements(call, a, json_text.dump)


def elements_text(call: KernelCall, a: pa.Array) -> Any:
    """jsonb_array_elements_text as an array."""
    if call.arg_types[0].kind is Kind.JSON:

        def texts(document: str) -> list[str | None]:
            return [json_source.shown(v) for v in json_source.array_items(document)]

        return by_value_failing(call, a, texts, pa.list_(_TEXT))
    return _elements(call, a, plain_text)


def plain_text(value: Any) -> str | None:
    """A loaded value as ->> shows it."""
    if value is None:
        return None
    if isinstance(value, str):
        return str.__str__(value)
    return json_text.dump(value)


def _elements(call: KernelCall, a: pa.Array, show: Callable[[Any], str | None]) -> Any:
    def one(text: str) -> list[str | None]:
        document = json_text.load(text)
        if isinstance(document, dict):
            raise InvalidParameterValue("cannot extract elements from an object")
        if not isinstance(document, list):
            raise InvalidParameterValue("cannot extract elements from a scalar")
        return [show(v) for v in document]

    return by_value_failing(call, a, one, pa.list_(_TEXT))


def _members(
    call: KernelCall, a: pa.Array, function: str, take: Callable[[tuple[str, Any]], str | None]
) -> Any:
    """What `take` gives of each member; the value comes loaded, of json as its text."""
    if call.arg_types[0].kind is Kind.JSON:
        name = function.replace("jsonb", "json")
        read = json_source.object_items
        return by_value_failing(call, a, lambda d: [take(m) for m in read(d, name)],
                                pa.list_(_TEXT))  # fmt: skip
    return by_value_failing(call, a, lambda d: [take(m) for m in _object(d, function)],
                            pa.list_(_TEXT))  # fmt: skip


def _object(text: str, function: str) -> list[tuple[str, Any]]:
    document = json_text.load(text)
    if not isinstance(document, dict):
        kind = "an array" if isinstance(document, list) else "a scalar"
        raise InvalidParameterValue(f"cannot call {function} on {kind}")
    return sorted(document.items(), key=lambda kv: (len(kv[0].encode()), kv[0].encode()))


def object_keys(call: KernelCall, a: pa.Array) -> Any:
    """jsonb_object_keys as an array."""
    return _members(call, a, "jsonb_object_keys", lambda m: m[0])


def each_values(call: KernelCall, a: pa.Array) -> Any:
    """The values of jsonb_each, in the order of object_keys."""
    written = call.arg_types[0].kind is Kind.JSON
    show: Callable[[Any], str] = str if written else json_text.dump
    return _members(call, a, "jsonb_each", lambda m: show(m[1]))


def each_values_text(call: KernelCall, a: pa.Array) -> Any:
    """The values of jsonb_each_text."""
    written = call.arg_types[0].kind is Kind.JSON
    show = json_source.shown if written else plain_text
    return _members(call, a, "jsonb_each_text", lambda m: show(m[1]))


def object_of_pairs(call: KernelCall, a: Value) -> Any:
    """json_object(text[]): keys and values alternate, or each pair is an array."""
    made = broadcast(a, call.num_rows).to_pylist()
    return _objects(call, [None if v is None else _paired(v) for v in made])


def object_of_lists(call: KernelCall, a: Value, b: Value) -> Any:
    """json_object(keys, values)."""
    keys, items = broadcast(a, call.num_rows).to_pylist(), broadcast(b, call.num_rows).to_pylist()
    rows: list[Any] = []
    for k, v in zip(keys, items, strict=True):
        if k is None or v is None:
            rows.append(None)
        elif len(k) != len(v):
            rows.append("mismatched array dimensions")
        else:
            rows.append(list(zip(k, v, strict=True)))
    return _objects(call, rows)


def _paired(values: list[Any]) -> Any:
    """The (key, value) pairs, or why there are none."""
    if values and isinstance(values[0], list):
        return values if len(values[0]) == 2 else "array must have two columns"
    if len(values) % 2:
        return "array must have even number of elements"
    return list(zip(values[::2], values[1::2], strict=True))


def _objects(call: KernelCall, rows: list[Any]) -> Any:
    """Documents of (key, value) pairs of texts; a row that is a message fails with it."""
    jsonb = call.type.kind is Kind.JSONB
    made: list[str | None] = []
    refused: dict[int, tuple[type[DataError], str]] = {}
    for i, pairs in enumerate(rows):
        made.append(None)
        if isinstance(pairs, str):
            refused[i] = (ArraySubscriptError, pairs)
        elif pairs is not None and any(k is None for k, _ in pairs):
            refused[i] = (NullValueNotAllowed, "null value not allowed for object key")
        elif pairs is not None:
            parts = [f"{json_text.dump(k)}{': ' if jsonb else ' : '}{json_text.dump(v)}"
                     for k, v in (dict(pairs).items() if jsonb else pairs)]  # fmt: skip
            made[i] = "{" + ", ".join(parts) + "}"
    for error in {e for e, _ in refused.values()}:
        bad = np.zeros(len(rows), np.bool_)
        bad[[i for i, (e, _) in refused.items() if e is error]] = True
        call.fail(bad, error, lambda row: refused[row][1])
    texts = pa.array(made, _TEXT)
    return json_output.normalised(texts) if jsonb else texts
