"""The parenthesised part of CREATE TABLE: columns, keys, the watermark."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from streamsql.core.errors import InvalidTableDefinition
from streamsql.core.types import Kind as TypeKind
from streamsql.core.types import SqlType
from streamsql.dialect.intervals import DAY, interval_parts
from streamsql.dialect.lexer import Kind, Token
from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import CheckDef, ColumnDef, UniqueDef, WatermarkDef
from streamsql.dialect.typenames import type_of

_METADATA = {
    "key": "key",
    "partition": "partition",
    "offset": "offset",
    "timestamp": "timestamp",
    "header": "header",
    "headers": "header",
    "payload": "payload",
    "value": "payload",
}
# what may follow a column's name where it has no type (Flink's computed and metadata columns)
_NO_TYPE = frozenset({"AS", "METADATA", "GENERATED"})


@dataclass
class TableBody:
    """What stands between the parentheses of CREATE TABLE; star: a `*` among the columns."""

    table: str = ""
    columns: list[ColumnDef] = field(default_factory=list)
    primary_key: tuple[str, ...] = ()
    watermark: WatermarkDef | None = None
    checks: list[CheckDef] = field(default_factory=list)
    uniques: list[UniqueDef] = field(default_factory=list)
    include: list[tuple[str, str]] = field(default_factory=list)
    star: bool = False


@dataclass
class _Column:
    """A column while its constraints are read."""

    name: str
    type: SqlType | None
    not_null: bool = False
    primary_key: bool = False
    unique: bool = False
    default: exp.Expression | None = None
    generated: exp.Expression | None = None
    metadata: str | None = None
    lateness: exp.Interval | None = None


def parse_table_body(parser: Parser, table: str) -> TableBody:
    """( column | constraint | WATERMARK | *, … ); `()` is a table without columns."""
    body = TableBody(table)
    parser.expect("(")
    while not parser.at(")"):
        _item(parser, body)
        if not parser.accept(","):
            break
        if parser.at(")"):
            raise parser.error()
    parser.expect(")")
    return body


def _item(parser: Parser, body: TableBody) -> None:
    if parser.accept("*"):
        body.star = True
        return
    if parser.at("WATERMARK") and parser.peek().key == "FOR":
        _watermark(parser, body)
        return
    constraint = None
    if parser.accept("CONSTRAINT"):
        constraint = parser.name()
        if not parser.at("PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "EXCLUDE"):
            raise parser.error()
    if parser.at_sequence("PRIMARY", "KEY"):
        token = parser.token
        parser.accept_sequence("PRIMARY", "KEY")
        _set_key(parser, body, parser.name_list(), token)
        _key_options(parser)
        return
    if parser.at("UNIQUE") and parser.peek().key in ("(", "NULLS"):
        parser.advance()
        _nulls_distinct(parser)
        body.uniques.append(UniqueDef(columns=parser.name_list(), name=constraint))
        _key_options(parser)
        return
    if parser.at("CHECK") and parser.peek().key == "(":
        body.checks.append(_check(parser, constraint))
        return
    if parser.at("EXCLUDE") and parser.peek().key in ("(", "USING"):
        raise _refused_constraint(parser, "EXCLUDE")
    if parser.at_sequence("FOREIGN", "KEY"):
        if parser.dialect != "feldera":
            raise _refused_constraint(parser, "FOREIGN KEY")
        parser.accept_sequence("FOREIGN", "KEY")
        parser.name_list()
        _references(parser)
        return
    if parser.at("LIKE"):
        raise parser.not_supported("LIKE in CREATE TABLE", "Write the columns out.")
    _column(parser, body)


def _nulls_distinct(parser: Parser) -> None:
    """[NULLS [NOT] DISTINCT] of UNIQUE."""
    token = parser.token
    if parser.accept_sequence("NULLS", "NOT", "DISTINCT"):
        raise parser.not_supported("NULLS NOT DISTINCT", "Make the columns NOT NULL.", token)
    parser.accept_sequence("NULLS", "DISTINCT")


def _check(parser: Parser, name: str | None) -> CheckDef:
    """CHECK (condition) [NO INHERIT] [NOT ENFORCED]."""
    parser.expect("CHECK")
    token = parser.token
    condition = parser.in_parentheses(parser.expression)
    parser.accept_sequence("NO", "INHERIT")
    at = parser.token
    if parser.accept_sequence("NOT", "ENFORCED"):
        raise parser.not_supported("NOT ENFORCED of CHECK", "Leave the constraint out.", at)
    parser.accept("ENFORCED")
    return CheckDef(condition=condition, name=name, position=parser.place(token))


def _references(parser: Parser) -> None:
    """REFERENCES t [(columns)]: Feldera knows it and does not check it."""
    token = parser.token
    parser.expect("REFERENCES")
    parser.object_name()
    if parser.at("("):
        parser.name_list()
    parser.ignores("FOREIGN KEY has no effect: references are not checked", token)


def _refused_constraint(parser: Parser, kind: str) -> Exception:
    hints = {
        "FOREIGN KEY": "Join to the other table in a view.",
        "EXCLUDE": "Check before the INSERT.",
    }
    return parser.not_supported(f"{kind} constraint", hints[kind])


def _set_key(parser: Parser, body: TableBody, key: tuple[str, ...], token: Token) -> None:
    if body.primary_key:
        raise InvalidTableDefinition(
            f'multiple primary keys for table "{body.table}" are not allowed',
            position=token.start,
        )
    body.primary_key = key


def _key_options(parser: Parser) -> None:
    """NOT ENFORCED (Flink), INCLUDE, DEFERRABLE …: none changes what a key is here."""
    token = parser.token
    if parser.accept_sequence("NOT", "ENFORCED"):
        parser.differs("keys", "the key is not checked there; here it is", token)
    while parser.accept("ENFORCED", "DEFERRABLE"):
        pass
    parser.accept_sequence("NOT", "DEFERRABLE")
    if parser.accept("INITIALLY") and not parser.accept("IMMEDIATE", "DEFERRED"):
        raise parser.error()


# columns ------------------------------------------------------------------------------------------
def parse_column(parser: Parser) -> ColumnDef:
    """One column definition by itself (ALTER TABLE … ADD COLUMN)."""
    body = TableBody()
    _column(parser, body)
    if not body.columns:
        raise parser.not_supported("a metadata column here", "Use INCLUDE in CREATE TABLE.")
    return body.columns[0]


def parse_constraint(parser: Parser) -> tuple[str, CheckDef | UniqueDef]:
    """One constraint of a table by itself (ALTER TABLE … ADD CONSTRAINT): ("check", …) or
    ("unique", …)."""
    token, body = parser.token, TableBody()
    _item(parser, body)
    if parser.at_sequence("NOT", "VALID"):
        raise parser.not_supported("NOT VALID", "Correct the rows first.")
    if body.checks:
        return "check", body.checks[0]
    if body.uniques:
        return "unique", body.uniques[0]
    raise parser.not_supported(
        "adding a primary key",
        "Create the table with PRIMARY KEY and copy the rows, or add UNIQUE and NOT NULL.",
        token,
    )


def _column(parser: Parser, body: TableBody) -> None:
    token = parser.token
    name = parser.name()
    typeless = parser.at(*_NO_TYPE) and parser.peek().kind is not Kind.END
    column = _Column(name, None if typeless else _column_type(parser))
    while _constraint(parser, column, body):
        pass
    if column.metadata is not None:
        body.include.append((column.metadata, name))
        text = "a metadata column stands behind the others, with its own type"
        parser.differs("types", text, token)
        return
    if column.primary_key:
        _set_key(parser, body, (name,), token)
    if column.lateness is not None:
        _lateness(parser, body, column, token)
    body.columns.append(
        ColumnDef(
            name=name,
            type=column.type,
            not_null=column.not_null,
            primary_key=column.primary_key,
            unique=column.unique,
            default=column.default,
            generated=column.generated,
            position=parser.place(token),
        )
    )


def _column_type(parser: Parser) -> SqlType:
    """A column's type; TIMESTAMP(3) and the like keep all six digits here."""
    token = parser.token
    if parser.at(",", ")") or parser.at_end():
        raise parser.error(hint="A column needs a type.")
    node = parser.data_type()
    found = type_of(node)
    if found.kind in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMPTZ, TypeKind.TIME) and node.expressions:
        digits = node.expressions[0].name
        if digits != "6":
            text = f"{digits} digits of a second are kept there, 6 here"
            parser.differs("types", text, token)
    return found


def _lateness(parser: Parser, body: TableBody, column: _Column, token: Token) -> None:
    """c type LATENESS INTERVAL …: WATERMARK FOR c AS c - INTERVAL … (Feldera)."""
    if body.watermark is not None:
        raise parser.not_supported(
            "LATENESS of several columns", "Keep it at the column that windows are over.", token
        )
    parser.differs("time", "a row later than LATENESS is not stored there; here the table keeps"
                   " it, and only closed windows leave it out", token)  # fmt: skip
    own = exp.Column(this=exp.Identifier(this=column.name, quoted=True))
    body.watermark = WatermarkDef(
        column=column.name,
        expression=exp.Sub(this=own, expression=column.lateness),
        position=parser.place(token),
    )


def _constraint(parser: Parser, column: _Column, body: TableBody) -> bool:
    """Take one constraint of a column; False if none is left."""
    constraint = None
    if parser.at("CONSTRAINT"):
        parser.advance()
        constraint = parser.name()
    if parser.accept_sequence("NOT", "NULL"):
        column.not_null = True
    elif parser.accept("NULL"):
        pass
    elif parser.accept_sequence("PRIMARY", "KEY"):
        column.primary_key = True
        _key_options(parser)
    elif parser.at("KEY"):  # ksqlDB: a column of the message's key; rows of a stream have no key
        parser.differs("keys", "the column is read from the row, not from the message's key")
        parser.advance()
    elif parser.accept("UNIQUE"):
        _nulls_distinct(parser)
        column.unique = True
        if constraint is not None:
            body.uniques.append(UniqueDef(columns=(column.name,), name=constraint))
        _key_options(parser)
    elif parser.accept("HEADERS"):  # ksqlDB
        column.metadata = "header"
    elif parser.at("HEADER") and parser.peek().key == "(":
        raise parser.not_supported(
            "HEADER of one key", "INCLUDE header AS h, and take the key from h."
        )
    elif parser.at("WATERMARK"):
        raise parser.not_supported(
            "WATERMARK of a column", "Write LATENESS there, or WATERMARK FOR c AS c - INTERVAL '…'."
        )
    elif parser.accept("LATENESS"):
        column.lateness = parser.window_interval(parser.expression())
    elif parser.accept("DEFAULT"):
        column.default = parser.expression()
    elif parser.accept("AS"):
        column.generated = parser.expression()
        parser.accept("STORED", "PERSISTED", "VIRTUAL")
    elif parser.at("GENERATED"):
        _generated(parser, column)
    elif parser.at("METADATA"):
        _metadata(parser, column)
    elif parser.at("CHECK"):
        body.checks.append(_check(parser, constraint))
    elif parser.at("REFERENCES") or parser.at_sequence("FOREIGN", "KEY", "REFERENCES"):
        parser.accept_sequence("FOREIGN", "KEY")
        if parser.dialect != "feldera":
            raise _refused_constraint(parser, "FOREIGN KEY")
        _references(parser)
    elif parser.accept("COLLATE"):
        _collation(parser)
    elif parser.at("COMMENT") and parser.peek().kind is Kind.STRING:
        parser.advance()
        parser.advance()
    else:
        return False
    return True


def _generated(parser: Parser, column: _Column) -> None:
    parser.expect("GENERATED")
    if not parser.accept("ALWAYS"):
        parser.accept_sequence("BY", "DEFAULT")
    parser.expect("AS")
    if parser.at("IDENTITY"):
        raise parser.not_supported("an identity column", "Let the writer give the number.")
    column.generated = parser.in_parentheses(parser.expression)
    parser.accept("STORED", "VIRTUAL")


def _metadata(parser: Parser, column: _Column) -> None:
    """METADATA [FROM 'key'] [VIRTUAL] (Flink): the column becomes an INCLUDE."""
    token = parser.advance()
    key = parser.string() if parser.accept("FROM") else column.name
    parser.accept("VIRTUAL")
    found = _METADATA.get(key.lower())
    if found is None:
        raise parser.not_supported(
            f'metadata "{key}"',
            "Known are key, partition, offset, timestamp, header and payload.",
            token,
        )
    column.metadata = found


def _collation(parser: Parser) -> None:
    token = parser.token
    name = parser.label()
    while parser.accept("."):
        name = parser.label()
    if name.lower() not in ("c", "posix", "default", "ucs_basic"):
        raise parser.not_supported(
            f'collation "{name}"', 'Text always sorts by code point, as under COLLATE "C".', token
        )


# watermark ----------------------------------------------------------------------------------------
def _watermark(parser: Parser, body: TableBody) -> None:
    """WATERMARK FOR c AS e | PERCENTILE(fraction, INTERVAL …); Arroyo's WATERMARK FOR c alone."""
    token = parser.advance()
    parser.expect("FOR")
    column = parser.name()
    if not parser.at("AS") and parser.dialect == "arroyo":
        own = exp.Column(this=exp.Identifier(this=column, quoted=True))
        second = exp.Interval(this=exp.Literal.string("1 second"))
        delay = exp.Sub(this=own, expression=second)
        place = parser.place(token)
        body.watermark = WatermarkDef(column=column, expression=delay, position=place)
        return
    parser.expect("AS")
    if body.watermark is not None:
        raise InvalidTableDefinition(
            f'multiple watermarks for table "{body.table}" are not allowed', position=token.start
        )
    at = parser.token
    expression: exp.Expression | None = parser.expression()
    fraction = span = None
    if isinstance(expression, exp.Anonymous) and expression.name == "percentile":
        fraction, span = _percentile(parser, expression, at)
        expression = None
    body.watermark = WatermarkDef(
        column=column,
        expression=expression,
        percentile=fraction,
        percentile_span_us=span,
        position=parser.place(token),
    )


def _percentile(parser: Parser, call: exp.Anonymous, token: Token) -> tuple[float, int]:
    """The arguments of PERCENTILE: the fraction, and over how much event time (µs)."""
    if len(call.expressions) == 2:
        fraction, span = call.expressions
        if isinstance(fraction, exp.Literal) and not fraction.is_string:
            value = float(fraction.name)
            months, days, us = interval_parts(parser.window_interval(span))
            length = days * DAY + us
            if 0 < value <= 1 and length > 0 and not months:
                return value, length
    raise parser.error(
        token,
        "wrong arguments for PERCENTILE: syntax error",
        hint="Write PERCENTILE(0.99, INTERVAL '10 minutes').",
    )
