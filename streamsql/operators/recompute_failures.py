"""Which rows or keys make a recomputed part of a query fail, and what is shown in spite of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Delta, Int64Array, concat
from streamsql.core.errors import CardinalityViolation, ProgramLimitExceeded, StreamSqlError
from streamsql.core.schema import Column, Schema
from streamsql.core.types import BIGINT
from streamsql.kernels.hash_index import HashIndex
from streamsql.kernels.hashing import Lanes, hash_columns
from streamsql.operators import duck
from streamsql.operators.recompute_variants import Variants

Tables = Sequence[tuple[str, pa.Table]]
NUMBERS = Schema((Column("row", BIGINT),))
SEVERAL = "more than one row returned by a subquery used as an expression"


@dataclass
class Units:
    """The inputs, in the smallest parts that can be computed apart: rows of one of them, keys, or
    all as a whole.

    keys: for each table the key of each of its rows, −1 = one that no unit has; None = its rows
    belong to all. of: the key of each unit. port: the table whose rows are the units; None = the
    keys are.
    """

    tables: Tables
    keys: list[Int64Array | None]
    of: Int64Array
    port: int | None = None

    @staticmethod
    def of_rows(tables: Tables, columns: Sequence[tuple[int, ...] | None], port: int) -> Units:
        """Each row of a table is one. columns: those with the key, in each table."""
        n = tables[port][1].num_rows
        if columns[port] is None:
            return Units(tables, [None] * len(tables), np.zeros(n, np.int64), port)
        index = HashIndex()
        index.upsert(*_lanes(tables[port][1], columns[port]))
        keys = [
            None if c is None else index.find(*_lanes(table, c))
            for (_, table), c in zip(tables, columns, strict=True)
        ]
        of = keys[port]
        assert of is not None
        return Units(tables, keys, of, port)

    @staticmethod
    def of_keys(tables: Tables, columns: Sequence[tuple[int, ...] | None]) -> Units:
        """Each key is one; if no table has any, all is one."""
        index = HashIndex()
        lanes = [None if c is None else _lanes(table, c)
                 for (_, table), c in zip(tables, columns, strict=True)]  # fmt: skip
        for pair in lanes:
            if pair is not None:
                index.upsert(*pair)
        keys = [None if pair is None else index.find(*pair) for pair in lanes]
        known = [k for k in keys if k is not None]
        count = max((int(k.max()) + 1 for k in known if k.size), default=0) if known else 1
        return Units(tables, keys, np.arange(count))

    @property
    def count(self) -> int:
        return self.of.size

    def only(self, chosen: Int64Array) -> Tables:
        """The tables with the rows of these units."""
        if chosen.size == self.count and self.count:
            return self.tables
        wanted = np.zeros(int(self.of.max(initial=0)) + 2, np.bool_)  # the last one: key −1
        wanted[self.of[chosen]] = True
        out = []
        for i, (name, table) in enumerate(self.tables):
            keys = self.keys[i]
            if i == self.port:
                out.append((name, table.take(pa.array(np.sort(chosen)))))
            elif keys is not None:
                out.append((name, table.filter(pa.array(wanted[keys]))))
            else:
                out.append((name, table))
        return out

    def rows(self, port: int, unit: int) -> Int64Array:
        """The rows of a table that belong to a unit."""
        if port == self.port:
            return np.array([unit])
        keys = self.keys[port]
        if keys is None:
            return np.arange(self.tables[port][1].num_rows)
        return np.flatnonzero(keys == self.of[unit])


def _lanes(table: pa.Table, columns: tuple[int, ...] | None) -> Lanes:
    batches = table.combine_chunks().to_batches() or [_no_rows(table)]
    return hash_columns(batches[0], columns or ())


def _no_rows(table: pa.Table) -> pa.RecordBatch:
    empty = [pa.array([], f.type) for f in table.schema]
    return pa.RecordBatch.from_arrays(empty, schema=table.schema)


class Salvage:
    """Computes what a failing part gives in spite of the units that fail."""

    def __init__(self, variants: Variants, schema: Schema, units: Units, now_us: int) -> None:
        self.variants = variants
        self.schema = schema
        self.units = units
        self.now_us = now_us

    def run(self, nulls: bool) -> tuple[pa.RecordBatch, dict[int, StreamSqlError]]:
        """(the rows, what failed by unit). nulls: what fails is NULL, else its unit is left out."""
        everything = np.arange(self.units.count)
        bad = self._failing(self.variants.sql(), everything, None)
        good = np.setdiff1d(everything, np.fromiter(bad, np.int64, len(bad)))
        parts = [self._run(self.variants.sql(), good)] if good.size else []
        if nulls and bad:
            parts += self._with_nulls(np.setdiff1d(everything, good))
        return concat([Delta(p) for p in parts], self.schema).batch, bad

    def _run(self, sql: str, chosen: Int64Array) -> pa.RecordBatch:
        return duck.run(sql, self.units.only(chosen), self.schema, self.now_us)

    def _fails(self, sql: str, chosen: Int64Array) -> StreamSqlError | None:
        try:
            self._run(sql, chosen)
        except StreamSqlError as error:
            return error
        return None

    # --- which units fail ----------------------------------------------------------------------
    def _failing(
        self, sql: str, among: Int64Array, places: Sequence[int] | None
    ) -> dict[int, StreamSqlError]:
        """The units that fail; places: the results in question, None = all."""
        error = self._fails(sql, among) if among.size else None
        if error is None:
            return {}
        if self.units.port is not None:
            always = self._fails(sql, np.empty(0, np.int64))
            if always is not None:  # a subquery that is the same for all rows
                return dict.fromkeys(among.tolist(), always)
        found: dict[int, StreamSqlError] = {}
        several = self._several(among, places)
        if several.size:
            found = {int(unit): CardinalityViolation(SEVERAL) for unit in several}
            among = np.setdiff1d(among, several)
        return found | self._by_halves(sql, among)

    def _several(self, among: Int64Array, places: Sequence[int] | None) -> Int64Array:
        """Those whose scalar subqueries give two rows, at once: there may be many."""
        port, sql = self.units.port, None
        if port is not None:
            sql = self.variants.several(places)
        if port is None or sql is None:
            return np.empty(0, np.int64)
        tables = list(self.units.only(among))
        name, table = tables[port]
        tables[port] = name, table.append_column(f"c{table.num_columns}", pa.array(np.sort(among)))
        try:
            found = duck.run(sql, tables, NUMBERS, self.now_us)
        except StreamSqlError:  # it fails within the subquery: found by halving
            return np.empty(0, np.int64)
        return np.unique(np.asarray(found.column(0), np.int64))

    def _by_halves(self, sql: str, among: Int64Array) -> dict[int, StreamSqlError]:
        error = self._fails(sql, among) if among.size else None
        if error is None:
            return {}
        if among.size == 1 or isinstance(error, ProgramLimitExceeded):
            return dict.fromkeys(among.tolist(), error)
        half = among.size // 2
        return self._by_halves(sql, among[:half]) | self._by_halves(sql, among[half:])

    # --- on_error = 'null' ---------------------------------------------------------------------
    def _with_nulls(self, bad: Int64Array) -> list[pa.RecordBatch]:
        """What the failing units give with NULL for the results that fail."""
        variants, failing = self.variants, {int(unit): frozenset[int]() for unit in bad}
        for place in variants.places:
            for unit in self._failing(variants.alone(place), bad, (place,)):
                failing[unit] |= {place}
        groups: dict[frozenset[int], list[int]] = {}
        for unit, places in failing.items():
            groups.setdefault(places, []).append(unit)
        alone = variants.without_partner()
        out = []
        for places, units in groups.items():
            chosen = np.array(units, np.int64)
            for sql in (variants.sql(places) if places else None, alone):
                if sql is not None and self._fails(sql, chosen) is None:
                    out.append(self._run(sql, chosen))
                    break
        return out
