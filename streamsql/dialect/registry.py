"""Which words start which statement: one line a statement, most special first."""

from __future__ import annotations

from collections.abc import Callable

from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import Statement
from streamsql.dialect.unsupported import OTHERS, refuse
from streamsql.dialect.utility.alter import parse_alter, parse_pause
from streamsql.dialect.utility.clock import parse_advance, parse_flush
from streamsql.dialect.utility.comment import parse_comment
from streamsql.dialect.utility.copy import parse_copy
from streamsql.dialect.utility.create import parse_create
from streamsql.dialect.utility.cursors import parse_close, parse_declare, parse_fetch
from streamsql.dialect.utility.delete import parse_delete, parse_truncate
from streamsql.dialect.utility.drop import parse_drop, parse_terminate
from streamsql.dialect.utility.explain import parse_explain
from streamsql.dialect.utility.insert import parse_insert
from streamsql.dialect.utility.jobs import parse_cancel
from streamsql.dialect.utility.merge import parse_merge
from streamsql.dialect.utility.notify import parse_listen, parse_notify, parse_unlisten
from streamsql.dialect.utility.prepared import parse_deallocate, parse_execute, parse_prepare
from streamsql.dialect.utility.queries import parse_query
from streamsql.dialect.utility.settings import parse_discard, parse_reset, parse_set
from streamsql.dialect.utility.show import parse_describe, parse_show
from streamsql.dialect.utility.subscribe import parse_subscribe
from streamsql.dialect.utility.transaction import (
    parse_begin,
    parse_commit,
    parse_prepare_transaction,
    parse_release,
    parse_rollback,
    parse_savepoint,
)
from streamsql.dialect.utility.update import parse_update
from streamsql.dialect.utility.verify import parse_translate, parse_verify

StatementParser = Callable[[Parser], Statement]

STATEMENTS: tuple[tuple[str, StatementParser], ...] = (
    ("SELECT", parse_query),
    ("WITH", parse_query),
    ("VALUES", parse_query),
    ("TABLE", parse_query),
    ("(", parse_query),
    ("INSERT", parse_insert),
    ("UPDATE", parse_update),
    ("DELETE", parse_delete),
    ("TRUNCATE", parse_truncate),
    ("MERGE", parse_merge),
    ("COPY", parse_copy),
    ("SUBSCRIBE", parse_subscribe),
    ("TAIL", parse_subscribe),
    # definitions
    ("CREATE", parse_create),
    ("DROP", parse_drop),
    ("ALTER", parse_alter),
    ("COMMENT", parse_comment),
    ("CANCEL", parse_cancel),
    ("PAUSE", parse_pause),
    ("RESUME", parse_pause),
    ("TERMINATE", parse_terminate),
    # transactions
    ("BEGIN", parse_begin),
    ("START TRANSACTION", parse_begin),
    ("COMMIT", parse_commit),
    ("END", parse_commit),
    ("ROLLBACK", parse_rollback),
    ("ABORT", parse_rollback),
    ("SAVEPOINT", parse_savepoint),
    ("RELEASE", parse_release),
    # the session
    ("SET", parse_set),
    ("RESET", parse_reset),
    ("UNSET", parse_reset),
    ("SHOW", parse_show),
    ("LIST", parse_show),
    ("DESCRIBE", parse_describe),
    ("DESC", parse_describe),
    ("DISCARD", parse_discard),
    ("PREPARE TRANSACTION", parse_prepare_transaction),
    ("PREPARE", parse_prepare),
    ("EXECUTE", parse_execute),
    ("DEALLOCATE", parse_deallocate),
    ("DECLARE", parse_declare),
    ("FETCH", parse_fetch),
    ("MOVE", parse_fetch),
    ("CLOSE", parse_close),
    ("LISTEN", parse_listen),
    ("UNLISTEN", parse_unlisten),
    ("NOTIFY", parse_notify),
    # operations
    ("EXPLAIN", parse_explain),
    ("VERIFY", parse_verify),
    ("TRANSLATE", parse_translate),
    ("FLUSH", parse_flush),
    ("WAIT", parse_flush),
    ("ADVANCE", parse_advance),
    # known to PostgreSQL, refused here
    *((word, refuse) for word in OTHERS),
)


def _by_first_word() -> dict[str, tuple[tuple[tuple[str, ...], StatementParser], ...]]:
    found: dict[str, list[tuple[tuple[str, ...], StatementParser]]] = {}
    for text, parse_it in STATEMENTS:
        words = tuple(text.split())
        found.setdefault(words[0], []).append((words, parse_it))
    return {word: tuple(entries) for word, entries in found.items()}


PARSERS = _by_first_word()
"""First word -> its statements in the order of STATEMENTS."""
