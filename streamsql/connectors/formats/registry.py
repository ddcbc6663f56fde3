"""The formats by name: `FORMAT PLAIN ENCODE …`. A new one is one file and one line here."""

from __future__ import annotations

from streamsql.connectors.base import Options
from streamsql.connectors.formats.base import TextFormat
from streamsql.connectors.formats.csv import CsvFormat
from streamsql.connectors.formats.json import JsonFormat
from streamsql.connectors.formats.parquet import ParquetFormat
from streamsql.core.errors import FeatureNotSupported
from streamsql.core.schema import Schema

TEXT_FORMATS: dict[str, type[CsvFormat] | type[JsonFormat]] = {
    "csv": CsvFormat,
    "json": JsonFormat,
}

SPELLINGS = {"jsonl": "json", "ndjson": "json", "jsonlines": "json", "tsv": "csv"}

BY_EXTENSION = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
}


def format_named(name: str, schema: Schema, options: Options) -> TextFormat | ParquetFormat:
    """The format's reader. Raises: FeatureNotSupported (0A000) for one that does not exist."""
    name = SPELLINGS.get(name.lower(), name.lower())
    if name == "parquet":
        return ParquetFormat(schema, options)
    text = TEXT_FORMATS.get(name)
    if text is None:
        known = ", ".join([*TEXT_FORMATS, "parquet"])
        raise FeatureNotSupported(
            f'encoding "{name}" is not supported by this connector',
            hint=f"Available encodings: {known}.",
        )
    return text(schema, options)
