"""A materialized view's rows and where it stands in the circuit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Delta, concat, make_batch
from streamsql.core.schema import Schema
from streamsql.engine.relations import Relation
from streamsql.engine.storage.changelog import ChangeLog, Keep, rewind
from streamsql.engine.storage.key_index import KeyIndex, follow
from streamsql.engine.storage.table import is_exact
from streamsql.state.arrangement import Arrangement
from streamsql.state.consolidate import cancel, consolidate

NO_NODE = -1
"""The node of a view that no circuit keeps up to date: it has failed, or is suspended."""


class ViewState:
    """The content of one materialized view (or of a SUBSCRIBE to a query, which has no name).

    compiled: what `compile_view` returned. node: the circuit node whose deltas are the view's
    changes. broken: why the view is no longer maintained, or None.
    """

    def __init__(self, relation: Relation, compiled: Any, node: int, version: int) -> None:
        self.relation = relation
        self.compiled = compiled
        self.node = node
        self.schema: Schema = relation.columns
        keys = sorted(relation.unique_keys, key=len)
        identity = keys[0] if keys and 0 < len(keys[0]) < len(self.schema) else None
        self.store = Arrangement(self.schema, identity)
        self._exact_identity = identity is not None and is_exact(self.schema, identity)
        self.log = ChangeLog(version)
        self.indexes: dict[int, KeyIndex] = {}
        self.broken: Exception | None = None
        self.started_us: int | None = None  # None: since the database was opened
        self.start: Any = None  # where its inputs stood when it was filled (`past.Start`)

    @property
    def exact_identity(self) -> tuple[int, ...] | None:
        """What identifies a row, where a look-up by it finds what SQL calls equal."""
        return self.store.identity if self._exact_identity else None

    def snapshot(self) -> pa.Table:
        """All rows; immutable."""
        return self.store.snapshot()

    def read(self, version: int) -> Callable[[], pa.Table]:
        """The rows at a version that is still retained; see `ReadView`."""
        rows = self.store.snapshot()
        later = self.log.later(version)
        return lambda: rewind(rows, later, self.schema)

    def contents(self) -> Delta:
        """All rows as a delta: what a view over this one is filled from."""
        return self.store.contents()

    def fill(self, delta: Delta) -> None:
        """The first content, which is no change of any version."""
        follow(self.indexes, self.store.apply(cancel(without_watermark(delta))))

    def take_over(self, old: ViewState, delta: Delta) -> Delta:
        """Go on with the rows and versions of another state, whose columns are found by their names
        if they are not the same; returns what they have to change by, to be `delta`."""
        fresh = cancel(without_watermark(delta))
        shown, same = old.contents(), old.schema.types == self.schema.types
        if not same:
            shown = Delta(self.by_name(shown.batch, old.schema), shown.weights)
        self.follow_log(old)
        if same and self.store.identity == old.store.identity:
            self.store, self.indexes = old.store, old.indexes
        else:  # the old rows need not be unique by what identifies the new ones
            self.store, self._exact_identity = Arrangement(self.schema), False
            self.store.apply(shown)
        return consolidate(concat([fresh, shown.negate()], self.schema))

    def follow_log(self, old: ViewState) -> None:
        """Go on with the versions of another state."""
        self.log = old.log
        if old.schema.types != self.schema.types:
            self.log = old.log.converted(lambda rows: self.by_name(rows, old.schema))

    def by_name(self, rows: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
        """Rows of another view in the columns of this one; NULL where it had no such column, or one
        of another type."""
        if schema.types == self.schema.types:
            return rows
        columns = []
        for column in self.schema:
            at = schema.index(column.name)
            known = at >= 0 and schema[at].type == column.type
            columns.append(rows.column(at) if known else pa.nulls(rows.num_rows, column.type.arrow))
        return make_batch(columns, self.schema.arrow, rows.num_rows)

    def apply(self, delta: Delta, version: int, keep: Keep | None) -> Delta:
        """Take the changes of a tick; returns them, consolidated where they retract anything."""
        change = cancel(without_watermark(delta))
        if change:
            follow(self.indexes, self.store.apply(change))
            self.log.append(version, change, keep)
        return change


def without_watermark(delta: Delta) -> Delta:
    """The delta as plain rows: a view's content does not depend on what its rows arrived under."""
    if delta.row_watermark is None:
        return delta
    weights = delta.weights
    if weights is not None and bool((weights == 1).all()):
        weights = None
    return Delta(delta.batch, weights, None, False)


def repeat_rows(delta: Delta) -> pa.RecordBatch:
    """The rows of a delta of positive weights, each as often as its weight."""
    if delta.weights is None:
        return delta.batch
    return delta.batch.take(pa.array(np.repeat(np.arange(delta.num_rows), delta.weights)))
