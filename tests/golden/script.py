"""Golden scripts: statements beside what they answer, in one readable file.

    statement ok
    CREATE TABLE t (a INT)

    statement error 42P01 15
    SELECT * FROM nope
    ----
    relation "nope" does not exist

    query
    SELECT a FROM t ORDER BY a
    ----
    1
    2

Blocks are separated by blank lines; `#` starts a comment line outside of a block. `error` is followed by the
SQLSTATE and the 1-based position (or `-` where there is none); under `----` stand the message and, if there
are any, `DETAIL: …` and `HINT: …` lines. STREAMSQL_REWRITE=1 rewrites the expectations from what was seen: read
the diff before you commit it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Block:
    """One statement of a script. head: the words of its first line; answer: lines under `----`."""

    line: int
    head: list[str]
    sql: str
    answer: list[str] = field(default_factory=list)
    comment: list[str] = field(default_factory=list)

    def text(self) -> str:
        lines = [*self.comment, " ".join(self.head), self.sql]
        if self.answer or self.head[0] == "query":
            lines += ["----", *self.answer]
        return "\n".join(lines)


@dataclass(frozen=True)
class Outcome:
    """What a runner saw: rows (text lines), or an error."""

    rows: list[str] = field(default_factory=list)
    sqlstate: str | None = None
    position: int | None = None
    message: list[str] = field(default_factory=list)


def parse(path: Path) -> list[Block]:
    """Read a script."""
    blocks: list[Block] = []
    comment: list[str] = []
    current: list[tuple[int, str]] = []
    for number, line in [*enumerate(path.read_text(encoding="utf-8").splitlines(), 1), (0, "")]:
        if not current and line.startswith("#"):
            comment.append(line)
        elif line.strip():
            current.append((number, line))
        elif current:
            body = [text for _, text in current[1:]]
            cut = body.index("----") if "----" in body else len(body)
            blocks.append(
                Block(
                    line=current[0][0],
                    head=current[0][1].split(),
                    sql="\n".join(body[:cut]),
                    answer=body[cut + 1 :],
                    comment=comment,
                )
            )
            current, comment = [], []
    return blocks


def expected(block: Block) -> Outcome:
    """The outcome that the block asks for."""
    if block.head[:2] == ["statement", "error"]:
        position = block.head[3] if len(block.head) > 3 else "-"
        return Outcome(
            sqlstate=block.head[2],
            position=None if position == "-" else int(position),
            message=block.answer,
        )
    return Outcome(rows=block.answer if block.head[0] == "query" else [])


def update(block: Block, seen: Outcome) -> None:
    """Write what was seen into the block."""
    if seen.sqlstate is not None:
        position = "-" if seen.position is None else str(seen.position)
        block.head = ["statement", "error", seen.sqlstate, position]
        block.answer = seen.message
    elif block.head[0] == "query":
        block.answer = seen.rows


def play(path: Path, run: Callable[[str, bool], Outcome], *, rewrite: bool) -> list[str]:
    """Run a script; returns the differences found (none when right)."""
    blocks = parse(path)
    differences = []
    for block in blocks:
        seen = run(block.sql, block.head[0] == "query")
        wanted = expected(block)
        if seen != wanted and not rewrite:
            differences.append(
                f"{path.name}:{block.line} {block.sql}\n  want {wanted}\n  seen {seen}"
            )
        if rewrite:
            update(block, seen)
    if rewrite:
        path.write_text("\n\n".join(b.text() for b in blocks) + "\n", encoding="utf-8")
    return differences
