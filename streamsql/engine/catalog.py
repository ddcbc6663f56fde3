"""The catalog: schemas, relations, comments and dependencies of the one database `streamsql`.

A `Catalog` is read by many threads and changed by one at a time: a transaction with DDL works on a
`fork()` and the engine thread `adopt()`s it at commit. Every change makes a new `version`, which
keys caches of bound statements.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from streamsql.core.errors import (
    DependentObjectsStillExist,
    DuplicateSchema,
    DuplicateTable,
    FeatureNotSupported,
    InsufficientPrivilege,
    ObjectNotInPrerequisiteState,
    UndefinedObject,
    UndefinedSchema,
    UndefinedTable,
    WrongObjectType,
)
from streamsql.dialect.statements import CreateView
from streamsql.engine.layouts import LAYOUT_SCHEMA, Layout
from streamsql.engine.names import qualified
from streamsql.engine.relations import Relation

DATABASE = "streamsql"
FIRST_USER_OID = 16384
DATABASE_OID = 5
OWNER = "streamsql"
OWNER_OID = 10
TEMP_PREFIX = "pg_temp_"
"""Schemas of sessions' temporary tables: in memory only."""

SYSTEM_SCHEMAS = {
    "pg_catalog": 11,
    "public": 2200,
    "information_schema": 13000,
    "streamsql": 13001,
}
PROTECTED_SCHEMAS = frozenset({"pg_catalog", "information_schema", "streamsql"})


@dataclass(frozen=True)
class SchemaEntry:
    """A schema (namespace)."""

    oid: int
    name: str


@dataclass
class _State:
    """Everything that a fork copies."""

    schemas: dict[str, SchemaEntry] = field(default_factory=dict)
    relations: dict[int, Relation] = field(default_factory=dict)
    names: dict[tuple[str, str], int] = field(default_factory=dict)
    comments: dict[tuple[int, int], str] = field(default_factory=dict)
    layouts: dict[int, Layout] = field(default_factory=dict)
    jobs: dict[int, tuple[Relation, bool]] = field(default_factory=dict)
    version: int = 0


class OidCounter:
    """Hands out numbers; one counter for all objects' OIDs, shared by all forks and threads."""

    def __init__(self, first: int = FIRST_USER_OID) -> None:
        self.next_oid = first
        self._lock = threading.Lock()

    def allocate(self, count: int = 1) -> int:
        """The first of `count` fresh numbers."""
        with self._lock:
            first = self.next_oid
            self.next_oid = first + count
            return first


_versions = itertools.count(1)


class Catalog:
    """Schemas, relations, comments; see the module's text for who may change it.

    version: changes with every change, never repeats in a process. comments: (oid, attnum) →
    text, attnum 0 = the object itself.
    """

    def __init__(self, system: Iterable[Relation] = (), oids: OidCounter | None = None) -> None:
        self.oids = oids or OidCounter()
        self._state = _State(version=next(_versions))
        for name, oid in SYSTEM_SCHEMAS.items():
            self._state.schemas[name] = SchemaEntry(oid, name)
        for relation in system:
            self._insert(relation)

    # reading ------------------------------------------------------------------------------------
    @property
    def version(self) -> int:
        return self._state.version

    @property
    def schemas(self) -> dict[str, SchemaEntry]:
        """Name → schema."""
        return self._state.schemas

    @property
    def relations(self) -> dict[int, Relation]:
        """OID → relation, in order of creation (system relations first)."""
        return self._state.relations

    @property
    def comments(self) -> dict[tuple[int, int], str]:
        return self._state.comments

    @property
    def layouts(self) -> dict[int, Layout]:
        """OID → an older layout of a relation, which some view reads."""
        return self._state.layouts

    @property
    def jobs(self) -> dict[int, tuple[Relation, bool]]:
        """OID → (a view that is being made, whether in the background)."""
        return self._state.jobs

    def known(self, oid: int) -> Relation | None:
        """The relation of an OID; that of a layout is the relation as it was."""
        layout = self._state.layouts.get(oid)
        if layout is None:
            return self._state.relations.get(oid)
        return layout.as_relation(self._state.relations[layout.of])

    def user_relations(self) -> list[Relation]:
        """All but the system relations, in order of creation."""
        return [r for r in self.relations.values() if r.kind != "system"]

    def get(self, schema: str, name: str) -> Relation | None:
        """The relation of exactly that name, or None."""
        state = self._state
        if schema == LAYOUT_SCHEMA:
            return self.known(int(name))
        oid = state.names.get((schema, name))
        return None if oid is None else state.relations[oid]

    def resolve(self, parts: Sequence[str], search_path: Sequence[str]) -> Relation | None:
        """The relation a possibly qualified name means, or None.

        Raises: FeatureNotSupported (0A000) for another database.
        """
        if len(parts) == 3:
            check_database(parts)
            parts = parts[1:]
        if len(parts) == 2:
            return self.get(parts[0], parts[1])
        for schema in search_path:
            found = self.get(schema, parts[0])
            if found is not None:
                return found
        return None

    def lookup(
        self,
        parts: Sequence[str],
        search_path: Sequence[str],
        *,
        position: int | None = None,
        kinds: Sequence[str] = (),
    ) -> Relation:
        """The relation of that name, of one of `kinds`.

        Raises: UndefinedTable (42P01), for a subscription UndefinedObject (42704);
        WrongObjectType (42809).
        """
        found = self.resolve(parts, search_path)
        if found is None:
            name = ".".join(parts)
            if tuple(kinds) == ("subscription",):
                raise UndefinedObject(f'subscription "{name}" does not exist', position=position)
            raise UndefinedTable(f'relation "{name}" does not exist', position=position)
        if kinds and found.kind not in kinds:
            words = " or ".join(kind.replace("_", " ") for kind in kinds)
            article = "an" if words[0] in "aeiou" else "a"
            raise WrongObjectType(f'"{found.name}" is not {article} {words}', position=position)
        return found

    def creation_name(self, parts: Sequence[str], search_path: Sequence[str]) -> tuple[str, str]:
        """(schema, name) under which a new object of that name is made.

        Raises: UndefinedSchema (3F000), InsufficientPrivilege (42501) for system schemas.
        """
        if len(parts) == 3:
            check_database(parts)
            parts = parts[1:]
        if len(parts) == 2:
            schema, name = parts
            if schema not in self.schemas:
                raise UndefinedSchema(f'schema "{schema}" does not exist')
        else:
            name = parts[0]
            found = next((s for s in search_path if s in self.schemas and _holds_new(s)), None)
            if found is None:
                raise UndefinedSchema("no schema has been selected to create in")
            schema = found
        if schema in PROTECTED_SCHEMAS:
            raise InsufficientPrivilege(
                f"permission denied for schema {schema}",
                hint="The system's schemas hold no users' objects; use another schema.",
            )
        return schema, name

    def dependents(self, oids: Iterable[int]) -> list[Relation]:
        """Relations whose definition names one of `oids`, in order of creation."""
        wanted = frozenset(oids)
        return [r for r in self.relations.values() if r.depends_on & wanted]

    def drop_set(self, roots: Sequence[Relation]) -> list[Relation]:
        """`roots` and all that depends on them, dependents first (the order to drop in)."""
        chosen = {r.oid: r for r in roots}
        grew = True
        while grew:
            more = [r for r in self.dependents(chosen) if r.oid not in chosen]
            chosen.update((r.oid, r) for r in more)
            grew = bool(more)
        order = {oid: i for i, oid in enumerate(self.relations)}
        return sorted(chosen.values(), key=lambda r: -order[r.oid])

    def check_droppable(self, root: Relation, also: Sequence[Relation] = ()) -> None:
        """Raises: DependentObjectsStillExist (2BP01), naming the dependents."""
        going = {r.oid for r in (root, *also)}
        everything = self.drop_set([root])
        blocking = [r for r in everything if r.oid not in going and r.kind != "index"]
        if not blocking:
            return
        lines = []
        for relation in reversed(blocking):
            bases = [b for b in everything if b.oid in relation.depends_on]
            lines += [f"{describe(relation)} depends on {describe(base)}" for base in bases]
        raise DependentObjectsStillExist(
            f"cannot drop {describe(root)} because other objects depend on it",
            detail="\n".join(lines),
            hint="Use DROP ... CASCADE to drop the dependent objects too.",
        )

    # changing -----------------------------------------------------------------------------------
    def fork(self) -> Catalog:
        """A private copy; OIDs come from the same counter."""
        copy = Catalog.__new__(Catalog)
        copy.oids = self.oids
        state = self._state
        copy._state = replace(
            state,
            schemas=dict(state.schemas),
            relations=dict(state.relations),
            names=dict(state.names),
            comments=dict(state.comments),
            layouts=dict(state.layouts),
            jobs=dict(state.jobs),
        )
        return copy

    def adopt(self, other: Catalog) -> None:
        """Take over what `other` holds, in one step for concurrent readers."""
        self._state = other.fork()._state

    def _changed(self) -> None:
        self._state.version = next(_versions)

    def _insert(self, relation: Relation) -> None:
        self._state.relations[relation.oid] = relation
        self._state.names[relation.schema, relation.name] = relation.oid
        self._changed()

    def add(self, relation: Relation) -> None:
        """Raises: DuplicateTable (42P07), UndefinedSchema (3F000)."""
        if relation.schema not in self.schemas:
            raise UndefinedSchema(f'schema "{relation.schema}" does not exist')
        self._check_free(relation)
        self._insert(relation)

    def _check_free(self, relation: Relation) -> None:
        name = relation.schema, relation.name
        if self.get(*name) is not None:
            raise DuplicateTable(f'relation "{relation.name}" already exists')
        if any((other.schema, other.name) == name for other, _ in self.jobs.values()):
            raise DuplicateTable(
                f'relation "{relation.name}" is being created',
                hint="SHOW JOBS shows how far it is; CANCEL JOB stops it.",
            )

    def start_job(self, relation: Relation, *, background: bool) -> None:
        """A view begins to be made; its name is taken. Or one that is there begins to be made
        anew. Raises: DuplicateTable (42P07)."""
        if relation.oid not in self.relations:
            self._check_free(relation)
        self._state.jobs[relation.oid] = (relation, background)
        self._changed()

    def end_job(self, oid: int) -> None:
        """The view is made, or will not be."""
        self._state.jobs.pop(oid, None)
        self._changed()

    def replace(self, relation: Relation) -> None:
        """Put a new definition in the place of the one with the same OID."""
        self.alter([relation])

    def alter(self, relations: Sequence[Relation], layouts: Iterable[Layout] = ()) -> None:
        """Put new definitions in the place of those with the same OIDs, all at once.

        Raises: DuplicateTable (42P07), UndefinedSchema (3F000).
        """
        state = self._state
        for relation in relations:
            old = state.relations[relation.oid]
            del state.names[old.schema, old.name]
        for relation in relations:
            if relation.schema not in self.schemas:
                raise UndefinedSchema(f'schema "{relation.schema}" does not exist')
            if (relation.schema, relation.name) in state.names:
                raise DuplicateTable(
                    f'relation "{relation.name}" already exists in schema "{relation.schema}"'
                )
            self._insert(relation)
        state.layouts.update((layout.oid, layout) for layout in layouts)
        for relation in relations:
            state.relations[relation.oid] = self.bound(relation)
        self._sort()

    def bound(self, relation: Relation) -> Relation:
        """The relation with the tree of its query naming what its references are called now."""
        statement = relation.statement
        if not isinstance(statement, CreateView):
            return relation
        meaning = {name: self.relations[oid] for name, oid in relation.references.items()}
        layouts = {base: self.layouts[oid].name for base, oid in relation.layouts.items()}
        return replace(relation, query=qualified(statement.query, meaning, layouts))

    def _sort(self) -> None:
        """Relations after those they name, else in order of creation: a view that was replaced may
        read what is younger than itself."""
        relations = self._state.relations
        done: dict[int, Relation] = {}

        def visit(relation: Relation) -> None:
            if relation.oid not in done:
                for oid in sorted(relation.depends_on):
                    if oid in relations and oid != relation.oid:
                        visit(relations[oid])
                done[relation.oid] = relation

        for relation in list(relations.values()):
            visit(relation)
        self._state.relations = done

    def add_layout(self, layout: Layout) -> None:
        """Take a layout in (from a checkpoint)."""
        self._state.layouts[layout.oid] = layout

    def prune_layouts(self) -> list[Layout]:
        """Forget the layouts that no view reads any more; returns them."""
        used = {oid for r in self.relations.values() for oid in r.layouts.values()}
        gone = [x for x in self.layouts.values() if x.oid not in used]
        for layout in gone:
            del self._state.layouts[layout.oid]
        return gone

    def remove(self, oid: int) -> None:
        """Forget a relation and its comments."""
        relation = self._state.relations.pop(oid)
        self._state.names.pop((relation.schema, relation.name))
        for key in [k for k in self._state.comments if k[0] == oid]:
            self._state.comments.pop(key)
        self._changed()

    def add_schema(self, entry: SchemaEntry) -> None:
        """Raises: DuplicateSchema (42P06)."""
        if entry.name in self.schemas:
            raise DuplicateSchema(f'schema "{entry.name}" already exists')
        self._state.schemas[entry.name] = entry
        self._changed()

    def remove_schema(self, name: str) -> None:
        """Raises: UndefinedSchema (3F000)."""
        if name not in self.schemas:
            raise UndefinedSchema(f'schema "{name}" does not exist')
        entry = self._state.schemas.pop(name)
        self._state.comments.pop((entry.oid, 0), None)
        self._changed()

    def set_comment(self, oid: int, attnum: int, text: str | None) -> None:
        """Set or (None) remove a comment; attnum 0 = the object itself."""
        if text is None:
            self._state.comments.pop((oid, attnum), None)
        else:
            self._state.comments[oid, attnum] = text
        self._changed()


def describe(relation: Relation) -> str:
    """ "materialized view sales.daily": how messages name a relation."""
    prefix = "" if relation.schema == "public" else f"{relation.schema}."
    return f"{relation.kind_words} {prefix}{relation.name}"


def _holds_new(schema: str) -> bool:
    """Whether a bare name may be created there: temporary tables only by their own word."""
    return schema != "pg_catalog" and not schema.startswith(TEMP_PREFIX)


def check_runs(view: Relation) -> None:
    """Raises: ObjectNotInPrerequisiteState (55000) if a materialized view is suspended."""
    if view.suspended is not None:
        raise ObjectNotInPrerequisiteState(
            f'materialized view "{view.name}" is suspended',
            hint=f"Run ALTER MATERIALIZED VIEW {view.name} RESUME first.",
        )


def has_failed(view: Relation) -> ObjectNotInPrerequisiteState:
    """55000: a materialized view that others are to be made from was set aside."""
    return ObjectNotInPrerequisiteState(
        f'materialized view "{view.name}" has failed',
        hint="SHOW JOBS says why. Drop it, or replace it.",
    )


def check_database(parts: Sequence[str]) -> None:
    """Raises: FeatureNotSupported (0A000) if a three-part name is of another database."""
    if parts[0] != DATABASE:
        raise FeatureNotSupported(
            f'cross-database references are not implemented: "{".".join(parts)}"',
            hint=f'There is one database, "{DATABASE}"; use a schema instead.',
        )
