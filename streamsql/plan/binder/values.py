"""Literals, columns, parameters, casts, CASE and the constructors of arrays, rows, structs,
maps."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from streamsql.core.errors import (
    DatatypeMismatch,
    FeatureNotSupported,
    IndeterminateDatatype,
    SqlSyntaxError,
    UndefinedColumn,
)
from streamsql.core.interval_fields import modifier
from streamsql.core.types import BOOLEAN, BYTEA, INTEGER, INTERVAL, TEXT, UNKNOWN, Kind, struct_of
from streamsql.dialect.nodes import MapValue
from streamsql.functions.casts import Context, can_cast
from streamsql.functions.coerce import common_type
from streamsql.functions.expressions import Call, Case, Cast, Expr, Literal
from streamsql.functions.literals import number_literal
from streamsql.functions.resolve import resolve_call
from streamsql.plan.binder.env import position_of
from streamsql.plan.binder.expressions import ExprBinder, Handler, start_of
from streamsql.plan.binder.parameters import parameter
from streamsql.plan.binder.scope import (
    find_relation,
    lookup,
    lookup_qualified,
    missing_from,
    undefined_column,
)
from streamsql.plan.visit import push_down_levels


# --- literals -----------------------------------------------------------------------------------
def _literal(binder: ExprBinder, node: exp.Literal) -> Expr:
    if node.is_string:
        return Literal(value=node.this, type=UNKNOWN, position=position_of(node))
    return number_literal(str(node.this), position_of(node))


def _null(binder: ExprBinder, node: exp.Null) -> Expr:
    return Literal(value=None, type=UNKNOWN)


def _boolean(binder: ExprBinder, node: exp.Boolean) -> Expr:
    return Literal(value=bool(node.this), type=BOOLEAN)


def _hex(binder: ExprBinder, node: exp.HexString) -> Expr:
    return Literal(value=bytes.fromhex(str(node.this)), type=BYTEA)


def _bits(binder: ExprBinder, node: exp.BitString) -> Expr:
    raise FeatureNotSupported(
        "bit strings are not supported", hint="Use an integer or a BYTEA, for example '\\x0f'."
    )


def _interval(binder: ExprBinder, node: exp.Interval) -> Expr:
    from streamsql.dialect import interval_parts

    digits, unit = node.args.get("digits"), node.args.get("unit")
    if digits is not None and unit is not None:
        span = isinstance(unit, exp.IntervalSpan)
        first, last = (unit.this, unit.expression) if span else (unit, unit)
        digits = modifier(first.name.lower(), last.name.lower(), digits)
    type_ = replace(INTERVAL, digits=digits)
    return Literal(value=tuple(interval_parts(node)), type=type_)


def _parameter(binder: ExprBinder, node: exp.Parameter) -> Expr:
    return parameter(binder.statement.context, int(node.this.name), position_of(node))


# --- columns ------------------------------------------------------------------------------------
def column_parts(node: exp.Column) -> list[str]:
    """The names of a.b.c, outermost first."""
    return [p.name for p in node.parts]


def _column(binder: ExprBinder, node: exp.Column) -> Expr:
    if isinstance(node.this, exp.Star):  # where no list of columns may stand, t.* is the row
        names = [p.name for p in node.parts[:-1]]
        return _whole_row(binder, names[-1], names[-2] if len(names) > 1 else None, node)
    parts = column_parts(node)
    position = position_of(node)
    scope = binder.scope
    if len(parts) == 1:
        return _bare(binder, parts[0], position)
    found = lookup_qualified(scope, None, parts[0], parts[1], position) if parts else None
    rest = parts[2:]
    if found is None and len(parts) >= 3:
        found, rest = lookup_qualified(scope, parts[0], parts[1], parts[2], position), parts[3:]
        if found is None and len(parts) == 4:
            found = lookup_qualified(scope, parts[1], parts[2], parts[3], position)
            rest = []
    if found is not None:
        return _fields(binder, found[1], rest)
    whole = lookup(scope, parts[0], position)
    if whole is not None and whole[1].type.kind is Kind.STRUCT:
        return _fields(binder, whole[1], parts[1:])
    raise missing_from(scope, ".".join(parts[:-1]), position)


def _bare(binder: ExprBinder, name: str, position: int | None) -> Expr:
    found = lookup(binder.scope, name, position)
    if found is not None:
        return found[1]
    whole = find_relation(binder.scope, name)
    if whole is not None:
        return _whole_row(binder, name)
    raise undefined_column(binder.scope, name, position)


def _whole_row(
    binder: ExprBinder, alias: str, schema: str | None = None, node: exp.Column | None = None
) -> Expr:
    """A FROM item's name as a value: the row as a struct (of a one-column function: its value)."""
    found = find_relation(binder.scope, alias, schema)
    if found is None:
        shown = alias if schema is None else f"{schema}.{alias}"
        raise missing_from(binder.scope, shown, None if node is None else position_of(node))
    depth, relation = found
    exprs = [push_down_levels(c.expr, depth) for c in relation.columns]
    if relation.is_function and len(exprs) == 1:
        return exprs[0]
    row = make_struct(_distinct([c.name for c in relation.columns]), exprs)
    if not relation.optional:
        return row
    # a side that an outer join left out is no row of NULLs, but NULL: count(t) passes over it. A
    # column that is never NULL tells; without one, a row that has nothing but NULLs counts as none.
    schema_of = () if relation.info is None else relation.info.schema.columns
    certain = [e for e, c in zip(exprs, schema_of, strict=False) if not c.nullable]
    tests = tuple(resolve_call("is_not_null", [e]) for e in certain[:1] or exprs)
    there = tests[0] if len(tests) == 1 else Call(function="or", args=tests, type=BOOLEAN)
    return Case(whens=((there, row),), otherwise=None, type=row.type)


def _distinct(names: list[str]) -> list[str]:
    """Field names without repetition (an aliased join has the columns of both sides)."""
    found: list[str] = []
    for name in names:
        number = 1
        unique = name
        while unique in found:
            unique, number = f"{name}_{number}", number + 1
        found.append(unique)
    return found


def row_fields(expr: Expr) -> list[Expr]:
    """The fields of a STRUCT value, each as an expression of its own (NULL where it is NULL)."""
    return [field_of(expr, name) for name, _ in expr.type.fields]


def bind_items(binder: ExprBinder, nodes: list[exp.Expression]) -> list[Expr]:
    """The fields of a row as written: `t.*` and `(row).*` stand for their columns."""
    from streamsql.plan.binder.targets import bind_targets

    found: list[Expr] = []
    for node in nodes:
        column = isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
        if column or (isinstance(node, exp.Dot) and isinstance(node.expression, exp.Star)):
            found += [target.expr for target in bind_targets([node], binder)]
        else:
            found.append(binder.bind(node))
    return found


def _fields(binder: ExprBinder, expr: Expr, names: list[str]) -> Expr:
    for name in names:
        expr = field_of(expr, name)
    return expr


def field_of(expr: Expr, name: str, position: int | None = None) -> Expr:
    """(expr).name. Raises: UndefinedColumn (42703), WrongObjectType (42809) if it has no fields."""
    return resolve_call("field", [expr, Literal(value=name, type=TEXT)], position)


def _dot(binder: ExprBinder, node: exp.Dot) -> Expr:
    base = binder.bind(node.this)
    if isinstance(node.expression, exp.Star):
        if base.type.kind is not Kind.STRUCT:
            field_of(base, "*", position_of(node))
        return base
    return field_of(base, node.expression.name, position_of(node))


def _paren(binder: ExprBinder, node: exp.Paren) -> Expr:
    return binder.bind(node.this)


def _star(binder: ExprBinder, node: exp.Star) -> Expr:
    raise SqlSyntaxError('syntax error at or near "*"', position=position_of(node))


# --- casts --------------------------------------------------------------------------------------
def _cast(binder: ExprBinder, node: exp.Cast) -> Expr:
    from streamsql.dialect import type_of

    target = type_of(node.args["to"])
    position = position_of(node)
    if isinstance(node.this, exp.Array) and not node.this.expressions and target.element:
        return Call(function="array", args=(), type=target, position=position)
    arg = binder.bind(node.this)
    result = binder.coerce(arg, target, "explicit")
    return result if result.position is not None else replace(result, position=position)


def _try_cast(binder: ExprBinder, node: exp.TryCast) -> Expr:
    from streamsql.dialect import type_of

    target = type_of(node.args["to"])
    arg = binder.bind(node.this)
    if arg.type.kind is Kind.UNKNOWN:
        arg = binder.coerce(arg, TEXT)
    checked = binder.coerce(arg, target, "explicit")
    if isinstance(checked, Cast):
        return replace(checked, try_=True)
    return Cast(arg=arg, type=target, try_=True)


def _collate(binder: ExprBinder, node: exp.Collate) -> Expr:
    name = node.expression.name
    if name not in ("C", "POSIX", "default", "ucs_basic"):
        raise FeatureNotSupported(
            f'collation "{name}" is not supported',
            hint='Text compares by code point; write COLLATE "C" or leave it out.',
        )
    arg = binder.bind(node.this)
    return binder.coerce(arg, TEXT) if arg.type.kind is Kind.UNKNOWN else arg


# --- CASE ---------------------------------------------------------------------------------------
def _case(binder: ExprBinder, node: exp.Case) -> Expr:
    inner = binder.without_sets("CASE")
    operand = None if node.this is None else inner.bind(node.this)
    if operand is not None and operand.type.kind is Kind.UNKNOWN:
        operand = binder.coerce(operand, TEXT)
    conditions, results = [], []
    for branch in node.args["ifs"]:
        if operand is None:
            condition = inner.boolean(
                inner.bind(branch.this), "argument of CASE/WHEN", position_of(branch)
            )
        else:
            value = inner.bind(branch.this)
            condition = binder.call("=", [operand, value], position_of(branch))
        conditions.append(condition)
        results.append(inner.bind(branch.args["true"]))
    default = node.args.get("default")
    otherwise = None if default is None else inner.bind(default)
    every = [*([otherwise] if otherwise is not None else []), *results]
    target = common_type([e.type for e in every], what="CASE")
    whens = tuple((c, binder.coerce(r, target)) for c, r in zip(conditions, results, strict=True))
    if otherwise is not None:
        otherwise = binder.coerce(otherwise, target)
    return Case(whens=whens, otherwise=otherwise, type=target)


def _if(binder: ExprBinder, node: exp.If) -> Expr:
    otherwise = node.args.get("false")
    default = None if otherwise is None else otherwise.copy()
    return _case(binder, exp.Case(ifs=[node.copy()], default=default))


# --- constructors and subscripts ----------------------------------------------------------------
def _array(binder: ExprBinder, node: exp.Array) -> Expr:
    if not node.expressions:
        raise IndeterminateDatatype(
            "cannot determine type of empty array",
            position=position_of(node),
            hint="Explicitly cast to the desired type, for example ARRAY[]::integer[].",
        )
    return binder.call("array", binder.bind_all(node.expressions), position_of(node))


def _row(binder: ExprBinder, node: exp.Tuple) -> Expr:
    return binder.call("row", bind_items(binder, list(node.expressions)), position_of(node))


def _struct(binder: ExprBinder, node: exp.Struct) -> Expr:
    names, args = [], []
    for i, item in enumerate(node.expressions, 1):
        named = isinstance(item, exp.PropertyEQ)
        names.append(item.this.name if named else f"f{i}")
        args.append(known(binder, binder.bind(item.expression if named else item)))
    return make_struct(names, args)


def make_struct(names: list[str], args: list[Expr]) -> Expr:
    """A STRUCT with these fields."""
    fields = tuple((n, a.type) for n, a in zip(names, args, strict=True))
    return Call(function="row", args=tuple(args), type=struct_of(fields))


def _map(binder: ExprBinder, node: exp.Expression) -> Expr:
    pairs = zip(node.args.get("keys") or [], node.args.get("values") or [], strict=True)
    entries = binder.bind_all([e for pair in pairs for e in pair])
    return binder.call("map", entries, position_of(node))


def known(binder: ExprBinder, expr: Expr) -> Expr:
    """An untyped literal becomes text."""
    return binder.coerce(expr, TEXT) if expr.type.kind is Kind.UNKNOWN else expr


def _bracket(binder: ExprBinder, node: exp.Bracket) -> Expr:
    base = binder.bind(node.this)
    (index,) = node.expressions
    position = position_of(node)
    if isinstance(index, exp.Slice):
        bounds = [
            Literal(value=None, type=INTEGER) if b is None else _subscript(binder, b)
            for b in (index.args.get("this"), index.args.get("expression"))
        ]
        return binder.call("slice", [base, *bounds], position)
    if base.type.kind is Kind.ARRAY:
        return binder.call("subscript", [base, _subscript(binder, index)], position)
    return binder.call("subscript", [base, binder.bind(index)], position)


def _subscript(binder: ExprBinder, node: exp.Expression) -> Expr:
    """A position in an array."""
    given = binder.bind(node)
    if not can_cast(given.type, INTEGER, Context.ASSIGNMENT):
        raise DatatypeMismatch(
            "array subscript must have type integer", position=start_of(given, position_of(node))
        )
    return given if given.type.is_integer else binder.coerce(given, INTEGER, "assignment")


def _default(binder: ExprBinder, node: exp.Var) -> Expr:
    if node.name.upper() == "DEFAULT":
        raise SqlSyntaxError("DEFAULT is not allowed in this context")
    raise UndefinedColumn(f'column "{node.name}" does not exist')


def _alias(binder: ExprBinder, node: exp.Alias) -> Expr:
    return binder.bind(node.this)


HANDLERS: dict[type[exp.Expression], Handler] = {
    exp.Literal: _literal,
    exp.Null: _null,
    exp.Boolean: _boolean,
    exp.HexString: _hex,
    exp.BitString: _bits,
    exp.Interval: _interval,
    exp.Parameter: _parameter,
    exp.Column: _column,
    exp.Dot: _dot,
    exp.Paren: _paren,
    exp.Star: _star,
    exp.Cast: _cast,
    exp.TryCast: _try_cast,
    exp.Collate: _collate,
    exp.Case: _case,
    exp.If: _if,
    exp.Array: _array,
    exp.Tuple: _row,
    exp.Struct: _struct,
    exp.Bracket: _bracket,
    exp.Var: _default,
    exp.Alias: _alias,
    MapValue: _map,
}
