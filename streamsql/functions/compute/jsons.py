"""Kernels of JSON and JSONB. Paths are found by scanning bytes; the rest is one Python call a distinct
document, over documents in jsonb's normal text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.errors import InvalidParameterValue, InvalidTextRepresentation
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
from streamsql.functions.textio import json_output, json_text

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


@constants(1)
def get(call: KernelCall, a: pa.Array, step: pa.Scalar) -> Any:
    """-> : a part as JSON."""
    return Ranges(a).step(step.as_py()).json()


@constants(1)
def get_text(call: KernelCall, a: pa.Array, step: pa.Scalar) -> Any:
    """->> : a part as text."""
    return Ranges(a).step(step.as_py()).text()


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


# --- two documents ---------------------------------------------------------------------------------
def pairwise(
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
    return pairwise(call, a, b, lambda x, y: contains(load(x), load(y)), pa.bool_())


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


def concat(call: KernelCall, a: Value, b: Value) -> Any:
    """|| : objects are merged, everything else becomes one array."""

    def one(x: str, y: str) -> str:
        left, right = json_text.load(x), json_text.load(y)
        if isinstance(left, dict) and isinstance(right, dict):
            return json_text.dump({**left, **right})
        parts = [v if isinstance(v, list) else [v] for v in (left, right)]
        if isinstance(left, dict) != isinstance(right, dict) and not (
            isinstance(left, list) or isinstance(right, list)
        ):
            raise InvalidParameterValue("invalid concatenation of jsonb objects")
        return json_text.dump(parts[0] + parts[1])

    return pairwise(call, a, b, one, _TEXT)


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


def _without(document: Any, keys: set[Any]) -> Any:
    if isinstance(document, dict):
        return {k: v for k, v in document.items() if k not in keys}
    if isinstance(document, list):
        return [v for v in document
                if isinstance(v, json_text.Number) or not isinstance(v, str) or v not in keys]  # fmt: skip
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
    return _with_lists(call, a, path, _delete_at)


def _delete_at(document: Any, path: list[str]) -> Any:
    if not path:
        return document
    head, rest = path[0], path[1:]
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


def _place(text: str, length: int) -> int | None:
    try:
        index = int(text)
    except ValueError:
        raise InvalidTextRepresentation(f'path element is not an integer: "{text}"') from None
    return index + length if index < 0 else index


def set_value(call: KernelCall, a: Value, path: Value, new: Value, create: Any = None) -> Any:
    """jsonb_set(target, path, value[, create_if_missing])."""
    return _set(call, a, path, new, create, insert=False, default=True)


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
            memo[key] = json_text.dump(_set_at(document, p, value, f, insert))
        made.append(memo[key])
    return pa.array(made, _TEXT)


def _set_at(document: Any, path: list[str], value: Any, flag: bool, insert: bool) -> Any:
    if not path:
        return document
    head, rest = path[0], path[1:]
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


# --- about a document ------------------------------------------------------------------------------
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


def strip_nulls(call: KernelCall, a: pa.Array) -> Any:
    """jsonb_strip_nulls."""

    def strip(v: Any) -> Any:
        if isinstance(v, dict):
            return {k: strip(x) for k, x in v.items() if x is not None}
        return [strip(x) for x in v] if isinstance(v, list) else v

    return _deletion(call, a, strip)


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


# --- construction ----------------------------------------------------------------------------------
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
    from streamsql.functions.textio.output import to_text

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
    return all(a < b for a, b in zip(order, order[1:], strict=False))


# --- what set-returning functions give, as lists ---------------------------------------------------
def elements(call: KernelCall, a: pa.Array) -> Any:
    """jsonb_array_elements as an array."""
    return _elements(call, a, json_text.dump)


def elements_text(call: KernelCall, a: pa.Array) -> Any:
    """jsonb_array_elements_text as an array."""
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


def _object(text: str, function: str) -> list[tuple[str, Any]]:
    document = json_text.load(text)
    if not isinstance(document, dict):
        kind = "an array" if isinstance(document, list) else "a scalar"
        raise InvalidParameterValue(f"cannot call {function} on {kind}")
    return sorted(document.items(), key=lambda kv: (len(kv[0].encode()), kv[0].encode()))


def object_keys(call: KernelCall, a: pa.Array) -> Any:
    """jsonb_object_keys as an array."""
    return by_value_failing(
        call, a, lambda d: [k for k, _ in _object(d, "jsonb_object_keys")], pa.list_(_TEXT)
    )


def each_values(call: KernelCall, a: pa.Array) -> Any:
    """The values of jsonb_each, in the order of object_keys."""
    return by_value_failing(
        call, a, lambda d: [json_text.dump(v) for _, v in _object(d, "jsonb_each")],
        pa.list_(_TEXT),
    )  # fmt: skip


def each_values_text(call: KernelCall, a: pa.Array) -> Any:
    """The values of jsonb_each_text."""
    return by_value_failing(
        call, a, lambda d: [plain_text(v) for _, v in _object(d, "jsonb_each_text")],
        pa.list_(_TEXT),
    )  # fmt: skip


def path_exists(call: KernelCall, a: pa.Array, path: Value) -> Any:
    """Whether #> finds anything."""
    return pc.is_valid(get_path(call, a, path))
