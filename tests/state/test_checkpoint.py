"""Checkpoints: whole or not at all, incremental, checked."""

from __future__ import annotations

import errno
import random
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from streamsql.core import types as t
from streamsql.core.delta import Delta
from streamsql.core.errors import DataCorrupted, DiskError, FeatureNotSupported
from streamsql.core.schema import Schema
from streamsql.kernels.columns import CHUNK_ROWS
from streamsql.state.arrangement import Arrangement
from streamsql.state.checkpoint import CheckpointStore, mark_immutable
from tests.state.faulty_filesystem import Crash, MemoryFileSystem


def table(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64()), "b": [str(v) for v in values]})


def everything(store: CheckpointStore) -> dict[str, Any]:
    found = store.read()
    assert found is not None
    _, load = found
    return {name: load(name) for name in store.names()}


def test_objects_and_meta_come_back(tmp_path: Path) -> None:
    store = CheckpointStore(str(tmp_path))
    assert (store.read(), store.epoch, store.nbytes, store.names()) == (None, 0, 0, [])
    objects = {"view/1": {"rows": table(1, 2), "odd \"name'": table()}, "catalog": b"bytes"}
    assert store.write(objects, {"lsn": 7, "tick": 3}) == 1
    again = CheckpointStore(str(tmp_path))
    found = again.read()
    assert found is not None
    meta, load = found
    assert meta == {"lsn": 7, "tick": 3}
    assert load("catalog") == b"bytes"
    state = load("view/1")
    assert isinstance(state, dict)
    assert state["rows"].equals(table(1, 2))
    assert state["odd \"name'"].equals(table())
    assert again.nbytes > 0
    with pytest.raises(KeyError):
        load("nothing")


def test_unchanged_objects_keep_their_files_and_old_files_go(tmp_path: Path) -> None:
    store = CheckpointStore(str(tmp_path))
    store.write({"a": {"rows": table(1)}, "b": {"rows": table(2)}, "c": b"3"}, {})
    before = {p.name for p in tmp_path.iterdir()}
    store.write({"b": {"rows": table(20)}}, {"second": True}, unchanged={"a"})
    after = {p.name for p in tmp_path.iterdir()}
    assert len(before & after) == 2  # the manifest and a's file
    assert len(after) == 3
    again = everything(CheckpointStore(str(tmp_path)))
    assert sorted(again) == ["a", "b"]
    assert again["a"]["rows"].equals(table(1))
    assert again["b"]["rows"].equals(table(20))
    with pytest.raises(KeyError, match="unchanged"):
        store.write({}, {}, unchanged={"c"})
    assert everything(store)["b"]["rows"].equals(table(20))


def test_pages_of_immutable_tables_are_written_once(tmp_path: Path) -> None:
    schema = Schema.of(("a", t.BIGINT), ("b", t.TEXT))
    z = Arrangement(schema)
    z.add_key([0])  # so that rows are in chunks from the beginning
    store = CheckpointStore(str(tmp_path))

    def grow(n: int) -> None:
        numbers = pa.array(np.arange(z.num_rows, z.num_rows + n))
        z.apply(
            Delta(
                pa.RecordBatch.from_arrays(
                    [numbers, numbers.cast(pa.string())], schema=schema.arrow
                )
            )
        )

    def saved() -> tuple[int, pa.Table]:
        before = {p.name for p in tmp_path.iterdir()}
        store.write({"z": z.save()}, {})
        new = [p for p in tmp_path.iterdir() if p.name not in before]
        restored = everything(CheckpointStore(str(tmp_path)))["z"]["rows"]
        assert restored.equals(z.save()["rows"])
        again = Arrangement(schema)
        again.load(everything(store)["z"])
        assert again.snapshot().equals(z.snapshot())
        return sum(p.stat().st_size for p in new), restored

    grow(3 * CHUNK_ROWS + 10)
    first, _ = saved()
    grow(100)
    second, _ = saved()
    assert second < first / 100
    grow(CHUNK_ROWS)
    third, _ = saved()
    assert third < first / 2
    z.apply(Delta(z.take(np.array([5])), np.array([-1])))
    fourth, after = saved()
    assert after.num_rows == z.total_weight
    assert fourth < first / 2
    nothing, _ = saved()
    assert nothing == 0


def test_pages_scattered_over_many_files_are_gathered_again(tmp_path: Path) -> None:
    store = CheckpointStore(str(tmp_path))
    parts = [table(i) for i in range(8)]
    store.write({"z": {"rows": mark_immutable(pa.concat_tables(parts))}}, {})
    kept = [*parts[:1], table(100)]
    store.write({"z": {"rows": mark_immutable(pa.concat_tables(kept))}}, {})
    assert len([p for p in tmp_path.iterdir() if p.suffix == ".arrow"]) == 1
    assert everything(store)["z"]["rows"].equals(pa.concat_tables(kept))
    store.write({"z": {"rows": mark_immutable(table())}}, {})
    assert everything(store)["z"]["rows"].num_rows == 0


def test_damage_is_noticed(tmp_path: Path) -> None:
    store = CheckpointStore(str(tmp_path))
    store.write({"a": {"rows": table(1)}, "b": b"blob"}, {})
    for path in tmp_path.iterdir():
        whole = path.read_bytes()
        path.write_bytes(whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:])
        with pytest.raises(DataCorrupted, match="damaged"):
            everything(CheckpointStore(str(tmp_path)))
        path.write_bytes(whole)
    next(p for p in tmp_path.iterdir() if p.suffix == ".bin").unlink()
    with pytest.raises(DataCorrupted, match="missing"):
        everything(CheckpointStore(str(tmp_path)))


def test_newer_format_is_refused(tmp_path: Path) -> None:
    import zlib

    CheckpointStore(str(tmp_path)).write({}, {})
    manifest = tmp_path / "MANIFEST"
    body = manifest.read_bytes().partition(b"\n")[2]
    newer = msgspec.json.encode({**msgspec.json.decode(body), "format": 99})
    manifest.write_bytes(b"%08x\n" % zlib.crc32(newer) + newer)
    with pytest.raises(FeatureNotSupported, match="format 99"):
        CheckpointStore(str(tmp_path))


def test_full_disk_leaves_the_checkpoint_before() -> None:
    fs = MemoryFileSystem()
    store = CheckpointStore("cp", files=fs)
    store.write({"a": {"rows": table(1)}}, {"n": 1})
    names = fs.list("cp")
    fs.capacity = fs.used + 500
    with pytest.raises(DiskError, match="No space left"):
        store.write({"a": {"rows": table(*range(1000))}}, {"n": 2})
    assert fs.list("cp") == names
    assert everything(store)["a"]["rows"].equals(table(1))
    fs.capacity = None
    assert store.write({"a": {"rows": table(5)}}, {"n": 3}) == 2
    assert everything(CheckpointStore("cp", files=fs))["a"]["rows"].equals(table(5))


@pytest.mark.parametrize("error", [None, errno.EIO])
@pytest.mark.parametrize("seed", range(25))
def test_crash_or_error_at_any_moment_leaves_a_whole_checkpoint(
    seed: int, error: int | None
) -> None:
    rng = random.Random(seed)
    fs = MemoryFileSystem(seed)
    done = tried = 0
    for _ in range(8):
        try:
            store = CheckpointStore("cp", files=fs)
            found = store.read()
            n = 0 if found is None else found[0]["n"]
            assert n in (done, tried)
            done = n
            for _ in range(3):
                tried = done + 1
                keep = {"b"} if done and rng.random() < 0.5 else set()
                objects: dict[str, Any] = {"a": {"rows": table(tried)}, "c": b"%d" % tried}
                if not keep:
                    objects["b"] = {"rows": table(-1)}
                fs.operations, fs.fail_at, fs.error = 0, rng.randint(1, 40), error
                store.write(objects, {"n": tried}, unchanged=keep)
                done = tried
        except (Crash, DiskError):
            pass
        fs.fail_at = 0
        if error is None or rng.random() < 0.5:
            fs.crash()
        fresh = CheckpointStore("cp", files=fs)
        found = fresh.read()
        if found is None:
            assert done == 0
            continue
        done = found[0]["n"]
        state = everything(fresh)
        assert state["a"]["rows"].equals(table(done))
        assert state["b"]["rows"].equals(table(-1))
        assert state["c"] == b"%d" % done
        referenced = len(state) + 1
        assert len(fs.list("cp")) == referenced
