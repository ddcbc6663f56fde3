"""Every line of the README's tour and of the SQL page is run, in order, and answers what stands
under it."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg.pq import Format, PGresult

import streamsql

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/sql.md", "docs/versions.md")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the `text` block right behind it."""

    language: str
    text: str
    answer: str | None


def blocks(page: str = "README.md") -> list[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.S | re.M)
    out = []
    for i, (language, text) in enumerate(found):
        if language == "text":
            continue
        following = found[i + 1] if i + 1 < len(found) else ("", "")
        out.append(Block(language, text, following[1].strip() if following[0] == "text" else None))
    return out


def shown(result: PGresult) -> list[str]:
    """The rows as psql shows them: the server's texts, nothing for NULL."""
    columns = range(result.nfields)
    assert all(result.fformat(column) == Format.TEXT for column in columns)
    rows = [[result.get_value(row, c) or b"" for c in columns] for row in range(result.ntuples)]
    return [" | ".join(value.decode() for value in row).rstrip() for row in rows]


@pytest.mark.parametrize("page", PAGES)
def test_page_has_no_other_kinds_of_block(page: str) -> None:
    assert {b.language for b in blocks(page)} <= {"sh", "sql", "python"}


@pytest.mark.parametrize("page", PAGES)
def test_sql_of_the_page_answers_what_it_says(page: str) -> None:
    from streamsql_server.server import Server

    with streamsql.connect() as database:
        server = Server(database, "127.0.0.1", 0)
        server.start()
        try:
            with psycopg.connect(
                host="127.0.0.1", port=server.port, dbname="streamsql", user="tour", autocommit=True
            ) as connection:
                for block in (b for b in blocks(page) if b.language == "sql"):
                    lines = []
                    for statement in re.split(r";$", block.text.strip(), flags=re.M):
                        if statement.strip():  # one by one, as psql sends what is typed
                            cursor = connection.execute(statement.encode())
                            lines += shown(cursor.pgresult) if cursor.description else []
                    if block.answer is not None:
                        assert "\n".join(lines) == block.answer, block.text
        finally:
            server.stop()


def test_python_of_the_tour_prints_what_it_says() -> None:
    programs = [b for b in blocks() if b.language == "python"]
    assert programs
    for block in programs:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(block.text, "README.md", "exec"), {})
        assert out.getvalue().strip() == block.answer


COMMANDS = sorted(
    {
        line.split("#")[0].strip()
        for block in blocks()
        if block.language == "sh"
        for line in block.text.splitlines()
        if line.strip()
    }
)


@pytest.mark.parametrize("command", COMMANDS)
def test_command_of_the_readme_exists(command: str) -> None:
    words = shlex.split(command)
    if words[0] == "make":
        done = subprocess.run(
            ["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
    elif words[0] == "streamsql":
        options = [w.partition("=")[0] for w in words[2:] if w.startswith("--")]
        done = subprocess.run(
            [sys.executable, "-m", "streamsql", words[1], *([] if words[1].startswith("-") else ["--help"])],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert all(option in done.stdout for option in options)
    else:
        assert words[0] == "psql"
