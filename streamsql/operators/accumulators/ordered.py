"""ARRAY_AGG, STRING_AGG, JSON_AGG, FIRST_VALUE, ARG_MAX and their kin: aggregates over the rows of
a group in ORDER BY order, or in order of arrival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.delta import Int64Array
from streamsql.core.schema import Column, Schema
from streamsql.core.types import JSON, JSONB, TEXT, Kind, SqlType
from streamsql.functions.evaluator import Evaluator
from streamsql.functions.expressions import AggregateCall, Expr, Literal, SortKey, column
from streamsql.kernels.order_keys import OrderColumn, can_order
from streamsql.operators.accumulators.base import Accumulator, Cells
from streamsql.operators.accumulators.kept_rows import KeptRows
from streamsql.operators.accumulators.rows import Remembered, expression_column
from streamsql.operators.columns import BoolArray


class Ordered(Remembered):
    """An aggregate of a group's rows in order.

    Algebra:  f(the rows of the group, sorted).  Not linear; only touched groups are computed again.
    State:    every row that counts, in order; freed with the row.
    Cost:     O(log rows) a changed row, and what `values` reads of the touched groups.
    """

    keeps = "its rows in order"

    def __init__(
        self, call: AggregateCall, kept: Sequence[SqlType], order: Sequence[SortKey],
        append_only: bool,
    ) -> None:  # fmt: skip
        """kept: types of the columns that `columns` makes of each row. order: beats arrival."""
        super().__init__(call)
        self.order = tuple(order)
        columns = [
            OrderColumn(k.expr.type.arrow, descending=k.descending, nulls_first=k.nulls_first)
            for k in order
        ]
        self.rows = KeptRows([t.arrow for t in kept], columns, retracts=not append_only)

    def columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """What is kept of each row."""
        return [expression_column(a, batch) for a in self.call.args]

    def counts(self, columns: list[pa.Array]) -> BoolArray | None:
        """Which rows count, None = all. columns: as `columns` gave them."""
        return None

    def add_rows(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, batch: pa.RecordBatch
    ) -> None:
        columns = self.columns(batch)
        counting = self.counts(columns)
        if counting is not None and not bool(counting.all()):
            rows = np.flatnonzero(counting)
            index = pa.array(rows)
            batch, columns = batch.take(index), [c.take(index) for c in columns]
            slots, weights = slots[rows], weights[rows] if weights.size else weights
        order = [expression_column(k.expr, batch) for k in self.order]
        identity, exact = list(batch.columns), True
        if self.call.distinct:
            identity, exact = [expression_column(a, batch) for a in self.call.args], False
        self.rows.add(slots, weights, columns, order, identity, exact=exact)

    def lists(self, groups: Int64Array) -> tuple[Int64Array, list[pa.Array]]:
        """All kept rows of the groups in order: (where each group's begin int64[groups + 1], kept
        columns)."""
        which, rows = self.rows.of(groups)
        counts = np.bincount(which, minlength=groups.size)
        return np.concatenate([[0], np.cumsum(counts)]), self.rows.take(rows)

    def tidy(self, cells: Cells) -> None:
        super().tidy(cells)
        self.rows.tidy()

    def free(self, slots: Int64Array) -> None:
        self.rows.free(slots)

    def side_rows(self) -> int:
        return self.rows.rows

    def side_bytes(self) -> int:
        return self.rows.nbytes + self.printed.nbytes

    def save_rows(self) -> Mapping[str, pa.Table]:
        return self.rows.save()

    def load_rows(self, state: Mapping[str, pa.Table]) -> None:
        self.rows.load(state)


class ArrayAgg(Ordered):
    """ARRAY_AGG(x): the values of a group, NULLs too; NULL without rows."""

    def values(self, groups: Int64Array) -> pa.Array:
        starts, (values,) = self.lists(groups)
        return list_array(starts, values, self.type.arrow)


class StringAgg(Ordered):
    """STRING_AGG(x, separator): the values that are not NULL, the separator of each but the first
    before it."""

    def counts(self, columns: list[pa.Array]) -> BoolArray | None:
        return np.asarray(columns[0].is_valid()) if columns[0].null_count else None

    def values(self, groups: Int64Array) -> pa.Array:
        starts, (texts, separators) = self.lists(groups)
        empty = pa.scalar("" if pa.types.is_string(texts.type) else b"", texts.type)
        fixed = self.call.args[1]
        if isinstance(fixed, Literal):
            between = separators[0] if len(separators) else empty
            return joined(starts, texts, between if between.is_valid else empty)
        first = np.zeros(len(texts), np.bool_)
        first[starts[:-1][np.diff(starts) > 0]] = True
        separators = pc.if_else(pa.array(first), empty, separators.fill_null(empty))
        pieces = pc.binary_join_element_wise(separators, texts, empty)
        return joined(starts, pieces, empty)


class JsonAgg(Ordered):
    """JSON[B]_AGG(x): a JSON array of the values, NULLs as null. The elements are kept as JSON."""

    def __init__(self, call: AggregateCall, order: Sequence[SortKey], append_only: bool) -> None:
        super().__init__(call, [TEXT], order, append_only)
        self.element = JsonText(call.args[0].type, call.type)

    def columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [self.element.of(expression_column(self.call.args[0], batch))]

    def values(self, groups: Int64Array) -> pa.Array:
        starts, (texts,) = self.lists(groups)
        inner = joined(starts, texts, pa.scalar(", "))
        return pc.binary_join_element_wise("[", inner, "]", "")


class JsonObjectAgg(Ordered):
    """JSON[B]_OBJECT_AGG(key, value): JSONB keeps the last of equal keys, and sorts them."""

    def __init__(self, call: AggregateCall, order: Sequence[SortKey], append_only: bool) -> None:
        super().__init__(call, [TEXT], order, append_only)
        key, value = call.args
        self.key = JsonText(key.type, JSON, as_text=True)
        self.value = JsonText(value.type, call.type)
        binary = call.type.kind is Kind.JSONB
        self.colon = ": " if binary else " : "
        self.whole: Evaluator | None = None
        if binary:
            from streamsql.functions.coerce import coerce

            made = coerce(column(0, JSON), JSONB, "explicit")
            self.whole = Evaluator([made], Schema((Column("", JSON),)))

    def columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        keys, values = (expression_column(a, batch) for a in self.call.args)
        names = pc.if_else(keys.is_valid(), self.key.of(keys), pa.scalar(None, pa.string()))
        return [pc.binary_join_element_wise(names, self.value.of(values), self.colon)]

    def counts(self, columns: list[pa.Array]) -> BoolArray | None:
        return np.asarray(columns[0].is_valid()) if columns[0].null_count else None

    def values(self, groups: Int64Array) -> pa.Array:
        starts, (texts,) = self.lists(groups)
        inner = joined(starts, texts, pa.scalar(", "))
        if self.whole is None:
            return pc.binary_join_element_wise("{ ", inner, " }", "")
        documents = pc.binary_join_element_wise("{", inner, "}", "")
        batch = pa.record_batch([documents], names=["c0"])
        return self.whole.run(batch, 0)[0]


class JsonText:
    """Values as JSON text, NULL as null."""

    def __init__(self, source: SqlType, target: SqlType, *, as_text: bool = False) -> None:
        """as_text: the value's text as a JSON string, which is what keys are."""
        from streamsql.functions.coerce import coerce
        from streamsql.functions.resolve import resolve_call

        made: Expr = column(0, source)
        if as_text and not source.is_text:
            made = coerce(made, TEXT, "explicit")
        if as_text or source.kind is not target.kind:
            made = resolve_call(f"to_{target.kind.value}", [made])
        self.evaluator = Evaluator([made], Schema((Column("", source),)))

    def of(self, values: pa.Array) -> pa.Array:
        """The texts of a column."""
        batch = pa.record_batch([values], names=["c0"])
        return self.evaluator.run(batch, 0)[0].fill_null("null")


class End(Ordered):
    """FIRST_VALUE, LAST_VALUE, ANY_VALUE, ARG_MIN and ARG_MAX: what one end of the rows holds.

    ANY_VALUE is the first value that is not NULL; ARG_MIN and ARG_MAX pass over rows where either
    argument is NULL, and take the first of equally extreme ones.
    """

    def __init__(self, call: AggregateCall, order: Sequence[SortKey], append_only: bool) -> None:
        plain = replace(call, distinct=False)  # equal values change nothing
        super().__init__(plain, [call.args[0].type], order, append_only)
        self.last = call.function == "last_value"

    def columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        columns = super().columns(batch)
        if len(columns) == 1:
            return columns
        self._beside = columns[1]
        return columns[:1]

    def counts(self, columns: list[pa.Array]) -> BoolArray | None:
        if self.call.function in ("first_value", "last_value"):
            return None
        counting: BoolArray = np.asarray(columns[0].is_valid())
        if self.call.function != "any_value":
            counting = counting & np.asarray(self._beside.is_valid())
        return counting

    def values(self, groups: Int64Array) -> pa.Array:
        found = self.rows.take(self.rows.end(groups, last=self.last))[0]
        return found if found.type == self.type.arrow else found.cast(self.type.arrow)


def list_array(starts: Int64Array, values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Lists by their bounds int64[n + 1]; an empty one is NULL."""
    empty = np.diff(starts) == 0
    mask = pa.array(empty) if bool(empty.any()) else None
    if values.type != type_.value_type:
        values = values.cast(type_.value_type)
    return pa.ListArray.from_arrays(
        pa.array(starts.astype(np.int32)), values, type=type_, mask=mask
    )


def joined(starts: Int64Array, texts: pa.Array, between: pa.Scalar) -> pa.Array:
    """The texts of each list in one, NULL for an empty list."""
    return pc.binary_join(list_array(starts, texts, pa.list_(texts.type)), between)


def order_of(call: AggregateCall) -> tuple[SortKey, ...] | None:
    """What the rows of a call are ordered by; None if it has no order that can be kept. DISTINCT
    without an ORDER BY sorts, as PostgreSQL does to find equals."""
    order = call.order_by
    if call.distinct and not order:
        keys = [a for a in call.args if not isinstance(a, Literal)]
        order = tuple(SortKey(expr=a, descending=False, nulls_first=False) for a in keys)
    return order if all(can_order(k.expr.type.arrow) for k in order) else None


def make_ordered(call: AggregateCall, append_only: bool) -> Accumulator | None:
    """The accumulator of an aggregate over rows in order."""
    order = order_of(call)
    if order is None:
        return None
    kept = [a.type for a in call.args]
    match call.function:
        case "array_agg":
            return ArrayAgg(call, kept, order, append_only)
        case "string_agg":
            return StringAgg(call, kept, order, append_only)
        case "json_agg" | "jsonb_agg":
            return JsonAgg(call, order, append_only)
        case "json_object_agg" | "jsonb_object_agg":
            return JsonObjectAgg(call, order, append_only)
    return End(call, order, append_only)


def make_beside(call: AggregateCall, append_only: bool) -> Accumulator | None:
    """The accumulator of arg_min(x, y) or arg_max(x, y): x in the order of y, then of ORDER BY."""
    by = SortKey(expr=call.args[1], descending=call.function == "arg_max")
    keys = (by, *call.order_by)
    if not all(can_order(k.expr.type.arrow) for k in keys):
        return None
    return End(call, keys, append_only)
