"""Functions that return rows: unnest, generate_series and their kin."""

from __future__ import annotations

from streamsql.core.schema import Column, Schema
from streamsql.core.types import BIGINT, INTEGER, SqlType
from streamsql.functions.definitions import Poly, SetReturningDef


def _element(types: tuple[SqlType, ...]) -> Schema:
    assert types[0].element is not None
    return Schema((Column("unnest", types[0].element),))


SET_RETURNING: tuple[SetReturningDef, ...] = (
    SetReturningDef(name="unnest", args=(Poly.ANYARRAY,), schema=_element, sql="{0}"),
    *(
        SetReturningDef(
            name="generate_series", args=(t, t, t), optional=1,
            schema=lambda types, t=t: Schema((Column("generate_series", t),)),  # type: ignore[misc]
            sql=lambda a, *_: f"generate_series({', '.join(a)})",
        )
        for t in (INTEGER, BIGINT)
    ),
)  # fmt: skip
