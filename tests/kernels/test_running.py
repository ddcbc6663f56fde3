"""The running watermark against its definition, one row after the other."""

from __future__ import annotations

import random

import numpy as np
import pytest

from streamsql.kernels.running import watermarks


@pytest.mark.parametrize("seed", range(10))
def test_watermarks_equal_their_definition(seed: int) -> None:
    rng = random.Random(seed)
    times = [rng.randint(0, 50) for _ in range(rng.randint(0, 30))]
    values = [rng.choice((t, t - 5, -(2**63))) for t in times]
    limit, known, others, floor = (rng.choice((2**63 - 1, 25, 0, -(2**63))) for _ in range(4))
    before, ahead = np.empty(len(times), np.int64), np.empty(len(times), np.int64)
    got = watermarks(
        np.array(values, np.int64), np.array(times, np.int64), limit, known, others, floor, before, ahead
    )  # fmt: skip
    running, wanted, far = known, [], []
    for i, (time, value) in enumerate(zip(times, values, strict=True)):
        wanted.append(max(min(running, others), floor))
        if time > limit:
            far.append(i)
        else:
            running = max(running, value)
    assert before.tolist() == wanted
    assert got == (running, len(far)) and ahead[: len(far)].tolist() == far
