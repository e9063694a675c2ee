"""Values that become constants of the graph where a DataNode is expected: numbers, lists of numbers, arrays."""

from typing import Any

import numpy as np

from pipeflow import types
from pipeflow.declare import Node
from pipeflow.errors import NestedStructure
from pipeflow.tensors import TensorCPU, TensorListCPU

NUMBERS = (bool, int, float, complex, np.ndarray, np.generic, types.ScalarConstant, types.ArrayConstant)


def is_constant(value: Any) -> bool:
    """True if a value can become a constant. A list may contain numbers, or lists of equal length."""
    return isinstance(value, (*NUMBERS, TensorCPU)) or _is_table(value)


def _is_table(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(
        isinstance(item, (bool, int, float, complex, np.generic)) or _is_table(item) for item in value
    )


def array_of(value: Any) -> tuple[np.ndarray, str]:
    """The array and the layout of a constant. A type of 64 bits that NumPy chose becomes one of 32, as in all constants."""
    if isinstance(value, types.ArrayConstant):
        return value.value, value.layout
    if isinstance(value, types.ScalarConstant):
        return types.as_constant(value), ""
    if isinstance(value, (TensorCPU, TensorListCPU)):
        return np.array(value), value.layout()
    if isinstance(value, (np.ndarray, np.generic)):
        return types.narrowed(np.array(value)), ""
    return types.as_constant(value), ""


def operand(value: Any, sign: str) -> Any:
    """The other operand of an arithmetic expression as an input of an operator; NumPy's numbers keep their types."""
    if isinstance(value, Node):
        return value
    if contains_node(value):
        raise NestedStructure(
            f"The input 1 of operator `{sign}` must be a `DataNode` or a compatible constant. Got a "
            f"`{type(value).__name__}` with nested `DataNode`(s). Did you pass a return value of an operator producing "
            "multiple outputs?"
        )
    if not is_constant(value):
        raise TypeError(
            f"Argument to arithmetic operation not supported. Got {type(value).__name__} {value!r:.60}, expected a DataNode "
            "or a constant value of type bool, int, float, NumPy array, list of numbers or types.Constant"
        )
    if isinstance(value, (np.float64, np.complex128)):
        return value.item()  # these types are also numbers of Python, so they become FLOAT and COMPLEX64
    if type(value) is np.ndarray and not value.ndim:
        value = value[()]
    if isinstance(value, np.generic):
        return types.ScalarConstant(value, value.dtype)
    return value


def contains_node(value: Any) -> bool:
    """True if a list or tuple contains a DataNode at any depth."""
    return isinstance(value, (list, tuple)) and any(isinstance(x, Node) or contains_node(x) for x in value)
