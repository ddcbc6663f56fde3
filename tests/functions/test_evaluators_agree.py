"""Random batches with NULLs and extremes: the Arrow and the DuckDB evaluator give the same columns."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal

import pyarrow as pa
import pytest

from streamsql.core.errors import StreamSqlError
from streamsql.core.schema import Schema
from streamsql.core.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    JSONB,
    NUMERIC,
    REAL,
    SMALLINT,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    array_of,
    numeric,
)
from streamsql.functions import duckdb_eval
from streamsql.functions.evaluator import Evaluator
from streamsql.functions.resolve import resolve_call
from streamsql.functions.textio import parse_text, to_text
from tests.functions.support import NOW_US, bind, same

SCHEMA = Schema.of(
    ("a", INTEGER), ("b", INTEGER), ("big", BIGINT), ("small", SMALLINT), ("n", NUMERIC),
    ("m", numeric(12, 3)), ("d", DOUBLE), ("r", REAL), ("t", TEXT), ("u", TEXT), ("p", BOOLEAN),
    ("q", BOOLEAN), ("day", DATE), ("ts", TIMESTAMP), ("tz", TIMESTAMPTZ), ("clock", TIME),
    ("gap", INTERVAL), ("j", JSONB), ("xs", array_of(INTEGER)), ("raw", BYTEA), ("digit", TEXT),
)  # fmt: skip

_TEXTS = ["", "a", "abc", "ABC", "Hello World", "héllo", "日本語", "a,b,c", " x ", "a%b_c", "12", "-7",
          "x\\y", "tail ", "aaa", 'q"uote', "it's"]  # fmt: skip
_JSON = ['{"a": 1, "b": [1, 2]}', '{"a": "x"}', "[1, 2, 3]", '"s"', "null", "1.50", "{}", "[]",
         '{"a": null}', '{"a": {"b": "q\\"t"}}']  # fmt: skip


def _pick(rng: random.Random, extremes: list[object], low: int, high: int) -> object:
    return rng.choice(extremes) if rng.random() < 0.3 else rng.randint(low, high)


def _value(rng: random.Random, name: str) -> object:
    if rng.random() < 0.15:
        return None
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(
        microseconds=rng.randint(-(10**15), 2 * 10**15)
    )
    makers = {
        "a": lambda: _pick(rng, [0, 1, -1], -40000, 40000),
        "b": lambda: _pick(rng, [0, 0, 1, -1], -40000, 40000),
        "big": lambda: _pick(rng, [0, 2**31, -(2**31)], -(10**12), 10**12),
        "small": lambda: rng.randint(-200, 200),
        "n": lambda: Decimal(rng.randint(-(10**12), 10**12)).scaleb(-rng.randint(0, 10)),
        "m": lambda: Decimal(rng.randint(-(10**8), 10**8)).scaleb(-3),
        "d": lambda: rng.choice([0.0, -0.0, 1.5, -2.5, 1e10, 0.1, rng.uniform(-1e6, 1e6)]),
        "r": lambda: rng.choice([0.0, 1.5, -2.5, 0.25, 1024.0]),
        "t": lambda: rng.choice(_TEXTS),
        "u": lambda: rng.choice(_TEXTS),
        "p": lambda: rng.random() < 0.5,
        "q": lambda: rng.random() < 0.5,
        "day": moment.date,
        "ts": lambda: moment,
        "tz": lambda: moment.replace(tzinfo=datetime.UTC),
        "clock": moment.time,
        "gap": lambda: pa.MonthDayNano(
            [rng.randint(-14, 14), rng.randint(-40, 40), rng.randint(-(10**14), 10**14) * 1000]
        ),
        "j": lambda: rng.choice(_JSON),
        "xs": lambda: [rng.choice([None, 1, 2, 3]) for _ in range(rng.randint(0, 4))],
        "raw": lambda: rng.choice([b"", b"\x00\xff", b"abc"]),
        "digit": lambda: str(rng.randint(-999, 999)),
    }
    return makers[name]()


def batch_of(seed: int, rows: int = 300) -> pa.RecordBatch:
    """A random batch of SCHEMA; one of them starts inside of its buffers."""
    rng = random.Random(seed)
    arrays = [
        pa.array([_value(rng, c.name) for _ in range(rows + 3)], c.type.arrow) for c in SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA.arrow).slice(3)


EXPRESSIONS = [
    "a + b", "a - b", "a * b", "a + big", "small + a", "small * 3::smallint", "-a", "abs(b)", "-m",
    "n + m", "n - m", "m * m", "m * 2.5", "n * 2", "0.908 * big", "m / 7", "m % 7.5", "n + a",
    "d + r", "d * 2", "d - a", "-d", "abs(d)", "r * 2", "r / 4", "a / 3", "big / 7", "a % 7",
    "big % 123", "mod(big, 123) = 0", "a & b", "a | 255", "~a", "a << 2", "big >> 3", "a # b",
    "round(n)", "round(m, 1)", "round(m, -2)", "trunc(m)", "trunc(n, 2)", "ceil(m)", "floor(m)",
    "round(d)", "ceil(d)", "floor(d)", "sign(m)", "sign(a)", "cbrt(d)", "atan2(d, 2)",
    "a = b", "a <> b", "a < big", "n > m", "m >= 10", "m < 10.5", "d > a", "d = d", "r < d",
    "t = u", "t < u", "t >= 'a'", "p = q", "p > q", "day < ts", "ts <= tz", "clock > '12:00'",
    "gap > '1 day'", "gap = gap", "raw < '\\x61'", "j = j", "xs = xs", "xs < array[2]",
    "a is distinct from b", "t is not distinct from u", "a between -100 and 100",
    "a in (1, -1, 0)", "a in (b, 1, null)", "t in ('a', 'abc', '')", "a not in (1, null)",
    "t like any(array['a%', '%o%'])",
    "p and q", "p or q", "not p", "p is true", "p is not false", "p is null", "p is unknown",
    "p and a > 0 or q and b < 0", "coalesce(a, b, 0)", "coalesce(t, u)", "nullif(a, b)",
    "nullif(t, 'a')", "greatest(a, b, 0)", "least(n, m)", "greatest(t, u)", "greatest(d, a)",
    "case when a > 0 then 'pos' when a < 0 then 'neg' else 'zero' end",
    "case when p then a when q then b end", "case when a > 0 then t else u end",
    "case when a > 0 then xs else array[0] end", "case when p then gap else interval '1 day' end",
    "case when p then m else 1.5 end", "case t when 'a' then 1 when 'abc' then 2 end",
    "case when b <> 0 then a / b end", "b <> 0 and a / b > 0", "b = 0 or a / b > 0",
    "coalesce(nullif(b, 0), 1) * a", "a / nullif(b, 0)",
    "a::text", "big::text", "n::text", "m::text", "d::text", "r::text", "p::text", "day::text",
    "ts::text", "tz::text", "clock::text", "gap::text", "raw::text", "xs::text", "j::text",
    "digit::int", "digit::bigint", "digit::numeric", "digit::float8", "digit::numeric(6,2)",
    "a::bigint", "small::int", "a::numeric", "a::float8", "big::float4", "m::float8", "n::float4",
    "m::int", "m::numeric(12,1)", "d::numeric(20,3)", "r::float8", "d::float4", "p::int",
    "a::boolean", "day::timestamp", "day::timestamptz", "ts::date", "ts::time", "tz::timestamp",
    "ts::timestamptz", "clock::interval", "gap::time", "xs::text[]", "xs::bigint[]", "j::json",
    "t || u", "t || a", "t || d", "concat(t, a, null, p)", "concat_ws('-', t, a, u)", "lower(t)",
    "upper(t)", "initcap(t)", "length(t)", "octet_length(t)", "substring(t from 2)",
    "substring(t from 2 for 2)", "left(t, 2)", "right(t, -1)", "position('l' in t)",
    "replace(t, 'a', 'XX')", "replace(t, 'l', '')", "btrim(t)", "ltrim(t, 'a')", "rtrim(t)",
    "lpad(t, 5, '*-')", "rpad(t, 3)", "repeat(t, 2)", "reverse(t)", "split_part(t, ',', 2)",
    "split_part(t, ',', -1)", "split_index(t, ',', 1)", "translate(t, 'abc', 'xy')", "ascii(t)",
    "starts_with(t, 'a')", "starts_with(t, u)", "overlay(t placing 'ZZ' from 2 for 1)",
    "md5(t)", "quote_literal(t)", "quote_ident(t)", "format('%s=%L', t, u)", "strpos(t, u)",
    "left(t, small)", "repeat(t, abs(small) % 3)", "split_part(t, u, 1)", "replace(t, u, 'x')",
    "t like 'a%'", "t like '%b%'", "t ilike 'h%O%'", "t like u", "t not like '_'",
    "t like 'a!%%' escape '!'", "t similar to '(a|b)%'", "t ~ '^[a-z]+$'", "t ~* 'HELLO'",
    "regexp_replace(t, '[aeiou]', '*', 'g')", "regexp_match(t, '(.)(.)')",
    "regexp_extract(t, 'a(.)c', 1)", "substring(t from 'l+')", "regexp_split_to_array(t, ',')",
    "string_to_array(t, ',')", "array_to_string(xs, '-')", "array_to_string(xs, '-', 'N')",
    "day + 1", "day - day", "day + gap", "ts + gap", "ts - gap", "tz + gap", "ts - ts::date",
    "ts - timestamp '2000-01-01'", "clock + gap", "clock - clock", "gap + gap", "gap * 2",
    "gap / 3", "-gap", "age(ts, timestamp '2001-05-17')", "date_trunc('hour', ts)",
    "date_trunc('month', ts)", "date_trunc('week', tz)", "date_trunc('day', gap)",
    "extract(year from ts)", "extract(epoch from ts)", "extract(second from ts)",
    "extract(dow from day)", "extract(week from day)", "extract(isoyear from day)",
    "extract(hour from clock)", "extract(month from gap)", "extract(epoch from gap)",
    "date_part('doy', ts)", "hour(ts)", "minute(tz)", "dayofweek(day)",
    "date_bin('15 minutes', ts, timestamp '2001-01-01')", "justify_interval(gap)",
    "to_char(ts, 'YYYY-MM-DD HH24:MI:SS.US')", "to_char(day, 'FMDay DD Mon')",
    "date_format(ts, 'yyyy-MM-dd HH:mm')", "to_char(m, 'FM999G999D00')",
    "tz at time zone 'America/New_York'", "ts at time zone 'Europe/Paris'",
    "timestampadd(MONTH, small, ts)", "timestampdiff(DAY, ts, tz::timestamp)",
    "isfinite(day)", "now() - tz", "extract(epoch from now() - tz)",
    "j -> 'a'", "j ->> 'a'", "j -> 0", "j ->> 1", "j #>> '{a,b}'", "j @> '{\"a\": 1}'", "j ? 'a'",
    "jsonb_typeof(j)", "j || '[9]'::jsonb", "to_jsonb(xs)", "to_jsonb(t)", "to_jsonb(ts)",
    "jsonb_build_object('t', t, 'a', a)", "jsonb_build_array(a, n, p)", "jsonb_strip_nulls(j)",
    "xs[1]", "xs[a]", "xs[2:3]", "cardinality(xs)", "array_length(xs, 1)", "xs || 9", "9 || xs",
    "xs || array[8, 9]", "array[a, b]", "array_position(xs, 2)", "array_remove(xs, 1)",
    "array_replace(xs, 1, 7)", "xs @> array[1]", "xs && array[2, 3]", "array_distinct(xs)",
    "array_sort(xs)", "row(a, t)", "row(a, t) = row(b, u)", "row(a, t) is null", "row(a, t) is not null", "nullif(j, '1.5')", "j is distinct from '1.5'::jsonb",
    "j in ('1.5'::jsonb, '{}'::jsonb)", "j = '1.5'::jsonb", "a in (1, 2, -1, 0)", "t in ('a', 'b', null, 'abc')",
    "encode(raw, 'hex')",
]  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2])
def test_evaluators_agree_on_random_batches(seed: int) -> None:
    batch = batch_of(seed)
    exprs = [bind(sql, SCHEMA) for sql in EXPRESSIONS]
    arrow = Evaluator(exprs, SCHEMA).run(batch, NOW_US)
    duck = duckdb_eval.run(exprs, batch, NOW_US, "UTC")
    wrong = []
    for sql, a, d in zip(EXPRESSIONS, arrow, duck, strict=True):
        a.validate(full=True)
        if not same(a, d):
            rows = [i for i in range(len(a)) if repr(a[i].as_py()) != repr(d[i].as_py())][:2]
            wrong.append((sql, [(batch.slice(i, 1).to_pylist(), a[i], d[i]) for i in rows]))
    assert wrong == []


def test_arrow_evaluator_does_not_depend_on_the_cut_into_batches() -> None:
    batch = batch_of(5, 60)
    exprs = [bind(sql, SCHEMA) for sql in EXPRESSIONS]
    evaluator = Evaluator(exprs, SCHEMA)
    whole = evaluator.run(batch, NOW_US)
    cuts = [batch.slice(0, 1), batch.slice(1, 7), batch.slice(8)]
    parts = [evaluator.run(c, NOW_US) for c in cuts]
    for i, sql in enumerate(EXPRESSIONS):
        glued = pa.chunked_array([p[i] for p in parts]).combine_chunks()
        assert same(glued, whole[i]), sql


@pytest.mark.parametrize("operator", ["= any", "<> any", "< any", "= all", "<> all", ">= all"])
def test_quantified_comparison_agrees_and_knows_nulls(operator: str) -> None:
    expr = resolve_call(operator, [bind("a % 4", SCHEMA), bind("xs", SCHEMA)])
    batch = batch_of(3)
    a = Evaluator([expr], SCHEMA).run(batch, NOW_US)[0]
    d = duckdb_eval.run([expr], batch, NOW_US, "UTC")[0]
    assert same(a, d)
    assert set(a.to_pylist()) == {True, False, None}


FAR = [
    "ts + interval '1 day'", "ts - interval '1 month'", "ts + gap", "day + 1", "day - 1",
    "date_trunc('hour', ts)", "date_trunc('month', ts)", "date_trunc('year', ts)",
    "extract(month from ts)", "extract(year from ts)", "extract(day from day)", "extract(week from day)",
    "date_part('hour', ts)", "extract(epoch from ts)", "quarter(day)", "hour(ts)", "isfinite(ts)",
    "ts::date", "day::timestamp", "day::timestamptz", "ts::text", "day::text", "ts < '2020-01-01'",
    "to_char(ts, 'YYYY BC')", "greatest(ts, day::timestamp)", "ts between '0100-01-01' and 'infinity'",
]  # fmt: skip


def test_evaluators_agree_on_infinite_and_far_dates() -> None:
    stamps = ["infinity", "-infinity", "0044-03-15 10:20:30 BC", "12020-05-05 01:02:03", None]
    days = ["infinity", "-infinity", "0044-03-15 BC", "12020-05-05", None]
    columns = {
        "ts": parse_text(pa.array(stamps), TIMESTAMP), "day": parse_text(pa.array(days), DATE),
    }  # fmt: skip
    near = batch_of(9, 5)
    arrays = [columns.get(c.name, near.column(i)) for i, c in enumerate(SCHEMA)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA.arrow)
    for sql in FAR:
        expr = bind(sql, SCHEMA)
        a = to_text(Evaluator([expr], SCHEMA).run(batch, NOW_US)[0], expr.type)
        d = to_text(duckdb_eval.run([expr], batch, NOW_US, "UTC")[0], expr.type)
        assert a.to_pylist() == d.to_pylist(), sql


FAILING = [
    "a / b", "a % b", "m / b", "d / b", "t::int", "t::numeric", "a::smallint", "big::int",
    "a * 100000", "d::int", "n::numeric(5,2)", "sqrt(d)", "ln(m)", "t::date", "j::int",
    "jsonb_array_length(j)", "1 / (a - a)", "chr(a)", "make_date(2020, small, 1)",
    "power(d, 0.5::float8)", "case when p then a / b else 1 end", "coalesce(a / b, 1)",
    "jsonb_set(j, array[t], '1')", "j - small::int", "substring(t, 1, small)", "split_part(t, ',', small % 2)",
]  # fmt: skip


@pytest.mark.parametrize("sql", FAILING)
def test_bad_rows_are_the_same_rows_in_both_evaluators(sql: str) -> None:
    batch = batch_of(7, 40)
    expr = bind(sql, SCHEMA)
    found = Evaluator([expr], SCHEMA).run_skipping(batch, NOW_US)
    column, errors = duckdb_eval.run_skipping([expr], batch, NOW_US, "UTC")
    assert found.errors, "the batch should hold bad rows"
    assert {r: s for r, s, _ in found.errors} == {r: s for r, (s, _) in errors.items()}
    good = column[0].take(pa.array(found.kept))
    assert same(found.columns[0], good)
    first = min(errors)
    with pytest.raises(StreamSqlError) as raised:
        Evaluator([expr], SCHEMA).run(batch, NOW_US)
    assert raised.value.sqlstate == errors[first][0]
