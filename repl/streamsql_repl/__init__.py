"""The REPL of streamsql: type SQL at a server, or at a database in this process."""

from __future__ import annotations

from collections.abc import Sequence


def main(dsn: str | Sequence[str] | None = None, data_dir: str | None = None) -> int:
    """Run the REPL until the end of input; the exit code. See `app.main`."""
    from streamsql_repl.app import main as run

    return run(dsn, data_dir)
