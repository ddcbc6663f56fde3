"""What may come next: keywords, relations, columns, commands, by what stands before the cursor.

No terminal in here: `suggest` takes text and gives words.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from streamsql_repl.answer import Backend, ConnectionLost, StatementFailed
from streamsql_repl.words import FUNCTIONS, KEYWORDS, STATEMENT_STARTS, TYPES

_CATALOG = """
SELECT table_schema, table_name, column_name FROM information_schema.columns
WHERE table_schema NOT IN ('pg_catalog', 'information_schema')
ORDER BY table_schema, table_name, ordinal_position
"""
_TOKEN = re.compile(
    r"""'(?:[^']|'')*'? | "(?:[^"]|"")*"? | --[^\n]* | [A-Za-z_\x80-\uffff][\w$]* | \S""",
    re.VERBOSE,
)
_RELATION_BEFORE = frozenset(
    {"FROM", "JOIN", "INTO", "UPDATE", "TABLE", "VIEW", "SUBSCRIBE", "DESCRIBE", "TRUNCATE", "ONLY",
     "COPY", "USING", "SOURCE", "TUMBLE", "HOP", "CUMULATE", "SESSION"}
)  # fmt: skip
_AFTER_RELATION = frozenset(
    {"WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "ON", "JOIN", "LEFT", "RIGHT", "FULL", "INNER",
     "CROSS", "NATURAL", "ASOF", "UNION", "EXCEPT", "INTERSECT", "WINDOW", "QUALIFY", "EMIT", "SET",
     "VALUES", "SELECT", "USING", "FROM", "AS", "OFFSET", "FETCH", "RETURNING", "LATERAL"}
)  # fmt: skip
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_$]*\Z")


@dataclass
class Words:
    """The names of one database. relations: name (qualified outside of public) -> columns."""

    relations: dict[str, list[str]] = field(default_factory=dict)
    schemas: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, backend: Backend) -> Words:
        """Ask the catalog. Raises: StatementFailed, ConnectionLost."""
        found = cls()
        answer = backend.run(_CATALOG.strip())
        for batch in answer.batches:
            for schema, table, column in batch:
                name = str(table) if schema == "public" else f"{schema}.{table}"
                found.relations.setdefault(name, []).append(str(column))
                if schema not in found.schemas:
                    found.schemas.append(str(schema))
        return found


class Vocabulary:
    """`Words`, refreshed by a thread on a session of its own."""

    def __init__(self) -> None:
        self.words = Words()
        self._busy = threading.Lock()

    def refresh(self, backend: Backend) -> threading.Thread:
        """Read the catalog again in the background; a refresh that runs already is enough."""
        thread = threading.Thread(
            target=self._refresh, args=(backend,), name="completion", daemon=True
        )
        thread.start()
        return thread

    def _refresh(self, backend: Backend) -> None:
        with self._busy:
            try:
                own = backend.second()
            except (StatementFailed, ConnectionLost):
                return
            try:
                self.words = Words.read(own)
            except (StatementFailed, ConnectionLost):
                pass  # completion is a comfort: without it the REPL goes on
            finally:
                own.close()


@dataclass(frozen=True)
class Suggestion:
    """text: what replaces the last `length` characters; kind: shown beside it."""

    text: str
    kind: str
    length: int


def suggest(before: str, words: Words, commands: Iterable[str] = ()) -> list[Suggestion]:
    """Suggestions for the end of `before` (the text up to the cursor), best first."""
    stripped = before.lstrip()
    if stripped.startswith("\\"):
        return _for_command(stripped, words, commands)
    tokens = _tokens(_last_statement(before))
    partial = ""
    if tokens and before and re.match(r"[\w$\x80-\uffff\"]", before[-1]):
        partial = tokens.pop()
    if partial[:1] in ("'",) or (partial[:1] == '"' and partial.endswith('"') and len(partial) > 1):
        return []
    if tokens and tokens[-1].startswith("'") and not tokens[-1].endswith("'"):
        return []
    if tokens and tokens[-1] == ".":
        return _after_dot(tokens, partial, words)
    previous = tokens[-1].upper() if tokens else ""
    pools: list[tuple[Iterable[str], str]] = []
    if not tokens:
        return _matching(partial, [(STATEMENT_STARTS, "statement")], keep_case=True)
    if _wants_relation(tokens):
        return _matching(
            partial, [(sorted(words.relations), "relation"), (words.schemas, "schema")]
        )
    columns = _columns_in_scope(_tokens(before), words)
    if previous not in ("CREATE", "DROP", "ALTER", "SHOW", "EMIT"):
        pools.append((columns, "column"))
        pools.append((FUNCTIONS, "function"))
    pools.append((sorted(KEYWORDS), "keyword"))
    pools.append((sorted(TYPES), "type"))
    if not partial and previous not in ("SELECT", ",", "WHERE", "AND", "OR", "ON", "BY", "="):
        return []
    return _matching(partial, pools)


def _for_command(text: str, words: Words, commands: Iterable[str]) -> list[Suggestion]:
    name, blank, argument = text.partition(" ")
    if not blank:
        return _matching(name, [([f"\\{c}" for c in sorted(commands)], "command")])
    if name in ("\\d", "\\live", "\\copy"):
        return _matching(argument.split(" ")[-1], [(sorted(words.relations), "relation")])
    return []


def _last_statement(text: str) -> str:
    from streamsql_repl.splitter import split

    pieces = split(text)
    return pieces[-1].text if pieces and pieces[-1].kind == "rest" else ""


def _tokens(text: str) -> list[str]:
    return [token for token in _TOKEN.findall(text) if not token.startswith("--")]


def _wants_relation(tokens: list[str]) -> bool:
    """Is the next word a relation's name? After FROM and its kin, and after a comma in FROM."""
    last = tokens[-1].upper()
    if last in _RELATION_BEFORE:
        return not (last in ("TABLE", "VIEW", "SOURCE") and "CREATE" in [t.upper() for t in tokens])
    if last == "TO" and len(tokens) > 1 and tokens[-2].upper() == "SUBSCRIBE":
        return True
    if last == "(" and len(tokens) > 1:
        return tokens[-2].upper() in ("TUMBLE", "HOP", "CUMULATE", "SESSION", "COPY")
    if last == ",":
        for token in reversed(tokens[:-1]):
            word = token.upper()
            if word in ("FROM", "JOIN"):
                return True
            if word in _AFTER_RELATION or token in ("(", ")"):
                return False
    return False


def aliases(tokens: list[str], words: Words) -> dict[str, str]:
    """Alias (and plain name) -> relation, for all relations named in the statement."""
    found: dict[str, str] = {}
    for index, token in enumerate(tokens):
        if token.upper() not in _RELATION_BEFORE and token != ",":
            continue
        name, end = _name_at(tokens, index + 1)
        if name not in words.relations:
            continue
        found[name.rpartition(".")[2]] = name
        if end < len(tokens) and tokens[end].upper() == "AS":
            end += 1
        if end < len(tokens) and re.match(r"[\w\"]", tokens[end]):
            alias = tokens[end]
            if alias.upper() not in _AFTER_RELATION:
                found[_unquote(alias)] = name
    return found


def _name_at(tokens: list[str], index: int) -> tuple[str, int]:
    """The dotted name that starts at `index`, and the index behind it."""
    parts: list[str] = []
    while index < len(tokens) and re.match(r"[\w\"]", tokens[index]):
        parts.append(_unquote(tokens[index]))
        index += 1
        if index < len(tokens) and tokens[index] == ".":
            index += 1
        else:
            break
    if len(parts) > 1 and parts[0] == "public":
        parts.pop(0)
    return ".".join(parts), index


def _unquote(token: str) -> str:
    return token[1:-1].replace('""', '"') if token[:1] == '"' else token.lower()


def _after_dot(tokens: list[str], partial: str, words: Words) -> list[Suggestion]:
    """alias.column, schema.relation."""
    if len(tokens) < 2:
        return []
    owner = _unquote(tokens[-2])
    relation = aliases(tokens, words).get(owner, owner)
    columns = words.relations.get(relation, [])
    inside = [name.partition(".")[2] for name in words.relations if name.startswith(f"{owner}.")]
    if owner == "public":
        inside = [name for name in words.relations if "." not in name]
    return _matching(partial, [(columns, "column"), (sorted(inside), "relation")])


def _columns_in_scope(tokens: list[str], words: Words) -> list[str]:
    """Columns of the relations that the statement names; of all relations if it names none yet."""
    used = set(aliases(tokens, words).values())
    names: dict[str, None] = {}
    for relation in sorted(used) if used else sorted(words.relations):
        names.update((column, None) for column in words.relations[relation])
    return list(names)


def _matching(
    partial: str, pools: list[tuple[Iterable[str], str]], *, keep_case: bool = False
) -> list[Suggestion]:
    """Words that start with `partial`, each pool after the other.

    Keywords follow the case that is being typed; names that need quotes get them.
    """
    wanted = partial.lstrip('"').lower()
    lower = partial[:1].islower()
    found: dict[str, Suggestion] = {}
    for pool, kind in pools:
        for word in pool:
            if not word.lower().startswith(wanted):
                continue
            if kind in ("keyword", "type", "statement"):
                text = word.lower() if lower else word
            elif kind in ("column", "relation", "schema"):
                text = ".".join(_quoted(part) for part in word.split("."))
            else:
                text = word
            if text.lower() != partial.lower() or keep_case:
                found.setdefault(text, Suggestion(text, kind, len(partial)))
    return list(found.values())


def _quoted(name: str) -> str:
    if _PLAIN_NAME.match(name) and name.upper() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'
