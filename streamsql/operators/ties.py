"""What orders rows that are equal in ORDER BY, as operators keep it (`plan.optimizer.ties`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from streamsql.core.errors import InvariantViolation
from streamsql.core.types import TEXT, SqlType
from streamsql.functions.expressions import Cast, ColumnRef, Expr, SortKey
from streamsql.kernels.order_keys import OrderColumn, can_order


@dataclass(frozen=True)
class Tie:
    """A column by its position in the row, as it is or as text (where it has no order, or where
    equal values look different)."""

    index: int
    type: SqlType
    as_text: bool

    @property
    def column(self) -> OrderColumn:
        """How it is ordered."""
        return OrderColumn((TEXT if self.as_text else self.type).arrow)

    @property
    def orders(self) -> bool:
        """Whether there is an order of its values."""
        return can_order(self.column.type)

    def values(self, column: pa.Array) -> pa.Array:
        """What is ordered, of values of the column."""
        if not self.as_text:
            return column
        from streamsql.functions.textio import to_text

        return to_text(column, self.type)


def tie_of(expr: Expr) -> Tie:
    """The tie of a sort key's expression."""
    if isinstance(expr, ColumnRef):
        return Tie(expr.index, expr.type, False)
    if isinstance(expr, Cast) and isinstance(expr.arg, ColumnRef):
        return Tie(expr.arg.index, expr.arg.type, True)
    raise InvariantViolation(f"ties are broken by columns, not by {type(expr).__name__}")


def ties_of(keys: Sequence[SortKey]) -> tuple[Tie, ...]:
    """The ties of sort keys."""
    return tuple(tie_of(k.expr) for k in keys)
