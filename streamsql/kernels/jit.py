"""How every kernel is compiled: without the GIL, once, and cached on disk.

Rules for kernel authors:
- Arrow memory is passed as an *address* (int), our own numpy arrays as arrays. An address is cheap
  to pass and gives one machine signature, where Arrow buffers seen as numpy arrays would be
  read-only arrays and compile everything a second time. The caller keeps the owner alive during
  the call.
- int64 and uint64 never meet in one arithmetic expression: numba would make that a float64.
- A `device` function is inlined into the kernels that call it and has no cache of its own. numba
  does not see a change of a device function in *another* file: `make clean-kernels`, or
  touch the file of the kernel.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

# What kernel signatures say; the type checker takes them as they are, numba compiles what comes.
Int = Any  # an int64
Word = Any  # a uint64
Array = Any  # a numpy array; the docstring says of what

_CACHE_VARIABLE = "NUMBA_CACHE_DIR"


def _user_cache() -> Path:
    """The platform's cache directory of this user, not made yet."""
    if sys.platform == "win32":
        root = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        root = str(Path.home() / "Library" / "Caches")
    else:
        root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "streamsql" / "kernels"


def _writable(folder: Path) -> bool:
    """Whether a file can be made there; makes the folder when it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".probe"):
            return True
    except (OSError, RuntimeError):  # RuntimeError: no home directory
        return False


def choose_cache_dir(package: Path, environment: dict[str, str] | None = None) -> str | None:
    """Where compiled kernels go: None = beside the sources, "" = nowhere, else a directory.

    The sources' own `__pycache__` when it can be written (a checkout, a virtual environment),
    else the user's cache directory, else the system's temporary one.
    """
    env = os.environ if environment is None else environment
    if env.get(_CACHE_VARIABLE):
        return env[_CACHE_VARIABLE]
    if _writable(package / "__pycache__"):
        return None
    fallback = Path(tempfile.gettempdir()) / f"streamsql-kernels-{os.environ.get('USER', 'user')}"
    for folder in (_user_cache(), fallback):
        if _writable(folder):
            return str(folder)
    return ""


def _configure() -> bool:
    """Point numba at a cache directory it can write; False = none, compile in every process."""
    from numba.core import config

    chosen = choose_cache_dir(Path(__file__).parent)
    if chosen:
        config.CACHE_DIR = chosen
    return chosen != ""


_CACHE = _configure()


def kernel(function: Callable[..., Any]) -> Any:
    """A compiled, cached entry point: `@njit(nogil=True, cache=True)`."""
    from numba import njit

    return njit(nogil=True, cache=_CACHE)(function)


def device(function: Callable[..., Any]) -> Any:
    """A helper that only kernels call; compiled into each of them."""
    from numba import njit

    return njit(nogil=True)(function)
