"""Values as JSON data, and back.

User objects are saved by import path (``module:qualname``), which is checked when saving; by value, pickled, only when the
caller passes ``allow_pickle`` when saving and again when loading. Nothing is ever unpickled otherwise.
"""

import base64
from enum import Enum
from pkgutil import resolve_name
from typing import Any

import numpy as np

from pipeflow.declare import Outputs, Spec
from pipeflow.errors import function_name, optional
from pipeflow.saving.functions import find_culprit


def encode(value: Any, what: str, allow_pickle: bool) -> Any:
    """A constant of a graph as JSON data."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return {"objects": value.tolist(), "shape": list(value.shape)}
        return {
            "array": base64.b64encode(value.tobytes()).decode(),
            "dtype": value.dtype.str,
            "shape": list(value.shape),
        }
    if isinstance(value, np.dtype):
        return {"dtype": value.str if not value.hasobject else "object"}
    if isinstance(value, Enum):
        return {"value": value.value}
    if isinstance(value, np.generic):
        return {"array": base64.b64encode(value.tobytes()).decode(), "dtype": value.dtype.str, "shape": []}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, tuple):
        return {"tuple": [encode(item, what, allow_pickle) for item in value]}
    if isinstance(value, Outputs):
        specs = [[encode(part, what, False) for part in (spec.shape, spec.dtype, spec.layout)] for spec in value.specs]
        return {"outputs": specs, "names": list(value.names)}
    if isinstance(value, list):
        return [encode(item, what, allow_pickle) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: encode(item, what, allow_pickle) for key, item in value.items()}}
    if plain(value):
        return value
    path = import_path(value)
    if path is not None:
        return {"import": path}
    if allow_pickle:
        return {"pickle": base64.b64encode(_pickled(value, what)).decode()}
    raise TypeError(
        f"{what} is {function_name(value) if callable(value) else repr(value)}, which cannot be imported by name: "
        "put it at the top level of a module, or save it by value with allow_pickle=True here and when loading"
    )


def decode(data: Any, what: str, allow_pickle: bool) -> Any:
    """The constant that ``encode`` saved."""
    if isinstance(data, list):
        return [decode(item, what, allow_pickle) for item in data]
    if not isinstance(data, dict):
        return data
    if "array" in data:
        array = np.frombuffer(base64.b64decode(data["array"]), np.dtype(data["dtype"])).reshape(data["shape"])
        return array.copy()
    if "objects" in data:
        array = np.empty(data["shape"], object)
        array[...] = data["objects"]
        return array
    if "dtype" in data:
        return np.dtype(data["dtype"])
    if "value" in data:
        return data["value"]
    if "bytes" in data:
        return base64.b64decode(data["bytes"])
    if "tuple" in data:
        return tuple(decode(item, what, allow_pickle) for item in data["tuple"])
    if "dict" in data:
        return {key: decode(item, what, allow_pickle) for key, item in data["dict"].items()}
    if "outputs" in data:
        specs = [Spec(*[decode(part, what, False) for part in spec]) for spec in data["outputs"]]
        return Outputs(tuple(specs), tuple(data["names"]))
    if "import" in data:
        try:
            return resolve_name(data["import"])
        except (ImportError, AttributeError, ValueError) as error:
            raise type(error)(
                f"{what} was saved as {data['import']}, which cannot be imported here: {error}"
            ) from error
    if not allow_pickle:
        raise ValueError(
            f"{what} was saved by value; loading it runs code from the file: if you trust it, say allow_pickle=True"
        )
    return _pickler().loads(base64.b64decode(data["pickle"]))


def import_path(value: Any) -> str | None:
    """``module:qualname`` if that leads back to this very object in another process."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not module or not name or module == "__main__" or "<" in name:
        return None
    try:
        return f"{module}:{name}" if resolve_name(f"{module}:{name}") is value else None
    except (ImportError, AttributeError, ValueError):
        return None


def _pickler() -> Any:
    return optional("cloudpickle", "saving functions by value", "cloudpickle")


def _pickled(value: Any, what: str) -> bytes:
    try:
        return _pickler().dumps(value)
    except ModuleNotFoundError:
        raise
    except Exception as error:
        culprit = find_culprit(value)
        reason = f" because of {culprit}" if culprit else ""
        raise TypeError(
            f"{what} is {function_name(value) if callable(value) else repr(value)} and cannot be pickled{reason}: {error}. "
            "Create it inside the function, or pass it in as data"
        ) from error


def plain(value: Any) -> bool:
    """Whether a constant is data that can stand in a step as it is."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, Enum, np.dtype, np.number, Outputs)):
        return True
    return isinstance(value, tuple) and all(plain(item) for item in value)
