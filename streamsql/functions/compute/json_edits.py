"""Kernels that change jsonb documents: || - #- jsonb_set jsonb_insert."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.errors import (
    InvalidParameterValue,
    InvalidTextRepresentation,
    NullValueNotAllowed,
)
from streamsql.functions.compute.columns import Value, broadcast, from_bools
from streamsql.functions.compute.grouped import by_value_failing, constants
from streamsql.functions.compute.jsons import by_pair
from streamsql.functions.definitions import KernelCall
from streamsql.functions.textio import json_text

_TEXT = pa.string()


def concat(call: KernelCall, a: Value, b: Value) -> Any:
    """|| : objects are merged, everything else becomes one array."""

    def one(x: str, y: str) -> str:
        left, right = json_text.load(x), json_text.load(y)
        if isinstance(left, dict) and isinstance(right, dict):
            return json_text.dump({**left, **right})
        parts = [v if isinstance(v, list) else [v] for v in (left, right)]
        return json_text.dump(parts[0] + parts[1])

    return by_pair(call, a, b, one, _TEXT)


def _deletion(call: KernelCall, a: pa.Array, fn: Callable[[Any], Any]) -> Any:
    return by_value_failing(call, a, lambda d: json_text.dump(fn(json_text.load(d))), _TEXT)


@constants(1)
def delete_key(call: KernelCall, a: pa.Array, key: pa.Scalar) -> Any:
    """jsonb - text."""
    text = key.as_py()

    def one(document: Any) -> Any:
        if isinstance(document, dict):
            return {k: v for k, v in document.items() if k != text}
        if isinstance(document, list):
            return [v for v in document if isinstance(v, json_text.Number) or v != text]
        raise InvalidParameterValue("cannot delete from scalar")

    return _deletion(call, a, one)


@constants(1)
def delete_index(call: KernelCall, a: pa.Array, index: pa.Scalar) -> Any:
    """jsonb - integer."""
    at = index.as_py()

    def one(document: Any) -> Any:
        if isinstance(document, dict):
            raise InvalidParameterValue("cannot delete from object using integer index")
        if not isinstance(document, list):
            raise InvalidParameterValue("cannot delete from scalar")
        place = at + len(document) if at < 0 else at
        return [v for i, v in enumerate(document) if i != place]

    return _deletion(call, a, one)


def delete_keys(call: KernelCall, a: Value, keys: Value) -> Any:
    """jsonb - text[]."""
    return _with_lists(call, a, keys, lambda d, ks: _without(d, set(ks)))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, json_text.Number)


def _without(document: Any, keys: set[Any]) -> Any:
    if isinstance(document, dict):
        return {k: v for k, v in document.items() if k not in keys}
    if isinstance(document, list):
        return [v for v in document if not _is_text(v) or v not in keys]
    raise InvalidParameterValue("cannot delete from scalar")


def _with_lists(call: KernelCall, a: Value, lists: Value, fn: Callable[[Any, Any], Any]) -> Any:
    """fn(document, list) as jsonb text, a constant list once per distinct document."""
    documents = broadcast(a, call.num_rows)
    if isinstance(lists, pa.Scalar):
        items = lists.as_py()
        return _deletion(call, documents, lambda d: fn(d, items))
    rows = zip(documents.to_pylist(), lists.to_pylist(), strict=True)
    made = [
        None if d is None or ks is None else json_text.dump(fn(json_text.load(d), ks))
        for d, ks in rows
    ]
    return pa.array(made, _TEXT)


def delete_path(call: KernelCall, a: Value, path: Value) -> Any:
    """#- : without the part at a path."""

    def one(document: Any, steps: list[str]) -> Any:
        if not isinstance(document, (dict, list)):
            raise InvalidParameterValue("cannot delete path in scalar")
        return _delete_at(document, steps)

    return _with_lists(call, a, path, one)


def _delete_at(document: Any, path: list[str]) -> Any:
    if not path:
        return document
    head, rest = _head(path), path[1:]
    if isinstance(document, dict):
        if head not in document:
            return document
        if not rest:
            return {k: v for k, v in document.items() if k != head}
        return {**document, head: _delete_at(document[head], rest)}
    if isinstance(document, list):
        place = _place(head, len(document))
        if place is None or not 0 <= place < len(document):
            return document
        if not rest:
            return document[:place] + document[place + 1 :]
        return [*document[:place], _delete_at(document[place], rest), *document[place + 1 :]]
    return document


def _head(path: list[str]) -> str:
    if any(p is None for p in path):
        place = [p is None for p in path].index(True) + 1
        raise NullValueNotAllowed(f"path element at position {place} is null")
    return path[0]


def _place(text: str, length: int) -> int | None:
    try:
        index = int(text)
    except ValueError:
        raise InvalidTextRepresentation(f'path element is not an integer: "{text}"') from None
    return index + length if index < 0 else index


def set_value(call: KernelCall, a: Value, path: Value, new: Value, create: Any = None) -> Any:
    """jsonb_set(target, path, value[, create_if_missing])."""
    return _set(call, a, path, new, create, insert=False, default=True)


def set_value_lax(
    call: KernelCall,
    a: Value,
    path: Value,
    new: Value,
    create: Any = None,
    treatment: Any = None,
) -> Any:
    """jsonb_set_lax: as jsonb_set, and what a NULL value does is said by the last argument."""
    n = call.num_rows
    missing = np.asarray(broadcast(new, n).is_null())
    given = pc.fill_null(broadcast(new, n), "null")
    changed = _set(call, a, path, given, create, insert=False, default=True)
    if not missing.any():
        return changed
    how = ["use_json_null"] * n if treatment is None else broadcast(treatment, n).to_pylist()
    known = {"use_json_null", "delete_key", "return_target", "raise_exception"}
    bad = np.array([h not in known for h in how]) & missing
    if bad.any():
        call.fail(bad, InvalidParameterValue, 'null_value_treatment must be "delete_key", '
                  '"return_target", "use_json_null", or "raise_exception"')  # fmt: skip
    raising = np.array([h == "raise_exception" for h in how]) & missing
    if raising.any():
        call.fail(raising, NullValueNotAllowed, "JSON value must not be null")
    target, without = broadcast(a, n), delete_path(call, a, path)
    for name, other in (("return_target", target), ("delete_key", without)):
        rows = from_bools(np.array([h == name for h in how]) & missing)
        changed = pc.if_else(rows, other, changed)
    return changed


def insert_value(call: KernelCall, a: Value, path: Value, new: Value, after: Any = None) -> Any:
    """jsonb_insert(target, path, value[, insert_after])."""
    return _set(call, a, path, new, after, insert=True, default=False)


def _set(
    call: KernelCall, a: Value, path: Value, new: Value, flag: Any, *, insert: bool, default: bool
) -> Any:
    n = call.num_rows
    columns = [broadcast(v, n).to_pylist() for v in (a, path, new)]
    flags = [default] * n if flag is None else broadcast(flag, n).to_pylist()
    made: list[str | None] = []
    memo: dict[Any, str] = {}
    for d, p, v, f in zip(*columns, flags, strict=True):
        if d is None or p is None or v is None or f is None:
            made.append(None)
            continue
        key = (d, tuple(p), v, f)
        if key not in memo:
            document, value = json_text.load(d), json_text.load(v)
            if not isinstance(document, (dict, list)):
                raise InvalidParameterValue("cannot set path in scalar")
            memo[key] = json_text.dump(_set_at(document, p, value, f, insert))
        made.append(memo[key])
    return pa.array(made, _TEXT)


def _set_at(document: Any, path: list[str], value: Any, flag: bool, insert: bool) -> Any:
    if not path:
        return document
    head, rest = _head(path), path[1:]
    if isinstance(document, dict):
        if rest:
            if head not in document:
                return document
            return {**document, head: _set_at(document[head], rest, value, flag, insert)}
        if insert:
            if head in document:
                raise InvalidParameterValue("cannot replace existing key")
            return {**document, head: value}
        return {**document, head: value} if head in document or flag else document
    if isinstance(document, list):
        return _set_item(document, head, rest, value, flag, insert)
    return document


def _set_item(
    document: list[Any], head: str, rest: list[str], value: Any, flag: bool, insert: bool
) -> Any:
    n = len(document)
    place = _place(head, n)
    assert place is not None
    if rest:
        if not 0 <= place < n:
            return document
        inner = _set_at(document[place], rest, value, flag, insert)
        return [*document[:place], inner, *document[place + 1 :]]
    if insert:
        place = place + 1 if flag and 0 <= place < n else place
        place = min(max(place, 0), n)
        return [*document[:place], value, *document[place:]]
    if 0 <= place < n:
        return [*document[:place], value, *document[place + 1 :]]
    if not flag:
        return document
    return [value, *document] if place < 0 else [*document, value]


def strip_nulls(call: KernelCall, a: pa.Array) -> Any:
    """jsonb_strip_nulls."""

    def strip(v: Any) -> Any:
        if isinstance(v, dict):
            return {k: strip(x) for k, x in v.items() if x is not None}
        return [strip(x) for x in v] if isinstance(v, list) else v

    return _deletion(call, a, strip)
