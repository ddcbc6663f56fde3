"""EXPLAIN of a view: the circuit as a tree that says how each part is kept up to date, what it
holds and when that is freed."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from streamsql.circuit.graph import Node
from streamsql.core.logical_time import END_OF_TIME, NO_WATERMARK
from streamsql.operators.source import Source
from streamsql.plan.nodes import LogicalPlan, Scan
from streamsql.plan.visit import walk_plan
from streamsql.runtime.compile import CompiledView, labelled_relation

COUNTED = ("late rows", "rows without event time", "rows too far ahead", "errors")
"""What is told of an operator only where there is some of it."""


def explain(
    compiled: CompiledView, *, analyze: bool = False, verbose: bool = False, format: str = "text",
    relations: Mapping[int, str] | None = None, held_back: Sequence[str] = (),
) -> list[str]:  # fmt: skip
    """The view's circuit, output first.

    analyze: with what each operator has counted so far, the state it holds now and its watermark.
    verbose: with state and watermark too, its columns and its label. format: text, json (one line)
    or dot. relations: OID -> what it is called now; the plan tells the name that it had, and of
    older layouts the layout's OID. held_back: lines that tell why its windows are open.
    """
    names = {**dict(relation_names(compiled.plan)), **(relations or {})}
    own = frozenset(n.id for n in compiled.nodes)
    facts = {n.id: node_facts(n, names, analyze, verbose, own) for n in compiled.nodes}
    if held_back:
        facts[compiled.output]["held back"] = list(held_back)
    if format == "json":
        return [json.dumps(_nested(compiled, facts, compiled.output), ensure_ascii=False)]
    if format == "dot":
        return _dot(compiled, facts)
    lines = [f"Maintenance: {compiled.maintenance}"]
    if compiled.options.on_close:
        lines.append("Emit: on window close")
    lines.extend(held_back)
    _tree(compiled, facts, compiled.output, "", "", lines, set())
    return lines


def relation_names(plan: LogicalPlan) -> Iterator[tuple[int, str]]:
    """(OID, name) of the relations that the plan reads."""
    for node in walk_plan(plan):
        if isinstance(node, Scan):
            yield node.relation_id, node.name


def _verbose(node: Node, said: Mapping[str, str], own: frozenset[int]) -> dict[str, Any]:
    """How the node saves work: what it adds up first, whether rows are only ever added to what it
    gives and is given, and who else reads it."""
    facts: dict[str, Any] = {}
    if said.get("how"):
        facts["how"] = said["how"]
    if node.operator.append_only:
        facts["append only"] = True
    if said.get("state") and node.sources and all(n.operator.append_only for n in node.sources):
        facts["append only input"] = True
    others = sum(1 for consumer, _ in node.consumers if consumer not in own)
    if others and own:
        facts["shared"] = others
    return facts


def node_facts(
    node: Node, names: dict[int, str], analyze: bool, verbose: bool,
    own: frozenset[int] = frozenset(),
) -> dict[str, Any]:  # fmt: skip
    """What EXPLAIN tells of one node, in the order of telling. own: the nodes of the view."""
    operator = node.operator
    said = operator.explain()
    facts: dict[str, Any] = {"operator": operator.name, "node": node.id}
    if isinstance(operator, Source):
        oid = labelled_relation(node.label)
        facts["relation"] = node.label if oid is None else names.get(oid, node.label)
    else:
        facts["maintenance"] = operator.maintenance
    for key in ("detail", "why", "state", "freed"):
        if said.get(key):
            facts[key] = said[key]
    if analyze:
        m = node.metrics
        facts["rows in"], facts["rows out"], facts["steps"] = m.rows_in, m.rows_out, m.steps
        facts["time ms"] = round(m.busy_ns / 1e6, 3)
        if m.late_rows:
            facts["late rows"] = m.late_rows
        if m.null_event_times:
            facts["rows without event time"] = m.null_event_times
        if m.ahead_rows:
            facts["rows too far ahead"] = m.ahead_rows
        if m.errors:
            facts["errors"] = m.errors
    if verbose:
        facts.update(_verbose(node, said, own))
    if analyze or verbose:
        facts["state rows"], facts["state bytes"] = operator.state_rows(), operator.state_bytes()
        facts["watermark"] = watermark_text(node.watermark)
    if verbose:
        facts["columns"] = ", ".join(f"{c.name or '?'} {c.type}" for c in operator.schema)
        facts["label"] = node.label
    return facts


def watermark_text(watermark: int) -> str:
    """A watermark for people."""
    if watermark == NO_WATERMARK:
        return "not moved yet"
    if watermark == END_OF_TIME:
        return "none (never holds anything back)"
    try:
        moment = datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(
            microseconds=watermark
        )
    except OverflowError:
        return f"{watermark} µs"
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f").rstrip("0").rstrip(".")


def _headline(facts: dict[str, Any]) -> str:
    text = str(facts["operator"])
    if "relation" in facts:
        text = f"{text} {facts['relation']}"
    if facts.get("detail"):
        text = f"{text}: {facts['detail']}"
    if "maintenance" in facts:
        text = f"{text}  ({facts['maintenance']})"
    return f"{text}  #{facts['node']}"


def _details(facts: dict[str, Any]) -> list[str]:
    lines = []
    if "why" in facts:
        lines.append(f"why: {facts['why']}")
    if "state" in facts:
        freed = f"; freed {facts['freed']}" if "freed" in facts else ""
        lines.append(f"keeps {facts['state']}{freed}")
    if "how" in facts:
        lines.append(f"how: {facts['how']}")
    if facts.get("append only input"):
        lines.append("rows come in and never go, so that nothing is kept for retractions")
    if facts.get("append only"):
        lines.append("append only: no row that it gives is ever taken back")
    if "shared" in facts:
        readers = "operator" if facts["shared"] == 1 else "operators"
        lines.append(f"shared: {facts['shared']} {readers} of other views read it too")
    if "steps" in facts:
        lines.append(
            f"{facts['rows in']} rows in, {facts['rows out']} out, {facts['steps']} steps, "
            f"{facts['time ms']} ms" + "".join(f", {facts[k]} {k}" for k in COUNTED if k in facts)
        )
    if "watermark" in facts:
        if facts["state bytes"] or "state" in facts or "label" in facts:
            lines.append(f"holds {facts['state rows']} rows, {size_text(facts['state bytes'])}")
        lines.append(f"watermark: {facts['watermark']}")
    if "columns" in facts:
        lines.append(f"columns: {facts['columns']}")
        lines.append(f"label: {facts['label']}")
    return lines


def size_text(size: int) -> str:
    """Bytes with a unit.

    >>> size_text(1536)
    '1.5 kB'
    """
    value = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1024 or unit == "GB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"


def _tree(
    compiled: CompiledView, facts: dict[int, dict[str, Any]], node_id: int,
    head: str, body: str, lines: list[str], seen: set[int],
) -> None:  # fmt: skip
    node = compiled.circuit.nodes[node_id]
    if node_id in seen and node.inputs:
        lines.append(f"{head}#{node_id} (see above)")
        return
    seen.add(node_id)
    lines.append(head + _headline(facts[node_id]))
    bar = "│  " if node.inputs else "   "
    lines.extend(body + bar + line for line in _details(facts[node_id]))
    for n, source in enumerate(node.inputs):
        last = n == len(node.inputs) - 1
        _tree(
            compiled, facts, source,
            body + ("└─ " if last else "├─ "), body + ("   " if last else "│  "), lines, seen,
        )  # fmt: skip


def _nested(
    compiled: CompiledView, facts: dict[int, dict[str, Any]], node_id: int
) -> dict[str, Any]:
    inputs = compiled.circuit.nodes[node_id].inputs
    below: Callable[[int], dict[str, Any]] = lambda i: _nested(compiled, facts, i)  # noqa: E731
    return {**facts[node_id], **({"inputs": [below(i) for i in inputs]} if inputs else {})}


def _dot(compiled: CompiledView, facts: dict[int, dict[str, Any]]) -> list[str]:
    lines = ["digraph view {", "  rankdir = BT;", "  node [shape = box];"]
    for node in compiled.nodes:
        text = _headline(facts[node.id]).replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'  n{node.id} [label = "{text}"];')
        lines.extend(f"  n{source} -> n{node.id};" for source in node.inputs)
    return [*lines, "}"]
