"""Why a window is still open: which source a view waits for, and how far that has to come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsql.circuit.idle import slowest_source
from streamsql.circuit.node import Node
from streamsql.core.logical_time import NO_WATERMARK
from streamsql.engine.storage.watermarks import WatermarkTracker
from streamsql.runtime.compile import CompiledView
from streamsql.runtime.explain import watermark_text

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine


def held_back(engine: Engine, compiled: CompiledView) -> list[str]:
    """Lines for EXPLAIN ANALYZE: who holds the view's windows open, since when, and when the oldest
    closes. [] where nothing waits for a watermark.

    It is told of the topmost operators that hold windows open; the source is the one that
    `streamsql.watermarks` names for them.
    """
    root = compiled.circuit.nodes[compiled.output]
    # what gives out on close and tells nothing of what it holds is spoken of as a whole
    closing = _closing(root) or ([root] if compiled.options.on_close else [])
    trackers = {engine.nodes[oid]: (oid, tracker) for oid, tracker in engine.trackers()}
    # each with what is open in it: the one whose window closes first speaks for all
    opened = [(node.operator.open_until_us(), node) for node in closing]
    due = [(until, node.id, node) for until, node in opened if until is not None]
    node = min(due)[-1] if due else next(iter(closing), None)
    if node is None:
        return []
    source = slowest_source(node)
    if source.id not in trackers:
        return []
    oid, tracker = trackers[source.id]
    others = sum(1 for i in engine.circuit.cone(node.id) if i in trackers) > 1
    name = engine.relation_name(oid)
    until_us = min(due)[0] if due else None
    when = "" if until_us is None else _when(engine, node, source, until_us)
    span = open_span(engine, node.id)
    if span is not None:
        at, what = watermark_text(span.watermark), f"{span.operator.name} #{span.id}"
        who = f"{what}: its watermark waits at {at} for spans that are still open"
    else:
        who = _who(engine, name, source, tracker, others)
    return [f"Held back by {who}", *_oldest(node, until_us, when)]


def open_span(engine: Engine, node_id: int) -> Node | None:
    """The join at or below a node whose open spans, and not its inputs, hold the watermark."""
    nodes = engine.circuit.nodes
    for i in engine.circuit.cone(node_id):
        if getattr(nodes[i].operator, "holding", None) is not None:
            inputs = min(source.watermark for source in nodes[i].sources)
            if nodes[node_id].watermark == nodes[i].watermark < inputs:
                return nodes[i]
    return None


def _closing(root: Node) -> list[Node]:
    """The topmost nodes that hold something open, each once."""
    found: dict[int, Node] = {}
    seen: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node.id in seen:
            continue
        seen.add(node.id)
        if node.operator.holds_open:
            found[node.id] = node
        else:
            stack.extend(reversed(node.sources))
    return list(found.values())


def _who(
    engine: Engine, name: str, source: Node, tracker: WatermarkTracker, others: bool
) -> str:  # fmt: skip
    """The source, since when, and why it is no further. others: there are other sources too."""
    state, now_us = tracker.state, engine.clock_us()
    since_us = state.since_us or state.begun_us
    text = name
    slowest = tracker.held_back_by(now_us)
    if slowest:
        text += f" (its partition {slowest})"
    if since_us:
        text += f" since {watermark_text(since_us)} UTC"
    ahead = source.metrics.ahead_rows
    far = f"{ahead} of its rows {'is' if ahead == 1 else 'are'} further ahead of the clock than " \
          "max_future allows (see streamsql.source_errors)" if ahead else ""  # fmt: skip
    if state.value != NO_WATERMARK:
        text += f": its watermark is {watermark_text(state.value)}"
    elif state.partitions:
        text += ": it has rows, but none that moved its watermark"
    else:
        text += ": it never had a row"
    if far:
        text += f"; {far}"
    return text + _idle(source, tracker, others)


def _idle(source: Node, tracker: WatermarkTracker, others: bool) -> str:
    """What is to be said of a source from which nothing comes."""
    if source.idle.since is not None:
        return f"; idle since {watermark_text(source.idle.since)} UTC, as all that is read here is"
    if not others:
        return ""
    idle_us = tracker.idle_at_us()
    if idle_us is not None:
        return f"; if nothing comes, its idle_timeout lets the others go on at " \
               f"{watermark_text(idle_us)} UTC"  # fmt: skip
    if tracker.state.value == NO_WATERMARK:
        return "; an idle_timeout on it would let the others go on"
    return ""


def _when(engine: Engine, node: Node, source: Node, until_us: int) -> str:
    """When a node's watermark comes so far: what its slowest source has to reach; where joins below
    hold it for spans, what those have to pass that end these, and what the others have to reach."""
    nodes, cone = engine.circuit.nodes, engine.circuit.cone(node.id)
    passes: dict[int, int] = {}
    for i in cone:
        holding = getattr(nodes[i].operator, "holding", None)
        for port, end_us in ({} if holding is None else holding.over(until_us)).items():
            at = slowest_source(nodes[i].sources[port]).id
            if nodes[at].watermark <= end_us:
                passes[at] = max(passes.get(at, end_us), end_us)
    oids = {engine.nodes[oid]: oid for oid, _ in engine.trackers()}
    others = [i for i in cone if passes and i in oids and nodes[i].idle.since is None]
    behind = [i for i in {source.id, *others} if nodes[i].watermark < until_us]
    reaches = [i for i in behind if passes.get(i, until_us - 1) < until_us]
    parts = [(at, "reaches", until_us) for at in sorted(reaches)]
    parts += [(at, "passes", end) for at, end in sorted(passes.items()) if at not in reaches]
    if not parts:
        return f"when the watermark reaches {watermark_text(until_us)}"
    texts: list[str] = []
    for at, verb, time_us in parts:
        name = engine.relation_name(oids[at]) if at in oids else f"{nodes[at].operator.name} #{at}"
        what = "that" if texts else "the watermark"
        texts.append(f"{what} of {name} {verb} {watermark_text(time_us)}")
    return f"when {' and '.join(texts)}"


def _oldest(node: Node, until_us: int | None, when: str) -> list[str]:
    """What waits longest in the node. when: its watermark comes so far."""
    what = node.operator.holds_open
    if until_us is None:
        return [f"Oldest open {what}: none has rows in it"] if what == "window" else []
    if what == "row":
        return [f"Oldest row that waits: leaves {when}"]
    end = watermark_text(until_us - node.operator.lateness_us)
    return [f"Oldest open window: ends {end}, closes {when}"]
