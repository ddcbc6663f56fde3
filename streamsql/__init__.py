"""streamsql: a streaming SQL database.

>>> import streamsql
>>> db = streamsql.connect()
>>> db.execute("SELECT 1 + 1").fetchall()
[(2,)]
>>> try:
...     db.execute("SELECT * FROM nope")
... except streamsql.errors.UndefinedTable as error:
...     print(error.sqlstate, error, error.position)
42P01 relation "nope" does not exist 14
>>> db.close()

Every error is a `StreamSqlError` with `sqlstate`, `message`, `position` (from 0), `detail` and
`hint`: a `StatementError` is the statement's or the data's fault, an `OperationalError` the world's
(disk, memory, cancelling), an `InvariantViolation` ours. `streamsql.errors` has a class for each
SQLSTATE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamsql.core import errors
from streamsql.core.errors import (
    InvariantViolation,
    OperationalError,
    StatementError,
    StreamSqlError,
)

__version__ = "0.1.0"

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streamsql.core.clock import Clock
    from streamsql.engine.database import Database


def connect(path: str = ":memory:", *, clock: Clock | None = None) -> Database:
    """Open a database in this process.

    path: ":memory:", or a directory, which is made if need be and belongs to one process at a
    time. clock: a `streamsql.core.clock.Clock`; the system's by default.
    Raises: DataDirectoryInUse (55006), DataCorrupted (XX001).
    """
    from streamsql.engine.database import Database as _Database

    return _Database(path, clock=clock)


def warm_up(
    progress: Callable[[str, int, int], None] | None = None, rooms: Sequence[str] = ()
) -> int:
    """Compile the kernels that common statements use, which takes seconds the first time.

    Without it they are compiled when they are first needed. progress(what comes next, kernels
    compiled so far, kernels known); rooms: names of modules whose `EXERCISES` (pairs of a name and
    a function) are run as well. Returns the number of kernels compiled.
    """
    from streamsql.engine.warmup import warm_up as run

    return run(progress, rooms)


def __getattr__(name: str) -> Any:
    if name == "Database":
        from streamsql.engine.database import Database as _Database

        return _Database
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "InvariantViolation",
    "OperationalError",
    "StatementError",
    "StreamSqlError",
    "__version__",
    "connect",
    "errors",
]
