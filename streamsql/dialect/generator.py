"""Trees back to text in the canonical spelling: for EXPLAIN, TRANSLATE and error messages.

The definition of a view is always the user's own text; nothing here is ever stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.risingwave import RisingWave
from sqlglot.errors import ErrorLevel

from streamsql.core.interval_fields import words
from streamsql.dialect.nodes import (
    ArrayQuery,
    MapValue,
    PrefixOperator,
    RowValue,
    WindowTvf,
)


def to_sql(node: exp.Expression) -> str:
    """The tree as canonical SQL of our dialect, on one line.

    >>> from streamsql.dialect import parse_expression
    >>> to_sql(parse_expression("a->>'k' || 'x'"))
    "a ->> 'k' || 'x'"
    """
    # what sqlglot holds to be unsupported elsewhere is no business of this text's reader
    return str(node.sql(dialect=StreamSql, comments=False, unsupported_level=ErrorLevel.IGNORE))


class _Generator(RisingWave.Generator):
    """RisingWave's generator with our nodes, and with function names as they were written."""

    TRANSFORMS: ClassVar[dict[type[exp.Expression], Any]] = {
        **RisingWave.Generator.TRANSFORMS,
        WindowTvf: lambda self, node: self.window_tvf(node),
        ArrayQuery: lambda self, node: f"ARRAY({self.sql(node, 'this')})",
        RowValue: lambda self, node: f"ROW({self.expressions(node, flat=True)})",
        MapValue: lambda self, node: self.map_value(node),
        PrefixOperator: lambda self, node: f"{node.args['operator']} {self.sql(node, 'this')}",
        exp.Anonymous: lambda self, node: self.call(node),
        # sqlglot would write what PostgreSQL lacks (QUALIFY, SEMI JOIN) in another way, and `/` and
        # ANY as other systems mean them
        exp.Select: lambda self, node: self.select_sql(node),
        exp.Div: lambda self, node: self.binary(node, "/"),
        exp.Any: lambda self, node: f"ANY {self.quantified(node)}",
        exp.All: lambda self, node: f"ALL {self.quantified(node)}",
        exp.Between: lambda self, node: self.between(node),
        exp.Paren: lambda self, node: self.parenthesised(node),
        exp.Is: lambda self, node: f"{self.sql(node, 'this')} IS {self.tested(node)}",
        exp.Not: lambda self, node: self.negation(node),
        exp.TryCast: lambda self, node: (
            f"TRY_CAST({self.sql(node, 'this')} AS {self.sql(node, 'to')})"
        ),
        exp.IgnoreNulls: lambda self, node: f"{self.sql(node, 'this')} IGNORE NULLS",
        exp.RespectNulls: lambda self, node: f"{self.sql(node, 'this')} RESPECT NULLS",
        exp.TableAlias: lambda self, node: self.table_alias(node),
        exp.Distinct: lambda self, node: self.distinct(node),
        exp.Group: lambda self, node: self.group(node),
        exp.Pow: lambda self, node: self.binary(node, "^"),
        exp.BitwiseXor: lambda self, node: self.binary(node, "#"),
        exp.Operator: lambda self, node: (
            f"{self.sql(node, 'this')} {node.args['operator']} {self.sql(node, 'expression')}"
        ),
        exp.Struct: lambda self, node: f"STRUCT({self.struct_fields(node)})",
        exp.Identifier: lambda self, node: quote(node.name),
        exp.Bracket: lambda self, node: (
            f"{self.sql(node, 'this')}[{self.expressions(node, flat=True)}]"
        ),
        exp.Slice: lambda self, node: f"{self.sql(node, 'this')}:{self.sql(node, 'expression')}",
        exp.Fetch: lambda self, node: f" FETCH FIRST {self.sql(node, 'count')} ROWS WITH TIES",
        exp.Interval: lambda self, node: self.interval(node),
    }

    def call(self, node: exp.Anonymous) -> str:
        """name(arguments), with SQL's own forms where a plain call would not be read."""
        name, arguments = node.name, self.expressions(node, flat=True)
        schema = node.meta.get("schema")
        if schema is None and name in _FORMS:
            return _FORMS[name](self, node.expressions) or f"{name}({arguments})"
        prefix = "" if schema is None else quote(schema) + "."
        return f"{prefix}{_quote_function(name, qualified=schema is not None)}({arguments})"

    def distinct(self, node: exp.Distinct) -> str:
        """DISTINCT, DISTINCT ON (keys), DISTINCT arguments."""
        keys = node.args.get("on")
        if keys is not None:
            return f"DISTINCT ON ({self.expressions(keys, flat=True)})"
        arguments = self.expressions(node, flat=True)
        return f"DISTINCT {arguments}" if arguments else "DISTINCT"

    def group(self, node: exp.Group) -> str:
        """GROUP BY, with DISTINCT among its sets."""
        text = self.group_sql(node)
        if not node.args.get("distinct"):
            return text
        return text.replace("GROUP BY", "GROUP BY DISTINCT", 1)

    def quantified(self, node: exp.Expression) -> str:
        """(subquery) or (array) after ANY and ALL."""
        inner = self.sql(node, "this")
        return inner if isinstance(node.this, exp.Subquery) else f"({inner})"

    def between(self, node: exp.Between) -> str:
        """x BETWEEN [SYMMETRIC] low AND high."""
        symmetric = "SYMMETRIC " if node.args.get("symmetric") else ""
        low, high = self.sql(node, "low"), self.sql(node, "high")
        return f"{self.sql(node, 'this')} BETWEEN {symmetric}{low} AND {high}"

    def parenthesised(self, node: exp.Paren) -> str:
        """(expression), or (a JOIN b …) with its alias."""
        alias = self.sql(node, "alias")
        return f"({self.sql(node, 'this')}){' AS ' + alias if alias else ''}"

    def tested(self, node: exp.Is) -> str:
        """What stands behind IS: NULL, TRUE, FALSE or UNKNOWN."""
        return "UNKNOWN" if node.args.get("unknown") else self.sql(node, "expression")

    def negation(self, node: exp.Not) -> str:
        """NOT x; `x NOT IN (…)` and `x IS NOT NULL` where the tree is one of those."""
        inner = node.this
        text: str | None = None
        if isinstance(inner, exp.Is) and node.meta.get("is_not"):
            text = f"{self.sql(inner, 'this')} IS NOT {self.tested(inner)}"
        elif isinstance(inner, (exp.In, exp.Between, exp.Like, exp.ILike, exp.SimilarTo)):
            left = self.sql(inner, "this")
            whole = self.sql(inner)
            if whole.startswith(left + " "):
                text = f"{left} NOT{whole[len(left) :]}"
        if text is None:
            return f"NOT {self.sql(inner)}"
        # an operator that binds tighter would take the operand away
        tight = isinstance(node.parent, exp.Binary) and not isinstance(node.parent, exp.Connector)
        return f"({text})" if tight else text

    def table_alias(self, node: exp.TableAlias) -> str:
        """name(columns), or only the column definitions of a function."""
        columns = self.expressions(node, key="columns", flat=True)
        name = self.sql(node, "this")
        return f"{name}({columns})" if columns else name

    def interval(self, node: exp.Interval) -> str:
        """INTERVAL '1' MINUTE, or INTERVAL '1 minute' where the unit is in the text."""
        unit = node.args.get("unit")
        if isinstance(unit, exp.IntervalSpan):
            words = f" {unit.this.name} TO {unit.expression.name}"
        else:
            words = f" {unit.name}" if unit is not None else ""
        digits = node.args.get("digits")
        if digits is not None:
            words += f"({digits})"
        return f"INTERVAL {self.sql(node, 'this')}{words}"

    def datatype_sql(self, node: exp.DataType) -> str:
        """The type's name; INTERVAL(2) and INTERVAL SECOND(2), which sqlglot does not know."""
        if node.this is exp.DType.INTERVAL and node.expressions:
            return f"INTERVAL{words(int(node.expressions[0].this.name)).upper()}"
        text: str = super().datatype_sql(node)
        return text

    def window_tvf(self, node: WindowTvf) -> str:
        """TUMBLE(t, c, size) and its kin."""
        relation = self.sql(node, "this")
        keys = node.args.get("partition_by")
        if keys:
            names = ", ".join(self.sql(key) for key in keys)
            bare = node.args.get("time_column") is None  # then only parentheses end the list
            relation += f" PARTITION BY ({names})" if bare else f" PARTITION BY {names}"
        arguments = [relation]
        for name in ("time_column", "slide", "size", "offset"):
            if node.args.get(name) is not None:
                arguments.append(self.sql(node, name))
        for name in ("max", "tz"):
            if node.args.get(name) is not None:
                arguments.append(f"{name} => {self.sql(node, name)}")
        alias = self.sql(node, "alias")
        call = f"{node.args['kind'].upper()}({', '.join(arguments)})"
        joins = "".join(self.sql(join) for join in node.args.get("joins") or ())
        return (f"{call} AS {alias}" if alias else call) + joins

    def map_value(self, node: MapValue) -> str:
        """MAP {k: v}."""
        pairs = zip(node.args["keys"], node.args["values"], strict=True)
        return "MAP {" + ", ".join(f"{self.sql(k)}: {self.sql(v)}" for k, v in pairs) + "}"

    def struct_fields(self, node: exp.Struct) -> str:
        """value AS name, …."""
        fields = []
        for item in node.expressions:
            if isinstance(item, exp.PropertyEQ):
                fields.append(f"{self.sql(item, 'expression')} AS {self.sql(item, 'this')}")
            else:
                fields.append(self.sql(item))
        return ", ".join(fields)


def _extract(self: _Generator, arguments: list[exp.Expression]) -> str | None:
    if len(arguments) != 2:
        return None
    return f"EXTRACT({self.sql(arguments[0])} FROM {self.sql(arguments[1])})"


def _position(self: _Generator, arguments: list[exp.Expression]) -> str | None:
    if len(arguments) != 2:
        return None
    return f"POSITION({self.sql(arguments[1])} IN {self.sql(arguments[0])})"


_FORMS: dict[str, Callable[[_Generator, list[exp.Expression]], str | None]] = {
    "extract": _extract,
    "position": _position,
}


def _quote_function(name: str, *, qualified: bool) -> str:
    """A function's name, in quotes only where it needs them."""
    from streamsql.dialect.grammar.calls import is_form
    from streamsql.dialect.keywords import NOT_FUNCTION

    plain = name.isidentifier() and name.isascii() and name == name.lower()
    if plain and (qualified or is_form(name.upper()) or name.upper() not in NOT_FUNCTION):
        return name
    return '"' + name.replace('"', '""') + '"'


def quote(name: str) -> str:
    """A name, in quotes only where it needs them.

    >>> quote("total"), quote("Total"), quote("order")
    ('total', '"Total"', '"order"')
    """
    from streamsql.dialect.keywords import NOT_COLUMN

    plain = name.isidentifier() and name.isascii() and name == name.lower()
    if plain and name.upper() not in NOT_COLUMN:
        return name
    return '"' + name.replace('"', '""') + '"'


class StreamSql(RisingWave):
    """Our dialect for sqlglot: generation only, parsing is `dialect.parse`."""

    Generator = _Generator
