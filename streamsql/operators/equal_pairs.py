"""Pairs of -old +new in what groups give out: those that print the same are left out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamsql.core.delta import Delta, Int64Array
from streamsql.kernels.hashing import hash_arrays


def moved_pairs(
    pairs: npt.NDArray[np.int64], kept: Int64Array | None, n: int
) -> npt.NDArray[np.int64]:
    """Pairs of places among n rows as places among those that were kept."""
    if kept is None:
        return pairs
    places = np.full(n, -1, np.int64)
    places[kept] = np.arange(kept.size)
    moved = places[pairs]
    return moved[:, (moved >= 0).all(axis=0)]


def without_equal_pairs(out: Delta, pairs: npt.NDArray[np.int64]) -> Delta:
    """Drop -old +new where what is printed did not change, only the cells behind it did. pairs:
    int64[2, k], the places of old and new."""
    if not pairs.size:
        return out
    h0, h1 = hash_arrays(out.columns, out.num_rows, exact=True)
    left, right = pairs
    same = (h0[left] == h0[right]) & (h1[left] == h1[right])
    if not bool(same.any()):
        return out
    keep = np.ones(out.num_rows, np.bool_)
    keep[left[same]] = False
    keep[right[same]] = False
    return out.take(np.flatnonzero(keep))
