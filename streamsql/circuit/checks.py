"""Invariant checks on every edge of a circuit: used by the tests, and by STREAMSQL_CHECK=1."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import numpy as np

from streamsql.circuit.graph import EdgeCheck, Node
from streamsql.core.delta import Delta
from streamsql.core.errors import InvariantViolation
from streamsql.kernels.hashing import hash_rows


def configured_checks() -> EdgeCheck | None:
    """The checks if the environment asks for them (STREAMSQL_CHECK=1), else None."""
    return EdgeChecks() if os.environ.get("STREAMSQL_CHECK") == "1" else None


class EdgeChecks:
    """Called with every step of every node; raises InvariantViolation at the first broken promise.

    accumulate: also keep the sum of each node's output and refuse negative multiplicities (slow:
    for tests with small data).
    """

    def __init__(self, accumulate: bool = False) -> None:
        self.accumulate = accumulate
        self.sums: dict[str, Counter[tuple[Any, ...]]] = {}
        self.watermarks: dict[str, int] = {}

    def __call__(self, node: Node, inputs: tuple[Delta, ...], output: Delta) -> None:
        for delta in (*inputs, output):
            check_shape(node, delta)
        check_schema(node, output)
        check_watermark(node, self.watermarks)
        if node.operator.consolidates:
            check_consolidated(node, output)
        if node.operator.append_only and output.weights is not None:
            require(bool((output.weights >= 0).all()), node, "took back an append-only row")
        if self.accumulate:
            check_sum(node, output, self.sums.setdefault(node.label, Counter()))


def require(condition: bool, node: Node, message: str) -> None:
    """Raises: InvariantViolation (XX000), which names the node."""
    if not condition:
        raise InvariantViolation(f"{node.label}: {message}")


def check_shape(node: Node, delta: Delta) -> None:
    """Weights and row watermarks are int64 and as long as the batch."""
    for name, values in (("weights", delta.weights), ("row_watermark", delta.row_watermark)):
        if values is not None:
            require(values.dtype == np.int64, node, f"{name} are {values.dtype}")
            require(values.shape == (delta.num_rows,), node, f"{name} have another length")


def check_schema(node: Node, output: Delta) -> None:
    """The batch has exactly the Arrow schema of the operator, c0, c1, …"""
    require(
        output.batch.schema.equals(node.operator.schema.arrow),
        node,
        f"put out {output.batch.schema} instead of {node.operator.schema.arrow}",
    )


def check_watermark(node: Node, seen: dict[str, int]) -> None:
    """The watermark never falls."""
    key = f"{node.label}#{node.id}"  # a view that is made anew starts anew
    before = seen.get(key)
    require(before is None or node.watermark >= before, node, "its watermark fell")
    seen[key] = node.watermark


def check_consolidated(node: Node, output: Delta) -> None:
    """No row twice under one watermark, no weight 0."""
    if output.weights is not None:
        require(bool((output.weights != 0).all()), node, "put out a weight of 0")
    if output.num_rows > 1:
        h0, h1 = hash_rows(output.batch)
        marks = output.row_watermark
        under = [0] * output.num_rows if marks is None else marks.tolist()
        both = set(zip(h0.tolist(), h1.tolist(), under, strict=True))
        require(len(both) == output.num_rows, node, "put out a row twice")


def check_sum(node: Node, output: Delta, total: Counter[tuple[Any, ...]]) -> None:
    """No row of the accumulated output has a negative weight."""
    if not output:
        return
    h0, h1 = hash_rows(output.batch)
    rows = zip(h0.tolist(), h1.tolist(), output.weights_or_ones().tolist(), strict=True)
    for a, b, weight in rows:
        total[a, b] += weight
        if not total[a, b]:
            del total[a, b]
    require(all(w >= 0 for w in total.values()), node, "its output has a negative weight")
