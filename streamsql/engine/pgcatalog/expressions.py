"""Expressions of catalog queries: sqlglot tree -> DuckDB text and PostgreSQL type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from streamsql.core.errors import (
    CannotCoerce,
    FeatureNotSupported,
    UndefinedFunction,
    UndefinedObject,
)
from streamsql.dialect.nodes import ArrayQuery, RowValue
from streamsql.dialect.positions import position_of
from streamsql.engine.pgcatalog import operators
from streamsql.engine.pgcatalog import pgtypes as t
from streamsql.engine.pgcatalog.casts import cast, coerce, text_of
from streamsql.engine.pgcatalog.functions import AGGREGATES, Function, find_function
from streamsql.engine.pgcatalog.scope import Context, Scope, Typed, quote_string
from streamsql.engine.pgcatalog.special import SPECIAL_FUNCTIONS, common

if TYPE_CHECKING:
    from streamsql.engine.pgcatalog.queries import QueryCompiler

MAX_INT4, MAX_INT8 = 2**31 - 1, 2**63 - 1


class ExpressionCompiler:
    """Compiles expressions inside one scope; subqueries go back to the query compiler."""

    def __init__(self, context: Context, scope: Scope, queries: QueryCompiler) -> None:
        self.context = context
        self.scope = scope
        self.queries = queries

    def compile(self, node: exp.Expression) -> Typed:
        """Raises: UndefinedColumn (42703), UndefinedFunction (42883), FeatureNotSupported…"""
        found = _COMPILERS.get(type(node))
        if found is not None:
            return found(self, node)
        if type(node) in operators.COMPARISONS:
            return self._comparison(node)
        if type(node) in operators.ARITHMETIC:
            left, right = self.compile(node.this), self.compile(node.expression)
            return operators.arithmetic(self.context, node, left, right)
        raise FeatureNotSupported(
            f"{type(node).__name__} is not supported in a query of the catalog",
            position=position_of(node),
            hint="Copy what you need into a table first.",
        )

    def value(self, node: exp.Expression, target: int = 0) -> Typed:
        """The expression with a type of its own: `target`, where it is open."""
        return coerce(self.context, self.compile(node), target)

    # constants and columns ------------------------------------------------------------------------
    def _literal(self, node: exp.Literal) -> Typed:
        if node.is_string:
            return Typed(quote_string(node.this), t.UNKNOWN, literal=node.this)
        text = str(node.this)
        if not text.isdigit():
            return Typed(text, t.NUMERIC_OID)
        value = int(text)
        type_ = t.INT4 if value <= MAX_INT4 else t.INT8 if value <= MAX_INT8 else t.NUMERIC_OID
        return Typed(text, type_)

    def _boolean(self, node: exp.Boolean) -> Typed:
        return Typed("true" if node.this else "false", t.BOOL, "bool")

    def _null(self, node: exp.Null) -> Typed:
        return Typed("NULL", t.UNKNOWN)

    def _column(self, node: exp.Column) -> Typed:
        try:
            return self.scope.column(node.name, node.table or None, node.db or None)
        except Exception as error:
            at = getattr(error, "at", None)
            if at is not None:
                at(position_of(node))
            raise

    def _parameter(self, node: exp.Parameter) -> Typed:
        number = int(node.name)
        self.context.parameter(number)
        return Typed(f"$p{number}", t.UNKNOWN, parameter=number)

    def _interval(self, node: exp.Interval) -> Typed:
        unit = node.args.get("unit")
        text = f"{node.this.name} {unit.name if unit is not None else ''}".strip()
        return Typed(f"CAST({quote_string(text)} AS INTERVAL)", t.INTERVAL_OID, "interval")

    # logic --------------------------------------------------------------------------------------
    def _paren(self, node: exp.Paren) -> Typed:
        inner = self.compile(node.this)
        if inner.literal is not None or inner.parameter is not None or inner.unnests:
            return inner
        return replace(inner, sql=f"({inner.sql})")

    def _and(self, node: exp.And) -> Typed:
        return self._connected(node, "AND")

    def _or(self, node: exp.Or) -> Typed:
        return self._connected(node, "OR")

    def _connected(self, node: exp.Expression, word: str) -> Typed:
        left, right = self.value(node.this, t.BOOL), self.value(node.expression, t.BOOL)
        return Typed(f"({left.sql} {word} {right.sql})", t.BOOL)

    def _not(self, node: exp.Not) -> Typed:
        return Typed(f"(NOT {self.value(node.this, t.BOOL).sql})", t.BOOL)

    def _is(self, node: exp.Is) -> Typed:
        left = self.value(node.this)
        right = "NULL" if isinstance(node.expression, exp.Null) else str(node.expression.this)
        return Typed(f"({left.sql} IS {right.upper()})", t.BOOL)

    def _between(self, node: exp.Between) -> Typed:
        value = self.compile(node.this)
        low = operators.compare(self.context, ">=", value, self.compile(node.args["low"]))
        high = operators.compare(self.context, "<=", value, self.compile(node.args["high"]))
        return Typed(f"({low.sql} AND {high.sql})", t.BOOL)

    def _case(self, node: exp.Case) -> Typed:
        operand = node.args.get("this")
        tested = self.compile(operand) if operand is not None else None
        conditions, values = [], []
        for branch in node.args["ifs"]:
            condition = self.compile(branch.this)
            if tested is not None:
                condition = operators.compare(self.context, "=", tested, condition)
            conditions.append(coerce(self.context, condition, t.BOOL).sql)
            values.append(self.compile(branch.args["true"]))
        default = node.args.get("default")
        values.append(self.compile(default) if default is not None else Typed("NULL", t.UNKNOWN))
        results, type_ = common(self.context, values)
        whens = [f"WHEN {c} THEN {v.sql}" for c, v in zip(conditions, results, strict=False)]
        text = f"CASE {' '.join(whens)} ELSE {results[-1].sql} END"
        if values[-1].firm:
            return Typed(text, type_).named(values[-1].name)
        return Typed(text, type_, "case")

    # operators ------------------------------------------------------------------------------------
    def _comparison(self, node: exp.Expression) -> Typed:
        operator = operators.COMPARISONS[type(node)]
        return self._quantified(
            node, operator, lambda a, b: operators.compare(self.context, operator, a, b)
        )

    def _quantified(
        self, node: exp.Expression, operator: str, test: Callable[[Typed, Typed], Typed]
    ) -> Typed:
        """`a op b`, where b may be ANY or ALL of an array or a query."""
        right = node.expression
        left = self.compile(node.this)
        if not isinstance(right, (exp.Any, exp.All)):
            return test(left, self.compile(right))
        inner = right.this
        is_all = isinstance(right, exp.All)
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if isinstance(inner, exp.Subquery):
            sql, outputs = self.queries.query(inner, self.scope)
            left = coerce(self.context, left, outputs[0].type)
            word = "ALL" if is_all else "ANY"
            return Typed(f"({left.sql} {operator} {word} ({sql}))", t.BOOL)
        array = self.compile(inner)
        if not is_all:
            return operators.in_array(self.context, lambda e: test(left, e), operator, left, array)
        negated = operators.in_array(
            self.context,
            lambda e: Typed(f"(NOT {test(left, e).sql})", t.BOOL),
            f"not {operator}",
            left,
            array,
        )
        return Typed(f"(NOT coalesce({negated.sql}, false))", t.BOOL)

    def _operator(self, node: exp.Operator) -> Typed:
        name = str(node.args["operator"])
        return self._quantified(node, name, lambda a, b: operators.other(self.context, name, a, b))

    def _like(self, node: exp.Expression, escape: str = "'\\'") -> Typed:
        return self._quantified(
            node, "LIKE", lambda a, b: operators.like(self.context, node, a, b, escape)
        )

    def _escape(self, node: exp.Escape) -> Typed:
        return self._like(node.this, self.value(node.expression, t.TEXT_OID).sql)

    def _concat(self, node: exp.DPipe) -> Typed:
        left, right = self.compile(node.this), self.compile(node.expression)
        return operators.concat(self.context, left, right)

    def _collate(self, node: exp.Collate) -> Typed:
        return self.compile(node.this)

    def _negative(self, node: exp.Neg) -> Typed:
        inner = self.value(node.this, t.INT4)
        return Typed(f"(-{inner.sql})", inner.type)

    def _in(self, node: exp.In) -> Typed:
        left = self.compile(node.this)
        query = node.args.get("query")
        if query is not None:
            sql, outputs = self.queries.query(query, self.scope)
            left = coerce(self.context, left, outputs[0].type if len(outputs) == 1 else 0)
            return Typed(f"({left.sql} IN ({sql}))", t.BOOL)
        parts = [operators.unify(self.context, left, self.compile(e)) for e in node.expressions]
        if len({pair[0].sql for pair in parts}) > 1:
            tests = [f"({a.sql} = {b.sql})" for a, b in parts]
            return Typed(f"({' OR '.join(tests)})", t.BOOL)
        return Typed(f"({parts[0][0].sql} IN ({', '.join(b.sql for _, b in parts)}))", t.BOOL)

    def _at_time_zone(self, node: exp.AtTimeZone) -> Typed:
        value, zone = self.value(node.this), self.value(node.args["zone"], t.TEXT_OID)
        zoned = value.type == t.TIMESTAMPTZ_OID
        type_ = t.TIMESTAMP_OID if zoned else t.TIMESTAMPTZ_OID
        return Typed(f"timezone({zone.sql}, {value.sql})", type_, "timezone")

    # casts, arrays, records -----------------------------------------------------------------------
    def _cast(self, node: exp.Cast) -> Typed:
        target = t.named_type(node.to)
        if target is None:
            name = node.to.args.get("kind") or node.to.sql()
            if str(name) in ("timetz", "point", "box", "bit", "xml", "money"):
                target = t.TEXT_OID
            else:
                raise UndefinedObject(
                    f'type "{name}" does not exist', position=position_of(node.to)
                )
        inner = self.compile(node.this)
        if (
            isinstance(node.this, ArrayQuery | exp.Array)
            and t.is_array(target)
            and (inner.sql in ("[]", "CAST([] AS VARCHAR[])"))
        ):
            return Typed(f"CAST([] AS {t.storage(target).duckdb})", target, "array")
        try:
            done = cast(self.context, inner, target)
        except CannotCoerce as error:
            raise error.at(position_of(node)) from None
        return done if done.firm else replace(done, name=_type_name(target))

    def _array(self, node: exp.Array) -> Typed:
        if not node.expressions:
            return Typed("[]", 1009, "array")
        values, type_ = common(self.context, [self.compile(e) for e in node.expressions])
        return Typed(
            f"[{', '.join(v.sql for v in values)}]", t.ARRAY_TYPE.get(type_, 1009), "array"
        )

    def _array_query(self, node: ArrayQuery) -> Typed:
        sql, outputs = self.queries.query(node.this, self.scope)
        type_ = t.ARRAY_TYPE.get(outputs[0].type, 1009)
        alias = self.context.unique("q")
        empty = f"CAST([] AS {t.storage(type_).duckdb})"
        text = f"(SELECT coalesce(list({alias}.c0), {empty}) FROM ({sql}) {alias})"
        return Typed(text, type_).named("array")

    def _bracket(self, node: exp.Bracket) -> Typed:
        array = self.value(node.this)
        index = node.expressions[0]
        shift = " + 1" if array.type in t.VECTORS else ""
        if isinstance(index, exp.Slice):
            bounds = [
                f"{self.value(b, t.INT4).sql}{shift}" if b is not None else ""
                for b in (index.this, index.expression)
            ]
            return Typed(f"{array.sql}[{bounds[0]}:{bounds[1]}]", array.type, array.name)
        at = self.value(index, t.INT4).sql
        text = f"({array.sql})[{at}{shift}]"
        return Typed(text, t.element_of(array.type), array.name, firm=array.firm)

    def _dot(self, node: exp.Dot) -> Typed:
        record = self.compile(node.this)
        name = node.expression.name
        for field, type_ in record.fields:
            if field == name:
                key = quote_string(name)
                if record.unnests:  # unnest(list of records).field = unnest(list of the fields)
                    rows = record.sql.removeprefix("unnest(").removesuffix(")")
                    sql = f"unnest(list_transform({rows}, lambda r: r[{key}]))"
                    return Typed(sql, type_, unnests=True).named(name)
                return Typed(f"({record.sql})[{key}]", type_).named(name)
        return Typed("NULL", t.TEXT_OID).named(name)

    def _tuple(self, node: exp.Expression) -> Typed:
        parts = ", ".join(self.value(e).sql for e in node.expressions)
        return Typed(f"({parts})", t.RECORD, "row")

    # subqueries -----------------------------------------------------------------------------------
    def _subquery(self, node: exp.Subquery) -> Typed:
        sql, outputs = self.queries.query(node, self.scope)
        if not outputs:
            return Typed(f"({sql})", t.TEXT_OID)
        first = outputs[0]
        return Typed(f"({sql})", first.type, fields=first.fields).named(first.name)

    def _exists(self, node: exp.Exists) -> Typed:
        sql, _ = self.queries.query(node.this, self.scope)
        return Typed(f"EXISTS ({sql})", t.BOOL).named("exists")

    # calls ----------------------------------------------------------------------------------------
    def _call(self, node: exp.Anonymous) -> Typed:
        name = node.name.lower()
        if name in AGGREGATES:
            return self._aggregate(node, name).named(name)
        special = SPECIAL_FUNCTIONS.get(name)
        arguments = [
            self.compile(e.this if isinstance(e, exp.Variadic) else e) for e in node.expressions
        ]
        if special is not None:
            return special(self.context, arguments).named(name)
        function = find_function(name)
        if function is None or (function.counts and len(arguments) not in function.counts):
            raise self._undefined(node, name, arguments)
        if name == "set_config":
            self._note_setting(arguments)
        try:
            return self._plain_call(function, arguments).named(name)
        except IndexError:
            raise self._undefined(node, name, arguments) from None

    def _undefined(
        self, node: exp.Anonymous, name: str, arguments: list[Typed]
    ) -> UndefinedFunction:
        types = ", ".join(_type_name(a.type) for a in arguments)
        return UndefinedFunction(
            f"function {name}({types}) does not exist",
            position=position_of(node),
            hint="No function matches the given name and argument types."
            " You might need to add explicit type casts.",
        )

    def _plain_call(self, function: Function, arguments: list[Typed]) -> Typed:
        done = []
        for i, argument in enumerate(arguments):
            target = function.arguments[min(i, len(function.arguments) - 1)]
            value = coerce(self.context, argument, target)
            if target == t.TEXT_OID and value.type not in t.TEXTS:
                value = replace(value, sql=text_of(self.context, value))
            done.append(value)
        sql = function.text(self.context, [v.sql for v in done])
        return Typed(sql, function.result_type(done) if done else function.result_type([]))

    def _note_setting(self, arguments: list[Typed]) -> None:
        name, value, local = arguments
        given = [a.literal if a.literal is not None else a.parameter for a in (name, value)]
        if None in given:
            raise FeatureNotSupported(
                "set_config() takes constants here", hint="Use SET name = value."
            )
        self.context.settings.append((given[0], given[1], local.sql == "true"))

    def _aggregate(self, node: exp.Anonymous, name: str) -> Typed:
        duck, result = AGGREGATES[name]
        arguments = list(node.expressions)
        if arguments and isinstance(arguments[0], exp.Star):
            return Typed("count(*)", t.INT8)
        prefix = ""
        if arguments and isinstance(arguments[0], exp.Distinct):
            prefix, arguments = "DISTINCT ", arguments[0].expressions
        order = ""
        if arguments and isinstance(arguments[-1], exp.Order):
            keys = [self._sort_key(o) for o in arguments[-1].expressions]
            order = f" ORDER BY {', '.join(keys)}"
            arguments[-1] = arguments[-1].this
        values = [self.value(a) for a in arguments]
        type_ = result if isinstance(result, int) else result(values)
        texts = [v.sql for v in values]
        if name == "string_agg":
            texts[0] = text_of(self.context, values[0])
        sql = f"{duck}({prefix}{', '.join(texts)}{order})"
        if type_ in (t.JSON_OID, t.JSONB_OID):
            sql = f"CAST({sql} AS VARCHAR)"
        elif name in ("sum", "avg"):
            sql = f"CAST({sql} AS {t.storage(type_).duckdb})"
        return Typed(sql, type_)

    def _sort_key(self, node: exp.Ordered) -> str:
        value = self.value(node.this)
        direction = "DESC" if node.args.get("desc") else "ASC"
        nulls = "FIRST" if node.args.get("nulls_first") else "LAST"
        return f"{value.sql} {direction} NULLS {nulls}"

    def _filter(self, node: exp.Filter) -> Typed:
        call = self.compile(node.this)
        condition = self.value(node.expression.this, t.BOOL)
        return replace(call, sql=f"{call.sql} FILTER (WHERE {condition.sql})")

    def _window(self, node: exp.Window) -> Typed:
        call = self.compile(node.this)
        parts = []
        partition = [self.value(e).sql for e in node.args.get("partition_by") or []]
        if partition:
            parts.append(f"PARTITION BY {', '.join(partition)}")
        order = node.args.get("order")
        if order is not None:
            parts.append(f"ORDER BY {', '.join(self._sort_key(o) for o in order.expressions)}")
        return replace(call, sql=f"{call.sql} OVER ({' '.join(parts)})")


def _type_name(type_: int) -> str:
    for name, oid in t.NAMES.items():
        if oid == type_:
            return name.strip('"')
    element = t.ARRAY_OF.get(type_)
    return f"{_type_name(element)}" if element is not None else "unknown"


_COMPILERS: dict[type[exp.Expression], Callable[[ExpressionCompiler, Any], Typed]] = {
    exp.Literal: ExpressionCompiler._literal,
    exp.Boolean: ExpressionCompiler._boolean,
    exp.Null: ExpressionCompiler._null,
    exp.Column: ExpressionCompiler._column,
    exp.Parameter: ExpressionCompiler._parameter,
    exp.Interval: ExpressionCompiler._interval,
    exp.Paren: ExpressionCompiler._paren,
    exp.And: ExpressionCompiler._and,
    exp.Or: ExpressionCompiler._or,
    exp.Not: ExpressionCompiler._not,
    exp.Is: ExpressionCompiler._is,
    exp.Between: ExpressionCompiler._between,
    exp.Case: ExpressionCompiler._case,
    exp.Operator: ExpressionCompiler._operator,
    exp.Like: ExpressionCompiler._like,
    exp.ILike: ExpressionCompiler._like,
    exp.SimilarTo: ExpressionCompiler._like,
    exp.Escape: ExpressionCompiler._escape,
    exp.DPipe: ExpressionCompiler._concat,
    exp.Collate: ExpressionCompiler._collate,
    exp.Neg: ExpressionCompiler._negative,
    exp.In: ExpressionCompiler._in,
    exp.AtTimeZone: ExpressionCompiler._at_time_zone,
    exp.Cast: ExpressionCompiler._cast,
    exp.Array: ExpressionCompiler._array,
    ArrayQuery: ExpressionCompiler._array_query,
    exp.Bracket: ExpressionCompiler._bracket,
    exp.Dot: ExpressionCompiler._dot,
    exp.Tuple: ExpressionCompiler._tuple,
    RowValue: ExpressionCompiler._tuple,
    exp.Subquery: ExpressionCompiler._subquery,
    exp.Exists: ExpressionCompiler._exists,
    exp.Anonymous: ExpressionCompiler._call,
    exp.Filter: ExpressionCompiler._filter,
    exp.Window: ExpressionCompiler._window,
}
