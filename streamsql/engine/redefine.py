"""What a change of some relations makes of the definitions that name them.

Views are bound by OID and by column, so their meaning never depends on their text: where columns
came, went or got other names, a view goes on reading a layout (`layouts`). The text is adapted too
where that is possible without changing what it says: names are exchanged, the result is parsed and
bound again, and it is taken only if it means exactly what the old one meant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from streamsql.core.errors import StreamSqlError, UndefinedColumn
from streamsql.core.schema import Column, Schema
from streamsql.dialect.statements import CreateIndex, CreateSubscription, CreateView
from streamsql.engine.binding import BindScope
from streamsql.engine.catalog import Catalog
from streamsql.engine.ddl import AlterRelations, RowsChange
from streamsql.engine.definition_text import DefinitionText, Edit, apply_edits, column_nodes
from streamsql.engine.layouts import Layout
from streamsql.engine.names import parts_of, table_references
from streamsql.engine.pgcatalog.names import quote_ident
from streamsql.engine.rebind import bind_query_of
from streamsql.engine.relations import Definition, Relation
from streamsql.functions.expressions import ColumnRef
from streamsql.operators.fingerprint import canonical
from streamsql.plan.nodes import LogicalPlan

EDITS_MAX = 500


@dataclass(frozen=True)
class Moves:
    """Where the columns of a changed relation went: old position → new one."""

    positions: Mapping[int, int]

    @classmethod
    def none(cls, count: int) -> Moves:
        """Every column stays."""
        return cls({i: i for i in range(count)})


class Redefinition:
    """Collects the new definitions of one statement. before: the catalog as it is. after: as it
    will be, which grows with every change."""

    def __init__(self, catalog: Catalog) -> None:
        self.before = catalog
        self.after = catalog.fork()
        self.relations: dict[int, Relation] = {}
        self.layouts: dict[int, Layout] = {}

    def change(self, *relations: Relation) -> None:
        """Take new definitions in. Raises: 42P07, 3F000."""
        self.after.alter(relations, self.layouts.values())
        self.relations.update((r.oid, r) for r in relations)

    def operation(self, rows: tuple[RowsChange, ...] = ()) -> AlterRelations:
        """Everything as one change of the catalog."""
        before = tuple(self.before.relations[oid] for oid in self.relations)
        layouts = tuple(self.layouts.values())
        return AlterRelations(tuple(self.relations.values()), layouts, rows, before)

    def carry(self, roots: Mapping[int, Moves]) -> None:
        """Redefine what names the changed relations directly."""
        for dependent in self.before.dependents(roots):
            if dependent.oid in self.relations and dependent.oid in roots:
                continue
            if dependent.kind == "index":
                self._carry_index(dependent, roots)
            elif dependent.kind == "subscription":
                self.carry_subscription(dependent)
            elif isinstance(dependent.statement, CreateView):
                self._carry_view(dependent, roots)

    def narrow(self, view: Relation, layout: Layout) -> None:
        """Let a view read a relation without the columns that are dropped; it is built anew."""
        kept = [i for i, p in enumerate(layout.positions) if p is not None]
        columns = layout.columns.select(kept)
        positions = tuple(layout.positions[i] for i in kept)
        base = self.after.relations[layout.of]
        seen = dict(view.layouts)
        if columns == base.columns and positions == tuple(range(len(base.columns))):
            del seen[layout.of]
        else:
            oid = self.before.oids.allocate()
            self.layouts[oid] = Layout(oid, layout.of, columns, positions, -oid)
            seen[layout.of] = oid
        self.change(with_layouts(view, seen))

    # --- views ----------------------------------------------------------------------------------
    def _carry_view(self, view: Relation, roots: Mapping[int, Moves]) -> None:
        seen = dict(view.layouts)
        for oid in roots.keys() & view.depends_on:
            was, now = self.before.relations[oid], self.after.relations[oid]
            if was.columns != now.columns or was.layout != now.layout:
                seen[oid] = self._layout(view, oid, roots[oid]).oid
        safe = with_layouts(view, seen)
        self.change(self._rewritten(view, safe, roots) or safe)

    def _layout(self, view: Relation, oid: int, moves: Moves) -> Layout:
        """The layout by which a view reads a changed relation."""
        base = self.before.relations[oid]
        known = view.layouts.get(oid)
        if known is not None:
            found = self.layouts.get(known)
            if found is None:
                found = self.before.layouts[known].moved(moves.positions)
        else:
            positions = tuple(moves.positions.get(i) for i in range(len(base.columns)))
            found = self.same_layout(Layout(0, oid, base.columns, positions, base.layout))
        self.layouts[found.oid] = found
        return found

    def same_layout(self, wanted: Layout) -> Layout:
        """The layout of that description, which several views may share."""
        for known in (*self.layouts.values(), *self.before.layouts.values()):
            if replace(known, oid=0) == replace(wanted, oid=0):
                return known
        return replace(wanted, oid=self.before.oids.allocate())

    def _rewritten(
        self, view: Relation, safe: Relation, roots: Mapping[int, Moves]
    ) -> Relation | None:
        """The view with its text adapted to new names; None if it means something else then."""
        touched = {oid for oid in roots if oid in view.depends_on}
        renames = {oid: self._column_names(view, oid, roots[oid]) for oid in touched}
        renamed = any(self._name(self.before, o) != self._name(self.after, o) for o in touched)
        if not renamed and not any(renames.values()):
            return None
        target = meaning(view, self.before)
        for aliases in (False, True):
            try:
                found = self._edited(view, safe, renames, aliases=aliases)
                if found is not None and meaning(found[0], found[1]) == target:
                    self.layouts.update((x.oid, x) for x in found[2])
                    return found[0]
            except StreamSqlError:
                continue
        return None

    @staticmethod
    def _name(catalog: Catalog, oid: int) -> tuple[str, str]:
        relation = catalog.relations[oid]
        return relation.schema, relation.name

    def _column_names(self, view: Relation, oid: int, moves: Moves) -> dict[str, str]:
        """Columns by the names that the view knows → their new names."""
        before, after = self.before.relations[oid].columns, self.after.relations[oid].columns
        known = self.before.layouts.get(view.layouts.get(oid, 0))
        seen = before if known is None else known.columns
        places = range(len(before)) if known is None else known.positions
        found = {}
        for column, at in zip(seen, places, strict=True):
            to = None if at is None else moves.positions.get(at)
            if at is not None and to is not None and before[at].name != after[to].name:
                found[column.name] = after[to].name
        return found

    def _edited(
        self, view: Relation, safe: Relation, renames: Mapping[int, dict[str, str]], *,
        aliases: bool,
    ) -> tuple[Relation, Catalog, list[Layout]] | None:  # fmt: skip
        """(the view with its text edited, a catalog to bind it in, layouts that it needs)."""
        assert isinstance(view.statement, CreateView)
        probe = self.after.fork()
        layouts = self._renamed_layouts(safe, renames)
        for layout in layouts:
            probe.add_layout(layout)
        seen = {x.of: x.oid for x in layouts}
        for oid, names in renames.items():
            if names and oid not in seen:
                seen[oid] = 0
        kept = {**safe.layouts, **seen}
        safe = with_layouts(safe, {of: oid for of, oid in kept.items() if oid})
        sql = self._with_relation_names(view, aliases=aliases)
        order = [view.references.get(".".join(p)) for p in written_names(view.statement)]
        changed = {old: new for names in renames.values() for old, new in names.items()}
        for _ in range(EDITS_MAX):
            found = self._read(safe, sql, order)
            if found is None:
                return None
            try:
                shown = meaning(found, probe)[1]
            except UndefinedColumn as error:
                edited = edit_column(found, error.position, changed)
                if edited is None:
                    return None
                sql = edited
                continue
            if shown != view.columns.names:
                sql = DefinitionText(sql).with_column_list(view.columns.names)
                found = self._read(safe, sql, order)
            return None if found is None else (found, probe, layouts)
        return None

    def _renamed_layouts(
        self, view: Relation, renames: Mapping[int, dict[str, str]]
    ) -> list[Layout]:
        """Layouts under the new names; none where they are what the relation is now."""
        found = []
        for of, oid in view.layouts.items():
            layout = self.layouts.get(oid)
            if layout is None or not renames.get(of):
                continue
            columns = [replace(c, name=renames[of].get(c.name, c.name)) for c in layout.columns]
            layout = replace(layout, columns=Schema(tuple(columns)))
            base = self.after.relations[of]
            if layout.number != base.layout or layout.columns != base.columns:
                found.append(self.same_layout(layout))
        return found

    def _with_relation_names(self, view: Relation, *, aliases: bool) -> str:
        """The text with the new names of renamed relations."""
        assert isinstance(view.statement, CreateView)
        text = DefinitionText(view.sql)
        edits: list[Edit] = []
        for node in table_references(view.statement.query):
            parts = parts_of(node)
            oid = view.references.get(".".join(parts))
            start = node.meta.get("start")
            if oid is None or start is None:
                continue
            if self._name(self.before, oid) == self._name(self.after, oid):
                continue
            new = self._spelled(oid, view, qualified=len(parts) > 1)
            if aliases and not node.args.get("alias"):
                new += f" AS {quote_ident(parts[-1])}"
            edits.append((*text.name_at(start), new))
        return apply_edits(view.sql, edits)

    def _spelled(self, oid: int, view: Relation, *, qualified: bool) -> str:
        """A relation's new name as the view has to write it."""
        relation = self.after.relations[oid]
        found = self.after.resolve((relation.name,), view.context.search_path)
        if not qualified and found is not None and found.oid == oid:
            return quote_ident(relation.name)
        return f"{quote_ident(relation.schema)}.{quote_ident(relation.name)}"

    def _read(self, view: Relation, sql: str, order: list[int | None]) -> Relation | None:
        """The view with that text; None if its names do not mean what they did."""
        statement = read_definition(sql, view)
        if not isinstance(statement, CreateView):
            return None
        references: dict[str, int] = {}
        found: list[int | None] = []
        for parts in written_names(statement):
            relation = self.after.resolve(parts, view.context.search_path)
            found.append(None if relation is None else relation.oid)
            if relation is not None:
                references[".".join(parts)] = relation.oid
        if found != order:
            return None
        return replace(view, sql=sql, statement=statement, references=references)

    def move_index(self, index: Relation, owner: Relation) -> None:
        """An index on a view that was replaced: its columns are found by their names.

        Raises: errors of binding.
        """
        from streamsql.engine.indexes import bind_keys

        assert isinstance(index.statement, CreateIndex)
        keys = bind_keys(index.statement, owner, BindScope(self.after, index.context))
        places = [e.index if isinstance(e, ColumnRef) else None for e in keys]
        columns = tuple(replace(c, type=e.type) for c, e in zip(index.columns, keys, strict=True))
        extra = {**index.extra, "columns": places}
        self.change(replace(index, extra=extra, columns=Schema(columns)))

    # --- indexes --------------------------------------------------------------------------------
    def carry_subscription(self, subscription: Relation) -> None:
        """A subscription names its relation as it is called now."""
        statement = subscription.statement
        assert isinstance(statement, CreateSubscription)
        owner, text = self.after.relations[int(subscription.extra["of"])], subscription.sql
        tokens = DefinitionText(text)
        at = next(i for i, t in enumerate(tokens.tokens) if t.key == "FROM") + 1
        name = quote_ident(owner.name)
        if len(statement.relation) > 1:
            name = f"{quote_ident(owner.schema)}.{name}"
        sql = apply_edits(text, [(*tokens.name_at(tokens.tokens[at].start), name)])
        read = read_definition(sql, subscription)
        assert isinstance(read, CreateSubscription)
        references = {".".join(read.relation): owner.oid}
        self.change(replace(subscription, sql=sql, statement=read, references=references))

    def _carry_index(self, index: Relation, roots: Mapping[int, Moves]) -> None:
        """An index follows its table: its schema, the names in its text, the positions."""
        oid = int(index.extra["of"])
        statement, owner = index.statement, self.after.relations[oid]
        assert isinstance(statement, CreateIndex)
        width = len(self.before.relations[oid].columns)
        if len(roots[oid].positions) < width == len(owner.columns):  # a column of another type
            self.move_index(index, owner)
            return
        moves, text = roots[oid], DefinitionText(index.sql)
        edits: list[Edit] = []
        at = next(i for i, t in enumerate(text.tokens) if t.key == "ON") + 1
        if text.tokens[at].key == "ONLY":
            at += 1
        name = quote_ident(owner.name)
        if len(statement.table) > 1:
            name = f"{quote_ident(owner.schema)}.{name}"
        edits.append((*text.name_at(text.tokens[at].start), name))
        ends = {t.start: t.end for t in text.tokens}
        before = self.before.relations[oid].columns
        for old, new in moves.positions.items():
            written = quote_ident(owner.columns[new].name)
            if before[old].name != owner.columns[new].name:
                for node in column_nodes(statement, before[old].name):
                    start = node.this.meta.get("start")
                    if start in ends:
                        edits.append((start, ends[start], written))
        sql = apply_edits(index.sql, edits)
        read = read_definition(sql, index)
        assert isinstance(read, CreateIndex)
        positions = [None if p is None else moves.positions[p] for p in index.extra["columns"]]
        extra = {**index.extra, "columns": positions}
        columns = tuple(
            c if p is None else Column(owner.columns[p].name, c.type, c.nullable)
            for c, p in zip(index.columns, positions, strict=True)
        )
        self.change(
            replace(
                index,
                schema=owner.schema,
                sql=sql,
                statement=read,
                columns=Schema(columns),
                references={".".join(read.table): oid},
                extra=extra,
            )
        )


def with_layouts(view: Relation, layouts: Mapping[int, int]) -> Relation:
    """The view reading these relations by layouts: OID → OID of the layout."""
    extra = {k: v for k, v in view.extra.items() if k != "layouts"}
    if layouts:
        extra["layouts"] = {str(of): oid for of, oid in layouts.items()}
    return replace(view, extra=extra)


def written_names(statement: CreateView) -> list[tuple[str, ...]]:
    """The names of relations in a view's query, in the order of the text's tree."""
    return [parts_of(node) for node in table_references(statement.query)]


def read_definition(sql: str, relation: Relation) -> Definition | None:
    """The parsed text of a definition; None if it is none."""
    from streamsql.dialect import parse

    statements = parse(sql, relation.context.dialect)
    if len(statements) != 1:
        return None
    found = statements[0]
    return found if isinstance(found, Definition) else None


def edit_column(view: Relation, position: int | None, names: Mapping[str, str]) -> str | None:
    """The text with the new name of the column that is not found at this position. A column that
    is shown keeps its old name: `a` becomes `b AS a`."""
    statement = view.statement
    assert isinstance(statement, CreateView)
    for old, new in names.items():
        for node in column_nodes(statement, old):
            start = node.this.meta.get("start")
            if start is None or position not in (start, node.meta.get("start")):
                continue
            ends = {t.start: t.end for t in DefinitionText(view.sql).tokens}
            written = quote_ident(new)
            parent = node.parent
            shown = isinstance(parent, exp.Select) and node.arg_key == "expressions"
            if shown:
                written += f" AS {quote_ident(old)}"
            return apply_edits(view.sql, [(start, ends[start], written)])
    return None


def bound_plan(view: Relation, catalog: Catalog) -> LogicalPlan:
    """The view's query, bound in a catalog under the settings it was written under."""
    return bind_query_of(catalog.bound(view), BindScope(catalog, view.context)).plan


def meaning(view: Relation, catalog: Catalog) -> tuple[str, tuple[str, ...]]:
    """(what it computes, its columns' names); equal for two texts that say the same."""
    plan = bound_plan(view, catalog)
    assert isinstance(view.statement, CreateView)
    names = list(view.statement.columns)

    def scan(found: re.Match[str]) -> str:
        oid = int(found[1])
        layout = catalog.layouts.get(oid)
        if layout is not None:
            return f"Scan({layout.of}.{layout.number},"
        relation = catalog.relations.get(oid)
        return f"Scan({oid}.{0 if relation is None else relation.layout},"

    text = re.sub(r"\bScan\((\d+),", scan, canonical(plan))
    return text, (*names, *plan.schema.names[len(names) :])


def used_columns(view: Relation, catalog: Catalog, oid: int) -> tuple[set[str], set[str]]:
    """Names of the columns of a relation that a view needs, and those its operators keep (some are
    kept only so that rows can be counted)."""
    from streamsql.engine.column_use import columns_read
    from streamsql.plan.optimizer import optimize

    plan = optimize(bound_plan(view, catalog))
    layout = view.layouts.get(oid, oid)
    logical, physical = columns_read(plan, layout)
    known = catalog.known(layout)
    assert known is not None
    places: list[int | None] = list(range(len(known.columns)))
    if layout != oid:
        places = list(catalog.layouts[layout].positions)
    now = catalog.relations[oid].columns
    shown: list[str | None] = [None if p is None else now[p].name for p in places]
    return (
        {n for i in logical if (n := shown[i]) is not None},
        {n for i in physical if (n := shown[i]) is not None},
    )
