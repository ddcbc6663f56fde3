"""Joins by any condition: inner, outer, [NOT] EXISTS, by range, by key and by trying all pairs."""

from __future__ import annotations

import datetime as dt
import decimal

import pytest

from streamsql.core.schema import Schema
from streamsql.core.types import (
    BIGINT,
    DATE,
    INTEGER,
    SMALLINT,
    TEXT,
    TIMESTAMP,
    SqlType,
    numeric,
)
from streamsql.operators import Options, join_rows, pair_search
from streamsql.operators.pair_search import blocks, plus
from streamsql.operators.span_search import earliest, length_class
from streamsql.runtime.explain import explain
from tests.operators.harness import Table, check_sql, view_of

A = Table(
    Schema.of(("k", INTEGER), ("v", INTEGER), ("s", TEXT)),
    [[None, 1, 2, 3], [None, 1, 2, -5], [None, "a", "b", "zz"]],
)
B = Table(
    Schema.of(("k", INTEGER), ("w", INTEGER), ("u", TEXT)),
    [[None, 1, 2, 3], [None, 1, 2, -5], [None, "a", "b", "zz"]],
)
LEFT = Table(Schema.of(("k", INTEGER), ("v", INTEGER)))
RIGHT = Table(Schema.of(("k", INTEGER), ("w", INTEGER)))

CONDITIONS = {
    "range": "v < w",
    "key and range": "t0.k = t1.k AND v < w",
    "two ranges": "v < w AND t0.k >= t1.k",
    "expressions": "v + 1 <= w * 2",
    "band": "w BETWEEN v - 2 AND v + 2",
    "key and band": "v BETWEEN w - 2 AND w + 2 AND t0.s = t1.u",
    "null-safe key": "t0.k IS NOT DISTINCT FROM t1.k AND v <> w",
    "unequal": "v <> w",
    "all": "true",
    "text": "s < u",
    "key and text": "t0.k = t1.k AND s || u LIKE 'a%'",
    "one side": "v < 2",
    "either": "t0.k = t1.k OR v = w",
    "span": "v BETWEEN t1.k AND t1.w",
    "key and span": "t0.s = t1.u AND v + 1 >= t1.k AND v < t1.w",
    "overlap": "t0.k <= t1.w AND t0.v >= t1.k",
}
HOW = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "EXISTS", "NOT EXISTS")


def query(how: str, condition: str) -> str:
    if "EXISTS" in how:
        return f"SELECT * FROM t0 WHERE {how} (SELECT 1 FROM t1 WHERE {condition})"
    return f"SELECT * FROM t0 {how} t1 ON {condition}"


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", CONDITIONS)
def test_condition_join_equals_batch_at_every_tick(
    name: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair_search, "PAIRS_MAX", 5)
    monkeypatch.setattr(join_rows, "PAIRS_MAX", 5)
    check_sql(query(how, CONDITIONS[name]), [A, B], len(name), ticks=4, most=9)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", ["range", "key and range", "band", "unequal", "either"])
def test_condition_join_is_incremental(name: str, how: str) -> None:
    view = view_of(query(how, CONDITIONS[name]), [A, B])
    assert view.compiled.maintenance == "incremental"


def test_lonely_rows_come_and_go_with_their_matches() -> None:
    view = view_of("SELECT v, w FROM t0 FULL JOIN t1 ON t0.k = t1.k AND v < w", [LEFT, RIGHT])
    view.at("""t0 + 1 5
               t0 + 1 5""").gives("""+ 5 NULL
                                     + 5 NULL""")
    view.at("t1 + 1 4").gives("+ NULL 4")
    view.at("t1 + 1 9").gives("""- 5 NULL
                                 - 5 NULL
                                 + 5 9
                                 + 5 9""")
    view.at("t0 - 1 5").gives("- 5 9")
    view.at("""t0 - 1 5
               t1 - 1 4""").gives("""- 5 9
                                     + NULL 9
                                     - NULL 4""")
    view.at("t1 - 1 9").gives("- NULL 9")
    assert not view.held()


def test_both_sides_in_one_tick_give_no_passing_entries() -> None:
    view = view_of("SELECT v, w FROM t0 FULL JOIN t1 ON v < w", [LEFT, RIGHT])
    change = view.at("""t0 + 1 5
                        t1 + 1 9""")
    change.gives("+ 5 9")
    assert change.delta.num_rows == 1


def test_pair_that_the_condition_fails_on_is_told_until_it_is_gone() -> None:
    view = view_of("SELECT v, w FROM t0 LEFT JOIN t1 ON 10 / (v - w) > 2", [LEFT, RIGHT])
    view.at("""t0 + 1 5
               t1 + 1 5
               t1 + 1 4""").gives("+ 5 4")
    assert [(e.sqlstate, e.weight) for e in view.errors] == [("22012", 1)]
    view.at("t1 - 1 5").gives("")
    assert sum(e.weight for e in view.errors) == 0


@pytest.mark.parametrize(
    ("type_", "condition"),
    [
        (BIGINT, "t0.x > t1.x - 4611686018427387904"),
        (BIGINT, "t0.x <= t1.x"),
        (numeric(12, 2), "t0.x < t1.x + 1"),
        (TIMESTAMP, "t0.x BETWEEN t1.x - INTERVAL '5 seconds' AND t1.x + INTERVAL '3 seconds'"),
        (TIMESTAMP, "t0.x + INTERVAL '1 month' > t1.x"),
        (TEXT, "t0.x >= t1.x"),
    ],
)
@pytest.mark.parametrize("how", ["JOIN", "FULL JOIN"])
def test_ranges_over_any_type(type_: object, condition: str, how: str) -> None:
    values: list[object] = [None, 1, -7, 2**62, 3]
    if type_ is TEXT:
        values = [None, "", "a", "abcdefghij", "abcdefghik"]
    elif type_ is TIMESTAMP:
        values = [None, *(dt.datetime(2024, 1, 31, 0, 0, 2 * i) for i in range(5))]
    elif type_ is not BIGINT:
        values = [None, *(decimal.Decimal(f"{i}.5") for i in range(4))]
    tables = [Table(Schema.of(("x", type_), ("y", INTEGER)), [values, [1, 2]])] * 2
    options = Options(on_error="null")
    check_sql(f"SELECT * FROM t0 {how} t1 ON {condition}", tables, 4, options=options)


def test_cost_follows_the_range_that_is_asked_for() -> None:
    sql = "SELECT v, w FROM t0 LEFT JOIN t1 ON w BETWEEN v - 1 AND v + 1"
    view = view_of(sql, [LEFT, RIGHT])
    view.step([(0, (1, i), 1) for i in range(5000)])
    tried: list[int] = []
    join = next(n.operator for n in view.compiled.nodes if n.operator.name == "LeftJoin")
    for side in join.sides:
        original = side.candidates
        side.candidates = lambda *a, f=original: (tried.append(p[0].size) or p for p in f(*a))
    assert view.step([(1, (1, 70), 1)]).num_rows == 6
    assert view.step([(0, (1, 71), 1)]).num_rows == 1
    assert sum(tried) == 4


EDGE = [-(2**63), -(2**63) + 1, -(2**62), -3, 0, 1, 5, 2**40, 2**62, 2**63 - 2, 2**63 - 1]


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (BIGINT, EDGE),
        (SMALLINT, [-32768, -7, 0, 1, 300, 32767]),
        (numeric(18, 3), [decimal.Decimal(n) / 1000 for n in (-(10**17), -1, 0, 1, 2500, 10**17)]),
        (
            DATE,
            [dt.date(1900, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 2), dt.date(2400, 2, 29)],
        ),
        (TIMESTAMP, [dt.datetime(1, 1, 1), dt.datetime(1970, 1, 1), dt.datetime(2024, 3, 31, 1)]),
    ],
)
@pytest.mark.parametrize(
    "condition", ["t0.x BETWEEN t1.x AND t1.y", "t0.x < t1.y AND t0.y >= t1.x"]
)
def test_spans_of_any_type_and_length(type_: SqlType, values: list[object], condition: str) -> None:
    schema = Schema.of(("x", type_), ("y", type_))
    tables = [Table(schema, [[None, *values], [None, *values]])] * 2
    check_sql(f"SELECT * FROM t0 FULL JOIN t1 ON {condition}", tables, 4, ticks=4)


def test_cost_follows_the_spans_that_hold_a_point() -> None:
    spans = Table(Schema.of(("low", INTEGER), ("high", INTEGER)))
    view = view_of("SELECT v, low FROM t0 LEFT JOIN t1 ON v BETWEEN low AND high", [LEFT, spans])
    rows = [(i, i + (10 if i % 100 else 50_000)) for i in range(5000)]
    view.step([(1, row, 1) for row in rows])
    join = next(n.operator for n in view.compiled.nodes if n.operator.name == "LeftJoin")
    assert "low to high" in join.explain()["state"]
    tried: list[int] = []
    original = join.sides[1].candidates
    join.sides[1].candidates = lambda *a: (tried.append(p[0].size) or p for p in original(*a))
    found = sum(low <= 4000 <= high for low, high in rows)
    assert view.step([(0, (1, 4000), 1)]).num_rows == found
    assert sum(tried) <= 2 * found + 20
    view.step([(1, row, -1) for row in rows])
    assert not join.sides[1].lengths.any()


def test_length_classes_count_bits() -> None:
    import numpy as np

    top, bottom = 2**63 - 1, -(2**63)
    low = np.array([0, 0, 0, 0, 5, bottom, bottom, -1, 0])
    high = np.array([0, 1, 3, 4, 2, bottom, top, top, 2**40])
    assert length_class(low, high).tolist() == [0, 1, 2, 3, 0, 0, 63, 63, 41]
    for bits in range(64):
        ends = np.array([bottom, 0, top])
        assert (earliest(ends, bits) <= ends).all()
    assert earliest(np.array([bottom + 2, 9]), 2).tolist() == [bottom, 6]


def test_pairs_come_in_bounded_blocks() -> None:
    import numpy as np

    start, end = np.array([0, 5, 0]), np.array([3, 5, 200_000])
    found = list(blocks(start, end))
    assert max(p.size for p, _ in found) <= pair_search.PAIRS_MAX
    position, place = (np.concatenate(parts) for parts in zip(*found, strict=True))
    assert position.tolist() == [0] * 3 + [2] * 200_000
    assert place.tolist() == [*range(3), *range(200_000)]
    ends = np.array([2**63 - 1, -(2**63) + 1, 2**63 - 2, 5])
    assert plus(ends, 10).tolist() == [2**63 - 1, -(2**63) + 1, 2**63 - 1, 15]


def test_explain_says_how_rows_are_found() -> None:
    def text(sql: str) -> str:
        return "\n".join(explain(view_of(sql, [LEFT, RIGHT]).compiled))

    assert "keeps the rows of both sides, in the order of v and w" in text(
        "SELECT v, w FROM t0 LEFT JOIN t1 ON v < w"
    )
    assert "keeps the rows of both sides, all of which are tried" in text(
        "SELECT v, w FROM t0 LEFT JOIN t1 ON v <> w"
    )
    keyed = text("SELECT v, w FROM t0 LEFT JOIN t1 ON t0.k = t1.k AND v <> w")
    assert "keeps the rows of both sides, by their keys" in keyed
    assert "LeftJoin: k = k and v <> w" in keyed


def test_window_join_with_a_condition_frees_rows_of_closed_windows() -> None:
    timed = Table(
        Schema.of(("ts", TIMESTAMP), ("k", INTEGER), ("v", INTEGER)),
        append_only=True, watermark_column=0, watermark_delay_us=5_000_000,
    )  # fmt: skip
    window = "TUMBLE({}, ts, INTERVAL '10 seconds')"
    base = dt.datetime(2024, 6, 1)
    for how in ("LEFT JOIN", "FULL JOIN"):
        sql = (
            f"SELECT a.window_end, a.k, b.v FROM {window.format('t0')} a {how} "
            f"{window.format('t1')} b ON a.window_end = b.window_end AND a.k = b.k AND a.v < b.v"
        )
        view = view_of(sql, [timed, timed])
        for i in range(50):
            rows = [(base + dt.timedelta(seconds=10 * i + j % 9), j, 1) for j in range(50)]
            view.step([(r, (t, k, r), 1) for t, k, _ in rows for r in (0, 1)])
        assert sum(view.output.values()) == 2500
        assert view.state_rows() < 2100
