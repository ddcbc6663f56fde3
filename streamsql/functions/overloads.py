"""Which overload a call means: PostgreSQL's rules (its manual, chapter 10), over types alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from streamsql.core.types import Kind, SqlType, array_of
from streamsql.functions.casts import Context, can_cast, category, is_preferred
from streamsql.functions.definitions import Definition, Pattern, Poly
from streamsql.functions.numeric_types import common_numeric

D = TypeVar("D", bound=Definition)

_ARRAY_MARKERS = (Poly.ANYARRAY, Poly.ANYCOMPATIBLEARRAY)


def select_overload(definitions: Sequence[D], types: Sequence[SqlType]) -> D | list[D]:
    """The definition a call with these argument types means.

    Returns a list instead when there is none (empty) or the choice is ambiguous (the rest).
    """
    fitting = [d for d in definitions if d.patterns(len(types)) is not None]
    for d in fitting:
        if _exact(d, types):
            return d
    candidates = [d for d in fitting if _applicable(d, types)]
    if len(candidates) <= 1:
        return candidates[0] if candidates else []
    candidates = _most(candidates, lambda d: _count_exact(d, types))
    if len(candidates) == 1:
        return candidates[0]
    candidates = _most(candidates, lambda d: _count_preferred(d, types))
    if len(candidates) == 1:
        return candidates[0]
    if any(t.kind is Kind.UNKNOWN for t in types):
        candidates = _resolve_unknowns(candidates, types)
        if len(candidates) == 1:
            return candidates[0]
    return candidates


def same_kind(pattern: SqlType, actual: SqlType) -> bool:
    """Equal but for modifiers: numeric(5,2) is a numeric, varchar(3) is taken where text is."""
    if pattern.kind is Kind.ARRAY and actual.kind is Kind.ARRAY:
        assert pattern.element is not None and actual.element is not None
        return same_kind(pattern.element, actual.element)
    if pattern.is_text:
        return actual.is_text
    return pattern.kind is actual.kind


def _patterns(d: Definition, types: Sequence[SqlType]) -> tuple[Pattern, ...]:
    patterns = d.patterns(len(types))
    assert patterns is not None
    return patterns


def _exact(d: Definition, types: Sequence[SqlType]) -> bool:
    patterns = _patterns(d, types)
    known = [t for t in types if t.kind is not Kind.UNKNOWN]
    if len(types) == 2 and len(known) == 1:  # one unknown beside a known type: assume the same
        types = [known[0], known[0]]
    elif len(known) != len(types):
        return False
    if any(isinstance(p, Poly) for p in patterns):
        return False
    return all(
        isinstance(p, SqlType) and same_kind(p, t) for p, t in zip(patterns, types, strict=True)
    )


def _applicable(d: Definition, types: Sequence[SqlType]) -> bool:
    patterns = _patterns(d, types)
    for p, t in zip(patterns, types, strict=True):
        if isinstance(p, Poly):
            if not _marker_takes(p, t):
                return False
        elif (
            t.kind is not Kind.UNKNOWN
            and not same_kind(p, t)
            and not can_cast(t, p, Context.IMPLICIT)
        ):
            return False
    return bind_markers(patterns, types) is not None


def _marker_takes(marker: Poly, t: SqlType) -> bool:
    if t.kind is Kind.UNKNOWN:
        return True
    if marker in _ARRAY_MARKERS:
        return t.kind is Kind.ARRAY
    if marker is Poly.ANYNONARRAY:
        return t.kind is not Kind.ARRAY
    if marker is Poly.ANYSTRUCT:
        return t.kind is Kind.STRUCT
    if marker is Poly.ANYMAP:
        return t.kind is Kind.MAP
    return True


def _count_exact(d: Definition, types: Sequence[SqlType]) -> int:
    return sum(
        isinstance(p, SqlType) and t.kind is not Kind.UNKNOWN and same_kind(p, t)
        for p, t in zip(_patterns(d, types), types, strict=True)
    )


def _count_preferred(d: Definition, types: Sequence[SqlType]) -> int:
    """Exact matches and conversions to the preferred type of the argument's own category."""
    return sum(
        isinstance(p, SqlType)
        and t.kind is not Kind.UNKNOWN
        and (same_kind(p, t) or (is_preferred(p) and category(p) == category(t)))
        for p, t in zip(_patterns(d, types), types, strict=True)
    )


def _most(candidates: list[D], score: object) -> list[D]:
    scores = [score(d) for d in candidates]  # type: ignore[operator]
    best = max(scores)
    return [d for d, s in zip(candidates, scores, strict=True) if s == best]


def _resolve_unknowns(candidates: list[D], types: Sequence[SqlType]) -> list[D]:
    kept = _by_category(candidates, types)
    if len(kept) == 1:
        return kept
    known = {t.kind for t in types if t.kind is not Kind.UNKNOWN}
    if len(known) == 1:  # assume the unknown ones are of that type too
        assumed = next(t for t in types if t.kind is not Kind.UNKNOWN)
        as_known = [assumed] * len(types)
        fit = [d for d in kept if _applicable(d, as_known)]
        if fit:
            fit = _most(fit, lambda d: _count_exact(d, as_known))
        if len(fit) == 1:
            return fit
    return kept


def _by_category(candidates: list[D], types: Sequence[SqlType]) -> list[D]:
    kept = candidates
    for i, t in enumerate(types):
        if t.kind is not Kind.UNKNOWN:
            continue
        accepted = [_patterns(d, types)[i] for d in kept]
        categories = {category(p) if isinstance(p, SqlType) else "P" for p in accepted}
        if "S" in categories:
            chosen = "S"
        elif len(categories) == 1:
            chosen = categories.pop()
        else:
            return kept
        narrowed = [
            d
            for d, p in zip(kept, accepted, strict=True)
            if (category(p) if isinstance(p, SqlType) else "P") == chosen
        ]
        preferred = [
            d
            for d in narrowed
            if isinstance(p := _patterns(d, types)[i], SqlType) and is_preferred(p)
        ]
        kept = preferred or narrowed
    return kept


def bind_markers(
    patterns: Sequence[Pattern], types: Sequence[SqlType]
) -> dict[Poly, SqlType] | None:
    """The concrete type of each marker in a signature, or None if the arguments disagree.

    ANYELEMENT and ANYARRAY speak of one element type, which must be equal in all; ANYCOMPATIBLE and
    its array form are brought to the common type. Unknown arguments follow the others (text alone).
    """
    exact: list[SqlType] = []
    loose: list[SqlType] = []
    unresolved = False
    for p, t in zip(patterns, types, strict=True):
        if not isinstance(p, Poly) or p is Poly.ANY:
            continue
        if t.kind is Kind.UNKNOWN:
            unresolved = True
            continue
        element = t
        if p in _ARRAY_MARKERS:
            if t.element is None:
                return None
            element = t.element
        (loose if p in (Poly.ANYCOMPATIBLE, Poly.ANYCOMPATIBLEARRAY) else exact).append(element)
    bound: dict[Poly, SqlType] = {}
    if exact or (unresolved and not loose):
        agreed = _agree(exact)
        if agreed is None:
            return None
        bound[Poly.ANYELEMENT] = bound[Poly.ANYNONARRAY] = agreed
        bound[Poly.ANYSTRUCT] = bound[Poly.ANYMAP] = agreed
        bound[Poly.ANYARRAY] = array_of(agreed)
    if loose or (unresolved and not exact):
        common = common_of(loose)
        if common is None:
            return None
        bound[Poly.ANYCOMPATIBLE] = common
        bound[Poly.ANYCOMPATIBLEARRAY] = array_of(common)
    return bound


def _agree(types: Sequence[SqlType]) -> SqlType | None:
    from streamsql.core.types import TEXT

    if not types:
        return TEXT
    if any(not same_kind(types[0], t) for t in types[1:]):
        return None
    return common_of(types)


def common_of(types: Sequence[SqlType]) -> SqlType | None:
    """PostgreSQL's rule for UNION, CASE, VALUES and anycompatible: the first type's category wins,
    and within it the type the others can be cast to. None: no such type. No types: text."""
    from streamsql.core.types import TEXT

    known = [t for t in types if t.kind is not Kind.UNKNOWN]
    if not known:
        return TEXT
    result = known[0]
    for t in known[1:]:
        if same_kind(result, t):
            result = _merge_modifiers(result, t)
            continue
        if category(result) != category(t):
            return None
        if is_preferred(result):
            continue
        if can_cast(result, t, Context.IMPLICIT) and not can_cast(t, result, Context.IMPLICIT):
            result = t
        elif not can_cast(t, result, Context.IMPLICIT):
            return None
    if result.kind is Kind.NUMERIC:
        return common_numeric(known)
    return result


def _merge_modifiers(a: SqlType, b: SqlType) -> SqlType:
    if a == b:
        return a if a.leaf_digits == b.leaf_digits else a.plain
    if a.kind is Kind.NUMERIC:
        return common_numeric([a, b])
    if a.is_text:
        from streamsql.core.types import TEXT

        return TEXT if a.kind is Kind.TEXT or b.kind is Kind.TEXT else SqlType(Kind.VARCHAR)
    if a.kind is Kind.ARRAY:
        assert a.element is not None and b.element is not None
        element = common_of([a.element, b.element])
        return a if element is None else array_of(element)
    return a
