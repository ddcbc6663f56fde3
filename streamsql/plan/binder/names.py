"""Output column names, as PostgreSQL chooses them for a select item without AS."""

from __future__ import annotations

from sqlglot import exp

from streamsql.dialect.nodes import ArrayQuery, RowValue
from streamsql.plan.binder.calls import read_call

UNNAMED = "?column?"

_STRONG, _WEAK, _NONE = 2, 1, 0
_CALLS = (
    exp.Anonymous,
    exp.Filter,
    exp.WithinGroup,
    exp.IgnoreNulls,
    exp.RespectNulls,
)
_TYPE_NAMES = {
    "BOOLEAN": "bool",
    "SMALLINT": "int2",
    "INT": "int4",
    "BIGINT": "int8",
    "FLOAT": "float4",
    "DOUBLE": "float8",
    "DECIMAL": "numeric",
    "TEXT": "text",
    "VARCHAR": "varchar",
    "CHAR": "bpchar",
    "BPCHAR": "bpchar",
    "VARBINARY": "bytea",
    "STRUCT": "row",
}


def output_name(node: exp.Expression) -> str:
    """The name of an output column, "?column?" where nothing suggests one."""
    name, _ = _figure(node)
    return name or UNNAMED


def _figure(node: exp.Expression) -> tuple[str | None, int]:
    """(name, strength), after PostgreSQL's FigureColnameInternal."""
    if isinstance(node, exp.Column):
        return node.name, _STRONG
    if isinstance(node, exp.Dot):
        if isinstance(node.expression, exp.Identifier):
            return node.expression.name, _STRONG
        return _figure(node.this)
    if isinstance(node, exp.Paren | exp.Bracket | exp.Collate):
        return _figure(node.this)
    if isinstance(node, exp.Window):
        return _figure(node.this)
    if isinstance(node, _CALLS):
        return read_call(node).name, _STRONG
    if isinstance(node, exp.AtTimeZone):
        return "timezone", _STRONG
    if isinstance(node, exp.Overlaps):
        return "overlaps", _STRONG
    if isinstance(node, exp.Cast | exp.TryCast):
        name, strength = _figure(node.this)
        return (name, strength) if strength == _STRONG else (_type_name(node.args["to"]), _WEAK)
    if isinstance(node, exp.Interval):
        return "interval", _WEAK
    if isinstance(node, exp.Case):
        default = node.args.get("default")
        name, strength = (None, _NONE) if default is None else _figure(default)
        return (name, strength) if strength == _STRONG else ("case", _WEAK)
    if isinstance(node, exp.Exists):
        return "exists", _STRONG
    if isinstance(node, ArrayQuery | exp.Array):
        return "array", _STRONG
    if isinstance(node, RowValue | exp.Tuple | exp.Struct):
        return "row", _STRONG
    if isinstance(node, exp.Subquery):
        return _of_subquery(node)
    return None, _NONE


def _of_subquery(node: exp.Subquery) -> tuple[str | None, int]:
    """A scalar subquery has the name of its only column."""
    query: exp.Expression = node.this
    while isinstance(query, exp.Subquery | exp.SetOperation):
        query = query.this
    if isinstance(query, exp.Select) and len(query.expressions) == 1:
        item = query.expressions[0]
        return (item.alias, _STRONG) if isinstance(item, exp.Alias) else _figure(item)
    return ("column1", _STRONG) if isinstance(query, exp.Values) else (None, _NONE)


def _type_name(node: exp.DataType) -> str:
    kind = node.this
    name = getattr(kind, "name", str(kind))
    if name == "ARRAY":
        return _type_name(node.expressions[0])
    if name == "USERDEFINED":
        return str(node.args.get("kind") or "").split(".")[-1].strip('"')
    return _TYPE_NAMES.get(name, name.lower())
