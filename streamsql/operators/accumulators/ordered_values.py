"""The values of each group in order, which several aggregates of one argument read."""

from __future__ import annotations

from streamsql.functions.expressions import Expr
from streamsql.state.ordered_index import OrderedIndex


class OrderedValues:
    """What an accumulator has that keeps (group, value) -> count, ascending, NULLs left out.

    The first one of a node that is over a value fills the index and saves it; others over the same
    value of the same rows `follow`: they read it, once all rows of a tick are in.
    """

    held: OrderedIndex
    follows: bool = False

    def ordered_value(self) -> Expr | None:
        """The value that `held` orders; None = it can not be another's too."""
        return None

    def follow(self, other: OrderedValues) -> None:
        """Read the other's values from now on, instead of keeping the same ones."""
        self.held = other.held
        self.follows = True
