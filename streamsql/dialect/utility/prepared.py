"""PREPARE, EXECUTE, DEALLOCATE."""

from __future__ import annotations

from streamsql.core.types import SqlType
from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import (
    Deallocate,
    ExecuteStatement,
    PrepareStatement,
    Statement,
    Transaction,
)


def parse_prepare(parser: Parser) -> Statement:
    """PREPARE name [(type, …)] AS statement."""
    parser.expect("PREPARE")
    name = parser.name()
    types: tuple[SqlType, ...] = ()
    if parser.at("("):
        types = tuple(parser.in_parentheses(lambda: parser.comma_list(parser.sql_type)))
    parser.expect("AS")
    if not (parser.at_query() or parser.at("INSERT", "UPDATE", "DELETE", "MERGE", "SUBSCRIBE")):
        raise parser.error()
    return PrepareStatement(name=name, types=types, statement=parser.statement())


def parse_execute(parser: Parser) -> Statement:
    """EXECUTE name [(argument, …)]; Flink's EXECUTE <statement> is that statement."""
    parser.expect("EXECUTE")
    if parser.at("INSERT", "SELECT"):
        return parser.statement()
    if parser.accept_sequence("STATEMENT", "SET"):
        parser.expect("BEGIN")
        return Transaction(action="begin")
    name = parser.name()
    arguments = []
    if parser.at("("):
        arguments = parser.in_parentheses(lambda: parser.comma_list(parser.expression))
    return ExecuteStatement(name=name, arguments=tuple(arguments))


def parse_deallocate(parser: Parser) -> Statement:
    """DEALLOCATE [PREPARE] {name | ALL}."""
    parser.expect("DEALLOCATE")
    parser.accept("PREPARE")
    return Deallocate(name=None if parser.accept("ALL") else parser.name())
