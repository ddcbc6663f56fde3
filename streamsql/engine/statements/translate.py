"""TRANSLATE: statements of another system in our canonical spelling, with what they mean here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsql.core.errors import StreamSqlError
from streamsql.core.types import INTEGER, TEXT
from streamsql.dialect.statements import Translate
from streamsql.engine.api import Result
from streamsql.engine.statements.common import rows_result
from streamsql.engine.statements.handler import Handler, Types, returns
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

    Raises: SqlSyntaxError (42601), 0A000 for what has no translation.
    """
    from streamsql.dialect.canonical import statement_sql
    from streamsql.dialect.router import parse_with_differences

    dialect = statement.dialect or session.variables.get("dialect")
    rows: list[tuple[str, str, int]] = []
    try:
        parsed = parse_with_differences(statement.text, dialect)
    except StreamSqlError as error:
        if error.position is not None:
            error.position = _outer_position(statement, error.position)
        raise
    for found, differences in parsed:
        rows.append(("statement", statement_sql(found), found.position + 1))
        rows += [(d.kind, d.text, d.position + 1) for d in differences]
    return rows_result("TRANSLATE", COLUMNS, rows)


def _outer_position(statement: Translate, position: int) -> int | None:
    """An offset in the quoted text as one in the whole statement; None under an E'…' string, whose
    escapes are gone."""
    opening = statement.sql[statement.start]
    if opening == "'":
        doubled = statement.text.count("'", 0, position)
        return statement.start + 1 + position + doubled
    if opening == "$":
        return statement.sql.index("$", statement.start + 1) + 1 + position
    return None


HANDLER = Handler(run, returns(*COLUMNS), "TRANSLATE")
