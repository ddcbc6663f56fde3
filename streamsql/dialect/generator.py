"""Trees back to text in the canonical spelling: for EXPLAIN, TRANSLATE and error messages.

The definition of a view is always the user's own text; nothing here is ever stored.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.risingwave import RisingWave
from sqlglot.errors import ErrorLevel

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
        exp.Anonymous: lambda self, node: f"{node.name}({self.expressions(node, flat=True)})",
        exp.Operator: lambda self, node: (
            f"{self.sql(node, 'this')} {node.args['operator']} {self.sql(node, 'expression')}"
        ),
        exp.Struct: lambda self, node: f"STRUCT({self.struct_fields(node)})",
        exp.Identifier: lambda self, node: _quote(node.name),
        exp.Bracket: lambda self, node: (
            f"{self.sql(node, 'this')}[{self.expressions(node, flat=True)}]"
        ),
        exp.Slice: lambda self, node: f"{self.sql(node, 'this')}:{self.sql(node, 'expression')}",
        exp.Fetch: lambda self, node: f" FETCH FIRST {self.sql(node, 'count')} ROWS WITH TIES",
        exp.Interval: lambda self, node: self.interval(node),
    }

    def interval(self, node: exp.Interval) -> str:
        """INTERVAL '1' MINUTE, or INTERVAL '1 minute' where the unit is in the text."""
        unit = node.args.get("unit")
        if isinstance(unit, exp.IntervalSpan):
            words = f" {unit.this.name} TO {unit.expression.name}"
        else:
            words = f" {unit.name}" if unit is not None else ""
        return f"INTERVAL {self.sql(node, 'this')}{words}"

    def window_tvf(self, node: WindowTvf) -> str:
        """TUMBLE(t, c, size) and its kin."""
        relation = self.sql(node, "this")
        keys = node.args.get("partition_by")
        if keys:
            relation += " PARTITION BY " + ", ".join(self.sql(key) for key in keys)
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


def _quote(name: str) -> str:
    """A name, in quotes only where it needs them.

    >>> _quote("total"), _quote("Total"), _quote("order")
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
