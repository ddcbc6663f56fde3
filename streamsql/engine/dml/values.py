"""INSERT … VALUES: rows of expressions to columns.

Rows that are plain literals, which nearly all are, go column by column through the vectorised text
input functions; everything else is bound cell by cell.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from streamsql.core.delta import make_batch
from streamsql.core.errors import DatatypeMismatch, SqlSyntaxError
from streamsql.core.schema import Schema
from streamsql.core.types import FLOAT_KINDS, INTEGER_KINDS, Kind, SqlType
from streamsql.dialect import position_of
from streamsql.engine.binding import bind_scalar
from streamsql.functions.coerce import coerce
from streamsql.functions.evaluator import Evaluator
from streamsql.functions.expressions import Expr, Literal
from streamsql.functions.literals import to_arrow_scalar
from streamsql.functions.textio import parse_text
from streamsql.plan.binder.context import BindContext
from streamsql.plan.binder.parameters import note_types

NO_COLUMNS = Schema(())
DEFAULT = object()
"""Stands for a bare DEFAULT in a bound row."""

FAST_ROWS_MIN = 4
"""Below this the column-wise path costs more than it saves."""


def check_width(rows: Sequence[exp.Tuple], width: int, named: bool) -> None:
    """Raises: SqlSyntaxError (42601) unless every row fits the target columns."""
    first = len(rows[0].expressions)
    for row in rows:
        n = len(row.expressions)
        if n != first:
            raise SqlSyntaxError(
                "VALUES lists must all be the same length", position=position_of(row)
            )
    if first > width:
        at = position_of(rows[0].expressions[width])
        raise SqlSyntaxError("INSERT has more expressions than target columns", position=at)
    if first < width and named:
        raise SqlSyntaxError("INSERT has more target columns than expressions")


def literal_column(cells: Sequence[exp.Expression], type_: SqlType, timezone: str) -> pa.Array:
    """A column of literals by the text input function, or None if a cell needs binding."""
    texts: list[str | None] = []
    strings = numbers = False
    for cell in cells:
        if isinstance(cell, exp.Null):
            texts.append(None)
        elif isinstance(cell, exp.Literal):
            texts.append(str(cell.this))
            if cell.is_string:
                strings = True
            else:
                numbers = True
        elif isinstance(cell, exp.Neg) and isinstance(cell.this, exp.Literal):
            if cell.this.is_string:
                return None
            numbers = True
            texts.append("-" + str(cell.this.this))
        else:
            return None
    if numbers and (strings or not _plain_numbers(texts, type_)):
        return None
    return parse_text(pa.array(texts, pa.string()), type_, timezone)


def _plain_numbers(texts: Sequence[str | None], type_: SqlType) -> bool:
    """Whether the input function of `type_` reads these number literals as assignment would."""
    if type_.kind in INTEGER_KINDS:
        return all(t is None or t.lstrip("-").isdigit() for t in texts)
    return type_.kind in FLOAT_KINDS or type_.kind is Kind.NUMERIC


def bind_cell(
    cell: exp.Expression, name: str, type_: SqlType, context: BindContext
) -> Expr | object:
    """One cell, coerced to its column as in an assignment; DEFAULT for a bare DEFAULT."""
    if isinstance(cell, exp.Var) and cell.name.upper() == "DEFAULT":
        return DEFAULT
    expr = bind_scalar(cell, NO_COLUMNS, context)
    return assign(expr, name, type_, context, position_of(cell))


def assign(
    expr: Expr, name: str, type_: SqlType, context: BindContext, position: int | None
) -> Expr:
    """The expression as a value of that column; notes the types of untyped parameters.

    Raises: DatatypeMismatch (42804) with PostgreSQL's words.
    """
    try:
        result = coerce(expr, type_, "assignment", timezone=context.timezone)
    except DatatypeMismatch:
        raise mismatch(name, type_, expr.type, position) from None
    note_types(context, result)
    return result


def mismatch(name: str, wanted: SqlType, found: SqlType, position: int | None) -> DatatypeMismatch:
    """`column "x" is of type integer but expression is of type text`."""
    return DatatypeMismatch(
        f'column "{name}" is of type {wanted} but expression is of type {found}',
        position=position,
        hint="You will need to rewrite or cast the expression.",
    )


def evaluate_cells(cells: Sequence[Expr], type_: SqlType, now_us: int, timezone: str) -> pa.Array:
    """A column from one bound expression per row."""
    if all(isinstance(c, Literal) for c in cells):
        scalars = [to_arrow_scalar(c) for c in cells if isinstance(c, Literal)]
        return pa.array([s.as_py() for s in scalars], type_.arrow)
    blank = make_batch([], NO_COLUMNS.arrow, 1)
    columns = Evaluator(list(cells), NO_COLUMNS).run(blank, now_us, timezone)
    return pa.concat_arrays([c.cast(type_.arrow) for c in columns])
