"""The `streamsql` command. Everything heavy is imported by the subcommand that needs it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from streamsql_server import __version__

DEFAULT_PORT = 4566
DEFAULT_DATA_DIR = "./streamsql-data"

_data_dir = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help=f"Where the database lives.  [default: {DEFAULT_DATA_DIR}]",
)
_memory = click.option("--memory", is_flag=True, help="Keep everything in memory only.")
_log_level = click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="How much goes to stderr.",
)
_log_json = click.option("--log-json", is_flag=True, help="One JSON object a line.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="streamsql", message="%(prog)s %(version)s")
def main() -> None:
    """A streaming SQL database: materialized views that are always up to date."""


@main.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Loopback address.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True,
    help="0 takes a free port.",
)  # fmt: skip
@_data_dir
@_memory
@click.option("--max-connections", type=click.IntRange(1), default=200, show_default=True)
@click.option("--tls-cert", type=click.Path(exists=True), help="Certificate chain (PEM).")
@click.option("--tls-key", type=click.Path(exists=True), help="Its private key (PEM).")
@_log_level
@_log_json
def serve(
    host: str,
    port: int,
    data_dir: Path | None,
    memory: bool,
    max_connections: int,
    tls_cert: str | None,
    tls_key: str | None,
    log_level: str,
    log_json: bool,
) -> None:
    """Serve a database to psql, drivers and BI tools."""
    from streamsql_server import logs, service

    if bool(tls_cert) != bool(tls_key):
        raise click.UsageError("--tls-cert and --tls-key belong together")
    logs.configure(log_level, as_json=log_json)
    path = _database_path(data_dir, memory)
    tls = (tls_cert, tls_key) if tls_cert and tls_key else None
    service.leave(
        service.serve(path, host, port, max_connections=max_connections, tls=tls, log_json=log_json)
    )


@main.command()
@click.argument("dsn", required=False)
@_data_dir
@_memory
def repl(dsn: str | None, data_dir: Path | None, memory: bool) -> None:
    """Type SQL: on a server (DSN) or on a database in this process."""
    if dsn and (data_dir or memory):
        raise click.UsageError("give a DSN, or --data-dir, or --memory")
    path = _database_path(data_dir, memory) if data_dir or memory else None
    sys.exit(_module("streamsql_repl").main(dsn, path))


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--data-dir", type=click.Path(file_okay=False, path_type=Path), default=None,
    help="Where the database lives.  [default: in memory, gone at the end]",
)  # fmt: skip
@click.option("--keep-going", is_flag=True, help="Go on after an error.")
def run(file: Path, data_dir: Path | None, keep_going: bool) -> None:
    """Run the statements of FILE on a database in this process (in memory unless --data-dir)."""
    from streamsql_server import logs, script

    logs.configure("warning")
    path = str(data_dir) if data_dir else ":memory:"
    sys.exit(script.run_file(file, path, keep_going=keep_going))


@main.command()
@click.option("--speed", type=float, default=20_000.0, show_default=True, help="Times real time.")
@click.option("--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True)
@click.option("--seconds", type=float, default=None, help="End by itself after so long.")
@_data_dir
@_memory
def demo(
    speed: float, port: int, seconds: float | None, data_dir: Path | None, memory: bool
) -> None:
    """A year of flights streams in; watch a view change."""
    from streamsql_server import logs, service

    logs.configure("warning")
    module: Any = _module("streamsql_server.demo")
    path = _database_path(data_dir, memory)
    service.leave(module.run_demo(speed=speed, port=port, data_dir=path, seconds=seconds))


@main.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(arguments: tuple[str, ...]) -> None:
    """Measure throughput and latency, as ratios to DuckDB."""
    from streamsql_server import logs

    logs.configure("warning")
    module: Any = _module("streamsql_server.bench")
    sys.exit(module.run_bench(list(arguments)))


def _module(name: str) -> Any:
    import importlib

    return importlib.import_module(name)


def _database_path(data_dir: Path | None, memory: bool) -> str:
    if data_dir is not None and memory:
        raise click.UsageError("give --data-dir or --memory, not both")
    return ":memory:" if memory else str(data_dir or DEFAULT_DATA_DIR)


if __name__ == "__main__":
    main()
