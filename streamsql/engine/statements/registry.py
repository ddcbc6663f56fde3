"""The statements by class; what is not here answers 0A000 with a way round."""

from __future__ import annotations

from typing import Any

from streamsql.core.errors import FeatureNotSupported
from streamsql.dialect import statements as s
from streamsql.engine.api import Result
from streamsql.engine.statements import (
    admin,
    alter,
    comments,
    copy,
    cursors,
    dml,
    explain,
    indexes,
    jobs,
    merge,
    prepared,
    queries,
    recursive_views,
    schemas,
    show,
    subscribe,
    subscriptions,
    tables,
    transactions,
    translate,
    variables,
    verify,
    views,
    with_writes,
)
from streamsql.engine.statements.handler import Handler


def _empty(session: Any, statement: Any, values: Any, declared: Any) -> Result:
    return Result("")


STATEMENTS: dict[type[s.Statement], Handler] = {
    s.Query: queries.HANDLER,
    s.Insert: dml.INSERT,
    s.Update: dml.UPDATE,
    s.Delete: dml.DELETE,
    s.Merge: merge.HANDLER,
    s.WithWrites: with_writes.HANDLER,
    s.Truncate: dml.TRUNCATE,
    s.Transaction: transactions.HANDLER,
    s.SetVariable: variables.SET,
    s.ShowVariable: variables.SHOW,
    s.Discard: variables.DISCARD,
    s.CreateTable: tables.HANDLER,
    s.CreateView: views.HANDLER,
    s.CreateSchema: schemas.CREATE_SCHEMA,
    s.CreateIndex: indexes.CREATE,
    s.CreateSubscription: subscriptions.CREATE,
    s.Drop: schemas.DROP,
    s.Alter: alter.HANDLER,
    s.CancelJobs: jobs.CANCEL,
    s.Comment: comments.COMMENT,
    s.Explain: explain.HANDLER,
    s.Copy: copy.HANDLER,
    s.Subscribe: subscribe.HANDLER,
    s.DeclareCursor: cursors.DECLARE,
    s.DeclareRecursive: recursive_views.HANDLER,
    s.Fetch: cursors.FETCH,
    s.CloseCursor: cursors.CLOSE,
    s.PrepareStatement: prepared.PREPARE,
    s.ExecuteStatement: prepared.EXECUTE,
    s.Deallocate: prepared.DEALLOCATE,
    s.ShowObjects: show.SHOW_OBJECTS,
    s.ShowCreate: show.SHOW_CREATE,
    s.Describe: show.DESCRIBE,
    s.Flush: admin.FLUSH,
    s.AdvanceClock: admin.ADVANCE_CLOCK,
    s.AdvanceWatermark: admin.ADVANCE_WATERMARK,
    s.Verify: verify.VERIFY,
    s.Translate: translate.HANDLER,
    s.Notify: admin.NOTIFY,
    s.Empty: Handler(_empty, in_failed=True),
}

HINTS: dict[type[s.Statement], tuple[str, str]] = {
    s.CreateSink: ("CREATE SINK", "Read the changes with SUBSCRIBE, or COPY (SUBSCRIBE ...) TO."),
}


def handler_of(statement: s.Statement) -> Handler:
    """Raises: FeatureNotSupported (0A000)."""
    found = STATEMENTS.get(type(statement))
    if found is not None:
        return found
    name, hint = HINTS.get(type(statement), (type(statement).__name__, "Leave it out."))
    raise FeatureNotSupported(f"{name} is not supported yet", hint=hint)
