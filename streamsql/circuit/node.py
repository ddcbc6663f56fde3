"""A node of the circuit: an operator in its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from streamsql.circuit.idle import Idle
from streamsql.circuit.metrics import NodeMetrics
from streamsql.circuit.operator import Operator
from streamsql.core.delta import Delta
from streamsql.core.errors import InvariantViolation
from streamsql.core.logical_time import NO_WATERMARK


@dataclass(slots=True)
class Node:
    """One operator in its place.

    label: what the node computes; the same after a restart, and equal labels share a node.
    consumers: (node, port) pairs fed by this node. private: its output can not be listed. owners:
    how many views (or other users) hold it beside its consumers. is_output: its
    deltas are handed out by `step`.
    """

    id: int
    operator: Operator
    inputs: tuple[int, ...]
    label: str
    empty: Delta
    consumers: list[tuple[int, int]] = field(default_factory=list)
    owners: int = 0
    is_output: bool = False
    private: bool = False
    watermark: int = NO_WATERMARK
    metrics: NodeMetrics = field(default_factory=NodeMetrics)
    sources: tuple[Node, ...] = ()  # the nodes of `inputs`
    commits: bool = False  # its `commit` does something
    follows: bool = False  # its watermark is the inputs', whatever it holds
    idle: Idle = field(default_factory=Idle)


EdgeCheck = Callable[[Node, tuple[Delta, ...], Delta], None]
"""Called after each step of a node with its inputs and its output (`circuit.checks`)."""


class NodeFailed(InvariantViolation):
    """An operator raised in a tick, which is left half done: the circuit must be built anew.

    node: its number; the cause is what it raised.
    """

    def __init__(self, node: int, name: str) -> None:
        super().__init__(f"operator {name} #{node} failed")
        self.node = node
