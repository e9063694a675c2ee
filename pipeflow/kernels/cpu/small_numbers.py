"""Single numbers in compiled programs: arithmetic and comparisons with the results of NumPy, bit for bit.

Conditions are computed with them. The numbers are passed as bytes with the number of their type, so one kernel is for all types:
a kernel for each pair of types would take a second of compiling, and here only the call costs time.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from pipeflow.kernels.cpu.jit import kernel, types_of
from pipeflow.kernels.cpu.later import Wanted

# The place of a type is its number. Types up to UINT64 are integers.
TYPES = [np.dtype(code) for code in ("?", "u1", "i1", "u2", "i2", "u4", "i4", "i8", "u8", "f4", "f8")]
BOOL, UINT8, INT8, UINT16, INT16, UINT32, INT32, INT64, UINT64, FLOAT32, FLOAT64 = range(len(TYPES))
# The place of an operation is its number. Those up to ``ge`` compare; ``bitnot``, ``minus`` and ``abs`` have one operand.
OPERATIONS = (
    *("eq", "ne", "lt", "le", "gt", "ge"),
    *("add", "sub", "mul", "div", "fdiv", "mod"),
    *("bitand", "bitor", "bitxor", "bitnot", "minus", "abs"),
    *("min", "max"),
)
EQUAL, UNEQUAL, LESS, AT_MOST, GREATER, AT_LEAST = range(6)
ADD, SUBTRACT, MULTIPLY, DIVIDE, QUOTIENT, REST = range(6, 12)
AND, OR, XOR, INVERT, NEGATE, ABSOLUTE = range(12, 18)
SMALLER, LARGER = range(18, 20)
OF_INTEGERS = frozenset(("mod", "bitand", "bitor", "bitxor", "bitnot"))


@kernel(fastmath=False)
def _integer(data, kind):
    """A number of an integral type; one of UINT64 as the INT64 of the same bits."""
    if kind <= UINT8:
        return np.int64(data[0])
    if kind == INT8:
        return np.int64(data.view(np.int8)[0])
    if kind == UINT16:
        return np.int64(data.view(np.uint16)[0])
    if kind == INT16:
        return np.int64(data.view(np.int16)[0])
    if kind == UINT32:
        return np.int64(data.view(np.uint32)[0])
    if kind == INT32:
        return np.int64(data.view(np.int32)[0])
    return data.view(np.int64)[0]


@kernel(fastmath=False)
def _float32_of(number, unsigned):
    return np.float32(np.uint64(number)) if unsigned else np.float32(number)


@kernel(fastmath=False)
def _real(data, kind, common):
    """A number converted to a floating type, as FLOAT64, which has each number of FLOAT32."""
    if kind == FLOAT32:
        return np.float64(data.view(np.float32)[0])
    if kind == FLOAT64:
        return data.view(np.float64)[0]
    number = _integer(data, kind)
    if common == FLOAT32:
        return np.float64(_float32_of(number, kind == UINT64))
    return np.float64(np.uint64(number)) if kind == UINT64 else np.float64(number)


@cache
def limits_as_numpy() -> bool:
    """True if of two zeros with unlike signs NumPy takes the second one, as these kernels do: so it is on x86."""
    zeros = np.array([0.0, -0.0], np.float32), np.array([0.0, -0.0])
    return all(np.signbit(f(x, x[::-1])).tolist() == [True, False] for x in zeros for f in (np.maximum, np.minimum))


@kernel(fastmath=False)
def smaller(a, b):
    """The smaller one of two numbers, as NumPy finds it: a nan if one is, and the second one of two equal numbers."""
    return a if a < b or a != a else b


@kernel(fastmath=False)
def larger(a, b):
    """The larger one of two numbers in the same way."""
    return a if a > b or a != a else b


@kernel(fastmath=False)
def _compared(a, b, operation):
    if operation == EQUAL:
        return a == b
    if operation == UNEQUAL:
        return a != b
    if operation == LESS:
        return a < b
    if operation == AT_MOST:
        return a <= b
    if operation == GREATER:
        return a > b
    return a >= b


@kernel(fastmath=False)
def _computed_real(a, b, operation):
    if operation == ADD:
        return a + b
    if operation == SUBTRACT:
        return a - b
    if operation == MULTIPLY:
        return a * b
    if operation == NEGATE:
        return -a
    if operation == ABSOLUTE:
        return abs(a)
    if operation == SMALLER:
        return smaller(a, b)
    if operation == LARGER:
        return larger(a, b)
    return a / b


@kernel(fastmath=False)
def _divided(a, b, unsigned, rest):
    """The quotient of integers, cut off as in C, or the rest."""
    if b == 0:
        raise ZeroDivisionError
    if unsigned:
        one, other = np.uint64(a), np.uint64(b)
        return np.int64(one % other) if rest else np.int64(one // other)
    if b == -1:  # the quotient of the smallest number wraps around
        return np.int64(0) if rest else -a
    quotient = a // b
    if quotient < 0 and quotient * b != a:
        quotient += 1
    return a - quotient * b if rest else quotient


@kernel(fastmath=False)
def _computed_integer(a, b, operation, common):
    if operation == ADD:
        return a + b
    if operation == SUBTRACT:
        return a - b
    if operation == MULTIPLY:
        return a * b
    if operation == AND:
        return a & b
    if operation == OR:
        return a | b
    if operation == XOR:
        return a ^ b
    if operation == INVERT:
        return 1 - a if common == BOOL else ~a
    if operation == NEGATE:
        return -a
    if operation == ABSOLUTE:
        return -a if a < 0 and common != UINT64 else a
    if operation >= SMALLER:
        first = np.uint64(a) < np.uint64(b) if common == UINT64 else a < b
        return a if first == (operation == SMALLER) else b
    return _divided(a, b, common == UINT64, operation == REST)


@kernel(fastmath=False)
def store(number, kind, out):
    """Writes an integer; bits that the type does not have are cut off."""
    if kind <= INT8:
        out[0] = np.uint8(number)
    elif kind <= INT16:
        out.view(np.uint16)[0] = np.uint16(number)
    elif kind <= INT32:
        out.view(np.uint32)[0] = np.uint32(number)
    else:
        out.view(np.int64)[0] = number


@kernel(fastmath=False)
def compute(left, left_kind, right, right_kind, operation, common, out, out_kind):
    """One operation on two numbers, which are converted to their common type first."""
    if common >= FLOAT32:
        a, b = _real(left, left_kind, common), _real(right, right_kind, common)
        if operation <= AT_LEAST:
            out[0] = _compared(a, b, operation)
        elif common == FLOAT32:
            out.view(np.float32)[0] = _computed_real(np.float32(a), np.float32(b), operation)
        else:
            out.view(np.float64)[0] = _computed_real(a, b, operation)
        return
    first, second = _integer(left, left_kind), _integer(right, right_kind)
    if operation == DIVIDE:
        unsigned = common == UINT64
        out.view(np.float32)[0] = _float32_of(first, unsigned) / _float32_of(second, unsigned)
    elif operation > AT_LEAST:
        store(_computed_integer(first, second, operation, common), out_kind, out)
    elif common == UINT64:
        out[0] = _compared(np.uint64(first), np.uint64(second), operation)
    else:
        out[0] = _compared(first, second, operation)


@kernel
def truth(data, real):
    """1 for a number that is not zero; ``real`` is 1 if it is of a floating type, which has a zero with a sign."""
    last = len(data) - 1
    for place in range(last):
        if data[place]:
            return 1
    return 1 if (data[last] & 0x7F if real else data[last]) else 0


@kernel
def as_bool(data, real, opposite, out):
    """A number as a bool, or with ``opposite`` 1 the other one."""
    out[0] = truth(data, real) ^ opposite


@kernel
def copy(source, out):
    """Copies the bytes of a number."""
    for place in range(len(out)):
        out[place] = source[place]


def wanted() -> Sequence[Wanted]:
    """All of these kernels."""
    data: Any = np.empty(0, np.uint8)
    return [
        (compute, types_of(data, 1, data, 1, 1, 1, data, 1)),
        (store, types_of(1, 1, data)),
        (truth, types_of(data, 1)),
        (as_bool, types_of(data, 1, 1, data)),
        (copy, types_of(data, data)),
    ]
