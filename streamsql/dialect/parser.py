"""The parser handed to every statement's own file: the grammar of queries, and what DDL shares."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from streamsql.core.types import SqlType
from streamsql.dialect.grammar.query import QueryGrammar
from streamsql.dialect.lexer import Kind, Token, tokenize
from streamsql.dialect.statements import Name, Statement
from streamsql.dialect.typenames import type_of

EMIT_IMMEDIATELY = "immediately"
EMIT_ON_WINDOW_CLOSE = "on_window_close"


class Parser(QueryGrammar):
    """Parses one statement.

    base: offset of the statement's text in the whole text, for the `position` fields of statements.
    """

    base = 0

    @classmethod
    def of(cls, text: str) -> Parser:
        """A parser over a text that holds one thing (an expression, a type)."""
        return cls(tokenize(text), text)

    def sql_type(self) -> SqlType:
        """A type name as SqlType."""
        return type_of(self.data_type())

    def exists_flag(self, *, negated: bool) -> bool:
        """IF [NOT] EXISTS."""
        words = ("IF", "NOT", "EXISTS") if negated else ("IF", "EXISTS")
        return self.accept_sequence(*words)

    # options ------------------------------------------------------------------------------------
    def with_options(self) -> dict[str, str]:
        """WITH (key = value, …); {} if there is none."""
        if self.at("WITH") and self.peek().key == "(":
            self.advance()
            return self.options()
        return {}

    def options(self) -> dict[str, str]:
        """(key = value, …): keys bare, dotted or in quotes; values literals or words.

        Bare keys are folded, quoted ones kept. `key` alone means true.
        Raises: SqlSyntaxError, also for a key that is given twice.
        """
        found: dict[str, str] = {}
        self.expect("(")
        while not self.at(")"):
            token = self.token
            key = self._option_key()
            if key in found:
                raise self.error(token, f'conflicting or redundant options: "{key}"')
            if self.accept("=", "=>"):
                found[key] = self.option_value()
            elif self.at(",", ")"):
                found[key] = "true"
            else:
                found[key] = self.option_value()
            if not self.accept(","):
                break
        self.expect(")")
        return found

    def option_is_quoted(self, key: str) -> bool:
        """Is `key` written in quotes in the option list that starts here?"""
        distance = 1
        while self.peek(distance).key != ")" and self.peek(distance).kind is not Kind.END:
            token = self.peek(distance)
            if token.kind is Kind.STRING and token.value == key:
                return self.peek(distance - 1).key in ("(", ",")
            distance += 1
        return False

    def _option_key(self) -> str:
        if self.at_string():
            return self.advance().value
        key = self.label()
        while self.at(".", "-"):
            key += self.advance().key + self.label()
        return key

    def option_value(self) -> str:
        """A literal, a word or a signed number, as text; INTERVAL '…' gives the interval's text."""
        token = self.token
        if token.kind in (Kind.STRING, Kind.NUMBER, Kind.QUOTED):
            self.advance()
            return token.value
        if token.key in ("-", "+") and self.peek().kind is Kind.NUMBER:
            self.advance()
            return token.key + self.advance().value
        if token.key == "INTERVAL":
            node = self.primary()
            if isinstance(node, exp.Interval):
                unit = node.args.get("unit")
                return f"{node.this.name} {unit.name.lower()}" if unit else str(node.this.name)
        if token.kind is Kind.WORD:
            words = [self.advance().value]
            while self.accept("."):
                words.append(self.label())
            return ".".join(words)
        raise self.error()

    # EMIT ---------------------------------------------------------------------------------------
    def emit_clause(self) -> str | None:
        """EMIT …: "immediately", "on_window_close", or None if there is none."""
        if not self.at_emit():
            return None
        self.advance()
        if self.accept("CHANGES", "IMMEDIATELY"):
            return EMIT_IMMEDIATELY
        if (
            self.accept("FINAL")
            or self.accept_sequence("ON", "WINDOW", "CLOSE")
            or self.accept_sequence("AFTER", "WINDOW", "CLOSE")
        ):
            return EMIT_ON_WINDOW_CLOSE
        raise self.error(
            hint="Write EMIT IMMEDIATELY (also: CHANGES) or EMIT ON WINDOW CLOSE (also: FINAL)."
        )

    # positions ----------------------------------------------------------------------------------
    def place(self, token: Token) -> int:
        """The token's offset in the whole text."""
        return self.base + token.start

    def object_name(self) -> Name:
        """The qualified name of something that is created, altered or dropped."""
        return self.qualified_name()

    def statement(self) -> Statement:
        """A statement inside another one (EXPLAIN, PREPARE, COPY (…)).

        Its `sql` is its own text; its `position` stays that of the outer statement, so that for
        every statement position + node offset is the offset in the whole text.
        """
        from streamsql.dialect.router import parse_statement

        start = self.token
        found = parse_statement(self)
        return dataclasses.replace(found, sql=self.span(start), position=self.base)
