"""EXPLAIN."""

from __future__ import annotations

from dataclasses import dataclass

from streamsql.core.errors import InvalidParameterValue
from streamsql.dialect.hints import alone
from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import Explain, Statement

_FORMATS = frozenset({"text", "json", "dot"})
# options of PostgreSQL and RisingWave that change nothing in what we print
_ACCEPTED = frozenset(
    {"costs", "settings", "buffers", "wal", "timing", "summary", "generic_plan", "memory",
     "serialize", "trace", "logical", "physical", "distsql", "backfill"}
)  # fmt: skip
_PLANS = ("OPTIMIZED", "PHYSICAL", "RAW", "DECORRELATED", "LOCALLY", "ESTIMATED_COST",
          "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE")  # fmt: skip
_NO = frozenset({"false", "off", "0", "no"})


@dataclass
class _Options:
    analyze: bool = False
    verbose: bool = False
    format: str = "text"


def parse_explain(parser: Parser) -> Statement:
    """EXPLAIN [ANALYZE] [VERBOSE] | [(options)] {statement | [ANALYZE] MATERIALIZED VIEW v}."""
    parser.expect("EXPLAIN")
    options = _Options()
    if parser.at("(") and not parser.at_query():
        _parenthesised(parser, options)
    else:
        while parser.at("ANALYZE", "ANALYSE", "VERBOSE"):
            if parser.advance().key == "VERBOSE":
                options.verbose = True
            else:
                options.analyze = True
        if parser.at("(") and not parser.at_query():
            _parenthesised(parser, options)
    _plan_words(parser)
    view = None
    inner: Statement | None = None
    if parser.at_sequence("MATERIALIZED", "VIEW"):
        parser.accept_sequence("MATERIALIZED", "VIEW")
        view = parser.object_name()
    else:
        _refuse_bare_name(parser, options)
        inner = parser.statement()
    return Explain(
        statement=inner,
        analyze=options.analyze,
        verbose=options.verbose,
        format=options.format,
        materialized_view=view,
    )


def _refuse_bare_name(parser: Parser, options: _Options) -> None:
    """EXPLAIN v, EXPLAIN VIEW v: a name where a statement is to stand. Raises: SqlSyntaxError."""
    from streamsql.dialect.registry import PARSERS

    name = None if parser.token.key in PARSERS else alone(parser)
    if name is None:
        return
    said = [word for word, on in (("ANALYZE", options.analyze), ("VERBOSE", options.verbose)) if on]
    words = " ".join(["EXPLAIN", *said])
    raise parser.error(
        hint=f"Write {words} MATERIALIZED VIEW {name}, or {words} SELECT … for the plan of a query."
    )


def _plan_words(parser: Parser) -> None:
    """What Flink and Materialize write to choose a plan: there is one here."""
    if parser.at("TIMESTAMP", "MEMORY", "CPU", "FILTER"):
        raise parser.not_supported(
            f"EXPLAIN {parser.token.key}",
            "EXPLAIN (ANALYZE, VERBOSE) MATERIALIZED VIEW shows rows and bytes.",
        )
    while parser.at(*_PLANS):
        parser.advance()
        parser.accept(",")
    if parser.accept("PLAN"):
        parser.accept("FOR")


def _parenthesised(parser: Parser, options: _Options) -> None:
    token = parser.token
    for name, value in parser.options().items():
        on = value.lower() not in _NO
        if name in ("analyze", "analyse"):
            options.analyze = on
        elif name == "verbose":
            options.verbose = on
        elif name == "format" or (value == "true" and name in _FORMATS):
            options.format = (value if name == "format" else name).lower()
            if options.format not in _FORMATS:
                raise InvalidParameterValue(
                    f'unrecognized value for EXPLAIN option "format": "{value}"',
                    position=token.start,
                    hint="Formats are TEXT, JSON and DOT.",
                )
        elif name not in _ACCEPTED:
            raise parser.error(token, f'unrecognized EXPLAIN option "{name}"')
