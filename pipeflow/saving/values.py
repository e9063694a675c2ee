"""Values as JSON data, and back.

Data runs no code: ``decode`` returns numbers, text, bytes, arrays and containers of them. The constants of a graph may also be
functions and classes. They are saved by import path (``module:qualname``), and looked up only if the caller allows that function
or its module. They are pickled by value only if ``allow_pickle`` is set both when saving and when loading.
"""

import base64
import math
from collections.abc import Iterable
from enum import Enum
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

import numpy as np

from pipeflow.declare import Outputs, Spec
from pipeflow.errors import BadType, function_name, optional
from pipeflow.saving.functions import by_value, find_culprit


class Allowed:
    """The functions and classes that a document may name. Others are not imported.

    An entry is the function or class itself, or the name of a module. The name allows everything that is defined in that module
    and in the modules inside it. With ``everything`` the document is trusted as if it were a program: it may also hold pickled
    functions.
    """

    def __init__(self, functions: Iterable[Any] = (), everything: bool = False) -> None:
        self.everything = everything
        self.modules: set[str] = set()
        self.objects: dict[str, Any] = {}
        for entry in [functions] if isinstance(functions, str) or callable(functions) else functions:
            if isinstance(entry, str):
                self.modules.add(entry)
            elif isinstance(entry, ModuleType):
                self.modules.add(entry.__name__)
            elif import_path(entry) is not None:
                self.objects[str(import_path(entry))] = entry
            else:
                raise TypeError(
                    f"functions= takes module names, and functions that can be imported by name, got {entry!r}"
                )

    def allows(self, path: str) -> bool:
        """True if a path ``module:name`` may be looked up."""
        module = path.partition(":")[0]
        inside = any(module == name or module.startswith(f"{name}.") for name in self.modules)
        return self.everything or path in self.objects or inside

    def find(self, path: str, what: str) -> Any:
        """The object of a path. It must be defined in that module, and not only imported there."""
        if not self.allows(path):
            raise refused([path])
        if path in self.objects:
            return self.objects[path]
        try:
            found = resolve_name(path)
        except (ImportError, AttributeError, ValueError) as error:
            raise type(error)(f"{what} was saved as {path}, which cannot be imported here: {error}") from error
        if not self.everything and import_path(found) != path:
            raise refused([path])
        return found


NOTHING = Allowed()


def refused(paths: Iterable[str]) -> ValueError:
    """The error for functions that a document names and the caller has not allowed."""
    names = list(dict.fromkeys(paths))
    modules = list(dict.fromkeys(path.partition(":")[0] for path in names))
    return ValueError(
        f"this pipeline calls {', '.join(names)}, and loading it would import and run that code: allow it with "
        f"functions={modules!r} (names of modules, or the functions themselves) if you trust it"
    )


def encode(value: Any, what: str) -> Any:
    """A value as JSON data: numbers, text, bytes, arrays, and tuples, lists and dictionaries of them; else a TypeError."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return {"objects": value.ravel().tolist(), "shape": list(value.shape)}
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
        return {"tuple": [encode(item, what) for item in value]}
    if isinstance(value, Outputs):
        specs = [[encode(part, what) for part in (spec.shape, spec.dtype, spec.layout)] for spec in value.specs]
        return {"outputs": specs, "names": list(value.names)}
    if isinstance(value, list):
        return [encode(item, what) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: encode(item, what) for key, item in value.items()}}
    if plain(value):
        return value
    raise TypeError(f"{what} holds {type(value).__name__} {value!r:.100}, which is no data")


def decode(data: Any, what: str) -> Any:
    """The value that ``encode`` made. It imports nothing, and checks sizes before it allocates memory."""
    try:
        return _decoded(data, what)
    except (AttributeError, LookupError, OverflowError, TypeError) as error:
        raise ValueError(f"{what} is damaged: {data!r:.100} is no value ({error!r})") from error


def _decoded(data: Any, what: str) -> Any:
    if isinstance(data, list):
        return [_decoded(item, what) for item in data]
    if not isinstance(data, dict):
        return data
    if "array" in data:
        return _array(data, what)
    if "objects" in data:
        shape, values = _shape(data, what), data["objects"]
        if not isinstance(values, list) or len(values) != math.prod(shape) or not all(map(_atom, values)):
            raise ValueError(f"{what} is damaged: an array of objects and its shape {shape} do not fit")
        array = np.empty(len(values), object)
        array[:] = values
        return array.reshape(shape)
    if "dtype" in data:
        return np.dtype(data["dtype"])
    if "value" in data:
        return data["value"]
    if "bytes" in data:
        return base64.b64decode(data["bytes"])
    if "tuple" in data:
        return tuple(_decoded(item, what) for item in data["tuple"])
    if "dict" in data:
        return {key: _decoded(item, what) for key, item in data["dict"].items()}
    if "outputs" in data:
        specs = [Spec(*[_decoded(part, what) for part in spec]) for spec in data["outputs"]]
        return Outputs(tuple(specs), tuple(data["names"]))
    raise ValueError(f"{what} is damaged: {sorted(data)!r:.100} is no value")


def _array(data: dict[str, Any], what: str) -> np.ndarray:
    shape, dtype, content = _shape(data, what), np.dtype(data["dtype"]), base64.b64decode(data["array"])
    if dtype.hasobject or len(content) != math.prod(shape) * dtype.itemsize:
        raise ValueError(
            f"{what} is damaged: an array of {dtype} with shape {shape} does not have {len(content)} bytes"
        )
    return np.frombuffer(content, dtype).reshape(shape).copy()


def _shape(data: dict[str, Any], what: str) -> tuple[int, ...]:
    shape = data.get("shape")
    if (
        not isinstance(shape, list)
        or len(shape) > 32
        or not all(type(extent) is int and extent >= 0 for extent in shape)
    ):
        raise ValueError(f"{what} is damaged: {shape!r:.100} is no shape")
    return tuple(shape)


def _atom(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def encode_constant(value: Any, what: str, allow_pickle: bool) -> Any:
    """A constant of a graph as JSON data; a function by its import path, or with ``allow_pickle`` by value."""
    try:
        return encode(value, what)
    except TypeError:
        pass
    path = import_path(value)
    if path is not None:
        return {"import": path}
    if allow_pickle:
        return {"pickle": base64.b64encode(_pickled(value, what)).decode()}
    raise BadType(
        f"{what} is {function_name(value) if callable(value) else repr(value)}, which cannot be imported by name: "
        "put it at the top level of a module, or save it by value with allow_pickle=True here and when loading"
    )


def decode_constant(data: Any, what: str, allowed: Allowed) -> Any:
    """The constant that ``encode_constant`` saved; functions and classes only if the caller allows them."""
    if isinstance(data, dict) and isinstance(data.get("import"), str):
        return allowed.find(data["import"], what)
    if isinstance(data, dict) and "pickle" in data:
        if not allowed.everything:
            raise ValueError(
                f"{what} was saved by value; loading it runs code from the file: if you trust it, pass allow_pickle=True"
            )
        return _pickler().loads(base64.b64decode(data["pickle"]))
    return decode(data, what)


def imports_of(data: Any) -> list[str]:
    """The paths of all functions and classes that these constants name."""
    if isinstance(data, dict):
        own = [data["import"]] if isinstance(data.get("import"), str) else []
        return own + [path for item in data.values() for path in imports_of(item)]
    return [path for item in data for path in imports_of(item)] if isinstance(data, list) else []


def import_path(value: Any) -> str | None:
    """``module:qualname``, if another process finds the same object under this path; else None."""
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
        _pickler()
        return by_value(value)
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
    """True if a constant is data that a step can contain unchanged."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, Enum, np.dtype, np.number, Outputs)):
        return True
    return isinstance(value, tuple) and all(plain(item) for item in value)
