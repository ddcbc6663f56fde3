"""A small machine for expressions over words: integers, times and booleans, row by row.

For deltas of a few rows, where the calls of an evaluator made for columns cost more than the rows.
A program is int64 [instructions, 4]: what to do, and its operands; the result of instruction i is
register i. `Flat` columns as int64 [columns, 4].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamsql.kernels.bits import bit, load_integer, multiply_high
from streamsql.kernels.jit import device, kernel

(
    LOAD, CONSTANT, EQ, NE, LT, LE, GT, GE, ADD, SUBTRACT, MULTIPLY, RESIZE, AND, OR, NOT, IS_NULL,
    IS_NOT_NULL,
) = range(17)  # fmt: skip
"""LOAD column; CONSTANT value, whether there is one; comparisons and AND, OR of two registers; ADD,
SUBTRACT, MULTIPLY of two registers and RESIZE of one to the bytes in the last operand."""


@device
def fits(value: int, width: int) -> bool:
    """Whether a number fits an integer of so many bytes."""
    if width == 8:
        return True
    limit = 1 << (8 * width - 1)
    return -limit <= value < limit


@device
def compare(op: int, a: int, b: int) -> int:
    """1 or 0."""
    if op == EQ:
        return 1 if a == b else 0
    if op == NE:
        return 1 if a != b else 0
    if op == LT:
        return 1 if a < b else 0
    if op == LE:
        return 1 if a <= b else 0
    if op == GT:
        return 1 if a > b else 0
    return 1 if a >= b else 0


@kernel
def run(program: Any, columns: Any, outputs: Any, out: Any) -> bool:
    """out: int64 [n, 2 k], for each register in `outputs` whether it has a value, and the value.

    Returns False if a row has a result out of range: then nothing of `out` counts.
    """
    n, size = out.shape[0], program.shape[0]
    value, known = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for row in range(n):
        for i in range(size):
            op, a, b = program[i, 0], program[i, 1], program[i, 2]
            v, there = 0, 1
            if op == LOAD:
                there = 1 if bit(columns[a, 2], columns[a, 3] + row) else 0
                if there:
                    v = load_integer(columns[a, 0], columns[a, 1], row)
            elif op == CONSTANT:
                v, there = a, b
            elif op <= GE:
                there = known[a] & known[b]
                v = compare(op, value[a], value[b])
            elif op <= MULTIPLY:
                there = known[a] & known[b]
                x, y = value[a], value[b]
                if op == MULTIPLY:
                    v = x * y
                    over = multiply_high(x, y) != v >> 63
                else:
                    v = x + y if op == ADD else x - y
                    over = ((x ^ v) & ((y if op == ADD else ~y) ^ v)) < 0
                if there and (over or not fits(v, program[i, 3])):
                    return False
            elif op == RESIZE:
                v, there = value[a], known[a]
                if there and not fits(v, program[i, 3]):
                    return False
            elif op == AND:
                no = (known[a] & (value[a] ^ 1)) | (known[b] & (value[b] ^ 1))
                there = (known[a] & known[b]) | no
                v = value[a] & value[b] if not no else 0
            elif op == OR:
                yes = (known[a] & value[a]) | (known[b] & value[b])
                there = (known[a] & known[b]) | yes
                v = 1 if yes else 0
            elif op == NOT:
                v, there = value[a] ^ 1, known[a]
            else:
                v = known[a] if op == IS_NOT_NULL else known[a] ^ 1
            value[i] = v if there else 0
            known[i] = there
        for j in range(outputs.size):
            out[row, 2 * j] = known[outputs[j]]
            out[row, 2 * j + 1] = value[outputs[j]]
    return True
