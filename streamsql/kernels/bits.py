"""Words and bits for kernels: loads and stores at addresses, 128-bit products, prefetch.

Everything here is inlined into the kernels; nothing is checked. Addresses are int64, byte
addressed, need no alignment.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from streamsql.kernels.jit import Int, device

# numba calls these with a typing context and types; they return (signature, code generator).
# mypy: disable-error-code="no-untyped-def"

_I8, _I16, _I32, _I64, _I128 = (ir.IntType(n) for n in (8, 16, 32, 64, 128))


def _loader(llvm_type: ir.Type, result: Any, extend: str) -> Any:
    def typed(typingctx, address):
        def code(context, builder, signature, args):
            pointer = builder.inttoptr(args[0], llvm_type.as_pointer())
            value = builder.load(pointer, align=1)
            if extend == "sext":
                return builder.sext(value, _I64)
            if extend == "zext":
                return builder.zext(value, _I64)
            if extend == "fpext":
                return builder.fpext(value, ir.DoubleType())
            return value

        return result(types.int64), code

    return intrinsic(typed)


load_i64 = _loader(_I64, types.int64, "")
load_u64 = _loader(_I64, types.uint64, "")
load_i32 = _loader(_I32, types.int64, "sext")
load_u32 = _loader(_I32, types.uint64, "zext")
load_i16 = _loader(_I16, types.int64, "sext")
load_i8 = _loader(_I8, types.int64, "sext")
load_u8 = _loader(_I8, types.uint64, "zext")
load_f32 = _loader(ir.FloatType(), types.float64, "fpext")
load_f64 = _loader(ir.DoubleType(), types.float64, "")


def _storer(llvm_type: ir.Type, argument: Any) -> Any:
    def typed(typingctx, address, value):
        def code(context, builder, signature, args):
            pointer = builder.inttoptr(args[0], llvm_type.as_pointer())
            stored = args[1] if llvm_type is _I64 else builder.trunc(args[1], llvm_type)
            builder.store(stored, pointer, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, argument), code

    return intrinsic(typed)


store_i64 = _storer(_I64, types.int64)
store_u64 = _storer(_I64, types.uint64)
store_i32 = _storer(_I32, types.int64)
store_i16 = _storer(_I16, types.int64)
store_u8 = _storer(_I8, types.uint64)


@intrinsic
def bits_of(typingctx, value):  # type: ignore[no-untyped-def]
    """The 64 bits of a float64 as uint64."""

    def code(context, builder, signature, args):
        return builder.bitcast(args[0], _I64)

    return types.uint64(types.float64), code


@intrinsic
def float_of(typingctx, value):  # type: ignore[no-untyped-def]
    """The float64 of these 64 bits."""

    def code(context, builder, signature, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.uint64), code


@intrinsic
def mum(typingctx, a, b):  # type: ignore[no-untyped-def]
    """The 128-bit product of two uint64, its halves XORed: one strong mixing step."""

    def code(context, builder, signature, args):
        product = builder.mul(builder.zext(args[0], _I128), builder.zext(args[1], _I128))
        high = builder.trunc(builder.lshr(product, ir.Constant(_I128, 64)), _I64)
        return builder.xor(high, builder.trunc(product, _I64))

    return types.uint64(types.uint64, types.uint64), code


@intrinsic
def multiply_high(typingctx, a, b):  # type: ignore[no-untyped-def]
    """The upper 64 bits of the signed 128-bit product of two int64."""

    def code(context, builder, signature, args):
        product = builder.mul(builder.sext(args[0], _I128), builder.sext(args[1], _I128))
        return builder.trunc(builder.ashr(product, ir.Constant(_I128, 64)), _I64)

    return types.int64(types.int64, types.int64), code


@intrinsic
def prefetch(typingctx, address):  # type: ignore[no-untyped-def]
    """Ask for the cache line at this address; never faults."""

    def code(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], _I8.as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [_I8.as_pointer(), _I32, _I32, _I32])
        function = builder.module.globals.get("llvm.prefetch.p0")
        if function is None:
            function = ir.Function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [pointer, *(ir.Constant(_I32, n) for n in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(types.int64), code


@device
def bit(address: Int, i: Int) -> bool:
    """Bit i of the little-endian bitmap at `address`; True when there is no bitmap (0)."""
    if address == 0:
        return True
    return (load_i8(address + (i >> 3)) >> (i & 7)) & 1 == 1


@device
def set_bit(address: Int, i: Int) -> None:
    """Set bit i of the bitmap at `address`."""
    at = address + (i >> 3)
    store_u8(at, load_u8(at) | (np.uint64(1) << np.uint64(i & 7)))


@device
def load_integer(address: Int, width: Int, i: Int) -> Int:
    """Value i of an array of signed integers of `width` bytes (8, 4, 2, 1).

    Width 0 is an array of bits, and `address` then the address of its first *bit*."""
    if width == 8:
        return load_i64(address + 8 * i)
    if width == 4:
        return load_i32(address + 4 * i)
    if width == 2:
        return load_i16(address + 2 * i)
    if width == 1:
        return load_i8(address + i)
    at = address + i
    return (load_i8(at >> 3) >> (at & 7)) & 1
