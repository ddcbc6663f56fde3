"""Every golden script, embedded and over the wire, gives what stands in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import streamsql

from .runners import Embedded, Wire
from .script import parse, play

SCRIPTS = sorted(Path(__file__).parent.glob("*.slt"))
REWRITE = os.environ.get("STREAMSQL_REWRITE") == "1"


def _words(path: Path) -> set[str]:
    return {block.head[0] for block in parse(path)}


EMBEDDED_ONLY = [path for path in SCRIPTS if _words(path) & {"python", "restart"}]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_script_embedded(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = Embedded("data" if "restart" in _words(path) else ":memory:")
    try:
        assert play(path, run, rewrite=REWRITE) == []
    finally:
        run.close()


@pytest.mark.parametrize(
    "path", [p for p in SCRIPTS if p not in EMBEDDED_ONLY], ids=lambda p: p.stem
)
def test_script_over_the_wire(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from streamsql_server.server import Server

    monkeypatch.chdir(tmp_path)
    with streamsql.connect() as database:
        server = Server(database, "127.0.0.1", 0)
        server.start()
        run = Wire(server.port)
        try:
            assert play(path, run, rewrite=False) == []
        finally:
            run.close()
            server.stop()


def test_there_are_scripts() -> None:
    assert SCRIPTS
    assert EMBEDDED_ONLY
