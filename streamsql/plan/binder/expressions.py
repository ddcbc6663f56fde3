"""Scalar expressions: sqlglot tree → bound tree.

`ExprBinder` knows the clause it works for and what may stand there; the handlers of node classes
live in `operators.py`, `values.py`, `calls.py`, `aggregates.py`, `windows.py` and `subqueries.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from streamsql.core.errors import (
    DatatypeMismatch,
    FeatureNotSupported,
    StatementTooComplex,
    StreamSqlError,
)
from streamsql.core.types import BOOLEAN, Kind, SqlType
from streamsql.functions.coerce import coerce
from streamsql.functions.expressions import Call, Expr, Literal, walk
from streamsql.plan.binder.context import Statement
from streamsql.plan.binder.env import Env, position_of
from streamsql.plan.binder.parameters import note_types
from streamsql.plan.binder.scope import Scope

MAX_DEPTH = 400
"""Nesting of an expression beyond which a statement is refused (54001)."""


@dataclass
class ExprBinder:
    """Binds expressions over one scope's row.

    clause: for messages ("WHERE", "JOIN/ON", "GROUP BY", …). aggregates, windows, sets: whether
    aggregate calls, OVER calls and set-returning functions may stand here; `inside` says in which
    construct that forbids them ("aggregate", "window", "case", …). named_windows: of the WINDOW
    clause.
    """

    scope: Scope
    statement: Statement
    clause: str = ""
    aggregates: bool = False
    windows: bool = False
    sets: bool = False
    inside: str | None = None
    named_windows: dict[str, exp.Window] = field(default_factory=dict)
    depth: int = 0

    def bind(self, node: exp.Expression) -> Expr:
        """The bound expression; literals may still be UNKNOWN.

        Raises: StatementError with the position of what is wrong.
        """
        handler = _handler(type(node))
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise StatementTooComplex(
                "stack depth limit exceeded",
                hint="Split the expression, or use IN (…) instead of a chain of ORs.",
            )
        try:
            bound = handler(self, node)
        except StreamSqlError as error:
            raise error.at(position_of(node))  # noqa: B904  (the same error, with its place)
        finally:
            self.depth -= 1
        if bound.position is None:
            position = position_of(node)
            if position is not None:
                bound = replace(bound, position=position)
        return bound

    def bind_all(self, nodes: list[exp.Expression]) -> list[Expr]:
        """`bind` for each."""
        return [self.bind(n) for n in nodes]

    def predicate(self, node: exp.Expression) -> Expr:
        """A condition. Raises: DatatypeMismatch (42804) if it is not boolean."""
        return self.boolean(self.bind(node), f"argument of {self.clause}", position_of(node))

    def boolean(self, expr: Expr, what: str, position: int | None = None) -> Expr:
        """Coerce to boolean."""
        if expr.type.kind is Kind.BOOLEAN:
            return expr
        if expr.type.kind is not Kind.UNKNOWN:
            raise DatatypeMismatch(
                f"{what} must be type boolean, not type {expr.type}",
                position=start_of(expr, position),
                hint="Write a comparison, for example x <> 0.",
            )
        return self.coerce(expr, BOOLEAN)

    def coerce(self, expr: Expr, target: SqlType, context: str = "implicit") -> Expr:
        """functions.coerce, which also tells the type of parameters."""
        result = coerce(expr, target, context, timezone=self.statement.context.timezone)
        note_types(self.statement.context, result)
        return result

    def call(self, name: str, args: list[Expr], position: int | None = None) -> Expr:
        """A function or operator by PostgreSQL's overload rules."""
        from streamsql.functions.resolve import resolve_call

        result = self._in_session_zone(resolve_call(name, args, position), args)
        note_types(self.statement.context, result)
        return result

    def _in_session_zone(self, result: Expr, args: list[Expr]) -> Expr:
        """Untyped literals that became TIMESTAMPTZ are read in the session's time zone."""
        zone = self.statement.context.timezone
        if zone == "UTC" or not isinstance(result, Call) or len(result.args) != len(args):
            return result
        read = tuple(
            coerce(given, made.type, timezone=zone)
            if made.type.kind is Kind.TIMESTAMPTZ
            and isinstance(given, Literal)
            and given.type.kind is Kind.UNKNOWN
            else made
            for given, made in zip(args, result.args, strict=True)
        )
        return replace(result, args=read)

    def within(self, construct: str) -> ExprBinder:
        """The same place inside of a construct that forbids aggregates, OVER and sets."""
        return replace(self, aggregates=False, windows=False, sets=False, inside=construct)

    def without_sets(self, construct: str) -> ExprBinder:
        """Inside CASE, COALESCE: PostgreSQL refuses set-returning functions there."""
        return replace(self, sets=False, inside=self.inside or construct) if self.sets else self

    def subquery_env(self) -> Env:
        """The surroundings of a subquery that stands here."""
        self.scope.clause = self.clause
        self.scope.accepts_aggregates = self.aggregates
        self.scope.inside = self.inside
        return Env(self.statement).inside(self.scope)


def start_of(expr: Expr, otherwise: int | None = None) -> int | None:
    """Where the expression's text begins: the first position of any of its parts."""
    found = [e.position for e in walk(expr) if e.position is not None]
    return min(found, default=otherwise)


Handler = Callable[[ExprBinder, Any], Expr]
_cache: dict[type, Handler] = {}


def _handler(class_: type) -> Handler:
    found = _cache.get(class_)
    if found is not None:
        return found
    if not _cache:
        _fill()
    for base in class_.__mro__:
        if base in _cache:
            _cache[class_] = _cache[base]
            return _cache[base]
    return _unsupported


def _fill() -> None:
    from streamsql.plan.binder import calls, operators, subqueries, values, windows

    for module in (values, operators, calls, subqueries, windows):
        _cache.update(module.HANDLERS)


def _unsupported(binder: ExprBinder, node: exp.Expression) -> Expr:
    raise FeatureNotSupported(
        f"{node.key.upper()} expressions are not supported",
        position=position_of(node),
        hint=f"The text was: {node.sql(dialect='postgres')[:80]}",
    )
