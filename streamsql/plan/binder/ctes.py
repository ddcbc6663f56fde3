"""WITH: plain items are bound once and stand where they are named; recursive ones loop."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from streamsql.core.errors import (
    DatatypeMismatch,
    DuplicateAlias,
    FeatureNotSupported,
    InvalidColumnReference,
    InvalidRecursion,
)
from streamsql.core.schema import Column, Schema
from streamsql.core.types import SqlType
from streamsql.functions.coerce import coerce
from streamsql.functions.expressions import column
from streamsql.plan.binder.context import Bound, Cte
from streamsql.plan.binder.env import Env, leftmost, position_of
from streamsql.plan.binder.from_clause import renamed
from streamsql.plan.binder.outputs import known_outputs, typed_outputs
from streamsql.plan.nodes import (
    Aggregate,
    CteRef,
    Join,
    LogicalPlan,
    RecursiveCte,
    SetOperation,
)
from streamsql.plan.visit import node_expressions, shift_outer, walk_plan


def bind_with(with_: exp.With, env: Env) -> Env:
    """The surroundings in which the items of WITH can be named."""
    ctes = dict(env.ctes)
    own: set[str] = set()
    for item in with_.expressions:
        name = item.alias
        if name in own:
            raise DuplicateAlias(
                f'WITH query name "{name}" specified more than once', position=position_of(item)
            )
        own.add(name)
        here = env.with_ctes(dict(ctes))
        if with_.args.get("recursive") and _names_itself(item.this, name):
            bound = _bind_recursive(item, here)
        else:
            bound = _bind_plain(item, here)
        ctes[name] = Cte(name, bound.plan, bound.origins, env.level)
    return env.with_ctes(ctes)


def _bind_plain(item: exp.CTE, env: Env) -> Bound:
    from streamsql.plan.binder.query import bind_query_tree

    bound = bind_query_tree(item.this, env)
    plan = known_outputs(bound.plan)
    return replace(bound, plan=renamed(plan, _names(item, plan.schema)))


def _names(item: exp.CTE, schema: Schema) -> list[str]:
    alias = item.args["alias"]
    given = [c.name for c in alias.args.get("columns") or []]
    if len(given) > len(schema):
        raise InvalidColumnReference(
            f'WITH query "{item.alias}" has {len(schema)} columns available but {len(given)} '
            "columns specified",
            position=position_of(item),
        )
    return given + list(schema.names[len(given) :])


def reference_cte(cte: Cte, env: Env, position: int | None) -> Bound:
    """The rows of a WITH item at a place that is perhaps deeper than its definition."""
    if cte.forbidden is not None:
        raise InvalidRecursion(cte.forbidden, position=position)
    levels = env.level - cte.level
    plan = shift_outer(cte.plan, levels) if levels else cte.plan
    return Bound(plan, cte.origins)


# --- recursion ----------------------------------------------------------------------------------
def _references(query: exp.Expression, name: str) -> list[exp.Table]:
    """Places that name the WITH item, in the order of the text."""
    found = [t for t in query.find_all(exp.Table) if t.name == name and not t.args.get("db")]
    return sorted(found, key=lambda t: position_of(t) or 0)


def _names_itself(query: exp.Expression, name: str) -> bool:
    return bool(_references(query, name))


def _first_item(query: exp.Expression) -> int | None:
    items = query.expressions
    return leftmost(items[0]) if items else None


def _bind_recursive(item: exp.CTE, env: Env) -> Bound:
    from streamsql.plan.binder.query import bind_query_tree

    name, query, position = item.alias, item.this, position_of(item)
    if not isinstance(query, exp.Union):
        raise InvalidRecursion(
            f'recursive query "{name}" does not have the form non-recursive-term UNION [ALL] '
            "recursive-term",
            position=position,
        )
    for clause in ("order", "limit", "offset"):
        if query.args.get(clause) is not None:
            word = {"order": "ORDER BY"}.get(clause, clause.upper())
            raise FeatureNotSupported(
                f"{word} in a recursive query is not implemented",
                position=position_of(query.args[clause]),
                hint="Put it into the query that reads the WITH item.",
            )
    references = _references(query.expression, name)
    if len(references) > 1:
        raise InvalidRecursion(
            f'recursive reference to query "{name}" must not appear more than once',
            position=position_of(references[1]),
        )
    forbidden = Cte(
        name,
        CteRef(schema=Schema(()), cte_id=0),
        (),
        env.level,
        f'recursive reference to query "{name}" must not appear within its non-recursive term',
    )
    base_env = env.with_ctes({**env.ctes, name: forbidden})
    base = known_outputs(bind_query_tree(query.this, base_env).plan)
    names = _names(item, base.schema)
    schema = Schema(tuple(Column(n, c.type) for n, c in zip(names, base.schema, strict=True)))
    cte_id = env.statement.next_id()
    reference = CteRef(schema=schema, cte_id=cte_id)
    inner = Cte(name, reference, (None,) * len(schema), env.level)
    step = bind_query_tree(query.expression, env.with_ctes({**env.ctes, name: inner})).plan
    if len(step.schema) != len(schema):
        from streamsql.core.errors import SqlSyntaxError

        raise SqlSyntaxError(
            "each UNION query must have the same number of columns", position=position
        )
    _check_step(step, cte_id, name, position_of(references[0]) if references else position)
    _check_types(name, schema.types, step.schema, _first_item(query.this) or position)
    step = typed_outputs(step, schema.types, "assignment")
    plan = RecursiveCte(
        schema=schema,
        cte_id=cte_id,
        base=renamed(base, names),
        step=step,
        all=not query.args.get("distinct"),
    )
    return Bound(plan, (None,) * len(schema))


def _check_types(name: str, types: tuple[SqlType, ...], step: Schema, position: int | None) -> None:
    for i, (wanted, c) in enumerate(zip(types, step, strict=True)):
        try:
            result = coerce(column(i, c.type), wanted).type
        except DatatypeMismatch:
            result = None
        if result is None or result.kind is not wanted.kind:
            raise DatatypeMismatch(
                f'recursive query "{name}" column {i + 1} has type {wanted} in non-recursive term '
                f"but type {c.type} overall",
                position=position,
                hint="Cast the output of the non-recursive term to the correct type.",
            )


def _check_step(step: LogicalPlan, cte_id: int, name: str, position: int | None) -> None:
    """PostgreSQL's limits on where the recursive reference may stand."""
    for node in walk_plan(step):
        if isinstance(node, Aggregate) and _reads(node, cte_id):
            raise InvalidRecursion(
                "aggregate functions are not allowed in a recursive query's recursive term",
                position=position,
                hint="Aggregate in the query that reads the WITH item.",
            )
        where = _forbidding(node, cte_id)
        if where is not None:
            raise InvalidRecursion(
                f'recursive reference to query "{name}" must not appear within {where}',
                position=position,
            )
        for e in node_expressions(node):
            if _in_subquery(e, cte_id):
                raise InvalidRecursion(
                    f'recursive reference to query "{name}" must not appear within a subquery',
                    position=position,
                )


def _forbidding(node: LogicalPlan, cte_id: int) -> str | None:
    if isinstance(node, Join):
        if node.kind in ("left", "full") and _reads(node.right, cte_id):
            return "an outer join"
        if node.kind in ("right", "full") and _reads(node.left, cte_id):
            return "an outer join"
    if isinstance(node, SetOperation):
        if node.kind == "except" and _reads(node.right, cte_id):
            return "EXCEPT"
        if node.kind == "intersect" and _reads(node, cte_id):
            return "INTERSECT"
    return None


def _reads(plan: LogicalPlan, cte_id: int) -> bool:
    return any(isinstance(n, CteRef) and n.cte_id == cte_id for n in walk_plan(plan))


def _in_subquery(expr: object, cte_id: int) -> bool:
    from streamsql.functions.expressions import Expr, Subquery, walk

    assert isinstance(expr, Expr)
    return any(isinstance(e, Subquery) and _reads(e.plan, cte_id) for e in walk(expr))
