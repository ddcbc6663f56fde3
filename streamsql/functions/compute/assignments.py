"""What happens on the way into a column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.errors import StringTooLong
from streamsql.functions.compute.grouped import constants
from streamsql.functions.definitions import KernelCall
from streamsql.functions.textio.time_digits import rounded


@constants(1)
def varchar_assign(call: KernelCall, a: pa.Array, length: pa.Scalar) -> Any:
    """The text if it has at most `length` characters; blanks beyond are cut, anything else
    fails."""
    limit = length.as_py()
    cut = pc.utf8_slice_codeunits(a, 0, limit)
    rest = pc.utf8_rtrim(pc.utf8_slice_codeunits(a, limit, None), " ")
    bad = np.asarray(pc.fill_null(pc.greater(pc.binary_length(rest), 0), False))
    if bad.any():
        message = f"value too long for type character varying({limit})"
        call.fail(bad, StringTooLong, message)
    return cut


@constants(1)
def time_digits(call: KernelCall, a: pa.Array, digits: pa.Scalar) -> Any:
    """Times, or arrays of them, with so many digits of a second's fraction."""
    return rounded(a, digits.as_py())
