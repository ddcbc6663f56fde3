"""Blocks of zeroed memory for indexes, on huge pages where they are large.

Indexes are read at random: with 4 KB pages nearly every access also misses the TLB, which costs
several times the access itself.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass

import pyarrow as pa

HUGE_PAGE = 2 << 20


@dataclass(frozen=True)
class Block:
    """Zeroed memory at `address`, of `size` bytes, which lives as long as this object."""

    address: int
    size: int
    owner: object


def zeroed_block(size: int) -> Block:
    """A block of at least this size; from one huge page on, a whole number of them, aligned."""
    if size < HUGE_PAGE:
        buffer = _private(max(size, 1))
        return Block(pa.py_buffer(buffer).address, size, buffer)
    size = -(-size // HUGE_PAGE) * HUGE_PAGE
    buffer = _private(size + HUGE_PAGE)  # what is never touched is never given
    if hasattr(mmap, "MADV_HUGEPAGE"):
        buffer.madvise(mmap.MADV_HUGEPAGE)
    start = pa.py_buffer(buffer).address
    return Block(-(-start // HUGE_PAGE) * HUGE_PAGE, size, buffer)


def _private(size: int) -> mmap.mmap:
    """Memory of this process alone (shared memory gets no huge pages)."""
    if hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, size)
