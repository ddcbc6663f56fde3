"""WITH RECURSIVE, kept up to date to its fixpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from streamsql.circuit.graph import Circuit
from streamsql.circuit.operator import Operator, RowError, State, Step
from streamsql.core.delta import Delta, Int64Array, concat, make_batch
from streamsql.core.schema import Schema
from streamsql.operators import saved
from streamsql.operators.builder import Builder
from streamsql.operators.columns import take_rows
from streamsql.operators.iterations import Iterations, make_iterations
from streamsql.operators.recursive_plan import WORKING, StepPlan, step_plan
from streamsql.operators.source import Source
from streamsql.plan import nodes as plan
from streamsql.state.consolidate import consolidate

SQLSTATE = "54001"


class Recursive(Operator):
    """The rows of a recursive query (WITH RECURSIVE … UNION [ALL] …).

    Algebra:  W(0) = base, W(i + 1) = step(W(i)); the output is the sum of all W. UNION: each W is
              without duplicates and without the rows of those before it. The rows of all working
              tables are one relation that carries the iteration, so that one nested circuit holds
              the step: its inputs' changes go through it once for all iterations, and then the
              changes of W(0), W(1), … in this order, each of which changes only the next one.
              Exact for cycles and for rows that go: a row stands on rows of the iteration before.
    Input:    the base, then what the step reads beside the working table; any weights.
    Output:   the query's columns; consolidated.
    State:    the nested circuit's, and `tables`: the working tables; freed with the rows.
    Cost:     O(changed rows of the working tables), and a step of the nested circuit for each
              iteration that changes.
    Errors:   54001 as an error of the view while the recursion needs more than the allowed
              iterations or rows: the iterations up to there are shown.
    Source:   Budiu et al., DBSP, VLDB 2023 (nested streams, recursion).
    """

    consolidates = True

    def __init__(
        self, node: plan.RecursiveCte, step: StepPlan, leaves: Sequence[Operator], build: Builder
    ) -> None:
        """leaves: the operators that the step's leaves come from."""
        super().__init__(node.schema)
        self.node = node
        self.on_error = build.options.on_error
        self.iterations_max = build.options.iterations_max
        self.rows_max = build.options.recursion_rows_max
        self.circuit = Circuit()
        self.working = self._source(step.working.schema, False)
        self.sources = [self._source(leaf.schema, leaf.append_only) for leaf in leaves]
        relations = {WORKING: self.working}
        relations |= {WORKING + 1 + k: source for k, source in enumerate(self.sources)}
        options = replace(build.options, view_id=0, on_close=False)
        self.result = Builder(self.circuit, relations, options, build.registry).lower(step.root)
        self.circuit.retain(self.result, output=True)
        self.maintenance = self._maintenance()
        self.tables: Iterations = make_iterations(node.schema, node.all)
        self.cut = self.iterations_max
        self.said = ""
        self.started = False

    def _source(self, schema: Schema, append_only: bool) -> int:
        source = Source(schema, append_only=append_only)
        node = self.circuit.add(source, (), f"source-{len(self.circuit.nodes)}")
        self.circuit.retain(node)
        return node

    @property
    def name(self) -> str:
        return "Recursive union all" if self.node.all else "Recursive union"

    def _maintenance(self) -> str:
        """The costliest way in the step."""
        ways = ("incremental", "recompute per key", "recompute")
        return max((n.operator.maintenance for n in self.circuit), key=ways.index)

    # --- stepping ------------------------------------------------------------------------------
    def step(self, step: Step, *deltas: Delta) -> Delta:
        due = self.next_timer_us()
        if not any(deltas) and (due is None or due > step.now_us) and self.started:
            return Delta.empty(self.schema)
        self.started = True
        changes = {n: _plain(d) for n, d in zip(self.sources, deltas[1:], strict=True) if d}
        if deltas[0]:
            self.tables.wait(0, _plain(deltas[0]))
        self._through(step, changes)
        out = self._loop(step)
        if self.cut < self.iterations_max and self._may_go_on():
            self.tables.end()
            waiting, self.cut = self.cut, self.iterations_max
            self._feed(step, waiting, self.tables.contents(waiting))
            out += self._loop(step)
        self.tables.end()
        self._report(step)
        return consolidate(concat(out, self.schema)) if out else Delta.empty(self.schema)

    def _loop(self, step: Step) -> list[Delta]:
        """Iteration after iteration, as long as one of them changes; what changed in them."""
        out = []
        unfed = {self.cut}  # the step has not seen these working tables
        while (iteration := self.tables.next_waiting()) is not None:
            delta = self.tables.settle(iteration)
            if not delta:
                continue
            out.append(delta)
            if iteration in unfed:
                continue
            if self.tables.total > self.rows_max and iteration < self.cut:
                self.cut = iteration
                unfed.add(iteration)
                before = concat([self.tables.contents(iteration), delta.negate()], self.schema)
                delta = consolidate(before).negate()
            self._feed(step, iteration, delta)
        return out

    def _may_go_on(self) -> bool:
        return not self.tables.rows_of(self.cut) or 2 * self.tables.total <= self.rows_max

    def _feed(self, step: Step, iteration: int, delta: Delta) -> None:
        """Changes of one working table go through the step."""
        if not delta:
            return
        schema = self.circuit.nodes[self.working].operator.schema
        numbers = pa.array(np.full(delta.num_rows, iteration, np.int64))
        batch = make_batch([*delta.batch.columns, numbers], schema.arrow, delta.num_rows)
        self._through(step, {self.working: Delta(batch, delta.weights)})

    def _through(self, step: Step, changes: dict[int, Delta]) -> None:
        """One step of the nested circuit; what it gives waits for its iteration."""
        inner = Step(step.tick, step.now_us)
        given = self.circuit.step(inner, changes).get(self.result)
        step.late += inner.late
        step.errors += inner.errors
        step.null_event_times += inner.null_event_times
        if not given:
            return
        numbers = np.asarray(given.batch.column(len(self.schema)))
        arrays = given.batch.columns[: len(self.schema)]
        rows = Delta(make_batch(arrays, self.schema.arrow, given.num_rows), given.weights)
        if bool((numbers == numbers[0]).all()):
            self.tables.wait(int(numbers[0]) + 1, rows)
            return
        order = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
        found = numbers[order[starts]].tolist()
        for number, part in zip(found, np.split(order, starts[1:]), strict=True):
            self.tables.wait(number + 1, _taken(rows, part))

    # --- a recursion that does not end ---------------------------------------------------------
    def _message(self) -> str:
        what = f"needs more than {self.iterations_max} iterations"
        if self.cut < self.iterations_max:
            what = f"has more than {self.rows_max} rows"
        way = "" if not self.node.all else ", or use UNION instead of UNION ALL"
        return f"recursive query {what}; add a condition that ends it{way}"

    def _report(self, step: Step) -> None:
        """Say so when the recursion was stopped, and when it ends again."""
        text = self._message() if self.tables.rows_of(self.cut) else ""
        if text == self.said:
            return
        for message, weight in ((self.said, -1), (text, 1)):
            if message:
                step.errors.append(RowError(self.name, SQLSTATE, message, "{}", weight))
        self.said = text

    def failure(self) -> tuple[str, str] | None:
        if self.said and self.on_error == "fail":
            return SQLSTATE, self.said
        for node in self.circuit:
            found = node.operator.failure()
            if found is not None:
                return found
        return None

    # --- the rest of the contract --------------------------------------------------------------
    def next_timer_us(self) -> int | None:
        return self.circuit.next_timer_us()

    def save(self) -> State:
        state: dict[str, pa.Table] = {}
        for number, node in enumerate(self.circuit):
            state |= saved.nest(f"step{number}", node.operator.save())
        state |= saved.nest("tables", self.tables.save())
        state["cut"] = saved.numbers(cut=self.cut)
        state["said"] = pa.table({"text": [self.said]})
        return state

    def load(self, state: State) -> None:
        states = {
            node.label: saved.inner(f"step{number}", state)
            for number, node in enumerate(self.circuit)
        }
        self.circuit.load(states, self.circuit.watermarks())
        self.started = True
        self.tables.load(saved.inner("tables", state))
        self.cut = saved.number(state["cut"], "cut")
        self.said = state["said"]["text"][0].as_py()

    def state_rows(self) -> int:
        return self.tables.rows + sum(n.operator.state_rows() for n in self.circuit)

    def state_bytes(self) -> int:
        return self.tables.nbytes + sum(n.operator.state_bytes() for n in self.circuit)

    def explain(self) -> dict[str, str]:
        inner = [n.operator for n in self.circuit if not isinstance(n.operator, Source)]
        kept = [
            f"{o.name}: {text}" for o in inner if (text := o.explain().get("state")) is not None
        ]
        return {
            "state": "; ".join(["the rows of every iteration", *dict.fromkeys(kept)]),
            "freed": "when the rows go",
            "detail": "step: " + ", ".join(o.name for o in inner)
            + f"; at most {self.iterations_max} iterations and {self.rows_max} rows",
        }  # fmt: skip


def _plain(delta: Delta) -> Delta:
    """Without watermarks: inside of a recursion nothing is late."""
    return Delta(delta.batch, delta.weights)


def _taken(delta: Delta, rows: Int64Array) -> Delta:
    weights = None if delta.weights is None else delta.weights[rows]
    return Delta(take_rows(delta.batch, rows), weights)


def lower(node: plan.RecursiveCte, build: Builder) -> int | None:
    """A recursive query whose step can be taken apart by iteration."""
    found = step_plan(node)
    if found is None:
        return None
    inputs = [build.lower(node.base), *(build.lower(leaf) for leaf in found.leaves)]
    below = [build.operator(i) for i in inputs]

    def make() -> Recursive:
        return Recursive(node, found, below[1:], build)

    probe = make()
    if probe.maintenance == "recompute":
        return None
    options = build.options
    limits = (options.iterations_max, options.recursion_rows_max)
    what = (found.root, node.schema, node.all, options.on_error, limits)
    return build.add("recursive", inputs, what, lambda: probe, private=True)
