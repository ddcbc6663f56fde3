"""\\d and its kin: what is in the database."""

from __future__ import annotations

import re

from streamsql_repl.answer import Answer, Row, StatementFailed
from streamsql_repl.commands.registry import CommandFailed, command
from streamsql_repl.shell import Shell

GROUP = "What is there"
_WATERMARK = re.compile(r"\bwatermark\s+for\s+", re.IGNORECASE)
_PARTS = re.compile(r"'[^']*'|\"[^\"]*\"|[(),]|[^'\"(),]+")
_KINDS = {"r": "table", "v": "view", "m": "materialized view"}
_RELATIONS = """
SELECT n.nspname AS "Schema", c.relname AS "Name",
       CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view'
                      ELSE 'other' END AS "Type"
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ({kinds}) AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'streamsql')
ORDER BY 1, 2
"""
_COLUMNS = """
SELECT a.attname AS "Column", pg_catalog.format_type(a.atttypid, a.atttypmod) AS "Type",
       CASE WHEN a.attnotnull THEN 'not null' ELSE '' END AS "Nullable",
       COALESCE(pg_catalog.pg_get_expr(d.adbin, d.adrelid), '') AS "Default"
FROM pg_catalog.pg_attribute a
LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
_FIND = """
SELECT c.oid, n.nspname, c.relname, c.relkind
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = {name} AND ({schema} IS NULL OR n.nspname = {schema})
  AND c.relkind IN ('r', 'v', 'm')
ORDER BY pg_catalog.pg_table_is_visible(c.oid) DESC, n.nspname
"""
_KEYS = """
SELECT i.relname, CASE WHEN x.indisprimary THEN 'PRIMARY KEY' WHEN x.indisunique THEN 'UNIQUE'
                       ELSE 'INDEX' END, pg_catalog.pg_get_indexdef(i.oid)
FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
WHERE x.indrelid = {oid}
ORDER BY x.indisprimary DESC, i.relname
"""


@command("d", usage="[name]", help="relations, or the columns of one", group=GROUP)
def describe(shell: Shell, argument: str) -> None:
    """All relations, or one of them with its columns and definition."""
    if not argument:
        _relations(shell, "'r', 'v', 'm'", "Relations")
        return
    oid, schema, name, kind = find(shell, argument)
    word = (
        "source" if kind == "r" and name in _source_names(shell) else _KINDS.get(kind, "relation")
    )
    shell.screen.line(f'{word.capitalize()} "{schema}.{name}"')
    _show(shell, _COLUMNS.format(oid=oid), None)
    keys = _quietly(shell, _KEYS.format(oid=oid))
    if keys:
        shell.screen.line("Indexes:")
        for index, what, definition in keys:
            columns = (definition or "").rpartition("(")[2].rstrip(")")
            shell.screen.line(f'    "{index}" {what} ({columns})')
    if kind == "r":
        for line in _watermark(shell, schema, name, word):
            shell.screen.line(line)
    if kind in ("v", "m"):
        word = _KINDS[kind].upper()
        quoted = f"{_identifier(schema)}.{_identifier(name)}"
        for row in _quietly(shell, f"SHOW CREATE {word} {quoted}"):
            shell.screen.line("Definition:")
            for line in (row[-1] or "").splitlines():
                shell.screen.line(f"    {line}")


def _watermark(shell: Shell, schema: str, name: str, word: str) -> list[str]:
    """How the watermark is made, as the definition says it, and where it stands."""
    quoted = f"{_identifier(schema)}.{_identifier(name)}"
    shown = _quietly(shell, f"SHOW CREATE {word.upper()} {quoted}")
    rule = watermark_rule(shown[0][-1] or "") if shown else None
    if rule is None:
        return []
    sql = f"SELECT watermark FROM streamsql.watermarks WHERE relation = {_literal(name)}"
    stands = _quietly(shell, f"{sql} AND operator = 'source'")
    where = stands[0][0] if stands and stands[0][0] else "no row yet"
    return [f"Watermark: {rule} (now: {where})"]


def watermark_rule(definition: str) -> str | None:
    """What stands behind WATERMARK FOR in a CREATE statement.

    >>> watermark_rule("CREATE TABLE t (a TIMESTAMP, watermark for a AS f(a, ')'), b INT)")
    "a AS f(a, ')')"
    """
    begin = _WATERMARK.search(definition)
    if begin is None:
        return None
    depth = 0
    for piece in _PARTS.finditer(definition, begin.end()):
        text = piece[0]
        if depth == 0 and text in (",", ")"):
            return " ".join(definition[begin.end() : piece.start()].split())
        depth += (text == "(") - (text == ")")
    return None


def find(shell: Shell, argument: str) -> tuple[str, str, str, str]:
    """(oid, schema, name, relkind) of a relation. Raises: CommandFailed if there is none."""
    parts = split_name(argument)
    name, schema = parts[-1], parts[-2] if len(parts) > 1 else None
    sql = _FIND.format(name=_literal(name), schema=_literal(schema))
    rows = query(shell, sql)[1]
    if not rows:
        raise CommandFailed(f'Did not find any relation named "{argument}".')
    oid, found_schema, found_name, kind = rows[0]
    return str(oid), str(found_schema), str(found_name), str(kind)


def split_name(text: str) -> list[str]:
    """The parts of a dotted name, folded as SQL folds them.

    >>> split_name('Public."My Table"')
    ['public', 'My Table']
    """
    parts: list[str] = []
    rest = text.strip()
    while rest:
        if rest[0] == '"' and '"' in rest[1:]:
            end = rest.index('"', 1)
            parts.append(rest[1:end])
            rest = rest[end + 1 :].removeprefix(".")
        else:
            part, _, rest = rest.partition(".")
            parts.append(part.lower())
    return parts


@command("dt", help="tables", group=GROUP)
def tables(shell: Shell, argument: str) -> None:
    """Tables."""
    _relations(shell, "'r'", "Tables", without="source")


@command("dv", help="views", group=GROUP)
def views(shell: Shell, argument: str) -> None:
    """Plain views."""
    _relations(shell, "'v'", "Views")


@command("dm", help="materialized views", group=GROUP)
def materialized_views(shell: Shell, argument: str) -> None:
    """Materialized views."""
    _relations(shell, "'m'", "Materialized views")


@command("ds", help="sources", group=GROUP)
def sources(shell: Shell, argument: str) -> None:
    """Sources."""
    _show(shell, "SHOW SOURCES", "Sources")


@command("dk", help="sinks", group=GROUP)
def sinks(shell: Shell, argument: str) -> None:
    """Sinks."""
    _show(shell, "SHOW SINKS", "Sinks")


@command("dn", help="schemas", group=GROUP)
def schemas(shell: Shell, argument: str) -> None:
    """Schemas."""
    sql = """SELECT nspname AS "Name" FROM pg_catalog.pg_namespace
             WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' ORDER BY 1"""
    _show(shell, sql, "Schemas")


@command("l", help="databases", group=GROUP)
def databases(shell: Shell, argument: str) -> None:
    """Databases (there is one)."""
    _show(shell, 'SELECT datname AS "Name" FROM pg_catalog.pg_database ORDER BY 1', "Databases")


@command("du", help="users", group=GROUP)
def users(shell: Shell, argument: str) -> None:
    """Users."""
    sql = """SELECT rolname AS "User", rolsuper AS "Superuser" FROM pg_catalog.pg_roles
             WHERE rolname !~ '^pg_' ORDER BY 1"""
    _show(shell, sql, "Users")


def query(shell: Shell, sql: str) -> tuple[Answer, list[Row]]:
    """Run a query of our own and take all of its rows. Raises: StatementFailed."""
    try:
        answer = shell.backend.run(sql.strip())
        rows = [row for batch in answer.batches for row in batch]
    except StatementFailed as error:
        error.position = None  # the text is not the user's
        raise
    return answer, rows


def _quietly(shell: Shell, sql: str) -> list[Row]:
    """Rows that are only an addition: none if the server knows no such relation."""
    try:
        return query(shell, sql)[1]
    except StatementFailed:
        return []


def _source_names(shell: Shell) -> set[str]:
    """Sources look like tables in pg_catalog, where clients know no other word."""
    return {str(row[0]) for row in _quietly(shell, "SHOW SOURCES")}


def _relations(shell: Shell, kinds: str, title: str, without: str = "") -> None:
    """Relations of these relkinds, sources told apart from tables."""
    answer, rows = query(shell, _RELATIONS.format(kinds=kinds))
    sources = _source_names(shell)
    told = [
        (schema, name, "source" if kind == "table" and name in sources else kind)
        for schema, name, kind in rows
    ]
    _print(shell, answer, [row for row in told if row[2] != without], title)


def _show(shell: Shell, sql: str, title: str | None) -> None:
    _print(shell, *query(shell, sql), title)


def _print(shell: Shell, answer: Answer, rows: list[Row], title: str | None) -> None:
    if not rows and title is not None:
        shell.screen.line(f"No {title.lower()}.")
        return
    if title is not None:
        shell.screen.line(title)
    answer.batches = iter([rows])
    shell.show_rows(answer)


def _literal(text: str | None) -> str:
    return "NULL::text" if text is None else "'" + text.replace("'", "''") + "'"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
