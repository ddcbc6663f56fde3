"""Lowering of last resort: what has no operator becomes one recompute node."""

from __future__ import annotations

from dataclasses import replace

from streamsql.circuit.operator import Operator
from streamsql.core.schema import Column, Schema
from streamsql.core.types import BIGINT
from streamsql.functions.expressions import ColumnRef, Literal, conjunction, conjuncts
from streamsql.functions.resolve import can_fail
from streamsql.operators.arrange import Arrange, add_arrange
from streamsql.operators.builder import Builder
from streamsql.operators.map import add_map, is_plain, move
from streamsql.operators.recompute import Port, Recompute
from streamsql.operators.recompute_plan import Keys, cut, derive, stands_alone
from streamsql.operators.recompute_variants import Variants
from streamsql.operators.rounds import forget_marks
from streamsql.plan import nodes as plan
from streamsql.plan.nodes import LogicalPlan


def lower(node: LogicalPlan, build: Builder) -> int | None:
    """Any node at all: by key if one can be derived, else as a whole."""
    node = _rows_alone_first(node)
    found = cut(node)
    keys, why = derive(found)
    root = found.root
    if keys is not None and keys.extra:
        root = _with_extra(root, keys)
    inputs = [add_arrange(build, build.lower(leaf)) for leaf in found.leaves]
    options = build.options
    variants = Variants(root, options.timezone)

    def make() -> Recompute:
        ports = []
        for k, source in enumerate(inputs):
            arrange = build.operator(source)
            assert isinstance(arrange, Arrange)
            ports.append(Port(f"in{k}", arrange, None if keys is None else keys.leaves[k]))
        made = Recompute(
            root.schema, variants, ports, None if keys is None else keys.output,
            title=type(node).__name__, text=_text(node), why=why, on_error=options.on_error,
        )  # fmt: skip
        if inputs and keys is not None:
            _facts(build.operator(inputs[0]), made, node, keys)
        return made

    private = options.on_error == "fail"
    what = (root, keys, options.on_error, options.timezone)
    added = build.add("recompute", inputs, what, make, private=private)
    if root.schema == node.schema:
        return added
    exprs = [ColumnRef(index=i, type=c.type) for i, c in enumerate(node.schema)]
    return add_map(build, added, None, exprs, node.schema)


def _rows_alone_first(node: LogicalPlan) -> LogicalPlan:
    """The parts of WHERE that a row alone decides below those with subqueries: rows that they leave
    out are neither kept nor looked up for, and do not fail."""
    if not isinstance(node, plan.Filter):
        return node
    parts = conjuncts(node.predicate)
    plain = [p for p in parts if is_plain(p) and not can_fail(p)]
    rest = [p for p in parts if p not in plain]
    if not plain or not rest or not stands_alone(node.input):
        return node
    below = plan.Filter(schema=node.schema, input=node.input, predicate=conjunction(plain))
    return replace(node, input=below, predicate=conjunction(rest))


def _text(node: LogicalPlan) -> str:
    """The node's own line in EXPLAIN, without its name."""
    from streamsql.plan.explain import describe

    line = describe(node)
    return line.removeprefix(type(node).__name__).lstrip(": ")


def _with_extra(root: LogicalPlan, keys: Keys) -> LogicalPlan:
    """A Project that also puts out the columns of the key."""
    assert isinstance(root, plan.Project)
    columns = [Column("", e.type) for e in keys.extra]
    schema = Schema((*root.schema.columns, *columns))
    return replace(root, schema=schema, exprs=(*root.exprs, *keys.extra))


def _facts(below: Operator, made: Operator, node: LogicalPlan, keys: Keys) -> None:
    """A column that closes still does where it belongs to the key: then no other key's change
    reaches its rows."""
    made.lateness_us = below.lateness_us
    inner = keys.leaves[0]
    if inner is None:
        return
    places = {column: [keys.output[i]] for i, column in enumerate(inner)}
    if not any(column in below.closes for column in inner):
        return
    if isinstance(node, plan.Window | plan.Filter | plan.DistinctOn | plan.Join):
        places = {i: [i] for i in range(len(below.schema))}
    move(below, made, places)
    forget_marks(made)


def lower_sort(node: plan.Sort, build: Builder) -> int | None:
    """ORDER BY has no meaning for the content of a view."""
    return build.lower(node.input)


def lower_offset(node: plan.Limit, build: Builder) -> int | None:
    """OFFSET n without a limit: all rows but the first n."""
    skipped = node.offset
    if node.limit not in (None, Literal(value=None, type=BIGINT)) or node.with_ties:
        return None
    if not isinstance(skipped, Literal) or not skipped.value or not node.order_by:
        return None
    first = replace(node, limit=skipped, offset=None)
    rest = plan.SetOperation(
        schema=node.schema, left=node.input, right=first, kind="except", all=True
    )
    return build.lower(rest)
