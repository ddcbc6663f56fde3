"""The relation names in a query tree: finding them, and binding them to what they meant.

A view keeps its user's text; its tree is bound again later (after a restart, by every query that
reads it), and must then mean the same relations under another search path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from sqlglot import exp

from streamsql.engine.relations import Relation


def parts_of(table: exp.Table) -> tuple[str, ...]:
    """The name of an exp.Table as parts, outermost first."""
    parts = [table.args.get("catalog"), table.args.get("db"), table.this]
    return tuple(p.name if isinstance(p, exp.Identifier) else str(p) for p in parts if p)


def table_references(
    tree: exp.Expression, hidden: frozenset[str] = frozenset()
) -> Iterator[exp.Table]:
    """Every exp.Table that names a relation of the catalog (not a CTE, not a function).

    hidden: CTE names that are visible from outside of `tree`.
    """
    with_ = tree.args.get("with_") or tree.args.get("with")
    if with_ is not None:
        names = {cte.alias for cte in with_.expressions}
        recursive = bool(with_.args.get("recursive"))
        seen = hidden | names if recursive else hidden
        for cte in with_.expressions:
            yield from table_references(cte.this, seen)
            seen = seen | {cte.alias}
        hidden = hidden | names
    if isinstance(tree, exp.Table) and isinstance(tree.this, exp.Identifier):
        bare = not tree.args.get("db")
        if not (bare and tree.this.name in hidden):
            yield tree
    for key, value in tree.args.items():
        if key in ("with_", "with"):
            continue
        for child in value if isinstance(value, list) else (value,):
            if isinstance(child, exp.Expression):
                yield from table_references(child, hidden)


def referenced_relations(
    tree: exp.Expression, resolve: Callable[[tuple[str, ...]], Relation | None]
) -> dict[str, Relation]:
    """Dotted name as written → relation, for every name that resolves."""
    found: dict[str, Relation] = {}
    for table in table_references(tree):
        parts = parts_of(table)
        relation = resolve(parts)
        if relation is not None:
            found[".".join(parts)] = relation
    return found


def qualified(
    tree: exp.Expression,
    meaning: Mapping[str, Relation],
    layouts: Mapping[int, tuple[str, str]] | None = None,
) -> exp.Expression:
    """A copy of the tree whose relation names are (schema, name) of what they mean.

    The name that columns are qualified with stays: an alias is added where there was none.
    layouts: OID → (schema, name) to write instead, for relations that are read as they were.
    """
    copy = tree.copy()
    for table in list(table_references(copy)):
        parts = parts_of(table)
        relation = meaning.get(".".join(parts))
        if relation is None:
            continue
        if not table.args.get("alias"):
            table.set("alias", exp.TableAlias(this=exp.to_identifier(parts[-1], quoted=True)))
        schema, name = (layouts or {}).get(relation.oid, (relation.schema, relation.name))
        table.set("this", exp.to_identifier(name, quoted=True))
        table.set("db", exp.to_identifier(schema, quoted=True))
        table.set("catalog", None)
    return copy
