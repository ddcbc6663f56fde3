"""TRANSLATE: statements of another system in our canonical spelling, with what they mean here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsql.core.errors import (
    DatatypeMismatch,
    NullValueNotAllowed,
    StreamSqlError,
    UndefinedParameter,
)
from streamsql.core.types import INTEGER, TEXT, SqlType
from streamsql.dialect.statements import Translate
from streamsql.engine.api import Result
from streamsql.engine.statements.common import rows_result
from streamsql.engine.statements.handler import Description, Handler, Types, result_columns
from streamsql.functions.expressions import Literal

if TYPE_CHECKING:
    from streamsql.engine.session import Session

COLUMNS = (("kind", TEXT), ("text", TEXT), ("position", INTEGER))


def run(
    session: Session, statement: Translate, values: tuple[Literal, ...], declared: Types
) -> Result:
    """For each statement of the text one row `statement` with its canonical form, then one row for
    each difference in meaning: its kind (see `dialects.Difference`), a sentence, and where in the
    text it stands (from 1). Nothing is run, and no relation need exist.

    Raises: SqlSyntaxError (42601), 0A000 for what has no translation; 22004 for a text that is
    null, 42P02 for none.
    """
    from streamsql.dialect.canonical import statement_sql
    from streamsql.dialect.router import parse_with_differences

    dialect = statement.dialect or session.variables.get("dialect")
    rows: list[tuple[str, str, int]] = []
    text = _given(statement, values) if statement.text is None else statement.text
    try:
        parsed = parse_with_differences(text, dialect)
    except StreamSqlError as error:
        if error.position is not None:
            if statement.text is None:
                error.detail = error.detail or f"It is at character {error.position + 1} of $1."
            error.position = _outer_position(statement, error.position)
        raise
    for found, differences in parsed:
        rows.append(("statement", statement_sql(found), found.position + 1))
        rows += [(d.kind, d.text, d.position + 1) for d in differences]
    return rows_result("TRANSLATE", COLUMNS, rows)


def _given(statement: Translate, values: tuple[Literal, ...]) -> str:
    if not values:
        raise UndefinedParameter("there is no parameter $1", position=statement.start)
    if values[0].value is None:
        raise NullValueNotAllowed("the text of TRANSLATE may not be null")
    return str(values[0].value)


def _outer_position(statement: Translate, position: int) -> int | None:
    """An offset in the quoted text as one in the whole statement; None under an E'…' string, whose
    escapes are gone, and in a parameter."""
    if statement.text is None:
        return None
    opening = statement.sql[statement.start]
    if opening == "'":
        doubled = statement.text.count("'", 0, position)
        return statement.start + 1 + position + doubled
    if opening == "$":
        return statement.sql.index("$", statement.start + 1) + 1 + position
    return None


def describe(session: Session, statement: Translate, declared: Types) -> Description:
    """The columns; a parameter is text. Raises: DatatypeMismatch (42804)."""
    types: tuple[SqlType, ...] = ()
    if statement.text is None:
        given = declared[0] if declared else None
        if given is not None and not given.is_text:
            raise DatatypeMismatch(f"the text of TRANSLATE must be type text, not type {given}")
        types = (TEXT,)
    return Description(result_columns(COLUMNS), types)


HANDLER = Handler(run, describe, "TRANSLATE")
