"""Accesses: how an index answers a predicate, and how EXPLAIN says it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streamsql.core.schema import Schema
from streamsql.core.types import TEXT, Kind, SqlType
from streamsql.engine.storage.key_index import KeyIndex
from streamsql.engine.storage.table import TableState
from streamsql.engine.storage.view import ViewState
from streamsql.functions.expressions import (
    Call,
    Cast,
    ColumnRef,
    Expr,
    Literal,
    OuterRef,
    Subquery,
    conjuncts,
    walk,
)

FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}
_INTEGERS = {Kind.SMALLINT: 0, Kind.INTEGER: 1, Kind.BIGINT: 2}

State = TableState | ViewState


@dataclass(frozen=True)
class Bound:
    """One end of a range. part: the number of the condition that says it."""

    value: Expr
    included: bool
    part: int


@dataclass(frozen=True)
class Access:
    """How an index answers a predicate.

    index: None = by what identifies rows (a primary key). name: of the index. keys: its key
    expressions. equal: for each of the first keys the values it may have. parts: numbers of the
    conditions that the index answers whole. nulls: for each of `equal` whether NULL is a value like
    others (IS NULL, IS NOT DISTINCT FROM), and not one that nothing equals.
    """

    index: KeyIndex | None
    name: str
    keys: tuple[Expr, ...]
    equal: tuple[tuple[Expr, ...], ...]
    low: Bound | None = None
    high: Bound | None = None
    parts: frozenset[int] = frozenset()
    nulls: tuple[bool, ...] = ()

    @property
    def worth(self) -> tuple[bool, int, bool]:
        """What identifies a row is best, then more columns, then a range."""
        return self.index is None, len(self.equal), self.low is not None or self.high is not None


@dataclass(frozen=True)
class Condition:
    """`key <kind> values`: eq (one of several values), null, or an inequality."""

    key: Expr
    kind: str
    values: tuple[Expr, ...]
    part: int
    whole: bool = True


# --- understanding a predicate ------------------------------------------------------------------
def accesses(predicate: Expr, state: State, indexes: Sequence[KeyIndex]) -> list[Access]:
    """The ways to find the rows of a predicate, the one that says most of the key first."""
    conditions = list(conditions_of(conjuncts(predicate)))
    if not conditions:
        return []
    found: list[Access | None] = []
    identity = state.exact_identity
    if identity is not None:
        columns = state.relation.columns
        keys = tuple(ColumnRef(index=i, type=columns[i].type) for i in identity)
        access = fit(None, identity_name(state), keys, conditions)
        if access is not None and len(access.equal) == len(keys):
            found.append(access)
    found += [fit(i, i.name, i.keys, conditions) for i in indexes]
    return sorted((a for a in found if a is not None), key=lambda a: a.worth, reverse=True)


def identity_name(state: State) -> str:
    """What EXPLAIN calls the look-up by what identifies a row."""
    if state.relation.primary_key and state.relation.keys:
        return state.relation.keys[0].name
    return "its unique key"


def fit(
    index: KeyIndex | None, name: str, keys: tuple[Expr, ...], conditions: Sequence[Condition]
) -> Access | None:
    """Equalities for the first keys, then a range of the next one."""
    equal: list[tuple[Expr, ...]] = []
    parts: set[int] = set()
    nulls: list[bool] = []
    low = high = None
    for key in keys:
        about = [c for c in conditions if c.key == key]
        exact = next((c for c in about if c.kind in ("eq", "null")), None)
        if exact is not None:
            equal.append(exact.values)
            nulls.append(exact.kind == "null")
            if exact.whole:
                parts.add(exact.part)
            continue
        for c in about:
            if c.kind in ("gt", "ge") and low is None:
                low = Bound(c.values[0], c.kind == "ge", c.part)
            elif c.kind in ("lt", "le") and high is None:
                high = Bound(c.values[0], c.kind == "le", c.part)
            else:
                continue
            if c.whole:
                parts.add(c.part)
        break
    if not equal and low is None and high is None:
        return None
    return Access(index, name, keys, tuple(equal), low, high, frozenset(parts), tuple(nulls))


def conditions_of(parts: Sequence[Expr]) -> Iterator[Condition]:
    """What these conditions say of single expressions, where the rest of each is constant."""
    for n, part in enumerate(parts):
        if not isinstance(part, Call):
            continue
        args, function = part.args, part.function
        if function == "is_null":
            yield Condition(plain(args[0]), "null", (_null(args[0].type),), n)
        elif function in ("eq", "in") and is_constant(args[-1]) and not is_constant(args[0]):
            if all(is_constant(a) for a in args[1:]):
                yield Condition(plain(args[0]), "eq", args[1:], n)
        elif function == "is_not_distinct_from" and is_constant(args[1]):
            yield Condition(plain(args[0]), "null", (args[1],), n)
        elif function in FLIPPED and len(args) == 2:
            left, right = args
            if is_constant(left) and not is_constant(right):
                left, right, function = right, left, FLIPPED[function]
            if is_constant(right) and not is_constant(left):
                yield Condition(plain(left), function, (right,), n)
        elif function == "like":
            yield from _prefix_range(args, n)


def _prefix_range(args: Sequence[Expr], n: int) -> Iterator[Condition]:
    """`x LIKE 'abc%'` is a range of texts that begin with abc, and perhaps more."""
    pattern = args[1]
    if len(args) != 2 or not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        return
    prefix = ""
    for letter in pattern.value:
        if letter in "%_\\":
            break
        prefix += letter
    if not prefix:
        return
    key = plain(args[0])
    yield Condition(key, "ge", (Literal(value=prefix, type=TEXT),), n, whole=False)
    last = ord(prefix[-1]) + 1
    if last < 0xD800:
        above = prefix[:-1] + chr(last)
        yield Condition(key, "lt", (Literal(value=above, type=TEXT),), n, whole=False)


def _null(type_: SqlType) -> Literal:
    return Literal(value=None, type=type_)


def plain(expr: Expr) -> Expr:
    """Without casts that change no value: of texts, and of integers to wider ones."""
    while isinstance(expr, Cast):
        given, to = expr.arg.type, expr.type
        wider = _INTEGERS.get(given.kind, 9) <= _INTEGERS.get(to.kind, -1)
        if not wider and not (given.is_text and to.kind is Kind.TEXT):
            return expr
        expr = expr.arg
    return expr


def is_constant(expr: Expr) -> bool:
    """Whether the expression has one value in a statement."""
    if isinstance(expr, Literal):
        return True
    return not any(isinstance(e, ColumnRef | OuterRef | Subquery) for e in walk(expr))


# --- EXPLAIN ------------------------------------------------------------------------------------
def access_text(access: Access, columns: Schema, *, ordered: bool = False) -> str:
    """ "Index Lookup using i (k = 5, t > 10)"."""
    from streamsql.plan.render import render

    said = []
    for key, values, null in zip(access.keys, access.equal, access.nulls, strict=False):
        shown = [render(v, columns) for v in values]
        if len(values) > 1:
            said.append(f"{render(key, columns)} IN ({', '.join(shown)})")
        else:
            word = "IS" if null and shown[0] == "NULL" else "="
            said.append(f"{render(key, columns)} {word} {shown[0]}")
    for bound, signs in ((access.low, (">", ">=")), (access.high, ("<", "<="))):
        if bound is not None:
            key = access.keys[len(access.equal)]
            sign = signs[bound.included]
            said.append(f"{render(key, columns)} {sign} {render(bound.value, columns)}")
    text = f"Index Lookup using {access.name}"
    if said:
        text += f" ({', '.join(said)})"
    return f"{text} in order" if ordered else text
