"""Expressions and the exact text PostgreSQL 15 answers, in both evaluators.

`postgres_answers.txt` was written by a real PostgreSQL: one `expression ⇒ text` a line, ∅ for NULL,
`!SQLSTATE message` for an error.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.functions.support import answer, answers

LINES = [
    line.split(" ⇒ ")
    for line in (Path(__file__).parent / "postgres_answers.txt").read_text().splitlines()
    if " ⇒ " in line
]
CHUNKS = [LINES[i : i + 60] for i in range(0, len(LINES), 60)]


def test_table_is_as_large_as_it_was() -> None:
    assert len(LINES) >= 850


@pytest.mark.parametrize("chunk", CHUNKS, ids=lambda c: c[0][0])
def test_both_evaluators_answer_as_postgresql(chunk: list[list[str]]) -> None:
    expected = {sql: None if text == "∅" else text for sql, text in chunk}
    fine = [sql for sql, text in expected.items() if text is None or not text.startswith("!")]
    found = answers(fine)
    found.update({sql: answer(sql) for sql in expected if sql not in found})
    wrong = [(s, t, found[s]) for s, t in expected.items() if found[s] != (t, t)]
    assert wrong == []


# what PostgreSQL has not: checked by hand against the documentation of Flink and RisingWave
OTHERS = [
    ("SPLIT_INDEX('a/b/c', '/', 0)", "a"),
    ("SPLIT_INDEX('a/b/c', '/', 3)", None),
    ("SPLIT_INDEX('a/b/c', '/', -1)", None),
    ("REGEXP_EXTRACT('foothebar', 'foo(.*?)(bar)', 2)", "bar"),
    ("REGEXP_EXTRACT('abc', 'x(y)', 1)", None),
    ("REGEXP_EXTRACT('k=1&channel_id=77', '(&|^)channel_id=([^&]*)', 2)", "77"),
    ("DATE_FORMAT(timestamp '2020-02-09 03:05:06.789', 'yyyy-MM-dd HH:mm:ss.SSS')",
     "2020-02-09 03:05:06.789"),
    ("DATE_FORMAT('2020-02-09 03:05:06', 'yyyyMMdd')", "20200209"),
    ("DATE_FORMAT(timestamp '2020-02-09 13:05:06', 'h:mm a, EEE d MMM')", "1:05 PM, Sun 9 Feb"),
    ("HOUR(timestamp '1969-12-31 23:30:00')", "23"),
    ("MINUTE(timestamp '2020-02-09 03:05:06')", "5"),
    ("SECOND(timestamp '2020-02-09 03:05:06.9')", "6"),
    ("YEAR(date '2020-02-09')", "2020"),
    ("DAYOFWEEK(date '2020-02-09')", "1"),
    ("DAYOFMONTH(date '2020-02-09')", "9"),
    ("TIMESTAMPADD(MONTH, 1, timestamp '2020-01-31 10:00:00')", "2020-02-29 10:00:00"),
    ("TIMESTAMPADD(SECOND, -1, timestamp '2020-01-01')", "2019-12-31 23:59:59"),
    ("TIMESTAMPDIFF(DAY, timestamp '2020-01-01', timestamp '2020-01-31 12:00')", "30"),
    ("TIMESTAMPDIFF(MONTH, timestamp '2020-01-31', timestamp '2020-02-29')", "1"),
    ("TIMESTAMPDIFF(YEAR, timestamp '2020-02-29', timestamp '2019-02-28')", "-1"),
    ("TO_TIMESTAMP_LTZ(1700000000, 0)", "2023-11-14 22:13:20+00"),
    ("TO_TIMESTAMP_LTZ(1700000000123, 3)", "2023-11-14 22:13:20.123+00"),
    ("UNIX_TIMESTAMP(timestamp '1970-01-02')", "86400"),
    ("FROM_UNIXTIME(0)", "1970-01-01 00:00:00"),
    ("LOG10(1000.0::float8)", "3"),
    ("COUNT_CHAR('banana', 'a')", "3"),
    ("LOCATE('na', 'banana')", "3"),
    ("PROCTIME()", "2023-11-14 22:13:20+00"),
    ("now()", "2023-11-14 22:13:20+00"),
    ("current_date", "2023-11-14"),
    ("localtimestamp", "2023-11-14 22:13:20"),
    ("age(timestamp '2023-11-13')", "1 day"),
    ("array_distinct(array[1,2,1,null,null])", "{1,2,NULL}"),
    ("array_sort(array[3,null,1])", "{1,3,NULL}"),
    ("map {'a': 1}['a']", "1"),
    ("map {'a': 1}['b']", None),
    ("'{{1,2},{3,4}}'::int[]", "{{1,2},{3,4}}"),
    ("row(1,'a',null)", '{"f1": 1, "f2": "a", "f3": null}'),
    ("7 / 2.0", "3.5"),
    ("1.0 / 3", "0.3333333333333333"),
    ("1e308::float8 * 10", "!22003 value out of range: overflow"),
]  # fmt: skip


def test_functions_of_other_systems_in_both_evaluators() -> None:
    wrong = [(sql, text, answer(sql)) for sql, text in OTHERS if answer(sql) != (text, text)]
    assert wrong == []


ZONED = [
    ("timestamptz '2020-07-01 12:00:00+00'", "2020-07-01 14:00:00+02"),
    ("'2020-03-29 02:30:00'::text::timestamptz", "2020-03-29 03:30:00+02"),
    ("'2020-10-25 02:30:00'::text::timestamptz", "2020-10-25 02:30:00+01"),
    ("timestamp '2020-07-01 12:00:00'::timestamptz", "2020-07-01 12:00:00+02"),
    ("timestamptz '2020-07-01 23:30:00+00'::date", "2020-07-02"),
    ("timestamptz '2020-07-01 12:00:00+00'::timestamp", "2020-07-01 14:00:00"),
    ("date_trunc('day', timestamptz '2020-07-01 23:30:00+00')", "2020-07-02 00:00:00+02"),
    ("extract(hour from timestamptz '2020-07-01 12:00:00+00')", "14"),
    ("extract(timezone from timestamptz '2020-07-01 12:00:00+00')", "7200"),
    ("timestamptz '2020-03-28 12:00:00+00' + interval '1 day'", "2020-03-29 13:00:00+02"),
    ("timestamptz '2020-03-28 12:00:00+00' + interval '24 hours'", "2020-03-29 14:00:00+02"),
    ("to_char(timestamptz '2020-07-01 12:00:00+00', 'HH24:MI OF')", "14:00 +02"),
    ("make_timestamptz(2020, 7, 1, 12, 0, 0)", "2020-07-01 12:00:00+02"),
    ("current_date", "2023-11-14"),
    ("localtimestamp", "2023-11-14 23:13:20"),
    ("timestamptz '2020-07-01 12:00:00+00'::text", "2020-07-01 14:00:00+02"),
]


@pytest.mark.parametrize(("sql", "text"), ZONED)
def test_session_zone_decides_in_both_evaluators(sql: str, text: str) -> None:
    assert answer(sql, "Europe/Paris") == (text, text)
