"""The sessions of every partition: their bounds, how rows move them, and when they close."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.circuit.operator import State
from streamsql.core.delta import Int64Array
from streamsql.core.logical_time import NO_WATERMARK
from streamsql.core.schema import Schema
from streamsql.operators import saved
from streamsql.operators.columns import BoolArray
from streamsql.operators.event_time import NOTHING, CloseQueue
from streamsql.operators.groups import Groups
from streamsql.operators.late import is_late
from streamsql.operators.loops import sessions as loops

NO_TIME = loops.NO_TIME
FORGET_GAPS = 8
"""How many gaps beyond its last closed session an idle partition is remembered: until then a row
that is old enough to touch that session is told from a new one, even through a chain of late
rows."""

_BY_SESSION = (
    "first", "last", "older", "newer", "parent", "stamp", "old_first", "old_last", "part_of",
)  # fmt: skip
"""In this order side by side, as `loops.sessions` knows."""


CACHED_BYTES = 1 << 20
"""Sessions that need not be asked for in advance."""


class SessionBounds:
    """Sessions by slot; partitions by slot of `partitions`.

    gap_us: neighbours at most that far apart are one session. lateness_us: allowed lateness.
    closes: whether the watermark closes sessions; then rows are judged and partitions forgotten.
    longest_us: where a session is cut (`max`; 0 = nowhere). What is listed here are whole chains of
    such pieces; a chain that begins to close is `shorten`ed by the pieces that are final.
    """

    def __init__(
        self, partition_schema: Schema, gap_us: int, lateness_us: int, closes: bool,
        longest_us: int = 0,
    ) -> None:  # fmt: skip
        self.gap_us = gap_us
        self.longest_us = longest_us
        self.lateness_us = lateness_us
        self.closes = closes
        self.partitions = Groups(partition_schema, range(len(partition_schema)), 2)
        self.head = np.full(64, loops.NONE, np.int64)
        self.floor = np.full(64, NO_TIME, np.int64)
        self._keep(np.zeros((64, len(_BY_SESSION)), np.int64))
        self.free = np.zeros(64, np.int64)
        self.numbers = np.zeros(3, np.int64)
        self.tick = 0
        self.queue = CloseQueue()
        self.idle = CloseQueue()

    first: Int64Array
    last: Int64Array
    older: Int64Array
    newer: Int64Array
    parent: Int64Array
    stamp: Int64Array
    old_first: Int64Array
    old_last: Int64Array
    part_of: Int64Array

    @property
    def count(self) -> int:
        """Sessions there are."""
        return int(self.numbers[loops.FRESH] - self.numbers[loops.FREE])

    @property
    def slots(self) -> int:
        """Slots ever used: the length that arrays by session need."""
        return int(self.numbers[loops.FRESH])

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        by_session = self._sessions.nbytes
        return int(self.partitions.nbytes + by_session + self.head.nbytes + self.floor.nbytes)

    def _keep(self, sessions: npt.NDArray[np.int64]) -> None:
        """What is known by session, int64[slots, names]: of one session side by side, because to
        fetch nine places of a large state costs nine times as much as to fetch one."""
        self._sessions = sessions
        near = sessions.nbytes <= CACHED_BYTES
        self._address = 0 if near else pa.py_buffer(sessions).address
        for i, name in enumerate(_BY_SESSION):
            setattr(self, name, sessions[:, i])

    # --- rows ----------------------------------------------------------------------------------
    def partition_slots(self, keys: pa.RecordBatch) -> Int64Array:
        """The partition of each row."""
        slots, _ = self.partitions.upsert(keys)
        if self.partitions.index.num_slots > self.head.size:
            size = 2 * self.partitions.index.num_slots
            self.head = _extended(self.head, size, loops.NONE)
            self.floor = _extended(self.floor, size, NO_TIME)
        return slots

    def place(
        self, parts: Int64Array, times: Int64Array, marks: Int64Array | None
    ) -> tuple[Int64Array, Int64Array]:
        """Put rows into sessions; (session of each row or -1 = late, sessions touched).

        Touched sessions that were merged have a `parent`; they stay in `touched` until `release`.
        """
        self.tick += 1
        self._room(self.slots + times.size)
        touched = np.empty(2 * times.size + 1, np.int64)
        out = np.empty(times.size, np.int64)
        self.numbers[loops.TOUCHED] = 0
        judged = marks if marks is not None and self.closes else np.empty(0, np.int64)
        loops.place(
            parts, times, judged, self.gap_us, self.lateness_us, self.tick,
            self.head, self.floor,
            self.first, self.last, self.older, self.newer, self.parent, self.stamp,
            self.old_first, self.old_last, self.part_of,
            self.free, self.numbers, touched, out, self._address,
        )  # fmt: skip
        loops.resolve(out, self.parent)
        touched = touched[: self.numbers[loops.TOUCHED]]
        if self.closes:
            new = self.parent[touched] < 0
            if not self.longest_us:  # else an earlier row makes the first piece end earlier
                new &= self.old_first[touched] == NO_TIME
            self.expect(touched[new])
        return out, touched

    def expect(self, slots: Int64Array) -> None:
        """Note when sessions close whose bounds are other ones now."""
        if self.closes:
            self.queue.push(self._close_us(slots), slots)

    def doubtful(self, times: Int64Array, marks: Int64Array | None) -> bool:
        """Whether some row may be late."""
        if marks is None or not self.closes:
            return False
        known = marks > NO_WATERMARK + self.lateness_us
        return bool((known & (times <= marks - self.lateness_us)).any())

    def late_inserts(self, parts: Int64Array, times: Int64Array, marks: Int64Array) -> BoolArray:
        """Which rows are late, row by row in their order; the sessions stay as they are.

        They are placed among a copy of their own partitions' sessions.
        """
        distinct, own = np.unique(parts, return_inverse=True)
        trial = SessionBounds(self.partitions.schema, self.gap_us, self.lateness_us, True)
        trial.head = np.full(distinct.size, loops.NONE, np.int64)
        trial.floor = self.floor[distinct]
        of, slots = self._sessions_of(distinct)
        trial.make(of, self.first[slots], self.last[slots])
        return trial.place(own, times, marks)[0] < 0

    def _sessions_of(self, parts: Int64Array) -> tuple[Int64Array, Int64Array]:
        """(position in `parts` int64[n], slot int64[n]) of every session of these partitions."""
        found, slots = [], []
        at, session = np.arange(parts.size), self.head[parts]
        while at.size:
            there = session >= 0
            at, session = at[there], session[there]
            found.append(at)
            slots.append(session)
            session = self.older[session]
        return np.concatenate([NOTHING, *found]), np.concatenate([NOTHING, *slots])

    def late_deletes(self, parts: Int64Array, times: Int64Array, marks: Int64Array) -> BoolArray:
        """Which retractions come too late: their session is closed, or freed already."""
        sessions = self.locate(parts, times)
        known = np.maximum(sessions, 0)
        late = is_late(self.last[known] + self.gap_us, marks, self.lateness_us)
        floor = self.floor[parts]
        freed = (floor != NO_TIME) & (floor >= times - self.gap_us)
        result: BoolArray = np.where(sessions >= 0, late, freed | (sessions < 0))
        return result

    def locate(self, parts: Int64Array, times: Int64Array) -> Int64Array:
        """The session that spans each time, or -1."""
        out = np.empty(times.size, np.int64)
        loops.locate(parts, times, self.head, self.first, self.last, self.older, out, self._address)
        return out

    def touch(self, slots: Int64Array) -> Int64Array:
        """Remember the bounds of sessions before they change; returns those not touched before."""
        touched = np.empty(slots.size, np.int64)
        found = loops.touch(
            slots, self.tick, self.first, self.last, self.stamp, self.old_first, self.old_last,
            touched,
        )  # fmt: skip
        return touched[:found]

    def _room(self, sessions: int) -> None:
        if sessions > self.first.size:
            size = max(sessions, 2 * self.first.size)
            longer = np.zeros((size, len(_BY_SESSION)), np.int64)
            longer[: self.first.size] = self._sessions
            self._keep(longer)

    def release(self, slots: Int64Array) -> None:
        """Give the slots of sessions back that are in no list any more."""
        spare = int(self.numbers[loops.FREE])
        if spare + slots.size > self.free.size:
            self.free = _extended(self.free, 2 * (spare + slots.size), 0)
        self.free[spare : spare + slots.size] = slots
        self.parent[slots] = slots  # a freed session is nobody's, and no live one
        self.numbers[loops.FREE] = spare + slots.size

    def make(self, parts: Int64Array, first: Int64Array, last: Int64Array) -> Int64Array:
        """New sessions with these bounds, in their partitions' lists; returns their slots."""
        self._room(self.slots + first.size)
        slots = np.empty(first.size, np.int64)
        spare = int(self.numbers[loops.FREE])
        reused = min(spare, first.size)
        slots[:reused] = self.free[spare - reused : spare]
        fresh = first.size - reused
        slots[reused:] = np.arange(self.slots, self.slots + fresh)
        self.numbers[loops.FREE] -= reused
        self.numbers[loops.FRESH] += fresh
        self.first[slots], self.last[slots], self.parent[slots] = first, last, loops.NONE
        self.stamp[slots] = 0
        loops.relink(parts, slots, self.head, self.first, self.older, self.newer, self.part_of)
        self.expect(slots)
        return slots

    def remove(self, slots: Int64Array) -> None:
        """Take sessions out of their lists that lost all rows (they were not closed)."""
        parts = self.part_of[slots]
        floor = self.floor[parts]
        self._unlink(slots)
        self.floor[parts] = floor  # of the same partition the same, however often

    def forget_partitions(self, parts: Int64Array) -> None:
        """Free those of the partitions that have no session and no closed one to remember."""
        parts = np.unique(parts)
        gone = parts[(self.head[parts] < 0) & (self.floor[parts] == NO_TIME)]
        self.partitions.free(gone)

    def _unlink(self, slots: Int64Array) -> None:
        loops.unlink(slots, self.head, self.floor, self.last, self.older, self.newer, self.part_of)

    # --- time ----------------------------------------------------------------------------------
    def _close_us(self, slots: Int64Array) -> Int64Array:
        """When a session, or its first piece, closes."""
        end = self.last[slots] + self.gap_us
        if self.longest_us:
            end = np.minimum(end, self.first[slots] + self.longest_us)
        return end + self.lateness_us

    def due(self, watermark: int) -> Int64Array:
        """Sessions that the watermark closes, at least their first pieces."""
        _, slots = self.queue.pop(watermark)
        if not slots.size:
            return slots
        slots = np.unique(slots[self.parent[slots] < 0])
        due = self._close_us(slots)
        later = due > watermark  # rows have come since
        self.queue.push(due[later], slots[later])
        return slots[~later]

    def close(self, watermark: int) -> Int64Array:
        """Sessions that the watermark closes, oldest end first; they leave their lists, but their
        slots stay until `release`."""
        found = self.due(watermark)
        if found.size:
            found = found[np.argsort(self.last[found], kind="stable")]
            self._unlink(found)
            self._await_forgetting(self.part_of[found])
        self.forget(watermark)
        return found

    def shorten(self, slots: Int64Array, start: Int64Array, floor: Int64Array) -> None:
        """The first pieces of these sessions are closed.

        start: int64[n], the first row that is left, or NO_TIME = none is, and the session goes.
        floor: int64[n], what the rows that belong to the closed pieces are at most `gap` above.
        """
        rest = start != NO_TIME
        self.first[slots[rest]] = start[rest]
        self.expect(slots[rest])
        parts, gone = self.part_of[slots], slots[~rest]
        self.remove(gone)
        self.release(gone)
        np.maximum.at(self.floor, parts, floor)
        self._await_forgetting(parts)

    def _await_forgetting(self, parts: Int64Array) -> None:
        parts = np.unique(parts)
        parts = parts[self.head[parts] < 0]
        self.idle.push(self._forget_us(parts), parts)

    def _forget_us(self, parts: Int64Array) -> Int64Array:
        """From when on every row below the floor is late by itself, whatever it is near."""
        if self.longest_us:  # its piece starts at it, or before it
            return self.floor[parts] + (self.gap_us + 1 + self.longest_us + self.lateness_us)
        return self.floor[parts] + (FORGET_GAPS * self.gap_us + self.lateness_us)

    def forget(self, watermark: int) -> None:
        """Forget partitions whose last session closed long ago."""
        times, parts = self.idle.pop(watermark)
        if not parts.size:
            return
        known = (self.floor[parts] != NO_TIME) & (self.head[parts] < 0)
        times, parts = times[known], parts[known]
        gone = parts[self._forget_us(parts) == times]
        self.floor[gone] = NO_TIME
        self.partitions.free(gone)

    # --- state ---------------------------------------------------------------------------------
    def first_close_us(self) -> int | None:
        """The watermark at which the next session closes; None: there is none."""
        return int(self._close_us(live).min()) if (live := self.live()).size else None

    def live(self) -> Int64Array:
        """Slots of all sessions."""
        used = np.ones(self.slots, np.bool_)
        used[self.free[: self.numbers[loops.FREE]]] = False
        return np.flatnonzero(used)

    def save(self) -> State:
        """Partitions and sessions by slot."""
        n, m = self.slots, self.partitions.index.num_slots
        by_session = {name: getattr(self, name)[:n].copy() for name in _BY_SESSION}
        return {
            **saved.nest("partitions", self.partitions.save()),
            "sessions": saved.columns(**by_session),
            "lists": saved.columns(head=self.head[:m], floor=self.floor[:m]),
            "free": saved.columns(slot=self.free[: self.numbers[loops.FREE]]),
        }

    def load(self, state: State) -> None:
        """Inverse of `save`."""
        self.partitions.load(saved.inner("partitions", state))
        n = state["sessions"].num_rows
        self._room(n)
        for name in _BY_SESSION:
            getattr(self, name)[:n] = saved.array(state["sessions"], name)
        head, floor = (saved.array(state["lists"], name) for name in ("head", "floor"))
        self.head = _extended(head, max(64, head.size), loops.NONE)
        self.floor = _extended(floor, max(64, floor.size), NO_TIME)
        free = saved.array(state["free"], "slot")
        self.free = _extended(free, max(64, free.size), 0)
        self.numbers[:] = (n, free.size, 0)
        self.stamp[:] = 0
        if self.closes:
            live = self.live()
            self.queue.push(self._close_us(live), live)
            parts = self.partitions.live()
            parts = parts[(self.head[parts] < 0) & (self.floor[parts] != NO_TIME)]
            self.idle.push(self._forget_us(parts), parts)


def _extended(array: Int64Array, size: int, fill: int) -> Int64Array:
    if size <= array.size:
        return array
    out = np.full(size, fill, np.int64)
    out[: array.size] = array
    return out
