"""\\q, \\?, \\h, \\conninfo, \\g."""

from __future__ import annotations

import shutil
import textwrap

from streamsql_repl.commands.registry import COMMANDS, CommandFailed, command
from streamsql_repl.shell import Quit, Shell
from streamsql_repl.sql_help import TOPICS


@command("q", "quit", "exit", help="leave", group="General")
def leave(shell: Shell, argument: str) -> None:
    """Leave the REPL."""
    raise Quit


@command("?", "help", help="this list", group="General")
def show_commands(shell: Shell, argument: str) -> None:
    """All commands, by group."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for entry in dict.fromkeys(COMMANDS.values()):
        label = f"\\{entry.names[0]} {entry.usage}".rstrip()
        groups.setdefault(entry.group, []).append((label, entry.help))
    width = max(len(label) for rows in groups.values() for label, _ in rows)
    for group, rows in groups.items():
        shell.screen.note(group)
        for label, text in rows:
            shell.screen.note(f"  {label.ljust(width)}  {text}")


@command("h", usage="[statement]", help="syntax of SQL statements", group="General")
def show_syntax(shell: Shell, argument: str) -> None:
    """The statements, or the syntax of those that start with the argument."""
    wanted = " ".join(argument.upper().split())
    if not wanted:
        columns = shutil.get_terminal_size().columns if shell.interactive else 80
        names = ", ".join(topic.name for topic in TOPICS)
        for line in textwrap.wrap(names, columns - 2):
            shell.screen.note(f"  {line}")
        shell.screen.note("\\h <statement> shows its syntax.")
        return
    found = [
        topic
        for topic in TOPICS
        if any(name.startswith(wanted) for name in (topic.name, *topic.others))
    ]
    if not found:
        raise CommandFailed(f'no help for "{argument}"; \\h lists the statements')
    for topic in found:
        shell.screen.note(f"{topic.name}: {topic.summary}")
        shell.screen.note(textwrap.indent(topic.syntax, "    "))


@command("conninfo", help="what this is connected to", group="General")
def show_connection(shell: Shell, argument: str) -> None:
    """Where statements run."""
    shell.screen.note(shell.backend.describe())


@command(
    "g", help="run what was typed (or the last statement) without a semicolon", group="General"
)
def go(shell: Shell, argument: str) -> None:
    """Run the statement before it on the line, or the last one again."""
    query = shell.take_query()
    if query and not shell.run_statement(query):
        raise CommandFailed("the statement failed")


@command("gx", help="the same, one value a line", group="General")
def go_expanded(shell: Shell, argument: str) -> None:
    """\\g with expanded output."""
    before, shell.settings.expanded = shell.settings.expanded, "on"
    try:
        go(shell, argument)
    finally:
        shell.settings.expanded = before


@command("r", "reset", help="forget what was typed so far", group="General")
def forget(shell: Shell, argument: str) -> None:
    """Empty the buffer."""
    shell.buffer = ""
