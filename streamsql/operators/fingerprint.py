"""One text per meaning: what tells two operators apart, whatever names the user gave."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

from streamsql.core.schema import Schema
from streamsql.core.types import SqlType
from streamsql.plan.nodes import Scan

_UNUSED = frozenset({"name", "position"})


def canonical(value: Any) -> str:
    """A text that is equal for two plans, expressions or parameters exactly when they mean the
    same.

    Names and positions are left out, types and nullability stay; it does not change over a
    restart.

    >>> canonical((1, "a", None))
    "(1,'a',None)"
    """
    if isinstance(value, SqlType):
        return f"{value}/{value.arrow}"
    if isinstance(value, Schema):
        return (
            "[" + ",".join(f"{canonical(c.type)}{'' if c.nullable else '!'}" for c in value) + "]"
        )
    if isinstance(value, Scan):
        return f"Scan({value.relation_id},{canonical(value.schema)})"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [
            canonical(getattr(value, f.name))
            for f in dataclasses.fields(value)
            if f.compare and f.name not in _UNUSED
        ]
        return f"{type(value).__name__}({','.join(parts)})"
    if isinstance(value, tuple | list):
        return "(" + ",".join(canonical(v) for v in value) + ")"
    if isinstance(value, frozenset | set):
        return "{" + ",".join(sorted(canonical(v) for v in value)) + "}"
    if isinstance(value, dict):
        return "{" + ",".join(f"{canonical(k)}:{canonical(v)}" for k, v in value.items()) + "}"
    return repr(value)


def label(name: str, *what: Any) -> str:
    """`name` and a digest of `what`: the name of a node that does the same after a restart."""
    digest = hashlib.sha256(canonical(what).encode()).hexdigest()[:16]
    return f"{name.lower().replace(' ', '-')}-{digest}"
