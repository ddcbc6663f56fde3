"""EXPLAIN of circuits, and what compiling tells of a view."""

from __future__ import annotations

import json

import pytest

import streamsql
from streamsql.circuit.operator import Step
from streamsql.core.delta import Delta
from streamsql.core.schema import Schema
from streamsql.core.types import INTEGER, TEXT, TIMESTAMP
from streamsql.operators import Options
from streamsql.operators.accumulators.base import Accumulator
from streamsql.runtime.compile import add_source, compile_view
from streamsql.runtime.explain import explain, size_text, watermark_text
from tests.operators.harness import Table, plan_of, view_of

T0 = Table(
    Schema.of(("ts", TIMESTAMP), ("k", INTEGER), ("v", INTEGER), ("s", TEXT)), watermark_column=0
)
T1 = Table(Schema.of(("k", INTEGER), ("w", INTEGER)))


def lines_of(sql: str, **more: object) -> list[str]:
    return explain(view_of(sql, [T0, T1], more.pop("options", None)).compiled, **more)


def test_tree_names_operators_expressions_and_relations() -> None:
    lines = lines_of("SELECT k, count(*) AS n FROM t0 WHERE v > 3 GROUP BY k")
    text = "\n".join(lines)
    assert lines[0] == "Maintenance: incremental"
    assert "Aggregate: by k: count(*)  (incremental)" in text
    assert "Source t0" in text
    assert "v > 3" in text
    assert "freed when a group's last row goes" in text


@pytest.mark.parametrize(("call", "kept"), [
    ("sum(v)", ""),
    ("count(DISTINCT v)", ", its distinct values"),
    ("min(v)", ", its values in order"),
    ("max(s)", ", its values in order"),
    ("approx_count_distinct(v)", ", its distinct values"),
    ("count(DISTINCT v), min(v), median(v)", ", its distinct values, its values in order"),
    ("sum(v::DOUBLE PRECISION), var_pop(v)", ", exact sums"),
    ("array_agg(v ORDER BY s)", ", its rows in order"),
])  # fmt: skip
def test_aggregates_tell_what_they_keep_beside_the_groups(call: str, kept: str) -> None:
    view = view_of(f"SELECT k, {call} FROM t0 GROUP BY k", [T0, T1]).compiled
    (state,) = [
        said["state"] for o in view.operators if "key for every group" in str(said := o.explain())
    ]
    assert state.partition("and the key for every group")[2] == kept


def test_accumulators_that_hold_more_than_cells_say_what() -> None:
    classes = [Accumulator]
    for found in classes:
        classes += found.__subclasses__()
    beside = [c for c in classes if c.side_rows is not Accumulator.side_rows]
    assert {"Sorted", "OrderedWord", "ExactReal"} <= {c.__name__ for c in beside}
    assert [c.__name__ for c in beside if not c.keeps] == []


def test_recompute_says_why() -> None:
    text = "\n".join(lines_of("SELECT k, string_agg(s, ',') OVER (PARTITION BY k) FROM t0"))
    assert text.startswith("Maintenance: recompute per key")
    assert "why: by the PARTITION BY columns; string_agg() has no incremental form" in text
    whole = "\n".join(lines_of("SELECT string_agg(s, ',') OVER () FROM t0"))
    assert whole.startswith("Maintenance: recompute\n")


def test_shared_node_is_told_once() -> None:
    lines = lines_of("SELECT * FROM t1 FULL JOIN t1 x ON t1.k = x.w")
    assert any(line.endswith("(see above)") for line in lines)


def test_on_close_is_told() -> None:
    sql = (
        "SELECT window_start, count(*) FROM TUMBLE(t0, ts, INTERVAL '1 minute') "
        "GROUP BY window_start, window_end"
    )
    lines = lines_of(sql, options=Options(on_close=True))
    assert lines[1] == "Emit: on window close"
    assert any("freed when the watermark closes" in line for line in lines)


def test_verbose_and_analyze_add_state_and_counters() -> None:
    view = view_of("SELECT k, count(*) FROM t1 GROUP BY k", [T0, T1])
    view.step([(1, (1, 2), 1), (1, (1, 3), 1)])
    text = "\n".join(explain(view.compiled, analyze=True, verbose=True))
    assert "2 rows in, 1 out" in text
    assert "holds 1 rows" in text
    assert "label: aggregate-" in text


def test_analyze_tells_state_of_what_keeps_some_and_every_watermark() -> None:
    view = view_of("SELECT k, count(*) FROM t1 GROUP BY k", [T0, T1])
    view.step([(1, (1, 2), 1), (1, (1, 3), 1)])
    lines = [line.strip(" │└─├") for line in explain(view.compiled, analyze=True)]
    assert sum(line.startswith("holds 1 rows, ") for line in lines) == 1
    assert not any(line.startswith("holds 0 rows") for line in lines)
    operators = sum("  (incremental)  #" in line or line.startswith("Source") for line in lines)
    assert sum(line.startswith("watermark: ") for line in lines) == operators > 1
    assert not any(line.startswith(("columns: ", "label: ")) for line in lines)


@pytest.mark.parametrize(("sql", "line"), [
    ("SELECT k, sum(v) FROM t0 GROUP BY k", "how: in two phases: a large tick's rows among"),
    ("SELECT count(*) FROM t0", "how: a tick's rows among themselves, then into the one row"),
    ("SELECT window_start, count(*) FROM HOP(t0, ts, INTERVAL '10 seconds', INTERVAL '1 minute') "
     "GROUP BY window_start", "how: each row once into its pane of 00:00:10, then the panes into"),
    ("SELECT k, s, count(*) FROM t0 GROUP BY ROLLUP (k, s)", "how: each row once into a tick's finest"),
])  # fmt: skip
def test_verbose_says_how_a_tick_is_added_up(sql: str, line: str) -> None:
    assert any(line in told for told in lines_of(sql, verbose=True))
    assert not any("how:" in told for told in lines_of(sql))


def test_verbose_says_what_grows_only_and_what_is_shared() -> None:
    with streamsql.connect() as db:
        db.execute("CREATE TABLE e (k INT, v INT) APPEND ONLY; CREATE TABLE t (k INT, w INT)")

        def told(query: str) -> list[str]:
            sql = f"EXPLAIN (VERBOSE) CREATE MATERIALIZED VIEW x AS {query}"
            return [row[0] for row in db.execute(sql).fetchall()]

        def grows(query: str) -> int:
            return sum("append only:" in line for line in told(query))

        union = "SELECT k, v FROM e UNION ALL SELECT v, k FROM e"
        assert grows(f"SELECT DISTINCT k FROM ({union}) q WHERE v > 1") >= 4
        assert grows("SELECT e.k, f.v, unnest(ARRAY[1, f.v]) FROM e JOIN e f ON e.k = f.k") >= 5
        assert grows("SELECT * FROM e WHERE EXISTS (SELECT 1 FROM e f WHERE f.k = e.v)") >= 2
        assert grows("SELECT k, w FROM t") == 0
        assert not any(
            "shared:" in line for line in told("SELECT e.v, w FROM e JOIN t ON e.k = t.k")
        )
        db.execute("CREATE MATERIALIZED VIEW one AS SELECT e.v, w FROM e JOIN t ON e.k = t.k")
        shared = [
            line
            for line in told("SELECT e.v + 1, w FROM e JOIN t ON e.k = t.k")
            if "shared:" in line
        ]
        assert any("1 operator of other views read it too" in line for line in shared)


def test_verbose_claims_no_state_for_retractions_only_where_none_come_in() -> None:
    given = "append only: no row that it gives is ever taken back"
    kept = "rows come in and never go, so that nothing is kept for retractions"
    sql = (
        "EXPLAIN (VERBOSE) CREATE MATERIALIZED VIEW x AS SELECT window_start, max(v) FROM "
        "TUMBLE({}, at, INTERVAL '1 minute') GROUP BY window_start {}"
    )

    def of_aggregate(table: str, emit: str) -> list[str]:
        told = [row[0] for row in db.execute(sql.format(table, emit)).fetchall()]
        end = next(i for i, line in enumerate(told) if "└─" in line)
        assert any("ggregate: " in line for line in told[:end])
        return [line.strip(" │") for line in told[:end]]

    with streamsql.connect() as db:
        for name, only in (("e", "APPEND ONLY"), ("t", "")):
            db.execute(f"CREATE TABLE {name} (v INT, at TIMESTAMP, WATERMARK FOR at AS at) {only}")
        changing = of_aggregate("t", "EMIT ON WINDOW CLOSE")
        assert any("its values in order" in line for line in changing)
        assert given in changing
        assert kept not in changing
        growing = of_aggregate("e", "EMIT ON WINDOW CLOSE")
        assert not any("its values in order" in line for line in growing)
        assert given in growing
        assert kept in growing
        assert given not in of_aggregate("e", "")
        assert kept in of_aggregate("e", "")
        assert not {given, kept} & set(of_aggregate("t", ""))


def test_json_nests_and_dot_has_an_edge_for_every_input() -> None:
    compiled = view_of("SELECT t0.k FROM t0 JOIN t1 ON t0.k = t1.k", [T0, T1]).compiled
    (text,) = explain(compiled, format="json")
    tree = json.loads(text)
    assert tree["operator"] == "Join" and len(tree["inputs"]) == 2
    dot = explain(compiled, format="dot")
    edges = sum(len(node.inputs) for node in compiled.nodes)
    assert sum("->" in line and "label" not in line for line in dot) == edges


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (-(2**63), "not moved yet"),
        (2**63 - 1, "none (never holds anything back)"),
        (1_500_000, "1970-01-01 00:00:01.5"),
    ],
)
def test_watermarks_are_written_for_people(us: int, text: str) -> None:
    assert watermark_text(us) == text
    assert size_text(0) == "0 bytes" and size_text(5 << 20) == "5.0 MB"


def test_view_over_a_view_reads_its_output_and_starts_from_its_rows() -> None:
    from streamsql.circuit.graph import Circuit

    circuit = Circuit()
    source = add_source(circuit, 0, T1.schema)
    first = compile_view(
        plan_of("SELECT k, count(*) FROM t0 GROUP BY k", [T1]), circuit, {0: source}
    )
    first.start(Step(0, 0), {source: Delta.empty(T1.schema)})
    view = view_of("SELECT k FROM t0", [T1])
    rows = view.source_delta(0, [(0, (1, 2), 1), (0, (1, 3), 1)])
    changed = circuit.step(Step(1, 0), {source: rows})[first.output]
    inner = Table(first.schema)
    second = compile_view(
        plan_of("SELECT count_star + 1 FROM t0", [inner])
        if "count_star" in inner.schema.names
        else plan_of(f"SELECT {inner.schema.names[1]} + 1 FROM t0", [inner]),
        circuit,
        {0: first.output},
    )
    start = second.start(Step(2, 0), {first.output: changed})
    assert start.batch.to_pylist() == [{"c0": 3}]
    assert second.drop() and first.output in circuit.nodes


def test_failed_compilation_leaves_the_circuit_as_it_was() -> None:
    from streamsql.circuit.graph import Circuit
    from streamsql.core.errors import FeatureNotSupported

    circuit = Circuit()
    source = add_source(circuit, 0, T1.schema)
    with pytest.raises(FeatureNotSupported):
        compile_view(
            plan_of("SELECT k, count(*) FROM t0 GROUP BY k", [T1]),
            circuit, {0: source}, Options(on_close=True),
        )  # fmt: skip
    assert list(circuit.nodes) == [source]
