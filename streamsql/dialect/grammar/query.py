"""Queries: WITH, SELECT, VALUES, TABLE, set operations, ORDER BY, LIMIT."""

from __future__ import annotations

from sqlglot import exp

from streamsql.core.errors import FeatureNotSupported
from streamsql.dialect.grammar.primary import QUERY_STARTS
from streamsql.dialect.grammar.relations import RelationGrammar
from streamsql.dialect.grammar.window_rewrites import (
    rewrite_bare_windows,
    rewrite_group_windows,
    rewrite_sort_keys,
    rewrite_window_clause,
)
from streamsql.dialect.keywords import EMIT_WORDS
from streamsql.dialect.lexer import Kind, Token
from streamsql.dialect.positions import mark

_SET_OPERATIONS: dict[str, tuple[int, type[exp.SetOperation]]] = {
    "UNION": (1, exp.Union),
    "EXCEPT": (1, exp.Except),
    "INTERSECT": (2, exp.Intersect),
}
_DML = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})


class QueryGrammar(RelationGrammar):
    """Parses whole queries (`query`)."""

    def at_query(self) -> bool:
        """Does a query start here (perhaps in parentheses)?"""
        distance = 0
        while self.peek(distance).key == "(":
            distance += 1
        return self.peek(distance).key in QUERY_STARTS

    def query(self) -> exp.Expression:
        """[WITH …] body [ORDER BY …] [LIMIT …] …"""
        return self.query_under(self.with_clause() if self.at("WITH") else None)

    def query_under(self, with_: exp.With | None) -> exp.Expression:
        """The query that follows a WITH."""
        node = self._set_operation(0)
        node = self._tail(node)
        if isinstance(node, exp.Select):
            rewrite_sort_keys(node)
        if with_ is not None:
            if isinstance(node, exp.Values):  # has no place for CTEs
                node = self._values_as_select(node)
            if isinstance(node, exp.Subquery) or node.args.get("with_"):
                node = self._wrap(node)
            node.set("with_", with_)
        return node

    # WITH ---------------------------------------------------------------------------------------
    def word_after_with(self) -> Token:
        """The token after the CTEs of the WITH that starts here (END if there is none)."""
        depth = 0
        for token in self.tokens[self.index + 1 :]:
            if token.key == "(":
                depth += 1
            elif token.key == ")":
                depth -= 1
            elif depth == 0 and (token.key in QUERY_STARTS or token.key in _DML):
                return token
        return self.tokens[-1]

    def with_clause(self) -> exp.With:
        """WITH [RECURSIVE] name [(columns)] AS (query), …"""
        token = self.advance()
        if self.at_sequence("MUTUALLY", "RECURSIVE"):
            return self._mutually_recursive(token)
        recursive = self.accept("RECURSIVE")
        ctes = self.comma_list(self.cte)
        return mark(exp.With(expressions=ctes, recursive=recursive or None), token)

    def _mutually_recursive(self, token: Token) -> exp.With:
        """Materialize: WITH MUTUALLY RECURSIVE [(option)] name (column type, …) AS (query), …"""
        self.accept_sequence("MUTUALLY", "RECURSIVE")
        if self.at("("):
            at = self.token
            self.skip_parentheses()
            self.ignores("the recursion limit has no effect", at)
        self.differs(
            "time",
            "each round replaces the relation there; here it adds rows, so the query must be"
            " a start UNION what follows from it",
            token,
        )
        ctes = self.comma_list(self.cte)
        return mark(exp.With(expressions=ctes, recursive=True), token)

    def _cte_columns(self) -> list[exp.Identifier] | None:
        """(name [type], …): Materialize's recursive ones have types."""
        if not self.at("("):
            return None
        return self.in_parentheses(lambda: self.comma_list(self._cte_column))

    def _cte_column(self) -> exp.Identifier:
        name = self.identifier()
        if not self.at(",", ")"):
            self.data_type()
        return name

    def cte(self) -> exp.CTE:
        """name [(columns)] AS [[NOT] MATERIALIZED] (query)."""
        token = self.token
        name = self.identifier()
        columns = self._cte_columns()
        self.expect("AS")
        materialized = None
        if self.accept("MATERIALIZED"):
            materialized = True
        elif self.accept_sequence("NOT", "MATERIALIZED"):
            materialized = False
        self.expect("(")
        if self.at(*_DML):
            raise FeatureNotSupported(
                "WITH clause containing a data-modifying statement must be at the top level",
                position=self.token.start,
                hint="Put the WITH in front of the whole statement.",
            )
        query = self.query()
        self.expect(")")
        alias = exp.TableAlias(this=name, columns=columns)
        return mark(exp.CTE(this=query, alias=alias, materialized=materialized), token)

    # set operations -------------------------------------------------------------------------------
    def _set_operation(self, lowest: int) -> exp.Expression:
        left = self._query_primary()
        while True:
            token = self.token
            level, kind = _SET_OPERATIONS.get(token.key, (0, exp.Union))
            if level == 0 or level <= lowest:
                return left
            self.advance()
            keep_all = self.accept("ALL")
            if not keep_all:
                self.accept("DISTINCT")
            right = self._set_operation(level)
            left = mark(kind(this=left, expression=right, distinct=not keep_all), token)

    def _query_primary(self) -> exp.Expression:
        token = self.token
        if token.key == "SELECT":
            return self._select()
        if token.key == "VALUES":
            return self.values()
        if token.key == "TABLE":
            self.advance()
            self.accept("ONLY")
            table = self.table_name()
            source = exp.From(this=table)
            return mark(exp.Select(expressions=[exp.Star()], from_=source), token)
        if token.key == "(":
            self.advance()
            inner = self.query()
            self.expect(")")
            return mark(exp.Subquery(this=inner), token)
        raise self.error()

    def values(self) -> exp.Values:
        """VALUES (…), (…)."""
        token = self.token
        self.expect("VALUES")
        rows = self.comma_list(self._values_row)
        return mark(exp.Values(expressions=rows), token)

    def _values_row(self) -> exp.Tuple:
        token = self.token
        if token.key == "ROW":
            self.advance()
        self.expect("(")
        expressions = [self._value()]
        while self.token.key == ",":
            self.advance()
            expressions.append(self._value())
        self.expect(")")
        return mark(exp.Tuple(expressions=expressions), token)

    def _value(self) -> exp.Expression:
        """One field of a VALUES row: a plain literal is built at once, INSERTs are full of them."""
        token = self.token
        kind = token.kind
        if kind is Kind.END or self.tokens[self.index + 1].key not in (",", ")"):
            return self.expression()
        node: exp.Expression
        if kind is Kind.STRING or (kind is Kind.NUMBER and token.value[0] != "0"):
            text = token.value if kind is Kind.STRING else token.value.replace("_", "")
            node = exp.Literal(this=text, is_string=kind is Kind.STRING)
        elif token.key == "NULL":
            node = exp.Null()
        else:
            return self.expression()
        self.index += 1
        self.token = self.tokens[self.index]
        node.meta["start"] = token.start
        return node

    def _values_as_select(self, values: exp.Values) -> exp.Expression:
        tail = {key: values.args.pop(key, None) for key in ("order", "limit", "offset")}
        values.set("alias", exp.TableAlias(this=exp.Identifier(this="*VALUES*", quoted=True)))
        return exp.Select(expressions=[exp.Star()], from_=exp.From(this=values), **tail)

    def _wrap(self, node: exp.Expression) -> exp.Expression:
        """SELECT * FROM (node): a place for a WITH or a second ORDER BY around a query."""
        inner = node if isinstance(node, exp.Subquery) else exp.Subquery(this=node)
        inner.set("alias", exp.TableAlias(this=exp.Identifier(this="*SELECT*", quoted=True)))
        return exp.Select(expressions=[exp.Star()], from_=exp.From(this=inner))

    # SELECT ---------------------------------------------------------------------------------------
    def _select(self) -> exp.Select:
        token = self.advance()
        select = mark(exp.Select(), token)
        self._select_head(select)
        if self.accept("INTO"):
            raise FeatureNotSupported(
                "SELECT INTO is not supported",
                position=self.tokens[self.index - 1].start,
                hint="Use CREATE TABLE … AS SELECT ….",
            )
        if self.at("FROM"):
            at = self.advance()
            relations = self.from_list()
            select.set("from_", mark(exp.From(this=relations[0]), at))
            select.set("joins", relations[1:])
        window_clause = self.window_clause()
        if self.at("WHERE"):
            at = self.advance()
            select.set("where", mark(exp.Where(this=self.expression()), at))
        if window_clause is None:
            window_clause = self.window_clause()
        if self.at("GROUP"):
            select.set("group", self._group_by())
        if self.at_sequence("PARTITION", "BY"):  # ksqlDB
            at = self.token
            self.accept_sequence("PARTITION", "BY")
            self.comma_list(self.expression)
            self.ignores("PARTITION BY has no effect: all rows live on one machine", at)
        if self.at("HAVING"):
            at = self.advance()
            select.set("having", mark(exp.Having(this=self.expression()), at))
        if self.dialect == "materialize" and self.at_sequence("OPTIONS", "("):
            at = self.advance()
            self.skip_parentheses()
            self.ignores("OPTIONS has no effect: state takes the size that it needs", at)
        if self.at("WINDOW"):
            self.advance()
            select.set("windows", self.comma_list(self._named_window))
        if self.at("QUALIFY"):
            at = self.advance()
            select.set("qualify", mark(exp.Qualify(this=self.expression()), at))
        if window_clause is not None:
            self.differs(
                "time",
                "windows are over the watermark column, and WINDOWSTART and WINDOWEND are"
                " timestamps, not milliseconds",
                window_clause.token,
            )
            rewrite_window_clause(select, window_clause)
        rewrite_bare_windows(select)
        rewrite_group_windows(select)
        return select

    def skip_parentheses(self) -> None:
        """`( … )`, whatever stands inside."""
        self.expect("(")
        depth = 1
        while depth:
            if self.at_end():
                raise self.error()
            depth += {"(": 1, ")": -1}.get(self.advance().key, 0)

    def _select_head(self, select: exp.Select) -> None:
        if self.at("DISTINCT"):
            at = self.advance()
            distinct = mark(exp.Distinct(), at)
            if self.accept("ON"):
                keys = self.in_parentheses(lambda: self.comma_list(self.expression))
                distinct.set("on", exp.Tuple(expressions=keys))
            select.set("distinct", distinct)
        else:
            self.accept("ALL")
        if not self._at_clause():
            select.set("expressions", self.comma_list(self.select_item))

    def _at_clause(self) -> bool:
        """SELECT without a list: `SELECT FROM t`, `SELECT;`, `(SELECT)`."""
        return self.at_end() or self.at(
            "FROM", "WHERE", "INTO", "UNION", "EXCEPT", "INTERSECT", "GROUP", "HAVING", "ORDER",
            "LIMIT", "OFFSET", "FETCH", ")",
        )  # fmt: skip

    def select_item(self) -> exp.Expression:
        """expression [[AS] label]; also the items of RETURNING."""
        node = self.expression()
        star = node.this if isinstance(node, exp.Column) else node
        if isinstance(star, exp.Star):
            if self._at_excluded():
                self.advance()
                star.set("except_", self.identifier_list())
            return node
        if self.token.key == "AS":
            self.advance()
            return self._labelled(node, self.token, self.any_name())
        if self.at_bare_label() and not self.at_emit():
            at = self.token
            return self._labelled(node, at, self.any_name())
        return node

    def _at_excluded(self) -> bool:
        """`* EXCEPT (a, b)`, which is no EXCEPT (SELECT …)."""
        if not self.at("EXCEPT", "EXCLUDE") or self.peek().key != "(":
            return False
        name, after = self.peek(2), self.peek(3)
        return name.kind in (Kind.WORD, Kind.QUOTED) and after.key in (",", ")")

    def _labelled(self, node: exp.Expression, at: Token, label: str) -> exp.Expression:
        alias = exp.Alias(this=node, alias=mark(exp.Identifier(this=label, quoted=True), at))
        start = node.meta.get("start")
        if start is not None:
            alias.meta["start"] = start
        return alias

    def at_emit(self) -> bool:
        """Is this the EMIT clause (and not an alias of that name)?"""
        return self.token.key == "EMIT" and self.peek().key in EMIT_WORDS

    # GROUP BY -------------------------------------------------------------------------------------
    def _group_by(self) -> exp.Group:
        token = self.token
        self.expect("GROUP", "BY")
        distinct = not self.accept("ALL") and bool(self.accept("DISTINCT"))
        plain: list[exp.Expression] = []
        sets: dict[str, list[exp.Expression]] = {"grouping_sets": [], "cube": [], "rollup": []}
        for item in self.comma_list(self._group_item):
            if isinstance(item, exp.GroupingSets):
                sets["grouping_sets"].append(item)
            elif isinstance(item, exp.Cube):
                sets["cube"].append(item)
            elif isinstance(item, exp.Rollup):
                sets["rollup"].append(item)
            else:
                plain.append(item)
        given = {name: items for name, items in sets.items() if items}
        return mark(exp.Group(expressions=plain, distinct=distinct or None, **given), token)

    def _group_item(self) -> exp.Expression:
        token = self.token
        if self.at_sequence("GROUPING", "SETS"):
            self.accept_sequence("GROUPING", "SETS")
            items = self.in_parentheses(lambda: self.comma_list(self._group_item))
            sets = [
                exp.Tuple(expressions=[item.this]) if isinstance(item, exp.Paren) else item
                for item in items
            ]
            return mark(exp.GroupingSets(expressions=sets), token)
        if self.at("CUBE", "ROLLUP") and self.peek().key == "(":
            node = exp.Cube if self.advance().key == "CUBE" else exp.Rollup
            items = self.in_parentheses(lambda: self.comma_list(self._group_item))
            return mark(node(expressions=items), token)
        if self.at("(") and self.peek().key == ")":
            self.advance()
            self.advance()
            return mark(exp.Tuple(expressions=[]), token)
        return self.expression()

    def _named_window(self) -> exp.Window:
        token = self.token
        name = self.identifier()
        self.expect("AS")
        return mark(exp.Window(this=name, **self.window_definition()), token)

    # ORDER BY, LIMIT ------------------------------------------------------------------------------
    def _tail(self, node: exp.Expression) -> exp.Expression:
        """ORDER BY, LIMIT, OFFSET, FETCH, FOR UPDATE of a whole query."""
        if not self.at("ORDER", "LIMIT", "OFFSET", "FETCH", "FOR"):
            return node
        if isinstance(node, exp.Subquery):  # (SELECT …) ORDER BY …
            node = self._wrap(node)
        if self.at("ORDER"):
            node.set("order", self.order_by())
        seen = set()
        while self.at("LIMIT", "OFFSET", "FETCH", "FOR"):
            token = self.token
            if token.key != "FOR" and token.key in seen:
                raise self.error(message=f"multiple {token.key} clauses not allowed")
            seen.add(token.key)
            if token.key == "LIMIT":
                self._limit(node)
            elif token.key == "OFFSET":
                self.advance()
                node.set("offset", mark(exp.Offset(expression=self.expression()), token))
                self.accept("ROW", "ROWS")
            elif token.key == "FETCH":
                self._fetch(node)
            elif not self._lock():
                break
        return node

    def _limit(self, node: exp.Expression) -> None:
        token = self.advance()
        if self.accept("ALL"):
            return
        count = self.expression()
        if self.at(","):
            raise self.error(
                message="LIMIT #,# syntax is not supported",
                hint="Use separate LIMIT and OFFSET clauses.",
            )
        node.set("limit", mark(exp.Limit(expression=count), token))

    def _fetch(self, node: exp.Expression) -> None:
        token = self.advance()
        if not self.accept("FIRST", "NEXT"):
            raise self.error()
        count: exp.Expression = exp.Literal.number(1)
        if not self.at("ROW", "ROWS"):
            count = self.climb_sum()
        if not self.accept("ROW", "ROWS"):
            raise self.error()
        if self.accept_sequence("WITH", "TIES"):
            options = exp.LimitOptions(with_ties=True)
            node.set("limit", mark(exp.Fetch(count=count, limit_options=options), token))
            return
        self.expect("ONLY")
        node.set("limit", mark(exp.Limit(expression=count), token))

    def _lock(self) -> bool:
        """FOR UPDATE and its kin: accepted, as readers never block and see one version."""
        kinds = (
            ("UPDATE",),
            ("SHARE",),
            ("NO", "KEY", "UPDATE"),
            ("KEY", "SHARE"),
            ("READ", "ONLY"),
        )
        for kind in kinds:
            if self.accept_sequence("FOR", *kind):
                if self.accept("OF"):
                    self.comma_list(self.qualified_name)
                if not self.accept("NOWAIT"):
                    self.accept_sequence("SKIP", "LOCKED")
                return True
        return False
