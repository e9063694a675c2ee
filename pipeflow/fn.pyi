# Generated from the declarations by tools/generate_stubs.py: run `make docs` to renew it.

"""The functional API: every operator of the registry by its name."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from pipeflow.graph import DataNode
from pipeflow.tensors import TensorListCPU

# What goes in comes out: a node inside a pipeline definition, arrays at once everywhere else.
Data = TypeVar("Data", DataNode, TensorListCPU, np.ndarray, list[Any])

def copy(
    data: Data,
    /,
    *,
    name: str | None = None,
    device: Literal["cpu", "gpu", "mixed"] | None = None,
    preserve: bool | None = None,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
) -> Data:
    """Copies the data; with ``device="gpu"`` to the GPU."""

def external_source(
    *,
    num_outputs: int | None = None,
    batch: bool | None = None,
    cycle: Literal['no', 'quiet', 'raise', False, True] | None = None,
    dtype: Any = None,
    ndim: Any = None,
    layout: Any = None,
    repeat_last: bool = False,
    batch_info: bool = False,
    no_copy: bool = False,
    blocking: bool = False,
    parallel: bool = False,
    prefetch_queue_depth: int = 1,
    name: str | None = None,
    device: Literal["cpu", "gpu", "mixed"] | None = None,
    preserve: bool | None = None,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    seed: int | None = None,
) -> Any:
    """Data from outside: a callable, an iterable, a generator function, or (without ``source``) from ``feed_input``."""

def get_property(
    data: Data,
    /,
    *,
    key: str,
    name: str | None = None,
    device: Literal["cpu", "gpu", "mixed"] | None = None,
    preserve: bool | None = None,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
) -> Data:
    """A property of each sample, "layout" or "source_info", as the bytes of its text."""

def python_function(
    *inputs: DataNode | ArrayLike,
    function: Callable[..., Any],
    num_outputs: int = 1,
    batch_processing: bool = False,
    output_layouts: Any = None,
    parallel: Literal['serial', 'threads'] = 'serial',
    name: str | None = None,
    device: Literal["cpu", "gpu", "mixed"] | None = None,
    preserve: bool | None = None,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    seed: int | None = None,
) -> Any:
    """Calls a Python function with NumPy arrays, for each sample or (``batch_processing``) once for the batch."""

def shapes(
    data: Data,
    /,
    *,
    dtype: DTypeLike = ...,
    name: str | None = None,
    device: Literal["cpu", "gpu", "mixed"] | None = None,
    preserve: bool | None = None,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
) -> Data:
    """The extents of each sample."""

class random:
    @staticmethod
    def beta(
        shape_like: DataNode | ArrayLike | None = None,
        /,
        *,
        alpha: float | DataNode = 1.0,
        beta: float | DataNode = 1.0,
        dtype: DTypeLike | None = None,
        shape: int | Sequence[int] | DataNode | None = None,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        seed: int | None = None,
    ) -> Any:
        """Numbers in [0, 1] of the beta distribution."""

    @staticmethod
    def choice(
        a: Data,
        shape_like: DataNode | ArrayLike | None = None,
        /,
        *,
        p: float | Sequence[float] | DataNode | None = None,
        shape: int | Sequence[int] | DataNode | None = None,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        seed: int | None = None,
    ) -> Data:
        """One of the elements along the first axis of ``a``, or of ``range(a)`` when ``a`` is one integer."""

    @staticmethod
    def coin_flip(
        shape_like: DataNode | ArrayLike | None = None,
        /,
        *,
        probability: float | DataNode = 0.5,
        dtype: DTypeLike | None = None,
        shape: int | Sequence[int] | DataNode | None = None,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        seed: int | None = None,
    ) -> Any:
        """1 with the given probability, else 0."""

    @staticmethod
    def normal(
        shape_like: DataNode | ArrayLike | None = None,
        /,
        *,
        mean: float | DataNode = 0.0,
        stddev: float | DataNode = 1.0,
        dtype: DTypeLike | None = None,
        shape: int | Sequence[int] | DataNode | None = None,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        seed: int | None = None,
    ) -> Any:
        """Normally distributed numbers; integer types are rounded and limited to their range."""

    @staticmethod
    def uniform(
        shape_like: DataNode | ArrayLike | None = None,
        /,
        *,
        range: float | Sequence[float] | DataNode = (-1.0, 1.0),
        values: float | Sequence[float] | DataNode | None = None,
        dtype: DTypeLike | None = None,
        shape: int | Sequence[int] | DataNode | None = None,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        seed: int | None = None,
    ) -> Any:
        """Uniformly distributed numbers in ``[low, high)``, or one of ``values``; integer types are rounded."""
