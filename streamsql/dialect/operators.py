"""PostgreSQL's name of the operator that a tree node is."""

from __future__ import annotations

from sqlglot import exp

from streamsql.dialect.nodes import PrefixOperator

_NAMES: dict[type[exp.Expression], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.Pow: "^",
    exp.Neg: "-",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.DPipe: "||",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "#",
    exp.BitwiseNot: "~",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.Like: "~~",
    exp.ILike: "~~*",
}


def operator_of(node: exp.Expression) -> str | None:
    """The operator's name, e.g. "->>" or "<="; None if the node is no operator.

    >>> operator_of(exp.LTE(this=exp.Null(), expression=exp.Null()))
    '<='
    """
    if isinstance(node, (exp.Operator, PrefixOperator)):
        return str(node.args["operator"])
    return _NAMES.get(type(node))
