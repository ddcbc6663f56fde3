"""Subqueries in expressions: scalar, EXISTS, IN, ANY/ALL, ARRAY."""

from __future__ import annotations

from sqlglot import exp

from streamsql.core.errors import SqlSyntaxError, WrongObjectType
from streamsql.core.schema import Column, Schema
from streamsql.core.types import BOOLEAN, TEXT, Kind, array_of
from streamsql.dialect.nodes import ArrayQuery
from streamsql.functions.coerce import common_type
from streamsql.functions.expressions import Call, Case, Expr, Literal, Subquery, column
from streamsql.functions.resolve import resolve_set_returning
from streamsql.plan.binder.env import position_of
from streamsql.plan.binder.expressions import ExprBinder, Handler
from streamsql.plan.binder.operators import in_list, negated, row_items
from streamsql.plan.binder.outputs import known_outputs, typed_outputs
from streamsql.plan.binder.table_functions import ONE_ROW, table_function
from streamsql.plan.binder.values import field_of, make_struct
from streamsql.plan.nodes import LogicalPlan, Project
from streamsql.plan.visit import push_down_levels

REGISTRY_NAMES = {"=": "eq", "<>": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
"""Comparison operators by the names that `Subquery.operator` holds."""


def bind_plan(binder: ExprBinder, node: exp.Expression) -> LogicalPlan:
    """The plan of a subquery; columns that are still UNKNOWN stay so."""
    from streamsql.plan.binder.query import bind_query_tree

    return bind_query_tree(node, binder.subquery_env()).plan


def _one_column(plan: LogicalPlan, position: int | None) -> LogicalPlan:
    if len(plan.schema) != 1:
        raise SqlSyntaxError(
            "subquery must return only one column",
            position=position,
            hint="Select one column, or use EXISTS.",
        )
    return plan


def _scalar(binder: ExprBinder, node: exp.Subquery) -> Expr:
    position = position_of(node)
    plan = known_outputs(_one_column(bind_plan(binder, node), position))
    return Subquery(kind="scalar", plan=plan, type=plan.schema[0].type, position=position)


def row_of_query(
    binder: ExprBinder, node: exp.Subquery, width: int, position: int | None
) -> list[Expr]:
    """The one row of a subquery as the values of its columns, all NULL where it has no row.

    Raises: SqlSyntaxError (42601) if it has not `width` columns.
    """
    plan = known_outputs(bind_plan(binder, node))
    if len(plan.schema) != width:
        few = "too few" if len(plan.schema) < width else "too many"
        raise SqlSyntaxError(f"subquery has {few} columns", position=position)
    names = [f"f{i + 1}" for i in range(width)]
    refs: list[Expr] = [column(i, c.type, c.name) for i, c in enumerate(plan.schema)]
    row = make_struct(names, refs)
    whole = Project(schema=Schema((Column("row", row.type),)), input=plan, exprs=(row,))
    found = Subquery(kind="scalar", plan=whole, type=row.type, position=position)
    return [field_of(found, name) for name in names]


def _exists(binder: ExprBinder, node: exp.Exists) -> Expr:
    plan = known_outputs(bind_plan(binder, node.this))
    return Subquery(kind="exists", plan=plan, type=BOOLEAN)


def _array(binder: ExprBinder, node: ArrayQuery) -> Expr:
    plan = known_outputs(_one_column(bind_plan(binder, node.this), position_of(node)))
    return Subquery(kind="array", plan=plan, type=array_of(plan.schema[0].type))


def bind_in_query(
    binder: ExprBinder,
    left: exp.Expression,
    query: exp.Expression,
    negate: bool,
    position: int | None,
) -> Expr:
    """left [NOT] IN (query); left may be a row."""
    return _membership(binder, "in", "=", left, query, negate, position)


def bind_quantified(
    binder: ExprBinder,
    symbol: str,
    left: exp.Expression,
    right: exp.Expression,
    position: int | None,
) -> Expr:
    """left <symbol> ANY/ALL (query or array)."""
    every = isinstance(right, exp.All)
    inner = right.this
    while isinstance(inner, exp.Paren):
        inner = inner.this
    if not isinstance(inner, exp.Subquery | exp.Query):
        return _over_array(binder, symbol, left, inner, every, position)
    if symbol == "=" and not every:
        return _membership(binder, "in", "=", left, inner, False, position)
    if symbol == "<>" and every:
        return _membership(binder, "in", "=", left, inner, True, position)
    return _membership(binder, "all" if every else "any", symbol, left, inner, False, position)


_NESTED = (Kind.ARRAY, Kind.STRUCT, Kind.MAP, Kind.JSON, Kind.JSONB)
_QUANTIFIED = ("=", "<>", "!=", "<", "<=", ">", ">=")


def _over_array(
    binder: ExprBinder,
    symbol: str,
    left: exp.Expression,
    right: exp.Expression,
    every: bool,
    position: int | None,
) -> Expr:
    """x = ANY (array): a list where the elements are known, else a function of both; arrays of what
    it can not compare are unnested by a subquery."""
    value, array = binder.bind(left), binder.bind(right)
    if array.type.kind is Kind.UNKNOWN:
        element = TEXT if value.type.kind is Kind.UNKNOWN else value.type
        array = binder.coerce(array, array_of(element))
    if value.type.kind is Kind.UNKNOWN and array.type.element is not None:
        value = binder.coerce(value, array.type.element)
    if array.type.kind is not Kind.ARRAY:
        raise WrongObjectType("op ANY/ALL (array) requires array on right side", position=position)
    elements = _elements(array)
    if elements is not None:
        return _over_elements(binder, symbol, value, elements, every, position)
    item = array.type.element
    if item is not None and item.kind not in _NESTED and symbol in _QUANTIFIED:
        binder.call(symbol, [value, Literal(value=None, type=item)], position)  # its errors
        return binder.call(f"{symbol} {'all' if every else 'any'}", [value, array], position)
    moved = push_down_levels(array, 1)
    name, args, schema = resolve_set_returning("unnest", [moved], position)
    plan: LogicalPlan = table_function(ONE_ROW, name, args, schema)
    operands, plan = _align(binder, symbol, [value], plan, position)
    equal = symbol == ("<>" if every else "=")
    test = Subquery(
        kind="in" if equal else "all" if every else "any",
        plan=plan,
        operands=tuple(operands),
        operator="eq" if equal else REGISTRY_NAMES.get(symbol, symbol),
        negated=equal and every,
        type=BOOLEAN,
        position=position,
    )
    missing = binder.call("is_null", [array], position)  # no array at all: unknown
    unknown = Literal(value=None, type=BOOLEAN)
    return Case(whens=((missing, unknown),), otherwise=test, type=BOOLEAN)


def _elements(array: Expr) -> list[Expr] | None:
    """The elements of ARRAY[…] or of an array constant; None for any other array."""
    if isinstance(array, Call) and array.function == "array":
        return list(array.args)
    element = array.type.element
    if isinstance(array, Literal) and array.value is not None and element is not None:
        if element.kind in (Kind.ARRAY, Kind.STRUCT, Kind.MAP):
            return None
        return [Literal(value=v, type=element, position=array.position) for v in array.value]
    return None


def _over_elements(
    binder: ExprBinder,
    symbol: str,
    value: Expr,
    elements: list[Expr],
    every: bool,
    position: int | None,
) -> Expr:
    if not elements:
        return Literal(value=every, type=BOOLEAN, position=position)
    if symbol == "=" and not every:
        return in_list(binder, value, elements, position)
    if symbol == "<>" and every:
        return negated(in_list(binder, value, elements, position))
    parts = tuple(binder.call(symbol, [value, e], position) for e in elements)
    if len(parts) == 1:
        return parts[0]
    return Call(function="and" if every else "or", args=parts, type=BOOLEAN)


def _membership(
    binder: ExprBinder,
    kind: str,
    symbol: str,
    left: exp.Expression,
    query: exp.Expression,
    negate: bool,
    position: int | None,
) -> Expr:
    items = row_items(left)
    operands = binder.bind_all(items if items is not None else [left])
    plan = bind_plan(binder, query)
    if len(plan.schema) != len(operands):
        few = len(plan.schema) < len(operands)
        raise SqlSyntaxError(
            f"subquery has too {'few' if few else 'many'} columns", position=position
        )
    operands, plan = _align(binder, symbol, operands, plan, position)
    expr = Subquery(
        kind=kind,
        plan=plan,
        operands=tuple(operands),
        operator=REGISTRY_NAMES.get(symbol, symbol),
        negated=negate and kind == "in",
        type=BOOLEAN,
        position=position,
    )
    return negated(expr) if negate and kind != "in" else expr


def _align(
    binder: ExprBinder,
    symbol: str,
    operands: list[Expr],
    plan: LogicalPlan,
    position: int | None,
) -> tuple[list[Expr], LogicalPlan]:
    """Operands and subquery columns of the types that the comparison compares."""
    types = []
    wanted = []
    for i, operand in enumerate(operands):
        inner = plan.schema[i].type
        if inner.kind is Kind.UNKNOWN:
            target = TEXT if operand.type.kind is Kind.UNKNOWN else operand.type
            types.append(target)
            wanted.append(target)
            continue
        compared = binder.call(symbol, [operand, column(i, inner)], position)
        if isinstance(compared, Call) and len(compared.args) == 2:
            types.append(compared.args[0].type)
            wanted.append(compared.args[1].type)
        else:
            shared = common_type([operand.type, inner], what="IN")
            types.append(shared)
            wanted.append(shared)
    aligned = [binder.coerce(o, t) for o, t in zip(operands, types, strict=True)]
    schema: Schema = plan.schema
    if list(schema.types) != wanted:
        plan = typed_outputs(plan, wanted)
    return aligned, plan


HANDLERS: dict[type[exp.Expression], Handler] = {
    exp.Subquery: _scalar,
    exp.Exists: _exists,
    ArrayQuery: _array,
}
