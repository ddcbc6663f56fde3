"""Compile the kernels before the first query needs them, and say how far it is.

Kernels are compiled at their first call and kept on disk, so the first start on a machine takes
long and every later one only reads them. A room lists *exercises*: small calls of what it uses,
with the argument types of real use, each complete by itself. Whoever starts the server hands all
of them to `warmup`, or the modules that hold them to `warmup_beside`: a compiler runs on one core
and keeps other threads out, so a second process runs the exercises backwards until the two meet.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from streamsql.kernels.jit import KERNELS, cache_dir

Exercise = tuple[str, Callable[[], None]]
Progress = Callable[[str, int, int], None]


def warmup(exercises: Sequence[Exercise], progress: Progress | None = None) -> int:
    """Run the exercises; returns how many kernels are compiled then.

    progress(what comes next, kernels compiled, kernels known) is called before each exercise and
    once at the end. Takes seconds per hundred kernels the first time, milliseconds per kernel from
    the cache.
    """
    for name, exercise in exercises:
        if progress is not None:
            progress(name, compiled(), len(KERNELS))
        exercise()
    if progress is not None:
        progress("ready", compiled(), len(KERNELS))
    return compiled()


def warmup_beside(rooms: Sequence[str], progress: Progress | None = None) -> int:
    """`warmup` with the `EXERCISES` of these modules, helped by a second process if there is a core
    for it; what that one compiled is read from the cache on disk."""
    exercises = collect(rooms)
    with _second_compiler(rooms):
        return warmup(exercises, progress)


def collect(rooms: Sequence[str]) -> list[Exercise]:
    """The exercises of these modules, in their order."""
    return [e for room in rooms for e in importlib.import_module(room).EXERCISES]


@contextmanager
def _second_compiler(rooms: Sequence[str]) -> Iterator[None]:
    """Runs the exercises from the last to the first in another process until the block ends."""
    if cache_dir() is None or _cores() < 2:
        yield
        return
    script = (
        f"from streamsql.kernels import warmup; warmup.warmup(warmup.collect({[*rooms]})[::-1])"
    )
    try:
        helper = subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:  # no interpreter to start, or no process to be had: it only takes longer
        yield
        return
    try:
        yield
    finally:
        helper.kill()
        helper.wait()


def _cores() -> int:
    """Cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def compiled() -> int:
    """Kernels that are compiled or loaded in this process."""
    return sum(bool(kernel.signatures) for kernel in KERNELS)


def sample_arrays(nulls: bool) -> list[pa.Array]:
    """A small array of every type that kernels see."""
    span = pa.MonthDayNano([1, 2, 3])
    samples: list[tuple[object, pa.DataType]] = [
        (True, pa.bool_()), (1, pa.int16()), (1, pa.int32()), (1, pa.int64()), (1.5, pa.float32()),
        (1.5, pa.float64()), (1, pa.decimal128(38, 10)), ("text", pa.string()), (b"x", pa.binary()),
        (1, pa.date32()), (1, pa.time64("us")), (1, pa.timestamp("us")),
        (span, pa.month_day_nano_interval()), ([1], pa.list_(pa.int64())),
        ({"f": 1}, pa.struct([("f", pa.int64())])),
        ([("k", 1)], pa.map_(pa.string(), pa.int64())),
    ]  # fmt: skip
    return [pa.array([value, None if nulls else value, value], type_) for value, type_ in samples]


def _hashing() -> None:
    from streamsql.kernels import hashing

    for nulls in (False, True):
        arrays = sample_arrays(nulls)
        hashing.hash_arrays(arrays)
        hashing.hash_arrays(arrays[3:4])
        batch = pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(arrays))])
        hashing.any_null(batch, range(len(arrays)))


def _hash_index() -> None:
    from streamsql.kernels.hash_index import HashIndex
    from streamsql.kernels.hashing import hash_arrays

    index = HashIndex(reuse=True)
    lanes = hash_arrays([pa.array(range(100))])
    index.upsert_rows(*lanes)
    index.find(*lanes)
    index.remove(np.arange(10))
    HashIndex.load(index.save())


def _multimap() -> None:
    from streamsql.kernels.hashing import hash_arrays
    from streamsql.kernels.multimap import Multimap

    multimap = Multimap()
    lanes = hash_arrays([pa.array([1, 2])])
    multimap.link(*lanes, np.arange(2))
    multimap.probe(*lanes, np.zeros(2, np.bool_))
    multimap.unlink(np.arange(2))


EXERCISES: tuple[Exercise, ...] = (
    ("hashing", _hashing),
    ("hash index", _hash_index),
    ("multimap", _multimap),
)
