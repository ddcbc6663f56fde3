"""\\watch and \\live."""

from __future__ import annotations

import time

from streamsql_repl.answer import Backend, StatementFailed
from streamsql_repl.commands.describe import query
from streamsql_repl.commands.registry import CommandFailed, command
from streamsql_repl.interrupt import ctrl_c
from streamsql_repl.live import LiveView, parse_live
from streamsql_repl.shell import Shell

_DEFAULT_SECONDS = 2.0


@command(
    "watch",
    usage="[seconds] [c=times]",
    help="run the statement again and again, until Ctrl-C",
    group="Watching",
)
def watch(shell: Shell, argument: str) -> None:
    """Run the statement before it on the line (or the last one) every few seconds."""
    seconds, times = _DEFAULT_SECONDS, 0
    for word in argument.split():
        name, _, value = word.rpartition("=")
        try:
            if name in ("c", "count"):
                times = int(value)
            elif name in ("", "i", "interval"):
                seconds = float(value)
            else:
                raise ValueError
        except ValueError:
            raise CommandFailed(f'\\watch: "{word}" is no number of seconds') from None
    if seconds < 0 or times < 0:
        raise CommandFailed("\\watch takes no negative numbers")
    query = shell.take_query()
    if not query:
        raise CommandFailed("\\watch: there is no statement to repeat")
    done = 0
    while True:
        shell.screen.note(time.strftime(f"%a %d %b %Y %H:%M:%S (every {seconds:g}s)"))
        if not shell.run_statement(query):
            return
        done += 1
        if done == times:
            return
        with ctrl_c() as pressed:
            if pressed.wait(seconds):
                shell.screen.note("")
                return


@command(
    "live",
    usage="<view or query> [order by column [desc]] [limit n]",
    help="a live view of the rows, until Ctrl-C",
    group="Watching",
)
def live(shell: Shell, argument: str) -> None:
    """SUBSCRIBE and redraw the top rows in place, changed ones marked, until Ctrl-C."""
    if not argument and not shell.buffer.strip():
        raise CommandFailed("\\live needs a view or a query")
    request = parse_live(argument or shell.take_query())
    LiveView(_same_session(shell), request, shell.screen).run()


def _same_session(shell: Shell) -> Backend:
    """A second session to which names and times mean what they mean to the user's."""
    other = shell.backend.second()
    for name in ("search_path", "TimeZone", "dialect"):
        try:
            value = query(shell, f"SHOW {name}")[1][0][0]
            other.run(f"SET {name} TO {value}" if name == "search_path" else
                      f"SET {name} TO '{value}'")  # fmt: skip
        except StatementFailed:  # in a failed transaction, or another server
            continue
    return other
