"""Statements back to text in the canonical spelling (RisingWave's where PostgreSQL has none).

`parse(statement_sql(s))` gives the same statement under the dialect `streamsql`, and the same text
again: that is tested over every statement of the tests and examples.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sqlglot import exp

from streamsql.core.types import Kind, SqlType
from streamsql.dialect import statements as s
from streamsql.dialect.generator import quote, to_sql

_WORD = re.compile(r"[a-z_][a-z0-9_]*")
_KEY = re.compile(r"[a-z_][a-z0-9_]*([.-][a-z_][a-z0-9_]*)*")


def statement_sql(statement: s.Statement) -> str:
    """The statement as canonical text on one line, without a semicolon; its own text where there is
    one spelling only.

    >>> from streamsql.dialect import parse
    >>> statement_sql(parse("create stream `s` (id int, t timestamp(3)) with ('connector'='x')")[0])
    "CREATE SOURCE s (id integer, t timestamp without time zone) WITH (connector = 'x')"
    """
    write = _WRITERS.get(type(statement))
    return statement.sql if write is None else write(statement)


# parts --------------------------------------------------------------------------------------------
def _name(name: s.Name) -> str:
    return ".".join(quote(part) for part in name)


def _names(names: Iterable[str]) -> str:
    return "(" + ", ".join(quote(name) for name in names) + ")"


def _string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _list(nodes: Iterable[exp.Expression]) -> str:
    return ", ".join(to_sql(node) for node in nodes)


def _join(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _if(flag: object, text: str) -> str:
    return text if flag else ""


def _options(options: Mapping[str, str]) -> str:
    """(key = 'value', …)."""
    items = []
    for key, value in options.items():
        name = key if _KEY.fullmatch(key) else _string(key)
        items.append(f"{name} = {_string(value)}")
    return "(" + ", ".join(items) + ")"


def _with(options: Mapping[str, str]) -> str:
    return f"WITH {_options(options)}" if options else ""


def type_sql(type_: SqlType) -> str:
    """A type's name; fields of a struct are quoted where they need it."""
    if type_.kind is Kind.STRUCT:
        fields = ", ".join(f"{quote(name)} {type_sql(t)}" for name, t in type_.fields)
        return f"struct<{fields}>"
    if type_.kind is Kind.ARRAY and type_.element is not None:
        return type_sql(type_.element) + "[]"
    return str(type_)


def _keyword(word: str) -> str:
    return word.upper() if _WORD.fullmatch(word) else quote(word)


def _format(form: s.FormatDef | None) -> str:
    if form is None:
        return ""
    options = dict(form.options)
    key = options.pop("key.encode", None)
    return _join(
        f"FORMAT {_keyword(form.format)} ENCODE {_keyword(form.encode)}",
        _options(options) if options else "",
        f"KEY ENCODE {_keyword(key)}" if key else "",
    )


# tables -------------------------------------------------------------------------------------------
def _column(column: s.ColumnDef) -> str:
    return _join(
        quote(column.name),
        "" if column.type is None else type_sql(column.type),
        _if(column.not_null, "NOT NULL"),
        _if(column.unique, "UNIQUE"),
        "" if column.default is None else f"DEFAULT {to_sql(column.default)}",
        _generated(column),
    )


def _generated(column: s.ColumnDef) -> str:
    if column.generated is None:
        return ""
    if column.type is None:
        return f"AS {to_sql(column.generated)}"
    return f"GENERATED ALWAYS AS ({to_sql(column.generated)}) STORED"


def _watermark(mark: s.WatermarkDef) -> str:
    if mark.expression is not None:
        return f"WATERMARK FOR {quote(mark.column)} AS {to_sql(mark.expression)}"
    span = f"INTERVAL '{mark.percentile_span_us} microseconds'"
    return f"WATERMARK FOR {quote(mark.column)} AS PERCENTILE({mark.percentile!r}, {span})"


_CONFLICT = {
    "error": "",
    "default": "",
    "overwrite": "ON CONFLICT OVERWRITE",
    "do_nothing": "ON CONFLICT DO NOTHING",
    "update_if_not_null": "ON CONFLICT DO UPDATE IF NOT NULL",
}


def _create_table(t: s.CreateTable) -> str:
    items = [*_if(t.schema_star, "*"), *(_column(column) for column in t.columns)]
    key = t.primary_key or tuple(c.name for c in t.columns if c.primary_key)
    if key:
        items.append(f"PRIMARY KEY {_names(key)}")
    items += [_join(_constraint(u.name), f"UNIQUE {_names(u.columns)}") for u in t.uniques]
    items += [_join(_constraint(c.name), f"CHECK ({to_sql(c.condition)})") for c in t.checks]
    if t.watermark is not None:
        items.append(_watermark(t.watermark))
    body = "(" + ", ".join(items) + ")"
    return _join(
        _join("CREATE", _if(t.temporary, "TEMPORARY"), "SOURCE" if t.is_source else "TABLE"),
        _if(t.if_not_exists, "IF NOT EXISTS"),
        _name(t.name),
        _names(t.as_columns) if t.as_columns else "" if t.as_query is not None else body,
        _if(t.append_only, "APPEND ONLY"),
        _CONFLICT[t.on_conflict],
        *(f"INCLUDE {kind} AS {quote(name)}" for kind, name in t.include),
        _with(t.options),
        _format(t.format),
        "" if t.as_query is None else f"AS {to_sql(t.as_query)}",
    )


def _constraint(name: str | None) -> str:
    return "" if name is None else f"CONSTRAINT {quote(name)}"


_EMIT = {
    None: "",
    "immediately": "EMIT IMMEDIATELY",
    "on_window_close": "EMIT ON WINDOW CLOSE",
}


def _create_view(v: s.CreateView) -> str:
    return _join(
        "CREATE",
        _if(v.or_replace, "OR REPLACE"),
        _if(v.temporary, "TEMPORARY"),
        "MATERIALIZED VIEW" if v.materialized else "VIEW",
        _if(v.if_not_exists, "IF NOT EXISTS"),
        _name(v.name),
        _names(v.columns) if v.columns else "",
        _with(v.options),
        f"AS {to_sql(v.query)}",
        _EMIT[v.emit],
    )


def _create_sink(k: s.CreateSink) -> str:
    query = k.query
    return _join(
        "CREATE SINK",
        _if(k.if_not_exists, "IF NOT EXISTS"),
        _name(k.name),
        "" if k.into is None else f"INTO {_name(k.into)}",
        f"FROM {_name(k.from_relation or ())}" if query is None else f"AS {to_sql(query)}",
        _with(k.options),
        _format(k.format),
    )


def _create_index(i: s.CreateIndex) -> str:
    keys = ", ".join(to_sql(key) for key in i.expressions)
    return _join(
        "CREATE",
        _if(i.unique, "UNIQUE"),
        "INDEX",
        _if(i.if_not_exists, "IF NOT EXISTS"),
        "" if i.name is None else _name(i.name),
        f"ON {_name(i.table)} ({keys})",
        f"INCLUDE {_names(i.include)}" if i.include else "",
    )


def _create_subscription(x: s.CreateSubscription) -> str:
    head = _join("CREATE SUBSCRIPTION", _if(x.if_not_exists, "IF NOT EXISTS"), _name(x.name))
    return _join(head, f"FROM {_name(x.relation)}", _with(x.options))


def _create_schema(x: s.CreateSchema) -> str:
    return _join("CREATE SCHEMA", _if(x.if_not_exists, "IF NOT EXISTS"), quote(x.name))


def _drop(d: s.Drop) -> str:
    names = ", ".join(_name(name) for name in d.names)
    head = _join("DROP", d.kind.upper(), _if(d.if_exists, "IF EXISTS"), names)
    return _join(head, _if(d.cascade, "CASCADE"))


def _alter(a: s.Alter) -> str:
    given = a.arguments
    action = _ACTIONS.get(a.action)
    if action is None or a.sql[:5].upper() == "ALTER":
        return a.sql
    head = _join("ALTER", a.kind.upper(), _if(given.get("if_exists"), "IF EXISTS"), _name(a.name))
    return _join(head, action)


_ACTIONS = {"suspend": "SUSPEND", "resume": "RESUME"}
"""The only actions with a second spelling (PAUSE, RESUME)."""


# DML ----------------------------------------------------------------------------------------------
def _returning(items: tuple[exp.Expression, ...]) -> str:
    return f"RETURNING {_list(items)}" if items else ""


def _assignments(pairs: Iterable[tuple[str, exp.Expression]]) -> str:
    return "SET " + ", ".join(f"{quote(name)} = {to_sql(value)}" for name, value in pairs)


def _where(condition: exp.Expression | None) -> str:
    return "" if condition is None else f"WHERE {to_sql(condition)}"


def _on_conflict(clause: s.OnConflict | None) -> str:
    if clause is None:
        return ""
    target = _names(clause.targets) if clause.targets else ""
    if clause.constraint is not None:
        target = f"ON CONSTRAINT {quote(clause.constraint)}"
    if clause.action == "nothing":
        return _join("ON CONFLICT", target, "DO NOTHING")
    changes = _assignments(clause.assignments)
    return _join("ON CONFLICT", target, "DO UPDATE", changes, _where(clause.where))


def _insert(i: s.Insert) -> str:
    return _join(
        f"INSERT INTO {_name(i.table)}",
        "" if i.alias is None else f"AS {quote(i.alias)}",
        _names(i.columns) if i.columns else "",
        "DEFAULT VALUES" if i.query is None else to_sql(i.query),
        _on_conflict(i.on_conflict),
        _returning(i.returning),
    )


def relations(items: Iterable[exp.Expression]) -> str:
    """The items of FROM with the joins among them."""
    text = ""
    for item in items:
        comma = not isinstance(item, exp.Join) or bool(text)
        if isinstance(item, exp.Join):
            plain = not any(item.args.get(k) for k in ("on", "using", "side", "kind", "method"))
            plain = plain and not item.args.get("match_condition")
            text += ", " + to_sql(item.this) if plain else " " + to_sql(item).strip()
        else:
            text += (", " if text and comma else "") + to_sql(item)
    return text


def _update(u: s.Update) -> str:
    return _join(
        f"UPDATE {_name(u.table)}",
        "" if u.alias is None else f"AS {quote(u.alias)}",
        _assignments(u.assignments),
        f"FROM {relations(u.from_)}" if u.from_ else "",
        _where(u.where),
        _returning(u.returning),
    )


def _delete(d: s.Delete) -> str:
    return _join(
        f"DELETE FROM {_name(d.table)}",
        "" if d.alias is None else f"AS {quote(d.alias)}",
        f"USING {relations(d.using)}" if d.using else "",
        _where(d.where),
        _returning(d.returning),
    )


def _truncate(t: s.Truncate) -> str:
    return "TRUNCATE TABLE " + ", ".join(_name(name) for name in t.tables)


def _merge(m: s.Merge) -> str:
    tree = m.tree
    target = tree.this
    alias = target.args.get("alias")
    name = ".".join(quote(p.name) for p in target.parts)
    returning = tree.args.get("returning")
    return _join(
        f"MERGE INTO {name}",
        "" if alias is None else f"AS {to_sql(alias.this)}",
        f"USING {to_sql(tree.args['using'])} ON {to_sql(tree.args['on'])}",
        *(_when(when) for when in tree.args["whens"].expressions),
        "" if returning is None else _returning(tuple(returning.expressions)),
    )


def _when(when: exp.Expression) -> str:
    matched, condition = when.args["matched"], when.args.get("condition")
    kind = "MATCHED" if matched else "NOT MATCHED"
    if when.args.get("source"):
        kind += " BY SOURCE"
    extra = "" if condition is None else f"AND {to_sql(condition)}"
    return _join("WHEN", kind, extra, "THEN", _merge_action(when.args["then"]))


def _merge_action(action: exp.Expression) -> str:
    if isinstance(action, exp.Update):
        pairs = ", ".join(
            f"{to_sql(change.this)} = {to_sql(change.expression)}" for change in action.expressions
        )
        return f"UPDATE SET {pairs}"
    if isinstance(action, exp.Insert):
        columns = action.this
        names = "" if columns is None else f"({_list(columns.expressions)})"
        values = action.expression
        row = "DEFAULT VALUES" if values is None else f"VALUES ({_list(values.expressions)})"
        return _join("INSERT", names, row)
    return str(action.name)


def _with_writes(w: s.WithWrites) -> str:
    ctes = [
        f"{quote(c.name)}{' ' + _names(c.columns) if c.columns else ''} AS"
        f" ({statement_sql(c.statement)})"
        for c in w.ctes
    ]
    return f"WITH {', '.join(ctes)} {statement_sql(w.statement)}"


# the rest with more than one spelling -------------------------------------------------------------
def _query(q: s.Query) -> str:
    return to_sql(q.query)


def _subscribe(x: s.Subscribe) -> str:
    what = _name(x.relation) if x.relation is not None else f"({to_sql(x.query or exp.Null())})"
    options = {}
    if not x.snapshot:
        options["snapshot"] = "false"
    if x.progress:
        options["progress"] = "true"
    inside = ", ".join(f"{key} = {value}" for key, value in options.items())
    return _join(
        f"SUBSCRIBE TO {what}",
        f"WITH ({inside})" if inside else "",
        "" if x.as_of is None else f"AS OF {_version(x.as_of)}",
        "" if x.up_to is None else f"UP TO {_version(x.up_to)}",
        "" if x.limit is None else f"LIMIT {x.limit}",
    )


def _version(version: int | exp.Expression) -> str:
    return str(version) if isinstance(version, int) else to_sql(version)


def _explain(e: s.Explain) -> str:
    options = [
        *(["ANALYZE"] if e.analyze else []),
        *(["VERBOSE"] if e.verbose else []),
        *([f"FORMAT {e.format.upper()}"] if e.format != "text" else []),
    ]
    what = "" if e.statement is None else statement_sql(e.statement)
    if e.materialized_view is not None:
        what = f"MATERIALIZED VIEW {_name(e.materialized_view)}"
    return _join("EXPLAIN", f"({', '.join(options)})" if options else "", what)


def _declare(d: s.DeclareCursor) -> str:
    if d.subscription is not None:
        since = "FULL" if d.full else f"SINCE {d.since}" if d.since is not None else ""
        head = f"DECLARE {quote(d.name)} SUBSCRIPTION CURSOR FOR {_name(d.subscription)}"
        return _join(head, since)
    head = _join(
        f"DECLARE {quote(d.name)}",
        _if(d.scroll, "SCROLL"),
        "CURSOR",
        _if(d.with_hold, "WITH HOLD"),
        "FOR",
    )
    inner = _subscribe(d.subscribe) if d.subscribe is not None else to_sql(d.query or exp.Null())
    return _join(head, inner)


def _prepare(p: s.PrepareStatement) -> str:
    types = ", ".join(type_sql(t) for t in p.types)
    head = f"PREPARE {quote(p.name)}" + (f" ({types})" if types else "")
    return f"{head} AS {statement_sql(p.statement)}"


def _set(v: s.SetVariable) -> str:
    plain = all(_WORD.fullmatch(part) for part in v.name.split("."))
    name = v.name if plain else _string(v.name)
    if v.name == "constraints":
        return f"SET CONSTRAINTS ALL {(v.value or '').upper()}"
    if v.value is None:
        return f"RESET {name.upper() if name == 'all' else name}"
    return f"SET {'LOCAL ' if v.local else ''}{name} = {_string(v.value)}"


def _show_objects(x: s.ShowObjects) -> str:
    origin = ""
    if x.relation is not None:
        origin = f"FROM {_name(x.relation)}"
    elif x.schema is not None:
        origin = f"FROM {quote(x.schema)}"
    like = "" if x.like is None else f"LIKE {_string(x.like)}"
    return _join("SHOW", x.kind.upper(), origin, like)


def _show_create(x: s.ShowCreate) -> str:
    return f"SHOW CREATE {x.kind.upper()} {_name(x.name)}"


def _describe(x: s.Describe) -> str:
    return f"DESCRIBE {_name(x.name)}"


def _flush(x: s.Flush) -> str:
    return "FLUSH"


def _transaction(t: s.Transaction) -> str:
    name = "" if t.name is None else quote(t.name)
    return {
        "begin": _join("BEGIN", _if(t.read_only, "READ ONLY")),
        "commit": "COMMIT",
        "rollback": "ROLLBACK",
        "savepoint": f"SAVEPOINT {name}",
        "release": f"RELEASE SAVEPOINT {name}",
        "rollback_to": f"ROLLBACK TO SAVEPOINT {name}",
    }[t.action]


_WRITERS: dict[type[s.Statement], Callable[[Any], str]] = {
    s.Query: _query,
    s.CreateTable: _create_table,
    s.CreateView: _create_view,
    s.CreateSink: _create_sink,
    s.CreateIndex: _create_index,
    s.CreateSubscription: _create_subscription,
    s.CreateSchema: _create_schema,
    s.Drop: _drop,
    s.Alter: _alter,
    s.Insert: _insert,
    s.Update: _update,
    s.Delete: _delete,
    s.Truncate: _truncate,
    s.Merge: _merge,
    s.WithWrites: _with_writes,
    s.Subscribe: _subscribe,
    s.Explain: _explain,
    s.DeclareCursor: _declare,
    s.PrepareStatement: _prepare,
    s.SetVariable: _set,
    s.ShowObjects: _show_objects,
    s.ShowCreate: _show_create,
    s.Describe: _describe,
    s.Flush: _flush,
    s.Transaction: _transaction,
}
