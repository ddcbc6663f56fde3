"""The implicit transaction of PostgreSQL's protocol.

Several statements in one simple query, or several Executes before one Sync, succeed or fail
together, without anybody having said BEGIN. BEGIN inside makes the transaction an explicit one.
"""

from __future__ import annotations

from streamsql.engine.api import Notice, SessionApi
from streamsql_server.conversation.keywords import transaction_word

NO_TRANSACTION = Notice("there is no transaction in progress", "WARNING", "25P01")


class ImplicitBlock:
    """Opens and ends the implicit transaction of one session."""

    def __init__(self, session: SessionApi) -> None:
        self._session = session
        self._open = False

    def before(self, sql: str, *, alone: bool) -> Notice | None:
        """Called before each statement; a notice that is due with it.

        alone: no other statement shares its fate.
        """
        word = transaction_word(sql)
        if word is None:
            if not alone and self._session.transaction_status == "I":
                self._session.begin_implicit()
                self._open = True
            return None
        was_open, self._open = self._open, False  # BEGIN takes it over, the others end it
        return NO_TRANSACTION if was_open and word != "BEGIN" else None

    def commit(self) -> None:
        """Makes an open block's work permanent. Raises what the commit raises."""
        if self._open:
            self._open = False
            self._session.end_implicit(commit=True)

    def rollback(self) -> None:
        """Undoes an open block's work."""
        if self._open:
            self._open = False
            self._session.end_implicit(commit=False)

    @property
    def is_open(self) -> bool:
        """Is a block open? Its portals live on although the session looks idle."""
        return self._open
