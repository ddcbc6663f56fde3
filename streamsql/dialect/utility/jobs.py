"""CANCEL JOB and CANCEL JOBS (RisingWave)."""

from __future__ import annotations

from streamsql.dialect.lexer import Kind
from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import CancelJobs, Statement


def parse_cancel(parser: Parser) -> Statement:
    """CANCEL {JOB | JOBS} n, …; CANCEL JOBS alone means all of them."""
    parser.expect("CANCEL")
    every = parser.accept("JOBS")
    if not every:
        parser.expect("JOB")
    if every and parser.token.kind is not Kind.NUMBER:
        return CancelJobs(ids=None)
    return CancelJobs(ids=tuple(parser.comma_list(lambda: _number(parser))))


def _number(parser: Parser) -> int:
    token = parser.token
    if token.kind is not Kind.NUMBER or not token.value.isdecimal():
        raise parser.error()
    return int(parser.advance().value)
