"""The general operator: what has no incremental form is computed again, for the touched keys
only."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Operator, RowError, State, Step
from streamsql.core.delta import Delta, Int64Array, concat
from streamsql.core.errors import StreamSqlError
from streamsql.core.schema import Schema
from streamsql.kernels.hash_index import HashIndex
from streamsql.kernels.hashing import Lanes, hash_columns
from streamsql.operators import duck
from streamsql.operators.arrange import Arrange, Reader
from streamsql.operators.columns import take_rows
from streamsql.operators.map import rows_json
from streamsql.operators.recompute_failures import Salvage, Tables, Units
from streamsql.operators.recompute_variants import Variants
from streamsql.plan.nodes import Aggregate
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


NO_ROWS = np.empty(0, np.int64)


class Recompute(Operator):
    """A part of the query that DuckDB computes anew whenever one of its keys is touched.

    Algebra:  any function of its inputs; by key where every output row depends on the rows of one
              key alone. Output: the difference to what was given out before.
    Input:    deltas that come from arrangements; any weights.
    Output:   the bound SQL's columns; consolidated.
    State:    the inputs' arrangements (shared), and the rows given out; freed when the rows go.
    Cost:     by key: O(rows of the touched keys); without a key: O(all rows), every tick.
    Errors:   where each row of one input gives rows of its own (subqueries, lateral sides), the
              rows that make the SQL fail are left out and reported; else their keys are, or,
              without a key, the whole. Under `on_error = 'null'` they stay, with NULL for the
              results that fail; a condition that fails is NULL, a join finds no partner. It heals
              when what it is made of changes.
    """

    consolidates = True

    def __init__(
        self,
        schema: Schema,
        variants: Variants,
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
        self.variants = variants
        self.sql = variants.sql()
        self.ports = tuple(ports)
        self.output_keys = output_keys
        self.title = title
        self.text = text
        self.why = why
        self.on_error = on_error
        self.maintenance = "recompute" if output_keys is None else "recompute per key"
        self.given = Arrangement(schema)
        self.key_id = -1 if output_keys is None else self.given.add_key(output_keys)
        self.bad: dict[tuple[int, int], list[RowError]] = {}
        self.started = False
        root = variants.root
        self.groups_by = root.keys if isinstance(root, Aggregate) else None

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
        """The SQL's rows for these keys, without what fails."""
        before = self._forget_errors(lanes)
        tables = [
            (port.name, port.rows(delta, lanes))
            for port, delta in zip(self.ports, deltas, strict=True)
        ]
        found: list[tuple[tuple[int, int], RowError]] = []
        try:
            rows = duck.run(self.sql, tables, self.schema, step.now_us)
        except StreamSqlError:
            rows, found = self._salvage(tables, step.now_us)
        for at, error in found:
            self.bad.setdefault(at, []).append(error)
        self._tell(step, before, [error for _, error in found])
        return rows

    def _salvage(
        self, tables: Tables, now_us: int
    ) -> tuple[pa.RecordBatch, list[tuple[tuple[int, int], RowError]]]:
        """(what there is in spite of errors, the errors by key)."""
        port, keyed = self.variants.row_port, self.output_keys is not None
        columns = [p.keys if keyed else None for p in self.ports]
        if port is not None and tables[port][1].num_columns:
            units = Units.of_rows(tables, columns, port)
        else:
            units = Units.of_keys(tables, columns)
        salvage = Salvage(self.variants, self.schema, units, now_us)
        rows, bad = salvage.run(self.on_error == "null")
        by_port: dict[int, list[tuple[Int64Array, StreamSqlError]]] = {}
        for unit, error in bad.items():
            where, members = self._members(units, unit)
            by_port.setdefault(where, []).append((members, error))
        return rows, [e for where, some in by_port.items() for e in self._told(tables, where, some)]

    def _members(self, units: Units, unit: int) -> tuple[int, Int64Array]:
        """(an input, the rows of it that a unit is told by): all of them, one of a group."""
        ports = range(len(self.ports)) if units.port is None else (units.port,)
        found = [(port, units.rows(port, unit)) for port in ports]
        port, members = next((f for f in found if f[1].size), found[0] if found else (0, NO_ROWS))
        return port, members if self.groups_by is None else members[:1]

    def _told(
        self, tables: Tables, port: int, found: list[tuple[Int64Array, StreamSqlError]]
    ) -> list[tuple[tuple[int, int], RowError]]:
        """The errors of rows of an input, with their keys; of a group only its key is shown."""
        errors = [e for members, e in found for _ in range(members.size or 1)]
        rows = np.concatenate([members for members, _ in found])
        keys, texts = [(0, 0)] * len(errors), ["{}"] * len(errors)
        if rows.size:
            batch = tables[port][1].combine_chunks().to_batches()[0].take(pa.array(rows))
            schema = self.ports[port].arrange.schema
            if self.output_keys is not None:
                h0, h1 = hash_columns(batch, self.ports[port].key_columns)
                keys = list(zip(h0.tolist(), h1.tolist(), strict=True))
            if self.groups_by is not None:
                batch, schema = batch.select(self.groups_by), schema.select(self.groups_by)
            texts = rows_json(Delta(batch), np.arange(rows.size), schema)
        return [
            (key, RowError(self.name, e.sqlstate, e.message, text, 1))
            for key, text, e in zip(keys, texts, errors, strict=True)
        ]

    def _forget_errors(self, lanes: Lanes | None) -> list[RowError]:
        """Those of the keys in question, which are no more known."""
        if not self.bad:
            return []
        keys = list(self.bad)
        if lanes is not None and self.output_keys is not None:
            touched = zip(lanes[0].tolist(), lanes[1].tolist(), strict=True)
            keys = [k for k in touched if k in self.bad]
        return [error for key in keys for error in self.bad.pop(key)]

    def _tell(self, step: Step, before: list[RowError], now: list[RowError]) -> None:
        """Report what became of the errors."""
        if not before and not now:
            return
        count = Counter((e.sqlstate, e.message, e.row_json) for e in now)
        count.subtract((e.sqlstate, e.message, e.row_json) for e in before)
        step.errors += [RowError(self.name, *what, n) for what, n in count.items() if n]

    # --- the rest of the contract --------------------------------------------------------------
    def failure(self) -> tuple[str, str] | None:
        if self.on_error != "fail" or not self.bad:
            return None
        first = next(iter(self.bad.values()))[0]
        return first.sqlstate, first.message

    def current(self, *inputs: Delta) -> Delta | None:
        return self.given.contents()

    @property
    def retells(self) -> bool:
        return True

    def retell(self, step: Step, *inputs: Delta) -> Delta | None:
        self._tell(step, [], [error for errors in self.bad.values() for error in errors])
        return self.current(*inputs)

    def save(self) -> State:
        bad = [
            {"a": str(a), "b": str(b), "sqlstate": e.sqlstate, "message": e.message,
             "row": e.row_json, "weight": e.weight}
            for (a, b), errors in self.bad.items() for e in errors
        ]  # fmt: skip
        texts = pa.table({"bad": pa.array([json.dumps(row) for row in bad], pa.string())})
        return {**self.given.save(), "bad": texts}

    def load(self, state: State) -> None:
        self.given.load({k: v for k, v in state.items() if k != "bad"})
        for text in state["bad"]["bad"].to_pylist():
            row = json.loads(text)
            what = row["sqlstate"], row["message"], row["row"], row["weight"]
            errors = self.bad.setdefault((int(row["a"]), int(row["b"])), [])
            errors.append(RowError(self.name, *what))
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
