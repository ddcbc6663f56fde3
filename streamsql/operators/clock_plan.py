"""now() in the plan of a view: every condition on it turns by the clock, or is refused.

A condition in WHERE or HAVING that its row alone decides is a temporal filter. Elsewhere (ON of an
outer join, CASE, FILTER, a correlated subquery, OVER, ORDER BY) it becomes a column of the rows
that it speaks of, `ClockColumns`. A condition of an outer or semi join on both its sides at once is
a filter over the pairs. What is left is now() as a value, as of when each row arrived: `Stamped`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from streamsql.core.errors import FeatureNotSupported
from streamsql.core.schema import Column, Schema
from streamsql.core.types import BOOLEAN, TIMESTAMPTZ, Kind
from streamsql.functions.expressions import (
    Call,
    ColumnRef,
    Expr,
    Literal,
    OuterRef,
    Subquery,
    conjunction,
    conjuncts,
    transform,
    walk,
)
from streamsql.operators.clock_expressions import conditions
from streamsql.operators.clock_keys import reads_clock, with_stamp
from streamsql.operators.recompute_plan import stands_alone
from streamsql.plan import nodes as plan
from streamsql.plan.nodes import Join, LogicalPlan
from streamsql.plan.visit import (
    map_node,
    node_expressions,
    remap_columns,
    row_columns,
    shift_columns,
    transform_plan,
)

HINT = "Compare now() with a column of one relation, as in t > now() - INTERVAL '1 hour'."
_Place = Callable[[Expr], ColumnRef]
"""Notes a condition and answers the column that it will be."""


def follow_clock(node: LogicalPlan) -> LogicalPlan:
    """The plan with an operator for every use of now(). Raises: FeatureNotSupported (0A000), with
    position, for a condition whose turns are not known."""
    return _followed(transform_plan(node, _above_windows)) if any_clock(node) else node


def _followed(node: LogicalPlan) -> LogicalPlan:
    if not any_clock(node):
        return node
    for rule in (_values, _pairs, _split_filter, _columns, _stamps):
        node = rule(node)
    node = node.with_inputs(tuple(_followed(i) for i in node.inputs()))
    if any(isinstance(e, Subquery) for own in node_expressions(node) for e in walk(own)):
        node = map_node(node, lambda e: transform(e, _inside))
    _check(node)
    return node


def _inside(expr: Expr) -> Expr:
    return replace(expr, plan=follow_clock(expr.plan)) if isinstance(expr, Subquery) else expr


def any_clock(node: LogicalPlan) -> bool:
    """Whether now() stands anywhere in a plan."""
    return any(_clock_within(e) for e in node_expressions(node)) or any(
        any_clock(i) for i in node.inputs()
    )


def _clock_within(expr: Expr) -> bool:
    """Whether now() stands in the expression or in a subquery of it."""
    return reads_clock(expr) or any(
        isinstance(e, Subquery) and any_clock(e.plan) for e in walk(expr)
    )


def _above_windows(node: LogicalPlan) -> LogicalPlan:
    """Temporal filters go above TUMBLE, HOP and CUMULATE: these judge which rows are late, and what
    leaves by the clock afterwards leaves closed windows too."""
    if not isinstance(node, plan.TimeWindow) or node.kind == "session":
        return node
    below = node.input
    exprs: tuple[Expr, ...] | None = None
    if isinstance(below, plan.Project) and isinstance(below.input, plan.Filter):
        exprs, below = below.exprs, below.input
    if not isinstance(below, plan.Filter) or not stands_alone(below.input):
        return node
    parts = conjuncts(below.predicate)
    timed = [p for p in parts if reads_clock(p) and conditions(p) is not None]
    if not timed:
        return node
    rest = [p for p in parts if p not in timed]
    source = replace(below, predicate=conjunction(rest)) if rest else below.input
    predicate = conjunction(timed)
    if exprs is not None:
        columns = sorted(row_columns(predicate))
        first = len(exprs)
        more = [ColumnRef(index=i, type=source.schema[i].type) for i in columns]
        schema = Schema((*node.input.schema.columns, *(source.schema[i] for i in columns)))
        source = plan.Project(schema=schema, input=source, exprs=(*exprs, *more))
        predicate = remap_columns(predicate, {c: first + k for k, c in enumerate(columns)})
    width = len(node.input.schema)
    schema = Schema((*source.schema.columns, *node.schema.columns[width:]))
    windows = replace(node, input=source, schema=schema)
    kept = plan.Filter(schema=schema, input=windows, predicate=predicate)
    places = [*range(width), *range(len(source.schema), len(schema))]
    return _picked(kept, places, node.schema)


# --- rules, top down ----------------------------------------------------------------------------
def _values(node: LogicalPlan) -> LogicalPlan:
    """Constant rows as projections of one empty row, which has a time of arrival."""
    if not isinstance(node, plan.Values) or not node.rows or not node.rows[0]:
        return node
    one = plan.Values(schema=Schema(()), rows=((),))
    parts: list[LogicalPlan] = [
        plan.Project(schema=node.schema, input=one, exprs=row) for row in node.rows
    ]
    made = parts[0]
    for part in parts[1:]:
        made = _union(made, part)
    return made


def _pairs(node: LogicalPlan) -> LogicalPlan:
    """Outer and semi joins by a condition on the clock and both sides: the pairs are filtered, and
    rows without a pair are those that are not among them."""
    if not isinstance(node, Join) or node.is_temporal or node.null_aware:
        return node
    width = len(node.left.schema)
    parts = [] if node.condition is None else conjuncts(node.condition)
    mixed = [p for p in parts if conditions(p) is not None and _on_both(p, width)]
    if not mixed or not (stands_alone(node.left) and stands_alone(node.right)):
        return node
    rest = [p for p in parts if p not in mixed]
    columns = Schema((*node.left.schema.columns, *node.right.schema.columns))
    kind = "inner" if rest else "cross"
    join = replace(node, schema=columns, kind=kind, condition=conjunction(rest) if rest else None)
    pairs = plan.Filter(schema=columns, input=join, predicate=conjunction(mixed))
    if node.kind in ("inner", "cross"):
        return pairs
    if node.kind in ("semi", "anti"):
        return _matched(node.left, pairs, 0, node.kind)
    made: LogicalPlan = pairs
    if node.kind in ("left", "full"):
        lone = _matched(node.left, pairs, 0, "anti")
        made = _union(made, _padded(lone, columns, before=0))
    if node.kind in ("right", "full"):
        lone = _matched(node.right, pairs, width, "anti")
        made = _union(made, _padded(lone, columns, before=width))
    return replace(made, schema=node.schema)


def _on_both(expr: Expr, width: int) -> bool:
    """Whether some condition on the clock reads columns of both sides of a join."""
    return not all(_is_on_one(e, width) for e in _turning(expr))


def _is_on_one(expr: Expr, width: int) -> bool:
    used = row_columns(expr)
    return all(i < width for i in used) or all(i >= width for i in used)


def _turning(expr: Expr) -> list[Expr]:
    """The smallest boolean parts of an expression that hold now()."""
    if not reads_clock(expr):
        return []
    found = [e for c in expr.children() for e in _turning(c)]
    return found or ([expr] if expr.type.kind is Kind.BOOLEAN else [])


def _matched(side: LogicalPlan, pairs: LogicalPlan, first: int, kind: str) -> LogicalPlan:
    """The rows of a side that are (not) in some pair, where their columns stand from `first`."""
    n = len(side.schema)
    same = [
        Call(
            function="is_not_distinct_from", type=BOOLEAN,
            args=(ColumnRef(index=i, type=c.type), ColumnRef(index=n + first + i, type=c.type)),
        )
        for i, c in enumerate(side.schema)
    ]  # fmt: skip
    condition = conjunction(list(same)) if same else None
    return Join(schema=side.schema, left=side, right=pairs, kind=kind, condition=condition)


def _padded(side: LogicalPlan, columns: Schema, before: int) -> LogicalPlan:
    """The rows of a side among NULLs; before: columns in front of theirs."""
    exprs: list[Expr] = []
    for i, c in enumerate(columns):
        own = before <= i < before + len(side.schema)
        exprs.append(
            ColumnRef(index=i - before, type=c.type) if own else Literal(value=None, type=c.type)
        )
    return plan.Project(schema=columns, input=side, exprs=tuple(exprs))


def _union(left: LogicalPlan, right: LogicalPlan) -> LogicalPlan:
    return plan.SetOperation(schema=left.schema, left=left, right=right, kind="union", all=True)


def _split_filter(node: LogicalPlan) -> LogicalPlan:
    """The parts of WHERE that rows decide alone as a filter of their own, below the others."""
    if not isinstance(node, plan.Filter) or not stands_alone(node.input):
        return node
    parts = conjuncts(node.predicate)
    timed = [p for p in parts if reads_clock(p) and conditions(p) is not None]
    rest = [p for p in parts if p not in timed]
    if not timed or not any(_clock_within(p) or not _is_alone(p) for p in rest):
        return node
    below = plan.Filter(schema=node.schema, input=node.input, predicate=conjunction(timed))
    return replace(node, input=below, predicate=conjunction(rest))


def _is_alone(expr: Expr) -> bool:
    return not any(isinstance(e, Subquery | OuterRef) for e in walk(expr))


def _columns(node: LogicalPlan) -> LogicalPlan:
    """Conditions that rows of the node's inputs decide become columns of these."""
    if isinstance(node, plan.Filter) and _is_temporal_filter(node):
        return node
    if isinstance(node, Join):
        return _of_join(node)
    if not isinstance(
        node,
        plan.Filter | plan.Project | plan.Sort | plan.Limit | plan.DistinctOn | plan.TableFunction,
    ):
        return node
    found: list[Expr] = []
    width = len(node.input.schema)
    changed = map_node(node, lambda e: _hoisted(e, 0, lambda c: _place(c, found, width)))
    if not found:
        return node
    below = _extended(node.input, found)
    return node if below is None else _over(changed, below, width, len(node.input.schema))


def _is_temporal_filter(node: plan.Filter) -> bool:
    return stands_alone(node.input) and conditions(node.predicate) is not None


def _place(condition: Expr, found: list[Expr], first: int) -> ColumnRef:
    """The column that a condition will be, from `first` on."""
    if condition not in found:
        found.append(condition)
    return ColumnRef(index=first + found.index(condition), type=BOOLEAN)


def _hoisted(expr: Expr, level: int, place: _Place) -> Expr:
    """The expression with the conditions that the row `level` boundaries up decides replaced by
    columns of that row."""
    if expr.type.kind is Kind.BOOLEAN and reads_clock(expr):
        own = _own(expr, level)
        if own is not None and conditions(own) is not None:
            column = place(own)
            if level == 0:
                return column
            return OuterRef(index=column.index, depth=level, type=BOOLEAN)
    children = expr.children()
    if children:
        expr = expr.with_children(tuple(_hoisted(c, level, place) for c in children))
    if isinstance(expr, Subquery):
        expr = replace(expr, plan=_hoisted_plan(expr.plan, level + 1, place))
    return expr


def _hoisted_plan(node: LogicalPlan, level: int, place: _Place) -> LogicalPlan:
    inputs = node.inputs()
    if inputs:
        inner = level + 1 if isinstance(node, Join) and node.lateral else level
        levels = (level, inner) if len(inputs) == 2 else (level,)
        pairs = zip(inputs, levels, strict=True)
        node = node.with_inputs(tuple(_hoisted_plan(i, n, place) for i, n in pairs))
    if not any(_clock_within(e) for e in node_expressions(node)):
        return node
    return map_node(node, lambda e: _hoisted(e, level, place))


def _own(expr: Expr, level: int) -> Expr | None:
    """The expression over the row `level` boundaries up, if it reads no other."""
    if level == 0:
        return expr
    refs = [e for e in walk(expr) if isinstance(e, ColumnRef | OuterRef | Subquery)]
    if not refs or not all(isinstance(e, OuterRef) and e.depth == level for e in refs):
        return None

    def one(e: Expr) -> Expr:
        return ColumnRef(index=e.index, type=e.type) if isinstance(e, OuterRef) else e

    return transform(expr, one)


def _extended(node: LogicalPlan, found: Sequence[Expr]) -> LogicalPlan | None:
    """The plan with the conditions over its rows as columns behind; None where a plan that reads
    outer rows has no place for them."""
    schema = Schema((*node.schema.columns, *(Column("", BOOLEAN) for _ in found)))
    if stands_alone(node):
        return plan.ClockColumns(schema=schema, input=node, conditions=tuple(found))
    if isinstance(node, plan.Filter):
        below = _extended(node.input, found)
        return None if below is None else replace(node, schema=schema, input=below)
    if isinstance(node, plan.Project):
        width = len(node.input.schema)
        moved = [_through(e, node.exprs) for e in found]
        below = _extended(node.input, moved)
        if below is None or any(conditions(e) is None for e in moved):
            return None
        columns = [ColumnRef(index=width + k, type=BOOLEAN) for k in range(len(found))]
        return replace(node, schema=schema, input=below, exprs=(*node.exprs, *columns))
    return None


def _through(expr: Expr, exprs: Sequence[Expr]) -> Expr:
    return transform(expr, lambda e: exprs[e.index] if isinstance(e, ColumnRef) else e)


def _over(changed: LogicalPlan, below: LogicalPlan, width: int, old: int) -> LogicalPlan:
    """The node over an input with more columns than before, and its own columns as they were."""
    if isinstance(changed, plan.Project):
        return replace(changed, input=below)
    more = below.schema.columns[old:]
    columns = changed.schema.columns
    schema = Schema((*columns[:width], *more, *columns[width:]))
    node = replace(changed.with_inputs((below,)), schema=schema)
    places = [i if i < width else i + len(more) for i in range(len(columns))]
    return _picked(node, places, changed.schema)


def _picked(node: LogicalPlan, places: Sequence[int], schema: Schema) -> LogicalPlan:
    exprs = tuple(ColumnRef(index=i, type=node.schema[i].type) for i in places)
    return plan.Project(schema=schema, input=node, exprs=exprs)


def _of_join(node: Join) -> LogicalPlan:
    """`_columns` for the conditions in ON, and of a lateral right side on the left row."""
    left, right = node.left, node.right
    n, m = len(left.schema), len(right.schema)
    found: tuple[list[Expr], list[Expr]] = ([], [])

    def place(condition: Expr) -> ColumnRef:
        if all(i < n for i in row_columns(condition)):
            return _place(condition, found[0], n)
        moved = _place(shift_columns(condition, -n), found[1], n + m)
        return moved  # as if the left side got no columns; shifted below

    condition = node.condition
    if condition is not None and reads_clock(condition):
        condition = conjunction([_sided(p, n, place) for p in conjuncts(condition)])
    if node.lateral:
        right = _hoisted_plan(right, 1, lambda c: _place(c, found[0], n))
    if not any(found):
        return node
    wide_left = _extended(left, found[0]) if found[0] else left
    wide_right = _extended(right, found[1]) if found[1] else right
    if wide_left is None or wide_right is None:
        return node
    more = len(found[0])
    if condition is not None and more:
        condition = transform(condition, lambda e: _shifted(e, n, more))
    both = Schema((*wide_left.schema.columns, *wide_right.schema.columns))
    one_sided = len(node.schema) == n
    made = replace(
        node, schema=wide_left.schema if one_sided else both, left=wide_left, right=wide_right,
        condition=condition,
    )  # fmt: skip
    places = [*range(n), *([] if one_sided else range(n + more, n + more + m))]
    return _picked(made, places, node.schema)


def _sided(part: Expr, width: int, place: _Place) -> Expr:
    """`_hoisted` in the condition of a join: each condition on the clock reads one side."""
    turns = part.type.kind is Kind.BOOLEAN and reads_clock(part)
    if turns and _is_on_one(part, width) and conditions(part) is not None:
        column = place(part)
        # left's new columns are marked by a name until right's have moved
        on_left = all(i < width for i in row_columns(part))
        return replace(column, name="left" if on_left else "right")
    children = part.children()
    if not children:
        return part
    return part.with_children(tuple(_sided(c, width, place) for c in children))


def _shifted(expr: Expr, n: int, more: int) -> Expr:
    if isinstance(expr, ColumnRef) and expr.index >= n and expr.name != "left":
        return replace(expr, index=expr.index + more)
    return expr


def _stamps(node: LogicalPlan) -> LogicalPlan:
    """now() as a value: the time each input row arrived."""
    if not isinstance(node, plan.Project | plan.TableFunction):
        return node
    if not any(_is_value(e) and reads_clock(e) for e in node_expressions(node)):
        return node
    below, width = node.input, len(node.input.schema)
    if not stands_alone(below):
        return node
    # conditions that turn take their rows back: the time of arrival is taken below them
    clocked = below if isinstance(below, plan.ClockColumns) else None
    source = below if clocked is None else clocked.input
    at = len(source.schema)
    schema = Schema((*source.schema.columns, Column("now", TIMESTAMPTZ)))
    stamped: LogicalPlan = plan.Stamped(schema=schema, input=source)
    # a condition that is left is refused, also beside a value
    node = map_node(node, lambda e: _moved(with_stamp(e, -1) if _is_value(e) else e, at))
    if clocked is not None:
        stamped = plan.ClockColumns(
            schema=Schema((*schema.columns, *below.schema.columns[at:])),
            input=stamped, conditions=clocked.conditions,
        )  # fmt: skip
    if isinstance(node, plan.Project):
        return replace(node, input=stamped)
    assert isinstance(node, plan.TableFunction)
    columns = node.schema.columns
    schema = Schema((*columns[:width], Column("now", TIMESTAMPTZ), *columns[width:]))
    made = replace(node, input=stamped, schema=schema)
    return _picked(made, [*range(width), *range(width + 1, len(schema))], node.schema)


def _moved(expr: Expr, at: int) -> Expr:
    """The expression over a row with one column more at `at`; column -1 is that one."""
    from streamsql.plan.visit import replace_columns

    def one(ref: ColumnRef | OuterRef) -> Expr:
        if ref.index == -1:
            return ColumnRef(index=at, type=ref.type)
        return replace(ref, index=ref.index + 1) if ref.index >= at else ref

    return replace_columns(expr, one)


def _is_value(expr: Expr) -> bool:
    """Whether no now() of the expression stands in a condition."""
    return all(e.type.kind is not Kind.BOOLEAN for e in walk(expr) if reads_clock(e))


# --- what is left -------------------------------------------------------------------------------
def _check(node: LogicalPlan) -> None:
    if isinstance(node, plan.ClockColumns):
        return
    for own in node_expressions(node):
        if isinstance(node, plan.Filter) and conditions(own) is not None:
            continue
        for e in walk(own):
            if isinstance(e, Call) and e.function == "now":
                raise FeatureNotSupported(
                    "it is not known when this use of now() changes, and a view follows the clock",
                    position=_position(own, e), hint=HINT,
                )  # fmt: skip


def _position(own: Expr, call: Expr) -> int | None:
    """Where the call stands, or the smallest expression around it of which that is known."""
    if call.position is not None:
        return call.position
    around = [e for e in walk(own) if e.position is not None and any(c is call for c in walk(e))]
    return around[-1].position if around else own.position
