"""The general operator: what has no incremental form is computed again, for the touched keys
only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Operator, RowError, State, Step
from streamsql.core.delta import Delta, concat
from streamsql.core.errors import StreamSqlError
from streamsql.core.schema import Schema
from streamsql.kernels.hash_index import HashIndex
from streamsql.kernels.hashing import Lanes, hash_columns
from streamsql.operators import duck
from streamsql.operators.arrange import Arrange, Reader
from streamsql.operators.columns import take_rows
from streamsql.operators.map import rows_json
from streamsql.state.arrangement import Arrangement
from streamsql.state.consolidate import consolidate


@dataclass
class Port(Reader):
    """One input. keys: the columns that hold the key, or None if any change of it touches all
    keys."""

    name: str
    arrange: Arrange
    keys: tuple[int, ...] | None

    def __post_init__(self) -> None:
        self.key_id = self.arrange.add_reader(self.keys or ())

    @property
    def key_columns(self) -> tuple[int, ...]:
        return self.keys or ()

    def rows(self, delta: Delta, lanes: Lanes | None) -> pa.Table:
        """The input's rows after this tick, of these keys (distinct lanes) or all; by arrival."""
        stored = self.arrange.rows
        if lanes is None or self.keys is None:
            before = stored.contents()
        else:
            _, found = stored.probe_lanes(self.key_id, lanes)
            found = np.sort(found)
            before = Delta(stored.take(found), stored.weights(found))
            if lanes is not None and delta:
                delta = delta.take(np.flatnonzero(self._among(delta, lanes)))
        now = concat([before, delta], self.arrange.schema)
        if delta and delta.weights is not None:
            now = consolidate(now, ignore_watermark=True)
        batch = now.batch
        if now.weights is not None and not bool((now.weights == 1).all()):
            batch = take_rows(batch, np.repeat(np.arange(now.num_rows), now.weights))
        return pa.Table.from_batches([batch])

    def _among(self, delta: Delta, lanes: Lanes) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        assert self.keys is not None
        index = HashIndex(expected=lanes[0].size)
        index.upsert(*lanes)
        among: np.ndarray[tuple[int], np.dtype[np.bool_]] = (
            index.find(*hash_columns(delta.batch, self.keys)) >= 0
        )
        return among


class Recompute(Operator):
    """A part of the query that DuckDB computes anew whenever one of its keys is touched.

    Algebra:  any function of its inputs; by key where every output row depends on the rows of one
              key alone. Output: the difference to what was given out before.
    Input:    deltas that come from arrangements; any weights.
    Output:   the bound SQL's columns; consolidated.
    State:    the inputs' arrangements (shared), and the rows given out; freed when the rows go.
    Cost:     by key: O(rows of the touched keys); without a key: O(all rows), every tick.
    Errors:   a key whose rows make the SQL fail gives no rows and is reported; it heals when
              its rows change. Without a key that is the whole result.
    """

    consolidates = True

    def __init__(
        self,
        schema: Schema,
        sql: str,
        ports: Sequence[Port],
        output_keys: tuple[int, ...] | None,
        *,
        title: str,
        text: str,
        why: str,
        on_error: str = "skip",
    ) -> None:
        """output_keys: the key's columns in the output, or None = no key."""
        super().__init__(schema)
        self.sql = sql
        self.ports = tuple(ports)
        self.output_keys = output_keys
        self.title = title
        self.text = text
        self.why = why
        self.on_error = on_error
        self.maintenance = "recompute" if output_keys is None else "recompute per key"
        self.given = Arrangement(schema)
        self.key_id = -1 if output_keys is None else self.given.add_key(output_keys)
        self.bad: dict[tuple[int, int], RowError] = {}
        self.started = False

    @property
    def name(self) -> str:
        return self.title

    # --- stepping ------------------------------------------------------------------------------
    def step(self, step: Step, *deltas: Delta) -> Delta:
        if self.started and not any(deltas):
            return Delta.empty(self.schema)
        lanes = self._touched(deltas)
        self.started = True
        if lanes is not None and not lanes[0].size:
            return Delta.empty(self.schema)
        new = self._compute(step, deltas, lanes)
        old = self._given(lanes)
        out = consolidate(concat([old.negate(), Delta(new)], self.schema))
        if out:
            out = self.given.apply(out).delta
        weights = out.weights
        if weights is not None and bool((weights == 1).all()):
            out = Delta(out.batch, None, None, True)
        return out

    def _touched(self, deltas: Sequence[Delta]) -> Lanes | None:
        """The distinct keys this tick touches, or None = all of them."""
        if self.output_keys is None or not self.started:
            return None
        first, second = [], []
        for port, delta in zip(self.ports, deltas, strict=True):
            if not delta:
                continue
            if port.keys is None:
                return None
            h0, h1 = hash_columns(delta.batch, port.keys)
            first.append(h0)
            second.append(h1)
        h0, h1 = np.concatenate(first), np.concatenate(second)
        _, rows = HashIndex().upsert_rows(h0, h1)
        return h0[rows], h1[rows]

    def _given(self, lanes: Lanes | None) -> Delta:
        """What was given out before for these keys."""
        if lanes is None:
            return self.given.contents()
        _, rows = self.given.probe_lanes(self.key_id, lanes)
        return Delta(self.given.take(rows), self.given.weights(rows))

    def _compute(self, step: Step, deltas: Sequence[Delta], lanes: Lanes | None) -> pa.RecordBatch:
        """The SQL's rows for these keys, without those of keys that fail."""
        self._forget_errors(step, lanes)
        tables = [
            (port.name, port.rows(delta, lanes))
            for port, delta in zip(self.ports, deltas, strict=True)
        ]
        try:
            return duck.run(self.sql, tables, self.schema, step.now_us)
        except StreamSqlError as error:
            whole = self._all_keys(deltas) if lanes is None else lanes
            if whole is None or whole[0].size <= 1:
                self._note_error(step, error, whole, tables)
                return Delta.empty(self.schema).batch
        half = whole[0].size // 2
        parts = [
            self._compute(step, deltas, (whole[0][s], whole[1][s]))
            for s in (slice(None, half), slice(half, None))
        ]
        return concat([Delta(p) for p in parts], self.schema).batch

    def _all_keys(self, deltas: Sequence[Delta]) -> Lanes | None:
        """Every key there is, or None without a key."""
        if self.output_keys is None:
            return None
        index = HashIndex()
        lanes: list[Lanes] = []
        for port, delta in zip(self.ports, deltas, strict=True):
            if port.keys is not None:
                table = port.rows(delta, None)
                for batch in table.to_batches():
                    h0, h1 = hash_columns(batch, port.keys)
                    _, rows = index.upsert_rows(h0, h1)
                    lanes.append((h0[rows], h1[rows]))
        if not lanes:
            return np.empty(0, np.uint64), np.empty(0, np.uint64)
        return np.concatenate([a for a, _ in lanes]), np.concatenate([b for _, b in lanes])

    def _forget_errors(self, step: Step, lanes: Lanes | None) -> None:
        if not self.bad:
            return
        keys = list(self.bad)
        if lanes is not None:
            keys = [k for k in zip(lanes[0].tolist(), lanes[1].tolist(), strict=True)
                    if k in self.bad]  # fmt: skip
        for key in keys:
            old = self.bad.pop(key)
            step.errors.append(
                RowError(self.name, old.sqlstate, old.message, old.row_json, -old.weight)
            )

    def _note_error(
        self,
        step: Step,
        error: StreamSqlError,
        key: Lanes | None,
        tables: Sequence[tuple[str, pa.Table]],
    ) -> None:
        row = "{}"
        rows = tables[0][1]
        if key is not None and key[0].size and rows.num_rows:
            first = Delta(rows.slice(0, 1).combine_chunks().to_batches()[0])
            row = rows_json(first, np.zeros(1, np.int64), self.ports[0].arrange.schema)[0]
        at = (0, 0) if key is None or not key[0].size else (int(key[0][0]), int(key[1][0]))
        found = RowError(self.name, error.sqlstate, error.message, row, 1)
        self.bad[at] = found
        step.errors.append(found)

    # --- the rest of the contract --------------------------------------------------------------
    def failure(self) -> tuple[str, str] | None:
        if self.on_error != "fail" or not self.bad:
            return None
        first = next(iter(self.bad.values()))
        return first.sqlstate, first.message

    def current(self, *inputs: Delta) -> Delta | None:
        return self.given.contents()

    def save(self) -> State:
        bad = [
            {"a": str(a), "b": str(b), "sqlstate": e.sqlstate, "message": e.message,
             "row": e.row_json, "weight": e.weight}
            for (a, b), e in self.bad.items()
        ]  # fmt: skip
        texts = pa.table({"bad": pa.array([json.dumps(row) for row in bad], pa.string())})
        return {**self.given.save(), "bad": texts}

    def load(self, state: State) -> None:
        self.given.load({k: v for k, v in state.items() if k != "bad"})
        for text in state["bad"]["bad"].to_pylist():
            row = json.loads(text)
            self.bad[int(row["a"]), int(row["b"])] = RowError(
                self.name, row["sqlstate"], row["message"], row["row"], row["weight"]
            )
        self.started = True

    def state_rows(self) -> int:
        return self.given.live_rows

    def state_bytes(self) -> int:
        return self.given.nbytes

    def explain(self) -> dict[str, str]:
        by = "everything" if self.output_keys is None else "the touched keys"
        return {
            "state": "the rows given out, beside the arrangements of its inputs",
            "freed": "when the rows go",
            "detail": f"{self.text}; a change computes {by} again",
            "why": self.why,
        }
