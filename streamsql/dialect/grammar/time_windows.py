"""TUMBLE, HOP, CUMULATE and SESSION in FROM, in every spelling, and ksqlDB's WINDOW clause.

RisingWave:  TUMBLE(t, c, INTERVAL '1' MINUTE)
Flink:       TABLE(TUMBLE(TABLE t, DESCRIPTOR(c), INTERVAL '1' MINUTE)), with and without TABLE( )
named:       HOP(DATA => TABLE t, TIMECOL => DESCRIPTOR(c), SLIDE => …, SIZE => …)
ksqlDB:      FROM s WINDOW HOPPING (SIZE 1 MINUTE, ADVANCE BY 10 SECONDS)
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from sqlglot import exp

from streamsql.core.errors import SqlSyntaxError, StatementError, UndefinedFunction
from streamsql.dialect.grammar.cursor import Cursor
from streamsql.dialect.intervals import interval_parts, interval_text, kept_parts
from streamsql.dialect.lexer import Kind, Token
from streamsql.dialect.nodes import WindowTvf
from streamsql.dialect.positions import mark, position_of

# the positional interval arguments of each function, in order; those after | may be left out
POSITIONAL: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "tumble": (("size",), ("offset",)),
    "hop": (("slide", "size"), ("offset",)),
    "cumulate": (("slide", "size"), ("offset",)),
    "session": (("size",), ()),
}
_ARGUMENT_NAMES = {
    "DATA": "this", "INPUT": "this",
    "TIMECOL": "time_column", "TIME_COL": "time_column", "TIME": "time_column",
    "SIZE": "size", "WINDOW_SIZE": "size", "GAP": "size",
    "SLIDE": "slide", "HOP": "slide", "STEP": "slide",
    "OFFSET": "offset", "MAX": "max", "TZ": "tz", "TIMEZONE": "tz",
}  # fmt: skip


def misspelt(name: str, position: int | None) -> UndefinedFunction | None:
    """The error (42883) of a function in FROM that does not exist, if a time window is meant."""
    close = difflib.get_close_matches(name.lower(), POSITIONAL, n=1, cutoff=0.75)
    if not close or name.lower() in POSITIONAL:
        return None
    return UndefinedFunction(
        f"function {name.lower()} does not exist",
        position=position,
        hint=f"Perhaps you meant {close[0].upper()}.",
    )


@dataclass
class WindowClause:
    """ksqlDB's WINDOW clause: kind, size, slide, and the token it starts at."""

    kind: str
    size: exp.Interval
    slide: exp.Interval | None
    token: Token


class TimeWindowGrammar(Cursor):
    """Parses time window functions (`time_window`)."""

    # parts of the grammar this one calls
    def table_name(self) -> exp.Table:
        """A relation's name (relations.py)."""
        raise NotImplementedError

    def parenthesised_query(self) -> exp.Subquery | None:
        """`(query)` if that stands here (primary.py)."""
        raise NotImplementedError

    def interval_fields(self) -> tuple[exp.Expression | None, list[exp.DataTypeParam]]:
        """The unit after an interval's number, and its digits (types.py)."""
        raise NotImplementedError

    def at_time_window(self) -> bool:
        """Does a window function start here?"""
        return self.token.key.lower() in POSITIONAL and self.peek().key == "("

    def time_window(self) -> WindowTvf:
        """`NAME(arguments)`, without an alias."""
        token = self.advance()
        window = mark(WindowTvf(kind=token.value), token)
        self.expect("(")
        positional: list[exp.Expression] = []
        while True:
            named = self.token.key if self.peek().key in ("=>", ":=") else ""
            if named:
                self._named_argument(window, named)
            elif not window.args.get("this"):
                window.set("this", self._input())
                if self.accept_sequence("PARTITION", "BY"):
                    positional.extend(self._partition_keys(window))
            else:
                positional.append(self._argument_value())
            if not self.accept(","):
                break
        if "partition_by" in window.args and positional and not window.args.get("time_column"):
            self._split_partition_keys(window, positional)
        self._place(window, positional, token)
        self.expect(")")
        return window

    def _input(self) -> exp.Expression:
        """TABLE t, t, (query), or another window function."""
        if self.at_time_window():
            return self.time_window()
        if self.at_sequence("TABLE", "("):
            self.advance()
            inner = self.in_parentheses(self._input)
            return inner
        query = self.parenthesised_query()
        if query is not None:
            return query
        self.accept("TABLE")
        return self.table_name()

    def _named_argument(self, window: WindowTvf, name: str) -> None:
        token = self.advance()
        self.advance()
        field = _ARGUMENT_NAMES.get(name)
        if field is None:
            raise SqlSyntaxError(
                f'{window.kind} has no argument "{token.value}"',
                position=token.start,
                hint="Arguments: DATA, TIMECOL, SIZE, SLIDE, STEP, GAP, OFFSET, MAX, TZ.",
            )
        if window.args.get(field):
            raise SqlSyntaxError(
                f'argument name "{token.value}" used more than once', position=token.start
            )
        if field == "this":
            window.set("this", self._input())
            if self.accept_sequence("PARTITION", "BY"):
                keys = self._partition_keys(window)
                while self.at(",") and self.peek(2).key not in ("=>", ":="):
                    self.advance()
                    keys.append(self._argument_value())
                if keys:
                    window.set("partition_by", [self._plain_column(key) for key in keys])
        elif field == "time_column":
            window.set("time_column", self._time_column(self._argument_value()))
        elif field == "tz":
            window.set("tz", self._zone(self.expression()))
        else:
            window.set(field, self.window_interval(self.expression()))

    def _partition_keys(self, window: WindowTvf) -> list[exp.Expression]:
        """After PARTITION BY: (k, …), or bare keys, which only the interval later tells apart
        from the time column; then all come back and `_split_partition_keys` cuts them."""
        window.set("partition_by", [])
        if self.at("("):
            keys = self.in_parentheses(lambda: self.comma_list(self.expression))
            window.set("partition_by", [self._plain_column(key) for key in keys])
            return []
        return [self._argument_value()]

    def _split_partition_keys(self, window: WindowTvf, positional: list[exp.Expression]) -> None:
        columns = 0
        while columns < len(positional) and isinstance(
            positional[columns], (exp.Column, exp.Anonymous)
        ):
            columns += 1
        if not window.args["partition_by"] and columns:
            keys = positional[: columns - 1]
            window.set("partition_by", [self._plain_column(key) for key in keys])
            del positional[: columns - 1]

    def _argument_value(self) -> exp.Expression:
        return self.expression()

    def _place(self, window: WindowTvf, positional: list[exp.Expression], token: Token) -> None:
        """Give the positional arguments their names and check that all are there."""
        kind = window.kind
        # without one, the watermark column of the relation: TUMBLE(t, INTERVAL '1' MINUTE)
        bare = not positional or self._is_interval(positional[0])
        if not bare and not window.args.get("time_column"):
            window.set("time_column", self._time_column(positional.pop(0)))
        required, optional = POSITIONAL[kind]
        free = [name for name in (*required, *optional) if not window.args.get(name)]
        if len(positional) > len(free):
            raise self._wrong_arguments(kind, token)
        for name, value in zip(free, positional, strict=False):
            window.set(name, self.window_interval(value))
        if any(not window.args.get(name) for name in ("this", *required)):
            raise self._wrong_arguments(kind, token)
        if window.args.get("partition_by") and kind != "session":
            raise SqlSyntaxError(
                f"PARTITION BY is only for SESSION, not for {kind.upper()}",
                position=token.start,
                hint="Put the key into GROUP BY, beside window_start and window_end.",
            )
        if window.args.get("max") and kind != "session":
            raise SqlSyntaxError("MAX is only for SESSION", position=token.start)

    def _wrong_arguments(self, kind: str, token: Token) -> SqlSyntaxError:
        usage = {
            "tumble": "TUMBLE(relation, time column, size [, offset])",
            "hop": "HOP(relation, time column, hop, size [, offset])",
            "cumulate": "CUMULATE(relation, time column, step, size [, offset])",
            "session": "SESSION(relation [PARTITION BY k, …], time column, gap [, max => i])",
        }
        return SqlSyntaxError(
            f"wrong arguments for {kind.upper()}",
            position=token.start,
            hint=f"Use {usage[kind]}.",
        )

    @staticmethod
    def _is_interval(value: exp.Expression) -> bool:
        while isinstance(value, (exp.Neg, exp.Paren, exp.Cast)):
            value = value.this
        return isinstance(value, exp.Interval) or (
            isinstance(value, exp.Literal) and bool(value.is_string)
        )

    # argument values ----------------------------------------------------------------------------
    def _time_column(self, value: exp.Expression) -> exp.Column:
        """c or DESCRIPTOR(c)."""
        if isinstance(value, exp.Anonymous) and value.name.lower() == "descriptor":
            if len(value.expressions) != 1:
                raise SqlSyntaxError(
                    "DESCRIPTOR of a window takes one column", position=position_of(value)
                )
            value = value.expressions[0]
        return self._plain_column(value)

    @staticmethod
    def _plain_column(value: exp.Expression) -> exp.Column:
        if not isinstance(value, exp.Column):
            raise SqlSyntaxError(
                "a window's time and partition columns must be plain columns",
                position=position_of(value),
                hint="Compute the expression in a subquery and window that.",
            )
        return value

    @staticmethod
    def _zone(value: exp.Expression) -> exp.Literal:
        if not isinstance(value, exp.Literal) or not value.is_string:
            raise SqlSyntaxError(
                "tz must be a time zone's name in quotes", position=position_of(value)
            )
        return value

    @staticmethod
    def window_interval(value: exp.Expression) -> exp.Interval:
        """An interval literal in any spelling, as exp.Interval.

        INTERVAL '1' MINUTE, INTERVAL '1 minute', '1 minute', '1 minute'::interval, and these with a
        minus. Raises: SqlSyntaxError (42601) for anything else; 22007 for text that is no interval.
        """
        position = position_of(value)
        negative = False
        inner = value
        while isinstance(inner, (exp.Neg, exp.Paren)):
            negative ^= isinstance(inner, exp.Neg)
            inner = inner.this
        kept: exp.DataType | None = None
        if isinstance(inner, exp.Cast) and inner.to.this is exp.DType.INTERVAL:
            inner, kept = inner.this, inner.to
        if isinstance(inner, exp.Literal) and inner.is_string:
            inner = exp.Interval(this=exp.Literal.string(inner.this))
        if not isinstance(inner, exp.Interval):
            raise SqlSyntaxError(
                "a window's size must be an interval literal",
                position=position,
                hint="Write it as INTERVAL '10 minutes'.",
            )
        try:
            parts = interval_parts(inner)
            if kept is not None and kept.expressions:
                parts = kept_parts(inner, int(kept.expressions[0].this.name))
        except StatementError as error:
            raise error.at(position) from None
        if negative or (kept is not None and kept.expressions):
            sign = -1 if negative else 1
            text = interval_text(*(sign * part for part in parts))
            inner = exp.Interval(this=exp.Literal.string(text))
        if position is not None:
            inner.meta["start"] = position
        return inner

    # ksqlDB -------------------------------------------------------------------------------------
    def window_clause(self) -> WindowClause | None:
        """WINDOW TUMBLING (SIZE …) | HOPPING (SIZE …, ADVANCE BY …) | SESSION (…)."""
        kinds = {"TUMBLING": "tumble", "HOPPING": "hop", "SESSION": "session"}
        if self.token.key != "WINDOW" or self.peek().key not in kinds or self.peek(2).key != "(":
            return None
        token = self.advance()
        kind = kinds[self.advance().key]
        self.expect("(")
        if kind != "session":
            self.expect("SIZE")
        size = self._duration()
        slide = None
        while self.accept(","):
            if self.accept_sequence("ADVANCE", "BY"):
                slide = self._duration()
            elif self.accept_sequence("GRACE", "PERIOD"):
                self._duration()
                self.ignores(
                    "GRACE PERIOD has no effect: allowed_lateness stands in the table's WITH", token
                )
            elif self.accept("RETENTION"):
                self._duration()
                self.ignores("RETENTION has no effect: closed windows stay in the view", token)
            else:
                raise self.error()
        self.expect(")")
        if kind == "hop" and slide is None:
            raise self.error(message="HOPPING needs ADVANCE BY: syntax error")
        return WindowClause(kind, size, slide, token)

    def _duration(self) -> exp.Interval:
        """5 MINUTES, or any interval literal."""
        token = self.token
        if token.kind is Kind.NUMBER:
            self.advance()
            unit = self.interval_fields()[0]
            if unit is None:
                raise self.error()
            return mark(exp.Interval(this=exp.Literal.string(token.value), unit=unit), token)
        return self.window_interval(self.expression())
