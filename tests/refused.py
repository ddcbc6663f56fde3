"""`refused`: a test expects an error of the user's, by its SQLSTATE and its message.

For refusals that no golden script can bring about, because a second thread must act within a
statement. `tests/golden/test_refusals.py` reads the calls and counts those refusals as reached, so
both arguments must be plain texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from streamsql.core.errors import StreamSqlError


@contextmanager
def refused(sqlstate: str, message: str) -> Iterator[None]:
    """The block raises an error of just this SQLSTATE and message."""
    with pytest.raises(StreamSqlError) as caught:
        yield
    assert (caught.value.sqlstate, caught.value.message) == (sqlstate, message)
