"""Text functions and operators with PostgreSQL's meaning: characters count from 1, NULL in NULL out."""

from __future__ import annotations

from streamsql.core.types import BOOLEAN, INTEGER, TEXT
from streamsql.functions.definitions import FunctionDef, Poly

FUNCTIONS: tuple[FunctionDef, ...] = (
    FunctionDef(name="concat_op", aliases=("||",), args=(TEXT, TEXT), result=TEXT, sql="({0} || {1})",
                can_fail=False, exact=True),
    FunctionDef(name="lower", aliases=("lcase",), args=(TEXT,), result=TEXT, sql="lower({0})",
                can_fail=False, exact=True),
    FunctionDef(name="upper", aliases=("ucase",), args=(TEXT,), result=TEXT, sql="upper({0})",
                can_fail=False, exact=True),
    FunctionDef(name="length", aliases=("char_length", "character_length", "len"), args=(TEXT,),
                result=INTEGER, sql="length({0})", can_fail=False),
    FunctionDef(name="like", aliases=("~~",), args=(TEXT, TEXT), result=BOOLEAN, exact=True,
                sql="({0} LIKE {1} ESCAPE '\\')"),
    FunctionDef(name="replace", args=(TEXT, TEXT, TEXT), result=TEXT,
                sql="replace({0}, {1}, {2})", can_fail=False, exact=True),
)  # fmt: skip
_ = Poly
