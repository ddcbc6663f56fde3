"""The backslash commands: one decorator each, one file a family.

A command is a function of the shell and its argument text. `COMMANDS` lists them by name; the order
of the imports below is the order of \\?.
"""

from __future__ import annotations

from streamsql_repl.commands import (  # noqa: F401  (importing registers them)
    describe,
    files,
    general,
    output,
    watching,
)
from streamsql_repl.commands.registry import COMMANDS, CommandFailed, command, dispatch

__all__ = ["COMMANDS", "CommandFailed", "command", "dispatch"]
