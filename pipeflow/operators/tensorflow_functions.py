"""TensorFlow's three operators for Python functions, with TensorFlow's signatures: who comes from there needs no new words.

``py_func`` and ``numpy_function`` hand NumPy arrays to the function, ``py_function`` eager tensors. The results are checked
against ``Tout``. Everything else (calling, copying, errors) is that of ``fn.python_function``, which can do more.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from pipeflow.declare import Args, BatchCall, OpDef, Outputs, Sample, Traits, WorkerCall, framework, operator
from pipeflow.errors import add_notes, function_name
from pipeflow.operators.python_function import Results, SampleCalls, SampleInWorker, call_sample, check_timeout
from pipeflow.operators.tensor_functions import WithTensors


class OutputTypes(Outputs):
    """``Tout``: one type, or a list or tuple of types; a list of one gives a list of one output."""

    @classmethod
    def of(cls, value: Any) -> "OutputTypes":
        """The types as a promise about the results."""
        if isinstance(value, Outputs):  # of a saved graph
            return cls(value.specs, value.names)
        several = isinstance(value, (list, tuple))
        types = [_plain_type(item) for item in value] if several else [_plain_type(value)]
        return cls(Outputs.of(types).specs, ("",) if several else ())

    @property
    def several(self) -> bool:
        """Whether the outputs come in a list."""
        return self.names == ("",)


def _plain_type(value: Any) -> Any:
    """A type of TensorFlow or torch as NumPy's."""
    if hasattr(value, "as_numpy_dtype"):
        return value.as_numpy_dtype
    if type(value).__module__ == "torch":
        return np.dtype(str(value).removeprefix("torch."))
    return value


def _results(func: Callable[..., Any], types: OutputTypes) -> Results:
    return Results(func, 0, Outputs(types.specs))


def _declare(op: OpDef) -> None:
    op.outputs(lambda args: len(args.Tout.specs))
    op.returns_list(lambda args: args.Tout.several)
    op.infer(lambda _specs, args: args.Tout.specs)


def _in_worker(args: Args) -> WorkerCall:
    return WorkerCall(SampleInWorker(args.func, _results(args.func, args.Tout), False), function_name(args.func))


def _stateful(args: Args) -> Traits:
    if args.parallel == "processes":
        return Traits("batch", pure=not args.stateful, user_code=True, processes=True, rows=True)
    if args.stateful:
        return Traits("batch", ordered=True, pure=False, user_code=True, rows=True)
    return Traits("sample", pure=True, user_code=True)


def _batch(
    *inp: Any, func: Callable[..., Any], Tout: OutputTypes, batch: BatchCall, **_: Any
) -> list[Any]:  # fmt: skip
    return SampleCalls(func, _results(func, Tout), rng=False)(inp, batch)


@operator(
    "numpy_function",
    examples=["fn.numpy_function(lambda x: np.float32(x.max()), [image], np.float32)"],
    order="func inp Tout stateful name",
)
def numpy_function(
    *inp: Sample, func: Callable[..., Any], Tout: OutputTypes, stateful: bool = True,
    parallel: Literal["serial", "processes"] = "serial", timeout: float | None = None,
) -> Sample:  # fmt: skip
    """Calls a Python function with the NumPy arrays of each sample; its results have the types ``Tout``.

    ``inp`` is a list of nodes or constants, ``Tout`` one type or a list of types, [] for none. With ``stateful=False`` the
    function is pure: equal calls are merged, unused ones dropped, and calls may run side by side. Python numbers take the
    type ``Tout`` says, arrays must have it. ``parallel="processes"`` calls it in worker processes, several calls at once; a
    call that takes longer than ``timeout`` seconds is an error.
    """
    del stateful, parallel, timeout
    return call_sample(func, _results(func, Tout), inp, {})


@operator(
    "py_func",
    examples=["fn.py_func(lambda x: x.sum(dtype=np.float32), [image], np.float32)"],
    order="func inp Tout stateful name",
)
def py_func(
    *inp: Sample, func: Callable[..., Any], Tout: OutputTypes, stateful: bool = True,
    parallel: Literal["serial", "processes"] = "serial", timeout: float | None = None,
) -> Sample:  # fmt: skip
    """Calls a Python function with the NumPy arrays of each sample: the older name of ``fn.numpy_function``."""
    del stateful, parallel, timeout
    return call_sample(func, _results(func, Tout), inp, {})


for _op in (numpy_function, py_func):
    _op.batch(_batch)
    _op.traits(_stateful)
    _op.worker(_in_worker)
    _op.check(lambda args: check_timeout(args.timeout))
    _declare(_op)


@operator(
    "py_function",
    examples=['fn.py_function(lambda x: x.astype(np.float32), [array], np.float32, framework="numpy")'],
    order="func inp Tout name",
    pure=False,
)
def py_function(
    *inp: Sample, func: Callable[..., Any], Tout: OutputTypes, framework: str = "torch"
) -> Sample:  # fmt: skip
    """Calls a Python function with eager tensors of each sample; any Python control flow may be inside.

    The tensors are torch's, or with ``framework="jax"`` or ``"numpy"`` theirs. ``inp`` is a list of nodes or constants, ``Tout``
    one type or a list of types; with ``Tout=[]`` the function may return None. A tensor shares memory with the pipeline
    where nothing else reads it, and is a copy otherwise.
    """
    return call_sample(WithTensors(func, framework), _results(func, Tout), inp, {})


@py_function.batch
def _(
    *inp: Any, func: Callable[..., Any], Tout: OutputTypes, framework: str, batch: BatchCall
) -> Sequence[Any]:  # fmt: skip
    return SampleCalls(WithTensors(func, framework), _results(func, Tout), rng=False)(inp, batch)


@py_function.traits
def _(_args: Args) -> Traits:
    return Traits("batch", ordered=True, pure=False, user_code=True, rows=True)


@py_function.check
def _(args: Args) -> None:
    try:
        framework(args.framework)
    except ModuleNotFoundError as error:
        add_notes(error, [f"in fn.py_function for {function_name(args.func)}"])
        raise


_declare(py_function)
