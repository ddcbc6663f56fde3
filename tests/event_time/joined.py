"""The rules of event time for joins of windows with timed rows, written down plainly."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.event_time.model import NEVER, SECOND, Answer, Event, Grid, Row, View, Windowed


@dataclass
class WindowSpan(View):
    """Counts of a's windows by k beside the rows of b in [window_end - before, window_end + after].

    A row of a is judged by its window; one of b once both watermarks have passed all windows whose
    span it may be in.
    """

    grid: Grid = field(default_factory=lambda: Grid("tumble", SECOND, SECOND))
    before: int = 0
    after: int = 0
    right: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.left = Windowed(False, self.lateness, grid=self.grid)
        self.late_right: Counter[tuple[int, int]] = Counter()

    def take(self, event: Event, others: dict[str, int]) -> None:
        ts, mark = event.row.ts, min(event.mark, others["a"])
        if event.table == "a":
            self.left.take(event, others)
        elif ts is not None and mark != NEVER and ts + self.before + self.lateness < mark:
            self.late_right[ts, mark] += 1
        elif ts is not None and event.weight > 0:
            self.right.append(event.row)
        elif ts is not None:
            self.right.remove(event.row)
        self.late = self.left.late + self.late_right

    def answer(self, marks: dict[str, int]) -> Answer:
        groups = Counter((row.k, end) for _, end, row in self.left.rows)
        return Counter(
            (end, count, row.id)
            for (k, end), count in groups.items()
            for row in self.right
            if row.k == k and end - self.before <= row.ts <= end + self.after
        )
