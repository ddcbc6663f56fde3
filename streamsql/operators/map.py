"""Filter and projection: WHERE, HAVING, the SELECT list."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from streamsql.circuit.operator import Algebra, Operator, RowError, State, Step
from streamsql.core.delta import Delta, Int64Array
from streamsql.core.schema import Schema
from streamsql.core.types import Kind
from streamsql.functions.expressions import Call, Cast, ColumnRef, Expr, OuterRef, Subquery, walk
from streamsql.functions.resolve import can_fail
from streamsql.operators import saved
from streamsql.operators.builder import Builder
from streamsql.operators.columns import lane_column
from streamsql.operators.word_program import ROWS_MAX, WordProgram
from streamsql.plan.nodes import Filter, Project

if TYPE_CHECKING:
    from streamsql.functions.evaluator import Evaluator


class Map(Operator):
    """Keep the rows where the condition is true, and compute the output columns from them.

    Algebra:  map(filter(Z)): each row for itself, weights untouched.  Linear.
    Input:    delta [n rows x input schema]; any weights.
    Output:   the rows that pass; weights and row watermarks kept; consolidated where the input is
              and all of its columns are passed on.
    State:    none; with `on_error = 'fail'` the number of bad rows that are still there.
    Cost:     O(changed rows).
    Errors:   a row that an expression fails on is kept out and reported (`skip`), or that
              expression is NULL (`null`). Its retraction is kept out as well, so the view heals.
    """

    algebra = Algebra.LINEAR
    rowwise = True

    def __init__(
        self,
        schema: Schema,
        input_schema: Schema,
        predicate: Expr | None,
        exprs: Sequence[Expr] | None,
        *,
        on_error: str = "skip",
        timezone: str = "UTC",
    ) -> None:
        """exprs: one per output column; None = the input's columns as they are."""
        super().__init__(schema)
        self.input_schema = input_schema
        self.on_error = on_error
        self.timezone = timezone
        self.predicate = predicate
        self.exprs = None if exprs is None else tuple(exprs)
        self._predicate = None if predicate is None else self._evaluator([predicate])
        self._picks: list[int] | None = None
        self._outputs: Evaluator | None = None
        if exprs is not None and all(isinstance(e, ColumnRef) for e in exprs):
            self._picks = [e.index for e in exprs if isinstance(e, ColumnRef)]
        elif exprs is not None:
            self._outputs = self._evaluator(exprs)
        self._words = self._word_program()
        # rows that differ go on to differ
        shown = {e.index for e in exprs or () if isinstance(e, ColumnRef)}
        self._keeps_apart = len(shown) == len(input_schema)
        self.bad_rows = 0
        self._failure: tuple[str, str] | None = None

    @property
    def exact(self) -> bool:
        parts = (*(self.exprs or ()), *(() if self.predicate is None else (self.predicate,)))
        return self.on_error != "fail" and all(is_plain(e) for e in parts)

    def _word_program(self) -> WordProgram | None:
        """The predicate, if any, and then the columns that are computed, for a few rows."""
        computed = [e for e in self.exprs or () if not isinstance(e, ColumnRef)]
        if any(e.type.kind is Kind.BOOLEAN for e in computed):
            return None
        parts = ([] if self.predicate is None else [self.predicate]) + computed
        return WordProgram.of(parts) if parts else None

    def _evaluator(self, exprs: Sequence[Expr]) -> Evaluator:
        from streamsql.functions.evaluator import Evaluator

        return Evaluator(exprs, self.input_schema)

    def step(self, step: Step, *deltas: Delta) -> Delta:
        return self._map(step, deltas[0])

    def _map(self, step: Step, delta: Delta) -> Delta:
        if not delta.num_rows:
            return Delta.empty(self.schema)
        if self._words is not None and delta.num_rows <= ROWS_MAX:
            found = self._map_words(self._words, delta)
            if found is not None:
                return found
        if self._predicate is not None:
            columns, delta = self._run(self._predicate, step, delta)
            delta = _where(delta, columns[0])
        if self._picks is not None:
            inputs = delta.columns
            columns = [inputs[i] for i in self._picks]
        elif self._outputs is not None:
            if not delta:
                return Delta.empty(self.schema)
            columns, delta = self._run(self._outputs, step, delta)
        else:
            return delta
        return self._output(delta, columns)

    def _output(self, delta: Delta, columns: list[Any]) -> Delta:
        """These columns for the entries."""
        apart = delta.consolidated and self._keeps_apart
        return Delta.of(
            columns, self.schema.arrow, delta.num_rows, delta.weights, delta.row_watermark, apart
        )

    def _map_words(self, program: WordProgram, delta: Delta) -> Delta | None:
        """`_map` for a few rows; None where a row has an error, which evaluators tell."""
        cells = program.run(delta.columns, delta.num_rows)
        if cells is None:
            return None
        lane = 0
        if self.predicate is not None:
            keep = np.flatnonzero(cells[:, 1])
            lane = 2
            if not keep.size:
                return Delta.empty(self.schema)
            if keep.size < delta.num_rows:
                delta, cells = delta.take(keep), cells[keep]
        if self.exprs is None:
            return delta
        columns = []
        for expr in self.exprs:
            if isinstance(expr, ColumnRef):
                columns.append(delta.columns[expr.index])
            else:
                columns.append(lane_column(cells, lane + 1, lane, expr.type.arrow))
                lane += 2
        return self._output(delta, columns)

    def _run(self, evaluator: Evaluator, step: Step, delta: Delta) -> tuple[list[Any], Delta]:
        """(the columns, the entries they belong to: without those of bad rows)."""
        on_error = "null" if self.on_error == "null" else "skip"
        found = evaluator.run_skipping(
            delta.batch, step.now_us, on_error=on_error, timezone=self.timezone
        )
        if found.errors:
            self._report(step, delta, found.errors)
        return found.columns, delta if found.kept is None else delta.take(found.kept)

    def _report(self, step: Step, delta: Delta, errors: Sequence[tuple[int, str, str]]) -> None:
        rows = np.array([row for row, _, _ in errors], np.int64)
        texts = rows_json(delta, rows, self.input_schema)
        weights = delta.weights_or_ones()[rows]
        for (_, sqlstate, message), text, weight in zip(errors, texts, weights, strict=True):
            step.errors.append(RowError(self.name, sqlstate, message, text, int(weight)))
        if self.on_error == "fail":
            self.bad_rows += int(weights.sum())
            self._failure = (errors[0][1], errors[0][2]) if self.bad_rows > 0 else None

    def failure(self) -> tuple[str, str] | None:
        return self._failure

    def current(self, *inputs: Delta) -> Delta | None:
        return self.retell(Step(0, 0), *inputs)

    @property
    def retells(self) -> bool:
        parts = (self.predicate, *(self.exprs or ()))
        return any(can_fail(e) for e in parts if e is not None)

    def retell(self, step: Step, *inputs: Delta) -> Delta | None:
        bad_rows, failure = self.bad_rows, self._failure
        out = self._map(step, inputs[0])
        self.bad_rows, self._failure = bad_rows, failure
        return out

    def save(self) -> State:
        state, message = self._failure or ("", "")
        if not self.bad_rows:
            return {}
        import pyarrow as pa

        names = pa.table({"sqlstate": [state], "message": [message]})
        return {"bad": saved.numbers(rows=self.bad_rows), "failure": names}

    def load(self, state: State) -> None:
        if "bad" in state:
            self.bad_rows = saved.number(state["bad"], "rows")
            row = state["failure"].to_pylist()[0]
            self._failure = (row["sqlstate"], row["message"])

    @property
    def name(self) -> str:
        if self.exprs is None:
            return "Filter"
        return "Project" if self.predicate is None else "Filter+Project"

    def explain(self) -> dict[str, str]:
        from streamsql.plan.render import render

        parts = []
        if self.predicate is not None:
            parts.append(render(self.predicate, self.input_schema))
        if self.exprs is not None:
            listed = ", ".join(render(e, self.input_schema) for e in self.exprs)
            parts.append(f"-> {listed}" if parts else listed)
        on_error = "" if self.on_error == "skip" else f"  on_error = {self.on_error}"
        return {"detail": " ".join(parts) + on_error}


def _where(delta: Delta, mask: Any) -> Delta:
    """The entries whose mask is TRUE."""
    keep = np.asarray(mask.fill_null(False)) if mask.null_count else np.asarray(mask)
    count = int(np.count_nonzero(keep))
    if count == delta.num_rows:
        return delta
    if count * 4 > delta.num_rows and delta.batch.num_columns:
        return Delta(
            delta.batch.filter(mask),
            None if delta.weights is None else delta.weights[keep],
            None if delta.row_watermark is None else delta.row_watermark[keep],
            delta.consolidated,
        )
    return delta.take(np.flatnonzero(keep))


def rows_json(delta: Delta, rows: Int64Array, schema: Schema) -> list[str]:
    """The rows as JSON objects with the schema's column names, for the error relations."""
    picked = delta.take(rows).batch.columns
    names = schema.names
    columns = [c.to_pylist() for c in picked]
    return [
        json.dumps(dict(zip(names, values, strict=True)), default=str)
        for values in zip(*columns, strict=True)
    ] or ["{}"] * len(rows)


def is_plain(expr: Expr) -> bool:
    """Whether one row alone decides the expression: no subquery, no outer row, no clock."""
    return not any(
        isinstance(e, Subquery | OuterRef) or (isinstance(e, Call) and e.function == "now")
        for e in walk(expr)
    )


def lower_project(node: Project, build: Builder) -> int | None:
    """Project, or Project over Filter in one operator."""
    predicate, below = None, node.input
    if isinstance(below, Filter) and is_plain(below.predicate):
        predicate, below = below.predicate, below.input
    parts = [*node.exprs, *([predicate] if predicate is not None else [])]
    if not all(is_plain(e) for e in parts):
        return None
    identity = all(isinstance(e, ColumnRef) and e.index == i for i, e in enumerate(node.exprs))
    if identity and predicate is None and len(node.exprs) == len(below.schema):
        return build.lower(below)
    return add_map(build, build.lower(below), predicate, node.exprs, node.schema)


def lower_filter(node: Filter, build: Builder) -> int | None:
    """Filter alone."""
    if not is_plain(node.predicate):
        return None
    return add_map(build, build.lower(node.input), node.predicate, None, node.schema)


def add_map(
    build: Builder,
    source: int,
    predicate: Expr | None,
    exprs: Sequence[Expr] | None,
    schema: Schema,
) -> int:
    """A Map over a circuit node, with what is known of its columns carried along."""
    below = build.operator(source)
    options = build.options

    def make() -> Map:
        made = Map(
            schema, below.schema, predicate, exprs,
            on_error=options.on_error, timezone=options.timezone,
        )  # fmt: skip
        carry(below, made, None if exprs is None else list(exprs))
        return made

    simple = (
        predicate is None and exprs is not None and all(isinstance(e, ColumnRef) for e in exprs)
    )
    how = () if simple else (options.on_error, options.timezone)
    name = "map" if predicate is None else "filter"
    what = (predicate, None if exprs is None else tuple(exprs), how, schema)
    # under on_error = 'fail' the bad rows of one view must not make another one fail
    return build.add(name, [source], what, make, private=options.on_error == "fail" and not simple)


def carry(below: Operator, above: Operator, exprs: list[Expr] | None) -> None:
    """Carry over what is known of the input's columns to those that are passed through."""
    above.append_only = below.append_only
    above.lateness_us = below.lateness_us
    places: dict[int, list[int]] = {}
    if exprs is None:
        places = {i: [i] for i in range(len(below.schema))}
    else:
        for i, expr in enumerate(exprs):
            shown = expr.arg if isinstance(expr, Cast) and _same_moment(expr) else expr
            if isinstance(shown, ColumnRef):
                places.setdefault(shown.index, []).append(i)
    above.ends_suffice = below.ends_suffice and all(places.get(i) for i in below.ends)
    move(below, above, places)


def _same_moment(cast: Cast) -> bool:
    """Whether the cast keeps the instant: a watermark that speaks of the one speaks of the
    other."""
    moments = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
    return cast.arg.type.kind in moments and cast.type.kind in moments[1:]


def move(below: Operator, above: Operator, places: dict[int, list[int]]) -> None:
    """Add the facts of `below`'s columns to `above`: column i is found at `places[i]`."""
    above.recedes |= below.recedes
    above.event_times |= {j for i in below.event_times for j in places.get(i, ())}
    above.origins = {
        **above.origins,
        **{j: at for i, at in below.origins.items() for j in places.get(i, ())},
    }
    above.ends = {
        **above.ends,
        **{j: plus for i, plus in below.ends.items() for j in places.get(i, ())},
    }
    above.waits = {
        **above.waits,
        **{j: plus for i, plus in below.waits.items() for j in places.get(i, ())},
    }
    above.useless = {
        **above.useless,
        **{j: plus for i, plus in below.useless.items() for j in places.get(i, ())},
    }
    above.delays = {
        **above.delays,
        **{j: us for i, us in below.delays.items() for j in places.get(i, ())},
    }
    above.gaps = {
        **above.gaps,
        **{
            (p, q): us
            for (i, j), us in below.gaps.items()
            for p in places.get(i, ())
            for q in places.get(j, ())
        },
    }
    above.lost_times |= below.lost_times or not all(places.get(i) for i in below.event_times)
    ends = (*below.ends, *below.closes)
    above.lost_ends |= below.lost_ends or (bool(ends) and not any(places.get(i) for i in ends))
    above.closes = {
        **above.closes,
        **{j: plus for i, plus in below.closes.items() for j in places.get(i, ())},
    }
    above.determined = {
        **above.determined,
        **{
            j: places[by][0]
            for i, by in below.determined.items()
            if by in places
            for j in places.get(i, ())
        },
    }
