"""What a query gave at an older version and since: where SUBSCRIBE (query) AS OF begins.

The query goes through the versions in a circuit of its own: the rows that its relations held at
the first one, then their changes one version after the other, as far as they are retained. That is
right for queries that are functions of these rows; others are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from streamsql.circuit.checks import configured_checks
from streamsql.circuit.graph import Circuit
from streamsql.circuit.operator import Step
from streamsql.core.delta import Delta, concat
from streamsql.core.errors import FeatureNotSupported
from streamsql.engine.needs import Bases, needs_of
from streamsql.engine.rebuild import depends_on_watermark
from streamsql.engine.relations import Relation
from streamsql.engine.side_circuit import add_stand_in, as_delta
from streamsql.engine.storage.view import repeat_rows, without_watermark
from streamsql.engine.subscriptions import visible
from streamsql.engine.views import bind_view, compile_options
from streamsql.operators.clock_plan import any_clock
from streamsql.plan.nodes import LogicalPlan
from streamsql.plan.visit import scans
from streamsql.state.consolidate import consolidate

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine

HINT = (
    "Make a materialized view of the query, and SUBSCRIBE to that AS OF a version that it retains."
)


@dataclass(frozen=True)
class QueryPast:
    """rows: of the query at `first`; changes: (version, what it did), ascending, up to `last`."""

    first: int
    last: int
    rows: Delta
    changes: tuple[tuple[int, Delta], ...]

    def table(self) -> pa.Table:
        """The rows, each as often as it is there."""
        return pa.Table.from_batches([repeat_rows(self.rows)])


def past_of(engine: Engine, relation: Relation, first: int) -> QueryPast | None:
    """The past of a view that was built just now; None if `first` is no older version. Engine
    thread.

    Raises: FeatureNotSupported (0A000) if its rows depend on more than those of its relations;
    SerializationFailure (40001) if these are not all retained.
    """
    if first >= engine.version:
        return None
    plan = bind_view(relation, engine.catalog)
    why = _why_not(engine, relation, plan)
    if why is not None:
        raise FeatureNotSupported(
            f"a SUBSCRIBE to a query that {why} begins at the newest version", hint=HINT
        )
    view = engine.views[relation.oid]
    rows, *changes = _replayed(engine, relation, plan, first)
    given = concat([rows[1], *(delta for _, delta in changes)], view.schema)
    # sums of floats may end in other digits, by the order in which they were made
    left = consolidate(concat([view.contents(), given.negate()], view.schema))
    if left:
        changes.append((engine.version, left))
    return QueryPast(first, engine.version, rows[1], tuple(changes))


def _why_not(engine: Engine, relation: Relation, plan: LogicalPlan) -> str | None:
    """Why the rows of the relations do not tell what the query gave."""
    for scan in scans(plan):
        base = engine.catalog.known(scan.relation_id)
        if base is not None and base.kind in ("source", "system"):
            return f'reads the {base.kind.replace("system", "system relation")} "{base.name}"'
    if any_clock(plan):
        return "reads the clock"
    if relation.emit == "on_window_close":
        return "gives rows when their window closes"
    if depends_on_watermark(plan, relation, engine):
        return "judges by a watermark which rows are late"
    if needs_of(engine, engine.views[relation.oid], Bases.of(engine)) is not None:
        return "depends on how far its inputs were when rows came"
    return None


def _replayed(
    engine: Engine, relation: Relation, plan: LogicalPlan, first: int
) -> Iterator[tuple[int, Delta]]:
    """(version, change) of the query: all rows at `first`, then what each later version did."""
    from streamsql.runtime.compile import compile_view

    circuit, nodes = Circuit(configured_checks()), {}
    start: dict[int, Delta] = {}
    later: dict[int, dict[int, Delta]] = {}
    for oid in sorted({s.relation_id for s in scans(plan)}):
        node = nodes[oid] = add_stand_in(circuit, engine, engine.nodes[oid])
        view, state = engine.views.get(oid), engine.views.get(oid) or engine.tables[oid]
        stored = state.read(first)()
        if view is not None:
            start[node] = as_delta(stored, view.schema)
        else:
            start[node] = without_watermark(engine.tables[oid].in_order(stored))
        for change in state.log.since(first):
            columns = len(state.relation.columns)
            later.setdefault(change.version, {})[node] = visible(change.delta, columns)
    compiled = compile_view(plan, circuit, nodes, compile_options(relation))
    for version in (first, *sorted(later)):
        deltas = start if version == first else later[version]
        given = circuit.step(Step(version, engine.clock_us()), deltas, {}, {})
        delta = given.get(compiled.output)
        if version == first:
            yield version, Delta.empty(relation.columns) if delta is None else _plain(delta)
        elif delta:
            yield version, _plain(delta)


def _plain(delta: Delta) -> Delta:
    return consolidate(without_watermark(delta))
