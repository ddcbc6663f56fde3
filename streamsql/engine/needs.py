"""What of the past a view depends on beside the rows that its tables hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamsql.circuit.operator import Operator
from streamsql.operators.arrange import Arrange
from streamsql.operators.asof_on_close import AsofJoinOnClose
from streamsql.operators.clock_columns import ClockColumns
from streamsql.operators.condition_join import ConditionJoin
from streamsql.operators.interval_join import IntervalJoin
from streamsql.operators.join import Join
from streamsql.operators.on_time import OnTime
from streamsql.operators.semi_join import SemiJoin
from streamsql.operators.session import Session
from streamsql.operators.session_aggregate import SessionAggregate
from streamsql.operators.set_operation import SetOperation
from streamsql.operators.source import Source
from streamsql.operators.stamp import Stamp
from streamsql.operators.temporal_filter import TemporalFilter
from streamsql.operators.temporal_join import TemporalJoin
from streamsql.operators.temporal_join_versions import TemporalVersionJoin
from streamsql.operators.time_window import TimeWindow
from streamsql.operators.union import UnionAll

if TYPE_CHECKING:
    from streamsql.circuit.graph import Circuit
    from streamsql.engine.engine import Engine
    from streamsql.engine.sources import SourceRuntime
    from streamsql.engine.storage.table import TableState
    from streamsql.engine.storage.view import ViewState
    from streamsql.engine.storage.watermarks import WatermarkTracker


@dataclass(frozen=True)
class Needs:
    """clocked: the times of ticks, or where they are cut, have a say. whole: relations of which
    every row that goes is to be kept, not only those whose going was too late for the view (a row
    that goes after its partner did takes nothing back, and is still in a closed window)."""

    clocked: bool
    whole: frozenset[int]


def has_spans(operator: Operator) -> bool:
    """Whether a join leaves out rows whose partners' time was over."""
    return isinstance(operator, IntervalJoin) or (
        isinstance(operator, ConditionJoin) and operator.rule is not None
    )


def meets(operator: Operator) -> bool:
    """Whether a join looks how far its other input was when a row came."""
    return has_spans(operator) or isinstance(operator, TemporalVersionJoin | AsofJoinOnClose)


def judges(operator: Operator) -> bool:
    """Whether an operator looks at watermarks: leaves rows out, holds them back, frees state."""
    return (
        isinstance(operator, TimeWindow | OnTime | Session | SessionAggregate)
        or operator.needs_time
        or has_spans(operator)
        or bool(getattr(operator, "on_close", False))
    )


@dataclass(frozen=True)
class Bases:
    """Tables, sources and the nodes of relations by OID, with those that are being made."""

    tables: Mapping[int, TableState]
    sources: Mapping[int, SourceRuntime]
    nodes: Mapping[int, int]

    @classmethod
    def of(cls, engine: Engine, built: Any = None) -> Bases:
        """built: what is being made, or None."""
        if built is None:
            return cls(engine.tables, engine.sources, engine.nodes)
        return cls(
            {**engine.tables, **built.tables},
            {**engine.sources, **built.sources},
            {**engine.nodes, **built.nodes},
        )

    def below(self, circuit: Circuit, nodes: Iterable[int]) -> list[int]:
        """OIDs of the tables and sources at the bottom of nodes."""
        cone = {n for node in nodes for n in circuit.cone(node)}
        known = {*self.tables, *self.sources}
        return sorted(oid for oid in known if self.nodes.get(oid) in cone)

    def tracker(self, oid: int) -> WatermarkTracker | None:
        """What keeps a relation's watermark, if it has one."""
        table = self.tables.get(oid)
        return self.sources[oid].tracker if table is None else table.tracker

    def position(self, oid: int) -> int:
        """Of the first row that has not come yet."""
        table = self.tables.get(oid)
        if table is not None:
            return table.next_row_id
        return sum(int(n) for _, n in self.sources[oid].runs)


def turns_below(engine: Engine, nodes: Iterable[int]) -> bool:
    """Whether rows come and go by the clock below what looks at watermarks."""
    return any(
        isinstance(operator, TemporalFilter | ClockColumns)
        for _, operator in _under_judges(engine.circuit, nodes)
    )


def cuts_count(engine: Engine, nodes: Iterable[int], several: bool) -> bool:
    """Whether rows come and go again below what looks at watermarks, and no row says when: what a
    group without time, a membership or a difference shows between two ticks, another cut of its
    input into ticks never shows. several: they are made of more than one relation."""
    return any(
        operator is not judge and _comes_and_goes(operator, several)
        for judge, operator in _under_judges(engine.circuit, nodes)
    )


def _under_judges(circuit: Circuit, nodes: Iterable[int]) -> Iterator[tuple[Operator, Operator]]:
    """(operator that looks at watermarks, one in its cone): itself, too."""
    for judge in (n for n in nodes if judges(circuit.nodes[n].operator)):
        for node in circuit.cone(judge):
            yield circuit.nodes[judge].operator, circuit.nodes[node].operator


def _comes_and_goes(operator: Operator, several: bool) -> bool:
    if isinstance(operator, SetOperation):
        return several  # rows of one relation say themselves who came first
    if isinstance(operator, SemiJoin | ConditionJoin):
        return True
    plain = operator.rowwise or isinstance(operator, Source | Arrange | Join | UnionAll)
    return not plain and not operator.event_times


def needs_of(engine: Engine, view: ViewState, known: Bases) -> Needs | None:
    """What of its inputs' past a view depends on; None: nothing that is not in their rows."""
    cone = engine.circuit.cone(view.node)
    operators = [engine.circuit.nodes[n].operator for n in cone]
    bases = known.below(engine.circuit, [view.node])
    judged = any(judges(o) for o in operators)
    stamped = any(isinstance(o, Stamp) for o in operators)
    turned = judged and turns_below(engine, cone)
    temporal = any(isinstance(o, TemporalJoin | TemporalVersionJoin) for o in operators)
    sessions = any(isinstance(o, Session | SessionAggregate) for o in operators)
    several = judged and len(bases) > 1
    cut = judged and cuts_count(engine, cone, len(bases) > 1)
    if not (stamped or turned or temporal or sessions or several or cut):
        return None
    idle = several and _may_idle(known, bases)
    return Needs(stamped or turned or idle or cut, frozenset(bases))


def _may_idle(known: Bases, bases: Iterable[int]) -> bool:
    trackers = map(known.tracker, bases)
    return any(t is not None and t.policy.idle_timeout_us is not None for t in trackers)


def remembers(operator: Operator) -> bool:
    """Whether what an operator gives out depends on when it was filled and what it saw since."""
    if judges(operator) or isinstance(operator, Stamp | TemporalJoin | TemporalVersionJoin):
        return True
    # rows that a join tells again are judged by other watermarks than when they came
    return not operator.rowwise and bool(operator.event_times or operator.closes)
