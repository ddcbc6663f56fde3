"""Kernels of BYTEA, each over the distinct values of its column."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from streamsql.core.errors import (
    ArraySubscriptError,
    CharacterNotInRepertoire,
    InvalidParameterValue,
    SubstringError,
    UntranslatableCharacter,
)
from streamsql.functions.compute.grouped import by_value, by_value_failing, constants
from streamsql.functions.definitions import KernelCall

_BYTES = pa.binary()
_CODECS = {
    "utf8": "utf-8", "unicode": "utf-8", "sqlascii": "ascii", "latin1": "iso8859-1",
    "latin2": "iso8859-2", "latin3": "iso8859-3", "latin4": "iso8859-4", "latin5": "iso8859-9",
    "latin6": "iso8859-10", "latin7": "iso8859-13", "latin8": "iso8859-14", "latin9": "iso8859-15",
    "latin10": "iso8859-16", "iso88591": "iso8859-1", "iso88595": "iso8859-5",
    "iso88596": "iso8859-6", "iso88597": "iso8859-7", "iso88598": "iso8859-8",
    "win1250": "cp1250", "win1251": "cp1251", "win1252": "cp1252", "win1253": "cp1253",
    "win1254": "cp1254", "win1255": "cp1255", "win1256": "cp1256", "win1257": "cp1257",
    "win1258": "cp1258", "win866": "cp866", "win874": "cp874", "koi8r": "koi8-r",
    "koi8u": "koi8-u", "eucjp": "euc-jp", "euckr": "euc-kr", "euccn": "gb2312", "sjis": "shift-jis",
    "big5": "big5", "gbk": "gbk", "gb18030": "gb18030", "uhc": "cp949", "johab": "johab",
}  # fmt: skip
"""PostgreSQL's encodings, without their punctuation → Python's codecs."""


# --- bytes and bits -----------------------------------------------------------------------------
def _at(index: int, size: int, what: int) -> int:
    if not 0 <= index < size:
        raise ArraySubscriptError(f"index {what} out of valid range, 0..{size - 1}")
    return index


@constants(1)
def get_byte(call: KernelCall, a: pa.Array, index: pa.Scalar) -> Any:
    """The byte at `index` (0 is the first)."""
    n = index.as_py()
    return by_value_failing(call, a, lambda b: b[_at(n, len(b), n)], pa.int32())


@constants(1, 2)
def set_byte(call: KernelCall, a: pa.Array, index: pa.Scalar, new: pa.Scalar) -> Any:
    """With the byte at `index` replaced."""
    n, byte = index.as_py(), new.as_py() & 255

    def one(b: bytes) -> bytes:
        at = _at(n, len(b), n)
        return b[:at] + bytes([byte]) + b[at + 1 :]

    return by_value_failing(call, a, one, _BYTES)


@constants(1)
def get_bit(call: KernelCall, a: pa.Array, index: pa.Scalar) -> Any:
    """The bit at `index`; the lowest bit of the first byte is number 0."""
    n = index.as_py()

    def one(b: bytes) -> int:
        _at(n, 8 * len(b), n)
        return b[n // 8] >> n % 8 & 1

    return by_value_failing(call, a, one, pa.int32())


@constants(1, 2)
def set_bit(call: KernelCall, a: pa.Array, index: pa.Scalar, new: pa.Scalar) -> Any:
    """With the bit at `index` set to 0 or 1."""
    n, bit = index.as_py(), new.as_py()

    def one(b: bytes) -> bytes:
        _at(n, 8 * len(b), n)
        if bit not in (0, 1):
            raise InvalidParameterValue("new bit must be 0 or 1")
        mask = 1 << n % 8
        byte = b[n // 8] | mask if bit else b[n // 8] & ~mask
        return b[: n // 8] + bytes([byte]) + b[n // 8 + 1 :]

    return by_value_failing(call, a, one, _BYTES)


def bit_count(call: KernelCall, a: pa.Array) -> Any:
    """How many bits are set."""
    return by_value(a, lambda b: int.from_bytes(b, "big").bit_count(), pa.int64())


# --- hashes -------------------------------------------------------------------------------------
def _hash(make: Callable[[bytes], Any]) -> Callable[..., Any]:
    def kernel(call: KernelCall, a: pa.Array) -> Any:
        return by_value(a, lambda b: make(b).digest(), _BYTES)

    return kernel


sha224, sha384, sha512 = _hash(hashlib.sha224), _hash(hashlib.sha384), _hash(hashlib.sha512)


# --- encodings ----------------------------------------------------------------------------------
def _codec(name: str, side: str) -> str:
    plain = "".join(c for c in name.lower() if c.isalnum())
    found = _CODECS.get(plain)
    if found is None:
        raise InvalidParameterValue(f'invalid {side} encoding name "{name}"')
    return found


def _shown(name: str) -> str:
    plain = "".join(c for c in name.upper() if c.isalnum() or c == "_")
    return {"UTF_8": "UTF8", "UNICODE": "UTF8"}.get(plain, plain)


def _decoded(data: bytes, name: str, side: str = "source") -> str:
    codec = _codec(name, side)
    try:
        text = data.decode(codec)
    except UnicodeDecodeError as e:
        shown = " ".join(f"0x{b:02x}" for b in data[e.start : max(e.end, e.start + 1)])
        raise CharacterNotInRepertoire(
            f'invalid byte sequence for encoding "{_shown(name)}": {shown}'
        ) from None
    if "\0" in text:
        raise CharacterNotInRepertoire(f'invalid byte sequence for encoding "{_shown(name)}": 0x00')
    return text


def _encoded(text: str, name: str) -> bytes:
    codec = _codec(name, "destination")
    if codec == "ascii":  # SQL_ASCII takes bytes as they are
        return text.encode()
    try:
        return text.encode(codec)
    except UnicodeEncodeError as e:
        shown = " ".join(f"0x{b:02x}" for b in text[e.start].encode())
        raise UntranslatableCharacter(
            f'character with byte sequence {shown} in encoding "UTF8" has no equivalent in '
            f'encoding "{_shown(name)}"'
        ) from None


@constants(1)
def convert_from(call: KernelCall, a: pa.Array, encoding: pa.Scalar) -> Any:
    """The text that the bytes are in an encoding."""
    name = encoding.as_py()
    return by_value_failing(call, a, lambda b: _decoded(b, name), pa.string())


@constants(1)
def convert_to(call: KernelCall, a: pa.Array, encoding: pa.Scalar) -> Any:
    """The text's bytes in an encoding."""
    name = encoding.as_py()
    return by_value_failing(call, a, lambda s: _encoded(s, name), _BYTES)


@constants(1, 2)
def convert(call: KernelCall, a: pa.Array, source: pa.Scalar, target: pa.Scalar) -> Any:
    """The bytes of a text, from one encoding to another."""
    old, new = source.as_py(), target.as_py()
    return by_value_failing(call, a, lambda b: _encoded(_decoded(b, old), new), _BYTES)


@constants(1)
def length_in(call: KernelCall, a: pa.Array, encoding: pa.Scalar) -> Any:
    """Characters of the text that the bytes are in an encoding."""
    name = encoding.as_py()

    def one(data: bytes) -> int:
        plain = "".join(c for c in name.lower() if c.isalnum())
        if plain not in _CODECS:
            raise InvalidParameterValue(f'invalid encoding name "{name}"')
        return len(_decoded(data, name))

    return by_value_failing(call, a, one, pa.int32())


# --- as of texts --------------------------------------------------------------------------------
@constants(1, 2)
def substring(call: KernelCall, a: pa.Array, start: pa.Scalar, count: Any = None) -> Any:
    """Bytes from position `start` (1 is the first), `count` of them."""
    begin = start.as_py() - 1
    if count is not None and count.as_py() < 0:
        call.fail(True, SubstringError, "negative substring length not allowed")
        return pa.scalar(None, _BYTES)
    end = None if count is None else max(begin + count.as_py(), 0)
    return by_value(a, lambda b: b[max(begin, 0) : end], _BYTES)


@constants(1)
def position(call: KernelCall, a: pa.Array, needle: pa.Scalar) -> Any:
    """Where the needle starts (1 is the first byte), 0 if nowhere."""
    wanted = needle.as_py()
    return by_value(a, lambda b: b.find(wanted) + 1, pa.int32())


@constants(1, 2, 3)
def overlay(
    call: KernelCall, a: pa.Array, new: pa.Scalar, start: pa.Scalar, count: Any = None
) -> Any:
    """With `count` bytes from `start` replaced."""
    data, begin = new.as_py(), start.as_py()
    n = len(data) if count is None else count.as_py()

    def one(b: bytes) -> bytes:
        if begin <= 0:
            raise SubstringError("negative substring length not allowed")
        return bytes(b[: begin - 1] + data + b[max(begin - 1 + n, 0) :])

    return by_value_failing(call, a, one, _BYTES)


def _trim(method: Callable[[bytes, bytes], bytes]) -> Callable[..., Any]:
    @constants(1)
    def kernel(call: KernelCall, a: pa.Array, strip: pa.Scalar) -> Any:
        chars = strip.as_py()
        return by_value(a, lambda b: method(b, chars) if chars else b, _BYTES)

    return kernel


btrim, ltrim, rtrim = _trim(bytes.strip), _trim(bytes.lstrip), _trim(bytes.rstrip)
