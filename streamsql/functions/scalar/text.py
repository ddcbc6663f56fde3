"""Text functions and operators with PostgreSQL's meaning: characters count from 1, NULL in NULL
out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamsql.core.types import BIGINT, BOOLEAN, BYTEA, INTEGER, TEXT, SqlType, array_of
from streamsql.functions.definitions import FunctionDef, Pattern, Poly, SqlTemplate
from streamsql.functions.scalar.lazy import lazy
from streamsql.functions.sql_text import constant_integer, constant_text, native_or_kernel

TEXTS = array_of(TEXT)


def text_function(
    name: str,
    args: tuple[Pattern, ...],
    result: SqlType = TEXT,
    *,
    kernel: str = "",
    module: str = "texts",
    fails: bool = False,
    **more: Any,
) -> FunctionDef:
    """A function over an Arrow kernel; DuckDB calls it as a UDF unless `sql` is given."""
    return FunctionDef(
        name=name, args=args, result=result, kernel=lazy(module, kernel or name), can_fail=fails,
        **more,
    )  # fmt: skip


def _slice_sql(name: str) -> SqlTemplate:
    """substring, left, right by constants that mean the same in DuckDB: none below what they count
    from."""

    def write(a: Sequence[str], types: tuple[SqlType, ...]) -> str | None:
        numbers = [constant_integer(x) for x in a[1:]]
        least = 1 if name == "substring" else 0
        if any(n is None or n < least for n in numbers[:1]):
            return None
        if any(n is None or n < 0 for n in numbers[1:]):
            return None
        return f"{name}({', '.join(a)})"

    return native_or_kernel(name, lazy("texts", name), write)


def _split_part(a: Sequence[str], types: tuple[SqlType, ...]) -> str | None:
    n = constant_integer(a[2])
    if not constant_text(a[1]) or n is None or n < 1:
        return None
    return f"split_part({', '.join(a)})"


def _quoting(
    name: str, args: tuple[Pattern, ...], result: SqlType = TEXT, **more: Any
) -> FunctionDef:
    return text_function(name, args, result, module="quoting", **more)


def _unicode(
    name: str, args: tuple[Pattern, ...], result: SqlType = TEXT, **more: Any
) -> FunctionDef:
    return text_function(name, args, result, module="unicode_texts", fails=True, **more)


def _arrays(
    name: str, args: tuple[Pattern, ...], result: SqlType = TEXT, **more: Any
) -> FunctionDef:
    return text_function(name, args, result, module="text_arrays", **more)


FUNCTIONS: tuple[FunctionDef, ...] = (
    text_function("concat_op", (TEXT, TEXT), sql="({0} || {1})", exact=True),
    text_function("bytea_concat", (BYTEA, BYTEA), BYTEA, sql="({0} || {1})", exact=True),
    text_function("concat", (Poly.ANY,), variadic=True, strict=False),
    text_function("concat_ws", (TEXT, Poly.ANY), variadic=True, strict=False),
    text_function("lower", (TEXT,), aliases=("lcase",), sql="lower({0})", exact=True),
    text_function("upper", (TEXT,), aliases=("ucase",), sql="upper({0})", exact=True),
    text_function("initcap", (TEXT,)),
    text_function("length", (TEXT,), INTEGER, sql="length({0})",
                  aliases=("char_length", "character_length")),
    text_function("octet_length", (TEXT,), INTEGER, sql="strlen({0})"),
    text_function("octet_length", (BYTEA,), INTEGER, sql="octet_length({0})", aliases=("length",)),
    text_function("bit_length", (TEXT,), INTEGER, sql="strlen({0}) * 8"),
    text_function("bit_length", (BYTEA,), INTEGER, sql="octet_length({0}) * 8"),
    text_function("substring", (TEXT, INTEGER), aliases=("substr",), sql=_slice_sql("substring")),
    text_function("substring", (TEXT, INTEGER, INTEGER), aliases=("substr",), fails=True,
                  sql=_slice_sql("substring")),
    text_function("left", (TEXT, INTEGER), sql=_slice_sql("left")),
    text_function("right", (TEXT, INTEGER), sql=_slice_sql("right")),
    text_function("position", (TEXT, TEXT), INTEGER, aliases=("strpos", "instr"),
                  sql="instr({0}, {1})"),
    text_function("locate", (TEXT, TEXT), INTEGER, sql="instr({1}, {0})",
                  module="flink", kernel="locate"),
    text_function("replace", (TEXT, TEXT, TEXT), sql="replace({0}, {1}, {2})", exact=True),
    text_function("btrim", (TEXT, TEXT), optional=1, aliases=("trim",)),
    text_function("ltrim", (TEXT, TEXT), optional=1),
    text_function("rtrim", (TEXT, TEXT), optional=1),
    text_function("lpad", (TEXT, INTEGER, TEXT), optional=1),
    text_function("rpad", (TEXT, INTEGER, TEXT), optional=1),
    text_function("repeat", (TEXT, INTEGER)),
    text_function("reverse", (TEXT,), sql="reverse({0})", exact=True),
    text_function("split_part", (TEXT, TEXT, INTEGER), fails=True,
                  sql=native_or_kernel("split_part", lazy("texts", "split_part"), _split_part)),
    text_function("split_index", (TEXT, TEXT, INTEGER)),
    text_function("translate", (TEXT, TEXT, TEXT)),
    text_function("ascii", (TEXT,), INTEGER, kernel="ascii_code"),
    text_function("chr", (INTEGER,), kernel="chr_", fails=True),
    text_function("starts_with", (TEXT, TEXT), BOOLEAN, aliases=("^@", "startswith"),
                  sql="starts_with({0}, {1})", exact=True),
    text_function("ends_with", (TEXT, TEXT), BOOLEAN, aliases=("endswith",),
                  sql="ends_with({0}, {1})", exact=True),
    text_function("overlay", (TEXT, TEXT, INTEGER, INTEGER), optional=1, fails=True),
    text_function("to_hex", (INTEGER,)),
    text_function("to_hex", (BIGINT,)),
    _quoting("quote_ident", (TEXT,)),
    _quoting("quote_literal", (TEXT,)),
    _quoting("quote_literal", (Poly.ANYELEMENT,)),
    _quoting("quote_nullable", (TEXT,), strict=False),
    _quoting("quote_nullable", (Poly.ANYELEMENT,), strict=False),
    _quoting("format", (TEXT, Poly.ANY), variadic=True, variadic_empty=True, strict=False,
                  kernel="format_", fails=True),
    _quoting("encode", (BYTEA, TEXT), fails=True),
    _quoting("decode", (TEXT, TEXT), BYTEA, fails=True),
    _unicode("normalize", (TEXT, TEXT), optional=1),
    _unicode("is_normalized", (TEXT, TEXT), BOOLEAN, optional=1),
    _unicode("unistr", (TEXT,)),
    _unicode("parse_ident", (TEXT, BOOLEAN), TEXTS, optional=1),
    FunctionDef(name="md5", args=(TEXT,), result=TEXT, sql="md5({0})", can_fail=False),
    FunctionDef(name="md5", args=(BYTEA,), result=TEXT, sql="md5({0})", can_fail=False),
    FunctionDef(name="sha256", args=(BYTEA,), result=BYTEA, sql="unhex(sha256({0}))",
                can_fail=False),
    _arrays("string_to_array", (TEXT, TEXT, TEXT), TEXTS, optional=1),
    _arrays("string_to_chars", (TEXT,), TEXTS),
    _arrays("array_to_string", (Poly.ANYARRAY, TEXT, TEXT), optional=1, strict=False,
                  aliases=("array_join",)),
)  # fmt: skip
