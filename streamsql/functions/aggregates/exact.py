"""SUM and AVG of floats in DuckDB to the last digit, for those who compare with them.

DuckDB adds floats one after the other, so that what is left after large numbers have cancelled
depends on their order; the operators of views are exact. Within `exactly()` the SQL that is written
collects each group's values in a list and adds that up exactly, which a plain query is not to pay
for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from streamsql.core.types import DOUBLE, array_of
from streamsql.functions.definitions import AggregateSql
from streamsql.functions.duckdb_udfs import kernel_sql
from streamsql.functions.scalar.lazy import lazy

_wanted: ContextVar[bool] = ContextVar("exact_sums", default=False)
_kernel = lazy("exact_sums", "exact_sum")


@contextmanager
def exactly() -> Iterator[None]:
    """SQL written meanwhile adds floats up exactly, but for frames of OVER."""
    token = _wanted.set(True)
    try:
        yield
    finally:
        _wanted.reset(token)


def exact_sql(function: str, a: AggregateSql) -> str | None:
    """SUM or AVG of floats, if it is to be exact."""
    if not _wanted.get() or " OVER (" in a.tail:
        return None
    values = f"{a.distinct}CAST({a.args[0]} AS DOUBLE)"
    total = kernel_sql(
        "exact_sum", _kernel, [f"list({values}){a.tail}"], (array_of(DOUBLE),), DOUBLE
    )
    return total if function == "sum" else f"({total} / count({values}){a.tail})"
