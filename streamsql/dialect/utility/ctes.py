"""WITH before UPDATE, DELETE and MERGE: the CTEs move to where they are read.

These statements have no place for CTEs, so each relation in them that names one becomes a subquery
`(WITH … SELECT * FROM name)`, which knows all of them.
"""

from __future__ import annotations

from typing import TypeVar

from sqlglot import exp

from streamsql.dialect.positions import position_of

N = TypeVar("N", bound=exp.Expression)


def place_ctes(node: N, with_: exp.With | None) -> N:
    """`node` with every reference to a CTE of `with_` replaced; may be another node."""
    if with_ is None:
        return node
    names = {cte.alias for cte in with_.expressions}
    holder = exp.Paren(this=node)
    for table in list(node.find_all(exp.Table)):
        if table.name in names and not table.db and isinstance(table.this, exp.Identifier):
            table.replace(_subquery(table, with_))
    found: N = holder.this.pop()
    return found


def _subquery(table: exp.Table, with_: exp.With) -> exp.Subquery:
    source = exp.From(this=exp.Table(this=table.this.copy()))
    query = exp.Select(expressions=[exp.Star()], from_=source, with_=with_.copy())
    alias = table.args.get("alias") or exp.TableAlias(this=table.this.copy())
    subquery = exp.Subquery(this=query, alias=alias.copy())
    if joins := table.args.get("joins"):
        subquery.set("joins", [join.copy() for join in joins])
    start = position_of(table)
    if start is not None:
        subquery.meta["start"] = start
    return subquery
