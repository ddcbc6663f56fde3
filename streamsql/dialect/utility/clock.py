"""FLUSH and WAIT, and the statements of tests: ADVANCE CLOCK, ADVANCE WATERMARK."""

from __future__ import annotations

from streamsql.core.errors import InvalidParameterValue
from streamsql.dialect.intervals import DAY, interval_parts
from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import AdvanceClock, AdvanceWatermark, Flush, Statement


def parse_flush(parser: Parser) -> Statement:
    """FLUSH, WAIT."""
    parser.advance()
    return Flush()


def parse_advance(parser: Parser) -> Statement:
    """ADVANCE CLOCK TO '…' | BY INTERVAL '…'; ADVANCE WATERMARK FOR t TO '…'."""
    parser.expect("ADVANCE")
    if parser.accept("WATERMARK"):
        parser.expect("FOR")
        relation = parser.object_name()
        parser.expect("TO")
        return AdvanceWatermark(relation=relation, to=_moment(parser))
    parser.expect("CLOCK")
    if parser.accept("BY"):
        return AdvanceClock(by_us=_duration(parser))
    parser.expect("TO")
    return AdvanceClock(to=_moment(parser))


def _moment(parser: Parser) -> str:
    """'…' or TIMESTAMP[TZ] '…'."""
    if parser.at("TIMESTAMP", "TIMESTAMPTZ"):
        parser.data_type()
    return parser.string()


def _duration(parser: Parser) -> int:
    """INTERVAL '…' [unit] or '…', in µs."""
    token = parser.token
    months, days, us = interval_parts(parser.window_interval(parser.expression()))
    if months:
        raise InvalidParameterValue(
            "ADVANCE CLOCK BY takes no months, for they differ in length", position=token.start
        )
    return days * DAY + us
