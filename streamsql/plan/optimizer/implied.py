"""Predicates that follow from others: through equalities, out of OR, and through merged columns.

What follows is tested besides, on one input, before a join keeps its rows:
- `a.k = b.k AND a.k = 7` gives `b.k = 7`;
- `(a.x = 1 AND b.y = 2) OR (a.x = 3 AND b.y = 4)` gives `a.x = 1 OR a.x = 3`, and the like for b;
- a predicate over coalesce(a.k, b.k) above a FULL JOIN by a.k = b.k holds of a.k and of b.k.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from streamsql.core.types import BOOLEAN, Kind
from streamsql.functions.expressions import (
    Call,
    ColumnRef,
    Expr,
    conjunction,
    conjuncts,
    transform,
)
from streamsql.plan.nodes import (
    Aggregate,
    Distinct,
    DistinctOn,
    Filter,
    Join,
    Limit,
    LogicalPlan,
    Project,
    Sort,
    TimeWindow,
    Window,
)
from streamsql.plan.optimizer.predicates import can_move, parts_of, reads_clock
from streamsql.plan.visit import remap_columns, row_columns, shift_columns

EXACT_KINDS = frozenset(
    {
        Kind.BOOLEAN, Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.TEXT, Kind.VARCHAR,
        Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.UUID,
    }
)  # fmt: skip
"""Types whose equal values are the same in every expression (unlike 0.0 and -0.0, 1.0 and 1.00)."""

Pair = tuple[int, int]


def equal_columns(parts: Iterable[Expr]) -> Iterator[Pair]:
    """(a, b) for every part that says column a = column b, both of one exact type."""
    for part in parts:
        if isinstance(part, Call) and part.function == "eq":
            a, b = part.args
            exact = a.type == b.type and a.type.kind in EXACT_KINDS
            if exact and isinstance(a, ColumnRef) and isinstance(b, ColumnRef):
                yield a.index, b.index


def known_equalities(plan: LogicalPlan) -> list[Pair]:
    """Columns of the output of which both are NULL or both have the same value, in every row.

    So not what an outer join compares: there one of them may be NULL alone.
    """
    if isinstance(plan, Filter):
        return [*known_equalities(plan.input), *equal_columns(conjuncts(plan.predicate))]
    if isinstance(plan, Project):
        where: dict[int, list[int]] = {}
        for i, e in enumerate(plan.exprs):
            if isinstance(e, ColumnRef):
                where.setdefault(e.index, []).append(i)
        below = known_equalities(plan.input)
        copies = [(first, c) for first, *rest in where.values() for c in rest]
        return [*copies, *((where[a][0], where[b][0]) for a, b in below if {a, b} <= where.keys())]
    if isinstance(plan, Join) and not plan.lateral:
        width = len(plan.left.schema)
        found = known_equalities(plan.left)
        if plan.kind in ("semi", "anti"):
            return found
        found += [(a + width, b + width) for a, b in known_equalities(plan.right)]
        if plan.kind in ("inner", "cross"):
            found += equal_columns(parts_of(plan.condition))
        return found
    return []


def known_predicates(plan: LogicalPlan) -> list[Expr]:
    """Predicates over one column of the output that are TRUE of every row: filters below."""
    match plan:
        case Filter():
            own = [p for p in conjuncts(plan.predicate) if _is_portable(p)]
            return [*known_predicates(plan.input), *own]
        case Project():
            where: dict[int, int] = {}
            for i, e in enumerate(plan.exprs):
                if isinstance(e, ColumnRef):
                    where.setdefault(e.index, i)
            return _moved(known_predicates(plan.input), where)
        case Join() if not plan.lateral and plan.kind not in ("right", "full"):
            found = known_predicates(plan.left)
            if plan.kind in ("inner", "cross"):
                width = len(plan.left.schema)
                found += [shift_columns(p, width) for p in known_predicates(plan.right)]
            return found
        case Aggregate() if plan.grouping_sets is None:
            return _moved(known_predicates(plan.input), {k: i for i, k in enumerate(plan.keys)})
        case Window() | TimeWindow() | Distinct() | DistinctOn() | Sort() | Limit():
            return known_predicates(plan.input)
    return []


def _moved(predicates: Iterable[Expr], where: Mapping[int, int]) -> list[Expr]:
    return [remap_columns(p, where) for p in predicates if row_columns(p) <= where.keys()]


def _is_portable(predicate: Expr) -> bool:
    """May it be said of another column that has the same value?"""
    return len(row_columns(predicate)) == 1 and can_move(predicate) and not reads_clock(predicate)


def through_equalities(
    predicates: Sequence[Expr], pairs: Iterable[Pair], wanted: Iterable[int]
) -> list[Expr]:
    """The one-column predicates said of every wanted column that equals theirs."""
    same = classes(pairs)
    targets = set(wanted)
    found: dict[Expr, None] = {}
    for p in predicates:
        if not _is_portable(p):
            continue
        (column,) = row_columns(p)
        for other in sorted(same.get(column, set()) & targets):
            moved = remap_columns(p, {column: other})
            if other != column and moved not in predicates:
                found[moved] = None
    return list(found)


def classes(pairs: Iterable[Pair]) -> dict[int, set[int]]:
    """column -> all that equal it, itself too."""
    same: dict[int, set[int]] = {}
    for a, b in pairs:
        merged = same.get(a, {a}) | same.get(b, {b})
        for c in merged:
            same[c] = merged
    return same


def input_columns(plan: LogicalPlan, first: int = 0) -> Iterator[range]:
    """The columns of each input of a tree of inner joins, counted from `first`."""
    if isinstance(plan, Filter):
        yield from input_columns(plan.input, first)
    elif isinstance(plan, Join) and plan.kind in ("inner", "cross") and not plan.lateral:
        yield from input_columns(plan.left, first)
        yield from input_columns(plan.right, first + len(plan.left.schema))
    else:
        yield range(first, first + len(plan.schema))


def out_of_or(predicate: Expr, columns: range) -> Expr | None:
    """What an OR says of these columns alone: each of its branches must say something of them."""
    if not (isinstance(predicate, Call) and predicate.function == "or"):
        return None
    branches = []
    for branch in predicate.args:
        own = [
            part
            for part in conjuncts(branch)
            if (used := row_columns(part)) and all(i in columns for i in used)
        ]
        if not own or not all(can_move(p) and not reads_clock(p) for p in own):
            return None
        branches.append(conjunction(own))
    different = tuple(dict.fromkeys(branches))
    if len(different) == 1:
        return different[0]
    return Call(function="or", args=different, type=BOOLEAN)


def through_merged(predicate: Expr, condition: Expr | None, width: int) -> tuple[Expr, Expr] | None:
    """A predicate over merged columns of a FULL JOIN as (one over left's, one over right's row).

    Rows that match have equal keys, so that either both pass or neither does; a row without a match
    has its own key in the merged column.
    """
    pairs = {tuple(sorted(p)) for p in equal_columns(parts_of(condition))}
    found: list[set[int]] = [set(), set()]

    def on(side: int) -> Expr:
        def swap(e: Expr) -> Expr:
            if not (isinstance(e, Call) and e.function == "coalesce" and len(e.args) == 2):
                return e
            refs = [r for r in e.args if isinstance(r, ColumnRef)]
            indexes = tuple(sorted(r.index for r in refs))
            if indexes not in pairs or not indexes[0] < width <= indexes[1]:
                return e
            ref = next(r for r in refs if r.index == indexes[side])
            found[side].add(ref.index)
            return ref

        return transform(predicate, swap)

    left, right = on(0), on(1)
    if not found[0] or row_columns(left) != found[0] or row_columns(right) != found[1]:
        return None
    return left, remap_columns(right, {i: i - width for i in found[1]})
