"""`streamsql.connect(…)`: a database in this process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, TypeVar

from streamsql.core.clock import Clock
from streamsql.engine.api import Result
from streamsql.engine.bulk import Subscription, insert_data, subscribe
from streamsql.engine.engine import Engine
from streamsql.engine.pgcatalog import PgCatalog
from streamsql.engine.session import Session
from streamsql.runtime.scheduler import closed_error
from streamsql.state.filesystem import FileSystem

if TYPE_CHECKING:
    from streamsql.engine.pgcatalog import PgCatalog

T = TypeVar("T")

PLANS_MAX = 512


class PlanCache:
    """Bound statements by text and what they depend on; the least recently used go first."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The entry, made if it is not there."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
                return found  # type: ignore[no-any-return]
        made = make()
        with self._lock:
            self._entries[key] = made
            while len(self._entries) > PLANS_MAX:
                self._entries.popitem(last=False)
        return made


class Database:
    """A database; safe to use from several threads, each best with a session of its own.

    path: ":memory:", or a directory that keeps everything. clock: where time comes from. files: the
    file system, another one in tests.
    """

    def __init__(
        self,
        path: str = ":memory:",
        *,
        clock: Clock | None = None,
        files: FileSystem | None = None,
    ) -> None:
        self.path = path
        self.plans = PlanCache()
        self.engine = Engine(None if path == ":memory:" else path, clock, files)
        self._sessions: set[Session] = set()
        self._lock = threading.RLock()
        self._default: Session | None = None
        self._pg_catalog: PgCatalog | None = None

    # --- sessions -------------------------------------------------------------------------------
    def session(self, *, user: str = "streamsql", backend_pid: int = 0) -> Session:
        """A new session."""
        session = Session(self, user, backend_pid)
        with self._lock:
            self._sessions.add(session)
        return session

    def session_closed(self, session: Session) -> None:
        """Called by a session that closes itself."""
        with self._lock:
            self._sessions.discard(session)

    @property
    def sessions(self) -> list[Session]:
        """The sessions that are open, oldest first."""
        with self._lock:
            return sorted(self._sessions, key=lambda s: s.number)

    @property
    def default_session(self) -> Session:
        """The session of `execute`."""
        with self._lock:
            if self._default is None or self._default.closed:
                self._default = self.session()
            return self._default

    # --- the public interface -------------------------------------------------------------------
    def execute(self, sql: str, parameters: Any = None) -> Result:
        """Run statements in the default session; the last one's result."""
        return self.default_session.execute(sql, parameters)

    def insert(self, relation: str, data: Any) -> int:
        """Insert rows that are in memory; returns how many.

        data: an Arrow table, batch or stream, a pandas or polars dataframe, or a list of dicts.
        Columns are matched by name; those that are missing get their defaults.
        Raises: as INSERT does.
        """
        return insert_data(self.default_session, relation, data)

    def subscribe(
        self,
        relation: str,
        *,
        snapshot: bool = True,
        progress: bool = False,
        as_of: int | None = None,
        up_to: int | None = None,
    ) -> Subscription:
        """The changes of a table, view or query, as an iterator of Arrow batches.

        Each batch has the columns `version`, `weight` and then the relation's; it ends when
        `close()` is called or `up_to` has passed. relation: a name, or a SELECT.
        """
        if self.engine.closed:
            raise closed_error()
        return subscribe(
            self, relation, snapshot=snapshot, progress=progress, as_of=as_of, up_to=up_to
        )

    @property
    def version(self) -> int:
        """The newest version."""
        return self.engine.version

    def close(self) -> None:
        """Close all sessions, write a last checkpoint, free the directory."""
        with self._lock:
            sessions = list(self._sessions)
        for session in sessions:
            session.close()
        self.engine.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # --- for the engine -------------------------------------------------------------------------
    def pg_catalog(self) -> PgCatalog:
        """`pg_catalog` and `information_schema`."""
        if self._pg_catalog is None:
            from streamsql.engine.pgcatalog import PgCatalog as _PgCatalog

            self._pg_catalog = _PgCatalog()
        return self._pg_catalog


def connect(path: str = ":memory:", *, clock: Clock | None = None) -> Database:
    """Open or create a database. Raises: DataDirectoryInUse (55006), DataCorrupted (XX001)."""
    return Database(path, clock=clock)
