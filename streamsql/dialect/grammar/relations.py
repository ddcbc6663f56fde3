"""FROM: tables, subqueries, functions, joins."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from streamsql.core.errors import SqlSyntaxError
from streamsql.dialect.grammar.expressions import SUM, ExpressionGrammar
from streamsql.dialect.grammar.records import as_subquery
from streamsql.dialect.grammar.time_windows import TimeWindowGrammar, misspelt
from streamsql.dialect.keywords import NOT_FUNCTION, NOT_TABLE_ALIAS
from streamsql.dialect.lexer import Kind, Token
from streamsql.dialect.nodes import WindowTvf
from streamsql.dialect.positions import mark

_JOIN_STARTS = frozenset(
    {"JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "ASOF", "SEMI", "ANTI"}
)
# words that start a clause after a relation, though PostgreSQL lets them be aliases
_CLAUSE_WORDS = frozenset({"EMIT"})


class RelationGrammar(ExpressionGrammar, TimeWindowGrammar):
    """Parses the FROM clause."""

    def climb_sum(self) -> exp.Expression:
        """An expression of sums and tighter (the count of FETCH FIRST)."""
        return self.climb(SUM)

    # names --------------------------------------------------------------------------------------
    def identifier(self) -> exp.Identifier:
        """A name as a node."""
        token = self.token
        return mark(exp.Identifier(this=self.name(), quoted=True), token)

    def identifier_list(self) -> list[exp.Identifier]:
        """(name, …) as nodes."""
        return self.in_parentheses(lambda: self.comma_list(self.identifier))

    def table_name(self) -> exp.Table:
        """[[catalog.]schema.]name as a node."""
        token = self.token
        parts = [self.identifier()]
        while self.at("."):
            self.advance()
            at = self.token
            parts.append(mark(exp.Identifier(this=self.any_name(), quoted=True), at))
        if len(parts) > 3:
            name = ".".join(part.name for part in parts)
            raise self.error(token, f"improper qualified name (too many dotted names): {name}")
        names = dict(zip(("this", "db", "catalog"), reversed(parts), strict=False))
        return mark(exp.Table(**names), token)

    # FROM ---------------------------------------------------------------------------------------
    def from_list(self) -> list[exp.Expression]:
        """The first relation, then one exp.Join for every other."""
        found = self._joined()
        while self.at(","):
            token = self.advance()
            first, *joins = self._joined()
            found.append(mark(exp.Join(this=first), token))
            found.extend(joins)
        return found

    def _joined(self) -> list[exp.Expression]:
        """relation {JOIN relation …}."""
        found: list[exp.Expression] = [self.relation()]
        while self._at_join():
            found.append(self._join([one if i == 0 else one.this for i, one in enumerate(found)]))
        return found

    def _at_join(self) -> bool:
        key = self.token.key
        return key in _JOIN_STARTS and (key != "ASOF" or self._at_asof_join())

    def _at_asof_join(self) -> bool:
        """ASOF is a name like others elsewhere."""
        return self.token.key == "ASOF" and self.peek().key in ("JOIN", "LEFT", "RIGHT", "FULL",
                                                                "INNER")  # fmt: skip

    def _join(self, left: Sequence[exp.Expression] = ()) -> exp.Join:
        """left: the relations before it, as far as they are known."""
        token = self.token
        method = "NATURAL" if self.accept("NATURAL") else None
        if self.accept("ASOF"):
            method = "ASOF"
        side = kind = None
        if self.at("LEFT", "RIGHT", "FULL"):
            side = self.advance().key
            self.accept("OUTER")
            if self.accept("ASOF"):  # Feldera
                method = "ASOF"
            if self.at("SEMI", "ANTI"):
                kind = self.advance().key
        elif self.at("INNER", "CROSS", "SEMI", "ANTI"):
            kind = self.advance().key
        self.expect("JOIN")
        join = mark(exp.Join(this=self.relation(), side=side, kind=kind, method=method), token)
        if kind == "CROSS" or method == "NATURAL":
            return join
        # a LEFT JOIN b JOIN c ON … ON …: the second join belongs to the right side
        nested = []
        while self._at_join():
            nested.append(self._join())
        if nested:
            join.this.set("joins", nested)
        within = self._within()
        self._join_condition(join)
        if within is not None:
            self._bound(join, left, within)
        return join

    # ksqlDB's WITHIN ----------------------------------------------------------------------------
    def _within(self) -> tuple[exp.Interval, exp.Interval] | None:
        """WITHIN n unit | (n unit, n unit) [GRACE PERIOD n unit]: how far behind and how far ahead
        of a left row its partners may be."""
        if not self._at_within():
            return None
        self.advance()
        if self.at("("):
            spans = self.in_parentheses(lambda: self.comma_list(self._duration))
        else:
            spans = [self._duration()]
        if len(spans) > 2:
            raise self.error()
        token = self.token
        if self.accept_sequence("GRACE", "PERIOD"):
            self._duration()
            self.ignores(
                "GRACE PERIOD has no effect: allowed_lateness stands in the table's WITH", token
            )
        return spans[0], spans[-1].copy()

    def _at_within(self) -> bool:
        after = self.peek()
        return self.token.key == "WITHIN" and (after.kind is Kind.NUMBER or after.key == "(")

    def _bound(
        self,
        join: exp.Join,
        left: Sequence[exp.Expression],
        within: tuple[exp.Interval, exp.Interval],
    ) -> None:
        """The spans as a condition on the event times of both sides."""
        names = [name for r in left if (name := r.alias_or_name)]
        right = join.this.alias_or_name
        if len(names) != len(left) or not names or not right or join.args.get("on") is None:
            raise self.not_supported(
                "WITHIN in this join",
                "Add to ON: b.t BETWEEN a.t - INTERVAL '1 hour' AND a.t + INTERVAL '1 hour'.",
            )

        def time(name: str) -> exp.Expression:
            parts = [exp.Identifier(this=part, quoted=True) for part in ("rowtime", name)]
            return exp.Column(this=parts[0], table=parts[1])

        def latest() -> exp.Expression:
            times = [time(name) for name in names]
            return (
                times[0] if len(times) == 1 else exp.Anonymous(this="greatest", expressions=times)
            )

        before, after = within
        bounds = exp.Between(
            this=time(right),
            low=exp.Sub(this=latest(), expression=before),
            high=exp.Add(this=latest(), expression=after),
        )
        join.set("on", exp.And(this=exp.Paren(this=join.args["on"]), expression=bounds))

    def _join_condition(self, join: exp.Join) -> None:
        if self.accept("MATCH_CONDITION"):
            join.set("match_condition", self.in_parentheses(self.expression))
        if self.accept("ON"):
            join.set("on", self.expression())
        elif self.accept("USING"):
            join.set("using", self.identifier_list())
            if self.accept("AS"):
                self.name()
        elif not (join.args.get("match_condition") or isinstance(join.this, exp.Lateral)):
            raise self.error(hint="A JOIN needs ON <condition> or USING (…); else CROSS JOIN.")

    def relation(self) -> exp.Expression:
        """One item of FROM with its alias."""
        token = self.token
        if token.key == "(":
            return self._parenthesised(token)
        if token.key == "LATERAL":
            self.advance()
            return self._lateral(token)
        if token.key == "ROWS" and self.peek().key == "FROM":
            return self._rows_from(token)
        if token.key == "UNNEST" or (self._at_function() and token.key != "TABLE"):
            return self._function(token)
        if token.key == "TABLE" and self.peek().key == "(":
            return self._table_function(token)
        self.accept("ONLY")
        table = self.table_name()
        self.accept("*")
        self._version(table)
        self._alias(table)
        if self.accept("TABLESAMPLE"):
            raise self.not_supported("TABLESAMPLE", "Filter on a hash of the key instead.")
        return table

    def _at_function(self) -> bool:
        distance = 0
        while self.peek(distance + 1).key == ".":
            distance += 2
        token = self.peek(distance)
        return self.peek(distance + 1).key == "(" and (
            token.kind is Kind.QUOTED
            or (token.kind is Kind.WORD and (token.key not in NOT_FUNCTION or token.key in _CALLS))
        )

    def _parenthesised(self, token: Token) -> exp.Expression:
        """(query) [AS] alias, (VALUES …) alias, or (a JOIN b …) [alias]."""
        subquery = self.parenthesised_query()
        if subquery is not None:
            inner = subquery.this
            node: exp.Expression = subquery
            if isinstance(inner, exp.Values) and not (
                inner.args.get("order") or inner.args.get("limit") or inner.args.get("offset")
            ):
                node = mark(inner, token)
            self._alias(node)
            return node
        self.expect("(")
        first, *joins = self._joined()
        self.expect(")")
        if joins:
            first.set("joins", [*(first.args.get("joins") or []), *joins])
        node = mark(exp.Paren(this=first), token)
        self._alias(node)
        return node

    def _lateral(self, token: Token) -> exp.Expression:
        subquery = self.parenthesised_query()
        if subquery is not None:
            lateral = mark(exp.Lateral(this=subquery), token)
            self._alias(lateral)
            return lateral
        if self.at_sequence("TABLE", "("):  # Flink: LATERAL TABLE(f(x))
            return self._table_function(token)
        if not self._at_function() and self.token.key != "UNNEST":
            raise self.error(hint="Write LATERAL (SELECT …) or LATERAL function(…).")
        return self._function(token)

    def _function(self, token: Token) -> exp.Expression:
        """A function in FROM; a time window's function becomes a WindowTvf."""
        if self.at_time_window():
            return self._aliased_window(self.time_window())
        call = self._bare_call()
        table = mark(exp.Table(this=call), token)
        if self.accept_sequence("WITH", "ORDINALITY"):
            table.set("ordinality", True)
        self._alias(table, definitions=True)
        return table if table.args.get("ordinality") else as_subquery(table)

    def _bare_call(self) -> exp.Expression:
        token = self.token
        try:
            return self.special_call(token) or self.call()
        except SqlSyntaxError as error:  # TABLE t, PARTITION BY: they stand in windows alone
            raise (misspelt(token.value, token.start) or error) from None

    def _table_function(self, token: Token) -> exp.Expression:
        """Flink's TABLE( f(…) )."""
        self.advance()
        self.expect("(")
        if self.at_time_window():
            window = self.time_window()
            self.expect(")")
            return self._aliased_window(window)
        table = mark(exp.Table(this=self._bare_call()), token)
        self.expect(")")
        self._alias(table, definitions=True)
        return table

    def _aliased_window(self, window: WindowTvf) -> WindowTvf:
        self._alias(window)
        return window

    def _rows_from(self, token: Token) -> exp.Expression:
        self.accept_sequence("ROWS", "FROM")
        calls = self.in_parentheses(
            lambda: self.comma_list(lambda: exp.Table(this=self._bare_call()))
        )
        table = mark(exp.Table(rows_from=calls), token)
        if self.accept_sequence("WITH", "ORDINALITY"):
            table.set("ordinality", True)
        self._alias(table, definitions=True)
        return table

    def _version(self, table: exp.Table) -> None:
        """FOR SYSTEM_TIME AS OF e."""
        token = self.token
        if self.accept_sequence("FOR", "SYSTEM_TIME", "AS", "OF"):
            version = exp.Version(this="SYSTEM_TIME", kind="AS OF", expression=self.expression())
            table.set("version", mark(version, token))

    # aliases ------------------------------------------------------------------------------------
    def _at_alias(self) -> bool:
        token = self.token
        if token.key == "AS" and self.peek().key == "OF" and self.dialect == "materialize":
            raise self.not_supported(
                "AS OF of a query", "Write FOR SYSTEM_TIME AS OF n after each relation."
            )
        if token.kind is Kind.QUOTED or token.key == "AS":
            return True
        if token.kind is not Kind.WORD or token.key in NOT_TABLE_ALIAS:
            return False
        if self._at_asof_join() or (token.key in ("SEMI", "ANTI") and self.peek().key == "JOIN"):
            return False
        if token.key == "PARTITION" and self.peek().key == "BY":  # ksqlDB
            return False
        if token.key == "OPTIONS" and self.dialect == "materialize":
            return False
        if token.key == "MATCH_RECOGNIZE" and self.peek().key == "(":
            raise self.not_supported(
                "MATCH_RECOGNIZE", "Use LAG and LEAD, or a self join with bounds on the time."
            )
        if token.key in ("PIVOT", "UNPIVOT") and self.peek().key == "(":
            raise self.not_supported(token.key, "Write an aggregate with FILTER for each column.")
        if self._at_within():
            return False
        if token.key == "SET" and self.no_set_alias:
            return False
        return not self.at_emit()

    no_set_alias = False
    """UPDATE sets this while it reads its target, whose alias may not be the word SET."""

    def at_emit(self) -> bool:
        """Is this the EMIT clause? (query.py)"""
        raise NotImplementedError

    def _alias(self, node: exp.Expression, *, definitions: bool = False) -> None:
        """[AS] alias [(columns)], set on the node; `definitions`: columns may have types."""
        if not self._at_alias():
            return
        token = self.token
        if self.accept("AS") and self.at("(") and definitions:
            defined = self.in_parentheses(lambda: self.comma_list(self._column_definition))
            node.set("alias", mark(exp.TableAlias(columns=defined), token))
            return
        at = self.token
        if self.tokens[self.index - 1].key == "AS":
            alias = self.identifier()
        else:
            alias = mark(exp.Identifier(this=self.name(), quoted=True), at)
        columns: list[exp.Expression] | None = None
        if self.at("("):
            item = self._column_definition if definitions else self.identifier
            columns = self.in_parentheses(lambda: self.comma_list(item))
        node.set("alias", mark(exp.TableAlias(this=alias, columns=columns), at))
        if isinstance(node, exp.Table) and "version" not in node.args:
            self._version(node)  # Flink: FROM r AS a FOR SYSTEM_TIME …

    def _column_definition(self) -> exp.Expression:
        name = self.identifier()
        if self.at(",", ")"):
            return name
        return exp.ColumnDef(this=name, kind=self.data_type())


_CALLS = frozenset({"COALESCE", "CURRENT_DATE", "CURRENT_TIMESTAMP", "TABLE"})
