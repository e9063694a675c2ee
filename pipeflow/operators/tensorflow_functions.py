"""TensorFlow's three operators for Python functions, with TensorFlow's names and signatures.

``py_func`` and ``numpy_function`` pass NumPy arrays to the function, ``py_function`` passes eager tensors. The results are
checked against ``Tout``. Everything else (calling, copying, errors) is that of ``fn.python_function``, which can do more.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pipeflow import types
from pipeflow.declare import (
    REQUIRED,
    Args,
    BatchCall,
    Node,
    OpDef,
    Outputs,
    Sample,
    Traits,
    WorkerCall,
    default,
    framework,
    operator,
    parameters,
    required,
)
from pipeflow.errors import add_notes, function_name
from pipeflow.operators.functions.calls import PARALLEL, SampleCalls, call_sample, call_traits
from pipeflow.operators.functions.outputs import check_timeout
from pipeflow.operators.functions.results import Results
from pipeflow.operators.functions.workers import call_in_worker
from pipeflow.operators.shape import stack
from pipeflow.operators.tensor_functions import DIFFERENTIABLE, WithTensors, call_with_history, check_differentiable
from pipeflow.tensors import TensorListCPU

PAGE = """The three operators of TensorFlow that call Python functions, with their names and signatures. They follow the
rules of `fn.python_function`; [the family](../function_family.md) compares them.
"""


class OutputTypes(Outputs):
    """``Tout``: one type, or a list or tuple of types; a list of one gives a list of one output."""

    @classmethod
    def of(cls, value: Any) -> "OutputTypes":
        """The types as a declaration of the results."""
        if isinstance(value, Outputs):  # from a saved graph
            return cls(value.specs, value.names)
        several = isinstance(value, (list, tuple))
        plain = [_plain_type(item) for item in value] if several else [_plain_type(value)]
        return cls(Outputs.of(plain).specs, ("",) if several else ())

    @property
    def several(self) -> bool:
        """True if the outputs are in a list."""
        return self.names == ("",)


def _plain_type(value: Any) -> Any:
    """A type of TensorFlow or torch as NumPy's."""
    if hasattr(value, "as_numpy_dtype"):
        return value.as_numpy_dtype
    if type(value).__module__ == "torch":
        return np.dtype(str(value).removeprefix("torch."))
    return value


def entry(value: Any) -> Any:
    """One entry of ``inp``: a list in it is one tensor, as in TensorFlow: its items are stacked."""
    if value is None or isinstance(value, (dict, set)):
        raise TypeError(
            f"an entry must be a tensor, a number, text or a list of them, got {type(value).__name__} {value!r:.60}"
        )
    if _holds(value, (Node, TensorListCPU)):
        return stack(*[entry(item) for item in value]) if isinstance(value, (list, tuple)) else value
    if isinstance(value, (str, bytes, list, tuple)):
        value = _table(value)
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "US":
        value = np.asarray(value).astype(object)
    if not isinstance(value, (np.ndarray, np.generic)) or types.constant_node.get() is None:
        return value
    return types.ArrayConstant(np.array(value), "", "cpu")  # an ArrayConstant keeps its type


def _holds(value: Any, kinds: Any) -> bool:
    """True if a value, or an element of a list, has one of these types."""
    return isinstance(value, kinds) or (isinstance(value, (list, tuple)) and any(_holds(item, kinds) for item in value))


def _table(value: Any) -> np.ndarray:
    """Text or a nested list as one array: numbers get their usual types, arrays are stacked, text becomes objects."""
    if _holds(value, (str, bytes)):
        return np.array(value, object)
    if _holds(value, (np.ndarray, np.generic)):
        return np.stack([np.asarray(_table(item) if isinstance(item, (list, tuple)) else item) for item in value])
    return types.as_constant(value)


def _results(func: Callable[..., Any], promised: OutputTypes) -> Results:
    return Results(func, 0, Outputs(promised.specs), "Tout")


def _declare(op: OpDef) -> None:
    op.outputs(lambda args: len(args.Tout.specs))
    op.returns_list(lambda args: args.Tout.several)
    op.infer(lambda _specs, args: args.Tout.specs)


def _stateful(args: Args) -> Traits:
    # a pure function may be called in any order, and does not wait for another one
    if not args.stateful and args.parallel == "serial":
        return replace(call_traits("threads", pure=True), meets=False)
    return call_traits(args.parallel, pure=not args.stateful)


def _batch(*inp: Any, args: Args, batch: BatchCall) -> list[Any]:
    return SampleCalls(args.func, _results(args.func, args.Tout), rng=False)(inp, batch)


TOUT = parameters(Tout=(OutputTypes, REQUIRED, "type of the result, or a list of types; [] for none"))
STATEFUL = parameters(
    stateful=(
        bool,
        True,
        "False: the result depends only on the inputs; equal calls run once, unused calls do not run, and calls may run at once",
    )
)


@operator(
    "numpy_function",
    dtypes="any",
    takes=TOUT | STATEFUL | PARALLEL,
    examples=["fn.numpy_function(lambda x: np.float32(x.max()), [image], np.float32)"],
    order="func inp Tout stateful name",
)
def numpy_function(
    *inp: Sample, args: Args, func: Callable[..., Any] = required("function to call with an array for each input")
) -> Sample:
    """Calls a Python function with the NumPy arrays of each sample; its results have the types ``Tout``.

    ``inp`` is a list of nodes or constants, ``Tout`` one type or a list of types, [] for none. With ``stateful=False`` the
    result depends only on the inputs: equal calls run once, unused calls do not run, and several calls may run at the same time.
    Python numbers are converted to the type ``Tout``; arrays must have this type. ``parallel`` and ``timeout`` are those of
    ``fn.python_function``.
    """
    return call_sample(func, _results(func, args.Tout), inp, {})


@operator(
    "py_func",
    dtypes="any",
    takes=TOUT | STATEFUL | PARALLEL,
    examples=["fn.py_func(lambda x: x.sum(dtype=np.float32), [image], np.float32)"],
    order="func inp Tout stateful name",
)
def py_func(
    *inp: Sample, args: Args, func: Callable[..., Any] = required("function to call with an array for each input")
) -> Sample:
    """Calls a Python function with the NumPy arrays of each sample: the older name of ``fn.numpy_function``."""
    return call_sample(func, _results(func, args.Tout), inp, {})


for _op in (numpy_function, py_func):
    _op.batch(_batch)
    _op.traits(_stateful)
    _op.worker(lambda args: call_in_worker(args.func, _results(args.func, args.Tout)))
    _op.check(lambda args: check_timeout(args.timeout))
    _op.entry(entry)
    _declare(_op)


@operator(
    "py_function",
    role="differentiable",
    dtypes="any",
    takes=TOUT | PARALLEL | DIFFERENTIABLE,
    examples=['fn.py_function(lambda x: x.astype(np.float32), [array], np.float32, framework="numpy")'],
    order="func inp Tout name",
    pure=False,
    gpu=True,
)
def py_function(
    *inp: Sample,
    args: Args,
    func: Callable[..., Any] = required("function to call with a tensor for each input"),
    framework: str = default("torch", "library of the tensors: `torch`, `jax` or `numpy`"),
) -> Sample:
    """Calls a Python function with eager tensors of each sample; any Python control flow may be inside.

    The tensors are those of torch, or of JAX or NumPy with ``framework="jax"`` or ``"numpy"``. ``inp`` is a list of
    nodes or constants, ``Tout`` one type or a list of types; with ``Tout=[]`` the function may return None. A tensor
    shares memory with the pipeline if nothing else reads the input, and is a copy otherwise. ``parallel`` and
    ``timeout`` are those of ``fn.python_function``. With data on the GPU the tensors are there too;
    ``framework="numpy"`` gives arrays of CuPy.

    With ``differentiable=True`` the results keep their history of gradients up to the training loop, so that
    ``loss.backward()`` reaches parameters that the function uses. The pipeline then makes one batch at a time, in the loop's own
    thread, and only functions that are differentiable themselves may read the results.
    """
    return call_sample(WithTensors(func, framework), _results(func, args.Tout), inp, {})


@py_function.batch
def _(*inp: Any, args: Args, batch: BatchCall) -> Sequence[Any]:
    results = _results(args.func, args.Tout)
    if args.differentiable:
        return call_with_history(args.func, results, inp, batch)
    return SampleCalls(WithTensors(args.func, args.framework), results, rng=False)(inp, batch)


@py_function.traits
def _(args: Args) -> Traits:
    return call_traits(args.parallel)


@py_function.worker
def _(args: Args) -> WorkerCall:
    return call_in_worker(WithTensors(args.func, args.framework), _results(args.func, args.Tout))


@py_function.check
def _(args: Args) -> None:
    check_timeout(args.timeout)
    check_differentiable(args, args.framework)
    try:
        framework(args.framework)
    except ModuleNotFoundError as error:
        add_notes(error, [f"in fn.py_function for {function_name(args.func)}"])
        raise


py_function.entry(entry)
_declare(py_function)
