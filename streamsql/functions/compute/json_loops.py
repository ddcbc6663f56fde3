"""Finding parts of JSON documents by scanning their bytes: no parsing, no allocation.

The documents are valid JSON (they were checked on the way in). Results are byte ranges into the
column's data; start = -1 means there is no such part.
"""

from __future__ import annotations

from numba import njit

from streamsql.functions.compute.loops import loop


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
    if c in (123, 91):
        depth = 0
        while at < end:
            c = data[at]
            if c == 34:
                at = _skip_string(data, at, end)
                continue
            if c in (123, 91):
                depth += 1
            elif c in (125, 93):
                depth -= 1
                if depth == 0:
                    return at + 1
            at += 1
        return at
    while at < end and data[at] != 44 and data[at] != 125 and data[at] != 93 and data[at] > 32:
        at += 1
    return at


@loop(0, 1, 2, 3)
def find_key(starts, ends, data, key, out_starts, out_ends):  # type: ignore[no-untyped-def]
    """The value of `key` (bytes of the quoted JSON string) in each object; the last of
    duplicates."""
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


@loop(0, 1, 2)
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


@loop(0, 1, 2)
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


@njit
def _scan_number(data, at, end, out, o):  # type: ignore[no-untyped-def]
    """(position behind, end of output), or (-1, o) if it is no plain number in normal form."""
    start = at
    if data[at] == 45:
        at += 1
    if at >= end or data[at] < 48 or data[at] > 57:
        return -1, o
    zero = data[at] == 48
    if zero and at + 1 < end and 48 <= data[at + 1] <= 57:
        return -1, o
    nonzero = not zero
    while at < end and 48 <= data[at] <= 57:
        at += 1
    if at < end and data[at] == 46:
        at += 1
        digits = at
        while at < end and 48 <= data[at] <= 57:
            nonzero = nonzero or data[at] != 48
            at += 1
        if at == digits:
            return -1, o
    if at < end and (data[at] == 101 or data[at] == 69):
        return -1, o
    if data[start] == 45 and not nonzero:  # -0 is written 0
        return -1, o
    for i in range(start, at):
        out[o] = data[i]
        o += 1
    return at, o


@njit
def _scan_string(data, at, end, out, o, plain):  # type: ignore[no-untyped-def]
    """(position behind, end of output) of the string at `at`; -1 if it must be written otherwise.
    plain: no escapes at all (keys)."""
    out[o] = 34
    o += 1
    at += 1
    while at < end:
        c = data[at]
        if c == 34:
            out[o] = 34
            return at + 1, o + 1
        if c < 32:
            return -1, o
        if c == 92:
            at += 1
            if plain or at >= end:
                return -1, o
            e = data[at]
            # " \ b f n r t stay as they are; / and u are written otherwise
            if e not in (34, 92, 98, 102, 110, 114, 116):
                return -1, o
            out[o] = 92
            o += 1
            c = e
        out[o] = c
        o += 1
        at += 1
    return -1, o


@njit
def _scan_word(data, at, end, out, o):  # type: ignore[no-untyped-def]
    """true, false, null."""
    c = data[at]
    n = 5 if c == 102 else 4
    if at + n > end:
        return -1, o
    fits = False
    if c == 116:
        fits = data[at + 1] == 114 and data[at + 2] == 117 and data[at + 3] == 101
    elif c == 110:
        fits = data[at + 1] == 117 and data[at + 2] == 108 and data[at + 3] == 108
    elif c == 102:
        fits = (
            data[at + 1] == 97
            and data[at + 2] == 108
            and data[at + 3] == 115
            and data[at + 4] == 101
        )
    if not fits:
        return -1, o
    for i in range(n):
        out[o] = data[at + i]
        o += 1
    return at + n, o


@njit
def _scan_bare(data, at, end, out, o):  # type: ignore[no-untyped-def]
    """A number or a word."""
    if data[at] == 45 or 48 <= data[at] <= 57:
        return _scan_number(data, at, end, out, o)
    return _scan_word(data, at, end, out, o)


@njit
def _in_order(out, last, last_end, begin, end):  # type: ignore[no-untyped-def]
    """Whether the key out[begin:end] comes after out[last:last_end]: longer, or larger bytes."""
    if last < 0:
        return True
    size = last_end - last
    length = end - begin
    if length != size:
        return length > size
    for k in range(length):
        if out[begin + k] != out[last + k]:
            return out[begin + k] > out[last + k]
    return False


@njit
def _normal(data, at, end, out, o, kinds, key_at, key_end):  # type: ignore[no-untyped-def]
    """Write one document in jsonb's normal form from out[o]; returns its end, or -1 if the document
    is not valid or needs more than spacing (unsorted keys, escapes, exponents)."""
    depth = 0
    expect_key = False
    at = _skip_space(data, at, end)
    while True:
        if at >= end:
            return -1
        c = data[at]
        begin = o
        if c == 34:
            at, o = _scan_string(data, at, end, out, o, expect_key)
            if at < 0:
                return -1
        if expect_key:
            if c != 34 or not _in_order(out, key_at[depth], key_end[depth], begin, o):
                return -1
            key_at[depth], key_end[depth] = begin, o
            at = _skip_space(data, at, end)
            if at >= end or data[at] != 58:
                return -1
            out[o] = 58
            out[o + 1] = 32
            o += 2
            at = _skip_space(data, at + 1, end)
            expect_key = False
            continue
        if c in (123, 91):
            depth += 1
            if depth >= kinds.size:
                return -1
            kinds[depth] = c
            key_at[depth] = -1
            key_end[depth] = -1
            out[o] = c
            o += 1
            at = _skip_space(data, at + 1, end)
            if at < end and data[at] == c + 2:  # the closing one of both pairs is two behind
                out[o] = c + 2
                o += 1
                at += 1
                depth -= 1
            else:
                expect_key = c == 123
                continue
        elif c != 34:
            at, o = _scan_bare(data, at, end, out, o)
        if at < 0:
            return -1
        while True:  # behind a value
            at = _skip_space(data, at, end)
            if depth == 0:
                return o if at == end else -1
            if at >= end:
                return -1
            c = data[at]
            if c == 44:
                out[o] = 44
                out[o + 1] = 32
                o += 2
                at = _skip_space(data, at + 1, end)
                expect_key = kinds[depth] == 123
                break
            if c != kinds[depth] + 2:
                return -1
            out[o] = c
            o += 1
            at += 1
            depth -= 1


@loop(0, 1, 2)
def normalise(offsets, data, valid, out_offsets, out, hard, kinds, key_at, key_end):  # type: ignore[no-untyped-def]
    """Each row in jsonb's normal form; hard [n] marks the rows that need the slow way (then empty).
    out: twice the bytes of the input. kinds, key_at, key_end: scratch, one a nesting level."""
    o = 0
    for i in range(hard.size):
        if valid[i]:
            done = _normal(data, offsets[i], offsets[i + 1], out, o, kinds, key_at, key_end)
            if done < 0:
                hard[i] = True
            else:
                o = done
        out_offsets[i + 1] = o
    return o
