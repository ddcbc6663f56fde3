"""An index that is filled while the rows of its table or view go on changing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from streamsql.core.delta import Delta, Int64Array
from streamsql.engine.catalog import Catalog
from streamsql.engine.indexes import key_index, owner_oid, unique_key
from streamsql.engine.relations import Relation
from streamsql.engine.requests import Tick
from streamsql.engine.side_check import Validator
from streamsql.engine.storage.key_index import KeyIndex
from streamsql.engine.storage.view import ViewState
from streamsql.state.arrangement import Applied

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine


@dataclass(frozen=True)
class Moved:
    """Rows that were copied elsewhere: their old numbers, their new ones, the rows."""

    old: Int64Array
    new: Int64Array
    rows: pa.RecordBatch


Event = Applied | Moved


class SideIndex:
    """An index in the making (a `beside.Part`).

    It starts from the stored rows by their numbers, which are written once and stay where they
    are, and hears of every change of the store since, in order.
    """

    def __init__(self, engine: Engine, index: Relation, catalog: Catalog) -> None:
        """Engine thread: over the rows that are there now. Raises: errors of binding."""
        state = engine.indexes.state_of(owner_oid(index))
        assert state is not None
        self.relation = index
        self.index: KeyIndex = key_index(index, catalog, state)
        self._state = state
        self._strict = not isinstance(state, ViewState)
        self._heard: list[Event] = []
        unique = unique_key(index)
        owner = catalog.relations[owner_oid(index)]
        self._wanted = Validator(owner, frozenset(), () if unique is None else (unique,), catalog)
        with engine.lock:
            if isinstance(state, ViewState):
                state.store.merge()
            self._parts = list(state.store.live_batches())
            state.store.on_apply.append(self._heard_change)
            state.store.on_move.append(self._heard_move)
        self.rows = sum(rows.size for rows, _ in self._parts)

    def _heard_change(self, applied: Applied) -> None:
        self._heard.append(applied)

    def _heard_move(self, old: Int64Array, new: Int64Array) -> None:
        self._heard.append(Moved(old, new, self._state.store.take(new)))

    def fill(self) -> Iterator[int]:
        """See `Part`. Raises: errors of the expressions."""
        parts, self._parts = self._parts, []
        if self._wanted:
            for _, batch in parts:
                self._wanted.take(batch)
        yield from self.index.fill(parts, strict=self._strict)

    def prepare(self, engine: Engine) -> None:
        """See `Part`."""
        self._wanted.prepare()

    def note(
        self,
        engine: Engine,
        tick: Tick,
        deltas: Mapping[int, list[Delta]],
        outputs: Mapping[int, Delta],
    ) -> list[Event] | None:
        """See `Part`."""
        heard, self._heard = self._heard, []
        return heard or None

    def follow(self, noted: list[Event]) -> None:
        """See `Part`. Raises: errors of the expressions."""
        for event in noted:
            if isinstance(event, Moved):
                self.index.move(event.old, event.new, event.rows)
            else:
                self.index.change(event, strict=self._strict)
                if self._wanted:
                    self._count(event)

    def _count(self, event: Applied) -> None:
        batch, weights = event.delta.batch, event.new - event.old
        come, gone = weights > 0, weights < 0
        self._wanted.take(batch.filter(pa.array(come)), batch.filter(pa.array(gone)))

    def finish(self) -> None:
        """See `Part`. Raises: UniqueViolation (23505)."""
        self.follow(self._heard)
        self._heard = []
        self._wanted.finish(self._state)

    def place(self) -> KeyIndex:
        """Engine thread, under the state lock: from now on it follows the rows by itself."""
        self.close()
        self.index.follow_rows()
        self._state.indexes[self.index.oid] = self.index
        return self.index

    def close(self) -> None:
        """See `Part`: hear of no more changes."""
        store = self._state.store
        if self._heard_change in store.on_apply:
            store.on_apply.remove(self._heard_change)
            store.on_move.remove(self._heard_move)
