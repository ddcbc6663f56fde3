"""SHOW of catalog objects, SHOW CREATE, DESCRIBE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.errors import UndefinedObject, UndefinedSchema
from streamsql.core.types import BIGINT, BOOLEAN, TEXT, TIMESTAMPTZ, SqlType
from streamsql.dialect.statements import Describe, Name, ShowCreate, ShowObjects
from streamsql.engine.activity import now
from streamsql.engine.api import Result, ResultColumn
from streamsql.engine.catalog import DATABASE
from streamsql.engine.indexes import indexes_of
from streamsql.engine.pgcatalog.dynamic import index_texts
from streamsql.engine.relations import Relation
from streamsql.engine.statements.common import lookup, rows_result
from streamsql.engine.statements.handler import Description, Handler, Types
from streamsql.engine.statements.subscriptions import (
    CURSOR_COLUMNS,
    SUBSCRIPTION_COLUMNS,
    cursor_rows,
    subscription_rows,
)
from streamsql.functions.expressions import Literal

if TYPE_CHECKING:
    from streamsql.engine.session import Session

Columns = tuple[tuple[str, SqlType], ...]
Rows = Sequence[Sequence[object]]

NAMES: Columns = (("Name", TEXT),)
COLUMNS: Columns = (
    ("Name", TEXT), ("Type", TEXT), ("Nullable", BOOLEAN), ("Key", TEXT), ("Description", TEXT)
)  # fmt: skip
RELATION_KINDS = {
    "tables": "table",
    "sources": "source",
    "views": "view",
    "materialized views": "materialized_view",
}
SHAPES: dict[str, Columns] = {
    "jobs": (
        ("Id", BIGINT),
        ("Kind", TEXT),
        ("Relation", TEXT),
        ("State", TEXT),
        ("Rows", TEXT),
        ("Started", TIMESTAMPTZ),
        ("Error", TEXT),
        ("Schema", TEXT),
    ),
    "columns": COLUMNS,
    "indexes": (
        ("Name", TEXT),
        ("On", TEXT),
        ("Key", TEXT),
        ("Include", TEXT),
        ("Unique", BOOLEAN),
    ),
    "subscriptions": SUBSCRIPTION_COLUMNS,
    "subscription cursors": CURSOR_COLUMNS,
    "processlist": (
        ("Id", BIGINT),
        ("User", TEXT),
        ("Database", TEXT),
        ("State", TEXT),
        ("Seconds", BIGINT),
        ("Info", TEXT),
    ),
    "functions": (("Name", TEXT), ("Kind", TEXT)),
}


def _jobs(session: Session) -> Rows:
    """streamsql.jobs, as wide as a window: without the statements."""
    rows = []
    columns = (c.to_pylist() for c in session.engine.system.table("jobs").columns)
    for job in zip(*columns, strict=True):
        number, kind, relation, _, state, done, estimated, progress, started, error, schema = job
        counted = "" if done is None else f"{done:,}"
        if estimated is not None:
            counted += f" of {estimated:,}"
        if progress is not None:
            counted += f" ({progress:g} %)"
        second = started and started.replace(microsecond=0)
        rows.append((number, kind, relation, state, counted, second, error, schema))
    return rows


def _rows(session: Session, statement: ShowObjects) -> Rows:
    kind = statement.kind
    if kind in RELATION_KINDS:
        return _relations(session, statement, RELATION_KINDS[kind])
    if kind == "columns":
        assert statement.relation is not None
        return column_rows(session, lookup(session, statement.relation))
    if kind == "schemas":
        return [(name,) for name in session.catalog.schemas]
    if kind == "databases":
        return [(DATABASE,)]
    if kind == "jobs":
        return _jobs(session)
    if kind == "indexes":
        return _indexes(session, statement.relation)
    if kind == "functions":
        return _functions()
    if kind == "subscriptions":
        return subscription_rows(session, statement.schema)
    if kind == "subscription cursors":
        return cursor_rows(session)
    if kind == "processlist":
        return process_rows(session)
    assert kind == "sinks"
    return []


def _relations(session: Session, statement: ShowObjects, kind: str) -> Rows:
    schema = statement.schema
    if schema is not None and schema not in session.catalog.schemas:
        raise UndefinedSchema(f'schema "{schema}" does not exist')
    path = {schema} if schema is not None else set(session.search_path)
    if kind == "table" and schema == "streamsql":
        kind = "system"
    return [
        (r.name,) for r in session.catalog.relations.values() if r.kind == kind and r.schema in path
    ]


def process_rows(session: Session) -> Rows:
    """SHOW PROCESSLIST: what the sessions run, and for how long."""
    rows: list[Sequence[object]] = []
    for s in session.database.sessions:
        activity = s.activity
        active = activity.running > 0
        seconds = int((now() - activity.state_change).total_seconds())
        state = "active" if active else "idle"
        rows.append((s.backend_pid, s.user, DATABASE, state, seconds, activity.query or None))
    return rows


def column_rows(session: Session, relation: Relation) -> Rows:
    """A relation's columns: name, type, nullable, key, comment."""
    comments = session.catalog.comments
    rows = []
    for i, column in enumerate(relation.columns):
        keys = ["PRIMARY KEY" if k.primary else "UNIQUE" for k in relation.keys if i in k.columns]
        if i == relation.watermark_column and relation.kind in ("table", "source"):
            keys.append("WATERMARK")
        comment = comments.get((relation.oid, i + 1))
        rows.append(
            (column.name, str(column.type), column.nullable, ", ".join(keys) or None, comment)
        )
    return rows


def _indexes(session: Session, name: Name | None) -> Rows:
    relations = [lookup(session, name)] if name else session.catalog.user_relations()
    rows: list[Sequence[object]] = [
        (key.name, r.name, ", ".join(r.columns[i].name for i in key.columns), None, True)
        for r in relations
        for key in r.keys
    ]
    for r in relations:
        for index in indexes_of(session.catalog, r.oid):
            include = ", ".join(index.extra["include"]) or None
            keys = ", ".join(index_texts(index))
            rows.append((index.name, r.name, keys, include, bool(index.extra["unique"])))
    return rows


def _functions() -> Rows:
    from streamsql.functions import registry

    names = sorted(registry.functions())
    return [(n, "scalar") for n in names if n[:1].isalpha()]


def shape(statement: ShowObjects) -> Columns:
    """The columns of the answer."""
    return SHAPES.get(statement.kind, NAMES)


def describe_show(session: Session, statement: ShowObjects, declared: Types) -> Description:
    """The answer's columns."""
    return _described(shape(statement))


def _described(columns: Columns) -> Description:
    return Description(tuple(ResultColumn(n, t) for n, t in columns))


def run_show(
    session: Session, statement: ShowObjects, values: tuple[Literal, ...], declared: Types
) -> Result:
    """SHOW kind [FROM …] [LIKE pattern]."""
    columns = shape(statement)
    rows = list(_rows(session, statement))
    if statement.like is not None and rows:
        at = 2 if statement.kind == "jobs" else 0
        names = pa.array([row[at] for row in rows], pa.string())
        keep = pc.match_like(names, statement.like).to_pylist()
        rows = [row for row, kept in zip(rows, keep, strict=True) if kept]
    return rows_result("SHOW", columns, rows)


CREATE_COLUMNS: Columns = (("Name", TEXT), ("Create Sql", TEXT))


def run_show_create(
    session: Session, statement: ShowCreate, values: tuple[Literal, ...], declared: Types
) -> Result:
    """The user's own text."""
    kinds = {"table": "table", "source": "source", "view": "view",
             "materialized view": "materialized_view", "index": "index",
             "subscription": "subscription"}  # fmt: skip
    if statement.kind not in kinds:
        name = ".".join(statement.name)
        raise UndefinedObject(f'{statement.kind} "{name}" does not exist')
    relation = lookup(session, statement.name, kinds=[kinds[statement.kind]])
    row = (f"{relation.schema}.{relation.name}", relation.sql)
    return rows_result("SHOW", CREATE_COLUMNS, [row])


def run_describe(
    session: Session, statement: Describe, values: tuple[Literal, ...], declared: Types
) -> Result:
    """DESCRIBE relation."""
    relation = lookup(session, statement.name)
    return rows_result("DESCRIBE", COLUMNS, column_rows(session, relation))


SHOW_OBJECTS = Handler(run_show, describe_show, "SHOW")
SHOW_CREATE = Handler(run_show_create, lambda s, st, d: _described(CREATE_COLUMNS), "SHOW")
DESCRIBE = Handler(run_describe, lambda s, st, d: _described(COLUMNS), "DESCRIBE")
