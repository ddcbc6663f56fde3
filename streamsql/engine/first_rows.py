"""From which rows a new view starts where the operators that it stands on are there already."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from streamsql.circuit.graph import Circuit
from streamsql.engine.needs import judges


def nearest(
    circuit: Circuit,
    node: int,
    new: Collection[int],
    relations: Mapping[int, int],
    bases: Collection[int],
    named: Collection[int],
) -> Iterator[tuple[int, int]]:
    """(node, OID) of the relations that new nodes below `node` stand on, the nearest ones.

    relations: node → OID (any name). bases: nodes of what is no view. named: OIDs of what the
    view reads by name. The rows of a view tell no watermarks under which they came. A new view that
    does not name it is its query over the tables, whoever else has operators in common with it: it
    starts from the tables' rows, unless an operator between can not list its own.
    """
    judged = any(judges(circuit.nodes[n].operator) for n in new)
    stack, seen = [node], {node}
    while stack:
        current = stack.pop()
        oid = relations.get(current)
        if oid is not None and current not in new:
            told = oid in named or current in bases or not judged
            if told or not _tells_marks(circuit, current, bases):
                yield current, oid
                continue
        for below in circuit.nodes[current].inputs:
            if below not in seen:
                seen.add(below)
                stack.append(below)


def _tells_marks(circuit: Circuit, node: int, bases: Collection[int]) -> bool:
    """Whether windows above may judge the rows of a view's node, and all below it can be listed."""
    return bool(circuit.nodes[node].operator.event_times) and circuit.can_list(node, bases)
