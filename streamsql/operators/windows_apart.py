"""Joins of windows that close at different times: until when a row may still get a partner.

A condition that compares the times of both sides (y.ws = x.ws + INTERVAL '10 s', or within a range)
says by which time of its own a row's last possible partner has closed. Until then a row without
one is not final, and after it, once its own window has closed too, no join needs the row any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from streamsql.circuit.operator import Operator
from streamsql.functions.expressions import Call, ColumnRef, Expr, conjuncts
from streamsql.operators.arrange import close_apart, ends_of
from streamsql.operators.interval_bounds import TURNED, moment
from streamsql.operators.join_condition import EquiJoin
from streamsql.plan.nodes import Filter, LogicalPlan, Project

Moment = tuple[int, int]
"""A point in time: column, and µs added to it."""

Bounded = tuple[int, int, int, int]
"""(side, column, µs, column of the other side): of every pair the last one is no later than the
first one and so many µs."""

WHOLE = {"left": (0,), "right": (1,), "full": (0, 1), "anti": (0,), "semi": (0,)}
"""The sides whose rows a join gives out by what their partners are."""


@dataclass(frozen=True)
class Apart:
    """By side (0 = left), over its own columns, when a row is done with: it changes no more and
    gets no partner any more, as in `Operator.ends`; None = partners may come for ever."""

    done: tuple[Mapping[int, int] | None, Mapping[int, int] | None]

    def frees(self, side: int) -> dict[int, int]:
        """When an arrangement of a side may forget a row."""
        return dict(self.done[side] or {})

    def key(self, parts: EquiJoin) -> tuple[int, int] | None:
        """The key of right rows that says when they are done with, and the µs to add to it."""
        done = self.done[1] or {}
        for key in parts.right_keys:
            for column, us in _as_columns(parts.right, (key, 0)):
                if column in done:
                    return key, done[column] - us
        return None

    def ends(self, kind: str) -> bool:
        """Whether every row of such a join is final some time."""
        return all(self.done[side] is not None for side in WHOLE.get(kind, ()))


def apart_of(parts: EquiJoin, left: Operator, right: Operator) -> Apart | None:
    """What is known of a join of rows from windows that close apart; None: it is none."""
    if not close_apart(left, right, zip(parts.left_keys, parts.right_keys, strict=True)):
        return None
    bounds, own = list(_bounds(parts)), (ends_of(left), ends_of(right))
    return Apart((_done(0, bounds, own[0], own[1]), _done(1, bounds, own[1], own[0])))


def _done(
    side: int, bounds: Sequence[Bounded], own: Mapping[int, int], there: Mapping[int, int]
) -> dict[int, int] | None:
    """When a row of a side is done with. own, there: when rows of this and the other side are
    final."""
    found = [
        (column not in own, column, us + there[other])
        for at, column, us, other in bounds
        if at == side and other in there
    ]
    if not own or not found:
        return None
    _, column, us = min(found)
    return {**own, column: max(own.get(column, us), us)}


def apart_ends(
    apart: Apart, kind: str, left: Operator, right: Operator, width: int
) -> dict[int, int]:
    """`Operator.ends` of the join's output; `width` columns of it are left's. A pair is final when
    the windows of both rows are, a row alone when it is done with."""
    whole = WHOLE.get(kind, ())
    ends: dict[int, int] = {}
    for side, below in enumerate((left, right)):
        if side == 1 and kind in ("semi", "anti"):
            continue
        known = apart.done[side] if side in whole else None
        known = ends_of(below) if known is None else known
        ends |= {i + side * width: us for i, us in known.items()}
    return ends


def _bounds(parts: EquiJoin) -> Iterator[Bounded]:
    """What a condition says of the times of both sides."""
    for a, b, safe in zip(parts.left_keys, parts.right_keys, parts.null_safe, strict=True):
        if safe:  # a row without the time may have partners without it
            continue
        for left, x in _as_columns(parts.left, (a, 0)):
            for right, y in _as_columns(parts.right, (b, 0)):
                yield 0, left, x - y, right
                yield 1, right, y - x, left
    width = len(parts.left.schema)
    for part in conjuncts(parts.residual) if parts.residual is not None else ():
        compared = _compared(part)
        if compared is None or (compared[0][0] < width) == (compared[1][0] < width):
            continue
        on_left = compared[1][0] < width
        sides = (parts.right, parts.left) if on_left else (parts.left, parts.right)
        early, late = (
            _as_columns(side, (i if i < width else i - width, us))
            for side, (i, us) in zip(sides, compared, strict=True)
        )
        for first, x in early:
            for last, y in late:
                yield 0 if on_left else 1, last, y - x, first


def _as_columns(side: LogicalPlan, at: Moment) -> list[Moment]:
    """A point in time by all columns of an input that are the same time, moved or not."""
    base = _base(side, at)
    found = []
    for column in range(len(side.schema)):
        node, other, us = _base(side, (column, 0))
        if node is base[0] and other == base[1]:
            found.append((column, base[2] - us))
    return found


def _base(side: LogicalPlan, at: Moment) -> tuple[LogicalPlan, int, int]:
    """(the node below projections, its column, µs to add) of a column."""
    column, us = at
    while isinstance(side, Project | Filter):
        if isinstance(side, Project):
            expr = side.exprs[column]
            found = (expr.index, 0) if isinstance(expr, ColumnRef) else moment(expr)
            if found is None:
                break
            column, us = found[0], us + found[1]
        side = side.input
    return side, column, us


def _compared(part: Expr) -> tuple[Moment, Moment] | None:
    """(what is not later, than what) of an inequality between two points in time."""
    if not isinstance(part, Call) or part.function not in TURNED or len(part.args) != 2:
        return None
    early, late = (moment(e) for e in part.args)
    if early is None or late is None or part.args[0].type.kind != part.args[1].type.kind:
        return None
    return (early, late) if part.function in ("le", "lt") else (late, early)
