"""Arithmetic of arrays in compiled programs, with the results of NumPy, bit for bit. One side may be a single number."""

from typing import Any

import numpy as np

from pipeflow.kernels.cpu.jit import kernel, types_of
from pipeflow.kernels.cpu.later import Wanted
from pipeflow.kernels.cpu.small_numbers import larger, smaller

ADD, SUBTRACT, MULTIPLY, DIVIDE = range(4)


@kernel(fastmath=False)
def with_number(left, number, operation, out):
    """left + number, and so on; both are converted to the type of the result first."""
    kind = out.dtype.type
    b = kind(number[0])
    if operation == ADD:
        for i in range(out.size):
            out[i] = kind(left[i]) + b
    elif operation == SUBTRACT:
        for i in range(out.size):
            out[i] = kind(left[i]) - b
    elif operation == MULTIPLY:
        for i in range(out.size):
            out[i] = kind(left[i]) * b
    else:
        for i in range(out.size):
            out[i] = kind(left[i]) / b


@kernel(fastmath=False)
def of_number(number, right, operation, out):
    """number - right, and so on."""
    kind = out.dtype.type
    a = kind(number[0])
    if operation == ADD:
        for i in range(out.size):
            out[i] = a + kind(right[i])
    elif operation == SUBTRACT:
        for i in range(out.size):
            out[i] = a - kind(right[i])
    elif operation == MULTIPLY:
        for i in range(out.size):
            out[i] = a * kind(right[i])
    else:
        for i in range(out.size):
            out[i] = a / kind(right[i])


@kernel(fastmath=False)
def of_arrays(left, right, operation, out):
    """left + right, and so on, for arrays of one size."""
    kind = out.dtype.type
    if operation == ADD:
        for i in range(out.size):
            out[i] = kind(left[i]) + kind(right[i])
    elif operation == SUBTRACT:
        for i in range(out.size):
            out[i] = kind(left[i]) - kind(right[i])
    elif operation == MULTIPLY:
        for i in range(out.size):
            out[i] = kind(left[i]) * kind(right[i])
    else:
        for i in range(out.size):
            out[i] = kind(left[i]) / kind(right[i])


@kernel(fastmath=False)
def limited_by_number(left, number, above, out):
    """The smaller one, or with ``above`` 1 the larger one, of each element and a number, in the type of the result."""
    kind = out.dtype.type
    b = kind(number[0])
    if above:
        for i in range(out.size):
            out[i] = larger(kind(left[i]), b)
    else:
        for i in range(out.size):
            out[i] = smaller(kind(left[i]), b)


@kernel(fastmath=False)
def number_limited(number, right, above, out):
    """The same of a number and each element."""
    kind = out.dtype.type
    a = kind(number[0])
    if above:
        for i in range(out.size):
            out[i] = larger(a, kind(right[i]))
    else:
        for i in range(out.size):
            out[i] = smaller(a, kind(right[i]))


@kernel(fastmath=False)
def limited_by_array(left, right, above, out):
    """The same for arrays of one size."""
    kind = out.dtype.type
    if above:
        for i in range(out.size):
            out[i] = larger(kind(left[i]), kind(right[i]))
    else:
        for i in range(out.size):
            out[i] = smaller(kind(left[i]), kind(right[i]))


BITS_AND, BITS_OR, BITS_XOR = range(3)


@kernel
def bits_of_bytes(values, number, operation, out):
    """Joins the bits of bytes with those of one."""
    other = number[0]
    if operation == BITS_AND:
        for i in range(out.size):
            out[i] = values[i] & other
    elif operation == BITS_OR:
        for i in range(out.size):
            out[i] = values[i] | other
    else:
        for i in range(out.size):
            out[i] = values[i] ^ other


def wanted_bits() -> list[Wanted]:
    """The kernel for bits."""
    data = np.empty(0, np.uint8)
    return [(bits_of_bytes, types_of(data, data, 1, data))]


def wanted(kernel_of: Any, left: np.dtype, right: np.dtype, out: np.dtype) -> list[Wanted]:
    """The kernel for operands of these types."""
    first, second, result = (np.empty(0, dtype) for dtype in (left, right, out))
    return [(kernel_of, types_of(first, second, 1, result))]
