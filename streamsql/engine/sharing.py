"""Which nodes of views that were filled beside the circuit are there already.

A node of the side circuit that does what one of the running circuit does, over the same inputs, is
the same node, if what it has put out follows from its input alone (`Operator.exact`): its readers
then go on with that one. Readers of an arrangement are given the other arrangement; they keep no
row numbers of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streamsql.circuit.graph import Circuit
from streamsql.circuit.operator import Operator
from streamsql.engine.storage.table import EXACT_KINDS
from streamsql.operators.arrange import Arrange, Reader

INDEX_ROWS = 200_000
"""An arrangement of more rows is not indexed by another key on the engine thread."""


def is_same(
    side: Circuit, node: int, main: Circuit, twin: int, merged: Mapping[int, int], *, settled: bool
) -> bool:
    """Whether a node is the running circuit's `twin`. merged: nodes for which that is known.
    settled: it was decided when the views were made, and is in the catalog."""
    found, other = side.nodes[node], main.nodes[twin]
    operator = found.operator
    if not operator.exact or type(operator) is not type(other.operator):
        return False
    if any(merged.get(i) != j for i, j in zip(found.inputs, other.inputs, strict=True)):
        return False
    if isinstance(operator, Arrange):
        assert isinstance(other.operator, Arrange)
        for consumer, _ in found.consumers:
            found_readers = list(readers(side.nodes[consumer].operator, operator))
            if not found_readers:
                return False
            if not settled and not all(can_read(r, other.operator) for r in found_readers):
                return False
        return True
    return all(c.type.kind in EXACT_KINDS for c in operator.schema) or operator.rowwise


def can_read(reader: Reader, arrange: Arrange) -> bool:
    """Whether the arrangement has the reader's key, or few enough rows to be indexed at once."""
    return arrange.has_key(reader.key_columns) or arrange.state_rows() < INDEX_ROWS


def readers(operator: Operator, arrange: Arrange) -> Iterator[Reader]:
    """By what an operator looks rows of an arrangement up."""
    for held in vars(operator).values():
        for part in held if isinstance(held, list | tuple) else (held,):
            if isinstance(part, Reader) and part.arrange is arrange:
                yield part


def join_readers(side: Circuit, merged: Mapping[int, int], main: Circuit) -> None:
    """The readers of arrangements that are merged look into the running circuit's."""
    for node, twin in merged.items():
        arrange, other = side.nodes[node].operator, main.nodes[twin].operator
        if not isinstance(arrange, Arrange) or not isinstance(other, Arrange):
            continue
        for consumer, _ in side.nodes[node].consumers:
            if consumer not in merged:
                for reader in list(readers(side.nodes[consumer].operator, arrange)):
                    reader.move(other)
