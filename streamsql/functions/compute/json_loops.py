"""Finding parts of JSON documents by scanning their bytes: no parsing, no allocation.

The documents are valid JSON (they were checked on the way in). Results are byte ranges into the
column's data; start = -1 means there is no such part.
"""

from __future__ import annotations

from numba import njit

from streamsql.kernels.jit import kernel


@njit
def _skip_space(data, at, end):  # type: ignore[no-untyped-def]
    while at < end and (data[at] == 32 or 9 <= data[at] <= 13):
        at += 1
    return at


@njit
def _skip_string(data, at, end):  # type: ignore[no-untyped-def]
    """Position behind the string whose opening quote is at `at`."""
    at += 1
    while at < end and data[at] != 34:
        if data[at] == 92:
            at += 1
        at += 1
    return at + 1


@njit
def _skip_value(data, at, end):  # type: ignore[no-untyped-def]
    """Position behind the value that starts at `at`."""
    c = data[at]
    if c == 34:
        return _skip_string(data, at, end)
    if c == 123 or c == 91:
        depth = 0
        while at < end:
            c = data[at]
            if c == 34:
                at = _skip_string(data, at, end)
                continue
            if c == 123 or c == 91:
                depth += 1
            elif c == 125 or c == 93:
                depth -= 1
                if depth == 0:
                    return at + 1
            at += 1
        return at
    while at < end and data[at] != 44 and data[at] != 125 and data[at] != 93 and data[at] > 32:
        at += 1
    return at


@kernel
def find_key(starts, ends, data, key, out_starts, out_ends):  # type: ignore[no-untyped-def]
    """The value of `key` (bytes of the quoted JSON string) in each object; the last of duplicates."""
    m = key.size
    for i in range(starts.size):
        out_starts[i] = -1
        out_ends[i] = -1
        if starts[i] < 0:
            continue
        end = ends[i]
        at = _skip_space(data, starts[i], end)
        if at >= end or data[at] != 123:
            continue
        at = _skip_space(data, at + 1, end)
        while at < end and data[at] == 34:
            behind = _skip_string(data, at, end)
            same = behind - at == m
            if same:
                for k in range(m):
                    if data[at + k] != key[k]:
                        same = False
                        break
            at = _skip_space(data, behind, end) + 1  # the colon
            at = _skip_space(data, at, end)
            behind = _skip_value(data, at, end)
            if same:
                out_starts[i] = at
                out_ends[i] = behind
            at = _skip_space(data, behind, end)
            if at < end and data[at] == 44:
                at = _skip_space(data, at + 1, end)
            else:
                break


@kernel
def find_index(starts, ends, data, index, out_starts, out_ends):  # type: ignore[no-untyped-def]
    """Element `index` of each array, negative from the back."""
    for i in range(starts.size):
        out_starts[i] = -1
        out_ends[i] = -1
        if starts[i] < 0:
            continue
        end = ends[i]
        first = _skip_space(data, starts[i], end)
        if first >= end or data[first] != 91:
            continue
        wanted = index
        rounds = 2 if index < 0 else 1
        for r in range(rounds):
            at = _skip_space(data, first + 1, end)
            count = 0
            while at < end and data[at] != 93:
                behind = _skip_value(data, at, end)
                if count == wanted and (r == rounds - 1):
                    out_starts[i] = at
                    out_ends[i] = behind
                    break
                count += 1
                at = _skip_space(data, behind, end)
                if at < end and data[at] == 44:
                    at = _skip_space(data, at + 1, end)
            if index < 0 and r == 0:
                wanted = count + index
                if wanted < 0:
                    break


@kernel
def classify(starts, ends, data, out):  # type: ignore[no-untyped-def]
    """The first byte of each value and whether a string holds a backslash:
    0 absent, 1 null, 2 plain string, 3 string with escapes, 4 anything else."""
    for i in range(starts.size):
        at, end = starts[i], ends[i]
        if at < 0:
            out[i] = 0
        elif data[at] == 110:
            out[i] = 1
        elif data[at] == 34:
            out[i] = 2
            for k in range(at, end):
                if data[k] == 92:
                    out[i] = 3
                    break
        else:
            out[i] = 4
