"""What an expression is made of: literals, columns, calls, CASE, subqueries, constructors.

Also what binds tighter than every operator: subscripts, `::type` and `.field`.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from streamsql.dialect.grammar.calls import CallGrammar
from streamsql.dialect.grammar.types import MAX_DIGITS, interval_modifier
from streamsql.dialect.keywords import NOT_COLUMN, NOT_FUNCTION
from streamsql.dialect.lexer import Kind, Token
from streamsql.dialect.nodes import ArrayQuery, MapValue, RowValue
from streamsql.dialect.positions import mark

QUERY_STARTS = frozenset({"SELECT", "WITH", "VALUES", "TABLE"})
_TYPE_BEFORE_STRING = frozenset(
    {"DOUBLE", "NATIONAL", "CHARACTER", "CHAR", "NCHAR", "VARCHAR", "BIT", "TIME", "TIMESTAMP",
     "TIMESTAMP_LTZ", "NUMERIC", "DECIMAL", "DEC", "FLOAT", "REAL", "INT", "INTEGER", "SMALLINT",
     "BIGINT", "BOOLEAN"}
)  # fmt: skip


class PrimaryGrammar(CallGrammar):
    """Parses one operand with its subscripts, casts and fields (`primary`)."""

    def primary(self) -> exp.Expression:
        """An operand."""
        token = self.token
        parse = _BY_KIND.get(token.kind)
        node = parse(self, token) if parse is not None else self._word(token)
        while True:
            key = self.token.key
            if key == "::":
                at = self.advance()
                node = mark(exp.Cast(this=node, to=self.data_type()), at)
                node.meta["start"] = token.start
            elif key == "[":
                node = self._subscript(node, token)
            elif key == "." and isinstance(node, (exp.Paren, exp.Subquery, exp.Bracket, exp.Dot)):
                self.advance()
                node = mark(exp.Dot(this=node, expression=self._field()), token)
            elif key == "->" and self.dialect == "ksql" and self._at_field():
                self.advance()  # ksqlDB's struct field, an operator of JSON elsewhere
                owner = node if isinstance(node, exp.Dot) else exp.Paren(this=node)
                node = mark(exp.Dot(this=owner, expression=self._field()), token)
            else:
                return node

    def _at_field(self) -> bool:
        return self.peek().kind in (Kind.WORD, Kind.QUOTED) or self.peek().key == "*"

    def _field(self) -> exp.Expression:
        token = self.token
        if self.accept("*"):
            return mark(exp.Star(), token)
        return mark(exp.Identifier(this=self.any_name(), quoted=True), token)

    def _subscript(self, node: exp.Expression, start: Token) -> exp.Expression:
        self.expect("[")
        index: exp.Expression | None = None if self.at(":") else self.expression()
        if self.accept(":"):
            high = None if self.at("]") else self.expression()
            index = exp.Slice(this=index, expression=high)
        self.expect("]")
        return mark(exp.Bracket(this=node, expressions=[index]), start)

    # by kind ------------------------------------------------------------------------------------
    def _number(self, token: Token) -> exp.Expression:
        self.advance()
        digits = token.value.replace("_", "")
        if digits[:1] == "0" and digits[1:2].isalpha() and digits[1] not in "eE":
            digits = str(int(digits, 0))
        return mark(exp.Literal(this=digits, is_string=False), token)

    def _string(self, token: Token) -> exp.Expression:
        self.advance()
        return mark(exp.Literal(this=token.value, is_string=True), token)

    def _bits(self, token: Token) -> exp.Expression:
        self.advance()
        return mark(exp.BitString(this=token.value), token)

    def _hex(self, token: Token) -> exp.Expression:
        self.advance()
        return mark(exp.HexString(this=token.value), token)

    def _parameter(self, token: Token) -> exp.Expression:
        self.advance()
        return mark(exp.Parameter(this=exp.Literal(this=token.value, is_string=False)), token)

    def _quoted(self, token: Token) -> exp.Expression:
        return self._name_or_call(token)

    def _operator(self, token: Token) -> exp.Expression:
        if token.key == "(":
            return self._parenthesis(token)
        if token.key == "*":
            self.advance()
            return mark(exp.Star(), token)
        raise self.error()

    def _end(self, token: Token) -> exp.Expression:
        raise self.error()

    def _word(self, token: Token) -> exp.Expression:
        special = _BY_WORD.get(token.key)
        found = special(self, token) if special is not None else self.special_call(token)
        if found is not None:
            return found
        if self.peek().kind is Kind.STRING and token.key not in NOT_FUNCTION:
            return self._typed_literal(token)  # date '2024-01-01'
        if token.key in _TYPE_BEFORE_STRING:
            literal = self.attempt(lambda: self._typed_literal(token))
            if literal is not None:
                return literal
        return self._name_or_call(token)

    def _typed_literal(self, token: Token) -> exp.Expression:
        kind = self.data_type()
        value = self.token
        return mark(exp.Cast(this=self._string_literal(value), to=kind), token)

    def _string_literal(self, token: Token) -> exp.Expression:
        return mark(exp.Literal(this=self.string(), is_string=True), token)

    # names --------------------------------------------------------------------------------------
    def _name_or_call(self, token: Token) -> exp.Expression:
        """A column, `t.*`, or a function call."""
        if self.peek().key == "(" and token.key not in NOT_FUNCTION:
            return self.call()
        if token.key in NOT_COLUMN and not (token.key == "WINDOW" and self.dialect == "arroyo"):
            subquery = token.key in ("SELECT", "WITH", "VALUES")
            raise self.error(hint="A subquery must stand in parentheses." if subquery else None)
        index = self.index
        start = self.advance()
        first = exp.Identifier(this=self.spelled(start), quoted=True)
        parts: list[exp.Expression] = [mark(first, start)]
        while self.token.key == ".":
            self.advance()
            part = self.token
            if part.key == "*":
                self.advance()
                parts.append(mark(exp.Star(), part))
                break
            if part.kind in (Kind.WORD, Kind.QUOTED) and self.peek().key == "(":
                self.reset(index)
                return self.call()
            parts.append(mark(exp.Identifier(this=self.any_name(), quoted=True), part))
        return self._column_node(parts, token)

    def _column_node(self, parts: list[exp.Expression], token: Token) -> exp.Expression:
        extra = parts[4:]
        names = parts[:4][::-1]
        column: exp.Expression = exp.Column(
            **dict(zip(("this", "table", "db", "catalog"), names, strict=False))
        )
        mark(column, token)
        for part in extra:
            column = mark(exp.Dot(this=column, expression=part), token)
        return column

    # parentheses and subqueries -----------------------------------------------------------------
    def _parenthesis(self, token: Token) -> exp.Expression:
        query = self.parenthesised_query()
        if query is not None:
            return query
        self.expect("(")
        values = self.comma_list(self.expression)
        self.expect(")")
        if len(values) == 1:
            return mark(exp.Paren(this=values[0]), token)
        return mark(exp.Tuple(expressions=values), token)

    def parenthesised_query(self) -> exp.Subquery | None:
        """`(query)` if that is what stands here; else nothing is taken."""
        distance = 1
        if self.token.key != "(":
            return None
        while self.peek(distance).key == "(":
            distance += 1
        if self.peek(distance).key not in QUERY_STARTS:
            return None
        if distance == 1:
            return self._subquery()
        # ((SELECT 1) UNION SELECT 2) is a query, ((SELECT 1) + 1) an expression: only trying tells
        return self.attempt(self._subquery)

    def _subquery(self) -> exp.Subquery:
        token = self.token
        return mark(exp.Subquery(this=self.in_parentheses(self.query)), token)

    # constructors -------------------------------------------------------------------------------
    def _null(self, token: Token) -> exp.Expression:
        self.advance()
        return mark(exp.Null(), token)

    def _boolean(self, token: Token) -> exp.Expression:
        self.advance()
        return mark(exp.Boolean(this=token.key == "TRUE"), token)

    def _default(self, token: Token) -> exp.Expression:
        self.advance()
        return mark(exp.Var(this="DEFAULT"), token)

    def _exists(self, token: Token) -> exp.Expression | None:
        if self.peek().key != "(":
            return None
        self.advance()
        query = self.parenthesised_query()
        if query is None:
            raise self.error()
        return mark(exp.Exists(this=query.this), token)

    def _array(self, token: Token) -> exp.Expression | None:
        self.advance()
        if self.token.key == "(":
            query = self.parenthesised_query()
            if query is None:
                raise self.error()
            return mark(ArrayQuery(this=query.this), token)
        if self.token.key != "[":
            raise self.error()
        return mark(self._array_items(), token)

    def _list(self, token: Token) -> exp.Expression | None:
        """Materialize's LIST[a, b]."""
        if self.dialect != "materialize" or self.peek().key != "[":
            return None
        self.advance()
        return mark(self._array_items(), token)

    def _array_items(self) -> exp.Array:
        """[a, b] with nested [..] rows for arrays of more dimensions."""
        self.expect("[")
        items: list[exp.Expression] = []
        if not self.at("]"):
            items = self.comma_list(
                lambda: self._array_items() if self.at("[") else self.expression()
            )
        self.expect("]")
        return exp.Array(expressions=items)

    def _row(self, token: Token) -> exp.Expression | None:
        if self.peek().key != "(":
            return None
        self.advance()
        self.expect("(")
        values = [] if self.at(")") else self.comma_list(self.expression)
        self.expect(")")
        return mark(RowValue(expressions=values), token)

    def _struct(self, token: Token) -> exp.Expression | None:
        """STRUCT(1 AS a, …), STRUCT(a := 1), ksqlDB's STRUCT(`a` := 1)."""
        if self.peek().key != "(":
            return None
        self.advance()
        self.expect("(")
        fields = [] if self.at(")") else self.comma_list(self._struct_item)
        self.expect(")")
        return mark(exp.Struct(expressions=fields), token)

    def _struct_item(self) -> exp.Expression:
        token = self.token
        if self.peek().key in (":=", ":", "=>"):
            name = self.any_name()
            self.advance()
            value = self.expression()
        else:
            value = self.expression()
            if not self.accept("AS"):
                return value
            token = self.token
            name = self.any_name()
        field = mark(exp.Identifier(this=name, quoted=True), token)
        return exp.PropertyEQ(this=field, expression=value)

    def _map(self, token: Token) -> exp.Expression | None:
        """MAP {k: v}, MAP[k, v, …], MAP[k => v, …], ksqlDB's MAP(k := v)."""
        opening = self.peek().key
        if opening not in ("{", "[") and not (opening == "(" and self.peek(3).key in (":=", "=>")):
            return None
        self.advance()
        self.advance()
        close = {"{": "}", "[": "]", "(": ")"}[opening]
        keys: list[exp.Expression] = []
        values: list[exp.Expression] = []
        while not self.at(close):
            keys.append(self.expression())
            if not self.accept(":", "=>", ":=", ","):
                raise self.error()
            values.append(self.expression())
            if not self.accept(","):
                break
        self.expect(close)
        return mark(MapValue(keys=keys, values=values), token)

    def _case(self, token: Token) -> exp.Expression:
        self.advance()
        operand = None if self.at("WHEN") else self.expression()
        branches = []
        while self.at("WHEN"):
            at = self.advance()
            condition = self.expression()
            self.expect("THEN")
            branches.append(mark(exp.If(this=condition, true=self.expression()), at))
        if not branches:
            raise self.error()
        default = self.expression() if self.accept("ELSE") else None
        self.expect("END")
        return mark(exp.Case(this=operand, ifs=branches, default=default), token)

    def _interval(self, token: Token) -> exp.Expression | None:
        """INTERVAL '1 day', INTERVAL '1' DAY, INTERVAL 5 MINUTE."""
        following = self.peek()
        if following.kind is Kind.STRING:
            self.advance()
            text = self.string()
        elif following.kind is Kind.NUMBER and self.peek(2).kind is Kind.WORD:
            self.advance()
            text = self.advance().value
        elif following.key == "(" and self.peek(4).kind is Kind.STRING:
            self.advance()
            modifiers = interval_modifier(None, self._digits(token.key))
            to = exp.DataType(this=exp.DType.INTERVAL, expressions=modifiers)
            inner = exp.Interval(this=exp.Literal.string(self.string()))
            return mark(exp.Cast(this=mark(inner, token), to=to), token)
        elif following.key in ("-", "+") and self.peek(2).kind is Kind.STRING:
            self.advance()
            text = self.advance().key + self.string()
        else:
            return None
        unit, digits = self.interval_fields()
        node = exp.Interval(this=exp.Literal.string(text), unit=unit)
        if digits:
            node.set("digits", min(int(digits[0].this.name), MAX_DIGITS))
        return mark(node, token)


_Parse = Callable[[PrimaryGrammar, Token], exp.Expression | None]
_BY_KIND: dict[Kind, Callable[[PrimaryGrammar, Token], exp.Expression]] = {
    Kind.NUMBER: PrimaryGrammar._number,
    Kind.STRING: PrimaryGrammar._string,
    Kind.BITS: PrimaryGrammar._bits,
    Kind.HEX: PrimaryGrammar._hex,
    Kind.PARAMETER: PrimaryGrammar._parameter,
    Kind.QUOTED: PrimaryGrammar._quoted,
    Kind.OPERATOR: PrimaryGrammar._operator,
    Kind.END: PrimaryGrammar._end,
}
_BY_WORD: dict[str, _Parse] = {
    "NULL": PrimaryGrammar._null,
    "TRUE": PrimaryGrammar._boolean,
    "FALSE": PrimaryGrammar._boolean,
    "DEFAULT": PrimaryGrammar._default,
    "EXISTS": PrimaryGrammar._exists,
    "ARRAY": PrimaryGrammar._array,
    "LIST": PrimaryGrammar._list,
    "ROW": PrimaryGrammar._row,
    "STRUCT": PrimaryGrammar._struct,
    "MAP": PrimaryGrammar._map,
    "CASE": PrimaryGrammar._case,
    "INTERVAL": PrimaryGrammar._interval,
}
