"""Parameters: values of Bind, and the session parameters that clients are told about."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from streamsql.core.errors import (
    FeatureNotSupported,
    InvalidBinaryRepresentation,
    InvalidParameterValue,
    ProtocolViolation,
    StreamSqlError,
)
from streamsql_server.encoding.registry import wire_type
from streamsql_server.encoding.rows import BINARY, TEXT
from streamsql_server.protocol.frontend import decode_utf8
from streamsql_server.protocol.messages import parameter_status

# value when the session does not say otherwise
REPORTED: dict[str, str] = {
    "application_name": "",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "default_transaction_read_only": "off",
    "in_hot_standby": "off",
    "integer_datetimes": "on",
    "IntervalStyle": "postgres",
    "is_superuser": "on",
    "server_encoding": "UTF8",
    "server_version": "15.0",
    "session_authorization": "streamsql",
    "standard_conforming_strings": "on",
    "TimeZone": "UTC",
}


class ParameterReporter:
    """Says which ParameterStatus messages are due."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def changes(self, present: Mapping[str, str]) -> bytes:
        """Messages for all parameters that are not what the client was told last."""
        out = b""
        for name, fallback in REPORTED.items():
            value = present.get(name, fallback)
            if self._told.get(name) != value:
                self._told[name] = value
                out += parameter_status(name, value)
        return out


def spread_formats(codes: Sequence[int], count: int, what: str) -> list[int]:
    """One format code per value from a list of 0, 1 or n codes.

    Raises: ProtocolViolation (08P01), InvalidParameterValue (22023).
    """
    for code in codes:
        if code not in (TEXT, BINARY):
            raise InvalidParameterValue(f"unsupported format code: {code}")
    if not codes:
        return [TEXT] * count
    if len(codes) == 1:
        return [codes[0]] * count
    if len(codes) != count:
        raise ProtocolViolation(f"bind message has {len(codes)} {what}")
    return list(codes)


def decode_parameter(raw: bytes | None, format_: int, oid: int, index: int) -> Any:
    """One value of Bind: None, text (read by the engine) or the Python value of a binary one.

    index: 0-based, for messages. Raises: FeatureNotSupported (0A000) for a type without binary
    input, InvalidBinaryRepresentation (22P03), CharacterNotInRepertoire (22021).
    """
    if raw is None:
        return None
    if format_ == TEXT:
        return decode_utf8(raw)
    wire = wire_type(oid)
    if wire is None or wire.parse_binary is None:
        name = wire.name if wire else f"with OID {oid}"
        raise FeatureNotSupported(
            f"type {name} has no binary input", hint="Send the parameter as text."
        )
    try:
        return wire.parse_binary(raw)
    except StreamSqlError:
        raise
    except UnicodeDecodeError:
        return decode_utf8(raw)  # raises with PostgreSQL's wording
    except (ValueError, struct.error, IndexError, OverflowError):
        raise InvalidBinaryRepresentation(
            f"incorrect binary data format in bind parameter {index + 1}"
        ) from None
