"""Memory for the arrays that compiled functions of the user allocate while a program calls them.

Numba's runtime takes each array from the system, which gives large ones page by page, and the result is then copied to the
memory of the batch. So the code of a function is loaded a second time, and the runtime's function for new arrays is replaced
in it by ``allocate``. This takes arrays from memory of the thread that is used again for every sample. The array that becomes
the result is in the memory of the batch at once: it is known by its number in the order of the allocations of the last call.

``allocate`` and ``release`` are called without arguments for the thread. They find its *desk*, a list of integers, by the
thread-specific storage of Python. Larger arrays than the memory has room for come from Numba's runtime as before.
"""

import ctypes
import threading
from functools import cache
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba.core import config
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.runtime import _nrt_python

from pipeflow.kernels.cpu.jit import kernel, types_of
from pipeflow.kernels.cpu.kernel_calls import load_number, new_module, store_number

# The integers of a desk: the memory of the thread, its free part, the number of allocations of this call, the bytes that they
# take, and the most that a call took; arrays that were freed, and places for results.
BEGIN, END, NEXT, COUNT, TAKEN, MOST_TAKEN, FREED, PLACES, FREED_ARRAYS = range(9)
KEPT = 8  # freed arrays: (address, bytes)
RESULTS = FREED_ARRAYS + 2 * KEPT  # places for results: (number of the allocation, address, bytes, 1 if it was taken)
MOST_PLACES = 4
INTEGERS = RESULTS + 4 * MOST_PLACES
# Numba's description of an array's memory, and the number of the allocation after it.
COUNT_OF_USERS, DATA, NBYTES, ALLOCATOR, NUMBER, HEADER = 0, 24, 32, 40, 48, 64
ALIGNMENT = 64
FIRST, LARGEST = 1 << 18, 1 << 26  # bytes of the memory of a thread
_INT32, _INT64 = ir.IntType(32), ir.IntType(64)
_POINTER = ir.IntType(8).as_pointer()


class Desk:
    """The desk of a thread, and its memory."""

    def __init__(self) -> None:
        self.numbers = np.zeros(INTEGERS, np.int64)
        self._cells = self.numbers.data  # it is read for every batch, and NumPy would take 10 us
        self._memory = np.empty(0, np.uint8)
        self._take(FIRST)
        _set_desk(self.numbers.ctypes.data)

    def prepare(self) -> None:
        """Takes more memory if a call needed it."""
        needed, room = self._cells[MOST_TAKEN], self._cells[END] - self._cells[BEGIN]
        if needed > room < LARGEST:
            self._take(min(needed * 5 // 4, LARGEST))

    def _take(self, nbytes: int) -> None:
        self._memory = np.empty(nbytes + ALIGNMENT, np.uint8)
        begin = -(-self._memory.ctypes.data // ALIGNMENT) * ALIGNMENT
        self.numbers[[BEGIN, END]] = begin, begin + nbytes


_threads = threading.local()


def of_thread() -> Desk:
    """The desk of the calling thread."""
    found: Desk | None = getattr(_threads, "desk", None)
    if found is None:
        found = _threads.desk = Desk()
    return found


def numbers_of_thread() -> np.ndarray:
    """The integers of the desk of the calling thread."""
    return of_thread().numbers


def prepare(samples: int) -> int:
    """Called before a program runs: more memory is taken if the last calls needed it. It may run for all samples."""
    of_thread().prepare()
    return samples


@kernel
def allocate(desk, nbytes, allocator):
    """The address of the description of a new array; 0 if there is no memory for it."""
    number = load_number(desk + 8 * COUNT)
    store_number(desk + 8 * COUNT, number + 1)
    if nbytes < 0 or nbytes > LARGEST:
        return 0
    place = 0
    for k in range(load_number(desk + 8 * PLACES)):
        line = desk + 8 * (RESULTS + 4 * k)
        if load_number(line) == number and nbytes <= load_number(line + 16):
            place = line
            break
    freed = load_number(desk + 8 * FREED)
    for back in range(0 if place else min(freed, KEPT)):
        line = desk + 8 * (FREED_ARRAYS + 2 * ((freed - 1 - back) % KEPT))
        if load_number(line + 8) == nbytes:
            store_number(line + 8, -1)
            array = load_number(line)
            store_number(array + COUNT_OF_USERS, 1)
            store_number(array + NUMBER, number)
            return array
    size = HEADER + (0 if place else (nbytes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT)
    taken = load_number(desk + 8 * TAKEN) + size
    store_number(desk + 8 * TAKEN, taken)
    store_number(desk + 8 * MOST_TAKEN, max(taken, load_number(desk + 8 * MOST_TAKEN)))
    array = load_number(desk + 8 * NEXT)
    if array + size > load_number(desk + 8 * END):
        return 0
    store_number(desk + 8 * NEXT, array + size)
    data = array + HEADER
    if place:
        data = load_number(place + 8)
        store_number(place + 24, 1)
    for offset in range(0, HEADER, 8):
        store_number(array + offset, 0)
    store_number(array + COUNT_OF_USERS, 1)
    store_number(array + DATA, data)
    store_number(array + NBYTES, nbytes)
    store_number(array + ALLOCATOR, allocator)
    store_number(array + NUMBER, number)
    return array


@kernel
def release(desk, array):
    """Keeps a freed array for the next one of its size."""
    if load_number(array + DATA) == array + HEADER:
        freed = load_number(desk + 8 * FREED)
        line = desk + 8 * (FREED_ARRAYS + 2 * (freed % KEPT))
        store_number(line, array)
        store_number(line + 8, load_number(array + NBYTES))
        store_number(desk + 8 * FREED, freed + 1)


def _machine_code(compiled: Any, numbers: int) -> int:
    signature = types_of(*[1] * numbers)
    compiled.compile(signature)
    made = compiled.overloads[signature]
    return made.library.get_pointer_to_function(made.fndesc.llvm_func_name)


# The functions that Numba's code calls.


@cache
def _key() -> int:
    """The address of the key of Python's thread-specific storage."""
    python = ctypes.pythonapi
    python.PyThread_tss_alloc.restype = ctypes.c_void_p
    python.PyThread_tss_create.argtypes = [ctypes.c_void_p]
    python.PyThread_tss_set.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    key = python.PyThread_tss_alloc()
    if not key or python.PyThread_tss_create(key):
        raise MemoryError("no key for thread-specific storage is left")
    return int(key)


def _set_desk(address: int) -> None:
    key = _key()
    ctypes.pythonapi.PyThread_tss_set(key, address)


class Allocator:
    """The functions in place of Numba's."""

    def __init__(self) -> None:
        module = new_module("pipeflow_function_memory")
        function = ir.Function(module, ir.FunctionType(_POINTER, [_INT64, _INT32]), "pipeflow_allocate")
        freeing = ir.Function(module, ir.FunctionType(ir.VoidType(), [_POINTER, _POINTER]), "pipeflow_release")
        self._table = np.zeros(4, np.int64)  # as Numba's type of an allocator: only the function that frees is called
        self.address_of_table = self._table.ctypes.data
        getter = ctypes.cast(ctypes.pythonapi.PyThread_tss_get, ctypes.c_void_p).value or 0

        def desk(builder: Any) -> Any:
            called = builder.inttoptr(_INT64(getter), ir.FunctionType(_INT64, [_INT64]).as_pointer())
            return builder.call(called, [_INT64(_key())])

        def call(builder: Any, compiled: Any, result: Any, arguments: list[Any]) -> Any:
            signature = types_of(*[1] * len(arguments))
            convention = cpu_target.target_context.call_conv
            address = _INT64(_machine_code(compiled, len(arguments)))
            kind = compiled.overloads[signature].signature.return_type
            callee = builder.inttoptr(address, convention.get_function_type(kind, signature).as_pointer())
            _, returned = convention.call_function(builder, callee, kind, signature, arguments)
            return returned

        builder = ir.IRBuilder(function.append_basic_block())
        nbytes, alignment = function.args
        made = call(builder, allocate, _INT64, [desk(builder), nbytes, _INT64(self.address_of_table)])
        with builder.if_then(builder.icmp_signed("==", made, _INT64(0)), likely=False):
            original = builder.inttoptr(_INT64(_nrt_python.c_helpers["MemInfo_alloc_aligned"]), function.type)
            builder.ret(builder.call(original, [nbytes, alignment]))
        builder.ret(builder.inttoptr(made, _POINTER))
        builder = ir.IRBuilder(freeing.append_basic_block())
        call(builder, release, None, [desk(builder), builder.ptrtoint(freeing.args[0], _INT64)])
        builder.ret_void()
        self._engine = binding.create_mcjit_compiler(binding.parse_assembly(str(module)), _machine(0))
        self._engine.finalize_object()
        self.address = self._engine.get_function_address(function.name)
        self._table[2] = self._engine.get_function_address(freeing.name)


@cache
def allocator() -> Allocator:
    """The functions, made once."""
    return Allocator()


def _machine(level: Any) -> Any:
    """The settings with which Numba makes machine code."""
    options: dict[str, Any] = {"opt": level}
    cpu_target.target_context.codegen()._customize_tm_options(options)
    return binding.Target.from_triple(binding.get_process_triple()).create_target_machine(**options)


_ENGINES: list[Any] = []  # the code stays in memory as long as its engine
NEW_ARRAY = "NRT_MemInfo_alloc_aligned"


@global_compiler_lock
def redirected(library: Any, name: str) -> int | None:
    """The address of a function of a library with its arrays in the memory of the thread; None if it allocates no array."""
    module = binding.parse_bitcode(library._get_module_for_linking().as_bitcode())
    if not any(function.name == NEW_ARRAY for function in module.functions):
        return None
    if any(variable.name.startswith(".numba.unresolved$") for variable in module.global_variables):
        return None  # it calls itself
    module.get_function(name).linkage = "external"
    engine = binding.create_mcjit_compiler(module, _machine(config.OPT))
    engine.add_global_mapping(module.get_function(NEW_ARRAY), allocator().address)
    engine.finalize_object()
    _ENGINES.append(engine)
    return engine.get_function_address(name)
