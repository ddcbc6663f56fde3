"""Idle inputs: which nodes get no rows, and what their readers take their watermarks for.

A source falls idle when its `idle_timeout` has passed without a row, any other node when all its
inputs are. An idle input does not hold a node back: it counts as far as the least of the active
ones. When all are idle those that fell idle last lead, and the watermark goes on with the clock.
Whatever an input once counted for it counts for ever, so that no watermark falls when it wakes up;
its rows are judged by no less than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streamsql.core.delta import Delta
from streamsql.core.logical_time import END_OF_TIME, NO_WATERMARK

if TYPE_CHECKING:
    from streamsql.circuit.node import Node

UNTIMED = -1
"""The idle mark of what has no event time: it never holds back, and never leads."""


@dataclass(slots=True)
class Idle:
    """since: the clock (µs) when the node fell idle; None while it is active. floors: what each
    input counts for at least, µs; empty: nothing was ever lifted. base: (watermark, clock) when all
    inputs fell idle, from which the watermark goes on with the clock."""

    since: int | None = None
    floors: tuple[int, ...] = ()
    base: tuple[int, int] | None = None

    def save(self) -> list[object]:
        """JSON form, for `load`."""
        return [self.since, list(self.floors), None if self.base is None else list(self.base)]

    @classmethod
    def load(cls, saved: list[object]) -> Idle:
        """Inverse of `save`."""
        since, floors, base = saved
        return cls(since, tuple(floors), None if base is None else tuple(base))  # type: ignore[arg-type]


def mark_of(node: Node) -> int | None:
    """When a node fell idle; None: it is active."""
    return UNTIMED if node.watermark == END_OF_TIME else node.idle.since


def holder(sources: Sequence[Node]) -> Node:
    """Who holds back what reads these: the least of the active ones, or of the last active ones."""
    marks = {node.id: mark for node in sources if (mark := mark_of(node)) is not None}
    candidates = [node for node in sources if node.id not in marks]
    if not candidates:
        known = [node for node in sources if node.watermark != NO_WATERMARK] or sources
        last = max(marks[node.id] for node in known)
        candidates = [node for node in known if marks[node.id] == last]
    return min(candidates, key=lambda node: node.watermark)


def slowest_source(node: Node) -> Node:
    """What holds a node's watermark back: a node without inputs; itself if it has none."""
    while node.sources:
        node = holder(node.sources[:1] if node.operator.leads else node.sources)
    return node


def follow(node: Node, now_us: int) -> bool:
    """Take over the idle marks of a node's inputs; whether it fell idle or woke up."""
    marks = [mark_of(source) for source in node.sources]
    idle = node.idle
    decisive = marks[:1] if node.operator.leads else marks
    known = [m for m in decisive if m is not None]
    since = max(known) if len(known) == len(decisive) else None
    if len(marks) > 1:
        _lift(node, marks, now_us)
    turned = since != idle.since
    idle.since = since
    return turned


def _lift(node: Node, marks: list[int | None], now_us: int) -> None:
    """Raise the floors of the inputs that are idle."""
    values = [source.watermark for source in node.sources]
    idle = node.idle
    active = [v for v, m in zip(values, marks, strict=True) if m is None]
    if active:
        goal, idle.base = min(active), None
    else:
        goal = _all_idle(node, values, [m for m in marks if m is not None], now_us)
    if goal == NO_WATERMARK:
        return
    floors = list(idle.floors or [NO_WATERMARK] * len(values))
    for port, mark in enumerate(marks):
        # the left side of an operator that goes by it alone is not moved by the right one
        if mark is not None and mark != UNTIMED and not (node.operator.leads and port == 0):
            floors[port] = max(floors[port], goal)
    if any(floor != NO_WATERMARK for floor in floors):
        idle.floors = tuple(floors)


def _all_idle(node: Node, values: list[int], marks: list[int], now_us: int) -> int:
    """How far a node is whose inputs are all idle: the last active ones would hold it back."""
    timed = [(m, v) for m, v in zip(marks, values, strict=True) if m != UNTIMED]
    known = [(m, v) for m, v in timed if v != NO_WATERMARK]
    if not known:
        return NO_WATERMARK
    last = max(m for m, _ in known)
    goal = min(v for m, v in known if m == last)
    idle = node.idle
    if idle.base is None:
        idle.base = (node.watermark, max(m for m, _ in timed))
        if node.watermark in (NO_WATERMARK, END_OF_TIME):  # it has no value of its own yet
            idle.base = (goal, now_us)
    return max(goal, idle.base[0] + max(0, now_us - idle.base[1]))


def input_watermarks(node: Node) -> tuple[int, ...]:
    """What a node takes the watermarks of its inputs for, µs."""
    values = [source.watermark for source in node.sources]
    floors = node.idle.floors
    return tuple(map(max, values, floors)) if floors else tuple(values)


def judged(delta: Delta, floor: int) -> Delta:
    """Rows of an input that was idle: judged by no less than what it counted for before them."""
    marks = delta.row_watermark
    if marks is None or floor == NO_WATERMARK or not bool((marks < floor).any()):
        return delta
    return Delta(delta.batch, delta.weights, np.maximum(marks, floor), delta.consolidated)
