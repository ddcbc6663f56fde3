"""COPY, with its options in parentheses or in the older bare form."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from streamsql.core.errors import InvalidParameterValue
from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import Copy, Name, Query, Statement, Subscribe

_FORMATS = frozenset({"text", "csv", "binary"})
_TRUE = frozenset({"true", "on", "1", "yes", "match"})
_FALSE = frozenset({"false", "off", "0", "no"})


@dataclass
class _Options:
    format: str = "text"
    header: bool = False
    delimiter: str | None = None
    null: str | None = None
    quote: str | None = None
    escape: str | None = None


def parse_copy(parser: Parser) -> Statement:
    """COPY {t [(columns)] | (query)} {FROM STDIN | TO STDOUT} [[WITH] (options) | old options]."""
    parser.expect("COPY")
    options = _Options()
    if parser.accept("BINARY"):
        options.format = "binary"
    table: Name | None = None
    columns: tuple[str, ...] = ()
    query: exp.Expression | None = None
    subscribe: Subscribe | None = None
    if parser.at("("):
        query, subscribe = _inner(parser)
    else:
        table = parser.object_name()
        columns = parser.name_list() if parser.at("(") else ()
    direction = _direction(parser, from_query=table is None)
    if parser.at("DELIMITERS") or parser.at_sequence("USING", "DELIMITERS"):
        parser.accept("USING")
        parser.advance()
        options.delimiter = parser.string()
    parser.accept("WITH")
    if parser.at("("):
        _new_options(parser, options)
    else:
        _old_options(parser, options)
    if parser.at("WHERE"):
        raise parser.not_supported("COPY … WHERE", "COPY into a table and filter in a view.")
    return Copy(
        direction=direction,
        table=table,
        columns=columns,
        query=query,
        subscribe=subscribe,
        format=options.format,
        header=options.header,
        delimiter=options.delimiter,
        null=options.null,
        quote=options.quote,
        escape=options.escape,
    )


def _inner(parser: Parser) -> tuple[exp.Expression | None, Subscribe | None]:
    parser.expect("(")
    token = parser.token
    inner = parser.statement()
    parser.expect(")")
    if isinstance(inner, Query):
        return inner.query, None
    if isinstance(inner, Subscribe):
        return None, inner
    raise parser.not_supported(
        "COPY of this statement", "COPY (SELECT …) or COPY (SUBSCRIBE …).", token
    )


def _direction(parser: Parser, *, from_query: bool) -> str:
    token = parser.token
    if from_query:
        parser.expect("TO")
        direction = "to"
    elif parser.accept("FROM"):
        direction = "from"
    else:
        parser.expect("TO")
        direction = "to"
    if not parser.accept("STDIN", "STDOUT"):
        if parser.at_string() or parser.at("PROGRAM"):
            raise parser.not_supported(
                "COPY to or from a file of the server",
                "Use STDIN or STDOUT (psql's \\copy), or CREATE SOURCE with connector = 'file'.",
                token,
            )
        raise parser.error()
    return direction


def _new_options(parser: Parser, options: _Options) -> None:
    parser.expect("(")
    while True:
        token = parser.token
        name = parser.label()
        value: str | None = None
        if parser.at("("):  # FORCE_NULL (a, b), FORCE_QUOTE (…)
            parser.name_list()
        elif parser.accept("*"):
            pass
        elif not parser.at(",", ")"):
            value = parser.option_value()
        _set(parser, options, name, value, token.start)
        if not parser.accept(","):
            break
    parser.expect(")")


def _old_options(parser: Parser, options: _Options) -> None:
    """BINARY, CSV, HEADER, DELIMITER [AS] 'c', NULL [AS] 's', QUOTE, ESCAPE, ENCODING, FORCE …."""
    while not parser.at_end() and not parser.at("WHERE"):
        token = parser.token
        if parser.accept("BINARY", "CSV"):
            options.format = token.value
        elif parser.accept("HEADER"):
            options.header = True
        elif parser.accept("DELIMITER", "NULL", "QUOTE", "ESCAPE", "ENCODING"):
            parser.accept("AS")
            _set(parser, options, token.value, parser.string(), token.start)
        elif parser.accept("FREEZE"):
            pass
        elif parser.accept("FORCE"):
            if not (parser.accept("QUOTE", "NULL") or parser.accept_sequence("NOT", "NULL")):
                raise parser.error()
            if not parser.accept("*"):
                parser.comma_list(parser.name)
        else:
            raise parser.error()


def _set(parser: Parser, options: _Options, name: str, value: str | None, position: int) -> None:
    if name == "format":
        found = (value or "").lower()
        if found not in _FORMATS:
            raise InvalidParameterValue(
                f'COPY format "{value}" not recognized',
                position=position,
                hint="Formats are text, csv and binary.",
            )
        options.format = found
    elif name == "header":
        options.header = _boolean(value, position)
    elif name in ("delimiter", "null", "quote", "escape"):
        if value is None:
            raise parser.error()
        setattr(options, name, value)
    elif name == "encoding":
        if (value or "").lower().replace("-", "").replace("_", "") not in ("utf8", "unicode"):
            raise InvalidParameterValue(
                f'argument to option "encoding" must be UTF8, not "{value}"', position=position
            )
    elif name not in ("freeze", "force_quote", "force_not_null", "force_null", "oids"):
        raise parser.error(parser.tokens[parser.index - 1], f'option "{name}" not recognized')


def _boolean(value: str | None, position: int) -> bool:
    if value is None or value.lower() in _TRUE:
        return True
    if value.lower() in _FALSE:
        return False
    raise InvalidParameterValue("header requires a Boolean value", position=position)
