"""DuckDB's errors as ours: the SQLSTATE PostgreSQL would give."""

from __future__ import annotations

import re
from typing import Any

from streamsql.core import errors
from streamsql.core.errors import StreamSqlError

_OURS = re.compile(r"streamsql:([0-9A-Z]{5}):(.*)", re.DOTALL)


def _by_sqlstate() -> dict[str, type[StreamSqlError]]:
    found: dict[str, type[StreamSqlError]] = {}
    pending = [StreamSqlError]
    while pending:
        cls = pending.pop(0)
        found.setdefault(cls.sqlstate, cls)
        pending.extend(cls.__subclasses__())
    return found


def error_class(sqlstate: str) -> type[StreamSqlError]:
    """The class of a SQLSTATE."""
    return _by_sqlstate().get(sqlstate, errors.InvariantViolation)


def translate(exc: Any) -> StreamSqlError:
    """The error of ours for a duckdb.Error."""
    text = str(exc)
    m = _OURS.search(text)
    if m:
        return error_class(m[1])(m[2].strip())
    return errors.InvariantViolation(text)
