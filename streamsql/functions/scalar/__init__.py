"""The scalar functions and operators, a file for each family."""

from __future__ import annotations

from streamsql.functions.definitions import FunctionDef
from streamsql.functions.scalar import arithmetic, comparison, logic, text

FUNCTIONS: tuple[FunctionDef, ...] = (
    *logic.FUNCTIONS,
    *comparison.FUNCTIONS,
    *arithmetic.FUNCTIONS,
    *text.FUNCTIONS,
)
