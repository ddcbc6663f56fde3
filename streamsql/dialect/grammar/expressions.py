"""Expressions: a precedence climber over PostgreSQL's operator table.

Levels, loosest first: OR, AND, NOT, IS, comparison, BETWEEN/IN/LIKE, every other operator, + -,
* / %, ^, AT TIME ZONE, COLLATE, unary minus, then subscripts, casts and fields. Comparison, IS and
BETWEEN/IN/LIKE don't associate: `a < b < c` is an error, as in PostgreSQL (only IS may follow IS).
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from streamsql.dialect.grammar.calls import NORMAL_FORMS
from streamsql.dialect.grammar.primary import PrimaryGrammar
from streamsql.dialect.lexer import Kind, Token
from streamsql.dialect.nodes import PrefixOperator
from streamsql.dialect.positions import mark

OR, AND, NOT, IS, COMPARISON, RANGE, OTHER, SUM, PRODUCT, POWER, ZONE, COLLATE, UNARY = range(1, 14)
_LEFT_ALONE = frozenset({COMPARISON, RANGE})  # levels that don't associate

BINARY: dict[str, tuple[int, type[exp.Expression]]] = {
    "=": (COMPARISON, exp.EQ),
    "<>": (COMPARISON, exp.NEQ),
    "!=": (COMPARISON, exp.NEQ),
    "<": (COMPARISON, exp.LT),
    "<=": (COMPARISON, exp.LTE),
    ">": (COMPARISON, exp.GT),
    ">=": (COMPARISON, exp.GTE),
    "||": (OTHER, exp.DPipe),
    "&": (OTHER, exp.BitwiseAnd),
    "|": (OTHER, exp.BitwiseOr),
    "#": (OTHER, exp.BitwiseXor),
    "<<": (OTHER, exp.BitwiseLeftShift),
    ">>": (OTHER, exp.BitwiseRightShift),
    "+": (SUM, exp.Add),
    "-": (SUM, exp.Sub),
    "*": (PRODUCT, exp.Mul),
    "/": (PRODUCT, exp.Div),
    "%": (PRODUCT, exp.Mod),
    "^": (POWER, exp.Pow),
}
# LIKE and its kin as plain operators, which the catalog queries of some clients use
_PATTERN_OPERATORS = {"~~": "LIKE", "~~*": "ILIKE", "!~~": "LIKE", "!~~*": "ILIKE"}
_PATTERNS: dict[str, type[exp.Expression]] = {"LIKE": exp.Like, "ILIKE": exp.ILike}
_NOT_INFIX = frozenset({",", "(", ")", "[", "]", ".", ";", ":", "{", "}", "::", ":=", "=>", ".."})


class ExpressionGrammar(PrimaryGrammar):
    """Parses expressions (`expression`) and what stands to the left of an operator."""

    def expression(self) -> exp.Expression:
        """A whole expression."""
        return self.climb(OR)

    def restricted_expression(self) -> exp.Expression:
        """One without AND, IN, LIKE and comparison at the top: the bounds of BETWEEN, a default."""
        return self.climb(OTHER)

    def climb(self, lowest: int) -> exp.Expression:
        """An expression whose operators bind at least as tightly as `lowest`."""
        left = self._prefix(lowest)
        alone = 0  # the non-associative level just built
        while True:
            token = self.token
            level, parse = self._infix(token)
            if level < lowest or parse is None:
                return left
            if level in _LEFT_ALONE and level == alone:
                raise self.error()
            left = parse(self, left, token)
            alone = level

    # left ---------------------------------------------------------------------------------------
    def _prefix(self, lowest: int) -> exp.Expression:
        token = self.token
        key = token.key
        if key == "NOT":
            self.advance()
            return mark(exp.Not(this=self.climb(NOT)), token)
        if token.kind is not Kind.OPERATOR or key in _NOT_INFIX or key == "*":
            return self.primary()
        if key in ("+", "-"):
            self.advance()
            operand = self.climb(UNARY)
            return operand if key == "+" else mark(exp.Neg(this=operand), token)
        if key in BINARY and key != "#":
            raise self.error()
        self.advance()
        operand = self.climb(SUM)
        if key == "~":
            return mark(exp.BitwiseNot(this=operand), token)
        return mark(PrefixOperator(operator=key, this=operand), token)

    # right --------------------------------------------------------------------------------------
    def _infix(self, token: Token) -> tuple[int, _Infix | None]:
        """Level of the operator that the token is, and who parses its right side."""
        if token.kind is Kind.OPERATOR:
            key = token.key
            known = BINARY.get(key)
            if known is not None:
                return known[0], ExpressionGrammar._binary
            if key in _NOT_INFIX:
                return 0, None
            if key in _PATTERN_OPERATORS:
                return RANGE, ExpressionGrammar._pattern_operator
            return OTHER, ExpressionGrammar._other_operator
        if token.kind is not Kind.WORD:
            return 0, None
        found = _WORD_OPERATORS.get(token.key)
        if found is None:
            return 0, None
        if token.key == "NOT" and self.peek().key not in _NEGATED:
            return 0, None
        if token.key == "SIMILAR" and self.peek().key != "TO":  # SUBSTRING(x SIMILAR …)
            return 0, None
        if token.key == "AT" and not (
            self.at_sequence("AT", "TIME", "ZONE") or self.peek().key == "LOCAL"
        ):
            return 0, None
        return found

    def _binary(self, left: exp.Expression, token: Token) -> exp.Expression:
        self.advance()
        level, node = BINARY[token.key]
        right = self._quantified() or self.climb(level + 1)
        return mark(node(this=left, expression=right), token)

    def _other_operator(self, left: exp.Expression, token: Token) -> exp.Expression:
        self.advance()
        right = self._quantified() or self.climb(SUM)
        return mark(exp.Operator(this=left, operator=token.key, expression=right), token)

    def _qualified_operator(self, left: exp.Expression, token: Token) -> exp.Expression:
        """OPERATOR(pg_catalog.~): the named operator, at the level of all other operators."""
        self.advance()
        self.expect("(")
        while self.token.kind in (Kind.WORD, Kind.QUOTED):
            self.advance()
            self.expect(".")
        named = self.token
        if named.kind is not Kind.OPERATOR or named.key in _NOT_INFIX:
            raise self.error()
        self.advance()
        self.expect(")")
        right = self._quantified() or self.climb(SUM)
        if named.key in _PATTERN_OPERATORS:
            return self._pattern(named, left, right, token)
        known = BINARY.get(named.key)
        if known is not None:
            return mark(known[1](this=left, expression=right), token)
        return mark(exp.Operator(this=left, operator=named.key, expression=right), token)

    def _pattern_operator(self, left: exp.Expression, token: Token) -> exp.Expression:
        self.advance()
        right = self._quantified() or self.climb(OTHER)
        return self._pattern(token, left, right, token)

    def _pattern(
        self, operator: Token, left: exp.Expression, right: exp.Expression, token: Token
    ) -> exp.Expression:
        node = _PATTERNS[_PATTERN_OPERATORS[operator.key]](this=left, expression=right)
        mark(node, token)
        return mark(exp.Not(this=node), token) if operator.key[0] == "!" else node

    def _quantified(self) -> exp.Expression | None:
        """ANY/SOME/ALL (subquery or array) after an operator; None if it is something else."""
        token = self.token
        if token.key not in ("ANY", "SOME", "ALL") or self.peek().key != "(":
            return None
        self.advance()
        inner = self.parenthesised_query() or self.in_parentheses(self.expression)
        node = exp.All if token.key == "ALL" else exp.Any
        return mark(node(this=inner), token)

    def _connector(self, left: exp.Expression, token: Token) -> exp.Expression:
        self.advance()
        if token.key == "AND":
            return mark(exp.And(this=left, expression=self.climb(NOT)), token)
        return mark(exp.Or(this=left, expression=self.climb(AND)), token)

    def _is(self, left: exp.Expression, token: Token) -> exp.Expression:
        self.advance()
        if token.key in ("ISNULL", "NOTNULL"):
            test: exp.Expression = mark(exp.Is(this=left, expression=exp.Null()), token)
            return self._is_not(test, token) if token.key == "NOTNULL" else test
        negated = self.accept("NOT")
        if self.accept_sequence("DISTINCT", "FROM"):
            kind = exp.NullSafeEQ if negated else exp.NullSafeNEQ
            return mark(kind(this=left, expression=self.climb(COMPARISON)), token)
        key = self.token.key
        if key == "NORMALIZED" or (key in NORMAL_FORMS and self.peek().key == "NORMALIZED"):
            return self._is_normalized(left, token, negated)
        if key not in ("NULL", "UNKNOWN", "TRUE", "FALSE"):
            raise self.error()
        self.advance()
        value = exp.Boolean(this=key == "TRUE") if key in ("TRUE", "FALSE") else exp.Null()
        test = mark(exp.Is(this=left, expression=value), token)
        if key == "UNKNOWN":  # IS NULL of a boolean
            test.set("unknown", True)
        return self._is_not(test, token) if negated else test

    def _is_not(self, test: exp.Expression, token: Token) -> exp.Expression:
        """IS NOT …, which is not the same as NOT (… IS …) where it tests a row for NULL."""
        node = mark(exp.Not(this=test), token)
        node.meta["is_not"] = True
        return node

    def _is_normalized(self, left: exp.Expression, token: Token, negated: bool) -> exp.Expression:
        """x IS [NOT] [NFC | NFD | NFKC | NFKD] NORMALIZED."""
        form = self.token
        arguments = [left]
        if form.key in NORMAL_FORMS:
            self.advance()
            arguments.append(mark(exp.Literal.string(form.key), form))
        self.expect("NORMALIZED")
        test = mark(exp.Anonymous(this="is_normalized", expressions=arguments), token)
        return mark(exp.Not(this=test), token) if negated else test

    def _range(self, left: exp.Expression, token: Token) -> exp.Expression:
        """[NOT] BETWEEN, IN, LIKE, ILIKE, SIMILAR TO."""
        negated = self.accept("NOT")
        key = self.advance().key
        if key == "BETWEEN":
            node = self._between(left)
        elif key == "IN":
            node = self._in(left)
        else:
            if key == "SIMILAR":
                self.expect("TO")
            quantified = self._quantified() if key != "SIMILAR" else None
            kind = _PATTERNS.get(key, exp.SimilarTo)
            node = kind(this=left, expression=quantified or self.climb(OTHER))
            if self.accept("ESCAPE"):
                mark(node, token)
                node = exp.Escape(this=node, expression=self.climb(OTHER))
        mark(node, token)
        return mark(exp.Not(this=node), token) if negated else node

    def _between(self, left: exp.Expression) -> exp.Expression:
        symmetric = self.accept("SYMMETRIC")
        if not symmetric:
            self.accept("ASYMMETRIC")
        low = self.climb(OTHER)
        self.expect("AND")
        high = self.climb(OTHER)
        return exp.Between(this=left, low=low, high=high, symmetric=symmetric or None)

    def _in(self, left: exp.Expression) -> exp.Expression:
        query = self.parenthesised_query()
        if query is not None:
            return exp.In(this=left, query=query)
        values = self.in_parentheses(lambda: self.comma_list(self.expression))
        return exp.In(this=left, expressions=values)

    def _overlaps(self, left: exp.Expression, token: Token) -> exp.Expression:
        self.advance()
        return mark(exp.Overlaps(this=left, expression=self.climb(OTHER)), token)

    def _at_time_zone(self, left: exp.Expression, token: Token) -> exp.Expression:
        self.advance()
        if self.accept("LOCAL"):
            zone: exp.Expression = exp.Anonymous(
                this="current_setting", expressions=[exp.Literal.string("timezone")]
            )
        else:
            self.expect("TIME", "ZONE")
            zone = self.climb(COLLATE)
        return mark(exp.AtTimeZone(this=left, zone=zone), token)

    def _collate(self, left: exp.Expression, token: Token) -> exp.Expression:
        self.advance()
        start = self.token
        name = self.label()
        while self.accept("."):  # pg_catalog."default"
            name = self.label()
        collation = mark(exp.Identifier(this=name, quoted=True), start)
        return mark(exp.Collate(this=left, expression=collation), token)


_Infix = Callable[[ExpressionGrammar, exp.Expression, Token], exp.Expression]
_NEGATED = frozenset({"BETWEEN", "IN", "LIKE", "ILIKE", "SIMILAR"})
_WORD_OPERATORS: dict[str, tuple[int, _Infix]] = {
    "OR": (OR, ExpressionGrammar._connector),
    "AND": (AND, ExpressionGrammar._connector),
    "IS": (IS, ExpressionGrammar._is),
    "ISNULL": (IS, ExpressionGrammar._is),
    "NOTNULL": (IS, ExpressionGrammar._is),
    "NOT": (RANGE, ExpressionGrammar._range),
    "BETWEEN": (RANGE, ExpressionGrammar._range),
    "IN": (RANGE, ExpressionGrammar._range),
    "LIKE": (RANGE, ExpressionGrammar._range),
    "ILIKE": (RANGE, ExpressionGrammar._range),
    "SIMILAR": (RANGE, ExpressionGrammar._range),
    "OVERLAPS": (OTHER, ExpressionGrammar._overlaps),
    "OPERATOR": (OTHER, ExpressionGrammar._qualified_operator),
    "AT": (ZONE, ExpressionGrammar._at_time_zone),
    "COLLATE": (COLLATE, ExpressionGrammar._collate),
}
