"""PgCatalog: which queries are about the catalog, and what they answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from streamsql.core.types import SqlType
from streamsql.engine.api import Result, ResultColumn
from streamsql.engine.pgcatalog import pgtypes as t
from streamsql.engine.pgcatalog.functions import CATALOG_FUNCTIONS, is_known
from streamsql.engine.pgcatalog.queries import QueryCompiler
from streamsql.engine.pgcatalog.scope import Context, Output
from streamsql.engine.pgcatalog.session_info import SessionInfo
from streamsql.engine.pgcatalog.special import SPECIAL_FUNCTIONS
from streamsql.engine.pgcatalog.static import find_relation
from streamsql.engine.pgcatalog.store import Store

_MEMO = "pg_catalog_query"
SESSION_SPECIALS = frozenset({"pg_sleep"})
SLEEP_STEP_SECONDS = 0.02


@dataclass(frozen=True)
class CatalogQuery:
    """A compiled query."""

    sql: str
    outputs: tuple[Output, ...]
    context: Context


class PgCatalog:
    """`pg_catalog` and `information_schema` over the engine's catalog; one for a database."""

    def __init__(self) -> None:
        self._store = Store()

    def handles(self, tree: exp.Expression) -> bool:
        """Whether a query reads nothing but catalog relations, or, without any relation, calls a
        function that only the catalog or the session can answer."""
        known = tree.meta.get("pg_catalog_handles")
        if known is None:
            known = _is_about_catalog(tree)
            tree.meta["pg_catalog_handles"] = known
        return bool(known)

    def describe(
        self, tree: exp.Expression, session: Any, declared: Sequence[SqlType | None] = ()
    ) -> tuple[tuple[ResultColumn, ...], tuple[SqlType, ...]]:
        """(result columns, parameter types) without running it."""
        query = self._compile(tree, declared)
        types = tuple(t.storage(p or t.TEXT_OID) for p in query.context.parameter_types)
        return tuple(_result_column(o) for o in query.outputs), types

    def parameter_oids(
        self, tree: exp.Expression, declared: Sequence[SqlType | None] = ()
    ) -> tuple[int, ...]:
        """PostgreSQL's own types of the parameters: `describe` gives what we keep them in."""
        query = self._compile(tree, declared)
        return tuple(p or t.TEXT_OID for p in query.context.parameter_types)

    def query(self, tree: exp.Expression, parameters: Sequence[Any], session: Any) -> Result:
        """Run it. parameters: values, or bound Literals, of $1, $2, ….

        Raises: UndefinedTable (42P01), UndefinedColumn (42703), UndefinedFunction (42883)…
        """
        types = [getattr(p, "type", None) for p in parameters]
        query = self._compile(tree, types)
        info = SessionInfo(session)
        values: dict[str, Any] = {}
        for i in range(len(query.context.parameter_types)):
            value = parameters[i]
            values[f"p{i + 1}"] = getattr(value, "value", value)
        for name, value_of in query.context.values.items():
            values[name] = value_of(info)
        token = getattr(session, "token", None)
        for setting, text, local in query.context.settings:
            name, new = (str(values[f"p{v}"] if isinstance(v, int) else v) for v in (setting, text))
            _set(session, name, new, local)
        self._sleep(query.context, values, session, token)
        used = {k: v for k, v in values.items() if f"${k}" in query.sql}
        table = self._store.run(
            query.sql, used, session.catalog, info.search_path,
            info.volatile(query.sql), token,
        )  # fmt: skip
        columns = tuple(_result_column(o) for o in query.outputs)
        batches = self._finished(table, query.outputs, columns)
        return Result("SELECT", columns, iter(batches), row_count=table.num_rows)

    # ----------------------------------------------------------------------------------------------
    def _compile(self, tree: exp.Expression, declared: Sequence[SqlType | None]) -> CatalogQuery:
        key = tuple(d.oid if d is not None else 0 for d in declared)
        memo = tree.meta.get(_MEMO)
        if memo is not None and memo[0] == key:
            return memo[1]  # type: ignore[no-any-return]
        context = Context(parameter_types=list(key))
        sql, outputs = QueryCompiler(context).query(tree, None)
        query = CatalogQuery(sql, tuple(outputs), context)
        tree.meta[_MEMO] = (key, query)
        return query

    def _finished(
        self, table: pa.Table, outputs: Sequence[Output], columns: Sequence[ResultColumn]
    ) -> list[pa.RecordBatch]:
        """Arrow batches in the declared types; reg… columns as names."""
        arrays = []
        for i, (output, column) in enumerate(zip(outputs, columns, strict=True)):
            data = table.column(i).combine_chunks()
            if output.type in t.REGISTERED or t.element_of(output.type) in t.REGISTERED:
                data = self._named(data, output.type)
            arrays.append(data if data.type == column.type.arrow else _as(data, column.type.arrow))
        if not arrays:
            holder = pa.RecordBatch.from_arrays([pa.nulls(table.num_rows)], names=["x"])
            return [holder.select([])]
        names = [f"c{i}" for i in range(len(arrays))]
        return [pa.RecordBatch.from_arrays(arrays, names=names)]

    def _named(self, data: pa.Array, type_: int) -> pa.Array:
        """OIDs (or lists of them) as the names of what has them."""
        kind = type_ if type_ in t.REGISTERED else t.element_of(type_)
        values = data.to_pylist()
        flat = [o for v in values for o in (v if isinstance(v, list) else [v]) if o is not None]
        names = self._store.names_of(kind, flat)
        if type_ in t.REGISTERED:
            return pa.array([None if v is None else names[v] for v in values], pa.string())
        lists = [None if v is None else [names.get(o) for o in v] for v in values]
        return pa.array(lists, pa.list_(pa.string()))

    def _sleep(self, context: Context, values: dict[str, Any], session: Any, token: Any) -> None:
        """pg_sleep(): wait, but let a cancellation through."""
        for text in context.sleeps:
            used = {k: v for k, v in values.items() if f"${k}" in text}
            table = self._store.run(
                f"SELECT {text} AS c0", used, session.catalog, session.search_path, {}
            )
            until = time.monotonic() + float(table.column(0)[0].as_py() or 0.0)
            while (left := until - time.monotonic()) > 0:
                if token is not None:
                    token.check()
                    token.event.wait(min(left, SLEEP_STEP_SECONDS))
                else:
                    time.sleep(min(left, SLEEP_STEP_SECONDS))
            if token is not None:
                token.check()


def _is_about_catalog(tree: exp.Expression) -> bool:
    names = {cte.alias for cte in tree.find_all(exp.CTE)}
    catalog = False
    session = False
    for node in tree.walk():
        if isinstance(node, exp.Table):
            if isinstance(node.this, exp.Identifier):
                parts = tuple(p for p in (node.catalog, node.db, node.name) if p)
                if len(parts) == 1 and node.name in names:
                    continue
                if find_relation(parts) is None:
                    return False
                catalog = True
        elif type(node).__name__ == "WindowTvf":
            return False
        elif isinstance(node, exp.Anonymous):
            name = node.name.lower()
            known = name in CATALOG_FUNCTIONS or name in SESSION_SPECIALS
            session |= known and name != "age"  # which timestamps have too
            compiled = is_known(name) or name in SPECIAL_FUNCTIONS
            if not compiled and tree.find(exp.Table) is None:
                return False
        elif isinstance(node, exp.Cast):
            session |= t.named_type(node.to) in t.REGISTERED
    return catalog or session


def _result_column(output: Output) -> ResultColumn:
    type_ = output.type
    if type_ in (t.UNKNOWN, t.RECORD):
        type_ = t.TEXT_OID
    sql_type = t.storage(type_)
    if type_ in t.REGISTERED:
        sql_type = t.TEXT_STORAGE
    elif t.element_of(type_) in t.REGISTERED and type_ in t.ARRAY_OF:
        sql_type = t.storage(1009)
    table_oid, attnum = output.origin
    return ResultColumn(output.name, sql_type, table_oid, attnum, type_)


def _as(data: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_string(target) and pa.types.is_struct(data.type):
        import json

        return pa.array([None if v is None else json.dumps(v) for v in data.to_pylist()], target)
    return data.cast(target)


def _set(session: Any, name: str, value: str, local: bool) -> None:
    setter = getattr(session, "set_variable", None)
    if setter is not None:
        setter(name, value, local=local)
    else:
        session.variables.set(name, value)
