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

    query rowsort                    rows in any order
    SELECT a FROM t

Blocks are separated by blank lines; `#` starts a comment line outside of a block. `error` is followed by the
SQLSTATE and the 1-based position (or `-` where there is none); under `----` stand the message and, if there
are any, `DETAIL: …` and `HINT: …` lines. STREAMSQL_REWRITE=1 rewrites the expectations from what was seen: read
the diff before you commit it.

What a statement may need besides its text:

    statement error 22P04 -          data of COPY … FROM STDIN stands under `<<<<`,
    COPY t FROM STDIN                or as hexadecimal digits under `<<<< hex`
    <<<<
    1

    file people.csv                  a file in the directory that the script runs in, so that
    name,age                         'people.csv' is its path

    session two                      the following statements run in another session (the first
                                     one is called `main`)

    python ok                        Python lines (embedded only); they see `db`, `session` and `pa`
    db.insert('t', [{'a': 1}])

    restart ok                       the database is closed and opened again (embedded only); a
                                     script that has such a block runs on the directory `data`
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

OUTCOMES = ("statement", "python", "restart")
"""First words of blocks that are `ok` or `error`."""


@dataclass
class Block:
    """One statement of a script. head: the words of its first line; answer: lines under `----`;
    data: lines under `<<<<`, None without them."""

    line: int
    head: list[str]
    sql: str
    answer: list[str] = field(default_factory=list)
    comment: list[str] = field(default_factory=list)
    data: list[str] | None = None
    hexadecimal: bool = False

    @property
    def fails(self) -> bool:
        """Whether an error is expected."""
        return self.head[0] in OUTCOMES and self.head[1] == "error"

    @property
    def bytes(self) -> bytes | None:
        """The data of a COPY, lines ended by a line feed."""
        if self.data is None:
            return None
        if self.hexadecimal:
            return bytes.fromhex("".join(self.data))
        return "".join(f"{line}\n" for line in self.data).encode()

    def text(self) -> str:
        lines = [*self.comment, " ".join(self.head), *([self.sql] if self.sql else [])]
        if self.data is not None:
            lines += ["<<<< hex" if self.hexadecimal else "<<<<", *self.data]
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
            blocks.append(_block(current, comment))
            current, comment = [], []
    return blocks


def _block(lines: list[tuple[int, str]], comment: list[str]) -> Block:
    body = [text for _, text in lines[1:]]
    cut = body.index("----") if "----" in body else len(body)
    body, answer = body[:cut], body[cut + 1 :]
    at = next((i for i, line in enumerate(body) if line in ("<<<<", "<<<< hex")), None)
    return Block(
        line=lines[0][0],
        head=lines[0][1].split(),
        sql="\n".join(body[:at]),
        answer=answer,
        comment=comment,
        data=None if at is None else body[at + 1 :],
        hexadecimal=at is not None and body[at] == "<<<< hex",
    )


def expected(block: Block) -> Outcome:
    """The outcome that the block asks for."""
    if block.fails:
        position = block.head[3] if len(block.head) > 3 else "-"
        return Outcome(
            sqlstate=block.head[2],
            position=None if position == "-" else int(position),
            message=block.answer,
        )
    rows = block.answer if block.head[0] == "query" else []
    return Outcome(rows=sorted(rows) if "rowsort" in block.head else rows)


def update(block: Block, seen: Outcome) -> None:
    """Write what was seen into the block."""
    if seen.sqlstate is not None:
        position = "-" if seen.position is None else str(seen.position)
        word = "statement" if block.head[0] == "query" else block.head[0]
        block.head = [word, "error", seen.sqlstate, position]
        block.answer = seen.message
    elif block.head[0] == "query":
        block.answer = seen.rows
    elif block.head[0] in OUTCOMES:
        block.head, block.answer = [block.head[0], "ok"], []


def play(path: Path, run: Callable[[Block], Outcome], *, rewrite: bool) -> list[str]:
    """Run a script; returns the differences found (none when right)."""
    blocks = parse(path)
    differences = []
    for block in blocks:
        seen = run(block)
        if "rowsort" in block.head:
            seen = replace(seen, rows=sorted(seen.rows))
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
