"""The live view: the rows of a SUBSCRIBE, redrawn in place as they change."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from streamsql_repl.answer import Backend, Column, ConnectionLost, Row, StatementFailed
from streamsql_repl.interrupt import ctrl_c
from streamsql_repl.screen import Screen
from streamsql_repl.table import header_lines, layout_of, row_lines

_ORDER = re.compile(
    r"\s+order\s+by\s+(?P<column>\"[^\"]+\"|\w+)(?:\s+(?P<way>asc|desc))?\s*$", re.IGNORECASE
)
_LIMIT = re.compile(r"\s+limit\s+(?P<limit>\d+)\s*$", re.IGNORECASE)
_QUERY = re.compile(r"^\s*(select|with|values|table|\()", re.IGNORECASE)
_SECONDS_PER_FRAME = 0.1
_MARKED_SECONDS = 1.5
"""How long a changed row stays marked."""


@dataclass(frozen=True)
class LiveRequest:
    """What to subscribe to, and which rows to show: the first `limit` by a column."""

    target: str
    order_by: str | None = None
    descending: bool = False
    limit: int | None = None


def parse_live(text: str) -> LiveRequest:
    """Read the argument of \\live: ORDER BY one column and LIMIT at the end are the display's own.

    >>> parse_live("counts order by n desc limit 5")
    LiveRequest(target='counts', order_by='n', descending=True, limit=5)
    """
    text = text.strip().rstrip(";").strip()
    limit = order_by = None
    descending = False
    found = _LIMIT.search(text)
    if found:
        limit = int(found["limit"])
        text = text[: found.start()]
    found = _ORDER.search(text)
    if found:
        order_by = (
            found["column"].strip('"') if found["column"][0] == '"' else found["column"].lower()
        )
        descending = (found["way"] or "").lower() == "desc"
        text = text[: found.start()]
    return LiveRequest(text, order_by, descending, limit)


@dataclass
class LiveRows:
    """The rows that are there now, and when each last changed. Locked by who uses it.

    changed: row -> (when, "new" or "changed"); a row is "changed" if one that starts with the same
    value left in the same version.
    """

    columns: tuple[Column, ...] = ()
    weights: dict[Row, int] = field(default_factory=dict)
    changed: dict[Row, tuple[float, str]] = field(default_factory=dict)
    version: str = ""
    changes: int = 0
    first_version: str | None = None

    def apply(self, version: str, changes: list[tuple[int, Row]], now: float) -> None:
        """Take the changes of one version: (weight, row)."""
        left = {row[:1] for weight, row in changes if weight < 0}
        if self.first_version is None:
            self.first_version = version
        for weight, row in changes:
            total = self.weights.get(row, 0) + weight
            if total:
                self.weights[row] = total
            else:
                self.weights.pop(row, None)
                self.changed.pop(row, None)
            if weight > 0 and total > 0 and version != self.first_version:
                self.changed[row] = (now, "changed" if row[:1] in left else "new")
        self.version = version
        self.changes += len(changes)

    def top(self, request: LiveRequest, count: int) -> list[Row]:
        """The rows to show, repeated by weight."""
        rows = sorted(self.weights, key=self._key(request), reverse=request.descending)
        shown: list[Row] = []
        for row in rows:
            shown.extend([row] * max(0, self.weights[row]))
            if len(shown) >= count:
                break
        return shown[:count]

    def _key(self, request: LiveRequest) -> Callable[[Row], tuple[object, ...]]:
        names = [column.name for column in self.columns]
        first = names.index(request.order_by) if request.order_by in names else None
        order = list(range(len(names)))
        if first is not None:
            order = [first, *order]

        def key(row: Row) -> tuple[object, ...]:
            return tuple(_sortable(row[i], self.columns[i].numeric) for i in order)

        return key

    def total(self) -> int:
        """How many rows there are."""
        return sum(weight for weight in self.weights.values() if weight > 0)


def _sortable(value: str | None, numeric: bool) -> tuple[int, float, str]:
    """NULLs last; numbers by value, all else by text."""
    if value is None:
        return (1, 0.0, "")
    if numeric:
        try:
            return (0, float(value), "")
        except ValueError:
            pass
    return (0, 0.0, value)


class LiveView:
    """Runs a subscription on a session of its own in a thread, and draws what it brings.

    backend: a session for this view alone; it is closed at the end.
    """

    def __init__(self, backend: Backend, request: LiveRequest, screen: Screen) -> None:
        self._backend = backend
        self._request = request
        self._screen = screen
        self.rows = LiveRows()
        self._lock = threading.Lock()
        self._failure: StatementFailed | ConnectionLost | None = None
        self._ended = threading.Event()
        self._drawn = 0

    def run(self) -> None:
        """Until Ctrl-C, or the subscription ends. Raises: StatementFailed, ConnectionLost."""
        reader = threading.Thread(target=self._read, name="live-view", daemon=True)
        reader.start()
        with ctrl_c() as pressed:
            try:
                while not (pressed.is_set() or self._ended.wait(_SECONDS_PER_FRAME)):
                    self.draw(time.monotonic())
            finally:
                self._stop(reader)
        self.draw(time.monotonic() + _MARKED_SECONDS)
        if self._failure is not None:
            raise self._failure

    def _stop(self, reader: threading.Thread) -> None:
        ended = self._ended.is_set()
        if not ended:
            self._backend.cancel()
        reader.join(timeout=5)
        if not ended:
            self._failure = None  # the cancellation was ours
        self._backend.close()

    def _read(self) -> None:
        target = self._request.target
        sql = f"SUBSCRIBE TO ({target})" if _QUERY.match(target) else f"SUBSCRIBE TO {target}"
        try:
            answer = self._backend.run(sql)
            columns = answer.columns or ()
            skip = _leading(columns)
            with self._lock:
                self.rows.columns = columns[skip:]
            for batch in answer.batches:
                self._take(batch, skip)
        except (StatementFailed, ConnectionLost) as error:
            self._failure = error
        finally:
            self._ended.set()

    def _take(self, batch: list[Row], skip: int) -> None:
        """Apply a batch, version by version."""
        now = time.monotonic()
        pending: list[tuple[int, Row]] = []
        version = ""
        with self._lock:
            for row in batch:
                if pending and row[0] != version:
                    self.rows.apply(version, pending, now)
                    pending = []
                version = row[0] or ""
                weight = row[skip - 1]
                if weight is not None:
                    pending.append((int(weight), row[skip:]))
            if pending:
                self.rows.apply(version, pending, now)

    # drawing ----------------------------------------------------------------------------------
    def draw(self, now: float) -> None:
        """Redraw in place: go back to the first line drawn before, overwrite, clear the rest."""
        lines = self.frame(now)
        if self._screen.colour:
            back = f"\x1b[{self._drawn}A" if self._drawn else ""
            text = "".join(f"\x1b[2K{line}\n" for line in lines)
            self._screen.out.write(f"{back}\r{text}\x1b[J")
            self._drawn = len(lines)
            self._screen.out.flush()
        elif self._ended.is_set() or not self._drawn:  # a pipe gets the last state only
            self._drawn = 1 if not self._ended.is_set() else 0
            if self._ended.is_set():
                for line in lines:
                    self._screen.line(line)

    def frame(self, now: float) -> list[str]:
        """The lines of one frame."""
        with self._lock:
            rows = self.rows
            if not rows.columns:
                return ["waiting for the first rows…"]
            room = max(3, self._screen.height - 5)
            count = min(room, self._request.limit or room)
            top = rows.top(self._request, count)
            total = rows.total()
            width = self._screen.width
            layout = layout_of(rows.columns, top, width - 2 if width else None)
            layout = layout or layout_of(rows.columns, top, None)
            assert layout is not None
            lines = ["  " + line for line in header_lines(layout)]
            for row, line in zip(top, row_lines(layout, top), strict=True):
                lines.append(self._marked(row, line, now))
            shown = f"{len(top)} of {total}" if len(top) < total else str(total)
            lines.append(
                f"  {shown} row{'' if total == 1 else 's'}, version {rows.version or '-'},"
                f" {rows.changes} changes. Ctrl-C ends."
            )
            return lines

    def _marked(self, row: Row, line: str, now: float) -> str:
        when, what = self.rows.changed.get(row, (0.0, ""))
        if not what or now - when > _MARKED_SECONDS:
            return f"  {line}"
        return self._screen.paint(f"{'+' if what == 'new' else '~'} {line}", what)


def _leading(columns: tuple[Column, ...]) -> int:
    """How many columns come before the view's own: version, [progressed,] weight."""
    names = [column.name for column in columns]
    return names.index("weight") + 1 if "weight" in names else 0
