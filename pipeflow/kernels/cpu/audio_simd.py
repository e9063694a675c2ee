"""Vector instructions for the audio kernels, as Numba intrinsics.

Every intrinsic works on ``LANES`` float32 values at once. The Fourier kernels keep one frame of the signal per
lane, so that no instruction ever moves data between lanes except the transposition that loads the frames.
Offsets count elements. Nothing is bounds-checked here: callers compute the offsets from the array's sizes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from pipeflow.kernels.cpu.jit import kernel

# 16 lanes are one AVX-512 or two AVX2 registers; LLVM splits the vectors where the CPU's are shorter.
LANES = 16

_FLOAT = ir.FloatType()
_INT32 = ir.IntType(32)
_INT64 = ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_UNDEFINED = ir.Constant(_VECTOR, ir.Undefined)
_ZERO = ir.Constant(_VECTOR, [0.0] * LANES)
_FLOATS = types.Array(types.float32, 1, "C", aligned=True)
_INDICES = types.Array(types.int64, 1, "C", aligned=True)


def _data(context: Any, builder: Any, signature: Any, arguments: Any, index: int) -> Any:
    return context.make_array(signature.args[index])(context, builder, arguments[index]).data


def _at(builder: Any, pointer: Any, offset: Any) -> Any:
    return builder.gep(pointer, [offset])


def _load(builder: Any, pointer: Any, offset: Any) -> Any:
    return builder.load(builder.bitcast(_at(builder, pointer, offset), _VECTOR.as_pointer()), align=4)


def _store(builder: Any, value: Any, pointer: Any, offset: Any) -> None:
    builder.store(value, builder.bitcast(_at(builder, pointer, offset), _VECTOR.as_pointer()), align=4)


def _splat(builder: Any, scalar: Any) -> Any:
    first = builder.insert_element(_UNDEFINED, scalar, _INT32(0))
    return builder.shuffle_vector(first, _UNDEFINED, ir.Constant(ir.VectorType(_INT32, LANES), [0] * LANES))


def _constant(value: float) -> Any:
    return ir.Constant(_VECTOR, [float(np.float32(value))] * LANES)


def _multiply_add(builder: Any, a: Any, b: Any, c: Any) -> Any:
    # fmuladd, not fma: on a CPU without FMA the latter becomes a library call, forty times slower.
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(_VECTOR, [_VECTOR] * 3), f"llvm.fmuladd.v{LANES}f32"
    )
    return builder.call(function, [a, b, c])


def _shuffle(builder: Any, a: Any, b: Any, indices: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_INT32, LANES), indices))


def _transpose(builder: Any, rows: list[Any]) -> list[Any]:
    """Transposes LANES vectors in log2(LANES) steps, each exchanging blocks of half the size."""
    size = LANES // 2
    while size:
        low = [i if not i & size else i - size + LANES for i in range(LANES)]
        high = [i + size if not i & size else i + LANES for i in range(LANES)]
        result = list(rows)
        for first in range(LANES):
            if not first & size:
                a, b = rows[first], rows[first + size]
                result[first] = _shuffle(builder, a, b, low)
                result[first + size] = _shuffle(builder, a, b, high)
        rows = result
        size //= 2
    return rows


@intrinsic
def transpose_tile(_typing, source, offset, stride, target, target_offset, target_stride):
    """target[target_offset + c*target_stride + r] = source[offset + r*stride + c], for r, c in range(LANES)."""
    signature = types.void(_FLOATS, types.int64, types.int64, _FLOATS, types.int64, types.int64)

    def codegen(context, builder, signature, arguments):
        source, target = (_data(context, builder, signature, arguments, i) for i in (0, 3))
        _, offset, stride, _, target_offset, target_stride = arguments
        rows = [_load(builder, source, builder.add(offset, builder.mul(stride, _INT64(row)))) for row in range(LANES)]
        for row, value in enumerate(_transpose(builder, rows)):
            place = builder.add(target_offset, builder.mul(target_stride, _INT64(row)))
            _store(builder, value, target, place)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def load_tile(_typing, source, offset, stride, window, first, places, place, real, imaginary):
    """Loads LANES samples of LANES frames, windowed: even samples become real parts, odd ones imaginary parts.

    Sample c of frame r is source[offset + r*stride + c]; its row is places[place + c // 2].
    """
    signature = types.void(
        _FLOATS, types.int64, types.int64, _FLOATS, types.int64, _INDICES, types.int64, _FLOATS, _FLOATS
    )

    def codegen(context, builder, signature, arguments):
        source, window, places, real, imaginary = (
            _data(context, builder, signature, arguments, i) for i in (0, 3, 5, 7, 8)
        )
        _, offset, stride, _, first, _, place, _, _ = arguments
        rows = [_load(builder, source, builder.add(offset, builder.mul(stride, _INT64(row)))) for row in range(LANES)]
        for column, value in enumerate(_transpose(builder, rows)):
            weight = builder.load(_at(builder, window, builder.add(first, _INT64(column))))
            row = builder.load(_at(builder, places, builder.add(place, _INT64(column // 2))))
            target = imaginary if column % 2 else real
            _store(builder, builder.fmul(value, _splat(builder, weight)), target, row)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def scale_row(_typing, source, offset, factors, factor, target, target_offset):
    """target[target_offset:][:LANES] = source[offset:][:LANES] * factors[factor]."""
    signature = types.void(_FLOATS, types.int64, _FLOATS, types.int64, _FLOATS, types.int64)

    def codegen(context, builder, signature, arguments):
        source, factors, target = (_data(context, builder, signature, arguments, i) for i in (0, 2, 4))
        factor = _splat(builder, builder.load(_at(builder, factors, arguments[3])))
        value = builder.fmul(_load(builder, source, arguments[1]), factor)
        _store(builder, value, target, arguments[5])
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def weighted_rows(_typing, source, offset, stride, weights, first, count, target, target_offset):
    """target[target_offset:][:LANES] = sum over i < count of weights[first + i] * source[offset + i*stride:][:LANES]."""
    signature = types.void(_FLOATS, types.int64, types.int64, _FLOATS, types.int64, types.int64, _FLOATS, types.int64)

    def codegen(context, builder, signature, arguments):
        source, weights, target = (_data(context, builder, signature, arguments, i) for i in (0, 3, 6))
        _, offset, stride, _, first, count, _, target_offset = arguments

        def added(index, total):
            weight = _splat(builder, builder.load(_at(builder, weights, builder.add(first, index))))
            row = _load(builder, source, builder.add(offset, builder.mul(index, stride)))
            return _multiply_add(builder, row, weight, total)

        # Four sums side by side: a single one would wait for each addition before the next.
        fours = builder.and_(count, _INT64(-4))
        index, totals = _loop(
            builder,
            _INT64(0),
            fours,
            4,
            [_ZERO] * 4,
            lambda i, sums: [added(builder.add(i, _INT64(k)), total) for k, total in enumerate(sums)],
        )
        pairs = [builder.fadd(totals[0], totals[1]), builder.fadd(totals[2], totals[3])]
        _, (total,) = _loop(builder, index, count, 1, [builder.fadd(*pairs)], lambda i, sums: [added(i, sums[0])])
        _store(builder, total, target, target_offset)
        return context.get_dummy_value()

    return signature, codegen


def _loop(builder: Any, begin: Any, end: Any, step: int, sums: list[Any], body: Callable[..., list[Any]]) -> Any:
    """A loop that carries vectors: returns the index and the sums after it."""
    before = builder.block
    test = builder.append_basic_block("test")
    inside = builder.append_basic_block("inside")
    after = builder.append_basic_block("after")
    builder.branch(test)
    builder.position_at_end(test)
    index = builder.phi(_INT64)
    index.add_incoming(begin, before)
    carried = [builder.phi(_VECTOR) for _ in sums]
    for phi, value in zip(carried, sums, strict=True):
        phi.add_incoming(value, before)
    builder.cbranch(builder.icmp_signed("<", index, end), inside, after)
    builder.position_at_end(inside)
    for phi, value in zip(carried, body(index, carried), strict=True):
        phi.add_incoming(value, inside)
    index.add_incoming(builder.add(index, _INT64(step)), inside)
    builder.branch(test)
    builder.position_at_end(after)
    return index, carried


@intrinsic
def dot_between(_typing, signal, begin, table, first, count, blend):
    """The sum over i < count of signal[begin + i] times what lies between two rows of a table, from ``first`` on.

    ``blend`` 0 is the first row, 1 the one after it; a row has ``count`` values, a multiple of LANES.
    """
    signature = types.float32(_FLOATS, types.int64, _FLOATS, types.int64, types.int64, types.float32)

    def codegen(context, builder, signature, arguments):
        signal, table = (_data(context, builder, signature, arguments, i) for i in (0, 2))
        _, begin, _, first, count, blend = arguments
        fraction = _splat(builder, blend)

        def added(index, sums):
            low = _load(builder, table, builder.add(first, index))
            high = _load(builder, table, builder.add(builder.add(first, count), index))
            weights = _multiply_add(builder, builder.fsub(high, low), fraction, low)
            return [_multiply_add(builder, _load(builder, signal, builder.add(begin, index)), weights, sums[0])]

        _, (summed,) = _loop(builder, _INT64(0), count, LANES, [_ZERO], added)
        values, width = summed, LANES
        while width > 1:
            width //= 2
            parts = []
            for first in (0, width):
                chosen = ir.Constant(ir.VectorType(_INT32, width), list(range(first, first + width)))
                parts.append(builder.shuffle_vector(values, ir.Constant(values.type, ir.Undefined), chosen))
            values = builder.fadd(*parts)
        return builder.extract_element(values, _INT32(0))

    return signature, codegen


def _reinterpret(source: Any, target: Any, name: str) -> Any:
    @intrinsic
    def reinterpret(_typing, value):
        def codegen(context, builder, _, arguments):
            return builder.bitcast(arguments[0], context.get_value_type(target))

        return target(source), codegen

    reinterpret.__doc__ = name
    return reinterpret


bits_of = _reinterpret(types.float32, types.int32, "The bits of a float32 as an int32.")
float_of = _reinterpret(types.int32, types.float32, "The float32 with these bits.")


Complex = tuple[Any, Any]


def _add(builder: Any, a: Complex, b: Complex) -> Complex:
    return builder.fadd(a[0], b[0]), builder.fadd(a[1], b[1])


def _subtract(builder: Any, a: Complex, b: Complex) -> Complex:
    return builder.fsub(a[0], b[0]), builder.fsub(a[1], b[1])


def _add_scaled(builder: Any, a: Complex, factor: float, b: Complex) -> Complex:
    constant = _constant(factor)
    return _multiply_add(builder, b[0], constant, a[0]), _multiply_add(builder, b[1], constant, a[1])


def _scaled(builder: Any, factor: float, a: Complex) -> Complex:
    constant = _constant(factor)
    return builder.fmul(a[0], constant), builder.fmul(a[1], constant)


def _times_minus_i(builder: Any, a: Complex) -> Complex:
    return a[1], builder.fneg(a[0])


def _rotate(builder: Any, a: Complex, twiddles: Any, first: Any) -> Complex:
    cosine, sine = (
        _splat(builder, builder.load(_at(builder, twiddles, builder.add(first, _INT64(part))))) for part in range(2)
    )
    return (
        _multiply_add(builder, a[0], cosine, builder.fneg(builder.fmul(a[1], sine))),
        _multiply_add(builder, a[0], sine, builder.fmul(a[1], cosine)),
    )


def _dft2(builder: Any, a: list[Complex]) -> list[Complex]:
    return [_add(builder, a[0], a[1]), _subtract(builder, a[0], a[1])]


def _dft3(builder: Any, a: list[Complex]) -> list[Complex]:
    total = _add(builder, a[1], a[2])
    turned = _times_minus_i(builder, _scaled(builder, np.sqrt(3) / 2, _subtract(builder, a[1], a[2])))
    middle = _add_scaled(builder, a[0], -0.5, total)
    return [_add(builder, a[0], total), _add(builder, middle, turned), _subtract(builder, middle, turned)]


def _dft4(builder: Any, a: list[Complex]) -> list[Complex]:
    even, odd = _add(builder, a[0], a[2]), _add(builder, a[1], a[3])
    difference = _subtract(builder, a[0], a[2])
    turned = _times_minus_i(builder, _subtract(builder, a[1], a[3]))
    return [
        _add(builder, even, odd),
        _add(builder, difference, turned),
        _subtract(builder, even, odd),
        _subtract(builder, difference, turned),
    ]


def _dft5(builder: Any, a: list[Complex]) -> list[Complex]:
    cosines = [np.cos(2 * np.pi / 5), np.cos(4 * np.pi / 5)]
    sines = [np.sin(2 * np.pi / 5), np.sin(4 * np.pi / 5)]
    outer, inner = _add(builder, a[1], a[4]), _add(builder, a[2], a[3])
    outer_difference, inner_difference = _subtract(builder, a[1], a[4]), _subtract(builder, a[2], a[3])
    real1 = _add_scaled(builder, _add_scaled(builder, a[0], cosines[0], outer), cosines[1], inner)
    real2 = _add_scaled(builder, _add_scaled(builder, a[0], cosines[1], outer), cosines[0], inner)
    turned1 = _times_minus_i(
        builder, _add_scaled(builder, _scaled(builder, sines[0], outer_difference), sines[1], inner_difference)
    )
    turned2 = _times_minus_i(
        builder, _add_scaled(builder, _scaled(builder, sines[1], outer_difference), -sines[0], inner_difference)
    )
    return [
        _add(builder, _add(builder, a[0], outer), inner),
        _add(builder, real1, turned1),
        _add(builder, real2, turned2),
        _subtract(builder, real2, turned2),
        _subtract(builder, real1, turned1),
    ]


def _butterfly(radix: int, transform: Callable[[Any, list[Complex]], list[Complex]], rotated: bool = True) -> Any:
    @intrinsic
    def butterfly(_typing, real, imaginary, offset, stride, twiddles, first):
        signature = types.void(_FLOATS, _FLOATS, types.int64, types.int64, _FLOATS, types.int64)

        def codegen(context, builder, signature, arguments):
            real, imaginary, twiddles = (_data(context, builder, signature, arguments, i) for i in (0, 1, 4))
            _, _, offset, stride, _, first = arguments
            places = [builder.add(offset, builder.mul(stride, _INT64(q))) for q in range(radix)]
            values = [(_load(builder, real, p), _load(builder, imaginary, p)) for p in places]
            for q in range(1, radix if rotated else 1):
                values[q] = _rotate(builder, values[q], twiddles, builder.add(first, _INT64(2 * q - 2)))
            for place, (a, b) in zip(places, transform(builder, values), strict=True):
                _store(builder, a, real, place)
                _store(builder, b, imaginary, place)
            return context.get_dummy_value()

        return signature, codegen

    return butterfly


# butterflyR(real, imaginary, offset, stride, twiddles, first): one radix-R step in place on the rows at
# offset + q*stride; row q is first multiplied by the complex twiddles[first + 2*(q - 1)].
# The first step of a transform has no factors to multiply with: first4 leaves them out.
butterfly2 = _butterfly(2, _dft2)
butterfly3 = _butterfly(3, _dft3)
butterfly4 = _butterfly(4, _dft4)
butterfly5 = _butterfly(5, _dft5)
first4 = _butterfly(4, _dft4, rotated=False)


@intrinsic
def split_real(_typing, real, imaginary, low, high, twiddles, first, target, target_low, target_high):
    """Writes |X[k]|^2 and |X[n - k]|^2 of a real transform, from rows Z[k] and Z[n - k] of its half-length complex one.

    The input was halved beforehand (by the window), so no factor is left here.
    """
    signature = types.void(
        _FLOATS, _FLOATS, types.int64, types.int64, _FLOATS, types.int64, _FLOATS, types.int64, types.int64
    )

    def codegen(context, builder, signature, arguments):
        real, imaginary, twiddles, target = (_data(context, builder, signature, arguments, i) for i in (0, 1, 4, 6))
        _, _, low, high, _, first, _, target_low, target_high = arguments
        a = _load(builder, real, low), _load(builder, imaginary, low)
        b = _load(builder, real, high), _load(builder, imaginary, high)
        even = builder.fadd(a[0], b[0]), builder.fsub(a[1], b[1])
        odd = builder.fadd(a[1], b[1]), builder.fsub(b[0], a[0])
        turned = _rotate(builder, odd, twiddles, first)
        for value, place in (
            (_add(builder, even, turned), target_low),
            (_subtract(builder, even, turned), target_high),
        ):
            power = _multiply_add(builder, value[0], value[0], builder.fmul(value[1], value[1]))
            _store(builder, power, target, place)
        return context.get_dummy_value()

    return signature, codegen


@kernel(fastmath=False)
def turn(source, offset, stride, rows, columns, target, target_offset, target_stride):
    """target[c, r] = source[r, c], whole tiles by vector instructions; offsets and strides (of rows) are in elements."""
    for row in range(0, rows, LANES):
        for column in range(0, columns, LANES):
            begin, place = offset + row * stride + column, target_offset + column * target_stride + row
            if row + LANES <= rows and column + LANES <= columns:
                transpose_tile(source, begin, stride, target, place, target_stride)
                continue
            for r in range(min(LANES, rows - row)):
                for c in range(min(LANES, columns - column)):
                    target[place + c * target_stride + r] = source[begin + r * stride + c]
