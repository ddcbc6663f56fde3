"""Every SQL statement that stands in the tests, golden scripts and examples."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from streamsql.core.errors import StreamSqlError
from streamsql.dialect import parse
from streamsql.dialect.statements import Statement

ROOT = Path(__file__).parents[2]
_STARTS = re.compile(
    r"\s*(select|with|create|insert|update|delete|merge|values|table|subscribe|tail|drop|alter|copy"
    r"|declare|fetch|explain|show|set|reset|pause|resume|terminate|begin|prepare|truncate)\b",
    re.IGNORECASE,
)
_LONGEST = 6000


def _texts() -> Iterator[str]:
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
    for path in sorted((ROOT / "sql-examples").rglob("*.sql")):
        yield path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "tests" / "golden").glob("*.slt")):
        for block in path.read_text(encoding="utf-8").split("\n\n"):
            lines = [line for line in block.split("\n") if not line.startswith("#")]
            yield "\n".join(lines[1:]).split("\n----")[0]


@cache
def statements() -> tuple[Statement, ...]:
    """All that parse, each text once."""
    found: list[Statement] = []
    for text in dict.fromkeys(_texts()):
        if len(text) < _LONGEST and _STARTS.match(text):
            try:
                found += parse(text)
            except StreamSqlError:
                continue
    return tuple(found)
