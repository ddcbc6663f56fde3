"""Temporal joins: JOIN r FOR SYSTEM_TIME AS OF {PROCTIME() | l.t}."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from streamsql.core.errors import FeatureNotSupported
from streamsql.functions.expressions import ColumnRef, Expr, column, conjunction, conjuncts
from streamsql.plan.binder.env import Env, FromItem, position_of
from streamsql.plan.binder.joins import JoinSyntax, combine
from streamsql.plan.nodes import Join
from streamsql.plan.properties import equal_pairs, unique_keys, watermark_columns


def is_processing_time(version: exp.Expression | None) -> bool:
    """Whether this is PROCTIME()."""
    return isinstance(version, exp.Anonymous) and str(version.this).lower() == "proctime"


def temporal_join(
    node: exp.Table, env: Env, left: FromItem, syntax: JoinSyntax, start: int, first_column: int
) -> FromItem:
    """left JOIN node, which names the time that it is read as of.

    Raises: FeatureNotSupported (0A000).
    """
    from streamsql.plan.binder.from_clause import bind_item

    position = position_of(node.this)
    if syntax.kind not in ("inner", "left"):
        raise FeatureNotSupported(
            f"a temporal {syntax.kind.upper().replace('_', ' ')} JOIN is not supported",
            position=position,
            hint="Use JOIN or LEFT JOIN with FOR SYSTEM_TIME AS OF.",
        )
    if env.parent is not None:
        raise FeatureNotSupported(
            "FOR SYSTEM_TIME AS OF in a subquery of an expression is not supported",
            position=position,
            hint="Write the temporal join in FROM, and the subquery over its result.",
        )
    moment = node.args["version"].args["expression"]
    bare = node.copy()  # trees are shared by the parse cache
    bare.set("version", None)
    right = bind_item(bare, env, left.namespace)
    outer = "_left" if syntax.kind == "left" else ""
    if is_processing_time(moment) or _is_processing_time_column(moment, left):
        looked_up = replace(syntax, kind=f"lookup{outer}")
        return combine(left, right, looked_up, env, start, first_column)
    time = _left_time(moment, env, left)
    versioned = replace(syntax, kind=f"versioned{outer}")
    joined = combine(left, right, versioned, env, start, first_column)
    assert isinstance(joined.plan, Join)
    whole = _with_time(joined.plan, time, node)
    return FromItem(whole, joined.namespace)


def _is_processing_time_column(moment: exp.Expression, left: FromItem) -> bool:
    """Whether this is a column that a table of the left side defines AS PROCTIME()."""
    if not isinstance(moment, exp.Column):
        return False
    return any(
        column.name == moment.name and at in relation.info.proctime_columns
        for relation in left.namespace.relations
        if relation.info is not None and moment.table in ("", relation.alias)
        for at, column in enumerate(relation.columns)
    )


def _left_time(moment: exp.Expression, env: Env, left: FromItem) -> Expr:
    """The time of the left row. Raises: FeatureNotSupported (0A000) if there is none in it."""
    from streamsql.plan.binder.expressions import ExprBinder

    if moment.find(exp.Column) is None:
        raise FeatureNotSupported(
            "a view reads the present version: FOR SYSTEM_TIME AS OF takes PROCTIME() or a column "
            "of the left side in a join",
            position=position_of(moment),
            hint="A version number or a time can stand in a plain SELECT.",
        )
    binder = ExprBinder(env.scope(left.namespace), env.statement, clause="FOR SYSTEM_TIME AS OF")
    return binder.bind(moment)


def _with_time(join: Join, time: Expr, node: exp.Table) -> Join:
    """The join with `left time >= right's watermark column` at the end of its condition."""
    from streamsql.functions.resolve import resolve_call

    position = position_of(node.this)
    width = len(join.left.schema)
    moments = sorted(watermark_columns(join.right))
    if len(moments) != 1:
        raise FeatureNotSupported(
            f'"{node.name}" has no watermark that orders its versions',
            position=position,
            hint="Declare WATERMARK FOR its time column, or join as of PROCTIME().",
        )
    bound = {j for _, j in equal_pairs(join.condition, width)} | _bound_columns(join, width)
    if not any(key and set(key) <= bound for key in unique_keys(join.right)):
        raise FeatureNotSupported(
            f'a temporal join needs equalities with the whole primary key of "{node.name}"',
            position=position,
            hint="Use an ASOF JOIN for a relation that holds its history as rows.",
        )
    began = join.right.schema[moments[0]]
    ref = column(width + moments[0], began.type, began.name)
    later = resolve_call(">=", [time, ref], position)
    condition = join.condition
    parts = [] if condition is None else conjuncts(condition)
    return replace(join, condition=conjunction([*parts, later]))


def _bound_columns(join: Join, width: int) -> set[int]:
    """Right columns that the condition compares by equality with expressions of the left row."""
    from streamsql.functions.expressions import Call, columns_used

    found = set()
    for part in [] if join.condition is None else conjuncts(join.condition):
        if isinstance(part, Call) and part.function == "eq":
            for a, b in (part.args, part.args[::-1]):
                if isinstance(a, ColumnRef) and a.index >= width:
                    used = columns_used(b)
                    if used and all(i < width for i in used):
                        found.add(a.index - width)
    return found
