"""Where in the statement's text a tree node was written."""

from __future__ import annotations

from typing import Protocol, TypeVar

from sqlglot import exp

N = TypeVar("N", bound=exp.Expression)


class _HasStart(Protocol):
    start: int


def mark(node: N, token: _HasStart) -> N:
    """Remember where `node` starts; returns it."""
    node.meta["start"] = token.start
    return node


def position_of(node: exp.Expression) -> int | None:
    """0-based offset of `node` in its statement's text, or of the first of its parts that has one.

    None for nodes that no text stands for.
    """
    start = node.meta.get("start")
    if start is not None:
        return int(start)
    found = [
        position
        for child in node.iter_expressions()
        if (position := position_of(child)) is not None
    ]
    return min(found, default=None)


def position_of_name(sql: str, name: str) -> int | None:
    """0-based offset of the first identifier in a statement's text that means this (folded) name.

    For the names that statements hold as plain data: the target of a write and its columns.

    >>> position_of_name("INSERT INTO t (A) VALUES (1)", "a")
    15
    """
    from streamsql.dialect.lexer import tokenize

    for token in tokenize(sql):
        if token.value == name and (token.key or sql[token.start] == '"'):
            return token.start
    return None
