"""Whether what is read is kept up to date, and still has the columns that a statement knows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from streamsql.engine.catalog import describe
from streamsql.engine.ddl import concurrent_update
from streamsql.engine.reads.view import base_of, slot_of
from streamsql.engine.relations import Relation
from streamsql.plan.nodes import LogicalPlan
from streamsql.plan.visit import scans

if TYPE_CHECKING:
    from streamsql.engine.session import Session

HIDDEN = "\x00"
"""First character of the names of columns that tables have beside the users'."""


def tell_suspended(session: Session, relation_ids: Iterable[int]) -> None:
    """NOTICE, once a statement, for each suspended view whose rows as of now are read (ids of the
    plan): they are those of when it was suspended."""
    catalog = session.catalog
    for number in relation_ids:
        oid = base_of(number)
        if number < 0 or slot_of(number) is not None:  # an older version is what was asked for
            continue
        layout = catalog.layouts.get(oid)
        view = catalog.relations.get(oid if layout is None else layout.of)
        if view is None or view.suspended is None:
            continue
        cause = catalog.relations.get(view.suspended, view)
        text = f"{describe(view)} is suspended: its rows are those of when it was"
        if all(known.message != text for known in session.notices):
            words = describe(cause).removeprefix(cause.kind_words)
            resume = f"ALTER {cause.kind_words.upper()}{words} RESUME"
            session.notice(text, hint=f"{resume} brings it up to date.")


def check_current(session: Session, plan: LogicalPlan, bound_in: int | None = None) -> None:
    """After the rows were taken: no ALTER came between binding and reading.

    bound_in: version of the catalog that the plan was bound in, if it is known; then nothing has to
    be looked at as long as that is the newest.
    Raises: SerializationFailure (40001); outside of a transaction the statement is run again.
    """
    if session.engine.catalog.version == bound_in:
        return
    for scan in scans(plan):
        oid = base_of(scan.relation_id)
        known = known_to(session, oid) if scan.relation_id >= 0 else None
        if known is None:
            continue
        visible = tuple(c.type for c in scan.schema if not c.name.startswith(HIDDEN))
        if visible != known.columns.types:
            raise concurrent_update()


def known_to(session: Session, oid: int) -> Relation | None:
    """The relation whose rows the session reads: the transaction's own, or the present one."""
    transaction, present = session.transaction, session.engine.catalog
    if transaction is None:
        return present.known(oid)
    layout = transaction.catalog.layouts.get(oid)
    own = (oid if layout is None else layout.of) in transaction.new_tables
    return transaction.catalog.known(oid) if own else present.known(oid)
