"""The derivatives of operators that ``fn.gradients`` passes through: arithmetic, functions of mathematics, casts, indexing.

A derivative is a function of (weight, inputs, output, args): the derivative with respect to the output, the samples that the
operator read and returned, and its arguments. It returns one array for each input, in the shape of the output if operands are
broadcast. ``flows`` names the inputs that have a derivative; the others, predicates and indices, are constants.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeflow.declare import Ints, Sample, find, operator, registry
from pipeflow.operators import generic, math, shape  # noqa: F401  (declare what has a derivative here)
from pipeflow.operators.structure import index_of

Derivative = Callable[[np.ndarray, Sequence[np.ndarray], np.ndarray, Any], Sequence[Any]]


def _of_one(factor: Callable[[np.ndarray, np.ndarray], Any]) -> Derivative:
    """The derivative of a function of one number: the weight times a factor of (x, y)."""
    return lambda weight, inputs, output, _args: [weight * factor(inputs[0], output)]


def _of_power(weight: np.ndarray, inputs: Sequence[np.ndarray], output: np.ndarray, _args: Any) -> list[Any]:
    base, exponent = inputs
    # x**0 does not change with x, and 0**0 has no logarithm to multiply by.
    by_base = np.where(exponent == 0, 0, exponent * np.power(base, np.where(exponent == 0, 1, exponent) - 1))
    return [weight * by_base, weight * output * np.log(np.where(base > 0, base, 1))]


def _of_clamp(weight: np.ndarray, inputs: Sequence[np.ndarray], _output: np.ndarray, _args: Any) -> list[Any]:
    value, low, high = inputs
    above = np.maximum(value, low) > high
    return [weight * (~above & (value >= low)), weight * (~above & (value < low)), weight * above]


_TWO: dict[str, Derivative] = {
    "add": lambda w, _i, _o, _a: [w, w],
    "sub": lambda w, _i, _o, _a: [w, -w],
    "mul": lambda w, i, _o, _a: [w * i[1], w * i[0]],
    "div": lambda w, i, _o, _a: [w / i[1], -w * i[0] / i[1] ** 2],
    "fdiv": lambda w, i, _o, _a: [w / i[1], -w * i[0] / i[1] ** 2],
    "mod": lambda w, i, _o, _a: [w, -w * np.trunc(i[0] / i[1])],
    "pow": _of_power,
    "fpow": _of_power,
    "min": lambda w, i, _o, _a: [w * (i[0] <= i[1]), w * (i[0] > i[1])],
    "max": lambda w, i, _o, _a: [w * (i[0] >= i[1]), w * (i[0] < i[1])],
    "atan2": lambda w, i, _o, _a: [w * i[1] / (i[0] ** 2 + i[1] ** 2), -w * i[0] / (i[0] ** 2 + i[1] ** 2)],
    "clamp": _of_clamp,
}
_ONE: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "minus": lambda _x, _y: -1.0,
    "plus": lambda _x, _y: 1.0,
    "abs": lambda x, _y: np.sign(x),
    "fabs": lambda x, _y: np.sign(x),
    "sqrt": lambda _x, y: 0.5 / y,
    "rsqrt": lambda x, y: -0.5 * y / x,
    "cbrt": lambda x, y: y / (3 * x),
    "exp": lambda _x, y: y,
    "log": lambda x, _y: 1 / x,
    "log2": lambda x, _y: 1 / (x * np.log(2)),
    "log10": lambda x, _y: 1 / (x * np.log(10)),
    "floor": lambda x, _y: np.zeros_like(x),
    "ceil": lambda x, _y: np.zeros_like(x),
    "sin": lambda x, _y: np.cos(x),
    "cos": lambda x, _y: -np.sin(x),
    "tan": lambda _x, y: 1 + y**2,
    "asin": lambda x, _y: 1 / np.sqrt(1 - x**2),
    "acos": lambda x, _y: -1 / np.sqrt(1 - x**2),
    "atan": lambda x, _y: 1 / (1 + x**2),
    "sinh": lambda x, _y: np.cosh(x),
    "cosh": lambda x, _y: np.sinh(x),
    "tanh": lambda _x, y: 1 - y**2,
    "asinh": lambda x, _y: 1 / np.sqrt(x**2 + 1),
    "acosh": lambda x, _y: 1 / np.sqrt(x**2 - 1),
    "atanh": lambda x, _y: 1 / (1 - x**2),
}


def _of_index(weight: np.ndarray, inputs: Sequence[np.ndarray], _output: np.ndarray, args: Any) -> list[Any]:
    result = np.zeros(inputs[0].shape)
    result[(*index_of(inputs[0].shape, args["plan"], tuple(inputs[1:])), ...)] = weight
    return [result]


def _in_the_shape_of_the_input(weight: np.ndarray, inputs: Sequence[np.ndarray], _o: np.ndarray, _a: Any) -> list[Any]:
    return [weight.reshape(inputs[0].shape)]


for _name, _derivative in {**_TWO, **{name: _of_one(factor) for name, factor in _ONE.items()}}.items():
    registry[f"math.{_name}"].derivative(_derivative)
registry["_subscript"].derivative(_of_index, flows=(0,))
for _name in ("cast", "cast_like", "copy", "reshape", "squeeze", "expand_dims"):
    registry[_name].derivative(_in_the_shape_of_the_input, flows=(0,))
# The results of these are constants: they change in steps, or do not depend on the values at all.
for _name in (
    "math.eq",
    "math.ne",
    "math.lt",
    "math.le",
    "math.gt",
    "math.ge",
    "shapes",
    "_predicate",
    "_truth",
    "_operand",
    "_not",
):
    registry[_name].derivative(None, flows=())
for _name in ("_merge", "_merge_late"):  # the compiler passes each sample's derivative to its own side
    registry[_name].derivative(None, flows=(0, 1))


# ----------------------------------------------------------------------------------------------------
# Operators that the compiler adds (compile/gradients.py)


@operator("_derivative_start", written_as="gradients", hidden=True)
def start(result: Sample, /) -> Sample:
    """The derivative of a sum with respect to its terms: ones."""
    if result.dtype.kind != "f":
        raise TypeError(
            f"y is {result.dtype}, and gradients need floating-point numbers: cast it to float32 or float64"
        )
    return np.ones(result.shape, result.dtype)


@operator("_derivative_sum", written_as="gradients", hidden=True)
def added(left: Sample, right: Sample, /) -> Sample:
    """Adds derivatives that arrive on two paths."""
    return left + right


@operator("_derivative_none", written_as="gradients", hidden=True)
def none(like: Sample, /) -> Sample:
    """The derivative for a sample that took the other branch: zeros."""
    return np.zeros(like.shape, like.dtype)


@operator("_derivative", written_as="gradients", hidden=True)
def passed_on(weight: Sample, output: Sample, /, *inputs: Sample, of: str, given: Any, wanted: Ints) -> Sample:
    """The derivatives with respect to the wanted inputs of an operator, from the derivative with respect to its output."""
    hook = find(of).derivative_hook
    assert hook is not None
    for data, what in ((output, "makes"), *[(inputs[position], "reads") for position in wanted]):
        if data.dtype.kind != "f":
            raise TypeError(
                f"{find(of).title} {what} {data.dtype}, and gradients need floating-point numbers: cast it to float32 or "
                "float64"
            )
    wide = [x.astype(np.float64) if x.dtype.kind in "fiub" else x for x in inputs]
    indices = [*wide[:1], *inputs[1:]] if of == "_subscript" else wide
    with np.errstate(all="ignore"):
        found = hook(weight.astype(np.float64), indices, output.astype(np.float64), given)
    results = tuple([_summed(found[i], inputs[i].shape).astype(inputs[i].dtype) for i in wanted])
    return results[0] if len(results) == 1 else results


passed_on.outputs(lambda args: len(args.wanted))


def _summed(array: Any, extents: tuple[int, ...]) -> np.ndarray:
    """A derivative in the shape of an operand that was broadcast: the sum over the axes along which it was repeated."""
    array = np.asarray(array)
    array = array.sum(tuple(range(array.ndim - len(extents)))) if array.ndim > len(extents) else array
    repeated = tuple([axis for axis, extent in enumerate(extents) if extent == 1 and array.shape[axis] != 1])
    return np.broadcast_to(array.sum(repeated, keepdims=True) if repeated else array, extents)


@operator("_tape_back", written_as="gradients", hidden=True, dtypes="any")
def tape_back(tape: Sample, /, *weights: Sample, outputs: Ints, count: int, number: int) -> Sample:
    """The derivatives with respect to the wanted inputs of a function; ``outputs`` numbers the outputs that have a weight."""
    del count
    given: list[Any] = [None] * number
    for output, weight in zip(outputs, weights):
        given[output] = weight
    results = tuple(tape.item().back(given))
    return results[0] if len(results) == 1 else results


tape_back.outputs(lambda args: args.count)
