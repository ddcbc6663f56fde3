"""Every type as key, argument and value; JSON, arrays, structs, unnest: one table of all types."""

from __future__ import annotations

import datetime
import json
import uuid
from decimal import Decimal

import numpy as np
import pyarrow as pa

from ...oracle.batch import Shape
from ..harness import Stage, Table
from .small import holes

SOME_UUIDS = tuple(str(uuid.UUID(int=0xA0EEBC99 << 96 | i)) for i in range(5))
MOODS = ("one", "Two", "drei", "", "ünïcode ✓", "a'b", "NULL")


def everything(random: np.random.Generator, scale: int) -> pa.Table:
    n = 48 * scale

    def pick(words: tuple[object, ...]) -> list[object]:
        return [words[i] for i in random.integers(0, len(words), n)]

    def moments() -> list[datetime.datetime]:
        start = datetime.datetime(2024, 3, 30, tzinfo=datetime.UTC)
        return [start + datetime.timedelta(minutes=int(m) * 30) for m in random.integers(0, 120, n)]

    documents = [
        json.dumps({"a": int(a), "b": [int(a), int(b)], "c": {"d": MOODS[int(b)]}, **({"e": None} if b % 2 else {})})
        for a, b in zip(random.integers(0, 4, n), random.integers(0, 5, n), strict=True)
    ]  # fmt: skip
    lists = [random.integers(0, 6, random.integers(0, 4)).tolist() for _ in range(n)]
    words = [[MOODS[i] for i in random.integers(0, 4, random.integers(0, 3))] for _ in range(n)]
    return pa.table({
        "id": pa.array(np.arange(1, n + 1, dtype=np.int32)),
        "si": pa.array(holes(random, random.integers(-3, 4, n).tolist()), pa.int16()),
        "bi": pa.array(holes(random, (random.integers(-2, 3, n) * 3_000_000_000).tolist()), pa.int64()),
        "re": pa.array(holes(random, (random.integers(-8, 8, n) / 4).tolist()), pa.float32()),
        "nu": pa.array(holes(random, [Decimal(int(i)) / 10_000 for i in random.integers(-9, 9, n) * 12_345]), pa.decimal128(20, 4)),
        "tx": pa.array(holes(random, pick(MOODS))),
        "da": pa.array(holes(random, [m.date() for m in moments()]), pa.date32()),
        "ti": pa.array(holes(random, [datetime.time(int(h), 30) for h in random.integers(0, 24, n)]), pa.time64("us")),
        "tz": pa.array(holes(random, moments()), pa.timestamp("us", "UTC")),
        "iv": pa.array(holes(random, pick(("1 day", "2 hours", "1 month", "36 hours", "-3 minutes")))),
        "uu": pa.array(holes(random, pick(SOME_UUIDS))),
        "js": pa.array(holes(random, documents)),
        "ar": pa.array(holes(random, lists), pa.list_(pa.int32())),
        "ws": pa.array(holes(random, words), pa.list_(pa.string())),
        "bo": pa.array(holes(random, (random.random(n) < 0.5).tolist()), pa.bool_()),
    })  # fmt: skip


TABLE = Table(
    "a",
    "id INT PRIMARY KEY, si SMALLINT, bi BIGINT, re REAL, nu NUMERIC(20,4), tx TEXT, da DATE, ti TIME, "
    "tz TIMESTAMPTZ, iv INTERVAL, uu UUID, js JSONB, ar INT[], ws TEXT[], bo BOOLEAN",
    everything, "id",
    duckdb="* REPLACE (iv::INTERVAL AS iv, uu::UUID AS uu, js::JSON AS js)",
)  # fmt: skip

KEYS = ("si", "bi", "re", "nu", "tx", "da", "ti", "tz", "uu", "bo", "ar", "ws", "iv")
SAME: dict[str, str] = {
    **{f"group_{c}": f"SELECT {c}, count(*) AS n, sum(si) AS s FROM a GROUP BY {c}" for c in KEYS},
    **{f"distinct_{c}": f"SELECT DISTINCT {c} FROM a" for c in KEYS},
    **{f"count_distinct_{c}": f"SELECT bo, count(DISTINCT {c}) AS n FROM a GROUP BY bo" for c in KEYS},
    **{
        f"min_max_{c}": f"SELECT bo, min({c}) AS lo, max({c}) AS hi FROM a GROUP BY bo"
        for c in ("si", "bi", "re", "nu", "tx", "da", "ti", "tz")
    },
    **{
        f"join_{c}": f"SELECT x.id, y.id AS j FROM a x JOIN a y ON x.{c} = y.{c} AND x.id < y.id"
        for c in KEYS
    },
    **{
        f"top_{c}": f"SELECT id, {c} FROM (SELECT *, row_number() OVER (PARTITION BY bo ORDER BY {c}, id) AS r FROM a) x WHERE r <= 4"
        for c in ("si", "bi", "re", "nu", "tx", "da", "ti", "tz", "uu")
    },
    **{f"except_{c}": f"SELECT {c} FROM a WHERE bo EXCEPT SELECT {c} FROM a WHERE NOT bo" for c in ("uu", "ar", "tz", "nu")},
    **{f"array_agg_{c}": f"SELECT bo, array_agg({c} ORDER BY id) AS l FROM a GROUP BY bo" for c in ("nu", "tx", "da", "tz", "bo")},
    "sums": "SELECT bo, sum(si) AS a, sum(bi) AS b, sum(nu) AS d FROM a GROUP BY bo",
    "avgs": "SELECT bo, avg(si) AS a, avg(bi) AS b, avg(re) AS c, avg(nu) AS d FROM a GROUP BY bo",
    "integers": "SELECT id, si + 1 AS a, bi * 2 AS b, bi / 7 AS c, bi % 7 AS d, abs(si) AS e FROM a",
    "numerics": "SELECT id, nu * 2 AS a, nu + 0.5 AS b, round(nu, 1) AS c, nu > 0 AS d, floor(nu) AS e FROM a",
    "reals": "SELECT id, re * 2 AS a, re::double precision + 1 AS b, abs(re) AS c FROM a",
    "texts": "SELECT id, upper(tx) AS a, length(tx) AS b, tx || '!' AS c, left(tx, 2) AS d, reverse(tx) AS e, position('e' IN tx) AS f, lpad(tx, 5, '*') AS g FROM a",
    "dates": "SELECT id, da + 1 AS a, da - date '2024-01-01' AS b, extract(dow FROM da) AS c, date_trunc('week', da)::date AS d FROM a",
    "times": "SELECT id, ti > time '12:00' AS a, extract(hour FROM ti) AS b FROM a",
    "moments": "SELECT id, tz + INTERVAL '1 day' AS a, extract(epoch FROM tz) AS b, date_trunc('hour', tz) AS c, tz AT TIME ZONE 'Europe/Paris' AS d FROM a",
    "casts": "SELECT id, si::text AS a, nu::int AS b, tx = '' AS c, bo::int AS d, da::timestamp AS e FROM a",
    "array_any": "SELECT id FROM a WHERE 3 = ANY (ar)",
    "array_any_column": "SELECT id FROM a WHERE si = ANY (ar)",
    "unnest": "SELECT id, x FROM a, unnest(ar) AS q(x)",
    "unnest_text": "SELECT x, count(*) AS n FROM a, unnest(ws) AS q(x) GROUP BY x",
    "unnest_select": "SELECT id, unnest(ar) AS x FROM a",
    "unnest_join": "SELECT a.id, b.id AS j FROM a, unnest(a.ar) AS q(x), a b WHERE b.si = q.x AND a.bo AND b.bo",
    "unnest_left": "SELECT id, x FROM a LEFT JOIN LATERAL unnest(ar) AS q(x) ON true",
    "series": "SELECT id, x FROM a, generate_series(1, si) AS q(x)",
}  # fmt: skip
PAIRS: dict[str, tuple[str, str]] = {
    "arrays": (
        "SELECT id, ar[1] AS a, ar || 9 AS c, array_length(ar, 1) IS NULL AS d FROM a WHERE ar IS NOT NULL",
        "SELECT id, ar[1] AS a, list_append(ar, 9) AS c, len(ar) = 0 AS d FROM a WHERE ar IS NOT NULL",
    ),
    "structs": (
        "SELECT id, (r).p AS p FROM (SELECT id, ROW(si, tx)::STRUCT<p SMALLINT, q TEXT> AS r FROM a) x",
        "SELECT id, si AS p FROM a",
    ),
    "json_fields": (
        "SELECT id, js ->> 'a' AS a, (js ->> 'a')::int + 1 AS b, js -> 'b' -> 1 AS c, js #>> '{c,d}' AS d, js ? 'e' AS e, js -> 'zz' AS f FROM a",
        "SELECT id, js ->> 'a' AS a, (js ->> 'a')::int + 1 AS b, js -> 'b' -> 1 AS c, js ->> '$.c.d' AS d, json_exists(js, '$.e') AS e, js -> 'zz' AS f FROM a",
    ),
    "json_filter": (
        "SELECT id FROM a WHERE (js ->> 'a')::int > 1 AND js @> '{\"a\": 2}'",
        "SELECT id FROM a WHERE (js ->> 'a')::int = 2",
    ),
    "json_group": (
        "SELECT js -> 'c' AS c, count(*) AS n FROM a GROUP BY js -> 'c'",
        "SELECT js -> 'c' AS c, count(*) AS n FROM a GROUP BY js -> 'c'",
    ),
    "json_distinct": ("SELECT DISTINCT js -> 'b' AS b FROM a", "SELECT DISTINCT js -> 'b' AS b FROM a"),
    "json_elements": (
        "SELECT id, x FROM a, jsonb_array_elements(js -> 'b') AS q(x)",
        "SELECT id, unnest((js -> 'b')::JSON[]) AS x FROM a",
    ),
    "json_build": (
        "SELECT id, jsonb_build_object('i', id, 't', tx) AS j, jsonb_build_array(si, bo) AS l FROM a",
        "SELECT id, json_object('i', id, 't', tx) AS j, json_array(si, bo) AS l FROM a",
    ),
    "json_sum": (
        "SELECT tx, sum((js ->> 'a')::int) AS s FROM a GROUP BY tx",
        "SELECT tx, sum((js ->> 'a')::int) AS s FROM a GROUP BY tx",
    ),
    "array_functions": (
        "SELECT id, cardinality(ar) AS a, array_position(ar, 3) AS b, ar @> ARRAY[2] AS c, ar && ARRAY[1, 5] AS d, array_to_string(ws, '-') AS e FROM a",
        "SELECT id, len(ar) AS a, CASE WHEN list_contains(ar, 3) THEN list_position(ar, 3) END AS b, list_contains(ar, 2) AS c, list_has_any(ar, [1, 5]) AS d, array_to_string(ws, '-') AS e FROM a",
    ),
    "with_ordinality": (
        "SELECT id, x, n FROM a, unnest(ar) WITH ORDINALITY AS q(x, n)",
        "SELECT id, unnest(ar) AS x, generate_subscripts(ar, 1) AS n FROM a",
    ),
    "intervals": (
        "SELECT id, iv > INTERVAL '1 day' AS a, tz + iv AS b FROM a",
        "SELECT id, iv > INTERVAL '1 day' AS a, tz + iv AS b FROM a",
    ),
    "interval_sum": (
        "SELECT bo, sum(iv) AS s FROM a WHERE iv <> INTERVAL '1 month' GROUP BY bo",
        "SELECT bo, to_days(coalesce(sum(datepart('day', iv)), 0)::INT) + to_microseconds(sum(datepart('microseconds', iv) + (datepart('hour', iv) * 60 + datepart('minute', iv)) * 60000000)::BIGINT) AS s FROM a WHERE iv <> INTERVAL '1 month' GROUP BY bo",
    ),
    "array_subquery": (
        "SELECT id, ARRAY(SELECT y.id FROM a y WHERE y.si = a.si ORDER BY y.id) AS l FROM a",
        "SELECT id, coalesce((SELECT list(y.id ORDER BY y.id) FROM a y WHERE y.si = a.si), []) AS l FROM a",
    ),
    "uuid_text": ("SELECT id, uu::text AS u, uu > '" + SOME_UUIDS[2] + "' AS g FROM a", "SELECT id, uu::text AS u, uu > '" + SOME_UUIDS[2] + "'::UUID AS g FROM a"),
    "regex": (
        "SELECT id, tx ~ '^[a-z]+$' AS a, regexp_replace(tx, '[aeiou]', '_', 'g') AS b, split_part(tx, 'n', 1) AS c FROM a",
        "SELECT id, regexp_matches(tx, '^[a-z]+$') AS a, regexp_replace(tx, '[aeiou]', '_', 'g') AS b, split_part(tx, 'n', 1) AS c FROM a",
    ),
}  # fmt: skip

STAGE = Stage(
    "types",
    (TABLE,),
    (
        *(Shape(f"type_{n}", sql) for n, sql in SAME.items()),
        *(Shape(f"type_{n}", *texts) for n, texts in PAIRS.items()),
    ),
)
