"""What a function is to the engine: its overloads, result type, SQL and Arrow kernel.

A definition file lists `FunctionDef`s in a tuple; `registry.py` joins the tuples. One SQL name has
as many definitions as it has overloads. Argument patterns are SQL types (NUMERIC matches every
precision, TEXT matches VARCHAR) or one of the polymorphic markers below.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamsql.core.errors import StreamSqlError
from streamsql.core.schema import Schema
from streamsql.core.types import SqlType
from streamsql.functions.expressions import Expr

if TYPE_CHECKING:
    import pyarrow as pa


class Poly(enum.Enum):
    """PostgreSQL's pseudo-types: all ANYELEMENT / ANYARRAY / … of one signature agree."""

    ANY = "any"  # any type, each argument for itself
    ANYELEMENT = "anyelement"
    ANYNONARRAY = "anynonarray"
    ANYARRAY = "anyarray"
    ANYCOMPATIBLE = "anycompatible"  # brought to one common type
    ANYCOMPATIBLEARRAY = "anycompatiblearray"
    ANYSTRUCT = "record"
    ANYMAP = "map"


Pattern = SqlType | Poly


class Volatility(enum.Enum):
    """IMMUTABLE: a function of its arguments. STABLE: of the arguments, the tick's time and the
    session. VOLATILE: may differ from call to call; refused in views."""

    IMMUTABLE = "immutable"
    STABLE = "stable"
    VOLATILE = "volatile"


ResultRule = Callable[[tuple[SqlType, ...]], SqlType]
"""Result type from the (coerced) argument types."""


class KernelCall:
    """What a kernel may ask beside its arguments, and where it reports bad rows.

    A kernel takes Arrow arrays or scalars (a scalar stands for a constant column) and returns
    either. It must not raise for a bad row: it calls `fail` with a mask of the rows and goes on
    with NULL there.
    """

    __slots__ = ("arg_types", "failures", "now_us", "num_rows", "timezone", "type")

    def __init__(
        self,
        num_rows: int,
        type_: SqlType,
        arg_types: tuple[SqlType, ...],
        now_us: int = 0,
        timezone: str = "UTC",
    ) -> None:
        self.num_rows = num_rows
        self.type = type_
        self.arg_types = arg_types
        self.now_us = now_us
        self.timezone = timezone
        self.failures: list[Failure] = []

    def fail(
        self,
        rows: Any,
        error: type[StreamSqlError],
        message: str | Callable[[int], str],
        detail: str | None = None,
    ) -> None:
        """Report bad rows. rows: bool mask [num_rows] as numpy or Arrow (NULL = not bad), or True
        for all. `message` may compute the text from the row number."""
        self.failures.append(Failure(rows, error, message, detail))


@dataclass(frozen=True)
class Failure:
    """Rows one kernel could not compute; see `KernelCall.fail`."""

    rows: Any
    error: type[StreamSqlError]
    message: str | Callable[[int], str]
    detail: str | None = None

    def text(self, row: int) -> str:
        """The message of one bad row."""
        return self.message if isinstance(self.message, str) else self.message(row)

    def only(self, rows: Any) -> Failure | None:
        """The failure restricted to a mask, or None if nothing is left."""
        mask = rows if self.rows is True else self.rows & rows
        return Failure(mask, self.error, self.message, self.detail) if mask.any() else None


Kernel = Callable[..., "pa.Array | pa.Scalar"]
SqlTemplate = str | Callable[[Sequence[str], tuple[SqlType, ...], SqlType], str]


@dataclass(frozen=True, kw_only=True)
class FunctionDef:
    """One overload of a scalar function or operator.

    name: the registry's name, found in `Call.function`.
    aliases: other SQL spellings, operators too.
    args: patterns; with `variadic` the last one repeats (once or more; zero times if
        `variadic_empty`). `optional` trailing arguments may be left out.
    result: a type, a marker of the signature, or a rule over the coerced argument types.
    sql: DuckDB SQL with {0}, {1}, … or a function of (argument SQL, argument types, result type).
        The evaluators wrap it in a cast to the result's exact type unless `exact`. None: DuckDB
        calls the kernel as a UDF (see duckdb_udfs.py).
    kernel: the Arrow kernel, or None.
    strict: NULL if any argument is NULL (a promise of sql and kernel that the optimizer may use).
    can_fail: may raise for some row (else AND/OR need not guard it).
    result_of: instead of `result`, a rule over the coerced argument expressions.
    coerce_to: types the arguments are brought to when the overload is taken, if not `args`.
    internal: the optimizer makes such calls; SQL can not name it.
    """

    name: str
    args: tuple[Pattern, ...]
    result: SqlType | Poly | ResultRule = Poly.ANY
    result_of: Callable[[tuple[Expr, ...]], SqlType] | None = None
    sql: SqlTemplate | None = None
    kernel: Kernel | None = None
    aliases: tuple[str, ...] = ()
    variadic: bool = False
    variadic_empty: bool = False
    optional: int = 0
    strict: bool = True
    can_fail: bool = True
    exact: bool = False
    volatility: Volatility = Volatility.IMMUTABLE
    coerce_to: tuple[Pattern, ...] | None = None
    internal: bool = False

    def patterns(self, count: int) -> tuple[Pattern, ...] | None:
        """The argument patterns of a call with `count` arguments, or None if it does not fit."""
        fixed = len(self.args)
        if self.variadic:
            least = fixed - 1 if self.variadic_empty else fixed
            if count < least:
                return None
            return (*self.args[: fixed - 1], *(self.args[-1:] * (count - fixed + 1)))
        if fixed - self.optional <= count <= fixed:
            return self.args[:count]
        return None


@dataclass(frozen=True, kw_only=True)
class AggregateSql:
    """What the SQL of an aggregate call is made of.

    args: SQL of the arguments (ordered-set: direct arguments, then the sorted one). distinct:
    "DISTINCT " or "". order: "ORDER BY …" or "". tail: " FILTER (…) OVER (…)" or parts of it;
    every aggregate function that the SQL calls must carry it.
    """

    args: Sequence[str]
    types: tuple[SqlType, ...]
    result: SqlType
    distinct: str = ""
    order: str = ""
    tail: str = ""
    descending: bool = False


@dataclass(frozen=True, kw_only=True)
class AggregateDef:
    """One overload of an aggregate.

    sql: the DuckDB function's name, called as name(DISTINCT args ORDER BY …) FILTER … OVER …; or a
        function of AggregateSql. The result is cast to the exact type.
    incremental: "linear" (add and subtract per row), "min_max" (needs an ordered multiset under
        deletes) or None (recompute per key).
    accumulator: what a linear operator keeps: count, sum_int64, sum_int128, sum_double,
        sum_decimal, sum_interval, avg_int128, avg_double, avg_decimal, avg_interval, bool_and,
        bool_or, moments_double, moments_int128, moments_decimal; for min_max: min, max. "" if not
        incremental.
    empty: SQL literal of the result over no rows ("NULL", or "0" for counts).
    order_sensitive: the result depends on the order of rows.
    ordered_set: WITHIN GROUP (ORDER BY …); args are the direct ones, then the sorted one.
    """

    name: str
    args: tuple[Pattern, ...]
    result: SqlType | Poly | ResultRule
    sql: str | Callable[[AggregateSql], str] = ""
    aliases: tuple[str, ...] = ()
    incremental: str | None = None
    accumulator: str = ""
    empty: str = "NULL"
    ignores_nulls: bool = True
    order_sensitive: bool = False
    ordered_set: bool = False
    optional: int = 0
    variadic: bool = False
    coerce_to: tuple[Pattern, ...] | None = None

    def patterns(self, count: int) -> tuple[Pattern, ...] | None:
        """As FunctionDef.patterns."""
        if len(self.args) - self.optional <= count <= len(self.args):
            return self.args[:count]
        return None


@dataclass(frozen=True, kw_only=True)
class WindowDef:
    """One overload of a window-only function (row_number, lag, …).

    needs_order: meaningless without ORDER BY. framed: the frame matters.
    """

    name: str
    args: tuple[Pattern, ...]
    result: SqlType | Poly | ResultRule
    sql: str
    optional: int = 0
    framed: bool = False
    aliases: tuple[str, ...] = ()
    coerce_to: tuple[Pattern, ...] | None = None
    variadic: bool = False

    def patterns(self, count: int) -> tuple[Pattern, ...] | None:
        """As FunctionDef.patterns."""
        if len(self.args) - self.optional <= count <= len(self.args):
            return self.args[:count]
        return None


@dataclass(frozen=True, kw_only=True)
class SetReturningDef:
    """One overload of a set-returning function.

    schema: (argument types) -> output columns. sql: DuckDB SQL of a *list* of the output rows: of
    scalars when there is one column, of structs (c0, c1, …) otherwise; unnested by the lowering.
    arrays: for each output column, the scalar function (same arguments) that gives it as an array.
    """

    name: str
    args: tuple[Pattern, ...]
    schema: Callable[[tuple[SqlType, ...]], Schema]
    sql: SqlTemplate
    arrays: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    optional: int = 0
    variadic: bool = False
    coerce_to: tuple[Pattern, ...] | None = None

    def patterns(self, count: int) -> tuple[Pattern, ...] | None:
        """As FunctionDef.patterns."""
        if self.variadic and count >= len(self.args):
            return (*self.args[:-1], *(self.args[-1:] * (count - len(self.args) + 1)))
        if len(self.args) - self.optional <= count <= len(self.args):
            return self.args[:count]
        return None


Definition = FunctionDef | AggregateDef | WindowDef | SetReturningDef
ArgExprs = Sequence[Expr]
