"""MERGE."""

from __future__ import annotations

from sqlglot import exp

from streamsql.dialect.parser import Parser
from streamsql.dialect.positions import mark
from streamsql.dialect.statements import Merge, Statement
from streamsql.dialect.utility.ctes import place_ctes
from streamsql.dialect.utility.insert import assignments, returning


def parse_merge(parser: Parser, with_: exp.With | None = None) -> Statement:
    """MERGE INTO t [[AS] a] USING relation ON condition WHEN … [RETURNING …].

    The tree is an exp.Merge: this = exp.Table (with alias), using = the relation, on = the
    condition, whens = exp.Whens of exp.When(matched: bool, source: bool, condition, then), where
    `then` is exp.Update(expressions=[exp.EQ(Column, value)…]), exp.Insert(this=Tuple of Identifiers
    or None, expression=Tuple of values, or None for DEFAULT VALUES), exp.Var("DELETE") or
    exp.Var("DO NOTHING"). with_: CTEs that stood before MERGE.
    """
    token = parser.token
    parser.expect("MERGE", "INTO")
    parser.accept("ONLY")
    table = parser.table_name()
    if parser.accept("AS") or (parser.at_name() and not parser.at("USING")):
        table.set("alias", exp.TableAlias(this=parser.identifier()))
    parser.expect("USING")
    using = parser.relation()
    parser.expect("ON")
    condition = parser.expression()
    whens = []
    while parser.at("WHEN"):
        whens.append(_when(parser))
    if not whens:
        raise parser.error()
    returned = returning(parser)
    tree = exp.Merge(
        this=table,
        using=using,
        on=condition,
        whens=exp.Whens(expressions=whens),
        returning=exp.Returning(expressions=list(returned)) if returned else None,
    )
    if with_ is not None:
        for key in ("using", "on", "whens", "returning"):
            if tree.args.get(key) is not None:
                tree.set(key, place_ctes(tree.args[key].copy(), with_))
    return Merge(tree=mark(tree, token))


def _when(parser: Parser) -> exp.When:
    token = parser.advance()
    matched = not parser.accept("NOT")
    parser.expect("MATCHED")
    by_source = False
    if not matched and parser.accept("BY"):
        by_source = parser.token.key == "SOURCE"
        if not parser.accept("SOURCE", "TARGET"):
            raise parser.error()
    condition = parser.expression() if parser.accept("AND") else None
    parser.expect("THEN")
    action = _action(parser, may_insert=not matched and not by_source)
    when = exp.When(matched=matched, source=by_source, condition=condition, then=action)
    return mark(when, token)


def _action(parser: Parser, *, may_insert: bool) -> exp.Expression:
    token = parser.token
    if parser.accept_sequence("DO", "NOTHING"):
        return mark(exp.Var(this="DO NOTHING"), token)
    if may_insert:
        parser.expect("INSERT")
        return mark(_insert(parser), token)
    if parser.accept("DELETE"):
        return mark(exp.Var(this="DELETE"), token)
    parser.expect("UPDATE", "SET")
    changed = [
        exp.EQ(this=exp.Column(this=exp.Identifier(this=name, quoted=True)), expression=value)
        for name, value in assignments(parser)
    ]
    return mark(exp.Update(expressions=changed), token)


def _insert(parser: Parser) -> exp.Insert:
    columns = None
    if parser.at("("):
        columns = exp.Tuple(expressions=parser.identifier_list())
    if parser.accept_sequence("DEFAULT", "VALUES"):
        return exp.Insert(this=columns, expression=None)
    at = parser.token
    values = parser.values()
    if len(values.expressions) != 1:
        raise parser.error(at, "MERGE inserts one row: syntax error")
    return exp.Insert(this=columns, expression=values.expressions[0])
