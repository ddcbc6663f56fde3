"""The catalog relations as tables of a private in-memory DuckDB, and the queries that run there.

A table is made when a query first reads it: the static rows and those of the catalog version that
the query sees. When another version is seen the tables with rows of our own are made anew (some
milliseconds), and so are the small helper tables of name lookups, which depend on the search path.
One lock: catalog queries are short, and one version is loaded at a time.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from streamsql.engine.catalog import Catalog
from streamsql.engine.pgcatalog import pgtypes as t
from streamsql.engine.pgcatalog.dynamic import Rows, catalog_rows
from streamsql.engine.pgcatalog.session_info import Volatile
from streamsql.engine.pgcatalog.static import SystemRelation, duck_name, system_relations
from streamsql.engine.pgcatalog.views import view_rows

_USED = re.compile(r"\b(pgc|infs)\.(\w+)(?!\w*\()")
_MACRO = re.compile(r"\bpgc\.((?:to_)?reg\w+)\(")


def _to_oid(table: str, condition: str) -> tuple[str, tuple[str, ...]]:
    """A macro text -> OID; a number is one already."""
    query = f"SELECT min(l.oid) FROM pgc.{table} l WHERE {condition}"
    return f"(s) AS (coalesce(TRY_CAST(s AS BIGINT), ({query})))", (table,)


def _to_name(table: str, name: str) -> tuple[str, tuple[str, ...]]:
    """A macro OID -> text; an OID that nothing has is shown as a number, 0 as a dash."""
    query = f"SELECT {name} FROM pgc.{table} l WHERE l.oid = o"
    return (
        f"(o) AS (CASE WHEN o = 0 THEN '-' ELSE coalesce(({query}), CAST(o AS VARCHAR)) END)",
        (table,),
    )


MACROS: dict[str, tuple[str, tuple[str, ...]]] = {
    "to_regclass": _to_oid(
        "_regclass",
        "l.spelling = CASE WHEN contains(s, '\"')"
        " THEN replace(replace(s, ' ', ''), '\"', '') ELSE lower(s) END",
    ),
    "to_regtype": _to_oid(
        "pg_type",
        "l.typname = replace(replace(s, 'pg_catalog.', ''), '\"', '')"
        " OR l._formatted = replace(lower(s), 'pg_catalog.', '')",
    ),
    "to_regproc": _to_oid(
        "pg_proc", "l.proname = replace(regexp_replace(s, '\\(.*', ''), 'pg_catalog.', '')"
    ),
    "to_regnamespace": _to_oid("pg_namespace", "l.nspname = replace(s, '\"', '')"),
    "to_regrole": _to_oid("pg_roles", "l.rolname = replace(s, '\"', '')"),
    "to_regoper": _to_oid("pg_operator", "l.oprname = s"),
    "to_regconfig": _to_oid("pg_ts_config", "l.cfgname = s"),
    "to_regcollation": _to_oid("pg_collation", "l.collname = replace(s, '\"', '')"),
    "regclass_text": _to_name("_regtext", "l.shown"),
    "regtype_text": _to_name("pg_type", "l._formatted"),
    "regproc_text": _to_name("pg_proc", "l.proname"),
    "regprocedure_text": _to_name("pg_proc", "l.proname || '(' || l._arguments || ')'"),
    "regnamespace_text": _to_name("pg_namespace", "l.nspname"),
    "regrole_text": _to_name("pg_roles", "l.rolname"),
    "regoper_text": _to_name("pg_operator", "l.oprname"),
    "regconfig_text": _to_name("pg_ts_config", "l.cfgname"),
    "regcollation_text": _to_name("pg_collation", "'\"' || l.collname || '\"'"),
}
"""Name -> (parameters and body, tables it reads)."""

_HELPERS = ("_path", "_visible", "_regclass", "_regtext")


class Store:
    """The tables and the connection. All methods are safe to call from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._connection: Any = None
        self._version = -1
        self._path: tuple[str, ...] = ()
        self._loaded: set[str] = set()
        self._keys: dict[str, Any] = {}
        self._own: Rows = {}
        self._own_views: Rows | None = None
        self._catalog: Catalog | None = None

    def run(
        self,
        sql: str,
        parameters: dict[str, Any],
        catalog: Catalog,
        search_path: Sequence[str],
        volatile: dict[str, Volatile],
        token: Any = None,
    ) -> pa.Table:
        """The rows of a compiled query. volatile: relations whose rows are made for this query.

        Raises: QueryCanceled (57014), and what the query itself raises.
        """
        import duckdb

        from streamsql.functions.duckdb_errors import translate

        with self._lock:
            connection = self._prepare(sql, catalog, tuple(search_path), volatile)
            if token is not None:
                token.watch(connection)
            try:
                return connection.sql(sql, params=parameters).to_arrow_table()
            except duckdb.Error as error:
                raise translate(error) from error
            finally:
                if token is not None:
                    token.watch_done()

    def names_of(self, kind: int, oids: Sequence[int]) -> dict[int, str]:
        """OID -> text of a reg… type, over what the last query saw."""
        from streamsql.engine.pgcatalog.casts import TO_NAME

        if not oids:
            return {}
        with self._lock:
            shown = TO_NAME[kind].format("v.o")
            sql = f"SELECT v.o AS o, {shown} AS s FROM _oids v"
            self._ensure_used(sql)
            table = pa.table({"o": pa.array(sorted(set(oids)), pa.int64())})
            self._connection.register("_oids", table)
            try:
                found = self._connection.sql(sql).fetchall()
            finally:
                self._connection.unregister("_oids")
        return {int(o): str(s) for o, s in found}

    # --- loading ----------------------------------------------------------------------------------
    def _prepare(
        self,
        sql: str,
        catalog: Catalog,
        path: tuple[str, ...],
        volatile: dict[str, Volatile],
    ) -> Any:
        if self._connection is None:
            self._open()
        if catalog.version != self._version:
            self._see(catalog)
        if path != self._path:
            self._path = path
            self._loaded.difference_update(_HELPERS)
        for name, (key, make) in volatile.items():
            if key is None or self._keys.get(name) != key:
                self._replace(name, make())
                self._keys[name] = key
            self._loaded.add(name)
        self._ensure_used(sql)
        return self._connection

    def _open(self) -> None:
        import duckdb

        self._connection = duckdb.connect(
            ":memory:", config={"threads": 1, "enable_external_access": "false"}
        )
        self._connection.execute("SET TimeZone = 'UTC'; CREATE SCHEMA pgc; CREATE SCHEMA infs")

    def _see(self, catalog: Catalog) -> None:
        """Another version of the catalog: what holds rows of ours is out of date."""
        before = set(self._own) | set(self._own_views or {})
        self._own = catalog_rows(catalog)
        self._own_views = None
        self._catalog = catalog
        self._version = catalog.version
        now = set(self._own)
        stale = {duck_name(*name.split(".")) for name in before | now}
        self._loaded -= {name for name in stale if name in self._loaded}
        self._loaded = {n for n in self._loaded if n not in _HELPERS and not self._is_view(n)}

    def _is_view(self, key: str) -> bool:
        schema, _, name = key.partition(".")
        return schema == "infs" or name in _OWN_VIEWS

    def _ensure_used(self, sql: str) -> None:
        """Make the tables and macros that a text names."""
        for macro in _MACRO.findall(sql):
            if macro not in MACROS:
                continue
            body, reads = MACROS[macro]
            for name in reads:
                self._ensure("pgc", name)
            if f"macro {macro}" not in self._loaded:
                self._connection.execute(f"CREATE OR REPLACE MACRO pgc.{macro}{body}")
                self._loaded.add(f"macro {macro}")
        for schema, name in _USED.findall(sql):
            if name not in MACROS:
                self._ensure(schema, name)

    def _ensure(self, schema: str, name: str) -> None:
        key = name if name in _HELPERS else f"{schema}.{name}"
        if key in self._loaded:
            return
        if name in _HELPERS:
            self._make_helper(name)
        elif name != "_settings":
            full = "pg_catalog" if schema == "pgc" else "information_schema"
            self._load(system_relations()[full, name])
        self._loaded.add(key)

    def _load(self, relation: SystemRelation) -> None:
        name = f"{relation.schema}.{relation.name}"
        own = self._own.get(name)
        if own is None and self._is_view(relation.key):
            if self._own_views is None:
                assert self._catalog is not None
                self._own_views = view_rows(self._catalog)
            own = self._own_views.get(name)
        table = relation.rows
        if own:
            mine = own_table(relation, own)
            if relation.name in OVERRIDDEN:
                table = _without(table, relation, mine)
            table = pa.concat_tables([table, mine.select(table.column_names)])
        extra = _hidden_columns(relation, own or [])
        for column, values in extra.items():
            table = table.append_column(column, values)
        self._replace(relation.key, table)

    def _replace(self, key: str, table: pa.Table) -> None:
        self._connection.register("_incoming", table)
        try:
            self._connection.execute(f"CREATE OR REPLACE TABLE {key} AS SELECT * FROM _incoming")
        finally:
            self._connection.unregister("_incoming")

    def _make_helper(self, name: str) -> None:
        """_path(oid): schemas of the search path; _visible(oid): relations found without a schema;
        _regclass(spelling, oid) and _regtext(oid, shown): names to OIDs and back."""
        self._ensure("pgc", "pg_class")
        self._ensure("pgc", "pg_namespace")
        places = ", ".join(
            f"({i}, {_quoted(schema)})" for i, schema in enumerate(("pg_catalog", *self._path))
        )
        path = f"(VALUES {places}) p(place, nspname)"
        visible = (
            "SELECT arg_min(c.oid, p.place) AS oid FROM pgc.pg_class c"
            f" JOIN pgc.pg_namespace n ON n.oid = c.relnamespace JOIN {path} USING (nspname)"
            " GROUP BY c.relname"
        )
        quote = (
            "CASE WHEN regexp_full_match({0}, '[a-z_][a-z0-9_$]*') THEN {0}"
            " ELSE '\"' || replace({0}, '\"', '\"\"') || '\"' END"
        )
        shown = f"{quote.format('n.nspname')} || '.' || {quote.format('c.relname')}"
        body = {
            "_path": f"SELECT n.oid FROM pgc.pg_namespace n JOIN {path} USING (nspname)",
            "_visible": visible,
            "_regclass": (
                "SELECT c.relname AS spelling, c.oid FROM pgc.pg_class c"
                f" JOIN ({visible}) v ON v.oid = c.oid UNION ALL"
                " SELECT n.nspname || '.' || c.relname, c.oid FROM pgc.pg_class c"
                " JOIN pgc.pg_namespace n ON n.oid = c.relnamespace"
            ),
            "_regtext": (
                f"SELECT c.oid, CASE WHEN v.oid IS NOT NULL THEN {quote.format('c.relname')}"
                f" ELSE {shown} END AS shown FROM pgc.pg_class c"
                " JOIN pgc.pg_namespace n ON n.oid = c.relnamespace"
                f" LEFT JOIN ({visible}) v ON v.oid = c.oid"
            ),
        }[name]
        self._connection.execute(f"CREATE OR REPLACE TABLE pgc.{name} AS {body}")


_OWN_VIEWS = frozenset(
    {"pg_tables", "pg_views", "pg_matviews", "pg_indexes", "pg_stat_user_tables",
     "pg_stat_all_tables"}
)  # fmt: skip
"""Relations of pg_catalog that `views.py` makes."""


def own_table(relation: SystemRelation, rows: list[dict[str, Any]]) -> pa.Table:
    """Rows of ours in the shape of a relation; what they do not say is 0, false, '' or NULL."""
    columns = {}
    for name, type_ in relation.columns:
        default = None if relation.schema == "information_schema" else _default(type_)
        values = [row.get(name, default) for row in rows]
        columns[name] = pa.array(values, t.storage(type_).arrow)
    return pa.table(columns)


def _default(type_: int) -> Any:
    if type_ == t.BOOL:
        return False
    if type_ in (t.CHAR, t.NAME):
        return ""
    if type_ in t.NUMBERS or type_ in t.OIDS:
        return 0
    return None


OVERRIDDEN = {
    "pg_namespace": "nspname", "schemata": "schema_name", "pg_shdescription": "objoid",
}  # fmt: skip
"""Relations of which some static rows give way to ours → the column that says which."""


def _without(table: pa.Table, relation: SystemRelation, mine: pa.Table) -> pa.Table:
    """The static rows whose name is not one of ours."""
    import pyarrow.compute as pc

    column = OVERRIDDEN[relation.name]
    return table.filter(pc.invert(pc.is_in(table[column], mine[column].combine_chunks())))


def _hidden_columns(relation: SystemRelation, own: list[dict[str, Any]]) -> dict[str, pa.Array]:
    if relation.schema != "pg_catalog":
        return {}
    statics = system_relations()
    if relation.name == "pg_type":
        texts = _by_oid(statics["pg_catalog", "_type_names"].rows, "formatted")
        shown = [texts.get(o) for o in relation.rows["oid"].to_pylist()]
        return {"_formatted": pa.array(shown + [r["_formatted"] for r in own], pa.string())}
    if relation.name == "pg_proc":
        rows = statics["pg_catalog", "_function_texts"].rows
        oids = relation.rows["oid"].to_pylist()
        return {
            f"_{name}": pa.array([found.get(o) for o in oids], pa.string())
            for name in ("arguments", "result")
            for found in [_by_oid(rows, name)]
        }
    return {}


def _by_oid(table: pa.Table, column: str) -> dict[int, str]:
    return dict(zip(table["oid"].to_pylist(), table[column].to_pylist(), strict=True))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
