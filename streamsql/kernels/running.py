"""Running maxima: the watermark before each row."""

from __future__ import annotations

from streamsql.kernels.jit import Array, Int, kernel


@kernel
def watermarks(
    values: Array, times: Array, limit: Int, known: Int, others: Int, floor: Int,
    before: Array, ahead: Array,
) -> tuple[Int, Int]:  # fmt: skip
    """before[i] = the watermark before row i: max(min(running maximum, others), floor).

    values: int64[n], what each row moves the maximum to. times: int64[n]; a row whose time is above
    `limit` moves nothing, and its position goes to `ahead`. known: the maximum before the first
    row. Returns (the maximum after the last row, entries of ahead).
    """
    running = known
    found = 0
    for i in range(values.size):
        before[i] = max(min(running, others), floor)
        if times[i] > limit:
            ahead[found] = i
            found += 1
        elif values[i] > running:
            running = values[i]
    return running, found
