"""The values and kinds of the variables of a function, read from the code that Numba makes of it."""

from types import ModuleType
from typing import Any

from numba.core import ir


class Names:
    """The variables of a function: the values that they hold, and if they hold Python numbers."""

    def __init__(self, blocks: dict[int, Any]) -> None:
        self.definitions: dict[str, Any] = {}
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
            if called in (len, int, float, bool, range):
                return True
            if called in (abs, min, max, round):
                return all(map(self.is_weak, value.args))
            return self._draws_number(value)
        return False

    def _draws_number(self, call: Any) -> bool:
        """True for ``rng.random()`` and similar calls without a size, which return Python's floats."""
        function = self.definitions.get(call.func.name)
        if not isinstance(function, ir.Expr) or function.op != "getattr" or call.kws:
            return False
        generator = self.definitions.get(function.value.name)
        while isinstance(generator, ir.Var):
            generator = self.definitions.get(generator.name)
        drawn = len(call.args) <= {"random": 0, "uniform": 2, "normal": 2, "standard_normal": 0}.get(function.attr, -1)
        return drawn and isinstance(generator, ir.Arg) and generator.name == "rng"

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


def is_python_number(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(is_python_number, value))
    return type(value) in (bool, int, float)
