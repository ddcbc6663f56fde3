"""By which watermarks the changes of groups are judged late: GROUP BY, DISTINCT, EXCEPT."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Operator
from streamsql.core.delta import Delta, Int64Array, concat
from streamsql.core.schema import Schema
from streamsql.kernels.hash_index import HashIndex
from streamsql.kernels.hashing import Lanes, hash_arrays
from streamsql.operators.columns import BoolArray
from streamsql.operators.event_time import event_time_us
from streamsql.operators.interval_log import moved
from streamsql.operators.late import is_late


@dataclass(frozen=True)
class Rounds:
    """The step of an operator whose output rows are made of rows with the same event times.

    What a group puts out is judged by the watermark of the row that changed it, as if each row had
    come in a tick of its own. Rows that are ahead of the watermark are late for nothing that is
    above (a window ends after its rows): all of them are one round. The others go in further
    rounds, the first, second, … watermark of each time; what a round puts out carries those.

    columns: by input, the judged columns; output: the same ones there, in the same order.
    plus_us: of each, what is added before the watermark is compared with it.

    Cost: a comparison by entry and column; by round (as many as one time has watermarks that have
    passed it, none as a rule) a step.
    """

    columns: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]
    plus_us: tuple[int, ...]
    lateness_us: int
    schema: Schema

    def run(self, deltas: Sequence[Delta], step: Callable[..., Delta]) -> Delta:
        """The output of `step(*deltas)`, with marks. Entries of one time and watermark may come in
        any order; where an input has no marks, the output has none."""
        marks = [d.row_watermark for d in deltas if d.num_rows]
        known = [m for m in marks if m is not None]
        if not known or len(known) < len(marks):
            return step(*deltas)
        doubtful = [self._doubtful(p, d) if d.num_rows else None for p, d in enumerate(deltas)]
        if all(d is None for d in doubtful):
            return self._marked(step(*deltas), min(int(m.min()) for m in known))
        return self._in_rounds(deltas, doubtful, step)

    def _doubtful(self, port: int, delta: Delta) -> BoolArray | None:
        """bool[n]: the watermark has reached a time of the entry; None if of no entry."""
        marks, found = delta.row_watermark, None
        assert marks is not None
        for column, plus in zip(self.columns[port], self.plus_us, strict=True):
            times, valid = event_time_us(delta.columns[column])
            passed = is_late(moved(times, plus), marks, self.lateness_us)
            if valid is not None:
                passed &= valid
            if bool(passed.any()):
                found = passed if found is None else found | passed
        return found

    def _marked(self, out: Delta, mark: int | Int64Array) -> Delta:
        n = out.num_rows
        if not n:
            return out
        marks = np.full(n, mark, np.int64)
        return Delta.of(out.columns, self.schema.arrow, n, out.weights, marks, out.consolidated)

    def _in_rounds(
        self, deltas: Sequence[Delta], doubtful: Sequence[BoolArray | None],
        step: Callable[..., Delta],
    ) -> Delta:  # fmt: skip
        sizes = [d.num_rows for d in deltas]
        port = np.repeat(np.arange(len(sizes)), sizes)
        place = np.concatenate([np.arange(n) for n in sizes])
        marks = np.concatenate([_marks(d) for d in deltas])
        sure = [np.zeros(n, np.bool_) for n in sizes]
        doubt = np.concatenate([s if d is None else d for s, d in zip(sure, doubtful, strict=True)])
        index = HashIndex(expected=marks.size)
        number, _ = index.upsert_rows(*self._lanes([d.columns for d in deltas], self.columns))
        turn = np.zeros(marks.size, np.int64)
        turn[doubt] = _turns(number[doubt], marks[doubt])
        came = np.argsort(np.argsort(marks, kind="stable"), kind="stable")
        last = np.empty(index.num_slots, np.int64)  # of each time, the entry that came last
        outs, causes = [], []
        for chosen in _groups(turn):
            of_port = port[chosen]
            parts = [d.take(place[chosen[of_port == p]]) for p, d in enumerate(deltas)]
            out = step(*parts)
            if out.num_rows:
                in_order = chosen[np.argsort(came[chosen])]
                last[number[in_order]] = in_order
                cause = last[index.find(*self._lanes([out.columns], [self.output]))]
                outs.append(self._marked(out, marks[cause]))
                causes.append(came[cause])
        whole = concat(outs, self.schema)
        order = np.lexsort((whole.weights_or_ones() > 0, np.concatenate([*causes, NOTHING])))
        return whole.take(order)

    def _lanes(self, rows: Sequence[Sequence[pa.Array]], columns: Sequence[Sequence[int]]) -> Lanes:
        """What tells the times of the entries of all inputs, one after the other, apart."""
        chosen = []
        for at in zip(*columns, strict=True):
            values = [event_time_us(side[c]) for side, c in zip(rows, at, strict=True)]
            masks = [np.ones(v.size, np.bool_) if m is None else m for v, m in values]
            times = np.concatenate([v for v, _ in values])
            chosen.append(pa.array(times, mask=~np.concatenate(masks)))
        return hash_arrays(chosen, len(chosen[0]), exact=True)


NOTHING = np.empty(0, np.int64)


def _marks(delta: Delta) -> Int64Array:
    return NOTHING if delta.row_watermark is None else delta.row_watermark


def _groups(turn: Int64Array) -> Iterator[Int64Array]:
    """The entries of each turn, in their order; the first turn first."""
    order = np.argsort(turn, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(turn[order])) + 1)


def _turns(number: Int64Array, marks: Int64Array) -> Int64Array:
    """int64[n]: which of the different marks of its number each entry has, in order, from 1."""
    order = np.lexsort((marks, number))
    number, marks = number[order], marks[order]
    first = np.ones(order.size, np.bool_)
    first[1:] = number[1:] != number[:-1]
    other = first.copy()
    other[1:] |= marks[1:] != marks[:-1]
    run = np.cumsum(other)
    found = np.empty(order.size, np.int64)
    found[order] = run - np.maximum.accumulate(np.where(first, run, 0)) + 1
    return found


def forget_marks(made: Operator) -> None:
    """Of an operator that hands no watermarks on: what is above judges its rows by nothing but the
    columns whose windows have been judged below."""
    made.event_times &= made.closes.keys()
    made.useless = {}
    made.waits = {}


def rounds_of(made: Operator, places: Sequence[Mapping[int, int]]) -> Rounds | None:
    """The rounds of an operator whose facts are known; None if nothing above may judge its rows.

    places: by input, where columns of the output that tell rows with the same event times apart
    are in it. Columns whose windows are judged below (`closes`) are never late above, but where
    windows may shrink.
    """
    plus = {c: p - 1 for c, p in made.waits.items()} | dict.fromkeys(made.event_times, 0)
    if made.recedes:
        plus |= made.closes
    else:
        plus = {c: us for c, us in plus.items() if c not in made.closes}
    judged = sorted(c for c in plus if all(c in side for side in places))
    if not judged:
        return None
    columns = tuple(tuple(side[c] for c in judged) for side in places)
    return Rounds(
        columns, tuple(judged), tuple(plus[c] for c in judged), made.lateness_us, made.schema
    )
