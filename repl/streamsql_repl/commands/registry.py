"""The decorator that makes a function a backslash command, and the look-up by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamsql_repl.shell import Shell

Handler = Callable[["Shell", str], None]


class CommandFailed(Exception):
    """A command can't do what was asked; the text says why."""


@dataclass(frozen=True)
class Command:
    """names: without the backslash, the first one is shown. usage: its arguments. group: in \\?."""

    names: tuple[str, ...]
    usage: str
    help: str
    group: str
    handler: Handler


COMMANDS: dict[str, Command] = {}


def command(*names: str, usage: str = "", help: str, group: str) -> Callable[[Handler], Handler]:
    """Register a function as `\\name`."""

    def register(handler: Handler) -> Handler:
        entry = Command(names, usage, help, group, handler)
        for name in names:
            assert name not in COMMANDS, name
            COMMANDS[name] = entry
        return handler

    return register


def dispatch(shell: Shell, text: str) -> None:
    """Run the command that `text` (without its backslash) names.

    Raises: CommandFailed for one that is not known, with the nearest known.
    """
    name, _, argument = text.strip().partition(" ")
    entry = COMMANDS.get(name)
    if entry is None and name.endswith("+"):  # \\d+ shows no more than \\d
        entry = COMMANDS.get(name.rstrip("+"))
    if entry is None:
        near = difflib.get_close_matches(name, COMMANDS, n=1, cutoff=0.5)
        more = f" Perhaps you meant \\{near[0]}." if near else ""
        raise CommandFailed(f"invalid command \\{name}.{more} Try \\? for help.")
    entry.handler(shell, argument.strip().removesuffix(";").strip())
