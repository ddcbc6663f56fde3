"""Kernels of JSON and JSONB. Paths are found by scanning bytes; the rest is one Python call a
distinct document, over documents in jsonb's normal text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.errors import InvalidParameterValue
from streamsql.core.types import Kind
from streamsql.functions.compute.columns import (
    Value,
    broadcast,
    column,
    flat,
    text_buffers,
    valid_mask,
    validity_from,
)
from streamsql.functions.compute.grouped import by_value, by_value_failing, constants
from streamsql.functions.definitions import KernelCall
from streamsql.functions.textio import json_text

_TEXT = pa.string()
_NULL = pa.scalar(None, _TEXT)
Step = int | str


class Ranges:
    """Byte ranges of one part of each document; start -1 = absent."""

    def __init__(self, a: pa.Array) -> None:
        offsets, self.data = text_buffers(a)
        self.starts = offsets[:-1].astype(np.int64)
        self.ends = offsets[1:].astype(np.int64)
        mask = valid_mask(a)
        if mask is not None:
            self.starts = np.where(mask, self.starts, -1)

    def step(self, step: Step) -> Ranges:
        """One level down: a key or an array index."""
        from streamsql.functions.compute import json_loops

        starts, ends = np.empty_like(self.starts), np.empty_like(self.ends)
        if isinstance(step, int):
            json_loops.find_index(self.starts, self.ends, self.data, step, starts, ends)
        else:
            key = np.frombuffer(json_text.quote(step).encode(), np.uint8)
            json_loops.find_key(self.starts, self.ends, self.data, key, starts, ends)
        self.starts, self.ends = starts, ends
        return self

    def either(self, text: str) -> Ranges:
        """A path step: a key of objects, an index of arrays."""
        index = None
        try:
            index = int(text)
        except ValueError:
            return self.step(text)
        start, end = self.starts, self.ends
        by_key = self.step(text)
        key_starts, key_ends = by_key.starts, by_key.ends
        self.starts, self.ends = start, end
        by_index = self.step(index)
        found = key_starts >= 0
        self.starts = np.where(found, key_starts, by_index.starts)
        self.ends = np.where(found, key_ends, by_index.ends)
        return self

    def json(self) -> pa.Array:
        """The parts as JSON text."""
        from streamsql.functions.compute.texts import gather

        present = self.starts >= 0
        starts = np.where(present, self.starts, 0)
        ends = np.where(present, self.ends, 0)
        return gather(self.data, starts, ends, validity_from(present))

    def text(self) -> pa.Array:
        """The parts as text: strings without quotes, JSON null as NULL."""
        from streamsql.functions.compute import json_loops
        from streamsql.functions.compute.texts import gather

        kinds = np.empty(len(self.starts), np.uint8)
        json_loops.classify(self.starts, self.ends, self.data, kinds)
        string = (kinds == 2) | (kinds == 3)
        present = kinds >= 2
        starts = np.where(present, self.starts + string, 0)
        ends = np.where(present, self.ends - string, 0)
        plain = gather(self.data, starts, ends, validity_from(present))
        escaped = kinds == 3
        if not escaped.any():
            return plain
        from streamsql.functions.compute.columns import from_bools

        hard = plain.filter(from_bools(escaped))
        fixed = by_value(hard, lambda s: json.loads(f'"{s}"'), _TEXT)
        return flat(pc.replace_with_mask(plain, from_bools(escaped), fixed))


def _part(call: KernelCall, a: pa.Array, step: Step) -> Ranges:
    """One level down. A jsonb scalar is an array of itself, as PostgreSQL stores it."""
    found = Ranges(a)
    if step not in (0, -1) or call.arg_types[0].kind is not Kind.JSONB:
        return found.step(step)
    starts, ends = found.starts, found.ends
    if not len(found.data):
        return found.step(step)
    first = found.data[np.where(starts >= 0, starts, 0)]
    scalar = (starts >= 0) & (first != ord("[")) & (first != ord("{"))
    found.step(step)
    found.starts = np.where(scalar, starts, found.starts)
    found.ends = np.where(scalar, ends, found.ends)
    return found


@constants(1)
def get(call: KernelCall, a: pa.Array, step: pa.Scalar) -> Any:
    """-> : a part as JSON."""
    return _part(call, a, step.as_py()).json()


@constants(1)
def get_text(call: KernelCall, a: pa.Array, step: pa.Scalar) -> Any:
    """->> : a part as text."""
    return _part(call, a, step.as_py()).text()


def _path(a: pa.Array, path: pa.Scalar) -> Ranges | None:
    steps = path.as_py()
    if any(s is None for s in steps):
        return None
    found = Ranges(a)
    for s in steps:
        found = found.either(s)
    return found


def get_path(call: KernelCall, a: pa.Array, path: Value) -> Any:
    """#> : the part at a path of keys and indices."""
    return _by_path(call, a, path, lambda r: r.json())


def get_path_text(call: KernelCall, a: pa.Array, path: Value) -> Any:
    """#>> : the same as text."""
    return _by_path(call, a, path, lambda r: r.text())


def _by_path(call: KernelCall, a: Value, path: Value, take: Callable[[Ranges], pa.Array]) -> Any:
    documents = broadcast(a, call.num_rows)
    if isinstance(path, pa.Scalar):
        found = _path(documents, path)
        return _NULL if found is None else take(found)
    parts = []
    for i in range(len(path)):  # a path that varies is rare: row by row
        one = documents.slice(i, 1)
        found = _path(one, path[i]) if path[i].is_valid else None
        parts.append(pa.nulls(1, _TEXT) if found is None else take(found))
    return pa.concat_arrays(parts)


def extract_path(call: KernelCall, a: Value, *steps: Value) -> Any:
    """jsonb_extract_path."""
    return _extract(call, a, steps, lambda r: r.json())


def extract_path_text(call: KernelCall, a: Value, *steps: Value) -> Any:
    """jsonb_extract_path_text."""
    return _extract(call, a, steps, lambda r: r.text())


def _extract(
    call: KernelCall, a: Value, steps: tuple[Value, ...], take: Callable[[Ranges], pa.Array]
) -> Any:
    n = call.num_rows
    columns = [broadcast(s, n).to_pylist() for s in steps]
    path = pa.array([list(p) for p in zip(*columns, strict=True)], pa.list_(_TEXT))
    if all(isinstance(s, pa.Scalar) for s in steps):
        return _by_path(call, a, path[0], take)
    return _by_path(call, a, path, take)


# --- two documents ------------------------------------------------------------------------------
def by_pair(
    call: KernelCall, a: Value, b: Value, fn: Callable[[Any, Any], Any], t: pa.DataType
) -> pa.Array:
    """fn of each distinct pair of Python values; NULL in either is NULL."""
    x, y = broadcast(a, call.num_rows), broadcast(b, call.num_rows)
    ex, ey = flat(x.dictionary_encode()), flat(y.dictionary_encode())
    left, right = ex.dictionary.to_pylist(), ey.dictionary.to_pylist()
    cx = np.asarray(ex.indices.fill_null(-1)).astype(np.int64)
    cy = np.asarray(ey.indices.fill_null(-1)).astype(np.int64)
    pair = np.where((cx < 0) | (cy < 0), -1, cx * max(len(right), 1) + cy)
    distinct, index = np.unique(pair, return_inverse=True)
    results: list[Any] = []
    failed: dict[int, InvalidParameterValue] = {}
    for i, p in enumerate(distinct):
        if p < 0:
            results.append(None)
            continue
        try:
            results.append(fn(left[p // len(right)], right[p % len(right)]))
        except InvalidParameterValue as e:
            failed[i] = e
            results.append(None)
    if failed:
        rows = np.isin(index, list(failed))
        call.fail(rows, InvalidParameterValue, lambda r: failed[int(index[r])].message)
    return pa.array(results, t).take(column(index.astype(np.int64), pa.int64()))


def contains(left: Any, right: Any, top: bool = True) -> bool:
    """jsonb's @> of loaded documents."""
    if isinstance(right, dict):
        return isinstance(left, dict) and all(
            k in left and contains(left[k], v, False) for k, v in right.items()
        )
    if isinstance(right, list):
        if not isinstance(left, list):
            return False
        return all(any(contains(x, y, False) for x in left) for y in right)
    if isinstance(left, list):  # only at the top an array contains a bare scalar
        return top and any(contains(x, right, False) for x in left)
    return _scalar_key(left) == _scalar_key(right)


def _scalar_key(value: Any) -> Any:
    from streamsql.functions.compute.nested_order import json_key

    return json_key(value) if not isinstance(value, dict | list) else ("nested", id(value))


def jsonb_contains(call: KernelCall, a: Value, b: Value) -> Any:
    """@>"""
    load = json_text.load
    return by_pair(call, a, b, lambda x, y: contains(load(x), load(y)), pa.bool_())


def jsonb_contained(call: KernelCall, a: Value, b: Value) -> Any:
    """<@"""
    return jsonb_contains(call, b, a)


def _has(document: Any, key: str) -> bool:
    if isinstance(document, dict):
        return key in document
    if isinstance(document, list):
        return any(isinstance(v, str) and not isinstance(v, json_text.Number) and v == key
                   for v in document)  # fmt: skip
    return (
        isinstance(document, str)
        and not isinstance(document, json_text.Number)
        and (document == key)
    )


@constants(1)
def has_key(call: KernelCall, a: pa.Array, key: pa.Scalar) -> Any:
    """?"""
    text = key.as_py()
    return by_value(a, lambda d: _has(json_text.load(d), text), pa.bool_())


def has_any_key(call: KernelCall, a: pa.Array, keys: Value) -> Any:
    """?|"""
    return _has_keys(call, a, keys, any)


def has_all_keys(call: KernelCall, a: pa.Array, keys: Value) -> Any:
    """?&"""
    return _has_keys(call, a, keys, all)


def _has_keys(call: KernelCall, a: Value, keys: Value, how: Callable[[Any], bool]) -> Any:
    documents = broadcast(a, call.num_rows)
    if isinstance(keys, pa.Scalar):
        wanted = [k for k in keys.as_py() if k is not None]

        def one(text: str) -> bool:
            document = json_text.load(text)
            return how(_has(document, k) for k in wanted)

        return by_value(documents, one, pa.bool_())
    rows = zip(documents.to_pylist(), keys.to_pylist(), strict=True)
    found = [
        None if d is None or ks is None
        else how(_has(json_text.load(d), k) for k in ks if k is not None)
        for d, ks in rows
    ]  # fmt: skip
    return pa.array(found, pa.bool_())


# --- about a document ---------------------------------------------------------------------------
_TYPES = {"{": "object", "[": "array", '"': "string", "n": "null", "t": "boolean", "f": "boolean"}


def typeof(call: KernelCall, a: pa.Array) -> Any:
    """jsonb_typeof."""
    first = flat(pc.utf8_slice_codeunits(pc.utf8_ltrim_whitespace(a), 0, 1))
    return by_value(first, lambda c: _TYPES.get(c, "number"), _TEXT)


def array_length(call: KernelCall, a: pa.Array) -> Any:
    """jsonb_array_length."""

    def one(text: str) -> int:
        document = json_text.load(text)
        if isinstance(document, dict):
            raise InvalidParameterValue("cannot get array length of a non-array")
        if not isinstance(document, list):
            raise InvalidParameterValue("cannot get array length of a scalar")
        return len(document)

    return by_value_failing(call, a, one, pa.int32())


def pretty(call: KernelCall, a: pa.Array) -> Any:
    """jsonb_pretty."""

    def show(v: Any, indent: int) -> str:
        pad = " " * 4 * (indent + 1)
        if isinstance(v, dict):
            order = sorted(v, key=lambda k: (len(k.encode()), k.encode()))
            rows = [f"{pad}{json_text.quote(k)}: {show(v[k], indent + 1)}" for k in order]
            return "{\n" + ",\n".join(rows) + "\n" + " " * 4 * indent + "}"
        if isinstance(v, list):
            rows = [pad + show(x, indent + 1) for x in v]
            return "[\n" + ",\n".join(rows) + "\n" + " " * 4 * indent + "]"
        return json_text.dump(v)

    return by_value(a, lambda d: show(json_text.load(d), 0), _TEXT)


# --- what set-returning functions give, as lists ------------------------------------------------


def path_exists(call: KernelCall, a: pa.Array, path: Value) -> Any:
    """Whether #> finds anything."""
    return pc.is_valid(get_path(call, a, path))
