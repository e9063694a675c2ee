"""Functions of the user as CUDA kernels, compiled by numba-cuda."""

import functools
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numba
from numba import cuda


def require() -> None:
    """Raises an error if numba-cuda is missing: the CUDA part of Numba itself is old and does not support recent GPUs."""
    if find_spec("numba_cuda") is None:
        raise ModuleNotFoundError(
            'numba-cuda is needed for fn.numba_function(device="gpu") and is not installed: pip install "numba-cuda[cu13]"',
            name="numba_cuda",
        )


@functools.lru_cache(maxsize=256)
def launcher(
    function: Callable[..., Any],
    outs: tuple[Any, ...],
    ins: tuple[Any, ...],
    blocks: Sequence[int],
    threads: Sequence[int],
) -> Callable[[int, Sequence[Any]], None]:
    """Returns a function ``(stream, arrays)`` that launches a kernel compiled for these types and numbers of axes."""
    kinds = [numba.types.Array(numba.from_dtype(dtype), ndim, "C") for dtype, ndim in (*outs, *ins)]
    kernel = cuda.jit(numba.types.void(*kinds))(getattr(function, "py_func", function))

    def launch(stream: int, arrays: Sequence[Any]) -> None:
        views = [cuda.as_cuda_array(array, sync=False) for array in arrays]
        kernel[tuple(blocks), tuple(threads), cuda.external_stream(stream)](*views)

    return launch
