"""ASOF joins below windows: older rows that get another partner are judged late by the row that
makes it, however the rows of a table are cut into statements."""

from __future__ import annotations

import random

import pytest

from streamsql.engine.database import Database
from tests.event_time.test_windows_over_joins import rows

Statement = tuple[str, list[str]]
PAIRS = (
    "SELECT window_start, count(*) AS n, sum(bid) AS s, min(bid) AS m FROM TUMBLE((SELECT a.t, "
    "b.id AS bid FROM a ASOF {}JOIN b ON {}b.t {} a.t), t, INTERVAL '10 s') "
    "GROUP BY window_start, window_end"
)
COUNTS = (
    "SELECT x.ws, x.c, b.id FROM (SELECT k, window_start AS ws, window_end AS we, count(*) AS c "
    "FROM TUMBLE(a, t, INTERVAL '10 s') GROUP BY 1, 2, 3) a ASOF {}JOIN b ON {}b.t {} a.ws"
).replace("x.", "a.")


def second(at: int) -> str:
    return f"TIMESTAMP '2024-01-01' + INTERVAL '{at} s'"


def statements(draw: random.Random) -> list[Statement]:
    """(table, rows that one statement inserts), or a DELETE."""
    found: list[Statement] = []
    number, at = 0, {"a": 0, "b": 0}
    for _ in range(14):
        table = draw.choice("ab")
        if draw.random() < 0.15 and number > 5:
            first = draw.randint(0, number)
            gone = f"DELETE FROM {table} WHERE id BETWEEN {first} AND {first + 4}"
            found.append((table, [gone]))
            continue
        values = []
        for _ in range(draw.randint(1, 9)):
            number, at[table] = number + 1, at[table] + draw.randint(0, 4)
            late = draw.choice([0, 0, 0, draw.randint(0, 30)])
            values.append(f"({number}, {draw.randint(1, 2)}, {second(at[table] - late)})")
        found.append((table, values))
    return found


def shown(sql: str, delay: int, written: list[Statement], *, each: bool) -> list[str]:
    """The view after these statements, its rows one by one or not."""
    with Database() as db:
        for table in "ab":
            db.execute(
                f"CREATE TABLE {table} (id INT, k INT, t TIMESTAMP, WATERMARK FOR t AS "
                f"t - INTERVAL '{delay} s')"
            )
        db.execute(f"CREATE MATERIALIZED VIEW v AS {sql}")
        for table, values in written:
            if values[0].startswith("DELETE"):
                db.execute(values[0])
                continue
            for value in values if each else [", ".join(values)]:
                db.execute(f"INSERT INTO {table} VALUES {value}")
        assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall() == []
        return rows(db, "SELECT * FROM v")


@pytest.mark.parametrize("op", ["<=", "<", ">=", ">"])
@pytest.mark.parametrize("seed", range(4))
def test_the_cut_into_statements_has_no_say(op: str, seed: int) -> None:
    draw = random.Random(f"{seed}{op}")
    sql = (COUNTS if seed == 3 else PAIRS).format(
        draw.choice(["", "LEFT "]), "a.k = b.k AND " if seed % 2 else "", op
    )
    delay, written = draw.choice([0, 0, 4]), statements(draw)
    one_by_one = shown(sql, delay, written, each=True)
    assert shown(sql, delay, written, each=False) == one_by_one


@pytest.mark.parametrize("each", [True, False])
def test_a_closed_window_keeps_the_partner_that_its_row_had(each: bool) -> None:
    """b's second row comes in time for the window, its fourth one does not."""
    sql = PAIRS.format("LEFT ", "", "<=")
    late = [f"({i}, 1, {second(t)})" for i, t in ((1, 0), (2, 4), (3, 20), (4, 5))]
    written = [("a", [f"(1, 1, {second(6)})", f"(2, 1, {second(40)})"]), ("b", late)]
    assert shown(sql, 0, written, each=each)[0].endswith("1, 2, 2)")
