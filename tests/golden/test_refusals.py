"""Every refusal of the code is answered in some golden script, or by a test that names it.

A refusal that is neither fails the test: write a statement into a golden script. Where only a second
thread can bring it about, write a test with `tests.refused.refused("SQLSTATE", "message")`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from .refusals import ROOT, Refusal, refusals
from .script import parse

HERE = Path(__file__).parent


def answered() -> set[tuple[str, str]]:
    """(SQLSTATE, message) of every error that the scripts expect."""
    found = set()
    for path in HERE.glob("*.slt"):
        for block in parse(path):
            if block.fails:
                end = next(
                    (
                        i
                        for i, line in enumerate(block.answer)
                        if line.startswith(("DETAIL: ", "HINT: "))
                    ),
                    len(block.answer),
                )
                found.add((block.head[2], "\n".join(block.answer[:end])))
                found.update(_reasons(block.answer[end:]))
    return found


def _reasons(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Errors that stand in the DETAIL of another: "… depends on …: why"."""
    for line in lines:
        if line.startswith("DETAIL: ") and line.count(": ") > 1:
            yield "55000", line.rsplit(": ", 1)[1]


def named() -> set[tuple[str, str]]:
    """(SQLSTATE, message) of every call of `refused` in a test."""
    found = set()
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "refused(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "refused":
                sqlstate, message = (ast.literal_eval(arg) for arg in node.args)
                found.add((sqlstate, message))
    return found


def unreached() -> list[Refusal]:
    messages = answered() | named()
    return [r for r in refusals() if not any(r.matches(*message) for message in messages)]


def test_every_refusal_is_reached_by_a_golden_script_or_a_test() -> None:
    assert [str(refusal) for refusal in unreached()] == [], "write a golden statement that shows it"


def test_refusals_are_found() -> None:
    """The reader of the source has not gone blind."""
    assert len(refusals()) > 600


def test_every_refused_statement_of_feature_not_supported_has_a_hint() -> None:
    """But for functions, which say no more than PostgreSQL's do."""
    without = []
    for path in HERE.glob("refusals_*.slt"):
        for block in parse(path):
            if block.fails and block.head[2] == "0A000" and path.stem != "refusals_values":
                hints = [line for line in block.answer if line.startswith("HINT: ")]
                if not hints:
                    without.append(block.sql)
    assert without == []
