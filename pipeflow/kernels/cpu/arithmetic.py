"""Arithmetic of arrays in compiled programs, with the results of NumPy, bit for bit. One side may be a single number."""

from typing import Any

import numpy as np

from pipeflow.kernels.cpu.jit import kernel, types_of
from pipeflow.kernels.cpu.later import Wanted

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


def wanted(kernel_of: Any, left: np.dtype, right: np.dtype, out: np.dtype) -> list[Wanted]:
    """The kernel for operands of these types."""
    first, second, result = (np.empty(0, dtype) for dtype in (left, right, out))
    return [(kernel_of, types_of(first, second, 1, result))]
