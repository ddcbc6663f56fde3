"""ksqlDB's lambdas: TRANSFORM, FILTER and REDUCE over the elements of an array or a map.

    TRANSFORM(a, x => f(x))                      ARRAY(SELECT f(x) FROM unnest(a) …)
    TRANSFORM(m, (k, v) => f(k), (k, v) => g(v)) the same over its entries, as a map again
    FILTER(a, x => c(x)), FILTER(m, (k, v) => c) ARRAY(SELECT x FROM unnest(a) … WHERE c(x))
    REDUCE(a, s, (s, x) => s + f(x))             s + (SELECT sum(f(x)) FROM unnest(a) …)

They become subqueries over the elements in their order, which everything behind the grammar knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from streamsql.core.errors import FeatureNotSupported
from streamsql.dialect.nodes import ArrayQuery, RowValue
from streamsql.dialect.positions import position_of

NUMBER = "element_number"
"""The column of an element's place."""

REDUCE_HINT = "Write an aggregate: (SELECT max(x) FROM unnest(array) AS u(x))."

FORMS = (
    "Write TRANSFORM(array, x => e), TRANSFORM(map, (k, v) => e, (k, v) => e), FILTER(array, x =>"
    " e), FILTER(map, (k, v) => e), or REDUCE(array, start, (s, x) => s + e)."
)

_Parameters = list[str]


def expand(name: str, arguments: Sequence[exp.Expression]) -> exp.Expression | None:
    """The call without lambdas; None if it has none, or is no call that takes them.

    Raises: FeatureNotSupported (0A000) for a REDUCE that is no sum, and for other parameters.
    """
    given = [a for a in arguments if isinstance(a, exp.Lambda)]
    if not given or name not in CALLS:
        return None
    found = CALLS[name](list(arguments))
    if found is None:
        raise FeatureNotSupported(
            f"lambdas with these parameters are not supported in {name.upper()}",
            position=position_of(given[0]),
            hint=FORMS,
        )
    return found


def _names(function: exp.Lambda) -> _Parameters:
    return [p.name for p in function.expressions]


def _column(name: str) -> exp.Column:
    return exp.Column(this=exp.Identifier(this=name, quoted=True))


def _elements(value: exp.Expression, names: _Parameters) -> exp.From:
    """The elements of an array (one name) or the entries of a map (two), with their places."""
    parts = [value.copy()]
    if len(names) == 2:
        parts = [
            exp.Anonymous(this=function, expressions=[value.copy()])
            for function in ("map_keys", "map_values")
        ]
    columns = [exp.Identifier(this=n, quoted=True) for n in (*names, NUMBER)]
    alias = exp.TableAlias(this=exp.Identifier(this="element", quoted=True), columns=columns)
    call = exp.Anonymous(this="unnest", expressions=parts)
    return exp.From(this=exp.Table(this=call, alias=alias, ordinality=True))


def _collected(
    value: exp.Expression,
    names: _Parameters,
    result: exp.Expression,
    condition: exp.Expression | None = None,
) -> exp.Expression:
    """The results in the order of the elements; NULL for NULL, a map again of a map."""
    by_number = exp.Ordered(this=_column(NUMBER), desc=False, nulls_first=False)
    query = exp.Select(
        expressions=[result],
        from_=_elements(value, names),
        order=exp.Order(expressions=[by_number]),
    )
    if condition is not None:
        query.set("where", exp.Where(this=condition))
    found: exp.Expression = ArrayQuery(this=query)
    if len(names) == 2:
        found = exp.Anonymous(this="map_from_entries", expressions=[found])
    missing = exp.Is(this=value.copy(), expression=exp.Null())
    return exp.Case(ifs=[exp.If(this=missing, true=exp.Null())], default=found)


def _transform(arguments: list[exp.Expression]) -> exp.Expression | None:
    value, *functions = arguments
    names = [_names(f) for f in functions if isinstance(f, exp.Lambda)]
    if len(names) != len(functions) or [len(n) for n in names] not in ([1], [2, 2]):
        return None
    if len(names) == 1:
        return _collected(value, names[0], functions[0].this)
    second = _renamed(functions[1].this, dict(zip(names[1], names[0], strict=True)))
    return _collected(value, names[0], RowValue(expressions=[functions[0].this, second]))


def _filter(arguments: list[exp.Expression]) -> exp.Expression | None:
    if len(arguments) != 2 or not isinstance(arguments[1], exp.Lambda):
        return None
    value, function = arguments
    names = _names(function)
    if len(names) > 2:
        return None
    columns: list[exp.Expression] = [_column(n) for n in names]
    result = columns[0] if len(columns) == 1 else RowValue(expressions=columns)
    return _collected(value, names, result, function.this)


def _reduce(arguments: list[exp.Expression]) -> exp.Expression | None:
    if len(arguments) != 3 or not isinstance(arguments[2], exp.Lambda):
        return None
    value, start, function = arguments
    state, *names = _names(function)
    if len(names) not in (1, 2):
        return None
    added = _added(function.this, state)
    if added is None:
        raise FeatureNotSupported(
            "a REDUCE that is no sum is not supported",
            position=position_of(function),
            hint=REDUCE_HINT,
        )
    total = exp.Select(
        expressions=[exp.Anonymous(this="sum", expressions=[added])],
        from_=_elements(value, names),
    )
    nothing = exp.Anonymous(
        this="coalesce", expressions=[exp.Subquery(this=total), exp.Literal.number(0)]
    )
    whole = exp.Add(this=exp.Paren(this=start), expression=nothing)
    missing = exp.Is(this=value.copy(), expression=exp.Null())
    return exp.Case(ifs=[exp.If(this=missing, true=exp.Null())], default=whole)


def _added(body: exp.Expression, state: str) -> exp.Expression | None:
    """What a step adds to the state: `f(x)` of `s + f(x)` and of `f(x) + s`."""
    while isinstance(body, exp.Paren):
        body = body.this
    if not isinstance(body, exp.Add):
        return None
    for one, other in ((body.this, body.expression), (body.expression, body.this)):
        if _is_name(one, state) and not any(_is_name(c, state) for c in other.find_all(exp.Column)):
            return exp.Paren(this=other.copy())
    return None


def _is_name(node: exp.Expression, name: str) -> bool:
    return isinstance(node, exp.Column) and not node.table and node.name == name


def _renamed(body: exp.Expression, names: dict[str, str]) -> exp.Expression:
    """The body with other parameter names."""

    def rename(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Column) and not node.table and node.name in names:
            node = node.copy()
            node.set("this", exp.Identifier(this=names[node.name], quoted=True))
        return node

    return body.transform(rename)


CALLS: dict[str, Callable[[list[exp.Expression]], exp.Expression | None]] = {
    "transform": _transform,
    "filter": _filter,
    "reduce": _reduce,
}
