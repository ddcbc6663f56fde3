"""How every kernel is compiled: without the GIL, once, and cached on disk.

Rules for kernel authors:
- Arrow memory is passed as an *address* (int), our own numpy arrays as arrays. An address is cheap
  to pass and gives one machine signature, where Arrow buffers seen as numpy arrays would be
  read-only arrays and compile everything a second time. The caller keeps the owner alive during
  the call.
- int64 and uint64 never meet in one arithmetic expression: numba would make that a float64.
- A `device` function is inlined into the kernels that call it and has no cache of its own. numba
  does not notice a change of a device function in *another* file, so those that are used across
  files live in the modules of `SHARED`, whose contents are part of the cache's path.
"""

from __future__ import annotations

import os
import sys
import tempfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# What kernel signatures say; the type checker takes them as they are, numba compiles what comes.
Int = Any  # an int64
Word = Any  # a uint64
Array = Any  # a numpy array; the docstring says of what

SHARED = ("bits", "hash_loops", "ordered_nodes", "ordered_search")
"""Modules with device functions that kernels of other modules call."""


def _user_cache(env: Mapping[str, str]) -> Path:
    """The platform's cache directory of this user, not made yet."""
    if sys.platform == "win32":
        root = env.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        root = "~/Library/Caches"
    else:
        root = env.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(root).expanduser() / "streamsql"


def _writable(folder: Path) -> bool:
    """Whether a file can be made there; makes the folder when it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".probe"):
            return True
    except OSError:
        return False


def shared_digest(package: Path) -> str:
    """Eight hex digits that change with the sources of the shared device functions."""
    digest = 0
    for name in SHARED:
        digest = zlib.crc32((package / f"{name}.py").read_bytes(), digest)
    return f"{digest:08x}"


def choose_cache_dir(package: Path, environment: Mapping[str, str] | None = None) -> Path | None:
    """Where compiled kernels go; None = nowhere can be written.

    NUMBA_CACHE_DIR if set, else the sources' own `__pycache__` when it can be written (a
    checkout, a virtual environment), else the user's cache directory, else the temporary one.
    """
    env = os.environ if environment is None else environment
    temporary = Path(tempfile.gettempdir()) / f"streamsql-{env.get('USER', 'user')}"
    given = env.get("NUMBA_CACHE_DIR")
    places = [Path(given)] if given else []
    places += [package / "__pycache__", _user_cache(env), temporary]
    for place in places:
        folder = place / f"kernels-{shared_digest(package)}"
        if _writable(folder):
            return folder
    return None


_CACHE = choose_cache_dir(Path(__file__).parent)


def cache_dir() -> Path | None:
    """Where this process keeps compiled kernels; None = nowhere."""
    return _CACHE


KERNELS: list[Any] = []
"""Every kernel decorated so far in this process, compiled or not; see `warmup`."""


def kernel(function: Callable[..., Any]) -> Any:
    """A compiled, cached entry point: `@njit(nogil=True, cache=True)`."""
    from numba import njit
    from numba.core import config

    # numba asks for the directory when it decorates; other numba code of the process keeps its own
    before = config.CACHE_DIR
    try:
        if _CACHE is not None:
            config.CACHE_DIR = str(_CACHE)
        decorate = njit(nogil=True, no_cfunc_wrapper=True, cache=_CACHE is not None)
        KERNELS.append(decorate(function))
        _name_files_apart(KERNELS[-1])
    finally:
        config.CACHE_DIR = before
    return KERNELS[-1]


def _name_files_apart(dispatcher: Any) -> None:
    """Two processes that compile one kernel for two signatures must not write one file.

    numba numbers the files of a kernel by the index it read before, so both would take the same
    number and the index could name machine code of the other signature. With the process in the
    name the worst is a file that no index names.
    """
    file = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    pattern = getattr(file, "_data_name_pattern", None)
    if file is not None and pattern is not None:
        file._data_name_pattern = pattern.replace("{number:d}", f"{{number:d}}-{os.getpid():x}")


def device(function: Callable[..., Any]) -> Any:
    """A helper that only kernels call; compiled into each of them."""
    from numba import njit

    return njit(nogil=True, no_cfunc_wrapper=True, no_cpython_wrapper=True)(function)
