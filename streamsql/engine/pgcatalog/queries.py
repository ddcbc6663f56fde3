"""Catalog queries: SELECT, set operations, WITH, VALUES and what stands in FROM."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from streamsql.core.errors import (
    FeatureNotSupported,
    InvalidColumnReference,
    SqlSyntaxError,
    UndefinedTable,
)
from streamsql.dialect.positions import position_of
from streamsql.engine.pgcatalog import pgtypes as t
from streamsql.engine.pgcatalog.expressions import ExpressionCompiler
from streamsql.engine.pgcatalog.scope import Context, Output, Scope, Source, Typed
from streamsql.engine.pgcatalog.special import SPECIAL_FUNCTIONS, subscripts
from streamsql.engine.pgcatalog.static import SystemRelation, find_relation

Compiled = tuple[str, list[Output]]
"""(DuckDB text of a query whose columns are c0, c1, …, what those columns are)."""

_SET_OPERATIONS = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}


class QueryCompiler:
    """Compiles queries; one instance for one statement."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def query(self, node: exp.Expression, parent: Scope | None) -> Compiled:
        """Any query. parent: the scope around it, whose columns it may name.

        Raises: UndefinedTable (42P01), UndefinedColumn (42703), FeatureNotSupported (0A000)…
        """
        if isinstance(node, exp.Subquery):
            if node.args.get("with_") is None:
                return self.query(node.this, parent)
            with_, scope = self._with(node, parent)
            sql, outputs = self.query(node.this, scope)
            return f"{with_}({sql})", outputs
        if isinstance(node, exp.Values):
            return self._values(node, parent)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, parent)
        if isinstance(node, exp.Select):
            return self._select(node, parent)
        raise FeatureNotSupported(
            f"{type(node).__name__} is not supported in a query of the catalog",
            position=position_of(node),
        )

    # --- WITH and set operations ------------------------------------------------------------------
    def _with(self, node: exp.Expression, parent: Scope | None) -> tuple[str, Scope]:
        """(text of WITH, a scope that knows its queries)."""
        scope = Scope(parent)
        with_ = node.args.get("with_")
        if with_ is None:
            return "", scope
        recursive = bool(with_.args.get("recursive"))
        parts = []
        for cte in with_.expressions:
            name, unique = cte.args["alias"].this.name, self.context.unique("w")
            renamed = [c.name for c in cte.args["alias"].args.get("columns") or []]
            if recursive and isinstance(cte.this, exp.SetOperation):
                _, first = self.query(cte.this.this, scope)
                scope.ctes[name] = (unique, _renamed(first, renamed))
            sql, outputs = self.query(cte.this, scope)
            scope.ctes[name] = (unique, _renamed(outputs, renamed))
            columns = ", ".join(f"c{i}" for i in range(len(outputs)))
            parts.append(f"{unique}({columns}) AS ({sql})")
        return f"WITH {'RECURSIVE ' if recursive else ''}{', '.join(parts)} ", scope

    def _set_operation(self, node: exp.SetOperation, parent: Scope | None) -> Compiled:
        with_, scope = self._with(node, parent)
        left, outputs = self.query(node.this, scope)
        right, others = self.query(node.expression, scope)
        if len(outputs) != len(others):
            raise SqlSyntaxError(
                "each UNION query must have the same number of columns", position=position_of(node)
            )
        merged = [
            Output(a.name, b.type if a.type == t.UNKNOWN else a.type, fields=a.fields)
            for a, b in zip(outputs, others, strict=True)
        ]
        word = _SET_OPERATIONS[type(node)] + ("" if node.args.get("distinct") else " ALL")
        tail = self._tail(node, merged, [], scope, loose=False)
        return f"{with_}({left}) {word} ({right}){tail}", merged

    def _values(self, node: exp.Values, parent: Scope | None) -> Compiled:
        compiler = ExpressionCompiler(self.context, Scope(parent), self)
        rows = [[compiler.value(e) for e in row.expressions] for row in node.expressions]
        outputs = [Output(f"column{i + 1}", v.type) for i, v in enumerate(rows[0])]
        names = ", ".join(f"c{i}" for i in range(len(outputs)))
        text = ", ".join(f"({', '.join(v.sql for v in row)})" for row in rows)
        alias = self.context.unique("v")
        tail = self._tail(node, outputs, [], Scope(parent), loose=False)
        return f"SELECT * FROM (VALUES {text}) {alias}({names}){tail}", outputs

    # --- SELECT -----------------------------------------------------------------------------------
    def _select(self, node: exp.Select, parent: Scope | None) -> Compiled:
        with_, around = self._with(node, parent)
        scope = Scope(around)
        from_ = self._from(node, scope)
        compiler = ExpressionCompiler(self.context, scope, self)
        items = self._items(node, compiler)
        outputs = [Output(v.name, v.type, v.sql, v.origin, v.fields) for v in items]
        columns = ", ".join(f"{v.sql} AS c{i}" for i, v in enumerate(items)) or "1 AS c0"
        parts = [f"{with_}SELECT {self._distinct(node, compiler)}{columns}", from_]
        if (where := node.args.get("where")) is not None:
            parts.append(f" WHERE {compiler.value(where.this, t.BOOL).sql}")
        if (group := node.args.get("group")) is not None:
            keys = [self._group_key(e, compiler, items) for e in group.expressions]
            parts.append(f" GROUP BY {', '.join(keys)}" if keys else "")
        if (having := node.args.get("having")) is not None:
            parts.append(f" HAVING {compiler.value(having.this, t.BOOL).sql}")
        loose = node.args.get("distinct") is None
        parts.append(self._tail(node, outputs, items, scope, loose=loose))
        return "".join(parts), outputs

    def _items(self, node: exp.Select, compiler: ExpressionCompiler) -> list[Typed]:
        items: list[Typed] = []
        for item in node.expressions:
            if isinstance(item, exp.Star):
                items += [_as_typed(c) for c in compiler.scope.star(None)]
            elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
                items += [_as_typed(c) for c in compiler.scope.star(item.table, item.db or None)]
            elif isinstance(item, exp.Dot) and isinstance(item.expression, exp.Star):
                record = compiler.compile(item.this)
                for name, _ in record.fields:
                    field = exp.Dot(this=item.this, expression=exp.to_identifier(name, True))
                    items.append(compiler.compile(field))
            elif isinstance(item, exp.Alias):
                items.append(compiler.value(item.this).named(item.alias))
            else:
                items.append(compiler.value(item))
        return items

    def _distinct(self, node: exp.Select, compiler: ExpressionCompiler) -> str:
        distinct = node.args.get("distinct")
        if distinct is None:
            return ""
        on = distinct.args.get("on")
        if on is None:
            return "DISTINCT "
        return f"DISTINCT ON ({', '.join(compiler.value(e).sql for e in on.expressions)}) "

    def _group_key(
        self, node: exp.Expression, compiler: ExpressionCompiler, items: list[Typed]
    ) -> str:
        if isinstance(node, exp.Literal) and not node.is_string:
            return items[_position(node, len(items))].sql
        if isinstance(node, exp.Column) and not node.table:
            try:
                return compiler.value(node).sql
            except Exception:
                for item in items:
                    if item.name == node.name:
                        return item.sql
                raise
        return compiler.value(node).sql

    def _tail(
        self,
        node: exp.Expression,
        outputs: Sequence[Output],
        items: Sequence[Typed],
        scope: Scope,
        *,
        loose: bool,
    ) -> str:
        """ORDER BY, LIMIT, OFFSET. loose: keys may be expressions that are no output column."""
        compiler = ExpressionCompiler(self.context, scope, self)
        text = ""
        order = node.args.get("order")
        if order is not None:
            keys = [self._order_key(o, outputs, items, compiler, loose) for o in order.expressions]
            text += f" ORDER BY {', '.join(keys)}"
        for word, name in (("LIMIT", "limit"), ("OFFSET", "offset")):
            clause = node.args.get(name)
            if clause is not None:
                text += f" {word} {compiler.value(clause.expression, t.INT8).sql}"
        return text

    def _order_key(
        self,
        node: exp.Ordered,
        outputs: Sequence[Output],
        items: Sequence[Typed],
        compiler: ExpressionCompiler,
        loose: bool,
    ) -> str:
        direction = "DESC" if node.args.get("desc") else "ASC"
        nulls = "FIRST" if node.args.get("nulls_first") else "LAST"
        key = node.this
        place = None
        if isinstance(key, exp.Literal) and not key.is_string:
            place = _position(key, len(outputs))
        elif isinstance(key, exp.Column) and not key.table:
            named = [i for i, o in enumerate(outputs) if o.name == key.name]
            place = named[0] if named else None
        if place is None:
            sql = compiler.value(key).sql
            same = [i for i, item in enumerate(items) if item.sql == sql]
            if not same and not loose:
                raise InvalidColumnReference(
                    "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
                    position=position_of(key),
                )
            place = same[0] if same else None
            if place is None:
                return f"{sql} {direction} NULLS {nulls}"
        return f"{place + 1} {direction} NULLS {nulls}"

    # --- FROM -------------------------------------------------------------------------------------
    def _from(self, node: exp.Select, scope: Scope) -> str:
        from_ = node.args.get("from_")
        if from_ is None:
            return ""
        text = self._relation(from_.this, scope)
        for join in node.args.get("joins") or []:
            text += self._join(join, scope)
        return f" FROM {text}"

    def _join(self, join: exp.Join, scope: Scope) -> str:
        before = list(scope.sources)
        right = self._relation(join.this, scope)
        added = scope.sources[len(before) :]
        side, kind = join.args.get("side"), join.args.get("kind")
        condition = self._join_condition(join, before, added, scope)
        if condition is None and not side:
            return f" CROSS JOIN {right}"
        word = f"{side} JOIN" if side else f"{kind or 'INNER'} JOIN"
        return f" {word} {right} ON {condition or 'true'}"

    def _join_condition(
        self, join: exp.Join, before: list[Source], added: list[Source], scope: Scope
    ) -> str | None:
        on = join.args.get("on")
        if on is not None:
            return ExpressionCompiler(self.context, scope, self).value(on, t.BOOL).sql
        names = [c.name for c in join.args.get("using") or []]
        if join.args.get("method") == "NATURAL":
            left = {c.name for s in before for c in s.columns}
            names = [c.name for s in added for c in s.columns if c.name in left]
        if not names:
            return None
        tests = []
        for name in names:
            a = Scope(None, before).column(name, None, None)
            b = Scope(None, added).column(name, None, None)
            tests.append(f"{a.sql} = {b.sql}")
            for source in added:
                source.hidden.add(name)
        return " AND ".join(tests)

    def _relation(self, node: exp.Expression, scope: Scope) -> str:
        """One item of FROM, with the joins nested in it; its sources are added to the scope."""
        joins = node.args.get("joins") or []
        if isinstance(node, exp.Paren):
            text = f"({self._relation(node.this, scope)})"
        elif isinstance(node, exp.Lateral):
            text = "LATERAL " + self._derived(node.this, node, scope, scope)
        elif isinstance(node, (exp.Subquery, exp.Values)):
            outside = Scope(scope.parent, [], dict(scope.ctes))
            text = self._derived(node, node, scope, outside)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Anonymous):
            text = self._function(node, scope)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            text = self._table(node, scope)
        else:
            raise FeatureNotSupported(
                f"{type(node).__name__} is not supported in a query of the catalog",
                position=position_of(node),
            )
        if joins:
            text = f"({text}{''.join(self._join(j, scope) for j in joins)})"
        return text

    def _derived(
        self, query: exp.Expression, holder: exp.Expression, scope: Scope, inside: Scope
    ) -> str:
        sql, outputs = self.query(query, inside)
        unique = self.context.unique()
        alias = holder.args.get("alias")
        renamed = [c.name for c in (alias.args.get("columns") or [])] if alias else []
        name = alias.this.name if alias and alias.this else unique
        columns = _referring(_renamed(outputs, renamed), unique)
        scope.sources.append(Source(name, unique, columns))
        return f"({sql}) AS {unique}"

    def _table(self, node: exp.Table, scope: Scope) -> str:
        parts = tuple(p for p in (node.catalog, node.db, node.name) if p)
        alias = node.args.get("alias")
        name = alias.this.name if alias and alias.this else node.name
        renamed = [c.name for c in (alias.args.get("columns") or [])] if alias else []
        unique = self.context.unique()
        cte = scope.cte(node.name) if len(parts) == 1 else None
        if cte is not None:
            columns = _referring(_renamed(cte[1], renamed), unique)
            scope.sources.append(Source(name, unique, columns))
            return f"{cte[0]} AS {unique}"
        relation = find_relation(parts)
        if relation is None:
            raise UndefinedTable(
                f'relation "{".".join(parts)}" does not exist', position=position_of(node)
            )
        self.context.reads.add((relation.schema, relation.name))
        columns = _renamed(_columns_of(relation, unique), renamed)
        scope.sources.append(
            Source(name, unique, columns, relation.oid, "" if alias else relation.schema)
        )
        return f"{relation.key} AS {unique}"

    def _function(self, node: exp.Table, scope: Scope) -> str:
        """A function in FROM, as a lateral subquery that unnests what it returns."""
        call = node.this
        function = call.name.lower()
        if function == "pg_get_keywords":
            table = exp.Table(this=exp.to_identifier(function, True), alias=node.args.get("alias"))
            return self._table(table, scope)
        compiler = ExpressionCompiler(self.context, scope, self)
        value = compiler.compile(call)
        unique = self.context.unique()
        alias = node.args.get("alias")
        name = alias.this.name if alias and alias.this else function
        renamed = [
            c.name if isinstance(c, exp.Identifier) else c.this.name
            for c in ((alias.args.get("columns") or []) if alias else [])
        ]
        outputs, texts = self._function_columns(value, name)
        if node.args.get("ordinality"):
            if not value.unnests:
                number = "CAST(1 AS BIGINT)"
            else:
                rows = value.sql.removeprefix("unnest(").removesuffix(")")
                number = f"unnest(range(1, len({rows}) + 1))"
            outputs.append(Output("ordinality", t.INT8))
            texts.append(number)
        columns = _referring(_renamed(outputs, renamed), unique)
        scope.sources.append(Source(name, unique, columns))
        select = ", ".join(f"{text} AS c{i}" for i, text in enumerate(texts))
        return f"LATERAL (SELECT {select}) AS {unique}"

    def _function_columns(self, value: Typed, name: str) -> tuple[list[Output], list[str]]:
        if not value.fields:
            return [Output(name, value.type)], [value.sql]
        rows = value.sql.removeprefix("unnest(").removesuffix(")")
        outputs = [Output(field, type_) for field, type_ in value.fields]
        texts = [
            f"unnest(list_transform({rows}, lambda r: r['{field}']))" for field, _ in value.fields
        ]
        return outputs, texts


def _position(node: exp.Literal, count: int) -> int:
    """0-based place of an output column that is named by its number."""
    place = int(node.this) - 1
    if not 0 <= place < count:
        raise InvalidColumnReference(
            f"ORDER BY position {node.this} is not in select list", position=position_of(node)
        )
    return place


def _as_typed(column: Output) -> Typed:
    return Typed(column.sql, column.type, column.name, origin=column.origin, fields=column.fields)


def _renamed(outputs: Sequence[Output], names: Sequence[str]) -> list[Output]:
    """Columns with the names of an alias's list; those it does not reach keep theirs."""
    out = []
    for i, column in enumerate(outputs):
        name = names[i] if i < len(names) else column.name
        out.append(Output(name, column.type, column.sql, column.origin, column.fields))
    return out


def _referring(outputs: Sequence[Output], unique: str) -> list[Output]:
    """The columns c0, c1, … of a derived relation."""
    return [
        Output(c.name, t.TEXT_OID if c.type == t.UNKNOWN else c.type, f"{unique}.c{i}",
               c.origin, c.fields)
        for i, c in enumerate(outputs)
    ]  # fmt: skip


def _columns_of(relation: SystemRelation, unique: str) -> list[Output]:
    return [
        Output(name, type_, f'{unique}."{name}"', (relation.oid, i))
        for i, (name, type_) in enumerate(relation.columns, 1)
    ]


__all__ = ["SPECIAL_FUNCTIONS", "Compiled", "QueryCompiler", "subscripts"]
