"""Programs of kernel calls: compiled code runs them for one sample after another, without the interpreter.

A program computes numbers of a sample (addresses, extents) in registers, finds memory, and calls kernels. The arguments of a
call are in a record: address and extents of each array, and the numbers. An *entry* reads a record and calls the compiled kernel
in memory, so no kernel is compiled again. An entry has a few instructions. It is made in some milliseconds, without Numba's
front end, and is not optimised. ``run`` is compiled once for all programs.
"""

import ctypes
import itertools
import time
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils, dispatcher
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.extending import intrinsic
from numba.np import numpy_support
from numpy.typing import NDArray

from pipeflow.kernels.cpu import whole_files
from pipeflow.kernels.cpu.jit import kernel, types_of

_INT32, _INT64 = ir.IntType(32), ir.IntType(64)
_ENTRY = ir.FunctionType(_INT32, [_INT64, _INT64])
STOPPED = 1  # status of a row that ended with an exception of a kernel


class Entry(NamedTuple):
    """A kernel for arguments of certain types, ready to be called by rows."""

    function: int  # address of the compiled kernel
    address: int  # address of the function that reads a row and calls the kernel
    # array k: fields k and k_0, k_1, ... for address and extents; number k: field k; results: r0, r1, ...
    row: np.dtype


def array_type(dtype: np.dtype, axes: int) -> types.Array:
    """The type of a contiguous array."""
    return types.Array(numpy_support.from_dtype(dtype), axes, "C")


def type_of(value: Any) -> types.Type:
    """The type for which a kernel is compiled when it gets this value."""
    return numba.typeof(value)


def entry_of(compiled: dispatcher.Dispatcher, arguments: tuple[types.Type, ...]) -> Entry:
    """The entry of a kernel for these types. The kernel is compiled if no call has had such arguments before."""
    wanted = _layout_of(arguments)
    for signature, result in list(compiled.overloads.items()):
        if _layout_of(signature) == wanted:
            address = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
            return Entry(address, *_entry(wanted, result.signature.return_type))
    compiled.compile(wanted)
    return entry_of(compiled, arguments)


def _layout_of(arguments: tuple[types.Type, ...]) -> tuple[types.Type, ...]:
    """The types without the properties that change nothing in memory: if arrays may be written, and if they are aligned."""
    return tuple(
        types.Array(one.dtype, one.ndim, "C") if isinstance(one, types.Array) and one.layout == "C" else one
        for one in arguments
    )


def offsets_of(row: np.dtype) -> dict[str, int]:
    """The places of the fields of a record."""
    assert row.fields is not None
    return {name: field[1] for name, field in row.fields.items()}


def fields_of(arguments: tuple[types.Type, ...]) -> list[tuple[str, Any]]:
    """The fields of a row for the arguments."""
    fields: list[tuple[str, Any]] = []
    for number, one in enumerate(arguments):
        if isinstance(one, types.Array):
            fields += [(str(number), np.int64), *((f"{number}_{axis}", np.int64) for axis in range(one.ndim))]
        elif not isinstance(one, types.Omitted):
            fields.append((str(number), numpy_support.as_dtype(one)))
    return fields


@cache
@global_compiler_lock
def _entry(arguments: tuple[types.Type, ...], result: types.Type) -> tuple[int, np.dtype]:
    fields = fields_of(arguments)
    results = tuple(result) if isinstance(result, types.BaseTuple) else () if result == types.none else (result,)
    fields += [(f"r{number}", numpy_support.as_dtype(one)) for number, one in enumerate(results)]
    row = np.dtype(fields, align=True)
    return _build(arguments, result, results, row), row


def _build(
    arguments: tuple[types.Type, ...], result: types.Type, results: tuple[types.Type, ...], row: np.dtype
) -> int:
    context = cpu_target.target_context
    builder, kernel_address, row_address = begin_entry()
    offsets = offsets_of(row)

    def place(name: str, kind: Any) -> Any:
        offset = ir.Constant(_INT64, offsets[name])
        return builder.inttoptr(builder.add(row_address, offset), kind.as_pointer())

    values = arguments_of(builder, arguments, place)
    convention = context.call_conv
    callee = builder.inttoptr(kernel_address, convention.get_function_type(result, arguments).as_pointer())
    status, returned = convention.call_function(builder, callee, result, arguments, values)
    for position, one in enumerate(results):
        value = builder.extract_value(returned, position) if isinstance(result, types.BaseTuple) else returned
        stored = context.data_model_manager[one].as_data(builder, value)
        builder.store(stored, place(f"r{position}", stored.type))
    builder.ret(builder.select(status.is_error, ir.Constant(_INT32, STOPPED), ir.Constant(_INT32, 0)))
    return finish_entry(builder)


def new_module(name: str) -> Any:
    """A module of LLVM for this processor."""
    module = ir.Module(name)
    module.triple = binding.get_process_triple()
    module.data_layout = str(cpu_target.target_context.target_data)
    return module


def begin_entry() -> tuple[Any, Any, Any]:
    """The builder of a new entry, and its arguments: the addresses of a kernel and of a row."""
    module = new_module("pipeflow_entry")
    function = ir.Function(module, _ENTRY, f"pipeflow_entry_{next(_NUMBERS)}")
    return ir.IRBuilder(function.append_basic_block()), *function.args


def arguments_of(builder: Any, arguments: tuple[types.Type, ...], place: Callable[[str, Any], Any]) -> list[Any]:
    """The arguments of a kernel, read from a row; ``place`` gives the pointer to a field with this name and type."""
    context = cpu_target.target_context

    def number(name: str) -> Any:
        return builder.load(place(name, _INT64))

    values: list[Any] = []
    for position, one in enumerate(arguments):
        name = str(position)
        if isinstance(one, types.Omitted):
            values.append(None)
            continue
        if not isinstance(one, types.Array):
            stored = builder.load(place(name, context.get_data_type(one)))
            values.append(context.data_model_manager[one].from_data(builder, stored))
            continue
        item = ir.Constant(_INT64, numpy_support.as_dtype(one.dtype).itemsize)
        extents = [number(f"{name}_{axis}") for axis in range(one.ndim)]
        strides: list[Any] = []
        step = item
        for extent in reversed(extents):
            strides.insert(0, step)
            step = builder.mul(step, extent)
        size: Any = ir.Constant(_INT64, 1)
        for extent in extents:
            size = builder.mul(size, extent)
        model = context.data_model_manager[one]
        data = builder.inttoptr(number(name), model.get_value_type().elements[model.get_field_position("data")])
        array = ir.Constant(model.get_value_type(), None)  # an array whose memory has no owner
        for field, value in (("nitems", size), ("itemsize", item), ("data", data)):
            array = builder.insert_value(array, value, model.get_field_position(field))
        for field, each in (("shape", extents), ("strides", strides)):
            for axis, value in enumerate(each):
                array = builder.insert_value(array, value, [model.get_field_position(field), axis])
        values.append(array)
    return values


def finish_entry(builder: Any) -> int:
    """The address of an entry in memory."""
    # Without optimisation: it is a dozen instructions that run once for each sample, and Numba's optimisation took five times as
    # long.
    module = builder.module
    machine = binding.Target.from_triple(module.triple).create_target_machine(opt=0)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(str(module)), machine)
    engine.finalize_object()
    _ENGINES.append(engine)
    return engine.get_function_address(builder.function.name)


_ENGINES: list[Any] = []  # the code stays in memory as long as its engine


_NUMBERS = itertools.count()


@intrinsic
def _call(_typing: Any, address: Any, function: Any, row: Any) -> Any:
    """Calls an entry."""
    del address, function, row

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.call(builder.inttoptr(arguments[0], _ENTRY.as_pointer()), arguments[1:])

    return types.int32(types.int64, types.int64, types.int64), generate


@intrinsic
def load_number(_typing: Any, address: Any) -> Any:
    """The integer of 8 bytes at an address."""
    del address

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], _INT64.as_pointer()))

    return types.int64(types.int64), generate


@intrinsic
def store_number(_typing: Any, address: Any, value: Any) -> Any:
    """Writes an integer of 8 bytes to an address."""
    del address, value

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        builder.store(arguments[1], builder.inttoptr(arguments[0], _INT64.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def _now(_typing: Any, clock: Any, number: Any) -> Any:
    """The time in nanoseconds, by the system's function at an address."""
    del clock, number

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(_INT32, [_INT32, _INT64.as_pointer()])
        memory = cgutils.alloca_once(builder, _INT64, 2)
        which = builder.trunc(arguments[1], _INT32)
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), [which, memory])
        seconds = builder.load(memory)
        rest = builder.load(builder.gep(memory, [ir.Constant(_INT32, 1)]))
        return builder.add(builder.mul(seconds, ir.Constant(_INT64, 1_000_000_000)), rest)

    return types.int64(types.int64, types.int64), generate


OPERATIONS = ("+", "-", "*", "//", "max", "==", "!=", "<", "<=")
ADD, SUBTRACT, MULTIPLY, DIVIDE, LARGER, EQUAL, UNEQUAL, LESS, AT_MOST, CHECK, MEMORY, RESULT, CALL, SKIP, ROOM = range(
    15
)
# Status of a sample: another program may describe it, no program does, or its file needs more memory.
UNDESCRIBED, REFUSED, LARGER_FILE = 2, 3, 4
ALIGNMENT = 64
# What a column is for: its numbers are loaded, or their addresses, or numbers are stored there; DECIDED ones also for samples
# that fail, because they help to find a program for these.
LOADED, ADDRESS, STORED, DECIDED = 0, 1, 2, 3
BY_ROW = 4  # added to these: it has a number for each of the samples that are run, not for each sample of the batch


@kernel
def run(
    program, calls, moves, record, held, columns, inputs, samples, begin, status, memory, results, clock, number, spent
):
    """Runs a program for samples from ``begin`` on. The status of a finished sample is 0.

    An instruction is (operation, target, source, source); CHECK has a status in place of the target. A call is (address of the
    entry, address of the kernel, first move, last move, step). A move is (register, address in the record, 1 if it is a result).
    SKIP goes on at the target if the source is 0. ROOM gives the address that the next MEMORY will have, or RESULT if the last
    number is 1, and the bytes that are left there. A column is (register, address, distance of two samples, what it is for,
    register that is 0 for samples without it, or -1). ``inputs`` are the columns of the first registers:
    their address, their distance, their number, 1 if they are by row. ``held`` are the registers, with the constants.
    ``memory`` and ``results`` are addresses and sizes: memory for one sample, and for the results of all, each at a multiple of
    the third number from the beginning. Returns the first sample that has not run, because memory is too small, and the bytes
    that it needs of both; or else the number of samples, 0, and the bytes of the results. The last number is that of the samples
    that failed. ``spent`` counts the nanoseconds of each step.
    """
    placed = failed = 0  # bytes of results, samples
    for row in range(begin, len(samples)):
        sample = samples[row]
        used, found = 0, placed
        status[row] = 0
        first = inputs[0] + inputs[1] * (row if inputs[3] else sample)
        for at in range(inputs[2]):
            held[at] = load_number(first + 8 * at)
        for at in range(len(columns)):
            register, address, distance, what, _ = columns[at]
            place = address + distance * (row if what >= BY_ROW else sample)
            if what & 3 == LOADED:
                held[register] = load_number(place)
            elif what & 3 == ADDRESS:
                held[register] = place
        following = 0  # the instruction after a step that is skipped
        for at in range(len(program)):
            if at < following:
                continue
            operation, target, one, other = program[at]
            if operation == CALL:
                entry, function, first, last, step = calls[target]
                for move in range(first, last):
                    source, address, back = moves[move]
                    if not back:
                        store_number(address, held[source])
                begun = _now(clock, number)
                status[row] = _call(entry, function, record[target])
                spent[step] += _now(clock, number) - begun
                if status[row]:
                    break
                for move in range(first, last):
                    source, address, back = moves[move]
                    if back:
                        held[source] = load_number(address)
            elif operation == CHECK:
                if not held[one]:
                    status[row] = target
                    break
            elif operation == SKIP:
                if not held[one]:
                    following = target
            elif operation == MEMORY:
                held[target] = memory[0] + used
                used += (held[one] + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
                if used > memory[1]:
                    return row, used, 0, failed
            elif operation == RESULT:
                held[target] = results[0] + found
                found += (held[one] + results[2] - 1) // results[2] * results[2]
                if found > results[1]:
                    return row, 0, found - placed, failed
            elif operation == ROOM:
                held[target] = results[0] + found if other else memory[0] + used
                held[one] = results[1] - found if other else memory[1] - used
            else:
                a, b = held[one], held[other]
                if operation == ADD:
                    held[target] = a + b
                elif operation == SUBTRACT:
                    held[target] = a - b
                elif operation == MULTIPLY:
                    held[target] = a * b
                elif operation == DIVIDE:
                    held[target] = a // b if b else 0
                elif operation == LARGER:
                    held[target] = max(a, b)
                elif operation == EQUAL:
                    held[target] = a == b
                elif operation == UNEQUAL:
                    held[target] = a != b
                elif operation == LESS:
                    held[target] = a < b
                else:
                    held[target] = a <= b
        if status[row]:
            failed += 1
        else:
            placed = found
        kept = DECIDED if status[row] else STORED
        for at in range(len(columns)):
            register, address, distance, what, guard = columns[at]
            if what & 3 >= kept and (guard < 0 or held[guard]):
                store_number(address + distance * (row if what >= BY_ROW else sample), held[register])
    return len(samples), 0, placed, failed


@kernel
def call(entry, function, record):
    """Makes one call; returns its status."""
    return _call(entry, function, record)


def own_kernels(files: bool = True) -> list[tuple[dispatcher.Dispatcher, tuple[types.Type, ...]]]:
    """The kernels that every program needs, and those that read ``files``, with the types of their arguments."""
    table, row, pair = np.zeros((1, 1), np.int64), np.zeros(1, np.int64), (1, 1)
    status = np.zeros(1, np.int32)
    return [
        (run, types_of(table, table, table, row, row, table, pair + pair, row, 1, status, pair, (1, 1, 1), 1, 1, row)),
        (call, types_of(1, 1, 1)),
        *(whole_files.own_kernels() if files else []),
    ]


def loaded() -> bool:
    """True if the kernels that every program needs are in memory."""
    return all(signature in compiled.overloads for compiled, signature in own_kernels(files=False))


def load(files: bool = True) -> None:
    """Reads these kernels from the disk, or compiles them. Those of every program are the last: then all are loaded."""
    for compiled, signature in reversed(own_kernels(files)):
        compiled.compile(signature)


@cache
def runner() -> Callable[..., tuple[int, int, int, int]]:
    """The machine code of `run`."""
    compiled, signature = own_kernels()[0]
    compiled.compile(signature)
    return compiled.overloads[signature].entry_point


@cache
def clock() -> tuple[int, int] | None:
    """The address of the system's function that reads a clock, and the number of the clock; None on a system without it."""
    number = getattr(time, "CLOCK_MONOTONIC", None)
    if number is None or ctypes.sizeof(ctypes.c_long) != 8:
        return None
    function = getattr(ctypes.CDLL(None), "clock_gettime", None)
    return None if function is None else (ctypes.cast(function, ctypes.c_void_p).value or 0, number)


_FIRST: Callable[[Any], Any] = ctypes.c_char.from_buffer


def address_of(array: NDArray) -> int:
    """The address of the first element of an array."""
    try:
        return ctypes.addressof(_FIRST(array))  # a third of the time of the line below
    except (TypeError, ValueError):  # it is read-only, empty or not contiguous, or of a type that no buffer has
        return array.__array_interface__["data"][0]


def aligned(memory: NDArray) -> int:
    """The first address in memory that is a multiple of ALIGNMENT."""
    return -(-address_of(memory) // ALIGNMENT) * ALIGNMENT
