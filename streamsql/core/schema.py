"""Schemas: the named, typed columns of a relation or of an operator's output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from streamsql.core.types import SqlType


@dataclass(frozen=True)
class Column:
    """One column: its name (exact case), type, and whether NULL may appear in it."""

    name: str
    type: SqlType
    nullable: bool = True


@dataclass(frozen=True)
class Schema:
    """An ordered tuple of columns. Names may repeat (a query's may, a table's may not)."""

    columns: tuple[Column, ...]

    @classmethod
    def of(cls, *columns: tuple[str, SqlType]) -> Schema:
        """Schema.of(("a", INTEGER), ("b", TEXT))."""
        return cls(tuple(Column(name, type_) for name, type_ in columns))

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __getitem__(self, index: int) -> Column:
        return self.columns[index]

    def __add__(self, other: Schema) -> Schema:
        return Schema(self.columns + other.columns)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    @property
    def types(self) -> tuple[SqlType, ...]:
        return tuple(c.type for c in self.columns)

    def index(self, name: str) -> int:
        """Position of the first column of that exact name, or -1."""
        for i, column in enumerate(self.columns):
            if column.name == name:
                return i
        return -1

    @cached_property
    def arrow(self) -> pa.Schema:
        """Arrow schema with positional field names c0, c1, …: names of users never reach Arrow or
        DuckDB inside the engine, because theirs are case-insensitive and ours may repeat."""
        return pa.schema([pa.field(f"c{i}", c.type.arrow) for i, c in enumerate(self.columns)])

    @cached_property
    def digits(self) -> tuple[tuple[int, int], ...]:
        """(position, digits) of columns of TIMESTAMP(p) and its kin; see `SqlType.digits`."""
        found = ((i, c.type.leaf_digits) for i, c in enumerate(self.columns))
        return tuple((i, n) for i, n in found if n is not None)

    def reads_as(self, other: Schema) -> bool:
        """Whether the two are equal, also in what equal types may differ by: `SqlType.digits` and
        `SqlType.constrained`."""
        return self == other and list(map(str, self.types)) == list(map(str, other.types))

    @cached_property
    def named_arrow(self) -> pa.Schema:
        """Arrow schema with the user's names, for results that leave the engine."""
        return pa.schema([pa.field(c.name, c.type.arrow) for c in self.columns])

    def select(self, indices: Sequence[int]) -> Schema:
        """The columns at `indices`, in that order."""
        return Schema(tuple(self.columns[i] for i in indices))
