"""The Arrow evaluator: a bound expression compiled once into a tree of nodes over kernels.

Every node returns an Arrow array, or a scalar that stands for a constant column. Rows that cannot
be computed are *recorded* (with the error they deserve) and NULL in the value; CASE, AND, OR and
COALESCE drop the records of rows they would not have evaluated. Equal sub-expressions are computed
once a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.types import Kind, SqlType
from streamsql.functions import registry
from streamsql.functions.cast_table import cast_can_fail, cast_kernel
from streamsql.functions.compute.columns import (
    BoolArray,
    Value,
    bools,
    flat,
    from_bools,
    valid_mask,
)
from streamsql.functions.compute.logic import HASHABLE
from streamsql.functions.compute.select import select_first, select_rows
from streamsql.functions.definitions import Failure, FunctionDef, KernelCall, Volatility
from streamsql.functions.expressions import (
    Call,
    Case,
    Cast,
    ColumnRef,
    Expr,
    Literal,
)
from streamsql.functions.literals import to_arrow_scalar


class Run:
    """One evaluation over one batch: the columns, the time, the failures so far."""

    __slots__ = ("cache", "columns", "failures", "now_us", "num_rows", "timezone")

    def __init__(
        self, columns: Sequence[pa.Array], num_rows: int, now_us: int, timezone: str
    ) -> None:
        self.columns = columns
        self.num_rows = num_rows
        self.now_us = now_us
        self.timezone = timezone
        self.failures: list[Failure] = []
        self.cache: dict[int, tuple[Value, list[Failure]]] = {}


class Node:
    """A compiled expression. `shared` nodes keep their value for the rest of the run."""

    shared = False
    fails = False

    def __init__(self, type_: SqlType) -> None:
        self.type = type_

    def value(self, run: Run) -> Value:
        """The node's column; failures of its rows are added to the run."""
        if not self.shared:
            return self.compute(run)
        found = run.cache.get(id(self))
        if found is None:
            outer, run.failures = run.failures, []
            found = (self.compute(run), run.failures)
            run.failures = outer
            run.cache[id(self)] = found
        if found[1]:
            run.failures.extend(found[1])
        return found[0]

    def compute(self, run: Run) -> Value:
        """As `value`, not cached."""
        raise NotImplementedError

    def value_where(self, run: Run, rows: BoolArray) -> Value:
        """The value, with only the failures of `rows` kept."""
        if not self.fails:
            return self.value(run)
        outer, run.failures = run.failures, []
        value = self.value(run)
        inner, run.failures = run.failures, outer
        for failure in inner:
            kept = failure.only(rows)
            if kept is not None:
                run.failures.append(kept)
        return value


class ColumnNode(Node):
    """A column of the batch."""

    def __init__(self, type_: SqlType, index: int) -> None:
        super().__init__(type_)
        self.index = index

    def compute(self, run: Run) -> Value:
        return run.columns[self.index]


class ConstantNode(Node):
    """A literal, or a folded constant expression."""

    def __init__(self, type_: SqlType, scalar: pa.Scalar) -> None:
        super().__init__(type_)
        self.scalar = scalar

    def compute(self, run: Run) -> Value:
        return self.scalar


class KernelNode(Node):
    """A function call or a cast through its Arrow kernel."""

    def __init__(
        self, type_: SqlType, kernel: Any, args: Sequence[Node], *, strict: bool, fails: bool
    ) -> None:
        super().__init__(type_)
        self.kernel = kernel
        self.args = tuple(args)
        self.arg_types = tuple(a.type for a in args)
        self.strict = strict
        self.own_fails = fails
        self.fails = fails or any(a.fails for a in args)
        self.null = pa.scalar(None, type_.arrow)

    def compute(self, run: Run) -> Value:
        args = [a.value(run) for a in self.args]
        constant = True
        for a in args:
            if isinstance(a, pa.Scalar):
                if self.strict and not a.is_valid:
                    return self.null
            else:
                constant = False
        if constant:
            return self.compute_constant(run, args)
        call = KernelCall(run.num_rows, self.type, self.arg_types, run.now_us, run.timezone)
        result = flat(self.kernel(call, *args))
        if call.failures:
            run.failures.extend(self._settled(call, args))
        return result

    def compute_constant(self, run: Run, args: list[Value]) -> Value:
        """All arguments are constants: one row is computed for all."""
        call = KernelCall(1, self.type, self.arg_types, run.now_us, run.timezone)
        columns = [pa.repeat(a, 1) for a in args]
        result = flat(self.kernel(call, *columns))
        for failure in call.failures:
            if failure.rows is True or np.any(_mask(failure.rows)):
                first = Failure(True, failure.error, failure.text(0), failure.detail)
                run.failures.append(first)
        return result[0] if isinstance(result, pa.Array) else result

    def _settled(self, call: KernelCall, args: list[Value]) -> list[Failure]:
        """The failures with rows as masks, without the rows that have a NULL argument."""
        kept: list[Failure] = []
        valid: BoolArray | None = None
        if self.strict:
            for a in args:
                mask = valid_mask(a) if isinstance(a, pa.Array) else None
                if mask is not None:
                    valid = mask if valid is None else valid & mask
        for failure in call.failures:
            rows = failure.rows
            if rows is True:
                rows = np.ones(call.num_rows, np.bool_)
            rows = _mask(rows)
            if valid is not None:
                rows = rows & valid
            if rows.any():
                kept.append(Failure(rows, failure.error, failure.message, failure.detail))
        return kept


def _mask(rows: Any) -> BoolArray:
    return bools(rows) if isinstance(rows, pa.Array) else rows


class JunctionNode(Node):
    """AND / OR, three-valued; later arguments only count where the earlier do not decide."""

    def __init__(self, type_: SqlType, args: Sequence[Node], *, conjunction: bool) -> None:
        super().__init__(type_)
        self.args = tuple(args)
        self.fails = any(a.fails for a in args)
        self.join = pc.and_kleene if conjunction else pc.or_kleene
        self.conjunction = conjunction

    def compute(self, run: Run) -> Value:
        result = self.args[0].value(run)
        for arg in self.args[1:]:
            if arg.fails:
                result = self.join(result, arg.value_where(run, self._open(result, run)))
            else:
                result = self.join(result, arg.value(run))
        return result

    def _open(self, so_far: Value, run: Run) -> BoolArray:
        """Rows that are not decided yet."""
        if isinstance(so_far, pa.Scalar):
            decided = so_far.is_valid and so_far.as_py() is not self.conjunction
            return np.full(run.num_rows, not decided)
        if self.conjunction:
            return bools(so_far.fill_null(True))
        return ~bools(so_far)


class CaseNode(Node):
    """Searched CASE."""

    def __init__(
        self, type_: SqlType, whens: Sequence[tuple[Node, Node]], otherwise: Node | None
    ) -> None:
        super().__init__(type_)
        self.whens = tuple(whens)
        null = ConstantNode(type_, pa.scalar(None, type_.arrow))
        self.otherwise = otherwise if otherwise is not None else null
        parts = [n for pair in whens for n in pair] + [self.otherwise]
        self.fails = any(n.fails for n in parts)

    def compute(self, run: Run) -> Value:
        if not self.fails:
            conditions = [c.value(run) for c, _ in self.whens]
            results = [r.value(run) for _, r in self.whens]
            results.append(self.otherwise.value(run))
            return select_first(conditions, results, self.type.arrow, run.num_rows)
        return self._guarded(run)

    def _guarded(self, run: Run) -> Value:
        """With branches that can fail: only the rows that reach them count."""
        n = run.num_rows
        rest = np.ones(n, np.bool_)
        choice = np.full(n, len(self.whens), np.int8 if len(self.whens) < 127 else np.int32)
        results: list[Value] = []
        for i, (condition, result) in enumerate(self.whens):
            held = condition.value_where(run, rest)
            if isinstance(held, pa.Scalar):
                taken = rest.copy() if held.is_valid and held.as_py() else np.zeros(n, np.bool_)
            else:
                taken = bools(held)
                taken &= rest
            results.append(result.value_where(run, taken))
            choice[taken] = i
            rest &= ~taken
        results.append(self.otherwise.value_where(run, rest))
        return select_rows(choice, results, self.type.arrow)


class CoalesceNode(Node):
    """COALESCE: an argument only counts where those before it are NULL."""

    def __init__(self, type_: SqlType, args: Sequence[Node]) -> None:
        super().__init__(type_)
        self.args = tuple(args)
        self.fails = any(a.fails for a in args)

    def compute(self, run: Run) -> Value:
        values = [self.args[0].value(run)]
        missing: BoolArray | None = None
        for arg in self.args[1:]:
            if arg.fails:
                missing = self._null_in(values, run.num_rows)
                values.append(arg.value_where(run, missing))
            else:
                values.append(arg.value(run))
        if all(isinstance(v, pa.Scalar) for v in values):
            return next((v for v in values if v.is_valid), values[-1])
        if len(values) > 1 and isinstance(values[0], pa.Array) and not values[0].null_count:
            return values[0]
        return flat(pc.coalesce(*values))

    @staticmethod
    def _null_in(values: Sequence[Value], n: int) -> BoolArray:
        missing = np.ones(n, np.bool_)
        for v in values:
            if isinstance(v, pa.Scalar):
                if v.is_valid:
                    missing[:] = False
            else:
                valid = valid_mask(v)
                missing &= np.zeros(n, np.bool_) if valid is None else ~valid
        return missing


class MembershipNode(Node):
    """x IN (constants) through a hash set that is made once."""

    def __init__(self, type_: SqlType, arg: Node, values: pa.Array, has_null: bool) -> None:
        super().__init__(type_)
        self.arg = arg
        self.values = values
        self.has_null = has_null
        self.fails = arg.fails

    @classmethod
    def of(cls, type_: SqlType, args: Sequence[Node]) -> MembershipNode | None:
        """The node, or None where Arrow's equality is not SQL's (floats, intervals, nested)."""
        scalars = [a.scalar for a in args[1:] if isinstance(a, ConstantNode)]
        known = [s for s in scalars if s.is_valid]
        if len(known) < 3 or args[0].type.kind not in HASHABLE:
            return None
        values = pa.concat_arrays([pa.repeat(s, 1) for s in known])
        return cls(type_, args[0], values, len(known) < len(scalars))

    def compute(self, run: Run) -> Value:
        value = self.arg.value(run)
        found: Any = pc.is_in(value, value_set=self.values)
        null = pa.scalar(None, pa.bool_())
        if isinstance(value, pa.Scalar):
            if not value.is_valid or (self.has_null and not found.as_py()):
                return null
            return found
        if value.null_count:
            found = pc.if_else(value.is_valid(), found, null)
        return pc.or_kleene(found, null) if self.has_null else found


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


class TryNode(Node):
    """NULL where the cast fails; failures of its argument stay."""

    def __init__(self, cast: KernelNode) -> None:
        super().__init__(cast.type)
        self.cast = cast
        self.fails = any(a.fails for a in cast.args)

    def compute(self, run: Run) -> Value:
        argument = self.cast.args[0].value(run)
        inner = Run([argument], run.num_rows, run.now_us, run.timezone)
        held = KernelNode(
            self.type, self.cast.kernel, [_Held(self.cast.args[0].type, argument)],
            strict=True, fails=True,
        )  # fmt: skip
        result = held.value(inner)
        for failure in inner.failures:
            if failure.rows is True:
                return pa.scalar(None, self.type.arrow)
            result = pc.if_else(from_bools(~failure.rows), result, self.cast.null)
        return result


class _Held(Node):
    """A value that is there already."""

    def __init__(self, type_: SqlType, held: Value) -> None:
        super().__init__(type_)
        self.held = held

    def compute(self, run: Run) -> Value:
        return self.held


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
