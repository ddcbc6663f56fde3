"""Builder: what `lower` functions use to put operators into the circuit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streamsql.circuit.graph import Circuit
from streamsql.circuit.operator import Operator
from streamsql.core.errors import InvariantViolation
from streamsql.operators.fingerprint import label
from streamsql.plan.nodes import LogicalPlan


@dataclass(frozen=True)
class Options:
    """What a view may choose, and what the catalog knows of its inputs.

    view_id: the catalog's OID, which keeps nodes that can not be shared apart. on_error: skip, null
    or fail. on_close: EMIT ON WINDOW CLOSE. private: labels that other views had when this one was
    filled beside the circuit: it has nodes of its own for them, with `private_tag` in the label
    (0 = the OID; the views that one change has filled share theirs).
    """

    view_id: int = 0
    iterations_max: int = 10_000  # where a recursion that does not end is stopped
    recursion_rows_max: int = 10_000_000
    on_error: str = "skip"
    timezone: str = "UTC"
    on_close: bool = False
    private: frozenset[str] = frozenset()
    private_tag: int = 0


Lower = Callable[[Any, "Builder"], int | None]
"""(logical node, builder) -> the circuit node that computes it, or None = "not mine"."""


Recipe = tuple[str, Any, bool]
"""name and what of `Builder.add`, and whether the node is private: its label follows from these and
the labels of its inputs."""

Mark = tuple[int, dict[int, tuple[LogicalPlan, int]]]
"""Where `Builder.undo` goes back to."""


class Builder:
    """Adds the operators of one view, sharing those that are there already.

    registry: ordered (logical node class, lower) pairs; the first that does not answer None wins.
    """

    def __init__(
        self,
        circuit: Circuit,
        sources: Mapping[int, int],
        options: Options,
        registry: Sequence[tuple[type[LogicalPlan], Lower]],
    ) -> None:
        self.circuit = circuit
        self.sources = sources
        self.options = options
        self.registry = registry
        self.new_nodes: list[int] = []
        self.recipes: dict[int, Recipe] = {}
        self.closing: list[LogicalPlan] = []
        self._known = frozenset(sources.values())
        self._lowered: dict[int, tuple[LogicalPlan, int]] = {}

    def lower(self, plan: LogicalPlan) -> int:
        """The node that computes a plan. The last of the registry can."""
        done = self._lowered.get(id(plan))
        if done is not None and done[0] is plan:
            return done[1]
        for kind, lower in self.registry:
            if isinstance(plan, kind):
                node = lower(plan, self)
                if node is not None:
                    self._lowered[id(plan)] = (plan, node)
                    return node
        raise InvariantViolation(f"not even the general operator holds {type(plan).__name__}")

    def operator(self, node: int) -> Operator:
        """The operator of a circuit node."""
        return self.circuit.nodes[node].operator

    def add(
        self,
        name: str,
        inputs: Sequence[int],
        what: Any,
        make: Callable[[], Operator],
        *,
        private: bool = False,
    ) -> int:
        """The node that does `what` to the inputs, made if it is not there.

        name and what: all that tells two operators over the same inputs apart. private: the
        accumulated output can not be listed, so that no later view may start from it. Whether a
        node is shared depends on the plan alone: a restart must find the state under its label.
        """
        below = [self.circuit.nodes[i].label for i in inputs]
        alone = private or not all(self.circuit.can_list(i, self._known) for i in inputs)
        text = node_label(name, what, below, self.options, private=alone)
        found = self.circuit.find(text)
        if found is not None:
            return found
        operator = make()
        if type(operator).note_sources is not Operator.note_sources:
            operator.note_sources([self._timed_below(i) for i in inputs])
        node = self.circuit.add(operator, inputs, text, private=private)
        self.new_nodes.append(node)
        self.recipes[node] = (name, what, alone)
        return node

    def _timed_below(self, node: int) -> frozenset[int]:
        """The relations that a node reads and that have a watermark."""
        nodes = self.circuit.nodes
        below = (nodes[n] for n in self.circuit.cone(node))
        return frozenset(n.id for n in below if not n.inputs and n.operator.event_times)

    def closes_here(self, plan: LogicalPlan) -> bool:
        """Whether this node is the one that gives its rows out when their window closes."""
        return any(p is plan for p in self.closing)

    # --- trying things out ---------------------------------------------------------------------
    def preset(self, plan: LogicalPlan, node: int) -> None:
        """From now on the plan is computed by this node."""
        self._lowered[id(plan)] = (plan, node)

    def mark(self) -> Mark:
        """A point to come back to with `undo`."""
        return len(self.new_nodes), dict(self._lowered)

    def undo(self, mark: Mark) -> None:
        """Take back what was lowered since the mark, also where it was found and not made: another
        view's node of that plan must not be taken for the one that is held back."""
        count, lowered = mark
        gone = set(self.circuit.discard(self.new_nodes[count:]))
        self.new_nodes = [n for n in self.new_nodes if n not in gone]
        self._lowered = {k: v for k, v in lowered.items() if v[1] not in gone}
        self.closing.clear()


def node_label(
    name: str, what: Any, below: Sequence[str], options: Options, *, private: bool
) -> str:
    """The label of a node. private: no other view may share it."""
    text = label(name, what, list(below))
    if private and options.private_tag:  # the view that it replaces has such a node still
        return label(name, what, list(below), options.view_id, options.private_tag)
    if private:
        return label(name, what, list(below), options.view_id)
    if text in options.private:
        return label(name, what, list(below), options.private_tag or options.view_id)
    return text
