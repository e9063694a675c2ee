# Generated from the declarations by tools/generate_stubs.py: run `make docs` to renew it.

"""The class API: arguments at construction, data and per-sample arguments at the call."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from numpy.typing import ArrayLike, DTypeLike

from pipeflow.declare import OpDef
from pipeflow.graph import DataNode

class Operator:
    op: OpDef

class Copy(Operator):
    """Copies the data; with ``device="gpu"`` to the GPU."""

    def __init__(
        self,
        *,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
    ) -> None: ...
    def __call__(self, data: DataNode | ArrayLike, /, **arguments: Any) -> Any: ...

class ExternalSource(Operator):
    """Data from outside: a callable, an iterable, a generator function, or (without ``source``) from ``feed_input``."""

    def __init__(
        self,
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
    ) -> None: ...
    def __call__(self, **arguments: Any) -> Any: ...

class GetProperty(Operator):
    """A property of each sample, "layout" or "source_info", as the bytes of its text."""

    def __init__(
        self,
        *,
        key: str,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
    ) -> None: ...
    def __call__(self, data: DataNode | ArrayLike, /, **arguments: Any) -> Any: ...

class PythonFunction(Operator):
    """Calls a Python function with NumPy arrays, for each sample or (``batch_processing``) once for the batch."""

    def __init__(
        self,
        *,
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
    ) -> None: ...
    def __call__(self, *inputs: DataNode | ArrayLike, **arguments: Any) -> Any: ...

class Shapes(Operator):
    """The extents of each sample."""

    def __init__(
        self,
        *,
        dtype: DTypeLike = ...,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
    ) -> None: ...
    def __call__(self, data: DataNode | ArrayLike, /, **arguments: Any) -> Any: ...

class random:
    class Beta(Operator):
        """Numbers in [0, 1] of the beta distribution."""

        def __init__(
            self,
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
        ) -> None: ...
        def __call__(self, shape_like: DataNode | ArrayLike | None = None, /, **arguments: Any) -> Any: ...

    class Choice(Operator):
        """One of the elements along the first axis of ``a``, or of ``range(a)`` when ``a`` is one integer."""

        def __init__(
            self,
            *,
            p: float | Sequence[float] | DataNode | None = None,
            shape: int | Sequence[int] | DataNode | None = None,
            name: str | None = None,
            device: Literal["cpu", "gpu", "mixed"] | None = None,
            preserve: bool | None = None,
            bytes_per_sample_hint: int | Sequence[int] | None = None,
            seed: int | None = None,
        ) -> None: ...
        def __call__(self, a: DataNode | ArrayLike, shape_like: DataNode | ArrayLike | None = None, /, **arguments: Any) -> Any: ...

    class CoinFlip(Operator):
        """1 with the given probability, else 0."""

        def __init__(
            self,
            *,
            probability: float | DataNode = 0.5,
            dtype: DTypeLike | None = None,
            shape: int | Sequence[int] | DataNode | None = None,
            name: str | None = None,
            device: Literal["cpu", "gpu", "mixed"] | None = None,
            preserve: bool | None = None,
            bytes_per_sample_hint: int | Sequence[int] | None = None,
            seed: int | None = None,
        ) -> None: ...
        def __call__(self, shape_like: DataNode | ArrayLike | None = None, /, **arguments: Any) -> Any: ...

    class Normal(Operator):
        """Normally distributed numbers; integer types are rounded and limited to their range."""

        def __init__(
            self,
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
        ) -> None: ...
        def __call__(self, shape_like: DataNode | ArrayLike | None = None, /, **arguments: Any) -> Any: ...

    class Uniform(Operator):
        """Uniformly distributed numbers in ``[low, high)``, or one of ``values``; integer types are rounded."""

        def __init__(
            self,
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
        ) -> None: ...
        def __call__(self, shape_like: DataNode | ArrayLike | None = None, /, **arguments: Any) -> Any: ...
