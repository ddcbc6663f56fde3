"""LISTEN, UNLISTEN, NOTIFY."""

from __future__ import annotations

from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import Notify, Statement


def parse_listen(parser: Parser) -> Statement:
    """LISTEN channel."""
    parser.expect("LISTEN")
    return Notify(action="listen", channel=parser.name())


def parse_unlisten(parser: Parser) -> Statement:
    """UNLISTEN {channel | *}; channel None = all."""
    parser.expect("UNLISTEN")
    return Notify(action="unlisten", channel=None if parser.accept("*") else parser.name())


def parse_notify(parser: Parser) -> Statement:
    """NOTIFY channel [, 'payload']."""
    parser.expect("NOTIFY")
    channel = parser.name()
    return Notify(
        action="notify", channel=channel, payload=parser.string() if parser.accept(",") else None
    )
