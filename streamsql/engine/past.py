"""In which order the inputs of views moved: what VERIFY needs to take a view through its past.

A view whose rows depend on how far each of several relations was when a row of another one came (a
window above a join, a temporal join), or on the clock (now() as a value), is no function of the
rows that tables hold. For the relations under such views, and only for those, each tick leaves an
entry: how many of their rows had come, and their watermark. Entries of one relation that follow
each other are one entry, because how one relation's rows are cut into ticks has no say; not so
where the clock has one, or rows went.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Int64Array
from streamsql.core.logical_time import NO_WATERMARK
from streamsql.engine.needs import Bases, Needs, needs_of, remembers
from streamsql.state.checkpoint import mark_immutable

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine
    from streamsql.engine.requests import Tick
    from streamsql.engine.storage.view import ViewState

FIELDS = ("version", "now_us", "oid", "position", "watermark", "idle_us")
VERSION, NOW, OID, POSITION, WATERMARK, IDLE = range(6)
AS_IT_WAS = -(2**63)
"""An entry's idle mark, or watermark, that did not move (for a watermark it is NO_WATERMARK)."""
ACTIVE = -(2**63) + 1
CLOCK = 0
"""The OID of an entry that stands for the clock alone."""
PAGE = 16_384
PAGES_MAX = 64
"""A million entries, 48 MB; then the oldest go, and views that were made before can not tell."""


@dataclass(frozen=True)
class Mark:
    """Where a relation stood. position: of the first row that had not come (a table's row id, a
    source's count). watermark, idle_us: as in an entry."""

    position: int
    watermark: int
    idle_us: int


@dataclass(frozen=True)
class Start:
    """When a view was filled: after the tick `version`, at `now_us`. marks: of all relations at its
    bottom."""

    version: int
    now_us: int
    marks: Mapping[int, Mark]


class Past:
    """The entries, and where the views started. births: label of an operator that depends on the
    past → the view that it was filled with, and after which version. Engine thread."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.now_us = 0  # of the newest tick
        self.starts: dict[int, Start] = {}
        self.needs: dict[int, Needs] = {}
        self.births: dict[str, tuple[int, int]] = {}
        self.lost = 0  # entries up to this version are not here
        self._pages: list[Int64Array] = []  # full ones
        self._saved: dict[int, pa.Table] = {}  # page → what a checkpoint gets
        self._first_page = 0
        self._page = np.empty((PAGE, len(FIELDS)), np.int64)
        self._used = 0
        self._followed: dict[int, bool] = {}  # OID → whether the clock has a say
        self._clocked = False
        self._plain = CLOCK  # whose the last entry is, where it may grow
        self._at: dict[int, int] = {}
        self._idle: dict[int, int] = {}

    # --- views ----------------------------------------------------------------------------------
    def mark(self, oid: int, bases: Bases) -> Mark:
        """Where a table or source stands now."""
        node = self.engine.circuit.nodes[bases.nodes[oid]]
        watermark = NO_WATERMARK if bases.tracker(oid) is None else node.watermark
        idle = node.idle.since
        return Mark(bases.position(oid), watermark, ACTIVE if idle is None else idle)

    def started(self, nodes: Iterable[int], version: int, now_us: int, built: Any = None) -> Start:
        """What a view over these nodes starts from that is filled now. built: what is being made
        with it."""
        bases = Bases.of(self.engine, built)
        marks = {oid: self.mark(oid, bases) for oid in bases.below(self.engine.circuit, nodes)}
        return Start(version, now_us, marks)

    def begin(self, view: ViewState, built: Any = None) -> None:
        """A view takes its place in the circuit, with new operators. built: what was made with
        it."""
        engine, oid = self.engine, view.relation.oid
        self.forget(oid)
        if view.start is None or view.node not in engine.circuit.nodes:
            return
        bases = Bases.of(engine, built)
        self.starts[oid] = view.start
        for node in (engine.circuit.nodes[n] for n in view.compiled.new_nodes):
            if remembers(node.operator):
                self.births[node.label] = oid, view.start.version
        found = needs_of(engine, view, bases)
        if found is not None:
            self.needs[oid] = found
            self._follow(bases)

    def forget(self, oid: int) -> None:
        """The view was dropped, or is filled anew."""
        self.starts.pop(oid, None)
        if self.needs.pop(oid, None) is not None:
            self._follow(Bases.of(self.engine))

    def _follow(self, bases: Bases) -> None:
        """Which relations leave entries from now on."""
        before = self._followed
        self._followed = {}
        for oid, needs in self.needs.items():
            for base in self.starts[oid].marks:
                self._followed[base] = self._followed.get(base, False) or needs.clocked
        self._clocked = any(self._followed.values())
        self._plain = CLOCK
        self._at = {oid: at for oid, at in self._at.items() if oid in self._followed}
        self._idle = {oid: at for oid, at in self._idle.items() if oid in self._followed}
        for oid in self._followed.keys() - before.keys() - self._at.keys():
            mark = self.mark(oid, bases)
            self._at[oid], self._idle[oid] = mark.position, mark.idle_us
        if not self._followed:
            self._pages, self._used, self._saved = [], 0, {}

    def keepers(self, oid: int) -> frozenset[int]:
        """The views for which all rows that go from a relation are to be kept."""
        if oid not in self._followed:
            return frozenset()
        return frozenset(view for view, needs in self.needs.items() if oid in needs.whole)

    # --- ticks ----------------------------------------------------------------------------------
    def due(self, now_us: int) -> bool:
        """Whether a tick at this time moves views by the clock in a way that is to be noted."""
        return self._clocked and self.engine.circuit_due(now_us)

    def record(self, tick: Tick) -> None:
        """Note where a tick left the relations that are followed."""
        self.now_us = tick.now_us
        if not self._followed:
            return
        moved: dict[int, list[int]] = {}
        for oid, watermark in tick.watermarks.items():
            if oid in self._followed:
                moved[oid] = [watermark, AS_IT_WAS]
        for oid, since in tick.idle.items():
            mark = ACTIVE if since is None else since
            if oid in self._followed and mark != self._idle.get(oid):
                moved.setdefault(oid, [NO_WATERMARK, AS_IT_WAS])[1] = mark
        for change in tick.changes:
            oid, rows = change.relation_id, change.inserted.num_rows
            if oid in self._followed:
                self._came(moved, oid, change.watermark, change.before[0] + rows, rows)
        for given in tick.inputs:
            oid, rows = given.relation_id, given.delta.num_rows
            if oid in self._followed:
                self._came(moved, oid, given.watermark, self._at[oid] + rows, rows)
        if tick.timers and not moved:
            moved[CLOCK] = [NO_WATERMARK, AS_IT_WAS]
        # rows that go together are judged by the sessions as they were before all of them
        went = any(c.retracted.num_rows for c in tick.changes)
        for oid, (watermark, idle) in moved.items():
            self._add(tick, oid, watermark, idle, alone=len(moved) == 1 and not went)

    def _came(
        self, moved: dict[int, list[int]], oid: int, watermark: int, position: int, rows: int
    ) -> None:
        entry = moved.setdefault(oid, [NO_WATERMARK, AS_IT_WAS])
        entry[0] = watermark
        if rows and (entry[1] != AS_IT_WAS or self._idle.get(oid) != ACTIVE):
            entry[1] = ACTIVE
        self._at[oid] = position

    def _add(self, tick: Tick, oid: int, watermark: int, idle: int, *, alone: bool) -> None:
        """One more entry; alone: no other relation moved in the tick, and no row went."""
        if idle != AS_IT_WAS:
            self._idle[oid] = idle
        plain = alone and oid != CLOCK and idle == AS_IT_WAS and not self._followed[oid]
        if plain and self._plain == oid and self._used:
            if watermark == NO_WATERMARK:
                watermark = int(self._page[self._used - 1, WATERMARK])
            self._used -= 1  # the two are one
        self._plain = oid if plain else CLOCK
        entry = (tick.version, tick.now_us, oid, self._at.get(oid, 0), watermark, idle)
        self._page[self._used] = entry
        self._used += 1
        if self._used == PAGE:
            self._turn()

    def _turn(self) -> None:
        """Begin a new page."""
        self._pages.append(self._page)
        self._page, self._used = np.empty((PAGE, len(FIELDS)), np.int64), 0
        if len(self._pages) > PAGES_MAX:
            gone = self._pages.pop(0)
            self._saved.pop(self._first_page, None)
            self._first_page += 1
            self.lost = int(gone[-1, VERSION])

    def entries(self, after: int) -> Int64Array | None:
        """The entries after a version, int64 [n, len(FIELDS)]; None if some are lost."""
        if after < self.lost:
            return None
        whole = np.concatenate([*self._pages, self._page[: self._used]])
        return whole[whole[:, VERSION] > after]

    # --- checkpoints ----------------------------------------------------------------------------
    def save(self) -> dict[str, pa.Table]:
        """Tables: pages that are full are the same ones each time."""
        out = {}
        for i, page in enumerate(self._pages):
            number = self._first_page + i
            if number not in self._saved:
                self._saved[number] = mark_immutable(_table(page))
            out[f"page-{number:09d}"] = self._saved[number]
        out["page"] = _table(self._page[: self._used].copy())
        rows = [
            (view, s.version, s.now_us, oid, m.position, m.watermark, m.idle_us)
            for view, s in self.starts.items()
            for oid, m in (s.marks or {CLOCK: Mark(0, NO_WATERMARK, ACTIVE)}).items()
        ]
        out["starts"] = pa.table({
            n: pa.array([r[i] for r in rows], pa.int64()) for i, n in enumerate(START_FIELDS)
        })  # fmt: skip
        at = sorted(self._at.items())
        marks = {"oid": [o for o, _ in at], "position": [p for _, p in at]}
        marks |= {"idle_us": [self._idle.get(o, AS_IT_WAS) for o, _ in at]}
        out["at"] = pa.table({n: pa.array(v, pa.int64()) for n, v in marks.items()})
        find = self.engine.circuit.find
        self.births = {n: v for n, v in self.births.items() if find(n) is not None}
        out["births"] = pa.table({
            "label": pa.array(self.births, pa.string()),
            "view": pa.array((view for view, _ in self.births.values()), pa.int64()),
            "version": pa.array((version for _, version in self.births.values()), pa.int64()),
        })  # fmt: skip
        out["lost"] = pa.table({"version": [self.lost], "now_us": [self.now_us]})
        return out

    def load(self, saved: Mapping[str, pa.Table]) -> None:
        """Inverse of `save`; the views are in the circuit."""
        engine = self.engine
        found: dict[int, tuple[int, int, dict[int, Mark]]] = {}
        for row in zip(*(saved["starts"][n].to_pylist() for n in START_FIELDS), strict=True):
            view, version, now_us, oid, *mark = row
            marks = found.setdefault(view, (version, now_us, {}))[2]
            if oid != CLOCK:
                marks[oid] = Mark(*mark)
        for oid, (version, now_us, marks) in found.items():
            state = engine.views.get(oid)
            if state is not None and state.node in engine.circuit.nodes:
                self.starts[oid] = Start(version, now_us, marks)
                needs = needs_of(engine, state, Bases.of(engine))
                if needs is not None:
                    self.needs[oid] = needs
        names = sorted(n for n in saved if n.startswith("page-"))
        self._pages = [_entries(saved[n]) for n in names]
        self._first_page = int(names[0].removeprefix("page-")) if names else 0
        last = _entries(saved["page"])
        self._used = len(last)
        self._page[: self._used] = last
        births = saved["births"].to_pylist()
        self.births = {r["label"]: (r["view"], r["version"]) for r in births}
        at = saved["at"].to_pylist()
        self._at = {r["oid"]: r["position"] for r in at}
        self._idle = {r["oid"]: r["idle_us"] for r in at}
        ((self.lost, self.now_us),) = (tuple(r.values()) for r in saved["lost"].to_pylist())
        self._follow(Bases.of(engine))


START_FIELDS = ("view", "version", "now_us", "oid", "position", "watermark", "idle_us")


def _table(page: Int64Array) -> pa.Table:
    return pa.table({n: pa.array(page[:, i].copy()) for i, n in enumerate(FIELDS)})


def _entries(table: pa.Table) -> Int64Array:
    columns = [np.asarray(table[n].combine_chunks(), np.int64) for n in FIELDS]
    return np.column_stack(columns) if columns[0].size else np.empty((0, len(FIELDS)), np.int64)
