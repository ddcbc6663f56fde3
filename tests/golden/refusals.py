"""Every refusal that stands in the code: its SQLSTATE, and its message as a pattern.

Found by reading the source: calls of the error classes whose SQLSTATE is the user's to mend (0A, 2x,
42, 44), and the parser's two helpers. A message that is not written where the error is made can't be
seen here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from streamsql.core import errors

ROOT = Path(__file__).parents[2]
CLASSES = ("0A", "21", "22", "23", "25", "2B", "34", "3B", "3F", "40", "42", "44", "55")
"""SQLSTATE classes whose errors answer a statement."""

STATES = {
    name: cls.sqlstate
    for name, cls in vars(errors).items()
    if isinstance(cls, type) and issubclass(cls, errors.StreamSqlError)
}


@dataclass(frozen=True, order=True)
class Refusal:
    """file: below the repository. template: the message with {} for what is filled in."""

    file: str
    sqlstate: str
    template: str

    def matches(self, sqlstate: str, message: str) -> bool:
        """Is this the message of such an error?"""
        if sqlstate != self.sqlstate:
            return False
        parts = [re.escape(part) for part in self.template.split("{}")]
        return re.fullmatch(".*".join(parts), message, re.DOTALL) is not None

    def __str__(self) -> str:
        return f"{self.file}\t{self.sqlstate}\t{self.template}"


def refusals() -> list[Refusal]:
    """All of them, in the order of files and messages, each once."""
    found: set[Refusal] = set()
    for path in sorted((ROOT / "streamsql").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        file = path.relative_to(ROOT).as_posix()
        found.update(Refusal(file, state, text) for state, text in _of(tree))
    return sorted(found)


def _of(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = _name(node.func)
        if name == "not_supported" and node.args:
            yield from (
                (state, f"{text} is not supported") for state, text in _texts("0A000", node.args[0])
            )
        elif name in ("error", "wrong") and _message(node) is not None:
            yield from (
                (state, f"{text} at {{}}") for state, text in _texts("42601", _message(node))
            )
        elif name == "fail" and len(node.args) > 2 and _name(node.args[1]) in STATES:  # of a kernel
            yield from _texts(STATES[_name(node.args[1])], node.args[2])
        elif name in STATES and STATES[name].startswith(CLASSES) and node.args:
            yield from _texts(STATES[name], node.args[0])


def _name(func: ast.expr) -> str:
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else ""


def _message(node: ast.Call) -> ast.expr | None:
    """The message of Cursor.error(token, message, hint)."""
    for keyword in node.keywords:
        if keyword.arg == "message":
            return keyword.value
    return node.args[1] if len(node.args) > 1 else None


def _texts(state: str, node: ast.expr | None) -> Iterator[tuple[str, str]]:
    """The templates of an expression; none if it is no text."""
    if isinstance(node, ast.IfExp):
        yield from _texts(state, node.body)
        yield from _texts(state, node.orelse)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield state, node.value
    elif isinstance(node, ast.JoinedStr):
        text = "".join(
            str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
        )
        if re.sub(r"[\W_]|\{\}", "", text):
            yield state, text
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        for _, left in _texts(state, node.left):
            for _, right in _texts(state, node.right):
                yield state, left + right
