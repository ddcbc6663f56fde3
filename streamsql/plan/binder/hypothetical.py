"""rank, dense_rank, percent_rank and cume_dist of a row that is not there: f(args) WITHIN GROUP
(ORDER BY keys).

The place of the hypothetical row is a matter of counting the rows that sort before it, so each of
these is bound to counts with a FILTER, which are kept incrementally:

    rank          1 + count(*) of the rows before
    dense_rank    1 + count(DISTINCT ROW(keys)) of the rows before
    percent_rank  count(*) of the rows before / count(*), 0 over no rows
    cume_dist     (1 + count(*) of the rows before or equal) / (1 + count(*))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from streamsql.core.errors import UndefinedFunction, WrongObjectType
from streamsql.core.types import BIGINT, BOOLEAN, DOUBLE
from streamsql.functions.coerce import common_type
from streamsql.functions.expressions import Call, Case, Expr, Literal, SortKey, conjunction
from streamsql.functions.resolve import resolve_aggregate, resolve_call, signature
from streamsql.plan.visit import row_columns

if TYPE_CHECKING:
    from streamsql.plan.binder.calls import CallSyntax
    from streamsql.plan.binder.expressions import ExprBinder

HYPOTHETICAL = frozenset({"rank", "dense_rank", "percent_rank", "cume_dist"})
"""The hypothetical-set aggregates; with OVER these names are window functions."""


def bind_hypothetical(binder: ExprBinder, call: CallSyntax) -> Expr:
    """The call as arithmetic over counts.

    Raises: WrongObjectType (42809) without WITHIN GROUP; UndefinedFunction (42883) if there are not
    as many arguments as sort keys; DatatypeMismatch (42804) if an argument can't be its key.
    """
    from streamsql.plan.binder.aggregates import owner_depth, place_aggregate, sort_keys

    if not call.within_group:
        raise WrongObjectType(
            f"WITHIN GROUP is required for ordered-set aggregate {call.name}",
            position=call.position,
        )
    inner = binder.within("aggregate")
    args = inner.bind_all(list(call.args))
    keys = sort_keys(inner, call.within_group)
    args, keys = _matched(binder, call, args, keys)
    chosen = None
    if call.filter is not None:
        chosen = replace(inner, clause="FILTER", inside="filter").predicate(call.filter)

    def count(condition: Expr | None, distinct: Sequence[Expr] = ()) -> Expr:
        """The number of the group's rows where it holds, or of their distinct rows of values."""
        tests = [c for c in (chosen, condition) if c is not None]
        counted = [resolve_call("row", list(distinct))] if distinct else []
        bound = resolve_aggregate(
            "count",
            counted,
            distinct=bool(distinct),
            filter=conjunction(tests) if tests else None,
            position=call.position,
        )
        return place_aggregate(binder, bound, levels, call.position, direct)

    levels = owner_depth([*args, *(k.expr for k in keys)])
    direct = [a for a in args if row_columns(a)]
    before = _before(keys, args)
    match call.name:
        case "rank":
            return _plus_one(count(before))
        case "dense_rank":
            return _plus_one(count(before, [k.expr for k in keys]))
        case "percent_rank":
            rows = count(None)
            zero = Literal(value=0, type=BIGINT)
            empty = resolve_call("=", [rows, zero], call.position)
            share = _quotient(count(before), rows)
            return Case(whens=((empty, Literal(value=0.0, type=DOUBLE)),), otherwise=share,
                        type=DOUBLE)  # fmt: skip
    not_after = Call(function="or", args=(before, _equal(keys, args)), type=BOOLEAN)
    return _quotient(_plus_one(count(not_after)), _plus_one(count(None)))


def _matched(
    binder: ExprBinder, call: CallSyntax, args: list[Expr], keys: list[SortKey]
) -> tuple[list[Expr], list[SortKey]]:
    """Each argument and its sort key, brought to the type they share."""
    if len(args) != len(keys):
        shown = signature(call.name, [e.type for e in (*args, *(k.expr for k in keys))])
        raise UndefinedFunction(
            f"function {shown} does not exist",
            position=call.position,
            hint=f"To use the hypothetical-set aggregate {call.name}, the number of hypothetical "
            f"direct arguments (here {len(args)}) must match the number of ordering columns "
            f"(here {len(keys)}).",
        )
    direct, sorted_by = [], []
    for arg, key in zip(args, keys, strict=True):
        target = common_type([key.expr.type, arg.type], "WITHIN GROUP", arg.position)
        direct.append(binder.coerce(arg, target))
        sorted_by.append(replace(key, expr=binder.coerce(key.expr, target)))
    return direct, sorted_by


def _plus_one(count: Expr) -> Expr:
    return resolve_call("+", [count, Literal(value=1, type=BIGINT)])


def _quotient(a: Expr, b: Expr) -> Expr:
    sides: list[Expr] = [_double(a), _double(b)]
    return resolve_call("/", sides)


def _double(count: Expr) -> Expr:
    from streamsql.functions.coerce import coerce

    return coerce(count, DOUBLE)


# --- where a row sorts ------------------------------------------------------------------------
def _before(keys: list[SortKey], args: list[Expr]) -> Expr:
    """The row of the keys sorts before the row of the arguments."""
    found = _sorts_before(keys[-1], args[-1])
    for key, arg in zip(reversed(keys[:-1]), reversed(args[:-1]), strict=True):
        tie = Call(function="and", args=(_same(key.expr, arg), found), type=BOOLEAN)
        found = Call(function="or", args=(_sorts_before(key, arg), tie), type=BOOLEAN)
    return found


def _equal(keys: list[SortKey], args: list[Expr]) -> Expr:
    return conjunction([_same(k.expr, a) for k, a in zip(keys, args, strict=True)])


def _same(a: Expr, b: Expr) -> Expr:
    return resolve_call("is_not_distinct_from", [a, b])


def _sorts_before(key: SortKey, arg: Expr) -> Expr:
    """One key before its argument: smaller (DESC: larger), or NULL where NULLs come first, or a
    value before a NULL that comes last. NULL where neither is known, which FILTER takes as no."""
    smaller = resolve_call(">" if key.descending else "<", [key.expr, arg])
    null_first, null_last = (key.expr, arg) if key.nulls_first else (arg, key.expr)
    nulls = conjunction(
        [resolve_call("is_null", [null_first]), resolve_call("is_not_null", [null_last])]
    )
    return Call(function="or", args=(smaller, nulls), type=BOOLEAN)
