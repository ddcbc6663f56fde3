"""CREATE TABLE, CREATE SOURCE and ksqlDB's CREATE STREAM."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from sqlglot import exp

from streamsql.core.errors import InvalidParameterValue
from streamsql.dialect.dialects import CONNECTED_IS_SOURCE, OVERWRITES
from streamsql.dialect.keywords import EMIT_WORDS
from streamsql.dialect.lexer import Kind
from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import CreateTable, FormatDef, Statement
from streamsql.dialect.utility.columns import TableBody, parse_table_body
from streamsql.dialect.utility.foreign_tables import foreign_options, persistent_query

_INCLUDABLE = frozenset({"key", "partition", "offset", "timestamp", "header", "payload"})
# Flink's and ksqlDB's format names -> our (FORMAT, ENCODE)
_FORMATS = {
    "debezium-json": ("debezium", "json"),
    "debezium-avro-confluent": ("debezium", "avro"),
    "canal-json": ("canal", "json"),
    "maxwell-json": ("maxwell", "json"),
    "avro-confluent": ("plain", "avro"),
    "raw": ("plain", "bytes"),
    "delimited": ("plain", "csv"),
}
_FORMAT_KEYS = ("format", "value.format", "value_format")


@dataclass
class _Clauses:
    """What follows the columns."""

    append_only: bool = False
    on_conflict: str = "default"
    options: dict[str, str] = field(default_factory=dict)
    format: FormatDef | None = None
    include: list[tuple[str, str]] = field(default_factory=list)
    quoted_connector: bool = False


def parse_create_table(
    parser: Parser,
    *,
    is_source: bool = False,
    temporary: bool = False,
    stream: bool = False,
    or_replace: bool = False,
) -> Statement:
    """After CREATE TABLE | SOURCE | STREAM: name, columns, clauses, AS query.

    A Flink table with a connector keeps no rows of its own, so it becomes a source unless it has a
    primary key: recognised by its quoted 'connector' option, or by the session's dialect. ksqlDB's
    CREATE STREAM | TABLE … AS is a materialized view.
    """
    start = parser.token
    if_not_exists = parser.exists_flag(negated=True)
    name = parser.object_name()
    body = TableBody()
    as_columns: tuple[str, ...] = ()
    if parser.at("("):
        if _only_names(parser):  # CREATE TABLE t (a, b) AS SELECT …
            as_columns = parser.name_list()
        else:
            body = parse_table_body(parser, name[-1])
    if parser.at("LIKE"):
        raise parser.not_supported("LIKE in CREATE TABLE", "Write the columns out.")
    clauses = _Clauses()
    while _clause(parser, clauses):
        pass
    if parser.at("AS") and not as_columns and _is_persistent_query(parser, stream):
        return persistent_query(
            parser, name, clauses.options, or_replace=or_replace, if_not_exists=if_not_exists
        )
    query = _as_query(parser, as_columns)
    foreign_options(parser, body, clauses.options, start)
    if "append_only" in clauses.options:
        clauses.append_only |= clauses.options.pop("append_only").lower() == "true"
    if not is_source and "connector" in clauses.options and not body.primary_key:
        is_source = clauses.quoted_connector or parser.dialect in CONNECTED_IS_SOURCE
    if body.primary_key and clauses.on_conflict == "default" and not clauses.append_only:
        clauses.on_conflict = "overwrite" if parser.dialect in OVERWRITES else "default"
    return CreateTable(
        name=name,
        columns=tuple(body.columns),
        if_not_exists=if_not_exists,
        is_source=is_source,
        primary_key=body.primary_key,
        checks=tuple(body.checks),
        uniques=tuple(body.uniques),
        watermark=body.watermark,
        append_only=clauses.append_only,
        on_conflict=clauses.on_conflict,
        options=clauses.options,
        format=clauses.format or _format_from_options(clauses.options),
        include=(*body.include, *clauses.include),
        as_query=query,
        as_columns=as_columns,
        temporary=temporary,
        schema_star=body.star,
    )


def _only_names(parser: Parser) -> bool:
    """Is this a plain list of column names, closed before AS?"""
    distance = 1
    while parser.peek(distance).kind in (Kind.WORD, Kind.QUOTED):
        distance += 1
        if parser.peek(distance).key == ")":
            return parser.peek(distance + 1).key == "AS"
        if parser.peek(distance).key != ",":
            return False
        distance += 1
    return False


def _as_query(parser: Parser, columns: tuple[str, ...]) -> exp.Expression | None:
    if not parser.accept("AS"):
        if columns:
            raise parser.error()
        return None
    query = parser.query()
    if parser.accept("WITH"):
        parser.accept("NO")
        parser.expect("DATA")
    return query


def _clause(parser: Parser, clauses: _Clauses) -> bool:
    """Take one clause after the columns; False if none is left."""
    if parser.accept_sequence("APPEND", "ONLY"):
        clauses.append_only = True
    elif parser.accept_sequence("ON", "CONFLICT"):
        clauses.on_conflict = _on_conflict(parser)
    elif parser.accept("INCLUDE"):
        clauses.include.append(_include(parser))
    elif parser.at("WITH") and parser.peek().key == "(":
        parser.advance()
        clauses.quoted_connector = parser.option_is_quoted("connector")
        clauses.options.update(parser.options())
    elif parser.at("FORMAT"):
        clauses.format = parse_format(parser)
    elif parser.at("COMMENT") and parser.peek().kind is Kind.STRING:
        parser.ignores("COMMENT has no effect here: use COMMENT ON")
        parser.advance()
        parser.advance()
    elif parser.dialect == "flink" and parser.at("PARTITIONED", "DISTRIBUTED"):
        _partitioned(parser)
    elif parser.at_sequence("IN", "CLUSTER"):
        token = parser.token
        parser.accept_sequence("IN", "CLUSTER")
        parser.ignores(f'IN CLUSTER "{parser.label()}" has no effect: there is one engine', token)
    elif parser.at("FROM"):
        raise parser.not_supported(
            "a source FROM another system",
            "Give the connector in WITH: connector = 'file', 'datagen' or 'nexmark'.",
        )
    elif parser.at("PARTITIONED", "DISTRIBUTED"):
        raise parser.not_supported(
            f"{parser.token.key} BY", "Leave it out: all rows live on one machine."
        )
    elif parser.at("INHERITS", "PARTITION", "USING", "TABLESPACE"):
        raise parser.not_supported(f"{parser.token.key} in CREATE TABLE", "Leave it out.")
    else:
        return False
    return True


def _partitioned(parser: Parser) -> None:
    """PARTITIONED BY (…), DISTRIBUTED BY HASH (…) INTO n BUCKETS (Flink)."""
    token = parser.advance()
    parser.expect("BY")
    parser.accept("HASH", "RANGE")
    parser.in_parentheses(lambda: parser.comma_list(parser.expression))
    if parser.accept("INTO"):
        parser.integer()
        parser.expect("BUCKETS")
    parser.ignores(f"{token.key} BY has no effect: all rows live on one machine", token)


def _is_persistent_query(parser: Parser, stream: bool) -> bool:
    """Is AS followed by a query that ksqlDB keeps up to date? (CREATE STREAM, its dialect, EMIT)"""
    if stream or parser.dialect == "ksql":
        return True
    return any(
        token.key == "EMIT" and following.key in EMIT_WORDS
        for token, following in pairwise(parser.tokens[parser.index :])
    )


def _on_conflict(parser: Parser) -> str:
    if parser.at_sequence("WITH", "VERSION"):
        raise parser.not_supported("WITH VERSION COLUMN", "Use ON CONFLICT OVERWRITE.")
    if parser.accept("OVERWRITE"):
        return "overwrite"
    if parser.accept("IGNORE") or parser.accept_sequence("DO", "NOTHING"):
        return "do_nothing"
    if parser.accept_sequence("DO", "UPDATE"):
        if parser.accept("FULL"):
            return "overwrite"
        parser.expect("IF", "NOT", "NULL")
        return "update_if_not_null"
    raise parser.error(hint="Write ON CONFLICT OVERWRITE, DO NOTHING or DO UPDATE IF NOT NULL.")


def _include(parser: Parser) -> tuple[str, str]:
    """INCLUDE kind [AS name]; the name is by default _rw_… as in RisingWave: the kind's own."""
    token = parser.token
    kind = parser.label()
    if kind == "headers":
        kind = "header"
    if kind not in _INCLUDABLE:
        raise parser.error(
            token, hint="INCLUDE takes key, partition, offset, timestamp, header or payload."
        )
    if kind == "header" and parser.at_string():
        raise parser.not_supported(
            "INCLUDE header of one key", "INCLUDE header AS h, and take the key from h."
        )
    return kind, parser.name() if parser.accept("AS") else f"_{kind}"


def parse_format(parser: Parser) -> FormatDef:
    """FORMAT f ENCODE e [(options)] [KEY ENCODE …]."""
    parser.expect("FORMAT")
    form = parser.label()
    parser.expect("ENCODE")
    encode = parser.label()
    options = parser.options() if parser.at("(") else {}
    if parser.at_sequence("KEY", "ENCODE"):
        parser.accept_sequence("KEY", "ENCODE")
        options["key.encode"] = parser.label()
    return FormatDef(format=form, encode=encode, options=options)


def _format_from_options(options: dict[str, str]) -> FormatDef | None:
    """'format' = 'json' and 'json.…' (Flink), VALUE_FORMAT='JSON' (ksqlDB), taken out."""
    key = next((key for key in _FORMAT_KEYS if key in options), None)
    if key is None:
        return None
    name = options.pop(key).lower()
    if not name:
        raise InvalidParameterValue(
            f'invalid value for option "{key}": ""', hint="Name a format, for example json."
        )
    for other in _FORMAT_KEYS:
        options.pop(other, None)
    form, encode = _FORMATS.get(name, ("plain", name))
    own: dict[str, str] = {}
    for option in list(options):
        for prefix in (f"{name}.", f"value.{name}."):
            if option.startswith(prefix):
                own[option.removeprefix(prefix)] = options.pop(option)
                break
    return FormatDef(format=form, encode=encode, options=own)
