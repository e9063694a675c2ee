"""Gives the results of operations of single numbers the types that NumPy gives them, in compiled functions of the user.

A sum of two ``uint8`` of an array is a ``uint8`` and wraps around; for Numba it is a ``uint64``. A product of a ``uint8`` and a
``float32`` is a ``float32``; for Numba it is a ``float64``. Only types show such an operation. So the pass finds the types as
Numba does, puts calls in place of these operations, and finds the types again, because the results are used in others.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.core import ir, ir_utils
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NopythonTypeInference
from numba.np import numpy_support

from pipeflow.kernels.cpu.numpy_numbers import rule

MOST_ROUNDS = 40  # an operation in the round after that of its operands; a longer expression is refused later
_NAMES = ("add", "sub", "mul", "truediv", "floordiv", "mod", "and_", "or_", "xor", "neg", "invert")
_ONLY_INTEGERS = (
    "floordiv",
    "mod",
    "and_",
    "or_",
    "xor",
    "invert",
)  # floats have a remainder that rounds in another way


def type_of_result(function: Callable[..., Any], kinds: list[Any]) -> np.dtype | None:
    """The type of NumPy for an operation of single numbers; None for others, and for Booleans alone."""
    if not all(isinstance(kind, (types.Integer, types.Float, types.Boolean)) for kind in kinds):
        return None
    dtypes = [numpy_support.as_dtype(kind) for kind in kinds]
    if all(dtype.kind == "b" for dtype in dtypes):
        return None
    wide = np.result_type(*dtypes)
    return np.dtype(np.float64) if function in (operator.truediv, operator.itruediv) and wide.kind != "f" else wide


def _declared(name: str) -> Callable[..., Any]:
    operation = getattr(operator, name)

    def computed(*numbers: Any) -> Any:
        return operation(*numbers)

    def wanted(*kinds: Any) -> Any:
        dtype = type_of_result(operation, [*map(types.unliteral, kinds)])
        return None if dtype is None or (dtype.kind == "f" and name in _ONLY_INTEGERS) else dtype.type

    if name in ("neg", "invert"):

        @rule(computed)
        def _(one: Any) -> Any:
            cast = wanted(one)
            return None if cast is None else lambda one: cast(operation(one))
    else:

        @rule(computed)
        def _(one: Any, other: Any) -> Any:
            cast = wanted(one, other)
            return None if cast is None else lambda one, other: cast(operation(cast(one), cast(other)))

    return computed


_FUNCTIONS = {getattr(operator, name): _declared(name) for name in _NAMES}
_FUNCTIONS |= {
    getattr(operator, f"i{name.rstrip('_')}"): _FUNCTIONS[getattr(operator, name)]
    for name in _NAMES
    if hasattr(operator, f"i{name.rstrip('_')}") and name not in ("neg", "invert")
}
SINGLE_HELPERS = {*_FUNCTIONS.values()}


@register_pass(mutates_CFG=True, analysis_only=False)
class InferSingleNumbers(NopythonTypeInference):
    """Finds the types of a function, with those of NumPy for single numbers."""

    _name = "pipeflow_infer_single_numbers"

    def run_pass(self, state: Any) -> bool:
        """Finds the types of one function."""
        given = state.return_type
        for _ in range(MOST_ROUNDS):
            state.return_type = given
            super().run_pass(state)
            changed = [_changed(block, state) for block in state.func_ir.blocks.values()]
            if not any(changed):
                break
            state.func_ir._definitions = ir_utils.build_definitions(state.func_ir.blocks)
        return True


def _changed(block: Any, state: Any) -> bool:
    """Puts calls in place of the operations of a block whose results have another type than in NumPy; True if there are any."""
    body: list[Any] = []
    for statement in block.body:
        value = getattr(statement, "value", None)
        if isinstance(statement, ir.Assign) and isinstance(value, ir.Expr) and _differs(statement, state.typemap):
            operands = [value.value] if value.op == "unary" else [value.lhs, value.rhs]
            held = block.scope.redefine("$pipeflow_single", statement.loc)
            function = _FUNCTIONS[value.fn]
            body.append(ir.Assign(ir.Global(function.__name__, function, statement.loc), held, statement.loc))
            statement.value = ir.Expr.call(held, operands, (), statement.loc)
        body.append(statement)
    changed = len(body) > len(block.body)
    block.body = body
    return changed


def _differs(statement: Any, kinds: Any) -> bool:
    value = statement.value
    if value.op not in ("binop", "inplace_binop", "unary") or value.fn not in _FUNCTIONS:
        return False
    operands = [value.value] if value.op == "unary" else [value.lhs, value.rhs]
    wanted = type_of_result(value.fn, [types.unliteral(kinds[operand.name]) for operand in operands])
    found = types.unliteral(kinds[statement.target.name])
    if wanted is None or not isinstance(found, types.Number) or numpy_support.as_dtype(found) == wanted:
        return False
    return wanted.kind != "f" or value.fn not in [getattr(operator, name) for name in _ONLY_INTEGERS]
