"""The Arrow evaluator: a bound expression compiled once into a tree of nodes over kernels.

Equal sub-expressions become one node and are computed once a run.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streamsql.core.types import Kind, SqlType
from streamsql.functions import registry
from streamsql.functions.arrow_nodes import (
    CaseNode,
    CoalesceNode,
    ColumnNode,
    ConstantNode,
    JunctionNode,
    KernelNode,
    MembershipNode,
    Node,
    Run,
    TryNode,
)
from streamsql.functions.cast_table import cast_can_fail, cast_kernel
from streamsql.functions.definitions import FunctionDef, Volatility
from streamsql.functions.expressions import (
    Call,
    Case,
    Cast,
    ColumnRef,
    Expr,
    Literal,
)
from streamsql.functions.literals import to_arrow_scalar


class Compiler:
    """Compiles expressions over one input; equal sub-expressions become one shared node."""

    def __init__(self) -> None:
        self._nodes: dict[Expr, Node] = {}

    def compile(self, expr: Expr) -> Node | None:
        """The node, or None if some part has no Arrow kernel."""
        known = self._nodes.get(expr)
        if known is not None:
            if not isinstance(known, ColumnNode | ConstantNode):
                known.shared = True
            return known
        node = self._make(expr)
        if node is not None:
            self._nodes[expr] = node
        return node

    def _make(self, expr: Expr) -> Node | None:
        if isinstance(expr, ColumnRef):
            return ColumnNode(expr.type, expr.index)
        if isinstance(expr, Literal):
            return ConstantNode(expr.type, to_arrow_scalar(expr))
        parts = [self.compile(c) for c in expr.children()]
        nodes = [p for p in parts if p is not None]
        if len(nodes) != len(parts):
            return None
        if isinstance(expr, Call):
            return self._call(expr, nodes)
        if isinstance(expr, Cast):
            return self._cast(expr, nodes[0])
        if isinstance(expr, Case):
            n = len(expr.whens)
            pairs = [(nodes[2 * i], nodes[2 * i + 1]) for i in range(n)]
            return CaseNode(expr.type, pairs, nodes[2 * n] if len(nodes) > 2 * n else None)
        return None

    def _call(self, call: Call, args: list[Node]) -> Node | None:
        if call.function.startswith("duckdb:"):
            return None
        if call.function in ("and", "or"):
            return JunctionNode(call.type, args, conjunction=call.function == "and")
        if call.function == "coalesce":
            return CoalesceNode(call.type, args)
        if call.function == "in" and all(isinstance(a, ConstantNode) for a in args[1:]):
            member = MembershipNode.of(call.type, args)
            if member is not None:
                return member
        if call.function == "if":
            return CaseNode(call.type, [(args[0], args[1])], args[2])
        definition = registry.definition_of(call.function, tuple(a.type for a in call.args))
        if definition.kernel is None:
            return None
        fused = _integer_product(call, args)
        if fused is not None:
            return fused
        node = KernelNode(
            call.type, definition.kernel, args, strict=definition.strict,
            fails=definition.can_fail,
        )  # fmt: skip
        return fold(node) if _foldable(definition, args, call.type) else node

    def _cast(self, cast: Cast, arg: Node) -> Node | None:
        kernel = cast_kernel(cast.arg.type, cast.type)
        if kernel is None:
            return None
        fails = cast_can_fail(cast.arg.type, cast.type)
        if cast.try_ and fails:
            return TryNode(KernelNode(cast.type, kernel, [arg], strict=True, fails=True))
        node = KernelNode(cast.type, kernel, [arg], strict=True, fails=fails)
        constant = isinstance(arg, ConstantNode) and not (_zoned(arg.type) or _zoned(cast.type))
        return fold(node) if constant else node


def _integer_product(call: Call, args: Sequence[Node]) -> Node | None:
    """integer column * NUMERIC constant, without making the column a NUMERIC first."""
    if call.function != "multiply" or call.type.kind is not Kind.NUMERIC:
        return None
    for i, arg in enumerate(call.args):
        constant = args[1 - i]
        widened = isinstance(arg, Cast) and arg.arg.type.is_integer
        if widened and isinstance(constant, ConstantNode) and constant.scalar.is_valid:
            cast = args[i]
            if not isinstance(cast, KernelNode) or cast.fails:
                return None
            from streamsql.functions.compute import products

            if products.fits(constant.scalar, arg.type, call.type):
                return KernelNode(
                    call.type, products.multiply_integers, [cast.args[0], constant],
                    strict=True, fails=False,
                )  # fmt: skip
    return None


def _foldable(definition: FunctionDef, args: Sequence[Node], result: SqlType) -> bool:
    """Constant for ever: no time zone of a session comes in."""
    return (
        definition.volatility is Volatility.IMMUTABLE
        and all(isinstance(a, ConstantNode) for a in args)
        and not any(_zoned(t) for t in (result, *(a.type for a in args)))
    )


def _zoned(t: SqlType) -> bool:
    inner = [t.element, t.key, t.value, *(f for _, f in t.fields)]
    return t.kind is Kind.TIMESTAMPTZ or any(i is not None and _zoned(i) for i in inner)


def fold(node: KernelNode) -> Node:
    """The constant the node always gives, or the node itself if that would be an error."""
    run = Run([], 1, 0, "UTC")
    value = node.value(run)
    if run.failures or not isinstance(value, pa.Scalar):
        return node
    return ConstantNode(node.type, value)
