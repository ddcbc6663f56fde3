"""Whether what was read still has the columns that the statement was bound to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsql.engine.ddl import concurrent_update
from streamsql.engine.reads.plans import scans
from streamsql.engine.reads.view import base_of
from streamsql.engine.relations import Relation
from streamsql.plan.nodes import LogicalPlan

if TYPE_CHECKING:
    from streamsql.engine.session import Session

HIDDEN = "\x00"
"""First character of the names of columns that tables have beside the users'."""


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
