"""Operations on whole arrays in functions of the user run over one axis.

For an array expression Numba makes nested loops with the extents and strides of every axis. With three colours as the last
axis, no processor takes several elements at once in them: a sum of 37,632 floats takes 35 microseconds, and 6 with one axis.
Functions that work by elements get an array of one axis (``flat_functions.py``). In all others, each operation or fused
expression of contiguous arrays becomes a call of a loop over one axis. Arrays of fewer elements are spread before; those of
fewer axes, such as a mean for each colour, are repeated for some thousand elements. Operations on colours of one image, such as
`x[..., 0] + x[..., 1]`, read the image itself: with three colours, whose distance the compiler then knows, in half the time. Each
operation has the types of NumPy's, so the bits are the same.
"""

import operator
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core import ir
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.dispatcher import Dispatcher
from numba.np import numpy_support

from pipeflow.kernels.cpu.jit import kernel
from pipeflow.kernels.cpu.numpy_numbers import copied
from pipeflow.kernels.cpu.variables import Names

# Without divisions and shifts of integers: no processor divides several at once, and NumPy shifts by any number of bits.
_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "truediv": "/"}
_BITS = {"and_": "&", "or_": "|", "xor": "^"}
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_SIGNS = {getattr(operator, name): sign for name, sign in (_ARITHMETIC | _BITS | _COMPARISONS).items()}
PART = 2048  # elements, which fit into the cache next to the processor
_IN_PLACE = {getattr(operator, f"i{name.rstrip('_')}"): sign for name, sign in (_ARITHMETIC | _BITS).items()}


@register_pass(mutates_CFG=False, analysis_only=False)
class FlatLoops(FunctionPass):
    """Replaces operations on contiguous arrays of several axes, after types are known and expressions are fused."""

    _name = "pipeflow_flat_loops"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Changes the code of one function."""
        changed, names = False, Names(state.func_ir.blocks)
        for block in state.func_ir.blocks.values():
            body = []
            for statement in block.body:
                if isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Expr):
                    before = _replace(statement, block.scope, state, names)
                    changed = changed or bool(before)
                    body += before
                body.append(statement)
            block.body = body
        return changed


def _replace(statement: Any, scope: Any, state: Any, names: Names) -> list[Any]:
    """Makes a call of an operation, and returns the statement before it; [] if the operation stays as it is."""
    value, kinds = statement.value, state.typemap
    if value.op not in ("arrayexpr", "binop", "inplace_binop"):
        return []
    operands = list({operand.name: operand for operand in value.list_vars()}.values())
    result, in_place = kinds[statement.target.name], value.op == "inplace_binop"
    elements = {operand.name: f"x{place}" for place, operand in enumerate(operands)}
    colours = {} if in_place else _colours_of_one_image(operands, kinds, names)
    if colours:
        image = next(iter(colours.values()))[0]
        operands = [image, *(operand for operand in operands if operand.name not in colours)]
        elements = {operand.name: f"x{place}" for place, operand in enumerate(operands)}
        elements |= {name: f"y0[i * step + {place}]" for name, (_, place) in colours.items()}
    found = tuple([types.unliteral(kinds[operand.name]) for operand in operands])
    arrays = [place for place, kind in enumerate(found) if isinstance(kind, types.Array)]
    if not arrays or not (colours or all(_is_flat(kind, result) for kind in found)):
        return []
    if in_place and getattr(kinds[value.lhs.name], "layout", "C") != "C":
        return []
    if not colours:
        elements |= {operands[place].name: f"y{place}[i]" for place in arrays}
    text = _text(value, elements, kinds, result.dtype)
    if text is None:
        return []
    loop = _loop_over_colours if colours else _loop
    called = types.Dispatcher(loop(*text, found, None if in_place else result.dtype))
    signature = called.get_call_type(state.typingctx, found, {})
    if signature.return_type != result:
        return []
    held = scope.redefine("$pipeflow_loop", statement.loc)
    kinds[held.name] = called
    statement.value = ir.Expr.call(held, operands, (), statement.loc)
    state.calltypes[statement.value] = signature
    return [ir.Assign(ir.Global("loop", called.dispatcher, statement.loc), held, statement.loc)]


def _is_flat(kind: Any, result: Any) -> bool:
    """True for a number, and for an array whose elements lie like those of the result, or of its last axes, after a copy if there
    are gaps between them and it has three axes: two loops over one axis then take a tenth of the time of one with strides.
    """
    element = kind.dtype if isinstance(kind, types.Array) else kind
    if not isinstance(element, (types.Integer, types.Float, types.Boolean)) or not isinstance(result, types.Array):
        return False
    return element is kind or (
        0 < kind.ndim <= result.ndim > 1
        and result.layout == "C"
        and (kind.layout == "C" or (kind.layout == "A" and kind.ndim > 2))
    )


def _colours_of_one_image(operands: Sequence[Any], kinds: Any, names: Names) -> dict[str, tuple[Any, int]]:
    """For each array the variable of the image that it is a colour of, and the place of the colour; {} if one is not.

    Numba gives a variable another name wherever a loop could have made its value before its image was made again.
    """
    found: dict[str, tuple[Any, int]] = {}
    for operand in operands:
        kind = kinds[operand.name]
        if isinstance(kind, types.Array):
            part: Any = names.definition_of(operand)
            place = _place_of_colour(part, kind.ndim + 1, names)
            if place is None or names.definitions.get(part.value.name) is None:
                return {}
            image = kinds[part.value.name]
            if not isinstance(image, types.Array) or image.layout != "C" or image.ndim != kind.ndim + 1:
                return {}
            found[operand.name] = part.value, place
        elif not isinstance(types.unliteral(kind), (types.Integer, types.Float, types.Boolean)):
            return {}
    return found if len({image.name for image, _ in found.values()}) == 1 else {}


def _place_of_colour(part: Any, axes: int, names: Names) -> int | None:
    """The last index of ``x[..., 1]``, or ``x[:, :, 1]`` of three axes; None for another part of an array."""
    if not isinstance(part, ir.Expr) or part.op not in ("getitem", "static_getitem"):
        return None
    index = part.index
    if isinstance(index, ir.Var):
        made = names.definition_of(index)
        index = made.value if isinstance(made, ir.Const) else getattr(made, "items", None)
    if type(index) not in (tuple, list) or len(index) < 2:
        return None
    *before, last = index
    if isinstance(last, ir.Var):
        last = names.constant(last)
    if type(last) is not int or last < 0:
        return None
    every = len(before) == 1 and _is_ellipsis(before[0], names)
    return last if every or (len(before) == axes - 1 and all(_is_whole(item, names) for item in before)) else None


def _is_ellipsis(item: Any, names: Names) -> bool:
    return (names.constant(item) if isinstance(item, ir.Var) else item) is ...


def _is_whole(item: Any, names: Names) -> bool:
    """True for ``:`` as an index."""
    if not isinstance(item, ir.Var):
        return item == slice(None)
    made = names.definition_of(item)
    if isinstance(made, (ir.Const, ir.Global)):
        return type(made.value) is slice and made.value == slice(None)
    called = isinstance(made, ir.Expr) and made.op == "call" and names.value_of(made.func) is slice
    return called and all(names.is_none(argument) for argument in made.args)


def _text(value: Any, elements: dict[str, str], kinds: Any, result: Any) -> tuple[str, tuple[np.ufunc, ...]] | None:
    """An operation as the text for element i, and the functions f0, f1, ... in it; None for one that this file does not know.
    ``elements`` has the texts of the variables.
    """
    functions: list[np.ufunc] = []

    def element(variable: Any, cast: str = "") -> str:
        text = elements[variable.name]
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
            if isinstance(value.expr, tuple) and _is_fused(elements, kinds):
                return fused(value.expr), tuple(functions)
            return None
        sign = (_IN_PLACE if value.op == "inplace_binop" else _SIGNS)[value.fn]
    except (KeyError, TypeError, ValueError):
        return None
    pair = [types.unliteral(kinds[operand.name]) for operand in (value.lhs, value.rhs)]
    wide = np.result_type(*[numpy_support.as_dtype(getattr(kind, "dtype", kind)) for kind in pair])
    compares, bits = sign in _COMPARISONS.values(), sign in _BITS.values()
    computed = wide if compares or (sign == "/" and wide.kind == "f") else numpy_support.as_dtype(result)
    if (not compares and sign != "/" and computed != wide) or (computed.kind == "b" and not bits):
        return None
    if sign == "/" and computed != numpy_support.as_dtype(result):
        return None
    cast = "bool" if computed.kind == "b" else f"np.{computed.name}"
    return f"{element(value.lhs, cast)} {sign} {element(value.rhs, cast)}", ()


def _is_fused(variables: Iterable[str], kinds: Any) -> bool:
    """True if all variables of an expression have one type of floats."""
    unliteral = [types.unliteral(kinds[name]) for name in variables]
    found = {getattr(kind, "dtype", kind) for kind in unliteral}
    return len(found) == 1 and isinstance(found.pop(), types.Float)


@lru_cache(maxsize=256)
def _loop_over_colours(text: str, functions: tuple[np.ufunc, ...], kinds: tuple[Any, ...], result: Any) -> Dispatcher:
    """A function of an image and numbers of these kinds that computes an operation of its colours."""
    lines = [
        f"def loop({', '.join(f'x{place}' for place in range(len(kinds)))}):",
        " step = x0.shape[-1]",
        " result = np.empty(x0.shape[:-1], element)",
        " out, y0 = result.reshape(result.size), x0.reshape(x0.size)",
        " if step == 3:",  # a distance that the compiler knows: then the processor takes several elements at once
        "  for i in range(out.size):",
        f"   out[i] = {text.replace('step', '3')}",
        " else:",
        "  for i in range(out.size):",
        f"   out[i] = {text}",
        " return result",
    ]
    return _compiled(lines, functions, result)


@lru_cache(maxsize=256)
def _loop(text: str, functions: tuple[np.ufunc, ...], kinds: tuple[Any, ...], result: Any) -> Dispatcher:
    """A function of arrays and numbers of these kinds that computes an operation, in the first one if there is no type of the
    result.
    """
    axes = {place: kind.ndim for place, kind in enumerate(kinds) if isinstance(kind, types.Array)}
    most = max(axes.values())
    whole = [place for place in axes if axes[place] == most]
    few = sorted((place for place in axes if axes[place] < most), key=lambda place: -axes[place])
    first = whole[0]  # the array that an operation in place changes
    # One name for memory that is read and written: then the processor takes several elements at once.
    target, made = (f"y{first}", f"x{first}") if result is None else ("out", "result")
    lines = [f"def loop({', '.join(f'x{place}' for place in range(len(kinds)))}):"]
    lines += [f" x{place} = copied(x{place})" for place in axes if kinds[place].layout == "A"]
    lines += _extents(axes, most, first, result is None)
    flat = {f"y{place}": f"x{place}" for place in whole}
    if result is not None:
        flat[target] = made
        lines.append(" result = np.empty(shape, element)")
    if few:  # these are repeated some times, and used for each part of the others
        lines.append(f" period = max(x{few[0]}.size, 1)")
        lines.append(f" count = period * (1 + min({PART}, {made}.size) // period)")
        lines += [f" y{place} = repeated(x{place}, count)" for place in few]
        lines += [f" all_{name} = {array}.reshape({array}.size)" for name, array in flat.items()]
        lines.append(f" for begin in range(0, {made}.size, count):")
        lines += [f"  {name} = all_{name}[begin:begin + count]" for name in flat]
    else:
        lines += [f" {name} = {array}.reshape({array}.size)" for name, array in flat.items()]
    margin = "  " if few else " "
    lines += [f"{margin}for i in range({target}.size):", f"{margin} {target}[i] = {text}", f" return {made}"]
    return _compiled(lines, functions, result)


def _compiled(lines: Sequence[str], functions: Sequence[np.ufunc], result: Any) -> Dispatcher:
    """The function with these lines, which makes elements of one type."""
    namespace: dict[str, Any] = {f"f{number}": function for number, function in enumerate(functions)}
    namespace |= {
        "np": np,
        "copied": copied,
        "spread": spread,
        "repeated": repeated,
        "element": result and numpy_support.as_dtype(result),
    }
    exec("\n".join(lines), namespace)
    compiled: Dispatcher = numba.njit(nogil=True, boundscheck=False, error_model="numpy")(namespace["loop"])
    return compiled


def _extents(axes: dict[int, int], most: int, first: int, in_place: bool) -> list[str]:
    """The lines that find the shape of the result, and give each array that shape, or that of its last axes.

    The compiler takes seconds for NumPy's functions that do this.
    """
    if len(axes) == 1:
        return [f" shape = x{first}.shape"]
    others = [place for place in axes if place != first]
    lines = [f" e{axis} = x{first}.shape[{axis}]" for axis in range(most)]
    for place in others if not in_place else ():
        for axis in range(most - axes[place], most):
            lines += [f" if e{axis} == 1:", f"  e{axis} = x{place}.shape[{axis - most}]"]
    for place in others if in_place else axes:
        wanted = "".join(f"e{axis}, " for axis in range(most - axes[place], most))
        lines += [f" if x{place}.shape != ({wanted}):", f"  x{place} = spread(x{place}, ({wanted}))"]
    return [*lines, f" shape = ({''.join(f'e{axis}, ' for axis in range(most))})"]


@kernel
def spread(array, shape):
    """The array with these extents; an error if they do not fit."""
    flat, inside = array.reshape(array.size), 1
    for axis in range(array.ndim - 1, -1, -1):
        extent = shape[axis]
        if array.shape[axis] != extent:
            if array.shape[axis] != 1:
                raise ValueError("the arrays cannot be broadcast together")
            wide = np.empty(flat.size * extent, array.dtype)
            colours = inside == 1 and extent <= 4  # a mask for each of them
            for colour in range(extent if colours else 0):
                for place in range(flat.size):
                    wide[place * extent + colour] = flat[place]
            for begin in range(0, 0 if colours else flat.size, max(inside, 1)):
                _repeat(flat, begin, inside, wide, begin * extent, inside * extent)
            flat = wide
        inside *= extent
    return flat.reshape(shape)


@kernel
def repeated(array, count):
    """So many elements in one axis: those of the array, again and again."""
    result = np.empty(count, array.dtype)
    _repeat(array.reshape(array.size), 0, array.size, result, 0, count)
    return result


@kernel
def _repeat(flat, begin, period, out, first, count):
    """Writes elements of an array to another one, again and again, until there are so many."""
    if period == 1:
        for place in range(count):
            out[first + place] = flat[begin]
    else:
        for place in range(min(period, count)):
            out[first + place] = flat[begin + place]
        for place in range(first + period, first + count):
            out[place] = out[place - period]
