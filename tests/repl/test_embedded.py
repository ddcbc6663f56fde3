"""The REPL over a database in this process."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from streamsql_repl.answer import StatementFailed
from streamsql_repl.app import EXIT_NO_CONNECTION, EXIT_OK, EXIT_SCRIPT_FAILED, arguments_of, main
from streamsql_repl.backends.embedded import EmbeddedBackend
from streamsql_repl.shell import Shell

from .fakes import shell


@pytest.fixture(scope="module")
def backend() -> Iterator[EmbeddedBackend]:
    found = EmbeddedBackend(":memory:")
    sh, _, err = shell(found)
    sh.feed("create table t (a int primary key, b text not null, ts timestamptz);")
    sh.feed("insert into t values (1, 'x', '2024-01-01'), (2, 'yy', null);")
    sh.feed("create materialized view v as select b, count(*) as n from t group by b;")
    assert err.getvalue() == ""
    yield found
    found.close()


@pytest.fixture
def sh(backend: EmbeddedBackend) -> tuple[Shell, io.StringIO, io.StringIO]:
    return shell(backend)


def test_embedded_shows_values_as_postgresql_does(
    sh: tuple[Shell, io.StringIO, io.StringIO],
) -> None:
    core, out, _ = sh
    core.feed("select a, b, ts, a = 1 as first, 1.50 as d from t order by a;")
    assert out.getvalue().splitlines() == [
        " a │ b  │ ts                     │ first │    d",
        "───┼────┼────────────────────────┼───────┼──────",
        " 1 │ x  │ 2024-01-01 00:00:00+00 │ t     │ 1.50",
        " 2 │ yy │ NULL                   │ f     │ 1.50",
        "(2 rows)",
    ]


@pytest.mark.parametrize(
    ("sql", "caret"),
    [
        ("select * form t;", "form"),
        ("-- note\nselect nope from t;", "nope"),
        ("select *\n from missing;", "missing"),
        ("/* c */ select (1;", ";"),
    ],
)
def test_embedded_error_points_at_the_place(
    sh: tuple[Shell, io.StringIO, io.StringIO], sql: str, caret: str
) -> None:
    core, _, err = sh
    core.feed(sql)
    core.feed("\\r")
    lines = err.getvalue().splitlines()
    if caret == ";":
        assert lines == []  # a parenthesis is open: the statement goes on
        return
    line = next(text for text in lines if text.startswith("LINE "))
    at = next(text for text in lines if text.strip() == "^").index("^")
    assert line[at:].startswith(caret)


def test_embedded_copies_in_and_out(sh: tuple[Shell, io.StringIO, io.StringIO]) -> None:
    core, out, err = sh
    core.run_lines(
        [
            "create table c (a int, b text);\n",
            "copy c from stdin;\n",
            "1\ta\\tb\n",
            "2\t\\N\n",
            "\\.\n",
        ]
    )
    core.feed("copy c to stdout;")
    core.feed("copy (select * from c order by a) to stdout (format csv, header, delimiter ';');")
    assert err.getvalue() == ""
    assert out.getvalue().splitlines() == [
        "CREATE TABLE",
        "COPY 2",
        "1\ta\\tb",
        "2\t\\N",
        "a;b",
        "1;a\tb",
        "2;",
    ]
    core.run_lines(["copy c from stdin;\n", "x\ty\n", "\\.\n"])
    assert err.getvalue().startswith("ERROR:  invalid input syntax for type integer")


def test_embedded_transaction_shows_in_the_status(backend: EmbeddedBackend) -> None:
    core, _, _ = shell(backend)
    assert backend.status == "I"
    core.feed("begin;")
    assert backend.status == "T"
    core.feed("select nope;")
    assert backend.status == "E"
    core.feed("rollback;")
    assert backend.status == "I"


def test_embedded_returning_shows_rows_and_tag(sh: tuple[Shell, io.StringIO, io.StringIO]) -> None:
    core, out, _ = sh
    core.feed("insert into t values (50, 'z', null) returning a;")
    core.feed("delete from t where a = 50;")
    assert out.getvalue().splitlines() == [
        "  a",
        "────",
        " 50",
        "(1 row)",
        "INSERT 0 1",
        "DELETE 1",
    ]


def test_embedded_live_view_sees_changes(backend: EmbeddedBackend) -> None:
    import threading
    import time

    from streamsql_repl.live import LiveView, parse_live
    from streamsql_repl.screen import Screen

    out = io.StringIO()
    own = backend.second()
    live = LiveView(
        own, parse_live("v order by n desc"), Screen(out, io.StringIO(), fixed_width=80)
    )
    thread = threading.Thread(target=live._read)
    thread.start()
    core, _, _ = shell(backend)
    wait_for(lambda: live.rows.total() == 2)
    core.feed("insert into t values (60, 'x', null);")
    wait_for(lambda: live.rows.weights.get(("x", "2")) == 1)
    frame = live.frame(time.monotonic())
    assert frame[2] == "~  x  │ 2"
    core.feed("delete from t where a = 60;")
    wait_for(lambda: live.rows.weights.get(("x", "1")) == 1)
    own.cancel()
    thread.join(5)
    assert not thread.is_alive()
    own.close()


def wait_for(condition) -> None:  # type: ignore[no-untyped-def]
    import time

    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def test_embedded_describes_relations(sh: tuple[Shell, io.StringIO, io.StringIO]) -> None:
    core, out, err = sh
    for command in (
        "\\d",
        "\\d t",
        "\\d public.v",
        "\\dt",
        "\\dv",
        "\\dm",
        "\\ds",
        "\\dk",
        "\\dn",
        "\\l",
        "\\du",
    ):
        assert core.feed(command), err.getvalue()
    text = out.getvalue()
    assert " public │ t    │ table" in text
    assert " public │ v    │ materialized view" in text
    assert "timestamp with time zone" in text
    assert '"t_pkey" PRIMARY KEY (a)' in text
    assert "create materialized view v as" in text
    assert not core.feed("\\d nothing")
    assert 'Did not find any relation named "nothing".' in err.getvalue()


def test_embedded_completion_words_come_from_the_catalog(backend: EmbeddedBackend) -> None:
    from streamsql_repl.completion import Vocabulary

    vocabulary = Vocabulary()
    vocabulary.refresh(backend).join(10)
    assert vocabulary.words.relations["t"] == ["a", "b", "ts"]
    assert vocabulary.words.relations["v"] == ["b", "n"]


def test_main_runs_a_script_from_stdin_with_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(None, ":memory:", stdin=io.StringIO("select 1 as a;\n\\echo hi\n")) == EXIT_OK
    assert capsys.readouterr().out.splitlines() == [" a", "───", " 1", "(1 row)", "hi"]
    assert (
        main(["--memory"], stdin=io.StringIO("select 1;\nselect nope;\nselect 2;\n"))
        == EXIT_SCRIPT_FAILED
    )
    captured = capsys.readouterr()
    assert "2" not in captured.out
    assert 'column "nope" does not exist' in captured.err
    assert main(["--memory"], stdin=io.StringIO("\\q\nselect nope;\n")) == EXIT_OK


def test_main_keeps_data_in_a_directory(tmp_path: Path) -> None:
    folder = str(tmp_path / "data")
    assert (
        main(
            ["--data-dir", folder],
            stdin=io.StringIO("create table k (a int); insert into k values (7);"),
        )
        == EXIT_OK
    )
    sh_backend = EmbeddedBackend(folder)
    core, out, _ = shell(sh_backend)
    core.feed("select a from k;")
    assert " 7" in out.getvalue()
    sh_backend.close()


def test_main_without_a_server_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("127.0.0.1:1") == EXIT_NO_CONNECTION
    assert "connection failed" in capsys.readouterr().err
    assert main(["--bogus"]) == EXIT_NO_CONNECTION


def test_database_that_can_not_be_opened_fails_the_first_statement(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    broken = EmbeddedBackend(str(file / "data"))
    with pytest.raises(StatementFailed):
        broken.run("select 1")
    broken.close()


def test_arguments_name_a_server_or_a_directory() -> None:
    assert arguments_of([]) == (None, None)
    assert arguments_of(["host:1"]) == ("host:1", None)
    assert arguments_of(["--data-dir", "x"]) == (None, "x")
    assert arguments_of(["--data-dir=x"]) == (None, "x")
    for wrong in (["a", "b"], ["a", "--memory"], ["-x"]):
        with pytest.raises(ValueError):
            arguments_of(wrong)


def test_live_view_finds_names_as_the_session_does() -> None:
    from streamsql_repl.commands.watching import _same_session

    found = EmbeddedBackend(":memory:")
    sh, _, err = shell(found)
    sh.feed("create schema s; create table s.only_there (a int);")
    sh.feed("""set search_path to s, "Other", public; set time zone 'Europe/Paris';""")
    own = _same_session(sh)
    assert next(iter(own.run("show search_path").batches)) == [('s, "Other", public',)]
    assert next(iter(own.run("show timezone").batches)) == [("Europe/Paris",)]
    assert own.run("select a from only_there").columns is not None
    own.close()
    assert err.getvalue() == ""
    found.close()


def test_describe_shows_the_watermark_and_the_relation_that_is_meant() -> None:
    found = EmbeddedBackend(":memory:")
    sh, out, _ = shell(found)
    sh.feed("create table t (a int); create schema s;")
    sh.feed("create table s.t (ts timestamp, watermark for ts as ts - interval '5' second);")
    sh.feed("\\d t")
    assert 'Table "public.t"' in out.getvalue() and "Watermark" not in out.getvalue()
    sh.feed("set search_path to s, public;")
    sh.feed("\\d t")
    assert 'Table "s.t"' in out.getvalue()
    assert "Watermark: ts as ts - interval '5' second (now: no row yet)" in out.getvalue()
    sh.feed("insert into t values ('2024-01-01 00:00:10');")
    sh.feed("\\d t")
    assert "(now: 2024-01-01 00:00:05)" in out.getvalue()
    found.close()
