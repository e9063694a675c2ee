"""Rows of pixels: normalised, split into planes, and mixed by a matrix."""

from typing import Any

from llvmlite import ir
from numba import types

from pipeflow.kernels.cpu.simd.elements import (
    channels_of,
    load_float,
    load_octets,
    pack_octets,
    packs_octets,
    rounded,
    store_as,
)
from pipeflow.kernels.cpu.simd.instructions import (
    DATA,
    FLOAT,
    INDEX,
    INT8,
    INT32,
    INT64,
    LANES,
    V,
    load,
    multiply_add,
    multiply_add_once,
    over,
    splat,
    store,
    vector_function,
)


@vector_function(DATA, types.float32, types.float32, DATA, INDEX)
def line_row(builder, source, factor, offset, out, total):
    """Sets out[:total] = source[:total] * factor + offset, for bytes."""

    def body(first: Any, lanes: int) -> None:
        begin, target = builder.gep(source.pointer, [first]), builder.gep(out.pointer, [first])
        octets = lanes > 1 and packs_octets()
        values = load_octets(builder, begin) if octets else [load_float(builder, begin, source.element, lanes)]
        a, b = (splat(builder, one, values[0].type) if lanes > 1 else one for one in (factor, offset))
        values = [multiply_add_once(builder, value, a, b) for value in values]
        if octets:
            store(builder, pack_octets(builder, values), target, 1)
        else:
            store_as(builder, values[0], target, out.element)

    over(builder, total, body, width=2 * LANES)


@vector_function(DATA, INDEX, DATA, DATA, types.float32, types.boolean, DATA, INDEX, INDEX)
def normalize_row(builder, source, offset, mean, scale, shift, rounding, out, out_offset, total):
    """Sets out[:total] = (source - mean[:total]) * scale[:total] + shift; if requested, the source is first rounded to a
    byte."""
    element, target = source.element, out.element
    source = builder.gep(source.pointer, [offset])
    mean = mean.pointer
    scale = scale.pointer
    out = builder.gep(out.pointer, [out_offset])
    rounding = builder.icmp_unsigned("!=", rounding, rounding.type(0))

    def body(first: Any, lanes: int) -> None:
        kind = V if lanes > 1 else FLOAT
        add = splat(builder, shift) if lanes > 1 else shift
        value = rounded(builder, load_float(builder, builder.gep(source, [first]), element, lanes), rounding)
        centred = builder.fsub(value, load(builder, builder.gep(mean, [first]), kind))
        factor = load(builder, builder.gep(scale, [first]), kind)
        store_as(builder, multiply_add(builder, centred, factor, add), builder.gep(out, [first]), target)

    over(builder, total, body)


@vector_function(DATA, INDEX, DATA, DATA, types.float32, types.boolean, types.boolean, DATA, INDEX, INDEX, INDEX)
def split_row(builder, source, offset, mean, scale, shift, rounding, mirror, out, out_offset, plane, pixels):
    """Three interleaved channels to three planes, normalised: out[c * plane + x] = (source[3 x + c] -
    mean[c]) * scale[c] + shift."""
    element, target = source.element, out.element
    source = builder.gep(source.pointer, [offset])
    mean = mean.pointer
    scale = scale.pointer
    out = builder.gep(out.pointer, [out_offset])
    rounding = builder.icmp_unsigned("!=", rounding, rounding.type(0))
    mirror = builder.icmp_unsigned("!=", mirror, mirror.type(0))
    means = [builder.load(builder.gep(mean, [INT64(c)]), align=4) for c in range(3)]
    scales = [builder.load(builder.gep(scale, [INT64(c)]), align=4) for c in range(3)]
    order = ir.VectorType(INT32, LANES)
    backwards = ir.Constant(order, list(range(LANES - 1, -1, -1)))

    def body(first: Any, lanes: int) -> None:
        spread = (lambda x: splat(builder, x)) if lanes > 1 else (lambda x: x)
        begin = builder.mul(first, INT64(3))
        where = builder.select(mirror, builder.sub(builder.sub(pixels, INT64(lanes)), first), first)
        if lanes > 1:
            loaded = load_float(builder, builder.gep(source, [begin]), element, 3 * LANES)
        for c in range(3):
            if lanes > 1:
                mask = ir.Constant(order, [c + 3 * i for i in range(LANES)])
                value = builder.shuffle_vector(loaded, ir.Constant(loaded.type, ir.Undefined), mask)
                turned = builder.shuffle_vector(value, ir.Constant(V, ir.Undefined), backwards)
                value = builder.select(mirror, turned, value)
            else:
                value = load_float(builder, builder.gep(source, [builder.add(begin, INT64(c))]), element, 1)
            value = rounded(builder, value, rounding)
            centred = builder.fsub(value, spread(means[c]))
            result = multiply_add(builder, centred, spread(scales[c]), spread(shift))
            target_at = builder.add(where, builder.mul(plane, INT64(c)))
            store_as(builder, result, builder.gep(out, [target_at]), target)

    over(builder, pixels, body)


@vector_function(DATA, DATA, DATA, DATA, INDEX)
def mix_row(builder, source, matrix, offset, out, pixels):
    """Interleaved pixels of three channels: out = matrix @ pixel + offset."""
    element, target = source.element, out.element
    source, matrix, offset, out = source.pointer, matrix.pointer, offset.pointer, out.pointer
    factors = [builder.load(builder.gep(matrix, [INT64(i)]), align=4) for i in range(9)]
    shifts = [builder.load(builder.gep(offset, [INT64(i)]), align=4) for i in range(3)]

    def body(first: Any, lanes: int) -> None:
        spread = (lambda x: splat(builder, x)) if lanes > 1 else (lambda x: x)
        begin = builder.mul(first, INT64(3))
        values = channels_of(builder, builder.gep(source, [begin]), element, lanes)
        results = []
        for c in range(3):
            total = spread(shifts[c])
            for i in range(3):
                total = multiply_add(builder, values[i], spread(factors[3 * c + i]), total)
            results.append(total)
        if lanes == 1:
            for c, result in enumerate(results):
                store_as(builder, result, builder.gep(out, [builder.add(begin, INT64(c))]), target)
            return
        pair = ir.Constant(ir.VectorType(INT32, 2 * lanes), list(range(2 * lanes)))
        two = builder.shuffle_vector(results[0], results[1], pair)
        three = builder.shuffle_vector(results[2], ir.Constant(V, ir.Undefined), pair)
        order = [[i, lanes + i, 2 * lanes + i][c] for i in range(lanes) for c in range(3)]
        mixed = builder.shuffle_vector(two, three, ir.Constant(ir.VectorType(INT32, 3 * lanes), order))
        store_as(builder, mixed, builder.gep(out, [begin]), target)

    over(builder, pixels, body)


@vector_function(DATA, DATA, types.float32, DATA, INDEX)
def weigh_row(builder, source, weights, offset, out, pixels):
    """Interleaved pixels of three channels to one: the weighted sum plus an offset."""
    element, target = source.element, out.element
    source, weights = source.pointer, weights.pointer
    out = out.pointer
    factors = [builder.load(builder.gep(weights, [INT64(i)]), align=4) for i in range(3)]

    def body(first: Any, lanes: int) -> None:
        spread = (lambda x: splat(builder, x)) if lanes > 1 else (lambda x: x)
        values = channels_of(builder, builder.gep(source, [builder.mul(first, INT64(3))]), element, lanes)
        total = spread(offset)
        for value, factor in zip(values, factors, strict=True):
            total = multiply_add(builder, value, spread(factor), total)
        store_as(builder, total, builder.gep(out, [first]), target)

    over(builder, pixels, body)


@vector_function(DATA, DATA, DATA, INDEX)
def weigh_bytes_row(builder, source, weights, out, pixels):
    """Interleaved bytes of three channels to one, in whole numbers: weights are in units of 2 ** -15, halves are rounded up."""
    source, weights, out = source.pointer, weights.pointer, out.pointer
    factors = [builder.load(builder.gep(weights, [INT64(c)]), align=4) for c in range(3)]

    def body(first: Any, lanes: int) -> None:
        wide, narrow = (ir.VectorType(kind, lanes) if lanes > 1 else kind for kind in (INT32, INT8))
        number = (lambda x: ir.Constant(wide, [x] * lanes)) if lanes > 1 else INT32
        begin = builder.gep(source, [builder.mul(first, INT64(3))])
        if lanes > 1:  # split as bytes: that shuffles only a quarter of the registers
            loaded = load(builder, begin, ir.VectorType(INT8, 3 * lanes), 1)
        total = number(1 << 14)
        for c, factor in enumerate(factors):
            if lanes > 1:
                mask = ir.Constant(ir.VectorType(INT32, lanes), [c + 3 * i for i in range(lanes)])
                value = builder.shuffle_vector(loaded, ir.Constant(loaded.type, ir.Undefined), mask)
                factor = splat(builder, factor, wide)
            else:
                value = builder.load(builder.gep(begin, [INT64(c)]))
            total = builder.add(total, builder.mul(builder.zext(value, wide), factor))
        store(builder, builder.trunc(builder.lshr(total, number(15)), narrow), builder.gep(out, [first]), 1)

    over(builder, pixels, body)
