"""The demo: starts, shows the view moving, ends by itself, and leaves other tables alone."""

from __future__ import annotations

import io
import os
import re

import pytest
from streamsql_server.demo import find_examples, replay_script, run_demo
from streamsql_server.demo_screen import Screen, table_lines

import streamsql


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_demo_streams_and_stops_by_itself(tmp_path):
    out = io.StringIO()
    code = run_demo(5e6, port=0, data_dir=tmp_path / "data", seconds=4, out=out)
    text = out.getvalue()
    assert code == 0
    assert "psql -h 127.0.0.1 -p " in text
    counts = [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) flights", text)]
    assert counts == sorted(counts)
    assert counts[-1] > 1000
    assert text.endswith("stopped\n")


def test_demo_makes_its_tables_anew_but_never_drops_those_of_others(tmp_path, capsys):
    first = tmp_path / "first"
    assert run_demo(1e6, port=0, data_dir=first, seconds=0.5, out=io.StringIO()) == 0
    assert run_demo(1e6, port=0, data_dir=first, seconds=0.5, out=io.StringIO()) == 0
    other = tmp_path / "other"
    with streamsql.connect(str(other)) as database:
        database.execute("CREATE TABLE weather (a INT); INSERT INTO weather VALUES (1)")
    assert run_demo(1e6, port=0, data_dir=other, seconds=0.5, out=io.StringIO()) == 1
    assert "table of its own" in capsys.readouterr().err.replace('"weather" ', "")
    with streamsql.connect(str(other)) as database:
        assert database.execute("SELECT * FROM weather").fetchall() == [(1,)]


@pytest.mark.parametrize("speed", [0.0, -1.0])
def test_demo_refuses_a_speed_that_goes_nowhere(speed, capsys):
    assert run_demo(speed) == 1
    assert "speed" in capsys.readouterr().err


def test_demo_without_examples_says_how_to_find_them(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("streamsql_server.demo.find_examples", lambda: None)
    assert run_demo(1.0) == 1
    assert "STREAMSQL_EXAMPLES" in capsys.readouterr().err


def test_replay_script_paces_only_the_departures():
    folder = find_examples()
    assert folder is not None
    script = replay_script(folder, 2.5)
    assert script.count("speed = '2.5'") == 1
    assert "'sql-examples/" not in script


def test_screen_redraws_in_place_on_a_terminal():
    out = Terminal()
    screen = Screen(out)
    screen.show("t", ("a", "b"), [("x", "1")])
    screen.show("t", ("a", "b"), [("y", "2")])
    screen.end()
    assert out.getvalue().count("\x1b[5A") == 1
    assert out.getvalue().endswith("\x1b[?25h")


def test_screen_prints_lines_where_nobody_looks():
    out = io.StringIO()
    Screen(out).show("t", ("a", "b"), [("x", "1"), ("y", "2")])
    assert out.getvalue() == "t · x 1\n"


def test_table_lines_align_numbers_to_the_right():
    assert table_lines(("who", "n"), [("Ann", "7"), ("Bo", "123")])[2:] == ["Ann    7", "Bo   123"]


def test_demo_makes_anew_what_users_have_made_above_its_tables(tmp_path):
    data = tmp_path / "data"
    assert run_demo(1e6, port=0, data_dir=data, seconds=0.2, out=io.StringIO()) == 0
    with streamsql.connect(str(data)) as database:
        database.execute("CREATE VIEW named AS SELECT * FROM airlines")
        database.execute("CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM named")
        database.execute("CREATE INDEX by_n ON counted (n)")
    out = io.StringIO()
    assert run_demo(1e6, port=0, data_dir=data, seconds=0.2, out=out) == 0
    for what in ('view "named"', 'materialized view "counted"', 'index "by_n"'):
        assert f"{what}, which reads the demo's tables, was made anew\n" in out.getvalue()
    with streamsql.connect(str(data)) as database:
        assert database.execute("SELECT n FROM counted").fetchall() == [(16,)]


def test_what_can_not_be_made_anew_is_shown(tmp_path):
    from streamsql_server.demo_leftovers import Definition, make_anew

    with streamsql.connect() as database:
        session = database.session()
        lines = list(
            make_anew(session, [Definition("view", "public", "v", "CREATE VIEW v AS SELECT nope")])
        )
    assert len(lines) == 1
    assert "can't be made anew" in lines[0] and "CREATE VIEW v AS SELECT nope" in lines[0]


def test_screen_draws_no_more_than_the_window_holds(monkeypatch):
    monkeypatch.setattr("shutil.get_terminal_size", lambda fallback=None: os.terminal_size((40, 5)))
    out = Terminal()
    screen = Screen(out)
    screen.show("t", ("a", "b"), [(str(i), "1") for i in range(10)])
    screen.show("t", ("a", "b"), [(str(i), "2") for i in range(10)])
    assert out.getvalue().count("\n") == 2 * 4
    assert "\x1b[4A" in out.getvalue()
