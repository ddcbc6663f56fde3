"""MERGE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from streamsql.dialect.statements import Merge
from streamsql.engine.api import Result
from streamsql.engine.dml.execute import carry_out, state_of, target_table
from streamsql.engine.dml.merge import BoundMerge, MergeWrite
from streamsql.engine.dml.merge_binding import bind_merge
from streamsql.engine.statements.common import cached, lookup
from streamsql.engine.statements.handler import Description, Handler, Types
from streamsql.functions.expressions import Literal

if TYPE_CHECKING:
    from streamsql.engine.session import Session


def bound_merge(session: Session, statement: Merge, declared: Types) -> BoundMerge:
    """The bound statement, from the cache. Raises: errors of binding."""
    target = statement.tree.this
    relation = lookup(session, tuple(part.name for part in target.parts))
    actions = [when.args["then"] for when in statement.tree.args["whens"].expressions]
    changes = any(isinstance(a, exp.Update) or a.name == "DELETE" for a in actions)
    target_table(relation, what="merge into", changes_rows=changes)
    table = state_of(session, relation)
    return cached(
        session,
        "merge",
        statement,
        declared,
        lambda: bind_merge(statement, table, session.scope, declared),
    )


def describe(session: Session, statement: Merge, declared: Types) -> Description:
    """Parameter types and the columns of RETURNING."""
    bound = bound_merge(session, statement, declared)
    columns = None if bound.returning is None else bound.returned
    return Description(columns, bound.parameter_types)


def run(session: Session, statement: Merge, values: tuple[Literal, ...], declared: Types) -> Result:
    """MERGE INTO … USING … ON … WHEN … [RETURNING …]."""
    bound = bound_merge(session, statement, declared)
    write = MergeWrite(session, bound, values)
    resolved = carry_out(session, state_of(session, bound.relation), write)
    tag = f"MERGE {resolved.affected}"
    if write.returned is None:
        return Result(tag, row_count=resolved.affected)
    return Result(tag, bound.returned, iter((write.returned,)), row_count=resolved.affected)


HANDLER = Handler(run, describe, "MERGE")
