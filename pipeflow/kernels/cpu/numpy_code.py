"""NumPy's own machine code, called from compiled functions of the user: the bits are NumPy's, and so is the time.

NumPy computes ``np.exp`` and similar functions with loops that it chooses for the processor. A ufunc has a table of the addresses
of its loops (``PyUFuncObject`` in NumPy's C API). The functions of a generator are symbols of NumPy's library. Compiled code that
is kept on disk names these addresses; this module gives them to each process.
"""

import ctypes
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_WORD = ir.IntType(64)
_POINTER = ir.IntType(8).as_pointer()
# The fields of PyUFuncObject (bytes from its begin): numbers of inputs and outputs, loops, their data, the number of loops and
# the types of their arguments.
_NUMBERS, _LOOPS, _COUNT, _TYPES = 16, 32, 48, 64
UNARY = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan"),
    *("sinh", "cosh", "tanh", "cbrt"),
)
BINARY = ("power", "arctan2", "hypot")
_LETTERS = {np.dtype(np.float32): "f", np.dtype(np.float64): "d"}
# Functions that draw a number, and functions of ``math``, with how many numbers each has as arguments.
DRAWS = {"standard_normal": 0, "normal": 2, "exponential": 1, "beta": 2, "lognormal": 2, "laplace": 2}
OF_MATH = dict.fromkeys(("exp", "log", "log2", "log10", "sin", "cos", "tan", "atan", "tanh"), 1) | {
    "pow": 2,
    "atan2": 2,
}


def _loop_of(ufunc: np.ufunc, letter: str) -> tuple[int, int]:
    """The addresses of a loop and of its data; zeros if the table is not the expected one."""
    begin, count = id(ufunc), ufunc.nargs
    nin, nout = (ctypes.c_int * 2).from_address(begin + _NUMBERS)
    loops = ctypes.c_int.from_address(begin + _COUNT).value
    if (nin, nout, loops) != (ufunc.nin, ufunc.nout, len(ufunc.types)):
        return 0, 0
    codes = ctypes.string_at(ctypes.c_void_p.from_address(begin + _TYPES).value or 0, loops * count)
    wanted = bytes([np.dtype(letter).num] * count)
    for place in range(loops):
        if codes[place * count : (place + 1) * count] == wanted:
            tables = (ctypes.c_void_p * 2).from_address(begin + _LOOPS)
            loop = ctypes.c_void_p.from_address((tables[0] or 0) + 8 * place).value
            data = ctypes.c_void_p.from_address(tables[1] + 8 * place).value if tables[1] else None
            return loop or 0, data or 0
    return 0, 0


def _run(address: int, data: int, arrays: list[np.ndarray], count: int) -> None:
    """Calls a loop for arrays with one axis; one with one element is repeated."""
    places = (ctypes.c_void_p * len(arrays))(*[array.ctypes.data for array in arrays])
    steps = (ctypes.c_ssize_t * len(arrays))(*[0 if len(array) == 1 else array.strides[0] for array in arrays])
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    kind(address)(ctypes.addressof(places), ctypes.addressof(ctypes.c_ssize_t(count)), ctypes.addressof(steps), data)


@cache
def is_known(name: str, dtype: np.dtype) -> bool:
    """True if the loop of a ufunc gives NumPy's bits for contiguous arrays and for single numbers. With other strides NumPy may
    compute in another way.
    """
    ufunc, letter = getattr(np, name), _LETTERS[dtype]
    address, data = _loop_of(ufunc, letter)
    if not address or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    numbers = np.resize(np.array([0.3, 1.7, -0.2, 12.5, 0.0, 1.0, -3.0, 80.0, 1e-6], dtype), 200)
    others = np.resize(np.array([0.4, 2.2, 3.0, 0.5, 1.0, -1.5, 2.0], dtype), 200)
    given = (numbers, others)[: ufunc.nin]
    result = np.empty(200, dtype)
    with np.errstate(all="ignore"):
        whole = ufunc(*given)
        for count in (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 65, 130):
            for begin in (0, 3):
                part = slice(begin, begin + count)
                _run(address, data, [*(array[part] for array in given), result[part]], count)
                wanted = ufunc(*(array[part] for array in given)).tobytes()
                if result[part].tobytes() != wanted or wanted != whole[part].tobytes():
                    return False
                if ufunc.nin == 2:
                    _run(address, data, [given[0][part], given[1][begin : begin + 1], result[part]], count)
                    if result[part].tobytes() != ufunc(given[0][part], given[1][begin]).tobytes():
                        return False
                    _run(address, data, [given[0][begin : begin + 1], given[1][part], result[part]], count)
                    if result[part].tobytes() != ufunc(given[0][begin], given[1][part]).tobytes():
                        return False
        for place in range(30):
            _run(address, data, [*(array[place : place + 1] for array in given), result[:1]], 1)
            if result[0].tobytes() != ufunc(*(array[place] for array in given)).tobytes():
                return False
    return True


def _add_symbols() -> None:
    """Tells LLVM the addresses under names that it gives no meaning of its own."""
    for name in (*UNARY, *BINARY):
        for letter in _LETTERS.values():
            for part, address in zip(("loop", "data"), _loop_of(getattr(np, name), letter)):
                llvm.add_symbol(f"pipeflow_{part}_{name}_{letter}", address or _NOTHING)
    for name, address in (_random_functions() | _math_functions()).items():
        llvm.add_symbol(f"pipeflow_{name}", address)


_NOTHING = ctypes.addressof(ctypes.create_string_buffer(8))


def _address(library: Any, name: str) -> int:
    try:
        return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    except AttributeError:
        return 0


@cache
def _random_functions() -> dict[str, int]:
    """The addresses of NumPy's functions that draw numbers; none if its library does not show them."""
    try:
        library = ctypes.CDLL(np.random._generator.__file__)
    except (OSError, AttributeError):
        return {}
    names = [
        *(f"random_{name}" for name in DRAWS),
        "random_standard_normal_f",
        "random_interval",
        "random_bounded_uint64",
    ]
    found = {name: _address(library, name) for name in names}
    return found if all(found.values()) else {}


@cache
def _math_functions() -> dict[str, int]:
    """The addresses of the C functions that Python's module ``math`` calls; none if they give other bits."""
    try:
        library = ctypes.CDLL(None)
        library = library if _address(library, "exp") else ctypes.CDLL("libm.so.6")
    except (OSError, TypeError):
        return {}
    found = {f"math_{name}": _address(library, name) for name in OF_MATH}
    for name, count in OF_MATH.items():
        kind = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * count)
        for number in (0.1, 0.7, 1.3, 2.9, 33.3):
            given = (number, 1.7)[:count]
            if not found[f"math_{name}"] or kind(found[f"math_{name}"])(*given) != getattr(math, name)(*given):
                return {}
    return found


def draws_known() -> bool:
    """True if compiled code can call NumPy's functions that draw numbers."""
    return bool(_random_functions())


def math_known() -> bool:
    """True if compiled code can call the functions of the module ``math``."""
    return bool(_math_functions())


_add_symbols()


def _symbol(builder: Any, name: str, kind: Any) -> Any:
    return cgutils.get_or_insert_function(builder.module, kind, name)


@cache
def loop(name: str, dtype: np.dtype) -> Any:
    """An intrinsic ``run(addresses, steps, count)`` that calls the loop of a ufunc for elements at these steps."""
    letter = _LETTERS[dtype]

    @intrinsic
    def run(_typing, addresses, steps, count):
        def generate(context, builder, _signature, arguments):
            kind = ir.FunctionType(ir.VoidType(), [_POINTER] * 4)
            function = _symbol(builder, f"pipeflow_loop_{name}_{letter}", kind)
            data = builder.bitcast(_symbol(builder, f"pipeflow_data_{name}_{letter}", kind), _POINTER)
            length = cgutils.alloca_once_value(builder, arguments[2])
            lists = []
            for values in arguments[:2]:
                memory = cgutils.alloca_once(builder, _WORD, addresses.count)
                for place, value in enumerate(cgutils.unpack_tuple(builder, values, addresses.count)):
                    builder.store(value, builder.gep(memory, [ir.IntType(32)(place)]))
                lists.append(builder.bitcast(memory, _POINTER))
            builder.call(function, [lists[0], builder.bitcast(length, _POINTER), lists[1], data])
            return context.get_dummy_value()

        return types.void(addresses, steps, types.int64), generate

    return run


def _c_function(symbol: str, result: Any, arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """An intrinsic that calls a function of C, with the arguments in a tuple."""

    @intrinsic
    def run(_typing, values):
        def generate(context, builder, signature, given):
            parts = cgutils.unpack_tuple(builder, given[0], len(arguments))
            kinds = [context.get_value_type(kind) for kind in arguments]
            kind = ir.FunctionType(context.get_value_type(result), kinds)
            found = [
                context.cast(builder, part, source, wanted)
                for part, source, wanted in zip(parts, signature.args[0], arguments)
            ]
            return builder.call(_symbol(builder, symbol, kind), found)

        return result(values), generate

    return run


@cache
def of_math(name: str) -> Callable[..., Any]:
    """The function of C with this name, which has a tuple of numbers as its argument."""
    return _c_function(f"pipeflow_math_{name}", types.float64, (types.float64,) * OF_MATH[name])


@cache
def drawing(name: str) -> Callable[..., Any]:
    """NumPy's function that draws a number, with a tuple of the address of a generator and numbers as its argument."""
    symbol = f"pipeflow_random_{name}"
    if name == "interval":
        return _c_function(symbol, types.uint64, (types.uintp, types.uint64))
    if name == "bounded_uint64":
        return _c_function(symbol, types.uint64, (types.uintp, *(types.uint64,) * 3, types.boolean))
    result = types.float32 if name.endswith("_f") else types.float64
    return _c_function(symbol, result, (types.uintp, *(types.float64,) * DRAWS[name.removesuffix("_f")]))


@intrinsic
def address_of_generator(_typing, generator):
    """The address of NumPy's description of a generator (``bitgen_t``): its state, and its functions for numbers of 64 bits, of
    32 bits, of floats and of raw numbers. It is valid in the function that calls this one. Numba leaves its own field for it
    empty.
    """
    if not isinstance(generator, types.NumPyRandomGeneratorType):
        return None

    def generate(context, builder, signature, arguments):
        outer = cgutils.create_struct_proxy(generator)(context, builder, value=arguments[0])
        inner = cgutils.create_struct_proxy(types.npy_bitgen)(context, builder, value=outer.bit_generator)
        parts = inner.state, inner.fnptr_next_uint64, inner.fnptr_next_uint32, inner.fnptr_next_double
        memory = cgutils.alloca_once(builder, _WORD, len(parts) + 1)
        for place, value in enumerate((*parts, inner.fnptr_next_uint64)):
            builder.store(value, builder.gep(memory, [ir.IntType(32)(place)]))
        return builder.ptrtoint(memory, _WORD)

    return types.uintp(generator), generate
