"""Random queries over t, u and k: joins, correlated subqueries, grouping, set operations, windows.

They are valid PostgreSQL as well, without ties that would leave the answer open.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class Scope:
    """What an expression may name: integer and text columns, qualified; outer scopes come after."""

    ints: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    outer: Scope | None = None

    def both(self, which: str) -> list[str]:
        own = self.ints if which == "int" else self.texts
        return own + (self.outer.both(which) if self.outer is not None else [])


TABLES = {
    "t": (["a", "g"], ["b"]),
    "u": (["a", "c"], ["b"]),
    "k": (["id", "ref"], ["name"]),
}


class Generator:
    """One random query per seed. tables: name -> (integer columns, text columns)."""

    def __init__(
        self, seed: int, tables: Mapping[str, tuple[list[str], list[str]]] = TABLES
    ) -> None:
        self.rnd = random.Random(seed)
        self.tables = tables
        self.aliases = 0
        self.waiting: list[str] = []  # join conditions for the WHERE of the SELECT being made

    def query(self) -> str:
        """A whole query."""
        kind = self.rnd.random()
        if kind < 0.15:
            word = self.rnd.choice(["UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT"])
            return f"{self.select(None, 2, 2)} {word} {self.select(None, 2, 2)}"
        return self.select(None, 3, self.rnd.randint(1, 3))

    def alias(self) -> str:
        self.aliases += 1
        return f"q{self.aliases}"

    # FROM ---------------------------------------------------------------------------------------
    def relation(self, outer: Scope | None, depth: int) -> tuple[str, Scope]:
        """(text, its columns)."""
        name = self.alias()
        if depth > 0 and self.rnd.random() < 0.25:
            width = self.rnd.randint(1, 2)
            text = self.select(outer, depth - 1, width, names=[f"x{i}" for i in range(width)])
            return f"({text}) {name}", Scope([f"{name}.x{i}" for i in range(width)])
        table = self.rnd.choice(list(self.tables))
        ints, texts = self.tables[table]
        return f"{table} {name}", Scope(
            [f"{name}.{c}" for c in ints], [f"{name}.{c}" for c in texts]
        )

    def from_clause(self, outer: Scope | None, depth: int) -> tuple[str, Scope]:
        text, scope = self.relation(outer, depth)
        scope.outer = outer
        for _ in range(self.rnd.choice([0, 0, 1, 1, 2])):
            lateral = self.rnd.random() < 0.15
            right, found = self.relation(
                scope if lateral else outer, depth if lateral else depth - 1
            )
            joined = Scope(scope.ints + found.ints, scope.texts + found.texts, outer)
            kind = self.rnd.choice(["JOIN", "LEFT JOIN", "CROSS JOIN", ","])
            if not lateral and self.rnd.random() < 0.2:
                kind = self.rnd.choice(["RIGHT JOIN", "FULL JOIN"])
            word = "LATERAL " if lateral and right.startswith("(") else ""
            if kind == ",":
                text += f", {word}{right}"
                if self.rnd.random() < 0.7:
                    self.waiting.append(self.equality(scope, found))
            elif kind == "CROSS JOIN":
                text = f"{text} CROSS JOIN {word}{right}"
            else:
                local = Scope(joined.ints[-4:], joined.texts[-2:])
                on = self.equality(self.last(scope), found)
                if kind != "FULL JOIN" and self.rnd.random() < 0.3 and "," not in text:
                    on += f" AND {self.condition(local, 0)}"
                text = f"{text} {kind} {word}{right} ON {on}"
            scope = joined
        return text, scope

    def last(self, scope: Scope) -> Scope:
        """The columns of the relation that was added last: ON may name those after any comma."""
        name = scope.ints[-1].split(".")[0]
        return Scope([c for c in scope.ints if c.startswith(name + ".")])

    def equality(self, left: Scope, right: Scope) -> str:
        return f"{self.rnd.choice(left.ints)} = {self.rnd.choice(right.ints)}"

    # expressions --------------------------------------------------------------------------------
    def integer(self, scope: Scope, depth: int) -> str:
        choice = self.rnd.random()
        names = scope.both("int")
        if choice < 0.55 or depth <= 0:
            return self.rnd.choice(names) if names and choice < 0.5 else str(self.rnd.randint(0, 4))
        if choice < 0.7:
            op = self.rnd.choice(["+", "-", "*"])
            return f"({self.integer(scope, depth - 1)} {op} {self.integer(scope, depth - 1)})"
        if choice < 0.8:
            return f"coalesce({self.integer(scope, depth - 1)}, {self.integer(scope, depth - 1)})"
        if choice < 0.88:
            return (
                f"CASE WHEN {self.condition(scope, depth - 1)} THEN {self.integer(scope, depth - 1)} "
                f"ELSE {self.integer(scope, depth - 1)} END"
            )
        return f"({self.aggregate_query(scope, depth - 1)})"

    def condition(self, scope: Scope, depth: int) -> str:
        choice = self.rnd.random()
        if choice < 0.45 or depth <= 0:
            op = self.rnd.choice(["=", "<", ">", "<>", "<=", "IS DISTINCT FROM"])
            return f"{self.integer(scope, 0)} {op} {self.integer(scope, depth - 1)}"
        if choice < 0.55:
            texts = scope.both("text")
            if texts:
                return f"{self.rnd.choice(texts)} {self.rnd.choice(['=', '<>', '>'])} 'x'"
        if choice < 0.65:
            word = self.rnd.choice(["AND", "OR"])
            return f"({self.condition(scope, depth - 1)} {word} {self.condition(scope, depth - 1)})"
        if choice < 0.7:
            return f"NOT ({self.condition(scope, depth - 1)})"
        if choice < 0.75:
            return f"{self.integer(scope, 0)} IS {self.rnd.choice(['', 'NOT '])}NULL"
        negate = self.rnd.choice(["", "NOT "])
        if choice < 0.87:
            return f"{negate}EXISTS ({self.select(scope, depth - 1, 1)})"
        return f"{self.integer(scope, 0)} {negate}IN ({self.select(scope, depth - 1, 1)})"

    def aggregate_query(self, outer: Scope, depth: int) -> str:
        """A scalar subquery with one row."""
        saved, self.waiting = self.waiting, []
        text, scope = self.from_clause(outer, depth)
        where = self.where(scope, depth)
        self.waiting = saved
        call = self.rnd.choice(["count(*)", "max({})", "min({})", "count({})"])
        return f"SELECT {call.format(self.rnd.choice(scope.ints))} FROM {text}{where}"

    def where(self, scope: Scope, depth: int) -> str:
        parts = list(self.waiting)
        parts += [self.condition(scope, depth) for _ in range(self.rnd.choice([0, 1, 1, 2]))]
        if scope.outer is not None and self.rnd.random() < 0.7:
            parts.append(self.equality(scope, Scope(scope.outer.both("int"))))
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    # SELECT -------------------------------------------------------------------------------------
    def select(
        self, outer: Scope | None, depth: int, width: int, names: list[str] | None = None
    ) -> str:
        saved, self.waiting = self.waiting, []
        text, scope = self.from_clause(outer, depth)
        where = self.where(scope, depth)
        self.waiting = saved
        labels = names or [f"o{i}" for i in range(width)]
        if self.rnd.random() < 0.25:
            return self.grouped(text, where, scope, labels)
        items = [self.integer(scope, depth) for _ in labels]
        if outer is None and self.rnd.random() < 0.15:
            keys = ", ".join(self.rnd.sample(scope.ints, min(2, len(scope.ints))))
            call = self.rnd.choice(["rank()", "dense_rank()", "count(*)", f"sum({scope.ints[0]})"])
            items[-1] = (
                f"({call} OVER (PARTITION BY {self.rnd.choice(scope.ints)} ORDER BY {keys}))::int"
            )
        listed = ", ".join(f"{e} AS {n}" for e, n in zip(items, labels, strict=True))
        distinct = "DISTINCT " if self.rnd.random() < 0.15 else ""
        query = f"SELECT {distinct}{listed} FROM {text}{where}"
        if names is None and self.rnd.random() < 0.1:
            order = ", ".join(str(i + 1) for i in range(len(labels)))
            query = f"(SELECT * FROM ({query}) z ORDER BY {order} LIMIT {self.rnd.randint(1, 5)})"
        return query

    def grouped(self, text: str, where: str, scope: Scope, labels: list[str]) -> str:
        keys = [self.rnd.choice(scope.ints) for _ in range(max(1, len(labels) - 1))]
        calls = ["count(*)", "sum({})", "min({})", "max({})", "count(DISTINCT {})"]
        call = self.rnd.choice(calls).format(self.rnd.choice(scope.ints))
        items = [*keys[: len(labels) - 1], f"({call})::int"]
        listed = ", ".join(f"{e} AS {n}" for e, n in zip(items, labels, strict=True))
        having = " HAVING count(*) > 1" if self.rnd.random() < 0.3 else ""
        return (
            f"SELECT {listed} FROM {text}{where} GROUP BY {', '.join(dict.fromkeys(keys))}{having}"
        )
