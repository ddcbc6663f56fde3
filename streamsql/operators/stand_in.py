"""StandIn: a relation of the database, in a circuit of its own beside the running one."""

from __future__ import annotations

from streamsql.circuit.operator import Algebra, Operator, Step
from streamsql.core.delta import Delta
from streamsql.core.logical_time import END_OF_TIME


class StandIn(Operator):
    """Hand on the rows of a table, source or view while a new view over it is filled.

    Algebra:  the identity.  Linear.
    Output:   as given; it promises what the operator it stands for promises.
    State:    none (the rows are the relation's own).
    """

    algebra = Algebra.LINEAR
    rowwise = True

    def __init__(self, operator: Operator) -> None:
        """operator: that of the relation's node in the running circuit."""
        super().__init__(operator.schema)
        self.append_only = operator.append_only
        self.event_times = operator.event_times
        self.closes = operator.closes
        self.recedes = operator.recedes
        self.ends, self.ends_suffice = operator.ends, operator.ends_suffice
        self.waits = operator.waits
        self.delays, self.gaps = operator.delays, operator.gaps
        self.lost_times, self.lost_ends = operator.lost_times, operator.lost_ends
        self.determined = operator.determined
        self.lateness_us = operator.lateness_us
        if operator.watermark == END_OF_TIME:  # it never holds a watermark back
            self.watermark = END_OF_TIME

    def step(self, step: Step, *deltas: Delta) -> Delta:
        return deltas[0]
