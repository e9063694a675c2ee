"""Reads the code of a function, without a call, to decide if the function keeps state.

A function without state gives the same results in any order and on any thread. The check accepts only constants, arrays that
nothing writes to, the functions of LIBRARIES, plain functions of the same kind, and the builtins of BUILTINS. It refuses
everything else, and names the first thing that it does not know.
"""

import builtins
import dis
import gc
import inspect
import random
import sys
import time
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from functools import cache, partial
from itertools import chain, takewhile
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from pipeflow.operators.functions.own_names import changed_name, is_in_place, own_names


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Modules whose functions keep no state, and those of their parts that keep state.
LIBRARIES = _words(
    "numpy math cmath operator cv2 scipy bisect itertools hashlib _hashlib _blake2 zlib binascii struct _struct"
)
STATEFUL = (
    "numpy.random",
    *(
        "scipy.io",
        "scipy.datasets",
        "scipy.fft.set_",
        "scipy.fft.register_",
        "scipy.fft._backend",
        "scipy.special.seterr",
    ),
    # Many functions of these draw numbers from NumPy's own generator if they get no other.
    *(
        "scipy.stats",
        "scipy.sparse",
        "scipy.cluster",
        "scipy.optimize",
        "scipy.spatial.transform",
        "scipy.linalg.interpolative",
    ),
    "hashlib.file_digest",
    "cv2.setRNGSeed",
    "cv2.randu",
    "cv2.randn",
    "cv2.randShuffle",
    "cv2.theRNG",
    *(
        "cv2.kmeans",
        "cv2.grabCut",
        "cv2.flann",
        "cv2.FlannBasedMatcher",
        "cv2.ml",
        "cv2.ocl",
        "cv2.utils",
        "cv2.setLogLevel",
    ),
    "cv2.setNumThreads",
    "cv2.setUseOptimized",
    "cv2.VideoCapture",
    "cv2.VideoWriter",
    "cv2.FileStorage",
    "cv2.imshow",
    "cv2.waitKey",
    "cv2.namedWindow",
    "numpy.seterr",
    "numpy.setbufsize",
    "numpy.set_printoptions",
)
_FILES = _words(
    "save savez savez_compressed savetxt tofile memmap open_memmap load fromfile loadtxt genfromtxt fromregex DataSource imwrite "
    "imwritemulti imread imreadmulti imcount"
)
BUILTINS = _words(
    "abs all any bool bytes callable chr complex dict divmod enumerate filter float frozenset hasattr int isinstance iter len "
    "list map max min next ord pow range repr reversed round set slice sorted str sum tuple type zip ArithmeticError "
    "AssertionError Exception IndexError KeyError OverflowError RuntimeError TypeError ValueError ZeroDivisionError"
)
HARMLESS = (time.sleep,)  # functions of other modules that keep no state
# Methods that change their object. On a local object this does no harm, but the code does not show which object it is.
_CHANGING = _words(
    "add append appendleft at byteswap clear difference_update discard extend extendleft fill insert intersection_update itemset "
    "move_to_end partition pop popitem popleft put remove resize reverse rotate send setdefault setfield sort subtract "
    "symmetric_difference_update throw update write writelines"
)
# Functions that change an argument in all calls.
_WRITERS = _words(
    "attrgetter copyto fill_diagonal nan_to_num place put put_along_axis putmask delitem setitem methodcaller iadd iand iconcat "
    "ifloordiv ilshift imatmul imod imul ior ipow irshift isub itruediv ixor insort insort_left insort_right"
)
_OUTPUTS = ("out", "output", "dst")  # parameters for an array that a function writes to
_CALLS = ("CALL", "CALL_KW", "CALL_FUNCTION", "CALL_FUNCTION_KW", "CALL_METHOD")
_CODES_WITH_STATE = _words("STORE_GLOBAL DELETE_GLOBAL STORE_ATTR DELETE_ATTR IMPORT_NAME DELETE_DEREF")
_FILLERS = ("CACHE", "EXTENDED_ARG", "PUSH_NULL")
_WRITES = {"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"}
# Exactly these types, and those of NumPy: a class that is derived from one may keep state in its methods.
_CONSTANTS = (bool, int, float, complex, str, bytes, range, slice, type(None), type(Ellipsis))


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
class FunctionState:
    """The facts about a function: the reason why it may keep state ("" if it keeps none), and the values from outside that it
    uses.
    """

    reason: str = ""
    uses: list[Use] = field(default_factory=list)
    changes: bool = False  # the code changes some object
    shared: str = ""  # the name of an object from outside that could be changed
    most_arguments: int = 0  # of all calls in the code
    output_place: int = sys.maxsize  # the lowest place of an output argument among the functions that it calls

    @property
    def changes_nothing(self) -> bool:
        """True if no call changes an object."""
        return not (self.reason or self.changes or self.most_arguments > self.output_place)

    @property
    def any_order(self) -> bool:
        """True if calls give the same results in any order and at the same time."""
        return self.changes_nothing or not (self.reason or self.shared)


def state_of(function: Callable[..., Any]) -> FunctionState:
    """The state of a function, as far as its code shows it."""
    state = FunctionState()
    reader = _CodeReader(state)
    if type(function) is partial and isinstance(function.func, FunctionType):
        for value in (*function.args, *function.keywords.values()):
            reader.judge("an argument of partial", value)
        function = function.func
    if isinstance(function, FunctionType):
        reader.read(function)
    else:
        state.reason = "it is not a plain function"
    if not state.reason:
        reader.find_writers()
    return state


def keeps_data(values: Any) -> bool:
    """True if a list or tuple has only data, and no object that could notice who reads it."""
    state = FunctionState()
    if type(values) in (list, tuple):
        _CodeReader(state).judge("an item", values)
        return not state.reason
    return False


class _CodeReader:
    """Reads the code of a function and of those that it calls."""

    def __init__(self, state: FunctionState) -> None:
        self.state = state
        self._seen: set[int] = set()
        self._shared: list[
            tuple[str, Any, Any]
        ] = []  # lists, arrays and similar objects from outside: name, object, holder

    def find_writers(self) -> None:
        """Refuses the function if the code of any function changes an object that it uses. The caller may run both."""
        found = _writer_of(self._shared) if self._shared else None
        if found is not None:
            name, writer = found
            self._refuse(f"it uses {name}, which {writer} changes")

    def read(self, function: FunctionType) -> None:
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        code = function.__code__
        if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            self._refuse("it is a generator or a coroutine")
        cells = dict(zip(code.co_freevars, function.__closure__ or ()))
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self.judge("a default", default)
        self._code(code, function.__globals__, cells)

    def _refuse(self, reason: str) -> None:
        self.state.reason = self.state.reason or reason

    def _code(self, code: CodeType, variables: dict[str, Any], cells: Mapping[str, Any]) -> None:
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._code(constant, variables, cells)
        instructions = [item for item in dis.get_instructions(code) if item.opname not in _FILLERS]
        own = own_names(code, instructions) if any(map(is_in_place, instructions)) else frozenset[str]()
        skipped = 0  # instructions: the attributes of modules
        for place, instruction in enumerate(instructions):
            name, operation = instruction.argval, instruction.opname
            if skipped:
                skipped -= 1
                continue
            if operation in _CODES_WITH_STATE:
                self._refuse(f"{operation.lower().replace('_', ' ')} {name or ''}".strip())
            elif operation in ("LOAD_ATTR", "LOAD_METHOD") and (name in _FILES or name in ("base", "setflags")):
                self._refuse(f"it uses {name}")  # a read-only array, or its base, could be written to
            elif operation in _WRITES or (
                is_in_place(instruction) and changed_name(instructions[place + 1]) not in own
            ):
                self.state.changes = True
            elif operation in _CALLS:
                self.state.most_arguments = max(self.state.most_arguments, instruction.arg or 0)
            elif operation == "CALL_FUNCTION_EX":
                self.state.most_arguments = sys.maxsize
            elif operation.startswith("STORE_DEREF") and name in cells:
                self._refuse(f"it changes {name} of the function around it")
            elif operation in ("KW_NAMES", "LOAD_CONST"):  # the names of keywords are a constant
                words = code.co_consts[instruction.arg or 0]
                self.state.changes |= isinstance(words, tuple) and any(map(_is_output, words))
            elif operation in ("LOAD_ATTR", "LOAD_METHOD"):
                self._method(name)
            elif operation in ("LOAD_GLOBAL", "LOAD_NAME"):
                skipped = self._global(name, variables, _attributes(instructions[place + 1 :]))
            elif operation in ("LOAD_DEREF", "LOAD_CLASSDEREF") and name in cells:
                skipped = self._use(cells[name], name, _attributes(instructions[place + 1 :]))

    def _method(self, name: str) -> None:
        if name in _CHANGING or name.startswith("__"):
            self.state.changes = True
        elif callable(getattr(np.ndarray, name, None)):
            self._calls(getattr(np.ndarray, name), "numpy", 1)
        elif hasattr(np.ufunc, name):
            self._calls(getattr(np.ufunc, name), "numpy", 1)

    def _calls(self, function: Callable[..., Any], library: str, bound: int = 0) -> None:
        self.state.output_place = min(self.state.output_place, _output_place(function, library) - bound)

    def _global(self, name: str, variables: dict[str, Any], attributes: list[str]) -> int:
        if name in variables:
            return self._use(variables, name, attributes)
        if name not in BUILTINS or not hasattr(builtins, name):
            self._refuse(f"it uses {name}")
        return 0

    def _use(self, holder: Any, name: str, attributes: list[str]) -> int:
        """Checks a value from outside; returns the number of attributes that lead to it through modules."""
        used = 0
        try:
            value = holder[name] if isinstance(holder, dict) else holder.cell_contents
        except ValueError:
            self._refuse(f"it uses {name}, which has no value yet")
            return used
        while isinstance(value, ModuleType) and used < len(attributes):
            holder, module, name = value.__dict__, value.__name__, attributes[used]
            used += 1
            whole = f"{module}.{name}"
            if _is_library(module) and (whole.startswith(STATEFUL) or name in _FILES):
                self._refuse(f"it uses {whole}")
                return used
            if name not in holder:
                self._refuse(f"it uses {whole}, which does not exist")
                return used
            value = holder[name]
        while used < len(attributes) and _is_frozen(value, attributes[used]):
            holder, name = vars(value), attributes[used]
            used += 1
            value = holder[name]
        if isinstance(value, FunctionType) and not _library_of(value) and attributes[used:]:
            self._refuse(f"it uses an attribute of {name}")
        if type(value) in (list, dict, set, np.ndarray):
            self._shared.append((name, value, holder))
        if not _is_library(holder.get("__name__", "") if isinstance(holder, dict) else ""):
            self.state.uses.append(Use(holder, name, value))
        self.judge(name, value, holder.get("__name__", "") if used else "")
        return used

    def judge(self, name: str, value: Any, module: str = "") -> None:
        """Refuses a value from outside, or reads it if it is a function. `module` is the module where the code
        found it, or "".
        """
        library = _library_of(value) or (
            module if _is_library(module) and isinstance(value, BuiltinFunctionType) else ""
        )
        if type(value) in _CONSTANTS or isinstance(value, np.dtype):
            return
        if isinstance(value, np.generic) and type(value).__module__ == "numpy":
            if isinstance(value, np.void):  # its fields can be written to
                self.state.shared = self.state.shared or name
        elif type(value) in (tuple, frozenset) or _is_named_tuple(value):
            for item in value:
                self.judge(name, item)
        elif type(value) in (np.ndarray, np.memmap):
            if value.dtype.hasobject:
                self._refuse(f"it uses {name}, an array of objects")
            elif value.flags.writeable:
                self.state.shared = self.state.shared or name
        elif type(value) in (list, dict, set):
            self.state.shared = self.state.shared or name
            for item in value.values() if isinstance(value, dict) else value:
                self.judge(name, item)
        elif library:
            home = f"{library}.{getattr(value, '__name__', '')}"
            if home.startswith(STATEFUL) or getattr(value, "__name__", "") in _FILES:
                self._refuse(f"it uses {home}")
            self._calls(value, library)
        elif isinstance(value, FunctionType):
            self.read(value)
        elif not any(known is value for known in (*HARMLESS, *(getattr(builtins, name, None) for name in BUILTINS))):
            self._refuse(f"it uses {name}, a {type(value).__name__}")


def _writer_of(shared: Sequence[tuple[str, Any, Any]]) -> tuple[str, str] | None:
    """The name of one of these objects and that of a function whose code writes to it; None if there is none.

    The objects have their holders: the variables of a module, or the cell of a function. Other functions may have an object from
    another holder, with another name.
    """
    wanted = {id(value): name for name, value, _ in shared}
    referring = [*gc.get_referrers(*[value for _, value, _ in shared]), *[holder for _, _, holder in shared]]
    holders = {id(holder): holder for holder in referring if type(holder) is CellType or _is_of_module(holder)}
    # After gc.freeze() the functions of a module are found only among its variables.
    users = [
        *gc.get_referrers(*holders.values()),
        *[value for held in holders.values() if isinstance(held, dict) for value in list(held.values())],
    ]
    closures = [user for user in users if type(user) is tuple]
    for function in chain(users, gc.get_referrers(*closures) if closures else ()):
        if type(function) is not FunctionType:
            continue
        variables, code = function.__globals__, function.__code__
        for name, value in list(variables.items()) if id(variables) in holders else ():
            if id(value) in wanted and (writer := _writer_in(code, name, "LOAD_GLOBAL")):
                return wanted[id(value)], writer
        for name, cell in zip(code.co_freevars, function.__closure__ or ()):
            if id(cell) in holders and (writer := _writer_in(code, name, "LOAD_DEREF")):
                return wanted[id(cell.cell_contents)], writer
    return None


def _is_of_module(holder: Any) -> bool:
    """True for the variables of a module."""
    return type(holder) is dict and "__name__" in holder


def _writer_in(code: CodeType, name: str, load: str) -> str:
    """The name of the function, this code or one in it, that has ``name[key] = x``, ``name[key] += x``, ``del name[key]`` or a
    call like ``name.append``, also for parts of the object; "" if there is none. ``load`` is the instruction that reads the name.
    """
    for constant in code.co_consts:
        if isinstance(constant, CodeType) and (found := _writer_in(constant, name, load)):
            return found
    if name not in (code.co_names if load == "LOAD_GLOBAL" else code.co_freevars):
        return ""
    begins: set[Any] = set()  # of this name: an expression like name["a"][1:2] has the place where it begins
    for item in dis.get_instructions(code):
        if item.opname == load and item.argval == name:
            begins.add(_place_of(item))
        elif _place_of(item) in begins and _changes(item):
            return code.co_name
    return ""


def _changes(instruction: dis.Instruction) -> bool:
    operation = instruction.opname
    return operation in _WRITES or (operation in ("LOAD_ATTR", "LOAD_METHOD") and instruction.argval in _CHANGING)


def _place_of(instruction: dis.Instruction) -> tuple[Any, Any]:
    """The line and the column where an expression begins; None twice for code that is kept without them."""
    place = instruction.positions
    return (place.lineno, place.col_offset) if place is not None else (None, None)


def _attributes(instructions: Sequence[dis.Instruction]) -> list[str]:
    """The names of ``.a.b.c`` after a name."""
    loads = takewhile(lambda item: item.opname in ("LOAD_ATTR", "LOAD_METHOD"), instructions)
    return [item.argval for item in loads]


def _is_named_tuple(value: Any) -> bool:
    """True for a tuple with names, whose class has nothing else."""
    kind = type(value)
    if kind.__bases__ != (tuple,) or not hasattr(kind, "_fields"):
        return False
    plain = vars(namedtuple("plain", kind._fields))
    return all(name in plain or name in ("__annotations__", "__orig_bases__") for name in vars(kind))


def _is_frozen(value: Any, name: str) -> bool:
    """True if an object is a frozen dataclass with this field, which is read without code of the user."""
    kind = type(value)
    return (
        is_dataclass(kind)
        and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
        and kind.__getattribute__ is object.__getattribute__
        and name in getattr(value, "__dict__", ())
        and not hasattr(getattr(kind, name, None), "__get__")
    )


@cache
def _output_place(function: Callable[..., Any], library: str) -> int:
    """The place of the first argument that a call may write to; beyond all arguments if there is none."""
    if getattr(function, "__name__", "") in _WRITERS or library.startswith("cv2"):
        return 0
    if isinstance(function, np.ufunc):
        return function.nin
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return sys.maxsize if isinstance(function, type) else 1
    places = [place for place, parameter in enumerate(parameters) if _is_output(parameter.name)]
    return min(places, default=sys.maxsize)


def _is_output(parameter: object) -> bool:
    return parameter in _OUTPUTS or (isinstance(parameter, str) and parameter.startswith("overwrite"))


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
    dispatched |= type(value).__module__ == "uarray"  # those of scipy.fft
    return module or "numpy" if known or dispatched else ""
