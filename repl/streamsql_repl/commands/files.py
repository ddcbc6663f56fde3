"""\\i, \\e, \\copy, \\cd."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

from streamsql_repl.answer import StatementFailed
from streamsql_repl.commands.registry import CommandFailed, command
from streamsql_repl.interrupt import interruptible
from streamsql_repl.shell import Shell

_CHUNK_BYTES = 1 << 20
_COPY = re.compile(
    r"^(?P<what>.+?)\s+(?P<way>from|to)\s+(?P<target>'[^']+'|\S+)\s*(?P<options>.*)$",
    re.IGNORECASE | re.DOTALL,
)


def _path(text: str) -> Path:
    return Path(text.strip().strip("'")).expanduser()


@command("i", "include", usage="file", help="run a script", group="Files")
def include(shell: Shell, argument: str) -> None:
    """Run the statements and commands of a file."""
    if not argument:
        raise CommandFailed("\\i needs a file")
    path = _path(argument)
    try:
        with path.open(encoding="utf-8") as file:
            went_well = shell.run_lines(file)
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}") from None
    if not went_well and shell.settings.stop_on_error:
        raise CommandFailed(f"{path}: stopped at an error")


@command("cd", usage="[folder]", help="change the folder that files are relative to", group="Files")
def change_folder(shell: Shell, argument: str) -> None:
    """Change the working folder."""
    try:
        os.chdir(_path(argument) if argument else Path.home())
    except OSError as error:
        raise CommandFailed(f"{argument}: {error.strerror}") from None


@command("e", "edit", help="edit the last statement in $EDITOR, then run it", group="Files")
def edit(shell: Shell, argument: str) -> None:
    """Edit the statement before the command, or the last one, in an editor and run the result."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.NamedTemporaryFile("w+", suffix=".sql", delete=False) as file:
        file.write(shell.take_query() + "\n")
        name = file.name
    try:
        code = subprocess.call([*editor.split(), name])
        text = Path(name).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise CommandFailed(f"{editor}: {error.strerror}") from None
    finally:
        Path(name).unlink(missing_ok=True)
    if code:
        raise CommandFailed(f"{editor} ended with exit code {code}")
    if text:
        shell.screen.note(text)
        shell.run_lines([text + "\n"])


@command(
    "copy",
    usage="{t | (query)} {from | to} 'file' [options]",
    help="COPY with a file on this machine",
    group="Files",
)
def copy(shell: Shell, argument: str) -> None:
    """COPY between a table or query and a local file; options as in COPY."""
    found = _COPY.match(argument)
    if found is None:
        raise CommandFailed("\\copy: write \\copy table from 'file', or \\copy (query) to 'file'")
    reading = found["way"].lower() == "from"
    channel = "FROM STDIN" if reading else "TO STDOUT"
    sql = f"COPY {found['what']} {channel} {found['options']}".strip()
    path = _path(found["target"])
    try:
        tag = interruptible(
            lambda: _read(shell, sql, path) if reading else _write(shell, sql, path),
            shell.backend.cancel,
        )
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}") from None
    shell.screen.note(tag)


def _read(shell: Shell, sql: str, path: Path) -> str:
    with path.open("rb") as file:
        answer = shell.backend.run(sql)
        if answer.copy_in is None:
            raise StatementFailed("this COPY takes no data")
        try:
            while data := file.read(_CHUNK_BYTES):
                answer.copy_in.write(data)
        except OSError:
            answer.copy_in.fail("the file could not be read")
            raise
        return answer.copy_in.finish()


def _write(shell: Shell, sql: str, path: Path) -> str:
    answer = shell.backend.run(sql)
    if answer.copy_out is None:
        raise StatementFailed("this COPY gives no data")
    with path.open("wb") as file:
        for data in answer.copy_out:
            file.write(data)
    return "COPY"
