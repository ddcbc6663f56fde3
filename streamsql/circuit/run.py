"""One tick of a circuit: what has something to do is stepped, in the order of the nodes' numbers.

An operator that raises leaves itself half done, and nothing else: what it reads has finished its
step, and what reads it has not begun. So the node is cut off, with all that stands on it, and the
tick goes on for the others as if these had never been there.
"""

from __future__ import annotations

import heapq
import time
from typing import TYPE_CHECKING

from streamsql.circuit import idle
from streamsql.circuit.node import Node, NodeFailed
from streamsql.circuit.operator import Step
from streamsql.core.delta import Delta, concat

if TYPE_CHECKING:
    from streamsql.circuit.graph import Circuit


class Run:
    """One tick in progress.

    allowed: the nodes that may be stepped, None = all. failed: gets what nodes raised, which are
    cut off; None = the tick ends there, and the circuit is of no use any more.
    """

    def __init__(
        self,
        circuit: Circuit,
        step: Step,
        allowed: set[int] | None = None,
        failed: list[NodeFailed] | None = None,
    ) -> None:
        self.circuit = circuit
        self.failed = failed
        self.nodes = circuit.nodes
        self.step = step
        self.allowed = allowed
        self.heap: list[int] = []
        self.queued: set[int] = set()
        self.pending: dict[int, list[tuple[int, Delta]]] = {}  # node -> (port, delta)
        self.source_watermarks: dict[int, int] = {}
        self.timers: set[int] = set()
        self.turned: set[int] = set()  # sources that fell idle or woke up

    def mark(self, node_id: int, since: int | None) -> None:
        """A source is idle since then; None: it is active."""
        node = self.nodes[node_id]
        if node.idle.since != since:
            node.idle.since = since
            self.circuit.idles = True
            self.turned.add(node_id)
            self.wake(node_id)

    def wake(self, node_id: int) -> None:
        if node_id not in self.queued and (self.allowed is None or node_id in self.allowed):
            self.queued.add(node_id)
            heapq.heappush(self.heap, node_id)

    def give(self, node_id: int, port: int, delta: Delta) -> None:
        if delta.num_rows:
            waiting = self.pending.get(node_id)
            if waiting is None:
                self.pending[node_id] = [(port, delta)]
            else:
                waiting.append((port, delta))
            self.wake(node_id)

    def finish(self) -> dict[int, Delta]:
        """Step all that has something to do; the deltas of the output nodes."""
        outputs: dict[int, Delta] = {}
        stepped: list[Node] = []
        heap, dead = self.heap, self.circuit.dead
        while heap:
            node = self.nodes[heapq.heappop(heap)]
            if dead and node.id in dead:
                continue
            try:
                outs = self._turn(node, stepped)
                if outs and node.is_output:
                    outputs[node.id] = concat(outs, node.operator.schema)
            except NodeFailed as error:
                self._cut(error)
        for node in stepped:
            if dead and node.id in dead:
                continue
            try:
                node.operator.commit()
            except Exception as error:
                self._cut(failure(node, error))
        if self.allowed is None and not self.failed:
            return outputs
        return {k: v for k, v in outputs.items() if k not in dead and self._may(k)}

    def _may(self, node_id: int) -> bool:
        return self.allowed is None or node_id in self.allowed

    def _turn(self, node: Node, stepped: list[Node]) -> list[Delta]:
        """One node's part in the tick; what it put out. stepped: gets it if it has to commit."""
        received = self.pending.pop(node.id, None)
        sources = node.sources
        turned = self._idle(node, received) if self.circuit.idles else False
        if len(sources) == 1:
            watermarks: tuple[int, ...] = (sources[0].watermark,)
        else:
            watermarks = self._watermarks(node)
        outs: list[Delta] = []
        if (
            received is not None
            or node.id in self.timers
            or node.id in self.circuit.fresh
            or (node.operator.needs_time and watermarks and min(watermarks) > node.watermark)
        ):
            self.circuit.fresh.discard(node.id)
            if node.commits:
                stepped.append(node)
            if received is not None and len(received) == 1 and len(sources) <= 1:
                out = self._step_node(node, (received[0][1],), watermarks)
                if out.num_rows:
                    outs.append(out)
            else:
                outs = self._run_node(node, received, watermarks)
        rose = False
        before = node.watermark
        # a node that follows its inputs has nothing to do while they stand still
        if not (node.follows and min(watermarks) <= before == node.operator.watermark):
            try:
                node.watermark = node.operator.advance_watermark(watermarks)
            except Exception as error:
                raise failure(node, error) from error
            rose = node.watermark > before
        if outs or rose or turned:
            self._hand_on(node, outs, rose or turned)
        return outs

    def _cut(self, failed: NodeFailed) -> None:
        """Go on without a node that failed, if that is wanted."""
        if self.failed is None:
            raise failed
        self.failed.append(failed)
        self.circuit.cut(failed.node)

    def _idle(self, node: Node, received: list[tuple[int, Delta]] | None) -> bool:
        """Pass idle marks on; rows of inputs that were idle are judged by what those counted for.
        Whether the node fell idle or woke up."""
        floors = node.idle.floors
        if received is not None and floors:
            received[:] = [(port, idle.judged(delta, floors[port])) for port, delta in received]
        if not node.sources:
            return node.id in self.turned
        return idle.follow(node, self.step.now_us)

    def _watermarks(self, node: Node) -> tuple[int, ...]:
        if node.sources:
            return idle.input_watermarks(node)
        given = self.source_watermarks.get(node.id)
        return () if given is None else (given,)

    def _hand_on(self, node: Node, outs: list[Delta], rose: bool) -> None:
        """To the node's readers, and to whoever asks what views and sources gave."""
        for consumer, port in node.consumers:
            for out in outs:
                self.give(consumer, port, out)
            if rose:
                self.wake(consumer)
        if outs and (node.is_output or not node.inputs):
            self.step.given[node.id] = outs
            self.step.schemas[node.id] = node.operator.schema

    def _run_node(
        self, node: Node, received: list[tuple[int, Delta]] | None, watermarks: tuple[int, ...]
    ) -> list[Delta]:
        """The parts of its output that are not empty."""
        if received is not None and node.operator.rowwise and len(node.inputs) <= 1:
            parts = [self._step_node(node, (d,), watermarks) for _, d in received]
            return [part for part in parts if part.num_rows]
        try:
            inputs = self._inputs(node, received)
        except Exception as error:
            raise failure(node, error) from error
        out = self._step_node(node, inputs, watermarks)
        return [out] if out.num_rows else []

    def _step_node(
        self, node: Node, deltas: tuple[Delta, ...], watermarks: tuple[int, ...]
    ) -> Delta:
        start = time.perf_counter_ns()
        step, metrics = self.step, node.metrics
        step.input_watermarks = watermarks
        late, errors, nulls = len(step.late), len(step.errors), step.null_event_times
        try:
            out = node.operator.step(step, *deltas)
        except Exception as error:
            del step.late[late:], step.errors[errors:]
            raise failure(node, error) from error
        if len(step.late) > late or len(step.errors) > errors:
            self._note(node, late, errors)
        metrics.null_event_times += step.null_event_times - nulls
        metrics.steps += 1
        for delta in deltas:
            metrics.rows_in += delta.num_rows
        metrics.rows_out += out.num_rows
        metrics.busy_ns += time.perf_counter_ns() - start
        if self.circuit.check is not None:
            self.circuit.check(node, deltas, out)
        return out

    def _note(self, node: Node, late: int, errors: int) -> None:
        """Sign what the node reported in this tick: entries from these numbers on."""
        step, metrics = self.step, node.metrics
        for found in step.late[late:]:
            found.node = node.id
            metrics.late_rows += found.batch.num_rows
        for failed in step.errors[errors:]:
            failed.node = node.id
        metrics.errors += len(step.errors) - errors

    def _inputs(self, node: Node, received: list[tuple[int, Delta]] | None) -> tuple[Delta, ...]:
        if not node.inputs:
            if received is None:
                return (node.empty,)
            return (concat([delta for _, delta in received], node.operator.schema),)
        deltas = []
        for port, source in enumerate(node.sources):
            parts = [delta for at, delta in received or () if at == port]
            if len(parts) == 1:
                deltas.append(parts[0])
            else:
                deltas.append(concat(parts, source.operator.schema) if parts else source.empty)
        return tuple(deltas)


def failure(node: Node, error: Exception) -> NodeFailed:
    """That a node raised."""
    failed = NodeFailed(node.id, node.operator.name)
    failed.__cause__ = error
    return failed
