"""The real file system and the data directory's lock."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamsql.core.errors import DiskError
from streamsql.state.filesystem import OsFileSystem, disk_errors, lock_data_directory
from tests.refused import refused


def test_files_are_written_cut_renamed_and_read(tmp_path: Path) -> None:
    fs = OsFileSystem()
    folder = fs.join(str(tmp_path), "deep", "er")
    assert fs.list(folder) == []
    fs.make_directory(folder)
    path = fs.join(folder, "one")
    file = fs.create(path)
    file.write([b"hello ", memoryview(b"world")])
    file.sync()
    file.truncate(5)
    file.write([b"!"])
    assert file.size == 6
    file.close()
    more = fs.append(path)
    more.write([b"?"])
    more.close()
    fs.replace(path, fs.join(folder, "two"))
    fs.sync_directory(folder)
    assert fs.list(folder) == ["two"]
    assert fs.read(fs.join(folder, "two")).to_pybytes() == b"hello!?"
    fs.create(path).close()
    assert fs.read(path).size == 0
    fs.remove(path)
    fs.remove(path)
    assert not fs.exists(path)


def test_errors_are_disk_errors_in_postgres_words(tmp_path: Path) -> None:
    fs = OsFileSystem()
    with pytest.raises(DiskError, match=r'could not open file ".*": No such file or directory'):
        fs.append(str(tmp_path / "none"))
    with pytest.raises(DiskError) as full, disk_errors("write file", "x"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert str(full.value) == 'could not write file "x": No space left on device'
    assert full.value.hint == "Check free disk space."
    assert full.value.sqlstate == "58030"


def test_data_directory_is_locked_against_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tmp_path / "data")
    lock = lock_data_directory(folder)
    script = (
        "import sys\nfrom streamsql.core.errors import DataDirectoryInUse\n"
        "from streamsql.state.filesystem import lock_data_directory\n"
        "try:\n    lock_data_directory(sys.argv[1])\n"
        "except DataDirectoryInUse as e:\n    print(e.detail)\n"
    )
    other = subprocess.run(
        [sys.executable, "-c", script, folder], capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == f"Process {os.getpid()} holds its lock file."
    monkeypatch.chdir(tmp_path)
    with refused("55006", 'data directory "data" is in use'):
        lock_data_directory("data")
    lock.release()
    lock.release()
    lock_data_directory(folder).release()
