"""The plans that the rules make: which nodes remain, and what they are called."""

from __future__ import annotations

import random

import pytest

from streamsql.core.types import INTEGER
from streamsql.plan.binder import RelationInfo
from streamsql.plan.explain import tree
from streamsql.plan.nodes import Join, Scan
from streamsql.plan.optimizer import optimize
from streamsql.plan.visit import walk_plan
from tests.plan.support import bind, context, parse, relation, resolve


def plan_of(sql: str) -> str:
    """The optimized plan's tree as text."""
    return "\n".join(tree(optimize(bind(sql).plan)))


PLANS: tuple[tuple[str, str], ...] = (
    (
        "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.c > t.g)",
        """\
Project a
└─ SEMI JOIN ON u.a = t.a AND c > g::bigint
   ├─ Project a, g
   │  └─ Scan t [a, b, v, g]
   └─ Project a, c
      └─ Scan u [a, c, b]""",
    ),
    (
        "SELECT a FROM t WHERE a NOT IN (SELECT a FROM u WHERE u.b = t.b) AND g > 1",
        """\
Project a
└─ ANTI JOIN ON t.a = u.a AND (u.b = t.b) IS TRUE (NULL-aware)
   ├─ Project a, b
   │  └─ Filter g > 1
   │     └─ Project a, b, g
   │        └─ Scan t [a, b, v, g]
   └─ Project a, b
      └─ Scan u [a, c, b]""",
    ),
    (
        "SELECT a, (SELECT count(*) + 1 FROM u WHERE u.a = t.a) FROM t",
        """\
Project a, coalesce(count, 0) + 1
└─ LEFT JOIN ON t.a = u.a
   ├─ Project a
   │  └─ Scan t [a, b, v, g]
   └─ Aggregate BY a: count(*)
      └─ Project a
         └─ Scan u [a, c, b]""",
    ),
    (
        "SELECT a, (SELECT name FROM k WHERE k.id = t.a) FROM t",
        """\
Project a, name
└─ LEFT JOIN ON id = a
   ├─ Project a
   │  └─ Scan t [a, b, v, g]
   └─ Project name, id
      └─ Scan k [id, name, ref]""",
    ),
    (
        "SELECT a FROM t WHERE a > (SELECT min(a) FROM u)",
        """\
Project a
└─ INNER JOIN ON a > min
   ├─ Project a
   │  └─ Scan t [a, b, v, g]
   └─ Aggregate: min(a)
      └─ Project a
         └─ Scan u [a, c, b]""",
    ),
    (
        "SELECT t.a FROM t, k, u WHERE t.a = u.a AND u.c = k.id AND k.name = 'x'",
        """\
Project a
└─ INNER JOIN ON t.a = u.a
   ├─ Project a
   │  └─ INNER JOIN ON c = id::bigint
   │     ├─ Project a, c
   │     │  └─ Scan u [a, c, b]
   │     └─ Project id
   │        └─ Filter name = 'x'
   │           └─ Project id, name
   │              └─ Scan k [id, name, ref]
   └─ Project a
      └─ Scan t [a, b, v, g]""",
    ),
    (
        "SELECT t.a FROM t LEFT JOIN u ON t.a = u.a WHERE u.c > 1",
        """\
Project a
└─ INNER JOIN ON t.a = u.a
   ├─ Project a
   │  └─ Scan t [a, b, v, g]
   └─ Project a
      └─ Filter c > 1::bigint
         └─ Project a, c
            └─ Scan u [a, c, b]""",
    ),
    (
        "SELECT x FROM (SELECT a AS x FROM t UNION ALL SELECT a FROM u) q WHERE x = 2",
        """\
Union all
├─ Filter a = 2
│  └─ Project a
│     └─ Scan t [a, b, v, g]
└─ Filter a = 2
   └─ Project a
      └─ Scan u [a, c, b]""",
    ),
    (
        "SELECT window_start, sum(x) FROM TUMBLE(ev, ts, INTERVAL '1 minute') "
        "WHERE g = 1 AND window_start > '2024-01-01' GROUP BY window_start",
        """\
Aggregate BY window_start: sum(x)
└─ Filter window_start > timestamp '2024-01-01 00:00:00'
   └─ Tumble window on ts, size 00:01:00
      └─ Filter g = 1
         └─ Scan ev [ts, g, x] append only watermark ts""",
    ),
    (
        "SELECT g, x FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY x DESC) AS rn FROM ev) "
        "q WHERE rn <= 2 AND g > 0",
        """\
Project g, x
└─ Filter row_number <= 2
   └─ Window row_number() OVER (PARTITION BY g ORDER BY x DESC)
      └─ Filter g > 0
         └─ Project g, x
            └─ Scan ev [ts, g, x] append only watermark ts""",
    ),
    (
        "SELECT a FROM t WHERE 1 = 2 OR (true AND b = 'x' AND NOT (g = 1))",
        """\
Project a
└─ Filter b = 'x' AND g <> 1
   └─ Project a, b, g
      └─ Scan t [a, b, v, g]""",
    ),
    ("SELECT a FROM t WHERE g = 1 AND false", "Values: no rows"),
    (
        "SELECT count(*) FROM t",
        """\
Aggregate: count(*)
└─ Project a
   └─ Scan t [a, b, v, g]""",
    ),
)


@pytest.mark.parametrize(("sql", "text"), PLANS)
def test_plan(sql: str, text: str) -> None:
    def loose(plan: str) -> list[str]:
        # literals may or may not be widened already, a matter of the function room
        return [line.replace("1::bigint", "1") for line in plan.splitlines()]

    assert loose(plan_of(sql)) == loose(text)


def test_conditions_that_can_fail_stay_where_they_decide_over_the_same_rows() -> None:
    text = plan_of("SELECT t.a FROM t JOIN u ON t.a = u.a WHERE 1 / t.g > 0 AND u.c > 5")
    lines = text.splitlines()
    join = next(line for line in lines if "JOIN" in line)
    assert "1 / t.g > 0" in join or "1 / g > 0" in join
    assert any("Filter c > 5" in line for line in lines)


def test_failing_filter_is_not_pushed_below_what_guards_it() -> None:
    text = plan_of("SELECT * FROM (SELECT a, g FROM t WHERE g <> 0) q WHERE 1 / g > 0")
    assert "Filter g <> 0 AND 1 / g > 0" in text


def test_subquery_that_may_give_two_rows_stays_an_expression() -> None:
    assert "subquery:" in plan_of("SELECT (SELECT a FROM u) FROM t")
    assert "subquery:" in plan_of("SELECT (SELECT c FROM u WHERE u.a = t.a) FROM t")


def test_joins_are_connected_before_they_are_crossed() -> None:
    sql = "SELECT 1 FROM t x, t y, t z, u WHERE u.a = x.a AND y.a = u.a AND z.g = y.g"
    joins = [n for n in walk_plan(optimize(bind(sql).plan)) if isinstance(n, Join)]
    assert [j.kind for j in joins] == ["inner"] * 3


def test_unused_columns_of_wide_tables_end_at_the_scan() -> None:
    wide = relation(60, "wide", *((f"c{i}", resolve(("t",)).schema[0].type) for i in range(50)))  # type: ignore[union-attr]
    find = lambda name: wide if name[-1] == "wide" else resolve(name)  # noqa: E731
    bound = bind("SELECT c7, count(*) FROM wide WHERE c9 > 1 GROUP BY c7", resolve=find)
    plan = optimize(bound.plan)
    widths = [len(n.schema) for n in walk_plan(plan) if not isinstance(n, Scan)]
    assert max(widths) == 2
    assert context(resolve=find).resolve(("wide",)) is wide
    assert parse("SELECT 1")


def test_optimizing_twice_changes_nothing_more() -> None:
    for sql, _ in PLANS:
        once = optimize(bind(sql).plan)
        assert tree(optimize(once)) == tree(once)


def joins_of(sql: str) -> list[str]:
    return [line.strip(" │├└─") for line in plan_of(sql).splitlines() if "JOIN" in line]


def test_computed_keys_connect_inputs_too() -> None:
    sql = "SELECT 1 FROM t x, k, u WHERE x.a + 1 = u.a AND k.id - 1 = u.a"
    assert not any("CROSS" in line for line in joins_of(sql))


def test_inputs_that_nothing_connects_are_crossed_last() -> None:
    sql = "SELECT 1 FROM t x, t y, u WHERE y.a = u.a"
    assert [line.split()[0] for line in joins_of(sql)] == ["CROSS", "INNER"]


def filters_of(sql: str) -> list[str]:
    return [line.strip(" │├└─") for line in plan_of(sql).splitlines() if "Filter" in line]


def test_a_constant_goes_through_equalities_to_every_input() -> None:
    for join in ("JOIN", "LEFT JOIN"):
        sql = f"SELECT t.g, u.c FROM t {join} u ON t.a = u.a WHERE t.a = 7"
        assert filters_of(sql) == ["Filter a = 7", "Filter a = 7"]
    sql = "SELECT x.g FROM t x, t y, u WHERE x.a = y.a AND y.a = u.a AND u.a > 2"
    assert filters_of(sql) == ["Filter a > 2"] * 3
    sql = "SELECT a FROM t WHERE a = 1 AND NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a)"
    assert filters_of(sql) == ["Filter a = 1", "Filter a = 1"]


def test_a_constant_does_not_reach_rows_that_an_outer_join_fills_with_null() -> None:
    sql = (
        "SELECT q.x FROM t JOIN (SELECT k.id AS x, u.a AS y FROM k LEFT JOIN u ON u.a = k.id) q "
        "ON q.x = t.a WHERE t.a = 1"
    )
    assert "LEFT JOIN" in plan_of(sql)
    assert filters_of("SELECT t.a FROM t LEFT JOIN u ON t.a = u.a AND t.a = 1") == []
    assert filters_of("SELECT t.a FROM t LEFT JOIN k ON t.a = k.id WHERE k.id IS NULL") == [
        "Filter id IS NULL"
    ]


def test_a_merged_key_of_a_full_join_is_tested_on_both_sides() -> None:
    sql = "SELECT a, t.g, u.c FROM t FULL JOIN u USING (a) WHERE a > 1"
    assert filters_of(sql) == ["Filter a > 1", "Filter a > 1"]
    sql = "SELECT t.g, u.c FROM t FULL JOIN u ON t.a = u.a WHERE coalesce(t.g, u.a) > 1"
    assert filters_of(sql)[0].startswith("Filter coalesce")


def test_what_all_branches_of_or_share_becomes_the_key_of_a_join() -> None:
    sql = (
        "SELECT t.g FROM t, u WHERE (t.a = u.a AND t.b = 'x' AND u.c > 3) "
        "OR (u.a = t.a AND t.b = 'y' AND u.c > 5) OR (t.a = u.a AND t.b = 'z' AND u.c > 7)"
    )
    (join,) = joins_of(
        "SELECT t.g FROM t, u WHERE (t.a = u.a AND t.b = 'x') OR (t.a = u.a AND u.c > 9)"
    )
    assert join == "INNER JOIN ON t.a = u.a AND (b = 'x' OR c > 9)"
    assert "Filter b = 'x' OR b = 'y' OR b = 'z'" in plan_of(sql)


def test_what_an_or_says_of_each_input_is_tested_before_the_join() -> None:
    sql = (
        "SELECT t.g FROM t JOIN u ON t.a = u.a "
        "WHERE (t.b = 'x' AND u.c > 3) OR (t.b = 'y' AND u.c > 5)"
    )
    assert filters_of(sql) == ["Filter b = 'x' OR b = 'y'", "Filter c > 3 OR c > 5"]
    assert filters_of("SELECT 1 FROM t, u WHERE t.b = 'x' OR u.c = 3") == []


@pytest.mark.parametrize(
    "where",
    [
        "a > 3 AND a < 2", "a = 1 AND a = 2", "a = 1 AND a <> 1", "a IN (1, 2) AND a IN (3, 4)",
        "a IS NULL AND a = 3", "g = 1 AND g > 1", "a = NULL", "a > 2 AND a <= 2",
        "v = 1.50 AND v = 2.5", "a IN (1, 2) AND a > 2", "id IS NULL", "a IS NULL AND a IS NOT NULL",
    ],
)  # fmt: skip
def test_a_contradiction_gives_no_rows(where: str) -> None:
    table = "k" if where.startswith("id") else "t"
    assert plan_of(f"SELECT 1 AS x FROM {table} WHERE {where}") == "Values: no rows"
    condition = where.replace("id", "k.id") if table == "k" else where.replace("a ", "t.a ")
    joined = plan_of(f"SELECT 1 AS x FROM {table} LEFT JOIN u ON u.c = 1 AND {condition}")
    assert "JOIN" not in joined and "Scan u" not in joined


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("a > 3 AND a > 5 AND a >= 5", "a > 5"),
        ("a IN (1, 2) AND a = 1", "a = 1"),
        ("a IN (5, 5, 6, NULL)", "a IN (5, 6)"),
        ("a IS NOT NULL AND a < 3", "a < 3"),
        ("a >= 1 AND 10 / a > 2 AND a > 2", "a > 2 AND 10 / a > 2"),
        ("NOT (a > 3 OR a IS NULL)", "a <= 3"),
        ("a = 1 OR a = 1 AND g = 2", "a = 1"),
        ("1 / a > 3 OR 1 / a > 3 AND g = 2", "1 / a > 3 OR 1 / a > 3 AND g = 2"),
    ],
)
def test_comparisons_say_together(where: str, kept: str) -> None:
    assert filters_of(f"SELECT b FROM t WHERE {where}") == [f"Filter {kept}"]


def test_a_key_of_every_grouping_set_is_tested_before_the_groups() -> None:
    grouped = "SELECT a, g, sum(v) AS s FROM t GROUP BY GROUPING SETS ((a, g), (a))"
    kept = filters_of(f"SELECT * FROM ({grouped}) q WHERE a = 2 AND g > 1")
    assert kept == ["Filter g > 1", "Filter a = 2"]
    rolled = "SELECT a, count(*) AS n FROM t GROUP BY ROLLUP (a)"
    lines = plan_of(f"SELECT * FROM ({rolled}) q WHERE a = 2").splitlines()
    assert "Filter a = 2" in lines[1] and "Aggregate" in lines[2]


STAR = {
    "region": ("r_key", "r_name"), "nation": ("n_key", "n_region"),
    "customer": ("c_key", "c_nation"), "supplier": ("s_key", "s_nation"),
    "orders": ("o_key", "o_customer"), "line": ("l_order", "l_supplier"),
}  # fmt: skip


def star(name: tuple[str, ...]) -> RelationInfo | None:
    """Tables of orders and suppliers, each but `line` with a key of one column."""
    if name[-1] not in STAR:
        return None
    columns = [(c, INTEGER) for c in STAR[name[-1]]]
    key = None if name[-1] == "line" else (0,)
    return relation(70 + list(STAR).index(name[-1]), name[-1], *columns, key=key)


@pytest.mark.parametrize("seed", range(12))
def test_the_order_of_from_does_not_matter_where_keys_say_a_better_one(seed: int) -> None:
    tables = list(STAR)
    random.Random(seed).shuffle(tables)
    sql = (
        f"SELECT n_key, count(*) FROM {', '.join(tables)} WHERE c_key = o_customer "
        "AND l_order = o_key AND l_supplier = s_key AND c_nation = s_nation AND s_nation = n_key "
        "AND n_region = r_key AND r_name = 1 GROUP BY n_key"
    )
    plan = optimize(bind(sql, resolve=star).plan)
    joins = [n for n in walk_plan(plan) if isinstance(n, Join)]
    read = [[s.name for s in walk_plan(j) if isinstance(s, Scan)] for j in joins][::-1]
    # the filter on region reaches all others before the lines come, each by a key of one side;
    # customers and suppliers of a nation, many to many, never meet by that alone
    assert [sorted(r) for r in read[1:]] == [
        ["customer", "nation", "region"], ["customer", "nation", "orders", "region"],
        ["customer", "line", "nation", "orders", "region"],
        ["customer", "line", "nation", "orders", "region", "supplier"],
    ]  # fmt: skip


def test_two_inputs_that_equal_a_third_are_joined_by_what_follows() -> None:
    sql = "SELECT a.ref FROM t, k a, k b WHERE a.id = t.a AND t.a = b.id AND a.name = 'x'"
    joins = joins_of(sql)
    assert len(joins) == 2 and not any("CROSS" in j for j in joins)
