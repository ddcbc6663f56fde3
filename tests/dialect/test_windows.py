"""Time windows: every spelling ends in the same WindowTvf."""

from __future__ import annotations

import pytest
from sqlglot import exp

from streamsql.core.errors import FeatureNotSupported, InvalidDatetimeFormat, SqlSyntaxError
from streamsql.dialect import interval_parts, parse
from streamsql.dialect.generator import to_sql
from streamsql.dialect.nodes import WindowTvf
from streamsql.dialect.statements import Query, Subscribe

MINUTE = (0, 0, 60_000_000)


def window(sql: str) -> WindowTvf:
    (statement,) = parse(sql)
    assert isinstance(statement, (Query, Subscribe))
    assert statement.query is not None
    found = statement.query.find(WindowTvf)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "call",
    [
        "TUMBLE(t, c, INTERVAL '1' MINUTE)", "TUMBLE(t, c, INTERVAL '1 minute')", "TUMBLE(t, c, '1 minute')", "TUMBLE(t, c, '60'::interval)", "TUMBLE(t, c, INTERVAL 'PT1M')",
        "tumble(TABLE t, DESCRIPTOR(c), INTERVAL '1' MINUTE)", "TABLE(TUMBLE(TABLE t, DESCRIPTOR(c), INTERVAL '1' MINUTE))", "TABLE(TUMBLE(t, c, INTERVAL '1' MINUTES))",
        "TUMBLE(DATA => TABLE t, TIMECOL => DESCRIPTOR(c), SIZE => INTERVAL '1' MINUTE)", "TABLE(TUMBLE(SIZE => INTERVAL '1' MINUTE, DATA => t, TIMECOL => c))",
        "TUMBLE(t, c, size => INTERVAL '1' MINUTE)", "TUMBLE(TABLE(t), c, INTERVAL '1' MINUTE)",
    ],
)  # fmt: skip
def test_tumble_spelling_is_normalised(call: str) -> None:
    found = window(f"SELECT * FROM {call} AS w")
    assert found.kind == "tumble"
    assert isinstance(found.this, exp.Table)
    assert found.this.name == "t"
    assert found.args["time_column"].name == "c"
    assert interval_parts(found.args["size"]) == MINUTE
    assert found.alias == "w"


@pytest.mark.parametrize(
    "call",
    [
        "HOP(t, c, INTERVAL '10' SECOND, INTERVAL '1' MINUTE, INTERVAL '5' SECOND)", "HOP(TABLE t, DESCRIPTOR(c), INTERVAL '10' SECOND, INTERVAL '1' MINUTE, INTERVAL '5' SECOND)",
        "HOP(DATA => TABLE t, TIMECOL => DESCRIPTOR(c), SLIDE => INTERVAL '10' SECOND, SIZE => INTERVAL '1' MINUTE, OFFSET => INTERVAL '5' SECOND)",
    ],
)  # fmt: skip
def test_hop_spelling_is_normalised(call: str) -> None:
    found = window(f"SELECT * FROM {call}")
    assert found.kind == "hop"
    assert interval_parts(found.args["slide"]) == (0, 0, 10_000_000)
    assert interval_parts(found.args["size"]) == MINUTE
    assert interval_parts(found.args["offset"]) == (0, 0, 5_000_000)


def test_cumulate_takes_step_then_size() -> None:
    for call in ("CUMULATE(t, c, INTERVAL '1' MINUTE, INTERVAL '1' HOUR)",
                 "CUMULATE(DATA => TABLE t, TIMECOL => DESCRIPTOR(c), STEP => INTERVAL '1' MINUTE, SIZE => INTERVAL '1' HOUR)"):  # fmt: skip
        found = window(f"SELECT * FROM {call}")
        assert found.kind == "cumulate"
        assert interval_parts(found.args["slide"]) == MINUTE
        assert interval_parts(found.args["size"]) == (0, 0, 3_600_000_000)


@pytest.mark.parametrize(
    ("call", "keys"),
    [
        ("SESSION(t, c, INTERVAL '1' MINUTE)", []), ("SESSION(t PARTITION BY k, c, INTERVAL '1' MINUTE)", ["k"]), ("SESSION(t PARTITION BY k, l, c, INTERVAL '1' MINUTE)", ["k", "l"]),
        ("SESSION(t PARTITION BY (k, l), c, INTERVAL '1' MINUTE)", ["k", "l"]), ("SESSION(TABLE t PARTITION BY k, DESCRIPTOR(c), INTERVAL '1' MINUTE)", ["k"]),
        ("TABLE(SESSION(TABLE t PARTITION BY k, l, DESCRIPTOR(c), GAP => INTERVAL '1' MINUTE))", ["k", "l"]),
        ("SESSION(DATA => TABLE t PARTITION BY k, TIMECOL => DESCRIPTOR(c), GAP => INTERVAL '1' MINUTE)", ["k"]),
    ],
)  # fmt: skip
def test_session_spelling_is_normalised(call: str, keys: list[str]) -> None:
    found = window(f"SELECT * FROM {call}")
    assert found.kind == "session"
    assert [k.name for k in found.args.get("partition_by") or []] == keys
    assert found.args["time_column"].name == "c"
    assert interval_parts(found.args["size"]) == MINUTE


def test_session_max_and_zone_are_named_arguments() -> None:
    found = window(
        "SELECT * FROM SESSION(t, c, INTERVAL '1' MINUTE, max => INTERVAL '1 hour', tz => 'Europe/Paris')"
    )
    assert interval_parts(found.args["max"]) == (0, 0, 3_600_000_000)
    assert found.args["tz"].name == "Europe/Paris"


def test_window_size_may_be_calendar_months_and_offset_negative() -> None:
    found = window("SELECT * FROM TUMBLE(t, c, INTERVAL '1' MONTH, -INTERVAL '8' HOUR)")
    assert interval_parts(found.args["size"]) == (1, 0, 0)
    assert interval_parts(found.args["offset"]) == (0, 0, -8 * 3_600_000_000)
    other = window("SELECT * FROM TUMBLE(t, c, INTERVAL '1' DAY, INTERVAL '-8' HOUR)")
    assert interval_parts(other.args["offset"]) == (0, 0, -8 * 3_600_000_000)


def test_window_over_subquery_cte_and_other_window() -> None:
    found = window("SELECT * FROM TUMBLE((SELECT a, c FROM t WHERE a > 1), c, '1 minute') w (x, y)")
    assert isinstance(found.this, exp.Subquery)
    assert [c.name for c in found.args["alias"].columns] == ["x", "y"]
    nested = window(
        "WITH q AS (SELECT 1) SELECT * FROM HOP(TUMBLE(q, c, '1 minute'), window_time, '1 hour', '2 hours')"
    )
    assert nested.kind == "hop"
    assert isinstance(nested.this, WindowTvf)
    assert nested.this.this.name == "q"


def test_windows_join_like_other_relations() -> None:
    (statement,) = parse(
        "SELECT * FROM TUMBLE(a, t, '1 minute') x JOIN TABLE(TUMBLE(TABLE b, DESCRIPTOR(t), INTERVAL '1' MINUTE)) AS y"
        " ON x.k = y.k AND x.window_start = y.window_start, LATERAL (SELECT 1) l"
    )
    assert isinstance(statement, Query)
    assert len(list(statement.query.find_all(WindowTvf))) == 2


def test_old_group_by_tumble_becomes_a_window_in_from() -> None:
    (statement,) = parse(
        "SELECT k, TUMBLE_START(ts, INTERVAL '1' MINUTE) AS s, TUMBLE_END(ts, INTERVAL '1' MINUTE) AS e, TUMBLE_ROWTIME(ts, INTERVAL '1' MINUTE) r, count(*)"
        " FROM t GROUP BY k, TUMBLE(ts, INTERVAL '1' MINUTE) HAVING TUMBLE_END(ts, INTERVAL '1' MINUTE) > now() ORDER BY TUMBLE_START(ts, INTERVAL '1' MINUTE)"
    )
    assert isinstance(statement, Query)
    assert to_sql(statement.query) == (
        "SELECT k, window_start AS s, window_end AS e, window_time AS r, count(*) FROM TUMBLE(t, ts, INTERVAL '1' MINUTE) AS t"
        " GROUP BY k, window_start, window_end, window_time HAVING window_end > now() ORDER BY window_start ASC"
    )


def test_old_group_by_hop_and_session() -> None:
    hop = window(
        "SELECT HOP_START(c, INTERVAL '10' SECOND, INTERVAL '1' MINUTE) FROM t GROUP BY HOP(c, INTERVAL '10' SECOND, INTERVAL '1' MINUTE)"
    )
    assert (interval_parts(hop.args["slide"])[2], interval_parts(hop.args["size"])) == (
        10_000_000,
        MINUTE,
    )
    session = window(
        "SELECT x.k, SESSION_START(x.c, INTERVAL '1' MINUTE) FROM t x GROUP BY x.k, SESSION(x.c, INTERVAL '1' MINUTE)"
    )
    assert [k.name for k in session.args["partition_by"]] == ["k"]
    assert session.args["partition_by"][0].table == ""
    assert session.alias == "x"


def test_old_group_by_window_over_join_windows_the_relation_of_its_column() -> None:
    (statement,) = parse(
        "SELECT count(*) FROM a JOIN b AS y ON a.k = y.k GROUP BY TUMBLE(y.c, INTERVAL '1' MINUTE)"
    )
    assert isinstance(statement, Query)
    join = statement.query.args["joins"][0]
    assert isinstance(join.this, WindowTvf)
    assert join.this.this.name == "b"
    assert join.this.alias == "y"
    with pytest.raises(FeatureNotSupported):
        parse("SELECT count(*) FROM a, b GROUP BY TUMBLE(c, INTERVAL '1' MINUTE)")


@pytest.mark.parametrize(
    ("clause", "kind"),
    [("TUMBLING (SIZE 1 MINUTE)", "tumble"), ("HOPPING (SIZE 1 MINUTE, ADVANCE BY 10 SECONDS)", "hop"), ("SESSION (1 MINUTES)", "session")],
)  # fmt: skip
def test_ksql_window_clause_groups_by_window_and_uses_the_watermark_column(
    clause: str, kind: str
) -> None:
    (statement,) = parse(
        f"SELECT k, WINDOWSTART AS s, count(*) FROM orders WINDOW {clause} WHERE v > 1 GROUP BY k EMIT CHANGES"
    )
    assert isinstance(statement, Subscribe)
    assert statement.query is not None
    found = statement.query.find(WindowTvf)
    assert found is not None
    assert found.kind == kind
    assert found.args.get("time_column") is None
    assert interval_parts(found.args["size"]) == MINUTE
    keys = [e.name for e in statement.query.args["group"].expressions]
    assert keys == ["k", "window_start", "window_end"]
    assert statement.query.expressions[1].this.name == "window_start"


def test_plain_functions_named_like_windows_outside_from_stay_calls() -> None:
    (statement,) = parse("SELECT tumble(a) FROM tumble GROUP BY hop(a)")
    assert isinstance(statement, Query)
    assert statement.query.find(WindowTvf) is None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM TUMBLE(t, c)", "SELECT * FROM TUMBLE(t)", "SELECT * FROM TUMBLE()", "SELECT * FROM HOP(t, c, '1 minute')", "SELECT * FROM TUMBLE(t, c, '1 minute', '1 minute', '1 minute')",
        "SELECT * FROM TUMBLE(t, c + 1, '1 minute')", "SELECT * FROM TUMBLE(t, c, 5)", "SELECT * FROM TUMBLE(t, c, x)", "SELECT * FROM TUMBLE(t, c, '1 minute', tz => 3)",
        "SELECT * FROM TUMBLE(t, c, '1 minute', foo => 3)", "SELECT * FROM TUMBLE(t PARTITION BY k, c, '1 minute')", "SELECT * FROM TUMBLE(t, c, '1 minute', max => '1 hour')",
        "SELECT * FROM TUMBLE(t, DESCRIPTOR(a, b), '1 minute')", "SELECT count(*) FROM t GROUP BY TUMBLE(a, '1 minute'), TUMBLE(b, '1 minute')",
        "SELECT count(*) FROM s WINDOW TUMBLING (SIZE 1 MINUTE)", "SELECT count(*) FROM s WINDOW HOPPING (SIZE 1 MINUTE) GROUP BY k",
        "SELECT * FROM TUMBLE(t, c, size => '1 minute', size => '2 minutes')", "SELECT * FROM TUMBLE(t, c, '1 minute'",
    ],
)  # fmt: skip
def test_window_that_is_wrong_raises_syntax_error_with_position(sql: str) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse(sql)
    assert caught.value.position is not None


def test_window_size_that_is_no_interval_raises_22007() -> None:
    with pytest.raises(InvalidDatetimeFormat) as caught:
        parse("SELECT * FROM TUMBLE(t, c, '1 fortnight')")
    assert caught.value.position == 27
