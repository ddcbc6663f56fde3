"""A database in memory, and small helpers to read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import streamsql
from streamsql.core.errors import StreamSqlError
from streamsql.engine.database import Database

Rows = list[tuple[Any, ...]]


@pytest.fixture
def db() -> Iterator[Database]:
    with streamsql.connect() as database:
        yield database


@pytest.fixture
def rows(db: Database) -> Callable[..., Rows]:
    """The rows of a query, sorted."""

    def run(sql: str, parameters: Any = None) -> Rows:
        return sorted(db.execute(sql, parameters).fetchall(), key=repr)

    return run


@pytest.fixture
def fails(db: Database) -> Callable[..., StreamSqlError]:
    """The error of a statement, whose SQLSTATE is checked."""

    def run(sql: str, sqlstate: str, parameters: Any = None) -> StreamSqlError:
        with pytest.raises(StreamSqlError) as caught:
            db.execute(sql, parameters).fetchall()
        assert caught.value.sqlstate == sqlstate, caught.value
        return caught.value

    return run
