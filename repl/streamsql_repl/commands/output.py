"""\\x, \\timing, \\limit, \\verbose, \\o, \\echo."""

from __future__ import annotations

from pathlib import Path

from streamsql_repl.commands.registry import CommandFailed, command
from streamsql_repl.shell import Shell

_ON = frozenset({"on", "true", "1", "yes"})
_OFF = frozenset({"off", "false", "0", "no"})


def _switch(argument: str, present: bool) -> bool:
    """on/off, or the other one if nothing is said. Raises: CommandFailed."""
    word = argument.lower()
    if not word:
        return not present
    if word not in _ON | _OFF:
        raise CommandFailed(f'"{argument}" is neither on nor off')
    return word in _ON


@command("x", usage="[on|off|auto]", help="one value a line", group="Output")
def expanded(shell: Shell, argument: str) -> None:
    """Expanded output: on, off, or auto (when the columns don't fit)."""
    if argument.lower() == "auto":
        shell.settings.expanded = "auto"
        shell.screen.note("Expanded display is used automatically.")
        return
    on = _switch(argument, shell.settings.expanded == "on")
    shell.settings.expanded = "on" if on else "off"
    shell.screen.note(f"Expanded display is {shell.settings.expanded}.")


@command("timing", usage="[on|off]", help="time of each statement", group="Output")
def timing(shell: Shell, argument: str) -> None:
    """Show how long each statement took."""
    shell.settings.timing = _switch(argument, shell.settings.timing)
    shell.screen.note(f"Timing is {'on' if shell.settings.timing else 'off'}.")


@command("limit", usage="[n]", help="rows shown of one result (0 = all)", group="Output")
def limit(shell: Shell, argument: str) -> None:
    """How many rows of a result are shown to a person."""
    if argument:
        if not argument.isdigit():
            raise CommandFailed("\\limit takes a number of rows, or 0")
        shell.settings.row_limit = int(argument)
    rows = shell.settings.row_limit
    shell.screen.note(f"Row limit is {rows}." if rows else "All rows are shown.")


@command("verbose", usage="[on|off]", help="SQLSTATE in errors", group="Output")
def verbose(shell: Shell, argument: str) -> None:
    """Show the SQLSTATE of errors."""
    shell.settings.verbose = _switch(argument, shell.settings.verbose)
    shell.screen.note(f"Verbose errors are {'on' if shell.settings.verbose else 'off'}.")


@command("o", usage="[file]", help="send results to a file, or back to the screen", group="Output")
def redirect(shell: Shell, argument: str) -> None:
    """Results go to a file."""
    if not argument:
        shell.screen.redirect(None)
        return
    try:
        file = Path(argument).expanduser().open("w", encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"{argument}: {error.strerror}") from None
    shell.screen.redirect(file)


@command("echo", usage="text", help="print a text", group="Output")
def echo(shell: Shell, argument: str) -> None:
    """Print a text among the results."""
    shell.screen.line(argument.strip("'"))
