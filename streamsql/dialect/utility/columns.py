"""The parenthesised part of CREATE TABLE: columns, keys, the watermark."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from streamsql.core.errors import InvalidTableDefinition
from streamsql.core.types import SqlType
from streamsql.dialect.intervals import DAY, interval_parts
from streamsql.dialect.lexer import Kind, Token
from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import ColumnDef, WatermarkDef

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
    if parser.accept("CONSTRAINT"):
        parser.name()
        if not parser.at("PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "EXCLUDE"):
            raise parser.error()
    if parser.at_sequence("PRIMARY", "KEY"):
        token = parser.token
        parser.accept_sequence("PRIMARY", "KEY")
        _set_key(parser, body, parser.name_list(), token)
        _key_options(parser)
        return
    token = parser.token
    if parser.at("UNIQUE", "CHECK", "EXCLUDE") and parser.peek().key in ("(", "USING"):
        raise _refused_constraint(parser, token.key)
    if parser.at_sequence("FOREIGN", "KEY"):
        raise _refused_constraint(parser, "FOREIGN KEY")
    if parser.at("LIKE"):
        raise parser.not_supported("LIKE in CREATE TABLE", "Write the columns out.")
    _column(parser, body)


def _refused_constraint(parser: Parser, kind: str) -> Exception:
    hints = {
        "UNIQUE": "Make these columns the PRIMARY KEY.",
        "CHECK": "Filter in a view, or check before the INSERT.",
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
    while parser.accept_sequence("NOT", "ENFORCED") or parser.accept("ENFORCED", "DEFERRABLE"):
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


def _column(parser: Parser, body: TableBody) -> None:
    token = parser.token
    name = parser.name()
    typeless = parser.at(*_NO_TYPE) and parser.peek().kind is not Kind.END
    column = _Column(name, None if typeless else parser.sql_type())
    while _constraint(parser, column):
        pass
    if column.metadata is not None:
        body.include.append((column.metadata, name))
        return
    if column.primary_key:
        _set_key(parser, body, (name,), token)
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


def _constraint(parser: Parser, column: _Column) -> bool:
    """Take one constraint of a column; False if none is left."""
    if parser.at("CONSTRAINT"):
        parser.advance()
        parser.name()
    if parser.accept_sequence("NOT", "NULL"):
        column.not_null = True
    elif parser.accept("NULL"):
        pass
    elif parser.at_sequence("PRIMARY", "KEY") or parser.at("KEY"):  # KEY alone: ksqlDB
        parser.accept("PRIMARY")
        parser.expect("KEY")
        column.primary_key = True
        _key_options(parser)
    elif parser.at("UNIQUE"):
        raise _refused_constraint(parser, "UNIQUE")
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
        raise _refused_constraint(parser, "CHECK")
    elif parser.at("REFERENCES"):
        raise _refused_constraint(parser, "FOREIGN KEY")
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
    """WATERMARK FOR c AS e | PERCENTILE(fraction, INTERVAL …)."""
    token = parser.advance()
    parser.expect("FOR")
    column = parser.name()
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
