"""Sends user functions to workers by value; an error names the variable that cannot be sent."""

import functools
import inspect
import io
import pickle
import warnings
from collections import ChainMap
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, ClassVar

from pipeflow.errors import function_name

try:
    import cloudpickle
except ModuleNotFoundError:
    cloudpickle = None

_NO_FILE = "<dynamic-code>"
LARGE = 16 << 20  # a pickled function larger than this is probably a mistake
_DEPTH = 3
_copied = False  # True in a copy of the program: its script is imported, so its classes are known by their names

if cloudpickle is not None:

    def _code(code: CodeType) -> tuple[Any, ...]:
        """A code object with the name of its file."""
        kind, parts = cloudpickle.Pickler.dispatch_table[CodeType](code)
        return kind, tuple([code.co_filename if type(part) is str and part == _NO_FILE else part for part in parts])

    class ByValue(cloudpickle.Pickler):
        """Pickles functions by value with the names of their files, which errors and tracebacks need.

        cloudpickle 3.1.3 leaves them out.
        """

        dispatch_table: ClassVar[Any] = ChainMap({CodeType: _code}, cloudpickle.Pickler.dispatch_table)


def in_copy() -> None:
    """Called in a process that began as a copy of the program: what it sends back are objects of the classes of the program."""
    global _copied
    _copied = True


def require_cloudpickle() -> None:
    """Raises an error that says what to install if functions cannot be sent by value."""
    if cloudpickle is None:
        raise ModuleNotFoundError(
            "worker processes need cloudpickle, which is not installed: pip install cloudpickle", name="cloudpickle"
        )


def by_value(value: Any) -> bytes:
    """Pickles a value, with the functions and classes that another process cannot import."""
    require_cloudpickle()
    file = io.BytesIO()
    ByValue(file).dump(value)
    return file.getvalue()


def dumps_value(value: Any) -> bytes:
    """Pickles data. Classes and functions of the user's script are pickled by value: a worker that is no copy of the program does
    not import that script.
    """
    try:
        data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception:
        if cloudpickle is None:
            raise
        return by_value(value)
    return by_value(value) if _by_value(data) else data


def dumps_with_holes(value: Any, hole: Callable[[Any], Any]) -> bytes:
    """Pickles like `dumps_value`. If `hole(object)` is not None, that value is pickled in place of the object."""

    def dump(kind: type) -> bytes:
        file = io.BytesIO()
        pickler = _with_holes(kind)(file, pickle.HIGHEST_PROTOCOL)
        pickler.hole = hole
        pickler.dump(value)
        return file.getvalue()

    try:
        data = dump(pickle.Pickler)
    except Exception:
        if cloudpickle is None:
            raise
        return dump(ByValue)
    return dump(ByValue) if _by_value(data) else data


def _by_value(data: bytes) -> bool:
    return b"__main__" in data and cloudpickle is not None and not _copied


def loads_with_holes(data: bytes, fill: Callable[[Any], Any]) -> Any:
    """The value that `dumps_with_holes` pickled in this program or a worker; `fill(value)` returns the object for a hole."""
    unpickler = _Filling(io.BytesIO(data))
    unpickler.fill = fill
    return unpickler.load()


# All calls share one class. A class is part of a reference cycle, so one for each call would keep `hole` and `fill`, and the
# arrays that they refer to, until the next garbage collection.


@functools.cache
def _with_holes(kind: type) -> Any:
    """A pickler with holes."""
    return type("Pickler", (kind,), {"persistent_id": lambda self, value: self.hole(value)})


class _Filling(pickle.Unpickler):
    fill: Callable[[Any], Any]

    def persistent_load(self, hole: Any) -> Any:
        """The object for a hole. Python 3.13 takes this method only from a class."""
        return self.fill(hole)


def dumps_function(function: Callable[..., Any]) -> bytes:
    """Pickles a callable by value; a TypeError names the variable or attribute that cannot be pickled."""
    require_cloudpickle()
    user = function
    while type(user).__module__.startswith("pipeflow."):  # the user's function is inside
        inner = next((getattr(user, name) for name in ("function", "func", "source") if hasattr(user, name)), None)
        if inner is None:
            break
        user = inner
    try:
        data = by_value(function)
    except Exception as error:
        culprit = find_culprit(user)
        raise TypeError(
            f"{function_name(user)} cannot be sent to a worker process because of "
            f"{culprit or 'something it refers to'}: {error}. Create it inside the function, pass it in as data, "
            'or use parallel="threads"'
        ) from error
    if len(data) > LARGE:
        name, size = _largest(user)
        warnings.warn(
            f"{function_name(user)} is {len(data) >> 20} MiB when sent to a worker process"
            + (f", {size >> 20} MiB of it for {name}" if name else "")
            + "; load large data inside the function, or pass it in as an input",
            stacklevel=3,
        )
    return data


class _Bounded(io.RawIOBase):
    """A file that accepts at most this number of bytes."""

    def __init__(self, most: int) -> None:
        self._left = most

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self._left -= size
        if self._left < 0:
            raise OverflowError("it is larger")
        return size


def travels(function: Callable[..., Any]) -> bool:
    """True if a callable can be sent to a worker process and is small enough; the check copies nothing large."""
    require_cloudpickle()
    try:
        ByValue(_Bounded(LARGE)).dump(function)
    except Exception:
        return False
    return True


def find_culprit(value: Any) -> str:
    """The path to the part of a callable that cannot be pickled, like ``global 'pool' (Pool)``; "" if there is none."""
    return _search(value, _DEPTH, {id(value)})


def _search(value: Any, depth: int, seen: set[int]) -> str:
    for label, part in _parts(value):
        if id(part) in seen or _pickles(part):
            continue
        deeper = _search(part, depth - 1, seen | {id(part)}) if depth else ""
        return f"{label} ({type(part).__name__})" + (f", in it {deeper}" if deeper else "")
    return ""


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The objects that a callable or object refers to, each with its description."""
    if isinstance(value, functools.partial):
        yield "the function of the partial", value.func
        yield from ((f"argument {i} of the partial", x) for i, x in enumerate(value.args))
        yield from ((f"argument {k!r} of the partial", x) for k, x in value.keywords.items())
        return
    owner = getattr(value, "__self__", None)
    if owner is not None and not inspect.ismodule(owner):
        yield "its object", owner
    inner = getattr(value, "__func__", value)
    if inspect.isfunction(inner):
        captured = inspect.getclosurevars(inner)
        yield from ((f"closure variable {k!r}", x) for k, x in captured.nonlocals.items())
        yield from ((f"global {k!r}", x) for k, x in captured.globals.items())
        yield from ((f"default {x!r}", x) for x in inner.__defaults__ or ())
    if isinstance(value, list | tuple):
        yield from ((f"item {i}", x) for i, x in enumerate(value))
    elif isinstance(value, dict):
        yield from ((f"item {k!r}", x) for k, x in value.items())
    elif not inspect.ismodule(value) and not inspect.isclass(value):
        yield from ((f"attribute {k!r}", x) for k, x in getattr(value, "__dict__", {}).items())


def _pickles(value: Any) -> bool:
    try:
        by_value(value)
    except Exception:
        return False
    return True


def _largest(value: Any) -> tuple[str, int]:
    sizes = [(label, len(by_value(part))) for label, part in _parts(value)]
    return max(sizes, key=lambda entry: entry[1], default=("", 0))
