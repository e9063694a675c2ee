"""The conversion between arrays and the tensors of other libraries, such as torch and JAX."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeflow.errors import nearest
from pipeflow.tensors import as_sample


@dataclass(frozen=True)
class Framework:
    """Converts arrays to a framework's tensors and back, for functions that are called with tensors.

    ``to_tensor(array)`` shares memory only with an array that may be written. ``to_array(tensor)`` shares memory if it can, and
    raises TypeError if no array can be made. ``differentiate(function, tensors, wanted)`` calls a function and returns its
    result and a function ``back(weights)``. The weights are the derivatives with respect to the outputs (arrays, None for zero);
    ``back`` returns the derivatives with respect to the wanted inputs. On a GPU ``from_device`` makes a tensor of a device
    array, ``to_device`` returns an object with DLPack, and ``on_stream(device_id, handle)`` is a context in which the framework
    works on a stream. ``trace(tensor)`` makes an array that keeps the tensor and its history of gradients, for frameworks whose
    tensors have one; ``recording()`` is True if they have one now. ``pipeflow.loader`` uses ``loading``.
    """

    name: str
    to_tensor: Callable[[np.ndarray], Any]
    to_array: Callable[[Any], np.ndarray]
    is_tensor: Callable[[Any], bool]
    differentiate: Callable[[Callable[..., Any], Sequence[Any], Sequence[int]], tuple[Any, Any]] | None = None
    from_device: Callable[[Any], Any] | None = None
    to_device: Callable[[Any], Any] = lambda tensor: tensor
    on_stream: Callable[[int, int], Any] | None = None
    trace: Callable[[Any], Any] | None = None
    recording: Callable[[], bool] | None = None
    loading: Any = None


frameworks: dict[str, Framework] = {
    "numpy": Framework("numpy", lambda array: array, as_sample, lambda value: isinstance(value, np.ndarray))
}
FRAMEWORK_MODULES = {"torch": "pipeflow.plugin.pytorch", "jax": "pipeflow.plugin.jax"}


def framework(name: str) -> Framework:
    """The framework with this name. The first call loads its plugin, which loads the framework itself."""
    if name not in frameworks:
        if name not in FRAMEWORK_MODULES:
            known = ", ".join(["numpy", *FRAMEWORK_MODULES])
            raise ValueError(f"there is no framework {name!r}{nearest(name, FRAMEWORK_MODULES)}; there are {known}")
        try:
            importlib.import_module(FRAMEWORK_MODULES[name])
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != name:
                raise
            raise ModuleNotFoundError(
                f"{name} is needed here and is not installed: pip install {name}, or name another framework",
                name=error.name,
            ) from error
    return frameworks[name]
