"""SESSION in SQL: gaps and islands; `max` cuts with a recursive walk over each island."""

from __future__ import annotations

from streamsql.plan.nodes import TimeWindow, WindowSpec
from streamsql.plan.sql.lowering import Env, Lowering, as_column
from streamsql.plan.sql.time_windows import to_local, to_type, to_utc, zone_literal
from streamsql.plan.window_grids import exact_us


def later(us: str, spec: WindowSpec, zone: str | None) -> str:
    """us + spec: months and, with a zone, days by the calendar; all else exact."""
    if spec.months == 0 and (zone is None or spec.days == 0):
        return f"({us} + {exact_us(spec)})"
    local = us if zone is None else to_local(us, zone)
    moved = f"epoch_us(make_timestamp({local}) + to_months({spec.months}) + to_days({spec.days}))"
    back = moved if zone is None else to_utc(moved, zone)
    return f"({back} + {spec.us})"


def session_sql(low: Lowering, plan: TimeWindow, env: Env) -> str:
    """Rows of one partition are in one session if neighbours are at most the gap apart."""
    source = low.item(plan.input, env)
    width = len(plan.input.schema)
    zone = zone_literal(plan)
    time = source.row(plan.time_column)
    columns = [as_column(source.row(i), i) for i in range(width)]
    timed = (
        f"SELECT {', '.join([*columns, f'epoch_us({time}) AS t'])} FROM {source.sql} "
        f"WHERE {time} IS NOT NULL AND isfinite({time})"
    )
    kept = ", ".join(f"a.c{i}" for i in range(width))
    kept = f"{kept}, a.t" if kept else "a.t"
    keys = ", ".join(f"a.c{k}" for k in plan.partition_by)
    partition = f"PARTITION BY {keys} " if keys else ""
    # islands by gaps: `i` numbers them within the partition
    before = f"lag(a.t) OVER ({partition}ORDER BY a.t)"
    starts = (
        f"SELECT {kept}, CASE WHEN {before} IS NULL OR a.t > {later(before, plan.size, zone)} "
        f"THEN 1 ELSE 0 END AS b FROM ({timed}) AS a"
    )
    islands = (
        f"SELECT {kept}, sum(a.b) OVER ({partition}ORDER BY a.t "
        f"RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS i FROM ({starts}) AS a"
    )
    if plan.max_size is not None:
        islands = _cut(low, plan, islands, kept, zone)
    partition = f"PARTITION BY {keys + ', ' if keys else ''}a.i"
    end = later(f"max(a.t) OVER ({partition})", plan.size, zone)
    if plan.max_size is not None:
        limit = later(f"min(a.t) OVER ({partition})", plan.max_size, zone)
        end = f"least({end}, {limit})"
    bounded = f"SELECT {kept}, min(a.t) OVER ({partition}) AS s, {end} AS e FROM ({islands}) AS a"
    type_ = plan.input.schema[plan.time_column].type
    outputs = [f"a.c{i}" for i in range(width)]
    outputs += [
        f"{to_type(us, type_)} AS c{width + i}" for i, us in enumerate(("a.s", "a.e", "a.e - 1"))
    ]
    return f"SELECT {', '.join(outputs)} FROM ({bounded}) AS a"


def _cut(low: Lowering, plan: TimeWindow, islands: str, kept: str, zone: str | None) -> str:
    """Islands cut where a row lies `max` or more behind the start of its piece.

    The starts of an island's pieces follow from one another, so they are walked by a recursive CTE:
    the next piece starts at the first row at or behind start + max. The new `i` is the piece's
    start, which is unique within the partition.
    """
    assert plan.max_size is not None
    rows, walk = low.alias(), low.alias()
    keys = [f"c{k}" for k in plan.partition_by]
    names = ", ".join([*keys, "i", "s"])
    own = "".join(f"{rows}.{k}, " for k in keys)
    same = "".join(f"{rows}.{k} IS NOT DISTINCT FROM {walk}.{k} AND " for k in keys)
    limit = later(f"{walk}.s", plan.max_size, zone)
    base = f"SELECT {own}i, min(t) AS s FROM {rows} GROUP BY {own}i"
    step = (
        f"SELECT {own}{rows}.i, min({rows}.t) AS s FROM {walk} JOIN {rows} "
        f"ON {same}{rows}.i = {walk}.i AND {rows}.t >= {limit} "
        f"GROUP BY {own}{rows}.i"
    )
    same_row = "".join(f"a.{k} IS NOT DISTINCT FROM {walk}.{k} AND " for k in keys)
    piece = f"(SELECT max({walk}.s) FROM {walk} WHERE {same_row}{walk}.i = a.i AND {walk}.s <= a.t)"
    return (
        f"WITH RECURSIVE {rows} AS ({islands}), {walk}({names}) AS (({base}) UNION ALL ({step})) "
        f"SELECT {kept}, {piece} AS i FROM {rows} AS a"
    )
