"""JSONB values as keys: equal values have equal texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.errors import InvalidParameterValue
from streamsql.functions.compute.columns import Value, broadcast
from streamsql.functions.definitions import KernelCall

# strings are passed over whole; of a number the zeros that end its fraction go, and a lone point
_NUMBERS = r'("(?:[^"\\]|\\.)*")|(\.[0-9]*[1-9])0+\b|\.0+\b'
_SUSPECT = r"\.[0-9]*0([^0-9]|$)"


def key(call: KernelCall, a: pa.Array) -> Any:
    """The normal form of stored JSONB with every number at its shortest.

    >>> key(None, pa.array(['{"a.0": 1.50, "b": [2.0, 10]}'])).to_pylist()
    ['{"a.0": 1.5, "b": [2, 10]}']
    """
    found = pc.match_substring_regex(a, _SUSPECT)
    if not pc.any(found).as_py():
        return a
    return pc.replace_substring_regex(a, _NUMBERS, r"\1\2")


def object_key(call: KernelCall, a: Value) -> Any:
    """A key of an object under construction, which must not be NULL (22023)."""
    there = np.asarray(broadcast(a, call.num_rows).is_valid())
    if not there.all():
        call.fail(~there, InvalidParameterValue, "field name must not be null")
    return a
