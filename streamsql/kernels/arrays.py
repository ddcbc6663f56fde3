"""Arrays as kernels want them: one layout, so that each kernel is compiled once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]


def int64s(values: npt.NDArray[np.int64]) -> Int64Array:
    """The values as int64, contiguous and writable; themselves if they are.

    Arrays that come out of Arrow are read-only, and slices may have gaps: to numba those are other
    types, and the first of them would be half a second of compiling in the middle of a tick.
    """
    flags = values.flags
    if values.dtype == np.int64 and flags.c_contiguous and flags.writeable:
        return values
    return np.array(values, np.int64)


MUCH = 1 << 20


def room_for(n: int) -> int:
    """The length to give an array that must hold n: half as much again while it is small, then an
    eighth, as what is new is filled at once, and what is old stays where it is (`lengthen`)."""
    return n + 16 + (n >> 1 if n < MUCH else n >> 3)


def lengthen(owner: object, name: str, size: int, fill: int = 0) -> None:
    """Make the array `owner.name` longer along its first axis, with `fill` in what is new.

    Where nobody else holds the array, large memory is not copied: the system moves its pages.
    """
    array = owner.__dict__.pop(name)
    old, shape = len(array), (size, *array.shape[1:])
    try:
        array.resize(shape)
    except ValueError:  # somebody does, or it is a part of something larger
        longer = np.zeros(shape, array.dtype)
        longer[:old] = array
        array = longer
    if fill:
        array[old:] = fill
    setattr(owner, name, array)
