"""Memory that ticks use again and again is kept by the process, not given back each time.

A tick makes and drops some dozen arrays of about a megabyte. By default the allocators return such
blocks to the operating system at once and fetch fresh, zeroed pages for the next tick: measured,
that is a third of the time of a join. Larger blocks, which hold state, are treated as before.
"""

from __future__ import annotations

import ctypes
import functools
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
BLOCK_BYTES_MAX = 16 << 20
KEPT_BYTES_MAX = 128 << 20
KEPT_MS = 10_000


@functools.cache
def keep_memory() -> None:
    """Tell numpy's allocator (glibc) and Arrow's to keep freed blocks for a while; once a process.

    Does nothing where they can not be told.
    """
    if sys.platform.startswith("linux"):
        try:
            mallopt = ctypes.CDLL(None).mallopt
        except (OSError, AttributeError):  # not glibc
            pass
        else:
            mallopt(_M_MMAP_THRESHOLD, BLOCK_BYTES_MAX)
            mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES_MAX)
    import pyarrow as pa

    if "jemalloc" in pa.supported_memory_backends():
        pa.set_memory_pool(pa.jemalloc_memory_pool())
        pa.jemalloc_set_decay_ms(KEPT_MS)
