"""Rows of the catalog relations that stand for our own schemas, relations and constraints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlglot import exp

from streamsql.core.schema import Column
from streamsql.core.types import Kind
from streamsql.dialect.statements import CreateIndex, CreateTable, CreateView
from streamsql.engine.catalog import DATABASE, DATABASE_OID, OWNER_OID, Catalog
from streamsql.engine.pgcatalog import pgtypes as t
from streamsql.engine.pgcatalog.names import quote_ident
from streamsql.engine.relations import OBJECTS, Key, Relation

Row = dict[str, Any]
Rows = dict[str, list[Row]]
"""Relation (`schema.name`) -> rows; columns that are not given have a default."""

RELKIND = {"table": "r", "source": "r", "view": "v", "materialized_view": "m", "system": "r"}
PG_CLASS, PG_NAMESPACE, PG_REWRITE, PG_CONSTRAINT, PG_ATTRDEF = 1259, 2615, 2618, 2606, 2604
PG_DATABASE = 1262
DEFAULT_COLLATION, BTREE, HEAP, BTREE_OPCLASS = 100, 403, 2, 1978
_TEXT_KINDS = (Kind.TEXT, Kind.VARCHAR)


def catalog_rows(catalog: Catalog) -> Rows:
    """All rows of pg_catalog's tables; its views and information_schema are in `views.py`."""
    rows: Rows = {}
    for name, schema in catalog.schemas.items():
        _add(rows, "pg_namespace", oid=schema.oid, nspname=name, nspowner=OWNER_OID)
    indexed = {r.extra["of"] for r in catalog.relations.values() if r.kind == "index"}
    for relation in catalog.relations.values():
        _relation(rows, catalog, relation, indexed)
    described = dict.fromkeys((s.oid for s in catalog.schemas.values()), PG_NAMESPACE)
    for relation in catalog.relations.values():
        described.update((k.constraint_oid, PG_CONSTRAINT) for k in relation.keys)
    for (oid, attnum), text in catalog.comments.items():
        if oid == DATABASE_OID:
            _add(rows, "pg_shdescription", objoid=oid, classoid=PG_DATABASE, description=text)
            continue
        _add(
            rows, "pg_description", objoid=oid, classoid=described.get(oid, PG_CLASS),
            objsubid=attnum, description=text,
        )  # fmt: skip
    _add(
        rows, "pg_database", oid=DATABASE_OID, datname=DATABASE, datdba=OWNER_OID, encoding=6,
        datlocprovider="c", datallowconn=True, datconnlimit=-1, datfrozenxid=3, datminmxid=1,
        dattablespace=1663, datcollate="C", datctype="C.UTF-8",
    )  # fmt: skip
    return rows


def _add(rows: Rows, relation: str, **values: Any) -> None:
    rows.setdefault(f"pg_catalog.{relation}", []).append(values)


def _relation(rows: Rows, catalog: Catalog, relation: Relation, indexed: set[int]) -> None:
    namespace = catalog.schemas[relation.schema].oid
    if relation.kind in OBJECTS:
        if relation.kind == "index":
            _index(rows, catalog, relation, namespace)
        return
    kind = RELKIND[relation.kind]
    _add(
        rows, "pg_class", oid=relation.oid, relname=relation.name, relnamespace=namespace,
        reltype=relation.type_oid, relowner=OWNER_OID, relam=HEAP if kind in "rm" else 0,
        relfilenode=relation.oid if kind in "rm" else 0, reltuples=-1.0 if kind in "rm" else 0.0,
        relhasindex=bool(relation.keys) or relation.oid in indexed, relkind=kind,
        relnatts=len(relation.columns), relpersistence="t" if relation.temporary else "p",
        relhasrules=kind == "v" or watermark_text(relation) is not None, relispopulated=True,
        relreplident="d" if kind in "rm" else "n",
        relfrozenxid=3 if kind in "rm" else 0, relminmxid=1 if kind in "rm" else 0,
    )  # fmt: skip
    _row_type(rows, relation, namespace)
    generated = expressions_of(relation)
    for attnum, column in enumerate(relation.columns, 1):
        _attribute(rows, relation.oid, attnum, column, generated.get(column.name))
        found = generated.get(column.name)
        if found is not None:
            _add(
                rows, "pg_attrdef", oid=relation.oid * 1000 + attnum, adrelid=relation.oid,
                adnum=attnum, adbin=found[1],
            )  # fmt: skip
    for key in relation.keys:
        _key(rows, relation, key, namespace)
    if kind in "vm":
        _definition(rows, catalog, relation)
    watermark = watermark_text(relation)
    if watermark is not None:
        _rule(rows, relation, "watermark", watermark)


def _row_type(rows: Rows, relation: Relation, namespace: int) -> None:
    if relation.type_oid:
        _add(
            rows, "pg_type", oid=relation.type_oid, typname=relation.name, typnamespace=namespace,
            typowner=OWNER_OID, typlen=-1, typtype="c", typcategory="C", typisdefined=True,
            typdelim=",", typrelid=relation.oid, typinput=2290, typoutput=2291, typreceive=2402,
            typsend=2403, typalign="d", typstorage="x", typtypmod=-1,
            _formatted=quote_ident(relation.name),
        )  # fmt: skip


def _attribute(
    rows: Rows, owner: int, attnum: int, column: Column, given: tuple[bool, str] | None
) -> None:
    type_ = column.type
    oid = type_.oid
    length = t.LENGTH.get(oid, -1)
    is_text = type_.kind in _TEXT_KINDS
    _add(
        rows, "pg_attribute", attrelid=owner, attname=column.name, atttypid=oid, attstattarget=-1,
        attlen=length, attnum=attnum, attndims=1 if type_.kind is Kind.ARRAY else 0,
        attcacheoff=-1, atttypmod=type_.typmod, attbyval=0 < length <= 8,
        attalign=t.ALIGNMENT.get(oid, "i"), attstorage="p" if length > 0 else _storage(type_.kind),
        attnotnull=not column.nullable, atthasdef=given is not None,
        attgenerated="s" if given is not None and given[0] else "", attislocal=True,
        attcollation=DEFAULT_COLLATION if is_text else 0,
    )  # fmt: skip


def _storage(kind: Kind) -> str:
    return "m" if kind is Kind.NUMERIC else "x"


def expressions_of(relation: Relation) -> dict[str, tuple[bool, str]]:
    """Column -> (is generated, its expression's text), for defaults and generated columns."""
    if not isinstance(relation.statement, CreateTable):
        return {}
    found = {}
    for column in relation.statement.columns:
        expression = column.generated or column.default
        if expression is not None:
            found[column.name] = (column.generated is not None, expression_text(expression))
    return found


def expression_text(tree: exp.Expression) -> str:
    """An expression in PostgreSQL's spelling: names in quotes only where they need them."""
    copy = tree.copy()
    for name in copy.find_all(exp.Identifier):
        name.set("quoted", quote_ident(name.name) != name.name)
    return copy.transform(
        lambda n: exp.Var(this=str(n.this).lower()) if isinstance(n, exp.Boolean) else n
    ).sql(dialect="postgres", normalize_functions=False)


def _key(rows: Rows, relation: Relation, key: Key, namespace: int) -> None:
    """A PRIMARY KEY or UNIQUE constraint and the index that stands for it."""
    columns = [relation.columns[i] for i in key.columns]
    texts = [quote_ident(c.name) for c in columns]
    numbers = [i + 1 for i in key.columns]
    _add(
        rows, "pg_class", oid=key.index_oid, relname=key.name, relnamespace=namespace,
        relowner=OWNER_OID, relam=BTREE, relfilenode=key.index_oid, relkind="i",
        relnatts=len(columns), relpersistence="t" if relation.temporary else "p",
        relispopulated=True, relreplident="n",
    )  # fmt: skip
    _add(
        rows, "pg_index", indexrelid=key.index_oid, indrelid=relation.oid, indnatts=len(columns),
        indnkeyatts=len(columns), indisunique=True, indisprimary=key.primary, indimmediate=True,
        indisvalid=True, indisready=True, indislive=True, indkey=numbers,
        indcollation=[DEFAULT_COLLATION if c.type.kind in _TEXT_KINDS else 0 for c in columns],
        indclass=[BTREE_OPCLASS] * len(columns), indoption=[0] * len(columns),
    )  # fmt: skip
    for attnum, column in enumerate(columns, 1):
        _attribute(rows, key.index_oid, attnum, column, None)
    _add(
        rows, "pg_constraint", oid=key.constraint_oid, conname=key.name, connamespace=namespace,
        contype="p" if key.primary else "u", convalidated=True, conrelid=relation.oid,
        conindid=key.index_oid, conislocal=True, connoinherit=True, conkey=numbers,
    )  # fmt: skip
    listed = ", ".join(texts)
    word = "PRIMARY KEY" if key.primary else "UNIQUE"
    _add(rows, "_constraints", oid=key.constraint_oid, definition=f"{word} ({listed})")
    table = f"{quote_ident(relation.schema)}.{quote_ident(relation.name)}"
    _add(
        rows, "_indexes", oid=key.index_oid, columns=texts,
        definition=f"CREATE UNIQUE INDEX {quote_ident(key.name)} ON {table}"
        f" USING btree ({listed})",
    )  # fmt: skip
    _depends(rows, PG_CONSTRAINT, key.constraint_oid, relation.oid, "a")
    _add(
        rows, "pg_depend", classid=PG_CLASS, objid=key.index_oid, refclassid=PG_CONSTRAINT,
        refobjid=key.constraint_oid, deptype="i",
    )  # fmt: skip


def index_texts(relation: Relation) -> list[str]:
    """The keys of an index as its definition shows them."""
    assert isinstance(relation.statement, CreateIndex)
    texts = []
    for written in relation.statement.expressions:
        tree = written.unnest()
        text = expression_text(tree)
        simple = isinstance(tree, exp.Column | exp.Anonymous)
        texts.append(text if simple else f"({text})")
    return texts


def index_definition(relation: Relation, owner: Relation) -> str:
    """What pg_get_indexdef says."""
    word = "UNIQUE INDEX" if relation.extra["unique"] else "INDEX"
    table = f"{quote_ident(owner.schema)}.{quote_ident(owner.name)}"
    text = f"CREATE {word} {quote_ident(relation.name)} ON {table} USING btree"
    text += f" ({', '.join(index_texts(relation))})"
    include = [quote_ident(name) for name in relation.extra["include"]]
    return f"{text} INCLUDE ({', '.join(include)})" if include else text


def _index(rows: Rows, catalog: Catalog, relation: Relation, namespace: int) -> None:
    """CREATE INDEX: beside the keys, its included columns are named."""
    owner = catalog.relations[relation.extra["of"]]
    included = [owner.columns.index(name) for name in relation.extra["include"]]
    keys = [-1 if i is None else i for i in relation.extra["columns"]]
    columns = [*relation.columns, *(owner.columns[i] for i in included)]
    _add(
        rows, "pg_class", oid=relation.oid, relname=relation.name, relnamespace=namespace,
        relowner=OWNER_OID, relam=BTREE, relfilenode=relation.oid, relkind="i",
        relnatts=len(columns), relpersistence="t" if relation.temporary else "p",
        relispopulated=True, relreplident="n",
    )  # fmt: skip
    _add(
        rows, "pg_index", indexrelid=relation.oid, indrelid=owner.oid, indnatts=len(columns),
        indnkeyatts=len(keys), indisunique=bool(relation.extra["unique"]), indisprimary=False,
        indimmediate=True, indisvalid=True, indisready=True, indislive=True,
        indkey=[i + 1 for i in [*keys, *included]], indclass=[BTREE_OPCLASS] * len(keys),
        indcollation=[
            DEFAULT_COLLATION if c.type.kind in _TEXT_KINDS else 0 for c in relation.columns
        ],
        indoption=[0] * len(keys), indexprs="<>" if -1 in keys else None,
    )  # fmt: skip
    for attnum, column in enumerate(columns, 1):
        _attribute(rows, relation.oid, attnum, column, None)
    texts = [*index_texts(relation), *(quote_ident(name) for name in relation.extra["include"])]
    _add(
        rows, "_indexes", oid=relation.oid, columns=texts,
        definition=index_definition(relation, owner),
    )  # fmt: skip
    _depends(rows, PG_CLASS, relation.oid, owner.oid, "a")


def watermark_text(relation: Relation) -> str | None:
    """The watermark of a table or source as the user wrote it, or None."""
    statement = relation.statement
    if not isinstance(statement, CreateTable) or statement.watermark is None:
        return None
    given = statement.watermark
    if given.expression is not None:
        value = expression_text(given.expression)
    else:
        span = (given.percentile_span_us or 0) / 1_000_000
        value = f"PERCENTILE({given.percentile}, INTERVAL '{span:g} seconds')"
    return f"WATERMARK FOR {quote_ident(given.column)} AS {value}"


def _rule(rows: Rows, relation: Relation, name: str, text: str) -> None:
    """What psql's `d` lists under "Rules": the one place for a property PostgreSQL has no word
    for."""
    _add(
        rows, "pg_rewrite", oid=relation.oid * 1000, rulename=name, ev_class=relation.oid,
        ev_type="3", ev_enabled="O", is_instead=False, ev_qual="<>",
        ev_action=f"CREATE RULE {text}",
    )  # fmt: skip


def _definition(rows: Rows, catalog: Catalog, relation: Relation) -> None:
    """A view's text, its rewrite rule, and what it depends on."""
    _add(rows, "_views", oid=relation.oid, definition=view_text(relation))
    _add(
        rows, "pg_rewrite", oid=relation.oid, rulename="_RETURN", ev_class=relation.oid,
        ev_type="1", ev_enabled="O", is_instead=True, ev_qual="<>", ev_action="<>",
    )  # fmt: skip
    _depends(rows, PG_REWRITE, relation.oid, relation.oid, "i")
    for base in sorted(relation.depends_on):
        if base in catalog.relations:
            _depends(rows, PG_REWRITE, relation.oid, base, "n")


def _depends(rows: Rows, classid: int, objid: int, on: int, kind: str) -> None:
    _add(
        rows, "pg_depend", classid=classid, objid=objid, refclassid=PG_CLASS, refobjid=on,
        deptype=kind,
    )  # fmt: skip


def view_text(relation: Relation) -> str:
    """The query as the user wrote it, with the semicolon that pg_get_viewdef gives. When windows
    are emitted is part of what the view means, so it is part of its text."""
    if isinstance(relation.statement, CreateView):
        query = relation.statement.query_sql.strip()
        closing = relation.statement.emit == "on_window_close"
        return f"{query} EMIT ON WINDOW CLOSE;" if closing else f"{query};"
    return f"{relation.sql.strip()};" if relation.sql else ""


def columns_of(relations: Iterable[Relation]) -> Iterable[tuple[Relation, int, Column]]:
    """(relation, attnum, column) of all columns."""
    for relation in relations:
        for attnum, column in enumerate(relation.columns, 1):
            yield relation, attnum, column
