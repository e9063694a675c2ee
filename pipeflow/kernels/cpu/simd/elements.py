"""Loads elements of any small type from memory as vectors of floats, and stores them again."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from pipeflow.kernels.cpu.simd.instructions import (
    FLOAT,
    HALF,
    INT8,
    INT16,
    INT32,
    INT64,
    call,
    constant,
    extensions,
    joined,
    load,
    many,
    number,
    store,
    vector_function,
)


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
    """The floats limited to bounds; what is no number becomes the lower one. It is half the instructions of LLVM's minnum and
    maxnum.
    """
    for comparison, end in ((">", low), ("<", high)):
        bound = constant(end, value.type) if isinstance(value.type, ir.VectorType) else FLOAT(end)
        value = builder.select(builder.fcmp_ordered(comparison, value, bound), value, bound)
    return value


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
        store(builder, _as_bytes(builder, builder.fadd(value, half), element.signed), pointer, 1)


def _as_bytes(builder: Any, value: Any, signed: bool) -> Any:
    """Floats as bytes, without their fractions and saturated; what is no number becomes the lowest."""
    low, high = (-128, 127) if signed else (0, 255)
    lanes = value.type.count if isinstance(value.type, ir.VectorType) else 1
    wide = many(INT32, lanes)
    whole = builder.fptosi(clamp(builder, value, low, high), wide)
    if "avx512f" not in extensions():  # then LLVM packs with saturation, and need not mask the numbers first
        for comparison, end in ((">", low), ("<", high)):
            end = number(end, wide)
            whole = builder.select(builder.icmp_signed(comparison, whole, end), whole, end)
    return builder.trunc(whole, many(INT8, lanes))


OCTET, OCTETS = 8, 4  # floats in a register of AVX2; registers whose bytes fill one


def packs_octets() -> bool:
    """True if the processor has `load_octets` and `pack_octets`, and nothing better."""
    return "avx2" in extensions() and "avx512f" not in extensions()


def load_octets(builder: Any, pointer: Any) -> list[Any]:
    """32 bytes from memory as floats, in the order from which `pack_octets` returns bytes as in memory."""
    kind = ir.VectorType(INT8, OCTET * OCTETS)
    value, found = load(builder, pointer, kind, 1), []
    for octet in range(OCTETS):
        places = [half + 4 * octet + i for half in (0, 16) for i in range(4)]
        order = [x for place in places for x in (place, kind.count, kind.count, kind.count)]
        wide = builder.shuffle_vector(value, number(0, kind), ir.Constant(ir.VectorType(INT32, kind.count), order))
        found.append(builder.sitofp(builder.bitcast(wide, many(INT32, OCTET)), many(FLOAT, OCTET)))
    return found


def pack_octets(builder: Any, octets: list[Any]) -> Any:
    """Floats as bytes, rounded half up and saturated: four of each register, in turn, then the upper four of each.

    A float that is too small, or no number, is converted to the smallest integer, and packed as 0.
    """

    def made(name: str, kind: Any, *values: Any) -> Any:
        function = ir.FunctionType(kind, [value.type for value in values])
        return builder.call(cgutils.get_or_insert_function(builder.module, function, f"llvm.x86.{name}"), values)

    whole, top = [], constant(255, many(FLOAT, OCTET))
    for value in octets:
        value = builder.fadd(value, constant(0.5, value.type))
        value = builder.select(builder.fcmp_ordered("<", top, value), top, value)
        whole.append(made("avx.cvtt.ps2dq.256", many(INT32, OCTET), value))
    pairs = [made("avx2.packssdw", many(INT16, 16), *whole[place : place + 2]) for place in (0, 2)]
    return made("avx2.packuswb", many(INT8, 32), *pairs)


def rounded(builder: Any, value: Any, wanted: Any) -> Any:
    """The value rounded as in an 8-bit pixel, if this is wanted."""
    half = constant(0.5) if isinstance(value.type, ir.VectorType) else FLOAT(0.5)
    whole = call(builder, "floor", clamp(builder, builder.fadd(value, half), 0, 255))
    return builder.select(wanted, whole, value)


def channels_of(builder: Any, pointer: Any, element: Any, lanes: int) -> list[Any]:
    """Loads interleaved pixels from memory as three planar vectors (or scalars)."""
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


@vector_function(types.float32, result=types.uint16)
def to_half(builder, value):
    """The bits of the nearest half-precision number (ties to even)."""
    return builder.bitcast(builder.fptrunc(value, HALF), INT16)


@vector_function(types.uint16, result=types.float32)
def from_half(builder, bits):
    """The number with these half-precision bits."""
    return builder.fpext(builder.bitcast(bits, HALF), FLOAT)


def store_even(builder: Any, value: Any, pointer: Any, element: Any) -> None:
    """Stores floats as floats or as bytes, rounded half to even and saturated."""
    if isinstance(element, types.Float):
        store(builder, value, pointer)
        return
    store(builder, _as_bytes(builder, call(builder, "rint", value), False), pointer, 1)


def store_pixels(builder: Any, colors: list[Any], pointer: Any) -> None:
    """Stores three channels, vectors or numbers, as interleaved pixels."""
    kind = colors[0].type
    if not isinstance(kind, ir.VectorType):
        for place, color in enumerate(colors):
            builder.store(color, builder.gep(pointer, [INT64(place)]))
        return
    count = kind.count
    index = ir.VectorType(INT32, 2 * count)
    last = builder.shuffle_vector(colors[2], ir.Constant(kind, ir.Undefined), ir.Constant(index, [*range(count)] * 2))
    order = [place * count + pixel for pixel in range(count) for place in range(3)]
    pixels = builder.shuffle_vector(
        joined(builder, colors[0], colors[1]), last, ir.Constant(ir.VectorType(INT32, 3 * count), order)
    )
    store(builder, pixels, pointer, kind.element.width // 8)
