"""Compiles functions of the user with Numba: they run without the GIL, and are kept on disk if their module can be imported
again.
"""

import dis
import hashlib
import linecache
import operator
import os
import re
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property, lru_cache, partial
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.core import errors, ir
from numba.core.dispatcher import Dispatcher
from numba.np import numpy_support

from pipeflow.kernels import cpu as kernels
from pipeflow.kernels.cpu.kernel_files import cache_class, keep
from pipeflow.kernels.kept_code import folder_for

FOLDER = "functions"
# Modules whose functions change only with their version.
_LIBRARIES = {*sys.stdlib_module_names, "numpy", "numba", "scipy", "pipeflow"}


class CompileError(TypeError):
    """A function that Numba cannot compile; the message has the user's line and Numba's reason."""


def dispatcher(function: Callable[..., Any], signature: Any = None) -> Dispatcher:
    """The function as Numba's dispatcher; a dispatcher is returned unchanged."""
    if isinstance(function, Dispatcher):
        return function
    compiled = numba.njit(nogil=True)(function)
    kept_on_disk(compiled, function, digest(function))
    if signature is not None:
        compiled.compile(signature)
        compiled.disable_compile()
    return compiled


def signature_of(compiled: Dispatcher, kinds: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """The types of all parameters of a function, in their order, for arguments of these types."""
    return tuple(compiled._compiler.fold_argument_types(tuple(kinds), named)[1])  # type: ignore[attr-defined]


def kept_on_disk(compiled: Dispatcher, function: Callable[..., Any], stamp: str) -> None:
    """Keeps the code that a dispatcher compiles in files with this stamp, if the function can be imported again."""
    # Kept code names the module of the function: if the module cannot be imported again, the code could not be loaded.
    again = getattr(function, "__module__", None) in sys.modules and os.path.isfile(function.__code__.co_filename)
    if again and folder_for(FOLDER) is not None and not _is_recursive(function, ()):
        keep(compiled, cache_class(lambda: stamp, lambda: FOLDER))


def _is_recursive(function: Any, callers: tuple[Any, ...]) -> bool:
    """True if a function calls itself, or one of its helpers does: code like this crashes after Numba has loaded it again."""
    function = getattr(function, "py_func", function)
    if not isinstance(function, FunctionType) or (function.__module__ or "").partition(".")[0] in _LIBRARIES:
        return False
    if function in callers:
        return True
    names = {item.argval for item in dis.get_instructions(function.__code__) if item.opname == "LOAD_GLOBAL"}
    found = [function.__globals__[name] for name in sorted(names) if name in function.__globals__]
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # a cell may be empty
            found.append(cell.cell_contents)
    return any(_is_recursive(one, (*callers, function)) for one in found)


def digest(function: Callable[..., Any]) -> str:
    """A digest of the code of a function, and of the functions and constants that it uses, also in other modules."""
    sha, seen = hashlib.sha256(f"{numba.__version__} {sys.version}".encode()), set[int]()

    def add_code(code: CodeType, variables: Mapping[str, Any]) -> None:
        sha.update(code.co_code + repr((code.co_names, code.co_varnames, code.co_freevars)).encode())
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                add_code(constant, variables)
            else:
                sha.update(repr(constant).encode())
        for name in code.co_names:
            if name in variables:
                add(variables[name], code.co_names)

    def add(value: Any, names: Sequence[str]) -> None:
        value = getattr(value, "py_func", value)
        if isinstance(value, np.ndarray):
            sha.update(repr((value.dtype, value.shape)).encode() + value.tobytes())
        elif isinstance(value, (bool, int, float, complex, str, bytes, tuple, list, dict, type(None))):
            sha.update(repr(value).encode())
        elif id(value) not in seen:
            seen.add(id(value))
            if isinstance(value, FunctionType):
                add_code(value.__code__, value.__globals__)
                for cell in value.__closure__ or ():
                    add(cell.cell_contents, names)
            elif isinstance(value, ModuleType) and value.__name__.partition(".")[0] not in _LIBRARIES:
                for name in names:  # for helpers.scale the code has both names
                    if hasattr(value, name):
                        add(getattr(value, name), names)

    add(function, ())
    return sha.hexdigest()[:16]


class Jitted:
    """A function of plain Python that is compiled for the types of its arguments.

    Numba compiles again for every memory order, so arrays are C-contiguous. A read-only array has another type: a
    function that writes to it does not compile.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.func = function
        self._dispatcher = dispatcher(function)
        self._types: dict[Any, Any] = {}  # types of the arguments -> type of the result

    @cached_property
    def versions(self) -> Any:
        """The versions that programs of chains call."""
        return kernels.user_calls.CompiledVersions(self._dispatcher)

    def __call__(self, *arrays: np.ndarray, **named: Any) -> Any:
        values = [*map(in_order, arrays)]
        try:
            result = self._dispatcher(*values, **named)
        except Exception as error:
            if not is_of_compiler(error):
                raise
            raise compile_error(self.func, error) from None
        return result if isinstance(result, np.ndarray) else _of_type(result, self._type_of_result(values, named))

    def _type_of_result(self, values: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Numba's type of the result for such arguments."""
        find = self._dispatcher.typeof_pyval
        kinds, of_names = tuple(map(find, values)), tuple([(name, find(value)) for name, value in named.items()])
        if (kinds, of_names) not in self._types:
            made = self._dispatcher.overloads.get(signature_of(self._dispatcher, kinds, dict(of_names)))
            self._types[kinds, of_names] = made and made.signature.return_type
        return self._types[kinds, of_names]


def _of_type(result: Any, kind: Any) -> Any:
    """A result of compiled code with the types that its numbers have there: Numba makes Python's numbers of them."""
    if isinstance(kind, numba.types.BaseTuple) and type(result) is tuple:
        return tuple([_of_type(item, part) for item, part in zip(result, kind)])
    if isinstance(kind, (numba.types.Integer, numba.types.Float)) and isinstance(result, (int, float)):
        return numpy_support.as_dtype(kind).type(result)
    return result


def in_order(value: Any) -> Any:
    """A C-contiguous array; any other value unchanged."""
    return value if not isinstance(value, np.ndarray) or value.flags.c_contiguous else np.ascontiguousarray(value)


@lru_cache(maxsize=256)
def jitted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The compiled form of a function, made once."""
    if isinstance(function, partial):
        return partial(jitted(function.func), *function.args, **function.keywords)
    return Jitted(function)


@cache
def array_type(dtype: np.dtype, ndim: int, readonly: bool) -> Any:
    """Numba's type of a C-contiguous array."""
    return numba.types.Array(numba.from_dtype(dtype), ndim, "C", readonly=readonly)


@lru_cache(maxsize=256)
def with_types(
    function: Callable[..., Any],
    outputs: tuple[tuple[np.dtype, int], ...],
    inputs: tuple[tuple[np.dtype, int], ...],
    lists: bool,
) -> Callable[..., Any]:
    """``function(*outputs, *inputs)`` compiled for these types: arrays, of which the inputs are read-only, or lists of arrays."""
    kinds = [array_type(dtype, ndim, False) for dtype, ndim in outputs]
    kinds += [array_type(dtype, ndim, not lists) for dtype, ndim in inputs]
    if lists:
        kinds = [numba.types.ListType(kind) for kind in kinds]
    if isinstance(function, Dispatcher):
        return function
    try:
        return dispatcher(function, tuple(kinds))
    except Exception as error:
        if not is_of_compiler(error):
            raise
        raise compile_error(function, error) from None


def list_of(arrays: Sequence[np.ndarray]) -> Any:
    """Arrays of one kind as the list that compiled functions take."""
    first = arrays[0]
    result = numba.typed.List.empty_list(array_type(first.dtype, first.ndim, False), len(arrays))
    for array in arrays:
        result.append(array)
    return result


_WRITES = re.compile(r">>> (setitem|i\w+)\((readonly|Array\([^)]*readonly)")
_LINE = re.compile(r'File "[^"]*?([^"/]+)", line (\d+)')
_NAME = re.compile(r"name '(\w+)' is not defined")
_CHANGES = re.compile(r"x (\S+)= y with ")


_IN_PLACE: dict[Any, str] = {operator.iadd: "+", operator.isub: "-", operator.imul: "*", operator.itruediv: "/"}
_IN_PLACE |= {operator.ifloordiv: "//", operator.imod: "%", operator.ipow: "**"}


def is_of_compiler(error: Exception) -> bool:
    """True for an error of Numba's compiler, also for one that it does not expect; False for one of a function."""
    if isinstance(error, errors.NumbaError):
        return True
    frame = _last_frame(error)
    return frame is not None and str(frame.f_globals.get("__name__", "")).startswith("numba.")


def _last_frame(error: Exception) -> FrameType | None:
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last and last.tb_frame


def _unexpected(error: Exception) -> str:
    """The reason of an error that Numba does not expect. It fails in this way if x *= 2 would change the type of an array."""
    frame = _last_frame(error)
    found = {} if frame is None else frame.f_locals
    owner = found.get("self")
    key = (
        None if isinstance(owner, ir.Inst) else getattr(owner, "key", None)
    )  # an instruction has other errors for a name
    sign = _IN_PLACE.get(key) if isinstance(key, Hashable) else None
    if sign:
        kinds = " and ".join(str(getattr(one, "dtype", one)) for one in found.get("args", ())[:2])
        return f"x {sign}= y with {kinds} would change the type of the array: write x[:] = x {sign} y"
    return f"its compiler failed with {type(error).__name__}: {error}"


def compile_error(function: Callable[..., Any], error: Exception) -> CompileError:
    """A short form of Numba's error: the reason and the user's line; the whole error is a note."""
    whole = text = re.sub(r"\x1b\[\d+m", "", str(error))
    if not isinstance(error, errors.NumbaError):
        whole, text = f"{type(error).__name__}: {whole}", _unexpected(error)
    lines = [line.strip() for line in text.splitlines()]
    told = [line for line in lines if line and not line.startswith(("Failed in nopython", "File ", "During", ">>>"))]
    call = next((line.removeprefix(">>> ") for line in lines if line.startswith(">>>")), "")
    reason = f"{told[0]} {call}".strip() if told else text
    if told and call and told[0].startswith("No implementation of function Function("):
        name, _, kinds = call.partition("(")
        reason = f"no compiled version of {name} for ({kinds}"
    if _WRITES.search(text):
        reason = f"it writes to an input that is read-only: {call}"
    target = getattr(function, "py_func", function)
    code = getattr(target, "__code__", None)
    where = f", at {code.co_filename}:{_line(code, text)}" if code is not None else ""
    name = getattr(target, "__qualname__", type(function).__qualname__)
    result = CompileError(f"{name} cannot be compiled by Numba{where}: {reason}")
    result.add_note("Numba's whole message:\n" + whole)
    return result


def _line(code: Any, text: str) -> int:
    """The user's line in Numba's error, or else that of the function."""
    file = os.path.basename(code.co_filename)
    named = [int(line) for name, line in _LINE.findall(text) if name == file]
    if named:
        return named[-1]
    unknown, in_place = _NAME.search(text), _CHANGES.match(text)
    wanted = rf"\b{unknown[1]}\b" if unknown else rf"\w *{re.escape(in_place[1])}=" if in_place else ""
    if wanted:
        for line in range(code.co_firstlineno, code.co_firstlineno + 200):
            if re.search(wanted, linecache.getline(code.co_filename, line)):
                return line
    return int(code.co_firstlineno)
