"""What every node of a circuit counts about itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class NodeMetrics:
    """Running totals of one node since it was made.

    rows_in, rows_out: delta entries (not weights). steps: calls of `step`. busy_ns: time in them.
    late_rows: rows it dropped because their window was closed. errors: rows an expression failed
    on. null_event_times: rows it left out because they have no event time. ahead_rows: rows of a
    source that moved no watermark, as they are further ahead of the clock than max_future.
    """

    rows_in: int = 0
    rows_out: int = 0
    steps: int = 0
    busy_ns: int = 0
    late_rows: int = 0
    null_event_times: int = 0
    errors: int = 0
    ahead_rows: int = 0
