"""The sources by name: `WITH (connector = '…')`. A new one is one file and one line here."""

from __future__ import annotations

from collections.abc import Mapping

from streamsql.connectors.base import SourceFactory, SourceReader
from streamsql.connectors.datagen import DatagenSource
from streamsql.connectors.file import FileSource
from streamsql.connectors.nexmark import NexmarkSource
from streamsql.core.errors import FeatureNotSupported
from streamsql.core.schema import Schema
from streamsql.dialect.statements import FormatDef

SOURCES: dict[str, SourceFactory] = {
    "file": FileSource,
    "datagen": DatagenSource,
    "nexmark": NexmarkSource,
}

SPELLINGS = {
    "filesystem": "file",  # Flink
    "posix_fs": "file",  # RisingWave
    "single_file": "file",  # Arroyo
}


def open_source(
    options: Mapping[str, str],
    schema: Schema,
    format: FormatDef | None = None,
    *,
    time_column: int | None = None,
    paced: bool = True,
) -> SourceReader:
    """The reader for these WITH options. time_column: position of the watermark column in schema.
    paced: False = as fast as it can, for reading the past again.

    Raises: FeatureNotSupported (0A000) for a connector that does not exist,
        InvalidParameterValue (22023) for options that are missing or wrong.
    """
    name = options.get("connector", "").lower()
    factory = SOURCES.get(SPELLINGS.get(name, name))
    if factory is None:
        raise FeatureNotSupported(
            f'connector "{name}" is not supported as a source',
            hint=f"Available connectors: {', '.join(SOURCES)}.",
        )
    return factory(options, schema, format, time_column=time_column, paced=paced)
