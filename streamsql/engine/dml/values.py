"""INSERT … VALUES of plain literals, which nearly all are: column by column through the vectorised
text input functions. Everything else is bound cell by cell, by the binder."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from streamsql.core.types import FLOAT_KINDS, INTEGER_KINDS, Kind, SqlType
from streamsql.functions.textio import parse_text

FAST_ROWS_MIN = 4
"""Below this the column-wise path costs more than it saves."""


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
