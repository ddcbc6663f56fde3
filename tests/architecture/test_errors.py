"""Every SQLSTATE we raise is one PostgreSQL knows, so that drivers map it."""

import psycopg.errors
import pytest

from streamsql.core import errors

CLASSES = [
    c
    for c in vars(errors).values()
    if isinstance(c, type)
    and issubclass(c, errors.StreamSqlError)
    and c is not errors.StreamSqlError
]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_sqlstate_is_known_to_psycopg(cls: type[errors.StreamSqlError]) -> None:
    assert psycopg.errors.lookup(cls.sqlstate) is not None


def test_at_keeps_the_first_position() -> None:
    error = errors.UndefinedColumn("x", position=3)
    assert error.at(9).position == 3
    assert errors.UndefinedColumn("x").at(9).position == 9
