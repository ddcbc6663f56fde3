"""Run a plan as a view through random histories and compare it with DuckDB's batch answer after every tick."""

from __future__ import annotations

import datetime
import decimal
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from streamsql.circuit.checks import EdgeChecks
from streamsql.circuit.graph import Circuit
from streamsql.circuit.operator import LateRow, RowError, Step
from streamsql.core.delta import Delta, make_batch
from streamsql.core.schema import Schema
from streamsql.core.types import Kind
from streamsql.operators import Options
from streamsql.plan.nodes import LogicalPlan, Scan
from streamsql.runtime.compile import CompiledView, add_source, compile_view

Row = tuple[Any, ...]
Bag = Counter[Row]
Event = tuple[int, Row, int]
"""(relation, row, weight)."""


@dataclass
class Table:
    """A relation of a test. values: for each column, the values a random row may take."""

    schema: Schema
    values: Sequence[Sequence[Any]] = ()
    append_only: bool = False
    watermark_column: int | None = None
    watermark_delay_us: int = 0
    lateness_us: int = 0
    unique_key: tuple[int, ...] | None = None

    def scan(self, relation_id: int) -> Scan:
        return Scan(
            schema=self.schema,
            relation_id=relation_id,
            name=f"t{relation_id}",
            append_only=self.append_only,
            watermark_column=self.watermark_column,
        )

    def random_row(self, rng: random.Random) -> Row:
        return tuple(rng.choice(list(v)) for v in self.values)


def us(value: Any) -> int:
    """A datetime or date as µs since the epoch."""
    if isinstance(value, datetime.datetime):
        naive = value.replace(tzinfo=None)
        return (naive - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    return (value - datetime.date(1970, 1, 1)).days * 86_400_000_000


def floats(values: Sequence[Any]) -> list[Any]:
    return [float(v) if isinstance(v, str) else v for v in values]


def to_batch(rows: Sequence[Row], schema: Schema) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [
        pa.array(floats(values) if column.type.is_float else list(values), type=column.type.arrow)
        for values, column in zip(columns, schema, strict=True)
    ]
    return make_batch(arrays, schema.arrow, len(rows))


_WIDE = decimal.Context(prec=60)


def plain(value: Any) -> Any:
    """A value in a form that compares equal when SQL says so (floats to 11 digits, decimals to 12
    places)."""
    if isinstance(value, float):
        return "nan" if value != value else float(f"{value:.11g}") + 0.0
    if isinstance(value, decimal.Decimal):
        if value.as_tuple().exponent < -12:
            value = value.quantize(decimal.Decimal("1e-12"), context=_WIDE)
        return value.normalize(_WIDE)
    if isinstance(value, list):
        return tuple(plain(v) for v in value)
    if isinstance(value, dict):
        return tuple((k, plain(v)) for k, v in value.items())
    return value


def rows_of(batch: pa.RecordBatch | pa.Table) -> list[Row]:
    if batch.num_columns == 0:
        return [()] * batch.num_rows
    columns = [c.to_pylist() for c in batch.columns]
    return [tuple(plain(v) for v in row) for row in zip(*columns, strict=True)]


def bag_of(delta: Delta) -> Bag:
    bag: Bag = Counter()
    for row, weight in zip(rows_of(delta.batch), delta.weights_or_ones().tolist(), strict=True):
        bag[row] += weight
        if not bag[row]:
            del bag[row]
    return bag


Oracle = str | Callable[["View"], Bag]
"""DuckDB SQL over t0, t1, … (columns c0, c1, …), or a function of the harness."""


@dataclass
class View:
    """One view over tables, with all the state a test may ask for."""

    plan: LogicalPlan
    tables: Sequence[Table]
    oracle: Oracle
    options: Options = field(default_factory=Options)
    check: bool = True

    def __post_init__(self) -> None:
        self.rows: list[Bag] = [Counter() for _ in self.tables]
        self.output: Bag = Counter()
        self.late: list[LateRow] = []
        self.errors: list[RowError] = []
        self.watermarks = [-(2**63)] * len(self.tables)
        self.tick = 0
        self.now_us = 0
        self.deltas: list[Delta] = []
        self.checks = EdgeChecks(accumulate=True) if self.check else None
        self.start()

    def start(self) -> None:
        self.circuit, self.compiled, self.sources = self.build()
        step = self.new_step()
        snapshots = {
            n: Delta.empty(t.schema) for n, t in zip(self.sources, self.tables, strict=True)
        }
        self.take(self.compiled.start(step, snapshots), step)

    def build(self) -> tuple[Circuit, CompiledView, list[int]]:
        circuit = Circuit(self.checks)
        sources = [
            add_source(
                circuit, i, t.schema, append_only=t.append_only,
                watermark_column=t.watermark_column, lateness_us=t.lateness_us,
            )
            for i, t in enumerate(self.tables)
        ]  # fmt: skip
        compiled = compile_view(self.plan, circuit, dict(enumerate(sources)), self.options)
        return circuit, compiled, sources

    def new_step(self) -> Step:
        self.tick += 1
        return Step(self.tick, self.now_us)

    def take(self, delta: Delta, step: Step) -> None:
        self.deltas.append(delta)
        self.output.update(bag_of(delta))
        for row in [r for r, w in self.output.items() if not w]:
            del self.output[row]
        self.late += step.late
        self.errors += step.errors

    # --- input ---------------------------------------------------------------------------------
    def source_delta(self, relation: int, events: Sequence[Event]) -> Delta:
        table = self.tables[relation]
        rows = [row for _, row, _ in events]
        weights = np.array([weight for _, _, weight in events], np.int64)
        watermark = None
        if table.watermark_column is not None:
            before = []
            for _, row, weight in events:
                before.append(self.watermarks[relation])
                time = row[table.watermark_column]
                if weight > 0 and time is not None:
                    moved = us(time) - table.watermark_delay_us
                    self.watermarks[relation] = max(self.watermarks[relation], moved)
            watermark = np.array(before, np.int64)
        for row, weight in zip(
            rows_of(to_batch(rows, table.schema)), weights.tolist(), strict=True
        ):
            self.rows[relation][row] += weight
        plain_weights = None if bool((weights == 1).all()) else weights
        return Delta(to_batch(rows, table.schema), plain_weights, watermark)

    def step(self, events: Sequence[Event]) -> Delta:
        """One tick with these changes, in order."""
        step = self.new_step()
        deltas, watermarks = {}, {}
        for relation in range(len(self.tables)):
            own = [e for e in events if e[0] == relation]
            if own:
                deltas[self.sources[relation]] = self.source_delta(relation, own)
                if self.tables[relation].watermark_column is not None:
                    watermarks[self.sources[relation]] = self.watermarks[relation]
        outputs = self.circuit.step(step, deltas, watermarks)
        out = outputs.get(self.compiled.output, Delta.empty(self.compiled.schema))
        self.take(out, step)
        return out

    def insert(self, *rows: Row, into: int = 0) -> Delta:
        return self.step([(into, row, 1) for row in rows])

    def delete(self, *rows: Row, out_of: int = 0) -> Delta:
        return self.step([(out_of, row, -1) for row in rows])

    def at(self, text: str) -> Change:
        """One tick from a picture: lines of `+ 1 a` or `- 1 a`, `t1 + 1 a` for another table; NULL, and
        times of day `10:05` or `10:05:30` on 2024-06-01."""
        delta = self.step([event for line in text.splitlines() for event in self._event(line)])
        return Change(delta)

    def _event(self, line: str) -> list[Event]:
        words = line.split()
        if not words:
            return []
        relation = int(words.pop(0)[1:]) if words[0].startswith("t") else 0
        weight = {"+": 1, "-": -1}[words.pop(0)]
        types = self.tables[relation].schema.types
        row = tuple(value_of(w, t.kind) for w, t in zip(words, types, strict=True))
        return [(relation, row, weight)]

    # --- checks --------------------------------------------------------------------------------
    def expected(self) -> Bag:
        if callable(self.oracle):
            return self.oracle(self)
        return self.batch_answer(self.oracle)

    def batch_answer(self, sql: str) -> Bag:
        con = connection()
        for i, (table, bag) in enumerate(zip(self.tables, self.rows, strict=True)):
            rows = [row for row, weight in bag.items() for _ in range(weight)]
            con.register(f"t{i}", pa.Table.from_batches([to_batch(rows, table.schema)]))
        found = con.sql(sql).to_arrow_table()
        types = [c.type.arrow for c in self.compiled.schema]
        names = [f"c{i}" for i in range(len(types))]
        found = found.rename_columns(names).cast(pa.schema(list(zip(names, types, strict=True))))
        return Counter(rows_of(found))

    def verify(self, what: str = "") -> None:
        expected = self.expected()
        missing, extra = expected - self.output, self.output - expected
        assert self.output == expected, (
            f"{what} tick {self.tick}: missing {dict(missing)}, extra {dict(extra)}"
        )

    def restart(self) -> None:
        """Save everything, build the circuit anew, load."""
        states, watermarks = self.circuit.save(), self.circuit.watermarks()
        self.circuit, self.compiled, self.sources = self.build()
        self.circuit.load(states, watermarks)

    def held(self) -> dict[str, int]:
        """Rows of state by node, where there are any."""
        rows = {node.label: node.operator.state_rows() for node in self.circuit}
        return {label: n for label, n in rows.items() if n}

    def state_rows(self) -> int:
        return sum(self.held().values())


@dataclass(frozen=True)
class Change:
    """What a tick gave out."""

    delta: Delta

    def gives(self, text: str) -> None:
        """Compare with a picture of `+ 1 a` lines, as bags."""
        expected: Counter[str] = Counter()
        for line in text.splitlines():
            words = line.split()
            if words:
                expected[" ".join(words[1:])] += {"+": 1, "-": -1}[words[0]]
        found: Counter[str] = Counter()
        for row, weight in bag_of(self.delta).items():
            found[" ".join(text_of(v) for v in row)] += weight
        expected = Counter({k: v for k, v in expected.items() if v})
        assert found == expected, f"gave {dict(found)}, expected {dict(expected)}"


def value_of(word: str, kind: Kind) -> Any:
    """A word of a picture as a value."""
    if word == "NULL":
        return None
    if kind in (Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT):
        return int(word)
    if kind in (Kind.DOUBLE, Kind.REAL):
        return float(word)
    if kind is Kind.NUMERIC:
        return decimal.Decimal(word)
    if kind is Kind.BOOLEAN:
        return word == "true"
    if kind is Kind.TIMESTAMP:
        parts = [int(p) for p in word.split(":")]
        return datetime.datetime(2024, 6, 1, *parts)
    return word


def text_of(value: Any) -> str:
    """The opposite of `value_of`."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        text = value.strftime("%H:%M:%S.%f").rstrip("0").rstrip(".")
        return text.removesuffix(":00") if text.count(":") == 2 else text
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    return str(value)


_connection: duckdb.DuckDBPyConnection | None = None


def connection() -> duckdb.DuckDBPyConnection:
    global _connection
    if _connection is None:
        from streamsql.functions.duckdb_sql import configure

        _connection = duckdb.connect(":memory:")
        configure(_connection, threads=1)
    return _connection


def random_history(
    tables: Sequence[Table], seed: int, ticks: int = 6, most: int = 5
) -> list[list[Event]]:
    """Ticks of inserts, deletes and updates with duplicates, NULLs and keys that repeat."""
    rng = random.Random(seed)
    live: list[list[Row]] = [[] for _ in tables]
    history = []
    for _ in range(ticks):
        events: list[Event] = []
        for _ in range(rng.randint(0, most)):
            relation = rng.randrange(len(tables))
            table = tables[relation]
            choice = rng.random()
            if live[relation] and choice < 0.3 and not table.append_only:
                row = live[relation].pop(rng.randrange(len(live[relation])))
                events.append((relation, row, -1))
                if choice < 0.12:
                    new = table.random_row(rng)
                    live[relation].append(new)
                    events.append((relation, new, 1))
                continue
            row = table.random_row(rng)
            live[relation].append(row)
            events.append((relation, row, 1))
        history.append(events)
    return history


def undo(history: Sequence[Sequence[Event]], rng: random.Random) -> list[list[Event]]:
    """The inverse of a history, in other ticks and another order."""
    total: dict[tuple[int, Row], int] = {}
    for events in history:
        for relation, row, weight in events:
            total[relation, row] = total.get((relation, row), 0) + weight
    back = [(r, row, -1) for (r, row), w in total.items() for _ in range(w)]
    rng.shuffle(back)
    middle = rng.randint(0, len(back))
    return [back[:middle], back[middle:]]


def check_view(
    plan: LogicalPlan,
    tables: Sequence[Table],
    oracle: Oracle,
    seed: int,
    *,
    options: Options | None = None,
    ticks: int = 6,
    most: int = 5,
) -> None:
    """Small ticks, a restart at a drawn tick, one big tick, and the undo of everything."""
    rng = random.Random(seed)
    options = options or Options()
    history = random_history(tables, seed, ticks, most)
    view = View(plan, tables, oracle, options)
    view.verify("empty")
    at_start, held_at_start = Counter(view.output), view.held()
    restart_at = rng.randint(0, ticks)
    for i, events in enumerate(history):
        if i == restart_at:
            view.restart()
        view.step(events)
        view.verify(f"seed {seed} small ticks")
    big = View(plan, tables, oracle, options)
    big.step([e for events in history for e in events])
    big.verify(f"seed {seed} one big tick")
    if not any(t.append_only for t in tables):
        for one in (view, big):
            for events in undo(history, rng):
                one.step(events)
                one.verify(f"seed {seed} undo")
            assert one.output == at_start
            assert one.held() == held_at_start, (
                f"seed {seed}: state {held_at_start} became {one.held()}"
            )


def plan_of(sql: str, tables: Sequence[Table]) -> LogicalPlan:
    """The bound plan of a query over t0, t1, …"""
    from streamsql.dialect import parse
    from streamsql.plan.binder import BindContext, RelationInfo, bind_query
    from streamsql.plan.optimizer import optimize

    def resolve(name: tuple[str, ...]) -> RelationInfo | None:
        text = name[-1]
        if not (text.startswith("t") and text[1:].isdigit() and int(text[1:]) < len(tables)):
            return None
        table = tables[int(text[1:])]
        return RelationInfo(
            relation_id=int(text[1:]),
            name=text,
            schema_name="public",
            schema=table.schema,
            append_only=table.append_only,
            watermark_column=table.watermark_column,
            unique_keys=() if table.unique_key is None else (table.unique_key,),
        )

    statement = parse(sql)[0]
    context = BindContext(resolve, volatile_allowed=False, now="tick")
    return optimize(bind_query(statement.query, context).plan)


def batch_sql(plan: LogicalPlan) -> str:
    """DuckDB's batch answer of a plan over t0, t1, … as one SELECT."""
    from streamsql.plan.sql import to_duckdb_sql

    return to_duckdb_sql(plan, lambda scan: scan.name)


def view_of(sql: str, tables: Sequence[Table], options: Options | None = None) -> View:
    """A view by its SQL text."""
    plan = plan_of(sql, tables)
    return View(plan, tables, batch_sql(plan), options or Options())


def check_sql(sql: str, tables: Sequence[Table], seed: int, **more: Any) -> None:
    """`check_view` of a view by its SQL text."""
    plan = plan_of(sql, tables)
    check_view(plan, tables, batch_sql(plan), seed, **more)
