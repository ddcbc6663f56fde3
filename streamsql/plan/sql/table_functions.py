"""Set-returning functions in SQL: a list per row, unnested."""

from __future__ import annotations

from streamsql.core.types import Kind
from streamsql.functions import registry
from streamsql.functions.expressions import Literal
from streamsql.functions.overloads import select_overload
from streamsql.plan.nodes import TableFunction, Values
from streamsql.plan.sql.lowering import Env, Lowering, as_column

LARGEST_BOUND = 1 << 62
"""Bounds of a series that can not pass the end of BIGINT on the way."""


def list_sql(plan: TableFunction, args: list[str]) -> str:
    """SQL of the list of the function's values (structs if it has several columns)."""
    types = tuple(a.type for a in plan.args)
    definitions = registry.set_returning()[plan.function]
    found = select_overload(definitions, types)
    definition = found[0] if isinstance(found, list) else found
    template = definition.sql
    if isinstance(template, str):
        return template.format(*args)
    return template(args, types, None)  # type: ignore[arg-type]


def table_function_sql(low: Lowering, plan: TableFunction, env: Env) -> str:
    """The input's rows, each repeated for every element of its list."""
    streamed = _streamed_series(plan)
    if streamed is not None:
        return streamed
    source = low.item(plan.input, env)
    width = len(plan.input.schema)
    args = [low.expr(a, source.row, env) for a in plan.args]
    listed, single = low.alias(), low.alias()
    inner = [as_column(source.row(i), i) for i in range(width)]
    sql = f"SELECT {', '.join([*inner, f'{list_sql(plan, args)} AS l'])} FROM {source.sql}"

    # one row an element: the element as v, its number as o; LEFT JOIN keeps rows without any
    values, numbers = f"{listed}.l", f"range(1, len({listed}.l) + 1)"
    if plan.outer:
        values = f"CASE WHEN len({listed}.l) > 0 THEN {listed}.l ELSE [NULL] END"
        numbers = f"CASE WHEN len({listed}.l) > 0 THEN {numbers} ELSE [NULL] END"
    outputs = [f"{listed}.c{i}" for i in range(width)]
    outputs.append(f"unnest({values}) AS v")
    if plan.with_ordinality:
        outputs.append(f"unnest({numbers}) AS o")
    sql = f"SELECT {', '.join(outputs)} FROM ({sql}) AS {listed}"

    last = len(plan.schema) - (1 if plan.with_ordinality else 0)
    types = plan.schema.types[width:last]
    outputs = [f"{single}.c{i}" for i in range(width)]
    for i, t in enumerate(types):
        element = f"{single}.v" if len(types) == 1 else f"{single}.v.c{i}"
        outputs.append(f"CAST({element} AS {t.duckdb}) AS c{width + i}")
    if plan.with_ordinality:
        outputs.append(f"CAST({single}.o AS BIGINT) AS c{last}")
    return f"SELECT {', '.join(outputs)} FROM ({sql}) AS {single}"


def _streamed_series(plan: TableFunction) -> str | None:
    """generate_series of constant integers alone in FROM or SELECT: DuckDB makes its rows one
    batch after the other, however many there are."""
    alone = isinstance(plan.input, Values) and plan.input.rows == ((),)
    if not alone or plan.function != "generate_series" or plan.outer:
        return None
    bounds = []
    for arg in plan.args:
        if not isinstance(arg, Literal) or arg.type.kind not in (Kind.INTEGER, Kind.BIGINT):
            return None
        if arg.value is None or abs(int(arg.value)) > LARGEST_BOUND:
            return None
        bounds.append(int(arg.value))
    if len(bounds) == 3 and bounds[2] == 0:
        return None
    type_ = plan.schema[0].type.duckdb
    outputs = [f"CAST(s.n AS {type_}) AS c0"]
    if plan.with_ordinality:
        first, by = bounds[0], bounds[2] if len(bounds) == 3 else 1
        outputs.append(f"CAST((s.n - ({first})) // ({by}) + 1 AS BIGINT) AS c1")
    listed = ", ".join(str(b) for b in bounds)
    return f"SELECT {', '.join(outputs)} FROM generate_series({listed}) AS s(n)"
