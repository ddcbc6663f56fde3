"""CREATE VIEW, CREATE MATERIALIZED VIEW and what other systems call the latter."""

from __future__ import annotations

from sqlglot import exp

from streamsql.dialect.parser import EMIT_IMMEDIATELY, Parser
from streamsql.dialect.statements import CreateView, Statement


def parse_view(parser: Parser, *, or_replace: bool, temporary: bool) -> Statement:
    """After CREATE VIEW."""
    return _create(parser, or_replace=or_replace, temporary=temporary, materialized=False)


def parse_materialized(parser: Parser, *, or_replace: bool) -> Statement:
    """After CREATE MATERIALIZED VIEW | MATERIALIZED TABLE | DYNAMIC TABLE."""
    return _create(parser, or_replace=or_replace, temporary=False, materialized=True)


def parse_recursive_view(parser: Parser, *, or_replace: bool) -> Statement:
    """After CREATE RECURSIVE VIEW: v (c) AS q = VIEW v AS WITH RECURSIVE v (c) AS (q) SELECT …."""
    token = parser.token
    name = parser.object_name()
    columns = parser.name_list()
    parser.expect("AS")
    query, text = _query(parser)
    identifiers = [exp.Identifier(this=column, quoted=True) for column in columns]
    this = exp.Identifier(this=name[-1], quoted=True)
    alias = exp.TableAlias(this=this, columns=identifiers)
    with_ = exp.With(expressions=[exp.CTE(this=query, alias=alias)], recursive=True)
    select = exp.Select(
        expressions=[exp.Column(this=i.copy()) for i in identifiers],
        from_=exp.From(this=exp.Table(this=this.copy())),
        with_=with_,
    )
    select.meta["start"] = token.start
    quoted = ", ".join(_quote(column) for column in columns)
    text = (
        f"WITH RECURSIVE {_quote(name[-1])} ({quoted}) AS ({text})"
        f" SELECT {quoted} FROM {_quote(name[-1])}"
    )
    return CreateView(
        name=name, query=select, query_sql=text, columns=columns, or_replace=or_replace
    )


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _create(parser: Parser, *, or_replace: bool, temporary: bool, materialized: bool) -> Statement:
    if_not_exists = parser.exists_flag(negated=True)
    name = parser.object_name()
    columns = parser.name_list() if parser.at("(") else ()
    options: dict[str, str] = {}
    while _clause(parser, options):
        pass
    parser.expect("AS")
    query, text = _query(parser)
    token = parser.token
    emit = parser.emit_clause()
    if emit is not None and not materialized:
        if emit != EMIT_IMMEDIATELY:
            raise parser.not_supported(
                "EMIT ON WINDOW CLOSE for a plain view", "Create a MATERIALIZED VIEW.", token
            )
        parser.ignores("EMIT has no effect on a plain view")
        emit = None
    if parser.accept("WITH"):
        if not materialized and (parser.at("CHECK", "CASCADED", "LOCAL")):
            raise parser.not_supported("WITH CHECK OPTION", "Views can't be written to.")
        empty = parser.accept("NO")
        parser.expect("DATA")
        if empty:
            parser.ignores("WITH NO DATA has no effect: a view always holds its rows")
    return CreateView(
        name=name,
        query=query,
        query_sql=text,
        columns=columns,
        materialized=materialized,
        or_replace=or_replace,
        if_not_exists=if_not_exists,
        options=options,
        emit=emit,
        temporary=temporary,
    )


def _query(parser: Parser) -> tuple[exp.Expression, str]:
    """The view's query and its text."""
    start = parser.token
    query = parser.query()
    return query, parser.span(start)


def _clause(parser: Parser, options: dict[str, str]) -> bool:
    """Take one clause between the name and AS; False if none is left."""
    if parser.at("WITH") and parser.peek(2).key == "REFRESH" and parser.peek().key == "(":
        token = parser.advance()
        parser.skip_parentheses()
        parser.ignores("REFRESH has no effect: a view is always up to date", token)
    elif parser.at("WITH") and parser.peek(2).key == "ASSERT" and parser.peek().key == "(":
        raise parser.not_supported("ASSERT NOT NULL", "Filter with WHERE … IS NOT NULL.")
    elif parser.at("WITH") and parser.peek().key == "(":
        options.update(parser.with_options())
        for name in ("materialized", "emit_final"):
            if name in options and parser.dialect == "feldera":
                del options[name]
                parser.ignores(f'option "{name}" has no effect')
    elif parser.at_sequence("IN", "CLUSTER"):
        token = parser.token
        parser.accept_sequence("IN", "CLUSTER")
        parser.ignores(f'IN CLUSTER "{parser.label()}" has no effect: there is one engine', token)
    elif parser.at("FRESHNESS", "TARGET_LAG", "REFRESH_MODE", "WAREHOUSE", "INITIALIZE", "LAG"):
        word = parser.advance().key
        parser.accept("=")
        value = parser.option_value()
        if word in ("FRESHNESS", "TARGET_LAG", "LAG"):
            parser.ignores(f"{word} '{value}' has no effect: a view is always up to date")
        else:
            parser.ignores(f"{word} has no effect")
    elif parser.accept("COMMENT"):
        parser.accept("=")
        parser.string()
        parser.ignores("COMMENT has no effect here: use COMMENT ON")
    elif parser.at("USING", "TABLESPACE"):
        raise parser.not_supported(f"{parser.token.key} in CREATE VIEW", "Leave it out.")
    else:
        return False
    return True
