"""JSONB documents as bytes that compare like the documents, in PostgreSQL's order.

Object > array > boolean > number > string > null; of arrays and objects the one with more members
is greater, then member by member, keys before their values; an empty array that is a whole document
comes before everything else. The documents are in jsonb's normal form.
"""

from __future__ import annotations

from numba import njit

from streamsql.functions.compute.loops import loop

EMPTY, NULL, STRING, NUMBER, BOOLEAN, ARRAY, OBJECT = range(7)
NEGATIVE, ZERO, POSITIVE = 1, 2, 3


@njit
def _hex(c):  # type: ignore[no-untyped-def]
    return c - 48 if c < 58 else (c | 32) - 87


@njit
def _unit(data, at):  # type: ignore[no-untyped-def]
    """The four hexadecimal digits from `at` on."""
    code = 0
    for k in range(4):
        code = code * 16 + _hex(data[at + k])
    return code


@njit
def _string(data, at, out, o):  # type: ignore[no-untyped-def]
    """The bytes of the string whose quote is at `at`, and a 0; (position behind it, end)."""
    at += 1
    while data[at] != 34:
        c = data[at]
        at += 1
        if c != 92:
            out[o] = c
            o += 1
            continue
        c = data[at]
        at += 1
        if c != 117:
            if c == 110:
                c = 10
            elif c == 116:
                c = 9
            elif c == 114:
                c = 13
            elif c == 98:
                c = 8
            elif c == 102:
                c = 12
            out[o] = c
            o += 1
            continue
        code = _unit(data, at)
        at += 4
        if 0xD800 <= code < 0xDC00 and data[at] == 92 and data[at + 1] == 117:
            code = 0x10000 + ((code - 0xD800) << 10) + (_unit(data, at + 2) - 0xDC00)
            at += 6
        if code < 0x80:
            out[o] = code
            o += 1
            continue
        more = 1 if code < 0x800 else (2 if code < 0x10000 else 3)
        lead = 0xC0 if more == 1 else (0xE0 if more == 2 else 0xF0)
        out[o] = lead | (code >> (6 * more))
        for k in range(more):
            out[o + 1 + k] = 0x80 | ((code >> (6 * (more - 1 - k))) & 0x3F)
        o += 1 + more
    out[o] = 0
    return at + 1, o + 1


@njit
def _number(data, at, end, out, o):  # type: ignore[no-untyped-def]
    """Sign, exponent and digits of the number at `at`; (position behind it, end)."""
    negative = data[at] == 45
    if negative:
        at += 1
    start = o
    o += 5  # sign and exponent are known at the end
    point = -1  # digits in front of the decimal point
    digits, leading, last = 0, 0, o
    while at < end:
        c = data[at]
        if c == 46:
            point = digits + leading
        elif 48 <= c <= 57:
            if digits == 0 and c == 48:
                leading += 1
            else:
                digits += 1
                out[o] = c - 47
                o += 1
                if c != 48:
                    last = o
        else:
            break
        at += 1
    if point < 0:
        point = digits + leading
    if digits == 0:
        out[start] = ZERO
        return at, start + 1
    exponent = point - leading + 0x40000000
    out[start] = POSITIVE
    for k in range(4):
        out[start + 1 + k] = (exponent >> (8 * (3 - k))) & 255
    out[last] = 0
    if negative:
        out[start] = NEGATIVE
        for k in range(start + 1, last + 1):
            out[k] = 255 - out[k]
    return at, last + 1


@njit
def _count(out, at, n):  # type: ignore[no-untyped-def]
    for k in range(4):
        out[at + k] = (n >> (8 * (3 - k))) & 255


@njit
def _document(data, at, end, out, o, places, counts):  # type: ignore[no-untyped-def]
    """One document from out[o] on; its end, or -1 if it is nested deeper than `places`."""
    if end - at == 2 and data[at] == 91:
        out[o] = EMPTY
        return o + 1
    depth = 0
    while at < end:
        c = data[at]
        if c == 34:
            if depth and places[depth] < 0 and counts[depth] < 0:  # a key
                counts[depth] = -counts[depth]
                at, o = _string(data, at, out, o)
                continue
            out[o] = STRING
            at, o = _string(data, at, out, o + 1)
        elif c in (91, 123):
            depth += 1
            if depth >= places.size:
                return -1
            out[o] = ARRAY if c == 91 else OBJECT
            places[depth] = o + 1 if c == 91 else -(o + 1)
            o += 5
            at += 1
            empty = data[at] == c + 2
            counts[depth] = 0 if empty else (1 if c == 91 else -1)
            continue
        elif c in (93, 125):
            _count(out, abs(places[depth]), abs(counts[depth]))
            depth -= 1
            at += 1
        elif c == 44:
            at += 1
            counts[depth] += 1
            if places[depth] < 0:
                counts[depth] = -counts[depth]
        elif c == 110:
            out[o] = NULL
            o += 1
            at += 4
        elif c in (116, 102):
            out[o] = BOOLEAN
            out[o + 1] = 1 if c == 116 else 0
            o += 2
            at += 4 if c == 116 else 5
        elif c == 45 or 48 <= c <= 57:
            out[o] = NUMBER
            at, o = _number(data, at, end, out, o + 1)
        else:  # spaces and colons
            at += 1
    return o


@loop(0, 1, 2)
def sort_keys(offsets, data, valid, out_offsets, out, places, counts):  # type: ignore[no-untyped-def]
    """The key of each row; the bytes written, or -1 where a document is nested too deep. out: nine
    bytes for each of the input and sixteen a row. places, counts: scratch, one a nesting level."""
    o = 0
    for i in range(valid.size):
        if valid[i]:
            o = _document(data, offsets[i], offsets[i + 1], out, o, places, counts)
            if o < 0:
                return o
        out_offsets[i + 1] = o
    return o
