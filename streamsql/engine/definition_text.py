"""Changing a definition's text: names, columns and options in the user's own words.

A catalog keeps what the user typed. When an object is altered, only the words that the change is
about are written anew; blanks, comments and spelling stay. Every edit is found by tokens, and the
caller reads the result again before it believes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from streamsql.dialect.lexer import Kind, Token, tokenize
from streamsql.dialect.statements import CreateIndex, CreateTable, CreateView, Statement
from streamsql.engine.pgcatalog.names import quote_ident

_KIND_WORDS = frozenset({"TABLE", "SOURCE", "STREAM", "VIEW", "INDEX", "SINK", "SUBSCRIPTION"})
_NAMES = (Kind.WORD, Kind.QUOTED)
Edit = tuple[int, int, str]


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """Replace (start, end) by the new text, all offsets being in the old one.

    >>> apply_edits("a b c", [(0, 1, "x"), (4, 5, "yy")])
    'x b yy'
    """
    for start, end, new in sorted(set(edits), reverse=True):
        text = text[:start] + new + text[end:]
    return text


@dataclass(frozen=True)
class Item:
    """One entry between the parentheses of CREATE TABLE."""

    tokens: tuple[Token, ...]

    @property
    def start(self) -> int:
        return self.tokens[0].start

    @property
    def end(self) -> int:
        return self.tokens[-1].end

    @property
    def column(self) -> str | None:
        """The name of the column that it defines; None for a constraint or a watermark."""
        first = self.tokens[0]
        follows = self.tokens[1].key if len(self.tokens) > 1 else ""
        if first.key == "*" or first.kind not in _NAMES:
            return None
        if (first.key, follows) in (("WATERMARK", "FOR"), ("PRIMARY", "KEY"), ("FOREIGN", "KEY")):
            return None
        if first.key == "CONSTRAINT" or (first.key in ("UNIQUE", "CHECK") and follows == "("):
            return None
        return first.value


class DefinitionText:
    """The tokens of one CREATE statement, and where its parts are. Raises: nothing; what is not
    found is None."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self.tokens = tokenize(sql)
        self._name = self._find_name()

    def _find_name(self) -> tuple[int, int]:
        """Numbers of the name's first token and of the one after its last."""
        tokens = self.tokens
        at = next((i for i, t in enumerate(tokens) if t.key in _KIND_WORDS), 0) + 1
        if tokens[at].key == "CONCURRENTLY":
            at += 1
        if tokens[at].key == "IF":
            at += 3
        if tokens[at].key == "ON":  # CREATE INDEX without a name
            return at, at
        return at, self._name_end(at)

    def _name_end(self, at: int) -> int:
        end = at + 1
        while self.tokens[end].key == "." and self.tokens[end + 1].kind in _NAMES:
            end += 2
        return end

    def renamed(self, name: str) -> str:
        """The text with another name (as it is to be written) of what it creates."""
        first, after = self._name
        if first == after:
            at = self.tokens[first].start
            return apply_edits(self.sql, [(at, at, f"{name} ")])
        start, end = self.tokens[first].start, self.tokens[after - 1].end
        return apply_edits(self.sql, [(start, end, name)])

    @property
    def name_is_qualified(self) -> bool:
        """Whether the name was written with its schema."""
        return self._name[1] - self._name[0] > 1

    def name_at(self, start: int) -> tuple[int, int]:
        """(start, end) of the possibly qualified name whose first token starts there."""
        at = next(i for i, t in enumerate(self.tokens) if t.start == start)
        return start, self.tokens[self._name_end(at) - 1].end

    # --- the parenthesised part -----------------------------------------------------------------
    @property
    def items(self) -> list[Item] | None:
        """What stands between the parentheses after the name; None without them."""
        body = self.body
        if body is None:
            return None
        return list(self._items(body[0] + 1, body[1]))

    @property
    def body(self) -> tuple[int, int] | None:
        """Numbers of the opening and the closing parenthesis after the name."""
        at = self._name[1]
        if self.tokens[at].key != "(":
            return None
        return at, self._closing(at)

    def _closing(self, at: int) -> int:
        depth = 0
        for i in range(at, len(self.tokens)):
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(self.tokens[i].key, 0)
            if not depth:
                return i
        return len(self.tokens) - 1

    def _items(self, start: int, end: int) -> Iterator[Item]:
        depth, first = 0, start
        for i in range(start, end + 1):
            key = self.tokens[i].key
            if depth == 0 and (i == end or key == ","):
                if i > first:
                    yield Item(tuple(self.tokens[first:i]))
                first = i + 1
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(key, 0)

    def item_of(self, column: str) -> Item | None:
        """The definition of a column (Flink does not fold its name)."""
        for item in self.items or ():
            first = item.tokens[0]
            if item.column is not None and column in (
                first.value,
                self.sql[first.start : first.end],
            ):
                return item
        return None

    def with_column(self, definition: str) -> str | None:
        """The text with one column more, after the others."""
        items, body = self.items, self.body
        if items is None or body is None:
            return None
        columns = [i for i in items if i.column is not None]
        if columns:
            at = columns[-1].end
            return apply_edits(self.sql, [(at, at, f", {definition}")])
        at = self.tokens[body[0]].end
        return apply_edits(self.sql, [(at, at, f"{definition}, " if items else definition)])

    def without_item(self, gone: Item) -> str | None:
        """The text without one entry, and one of the commas beside it."""
        items = self.items
        if items is None:
            return None
        k = next(i for i, item in enumerate(items) if item.start == gone.start)
        if k + 1 < len(items):
            return apply_edits(self.sql, [(gone.start, items[k + 1].start, "")])
        if k:
            return apply_edits(self.sql, [(items[k - 1].end, gone.end, "")])
        return apply_edits(self.sql, [(gone.start, gone.end, "")])

    def with_column_list(self, names: Sequence[str]) -> str:
        """The text of CREATE VIEW with a list of column names after the view's own."""
        listed = "(" + ", ".join(quote_ident(n) for n in names) + ")"
        body = self.body
        if body is not None:
            start, end = self.tokens[body[0]].start, self.tokens[body[1]].end
            return apply_edits(self.sql, [(start, end, listed)])
        at = self.tokens[self._name[1] - 1].end
        return apply_edits(self.sql, [(at, at, f" {listed}")])

    # --- options --------------------------------------------------------------------------------
    def with_options(self, options: dict[str, str]) -> str:
        """The text with these options in its WITH clause, in place of those of the same name."""
        clause = self._with_clause()
        if clause is None:
            listed = ", ".join(option_text(k, v) for k, v in options.items())
            return self._insert_clause(f"WITH ({listed})")
        opening, closing = clause
        edits: list[Edit] = []
        left = dict(options)
        items = list(self._items(opening + 1, closing))
        for item in items:
            name = option_name(item)
            if name in left:
                edits.append((item.start, item.end, option_text(name, left.pop(name))))
        if left:
            at = items[-1].end if items else self.tokens[opening].end
            listed = ", ".join(option_text(k, v) for k, v in left.items())
            edits.append((at, at, f", {listed}" if items else listed))
        return apply_edits(self.sql, edits)

    def _with_clause(self) -> tuple[int, int] | None:
        for i in self._top_level():
            if self.tokens[i].key == "AS":
                return None
            if self.tokens[i].key == "WITH" and self.tokens[i + 1].key == "(":
                return i + 1, self._closing(i + 1)
        return None

    def _insert_clause(self, clause: str) -> str:
        """Before AS, or at the end."""
        for i in self._top_level():
            if self.tokens[i].key == "AS":
                at = self.tokens[i].start
                return apply_edits(self.sql, [(at, at, f"{clause} ")])
        body = self.body
        at = self.tokens[self._name[1] - 1 if body is None else body[1]].end
        return apply_edits(self.sql, [(at, at, f" {clause}")])

    def _top_level(self) -> Iterator[int]:
        """Numbers of the tokens after the name that stand in no parentheses."""
        depth = 0
        for i in range(self._name[1], len(self.tokens)):
            key = self.tokens[i].key
            if depth == 0 and key not in ("(", "["):
                yield i
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(key, 0)


def option_name(item: Item) -> str:
    """The option that an entry of WITH sets."""
    words = []
    for token in item.tokens:
        if token.key == "=":
            break
        words.append(token.value or token.key)
    return "".join(words)


def option_text(name: str, value: str) -> str:
    """An option as it is written."""
    key = name if all(p.isidentifier() for p in name.split(".")) else f"'{name}'"
    return f"{key} = '" + value.replace("'", "''") + "'"


def column_nodes(statement: Statement, name: str) -> list[exp.Column]:
    """Where the expressions of a definition name a column (of whatever relation)."""
    trees: list[exp.Expression | None] = []
    if isinstance(statement, CreateTable):
        trees += [t for c in statement.columns for t in (c.default, c.generated)]
        trees += [c.condition for c in statement.checks]
        trees.append(statement.watermark.expression if statement.watermark else None)
    elif isinstance(statement, CreateView):
        trees.append(statement.query)
    elif isinstance(statement, CreateIndex):
        trees += statement.expressions
    return [
        node
        for tree in trees
        if tree is not None
        for node in tree.find_all(exp.Column)
        if isinstance(node.this, exp.Identifier) and node.this.name == name
    ]


def rename_column_of_table(statement: CreateTable, sql: str, old: str, new: str) -> str | None:
    """The text of CREATE TABLE with another name of a column, wherever it is named."""
    text = DefinitionText(sql)
    item = text.item_of(old)
    if item is None or text.items is None:
        return None
    written = quote_ident(new)
    edits: list[Edit] = [(item.start, item.tokens[0].end, written)]
    for other in text.items:
        if other.column is None:
            edits += _named_in(other, old, written, sql)
    ends = {t.start: t.end for t in text.tokens}
    for node in column_nodes(statement, old):
        start = node.this.meta.get("start")
        if start in ends:
            edits.append((start, ends[start], written))
    return apply_edits(sql, edits)


def _named_in(item: Item, name: str, written: str, sql: str) -> list[Edit]:
    """Keys' columns, and the column that WATERMARK FOR speaks of."""
    keys = [t.key for t in item.tokens]
    if keys[0] == "WATERMARK":
        named = item.tokens[2:3]
    elif "PRIMARY" in keys or "UNIQUE" in keys:
        named = item.tokens[keys.index("(") if "(" in keys else len(keys) :]
    else:
        return []
    return [
        (t.start, t.end, written)
        for t in named
        if t.kind in _NAMES and name in (t.value, sql[t.start : t.end])
    ]
