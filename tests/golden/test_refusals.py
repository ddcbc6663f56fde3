"""Every refusal of the code is answered in some golden script, but for those that are listed.

`unreached.txt` lists what no script reaches (it needs two sessions, a full disk, a client that sends
data …). A refusal that is neither reached nor listed fails the test: write a statement into a golden
script. One that is listed and reached must leave the list, so that coverage only grows.
STREAMSQL_REWRITE=1 writes the list anew: read the diff before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

from .refusals import Refusal, refusals
from .script import parse

HERE = Path(__file__).parent
LIST = HERE / "unreached.txt"


def answered() -> set[tuple[str, str]]:
    """(SQLSTATE, message) of every error that the scripts expect."""
    found = set()
    for path in HERE.glob("*.slt"):
        for block in parse(path):
            if block.head[:2] == ["statement", "error"]:
                end = next(
                    (
                        i
                        for i, line in enumerate(block.answer)
                        if line.startswith(("DETAIL: ", "HINT: "))
                    ),
                    len(block.answer),
                )
                found.add((block.head[2], "\n".join(block.answer[:end])))
    return found


def unreached() -> list[Refusal]:
    messages = answered()
    return [r for r in refusals() if not any(r.matches(*message) for message in messages)]


def test_every_refusal_is_reached_by_a_golden_script_or_listed() -> None:
    seen = [str(refusal) for refusal in unreached()]
    if os.environ.get("STREAMSQL_REWRITE") == "1":
        LIST.write_text("".join(f"{line}\n" for line in seen), encoding="utf-8")
    listed = LIST.read_text(encoding="utf-8").splitlines()
    assert sorted(set(seen) - set(listed)) == [], "write a golden statement that shows it"
    assert sorted(set(listed) - set(seen)) == [], "reached now, or gone: take it off the list"


def test_the_list_is_the_small_part() -> None:
    assert len(unreached()) < len(refusals()) / 6


def test_every_refused_statement_of_feature_not_supported_has_a_hint() -> None:
    """But for functions, which say no more than PostgreSQL's do."""
    without = []
    for path in HERE.glob("refusals_*.slt"):
        for block in parse(path):
            if block.head[:3] == ["statement", "error", "0A000"] and path.stem != "refusals_values":
                hints = [line for line in block.answer if line.startswith("HINT: ")]
                if not hints:
                    without.append(block.sql)
    assert without == []
