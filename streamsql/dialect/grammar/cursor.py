"""A place in a list of tokens, and the small steps every part of the grammar is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlglot import exp

from streamsql.core.errors import FeatureNotSupported, SqlSyntaxError
from streamsql.dialect.dialects import KEEPS_CASE, Difference
from streamsql.dialect.keywords import NOT_BARE_LABEL, NOT_COLUMN
from streamsql.dialect.lexer import Kind, Token
from streamsql.dialect.statements import Name

T = TypeVar("T")


class Cursor:
    """Reads tokens of one statement.

    tokens: those of the statement, closed by an END token. text: the statement's own text; token
    offsets are relative to it. `token` is the one looked at, not yet taken. dialect: the session's,
    for the few texts that mean two things. differences: what was accepted but means something else
    here (TRANSLATE lists them). notices: what was accepted and has no effect.
    """

    def __init__(self, tokens: list[Token], text: str, dialect: str = "streamsql") -> None:
        self.tokens = tokens
        self.text = text
        self.index = 0
        self.token = tokens[0]
        self.dialect = dialect
        self.differences: list[Difference] = []
        self.notices: list[str] = []

    # remarks -----------------------------------------------------------------------------------
    def differs(self, kind: str, text: str, token: Token | None = None) -> None:
        """Remember a difference in meaning at a token (the present one); see `Difference`."""
        self.differences.append(Difference(kind, text, (token or self.token).start))

    def ignores(self, text: str, token: Token | None = None) -> None:
        """Remember what has no effect: a NOTICE when it is run, a difference to TRANSLATE."""
        self.notices.append(text)
        self.differs("ignored", text, token)

    # steps -------------------------------------------------------------------------------------
    def advance(self) -> Token:
        """Take the token; the END token is never passed."""
        taken = self.token
        if taken.kind is not Kind.END:
            self.index += 1
            self.token = self.tokens[self.index]
        return taken

    def peek(self, distance: int = 1) -> Token:
        """The token `distance` further on (the END token beyond the end)."""
        index = self.index + distance
        return self.tokens[index] if index < len(self.tokens) else self.tokens[-1]

    def reset(self, index: int) -> None:
        """Go back to a token seen before."""
        self.index = index
        self.token = self.tokens[index]

    def at(self, *keys: str) -> bool:
        """Is the token one of these keywords or operators?"""
        return self.token.key in keys and self.token.key != ""

    def at_sequence(self, *keys: str) -> bool:
        """Do these keywords follow one after the other?"""
        return all(self.peek(i).key == key for i, key in enumerate(keys))

    def accept(self, *keys: str) -> bool:
        """Take the token if it is one of these keywords or operators."""
        if self.token.key in keys and self.token.key != "":
            self.advance()
            return True
        return False

    def accept_sequence(self, *keys: str) -> bool:
        """Take these keywords if all follow one after the other."""
        if not self.at_sequence(*keys):
            return False
        self.index += len(keys)
        self.token = self.tokens[self.index]
        return True

    def expect(self, *keys: str) -> None:
        """Take these keywords or operators, one after the other.

        Raises: SqlSyntaxError at the first token that is another.
        """
        for key in keys:
            if self.token.key != key:
                raise self.error()
            self.advance()

    def at_end(self) -> bool:
        """Nothing left?"""
        return self.token.kind is Kind.END

    # errors ------------------------------------------------------------------------------------
    def error(
        self, token: Token | None = None, message: str | None = None, hint: str | None = None
    ) -> SqlSyntaxError:
        """PostgreSQL's syntax error at a token (the present one)."""
        token = token or self.token
        if token.kind is Kind.END:
            text = message or "syntax error at end of input"
        else:
            near = self.text[token.start : token.end]
            text = f'{message or "syntax error"} at or near "{near}"'
        return SqlSyntaxError(text, position=token.start, hint=hint)

    def not_supported(
        self, what: str, hint: str, token: Token | None = None
    ) -> FeatureNotSupported:
        """The refusal of a construct we know but don't have."""
        return FeatureNotSupported(
            f"{what} is not supported", position=(token or self.token).start, hint=hint
        )

    def expect_end(self) -> None:
        """Raises: SqlSyntaxError if anything is left."""
        if self.token.kind is not Kind.END:
            raise self.error()

    # lists -------------------------------------------------------------------------------------
    def comma_list(self, item: Callable[[], T]) -> list[T]:
        """One or more items with commas between."""
        items = [item()]
        while self.token.key == ",":
            self.advance()
            items.append(item())
        return items

    def in_parentheses(self, item: Callable[[], T]) -> T:
        """`( item )`."""
        self.expect("(")
        found = item()
        self.expect(")")
        return found

    def attempt(self, parse: Callable[[], T]) -> T | None:
        """`parse()`; if that is a syntax error nothing is taken and the answer is None."""
        index = self.index
        remarks = len(self.differences), len(self.notices)
        try:
            return parse()
        except SqlSyntaxError:
            self.reset(index)
            del self.differences[remarks[0] :]
            del self.notices[remarks[1] :]
            return None

    # what the parts of the grammar call in each other --------------------------------------------
    def expression(self) -> exp.Expression:
        """A whole expression (expressions.py)."""
        raise NotImplementedError

    def query(self) -> exp.Expression:
        """A whole query (query.py)."""
        raise NotImplementedError

    def span(self, start: Token) -> str:
        """The text from a token up to the last one taken."""
        end = self.tokens[self.index - 1].end if self.index else start.start
        return self.text[start.start : end]

    # names and values --------------------------------------------------------------------------
    def at_name(self) -> bool:
        """Could the token be a column's, relation's or alias's name?"""
        token = self.token
        if token.kind is Kind.WORD:
            return token.key not in NOT_COLUMN
        return token.kind is Kind.QUOTED

    def name(self) -> str:
        """A column's, relation's, … name; words are folded (but see `spelled`)."""
        token = self.token
        if token.kind is Kind.QUOTED or (token.kind is Kind.WORD and token.key not in NOT_COLUMN):
            self.advance()
            return self.spelled(token)
        raise self.error()

    def spelled(self, token: Token) -> str:
        """The name that a word or a quoted name stands for: Flink does not fold words."""
        if token.kind is Kind.WORD and self.dialect in KEEPS_CASE:
            return self.text[token.start : token.end]
        return token.value

    def label(self) -> str:
        """A word that is no user's name (a function, an option, a setting); folded."""
        if self.token.kind not in (Kind.WORD, Kind.QUOTED):
            raise self.error()
        return self.advance().value

    def any_name(self) -> str:
        """A name after AS or a dot: any word at all."""
        if self.token.kind not in (Kind.WORD, Kind.QUOTED):
            raise self.error()
        return self.spelled(self.advance())

    def at_bare_label(self) -> bool:
        """Could the token be a column's label without AS?"""
        token = self.token
        return token.kind is Kind.QUOTED or (
            token.kind is Kind.WORD and token.key not in NOT_BARE_LABEL
        )

    def qualified_name(self) -> Name:
        """[[database.]schema.]name."""
        parts = [self.name()]
        while self.token.key == ".":
            self.advance()
            parts.append(self.any_name())
        return tuple(parts)

    def name_list(self) -> tuple[str, ...]:
        """(name, …)."""
        return tuple(self.in_parentheses(lambda: self.comma_list(self.name)))

    def at_string(self) -> bool:
        """Is the token a string?"""
        return self.token.kind is Kind.STRING

    def string(self) -> str:
        """A string literal's value."""
        if self.token.kind is not Kind.STRING:
            raise self.error()
        return self.advance().value

    def integer(self) -> int:
        """An integer literal, with an optional sign."""
        negative = self.token.key == "-"
        if self.token.key in ("-", "+"):
            self.advance()
        token = self.token
        if token.kind is not Kind.NUMBER or not token.value.replace("_", "").isdigit():
            raise self.error()
        self.advance()
        number = int(token.value.replace("_", ""))
        return -number if negative else number
