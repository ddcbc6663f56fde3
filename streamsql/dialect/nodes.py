"""Tree nodes that sqlglot has no word for: window table functions and a few PostgreSQL forms.

All else in a query tree is sqlglot's own; `docs/internals.md` says which shape each construct has.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp

from streamsql.dialect.compatibility import refuse_compiled_sqlglot

refuse_compiled_sqlglot()  # subclassing its compiled nodes fails far from here, and unreadably


class WindowTvf(exp.Expression):
    """TUMBLE / HOP / CUMULATE / SESSION over a relation, as one item of FROM.

    kind: str, "tumble" | "hop" | "cumulate" | "session". this: the input relation: exp.Table
    (without an alias), exp.Subquery or WindowTvf. time_column: exp.Column, or None where the
    spelling names none (ksqlDB's WINDOW clause): the watermark column of the input. size:
    exp.Interval (session: the gap). slide: exp.Interval, hop's hop or cumulate's step.
    offset, max: exp.Interval or None. tz: exp.Literal (a zone's name) or None. partition_by: list
    of exp.Column (session only). alias: exp.TableAlias or None.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "kind": True,
        "this": True,
        "time_column": False,
        "size": True,
        "slide": False,
        "offset": False,
        "max": False,
        "tz": False,
        "partition_by": False,
        "alias": False,
        "joins": False,  # joins nested to the right, as exp.Table has them
    }

    @property
    def kind(self) -> str:
        """tumble, hop, cumulate or session."""
        kind: str = self.args["kind"]
        return kind

    def arg(self, name: str) -> Any:
        """The argument, or None."""
        return self.args.get(name)


class ArrayQuery(exp.Expression):
    """ARRAY(SELECT …): the rows of a one-column query as an array. this: the query."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class RowValue(exp.Tuple):
    """ROW(a, b): an exp.Tuple that was written with the keyword (so it may have 0 or 1 fields)."""


class MapValue(exp.Expression):
    """MAP {k: v, …} or MAP[k, v, …]. keys, values: lists of expressions, equally long."""

    arg_types: ClassVar[dict[str, bool]] = {"keys": False, "values": False}


class PrefixOperator(exp.Expression):
    """A prefix operator without a node of its own: `@ x`, `|/ x`. operator: str; this: operand."""

    arg_types: ClassVar[dict[str, bool]] = {"operator": True, "this": True}
