"""json_to_recordset(j) AS t(a int, b text) and its kin: rows of JSON objects by declared columns.

They are written as what they mean: the elements of the array, each column a field of them that is
cast to its type.
"""

from __future__ import annotations

from sqlglot import exp

from streamsql.core.errors import FeatureNotSupported, SqlSyntaxError
from streamsql.dialect.positions import position_of

_RECORDS = frozenset({"json_to_record", "jsonb_to_record"})
_SETS = frozenset({"json_to_recordset", "jsonb_to_recordset"})
_NESTED = frozenset({exp.DType.ARRAY, exp.DType.STRUCT, exp.DType.MAP})
_JSON = frozenset({exp.DType.JSON, exp.DType.JSONB})


def as_subquery(table: exp.Table) -> exp.Expression:
    """The item itself, or the subquery that such a function stands for.

    Raises: SqlSyntaxError (42601) without declared columns, FeatureNotSupported (0A000) for columns
    that are arrays or structs.
    """
    call, alias = table.this, table.args.get("alias")
    name = call.name.lower() if isinstance(call, exp.Anonymous) else ""
    columns = alias.columns if alias is not None else []
    if name not in _RECORDS | _SETS or len(call.expressions) != 1:
        return table
    if not columns or not all(isinstance(c, exp.ColumnDef) for c in columns):
        raise SqlSyntaxError(
            'a column definition list is required for functions returning "record"',
            position=position_of(call),
            hint=f"Write {name}(…) AS t(a int, b text).",
        )
    kind = "JSONB" if name.startswith("jsonb") else "JSON"
    document = exp.Cast(this=call.expressions[0], to=exp.DataType.build(kind))
    select = exp.Select()
    value: exp.Expression = document
    if name in _SETS:
        elements = exp.Anonymous(this=f"{kind.lower()}_array_elements", expressions=[document])
        row = exp.TableAlias(this=_name("record"), columns=[_name("value")])
        select.set("from_", exp.From(this=exp.Table(this=mark_like(elements, call), alias=row)))
        value = exp.Column(this=_name("value"), table=_name("record"))
    select.set("expressions", [_field(value, c) for c in columns])
    names = [_name(c.name) for c in columns]
    outer = exp.TableAlias(this=alias.this or _name(name), columns=names)
    subquery = exp.Subquery(this=select)
    return mark_like(exp.Lateral(this=subquery, alias=outer), table)


def mark_like(node: exp.Expression, other: exp.Expression) -> exp.Expression:
    """The node with the other's position."""
    node.meta.update(other.meta)
    return node


def _name(text: str) -> exp.Identifier:
    return exp.Identifier(this=text, quoted=True)


def _field(value: exp.Expression, column: exp.ColumnDef) -> exp.Expression:
    from streamsql.dialect.router import parse_expression
    from streamsql.dialect.typenames import type_of

    to = column.args["kind"]
    if to.this in _NESTED:
        raise FeatureNotSupported(
            f'column "{column.name}" of type {type_of(to)} is not supported here',
            position=position_of(column.this),
            hint="Declare it JSONB, and take its elements with jsonb_array_elements.",
        )
    operator = "->" if to.this in _JSON else "->>"
    key = column.name.replace("'", "''")
    field = parse_expression(f"v {operator} '{key}'")
    place = next(c for c in field.find_all(exp.Column) if c.name == "v")
    place.replace(value.copy())
    return exp.Alias(this=exp.Cast(this=field, to=to.copy()), alias=_name(column.name))
