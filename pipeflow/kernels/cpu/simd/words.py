"""Arithmetic with 16-bit numbers in vectors."""

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from pipeflow.kernels.cpu.simd.instructions import INT8, INT16, INT32, extensions, joined, number, part, splat

GROUP = 8  # 16-bit numbers in 128 bits: on x86, pack and unpack work inside groups of 128 bits


def clamped(builder: Any, value: Any, low: int, high: int, narrow: Any) -> Any:
    """The integers limited to bounds, in a narrower type; LLVM makes one saturating pack instruction of this."""
    for bound, order in ((low, "<"), (high, ">")):
        limit = number(bound, value.type)
        value = builder.select(builder.icmp_signed(order, value, limit), limit, value)
    return builder.trunc(value, narrow)


def interleaved(builder: Any, first: Any, second: Any) -> tuple[Any, Any]:
    """Interleaves the elements of two vectors: the lower and the upper halves of each group of eight."""
    count = first.type.count
    orders = [
        [x for group in range(0, count, GROUP) for i in range(4) for x in (group + half + i, count + group + half + i)]
        for half in (0, 4)
    ]
    index = ir.VectorType(INT32, count)
    low, high = (builder.shuffle_vector(first, second, ir.Constant(index, order)) for order in orders)
    return low, high


class Words:
    """Operations on vectors of 16-bit numbers that are one instruction on x86, and a few on other processors.

    Numbers of 32 bits are pairs of vectors, in the order of `interleaved`.
    """

    def __init__(self, builder: Any) -> None:
        self.builder, self.extensions = builder, extensions()

    def _call(self, names: tuple[str, str], result: Any, first: Any, second: Any) -> Any:
        """An instruction for 256 bits, or twice the one for 128 bits."""
        if "avx2" in self.extensions:
            function = ir.FunctionType(result, [first.type, second.type])
            return self.builder.call(
                cgutils.get_or_insert_function(self.builder.module, function, f"llvm.x86.avx2.{names[0]}"),
                [first, second],
            )
        count = first.type.count // 2
        half = ir.VectorType(first.type.element, count)
        narrow = ir.VectorType(result.element, result.count // 2)
        function = cgutils.get_or_insert_function(
            self.builder.module, ir.FunctionType(narrow, [half, half]), f"llvm.x86.sse2.{names[1]}"
        )
        halves = [
            self.builder.call(function, [part(self.builder, value, i * count, count) for value in (first, second)])
            for i in (0, 1)
        ]
        return joined(self.builder, *halves)

    def products(self, first: Any, second: Any, *factors: tuple[Any, Any]) -> list[tuple[Any, Any]]:
        """first * a + second * b for each pair of factors, numbers or values of 16 bits."""
        builder, count = self.builder, first.type.count
        wide = ir.VectorType(INT32, count // 2)
        pairs: Any = interleaved(builder, first, second)
        if not self.extensions:
            # The elements of the two vectors are separated again, half by half.
            index = ir.VectorType(INT32, count // 2)
            pairs = [
                [
                    builder.sext(builder.shuffle_vector(one, one, ir.Constant(index, list(range(i, count, 2)))), wide)
                    for i in (0, 1)
                ]
                for one in pairs
            ]
        results = []
        for factor in factors:
            a, b = (self.spread(one, first.type) for one in factor)
            if self.extensions:
                constants = interleaved(builder, a, b)[0]
                low, high = (self._call(("pmadd.wd", "pmadd.wd"), wide, pair, constants) for pair in pairs)
            else:
                a, b = (builder.sext(part(builder, one, 0, count // 2), wide) for one in (a, b))
                low, high = (builder.add(builder.mul(even, a), builder.mul(odd, b)) for even, odd in pairs)
            results.append((low, high))
        return results

    def spread(self, value: Any, kind: Any) -> Any:
        """A number, or a value, in every lane."""
        return number(value, kind) if isinstance(value, int) else splat(self.builder, value, kind)

    def shifted(self, value: Any, bits: int) -> tuple[Any, Any]:
        """The numbers times a power of two, in 32 bits."""
        builder = self.builder
        wide = ir.VectorType(INT32, value.type.count // 2)
        low, high = interleaved(builder, number(0, value.type), value)
        return tuple(builder.ashr(builder.bitcast(one, wide), number(16 - bits, wide)) for one in (low, high))

    def add(self, first: Any, second: Any) -> tuple[Any, Any]:
        return tuple(self.builder.add(a, b) for a, b in zip(first, second, strict=True))

    def sub(self, first: Any, second: Any) -> tuple[Any, Any]:
        return tuple(self.builder.sub(a, b) for a, b in zip(first, second, strict=True))

    def rounded(self, value: tuple[Any, Any], bits: int) -> Any:
        """The numbers divided by a power of two, halves rounded up, saturated to 16 bits."""
        builder, kind = self.builder, value[0].type
        half = number(1 << (bits - 1), kind)
        return self.packed(*(builder.ashr(builder.add(one, half), number(bits, kind)) for one in value))

    def packed(self, low: Any, high: Any) -> Any:
        """Numbers of 32 bits, saturated to 16."""
        builder, kind = self.builder, low.type
        result = ir.VectorType(INT16, 2 * kind.count)
        if self.extensions:
            return self._call(("packssdw", "packssdw.128"), result, low, high)
        both = clamped(builder, joined(builder, low, high), -32768, 32767, result)
        order = [
            half * kind.count + group // 2 + i
            for group in range(0, result.count, GROUP)
            for half in (0, 1)
            for i in range(4)
        ]
        return builder.shuffle_vector(both, both, ir.Constant(ir.VectorType(INT32, result.count), order))

    def bytes(self, first: Any, second: Any) -> Any:
        """Two vectors as signed bytes, saturated: a group of eight of the first vector, a group of the second, and so on."""
        builder, count = self.builder, first.type.count
        result = ir.VectorType(INT8, 2 * count)
        if self.extensions:
            return self._call(("packsswb", "packsswb.128"), result, first, second)
        both = clamped(builder, joined(builder, first, second), -128, 127, result)
        order = [half * count + group + i for group in range(0, count, GROUP) for half in (0, 1) for i in range(8)]
        return builder.shuffle_vector(both, both, ir.Constant(ir.VectorType(INT32, 2 * count), order))
