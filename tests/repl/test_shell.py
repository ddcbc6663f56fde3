"""The shell without a terminal."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from streamsql_repl.answer import Answer, Column, Message, StatementFailed
from streamsql_repl.shell import Quit

from .fakes import FakeBackend, rows, shell


def test_shell_runs_statements_of_several_lines_once_they_are_complete() -> None:
    backend = FakeBackend()
    sh, out, _ = shell(backend)
    sh.feed("create table t (")
    assert (backend.ran, sh.pending()) == ([], "(")
    sh.feed("  a int); insert into t")
    assert backend.ran == ["create table t (\n  a int)"]
    assert sh.pending() == "-"
    sh.feed("values (1);")
    assert backend.ran[-1] == "insert into t\nvalues (1)"
    assert sh.pending() == ""
    assert out.getvalue() == "CREATE\nINSERT\n"


def test_shell_shows_rows_as_a_table() -> None:
    backend = FakeBackend({"select": lambda: rows("a b", ("1", "x"), ("2", None), numeric="a")})
    sh, out, _ = shell(backend)
    sh.feed("select;")
    assert out.getvalue().splitlines() == [
        " a │ b",
        "───┼──────",
        " 1 │ x",
        " 2 │ NULL",
        "(2 rows)",
    ]


def test_shell_error_goes_to_messages_with_caret() -> None:
    backend = FakeBackend({"select nope": StatementFailed("no", position=7, hint="Try again.")})
    sh, out, err = shell(backend)
    assert not sh.feed("select nope;")
    assert err.getvalue().splitlines() == [
        "ERROR:  no",
        "LINE 1: select nope",
        "               ^",
        "HINT:  Try again.",
    ]
    assert out.getvalue() == ""
    assert sh.failed


def test_shell_notices_come_before_the_tag() -> None:
    answer = Answer(tag="CREATE VIEW", messages=[Message("NOTICE", "has no effect")])
    sh, out, err = shell(FakeBackend({"x": lambda: answer}))
    sh.feed("x;")
    assert err.getvalue() == "NOTICE:  has no effect\n"
    assert out.getvalue() == "CREATE VIEW\n"


def test_script_goes_on_after_an_error_unless_told_to_stop() -> None:
    failing: dict[str, object] = {"bad": StatementFailed("no")}
    lines = ["one;\n", "bad;\n", "two;\n"]
    backend = FakeBackend(failing)  # type: ignore[arg-type]
    sh, _, _ = shell(backend)
    assert not sh.run_lines(lines)
    assert backend.ran == ["one", "bad", "two"]
    backend = FakeBackend(failing)  # type: ignore[arg-type]
    sh, _, _ = shell(backend, stop_on_error=True)
    assert not sh.run_lines(lines)
    assert backend.ran == ["one", "bad"]


def test_script_on_one_line_stops_at_its_error_too() -> None:
    backend = FakeBackend({"bad": StatementFailed("no")})
    sh, _, _ = shell(backend, stop_on_error=True)
    assert not sh.run_lines(["one; bad; two;\n"])
    assert backend.ran == ["one", "bad"]


def test_script_runs_a_last_statement_without_semicolon() -> None:
    backend = FakeBackend()
    sh, _, _ = shell(backend)
    assert sh.run_lines(["select 1;\n", "select\n", "2"])
    assert backend.ran == ["select 1", "select\n2"]


def test_copy_from_stdin_takes_the_lines_of_the_script() -> None:
    backend = FakeBackend()
    sh, out, _ = shell(backend)
    assert sh.run_lines(["copy t from stdin;\n", "1\ta;b\n", "2\t\\N\n", "\\.\n", "select 1;\n"])
    assert backend.copy.data == b"1\ta;b\n2\t\\N\n"
    assert backend.ran == ["copy t from stdin", "select 1"]
    assert "COPY 2" in out.getvalue()


def test_copy_from_stdin_that_fails_skips_the_rest_of_its_data() -> None:
    backend = FakeBackend()
    sh, _, err = shell(backend)
    sh.run_lines(["copy t from stdin;\n", "bad\n", "drop;\n", "\\.\n", "select 1;\n"])
    assert backend.ran == ["copy t from stdin", "select 1"]
    assert "invalid input" in err.getvalue()


def test_copy_to_stdout_is_written_as_it_is() -> None:
    sh, out, _ = shell(FakeBackend())
    sh.feed("copy t to stdout;")
    assert out.getvalue() == "1,a\n2,b\n"


def test_interactive_results_are_cut_at_the_row_limit_and_say_so() -> None:
    data = [(str(i),) for i in range(25)]
    backend = FakeBackend({"s": lambda: rows("n", *data)})
    sh, out, _ = shell(backend, interactive=True, row_limit=10)
    sh.feed("s;")
    assert "(25 rows)" in out.getvalue()
    assert "The first 10 of them are shown; \\limit 0 shows all." in out.getvalue()
    assert out.getvalue().count("\n") == 2 + 10 + 2
    sh.feed("\\limit 0")
    sh.feed("s;")
    assert out.getvalue().splitlines()[-1] == "(25 rows)"


def test_rows_that_do_not_fit_are_shown_expanded() -> None:
    names = " ".join(f"column_{i}" for i in range(20))
    backend = FakeBackend({"s": lambda: rows(names, ("value",) * 20)})
    sh, out, _ = shell(backend, width=60)
    sh.feed("s;")
    assert out.getvalue().startswith("─[ RECORD 1 ]")
    assert " column_19 │ value" in out.getvalue()


def test_streaming_rows_appear_as_they_come() -> None:
    def batches():  # type: ignore[no-untyped-def]
        yield [("1", "1", "a")]
        yield []
        yield [("2", "-1", "a")]

    answer = Answer(
        columns=(Column("version", True), Column("weight", True), Column("x")),
        batches=batches(),
        streaming=True,
    )
    sh, out, _ = shell(FakeBackend({"subscribe v": lambda: answer}))
    sh.feed("subscribe v;")
    assert out.getvalue().splitlines()[2:] == ["       1 │      1 │ a", "       2 │     -1 │ a"]


def test_ctrl_c_cancels_the_running_statement_and_the_shell_lives_on() -> None:
    import _thread  # its interrupt is a Ctrl-C to this process

    backend = FakeBackend()
    sh, _, err = shell(backend)
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    assert not sh.feed("hang;")
    assert "canceling statement due to user request" in err.getvalue()
    assert sh.feed("select 1;")


def test_timing_shows_the_time_of_each_statement() -> None:
    sh, out, _ = shell(FakeBackend())
    sh.feed("\\timing on")
    sh.feed("flush;")
    assert out.getvalue().splitlines()[1] == "FLUSH"
    assert out.getvalue().splitlines()[2].startswith("Time: ")
    assert out.getvalue().endswith(" ms\n")


def test_x_switches_expanded_output() -> None:
    backend = FakeBackend({"s": lambda: rows("a", ("1",))})
    sh, out, _ = shell(backend)
    sh.feed("\\x")
    sh.feed("s;")
    assert "─[ RECORD 1 ]" in out.getvalue()
    sh.feed("\\x off")
    sh.feed("\\x auto")
    assert sh.settings.expanded == "auto"
    assert not sh.feed("\\x maybe")


def test_g_and_gx_run_without_semicolon_and_repeat() -> None:
    backend = FakeBackend({"select 1": lambda: rows("a", ("1",))})
    sh, out, _ = shell(backend)
    sh.feed("select 1 \\g")
    sh.feed("\\g")
    sh.feed("select 1 \\gx")
    assert backend.ran == ["select 1"] * 3
    assert "─[ RECORD 1 ]" in out.getvalue()
    assert sh.settings.expanded == "auto"


def test_watch_repeats_the_statement_before_it() -> None:
    backend = FakeBackend({"select 1": lambda: rows("a", ("1",))})
    sh, out, _ = shell(backend)
    sh.feed("select 1 \\watch 0.01 c=3")
    assert backend.ran == ["select 1"] * 3
    assert out.getvalue().count("(every 0.01s)") == 3
    sh.feed("select 2; \\watch i=0 count=2")
    assert backend.ran[3:] == ["select 2"] * 3


@pytest.mark.parametrize(
    "text",
    [
        "\\watch x",
        "\\watch -1",
        "\\nope",
        "\\i",
        "\\i /no/such/file",
        "\\limit x",
        "\\copy t",
        "\\live",
        "\\h nothing",
        "\\o /no/such/dir/x",
    ],
)
def test_command_that_can_not_be_done_says_why_and_counts_as_failure(text: str) -> None:
    sh, _, err = shell(FakeBackend())
    assert not sh.feed(text)
    assert err.getvalue().strip()


def test_unknown_command_names_the_nearest() -> None:
    sh, _, err = shell(FakeBackend())
    sh.feed("\\timin")
    assert "Perhaps you meant \\timing" in err.getvalue()


def test_i_runs_a_file_and_o_sends_results_to_one(tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text("select 1;\n\\echo hello\nselect\n2;\n")
    target = tmp_path / "out.txt"
    backend = FakeBackend({"select 1": lambda: rows("a", ("1",))})
    sh, out, _ = shell(backend)
    sh.feed(f"\\o {target}")
    sh.feed(f"\\i {script}")
    sh.feed("\\o")
    assert backend.ran == ["select 1", "select\n2"]
    assert target.read_text().splitlines() == [" a", "───", " 1", "(1 row)", "hello"]
    assert out.getvalue() == "SELECT\n"


def test_copy_command_reads_and_writes_local_files(tmp_path: Path) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("1,a\n2,b\n")
    backend = FakeBackend()
    sh, out, _ = shell(backend)
    assert sh.feed(f"\\copy t from '{source}' (format csv)")
    assert backend.copy.data == source.read_bytes()
    assert sh.feed(f"\\copy (select 1) to {target} (format csv)")
    assert target.read_text() == "1,a\n2,b\n"
    assert backend.ran == [
        "COPY t FROM STDIN (format csv)",
        "COPY (select 1) TO STDOUT (format csv)",
    ]
    assert out.getvalue() == "COPY 2\nCOPY\n"


def test_help_lists_every_command_and_statement() -> None:
    from streamsql_repl.commands import COMMANDS
    from streamsql_repl.sql_help import TOPICS

    sh, out, _ = shell(FakeBackend())
    sh.feed("\\?")
    for entry in COMMANDS.values():
        assert f"\\{entry.names[0]}" in out.getvalue()
    sh.feed("\\h")
    sh.feed("\\h create materialized")
    assert "EMIT ON WINDOW CLOSE" in out.getvalue()
    assert all(topic.syntax and topic.summary for topic in TOPICS)


def test_help_has_every_statement_that_there_is() -> None:
    from streamsql_repl.sql_help import TOPICS

    from streamsql.dialect.registry import STATEMENTS
    from streamsql.dialect.unsupported import OTHERS
    from streamsql.dialect.utility.create import CREATES

    names = {name for topic in TOPICS for name in (topic.name, *topic.others)}
    first = {name.split()[0] for name in names}
    words = {word for word, _ in STATEMENTS} - set(OTHERS) - {"(", "PREPARE TRANSACTION"}
    assert {w for w in words if w not in names and w not in first} == set()
    foreign = {  # other systems' words for what has a name here
        "STREAM", "CONNECTOR", "DEFAULT INDEX", "DYNAMIC TABLE", "MATERIALIZED TABLE", "SOURCE TABLE",
        "SOURCE STREAM", "SOURCE CONNECTOR", "SINK CONNECTOR",
    }  # fmt: skip
    kinds = {" ".join(words) for words, _ in CREATES} - foreign - {"SINK"}  # which is refused
    assert {f"CREATE {kind}" for kind in kinds} - names == set()


def test_e_runs_what_the_editor_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text("#!/bin/sh\necho 'select 42;' > $1\n")
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.delenv("VISUAL", raising=False)
    backend = FakeBackend()
    sh, _, _ = shell(backend)
    sh.feed("\\e")
    assert backend.ran == ["select 42"]


def test_q_leaves_and_conninfo_tells() -> None:
    sh, out, _ = shell(FakeBackend())
    sh.feed("\\conninfo")
    assert out.getvalue() == "You are using a fake.\n"
    with pytest.raises(Quit):
        sh.feed("\\q")


def test_r_forgets_what_was_typed() -> None:
    backend = FakeBackend()
    sh, _, _ = shell(backend)
    sh.feed("select oops")
    sh.feed("\\r")
    sh.feed("select 1;")
    assert backend.ran == ["select 1"]


def test_ddl_tells_the_listeners() -> None:
    sh, _, _ = shell(FakeBackend())
    told: list[int] = []
    sh.on_change.append(lambda: told.append(1))
    sh.feed("select 1;")
    sh.feed("create view v as select 1;")
    assert told == [1]
