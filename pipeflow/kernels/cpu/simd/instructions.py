"""The declaration of vector functions, and the instructions that they consist of.

LLVM divides vectors that are wider than those of the processor, so one version is enough for all processors, and the small code
compiles fast. Offsets and strides count elements from the start of the memory of an array. Offsets are not checked: the callers
compute them from the sizes of the arrays.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

FLOAT = ir.FloatType()
HALF = ir.HalfType()
INT8 = ir.IntType(8)
INT16 = ir.IntType(16)
INT32 = ir.IntType(32)
INT64 = ir.IntType(64)
LANES = 16  # one AVX-512 or two AVX2 registers of floats
V = ir.VectorType(FLOAT, LANES)


class VectorArray(NamedTuple):
    """An array argument of a vector function: the pointer to its first element, and the type of its elements."""

    pointer: Any
    element: Any


def DATA(given: Any) -> Any:
    """A kind of argument: an array of any type."""
    return given


INDEX = types.int64  # a number of elements
FLOATS = types.Array(types.float32, 1, "C", aligned=True)
INDICES = types.Array(types.int64, 1, "C", aligned=True)


def vector_function(*kinds: Any, result: Any = types.void) -> Callable[[Callable], Any]:
    """Declares a function for kernels that consists of given instructions.

    ``kinds`` are the types of its arguments: a type of Numba, or a function from the type in the call to the expected one
    (``DATA`` accepts any). The decorated function gets the builder and the values, with arrays as ``Memory``, and emits the
    instructions. With a ``result`` type it returns the value.
    """

    def declare(emit: Callable) -> Any:
        @functools.wraps(emit)
        def definition(_typing: Any, *given: Any) -> Any:
            expected = [
                kind if isinstance(kind, types.Type) else kind(one) for kind, one in zip(kinds, given, strict=True)
            ]

            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                values = [
                    VectorArray(context.make_array(kind)(context, builder, value).data, kind.dtype)
                    if isinstance(kind, types.Array)
                    else value
                    for kind, value in zip(signature.args, arguments, strict=True)
                ]
                made = emit(builder, *values)
                return context.get_dummy_value() if result is types.void else made

            return result(*expected), generate

        return intrinsic(definition)

    return declare


def at(builder: Any, pointer: Any, offset: Any) -> Any:
    """The pointer moved by a number of elements."""
    return builder.gep(pointer, [offset])


def load_at(builder: Any, pointer: Any, offset: Any) -> Any:
    """LANES floats from the element ``offset`` on."""
    return load(builder, at(builder, pointer, offset))


def store_at(builder: Any, value: Any, pointer: Any, offset: Any) -> None:
    """Stores LANES floats from the element ``offset`` on."""
    store(builder, value, at(builder, pointer, offset))


def constant(value: float, vector: ir.VectorType = V) -> Any:
    """A vector of one float."""
    return ir.Constant(vector, [value] * vector.count)


def splat(builder: Any, value: Any, vector: ir.VectorType = V) -> Any:
    """The value in every lane."""
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, value, INT32(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(INT32, vector.count), [0] * vector.count))


def load(builder: Any, pointer: Any, vector: ir.VectorType = V, align: int = 4) -> Any:
    """A vector (or a number) from memory."""
    return builder.load(builder.bitcast(pointer, vector.as_pointer()), align=align)


def store(builder: Any, value: Any, pointer: Any, align: int = 4) -> None:
    """Stores a vector (or a number)."""
    builder.store(value, builder.bitcast(pointer, value.type.as_pointer()), align=align)


def call(builder: Any, name: str, *values: Any) -> Any:
    """An LLVM intrinsic of float vectors or scalars."""
    kind = values[0].type
    suffix = f"v{kind.count}f32" if isinstance(kind, ir.VectorType) else "f32"
    function = ir.FunctionType(kind, [kind] * len(values))
    return builder.call(cgutils.get_or_insert_function(builder.module, function, f"llvm.{name}.{suffix}"), values)


def multiply_add(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c. In kernels that allow contraction it is one step, with one rounding, if the processor has it.

    On a processor without it, `llvm.fma` would call a library function, which is forty times slower.
    """
    return builder.fadd(builder.fmul(a, b), c)


def multiply_add_once(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """`multiply_add` with one rounding in every place of the code, if the processor has it.

    LLVM takes a product that does not change out of a loop. Then `multiply_add` has two roundings.
    """
    if not has_multiply_add():
        return multiply_add(builder, a, b, c)
    kind = a.type
    scalar = kind.element if isinstance(kind, ir.VectorType) else kind
    name = ("f32" if scalar == FLOAT else "f64") if kind is scalar else f"v{kind.count}f{32 if scalar == FLOAT else 64}"
    function = ir.FunctionType(kind, [kind] * 3)
    return builder.call(cgutils.get_or_insert_function(builder.module, function, f"llvm.fma.{name}"), (a, b, c))


def has_multiply_add() -> bool:
    """True if this processor multiplies and adds in one step."""
    return "fma" in extensions() or binding.get_process_triple().startswith(("aarch64", "arm64"))


def extensions() -> frozenset[str]:
    """The vector extensions of this processor that the code uses by name: sse2, and others that the processor has."""
    if not binding.get_process_triple().startswith("x86_64"):
        return frozenset()
    named = cpu_target.target_context.codegen()._tm_features.split(",")
    return frozenset(
        {"sse2"} | {name for name in ("ssse3", "avx2", "fma", "avx512f", "avx512vbmi") if f"+{name}" in named}
    )


def over(builder: Any, total: Any, body: Callable[[Any, int], None], wide: int = 1, width: int = LANES) -> None:
    """Runs body(first, lanes) over `total` items in vectors of `width` lanes.

    The last vector is moved back to end at the last item, so items may be computed twice and must not depend on one another.
    Fewer items than lanes are computed one by one.
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


def writing(builder: Any) -> Callable[[Any], Any]:
    """A function that announces a write to the line of a pointer: the line comes into the cache during other work."""
    return _announcing(builder, 1)


def reading(builder: Any) -> Callable[[Any], Any]:
    """The same for a read. The line need not exist."""
    return _announcing(builder, 0)


def _announcing(builder: Any, writes: int) -> Callable[[Any], Any]:
    pointer = INT8.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer, INT32, INT32, INT32])
    prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    return lambda place: builder.call(prefetch, [builder.bitcast(place, pointer), INT32(writes), INT32(3), INT32(1)])


LINE, LINES = 64, 4  # bytes of a line of the cache; lines that are read before the first is written
SOON = 2048  # bytes from a store to the line that is announced then


def by_lines(builder: Any, source: Any, out: Any, count: Any, moved: Callable[[Any], Any], ahead: Any = None) -> None:
    """Sets out[:count] = moved(source[:count]) for pointers to bytes that do not overlap; `moved` gets vectors or single bytes.

    Stores of whole lines take a fifth less time than stores across two lines. To announce them before is of no use: it takes a
    tenth more time, wherever the output is. With `ahead`, the bytes that are read at this distance are announced.
    """
    announce = reading(builder)

    def move(first: Any, lines: int, align: int) -> None:
        places = [builder.add(first, INT64(LINE * part)) for part in range(lines)]
        if ahead is not None:
            for at in places:
                announce(builder.gep(source, [builder.add(at, ahead)]))
        values = [load(builder, builder.gep(source, [at]), many(INT8, LINE), 1) for at in places]
        for at, value in zip(places, values, strict=True):
            store(builder, moved(value), builder.gep(out, [at]), align)

    with builder.if_else(builder.icmp_signed(">=", count, INT64(LINE))) as (vectors, single):
        with vectors:
            move(INT64(0), 1, 1)
            head = builder.and_(builder.sub(INT64(0), builder.ptrtoint(out, INT64)), INT64(LINE - 1))
            blocks = builder.sdiv(builder.sub(count, head), INT64(LINE * LINES)) if ahead is None else INT64(0)
            with cgutils.for_range(builder, blocks, intp=INT64) as block:
                move(builder.add(head, builder.mul(block.index, INT64(LINE * LINES))), LINES, LINE)
            done = builder.add(head, builder.mul(blocks, INT64(LINE * LINES)))
            with cgutils.for_range(builder, builder.sdiv(builder.sub(count, done), INT64(LINE)), intp=INT64) as one:
                move(builder.add(done, builder.mul(one.index, INT64(LINE))), 1, LINE)
            move(builder.sub(count, INT64(LINE)), 1, 1)
        with single, cgutils.for_range(builder, count, intp=INT64) as one:
            store(
                builder,
                moved(load(builder, builder.gep(source, [one.index]), INT8, 1)),
                builder.gep(out, [one.index]),
                1,
            )


def many(kind: Any, lanes: int) -> Any:
    """The type of a vector with this number of lanes; for one lane, the type of the number."""
    return ir.VectorType(kind, lanes) if lanes > 1 else kind


def number(value: int, kind: Any) -> Any:
    """An integer constant, in every lane of a vector type."""
    return ir.Constant(kind, [value] * kind.count) if isinstance(kind, ir.VectorType) else kind(value)


def joined(builder: Any, first: Any, second: Any) -> Any:
    """Two vectors as one of twice the length."""
    count = first.type.count
    order = ir.Constant(ir.VectorType(INT32, 2 * count), list(range(2 * count)))
    return builder.shuffle_vector(first, second, order)


def part(builder: Any, value: Any, first: int, count: int) -> Any:
    """Some lanes of a vector, one after another."""
    order = ir.Constant(ir.VectorType(INT32, count), list(range(first, first + count)))
    return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), order)
