"""Exceptions and notices to the fields of ErrorResponse and NoticeResponse."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import structlog

from streamsql.core.errors import InvariantViolation, StreamSqlError
from streamsql.engine.api import Notice
from streamsql_server.protocol import messages

log = structlog.get_logger("streamsql.server")


def error_fields(error: BaseException, severity: str = "ERROR") -> list[tuple[str, str]]:
    """Fields of an error; what is not ours becomes XX000 without a traceback.

    `position` of our errors is 0-based in characters; the wire counts from 1.
    """
    if isinstance(error, StreamSqlError):
        fields = [("S", severity), ("V", severity), ("C", error.sqlstate), ("M", error.message)]
        if error.detail:
            fields.append(("D", error.detail))
        if error.hint:
            fields.append(("H", error.hint))
        if error.position is not None:
            fields.append(("P", str(error.position + 1)))
        return fields
    shown = f"internal error: {type(error).__name__}: {error}"
    return [("S", severity), ("V", severity), ("C", "XX000"), ("M", shown)]


def error_message(error: BaseException, severity: str = "ERROR") -> bytes:
    """The ErrorResponse of an exception; our own bugs are logged with their traceback."""
    if not isinstance(error, StreamSqlError) or isinstance(error, InvariantViolation):
        log.error("statement failed by an internal error", exc_info=error)
    return messages.error_response(error_fields(error, severity))


@contextlib.contextmanager
def positions_from(start: int) -> Iterator[None]:
    """The session counts positions from the beginning of a statement, the client from that of the
    text it sent, in which the statement begins at `start`."""
    try:
        yield
    except StreamSqlError as error:
        if error.position is not None:
            error.position += start
        raise


def notice_message(notice: Notice) -> bytes:
    """The NoticeResponse of a notice."""
    fields = [
        ("S", notice.severity),
        ("V", notice.severity),
        ("C", notice.sqlstate),
        ("M", notice.message),
    ]
    if notice.hint:
        fields.append(("H", notice.hint))
    return messages.notice_response(fields)
