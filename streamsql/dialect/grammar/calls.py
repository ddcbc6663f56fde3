"""Function calls: arguments, FILTER, WITHIN GROUP, OVER, and SQL's forms with words in between."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from streamsql.core.errors import InvalidParameterValue
from streamsql.dialect.dialects import NULLS_LOW
from streamsql.dialect.grammar import lambdas
from streamsql.dialect.grammar.spellings import respell
from streamsql.dialect.grammar.types import INTERVAL_UNITS, TypeGrammar
from streamsql.dialect.lexer import Kind, Token
from streamsql.dialect.positions import mark

_BARE_FUNCTIONS = frozenset(
    {"CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER", "CURRENT_ROLE",
     "CURRENT_CATALOG", "CURRENT_SCHEMA", "SESSION_USER", "USER", "LOCALTIME", "LOCALTIMESTAMP"}
)  # fmt: skip

NORMAL_FORMS = frozenset({"NFC", "NFD", "NFKC", "NFKD"})
"""Unicode's normal forms, words of NORMALIZE and IS NORMALIZED."""
_ROUNDING = frozenset({"floor", "ceil", "ceiling"})


class CallGrammar(TypeGrammar):
    """Parses function calls (`call`)."""

    def call(self) -> exp.Expression:
        """`[schema.]name(arguments)` and all that may follow it."""
        token = self.token
        schema: list[str] = []
        name = self.label()
        while self.accept("."):
            schema.append(name)
            name = self.label()
        if schema and schema[-1] == "pg_catalog":
            schema = []
        if (
            name == "json_object"
            and self.peek().kind is Kind.STRING
            and (self.peek(2).key in ("VALUE", ":"))
        ):
            pairs = self.in_parentheses(self._json_pairs)
            return mark(exp.Anonymous(this="json_build_object", expressions=pairs), token)
        call = mark(exp.Anonymous(this=name, expressions=self._arguments(name)), token)
        expanded = lambdas.expand(name, call.expressions)
        if expanded is not None:
            return mark(exp.Paren(this=expanded), token)
        if schema:
            call.meta["schema"] = ".".join(schema)
            return self._after_call(call, token)
        return self._after_call(respell(call, self.dialect, self.differences.append), token)

    def _json_pairs(self) -> list[exp.Expression]:
        """'key' VALUE v, … of SQL's JSON_OBJECT."""
        found: list[exp.Expression] = []
        while True:
            token = self.token
            found.append(mark(exp.Literal.string(self.string()), token))
            if not self.accept("VALUE", ":"):
                raise self.error()
            found.append(self.expression())
            if not self.accept(","):
                return found

    def _arguments(self, name: str = "") -> list[exp.Expression]:
        self.expect("(")
        if self.accept(")"):
            return []
        if self.at("*") and self.peek().key == ")":
            star = mark(exp.Star(), self.advance())
            self.advance()
            return [star]
        distinct = self.token if self.at("DISTINCT") else None
        if distinct:
            self.advance()
        else:
            self.accept("ALL")
        arguments = self.comma_list(self._lambda if name in lambdas.CALLS else self._argument)
        if name in _ROUNDING and self.at("TO"):  # FLOOR(t TO DAY)
            self.advance()
            unit = self.label().removesuffix("s")
            to = exp.Identifier(this="to", quoted=True)
            arguments.append(exp.Kwarg(this=to, expression=exp.Literal.string(unit)))
        if self.at("ORDER"):
            order = self.order_by()
            order.set("this", arguments[-1])
            arguments[-1] = order
        nulls = self._null_treatment()
        self.expect(")")
        if nulls is not None:
            arguments[-1] = nulls(this=arguments[-1])
        if distinct:
            return [mark(exp.Distinct(expressions=arguments), distinct)]
        return arguments

    def _lambda(self) -> exp.Expression:
        """x => e, (x, y) => e of ksqlDB; any other argument as it is."""
        token, distance = self.token, 1
        if token.key == "(":
            while self.peek(distance).kind in (Kind.WORD, Kind.QUOTED) or (
                self.peek(distance).key == ","
            ):
                distance += 1
            distance += self.peek(distance).key == ")"
        if self.peek(distance).key != "=>":
            return self._argument()
        names = (
            [self.name()]
            if distance == 1
            else self.in_parentheses(lambda: self.comma_list(self.name))
        )
        self.expect("=>")
        parameters = [exp.Identifier(this=name, quoted=True) for name in names]
        return mark(exp.Lambda(this=self.expression(), expressions=parameters), token)

    def _argument(self) -> exp.Expression:
        token = self.token
        if self.accept("VARIADIC"):
            return mark(exp.Variadic(this=self.expression()), token)
        if token.kind in (Kind.WORD, Kind.QUOTED) and self.peek().key in ("=>", ":="):
            name = mark(exp.Identifier(this=self.label(), quoted=True), token)
            self.advance()
            return mark(exp.Kwarg(this=name, expression=self.expression()), token)
        return self.expression()

    def _null_treatment(self) -> type[exp.Expression] | None:
        if self.accept_sequence("IGNORE", "NULLS"):
            return exp.IgnoreNulls
        if self.accept_sequence("RESPECT", "NULLS"):
            return exp.RespectNulls
        return None

    def _after_call(self, node: exp.Expression, token: Token) -> exp.Expression:
        """WITHIN GROUP, FILTER, IGNORE NULLS, OVER."""
        last = node.expressions[-1] if node.expressions else None
        if isinstance(last, (exp.IgnoreNulls, exp.RespectNulls)):  # last_value(x IGNORE NULLS)
            last.replace(last.this)
            node = mark(type(last)(this=node), token)
        if self.accept_sequence("WITHIN", "GROUP"):
            order = self.in_parentheses(self.order_by)
            node = mark(exp.WithinGroup(this=node, expression=order), token)
        if self.at("FILTER") and self.peek().key == "(":
            self.advance()
            self.expect("(")
            at = self.token
            self.expect("WHERE")
            condition = mark(exp.Where(this=self.expression()), at)
            self.expect(")")
            node = mark(exp.Filter(this=node, expression=condition), token)
        nulls = self._null_treatment()
        if nulls is not None:
            node = mark(nulls(this=node), token)
        if self.at("OVER") and (
            self.peek().key == "(" or self.peek().kind in (Kind.WORD, Kind.QUOTED)
        ):
            self.advance()
            node = self._over(node, token)
        return node

    # windows --------------------------------------------------------------------------------------
    def _over(self, call: exp.Expression, token: Token) -> exp.Expression:
        if self.token.key == "(":
            return mark(exp.Window(this=call, **self.window_definition()), token)
        at = self.token
        alias = mark(exp.Identifier(this=self.name(), quoted=True), at)
        return mark(exp.Window(this=call, alias=alias), token)

    def window_definition(self) -> dict[str, object]:
        """`([base] [PARTITION BY …] [ORDER BY …] [frame])` as arguments of exp.Window."""
        parts: dict[str, object] = {}
        self.expect("(")
        token = self.token
        if self.at_name() and not self.at("PARTITION", "ROWS", "RANGE", "GROUPS"):
            parts["alias"] = mark(exp.Identifier(this=self.name(), quoted=True), token)
        if self.accept("PARTITION"):
            self.expect("BY")
            parts["partition_by"] = self.comma_list(self.expression)
        if self.at("ORDER"):
            parts["order"] = self.order_by()
        if self.at("ROWS", "RANGE", "GROUPS"):
            parts["spec"] = self._frame()
        self.expect(")")
        return parts

    def _frame(self) -> exp.WindowSpec:
        token = self.token
        kind = self.advance().key
        if self.accept("BETWEEN"):
            start, start_side = self._frame_bound()
            self.expect("AND")
            end, end_side = self._frame_bound()
        else:
            start, start_side = self._frame_bound()
            end, end_side = "CURRENT ROW", None
        exclude = None
        if self.accept("EXCLUDE"):
            exclude = self._exclusion()
        if start == "UNBOUNDED" and start_side == "FOLLOWING":
            raise self.error(token, "frame start cannot be UNBOUNDED FOLLOWING")
        if end == "UNBOUNDED" and end_side == "PRECEDING":
            raise self.error(token, "frame end cannot be UNBOUNDED PRECEDING")
        return mark(
            exp.WindowSpec(
                kind=kind, start=start, start_side=start_side, end=end, end_side=end_side,
                exclude=exclude,
            ),
            token,
        )  # fmt: skip

    def _frame_bound(self) -> tuple[str | exp.Expression, str | None]:
        if self.accept_sequence("CURRENT", "ROW"):
            return "CURRENT ROW", None
        bound: str | exp.Expression
        bound = "UNBOUNDED" if self.accept("UNBOUNDED") else self.expression()
        if not self.at("PRECEDING", "FOLLOWING"):
            raise self.error()
        return bound, self.advance().key

    def _exclusion(self) -> exp.Var | None:
        if self.accept_sequence("NO", "OTHERS"):
            return None
        for words in (("CURRENT", "ROW"), ("GROUP",), ("TIES",)):
            if self.accept_sequence(*words):
                return exp.Var(this=" ".join(words))
        raise self.error()

    # ORDER BY -------------------------------------------------------------------------------
    def order_by(self) -> exp.Order:
        """`ORDER BY e [ASC|DESC|USING op] [NULLS FIRST|LAST], …`."""
        token = self.token
        self.expect("ORDER", "BY")
        return mark(exp.Order(expressions=self.comma_list(self.ordered)), token)

    def ordered(self) -> exp.Ordered:
        """One sort key; NULLS default to last, under DESC to first (in Flink the other way)."""
        token = self.token
        this = self.expression()
        descending = False
        if self.accept("USING"):
            if not self.at("<", ">"):
                raise self.error()
            descending = self.advance().key == ">"
        elif self.accept("DESC"):
            descending = True
        else:
            self.accept("ASC")
        nulls_first = descending != (self.dialect in NULLS_LOW)
        if self.accept("NULLS"):
            if not self.at("FIRST", "LAST"):
                raise self.error()
            nulls_first = self.advance().key == "FIRST"
        return mark(exp.Ordered(this=this, desc=descending, nulls_first=nulls_first), token)

    # SQL's own forms ----------------------------------------------------------------------------
    def special_call(self, token: Token) -> exp.Expression | None:
        """CAST, EXTRACT, SUBSTRING, … and the functions written without parentheses."""
        if token.key in _BARE_FUNCTIONS:
            self.advance()
            arguments: list[exp.Expression] = []
            if self.accept("("):
                if not self.at(")"):
                    arguments.append(self.expression())
                self.expect(")")
            name = "current_user" if token.key in ("USER", "CURRENT_ROLE") else token.value
            return mark(exp.Anonymous(this=name, expressions=arguments), token)
        form = _FORMS.get(token.key)
        if form is None or self.peek().key != "(":
            return None
        self.advance()
        self.expect("(")
        node = mark(form(self), token)
        self.expect(")")
        if token.key in _PLAIN_FORMS:
            return self._after_call(node, token)
        return node

    def _cast(self) -> exp.Expression:
        value = self.expression()
        self.expect("AS")
        return exp.Cast(this=value, to=self.data_type())

    def _try_cast(self) -> exp.Expression:
        value = self.expression()
        self.expect("AS")
        return exp.TryCast(this=value, to=self.data_type())

    def _extract(self) -> exp.Expression:
        token = self.token
        if token.kind not in (Kind.WORD, Kind.QUOTED, Kind.STRING):
            raise self.error()
        self.advance()
        field = mark(exp.Literal.string(token.value), token)
        self.expect("FROM")
        return exp.Anonymous(this="extract", expressions=[field, self.expression()])

    def _substring(self) -> exp.Expression:
        arguments = self.comma_list(self._argument)
        if len(arguments) == 1:
            if self.accept("SIMILAR"):
                arguments.append(self.expression())
                self.expect("ESCAPE")
                arguments.append(self.expression())
            else:
                start = length = None
                while self.at("FROM", "FOR"):
                    if self.accept("FROM"):
                        start = self.expression()
                    else:
                        self.advance()
                        length = self.expression()
                if start is not None or length is not None:
                    arguments.append(start or exp.Literal.number(1))
                if length is not None:
                    arguments.append(length)
        return exp.Anonymous(this="substring", expressions=arguments)

    def _position(self) -> exp.Expression:
        # the first operand may hold no IN of its own
        needle = self.restricted_expression()
        self.expect("IN")
        return exp.Anonymous(this="position", expressions=[self.expression(), needle])

    def restricted_expression(self) -> exp.Expression:
        """An expression without AND, IN, LIKE and comparison at its top (expressions.py)."""
        raise NotImplementedError

    def _overlay(self) -> exp.Expression:
        arguments = self.comma_list(self._argument)
        for word in ("PLACING", "FROM", "FOR"):
            if self.accept(word):
                arguments.append(self.expression())
        return exp.Anonymous(this="overlay", expressions=arguments)

    def _trim(self) -> exp.Expression:
        side = self.advance().key if self.at("LEADING", "TRAILING", "BOTH") else "BOTH"
        name = {"BOTH": "btrim", "LEADING": "ltrim", "TRAILING": "rtrim"}[side]
        arguments = [] if self.at("FROM") else self.comma_list(self.expression)
        if self.accept("FROM"):  # TRIM(chars FROM x): the characters come first here
            arguments = [*self.comma_list(self.expression), *arguments]
        return exp.Anonymous(this=name, expressions=arguments)

    def _named_form(self, name: str) -> exp.Expression:
        arguments = [] if self.at(")") else self.comma_list(self.expression)
        return exp.Anonymous(this=name, expressions=arguments)

    def _normalize(self) -> exp.Expression:
        """NORMALIZE(text [, form]), where the form is a bare word."""
        arguments = [self.expression()]
        if self.accept(","):
            token = self.token
            if token.key not in NORMAL_FORMS:
                raise self.error()
            self.advance()
            arguments.append(mark(exp.Literal.string(token.key), token))
        return exp.Anonymous(this="normalize", expressions=arguments)

    def _timestamp_arithmetic(self, name: str) -> exp.Expression:
        """Flink's TIMESTAMPDIFF(unit, a, b), TIMESTAMPADD(unit, n, t): the unit is a bare word."""
        token = self.token
        unit: exp.Expression
        if token.kind is Kind.WORD and token.key.rstrip("S") in INTERVAL_UNITS:
            self.advance()
            unit = mark(exp.Literal.string(token.value), token)
        elif token.kind is Kind.WORD and self.peek().key == ",":
            raise InvalidParameterValue(
                f'unit "{token.value}" not recognized',
                position=token.start,
                hint="Units are SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, QUARTER and YEAR.",
            )
        else:
            unit = self.expression()
        self.expect(",")
        rest = self.comma_list(self.expression)
        return exp.Anonymous(this=name, expressions=[unit, *rest])


def _named(name: str) -> Callable[[CallGrammar], exp.Expression]:
    return lambda grammar: grammar._named_form(name)


_FORMS: dict[str, Callable[[CallGrammar], exp.Expression]] = {
    "CAST": CallGrammar._cast,
    "TRY_CAST": CallGrammar._try_cast,
    "SAFE_CAST": CallGrammar._try_cast,
    "EXTRACT": CallGrammar._extract,
    "SUBSTRING": CallGrammar._substring,
    "POSITION": CallGrammar._position,
    "OVERLAY": CallGrammar._overlay,
    "TRIM": CallGrammar._trim,
    "COALESCE": _named("coalesce"),
    "NULLIF": _named("nullif"),
    "GREATEST": _named("greatest"),
    "LEAST": _named("least"),
    "GROUPING": _named("grouping"),
    "NORMALIZE": CallGrammar._normalize,
    "TIMESTAMPDIFF": lambda grammar: grammar._timestamp_arithmetic("timestampdiff"),
    "TIMESTAMPADD": lambda grammar: grammar._timestamp_arithmetic("timestampadd"),
}
_PLAIN_FORMS = frozenset({"GROUPING"})


def is_form(word: str) -> bool:
    """Is this reserved word read as a function's name?"""
    return word in _FORMS or word in _BARE_FUNCTIONS
