"""From a logical plan to nodes of the circuit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from streamsql.circuit.graph import Circuit, Node
from streamsql.circuit.operator import Operator, Step
from streamsql.core.delta import Delta
from streamsql.core.schema import Schema
from streamsql.functions.expressions import ColumnRef
from streamsql.operators import OPERATORS, Builder, Options
from streamsql.operators.builder import Recipe
from streamsql.operators.clock_plan import follow_clock
from streamsql.operators.hold_back import HoldBack
from streamsql.operators.layout import Layout
from streamsql.operators.map import add_map
from streamsql.operators.on_close import lower_on_close
from streamsql.operators.on_time import OnTime
from streamsql.operators.on_time_plan import judge_early
from streamsql.operators.panes import PaneAggregate
from streamsql.operators.session import Session
from streamsql.operators.session_aggregate import SessionAggregate
from streamsql.operators.source import Source
from streamsql.operators.time_window import TimeWindow
from streamsql.plan.nodes import LogicalPlan
from streamsql.plan.visit import scans
from streamsql.runtime.memory import keep_memory

JUDGES = (TimeWindow, OnTime, PaneAggregate, Session, SessionAggregate, HoldBack)
"""Operators that leave late rows out."""


@dataclass(frozen=True)
class CompiledView:
    """A view in the circuit.

    output: the node whose deltas are the view's changes. new_nodes: nodes that did not exist
    before: they wait for `Circuit.backfill`. nodes: everything the view reads, in topological
    order. recipes: what the labels of the new nodes are made of.
    """

    circuit: Circuit
    plan: LogicalPlan
    options: Options
    output: int
    new_nodes: tuple[int, ...]
    recipes: Mapping[int, Recipe] = field(default_factory=dict)

    @property
    def schema(self) -> Schema:
        return self.plan.schema

    @cached_property
    def reads(self) -> frozenset[int]:
        """OIDs of the relations that the view names, in subqueries too."""
        return frozenset(scan.relation_id for scan in scans(self.plan))

    @property
    def nodes(self) -> list[Node]:
        return [self.circuit.nodes[i] for i in self.circuit.cone(self.output)]

    @property
    def operators(self) -> list[Operator]:
        return [node.operator for node in self.nodes]

    @cached_property
    def judges_groups(self) -> bool:
        """Whether the watermark judges what groups of rows (GROUP BY, DISTINCT, set operations,
        sessions) give: what a row behind it did there before it went can show in the view."""
        made = any(
            isinstance(o, Session) or getattr(o, "rounds", None) is not None for o in self.operators
        )
        return made and any(isinstance(o, JUDGES) for o in self.operators)

    @property
    def append_only(self) -> bool:
        """Whether rows of the view are never taken back."""
        return self.circuit.nodes[self.output].operator.append_only

    @property
    def maintenance(self) -> str:
        """The costliest way of maintenance in it: incremental, recompute per key or recompute."""
        ways = ("incremental", "recompute per key", "recompute")
        return max((o.maintenance for o in self.operators), key=ways.index)

    def failure(self) -> tuple[str, str] | None:
        """(sqlstate, message) that reads of the view give, under `on_error = 'fail'`."""
        for operator in self.operators:
            found = operator.failure()
            if found is not None:
                return found
        return None

    def start(self, step: Step, snapshots: Mapping[int, Delta]) -> Delta:
        """The view's first rows: steps the new nodes over what the sources hold already.

        snapshots: source node -> its rows, tables with the watermark that each row arrived under.
        """
        outputs = self.circuit.backfill(step, self.new_nodes, snapshots)
        if self.output in self.new_nodes:
            return outputs.get(self.output, Delta.empty(self.schema))
        return self.circuit.accumulated(self.output, snapshots)

    def drop(self) -> list[int]:
        """Let go of the view's nodes; returns those that were freed."""
        return self.circuit.release(self.output)


def add_source(
    circuit: Circuit,
    relation_id: int,
    schema: Schema,
    *,
    append_only: bool = False,
    watermark_column: int | None = None,
    lateness_us: int = 0,
    layout: int = 0,
) -> int:
    """The node of a table, source or system relation; `Circuit.step` takes its deltas.

    lateness_us: the relation's `allowed_lateness`. layout: see `source_label`.
    """
    source = Source(schema, append_only=append_only, watermark_column=watermark_column)
    source.lateness_us = lateness_us
    node = circuit.add(source, (), source_label(relation_id, layout))
    source.origins = {i: (node, i) for i in range(len(schema))}
    circuit.retain(node)
    return node


def source_label(relation_id: int, layout: int = 0) -> str:
    """The label of a relation's source node. layout: how often its columns were changed."""
    return f"source-{relation_id}@{layout}" if layout else f"source-{relation_id}"


def labelled_relation(label: str) -> int | None:
    """The OID in a source node's label; None for other labels.

    >>> labelled_relation(source_label(16384, 2)), labelled_relation("filter")
    (16384, None)
    """
    kind, _, number = label.partition("@")[0].partition("-")
    return int(number) if kind == "source" and number.isdigit() else None


def add_layout(circuit: Circuit, below: int, label: str, layout: Layout) -> int:
    """The node that gives a relation's changes in the columns it had before; held once more."""
    found = circuit.find(label)
    if found is None:
        layout.watermark = circuit.nodes[below].operator.watermark
        found = circuit.add(layout, (below,), label)
        layout.origins = {i: (found, i) for i in range(len(layout.schema))}
        circuit.nodes[found].watermark = circuit.nodes[below].watermark
    circuit.retain(found, output=True)
    return found


def compile_view(
    plan: LogicalPlan,
    circuit: Circuit,
    sources: Mapping[int, int],
    options: Options | None = None,
) -> CompiledView:
    """Add the operators of a view to the circuit, sharing those that are there.

    sources: relation OID -> node: tables by `add_source`, views by their `CompiledView.output`.
    `CompiledView.start` must follow, before the next tick. Raises: the error of a part that can
    not be maintained; the circuit is then as it was before.
    """
    keep_memory()
    options = options or Options()
    build = Builder(circuit, sources, options, OPERATORS)
    try:
        timed = judge_early(follow_clock(plan))
        output = lower_on_close(timed, build) if options.on_close else build.lower(timed)
        if output in sources.values():  # a view's output is a node of its own
            columns = [ColumnRef(index=i, type=c.type) for i, c in enumerate(plan.schema)]
            output = add_map(build, output, None, columns, plan.schema)
        circuit.retain(output, output=True)
    except BaseException:
        circuit.discard(build.new_nodes)
        raise
    # for views over this one, its rows are where their late rows come from
    circuit.nodes[output].operator.origins = {i: (output, i) for i in range(len(plan.schema))}
    return CompiledView(circuit, plan, options, output, tuple(build.new_nodes), build.recipes)
