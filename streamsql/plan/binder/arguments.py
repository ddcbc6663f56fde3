"""Arguments of a function call: by position, by name (`days => 10`), and VARIADIC arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from streamsql.core.errors import (
    DatatypeMismatch,
    FeatureNotSupported,
    SqlSyntaxError,
    UndefinedFunction,
)
from streamsql.core.types import TEXT, Kind, array_of
from streamsql.functions.argument_names import ARGUMENTS
from streamsql.functions.coerce import coerce
from streamsql.functions.expressions import Call, Expr, Literal
from streamsql.functions.registry import functions
from streamsql.functions.resolve import resolve_call
from streamsql.plan.binder.env import position_of
from streamsql.plan.binder.expressions import ExprBinder


def bind_arguments(
    binder: ExprBinder, name: str, nodes: Sequence[exp.Expression], position: int | None
) -> list[Expr]:
    """The arguments in the function's own order; names resolved and defaults filled in.

    Raises: UndefinedFunction (42883) for a name it has not; SqlSyntaxError (42601).
    """
    given: list[Expr] = []
    named: dict[str, Expr] = {}
    for node in nodes:
        if isinstance(node, exp.Kwarg):
            label = node.this.name
            if label in named:
                raise SqlSyntaxError(
                    f'argument name "{label}" used more than once', position=position_of(node)
                )
            named[label] = binder.bind(node.expression)
        elif named:
            raise SqlSyntaxError(
                "positional argument cannot follow named argument", position=position_of(node)
            )
        else:
            given.append(binder.bind(node))
    return _in_order(name, given, named, position) if named else given


def _in_order(
    name: str, given: list[Expr], named: dict[str, Expr], position: int | None
) -> list[Expr]:
    arguments = ARGUMENTS.get(name, ())
    free = {a.name for a in arguments[len(given) :]}
    if len(given) > len(arguments) or any(n not in free for n in named):
        raise _unknown(name, given, named, position)
    found = list(given)
    wanted = arguments[len(given) :]
    while wanted and wanted[-1].name not in named and wanted[-1].default is None:
        wanted = wanted[:-1]  # an overload without it
    for argument in wanted:
        value = named.get(argument.name, argument.value())
        if value is None:
            raise _unknown(name, given, named, position)
        found.append(value)
    return found


def _unknown(
    name: str, given: list[Expr], named: dict[str, Expr], position: int | None
) -> UndefinedFunction:
    shown = [str(e.type) for e in given]
    return _refused(name, [*shown, *(f"{n} => {e.type}" for n, e in named.items())], position)


def _refused(name: str, shown: list[str], position: int | None) -> UndefinedFunction:
    return UndefinedFunction(
        f"function {name}({', '.join(shown)}) does not exist",
        position=position,
        hint="No function matches the given name and argument types. "
        "You might need to add explicit type casts.",
    )


# --- VARIADIC -----------------------------------------------------------------------------------
def bind_variadic(
    binder: ExprBinder, name: str, nodes: Sequence[exp.Expression], position: int | None
) -> Expr:
    """f(…, VARIADIC array): the elements as arguments, of a function that takes any number.

    An array whose elements are written out is taken apart; of others, the function of the whole
    array that means the same is called.
    """
    first, last = binder.bind_all(list(nodes[:-1])), nodes[-1]
    assert isinstance(last, exp.Variadic)
    array = binder.bind(last.this)
    if array.type.kind is Kind.UNKNOWN:
        array = binder.coerce(array, array_of(TEXT))
    if array.type.element is None:
        raise DatatypeMismatch("VARIADIC argument must be an array", position=position_of(last))
    if not any(d.variadic for d in functions().get(name, ())):
        raise _refused(name, [*(str(e.type) for e in first), f"VARIADIC {array.type}"], position)
    elements = _elements(array)
    if elements:
        return binder.call(name, [*first, *elements], position)
    made = _OF_ARRAYS.get(name)
    if made is None:
        raise FeatureNotSupported(
            f"VARIADIC of an array that is not written out is not supported for {name}()",
            position=position_of(last),
            hint="Write the elements as arguments, or VARIADIC ARRAY[…].",
        )
    return made(first, array, position)


def _elements(array: Expr) -> list[Expr] | None:
    """The elements of ARRAY[…]; None if they are not known."""
    if isinstance(array, Call) and array.function == "array":
        return list(array.args)
    item = array.type.element
    assert item is not None
    if isinstance(array, Literal) and array.value is not None and item.kind is not Kind.ARRAY:
        return [Literal(value=v, type=item) for v in array.value]
    return None


def _concat(first: list[Expr], array: Expr, position: int | None) -> Expr:
    joined = resolve_call("array_to_string", [array, Literal(value="", type=TEXT)], position)
    return resolve_call("concat", [*first, joined], position) if first else joined


def _concat_ws(first: list[Expr], array: Expr, position: int | None) -> Expr:
    separator = coerce(first[0], TEXT)
    joined = resolve_call("array_to_string", [array, separator], position)
    if len(first) == 1:
        return joined
    return resolve_call("concat_ws", [separator, *first[1:], joined], position)


def _num_nulls(first: list[Expr], array: Expr, position: int | None) -> Expr:
    counted = resolve_call("array_num_nulls", [array], position)
    if not first:
        return counted
    return resolve_call("+", [resolve_call("num_nulls", first, position), counted], position)


def _num_nonnulls(first: list[Expr], array: Expr, position: int | None) -> Expr:
    size = resolve_call("cardinality", [array], position)
    missing = resolve_call("array_num_nulls", [array], position)
    counted = resolve_call("-", [size, missing], position)
    if not first:
        return counted
    return resolve_call("+", [resolve_call("num_nonnulls", first, position), counted], position)


def _path(symbol: str) -> Callable[[list[Expr], Expr, int | None], Expr]:
    def make(first: list[Expr], array: Expr, position: int | None) -> Expr:
        return resolve_call(symbol, [*first, array], position)

    return make


_OF_ARRAYS: dict[str, Callable[[list[Expr], Expr, int | None], Expr]] = {
    "concat": _concat,
    "concat_ws": _concat_ws,
    "num_nulls": _num_nulls,
    "num_nonnulls": _num_nonnulls,
    "json_extract_path": _path("#>"),
    "jsonb_extract_path": _path("#>"),
    "json_extract_path_text": _path("#>>"),
    "jsonb_extract_path_text": _path("#>>"),
    "json_build_array": lambda first, array, position: resolve_call("to_json", [array], position),
    "jsonb_build_array": lambda first, array, position: resolve_call("to_jsonb", [array], position),
}
"""Function → the same over a whole array (build_array: without arguments before it)."""
