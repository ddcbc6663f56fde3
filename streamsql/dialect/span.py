"""Where a part of a statement is written."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamsql.dialect.statements import Statement


@dataclass(frozen=True)
class Span:
    """Where a part of a statement is written: offsets in the whole text, end exclusive."""

    start: int = field(compare=False)
    end: int = field(compare=False)

    def text(self, statement: Statement) -> str:
        """The part, in the user's words."""
        return statement.sql[self.start - statement.position : self.end - statement.position]
