"""Vector instructions for the kernels, written as LLVM IR.

Numba leaves the widest gains of a resampling loop on the table: independent sums kept in registers while one
weight is broadcast, and shuffles between interleaved and planar pixels. The functions here emit exactly that;
LLVM legalises the vector types for whatever the machine has, so there is one version for all processors, and
the little code they make compiles fast. Offsets and strides count elements from the start of an array's
memory and are not checked.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

FLOAT = ir.FloatType()
HALF = ir.HalfType()
INT8 = ir.IntType(8)
INT16 = ir.IntType(16)
INT32 = ir.IntType(32)
INT64 = ir.IntType(64)
LANES = 16
V = ir.VectorType(FLOAT, LANES)


def data(context: Any, builder: Any, signature: Any, arguments: Any, position: int) -> Any:
    """Pointer to the first element of the array argument at that position."""
    return context.make_array(signature.args[position])(context, builder, arguments[position]).data


def constant(value: float, vector: ir.VectorType = V) -> Any:
    return ir.Constant(vector, [value] * vector.count)


def splat(builder: Any, value: Any, vector: ir.VectorType = V) -> Any:
    """The value in every lane."""
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, value, INT32(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(INT32, vector.count), [0] * vector.count))


def load(builder: Any, pointer: Any, vector: ir.VectorType = V, align: int = 4) -> Any:
    return builder.load(builder.bitcast(pointer, vector.as_pointer()), align=align)


def store(builder: Any, value: Any, pointer: Any, align: int = 4) -> None:
    builder.store(value, builder.bitcast(pointer, value.type.as_pointer()), align=align)


def call(builder: Any, name: str, *values: Any) -> Any:
    """An LLVM intrinsic of float vectors or scalars."""
    kind = values[0].type
    suffix = f"v{kind.count}f32" if isinstance(kind, ir.VectorType) else "f32"
    function = ir.FunctionType(kind, [kind] * len(values))
    return builder.call(cgutils.get_or_insert_function(builder.module, function, f"llvm.{name}.{suffix}"), values)


def multiply_add(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c; fused where the processor can (`llvm.fma` would call a library function where it cannot)."""
    return call(builder, "fmuladd", a, b, c)


def load_float(builder: Any, pointer: Any, element: Any, lanes: int) -> Any:
    """`lanes` elements of any small numeric type from memory, as floats (a scalar for one lane)."""
    vector = isinstance(lanes, int) and lanes > 1
    many = (lambda kind: ir.VectorType(kind, lanes)) if vector else (lambda kind: kind)
    if isinstance(element, types.Float):
        return load(builder, pointer, many(FLOAT), 4)
    narrow = ir.IntType(element.bitwidth)
    value = builder.load(builder.bitcast(pointer, many(narrow).as_pointer()), align=element.bitwidth // 8)
    if element.bitwidth < 32:
        value = builder.sext(value, many(INT32)) if element.signed else builder.zext(value, many(INT32))
    return builder.sitofp(value, many(FLOAT))


def clamp(builder: Any, value: Any, low: float, high: float) -> Any:
    bound = (lambda x: constant(x, value.type)) if isinstance(value.type, ir.VectorType) else (lambda x: FLOAT(x))
    return call(builder, "minnum", call(builder, "maxnum", value, bound(low)), bound(high))


def store_as(builder: Any, value: Any, pointer: Any, element: Any) -> None:
    """Stores floats in the element type: integers rounded half away from zero and saturated, uint16 as
    half precision bits."""
    vector = isinstance(value.type, ir.VectorType)
    many = (lambda kind: ir.VectorType(kind, value.type.count)) if vector else (lambda kind: kind)
    if isinstance(element, types.Float):
        store(builder, value, pointer)
    elif element.bitwidth == 16:
        bits = builder.bitcast(builder.fptrunc(value, many(HALF)), many(INT16))
        store(builder, bits, pointer, 2)
    else:
        half = constant(0.5, value.type) if vector else FLOAT(0.5)
        if element.signed:
            half = call(builder, "copysign", half, value)
        low, high = (-128, 127) if element.signed else (0, 255)
        whole = builder.fptosi(clamp(builder, builder.fadd(value, half), low, high), many(INT32))
        store(builder, builder.trunc(whole, many(INT8)), pointer, 1)


def extensions(context: Any) -> frozenset[str]:
    """Which of the processor's vector extensions the code may name: sse2 and avx2, where they are certain."""
    if not binding.get_process_triple().startswith("x86_64"):
        return frozenset()
    named = context.codegen()._tm_features.split(",")
    return frozenset({"sse2"} | ({"avx2"} if "+avx2" in named else set()))


def over(builder: Any, total: Any, body: Callable[[Any, int], None], wide: int = 1, width: int = LANES) -> None:
    """Runs body(first, lanes) over `total` items: vectors of `width` lanes, a last vector moved back to end with the items,
    or one by one.

    The items must not depend on one another and may be computed twice.
    """
    lanes = INT64(width)
    enough = builder.icmp_signed(">=", total, lanes)
    with builder.if_else(enough) as (vectors, single):
        with vectors:
            done = INT64(0)
            if wide > 1:
                blocks = builder.sdiv(total, INT64(width * wide))
                with cgutils.for_range(builder, blocks, intp=INT64) as block:
                    body(builder.mul(block.index, INT64(width * wide)), width * wide)
                done = builder.mul(blocks, INT64(width * wide))
            rest = builder.sub(total, done)
            with cgutils.for_range(builder, builder.sdiv(rest, lanes), intp=INT64) as chunk:
                body(builder.add(done, builder.mul(chunk.index, lanes)), width)
            with builder.if_then(builder.icmp_signed("!=", builder.srem(rest, lanes), INT64(0))):
                body(builder.sub(total, lanes), width)
        with single, cgutils.for_range(builder, total, intp=INT64) as one:
            body(one.index, 1)


@intrinsic
def weighted_rows(_typing, source, offset, stride, weights, weight_offset, count, out, out_offset, total):
    """out[:total] = sum over k < count of weights[k] * source[offset + k * stride :][:total], in float32.

    With rows apart this blends rows; with a stride of one pixel it filters along a row.
    """
    i64 = types.int64
    signature = types.void(source, i64, i64, weights, i64, i64, out, i64, i64)

    def generate(context, builder, signature, arguments):
        _, offset, stride, _, weight_offset, count, _, out_offset, total = arguments
        source = builder.gep(data(context, builder, signature, arguments, 0), [offset])
        weights = builder.gep(data(context, builder, signature, arguments, 3), [weight_offset])
        out = builder.gep(data(context, builder, signature, arguments, 6), [out_offset])
        element, target = signature.args[0].dtype, signature.args[6].dtype

        def body(first: Any, lanes: int) -> None:
            parts = max(1, lanes // LANES)
            zero = constant(0.0) if lanes > 1 else FLOAT(0.0)
            sums = [cgutils.alloca_once_value(builder, zero) for _ in range(parts)]
            for one in sums:
                builder.store(zero, one)
            with cgutils.for_range(builder, count, intp=INT64) as tap:
                weight = builder.load(builder.gep(weights, [tap.index]), align=4)
                factor = splat(builder, weight) if lanes > 1 else weight
                row = builder.gep(source, [builder.add(builder.mul(tap.index, stride), first)])
                for part, one in enumerate(sums):
                    value = load_float(builder, builder.gep(row, [INT64(part * LANES)]), element, min(lanes, LANES))
                    builder.store(multiply_add(builder, value, factor, builder.load(one)), one)
            for part, one in enumerate(sums):
                store_as(
                    builder, builder.load(one), builder.gep(out, [builder.add(first, INT64(part * LANES))]), target
                )

        over(builder, total, body, wide=4)
        return context.get_dummy_value()

    return signature, generate


def pixel_taps(rows: int, lanes: int, fixed: int = 0) -> Any:
    """Makes the horizontal pass over interleaved channels: `rows` rows at a time, `lanes` channels of a pixel
    side by side.

    With `fixed` taps the sum is written out without a loop.
    """
    vector = ir.VectorType(FLOAT, lanes)

    @intrinsic
    def taps(_typing, source, offset, row_stride, step, weights, weight_offset, count, out, out_offset, out_stride):
        """out[r, :lanes] = sum over k of weights[k] * source[r, offset + k * step :][:lanes]."""
        i64 = types.int64
        signature = types.void(source, i64, i64, i64, weights, i64, i64, out, i64, i64)

        def generate(context, builder, signature, arguments):
            _, offset, row_stride, step, _, weight_offset, count, _, out_offset, out_stride = arguments
            source = builder.gep(data(context, builder, signature, arguments, 0), [offset])
            weight = builder.gep(data(context, builder, signature, arguments, 4), [weight_offset])
            out = builder.gep(data(context, builder, signature, arguments, 7), [out_offset])
            sums = [cgutils.alloca_once_value(builder, constant(0.0, vector)) for _ in range(rows)]
            for one in sums:
                builder.store(constant(0.0, vector), one)

            def tap(k: Any) -> None:
                factor = splat(builder, builder.load(builder.gep(weight, [k]), align=4), vector)
                for r, one in enumerate(sums):
                    where = builder.add(builder.mul(k, step), builder.mul(row_stride, INT64(r)))
                    pixel = load(builder, builder.gep(source, [where]), vector)
                    builder.store(multiply_add(builder, pixel, factor, builder.load(one)), one)

            for k in range(fixed):
                tap(INT64(k))
            if not fixed:
                with cgutils.for_range(builder, count, intp=INT64) as loop:
                    tap(loop.index)
            for r, one in enumerate(sums):
                store(builder, builder.load(one), builder.gep(out, [builder.mul(out_stride, INT64(r))]))
            return context.get_dummy_value()

        return signature, generate

    return taps


@intrinsic
def band_taps(_typing, source, offset, weights, weight_offset, count, out, out_offset):
    """out[:LANES] = sum over k of weights[k, :LANES] * source[offset + k]."""
    i64 = types.int64
    signature = types.void(source, i64, weights, i64, i64, out, i64)

    def generate(context, builder, signature, arguments):
        _, offset, _, weight_offset, count, _, out_offset = arguments
        source = builder.gep(data(context, builder, signature, arguments, 0), [offset])
        weight = builder.gep(data(context, builder, signature, arguments, 2), [weight_offset])
        out = builder.gep(data(context, builder, signature, arguments, 5), [out_offset])
        total = cgutils.alloca_once_value(builder, constant(0.0))
        builder.store(constant(0.0), total)
        with cgutils.for_range(builder, count, intp=INT64) as loop:
            factors = load(builder, builder.gep(weight, [builder.mul(loop.index, INT64(LANES))]))
            value = splat(builder, builder.load(builder.gep(source, [loop.index]), align=4))
            builder.store(multiply_add(builder, value, factors, builder.load(total)), total)
        store(builder, builder.load(total), out)
        return context.get_dummy_value()

    return signature, generate


def rounded(builder: Any, value: Any, wanted: Any) -> Any:
    """The value as an 8-bit pixel would hold it, where wanted."""
    half = constant(0.5) if isinstance(value.type, ir.VectorType) else FLOAT(0.5)
    whole = call(builder, "floor", clamp(builder, builder.fadd(value, half), 0, 255))
    return builder.select(wanted, whole, value)


@intrinsic
def normalize_row(_typing, source, offset, mean, scale, shift, rounding, out, out_offset, total):
    """out[:total] = (source - mean[:total]) * scale[:total] + shift, the source rounded to a byte first
    where asked."""
    i64 = types.int64
    signature = types.void(source, i64, mean, scale, types.float32, types.boolean, out, i64, i64)

    def generate(context, builder, signature, arguments):
        _, offset, _, _, shift, rounding, _, out_offset, total = arguments
        source = builder.gep(data(context, builder, signature, arguments, 0), [offset])
        mean = data(context, builder, signature, arguments, 2)
        scale = data(context, builder, signature, arguments, 3)
        out = builder.gep(data(context, builder, signature, arguments, 6), [out_offset])
        element, target = signature.args[0].dtype, signature.args[6].dtype
        rounding = builder.icmp_unsigned("!=", rounding, rounding.type(0))

        def body(first: Any, lanes: int) -> None:
            kind = V if lanes > 1 else FLOAT
            add = splat(builder, shift) if lanes > 1 else shift
            value = rounded(builder, load_float(builder, builder.gep(source, [first]), element, lanes), rounding)
            centred = builder.fsub(value, load(builder, builder.gep(mean, [first]), kind))
            factor = load(builder, builder.gep(scale, [first]), kind)
            store_as(builder, multiply_add(builder, centred, factor, add), builder.gep(out, [first]), target)

        over(builder, total, body)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def split_row(_typing, source, offset, mean, scale, shift, rounding, mirror, out, out_offset, plane, pixels):
    """Three interleaved channels to three planes, normalised: out[c * plane + x] = (source[3 x + c] -
    mean[c]) * scale[c] + shift."""
    i64 = types.int64
    signature = types.void(source, i64, mean, scale, types.float32, types.boolean, types.boolean, out, i64, i64, i64)

    def generate(context, builder, signature, arguments):
        _, offset, _, _, shift, rounding, mirror, _, out_offset, plane, pixels = arguments
        source = builder.gep(data(context, builder, signature, arguments, 0), [offset])
        mean = data(context, builder, signature, arguments, 2)
        scale = data(context, builder, signature, arguments, 3)
        out = builder.gep(data(context, builder, signature, arguments, 7), [out_offset])
        element, target = signature.args[0].dtype, signature.args[7].dtype
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
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def to_half(_typing, value):
    """The bits of the nearest half-precision number (ties to even)."""

    def generate(_context, builder, _signature, arguments):
        return builder.bitcast(builder.fptrunc(arguments[0], HALF), INT16)

    return types.uint16(types.float32), generate


@intrinsic
def from_half(_typing, bits):
    """The number whose half-precision bits are given."""

    def generate(_context, builder, _signature, arguments):
        return builder.fpext(builder.bitcast(arguments[0], HALF), FLOAT)

    return types.float32(types.uint16), generate


def channels_of(builder: Any, pointer: Any, element: Any, lanes: int) -> list[Any]:
    """Three planar vectors (or scalars) of interleaved pixels from memory."""
    if lanes == 1:
        return [load_float(builder, builder.gep(pointer, [INT64(c)]), element, 1) for c in range(3)]
    loaded = load_float(builder, pointer, element, 3 * lanes)
    order = ir.VectorType(INT32, lanes)
    return [
        builder.shuffle_vector(
            loaded, ir.Constant(loaded.type, ir.Undefined), ir.Constant(order, [c + 3 * i for i in range(lanes)])
        )
        for c in range(3)
    ]


@intrinsic
def mix_row(_typing, source, matrix, offset, out, pixels):
    """Interleaved pixels of three channels: out = matrix @ pixel + offset."""
    signature = types.void(source, matrix, offset, out, types.int64)

    def generate(context, builder, signature, arguments):
        source, matrix, offset, out = (data(context, builder, signature, arguments, i) for i in range(4))
        element, target = signature.args[0].dtype, signature.args[3].dtype
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

        over(builder, arguments[4], body)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def weigh_row(_typing, source, weights, offset, out, pixels):
    """Interleaved pixels of three channels to one: the weighted sum plus an offset."""
    signature = types.void(source, weights, types.float32, out, types.int64)

    def generate(context, builder, signature, arguments):
        source, weights = (data(context, builder, signature, arguments, i) for i in range(2))
        out = data(context, builder, signature, arguments, 3)
        element, target = signature.args[0].dtype, signature.args[3].dtype
        factors = [builder.load(builder.gep(weights, [INT64(i)]), align=4) for i in range(3)]

        def body(first: Any, lanes: int) -> None:
            spread = (lambda x: splat(builder, x)) if lanes > 1 else (lambda x: x)
            values = channels_of(builder, builder.gep(source, [builder.mul(first, INT64(3))]), element, lanes)
            total = spread(arguments[2])
            for value, factor in zip(values, factors, strict=True):
                total = multiply_add(builder, value, spread(factor), total)
            store_as(builder, total, builder.gep(out, [first]), target)

        over(builder, arguments[4], body)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def weigh_bytes_row(_typing, source, weights, out, pixels):
    """Interleaved bytes of three channels to one, in whole numbers: weights in units of 2 ** -15, halves rounded up."""
    signature = types.void(source, weights, out, types.int64)

    def generate(context, builder, signature, arguments):
        source, weights, out = (data(context, builder, signature, arguments, i) for i in range(3))
        factors = [builder.load(builder.gep(weights, [INT64(c)]), align=4) for c in range(3)]

        def body(first: Any, lanes: int) -> None:
            wide, narrow = (ir.VectorType(kind, lanes) if lanes > 1 else kind for kind in (INT32, INT8))
            number = (lambda x: ir.Constant(wide, [x] * lanes)) if lanes > 1 else INT32
            begin = builder.gep(source, [builder.mul(first, INT64(3))])
            if lanes > 1:  # parted as bytes: a quarter of the registers to shuffle
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

        over(builder, arguments[3], body)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def bilinear_pixel(_typing, source, offset, step, stride, u, v, out, out_offset):
    """Four channels blended between the pixels at offset, offset + step and the same on the next row,
    stored as floats."""
    i64, number = types.int64, types.float32
    signature = types.void(source, i64, i64, i64, number, number, out, i64)
    four = ir.VectorType(FLOAT, 4)

    def generate(context, builder, signature, arguments):
        _, offset, step, stride, u, v, _, out_offset = arguments
        upper = builder.gep(data(context, builder, signature, arguments, 0), [offset])
        lower = builder.gep(upper, [stride])
        element = signature.args[0].dtype
        across, down = splat(builder, u, four), splat(builder, v, four)

        def mixed(row: Any) -> Any:
            near = load_float(builder, row, element, 4)
            far = load_float(builder, builder.gep(row, [step]), element, 4)
            return multiply_add(builder, across, builder.fsub(far, near), near)

        top, bottom = mixed(upper), mixed(lower)
        result = multiply_add(builder, down, builder.fsub(bottom, top), top)
        store(builder, result, builder.gep(data(context, builder, signature, arguments, 6), [out_offset]))
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def copy_four_bytes(_typing, source, offset, out, out_offset):
    """Four bytes in one go, for pixels of three: the fourth is overwritten by the next pixel."""
    signature = types.void(source, types.int64, out, types.int64)

    def generate(context, builder, signature, arguments):
        source = builder.gep(data(context, builder, signature, arguments, 0), [arguments[1]])
        out = builder.gep(data(context, builder, signature, arguments, 2), [arguments[3]])
        store(builder, builder.load(builder.bitcast(source, INT32.as_pointer()), align=1), out, 1)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def stream_bytes(_typing, source, out, total):
    """out[:total] = source[:total], written past the caches; other threads see it when the function has returned."""
    signature = types.void(source, out, types.int64)
    line, wide = 64, 256
    vector = ir.VectorType(INT8, line)

    def generate(context, builder, signature, arguments):
        source, out = (data(context, builder, signature, arguments, i) for i in range(2))
        total = arguments[2]
        past = builder.module.add_metadata([INT32(1)])
        # To the first whole line and behind the last one byte by byte: such stores need aligned memory.
        offset = builder.and_(builder.sub(INT64(0), builder.ptrtoint(out, INT64)), INT64(line - 1))
        head = builder.select(builder.icmp_signed("<", offset, total), offset, total)
        blocks = builder.sdiv(builder.sub(total, head), INT64(wide))
        tail = builder.add(head, builder.mul(blocks, INT64(wide)))

        def single(begin: Any, count: Any) -> None:
            with cgutils.for_range(builder, count, intp=INT64) as loop:
                at = builder.add(begin, loop.index)
                builder.store(builder.load(builder.gep(source, [at])), builder.gep(out, [at]))

        single(INT64(0), head)
        with cgutils.for_range(builder, blocks, intp=INT64) as loop:
            begin = builder.add(head, builder.mul(loop.index, INT64(wide)))
            places = [builder.add(begin, INT64(line * part)) for part in range(wide // line)]
            values = [load(builder, builder.gep(source, [at]), vector, 1) for at in places]
            for at, value in zip(places, values, strict=True):
                pointer = builder.bitcast(builder.gep(out, [at]), vector.as_pointer())
                builder.store(value, pointer, align=line).set_metadata("nontemporal", past)
        single(tail, builder.sub(total, tail))
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return signature, generate
