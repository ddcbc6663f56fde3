"""Groups within one batch: a small table in the processor's cache instead of the large index."""

from __future__ import annotations

import numpy as np

from streamsql.kernels.bits import bit, load_integer
from streamsql.kernels.jit import Array, Int, kernel

MIX0 = np.uint64(0x9E3779B97F4A7C15)
MIX1 = np.uint64(0xBF58476D1CE4E5B9)


@kernel
def local_groups(
    columns: Array, table: Array, words: Array, nulls: Array, first: Array, out: Array
) -> int:
    """Number the distinct keys of a batch in order of appearance.

    columns: int64[k, 4], one `Flat` (address, width, valid, valid offset) a key column of at most
    8 bytes a value. table: int32[a power of two], all -1. words: int64[room, k], nulls: int64[room]
    and first: int64[room]: the keys, which of their columns are NULL (bits), the first row of each.
    out: int64[n], the number of each row's key. Returns how many keys there are, -1 if there is not
    room enough.
    """
    n, k, room = out.size, columns.shape[0], first.size
    mask = table.size - 1
    found = 0
    key = np.empty(k, np.int64)
    for i in range(n):
        h = MIX0
        missing = 0
        for j in range(k):
            v = 0
            if bit(columns[j, 2], columns[j, 3] + i):
                v = load_integer(columns[j, 0], columns[j, 1], i)
            else:
                missing |= 1 << j
            key[j] = v
            h = (h ^ np.uint64(v)) * MIX1
            h ^= h >> np.uint64(31)
        h = (h ^ np.uint64(missing)) * MIX0
        p = np.int64(h >> np.uint64(32)) & mask
        while True:
            g: Int = table[p]
            if g < 0:
                if found == room:
                    return -1
                g = found
                found += 1
                table[p] = g
                for j in range(k):
                    words[g, j] = key[j]
                nulls[g] = missing
                first[g] = i
                break
            same = nulls[g] == missing
            for j in range(k):
                same = same and words[g, j] == key[j]
            if same:
                break
            p = (p + 1) & mask
        out[i] = g
    return found
