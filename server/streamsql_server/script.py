"""`streamsql run FILE.sql`: the statements of a file, one after the other, results to stdout."""

from __future__ import annotations

from pathlib import Path

import click
import pyarrow as pa

import streamsql
from streamsql.core.errors import FeatureNotSupported, StreamSqlError
from streamsql.engine.api import Result, SessionApi, split_statements
from streamsql_server.conversation.results import tag_of
from streamsql_server.encoding.rows import TEXT, ColumnEncoder
from streamsql_server.encoding.wire_type import WireContext


def run_file(file: Path, path: str, *, keep_going: bool = False) -> int:
    """Runs the file on the database at `path`; returns the exit code (1 after an error)."""
    text = file.read_text(encoding="utf-8")
    failed = False
    database = streamsql.connect(path)
    session = database.session()
    try:
        # each is parsed as the one before it has left the session
        for position, piece in split_statements(text):
            try:
                for statement in session.parse(piece):
                    outcome = session.run(statement)
                    if not isinstance(outcome, Result):
                        raise FeatureNotSupported(
                            "COPY with STDIN or STDOUT needs a client",
                            hint="Use psql, or CREATE TABLE … WITH (connector = 'file').",
                        )
                    show(outcome, session)
            except StreamSqlError as error:
                failed = True
                _show_error(file, text, position, error)
                if not keep_going:
                    break
    finally:
        session.close()
        database.close()
    return int(failed)


def show(result: Result, session: SessionApi) -> None:
    """Notices, then the rows as an aligned table, or the command tag."""
    for notice in result.notices:
        click.echo(f"{notice.severity}: {notice.message}", err=True)
    if result.columns is None:
        click.echo(result.tag)
        return
    context = WireContext(session.parameters.get("TimeZone", "UTC"))
    encoders = [ColumnEncoder(column, TEXT, context) for column in result.columns]
    names = [column.name for column in result.columns]
    rows = 0
    if result.streaming:
        click.echo("\t".join(names))
    columns: list[list[str]] = [[] for _ in names]
    for batch in result.batches:
        texts = [e.text(c) for e, c in zip(encoders, batch.columns, strict=True)]
        rows += batch.num_rows
        if result.streaming:
            _echo_rows(texts)
            continue
        for column, values in zip(columns, texts, strict=True):
            column.extend("" if value is None else value for value in values.to_pylist())
    if not result.streaming:
        _echo_table(names, columns, rows)
    click.echo(tag_of(result.tag, rows))


def _echo_rows(texts: list[pa.Array]) -> None:
    for row in zip(*(column.to_pylist() for column in texts), strict=True):
        click.echo("\t".join("" if value is None else value for value in row))


def _echo_table(names: list[str], columns: list[list[str]], rows: int) -> None:
    widths = [max(map(len, [name, *column])) for name, column in zip(names, columns, strict=True)]
    lines = [names, ["-" * width for width in widths], *zip(*columns, strict=True)]
    for line in lines[: rows + 2]:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo(" " + " | ".join(cells).rstrip())


def _show_error(file: Path, text: str, position: int, error: StreamSqlError) -> None:
    at = position + (error.position or 0)
    line = text.count("\n", 0, at) + 1
    click.echo(f"{file}:{line}: ERROR {error.sqlstate}: {error.message}", err=True)
    for label, more in (("DETAIL", error.detail), ("HINT", error.hint)):
        if more:
            click.echo(f"{label}: {more}", err=True)
