"""corr, covar_pop, covar_samp and the regr_ family, in double precision: f(Y, X)."""

from __future__ import annotations

from streamsql.core.types import BIGINT, DOUBLE
from streamsql.functions.aggregates.overflow import checked_spread
from streamsql.functions.definitions import AggregateDef, AggregateSql

_NAMES = ("covar_pop", "covar_samp", "regr_avgx", "regr_avgy", "regr_sxx", "regr_sxy", "regr_syy")
_GUARDED = {
    "corr": ("regr_sxx", "regr_syy"),
    "regr_intercept": ("regr_sxx",),
    "regr_r2": ("regr_sxx",),
    "regr_slope": ("regr_sxx",),
}
"""Where DuckDB divides 0 by 0 and PostgreSQL says NULL: the sums that must not be 0."""


def _guarded(name: str) -> object:
    def write(a: AggregateSql) -> str:
        call = f"({a.distinct}{', '.join(a.args)}){a.tail}"
        flat = " OR ".join(f"{spread}{call} = 0" for spread in _GUARDED[name])
        return checked_spread(f"CASE WHEN {flat} THEN NULL ELSE {name}{call} END", a)

    return write


def _plain(name: str) -> object:
    def write(a: AggregateSql) -> str:
        return checked_spread(f"{name}({a.distinct}{', '.join(a.args)}){a.tail}", a)

    return write


AGGREGATES: tuple[AggregateDef, ...] = (
    *(AggregateDef(name=name, args=(DOUBLE, DOUBLE), result=DOUBLE, sql=_plain(name))  # type: ignore[arg-type]
      for name in _NAMES),
    *(AggregateDef(name=name, args=(DOUBLE, DOUBLE), result=DOUBLE, sql=_guarded(name))  # type: ignore[arg-type]
      for name in _GUARDED),
    AggregateDef(name="regr_count", args=(DOUBLE, DOUBLE), result=BIGINT, sql="regr_count",
                 empty="0"),
)  # fmt: skip
