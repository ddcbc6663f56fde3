"""corr, covar_pop, covar_samp and the regr_ family, in double precision: f(Y, X)."""

from __future__ import annotations

from streamsql.core.types import BIGINT, DOUBLE
from streamsql.functions.definitions import AggregateDef

_NAMES = (
    "corr", "covar_pop", "covar_samp", "regr_avgx", "regr_avgy", "regr_intercept", "regr_r2",
    "regr_slope", "regr_sxx", "regr_sxy", "regr_syy",
)  # fmt: skip

AGGREGATES: tuple[AggregateDef, ...] = (
    *(AggregateDef(name=name, args=(DOUBLE, DOUBLE), result=DOUBLE, sql=name) for name in _NAMES),
    AggregateDef(name="regr_count", args=(DOUBLE, DOUBLE), result=BIGINT, sql="regr_count",
                 empty="0"),
)  # fmt: skip
