"""What a change of the catalog prepares beside the running engine, so that nobody waits for it.

Rows in other columns, views, indexes and constraints over many rows are *parts* of a job (`jobs`):
each starts from the rows of one version on the job's thread, follows the ticks that come meanwhile,
and is put in its place in the version in which the change is in force. Changes of little data have
no parts: they are made at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from streamsql.core.delta import Delta
from streamsql.core.errors import StreamSqlError, UndefinedObject, WrongObjectType
from streamsql.engine.catalog import Catalog, describe
from streamsql.engine.ddl import (
    AlterRelations,
    CreateRelation,
    DdlOp,
    DropRelation,
    DropSchemaOp,
    RowsChange,
    StartJob,
)
from streamsql.engine.indexes import owner_oid
from streamsql.engine.relations import Relation
from streamsql.engine.requests import Tick

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine
    from streamsql.engine.jobs import Job


NOTES = ("private", "private_tag")
"""What `Relation.extra` says of the labels of a view's nodes (`operators.builder.Options`)."""


class Part(Protocol):
    """One thing that a job makes. Methods are called by the job's thread if nothing is said."""

    @property
    def rows(self) -> int:
        """How many rows there are to start from."""
        ...

    def fill(self) -> Iterator[int]:
        """Take in the rows that were there at the start; gives the number taken, now and then."""
        ...

    def prepare(self, engine: Engine) -> None:
        """All rows are in: what will be wanted at once when the part is in its place."""
        ...

    def note(
        self,
        engine: Engine,
        tick: Tick,
        deltas: Mapping[int, list[Delta]],
        outputs: Mapping[int, Delta],
    ) -> Any | None:
        """Engine thread: what of a tick is to be followed; None = nothing."""
        ...

    def follow(self, noted: Any) -> None:
        """Take in what was noted of a tick."""
        ...

    def finish(self) -> None:
        """Engine thread: every tick is taken in."""
        ...

    def close(self) -> None:
        """Engine thread: the job is over, well or not."""
        ...


class RelationBusy(Exception):
    """A job works on what the change is about: wait for it, and look again."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"job {job.id} works on the relation")
        self.job = job


@dataclass(frozen=True)
class Touched:
    """OIDs of relations that a change of the catalog gives other definitions, and of those that it
    only reads; names of schemas that it drops."""

    changed: frozenset[int]
    read: frozenset[int]
    schemas: frozenset[str] = frozenset()

    def collides(self, other: Touched) -> bool:
        """Whether one of the two has to wait for the other."""
        return bool(self.changed & (other.changed | other.read) or self.read & other.changed)


def touched(ops: Sequence[DdlOp], catalog: Catalog) -> Touched:
    """What a change of the catalog is about."""
    changed: set[int] = set()
    read: set[int] = set()
    schemas: set[str] = set()
    for op in ops:
        if isinstance(op, DropRelation):
            changed.add(op.oid)
        elif isinstance(op, DropSchemaOp):
            schemas.add(op.name)
        elif isinstance(op, AlterRelations):
            changed |= {r.oid for r in op.relations}
            read |= {oid for r in op.relations for oid in reads_of(r, catalog)}
        elif isinstance(op, CreateRelation | StartJob):
            if isinstance(op, StartJob) and op.ops:
                inner = touched(op.ops, catalog)
                changed |= inner.changed
                read |= inner.read
                continue
            changed.add(op.relation.oid)
            read |= reads_of(op.relation, catalog)
    return Touched(frozenset(changed), frozenset(read - changed), frozenset(schemas))


def reads_of(relation: Relation, catalog: Catalog) -> set[int]:
    """OIDs of all that a definition is made of: what it names, and what plain views name for it."""
    found: set[int] = set()
    stack = list(relation.depends_on)
    while stack:
        oid = stack.pop()
        if oid in found:
            continue
        found.add(oid)
        other = catalog.relations.get(oid)
        if other is not None and other.kind == "view":
            stack.extend(other.depends_on)
    return found


def filled_views(ops: Sequence[DdlOp], before: Catalog, after: Catalog) -> list[Relation]:
    """The materialized views that a change fills, those that are read first."""
    found: dict[int, Relation] = {}
    for op in ops:
        if isinstance(op, CreateRelation):
            oids = [op.relation.oid]
        elif isinstance(op, AlterRelations):
            oids = [r.oid for r in op.relations if _wakes(r, before)]
        else:
            continue
        for oid in oids:
            relation = after.relations.get(oid)
            if relation is not None and relation.kind == "materialized_view":
                found[oid] = relation
    return [r for r in found.values() if r.suspended is None]


def _wakes(relation: Relation, before: Catalog) -> bool:
    old = before.relations.get(relation.oid)
    return old is not None and old.suspended is not None and relation.suspended is None


@dataclass(frozen=True)
class TableStep:
    """One of the changes of a table's rows, with the catalog that holds when it is done."""

    change: RowsChange
    old: Relation
    new: Relation
    catalog: Catalog


def table_steps(ops: Sequence[DdlOp], before: Catalog) -> dict[int, list[TableStep]]:
    """What becomes of the rows of tables, in order. Raises: what the operations raise."""
    found: dict[int, list[TableStep]] = {}
    catalog = before.fork()
    for op in ops:
        old = dict(catalog.relations)
        op.apply(catalog)
        if isinstance(op, AlterRelations):
            for change in op.rows:
                new = catalog.relations[change.oid]
                step = TableStep(change, old[change.oid], new, catalog.fork())
                found.setdefault(change.oid, []).append(step)
    return found


def stored_rows(engine: Engine, oid: int) -> int:
    """Rows of a table or view; 0 for what keeps none."""
    state = engine.tables.get(oid) or engine.views.get(oid)
    return 0 if state is None else state.store.live_rows


def new_indexes(ops: Sequence[DdlOp], engine: Engine) -> list[Relation]:
    """The indexes that a change makes on relations that are there."""
    found = [op.relation for op in ops if isinstance(op, CreateRelation)]
    return [
        r for r in found if r.kind == "index" and engine.indexes.state_of(owner_oid(r)) is not None
    ]


def about(ops: Sequence[DdlOp]) -> tuple[str, Relation]:
    """(what a job is called in SHOW JOBS, the relation that it is about)."""
    relations = [op.relation for op in ops if isinstance(op, CreateRelation)]
    altered = [r for op in ops if isinstance(op, AlterRelations) for r in op.relations]
    if relations and relations[0].kind == "index":
        return "create index", relations[0]
    if altered and altered[0].kind == "table":
        return "alter table", altered[0]
    if not relations:
        return f"resume {altered[0].kind_words}", altered[0]
    main = (altered or relations)[0]
    return f"replace {main.kind_words}", main


def with_notes(
    ops: Sequence[DdlOp], views: Collection[int], noted: Mapping[str, Any]
) -> list[DdlOp]:
    """The operations with what is noted of these views (OIDs) in place of earlier notes."""

    def with_own(relation: Relation) -> Relation:
        if relation.oid not in views:
            return relation
        extra = {k: v for k, v in relation.extra.items() if k not in NOTES}
        return replace(relation, extra={**extra, **noted})

    found: list[DdlOp] = []
    for op in ops:
        if isinstance(op, CreateRelation):
            found.append(replace(op, relation=with_own(op.relation)))
        elif isinstance(op, AlterRelations):
            found.append(replace(op, relations=tuple(with_own(r) for r in op.relations)))
        else:
            found.append(op)
    return found


def with_own_nodes(ops: Sequence[DdlOp], allocate: Callable[[], int]) -> Sequence[DdlOp]:
    """The operations where a view that takes another one's place does not find that one's own
    operators under its labels: what these gave out when windows closed is nowhere listed."""
    views = {
        op.relation.oid
        for op in ops
        if isinstance(op, CreateRelation)
        and op.replaces
        and op.relation.kind == "materialized_view"
    }
    return with_notes(ops, views, {"private_tag": allocate()}) if views else ops


def no_job(number: int, engine: Engine) -> StreamSqlError:
    """Why there is no such job to cancel: 42704, or 42809 for a view or source that runs, which
    SHOW JOBS lists too."""
    found = engine.catalog.relations.get(number)
    if found is None or not (number in engine.views or number in engine.sources):
        return UndefinedObject(
            f"job {number} does not exist", hint="SHOW JOBS lists the jobs that run."
        )
    named, kind = describe(found), found.kind_words
    name = named.removeprefix(f"{kind} ")
    return WrongObjectType(
        f"{named} runs until it is dropped, and can not be canceled",
        hint=f"ALTER {kind.upper()} {name} SUSPEND halts it, DROP {kind.upper()} {name} ends it.",
    )
