"""Weighted sums of few neighbours that are in two vectors: the horizontal pass of a resize that does not shrink much."""

from functools import cache
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from pipeflow.kernels.cpu.simd.elements import store_as
from pipeflow.kernels.cpu.simd.instructions import (
    DATA,
    FLOATS,
    INDEX,
    INDICES,
    INT32,
    INT64,
    LANES,
    V,
    at,
    constant,
    extensions,
    load,
    load_at,
    multiply_add,
    vector_function,
)

PLACES = ir.VectorType(INT32, LANES)


@cache
def can_choose() -> bool:
    """True if this processor chooses 16 of 32 floats in one step."""
    return "avx512vbmi" in extensions()


def _chosen(builder: Any, first: Any, places: Any, second: Any) -> Any:
    kind = ir.FunctionType(V, [V, PLACES, V])
    choose = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512.vpermi2var.ps.512")
    return builder.call(choose, [first, places, second])


def near_sums(rows: int, fixed: int) -> Any:
    """Makes the sums of ``fixed`` neighbours, for so many rows at once."""

    @vector_function(FLOATS, INDEX, INDEX, INDICES, DATA, FLOATS, INDEX, DATA, INDEX, INDEX)
    def sums(builder, source, offset, stride, begins, places, weights, blocks, out, out_offset, out_stride):
        """For each block of 16 results: the sum over k of weights[k] * the numbers at places[k], counted from its begin.

        ``begins`` has two numbers for each block, its first place in the source and in the result; ``places`` and
        ``weights`` have ``fixed`` vectors for each block.
        """
        source, out_begin = at(builder, source.pointer, offset), at(builder, out.pointer, out_offset)
        with cgutils.for_range(builder, blocks, intp=INT64) as loop:
            two = builder.mul(loop.index, INT64(2))
            begin = builder.load(at(builder, begins.pointer, two))
            target = builder.load(at(builder, begins.pointer, builder.add(two, INT64(1))))
            chosen, factors = [], []
            for k in range(fixed):
                place = builder.add(builder.mul(loop.index, INT64(fixed * LANES)), INT64(k * LANES))
                chosen.append(load(builder, at(builder, places.pointer, place), PLACES))
                factors.append(load_at(builder, weights.pointer, place))
            for r in range(rows):
                first = builder.add(begin, builder.mul(stride, INT64(r)))
                low, high = load_at(builder, source, first), load_at(builder, source, builder.add(first, INT64(LANES)))
                total: Any = constant(0.0)
                for where, factor in zip(chosen, factors, strict=True):
                    total = multiply_add(builder, _chosen(builder, low, where, high), factor, total)
                there = at(builder, out_begin, builder.add(target, builder.mul(out_stride, INT64(r))))
                store_as(builder, total, there, out.element)

    return sums
