"""The implicit transaction of PostgreSQL's protocol.

Several statements in one simple query, or several Executes before one Sync, succeed or fail
together, without anybody having said BEGIN. BEGIN inside makes the transaction an explicit one.
"""

from __future__ import annotations

import contextlib

from streamsql.core.errors import StreamSqlError
from streamsql.engine.api import Notice, Result, SessionApi
from streamsql_server.conversation.keywords import transaction_word
from streamsql_server.conversation.results import close_batches

NO_TRANSACTION = Notice("there is no transaction in progress", "WARNING", "25P01")


class ImplicitBlock:
    """Opens, ends and converts the implicit transaction of one session."""

    def __init__(self, session: SessionApi) -> None:
        self._session = session
        self.open = False

    def _run(self, sql: str) -> None:
        result = self._session.run(self._session.parse(sql)[0])
        if isinstance(result, Result):
            close_batches(result.batches)

    def before(self, sql: str, *, alone: bool) -> Result | None:
        """Called before each statement. alone: no other statement shares its fate.

        A result that is returned stands for the statement, which must not run.
        """
        word = transaction_word(sql)
        if word == "BEGIN" and self.open:
            self.open = False  # from here on it is an explicit one
            return Result("BEGIN")
        if word is not None:
            if self.open:
                self.commit() if word == "COMMIT" else self.rollback()
                return Result(word, notices=[NO_TRANSACTION])
            return None
        if not alone and not self.open and self._session.transaction_status == "I":
            self._run("BEGIN")
            self.open = True
        return None

    def commit(self) -> None:
        """Makes an open block's work permanent. Raises what the commit raises."""
        if self.open:
            self.open = False
            self._run("COMMIT")

    def rollback(self) -> None:
        """Undoes an open block's work."""
        if self.open:
            self.open = False
            with contextlib.suppress(StreamSqlError):
                self._run("ROLLBACK")

    @property
    def status(self) -> str:
        """What ReadyForQuery says; an implicit block never shows."""
        return "I" if self.open else self._session.transaction_status
