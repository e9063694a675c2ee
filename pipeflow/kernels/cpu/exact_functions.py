"""Compiles functions of the user so that they return the same bits as with NumPy, or refuses them.

Numba's own rules differ from NumPy's, and the first samples of a run may not show it. In Numba a Python number next to an array
of float32 is a float64, sums of single small integers do not wrap around, casts of numbers that do not fit are undefined, and
some functions round in another way. Two passes of the compiler correct this:

- ``KeepTypes`` gives Python numbers the type that NumPy gives them, and checks numbers that are stored or cast. A number that
  does not fit raises an exception, and the caller then runs the plain function.
- ``CheckExact`` refuses everything that is not known to give the same bits. It does not run for functions whose results may
  differ by a tolerance.
"""

import math
import operator
from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache
from types import FunctionType
from typing import Any, ClassVar

import numba
import numpy as np
from numba import types
from numba.core import ir, ir_utils
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.dispatcher import Dispatcher
from numba.core.typed_passes import NopythonRewrites, NopythonTypeInference
from numba.core.untyped_passes import LiteralPropagationSubPipelinePass
from numba.np import numpy_support

from pipeflow.kernels.cpu.axis_reductions import flip_of, is_reduction, reduction_of
from pipeflow.kernels.cpu.flat_functions import is_mask, works_by_elements
from pipeflow.kernels.cpu.flat_loops import FlatLoops
from pipeflow.kernels.cpu.float_reductions import FLOAT_HELPERS, PAIRS, whole_reduction
from pipeflow.kernels.cpu.inserted_code import InsertedCode
from pipeflow.kernels.cpu.numpy_numbers import (
    HELPERS,
    as_cast,
    as_compared,
    as_divided,
    as_divisor,
    as_integer,
    as_stored,
    as_weak,
    copied,
    element_of,
    flat,
    selected,
    store,
    where,
    with_axes,
)
from pipeflow.kernels.cpu.outside_values import put_items, without_handlers
from pipeflow.kernels.cpu.paths import WEAK, check_copies, check_paths, check_texts
from pipeflow.kernels.cpu.python_numbers import (
    CHECKED,
    PYTHON_HELPERS,
    NotExact,
    absolute,
    apart,
    as_ceil,
    as_double,
    as_floor,
    as_limit,
    as_rounded,
    as_square,
    check_limits,
    is_limit,
    rounded,
    safe_divisor,
    sign_of,
)
from pipeflow.kernels.cpu.replaced_calls import MORE_HELPERS, is_replaced_method, replaced_call, replaced_power
from pipeflow.kernels.cpu.single_numbers import SINGLE_HELPERS, InferSingleNumbers, type_of_result
from pipeflow.kernels.cpu.variables import Names, is_python_number


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_COMPARISONS = {operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne}
_POWERS = {operator.pow, operator.ipow}
_REMAINDERS = {operator.floordiv, operator.mod, operator.ifloordiv, operator.imod}
_ARITHMETIC = {
    getattr(operator, prefix + name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "lshift", "rshift", "and_", "or_", "xor")
    for prefix in ("", "i")
    if hasattr(operator, prefix + name)
} | {operator.iand, operator.ior, operator.ixor}
# Functions and methods of arrays that return NumPy's bits for numbers of all types.
_ANY_TYPE = _words(
    "zeros ones empty full zeros_like ones_like empty_like full_like where clip abs absolute sqrt floor ceil trunc "
    "rint sign negative square isnan isfinite isinf logical_and logical_or logical_not logical_xor any all add "
    "subtract multiply divide true_divide greater greater_equal less less_equal equal not_equal concatenate stack "
    "vstack hstack column_stack flip fliplr flipud rot90 roll transpose reshape ravel flatten copy "
    "append ascontiguousarray expand_dims swapaxes moveaxis dstack split argwhere repeat "
    "take count_nonzero nonzero flatnonzero array asarray diff atleast_1d fill float32 float64 intp int64 eye identity"
)
# Functions that do so only for integers and Booleans.
_WHOLE_NUMBERS = _words(
    "sum prod cumsum min max amin amax argmin argmax sort unique searchsorted bincount bitwise_and bitwise_or "
    "bitwise_xor invert bitwise_not minimum maximum arange dot remainder mod"
)
_DRAWS = {"random", "uniform", "integers"}
_BUILTINS = {len, int, float, bool, range, slice, zip, enumerate}
_CASTS_WEAK = {"clip": 0, "add": 0, "subtract": 0, "multiply": 0, "divide": 0, "true_divide": 0}
_CASTS_WEAK |= {"minimum": 0, "maximum": 0}
_LIBRARIES = {"numpy", "math", "numba"}
_VIEWS = {np.reshape, np.ravel, np.transpose, np.swapaxes, np.expand_dims, np.flipud, np.fliplr}
_REPLACED: dict[Any, Callable[..., Any]] = {
    math.floor: as_floor,
    math.ceil: as_ceil,
    round: as_rounded,
    abs: absolute,
    np.sign: sign_of,
    np.round: rounded,
    np.around: rounded,
}


@register_pass(mutates_CFG=False, analysis_only=False)
class KeepTypes(FunctionPass):
    """Gives Python numbers the types that NumPy gives them, and checks numbers that are stored or cast."""

    _name = "pipeflow_keep_types"
    exact = True

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Changes the code of one function."""
        put_items(state.func_ir.blocks)
        for block in state.func_ir.blocks.values():
            if isinstance(block.body[-1], (ir.Raise, ir.StaticRaise, ir.DynamicRaise)):
                # The plain function then raises the right exception: Numba does not know all texts of messages.
                block.body = [ir.StaticRaise(ValueError, ("raised by the function",), block.body[-1].loc)]
        if works_by_elements(state.func_ir.blocks, state.args):
            _flatten(*state.func_ir.blocks.values())
        for block in state.func_ir.blocks.values():
            for statement in block.find_insts(ir.Assign):
                if isinstance(statement.value, ir.Arg):
                    self._default(statement, state.args)
        names = Names(state.func_ir.blocks)
        state.metadata[WEAK] = frozenset(names.weak)
        for block in state.func_ir.blocks.values():
            block.body = [new for statement in block.body for new in self._changed(statement, block.scope, names)]
        state.func_ir._definitions = ir_utils.build_definitions(state.func_ir.blocks)
        return True

    @staticmethod
    def _default(statement: Any, arguments: Any) -> None:
        """Writes the default of an argument into the code, so that it is treated like other Python numbers."""
        kind = arguments[statement.value.index]
        if isinstance(kind, types.Omitted) and is_python_number(kind.value):
            statement.value = ir.Const(kind.value, statement.loc)

    def _changed(self, statement: Any, scope: Any, names: Names) -> Iterator[Any]:
        """The statements that replace a statement."""
        insert = InsertedCode(scope, statement.loc)
        call, before = insert.call, insert.statements
        if isinstance(statement, (ir.SetItem, ir.StaticSetItem)):
            if names.is_inferred(statement.target):
                yield statement
                return
            if names.is_weak(statement.value):
                statement.value = call(as_weak, statement.value, statement.target)
            statement.value = call(as_stored, statement.value, statement.target)
            if isinstance(statement, ir.SetItem):
                call(store, statement.target, statement.index, statement.value)
                yield from before
                return
        elif isinstance(statement, ir.Assign):
            value = statement.value
            if isinstance(value, (ir.Global, ir.FreeVar)) and _is_own(value.value):
                value.value = compiled(value.value, self.exact)
            elif isinstance(value, ir.Expr) and value.op in ("binop", "inplace_binop"):
                made = replaced_power(value, names, insert) if self.exact else None
                statement.value = self._operands(value, names, call) if made is None else made
            elif self.exact and is_replaced_method(value, names):
                statement.value = ir.Const(value.attr, statement.loc)
            elif isinstance(value, ir.Expr) and value.op == "static_getitem":
                statement.value = names.setting(value) or value
            elif isinstance(value, ir.Expr) and value.op == "getitem" and is_mask(value.index, names):
                statement.value = call(selected, value.value, value.index)
            elif isinstance(value, ir.Expr) and value.op == "call":
                statement.value = self._call(value, names, insert, self.exact)
        yield from before
        yield statement

    @staticmethod
    def _operands(value: Any, names: Names, call: Callable[..., Any]) -> Any:
        """The operation or the call that replaces an operation."""
        if value.fn in _POWERS and names.constant(value.rhs) == 2:  # NumPy multiplies for a square
            inplace = value.fn is operator.ipow
            value.fn = operator.imul if inplace else operator.mul
            if inplace:
                value.immutable_fn = operator.mul
            value.rhs = value.lhs
        left, right, divisor = names.is_weak(value.lhs), names.is_weak(value.rhs), value.rhs
        change = as_compared if value.fn in _COMPARISONS else as_divisor if value.fn is operator.truediv else as_weak
        if left and right:
            checked = CHECKED.get(value.fn)
            if checked is not None and _may_grow(value, names):
                return call(checked, value.lhs, value.rhs)
        elif left:
            value.lhs = call(change, value.lhs, value.rhs)
        elif right:
            value.rhs = call(change, value.rhs, value.lhs)
        elif value.fn is operator.truediv and value.lhs is not value.rhs:
            # A call ends the loop that Numba makes of neighbouring operations: not between this one and another, if possible.
            if _is_operation(value.rhs, names) and not _is_operation(value.lhs, names):
                value.lhs = call(as_divided, value.lhs, value.rhs)
            else:
                value.rhs = call(as_divided, value.rhs, value.lhs)
        if value.fn in _QUOTIENTS and not (left and right) and names.constant(divisor) is None:
            value.rhs = call(safe_divisor, value.rhs)
        if value.op == "inplace_binop" and not right and _may_be_view(value.rhs, names):
            value.rhs = call(apart, value.rhs, value.lhs)
        return value

    @staticmethod
    def _call(value: Any, names: Names, insert: InsertedCode, exact: bool) -> Any:
        """The call that replaces a call."""
        called, method = names.value_of(value.func), names.method_of(value.func)
        call, known = insert.call, insert.known
        if exact and (made := replaced_call(called, method, value, names, insert)) is not None:
            return made
        if called is int and len(value.args) == 1:
            return call(as_integer, value.args[0])
        one_argument = len(value.args) == 1 and not value.kws and not value.vararg
        replaced = _REPLACED.get(called) if isinstance(called, Hashable) else None
        if replaced is not None and one_argument:
            return call(replaced, value.args[0])
        if called in (math.sqrt, math.fabs) and one_argument:
            value.args = [call(as_square if called is math.sqrt else as_double, value.args[0])]
            return value
        whole = whole_reduction(called, method, value) if exact else None
        if whole is not None:
            return call(whole, value.args[0] if called is not None else names.definitions[value.func.name].value)
        if called is None and method == "copy" and not value.args and not value.kws:
            return call(copied, names.definitions[value.func.name].value)
        if called is None and method in ("integers", "uniform"):
            check_limits(value, method, names, call)
            return value
        if called is None and method == "astype" and len(value.args) == 1 and not value.kws:
            array = names.definitions[value.func.name].value
            wanted = _element_type(names.constant(value.args[0]) or names.value_of(value.args[0]))
            return call(as_cast, array, value.args[0] if wanted is None else known(wanted))
        if isinstance(called, type) and issubclass(called, np.integer) and len(value.args) == 1 and not value.kws:
            number = names.constant(value.args[0])
            if type(number) is int and np.iinfo(called).min <= number <= np.iinfo(called).max:
                return ir.Const(called(number), value.loc)
        if called is np.flip and value.args:
            turned = flip_of(value, names)
            return value if turned is None else call(turned, value.args[0])
        reduced = reduction_of(called, method, value, names)
        if reduced is not None:
            array = value.args[0] if called is not None else names.definitions[value.func.name].value
            return call(reduced, array)
        if called is np.where and len(value.args) == 3 and not value.kws:
            strong = [argument for argument in value.args[1:] if not names.is_weak(argument)]
            chosen = [
                call(as_weak, each, strong[0]) if strong and names.is_weak(each) else each for each in value.args[1:]
            ]
            return call(where, value.args[0], *chosen)
        limits = _limits(value, called, method, names)
        first = _CASTS_WEAK.get(getattr(called, "__name__", "")) if called is not None else None
        if first is not None and not value.kws:
            strong = [argument for argument in value.args[first:] if not names.is_weak(argument)]
            if strong:
                value.args = [
                    call(as_weak, argument, strong[0]) if place >= first and names.is_weak(argument) else argument
                    for place, argument in enumerate(value.args)
                ]
        if exact and isinstance(called, Hashable) and called in PAIRS and len(value.args) == 2 and not value.kws:
            return call(PAIRS[called], *value.args)
        value.args = [call(as_limit, one) if place in limits else one for place, one in enumerate(value.args)]
        value.kws = [(word, call(as_limit, one) if word in limits else one) for word, one in value.kws]
        return value


@register_pass(mutates_CFG=False, analysis_only=False)
class KeepTypesClosely(KeepTypes):
    """The same for functions whose results may differ by a tolerance."""

    _name = "pipeflow_keep_types_closely"
    exact = False


def _may_grow(value: Any, names: Names) -> bool:
    """True if the result of an operation of Python numbers may be an integer of more than 64 bits."""
    bits = names.bits_of(value.lhs), names.bits_of(value.rhs)
    if not all(bits):
        return False
    if value.fn in (operator.mul, operator.imul):
        return sum(bits) > 63
    return value.fn not in (operator.add, operator.iadd, operator.sub, operator.isub) or max(bits) > 62


def _may_be_view(variable: Any, names: Names) -> bool:
    """True if an array may be a part of another one."""
    value = names.definitions.get(variable.name)
    if isinstance(value, ir.Var):
        return _may_be_view(value, names)
    if isinstance(value, ir.Expr) and value.op == "call":
        return (
            names.method_of(value.func) in ("reshape", "ravel", "transpose", "view")
            or names.value_of(value.func) in _VIEWS
        )
    return value is None or (isinstance(value, ir.Expr) and value.op in ("getitem", "static_getitem", "getattr", "phi"))


def _limits(value: Any, called: Any, method: str, names: Names) -> set[Any]:
    """The places and words of the limits of ``clip`` that are not constants."""
    if called is not np.clip and (called is not None or method != "clip"):
        return set()
    given = [*enumerate(value.args[called is not None :], called is not None), *value.kws]
    return {place for place, variable in given if not is_limit(names.definitions.get(variable.name))}


def _flatten(block: Any) -> None:
    """Lets a function work on its array with one axis, and gives the axes to the result."""
    given, body = None, []

    def call(function: Callable[..., Any], place: Any, *arguments: Any) -> Any:
        held, result = (block.scope.redefine(name, place) for name in ("$pipeflow_function", "$pipeflow_axes"))
        body.append(ir.Assign(ir.Global(function.__name__, function, place), held, place))
        body.append(ir.Assign(ir.Expr.call(held, list(arguments), (), place), result, place))
        return result

    for statement in block.body:
        if isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Arg):
            given, target = block.scope.redefine("$pipeflow_given", statement.loc), statement.target
            body.append(ir.Assign(statement.value, given, statement.loc))
            body.append(ir.Assign(call(flat, statement.loc, given), target, statement.loc))
            continue
        if isinstance(statement, ir.Return):
            statement.value = call(with_axes, statement.loc, statement.value, given)
        body.append(statement)
    block.body = body


def _is_operation(variable: Any, names: Names) -> bool:
    value = names.definitions.get(variable.name)
    return isinstance(value, ir.Expr) and value.op in ("binop", "inplace_binop", "unary")


def _element_type(named: Any) -> Any:
    """The type of NumPy for "float32", float and similar words; None for others."""
    if named in (float, int, bool):
        return np.dtype(named).type
    try:
        dtype = np.dtype(named) if isinstance(named, str) else None
    except TypeError:
        return None
    return None if dtype is None or dtype.kind not in "biuf" or not dtype.isnative else dtype.type


def _is_own(value: Any) -> bool:
    """True for a plain function of the user."""
    return (
        isinstance(value, FunctionType)
        and value.__module__.partition(".")[0] not in _LIBRARIES
        and value not in HELPERS
        and value not in PYTHON_HELPERS
    )


@register_pass(mutates_CFG=False, analysis_only=False)
class CheckExact(FunctionPass):
    """Refuses functions that are not known to return the bits of NumPy."""

    _name = "pipeflow_check_exact"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Checks one function after its types are known."""
        names = Names(state.func_ir.blocks)
        check_paths(state, names)
        check_copies(state, names)
        check_texts(state, names)
        for block in state.func_ir.blocks.values():
            for statement in block.body:
                if isinstance(statement, ir.StaticSetItem):
                    kinds = [state.typemap[item.name] for item in (statement.target, statement.value)]
                    _check_store(kinds[0], kinds[1], statement.loc)
                value = getattr(statement, "value", None)
                if isinstance(value, ir.Expr) and value.op in ("binop", "inplace_binop", "unary"):
                    self._arithmetic(value, statement, state, names)
                    if value.fn in _SHIFTS:
                        _check_shift(value, state.typemap[statement.target.name], names)
                elif isinstance(value, ir.Expr) and value.op == "call":
                    self._call(value, names, state)
        return False

    @staticmethod
    def _arithmetic(value: Any, statement: Any, state: Any, names: Names) -> None:
        operands = [value.value] if value.op == "unary" else [value.lhs, value.rhs]
        kinds = [types.unliteral(state.typemap[operand.name]) for operand in operands]
        elements = [kind.dtype if isinstance(kind, types.Array) else kind for kind in kinds]
        if not all(isinstance(element, (types.Number, types.Boolean)) for element in elements):
            return  # tuples and strings need no check
        floats = any(isinstance(element, types.Float) for element in elements)
        if value.fn in _POWERS or value.fn is operator.matmul or (value.fn in _REMAINDERS and floats):
            raise NotExact(f"{value.fn.__name__} may round in another way", loc=statement.loc)
        if value.fn in _QUOTIENTS and any(isinstance(kind, types.Array) for kind in kinds) and not floats:
            divisor = _constant(value.rhs, names)
            if _is_checked(value.rhs, names):
                divisor = 1
            if isinstance(elements[1], types.Integer) and elements[1].signed and divisor in (None, -1):
                raise NotExact("the smallest integer may be divided by -1", loc=statement.loc)
        unsigned = types.uint64 in elements
        if unsigned and any(isinstance(element, types.Integer) and element.signed for element in elements):
            raise NotExact("uint64 next to signed integers", loc=statement.loc)
        result = types.unliteral(state.typemap[statement.target.name])
        single = value.fn in _ARITHMETIC and isinstance(result, types.Number)
        if single and numpy_support.as_dtype(result) != type_of_result(value.fn, elements):
            raise NotExact(
                f"arithmetic with single numbers of {' and '.join(map(str, elements))}: NumPy keeps the type, which wraps "
                "around; write int(x) or float(x)",
                loc=statement.loc,
            )
        if value.op == "unary" and isinstance(result, types.Number) and result != elements[0]:
            raise NotExact(f"a sign of a single number of {elements[0]}", loc=statement.loc)

    @staticmethod
    def _call(value: Any, names: Names, state: Any) -> None:
        called, method = names.value_of(value.func), names.method_of(value.func)
        name = method or getattr(called, "__name__", "")
        arguments = [state.typemap[argument.name] for argument in value.args]
        receiver = None
        if called is None and method:
            receiver = types.unliteral(state.typemap[names.definitions[value.func.name].value.name])
            arguments.insert(0, receiver)
        if isinstance(called, Dispatcher):
            if called._compiler.pipeline_class is not Exact:  # type: ignore[attr-defined]
                raise NotExact(f"{name} was compiled in another way", loc=value.loc)
            return
        if called is store:
            _check_store(arguments[0], arguments[2], value.loc)
        if (
            called in HELPERS
            or called in PYTHON_HELPERS
            or called in FLOAT_HELPERS
            or called in SINGLE_HELPERS
            or called in _BUILTINS
            or is_reduction(called)
            or called in MORE_HELPERS
        ):
            return
        whole = all(_is_whole(kind) for kind in arguments)
        if isinstance(receiver, types.NumPyRandomGeneratorType):
            known = name in _DRAWS
        elif isinstance(receiver, types.DictType):
            known = name in ("get", "keys", "values", "items")
        elif called is not None and not method:
            known = called in (min, max) and whole
            if called is sum:  # NumPy keeps the type of the elements
                known = getattr(types.unliteral(arguments[0]), "dtype", None) == types.int64
        elif called is not None and getattr(math, name, None) is called:
            known = name in ("sqrt", "floor", "ceil", "fabs", "isnan", "isinf", "isfinite")
        else:
            known = name in _ANY_TYPE or (name in _WHOLE_NUMBERS and whole)
        known = known or called is str or (isinstance(called, type) and issubclass(called, Exception))
        if called in (np.array, np.asarray) and isinstance(arguments[0], types.List):
            made = names.definitions.get(value.args[0].name)
            if not (isinstance(made, ir.Expr) and made.op == "build_list" and made.items):
                raise NotExact("an array of a list that may be empty", loc=value.loc)
        if name == "mark_try_block":
            raise NotExact("try: compiled code may raise where NumPy does not", loc=value.loc)
        if not known:
            raise NotExact(f"{name or 'a call'} may round in another way", loc=value.loc)


def _check_shift(value: Any, result: Any, names: Names) -> None:
    """NumPy shifts elements by any number of bits; compiled code gives any result if there are not so many."""
    shift = _constant(value.rhs, names)
    bits = -1 if shift is None else shift
    if isinstance(result, types.Array) and not 0 <= bits < getattr(result.dtype, "bitwidth", 0):
        raise NotExact("a shift of an array that may be by more bits than its elements have", loc=value.loc)


def _is_checked(operand: Any, names: Names) -> bool:
    """True for a divisor that is not 0 or -1."""
    value = names.definitions.get(operand.name)
    return isinstance(value, ir.Expr) and value.op == "call" and names.value_of(value.func) is safe_divisor


def _constant(operand: Any, names: Names) -> Any:
    """The value of an operand that is a constant of the code; None for any other."""
    value = names.definitions.get(operand.name)
    if isinstance(value, ir.Expr) and value.op == "call" and names.value_of(value.func) is as_weak:
        return names.constant(value.args[0])
    return value.value if isinstance(value, ir.Const) else None


def _check_store(target: Any, value: Any, place: Any) -> None:
    if not isinstance(target, types.Array) or not isinstance(value, types.Array):
        return
    if isinstance(target.dtype, types.Integer) and isinstance(value.dtype, types.Float):
        raise NotExact("an array of floats is stored in one of integers without astype", loc=place)


_SHIFTS = {operator.lshift, operator.rshift, operator.ilshift, operator.irshift}
_QUOTIENTS = {operator.floordiv, operator.ifloordiv}


def _is_whole(kind: Any) -> bool:
    kind = types.unliteral(kind)
    if isinstance(kind, types.BaseTuple):
        return all(_is_whole(item) for item in kind)
    if isinstance(kind, (types.Array, types.List)):
        kind = kind.dtype
    return not isinstance(kind, (types.Float, types.Complex))


@register_pass(mutates_CFG=True, analysis_only=False)
class FuseFloats(NopythonRewrites):
    """Numba's pass that makes one loop of an array expression, used only if all arithmetic has one floating type.

    In such a loop small integers do not wrap around as they do in NumPy.
    """

    _name = "pipeflow_fuse_floats"

    def run_pass(self, state: Any) -> bool:
        """Rewrites one function, or leaves it as it is."""
        for block in state.func_ir.blocks.values():
            for statement in block.find_insts(ir.Assign):
                value = statement.value
                if isinstance(value, ir.Expr) and value.op in ("binop", "inplace_binop", "unary"):
                    operands = [value.value] if value.op == "unary" else [value.lhs, value.rhs]
                    kinds = [types.unliteral(state.typemap[operand.name]) for operand in operands]
                    if any(isinstance(kind, types.Array) for kind in kinds) and _is_mixed(kinds):
                        return False
        done: bool = super().run_pass(state)
        return done


def _is_mixed(kinds: list[Any]) -> bool:
    return len({element_of(kind) for kind in kinds}) > 1 or not isinstance(element_of(kinds[0]), types.Float)


class Fused(CompilerBase):
    """Compiles a function with Numba's types, and fuses only floats."""

    instead: ClassVar[dict[Any, Any]] = {}  # passes of a derived class

    def define_pipelines(self) -> list[Any]:
        """Numba's passes and those of this module."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        instead = {NopythonRewrites: FuseFloats} | self.instead
        passes.passes = [(instead.get(item, item), text) for item, text in passes.passes]
        self.add_to(passes)
        passes.finalize()
        return [passes]

    def add_to(self, passes: Any) -> None:
        """Adds the passes of a derived class."""


class Close(Fused):
    """Compiles a function with NumPy's types."""

    checks = False
    instead: ClassVar[dict[Any, Any]] = {NopythonTypeInference: InferSingleNumbers}

    def add_to(self, passes: Any) -> None:
        """Adds the passes of this module."""
        passes.add_pass_after(KeepTypes if self.checks else KeepTypesClosely, LiteralPropagationSubPipelinePass)
        if self.checks:
            passes.add_pass_after(CheckExact, InferSingleNumbers)
        passes.add_pass_after(FlatLoops, FuseFloats)


class Exact(Close):
    """The same, but it refuses functions that are not known to return NumPy's bits."""

    checks = True


@lru_cache(maxsize=256)
def compiled(function: Callable[..., Any], exact: bool) -> Dispatcher:
    """The function as a dispatcher that returns NumPy's bits or, if it is not ``exact``, NumPy's types."""
    if getattr(function.__code__, "co_exceptiontable", b""):
        function = without_handlers(function)
    # Indices outside an array and divisions by zero raise an error; the caller then runs the plain function.
    made: Dispatcher = numba.njit(
        nogil=True, boundscheck=True, error_model="python", pipeline_class=Exact if exact else Close
    )(function)
    return made
