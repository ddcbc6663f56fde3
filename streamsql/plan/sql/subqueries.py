"""Subquery expressions in SQL, with SQL's three-valued answers written out where DuckDB has no
form."""

from __future__ import annotations

from streamsql.core.types import BOOLEAN
from streamsql.functions.duckdb_sql import expression_sql
from streamsql.functions.expressions import Call, ColumnRef, Expr, OuterRef, Subquery, conjunction
from streamsql.plan.nodes import Limit, LogicalPlan, Project, Sort
from streamsql.plan.sql.lowering import Env, Lowering, Row


def subquery_sql(low: Lowering, node: Subquery, row: Row, env: Env) -> str:
    """The whole expression, of type `node.type`."""
    inner_env = (*env, row)
    if node.kind == "scalar":
        return f"({low.query(node.plan, inner_env)})"
    if node.kind == "exists":
        return f"EXISTS ({low.query(node.plan, inner_env)})"
    if node.kind == "array":
        return _array(low, node, inner_env)
    if node.kind == "in" and len(node.operands) == 1:
        operand = low.expr(node.operands[0], row, env)
        word = "NOT IN" if node.negated else "IN"
        return f"({operand} {word} ({low.query(node.plan, inner_env)}))"
    return _three_valued(low, node, row, env)


def _array(low: Lowering, node: Subquery, env: Env) -> str:
    alias = low.alias()
    inner = low.query(node.plan, env)
    if _ordered(node.plan):
        number = low.alias()
        inner = f"SELECT c0, row_number() OVER () AS {number} FROM ({inner}) AS {alias}"
        alias = low.alias()
        values = f"list({alias}.c0 ORDER BY {alias}.{number})"
    else:
        values = f"list({alias}.c0)"
    empty = f"CAST([] AS {node.type.duckdb})"
    return f"COALESCE((SELECT {values} FROM ({inner}) AS {alias}), {empty})"


def _ordered(plan: LogicalPlan) -> bool:
    while isinstance(plan, Project):
        plan = plan.input
    return isinstance(plan, Sort | Limit)


def _three_valued(low: Lowering, node: Subquery, row: Row, env: Env) -> str:
    """ANY, ALL and IN over rows: TRUE, FALSE, or NULL where an unknown comparison decides."""
    alias = low.alias()
    inner = low.query(node.plan, (*env, row))
    operands = [low.expr(o, row, env) for o in node.operands]
    width = len(operands)

    def column(ref: ColumnRef | OuterRef) -> str:
        i = ref.index
        return f"({operands[i]})" if i < width else f"{alias}.c{i - width}"

    pairs: list[Expr] = []
    for i, operand in enumerate(node.operands):
        type_ = node.plan.schema[i].type
        args = (
            ColumnRef(index=i, type=operand.type),
            ColumnRef(index=width + i, type=type_),
        )
        pairs.append(Call(function=node.operator, args=args, type=BOOLEAN))
    compare = expression_sql(conjunction(pairs), column, timezone=low.timezone)

    def exists(condition: str) -> str:
        return f"EXISTS (SELECT 1 FROM ({inner}) AS {alias} WHERE {condition})"

    decided = f"NOT ({compare})" if node.kind == "all" else compare
    found, other = ("false", "true") if node.kind == "all" else ("true", "false")
    sql = (
        f"CASE WHEN {exists(decided)} THEN {found} "
        f"WHEN {exists(f'({compare}) IS NULL')} THEN NULL ELSE {other} END"
    )
    return f"(NOT {sql})" if node.negated else f"({sql})"
