"""The example cases beside the project, played over the wire by their own runner."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import streamsql

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"

pytestmark = pytest.mark.skipif(
    not CASES.is_dir(), reason="the folder shared/cases is not beside the project"
)


@pytest.mark.parametrize("spelling", ["rw", "flink"])
def test_all_cases_pass_over_the_wire(spelling: str, tmp_path: Path) -> None:
    from streamsql_server.server import Server

    report = tmp_path / "report.json"
    with streamsql.connect() as database:
        server = Server(database, "127.0.0.1", 0)
        server.start()
        try:
            done = subprocess.run(
                [sys.executable, str(CASES / "run.py"), "--host", "127.0.0.1", "--port", str(server.port),
                 "--dbname", "streamsql", "--user", "streamsql", "--tvf", spelling, "--json", str(report)],
                capture_output=True, text=True, timeout=240, check=False,
            )  # fmt: skip
        finally:
            server.stop()
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(report.read_text())["results"]
    assert results
    assert {r["status"] for r in results} == {"pass"}, done.stdout
