"""The wheel holds all three packages and runs outside of the checkout."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    # built from the committed files only, as a release is
    source = tmp_path_factory.mktemp("source")
    files = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "streamsql", "server", "repl", "sql-examples", "pyproject.toml", "README.md", "LICENSE"],
        capture_output=True, check=True,
    ).stdout.decode().split("\0")  # fmt: skip
    for name in filter(None, files):
        if (ROOT / name).exists():
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(source)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.whl"))


def test_wheel_holds_the_packages_their_data_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in ("streamsql/py.typed", "streamsql_server/cli.py", "streamsql_repl/__init__.py"):
        assert wanted in names
    assert not [n for n in names if n.startswith(("tests/", "server/", "repl/", "sql-examples/"))]
    data = [n.partition(".data/data/")[2] for n in names if ".data/data/" in n]
    assert "share/streamsql/sql-examples/flights/setup.sql" in data
    assert "share/streamsql/sql-examples/data/flights.parquet" in data


def test_wheel_installs_and_answers_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "env"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL"))}

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
    assert run(str(home / "bin" / "streamsql"), "--version").startswith("streamsql 0.")
    assert run(str(python), "-m", "streamsql", "--version").startswith("streamsql 0.")
    program = (
        "import streamsql\n"
        "db = streamsql.connect()\n"
        "db.execute('CREATE TABLE t (a INT)')\n"
        "db.execute('CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS s FROM t')\n"
        "db.execute('INSERT INTO t VALUES (1), (2)')\n"
        "print(db.execute('SELECT s FROM v').fetchall())\n"
        "db.close()\n"
    )
    assert run(str(python), "-c", program).strip() == "[(3,)]"
