"""JOIN in SQL: plain, lateral, semi and anti (NOT IN's NULL rules), as-of."""

from __future__ import annotations

from collections.abc import Sequence

from streamsql.core.errors import InvariantViolation
from streamsql.functions.expressions import Call, Expr, conjuncts
from streamsql.plan.nodes import Join
from streamsql.plan.sql.lowering import _JOIN_WORDS, Env, Lowering, Row, Source, as_column
from streamsql.plan.visit import row_columns


def _both(left: Row, right: Row, width: int) -> Row:
    return lambda i: left(i) if i < width else right(i - width)


def join_source(low: Lowering, plan: Join, env: Env) -> Source:
    """An inner, outer or cross join as a FROM clause."""
    left = low.source(plan.left, env)
    width = len(plan.left.schema)
    if plan.lateral:
        return _lateral(low, plan, left, width, env)
    right = low.source(plan.right, env)
    row = _both(left.row, right.row, width)
    nested = isinstance(plan.right, Join) and plan.right.kind in _JOIN_WORDS
    right_sql = f"({right.sql})" if nested else right.sql
    word = _JOIN_WORDS[plan.kind]
    if plan.kind == "cross":
        return Source(f"{left.sql} CROSS JOIN {right_sql}", row)
    condition = "true" if plan.condition is None else low.expr(plan.condition, row, env)
    return Source(f"{left.sql} {word} {right_sql} ON {condition}", row)


def _lateral(low: Lowering, plan: Join, left: Source, width: int, env: Env) -> Source:
    """The right side once per left row; its condition goes inside, where DuckDB takes any."""
    if plan.kind not in ("inner", "cross", "left"):
        raise InvariantViolation(f"a lateral {plan.kind} join has no meaning")
    right = low.item(plan.right, (*env, left.row))
    row = _both(left.row, right.row, width)
    inner = f"SELECT {low.columns(plan.right, right.row)} FROM {right.sql}"
    if plan.condition is not None:
        inner += f" WHERE {low.expr(plan.condition, row, env)}"
    alias = low.alias()
    outer = _both(left.row, lambda i: f"{alias}.c{i}", width)
    if plan.kind == "left":
        return Source(f"{left.sql} LEFT JOIN LATERAL ({inner}) AS {alias} ON true", outer)
    return Source(f"{left.sql} CROSS JOIN LATERAL ({inner}) AS {alias}", outer)


def semi_sql(low: Lowering, plan: Join, env: Env) -> str:
    """Semi and anti joins as [NOT] EXISTS; with NOT IN's rules an unknown match counts as one."""
    left = low.item(plan.left, env)
    width = len(plan.left.schema)
    inner_env = (*env, left.row) if plan.lateral else env
    right = low.item(plan.right, inner_env)
    row = _both(left.row, right.row, width)
    select = f"SELECT {low.columns(plan.left, left.row)} FROM {left.sql} WHERE "
    single = _single_equality(plan.condition, width) if plan.null_aware else None
    if single is not None:
        operand, member = (low.expr(e, row, env) for e in single)
        return f"{select}{operand} NOT IN (SELECT {member} FROM {right.sql})"
    condition = "true" if plan.condition is None else low.expr(plan.condition, row, env)
    if plan.null_aware:
        condition = f"({condition}) IS NOT FALSE"
    negate = "NOT " if plan.kind == "anti" else ""
    return f"{select}{negate}EXISTS (SELECT 1 FROM {right.sql} WHERE {condition})"


def _single_equality(condition: Expr | None, width: int) -> Sequence[Expr] | None:
    """(left operand, right member) of a condition that is one equality between the sides."""
    if not isinstance(condition, Call) or condition.function != "eq":
        return None
    a, b = condition.args
    used_a, used_b = row_columns(a), row_columns(b)
    if used_b and all(i >= width for i in used_b) and all(i < width for i in used_a):
        return (a, b)
    if used_a and all(i >= width for i in used_a) and all(i < width for i in used_b):
        return (b, a)
    return None


def asof_sql(low: Lowering, plan: Join, env: Env) -> str:
    """The nearest right row: among equally near ones the greatest by its columns, so that the
    answer follows from the rows alone. One row per key and time is kept on the right, then DuckDB's
    own ASOF JOIN finds it."""
    left, right = low.item(plan.left, env), low.item(plan.right, env)
    width, count = len(plan.left.schema), len(plan.right.schema)
    row = _both(left.row, right.row, width)
    assert plan.condition is not None
    parts = [p for p in conjuncts(plan.condition) if isinstance(p, Call)]
    equal = [p.args for p in parts if p.function == "eq"]
    (nearest,) = [p for p in parts if p.function in _ASOF_SYMBOLS]
    kept = low.alias()
    keys = [low.expr(b, row, env) for _, b in equal]
    time = low.expr(nearest.args[1], row, env)
    columns = [as_column(right.row(i), i) for i in range(count)]
    columns += [f"{k} AS k{i}" for i, k in enumerate(keys)]
    order = ", ".join(f"{right.row(i)} DESC NULLS LAST" for i in range(count))
    partition = ", ".join([*keys, time])
    one_each = (
        f"(SELECT {', '.join(columns)}, {time} AS k FROM {right.sql} "
        f"QUALIFY row_number() OVER (PARTITION BY {partition} ORDER BY {order}) = 1) AS {kept}"
    )
    on = [f"{low.expr(a, row, env)} = {kept}.k{i}" for i, (a, _) in enumerate(equal)]
    on.append(f"{low.expr(nearest.args[0], row, env)} {_ASOF_SYMBOLS[nearest.function]} {kept}.k")
    outputs = [as_column(left.row(i), i) for i in range(width)]
    outputs += [as_column(f"{kept}.c{i}", width + i) for i in range(count)]
    word = "ASOF LEFT JOIN" if plan.kind == "asof_left" else "ASOF JOIN"
    return f"SELECT {', '.join(outputs)} FROM {left.sql} {word} {one_each} ON {' AND '.join(on)}"


_ASOF_SYMBOLS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
