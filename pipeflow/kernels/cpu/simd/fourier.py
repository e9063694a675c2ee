"""Steps of the fast Fourier transform, one frame in each lane."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pipeflow.kernels.cpu.simd.instructions import (
    FLOATS,
    INDEX,
    INT64,
    at,
    constant,
    load_at,
    multiply_add,
    splat,
    store_at,
    vector_function,
)

Complex = tuple[Any, Any]


def _add(builder: Any, a: Complex, b: Complex) -> Complex:
    return builder.fadd(a[0], b[0]), builder.fadd(a[1], b[1])


def _subtract(builder: Any, a: Complex, b: Complex) -> Complex:
    return builder.fsub(a[0], b[0]), builder.fsub(a[1], b[1])


def _add_scaled(builder: Any, a: Complex, factor: float, b: Complex) -> Complex:
    factors = constant(factor)
    return multiply_add(builder, b[0], factors, a[0]), multiply_add(builder, b[1], factors, a[1])


def _scaled(builder: Any, factor: float, a: Complex) -> Complex:
    factors = constant(factor)
    return builder.fmul(a[0], factors), builder.fmul(a[1], factors)


def _times_minus_i(builder: Any, a: Complex) -> Complex:
    return a[1], builder.fneg(a[0])


def _rotate(builder: Any, a: Complex, twiddles: Any, first: Any) -> Complex:
    cosine, sine = (
        splat(builder, builder.load(at(builder, twiddles, builder.add(first, INT64(part))))) for part in range(2)
    )
    return (
        multiply_add(builder, a[0], cosine, builder.fneg(builder.fmul(a[1], sine))),
        multiply_add(builder, a[0], sine, builder.fmul(a[1], cosine)),
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
    @vector_function(FLOATS, FLOATS, INDEX, INDEX, FLOATS, INDEX)
    def butterfly(builder, real, imaginary, offset, stride, twiddles, first):
        """One step in place on the rows at offset + q * stride."""
        real, imaginary, twiddles = real.pointer, imaginary.pointer, twiddles.pointer
        places = [builder.add(offset, builder.mul(stride, INT64(q))) for q in range(radix)]
        values = [(load_at(builder, real, p), load_at(builder, imaginary, p)) for p in places]
        for q in range(1, radix if rotated else 1):
            values[q] = _rotate(builder, values[q], twiddles, builder.add(first, INT64(2 * q - 2)))
        for place, (a, b) in zip(places, transform(builder, values), strict=True):
            store_at(builder, a, real, place)
            store_at(builder, b, imaginary, place)

    return butterfly


# butterflyR is a step of radix R: row q is first multiplied by the complex twiddles[first + 2 * (q - 1)].
# The first step of a transform has no such factors: first4 leaves them out.
butterfly2 = _butterfly(2, _dft2)
butterfly3 = _butterfly(3, _dft3)
butterfly4 = _butterfly(4, _dft4)
butterfly5 = _butterfly(5, _dft5)
first4 = _butterfly(4, _dft4, rotated=False)


@vector_function(FLOATS, FLOATS, INDEX, INDEX, FLOATS, INDEX, FLOATS, INDEX, INDEX)
def split_real(builder, real, imaginary, low, high, twiddles, first, target, target_low, target_high):
    """Writes |X[k]|^2 and |X[n - k]|^2 of a real transform, from rows Z[k] and Z[n - k] of its half-length complex one.

    The window has already halved the input, so no factor is needed here.
    """
    real, imaginary, twiddles, target = real.pointer, imaginary.pointer, twiddles.pointer, target.pointer
    a = load_at(builder, real, low), load_at(builder, imaginary, low)
    b = load_at(builder, real, high), load_at(builder, imaginary, high)
    even = builder.fadd(a[0], b[0]), builder.fsub(a[1], b[1])
    odd = builder.fadd(a[1], b[1]), builder.fsub(b[0], a[0])
    turned = _rotate(builder, odd, twiddles, first)
    for value, place in ((_add(builder, even, turned), target_low), (_subtract(builder, even, turned), target_high)):
        power = multiply_add(builder, value[0], value[0], builder.fmul(value[1], value[1]))
        store_at(builder, power, target, place)
