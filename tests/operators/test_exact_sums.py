"""Exact sums of floats against fractions: digits in chains, values of every size, rows that go."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa

from streamsql.operators.accumulators.exact import Digits, add_values

GROUPS = 60


def test_sums_are_those_of_fractions_whatever_comes_and_goes() -> None:
    random = np.random.default_rng(0)
    digits = Digits()
    held: list[tuple[int, float]] = []
    for step in range(30):
        groups = random.integers(0, GROUPS, 120)
        values = random.normal(size=120) * 10.0 ** random.integers(-300, 300, 120)
        chosen = random.permutation(len(held))[: random.integers(0, 200)].tolist()
        gone = [held[i] for i in chosen]
        held = [row for i, row in enumerate(held) if i not in set(chosen)]
        held += list(zip(groups.tolist(), values.tolist(), strict=True))
        changed = np.concatenate([groups, np.array([g for g, _ in gone], np.int64)])
        weights = np.repeat(np.array([1, -1]), [120, len(gone)])
        column = pa.array(np.concatenate([values, [x for _, x in gone]]))
        cells = np.zeros((GROUPS, 5), np.int64)
        add_values(digits, cells, 0, changed, weights, column, squares=False)
        if step == 15:
            again = Digits()
            again.load(digits.save())
            digits = again
        sums = dict.fromkeys(range(GROUPS), Fraction(0))
        for group, value in held:
            sums[group] += Fraction(value)
        present = {group for group, _ in held}
        digits.free(np.array([g for g in range(GROUPS) if g not in present], np.int64))
        found, rest = digits.totals(np.arange(GROUPS), rest=True)
        assert found.tolist() == [float(sums[g]) for g in range(GROUPS)]
        left = [float(sums[g] - Fraction(float(sums[g]))) for g in range(GROUPS)]
        assert rest.tolist() == left
    digits.free(np.arange(GROUPS))
    assert digits.count == 0
    assert digits.totals(np.arange(GROUPS))[0].tolist() == [0.0] * GROUPS
