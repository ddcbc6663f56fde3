"""INSERT."""

from __future__ import annotations

from sqlglot import exp

from streamsql.dialect.dialects import INSERT_GOES_ON
from streamsql.dialect.lexer import Token
from streamsql.dialect.parser import Parser
from streamsql.dialect.positions import mark
from streamsql.dialect.statements import Insert, OnConflict, Statement


def parse_insert(parser: Parser, with_: exp.With | None = None) -> Statement:
    """INSERT INTO t [AS a] [(columns)] {query | DEFAULT VALUES} [ON CONFLICT …] [RETURNING …].

    with_: CTEs that stood before INSERT; they become the query's.
    """
    parser.expect("INSERT")
    if parser.at("OVERWRITE"):
        raise parser.not_supported(
            "INSERT OVERWRITE", "TRUNCATE the table in the same transaction."
        )
    parser.expect("INTO")
    parser.accept("TABLE")
    table = parser.object_name()
    alias = parser.name() if parser.accept("AS") else None
    if parser.at("PARTITION"):
        raise parser.not_supported("PARTITION of INSERT", "Write its column as one of the columns.")
    columns = _columns(parser)
    if parser.accept("OVERRIDING"):
        if not parser.accept("USER", "SYSTEM"):
            raise parser.error()
        parser.expect("VALUE")
    query: exp.Expression | None = None
    at = parser.token
    if not parser.accept_sequence("DEFAULT", "VALUES"):
        query = parser.query()
        if parser.dialect in INSERT_GOES_ON and not isinstance(query, exp.Values):
            text = "INSERT … SELECT writes the rows of now and ends; for a job that goes on create"
            parser.notices.append(f"{text} a materialized view")
            parser.differs("lifetime", f"{text} a materialized view", at)
        if parser.dialect in INSERT_GOES_ON:
            parser.emit_clause()
    if with_ is not None:
        if query is None:
            raise parser.error()
        query = _with_ctes(query, with_)
    return Insert(
        table=table,
        columns=columns,
        query=query,
        on_conflict=on_conflict(parser),
        returning=returning(parser),
        alias=alias,
    )


def returning(parser: Parser) -> tuple[exp.Expression, ...]:
    """[RETURNING items]."""
    if not parser.accept("RETURNING"):
        return ()
    return tuple(parser.comma_list(parser.select_item))


def assignments(parser: Parser) -> tuple[tuple[str, exp.Expression], ...]:
    """column = value, …; (a, b) = (x, y) and (a, b) = ROW(x, y) are taken apart."""
    found: list[tuple[str, exp.Expression]] = []
    while True:
        token = parser.token
        if token.key == "(":
            names = parser.name_list()
            parser.expect("=")
            at = parser.token
            value = parser.expression()
            if isinstance(value, exp.Tuple):
                values = value.expressions
            elif isinstance(value, exp.Paren):
                values = [value.this]
            elif isinstance(value, exp.Subquery):
                values = _columns_of(parser, value, len(names), at)
            else:
                raise parser.error(
                    at, "source for a multiple-column UPDATE item must be a sub-SELECT or ROW()"
                    " expression",
                )  # fmt: skip
            if len(values) != len(names):
                raise parser.error(at, "number of columns does not match number of values")
            found.extend(zip(names, values, strict=True))
        else:
            name = parser.name()
            if parser.at(".") and parser.peek(2).key == "=":  # SET t.column = …
                parser.advance()
                name = parser.any_name()
            parser.expect("=")
            found.append((name, parser.expression()))
        if not parser.accept(","):
            return tuple(found)


def _columns_of(
    parser: Parser, subquery: exp.Subquery, count: int, token: Token
) -> list[exp.Expression]:
    """(SELECT x, y …) as one subquery for each of its columns."""
    query = subquery.this
    first = query
    while isinstance(first, exp.SetOperation):
        first = first.this
    items = first.expressions[0].expressions if isinstance(first, exp.Values) else first.expressions
    if any(item.is_star for item in items) or isinstance(first, exp.Subquery):
        raise parser.not_supported("* as source of several columns", "Name the columns.", token)
    if len(items) != count:
        raise parser.error(token, "number of columns does not match number of values")
    names = [exp.Identifier(this=f"c{i}", quoted=True) for i in range(count)]
    found: list[exp.Expression] = []
    for name in names:
        alias = exp.TableAlias(
            this=exp.Identifier(this="*SELECT*", quoted=True), columns=[n.copy() for n in names]
        )
        source = exp.From(this=exp.Subquery(this=query.copy(), alias=alias))
        select = exp.Select(expressions=[exp.Column(this=name.copy())], from_=source)
        found.append(mark(exp.Subquery(this=select), token))
    return found


def on_conflict(parser: Parser) -> OnConflict | None:
    """[ON CONFLICT [(columns) | ON CONSTRAINT n] DO NOTHING | DO UPDATE SET … [WHERE …]]."""
    if not parser.accept_sequence("ON", "CONFLICT"):
        return None
    targets: tuple[str, ...] = ()
    constraint = None
    if parser.at("("):
        targets = parser.name_list()
        if parser.at("WHERE"):
            raise parser.not_supported("a partial index in ON CONFLICT", "Leave out WHERE.")
    elif parser.accept_sequence("ON", "CONSTRAINT"):
        constraint = parser.name()
    parser.expect("DO")
    if parser.accept("NOTHING"):
        return OnConflict(action="nothing", targets=targets, constraint=constraint)
    parser.expect("UPDATE", "SET")
    changed = assignments(parser)
    where = parser.expression() if parser.accept("WHERE") else None
    return OnConflict(
        action="update", targets=targets, constraint=constraint, assignments=changed, where=where
    )


def _columns(parser: Parser) -> tuple[str, ...]:
    if not parser.at("(") or parser.at_query():
        return ()
    return parser.name_list()


def _with_ctes(query: exp.Expression, with_: exp.With) -> exp.Expression:
    own = query.args.get("with_")
    if own is not None:
        with_.set("expressions", [*with_.expressions, *own.expressions])
        with_.set("recursive", with_.args.get("recursive") or own.args.get("recursive"))
    if isinstance(query, (exp.Values, exp.Subquery)):
        inner = query if isinstance(query, exp.Subquery) else exp.Subquery(this=query)
        inner.set("alias", exp.TableAlias(this=exp.Identifier(this="*SELECT*", quoted=True)))
        query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=inner))
    query.set("with_", with_)
    return query
