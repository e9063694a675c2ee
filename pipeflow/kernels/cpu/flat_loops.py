"""Operations on whole arrays in functions of the user run over one axis.

For an array expression Numba makes nested loops with the extents and strides of every axis. With three colours as the last
axis, no processor takes several elements at once in them: a sum of 37,632 floats takes 35 microseconds, and 6 with one axis.
Functions that work by elements get an array of one axis (``flat_functions.py``). In all others, each operation or fused
expression of contiguous arrays becomes a call of a loop over one axis. Arrays of fewer elements are spread before. Each
operation has the types of NumPy's, so the bits are the same.
"""

import operator
from functools import lru_cache
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core import ir
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.dispatcher import Dispatcher
from numba.np import numpy_support

# Without divisions and shifts of integers: no processor divides several at once, and NumPy shifts by any number of bits.
_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "truediv": "/"}
_BITS = {"and_": "&", "or_": "|", "xor": "^"}
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_SIGNS = {getattr(operator, name): sign for name, sign in (_ARITHMETIC | _BITS | _COMPARISONS).items()}
_IN_PLACE = {getattr(operator, f"i{name.rstrip('_')}"): sign for name, sign in (_ARITHMETIC | _BITS).items()}


@register_pass(mutates_CFG=False, analysis_only=False)
class FlatLoops(FunctionPass):
    """Replaces operations on contiguous arrays of several axes, after types are known and expressions are fused."""

    _name = "pipeflow_flat_loops"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Changes the code of one function."""
        changed = False
        for block in state.func_ir.blocks.values():
            body = []
            for statement in block.body:
                if isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Expr):
                    before = _replace(statement, block.scope, state)
                    changed = changed or bool(before)
                    body += before
                body.append(statement)
            block.body = body
        return changed


def _replace(statement: Any, scope: Any, state: Any) -> list[Any]:
    """Makes a call of an operation, and returns the statement before it; [] if the operation stays as it is."""
    value, kinds = statement.value, state.typemap
    if value.op not in ("arrayexpr", "binop", "inplace_binop"):
        return []
    operands = list({operand.name: operand for operand in value.list_vars()}.values())
    found = tuple([types.unliteral(kinds[operand.name]) for operand in operands])
    result = kinds[statement.target.name]
    if not all(_is_flat(kind, result) for kind in found) or not any(isinstance(kind, types.Array) for kind in found):
        return []
    text = _text(value, {operand.name: place for place, operand in enumerate(operands)}, found, result.dtype)
    if text is None:
        return []
    made = types.Dispatcher(_loop(*text, found, None if value.op == "inplace_binop" else result.dtype))
    signature = made.get_call_type(state.typingctx, found, {})
    if signature.return_type != result:
        return []
    held = scope.redefine("$pipeflow_loop", statement.loc)
    kinds[held.name] = made
    statement.value = ir.Expr.call(held, operands, (), statement.loc)
    state.calltypes[statement.value] = signature
    return [ir.Assign(ir.Global("loop", made.dispatcher, statement.loc), held, statement.loc)]


def _is_flat(kind: Any, result: Any) -> bool:
    """True for a number, and for an array whose elements lie like those of the result."""
    element = kind.dtype if isinstance(kind, types.Array) else kind
    if not isinstance(element, (types.Integer, types.Float, types.Boolean)) or not isinstance(result, types.Array):
        return False
    return element is kind or (kind.ndim == result.ndim > 1 and kind.layout == result.layout == "C")


def _text(value: Any, places: dict[str, int], kinds: Any, result: Any) -> tuple[str, tuple[np.ufunc, ...]] | None:
    """An operation as the text for element i, and the functions f0, f1, ... in it; None for one that this file does not know."""
    functions: list[np.ufunc] = []

    def element(variable: Any, cast: str = "") -> str:
        place = places[variable.name]
        text = f"y{place}[i]" if isinstance(kinds[place], types.Array) else f"x{place}"
        return f"{cast}({text})" if cast else text

    def fused(part: Any) -> str:  # all operations have one type of floats
        if isinstance(part, ir.Var):
            return element(part)
        operation, operands = part
        terms = [fused(operand) for operand in operands]
        if isinstance(operation, np.ufunc):
            functions.append(operation)
            return f"f{len(functions) - 1}({', '.join(terms)})"
        if operation is operator.neg:
            return f"(-{terms[0]})"
        return f"({terms[0]} {_SIGNS[operation]} {terms[1]})"

    try:
        if value.op == "arrayexpr":
            if isinstance(value.expr, tuple) and _is_fused(value.expr, places, kinds):
                return fused(value.expr), tuple(functions)
            return None
        sign = (_IN_PLACE if value.op == "inplace_binop" else _SIGNS)[value.fn]
    except (KeyError, TypeError, ValueError):
        return None
    pair = [kinds[places[operand.name]] for operand in (value.lhs, value.rhs)]
    wide = np.result_type(*[numpy_support.as_dtype(getattr(kind, "dtype", kind)) for kind in pair])
    compares, bits = sign in _COMPARISONS.values(), sign in _BITS.values()
    computed = wide if compares or (sign == "/" and wide.kind == "f") else numpy_support.as_dtype(result)
    if (not compares and sign != "/" and computed != wide) or (computed.kind == "b" and not bits):
        return None
    if sign == "/" and computed != numpy_support.as_dtype(result):
        return None
    cast = "bool" if computed.kind == "b" else f"np.{computed.name}"
    return f"{element(value.lhs, cast)} {sign} {element(value.rhs, cast)}", ()


def _is_fused(part: Any, places: dict[str, int], kinds: Any) -> bool:
    """True if all variables of an expression have one type of floats."""
    found = {getattr(kinds[place], "dtype", kinds[place]) for place in places.values()}
    return len(found) == 1 and isinstance(found.pop(), types.Float)


@lru_cache(maxsize=256)
def _loop(text: str, functions: tuple[np.ufunc, ...], kinds: tuple[Any, ...], result: Any) -> Dispatcher:
    """A function of arrays and numbers of these kinds that computes an operation, in the first one if there is no type of the
    result.
    """
    shaped = [f"x{place}" for place, kind in enumerate(kinds) if isinstance(kind, types.Array)]
    first, *others = shaped
    lines = [f"def loop({', '.join(f'x{place}' for place in range(len(kinds)))}):"]
    if others:
        lines += [f" if {' or '.join(f'{name}.shape != {first}.shape' for name in others)}:"]
        wide = f"np.broadcast_shapes({', '.join(f'{name}.shape' for name in shaped)})"
        lines += [f"  shape = {f'{first}.shape' if result is None else wide}"]
        lines += [f"  {name} = spread({name}, shape)" for name in (others if result is None else shaped)]
    lines += [f" y{name[1:]} = {name}.reshape({name}.size)" for name in shaped]
    if result is None:  # one name for the memory that is read and written: the processor takes several elements at once
        lines += [f" for i in range(y{first[1:]}.size):", f"  y{first[1:]}[i] = {text}", f" return {first}"]
    else:
        lines += [f" result = np.empty({first}.shape, element)", " flat = result.reshape(result.size)"]
        lines += [" for i in range(flat.size):", f"  flat[i] = {text}", " return result"]
    namespace: dict[str, Any] = {f"f{number}": function for number, function in enumerate(functions)}
    namespace |= {"np": np, "spread": _spread, "element": result and numpy_support.as_dtype(result)}
    exec("\n".join(lines), namespace)
    made: Dispatcher = numba.njit(nogil=True, boundscheck=False, error_model="numpy")(namespace["loop"])
    return made


@numba.njit(nogil=True)
def _spread(array, shape):
    """The array with these extents; an error if they do not fit."""
    return np.broadcast_to(array, shape).copy()
