"""fn.numba_function: a function that fills its outputs, compiled by Numba for declared types.

It is DALI's operator without its limits: any number of inputs and outputs, every shape, and errors that name the declared and
the actual type. ``fn.python_function(..., jit=True)`` needs no types and returns its results.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeflow import types
from pipeflow.declare import (
    UNKNOWN,
    Args,
    BatchCall,
    Ints,
    OpDef,
    Out,
    Sample,
    Spec,
    Traits,
    default,
    operator,
    parameters,
    required,
)
from pipeflow.errors import count_of, function_name
from pipeflow.kernels import cpu as kernels

PAGE = """The function fills its outputs and is compiled for declared types. `fn.python_function(..., jit=True)` needs no
types and returns its results.
"""


Kinds = tuple[tuple[np.dtype, int], ...]


class TypeList(tuple):
    """A type, or a list of types."""

    __slots__ = ()

    @classmethod
    def of(cls, value: Any) -> "TypeList":
        """The types that a user wrote."""
        items = value if isinstance(value, (list, tuple)) else [value]
        return cls(types.as_dtype(item) for item in items)


def kinds_of(dtypes: Sequence[np.dtype], ndims: Sequence[int]) -> Kinds:
    """Types with their numbers of axes."""
    return tuple(zip(dtypes, ndims))


def check_inputs(function: Callable[..., Any], kinds: Kinds, found: Sequence[tuple[Any, Any]]) -> None:
    """Compares the inputs with the declaration, as far as they are known."""
    if len(found) != len(kinds):
        raise ValueError(
            f"{function_name(function)} is declared with {count_of(len(kinds), 'input')} (in_types, ins_ndim) "
            f"and gets {len(found)}"
        )
    for number, ((dtype, ndim), (have, axes)) in enumerate(zip(kinds, found)):
        wrong_type = have is not UNKNOWN and have != dtype
        if wrong_type or axes not in (UNKNOWN, ndim):
            raise TypeError(
                f"input {number} of {function_name(function)} is declared as {dtype} with {count_of(ndim, 'axis', 'axes')} and "
                f"is {have} with {count_of(axes, 'axis', 'axes')}"
            )


def shapes_of(
    setup: Callable[..., Any] | None, batch: Sequence[Sequence[tuple[int, ...]]], outs_ndim: Sequence[int], size: int
) -> list[np.ndarray]:
    """The shapes of the outputs, (samples, axes) for each: those of the inputs, or those that ``setup_fn`` writes."""
    inputs = [np.array(shapes, np.int64).reshape(size, -1) for shapes in batch]
    if setup is None:
        return inputs[: len(outs_ndim)]
    outputs = [np.zeros((size, ndim), np.int64) for ndim in outs_ndim]
    setup(outputs, inputs)
    for number, shapes in enumerate(outputs):
        if (shapes < 0).any():
            raise ValueError(f"{function_name(setup)} gives output {number} the shape {tuple(shapes[0].tolist())}")
    return outputs


def _contiguous(array: np.ndarray) -> np.ndarray:
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


LAUNCH = parameters(
    batch_processing=(
        bool,
        False,
        "call the function once for the batch, with a list of arrays for each output and input",
    ),
    blocks=(Ints, None, 'blocks of the grid of the launch, for device="gpu"'),
    threads_per_block=(Ints, None, 'threads of a block of that grid, for device="gpu"'),
)


def _body(
    *inputs: Sample,
    run_fn: Callable[..., Any] = required("function that is compiled and called with the outputs and the inputs"),
    out_types: TypeList = required("types of the outputs"),
    in_types: TypeList = required("types of the inputs"),
    outs_ndim: Ints = required("numbers of axes of the outputs"),
    ins_ndim: Ints = required("numbers of axes of the inputs"),
    setup_fn: Callable[..., Any] | None = default(
        None,
        "function that writes the shapes of the outputs; default: an output has the shape of the input with its number",
    ),
    out: Out,
) -> Sample:
    """Calls a function compiled by Numba that fills its outputs: ``run_fn(*outputs, *inputs)``.

    ``in_types``, ``ins_ndim``, ``out_types`` and ``outs_ndim`` are the types for which it is compiled.
    ``setup_fn(outputs, inputs)`` writes the shapes of the outputs: ``outputs[i][sample][axis]`` from
    ``inputs[i][sample][axis]``; without it an output has the shape of the input with its number. With
    ``batch_processing`` it is called once for the batch, with lists of arrays. With ``device="gpu"`` numba-cuda
    compiles ``run_fn`` as a kernel that is launched for each sample with a grid of ``blocks`` of ``threads_per_block``.
    """
    kinds = kinds_of(in_types, ins_ndim)
    check_inputs(run_fn, kinds, [(x.dtype, x.ndim) for x in inputs])
    places = out if isinstance(out, tuple) else (out,)
    if any(callable(place) for place in places):
        shapes = shapes_of(setup_fn, [[x.shape] for x in inputs], outs_ndim, 1)
        places = tuple(
            place(tuple(shape[0].tolist()), dtype) if callable(place) else place
            for place, shape, dtype in zip(places, shapes, out_types)
        )
    compiled = kernels.user_functions.with_types(run_fn, kinds_of(out_types, outs_ndim), kinds, False)
    compiled(*places, *map(_contiguous, inputs))
    return places[0] if len(places) == 1 else places


def _batch(*inputs: Any, args: Args, batch: BatchCall) -> list[Any]:
    kinds = kinds_of(args.in_types, args.ins_ndim)
    lists = [[np.require(x, requirements=["C", "W"]) for x in samples] for samples in inputs]
    for row in zip(*lists):
        check_inputs(args.run_fn, kinds, [(x.dtype, x.ndim) for x in row])
    shapes = shapes_of(args.setup_fn, [[x.shape for x in samples] for samples in lists], args.outs_ndim, batch.size)
    results = []
    for shape, dtype in zip(shapes, args.out_types):
        results.append([np.zeros(tuple(extents), dtype) for extents in shape.tolist()])
    compiled = kernels.user_functions.with_types(args.run_fn, kinds_of(args.out_types, args.outs_ndim), kinds, True)
    compiled(*map(kernels.user_functions.list_of, results), *map(kernels.user_functions.list_of, lists))
    return results


def _infer(specs: tuple[Spec, ...], args: Args) -> tuple[Spec, ...]:
    check_inputs(
        args.run_fn,
        kinds_of(args.in_types, args.ins_ndim),
        [(spec.dtype, UNKNOWN if spec.shape is UNKNOWN else len(spec.shape)) for spec in specs],
    )
    shapes = [(None,) * ndim for ndim in args.outs_ndim]
    if args.setup_fn is None:
        shapes = [spec.shape if spec.shape is not UNKNOWN else shape for spec, shape in zip(specs, shapes)]
    return tuple(Spec(shape, dtype, "") for shape, dtype in zip(shapes, args.out_types))


def _check(args: Args) -> None:
    for kinds, axes in (("in_types", "ins_ndim"), ("out_types", "outs_ndim")):
        if len(getattr(args, kinds)) != len(getattr(args, axes)):
            raise ValueError(f"{kinds} has {len(getattr(args, kinds))} entries and {axes} {len(getattr(args, axes))}")
    if args.setup_fn is None:
        short = len(args.outs_ndim) > len(args.ins_ndim)
        if short or args.outs_ndim != args.ins_ndim[: len(args.outs_ndim)]:
            raise ValueError(
                "without setup_fn each output has the shape of the input with its number: "
                f"ins_ndim is {list(args.ins_ndim)} and outs_ndim {list(args.outs_ndim)}"
            )


def _traits(args: Args) -> Traits:
    # Compiled code keeps no reference, and its inputs are read-only by their type.
    return Traits("batch", user_code=True) if args.batch_processing else Traits("sample")


_EXAMPLE = (
    "fn.{name}(array, run_fn=lambda result, x: np.multiply(x, 2, result), in_types=types.FLOAT, ins_ndim=2, "
    "out_types=types.FLOAT, outs_ndim=2)"
)


def _declare(name: str) -> OpDef:
    op = operator(
        name, role="function", dtypes="number complex", takes=LAUNCH, examples=[_EXAMPLE.format(name=name)], gpu=True
    )(_body)
    op.batch(_batch)
    op.infer(_infer)
    op.check(_check)
    op.traits(_traits)
    op.outputs(lambda args: len(args.out_types))
    return op


numba_function = _declare("numba_function")
experimental_numba_function = _declare("experimental.numba_function")
