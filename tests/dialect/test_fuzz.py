"""Damaged statements: whatever is typed, the answer is a statement or a proper error."""

from __future__ import annotations

import os
import random

import pytest
from sqlglot import exp

from streamsql.core.errors import StreamSqlError
from streamsql.dialect import parse, to_sql
from streamsql.dialect.lexer import tokenize

from .test_queries import GOOD_QUERIES
from .test_statements import FORMS

ROUNDS = 300


def words_of(sql: str) -> list[str]:
    return [sql[token.start : token.end] for token in tokenize(sql)[:-1]]


STATEMENTS = [words_of(sql) for sql, _, _ in FORMS] + [words_of(sql) for sql in GOOD_QUERIES]
WORDS = [word for statement in STATEMENTS for word in statement]


def damaged(random_: random.Random) -> str:
    """A good statement with one to three words left out, put in, exchanged, doubled, or its end cut off."""
    words = list(random_.choice(STATEMENTS))
    for _ in range(random_.randint(1, 3)):
        at = random_.randrange(len(words)) if words else 0
        kind = random_.randrange(5)
        if kind == 0:
            words[at : at + 1] = []
        elif kind == 1:
            words.insert(at, random_.choice(WORDS))
        elif kind == 2:
            words[at : at + 1] = [random_.choice(WORDS)]
        elif kind == 3:
            words[at:at] = words[at : at + 1]
        else:
            words = words[:at]
    return " ".join(words)


@pytest.mark.parametrize("seed", range(5))
def test_damaged_statement_parses_or_raises_a_proper_error(seed: int) -> None:
    random_ = random.Random(seed)
    for _ in range(ROUNDS):
        text = damaged(random_)
        try:
            statements = parse(text)
        except StreamSqlError as error:
            assert error.sqlstate != "XX000", text
            assert error.position is not None, text
            assert 0 <= error.position <= len(text), text
            continue
        for statement in statements:
            query = getattr(statement, "query", None)
            if isinstance(query, exp.Expression):
                assert to_sql(query)


@pytest.mark.deep
@pytest.mark.skipif("STREAMSQL_DEEP" not in os.environ, reason="only with make test-deep")
def test_damaged_statements_in_great_number() -> None:
    for seed in range(100, 150):
        test_damaged_statement_parses_or_raises_a_proper_error(seed)


def test_random_characters_parse_or_raise_a_proper_error() -> None:
    random_ = random.Random(7)
    alphabet = "selct fromwhre1'\"$`();,.*/-+<>=:[]{}|&?@#~^%\\\néäE "
    for _ in range(3000):
        text = "".join(random_.choice(alphabet) for _ in range(random_.randint(0, 40)))
        try:
            parse(text)
        except StreamSqlError as error:
            assert error.position is None or 0 <= error.position <= len(text), text
