"""Result types of exact arithmetic: which decimal128 holds what PostgreSQL would answer.

PostgreSQL's numeric has no bound; ours has 38 digits. The rules, in one place:

- A bare NUMERIC operand makes a bare NUMERIC result, (38, 10): it rounds to 10 decimals.
- Otherwise the result has exactly the digits the operands can produce (+ - * %), unconstrained, as
  long as 38 are enough; beyond that whole digits go first and values that do not fit raise 22003.
- Division and averages: 16 decimals or more, as PostgreSQL's least number of significant digits.
"""

from __future__ import annotations

from collections.abc import Sequence

from streamsql.core.types import NUMERIC, Kind, SqlType, numeric

MAX_PRECISION = 38
MIN_DIVISION_SCALE = 16
MAX_PRODUCT_SCALE = 20

_INTEGER_DIGITS = {Kind.SMALLINT: 5, Kind.INTEGER: 10, Kind.BIGINT: 19}


def digits(t: SqlType) -> tuple[int, int]:
    """(precision, scale) of the decimal that holds every value of a numeric or integer type."""
    if t.kind in _INTEGER_DIGITS:
        return _INTEGER_DIGITS[t.kind], 0
    return t.storage_precision_scale


def exact_type(t: SqlType) -> SqlType:
    """The NUMERIC an integer type becomes in exact arithmetic; a NUMERIC stays as it is."""
    if t.kind in _INTEGER_DIGITS:
        return numeric(_INTEGER_DIGITS[t.kind], 0, constrained=False)
    return t


def is_bare(t: SqlType) -> bool:
    """NUMERIC without precision."""
    return t.kind is Kind.NUMERIC and t.precision is None


def sum_type(types: tuple[SqlType, ...]) -> SqlType:
    """a + b and a - b."""
    if any(is_bare(t) for t in types):
        return NUMERIC
    (p1, s1), (p2, s2) = digits(types[0]), digits(types[1])
    scale = max(s1, s2)
    precision = max(p1 - s1, p2 - s2) + scale + 1
    return numeric(min(precision, MAX_PRECISION), scale, constrained=False)


def product_type(types: tuple[SqlType, ...]) -> SqlType:
    """a * b."""
    if any(is_bare(t) for t in types):
        return NUMERIC
    (p1, s1), (p2, s2) = digits(types[0]), digits(types[1])
    scale = s1 + s2
    if p1 + p2 > MAX_PRECISION and scale > MAX_PRODUCT_SCALE:
        scale = max(s1, s2, MAX_PRODUCT_SCALE)
    return numeric(min(p1 + p2, MAX_PRECISION), scale, constrained=False)


def quotient_type(types: tuple[SqlType, ...]) -> SqlType:
    """a / b."""
    scale = max(MIN_DIVISION_SCALE, *(digits(t)[1] for t in types))
    return numeric(MAX_PRECISION, scale, constrained=False)


def remainder_type(types: tuple[SqlType, ...]) -> SqlType:
    """a % b."""
    if any(is_bare(t) for t in types):
        return NUMERIC
    return common_numeric(types)


def common_numeric(types: Sequence[SqlType]) -> SqlType:
    """The NUMERIC that holds the values of all (UNION, CASE, comparison).

    >>> str(common_numeric([numeric(5, 2), numeric(5, 2)]))
    'numeric(5,2)'
    """
    first = types[0]
    if all(t == first for t in types):
        return first if all(t.constrained for t in types) else loose(first)
    if any(is_bare(t) for t in types):
        return NUMERIC
    pairs = [digits(t) for t in types]
    scale = max(s for _, s in pairs)
    whole = max(p - s for p, s in pairs)
    return numeric(min(whole + scale, MAX_PRECISION), scale, constrained=False)


def loose(t: SqlType) -> SqlType:
    """A NUMERIC's storage without its modifier: how PostgreSQL types results; others stay."""
    if t.precision is None:
        return t
    return numeric(t.precision, t.scale or 0, constrained=False)
