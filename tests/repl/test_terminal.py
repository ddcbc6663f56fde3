"""The line editor: prompt_toolkit with made-up input, and a real pseudo-terminal."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from streamsql_repl.terminal import Terminal, accepts

from .fakes import FakeBackend, shell


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("select 1;", True),
        ("select 1", False),
        ("", True),
        ("\\d", True),
        ("select (1;", False),
        ("select ';", False),
        ("select 1; select", False),
        ("select 1 \\g", True),
    ],
)
def test_enter_runs_only_what_is_complete(text: str, runs: bool) -> None:
    assert accepts(text) is runs


def typed(text: str, backend: FakeBackend | None = None) -> FakeBackend:
    """Run the line editor over these keys until the end of input."""
    fake = backend or FakeBackend()
    with create_pipe_input() as pipe:
        pipe.send_text(text)
        sh, _, _ = shell(fake, interactive=True)
        Terminal(sh, input=pipe, output=DummyOutput(), history=InMemoryHistory()).run()
    return fake


def test_terminal_edits_several_lines_until_the_semicolon() -> None:
    fake = typed("select\r1\r;\r\x04")
    assert "select\n1" in fake.ran


def test_terminal_ctrl_c_forgets_the_line_and_ctrl_d_leaves() -> None:
    fake = typed("select oops\x03select 1;\r\x04")
    assert "select 1" in fake.ran
    assert not any("oops" in sql for sql in fake.ran)


def test_terminal_q_leaves() -> None:
    fake = typed("\\q\rselect 1;\r")
    assert "select 1" not in fake.ran


def test_terminal_remembers_what_was_typed() -> None:
    history = InMemoryHistory()
    with create_pipe_input() as pipe:
        pipe.send_text("select\r1;\r\\d\r\x04")
        sh, _, _ = shell(FakeBackend(), interactive=True)
        Terminal(sh, input=pipe, output=DummyOutput(), history=history).run()
    assert history.get_strings() == ["select\n1;", "\\d"]


def test_prompt_shows_the_transaction() -> None:
    fake = FakeBackend()
    with create_pipe_input() as pipe:
        sh, _, _ = shell(fake)
        terminal = Terminal(sh, input=pipe, output=DummyOutput(), history=InMemoryHistory())
        assert terminal.prompt() == "streamsql=> "
        fake.state = "T"
        assert terminal.prompt() == "streamsql=*> "
        fake.state = "E"
        assert terminal.prompt() == "streamsql=!> "


def test_history_file_is_private_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from streamsql_repl.history import history_file, state_folder

    monkeypatch.setenv("STREAMSQL_STATE_DIR", str(tmp_path / "state"))
    path = history_file()
    assert path == tmp_path / "state" / "history"
    assert path is not None
    assert path.stat().st_mode & 0o077 == 0
    monkeypatch.delenv("STREAMSQL_STATE_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    if sys.platform.startswith("linux"):
        assert state_folder() == tmp_path / "xdg" / "streamsql"


@pytest.mark.parametrize("before", [signal.default_int_handler, signal.SIG_IGN])
def test_repl_on_a_pseudo_terminal(tmp_path: Path, before: Any) -> None:
    """before: what the starting program does with Ctrl-C; a script's background job ignores it."""
    env = {
        **os.environ,
        "STREAMSQL_STATE_DIR": str(tmp_path),
        "TERM": "xterm",
        "PROMPT_TOOLKIT_NO_CPR": "1",
    }
    child = pexpect.spawn(
        sys.executable,
        ["-m", "streamsql", "repl", "--memory"],
        env=env,
        encoding="utf-8",
        timeout=30,
        dimensions=(40, 100),
        preexec_fn=lambda: signal.signal(signal.SIGINT, before),
    )
    try:
        child.expect("in memory: nothing is kept")
        child.expect("streamsql=>")
        child.send("create table t (a int,\r b text);\r")
        child.expect("CREATE TABLE")
        child.send("insert into t values (1, 'x'), (2, null);\r")
        child.expect("INSERT 0 2")
        child.send("select a, b from t order by a;\r")
        child.expect("NULL")
        child.expect(r"\(2 rows\)")
        child.send("select nope from t;\r")
        child.expect('column "nope" does not exist')
        child.expect("LINE 1: ")
        child.send("subscribe t;\r")
        child.expect("weight")
        child.expect("x")
        child.sendintr()  # cancels the subscription, not the program
        child.expect("streamsql=>")
        child.send("begin;\r")
        child.expect(r"streamsql=\*>")
        child.send("rollback;\r")
        child.expect("ROLLBACK")
        child.send("\\live t order by a\r")
        child.expect("2 rows, version")
        child.sendintr()
        child.expect("streamsql=>")
        child.sendeof()
        child.expect(pexpect.EOF)
    finally:
        child.close()
    assert child.exitstatus == 0
    assert "select nope from t;" in (tmp_path / "history").read_text()
