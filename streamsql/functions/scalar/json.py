"""JSON and JSONB operators and functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streamsql.core.types import BOOLEAN, INTEGER, JSON, JSONB, TEXT, SqlType, array_of
from streamsql.functions.definitions import FunctionDef, Pattern, Poly
from streamsql.functions.scalar.lazy import lazy

TEXTS = array_of(TEXT)


_EDITS = frozenset({
    "concat", "delete_key", "delete_index", "delete_keys", "delete_path", "set_value",
    "set_value_lax", "insert_value", "strip_nulls",
})  # fmt: skip


def _def(
    name: str,
    args: tuple[Pattern, ...],
    result: SqlType,
    kernel: str,
    *,
    fails: bool = False,
    **more: Any,
) -> FunctionDef:
    module = "jsons"
    if kernel in _EDITS:
        module = "json_edits"
    elif kernel.startswith(("build_", "to_json", "elements", "object_", "each_values")):
        module = "json_building"
    return FunctionDef(name=name, args=args, result=result, kernel=lazy(module, kernel),
                       can_fail=fails, **more)  # fmt: skip


def _both() -> Iterable[FunctionDef]:
    """What json and jsonb share, under their two names."""
    for prefix, t in (("jsonb", JSONB), ("json", JSON)):
        for step in (TEXT, INTEGER):
            yield _def("json_get", (t, step), t, "get", aliases=("->",))
            yield _def("json_get_text", (t, step), TEXT, "get_text", aliases=("->>",))
        yield _def("json_get_path", (t, TEXTS), t, "get_path", aliases=("#>",))
        yield _def("json_get_path_text", (t, TEXTS), TEXT, "get_path_text", aliases=("#>>",))
        yield _def(f"{prefix}_extract_path", (t, TEXT), t, "extract_path", variadic=True)
        yield _def(f"{prefix}_extract_path_text", (t, TEXT), TEXT, "extract_path_text",
                   variadic=True)  # fmt: skip
        yield _def(f"{prefix}_typeof", (t,), TEXT, "typeof")
        yield _def(f"{prefix}_array_length", (t,), INTEGER, "array_length", fails=True)
        yield _def(f"{prefix}_strip_nulls", (t,), t, "strip_nulls")
        yield _def(f"{prefix}_build_array", (Poly.ANY,), t, "build_array", variadic=True,
                   variadic_empty=True, strict=False)  # fmt: skip
        yield _def(f"{prefix}_build_object", (Poly.ANY,), t, "build_object", variadic=True,
                   variadic_empty=True, strict=False, fails=True)  # fmt: skip
        yield _def(f"{prefix}_object", (TEXTS,), t, "object_of_pairs", fails=True)
        yield _def(f"{prefix}_object", (array_of(TEXTS),), t, "object_of_pairs", fails=True)
        yield _def(f"{prefix}_object", (TEXTS, TEXTS), t, "object_of_lists", fails=True)
        array = array_of(t)
        yield _def(f"{prefix}_elements_array", (t,), array, "elements", fails=True)
        yield _def(f"{prefix}_elements_text_array", (t,), TEXTS, "elements_text", fails=True)
        yield _def(f"{prefix}_keys_array", (t,), TEXTS, "object_keys", fails=True)
        yield _def(f"{prefix}_values_array", (t,), array, "each_values", fails=True)
        yield _def(f"{prefix}_values_text_array", (t,), TEXTS, "each_values_text", fails=True)
        yield _def(f"to_{prefix}", (Poly.ANYELEMENT,), t, f"to_{prefix}")


FUNCTIONS: tuple[FunctionDef, ...] = (
    *_both(),
    _def("row_to_json", (Poly.ANYSTRUCT,), JSON, "to_json"),
    _def("array_to_json", (Poly.ANYARRAY,), JSON, "to_json"),
    _def("jsonb_contains", (JSONB, JSONB), BOOLEAN, "jsonb_contains", aliases=("@>",)),
    _def("jsonb_contained", (JSONB, JSONB), BOOLEAN, "jsonb_contained", aliases=("<@",)),
    _def("jsonb_exists", (JSONB, TEXT), BOOLEAN, "has_key", aliases=("?",)),
    _def("jsonb_exists_any", (JSONB, TEXTS), BOOLEAN, "has_any_key", aliases=("?|",)),
    _def("jsonb_exists_all", (JSONB, TEXTS), BOOLEAN, "has_all_keys", aliases=("?&",)),
    _def("jsonb_concat", (JSONB, JSONB), JSONB, "concat", fails=True),
    _def("jsonb_delete", (JSONB, TEXT), JSONB, "delete_key", aliases=("-",), fails=True),
    _def("jsonb_delete", (JSONB, INTEGER), JSONB, "delete_index", aliases=("-",), fails=True),
    _def("jsonb_delete", (JSONB, TEXTS), JSONB, "delete_keys", aliases=("-",), fails=True),
    _def("jsonb_delete_path", (JSONB, TEXTS), JSONB, "delete_path", aliases=("#-",), fails=True),
    _def("jsonb_set", (JSONB, TEXTS, JSONB, BOOLEAN), JSONB, "set_value", optional=1, fails=True),
    _def("jsonb_set_lax", (JSONB, TEXTS, JSONB, BOOLEAN, TEXT), JSONB, "set_value_lax",
         optional=2, strict=False, fails=True),
    _def("jsonb_insert", (JSONB, TEXTS, JSONB, BOOLEAN), JSONB, "insert_value", optional=1,
         fails=True),
    _def("jsonb_pretty", (JSONB,), TEXT, "pretty"),
)  # fmt: skip
