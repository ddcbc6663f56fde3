"""The relations of PostgreSQL 15's catalogs: their columns, and the rows that never change."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

SCHEMAS = frozenset({"pg_catalog", "information_schema"})
FILE = Path(__file__).parent / "pg15.parquet"


@dataclass(frozen=True)
class SystemRelation:
    """One relation of pg_catalog or information_schema.

    oid: in pg_class. columns: (name, type OID) in PostgreSQL's order, that of attnum. rows: those
    of an empty database. key: its name inside our DuckDB.
    """

    schema: str
    name: str
    oid: int
    columns: tuple[tuple[str, int], ...]
    rows: pa.Table = field(compare=False)

    @property
    def key(self) -> str:
        return duck_name(self.schema, self.name)


def duck_name(schema: str, name: str) -> str:
    """Name inside our DuckDB, whose own pg_catalog must not be met.

    >>> duck_name("pg_catalog", "pg_class")
    'pgc.pg_class'
    """
    return f"{'pgc' if schema == 'pg_catalog' else 'infs'}.{name}"


@functools.cache
def system_relations() -> dict[tuple[str, str], SystemRelation]:
    """(schema, name) -> relation. Read once a process, some 20 ms."""
    from pyarrow import parquet

    found = {}
    for row in parquet.read_table(FILE).to_pylist():
        columns = tuple((n, t) for n, t in json.loads(row["columns"]))
        rows = pa.ipc.open_stream(pa.py_buffer(row["rows"])).read_all()
        relation = SystemRelation(row["schema"], row["name"], row["oid"], columns, rows)
        found[relation.schema, relation.name] = relation
    return found


def find_relation(parts: tuple[str, ...]) -> SystemRelation | None:
    """The relation a (qualified) name means; an unqualified one is looked for in pg_catalog.

    Names of users' relations are told apart without reading the file.
    """
    if len(parts) == 1:
        if not parts[0].startswith("pg_"):
            return None
        return system_relations().get(("pg_catalog", parts[0]))
    if parts[-2] not in SCHEMAS:
        return None
    return system_relations().get((parts[-2], parts[-1]))
