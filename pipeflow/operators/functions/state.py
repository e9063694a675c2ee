"""Whether a function keeps state: read from its code, without a call.

A function without state gives the same results in any order and on any thread. The check knows few things and refuses all
others: constants, arrays that nothing writes to, NumPy and its like, plain functions of the same kind, and the builtins of
BUILTINS. It names the first thing that it does not know.
"""

import builtins
import dis
import inspect
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

# Modules whose functions keep no state, and the parts of them that do.
LIBRARIES = ("numpy", "math", "cmath", "operator", "cv2", "scipy", "bisect", "itertools")
STATEFUL = ("numpy.random", "scipy.io", "cv2.setRNGSeed", "cv2.randu", "cv2.randn", "cv2.randShuffle", "cv2.theRNG")
_FILES = {
    "save",
    "savez",
    "savez_compressed",
    "savetxt",
    "tofile",
    "memmap",
    "load",
    "fromfile",
    "loadtxt",
    "imwrite",
    "imread",
}
BUILTINS = {
    *[
        "abs",
        "all",
        "any",
        "bool",
        "bytes",
        "complex",
        "dict",
        "divmod",
        "enumerate",
        "filter",
        "float",
        "frozenset",
        "int",
        "isinstance",
        "len",
        "list",
        "map",
        "max",
        "min",
    ],
    *[
        "pow",
        "range",
        "reversed",
        "round",
        "set",
        "slice",
        "sorted",
        "str",
        "sum",
        "tuple",
        "zip",
        "ord",
        "chr",
        "ValueError",
        "TypeError",
        "IndexError",
        "KeyError",
    ],
    *["RuntimeError", "AssertionError", "ZeroDivisionError", "Exception", "ArithmeticError", "OverflowError"],
}
# Methods that change their object; on a local object they do no harm, but the code does not say which object it is.
_CHANGING = {
    *[
        "append",
        "extend",
        "insert",
        "remove",
        "pop",
        "clear",
        "sort",
        "reverse",
        "add",
        "discard",
        "update",
        "setdefault",
        "popitem",
        "fill",
        "put",
        "resize",
    ],
    *["partition", "setflags", "setfield", "itemset", "byteswap", "write", "writelines", "send", "throw"],
}
_CODES_WITH_STATE = {
    "STORE_GLOBAL",
    "DELETE_GLOBAL",
    "STORE_ATTR",
    "DELETE_ATTR",
    "IMPORT_NAME",
    "YIELD_VALUE",
    "DELETE_DEREF",
}
_WRITES = {"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"}
_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), np.generic, np.dtype)


@dataclass(frozen=True)
class Use:
    """A value from outside that a function uses: ``holder[name]``, or the content of a cell."""

    holder: Any
    name: str
    value: Any

    def is_same(self) -> bool:
        """True if the function would still find this object."""
        try:
            found = self.holder[self.name] if isinstance(self.holder, Mapping) else self.holder.cell_contents
        except (KeyError, ValueError):
            return False
        return found is self.value


@dataclass
class State:
    """What is known of a function: the reason why it may keep state ("": it keeps none), and the values it uses."""

    reason: str = ""
    uses: list[Use] = field(default_factory=list)
    changes: bool = False  # the code changes some object
    shared: str = ""  # a name of an object outside that could be changed

    @property
    def any_order(self) -> bool:
        """True if calls give the same results in any order and at the same time."""
        return not self.reason and not (self.changes and self.shared)


def state_of(function: Callable[..., Any]) -> State:
    """The state of a function, as far as its code shows it."""
    state = State()
    if not isinstance(function, FunctionType):
        state.reason = "it is not a plain function"
        return state
    _Reader(state).read(function)
    return state


class _Reader:
    """Reads the code of a function and of those that it calls."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._seen: set[int] = set()

    def read(self, function: FunctionType) -> None:
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        code = function.__code__
        if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            self._refuse("it is a generator or a coroutine")
        cells = dict(zip(code.co_freevars, function.__closure__ or ()))
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._judge("a default", default)
        self._code(code, function.__globals__, cells)

    def _refuse(self, reason: str) -> None:
        self.state.reason = self.state.reason or reason

    def _code(self, code: CodeType, variables: dict[str, Any], cells: Mapping[str, Any]) -> None:
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._code(constant, variables, cells)
        instructions = list(dis.get_instructions(code))
        for place, instruction in enumerate(instructions):
            name, operation = instruction.argval, instruction.opname
            if operation in _CODES_WITH_STATE:
                self._refuse(f"{operation.lower().replace('_', ' ')} {name or ''}".strip())
            elif operation in ("LOAD_ATTR", "LOAD_METHOD") and name in _FILES:
                self._refuse(f"it uses {name}")
            elif operation in _WRITES or (operation == "BINARY_OP" and "=" in instruction.argrepr):
                self.state.changes = True
            elif operation.startswith("STORE_DEREF") and name in cells:
                self._refuse(f"it changes {name} of the function around it")
            elif (operation in ("LOAD_ATTR", "LOAD_METHOD") and name in _CHANGING) or (
                operation in ("KW_NAMES", "LOAD_CONST") and isinstance(name, tuple) and "out" in name
            ):
                self.state.changes = True
            elif operation in ("LOAD_GLOBAL", "LOAD_NAME"):
                self._global(name, variables, _attributes(instructions[place + 1 :]))
            elif operation in ("LOAD_DEREF", "LOAD_CLASSDEREF") and name in cells:
                self._use(cells[name], name, _attributes(instructions[place + 1 :]))

    def _global(self, name: str, variables: dict[str, Any], attributes: list[str]) -> None:
        if name in variables:
            self._use(variables, name, attributes)
        elif name not in BUILTINS or not hasattr(builtins, name):
            self._refuse(f"it uses {name}")

    def _use(self, holder: Any, name: str, attributes: list[str]) -> None:
        try:
            value = holder[name] if isinstance(holder, dict) else holder.cell_contents
        except ValueError:
            return self._refuse(f"it uses {name}, which has no value yet")
        while isinstance(value, ModuleType) and attributes:
            if _is_library(value.__name__):
                whole = ".".join((value.__name__, attributes[0]))
                if whole.startswith(STATEFUL) or attributes[0] in _FILES:
                    return self._refuse(f"it uses {whole}")
            holder, name = value.__dict__, attributes.pop(0)
            if name not in holder:
                return self._refuse(f"it uses {value.__name__}.{name}, which is not there")
            value = holder[name]
        if not _is_library(holder.get("__name__", "") if isinstance(holder, dict) else ""):
            self.state.uses.append(Use(holder, name, value))
        return self._judge(name, value)

    def _judge(self, name: str, value: Any) -> None:
        """Refuses a value from outside, or reads it if it is a function."""
        if isinstance(value, _CONSTANTS):
            return
        if isinstance(value, (tuple, frozenset)):
            for item in value:
                self._judge(name, item)
        elif isinstance(value, np.ndarray):
            if value.dtype.hasobject:
                self._refuse(f"it uses {name}, an array of objects")
            elif value.flags.writeable:
                self.state.shared = self.state.shared or name
        elif isinstance(value, (list, dict, set)):
            self.state.shared = self.state.shared or name
            for item in value.values() if isinstance(value, dict) else value:
                self._judge(name, item)
        elif _library_of(value):
            home = f"{_library_of(value)}.{getattr(value, '__name__', '')}"
            if home.startswith(STATEFUL) or getattr(value, "__name__", "") in _FILES:
                self._refuse(f"it uses {home}")
        elif isinstance(value, FunctionType):
            self.read(value)
        elif not any(getattr(builtins, known, None) is value for known in BUILTINS):
            self._refuse(f"it uses {name}, a {type(value).__name__}")


def _attributes(instructions: list[dis.Instruction]) -> list[str]:
    """The names of ``.a.b.c`` after a name."""

    def found() -> Iterator[str]:
        for instruction in instructions:
            if instruction.opname in ("CACHE", "EXTENDED_ARG", "PUSH_NULL"):
                continue
            if instruction.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
                return
            yield instruction.argval

    return list(found())


def _is_library(name: str) -> bool:
    return name.partition(".")[0] in LIBRARIES


def _library_of(value: Any) -> str:
    """The library that a function or a type is from; "" for those of the user, and for methods of objects."""
    owner = getattr(value, "__self__", None)
    if owner is not None and not isinstance(owner, ModuleType):
        return "numpy.random" if isinstance(owner, (np.random.RandomState, np.random.Generator, random.Random)) else ""
    if isinstance(value, np.ufunc):
        return "numpy"
    module = getattr(value, "__module__", None)
    known = (
        isinstance(module, str) and _is_library(module) and isinstance(value, (type, FunctionType, BuiltinFunctionType))
    )
    dispatched = type(value).__name__ == "_ArrayFunctionDispatcher"  # NumPy's own functions
    return module or "numpy" if known or dispatched else ""
