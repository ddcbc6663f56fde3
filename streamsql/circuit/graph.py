"""The circuit: operators in topological order, stepped only where something changed.

Nodes get rising numbers and read only older nodes, so the number is the topological order. A tick
keeps the nodes with something to do in a heap by number: a node that is idle costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from streamsql.circuit import idle
from streamsql.circuit.node import EdgeCheck, Node, NodeFailed
from streamsql.circuit.operator import Operator, State, Step
from streamsql.circuit.retell import note_given, retold
from streamsql.circuit.run import Run
from streamsql.core.delta import Delta
from streamsql.core.errors import DataCorrupted


class Circuit:
    """A growing and shrinking graph of operators that is stepped as one."""

    def __init__(self, check: EdgeCheck | None = None) -> None:
        self.nodes: dict[int, Node] = {}
        self._by_label: dict[str, int] = {}
        self._next_id = 0
        self._lowest_id = -1
        self.fresh: set[int] = set()  # not stepped yet
        self.dead: set[int] = set()  # cut off: not stepped any more, and to be released
        self._moved: set[int] = set()  # taken over since the last tick
        self.idles = False  # whether a source was ever idle
        self._timed: dict[int, Node] = {}
        self.check = check

    # --- building ------------------------------------------------------------------------------
    def add(
        self,
        operator: Operator,
        inputs: Sequence[int] = (),
        label: str = "",
        *,
        private: bool = False,
    ) -> int:
        """Add a node over existing ones and return its number.

        private: what it has put out so far can not be listed (it frees what is final).
        label: says what the node computes, `find(label)` gives it to the next one who asks; state
        is saved under it, so it must not depend on anything that changes over a restart.
        """
        node_id = self._next_id
        self._next_id += 1
        label = label or f"{operator.name.lower()}-{node_id}"
        if label in self._by_label:
            raise ValueError(f"two nodes named {label}")
        node = Node(node_id, operator, tuple(inputs), label, Delta.empty(operator.schema))
        node.private = private
        node.sources = tuple(self.nodes[i] for i in node.inputs)
        node.commits = type(operator).commit is not Operator.commit
        follows = type(operator).advance_watermark is Operator.advance_watermark
        node.follows = follows and bool(node.inputs)
        for port, source in enumerate(node.inputs):
            self.nodes[source].consumers.append((node_id, port))
        self.nodes[node_id] = node
        self._by_label[label] = node_id
        if type(operator).next_timer_us is not Operator.next_timer_us:
            self._timed[node_id] = node
        self.fresh.add(node_id)
        return node_id

    def find(self, label: str) -> int | None:
        """The node of this label, if there is one."""
        return self._by_label.get(label)

    def retain(self, node_id: int, output: bool = False) -> None:
        """Hold a node (and all below it). output: from now on `step` hands out its deltas."""
        node = self.nodes[node_id]
        node.owners += 1
        node.is_output = node.is_output or output

    def underpin(self, node_id: int, source: Operator, label: str, operator: Operator) -> int:
        """Put a new source node below a source node, in whose place `operator` reads it from now
        on; all that reads the old node goes on as before. Returns the new node's number."""
        node = self.nodes[node_id]
        if node.inputs or label in self._by_label:
            raise ValueError(f"{node.label} can not be put on {label}")
        self._lowest_id -= 1
        below = Node(self._lowest_id, source, (), label, Delta.empty(source.schema))
        below.watermark = node.watermark
        source.watermark = operator.watermark = node.operator.watermark
        source.origins = {i: (below.id, i) for i in range(len(source.schema))}
        operator.origins = node.operator.origins
        self._rest_on(node, below, operator)
        self.nodes[below.id] = below
        self._by_label[label] = below.id
        return below.id

    def lift(self, node_id: int, operator: Operator) -> None:
        """Undo `underpin`: the node is a source again, with the operator that it had."""
        node = self.nodes[node_id]
        below = self.nodes[node.inputs[0]]
        self._rest_on(node, None, operator)
        self._forget(below)

    @staticmethod
    def _rest_on(node: Node, below: Node | None, operator: Operator) -> None:
        node.operator = operator
        node.inputs = () if below is None else (below.id,)
        node.sources = () if below is None else (below,)
        node.is_output = below is not None  # its rows are asked for by those that are late
        follows = type(operator).advance_watermark is Operator.advance_watermark
        node.follows = follows and below is not None
        if below is not None:
            below.consumers.append((node.id, 0))

    def release(self, node_id: int) -> list[int]:
        """Undo one `retain`; frees every node that nothing needs any more and returns them."""
        node = self.nodes[node_id]
        node.owners -= 1
        if node.owners == 0:
            node.is_output = False
        return self._sweep([node_id])

    def discard(self, node_ids: Iterable[int]) -> list[int]:
        """Free those of the nodes that nothing holds (after a failed compilation)."""
        return self._sweep(sorted(node_ids, reverse=True))

    def _sweep(self, candidates: list[int]) -> list[int]:
        freed: list[int] = []
        stack = list(candidates)
        while stack:
            node = self.nodes.get(stack.pop())
            if node is None or node.owners or node.consumers:
                continue
            for port, source in enumerate(node.inputs):
                self.nodes[source].consumers.remove((node.id, port))
                stack.append(source)
            self._forget(node)
            freed.append(node.id)
        return freed

    def _forget(self, node: Node) -> None:
        del self.nodes[node.id]
        self._timed.pop(node.id, None)
        self.fresh.discard(node.id)
        self._moved.discard(node.id)
        self.dead.discard(node.id)
        del self._by_label[node.label]

    def cut(self, node_id: int) -> None:
        """Step a node, and all that stands on it, no more: its state is not to be trusted. What
        holds them has to let them go."""
        stack = [node_id]
        while stack:
            current = stack.pop()
            if current in self.dead:
                continue
            self.dead.add(current)
            self._timed.pop(current, None)
            self.fresh.discard(current)
            self._moved.discard(current)
            stack.extend(consumer for consumer, _ in self.nodes[current].consumers)

    def take_over(self, other: Circuit, place: dict[int, int], labels: Mapping[int, str]) -> None:
        """Move the nodes of another circuit in, with their state, behind all that are here.

        place: nodes of the other circuit that stand for nodes of this one → their numbers here; it
        is completed. labels: of the nodes that move. The other circuit is not to be used any more.
        """
        for node_id in sorted(other.nodes):
            if node_id in place:
                continue
            node = other.nodes[node_id]
            if labels[node_id] in self._by_label:
                raise ValueError(f"two nodes named {labels[node_id]}")
            place[node_id] = node.id = self._next_id
            self._next_id += 1
            node.label = labels[node_id]
            node.inputs = tuple(place[i] for i in node.inputs)
            node.sources = tuple(self.nodes[i] for i in node.inputs)
            node.consumers = []
            for port, source in enumerate(node.inputs):
                self.nodes[source].consumers.append((node.id, port))
            self.nodes[node.id] = node
            self._by_label[node.label] = node.id
            if node_id in other._timed:
                self._timed[node.id] = node
            if node_id in other.fresh:
                self.fresh.add(node.id)
            self._moved.add(node.id)  # its inputs may be idle here
            _relocate(node.operator, place)

    def cone(self, node_id: int) -> list[int]:
        """The node and everything it reads, in topological order."""
        seen: set[int] = set()
        stack = [node_id]
        while stack:
            current = stack.pop()
            if current not in seen:
                seen.add(current)
                stack.extend(self.nodes[current].inputs)
        return sorted(seen)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    # --- running -------------------------------------------------------------------------------
    def step(
        self,
        step: Step,
        deltas: Mapping[int, Delta | Sequence[Delta]],
        watermarks: Mapping[int, int] | None = None,
        idle_marks: Mapping[int, int | None] | None = None,
        failed: list[NodeFailed] | None = None,
    ) -> dict[int, Delta]:
        """One tick.

        deltas: source node -> its changes, in one or several parts, which are added up only where
        an operator needs them together. watermarks: source node -> its watermark after them, µs
        (sources that are not named keep theirs). idle_marks: source node -> the clock (µs) when it
        fell idle, None: it is active; those that are not named stay as they are. failed: gets what
        operators raised; these are cut off with all above them, and the others do the tick as ever.
        Returns the non-empty deltas of the output nodes, and of any source node that is one.

        Raises: NodeFailed (XX000) without `failed`; the circuit is of no use any more.
        """
        run = Run(self, step, failed=failed)
        for node_id, parts in deltas.items():
            for delta in (parts,) if isinstance(parts, Delta) else parts:
                run.give(node_id, 0, delta)
        for node_id, watermark in (watermarks or {}).items():
            run.source_watermarks[node_id] = watermark
            run.wake(node_id)
        for node_id, since in (idle_marks or {}).items():
            run.mark(node_id, since)
        for node_id in self.fresh | self._moved:
            run.wake(node_id)
        self._moved.clear()
        for node in self._timed.values():
            due = node.operator.next_timer_us()
            if due is not None and due <= step.now_us:
                run.timers.add(node.id)
                run.wake(node.id)
        return run.finish()

    def backfill(
        self,
        step: Step,
        new_nodes: Iterable[int],
        snapshots: Mapping[int, Delta],
    ) -> dict[int, Delta]:
        """The first step of nodes that were added over running ones: they alone are stepped.

        snapshots: accumulated output of the older nodes that they read (tables: the rows with the
        watermark each arrived under). Older nodes that are not in it are asked for their `current`
        output. Returns the deltas of the new output nodes.
        """
        new = set(new_nodes)
        step.filling = True
        run = Run(self, step, new)
        known = dict(snapshots)
        note_given(step, self.nodes, snapshots)
        for node_id in sorted(new):
            run.wake(node_id)
            if not self.nodes[node_id].inputs and node_id in known:
                run.give(node_id, 0, known[node_id])
            for port, source in enumerate(self.nodes[node_id].inputs):
                if source not in new:
                    run.give(node_id, port, self._accumulated(source, known, step))
        older = [n.operator for n in self if n.id not in new]
        for operator in older:
            operator.given_whole = True
        try:
            return run.finish()
        finally:
            for operator in older:
                operator.given_whole = False

    def accumulated(
        self, node_id: int, snapshots: Mapping[int, Delta], step: Step | None = None
    ) -> Delta:
        """All rows that a node has put out so far; snapshots as for `backfill`. step: takes what
        operators report of them.

        Raises: DataCorrupted (XX001) if they are not kept anywhere.
        """
        note_given(step, self.nodes, snapshots)
        return self._accumulated(node_id, dict(snapshots), step)

    def _accumulated(self, node_id: int, known: dict[int, Delta], step: Step | None) -> Delta:
        if node_id not in known:
            node = self.nodes[node_id]
            inputs = [self._accumulated(i, known, step) for i in node.inputs]
            known[node_id] = retold(node, step, inputs)
        return known[node_id]

    def can_list(self, node_id: int, known: Iterable[int]) -> bool:
        """Whether `backfill` could read this node: all it stands on is known or can be listed."""
        if node_id in known:
            return True
        node = self.nodes[node_id]
        can = type(node.operator).current is not Operator.current and not node.private
        return can and bool(node.inputs) and all(self.can_list(i, known) for i in node.inputs)

    def next_timer_us(self) -> int | None:
        """When the clock alone will change something next, µs."""
        due = [t for n in self._timed.values() if (t := n.operator.next_timer_us()) is not None]
        return min(due, default=None)

    # --- state ---------------------------------------------------------------------------------
    def save(self) -> dict[str, State]:
        """The state of every node by its label; the node's watermark is kept by `watermarks`."""
        return {node.label: node.operator.save() for node in self}

    def watermarks(self) -> dict[str, int]:
        """The watermark of every node by its label, µs."""
        return {node.label: node.watermark for node in self}

    def idle_marks(self) -> dict[str, list[object]]:
        """Who is idle, and what idle inputs count for, by label; for `load`."""
        return {node.label: node.idle.save() for node in self if node.idle != idle.Idle()}

    def load(
        self,
        states: Mapping[str, State],
        watermarks: Mapping[str, int],
        idle_marks: Mapping[str, list[object]] | None = None,
    ) -> None:
        """Bring back what `save`, `watermarks`, `idle_marks` gave, in one built of the same views.

        Raises: DataCorrupted (XX001) if a node's state is missing.
        """
        for node in self:
            if node.label not in states:
                raise DataCorrupted(f"the checkpoint has no state for {node.label}")
            node.operator.load(states[node.label])
            node.watermark = node.operator.watermark = watermarks[node.label]
            if idle_marks and node.label in idle_marks:
                node.idle = idle.Idle.load(idle_marks[node.label])
        self.idles = bool(idle_marks)
        self.fresh.clear()


def _relocate(operator: Operator, place: Mapping[int, int]) -> None:
    """Origins speak of nodes by their numbers."""
    for name in ("origins", "input_origins"):
        origins = getattr(operator, name, None)
        if origins:
            moved = {i: (place.get(node, node), column) for i, (node, column) in origins.items()}
            setattr(operator, name, moved)


__all__ = ["Circuit", "EdgeCheck", "Node", "NodeFailed"]
