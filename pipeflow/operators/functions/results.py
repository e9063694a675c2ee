"""The results of a user's function as arrays: split into outputs, and checked against the declaration."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pipeflow import types
from pipeflow.declare import Outputs, Spec
from pipeflow.errors import WrongResult, WrongShape, count_of, function_name
from pipeflow.tensors import as_sample, has_mask


class Results:
    """The declaration of the results: the number of outputs and, if given, their names, types, shapes and layouts."""

    def __init__(
        self, function: Callable[..., Any], num_outputs: int, promised: Outputs | None = None, argument: str = "outputs"
    ) -> None:
        self.function = function
        self.declared = ""
        if promised is not None:
            count = len(promised.specs)
            self.declared = f"{argument} of {count_of(count, 'type')}" if count else f"{argument}=[]"
        self.count = num_outputs if promised is None else len(promised.specs)
        self.names = promised.names if promised is not None else ()
        self.specs = promised.specs if promised is not None else ()

    def split(self, result: Any) -> Sequence[Any]:
        """The results as a sequence with one entry for each output."""
        if self.names:
            values = by_name(result)
            if values is not None:
                return self._in_order(values)
        return split_outputs(result, self.function, self.count, self.declared)

    def array(self, value: Any, output: int) -> np.ndarray:
        """One output as an array, checked against its declaration."""
        if not self.specs:
            return result_array(value, self.function, output)
        spec = self.specs[output]
        if spec.dtype is not None and not hasattr(value, "dtype"):
            value = _as_promised(value, spec.dtype)
        array = result_array(value, self.function, output)
        self.check(array.shape, array.dtype, output)
        return array

    def check(self, shape: tuple[int, ...], dtype: np.dtype, output: int) -> None:
        """Compares one output with its declaration; the message shows both."""
        spec = self.specs[output]
        fits = spec.dtype is None or dtype == spec.dtype
        if fits and spec.shape is not None:
            fits = len(shape) == len(spec.shape) and all(want in (None, have) for want, have in zip(spec.shape, shape))
        if fits and spec.shape is None and spec.layout:
            fits = len(shape) == len(spec.layout)
        if not fits:
            wrong_type = spec.dtype is not None and dtype != spec.dtype
            kind = TypeError if wrong_type else ValueError
            name = f"output {self.names[output]!r}" if self.names else f"output {output}"
            raise kind(
                f"{name} of {function_name(self.function)} is declared as {spec} and the function returned "
                f"{Spec(shape, dtype)}"
            )

    def check_batch(self, values: Any, output: int) -> Any:
        """Compares an output of a function for whole batches with its declaration."""
        if self.specs and len(values):
            if isinstance(values, np.ndarray):
                self.check(values.shape[1:], values.dtype, output)
            else:
                for sample in values:
                    self.check(sample.shape, sample.dtype, output)
        return values

    def _in_order(self, values: Mapping[str, Any]) -> list[Any]:
        missing = [name for name in self.names if name not in values]
        unknown = [name for name in values if name not in self.names]
        if missing or unknown:
            raise WrongShape(
                f"{function_name(self.function)} returned the fields {', '.join(map(str, values))}; declared are "
                f"{', '.join(self.names)}"
            )
        return [values[name] for name in self.names]


def split_outputs(result: Any, function: Callable[..., Any], num_outputs: int, declared: str = "") -> Sequence[Any]:
    """The results of one call, one entry for each output; ``declared`` tells in messages where their number is declared."""
    declared = declared or f"num_outputs={num_outputs}"
    if num_outputs == 0:
        if result is not None:
            raise WrongResult(
                f"{function_name(function)} is declared with {declared} and returned {shown(result)}; "
                "return nothing, or declare the outputs"
            )
        return ()
    if num_outputs == 1:
        lone = (
            isinstance(result, (tuple, list)) and len(result) == 1 and not isinstance(result[0], (int, float, complex))
        )
        if isinstance(result, tuple) and len(result) != 1:
            raise WrongShape(
                f"{function_name(function)} returned {count_of(len(result), 'output')}, declared is {declared}"
            )
        return (result[0],) if lone or isinstance(result, tuple) else (result,)
    if not isinstance(result, (tuple, list)):
        raise WrongResult(
            f"{function_name(function)} is declared with {declared} and must return a tuple or list of "
            f"{num_outputs}, got {shown(result)}"
        )
    if len(result) != num_outputs:
        raise WrongShape(
            f"{function_name(function)} returned {count_of(len(result), 'output')}, declared is {declared}"
        )
    return result


def result_array(value: Any, function: Callable[..., Any], output: int) -> np.ndarray:
    """One result as an array, or an error that names the result."""
    if isinstance(value, np.ndarray) and value.dtype in types.NUMBERS and not has_mask(value):
        return value
    if value is None:
        raise WrongResult(f"{output_of(function, output)} returned None instead of an array")
    if hasattr(value, "__cuda_array_interface__"):
        raise WrongResult(f"{output_of(function, output)} returned {shown(value)} on the GPU in a CPU operator")
    try:
        array = as_sample(value)
    except (TypeError, ValueError, BufferError) as error:
        wrong = "" if isinstance(value, np.ndarray) else ", which is not an array"
        raise WrongResult(f"{output_of(function, output)} returned {shown(value)}{wrong}: {error}") from error
    if array.dtype == object and not all(isinstance(item, (str, bytes)) for item in array.flat):
        raise WrongResult(f"{output_of(function, output)} returned {shown(value)}, which is not an array of numbers")
    if array.dtype.kind in "US":
        return array.astype(object)
    try:
        return array.astype(types.as_dtype(array.dtype), copy=False)
    except TypeError as error:
        raise WrongResult(f"{output_of(function, output)} returned {shown(value)}: {error}") from None


def check_like_first(
    array: np.ndarray, first: np.ndarray, function: Callable[..., Any], output: int, sample: int
) -> None:
    """Raises an error unless all samples of a batch have one type and one number of axes."""
    if array.dtype != first.dtype:
        raise WrongResult(
            f"{output_of(function, output)} has different types in one batch: {first.dtype} for the first sample and "
            f"{array.dtype} for sample {sample}"
        )
    if array.ndim != first.ndim:
        raise WrongShape(
            f"{output_of(function, output)} has different numbers of axes in one batch: {first.shape} for the first sample "
            f"and {array.shape} for sample {sample}"
        )


def by_name(result: Any) -> Mapping[str, Any] | None:
    """The fields of a dict, dataclass or named tuple; None for anything else."""
    if isinstance(result, Mapping):
        return result
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return dict(zip(result._fields, result))
    return None


def _as_promised(value: Any, dtype: np.dtype) -> Any:
    """Converts Python numbers to the declared type if it can hold them: an int becomes a float, but a float does not become an
    int.
    """
    if isinstance(value, (bool, int, float, complex, list, tuple)) and dtype.kind != "O":
        array = np.asarray(value)
        if array.dtype.kind in "biufc" and np.can_cast(array.dtype, dtype, "same_kind"):
            return array.astype(dtype)
        if array.dtype.kind == "i" and dtype.kind == "u" and array.size and array.min() >= 0:
            return array.astype(dtype)
    return value


def output_of(function: Callable[..., Any], output: int) -> str:
    """The name of an output in messages."""
    return f"output {output} of {function_name(function)}"


def shown(value: Any) -> str:
    """A value in messages."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} {value.shape}"
    text = repr(value)
    return f"{type(value).__name__} {text[:60]}{'...' if len(text) > 60 else ''}"
