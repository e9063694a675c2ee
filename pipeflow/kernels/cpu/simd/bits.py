"""Streams of bits: words from any bit position, and the sums with which FLAC predicts samples."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from pipeflow.kernels.cpu.simd.instructions import DATA, INDEX, INT32, INT64, vector_function

BYTES = types.Array(types.uint8, 1, "C")
COEFFICIENTS = types.Array(types.int64, 1, "C")


def SAMPLES(given: Any) -> Any:
    """A kind of argument: a contiguous array of one axis, of any integers."""
    return types.Array(given.dtype, 1, "C")


def big_endian(builder: Any, pointer: Any) -> Any:
    """Eight bytes from memory as one number; the first byte is the highest."""
    word = builder.load(builder.bitcast(pointer, INT64.as_pointer()), align=1)
    swap = cgutils.get_or_insert_function(builder.module, ir.FunctionType(INT64, [INT64]), "llvm.bswap.i64")
    return builder.call(swap, [word])


@vector_function(BYTES, INDEX, result=types.uint64)
def word_at(builder, data, position):
    """The 64 bits from a bit position on, the first one highest; the last 7 may be missing (zero)."""
    pointer = builder.gep(data.pointer, [builder.lshr(position, INT64(3))])
    return builder.shl(big_endian(builder, pointer), builder.and_(position, INT64(7)))


@vector_function(types.uint64, result=types.int64)
def leading_zeros(builder, word):
    """The number of zero bits before the first one; 64 if there is none."""
    return builder.ctlz(word, ir.IntType(1)(0))


@vector_function(types.uint64, result=types.uint64)
def trailing_zeros(builder, word):
    """The number of zero bits after the last one; 64 if there is none."""
    return builder.cttz(word, ir.IntType(1)(0))


def _wide(builder: Any, value: Any) -> Any:
    return value if value.type == INT64 else builder.sext(value, INT64)


def prediction(order: int) -> Any:
    """A vector function: the sum over j < order of coefficients[j] * samples[place - 1 - j], without a loop."""

    @vector_function(SAMPLES, INDEX, COEFFICIENTS, result=types.int64)
    def predict(builder, samples, place, coefficients):
        total = INT64(0)
        # The newest sample comes last: the processor can compute the rest before that sample is ready.
        for j in reversed(range(order)):
            value = builder.load(builder.gep(samples.pointer, [builder.sub(place, INT64(j + 1))]))
            factor = builder.load(builder.gep(coefficients.pointer, [INT64(j)]))
            total = builder.add(total, builder.mul(_wide(builder, value), factor))
        return total

    return predict


@vector_function(SAMPLES, INDEX, INDEX)
def put(builder, samples, place, value):
    """Sets samples[place] = value, without the test for negative places."""
    number = value if samples.element == types.int64 else builder.trunc(value, INT32)
    builder.store(number, builder.gep(samples.pointer, [place]))


@vector_function(DATA, INDEX, result=types.uint64)
def load_big_endian(builder, source, offset):
    """Eight bytes as one number; the first byte is the highest."""
    return big_endian(builder, builder.gep(source.pointer, [offset]))
