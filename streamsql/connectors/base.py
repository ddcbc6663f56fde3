"""What a source reader is, and what it hands to the engine."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from streamsql.core.errors import FeatureNotSupported, InvalidParameterValue
from streamsql.core.schema import Schema
from streamsql.core.types import BIGINT, TEXT, SqlType
from streamsql.dialect.statements import FormatDef

Position = Any
"""JSON value that says how far a partition was read; opaque to the engine."""

ENGINE_OPTIONS = frozenset(
    {
        "connector",
        "idle_timeout",
        "max_future",
        "allowed_lateness",
        "on_error",
        "retention",
        "state_ttl",
    }
)
"""Options of CREATE TABLE / SOURCE that the engine reads; connectors pass over them."""

MAX_PAYLOAD_CHARS = 4096


@dataclass(frozen=True)
class BadRow:
    """A piece of input that could not be decoded, for `streamsql.source_errors`.

    partition: where it is (a file's path). offset: byte offset or row number there. payload: the
    text itself, cut at 4,096 characters. reason: PostgreSQL's wording. row: how many rows of its
    batch stand before it.
    """

    partition: str
    offset: int
    payload: str
    reason: str
    row: int = 0


@dataclass(frozen=True)
class SourceBatch:
    """Rows of one partition, in their order of arrival.

    partition: the unit a watermark is kept for. batch: RecordBatch [n rows], `Schema.arrow`.
    offset: the partition's position after these rows (`SourceReader.seek` takes it back).
    bad_rows: what was skipped on the way; may come with a batch of no rows. included: what was
    asked for by `SourceReader.include`, by kind: an array [n] of its type in `INCLUDED`.
    before(i, bad): the position in front of row i, or of that bad row, for a source that stops
    there; None: it knows no positions within a batch, and stops in front of the whole.
    """

    partition: str
    batch: pa.RecordBatch
    offset: Position
    bad_rows: list[BadRow] = field(default_factory=list)
    included: dict[str, pa.Array] = field(default_factory=dict)
    before: Callable[[int, BadRow | None], Position] | None = None


INCLUDED: dict[str, SqlType] = {"partition": TEXT, "offset": BIGINT, "payload": TEXT}
"""What INCLUDE can add to the rows of a source, and its type. partition: which file. offset: where
the row begins there, in bytes or rows. payload: the record as it stands there."""


class SourceReader(abc.ABC):
    """Reads one source. Used by one thread; `poll` does not wait for rows to come.

    A reader that was sought to `positions()` of an earlier one goes on with the very next row.
    """

    @abc.abstractmethod
    def poll(self, max_rows: int) -> list[SourceBatch]:
        """What is ready now, at most `max_rows` rows in all; [] when there is nothing."""

    def probe(self) -> None:  # noqa: B027  (most readers know all from their options)
        """Look whether what is there can be these rows at all; called when the source is made.

        Raises: errors of the user, as of a file that has none of the columns.
        """

    @abc.abstractmethod
    def positions(self) -> dict[str, Position]:
        """Partition -> position after the last row handed out."""

    @abc.abstractmethod
    def seek(self, positions: Mapping[str, Position]) -> None:
        """Go on after these positions; called before the first `poll`."""

    @property
    @abc.abstractmethod
    def finished(self) -> bool:
        """True when no row will ever come again."""

    INCLUDES: ClassVar[tuple[str, ...]] = ()
    """The kinds of `INCLUDED` that this reader has."""

    include_kinds: tuple[str, ...] = ()

    def include(self, kinds: Sequence[str]) -> None:
        """Give these with every batch; called before the first `poll`.

        Raises: FeatureNotSupported (0A000) for what such a source does not have.
        """
        for kind in kinds:
            if kind not in self.INCLUDES:
                has = ", ".join(self.INCLUDES)
                raise FeatureNotSupported(
                    f"INCLUDE {kind} is not supported by this connector",
                    hint=f"It has {has}." if has else "Leave the INCLUDE clause out.",
                )
        self.include_kinds = tuple(kinds)

    def close(self) -> None:  # noqa: B027  (most readers hold nothing open)
        """Free files and threads; may be called twice."""


SourceFactory = Callable[..., SourceReader]
"""(options, schema, format, *, time_column=None, paced=True) -> reader. schema: the columns that
the source itself delivers (no generated ones). time_column: position of the watermark column, if it
is one of them. paced: False = rows come as fast as they can, whatever a rate or a replay's speed
says: the engine reads once more what it has had before."""


class Options:
    """The WITH options of a source, read with checks; each name may be spelled in several ways."""

    def __init__(
        self, connector: str, options: Mapping[str, str], extra: Mapping[str, str]
    ) -> None:
        self.connector = connector
        self._known: list[str] = []  # as asked for, the canonical spelling of each
        self._left = {k.lower(): str(v) for k, v in {**options, **extra}.items()}
        for name in ENGINE_OPTIONS:
            self._left.pop(name, None)

    def text(self, *names: str, default: str | None = None) -> str | None:
        """The value of the first of these names that is given."""
        found = default
        self._known.append(names[0])
        for name in reversed(names):
            found = self._left.pop(name, found)
        return found

    def required(self, *names: str) -> str:
        """Raises: InvalidParameterValue (22023) when it is missing."""
        value = self.text(*names)
        if value is None:
            raise InvalidParameterValue(
                f'connector "{self.connector}" needs the option "{names[0]}"',
                hint=f"Add {names[0]} = '…' to WITH (…).",
            )
        return value

    def choice(self, *names: str, among: tuple[str, ...], default: str) -> str:
        """One of a few words. Raises: InvalidParameterValue (22023)."""
        value = (self.text(*names) or default).lower()
        if value not in among:
            raise InvalidParameterValue(
                f'invalid value for option "{names[0]}": "{value}"',
                hint=f"Available values: {', '.join(among)}.",
            )
        return value

    def integer(self, *names: str, default: int | None = None, least: int | None = 0) -> int | None:
        """A whole number. Raises: InvalidParameterValue (22023)."""
        text = self.text(*names)
        if text is None:
            return default
        try:
            value = int(text.replace("_", ""))
        except ValueError:
            raise _not_a(names[0], text, "a whole number") from None
        if least is not None and value < least:
            raise _not_a(names[0], text, f"a whole number that is not below {least}")
        return value

    def number(self, *names: str, default: float | None = None) -> float | None:
        """A number >= 0. Raises: InvalidParameterValue (22023)."""
        text = self.text(*names)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not value >= 0:
            raise _not_a(names[0], text, "a number that is not below 0")
        return value

    def flag(self, *names: str, default: bool = False) -> bool:
        """A boolean. Raises: InvalidParameterValue (22023)."""
        text = self.text(*names)
        if text is None:
            return default
        if text.lower() in ("true", "t", "on", "yes", "1"):
            return True
        if text.lower() in ("false", "f", "off", "no", "0"):
            return False
        raise _not_a(names[0], text, "true or false")

    def starting_with(self, prefix: str) -> dict[str, str]:
        """All options below a prefix, which is cut off."""
        self._known.append(f"{prefix}*")
        names = [n for n in self._left if n.startswith(prefix)]
        return {n[len(prefix) :]: self._left.pop(n) for n in names}

    def finish(self) -> None:
        """Refuse what nobody asked for: nothing is ignored in silence.

        Raises: InvalidParameterValue (22023).
        """
        if self._left:
            name = next(iter(self._left))
            raise InvalidParameterValue(
                f'connector "{self.connector}" has no option "{name}"',
                hint=f"Its options here are {', '.join(dict.fromkeys(self._known))}.",
            )


def _not_a(name: str, text: str, what: str) -> InvalidParameterValue:
    return InvalidParameterValue(
        f'invalid value for option "{name}": "{text}"', hint=f"Give {what}."
    )


def cut_payload(text: str) -> str:
    """A payload for `BadRow`, cut to a size that is safe to keep."""
    return text if len(text) <= MAX_PAYLOAD_CHARS else text[: MAX_PAYLOAD_CHARS - 1] + "…"


__all__ = [
    "BadRow",
    "FormatDef",
    "Options",
    "Position",
    "Schema",
    "SourceBatch",
    "SourceFactory",
    "SourceReader",
    "cut_payload",
]
