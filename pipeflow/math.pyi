# Generated from the declarations by tools/generate_stubs.py: run `make docs` to renew it.

"""Mathematical functions of DataNodes and, outside a pipeline, of arrays."""

from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from pipeflow.record.recorder import DataNode
from pipeflow.tensors import TensorListCPU

Data = TypeVar("Data", DataNode, TensorListCPU, np.ndarray, list[Any])

def abs(x: Data, /) -> Data:
    """The absolute value in the same type; of complex numbers in that of their parts."""

def acos(x: Data, /) -> Data:
    """acos of each element; integers give FLOAT."""

def acosh(x: Data, /) -> Data:
    """acosh of each element; integers give FLOAT."""

def asin(x: Data, /) -> Data:
    """asin of each element; integers give FLOAT."""

def asinh(x: Data, /) -> Data:
    """asinh of each element; integers give FLOAT."""

def atan(x: Data, /) -> Data:
    """atan of each element; integers give FLOAT."""

@overload
def atan2(left: Data, right: DataNode | ArrayLike, /) -> Data:
    """The angle of the point (right, left)."""

@overload
def atan2(left: float, right: Data, /) -> Data:
    """The angle of the point (right, left)."""

def atanh(x: Data, /) -> Data:
    """atanh of each element; integers give FLOAT."""

def cbrt(x: Data, /) -> Data:
    """cbrt of each element; integers give FLOAT."""

def ceil(x: Data, /) -> Data:
    """ceil of each element; integers give FLOAT."""

@overload
def clamp(value: Data, low: DataNode | ArrayLike, high: DataNode | ArrayLike, /) -> Data:
    """The value limited to low ... high."""

@overload
def clamp(value: float, low: Data, high: DataNode | ArrayLike, /) -> Data:
    """The value limited to low ... high."""

@overload
def clamp(value: float, low: float, high: Data, /) -> Data:
    """The value limited to low ... high."""

def cos(x: Data, /) -> Data:
    """cos of each element; integers give FLOAT."""

def cosh(x: Data, /) -> Data:
    """cosh of each element; integers give FLOAT."""

def exp(x: Data, /) -> Data:
    """exp of each element; integers give FLOAT."""

def fabs(x: Data, /) -> Data:
    """The absolute value in floating point."""

def floor(x: Data, /) -> Data:
    """floor of each element; integers give FLOAT."""

@overload
def fpow(left: Data, right: DataNode | ArrayLike, /) -> Data:
    """``base ** exponent`` in floating point."""

@overload
def fpow(left: float, right: Data, /) -> Data:
    """``base ** exponent`` in floating point."""

def log(x: Data, /) -> Data:
    """log of each element; integers give FLOAT."""

def log10(x: Data, /) -> Data:
    """log10 of each element; integers give FLOAT."""

def log2(x: Data, /) -> Data:
    """log2 of each element; integers give FLOAT."""

@overload
def max(left: Data, right: DataNode | ArrayLike, /) -> Data:
    """The larger of two values."""

@overload
def max(left: float, right: Data, /) -> Data:
    """The larger of two values."""

@overload
def min(left: Data, right: DataNode | ArrayLike, /) -> Data:
    """The smaller of two values."""

@overload
def min(left: float, right: Data, /) -> Data:
    """The smaller of two values."""

@overload
def pow(left: Data, right: DataNode | ArrayLike, /) -> Data:
    """``base ** exponent``; an integer to a negative power is 0."""

@overload
def pow(left: float, right: Data, /) -> Data:
    """``base ** exponent``; an integer to a negative power is 0."""

def rsqrt(x: Data, /) -> Data:
    """One divided by the square root."""

def sin(x: Data, /) -> Data:
    """sin of each element; integers give FLOAT."""

def sinh(x: Data, /) -> Data:
    """sinh of each element; integers give FLOAT."""

def sqrt(x: Data, /) -> Data:
    """sqrt of each element; integers give FLOAT."""

def tan(x: Data, /) -> Data:
    """tan of each element; integers give FLOAT."""

def tanh(x: Data, /) -> Data:
    """tanh of each element; integers give FLOAT."""
