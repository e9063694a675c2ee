"""The values and kinds of the variables of a function, read from the code that Numba makes of it."""

import math
from types import ModuleType
from typing import Any

from numba.core import ir
from numba.np.unsafe.ndarray import empty_inferred

from pipeflow.kernels.cpu.numpy_code import DRAWS, OF_MATH

_OF_MATH = tuple([getattr(math, name) for name in OF_MATH])
_PYTHON_NUMBERS = (len, int, float, bool, range, math.floor, math.ceil, math.sqrt, math.fabs, *_OF_MATH)
# Methods of a generator that return a Python number if they get no more than these arguments.
_NUMBERS_DRAWN = {**DRAWS, "random": 0, "uniform": 2}
_UNKNOWN = 64  # bits of an integer of which nothing is known
_SIZE = 44  # bits of extents and places: no array has more elements


class Names:
    """The variables of a function: the values that they hold, and if they hold Python numbers."""

    def __init__(self, blocks: dict[int, Any]) -> None:
        self.definitions: dict[str, Any] = {}
        self._changed = _not_only_read(blocks)
        self._uses = _uses(blocks)
        for block in blocks.values():
            for statement in block.find_insts(ir.Assign):
                name = statement.target.name
                self.definitions[name] = None if name in self.definitions else statement.value
        self.weak = {name for name, value in self.definitions.items() if value is not None}
        changed = True
        while changed:
            kept = {name for name in self.weak if self._stays_weak(self.definitions[name])}
            changed, self.weak = len(kept) < len(self.weak), kept

    def is_weak(self, variable: Any) -> bool:
        """True for a Python number, or a tuple of Python numbers."""
        return variable.name in self.weak

    def _stays_weak(self, value: Any) -> bool:
        if isinstance(value, (ir.Const, ir.Global, ir.FreeVar)):
            return is_python_number(value.value)
        if isinstance(value, ir.Var):
            return self.is_weak(value)
        if not isinstance(value, ir.Expr):
            return False
        if value.op in ("binop", "inplace_binop"):
            return self.is_weak(value.lhs) and self.is_weak(value.rhs)
        if value.op == "phi":
            return all(item is not ir.UNDEFINED and self.is_weak(item) for item in value.incoming_values)
        if value.op == "static_getitem" and (found := self._part_of_pairs(value)) is not None:
            return found
        if value.op == "static_getitem" and (item := self.setting(value) or self.item_of_tuple(value)) is not None:
            return self.is_weak(item)
        if value.op in (
            "unary",
            "cast",
            "getitem",
            "static_getitem",
            "exhaust_iter",
            "getiter",
            "iternext",
            "pair_first",
        ):
            return self.is_weak(value.value)
        if value.op == "build_tuple":
            return all(map(self.is_weak, value.items))
        if value.op == "build_map":
            return all(self.is_weak(item) for _, item in value.items)
        if value.op == "getattr":
            return value.attr in ("shape", "size", "ndim", "itemsize")
        if value.op == "call":
            called = self.value_of(value.func)
            if called in _PYTHON_NUMBERS or (called is round and len(value.args) == 1):
                return True
            if called in (abs, min, max, round):
                return all(map(self.is_weak, value.args))
            return self._draws_number(value)
        return False

    def _part_of_pairs(self, value: Any) -> bool | None:
        """True if a variable of ``for i, x in enumerate(y)`` or of a loop over ``zip(x, y)`` is a Python number; None if it is
        none of these.
        """
        wanted = ("exhaust_iter", "pair_first", "iternext", "getiter")
        found: Any = value
        for operation in wanted:
            found = self.definitions.get(found.value.name)
            while isinstance(found, ir.Var):
                found = self.definitions.get(found.name)
            if not isinstance(found, ir.Expr) or found.op != operation:
                return None
        call: Any = self.definitions.get(found.value.name)
        called = self.value_of(call.func) if isinstance(call, ir.Expr) and call.op == "call" else None
        if called not in (zip, enumerate) or call.kws:
            return None
        if called is enumerate:
            return value.index == 0 or self.is_weak(call.args[0])
        return value.index < len(call.args) and self.is_weak(call.args[value.index])

    def item_of_tuple(self, part: Any) -> Any:
        """The variable for ``pair[1]``, or for ``one, other = pair``, if the code makes the tuple; None for other items."""
        made = self.definition_of(part.value)
        if isinstance(made, ir.Expr) and made.op == "exhaust_iter":
            made = self.definition_of(made.value)
        if not isinstance(made, ir.Expr) or made.op != "build_tuple" or type(part.index) is not int:
            return None
        return made.items[part.index] if -len(made.items) <= part.index < len(made.items) else None

    def definition_of(self, variable: Any) -> Any:
        """The expression that a variable always has, perhaps by other variables; None if it is not known."""
        found = self.definitions.get(variable.name)
        while isinstance(found, ir.Var):
            found = self.definitions.get(found.name)
        return found

    def _draws_number(self, call: Any) -> bool:
        """True for ``rng.random()`` and similar calls without a size, which return Python's floats."""
        function = self.definitions.get(call.func.name)
        if not isinstance(function, ir.Expr) or function.op != "getattr" or {*dict(call.kws)} & {"size", "dtype"}:
            return False
        generator = self.definitions.get(function.value.name)
        while isinstance(generator, ir.Var):
            generator = self.definitions.get(generator.name)
        drawn = len(call.args) <= _NUMBERS_DRAWN.get(function.attr, -1)
        return drawn and isinstance(generator, ir.Arg) and generator.name == "rng"

    def is_generator(self, variable: Any) -> bool:
        """True for the argument ``rng``."""
        value = self.definition_of(variable)
        return isinstance(value, ir.Arg) and value.name == "rng"

    def is_used_once(self, variable: Any) -> bool:
        """True if the value of a variable, perhaps by way of other variables, is used in one place of the code only."""
        while self._uses.get(variable.name) == 1:
            value = self.definitions.get(variable.name)
            if not isinstance(value, ir.Var):
                return value is not None
            variable = value
        return False

    def is_none(self, variable: Any) -> bool:
        """True for a variable that is always None."""
        value = self.definition_of(variable)
        return isinstance(value, ir.Const) and value.value is None

    def setting(self, item: Any) -> Any:
        """The variable for ``settings["name"]`` if the code makes the dictionary, and only reads it: Numba's dictionaries have
        one type of numbers.
        """
        made = self.definitions.get(item.value.name)
        if not isinstance(made, ir.Expr) or made.op != "build_map" or item.value.name in self._changed:
            return None
        found = [value for name, value in made.items if self.constant(name) == item.index]
        return found[-1] if found and isinstance(item.index, str) else None

    def is_inferred(self, variable: Any) -> bool:
        """True for the array that Numba makes of a list comprehension: its type is that of the first element."""
        value = self.definitions.get(variable.name)
        if isinstance(value, ir.Var):
            return self.is_inferred(value)
        return isinstance(value, ir.Expr) and value.op == "call" and self.value_of(value.func) is empty_inferred

    def bits_of(self, variable: Any) -> int:
        """How many bits a Python number has at most; 0 for one that is a float for sure."""
        return self._bits(variable, frozenset())

    def _bits(self, variable: Any, seen: frozenset[str]) -> int:
        value = self.definitions.get(variable.name)
        if variable.name in seen or value is None:
            return _UNKNOWN
        seen |= {variable.name}
        if isinstance(value, (ir.Const, ir.Global, ir.FreeVar)):
            return _bits_of_number(value.value)
        if isinstance(value, ir.Var):
            return self._bits(value, seen)
        if not isinstance(value, ir.Expr):
            return _UNKNOWN
        if value.op == "getattr":
            return _SIZE
        if value.op in ("cast", "getitem", "static_getitem", "exhaust_iter", "getiter", "iternext", "pair_first"):
            return self._bits(value.value, seen)
        parts = value.items if value.op == "build_tuple" else value.incoming_values if value.op == "phi" else ()
        if parts:
            return max(_UNKNOWN if part is ir.UNDEFINED else self._bits(part, seen) for part in parts)
        if value.op in ("binop", "inplace_binop"):
            one, other = self._bits(value.lhs, seen), self._bits(value.rhs, seen)
            name = value.fn.__name__.removeprefix("i") if value.op == "inplace_binop" else value.fn.__name__
            if name == "truediv" or not one or not other:
                return 0
            growing = {"add": max(one, other) + 1, "sub": max(one, other) + 1, "mul": one + other, "floordiv": one}
            return min(growing.get(name, _UNKNOWN), _UNKNOWN)
        if value.op == "call":
            called = self.value_of(value.func)
            if called is range:
                return max((self._bits(argument, seen) for argument in value.args), default=_UNKNOWN)
            if called in (float, math.sqrt, math.fabs, *_OF_MATH) or self._draws_number(value):
                return 0
            return _SIZE if called is len else _UNKNOWN
        return _UNKNOWN

    def value_of(self, variable: Any) -> Any:
        """The value that a variable always has, for example a function of a module; None if it is not known."""
        value = self.definitions.get(variable.name)
        if isinstance(value, ir.Var):
            return self.value_of(value)
        if isinstance(value, (ir.Global, ir.FreeVar)):
            return value.value
        if isinstance(value, ir.Expr) and value.op == "getattr":
            module = self.value_of(value.value)
            return getattr(module, value.attr, None) if isinstance(module, ModuleType) else None
        return None

    def method_of(self, variable: Any) -> str:
        """The name of the method that a variable holds; "" if it holds none."""
        value = self.definitions.get(variable.name)
        return value.attr if isinstance(value, ir.Expr) and value.op == "getattr" else ""

    def constant(self, variable: Any) -> Any:
        """The value of a constant in the code; None for anything else."""
        value = self.definitions.get(variable.name)
        return value.value if isinstance(value, ir.Const) else None


def _uses(blocks: dict[int, Any]) -> dict[str, int]:
    """The number of statements that use each variable."""
    found: dict[str, int] = {}
    for block in blocks.values():
        for statement in block.body:
            if isinstance(statement, ir.Del):
                continue
            target = statement.target if isinstance(statement, ir.Assign) else None
            for variable in statement.list_vars():
                if variable is not target:
                    found[variable.name] = found.get(variable.name, 0) + 1
    return found


def _not_only_read(blocks: dict[int, Any]) -> set[str]:
    """The names of variables that are used for more than to read items with constant names."""
    found: set[str] = set()
    for block in blocks.values():
        for statement in block.body:
            value = getattr(statement, "value", None)
            if isinstance(statement, ir.Del) or (isinstance(value, ir.Expr) and value.op == "static_getitem"):
                continue
            target = statement.target.name if isinstance(statement, ir.Assign) else ""
            found |= {variable.name for variable in statement.list_vars()} - {target}
    return found


def is_python_number(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(is_python_number, value))
    return type(value) in (bool, int, float)


def _bits_of_number(value: Any) -> int:
    if type(value) is tuple:
        return max(map(_bits_of_number, value), default=_UNKNOWN)
    return 0 if type(value) is float else max(value.bit_length(), 1) if type(value) in (int, bool) else _UNKNOWN
