"""The write-ahead log: what was synced survives every crash, what was not is cut off cleanly."""

from __future__ import annotations

import errno
import random
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from streamsql.core.errors import DataCorrupted, DiskError, FeatureNotSupported
from streamsql.state.wal import WriteAheadLog
from tests.state.faulty_filesystem import Crash, MemoryFileSystem


def contents(log: WriteAheadLog, start: int = 1) -> list[tuple[int, bytes]]:
    return list(log.replay(start))


def test_records_come_back_in_order_after_reopening(tmp_path: Path) -> None:
    path = str(tmp_path / "wal")
    log = WriteAheadLog(path)
    assert contents(log) == []
    assert [log.append(b"one"), log.append(b"tw", b"o"), log.append()] == [1, 2, 3]
    assert log.durable_lsn == 0
    assert log.sync() == 3 == log.durable_lsn
    log.append(pa.py_buffer(b"four"))
    log.close()
    again = WriteAheadLog(path)
    expected = [(1, b"one"), (2, b"two"), (3, b""), (4, b"four")]
    assert contents(again) == expected
    assert contents(again, 3) == expected[2:]
    assert contents(again, 5) == []
    assert again.append(b"five") == 5
    assert contents(again)[-1] == (5, b"five")
    again.close()


def test_segments_rotate_and_are_truncated(tmp_path: Path) -> None:
    path = tmp_path / "wal"
    log = WriteAheadLog(str(path), segment_bytes=200)
    for i in range(20):
        log.append(bytes([i]) * 50)
    log.sync()
    assert len(list(path.iterdir())) > 4
    log.truncate(15)
    first = contents(log, 15)[0]
    assert first == (15, bytes([14]) * 50)
    with pytest.raises(DataCorrupted, match="missing"):
        contents(log, 1)
    log.close()
    again = WriteAheadLog(str(path), segment_bytes=200)
    assert again.append(b"next") == 21
    assert [lsn for lsn, _ in contents(again, 18)] == [18, 19, 20, 21]
    again.rotate()
    again.append(b"22")
    again.sync()
    again.truncate(22)
    assert len(list(path.iterdir())) == 1
    assert again.nbytes < 100
    again.close()


def test_record_larger_than_a_segment_gets_its_own(tmp_path: Path) -> None:
    log = WriteAheadLog(str(tmp_path), segment_bytes=100)
    for i in range(3):
        log.append(bytes([i]) * 1000)
    assert [len(p) for _, p in contents(log)] == [1000] * 3
    log.close()


@pytest.mark.parametrize("cut", [1, 10, 17, 40])
def test_torn_end_is_cut_off(tmp_path: Path, cut: int) -> None:
    log = WriteAheadLog(str(tmp_path))
    log.append(b"a" * 30)
    log.append(b"b" * 30)
    log.close()
    (segment,) = tmp_path.iterdir()
    segment.write_bytes(segment.read_bytes()[:-cut])
    again = WriteAheadLog(str(tmp_path))
    assert contents(again) == [(1, b"a" * 30)]
    assert again.append(b"c") == 2
    again.close()
    assert contents(WriteAheadLog(str(tmp_path))) == [(1, b"a" * 30), (2, b"c")]


def test_damage_before_the_end_is_corruption_not_a_torn_end(tmp_path: Path) -> None:
    log = WriteAheadLog(str(tmp_path), segment_bytes=100)
    for i in range(6):
        log.append(bytes([i]) * 50)
    log.close()
    segment = sorted(tmp_path.iterdir())[1]
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(bytes(data))
    again = WriteAheadLog(str(tmp_path), segment_bytes=100)
    with pytest.raises(DataCorrupted, match="damaged"):
        contents(again)
    again.close()


def test_newer_format_and_foreign_files_are_refused(tmp_path: Path) -> None:
    import struct
    import zlib

    log = WriteAheadLog(str(tmp_path))
    log.append(b"a")
    log.close()
    (segment,) = tmp_path.iterdir()
    whole = segment.read_bytes()
    for at, value, error in (
        (8, b"\x63\0\0\0", FeatureNotSupported),
        (0, b"OTHERLOG", DataCorrupted),
    ):
        head = bytearray(whole[:32])
        head[at : at + len(value)] = value
        head[28:] = struct.pack("<I", zlib.crc32(bytes(head[:28])))
        segment.write_bytes(bytes(head) + whole[32:])
        with pytest.raises(error):
            WriteAheadLog(str(tmp_path))


def test_log_that_lost_its_files_goes_on_behind_the_checkpoint(tmp_path: Path) -> None:
    log = WriteAheadLog(str(tmp_path))
    log.append(b"old")
    log.skip_to(500)
    log.skip_to(3)
    assert log.append(b"new") == 501
    assert contents(log, 501) == [(501, b"new")]
    log.close()
    assert WriteAheadLog(str(tmp_path)).last_lsn == 501


def test_full_disk_leaves_the_log_as_it_was() -> None:
    fs = MemoryFileSystem()
    log = WriteAheadLog("wal", files=fs)
    log.append(b"a" * 100)
    log.sync()
    fs.capacity = fs.used + 50
    for _ in range(3):
        with pytest.raises(DiskError, match="No space left on device") as caught:
            log.append(b"b" * 100)
        assert caught.value.hint is not None
    assert log.append(b"c") == 2
    fs.capacity = None
    assert log.append(b"d") == 3
    log.sync()
    fs.crash()
    assert contents(WriteAheadLog("wal", files=fs)) == [(1, b"a" * 100), (2, b"c"), (3, b"d")]


def test_failed_sync_breaks_the_log_until_it_is_opened_again() -> None:
    fs = MemoryFileSystem()
    log = WriteAheadLog("wal", files=fs)
    log.append(b"a")
    log.sync()
    log.append(b"b")
    fs.fail_at, fs.error = fs.operations + 1, errno.EIO
    with pytest.raises(DiskError, match="fsync"):
        log.sync()
    for call in (log.sync, lambda: log.append(b"c")):
        with pytest.raises(DiskError, match="earlier disk error"):
            call()
    log.close()
    again = WriteAheadLog("wal", files=fs)
    assert contents(again)[0] == (1, b"a")


@pytest.mark.parametrize("seed", range(60))
def test_whatever_was_synced_survives_a_crash_at_any_moment(seed: int) -> None:
    rng = random.Random(seed)
    fs = MemoryFileSystem(seed)
    written: list[bytes] = []
    durable = start = 0
    for _ in range(6):
        fs.operations, fs.fail_at, fs.error = 0, rng.randint(1, 40), None
        try:
            log = WriteAheadLog("wal", files=fs, segment_bytes=rng.choice([150, 400, 10_000]))
            found = contents(log, start + 1)
            assert [lsn for lsn, _ in found] == list(range(start + 1, start + 1 + len(found)))
            assert start + len(found) >= durable
            assert [p for _, p in found] == written[start : start + len(found)]
            del written[start + len(found) :]
            durable = max(durable, log.durable_lsn)
            for _ in range(rng.randint(1, 30)):
                payload = rng.randbytes(rng.randint(0, 60))
                written.append(payload)
                assert log.append(payload) == len(written)
                if rng.random() < 0.4:
                    durable = log.sync()
                if rng.random() < 0.05 and durable > start:
                    start = durable - 1
                    log.truncate(durable)
            log.sync()
        except Crash:
            pass
        fs.crash()


@pytest.mark.parametrize("seed", range(30))
def test_errors_of_the_disk_never_leave_half_a_record(seed: int) -> None:
    rng = random.Random(seed)
    fs = MemoryFileSystem(seed)
    log = WriteAheadLog("wal", files=fs, segment_bytes=200)
    good: list[bytes] = []
    for _ in range(40):
        fs.fail_at, fs.error = fs.operations + rng.randint(1, 12), errno.ENOSPC
        payload = rng.randbytes(rng.randint(0, 60))
        try:
            log.append(payload)
        except DiskError:
            if log._broken:
                log = WriteAheadLog("wal", files=fs, segment_bytes=200)
        else:
            good.append(payload)
    fs.fail_at = 0
    assert [p for _, p in contents(WriteAheadLog("wal", files=fs))] == good


def test_threads_share_syncs(tmp_path: Path) -> None:
    log = WriteAheadLog(str(tmp_path), segment_bytes=2000)
    failures: list[str] = []

    def work(name: int) -> None:
        for i in range(50):
            lsn = log.append(b"%d-%d" % (name, i))
            log.sync()
            if log.durable_lsn < lsn:
                failures.append("not durable")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    payloads = [p for _, p in contents(log)]
    assert len(payloads) == 200
    for n in range(4):
        mine = [p for p in payloads if p.startswith(b"%d-" % n)]
        assert mine == [b"%d-%d" % (n, i) for i in range(50)]
    log.close()
