"""Joins that look rows up: a small side is read first, the other one by an index on the join's key.

Only the rows of the large side that may match are read. That changes no result where rows of this
side without a match do not show: in inner and semi joins, and on the inner side of outer ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamsql.core.schema import Schema
from streamsql.engine.reads.access import State, identity_name, plain
from streamsql.engine.storage.key_index import KeyIndex, Range
from streamsql.functions.evaluator import Evaluator
from streamsql.functions.expressions import (
    Call,
    ColumnRef,
    Expr,
    columns_used,
    conjuncts,
    transform,
)
from streamsql.plan.nodes import Filter, Join, LogicalPlan, Project, Scan

DRIVING_ROWS_MAX = 1_000
"""Rows of the small side."""

RIGHT_LOOKED_UP = frozenset({"inner", "left", "semi", "anti"})
LEFT_LOOKED_UP = frozenset({"inner", "right", "semi"})


@dataclass(frozen=True)
class Equality:
    """driving = found, each over the columns of its side."""

    driving: Expr
    found: Expr


@dataclass(frozen=True)
class JoinAccess:
    """The way to the large side. index: None = by what identifies its rows. pairs: for each of the
    first keys what it is equal to."""

    index: KeyIndex | None
    name: str
    keys: tuple[Expr, ...]
    pairs: tuple[Expr, ...]


def equalities(join: Join, *, right: bool) -> list[Equality]:
    """The join's equalities between the sides; right: the right side is looked up."""
    if join.condition is None or join.lateral or join.null_aware:
        return []
    if join.kind not in (RIGHT_LOOKED_UP if right else LEFT_LOOKED_UP):
        return []
    width = len(join.left.schema)
    found = []
    for part in conjuncts(join.condition):
        if not isinstance(part, Call) or part.function != "eq":
            continue
        sides = {_side(a, width): a for a in part.args}
        if None in sides or len(sides) < 2:
            continue
        left, other = sides[False], shifted(sides[True], width)
        found.append(Equality(left, other) if right else Equality(other, left))
    return found


def _side(expr: Expr, width: int) -> bool | None:
    """False: over the left side's columns only; True: over the right one's; None: neither."""
    sides = {i >= width for i in columns_used(expr)}
    return sides.pop() if len(sides) == 1 else None


def shifted(expr: Expr, by: int) -> Expr:
    """Over the right side's columns alone."""
    return transform(
        expr,
        lambda e: (
            ColumnRef(index=e.index - by, type=e.type, name=e.name)
            if isinstance(e, ColumnRef)
            else e
        ),
    )


def scan_below(plan: LogicalPlan) -> Scan | None:
    """The Scan at the end of a chain of Filters and Projects."""
    while isinstance(plan, Filter | Project):
        plan = plan.input
    return plan if isinstance(plan, Scan) else None


def through(expr: Expr, project: Project) -> Expr:
    """An expression over a Project's output, over its input."""
    exprs = project.exprs
    return transform(expr, lambda e: exprs[e.index] if isinstance(e, ColumnRef) else e)


def over_scan(expr: Expr, plan: LogicalPlan) -> Expr:
    """An expression over a chain's output, over the columns of its Scan."""
    while isinstance(plan, Filter | Project):
        if isinstance(plan, Project):
            expr = through(expr, plan)
        plan = plan.input
    return expr


def join_access(
    pairs: Sequence[Equality], plan: LogicalPlan, state: State, indexes: Sequence[KeyIndex]
) -> JoinAccess | None:
    """The index that most of the equalities are about."""
    by_key = {plain(over_scan(p.found, plan)): p.driving for p in pairs}
    best: JoinAccess | None = None
    identity = state.exact_identity
    columns = state.relation.columns
    if identity is not None:
        keys = tuple(ColumnRef(index=i, type=columns[i].type) for i in identity)
        if all(k in by_key for k in keys):
            found = tuple(by_key[k] for k in keys)
            return JoinAccess(None, identity_name(state), keys, found)
    for index in indexes:
        used: list[Expr] = []
        for key in index.keys:
            if key not in by_key:
                break
            used.append(by_key[key])
        if used and (best is None or len(used) > len(best.pairs)):
            best = JoinAccess(index, index.name, index.keys, tuple(used))
    return best


def join_questions(
    access: JoinAccess, rows: pa.RecordBatch, schema: Schema, now_us: int, timezone: str
) -> list[Range] | None:
    """The keys to look for: those of the small side's rows, each once; None where a value is not
    one of the key's type."""
    given = Evaluator(list(access.pairs), schema).run(rows, now_us, timezone)
    try:
        arrays = [
            a if a.type == k.type.arrow else a.cast(k.type.arrow)
            for a, k in zip(given, access.keys, strict=False)
        ]
    except pa.ArrowException:
        return None
    names = [f"k{i}" for i in range(len(arrays))]
    distinct = pa.table(arrays, names=names).group_by(names).aggregate([]).combine_chunks()
    whole = np.ones(distinct.num_rows, np.bool_)
    for column in distinct.columns:
        whole &= np.asarray(column.is_valid())
    keys = distinct.filter(pa.array(whole)).select(names).combine_chunks().to_batches()
    if not keys:
        return []
    return [
        Range(tuple(column.slice(i, 1) for column in keys[0].columns))
        for i in range(keys[0].num_rows)
    ]


def join_text(access: JoinAccess, driving: Schema, found: Schema) -> str:
    """ "Index Lookup using i (k = a)"."""
    from streamsql.plan.render import render

    said = [
        f"{render(key, found)} = {render(pair, driving)}"
        for key, pair in zip(access.keys, access.pairs, strict=False)
    ]
    return f"Index Lookup using {access.name} ({', '.join(said)})"
