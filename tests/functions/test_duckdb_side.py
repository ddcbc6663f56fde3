"""The DuckDB connection: settings, errors, aggregates and windows in SQL."""

from __future__ import annotations

import duckdb
import pytest

from streamsql.core import errors
from streamsql.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    NUMERIC,
    REAL,
    SMALLINT,
    TEXT,
    numeric,
)  # fmt: skip
from streamsql.functions.duckdb_errors import translate
from streamsql.functions.duckdb_sql import aggregate_sql, configure, expression_sql, window_sql
from streamsql.functions.expressions import (
    AggregateCall,
    Expr,
    Frame,
    FrameBound,
    SortKey,
    column,
    literal,
)
from streamsql.functions.resolve import resolve_aggregate, resolve_call, resolve_window
from streamsql.functions.textio import to_text

ROWS = (
    "(VALUES (1, 1.5, 2.5::DOUBLE, 'a', INTERVAL 1 DAY, true, DATE '2020-01-01'),"
    " (2, 2.25, NULL, 'b', INTERVAL 2 DAY, false, DATE '2020-01-02'),"
    " (2, NULL, 1000, 'c', INTERVAL 1 MONTH, true, NULL),"
    " (NULL, -3, 'NaN'::DOUBLE, 'a', NULL, NULL, DATE '2019-05-05'),"
    " (3, 0.1, -1, NULL, INTERVAL 3 HOUR, false, DATE '2020-01-01'))"
    " AS r(c0, c1, c2, c3, c4, c5, c6)"
)
TYPES = (INTEGER, numeric(10, 2), DOUBLE, TEXT, INTERVAL, BOOLEAN, DATE)
INT, N, D, S, V, P, DAY = (column(i, t) for i, t in enumerate(TYPES))


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect(":memory:")
    configure(made, threads=1)
    made.execute(
        f"CREATE TABLE t AS SELECT c0, c1::DECIMAL(10,2) AS c1, c2, c3, c4, c5, c6 FROM {ROWS}"
    )
    return made


def name_of(ref: Expr) -> str:
    return f"c{ref.index}"  # type: ignore[attr-defined]


def run(con: duckdb.DuckDBPyConnection, call: AggregateCall) -> str | None:
    table = con.sql(f"SELECT {aggregate_sql(call, name_of)} AS x FROM t").to_arrow_table()
    assert table.column(0).type == call.type.arrow
    return to_text(table.column(0), call.type)[0].as_py()


def asc(expr: Expr) -> SortKey:
    return SortKey(expr=expr)


def desc(expr: Expr, nulls_first: bool = True) -> SortKey:
    return SortKey(expr=expr, descending=True, nulls_first=nulls_first)


def agg(name: str, *args: Expr, **more: object) -> AggregateCall:
    return resolve_aggregate(name, list(args), **more)  # type: ignore[arg-type]


# PostgreSQL 15's answers over the same rows (averages without the zeros of its display scale)
ANSWERS = [
    (agg("count"), "5"), (agg("count", INT), "4"), (agg("count", INT, distinct=True), "3"), (agg("sum", INT), "8"),
    (agg("sum", column(0, SMALLINT)), "8"), (agg("sum", column(0, BIGINT)), "8"), (agg("sum", N), "0.85"),
    (agg("sum", V), "1 mon 3 days 03:00:00"), (agg("avg", V), "8 days 06:45:00"), (agg("avg", INT), "2"),
    (agg("avg", N), "0.2125"), (agg("avg", column(0, REAL)), "2"), (agg("min", S), "a"), (agg("max", D), "NaN"),
    (agg("min", V), "03:00:00"), (agg("max", DAY), "2020-01-02"), (agg("bool_and", P), "f"), (agg("every", P), "f"),
    (agg("bool_or", P), "t"), (agg("variance", INT), "0.6666666666666667"), (agg("var_pop", INT), "0.5"),
    (agg("stddev", INT), "0.816496580927726"), (agg("stddev_pop", column(0, BIGINT)), "0.7071067811865475"),
    (agg("array_agg", INT, order_by=[asc(INT)]), "{1,2,2,3,NULL}"), (agg("array_agg", INT, distinct=True), "{1,2,3,NULL}"),
    (agg("array_agg", S, order_by=[desc(INT, False)]), "{NULL,b,c,a,a}"),
    (agg("string_agg", S, literal(",", TEXT), order_by=[desc(S)]), "c,b,a,a"),
    (agg("string_agg", S, S, order_by=[asc(INT)]), "abbccaa"[:-2] + "aa"), (agg("jsonb_agg", INT, order_by=[asc(INT)]), "[1, 2, 2, 3, null]"),
    (agg("jsonb_object_agg", resolve_call("coalesce", [S, literal("z", TEXT)]), INT, filter=P), '{"a": 1, "c": 2}'),
    (agg("percentile_cont", literal(0.5, DOUBLE), order_by=[asc(INT)]), "2"),
    (agg("percentile_cont", literal(0.25, DOUBLE), order_by=[desc(N)]), "1.6875"),
    (agg("percentile_disc", literal(0.25, DOUBLE), order_by=[desc(INT)]), "3"), (agg("mode", order_by=[asc(S)]), "a"),
    (agg("bit_or", INT), "3"), (agg("sum", INT, filter=P), "3"), (agg("sum", INT, distinct=True), "6"),
    (agg("avg", INT, distinct=True), "2"), (agg("regr_count", INT, N), "3"), (agg("any_value", INT, order_by=[asc(INT)]), "1"),
    (agg("first_value", S, order_by=[asc(DAY)]), "a"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "text"), ANSWERS, ids=lambda v: v.function if isinstance(v, AggregateCall) else ""
)
def test_aggregate_answers_as_postgresql(
    con: duckdb.DuckDBPyConnection, call: AggregateCall, text: str
) -> None:
    assert run(con, call) == text


def test_aggregates_over_no_rows_are_null_or_zero(con: duckdb.DuckDBPyConnection) -> None:
    from streamsql.core.types import BOOLEAN
    from streamsql.functions.registry import aggregate_of
    from streamsql.functions.resolve import resolve_call

    nothing = resolve_call("is_null", [literal(1, INTEGER)])
    assert nothing.type == BOOLEAN
    for name, args in (
        ("count", ()), ("count", (INT,)), ("sum", (INT,)), ("avg", (N,)), ("min", (S,)), ("stddev", (INT,)),
        ("variance", (column(0, BIGINT),)), ("array_agg", (INT,)), ("jsonb_agg", (INT,)), ("bool_and", (P,)),
        ("sum", (V,)), ("avg", (V,)), ("string_agg", (S, S)),
    ):  # fmt: skip
        call = agg(name, *args, filter=nothing)
        empty = aggregate_of(call.function, tuple(a.type for a in call.args)).empty
        assert run(con, call) == (None if empty == "NULL" else empty), name


def test_sums_that_do_not_fit_raise(con: duckdb.DuckDBPyConnection) -> None:
    big = f"CAST({2**62} AS BIGINT)"
    sql = aggregate_sql(agg("sum", column(0, INTEGER)), lambda c: big)
    with pytest.raises(duckdb.Error) as raised:
        con.sql(f"SELECT {sql} FROM range(8)").fetchall()
    assert translate(raised.value).sqlstate == "22003"


def test_windows_of_functions_and_aggregates(con: duckdb.DuckDBPyConnection) -> None:
    order = [asc(INT)]
    frame = Frame(
        mode="rows",
        start=FrameBound(kind="preceding", offset=literal(1, BIGINT)),
        end=FrameBound(kind="current_row"),
    )
    calls = {
        "row_number": (resolve_window("row_number", [], (), order), [1, 2, 3, 4, 5]),
        "rank": (resolve_window("rank", [], (), order), [1, 2, 2, 4, 5]),
        "lag": (resolve_window("lag", [INT, literal(1, INTEGER), literal(0, INTEGER)], (), order), [0, 1, 2, 2, 3]),
        "sum": (resolve_window("sum", [INT], (), order, frame), [1, 3, 4, 5, 3]),
        "avg": (resolve_window("avg", [INT], (), order, frame), ["1", "1.5", "2", "2.5", "3"]),
        "count": (resolve_window("count", [INT], (P,), order), None),
        "last": (resolve_window("last_value", [INT], (), order, ignore_nulls=True), [1, 2, 2, 3, 3]),
    }  # fmt: skip
    for name, (call, expected) in calls.items():
        sql = f"SELECT {window_sql(call, name_of)} AS x FROM t ORDER BY c0 NULLS LAST"
        found = con.sql(sql).to_arrow_table().column(0)
        assert found.type == call.type.arrow, name
        if expected is not None:
            assert to_text(found, call.type).to_pylist() == [str(e) for e in expected], name


def test_connection_is_closed_to_the_outside_and_locked(con: duckdb.DuckDBPyConnection) -> None:
    for sql in (
        "SELECT * FROM read_csv('/etc/passwd')",
        "COPY t TO '/tmp/x.csv'",
        "ATTACH '/tmp/x.db'",
    ):
        with pytest.raises(duckdb.Error):
            con.execute(sql)
    with pytest.raises(duckdb.Error):
        con.execute("SET threads = 8")
    assert con.sql("SELECT current_setting('TimeZone'), current_setting('threads')").fetchall() == [
        ("UTC", 1)
    ]
    cursor = con.cursor()
    assert cursor.sql("SELECT c0 FROM t ORDER BY c0 DESC NULLS FIRST LIMIT 1").fetchall() == [
        (None,)
    ]


TRANSLATIONS = [
    ("SELECT 1 // 0", errors.DivisionByZero), ("SELECT 2147483647::INT + 1::INT", errors.NumericValueOutOfRange),
    ("SELECT 'x'::INT", errors.InvalidTextRepresentation), ("SELECT 123456::DECIMAL(5,2)", errors.NumericValueOutOfRange),
    ("SELECT * FROM nothing", errors.UndefinedTable), ("SELECT nothing(1)", errors.UndefinedFunction),
    ("SELECT nothing FROM (SELECT 1 AS a)", errors.UndefinedColumn), ("SELEC 1", errors.SqlSyntaxError),
    ("SELECT (SELECT * FROM range(2))", errors.CardinalityViolation), ("SELECT 1::nothing", errors.UndefinedObject),
    ("SELECT error('streamsql:22P02:no such thing')", errors.InvalidTextRepresentation),
    ("SELECT ssql_raise('streamsql:22004:empty' || chr(31) || 'Some detail.')", errors.NullValueNotAllowed),
    ("SELECT 99999999999::INT", errors.NumericValueOutOfRange),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "expected"), TRANSLATIONS)
def test_duckdb_errors_become_ours(
    con: duckdb.DuckDBPyConnection, sql: str, expected: type[errors.StreamSqlError]
) -> None:
    with pytest.raises(duckdb.Error) as raised:
        con.execute(sql)
    error = translate(raised.value)
    assert isinstance(error, expected)
    if "chr(31)" in sql:
        assert (error.message, error.detail) == ("empty", "Some detail.")


def test_expression_sql_has_exactly_the_declared_type(con: duckdb.DuckDBPyConnection) -> None:
    from streamsql.functions.resolve import resolve_call

    for expr in (
        resolve_call("*", [N, N]), resolve_call("/", [N, INT]), resolve_call("length", [S]),
        resolve_call("*", [column(1, NUMERIC), literal(2, INTEGER)]), resolve_call("-", [DAY, DAY]),
        resolve_call("||", [S, INT]), resolve_call("extract", [literal("second", TEXT), V]),
    ):  # fmt: skip
        sql = expression_sql(expr, name_of)
        source = "(SELECT c0, CAST(c1 AS DECIMAL(38,10)) AS c1, c3, c4, c6 FROM t)"
        table = source if expr.type == NUMERIC else "t"
        found = con.sql(f"SELECT typeof({sql}) FROM {table} LIMIT 1").fetchall()
        assert found == [(expr.type.duckdb.replace("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE"),)]
