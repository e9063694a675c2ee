"""fn.gradients: derivatives of what ``fn.py_function`` computes, sample by sample ([Gradients](../gradients.md) has examples).

The call is recorded as a node. A pass of the compiler (pipeflow/compile/gradients.py) finds the functions and operators between
the inputs and the results. Each function runs once and keeps a *tape* with its outputs. The tape computes the derivatives with
respect to the inputs from those with respect to the outputs. Operators have declared derivatives (derivatives.py).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeflow.declare import Args, BatchCall, Ints, Sample, Spec, Traits, framework, operator
from pipeflow.errors import function_name
from pipeflow.operators.functions.calls import iterate
from pipeflow.operators.functions.results import Results
from pipeflow.operators.tensor_functions import each
from pipeflow.operators.tensorflow_functions import OutputTypes

PAGE = """Derivatives of what `fn.py_function` computes, sample by sample. [Gradients](../gradients.md) has examples."""


class Tape:
    """One call of a function for one sample: its outputs as tensors, and its derivatives."""

    def __init__(
        self, func: Callable[..., Any], name: str, arrays: Sequence[np.ndarray], wanted: Sequence[int]
    ) -> None:
        self.func = func
        for position in wanted:
            if arrays[position].dtype.kind != "f":
                raise TypeError(
                    f"input {position} of {function_name(func)} is {arrays[position].dtype}, and gradients need "
                    "floating-point inputs: cast it to float32 or float64"
                )
        tensors = framework(name)
        assert tensors.differentiate is not None
        self.result, self._back = tensors.differentiate(func, [tensors.to_tensor(np.array(x)) for x in arrays], wanted)

    def back(self, weights: Sequence["np.ndarray | None"]) -> Sequence[np.ndarray]:
        """The derivatives with respect to the wanted inputs, from those with respect to the outputs (None: zero)."""
        try:
            return self._back(weights)
        except RuntimeError as error:
            raise RuntimeError(f"{function_name(self.func)} has no derivative: {error}") from error


@operator("_taped_function", written_as="py_function", hidden=True, pure=False)
def taped_function(
    *inp: Sample,
    func: Callable[..., Any],
    Tout: OutputTypes,
    framework: str = "torch",
    wanted: Ints,
    timeout: float | None = None,
) -> Sample:
    """fn.py_function with one more output, the tape."""
    del inp, func, Tout, framework, wanted, timeout
    raise RuntimeError("gradients need nodes of a pipeline definition, not arrays")


@taped_function.batch
def _(*inp: Any, args: Args, batch: BatchCall) -> list[Any]:
    results = Results(args.func, 0, args.Tout)
    columns: list[list[np.ndarray]] = [[] for _ in range(results.count + 1)]
    for _index, arrays in batch.each(zip(*map(iterate, inp))):
        tape = Tape(args.func, args.framework, arrays, args.wanted)
        values = results.split(each(tape.result, _to_array(args.framework)))
        for output, value in enumerate(values):
            columns[output].append(results.array(value, output))
        columns[-1].append(_object(tape))
    return [batch.collector(output).gather(column) for output, column in enumerate(columns[:-1])] + [columns[-1]]


def _to_array(name: str) -> Callable[[Any], Any]:
    tensors = framework(name)
    return lambda value: tensors.to_array(value) if tensors.is_tensor(value) else value


def _object(value: Any) -> np.ndarray:
    array = np.empty((), object)
    array[()] = value
    return array


taped_function.outputs(lambda args: len(args.Tout.specs) + 1)
taped_function.traits(lambda _args: Traits("batch", ordered=True, pure=False, user_code=True, rows=True))
taped_function.infer(lambda _specs, args: (*args.Tout.specs, Spec((), object, "")))


@operator(
    "gradients",
    role="gradients",
    nodes_only=True,
    examples=["y = fn.py_function(lambda x: x**2, [x], np.float32)", "(dy_dx,) = fn.gradients(y, [x])"],
    order="ys xs name",
)
def gradients(*nodes: Sample, sizes: Ints) -> Sample:
    """Computes the derivatives of the sum of ``ys`` with respect to each of ``xs``, through ``fn.py_function``,
    arithmetic, casts and indexing.

    ``xs`` are nodes of floating-point numbers; the ys are computed from them. A derivative has the shape and type of its x.
    """
    del nodes, sizes
    raise RuntimeError("fn.gradients: gradients need nodes of a pipeline definition, not arrays")


@gradients.outputs
def _(args: Args) -> int:
    return args.sizes[1]


@gradients.returns_list
def _(_args: Args) -> bool:
    return True


@gradients.infer
def _(specs: tuple[Spec, ...], args: Args) -> tuple[Spec, ...]:
    return tuple(specs[args.sizes[0] :])


@gradients.check
def _(args: Args) -> None:
    if not args.sizes[0] or not args.sizes[1]:
        what = "ys" if not args.sizes[0] else "xs"
        raise ValueError(f"{what} is empty: gradients need at least one result and one input")
