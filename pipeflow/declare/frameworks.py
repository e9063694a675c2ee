"""Array libraries whose tensors functions may be called with."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeflow.errors import nearest
from pipeflow.tensors import as_sample


@dataclass(frozen=True)
class Framework:
    """How arrays become a framework's tensors and back, for functions that are called with tensors.

    ``to_tensor(array)`` shares memory only with an array that may be written; ``to_array(tensor)`` shares it where it can
    and says no with a TypeError. ``differentiate(function, tensors, wanted)`` calls a function: its result, and
    ``back(weights)``, from the derivatives by its outputs (arrays, None for zero) to those by the wanted inputs.
    On a GPU ``from_device`` makes a tensor of an array there, ``to_device`` gives something with DLPack back, and
    ``on_stream(device_id, handle)`` is a context in which the framework works on a stream.
    ``trace(tensor)`` makes an array that keeps the tensor and its history of gradients, for frameworks whose tensors have
    one; ``recording()`` tells whether they have now. ``loading`` is what ``pipeflow.loader`` uses of it.
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
    """The framework of a name; its plugin, and with it the framework itself, is loaded by the first call."""
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
