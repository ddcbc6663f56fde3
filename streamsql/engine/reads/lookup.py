"""Look-ups: a Filter over a table or view reads the rows an index finds, not all of them.

The plan's `Filter(Scan)` stays as it is; its Scan reads a small table instead, in which there is at
least every row that the predicate is true for. So nothing that the index can not tell (more
conditions, rows of an older version, a transaction's own writes) has to be known here exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pyarrow as pa

from streamsql.core.delta import make_batch
from streamsql.core.errors import StreamSqlError
from streamsql.core.schema import Schema
from streamsql.engine.reads.access import (
    Access,
    State,
    access_text,
    accesses,
    conditions_of,
    fit,
    plain,
)
from streamsql.engine.reads.fast import FAST_ROWS_MAX, is_simple, run_fast
from streamsql.engine.reads.join_lookup import (
    DRIVING_ROWS_MAX,
    Equality,
    equalities,
    join_access,
    join_questions,
    join_text,
    scan_below,
    through,
)
from streamsql.engine.reads.view import ReadView, Snapshot, usable
from streamsql.engine.storage.key_index import KeyIndex, Range
from streamsql.functions.evaluator import Evaluator
from streamsql.functions.expressions import (
    Expr,
    Literal,
    conjunction,
    conjuncts,
)
from streamsql.functions.literals import to_arrow_scalar
from streamsql.plan.nodes import Filter, Join, Limit, LogicalPlan, Project, Scan, Sort, Values

FOUND_MIN = 1_000
FOUND_PART = 16
FOUND_MAX = 200_000
"""An index is used if it finds at most FOUND_MIN rows, or a FOUND_PART-th of all, and not more than
FOUND_MAX: copying rows costs more than scanning them."""

SMALL_ROWS_MAX = 5_000
"""A relation up to this size is read to find out how few rows of it drive a join."""

QUESTIONS_MAX = 10_000
"""Combinations of IN lists that are asked one by one."""

Int64Array = np.typing.NDArray[np.int64]


# --- asking -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Asker:
    """Finds rows in one version. now_us, timezone: for constants that are computed."""

    view: ReadView
    now_us: int
    timezone: str

    def constant(self, expr: Expr, type_: pa.DataType) -> pa.Array | None:
        """A constant as an array of one of the key's type; None where that has no such value."""
        try:
            if isinstance(expr, Literal):
                found = pa.array([to_arrow_scalar(expr)], expr.type.arrow)
            else:
                blank = make_batch([], Schema(()).arrow, 1)
                found = Evaluator([expr], Schema(())).run(blank, self.now_us, self.timezone)[0]
            return found if found.type == type_ else found.cast(type_)
        except (pa.ArrowException, StreamSqlError):
            return None

    def questions(self, access: Access) -> list[Range] | None:
        """The ranges of keys to look at; None where a value is not one of the key's type."""
        columns: list[list[pa.Array]] = []
        count = 1
        for key, values, null in zip(access.keys, access.equal, access.nulls, strict=False):
            found = [self.constant(v, key.type.arrow) for v in values]
            if any(f is None for f in found):
                return None
            known = [f for f in found if f is not None]
            if not null:
                known = [f for f in known if not f.null_count]
            count *= len(known)
            if count > QUESTIONS_MAX:
                return None
            columns.append(list({f[0]: f for f in known}.values()) if len(known) > 1 else known)
        ends: list[pa.Array | None] = []
        for bound in (access.low, access.high):
            value = None
            if bound is not None:
                value = self.constant(bound.value, access.keys[len(access.equal)].type.arrow)
                if value is None:
                    return None
                if value.null_count:
                    return []
            ends.append(value)
        return [
            Range(
                equal,
                ends[0],
                access.low is None or access.low.included,
                ends[1],
                access.high is None or access.high.included,
            )
            for equal in product(*columns)
        ]

    def best(self, state: State, found: Sequence[Access]) -> tuple[Access, Int64Array] | None:
        """The way that finds the fewest rows, and their numbers; None if a scan is better. Under
        the lock."""
        best: tuple[int, Access, list[tuple[int, int]]] | None = None
        for access in found:
            asked = self.questions(access)
            if asked is None:
                continue
            if access.index is None:
                return access, _by_identity(state, asked)
            spans = spans_of(access.index, asked)
            count = sum(end - start for start, end in spans)
            if best is None or count < best[0]:
                best = count, access, spans
        if best is None or best[0] > most_rows(state):
            return None
        access = best[1]
        assert access.index is not None
        parts = [access.index.rows(start, end) for start, end in best[2]]
        return access, np.concatenate(parts) if parts else np.empty(0, np.int64)


def spans_of(index: KeyIndex, asked: Sequence[Range]) -> list[tuple[int, int]]:
    """Where the answers stand; two questions that mean the same (0.0 and -0.0) are one."""
    found = dict.fromkeys(index.span(question) for question in asked)
    return [(start, end) for start, end in found if end > start]


def most_rows(state: State) -> int:
    """How many rows an index may find before a scan is the better way."""
    return max(FOUND_MIN, min(FOUND_MAX, state.store.live_rows // FOUND_PART))


def _by_identity(state: State, asked: Sequence[Range]) -> Int64Array:
    identity = state.exact_identity or ()
    arrays = [
        pa.concat_arrays([q.equal[i] for q in asked])
        if asked
        else pa.array([], state.schema[identity[i]].type.arrow)
        for i in range(len(identity))
    ]
    names = [f"c{i}" for i in range(len(identity))]
    wanted = pa.RecordBatch.from_arrays(arrays, names=names)
    rows = state.store.find(wanted, range(len(identity)))
    return np.unique(rows[rows >= 0])


def take(state: State, rows: Int64Array) -> pa.RecordBatch:
    """Stored rows by number, each as often as its weight."""
    weights = state.store.weights(rows)
    if weights.size and not bool((weights == 1).all()):
        rows = np.repeat(rows, np.maximum(weights, 0))
    return state.store.take(rows)


# --- plans --------------------------------------------------------------------------------------
@dataclass
class Lookups:
    """Puts look-ups into a plan. given: the small tables, by the id that their Scans have now."""

    asker: Asker
    given: dict[int, pa.Table]

    def apply(self, plan: LogicalPlan) -> LogicalPlan:
        """The plan with small tables where an index finds the rows."""
        if isinstance(plan, Filter):
            below = filtered_scan(plan)
            if below is not None:
                scan = self._found(*below)
                return plan if scan is None else with_scan(plan, scan)
        inputs = plan.inputs()
        if not inputs:
            return plan
        made = tuple(self.apply(i) for i in inputs)
        same = all(a is b for a, b in zip(inputs, made, strict=True))
        plan = plan if same else plan.with_inputs(made)
        return self._joined(plan) if isinstance(plan, Join) else plan

    def _joined(self, join: Join) -> Join:
        """The join with one side looked up by the rows of the other, if these are few."""
        for right in (True, False):
            driving, found = (join.left, join.right) if right else (join.right, join.left)
            pairs = equalities(join, right=right)
            scan = scan_below(found)
            if not pairs or scan is None or scan.relation_id < 0:
                continue
            rows = self._few_rows(driving)
            made = None if rows is None else self._by_rows(scan, found, pairs, rows, driving)
            if made is not None:
                side = with_scan(found, made)
                return replace(join, right=side) if right else replace(join, left=side)
        return join

    def _few_rows(self, plan: LogicalPlan) -> pa.RecordBatch | None:
        """The rows of a side that is certainly small, or None."""
        scan, asker = scan_below(plan), self.asker
        if scan is not None and scan.relation_id >= 0:
            snapshot = asker.view.snapshot(scan.relation_id)
            if snapshot is None or snapshot.state.store.live_rows > SMALL_ROWS_MAX:
                return None
        elif scan is None and not isinstance(plan, Values):
            return None
        view = replace(asker.view, given=self.given)
        rows = run_fast(plan, view, asker.now_us, asker.timezone)
        return rows if rows is not None and rows.num_rows <= DRIVING_ROWS_MAX else None

    def _by_rows(
        self,
        scan: Scan,
        plan: LogicalPlan,
        pairs: Sequence[Equality],
        rows: pa.RecordBatch,
        driving: LogicalPlan,
    ) -> Scan | None:
        asker = self.asker
        snapshot = asker.view.snapshot(scan.relation_id)
        if snapshot is None or snapshot.layout is not None:
            return None
        state = snapshot.state
        access = join_access(pairs, plan, state, snapshot.indexes)
        if access is None:
            return None
        asked = join_questions(access, rows, driving.schema, asker.now_us, asker.timezone)
        if asked is None:
            return None
        with asker.view.lock:  # type: ignore[attr-defined]
            later = snapshot.changes()
            if later is None:
                return None
            if access.index is None:
                numbers = _by_identity(state, asked)
            else:
                spans = spans_of(access.index, asked)
                if sum(end - start for start, end in spans) > most_rows(state):
                    return None
                parts = [access.index.rows(start, end) for start, end in spans]
                numbers = np.concatenate(parts) if parts else np.empty(0, np.int64)
            found = take(state, numbers)
        return self._give(
            scan, snapshot.complete(found, later), join_text(access, driving.schema, scan.schema)
        )

    def _give(self, scan: Scan, rows: pa.Table, text: str) -> Scan:
        number = -1 - len(self.given)
        self.given[number] = rows
        return replace(scan, relation_id=number, access=text)

    def _found(self, scan: Scan, predicate: Expr) -> Scan | None:
        snapshot = self.asker.view.snapshot(scan.relation_id)
        inside = None if snapshot is None else snapshot.over_state(predicate)
        if snapshot is None or inside is None:
            return None
        with self.asker.view.lock:  # type: ignore[attr-defined]
            ways = accesses(inside, snapshot.state, snapshot.indexes)
            later = snapshot.changes() if ways else None
            if later is None:
                return None
            found = self.asker.best(snapshot.state, ways)
            if found is None:
                return None
            access, numbers = found
            rows = take(snapshot.state, numbers)
        text = access_text(access, snapshot.state.relation.columns)
        return self._give(scan, snapshot.complete(rows, later), text)


def filtered_scan(plan: Filter) -> tuple[Scan, Expr] | None:
    """The Scan below Filters and Projects, and the condition over its columns."""
    node: LogicalPlan = plan
    parts: list[Expr] = []
    while isinstance(node, Filter | Project):
        if isinstance(node, Filter):
            parts.append(node.predicate)
        else:
            parts = [through(p, node) for p in parts]
        node = node.input
    return (node, conjunction(parts)) if isinstance(node, Scan) else None


def with_scan(plan: LogicalPlan, scan: Scan) -> LogicalPlan:
    """A chain of nodes with another Scan at its end."""
    if isinstance(plan, Scan):
        return scan
    return plan.with_inputs((with_scan(plan.inputs()[0], scan),))


def with_lookups(
    plan: LogicalPlan, view: ReadView, now_us: int, timezone: str
) -> tuple[LogicalPlan, ReadView]:
    """The plan whose Scans read what indexes find, and a view that knows these rows."""
    asker = Asker(view, now_us, timezone)
    ordered = _in_order(plan, asker)
    if ordered is not None:
        return ordered
    lookups = Lookups(asker, {})
    made = lookups.apply(plan)
    return (made, view) if made is plan else (made, replace(view, given=lookups.given))


def _in_order(plan: LogicalPlan, asker: Asker) -> tuple[LogicalPlan, ReadView] | None:
    """ORDER BY … [LIMIT] whose order is that of an index: only the first rows are read, and they
    come sorted. For chains of Project, Limit, Sort and Filter over one Scan."""
    chain: list[LogicalPlan] = []
    node = plan
    while isinstance(node, Project | Limit | Sort | Filter):
        chain.append(node)
        node = node.input
    sorts = [n for n in chain if isinstance(n, Sort) or (isinstance(n, Limit) and n.order_by)]
    if not isinstance(node, Scan) or len(sorts) != 1:
        return None
    snapshot = asker.view.snapshot(node.relation_id)
    if snapshot is None or not snapshot.indexes or snapshot.pending is not None:
        return None
    if snapshot.layout is not None:
        return None
    below = chain[chain.index(sorts[0]) + 1 :]
    wanted = _sort_keys(sorts[0], below)
    if wanted is None or any(isinstance(n, Limit) for n in below):
        return None
    first = next((n for n in below if isinstance(n, Filter)), None)
    filtered = None if first is None else filtered_scan(first)
    predicate = None if filtered is None else filtered[1]
    with asker.view.lock:  # type: ignore[attr-defined]
        if snapshot.changes() != []:
            return None
        found = _first_rows(snapshot, predicate, wanted, _limit(sorts[0]), asker)
    if found is None:
        return None
    rows, access, tied = found
    text = access_text(access, node.schema, ordered=True)
    made: LogicalPlan = replace(node, relation_id=-1, access=text)
    for step in reversed(chain):
        if step is not sorts[0]:
            made = step.with_inputs((made,))
        elif isinstance(step, Limit):
            made = replace(step, input=made, order_by=(), ties=())
    if tied:  # the last of the rows has equals, and of them not all are asked for
        made = replace(node, relation_id=-1, access=text)
        for step in reversed(chain):
            made = step.with_inputs((made,))
        return made, replace(asker.view, given={-1: pa.Table.from_batches([rows])})
    if rows.num_rows > FAST_ROWS_MAX or not is_simple(made):
        return None  # DuckDB would not keep the order
    return made, replace(asker.view, given={-1: pa.Table.from_batches([rows])})


def _sort_keys(
    sort: LogicalPlan, below: Sequence[LogicalPlan]
) -> list[tuple[Expr, bool, bool]] | None:
    """(expression over the Scan's columns, descending, nulls first) of each key."""
    assert isinstance(sort, Sort | Limit)
    if isinstance(sort, Limit) and sort.with_ties:
        return None
    keys = []
    for key in sort.order_by:
        expr: Expr = key.expr
        for node in below:
            if isinstance(node, Project):
                expr = through(expr, node)
        keys.append((plain(expr), key.descending, key.nulls_first))
    return keys


def _limit(sort: LogicalPlan) -> int | None:
    """Rows that are asked for, with those skipped; None = all of them."""
    if not isinstance(sort, Limit) or not isinstance(sort.limit, Literal):
        return None
    skipped = sort.offset
    if skipped is not None and not isinstance(skipped, Literal):
        return None
    offset = 0 if skipped is None or skipped.value is None else int(skipped.value)
    if sort.limit.value is None or int(sort.limit.value) < 0 or offset < 0:
        return None
    return int(sort.limit.value) + offset


def _first_rows(
    snapshot: Snapshot,
    predicate: Expr | None,
    wanted: Sequence[tuple[Expr, bool, bool]],
    most: int | None,
    asker: Asker,
) -> tuple[pa.RecordBatch, Access, bool] | None:
    """The rows of the first index whose order it is, at most `most` of them, or those and all that
    are equal to the last one (True)."""
    parts = [] if predicate is None else conjuncts(predicate)
    conditions = list(conditions_of(parts))
    state = snapshot.state
    for index in snapshot.indexes:
        access = fit(index, index.name, index.keys, conditions)
        access = access or Access(index, index.name, index.keys, ())
        fixed = len(access.equal)
        if any(len(values) != 1 for values in access.equal) or len(access.parts) < len(parts):
            continue
        order = wanted[0][1:] if wanted else (False, False)
        keys = [k for k, *_ in wanted if k not in access.keys[:fixed]]
        whole = all(w[1:] == order for w in wanted) and order[0] == order[1]
        if not whole or tuple(keys) != index.keys[fixed : fixed + len(keys)]:
            continue
        asked = asker.questions(access)
        if asked is None or len(asked) > 1:
            continue
        start, end = index.span(asked[0]) if asked else (0, 0)
        backward = bool(order[0])
        tied = False
        if most is not None and end - start > most:
            kept = (end - most, end) if backward else (start, start + most)
            if most:
                columns = fixed + len(keys)
                first, last = index.peers(kept[0] if backward else kept[1] - 1, columns)
                tied = first < kept[0] if backward else last > kept[1]
                if tied:
                    kept = (max(start, first), end) if backward else (start, min(end, last))
            start, end = kept
        if end - start > most_rows(state):
            continue
        rows = index.rows(start, end)
        return take(state, rows[::-1].copy() if backward else rows), access, tied
    return None


def explained(plan: LogicalPlan, states: Mapping[int, State]) -> LogicalPlan:
    """The plan with the look-ups that it would use, chosen without looking at rows (its parameters
    have no values yet)."""
    if isinstance(plan, Filter):
        below = filtered_scan(plan)
        state = None if below is None else states.get(below[0].relation_id)
        ways = []
        if below is not None and state is not None:
            ways = accesses(below[1], state, usable(state))
        if below is None or not ways:
            return plan
        return with_scan(plan, replace(below[0], access=access_text(ways[0], below[0].schema)))
    inputs = tuple(explained(i, states) for i in plan.inputs())
    return plan.with_inputs(inputs) if inputs else plan
