"""Random numbers of NumPy for compiled functions of the user that programs call.

A compiled function reads NumPy's generator by addresses: of the state, and of NumPy's functions that draw from it. Each thread
has such a description with a state of its own. Before each call of the function a kernel sets the state to the key of the sample,
as ``seeds.KeyedGenerator`` does for calls from Python, so the numbers are the same.
"""

import ctypes
import threading
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.registry import cpu_target

from pipeflow.kernels.cpu.draws import state_of
from pipeflow.kernels.cpu.jit import kernel, types_of
from pipeflow.kernels.cpu.kernel_calls import address_of
from pipeflow.kernels.cpu.later import Wanted

GENERATOR = types.npy_rng
# The words of a description: Numba's view of a bit generator (`parent`, addresses of the state (twice), functions, address of the
# next part); NumPy's view (`bitgen_t`: address of the state, functions); the state.
VIEW, BITGEN, STATE, WORDS = 0, 7, 12, 17


@cache
def _functions() -> dict[str, int]:
    """The addresses of NumPy's functions; none if its states are not the words that `set_state` writes."""
    generator = np.random.SFC64(0)
    interface, state = generator.ctypes, generator.state["state"]["state"]
    words = np.ctypeslib.as_array((ctypes.c_uint64 * 5).from_address(interface.state_address))
    if words[4] or not np.array_equal(words[:4], state):
        return {}
    names = ("next_uint64", "next_uint32", "next_double")
    return {name: ctypes.cast(getattr(interface, name), ctypes.c_void_p).value or 0 for name in names}


def known() -> bool:
    """True if programs can draw numbers."""
    return bool(_functions())


_threads = threading.local()


def of_thread() -> np.ndarray:
    """The description of the calling thread."""
    found: np.ndarray | None = getattr(_threads, "words", None)
    if found is None:
        found = _threads.words = np.zeros(WORDS, np.uint64)
        begin, functions = address_of(found), _functions()
        uint64, uint32, double = functions["next_uint64"], functions["next_uint32"], functions["next_double"]
        state, bitgen = begin + 8 * STATE, begin + 8 * BITGEN
        found[VIEW:BITGEN] = 0, state, state, uint64, uint32, double, bitgen
        found[BITGEN:STATE] = state, uint64, uint32, double, uint64  # the last one draws raw numbers
    return found


@kernel
def set_state(key, words):
    """Sets the state of a description to a key."""
    state_of(np.uint64(key), words[STATE:])


def wanted() -> list[Wanted]:
    """This kernel."""
    words: Any = np.empty(0, np.uint64)
    return [(set_state, types_of(1, words))]


def read(builder: Any, address: Any) -> Any:
    """The generator as compiled functions get it, from the address of its description. It has no owner."""
    context = cpu_target.target_context
    word = ir.IntType(64)
    model = context.data_model_manager[GENERATOR]
    view = context.data_model_manager[types.npy_bitgen]
    names = (
        "parent",
        "state_address",
        "state",
        "fnptr_next_uint64",
        "fnptr_next_uint32",
        "fnptr_next_double",
        "bit_generator",
    )
    generator = ir.Constant(model.get_value_type(), None)
    outer = model.get_field_position("bit_generator")
    for number, name in enumerate(names[1:], 1):
        place = builder.inttoptr(builder.add(address, word(8 * (VIEW + number))), word.as_pointer())
        position = [outer, view.get_field_position(name)]
        generator = builder.insert_value(generator, builder.load(place), position)
    return generator
