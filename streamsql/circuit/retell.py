"""What operators report again when a new view starts from rows that they gave out long ago.

A row that was late, or that an expression failed on, was reported for the views of that time. A
view that is made later and shares the operator drops the same row, and has to tell of it too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamsql.circuit.node import Node
from streamsql.circuit.operator import Step
from streamsql.core.delta import Delta
from streamsql.core.errors import DataCorrupted


def note_given(
    step: Step | None, nodes: Mapping[int, Node], snapshots: Mapping[int, Delta]
) -> None:
    """Tell the step what the older nodes gave in all: reports look for whole rows there."""
    if step is None:
        return
    for node_id, delta in snapshots.items():
        step.given[node_id] = [delta]
        step.schemas[node_id] = nodes[node_id].operator.schema


def retold(node: Node, step: Step | None, inputs: Sequence[Delta]) -> Delta:
    """The node's accumulated output (see `Operator.current`); what its operator reports, signed
    with its number, goes to the step, if there is one.

    Raises: DataCorrupted (XX001) if the rows are not kept anywhere.
    """
    if step is None:
        found = node.operator.current(*inputs)
    else:
        late, errors = len(step.late), len(step.errors)
        found = node.operator.retell(step, *inputs)
        for dropped in step.late[late:]:
            dropped.node = node.id
        for failed in step.errors[errors:]:
            failed.node = node.id
    if found is None:
        raise DataCorrupted(f"the rows of {node.label} can not be listed for a new view")
    return found
