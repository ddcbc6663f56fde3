"""Where compiled kernels are kept, memory blocks, and that warming up compiles all of them."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from streamsql.kernels import jit, warmup
from streamsql.kernels.arrays import int64s
from streamsql.kernels.memory import HUGE_PAGE, zeroed_block


def package(tmp_path: Path) -> Path:
    folder = tmp_path / "kernels"
    folder.mkdir()
    for name in jit.SHARED:
        (folder / f"{name}.py").write_text(f"# {name}")
    return folder


def test_kernels_are_kept_beside_their_sources_if_those_can_be_written(tmp_path: Path) -> None:
    folder = package(tmp_path)
    found = jit.choose_cache_dir(folder, {})
    assert found is not None
    assert found.parent == folder / "__pycache__"


def test_read_only_installation_falls_back_to_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = package(tmp_path)
    writable = jit._writable
    monkeypatch.setattr(jit, "_writable", lambda p: folder not in p.parents and writable(p))
    found = jit.choose_cache_dir(folder, {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert found is not None
    assert tmp_path / "cache" in found.parents or sys.platform != "linux"


def test_nowhere_to_write_means_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_writable", lambda p: False)
    assert jit.choose_cache_dir(package(tmp_path), {}) is None


def test_named_cache_directory_comes_first(tmp_path: Path) -> None:
    named = tmp_path / "named"
    found = jit.choose_cache_dir(package(tmp_path), {"NUMBA_CACHE_DIR": str(named)})
    assert found is not None
    assert found.parent == named


def test_change_of_a_shared_module_changes_the_cache(tmp_path: Path) -> None:
    folder = package(tmp_path)
    before = jit.choose_cache_dir(folder, {})
    (folder / f"{jit.SHARED[0]}.py").write_text("# changed")
    assert jit.choose_cache_dir(folder, {}) != before


def test_device_functions_used_in_other_files_are_in_shared_modules() -> None:
    """numba does not notice their change by itself; the cache's path does, for those modules."""
    root = Path(jit.__file__).parent
    devices: dict[str, set[str]] = {}
    for source in root.glob("*.py"):
        found = re.findall(r"^@device\n(?:def (\w+))", source.read_text(), re.M)
        devices[source.stem] = set(found)
    for source in root.parent.rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text())):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            module = node.module.removeprefix("streamsql.kernels.")
            used = {alias.name for alias in node.names} & devices.get(module, set())
            assert not used or module in jit.SHARED, f"{source.name} uses {used} of {module}"


def test_blocks_are_zeroed_and_large_ones_aligned() -> None:
    small = zeroed_block(1000)
    large = zeroed_block(HUGE_PAGE + 5)
    assert (small.size, large.size) == (1000, 2 * HUGE_PAGE)
    assert large.address % HUGE_PAGE == 0
    view = np.frombuffer(large.owner, np.uint8)  # type: ignore[call-overload]
    assert view.size >= large.size
    assert not view[::4096].any()


def test_progress_counts_up_to_all_kernels() -> None:
    seen: list[tuple[str, int, int]] = []
    warmup.warmup(warmup.EXERCISES, lambda *step: seen.append(step))
    assert [name for name, _, _ in seen] == [name for name, _ in warmup.EXERCISES] + ["ready"]
    done = [count for _, count, _ in seen]
    assert done == sorted(done)
    assert 0 < done[-1] <= seen[-1][2]


def test_warmed_up_process_compiles_nothing_more() -> None:
    script = """
from streamsql.kernels import warmup
from streamsql.kernels.jit import KERNELS
from streamsql.state import warmup as state
warmup.warmup([*warmup.EXERCISES, *state.EXERCISES])
ours = [k for k in KERNELS if ".kernels." in k.py_func.__module__]
missing = [k.py_func.__qualname__ for k in ours if not k.signatures]
assert not missing, missing
before = {k: list(k.signatures) for k in ours}
from tests.kernels import test_hash_index, test_ordered, test_text_pool
from tests.state import test_arrangement, test_consolidate, test_ordered_index
test_hash_index.test_growing_is_never_a_long_pause()
test_hash_index.test_reused_slots_keep_arrays_short()
test_ordered.test_memory_is_used_again()
test_ordered.test_questions_to_a_tree_of_several_levels()
test_text_pool.test_binary_texts_and_empty_ones()
test_arrangement.test_memory_is_flat_while_rows_come_and_go()
test_arrangement.test_keys_without_rows_are_forgotten()
test_arrangement.test_snapshots_of_many_chunks_refresh_only_what_changed()
test_consolidate.test_large_deltas_consolidate(1000)
test_ordered_index.test_long_texts_with_one_prefix_are_told_apart()
more = [(k.py_func.__qualname__, k.signatures) for k in ours if list(k.signatures) != before[k]]
assert not more, more
"""
    root = Path(__file__).parents[2]
    run = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_arrays_of_other_layouts_become_plain_int64() -> None:
    plain = np.arange(10)
    read_only = np.arange(10)
    read_only.flags.writeable = False
    assert int64s(plain) is plain
    for other in (plain[::2], read_only, np.arange(10, dtype=np.int32)):
        made = int64s(other)
        assert made.tolist() == other.tolist()
        assert made.dtype == np.int64
        assert made.flags.writeable
        assert made.flags.c_contiguous


def test_files_of_a_kernel_carry_the_process_that_wrote_them() -> None:
    """Or two processes that compile one kernel for two signatures could swap machine code."""
    for one in jit.KERNELS:
        pattern = one._cache._cache_file._data_name_pattern
        assert pattern.format(number=1).endswith(f".1-{os.getpid():x}.nbc"), pattern


def test_what_two_compilers_left_is_read_by_the_next_process(tmp_path: Path) -> None:
    script = """
from streamsql.kernels import jit, warmup
seen = []
warmup.warmup_beside(["streamsql.kernels.warmup"], lambda *step: seen.append(step))
assert [name for name, *_ in seen] == [name for name, _ in warmup.EXERCISES] + ["ready"]
assert all(k.signatures for k in jit.KERNELS if "hashing" in k.py_func.__module__)
"""
    root = Path(__file__).parents[2]
    left = []
    for _ in range(2):
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=root, env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}, check=True,
        )  # fmt: skip
        left.append({file.name for file in tmp_path.rglob("*.nbc")})
    assert left[0] == left[1] != set()
