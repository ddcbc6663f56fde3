"""The page about the REPL names every command."""

from __future__ import annotations

from pathlib import Path

from streamsql_repl.commands import COMMANDS

PAGE = Path(__file__).parents[2] / "docs" / "repl.md"


def test_every_command_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    missing = [c.names[0] for c in COMMANDS.values() if f"`\\{c.names[0]}" not in text]
    assert missing == []
