"""Loops over text columns (int32 offsets [n + 1] and bytes): byte ranges first, then one copy."""

from __future__ import annotations

import numpy as np

from streamsql.functions.compute.loops import loop


@loop(0, 1)
def gather_offsets(starts, ends, out_offsets):  # type: ignore[no-untyped-def]
    """Offsets of the slices [start, end) of each row; returns the bytes in all."""
    total = 0
    for i in range(starts.size):
        total += ends[i] - starts[i]
        out_offsets[i + 1] = total
    return total


@loop(0, 1, 2, 3)
def gather(data, starts, ends, out_offsets, out):  # type: ignore[no-untyped-def]
    """Copy the slices."""
    for i in range(starts.size):
        at = out_offsets[i]
        for j in range(starts[i], ends[i]):
            out[at] = data[j]
            at += 1


@loop(0, 1, 2)
def split_ranges(offsets, data, separator, n, starts, ends, there):  # type: ignore[no-untyped-def]
    """Byte range of the n-th field (n > 0 from the front, n < 0 from the back); empty if there is
    none.
    there: bool [n], zeroed, says which rows have the field. separator: uint8 [m], m > 0."""
    m = separator.size
    first = separator[0]
    for i in range(starts.size):
        low, high = offsets[i], offsets[i + 1]
        starts[i] = low
        ends[i] = low
        if n > 0:
            field, at, begin = 1, low, low
            while True:
                found = -1
                while at <= high - m:
                    if data[at] == first:
                        k = 1
                        while k < m and data[at + k] == separator[k]:
                            k += 1
                        if k == m:
                            found = at
                            break
                    at += 1
                if field == n:
                    starts[i] = begin
                    ends[i] = high if found < 0 else found
                    there[i] = True
                    break
                if found < 0:
                    break
                at = found + m
                begin = at
                field += 1
        else:
            # fields are cut from the front, so find all cuts before counting from the back
            count, at = 1, low
            while at <= high - m:
                k = 0
                while k < m and data[at + k] == separator[k]:
                    k += 1
                if k == m:
                    count += 1
                    at += m
                else:
                    at += 1
            wanted = count + n + 1
            if wanted < 1:
                continue
            field, at, begin = 1, low, low
            while field < wanted:
                k = 0
                while k < m and data[at + k] == separator[k]:
                    k += 1
                if k == m:
                    at += m
                    begin = at
                    field += 1
                else:
                    at += 1
            starts[i] = begin
            ends[i] = high
            there[i] = True
            while at <= high - m:
                k = 0
                while k < m and data[at + k] == separator[k]:
                    k += 1
                if k == m:
                    ends[i] = at
                    break
                at += 1


@loop(0, 1, 2, 3)
def find(offsets, data, needle, shift, out):  # type: ignore[no-untyped-def]
    """Byte position of the needle (uint8 [m], m > 0) in each row, -1 if it is not there.

    Horspool: shift [256] says how far the needle may move when its last byte lies on a given byte.
    """
    m = needle.size
    last = needle[m - 1]
    for i in range(out.size):
        low = np.int64(offsets[i])
        at = low
        high = np.int64(offsets[i + 1]) - m
        found = np.int64(-1)
        while at <= high:
            c = data[at + m - 1]
            if c == last:
                k = 0
                while k < m - 1 and data[at + k] == needle[k]:
                    k += 1
                if k == m - 1:
                    found = at - low
                    break
            at += shift[c]
        out[i] = found


@loop(0, 1)
def count_byte(offsets, data, byte, out):  # type: ignore[no-untyped-def]
    """Occurrences of one byte in each row."""
    for i in range(out.size):
        count = 0
        for j in range(offsets[i], offsets[i + 1]):
            if data[j] == byte:
                count += 1
        out[i] = count


@loop(0, 1)
def remove_byte(offsets, data, byte, out_offsets, out):  # type: ignore[no-untyped-def]
    """Each row without the byte; returns the bytes written."""
    at = 0
    for i in range(out_offsets.size - 1):
        for j in range(offsets[i], offsets[i + 1]):
            if data[j] != byte:
                out[at] = data[j]
                at += 1
        out_offsets[i + 1] = at
    return at
