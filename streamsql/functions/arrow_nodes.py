"""The nodes of a compiled expression: what the Arrow evaluator runs.

Every node returns an Arrow array, or a scalar that stands for a constant column. Rows that cannot
be computed are *recorded* (with the error they deserve) and NULL in the value; CASE, AND, OR and
COALESCE drop the records of rows they would not have evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.errors import StreamSqlError
from streamsql.core.types import SqlType
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
from streamsql.functions.definitions import Failure, KernelCall


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
        try:
            result = flat(self.kernel(call, *args))
        except StreamSqlError as e:
            return self._in_halves(run, args, e)
        if call.failures:
            run.failures.extend(self._settled(call, args))
        return result

    def _in_halves(self, run: Run, args: list[Value], error: StreamSqlError) -> Value:
        """A kernel raised instead of telling which rows: find them by halving the batch."""
        n = run.num_rows
        if n == 1:
            run.failures.append(
                Failure(np.ones(1, np.bool_), type(error), error.message, error.detail)
            )
            return pa.nulls(1, self.type.arrow)
        parts = []
        for start, length in ((0, n // 2), (n // 2, n - n // 2)):
            held = [
                _Held(a.type, v.slice(start, length) if isinstance(v, pa.Array) else v)
                for a, v in zip(self.args, args, strict=True)
            ]
            inner = Run([], length, run.now_us, run.timezone)
            node = KernelNode(
                self.type, self.kernel, held, strict=self.strict, fails=self.own_fails
            )
            value = node.compute(inner)
            parts.append(value if isinstance(value, pa.Array) else pa.repeat(value, length))
            for f in inner.failures:
                rows = np.zeros(n, np.bool_)
                rows[start : start + length] = f.rows
                run.failures.append(Failure(rows, f.error, _shifted(f, start), f.detail))
        return pa.concat_arrays(parts)

    def compute_constant(self, run: Run, args: list[Value]) -> Value:
        """All arguments are constants: one row is computed for all."""
        call = KernelCall(1, self.type, self.arg_types, run.now_us, run.timezone)
        columns = [pa.repeat(a, 1) for a in args]
        try:
            result = flat(self.kernel(call, *columns))
        except StreamSqlError as e:
            run.failures.append(Failure(True, type(e), e.message, e.detail))
            return self.null
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


def _shifted(failure: Failure, start: int) -> str | Callable[[int], str]:
    """The failure's message by rows of the whole batch."""
    return (
        failure.message
        if isinstance(failure.message, str)
        else (lambda row: failure.text(row - start))
    )


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
