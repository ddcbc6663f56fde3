"""Integer operators at the ends of their ranges."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from streamsql.core.schema import Schema
from streamsql.core.types import BIGINT, INTEGER, SMALLINT, SqlType
from streamsql.functions.evaluator import Evaluator
from streamsql.functions.expressions import Literal, column
from streamsql.functions.resolve import resolve_call


@pytest.mark.parametrize("type_", [SMALLINT, INTEGER, BIGINT], ids=str)
@pytest.mark.parametrize("divisor", [1, 3, 123, -2, -7, "least", "greatest"])
def test_remainder_by_a_constant_has_the_sign_of_the_dividend(
    type_: SqlType, divisor: int | str
) -> None:
    ends = np.iinfo(type_.arrow.to_pandas_dtype())
    y = {"least": ends.min, "greatest": ends.max}.get(divisor, divisor)  # type: ignore[call-overload]
    x = [ends.min, ends.min + 1, -124, -123, -1, 0, 1, 122, 123, 124, ends.max - 1, ends.max, None]
    batch = pa.record_batch([pa.array(x, type_.arrow)], names=["c0"])
    call = resolve_call("%", [column(0, type_), Literal(value=int(y), type=type_)], None)
    (found,) = Evaluator([call], Schema.of(("a", type_))).run(batch, 0)
    assert found.to_pylist() == [
        None if v is None else abs(v) % abs(y) * (-1 if v < 0 else 1) for v in x
    ]
