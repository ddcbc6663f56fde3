"""What CREATE TABLE and CREATE STREAM of other systems say in their WITH, and ksqlDB's AS."""

from __future__ import annotations

from sqlglot import exp

from streamsql.dialect.lexer import Token
from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import CreateView, Name, Statement, WatermarkDef
from streamsql.dialect.utility.columns import TableBody

# of ksqlDB: they say how a topic is stored, and nothing about the rows
_STORAGE = frozenset(
    {"kafka_topic", "partitions", "replicas", "retention_ms", "wrap_single_value", "key_format",
     "value_format", "format", "key_delimiter", "value_delimiter", "timestamp", "timestamp_format"}
)  # fmt: skip
_WITHOUT_EFFECT = {
    "partitions": "all rows live on one machine",
    "replicas": "all rows live on one machine",
    "wrap_single_value": "a document is always an object",
    "key_format": "the key is read as text",
    "materialized": "a table always keeps its rows",  # Feldera
}


def persistent_query(
    parser: Parser, name: Name, options: dict[str, str], *, or_replace: bool, if_not_exists: bool
) -> Statement:
    """AS query [EMIT …] of CREATE STREAM | TABLE: a materialized view."""
    at = parser.token
    parser.expect("AS")
    start = parser.token
    query = parser.query()
    text = parser.span(start)
    emit = parser.emit_clause()
    for key in [key for key in options if key in _STORAGE]:
        del options[key]
        parser.ignores(f'option "{key}" has no effect: the view is in no topic', at)
    return CreateView(
        name=name,
        query=query,
        query_sql=text,
        materialized=True,
        or_replace=or_replace,
        if_not_exists=if_not_exists,
        options=options,
        emit=emit,
    )


def foreign_options(parser: Parser, body: TableBody, options: dict[str, str], token: Token) -> None:
    """Options of Feldera, ksqlDB, RisingWave and Arroyo that are clauses of ours; changes both.

    Raises: FeatureNotSupported (0A000) for Feldera's list of connectors.
    """
    if "connectors" in options:
        raise parser.not_supported(
            "a list of connectors", "Give one: WITH (connector = 'file', path = '…').", token
        )
    for name in ("appendonly", "append.only"):
        if name in options:
            options["append_only"] = options.pop(name)
    if parser.dialect == "arroyo" and options.get("type") == "source":
        del options["type"]
    field = options.pop("event_time_field", None)
    if "kafka_topic" in options:
        options["topic"] = options.pop("kafka_topic")
        options.setdefault("connector", "kafka")
        field = options.pop("timestamp", field)
        if options.pop("timestamp_format", None) is not None:
            parser.differs("time", "timestamp_format is not read: event times are ISO 8601", token)
    for name, reason in _WITHOUT_EFFECT.items():
        if name in options:
            del options[name]
            parser.ignores(f'option "{name}" has no effect: {reason}', token)
    if field is not None and body.watermark is None:
        column = field.strip('`"').lower()
        own = exp.Column(this=exp.Identifier(this=column, quoted=True))
        place = parser.place(token)
        body.watermark = WatermarkDef(column=column, expression=own, position=place)
        parser.differs(
            "time",
            "windows close when the watermark passes them; there a grace period is waited for",
            token,
        )
