"""What may stand where a DataNode is wanted and becomes a constant of the graph: numbers, lists of numbers, arrays."""

from typing import Any

import numpy as np

from pipeflow import types
from pipeflow.declare import Node
from pipeflow.errors import NestedStructure
from pipeflow.tensors import TensorCPU, TensorListCPU

NUMBERS = (bool, int, float, np.ndarray, np.generic, types.ScalarConstant, types.ArrayConstant)


def is_constant(value: Any) -> bool:
    """Whether a value can become a constant; a list may hold numbers, or lists of equal length of them."""
    return isinstance(value, (*NUMBERS, TensorCPU)) or _is_table(value)


def _is_table(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(
        isinstance(item, (bool, int, float, np.generic)) or _is_table(item) for item in value
    )


def array_of(value: Any) -> tuple[np.ndarray, str]:
    """The array and the layout of a constant: what NumPy made in 64 bits is narrowed, as all constants are."""
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
    """The other side of an arithmetic expression as something an operator takes; a NumPy number keeps its type."""
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
    if isinstance(value, np.float64):
        return float(value)  # a Python float, too, and so a FLOAT
    return types.ScalarConstant(value, value.dtype) if isinstance(value, np.generic) else value


def contains_node(value: Any) -> bool:
    """Whether there is a DataNode in a list or tuple, however deep."""
    return isinstance(value, (list, tuple)) and any(isinstance(x, Node) or contains_node(x) for x in value)
