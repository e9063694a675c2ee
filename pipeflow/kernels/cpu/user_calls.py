"""Compiled functions of the user as kernels of programs, which call their machine code.

A function allocates its results, and their extents are known only after the call. The entry of such a function
(kernel_calls.py) calls it, copies the results to the memory that is left for them, unless they were allocated there
(function_memory.py), frees those in memory of Numba, and returns the extents. The code of the function is the one that Numba has
compiled for calls from Python, so the results are the same.
"""

import os
import threading
from collections.abc import Callable, Sequence
from copy import copy
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from numba.core.runtime import _nrt_python
from numba.extending import intrinsic
from numba.np import numpy_support

from pipeflow import timing
from pipeflow.kernels import cpu as kernels
from pipeflow.kernels.cpu import function_memory, function_numbers, kernel_calls
from pipeflow.kernels.cpu.jit import kernel, types_of
from pipeflow.kernels.cpu.user_functions import array_type, in_order, signature_of

Kinds = tuple[tuple[np.dtype, int], ...]  # type and number of axes of each array
_BYTE, _INT32, _INT64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_POINTER = _BYTE.as_pointer()


class NativeFunction:
    """A function that is compiled for inputs of certain types."""

    def __init__(self, compiled: Any, outputs: Kinds, types_of_results: Sequence[types.Type], writes: bool) -> None:
        self._compiled = compiled  # Numba's result, which keeps the code
        self._results = types_of_results
        self.outputs = outputs
        self.writes = writes  # True if it may write to its inputs
        self.draws = function_numbers.GENERATOR in compiled.signature.args
        library, name = compiled.library, compiled.fndesc.llvm_func_name
        own = function_memory.redirected(library, name)
        self.allocates = own is not None  # True if its arrays are in the memory of the thread
        self._address = library.get_pointer_to_function(name) if own is None else own

    def returning(self, numbers: Sequence[np.dtype | None]) -> "NativeFunction | None":
        """The function for results that are numbers of these types, or arrays (None); None if it returns others."""
        outputs = []
        if len(numbers) != len(self.outputs):
            return None
        for wanted, (dtype, axes) in zip(numbers, self.outputs):
            if wanted not in (None, dtype) and (axes or wanted != _in_python(dtype)):
                return None
            outputs.append((wanted or dtype, axes))
        found = copy(self)
        found.outputs = tuple(outputs)
        return found

    def entry(self, places: tuple[int, ...]) -> kernel_calls.Entry:
        """The entry. Its arguments are the inputs, then address and size of each memory for results, the desk of the thread
        (function_memory.py), and its generator if the function ``draws`` numbers (function_numbers.py). ``places`` has the
        number of the memory of each output. Its results are the extents of the outputs, one after another.
        """
        signature = self._compiled.signature
        types_of_call = tuple(signature.args), signature.return_type, tuple(self._results)
        dtypes = tuple([dtype for dtype, _ in self.outputs])
        return kernel_calls.Entry(self._address, *_entry(*types_of_call, dtypes, places, self.allocates))


class DirectCall:
    """Calls a function for one sample as a program does, to find out how long it takes. The results are not used."""

    def __init__(self, function: NativeFunction) -> None:
        self._function = function
        self._entry = function.entry((0,) * len(function.outputs))
        self._record = np.zeros(1, self._entry.row)
        self._address = kernel_calls.address_of(self._record.view(np.uint8))
        self._room = np.empty(0, np.uint8)
        self._lock = threading.Lock()
        kernel_calls.call.compile(types_of(1, 1, 1))  # else the first time would be that of the compiler

    def seconds(self, arrays: Sequence[np.ndarray], nbytes: int, state: Any) -> float | None:
        """The processor time of a call whose results have so many bytes, and whose generator has this ``state``. -1 if it ended
        early: a program would leave such a sample to Python. None if another thread measures a call.
        """
        if state is not None and state["bit_generator"] != "SFC64":  # another one than those of pipelines
            return -1.0
        if not self._lock.acquire(blocking=False):
            return None
        try:
            row: Any = self._record
            if len(self._room) < nbytes:
                self._room = np.empty(nbytes, np.uint8)
            for number, array in enumerate([*map(in_order, arrays), *self._rooms()]):
                if isinstance(array, int):
                    row[str(number)] = array
                    continue
                row[str(number)] = kernel_calls.address_of(array)
                for axis, extent in enumerate(array.shape):
                    row[f"{number}_{axis}"] = extent
            if state is not None:
                function_numbers.of_thread()[function_numbers.STATE :] = [*state["state"]["state"], 0]
            begun = timing.processor()
            status = kernel_calls.call(self._entry.address, self._entry.function, self._address)
            spent = timing.processor() - begun
        finally:
            self._lock.release()
        return -1.0 if status else spent

    def _rooms(self) -> list[Any]:
        """The arguments after the inputs (``NativeFunction.entry``)."""
        found: list[Any] = [kernel_calls.address_of(self._room), len(self._room)]
        if self._function.allocates:
            function_memory.prepare(1)
            found.append(function_memory.numbers_of_thread())
        if self._function.draws:
            found.append(function_numbers.of_thread())
        return found


class CompiledVersion:
    """A function for inputs of certain types, which a thread compiles."""

    def __init__(self) -> None:
        self.ready = False
        self.function: NativeFunction | None = None  # None if compiled code cannot call it


class CompiledVersions:
    """The versions of a function."""

    def __init__(self, compiled: Dispatcher) -> None:
        self._dispatcher = compiled
        self._known: dict[Any, CompiledVersion] = {}
        self._lock = threading.Lock()

    def find(self, inputs: Kinds, writable: tuple[bool, ...], draws: bool) -> CompiledVersion:
        """The version for inputs of these types, of which the function may write to those that are ``writable``. If it ``draws``,
        it has a parameter ``rng``.
        """
        with self._lock:
            known = self._known.get((inputs, writable))
            if known is None:
                known = self._known[inputs, writable] = CompiledVersion()
                kernels.tried_functions.in_background(lambda: self._compile(known, inputs, writable, draws))
        if not known.ready and os.environ.get("PIPEFLOW_START") == "wait":
            kernels.tried_functions.wait_for_trials()
        return known

    def _compile(self, version: CompiledVersion, inputs: Kinds, writable: tuple[bool, ...], draws: bool) -> None:
        """Compiles a version that writes to no input; if the function does write, one for those that it may write to."""
        for rights in dict.fromkeys([(False,) * len(inputs), writable]):
            wanted = [array_type(dtype, ndim, not right) for (dtype, ndim), right in zip(inputs, rights)]
            try:
                version.function = native(self._dispatcher, wanted, any(rights), draws)
                break
            except Exception:  # the call from Python reports why it cannot be compiled
                continue
        version.ready = True


def native(
    compiled: Dispatcher, inputs: Sequence[types.Type], writes: bool = False, draws: bool = False
) -> NativeFunction | None:
    """A dispatcher for inputs of these types, and for a generator if it ``draws``, compiled if it is not yet; None if no program
    can call it.
    """
    options = compiled.targetoptions
    if (
        (draws and not function_numbers.known())
        or not options.get("nogil")
        or options.get("parallel")
        or options.get("forceobj")
    ):
        return None
    named = {"rng": function_numbers.GENERATOR} if draws else {}
    signature = signature_of(compiled, inputs, named)
    compiled.compile(signature)
    made = compiled.overloads[signature]
    if made.objectmode or made.lifted:
        return None
    found = made.signature.return_type
    results = list(found) if isinstance(found, types.BaseTuple) else [found]
    outputs = [_kind_of(one) for one in results]
    if not outputs or isinstance(found, types.BaseNamedTuple) or None in outputs:
        return None
    return NativeFunction(made, tuple(one for one in outputs if one), results, writes)


def _kind_of(result: types.Type) -> tuple[np.dtype, int] | None:
    """The type of a result, with its number of axes; None if a program cannot copy it."""
    if isinstance(result, types.Array):
        try:
            dtype = numpy_support.as_dtype(result.dtype)
        except NotImplementedError:
            return None
        return (dtype, result.ndim) if dtype.kind in "biuf" else None
    known = isinstance(result, (types.Boolean, types.Integer)) or result in (types.float32, types.float64)
    return (numpy_support.as_dtype(result), 0) if known else None


def _in_python(dtype: np.dtype) -> np.dtype:
    """The type of the array that NumPy makes of a number that is one of Python's."""
    return np.dtype({"i": np.int64, "u": np.int64, "f": np.float64}.get(dtype.kind, dtype))


# The entry.


@cache
@global_compiler_lock
def _entry(
    arguments: tuple[types.Type, ...],
    result: types.Type,
    results: tuple[types.Type, ...],
    dtypes: tuple[np.dtype, ...],
    places: tuple[int, ...],
    allocates: bool,
) -> tuple[int, np.dtype]:
    inputs = tuple([one for one in arguments if one != function_numbers.GENERATOR])
    fields = kernel_calls.fields_of(inputs)
    first = sum(not isinstance(one, types.Omitted) for one in inputs)
    memories = max(places) + 1
    fields += [(str(first + number), np.int64) for number in range(2 * memories)]
    desk = first + 2 * memories
    if allocates:
        fields += [(str(desk), np.int64), (f"{desk}_0", np.int64)]
        fields += [(f"w{number}", np.int64) for number in range(memories)]
    generator = str(desk + allocates)
    if len(inputs) < len(arguments):
        fields += [(generator, np.int64), (f"{generator}_0", np.int64)]
    axes = sum(getattr(one, "ndim", 0) for one in results)
    fields += [(f"r{number}", np.int64) for number in range(axes)]
    row = np.dtype(fields, align=True)
    offsets = kernel_calls.offsets_of(row)
    context = cpu_target.target_context
    builder, function_address, row_address = kernel_calls.begin_entry()

    def place(name: str, kind: Any) -> Any:
        return builder.inttoptr(builder.add(row_address, _INT64(offsets[name])), kind.as_pointer())

    addresses = [builder.load(place(str(first + 2 * k), _INT64)) for k in range(memories)]
    left = [builder.load(place(str(first + 2 * k + 1), _INT64)) for k in range(memories)]
    wanted = None
    if allocates:
        numbers = [place(f"w{k}", _INT64) for k in range(memories)]
        wanted = _ResultPlaces(builder, builder.load(place(str(desk), _INT64)), numbers, addresses, left)
    values = kernel_calls.arguments_of(builder, inputs, place)
    if len(inputs) < len(arguments):
        drawing = function_numbers.read(builder, builder.load(place(generator, _INT64)))
        values.insert(arguments.index(function_numbers.GENERATOR), drawing)
    convention = context.call_conv
    callee = builder.inttoptr(function_address, convention.get_function_type(result, arguments).as_pointer())
    status, returned = convention.call_function(builder, callee, result, arguments, values)
    with builder.if_then(status.is_error, likely=False):
        _free_exception(builder, status)
        builder.ret(_INT32(kernel_calls.STOPPED))
    number, end, seen = 0, _INT32(0), set[int]()
    for position, (one, dtype, memory) in enumerate(zip(results, dtypes, places)):
        value = builder.extract_value(returned, position) if isinstance(result, types.BaseTuple) else returned
        if isinstance(one, types.Array):
            array = context.make_array(one)(context, builder, value=value)
            extents = cgutils.unpack_tuple(builder, array.shape, one.ndim)
            for extent in extents:
                builder.store(extent, place(f"r{number}", _INT64))
                number += 1
            size = numpy_support.as_dtype(one.dtype).itemsize
            nbytes: Any = _INT64(size)
            for extent in extents:
                nbytes = builder.mul(nbytes, extent)
            copied = builder.icmp_signed("<=", nbytes, left[memory])
            if wanted is not None and memory not in seen:
                there, wrong = wanted.check(memory, array, nbytes, one.layout == "C")
                copied = builder.and_(copied, builder.not_(builder.or_(there, wrong)))
                end = builder.select(wrong, _INT32(kernel_calls.REFUSED), end)
            with builder.if_then(copied):
                _copy(builder, one, array, extents, addresses[memory], nbytes, size)
            _release(builder, array.meminfo)
        else:
            stored = _plain_number(builder, one, value, dtype)
            if one == types.uint64 and dtype != np.uint64:
                other = builder.icmp_signed("<", value, _INT64(0))
                end = builder.select(other, _INT32(kernel_calls.REFUSED), end)
            nbytes = _INT64(dtype.itemsize)
            with builder.if_then(builder.icmp_signed("<=", nbytes, left[memory])):
                builder.store(stored, builder.inttoptr(addresses[memory], stored.type.as_pointer()))
        seen.add(memory)
        more = builder.and_(builder.add(nbytes, _INT64(kernel_calls.ALIGNMENT - 1)), _INT64(-kernel_calls.ALIGNMENT))
        addresses[memory] = builder.add(addresses[memory], more)
        left[memory] = builder.sub(left[memory], more)
    builder.ret(end)
    return kernel_calls.finish_entry(builder), row


class _ResultPlaces:
    """The part of an entry that lets a function allocate its results in the memory for them (function_memory.py).

    The record has a number for each memory: that of the allocation which became its first result in an earlier call, plus 1.
    It is 0 if none is known, and NEVER if such an allocation was not the whole result.
    """

    NEVER = -1

    def __init__(self, builder: Any, desk: Any, numbers: list[Any], addresses: list[Any], left: list[Any]) -> None:
        self._builder, self._desk, self._numbers = builder, desk, numbers
        self._addresses = list(addresses)
        tools = function_memory
        begin = builder.load(self._at(tools.BEGIN))
        builder.store(begin, self._at(tools.NEXT))
        for place in (tools.COUNT, tools.TAKEN, tools.FREED):
            builder.store(_INT64(0), self._at(place))
        places = min(len(numbers), tools.MOST_PLACES)
        builder.store(_INT64(places), self._at(tools.PLACES))
        for memory in range(places):
            known = builder.sub(builder.load(numbers[memory]), _INT64(1))
            for part, value in enumerate((known, addresses[memory], left[memory], _INT64(0))):
                builder.store(value, self._at(tools.RESULTS + 4 * memory + part))

    def _at(self, number: int) -> Any:
        return self._pointer(self._desk, 8 * number)

    def _pointer(self, address: Any, offset: int) -> Any:
        return self._builder.inttoptr(self._builder.add(address, _INT64(offset)), _INT64.as_pointer())

    def check(self, memory: int, array: Any, nbytes: Any, contiguous: bool) -> tuple[Any, Any]:
        """True if a result is in its memory already; True if another array is in this memory."""
        tools, builder = function_memory, self._builder
        no = ir.Constant(ir.IntType(1), 0)
        if memory >= tools.MOST_PLACES:
            return no, no
        owner = builder.ptrtoint(array.meminfo, _INT64)
        data = builder.ptrtoint(array.data, _INT64)
        whole = cgutils.alloca_once_value(builder, no)
        if contiguous:
            with builder.if_then(builder.icmp_signed("!=", owner, _INT64(0))):

                def is_in(offset: int, value: Any) -> Any:
                    return builder.icmp_signed("==", builder.load(self._pointer(owner, offset)), value)

                own = is_in(tools.ALLOCATOR, _INT64(tools.allocator().address_of_table))
                all_of_it = builder.and_(is_in(tools.DATA, data), is_in(tools.NBYTES, nbytes))
                builder.store(builder.and_(own, all_of_it), whole)
        whole = builder.load(whole)
        taken = builder.icmp_signed("!=", builder.load(self._at(tools.RESULTS + 4 * memory + 3)), _INT64(0))
        there = builder.and_(whole, builder.icmp_signed("==", data, self._addresses[memory]))
        wrong = builder.and_(taken, builder.not_(there))
        with builder.if_then(wrong, likely=False):
            builder.store(_INT64(self.NEVER), self._numbers[memory])
        unknown = builder.icmp_signed("==", builder.load(self._numbers[memory]), _INT64(0))
        with builder.if_then(builder.and_(unknown, whole), likely=False):
            number = builder.load(self._pointer(owner, tools.NUMBER))
            builder.store(builder.add(number, _INT64(1)), self._numbers[memory])
        return there, wrong


def _helper(builder: Any, name: str) -> Any:
    """A function of Numba's runtime with one argument, a pointer."""
    address = _nrt_python.c_helpers[name]
    return builder.inttoptr(_INT64(address), ir.FunctionType(ir.VoidType(), [_POINTER]).as_pointer())


def _release(builder: Any, owner: Any) -> None:
    """Gives back the memory of a result, if it is not that of an input."""
    owned = builder.bitcast(owner, _POINTER)
    with builder.if_then(builder.icmp_unsigned("!=", owned, ir.Constant(_POINTER, None))):
        builder.call(_helper(builder, "MemInfo_release"), [owned])


def _free_exception(builder: Any, status: Any) -> None:
    """Frees the memory of an exception with values of the call; the others are constants."""
    described = builder.load(status.excinfoptr)
    with builder.if_then(builder.icmp_signed(">", builder.extract_value(described, 4), _INT32(0))):
        builder.call(_helper(builder, "Free"), [builder.extract_value(described, 2)])
        builder.call(_helper(builder, "Free"), [builder.bitcast(status.excinfoptr, _POINTER)])


def _plain_number(builder: Any, one: types.Type, value: Any, dtype: np.dtype) -> Any:
    """A number as it is, or as one of float64 or int64."""
    if isinstance(one, types.Boolean):
        return builder.zext(value, _BYTE)
    if numpy_support.as_dtype(one) == dtype:
        return value
    if isinstance(one, types.Integer):
        return (builder.sext if one.signed else builder.zext)(value, _INT64) if one.bitwidth < 64 else value
    return builder.fpext(value, ir.DoubleType()) if one == types.float32 else value


def _copy(
    builder: Any, one: types.Array, array: Any, extents: Sequence[Any], address: Any, nbytes: Any, size: int
) -> None:
    target = builder.inttoptr(address, _POINTER)
    if one.layout == "C" or one.ndim == 0:
        cgutils.raw_memcpy(builder, target, builder.bitcast(array.data, _POINTER), nbytes, 1)
        return
    strides = cgutils.unpack_tuple(builder, array.strides, one.ndim)
    lists = []
    for numbers in (extents, strides):
        memory = cgutils.alloca_once(builder, _INT64, one.ndim)
        for axis, number in enumerate(numbers):
            builder.store(number, builder.gep(memory, [_INT32(axis)]))
        lists.append(builder.ptrtoint(memory, _INT64))
    data = builder.ptrtoint(array.data, _INT64)
    context, arguments = cpu_target.target_context, (types.int64,) * 6
    convention = context.call_conv
    callee = builder.inttoptr(
        _INT64(_gather_address()), convention.get_function_type(types.none, arguments).as_pointer()
    )
    values = [data, address, *lists, _INT64(one.ndim), _INT64(size)]
    convention.call_function(builder, callee, types.none, arguments, values)


@intrinsic
def _move(_typing: Any, target: Any, source: Any, nbytes: Any) -> Any:
    """Copies bytes from one address to another."""
    del target, source, nbytes

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        places = [builder.inttoptr(address, _POINTER) for address in arguments[:2]]
        cgutils.raw_memcpy(builder, *places, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


def _moves_item(width: int) -> Callable[..., Any]:
    @intrinsic
    def move(_typing: Any, target: Any, source: Any) -> Any:
        """Copies one element from one address to another."""
        del target, source

        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            places = [builder.inttoptr(address, ir.IntType(8 * width).as_pointer()) for address in arguments]
            builder.store(builder.load(places[1], align=1), places[0], align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return move


_move_1, _move_2, _move_4, _move_8, _move_16 = map(_moves_item, (1, 2, 4, 8, 16))
_number_at = kernel_calls.load_number
SHORT = 32  # bytes that are copied element by element: a call for more bytes is as fast


@kernel
def _copy_line(place, step, last, size, out):
    """Copies elements of so many bytes at equal distances to contiguous memory."""
    if step == size and last * size > SHORT:
        _move(out, place, last * size)
    elif size == 1:
        for item in range(last):
            _move_1(out + item, place + item * step)
    elif size == 2:
        for item in range(last):
            _move_2(out + 2 * item, place + item * step)
    elif size == 4:
        for item in range(last):
            _move_4(out + 4 * item, place + item * step)
    else:
        for item in range(last):
            _move_8(out + 8 * item, place + item * step)


@kernel
def _move_three_1(target, source, step):
    _move_1(target, source)
    _move_1(target + 1, source + step)
    _move_1(target + 2, source + 2 * step)


@kernel
def _move_three_4(target, source, step):
    _move_4(target, source)
    _move_4(target + 4, source + step)
    _move_4(target + 8, source + 2 * step)


@kernel
def _copy_lines(place, jump, lines, step, last, size, out):
    """Copies lines of elements. Lines of three colours of the most usual types take a third of the time without a loop each.

    If the colours are next to each other, a pixel between others is moved with the number behind it, which the next one replaces.
    """
    between = max(lines - 1, 0) if step == size and jump != 0 else 0
    if last == 3 and size == 1:
        for line in range(1, between):
            _move_4(out + 3 * line, place + jump * line)
        for line in range(between, lines):
            _move_three_1(out + 3 * line, place + jump * line, step)
        if between:
            _move_three_1(out, place, step)
    elif last == 3 and size == 4:
        for line in range(1, between):
            _move_16(out + 12 * line, place + jump * line)
        for line in range(between, lines):
            _move_three_4(out + 12 * line, place + jump * line, step)
        if between:
            _move_three_4(out, place, step)
    else:
        for line in range(lines):
            _copy_line(place + jump * line, step, last, size, out + last * size * line)


@kernel
def gather(source, out, extents, strides, axes, size):
    """Copies an array with any strides to contiguous memory. All numbers but the last two are addresses."""
    last, step = _number_at(extents + 8 * (axes - 1)), _number_at(strides + 8 * (axes - 1))
    if axes > 1 and step == size and last * size in (2, 4, 8):  # pixels that are moved like one element
        axes -= 1
        size *= last
        last, step = _number_at(extents + 8 * (axes - 1)), _number_at(strides + 8 * (axes - 1))
    left = axes - 1
    while left and _number_at(strides + 8 * (left - 1)) == last * step:  # the axis goes on where the last one ends
        left -= 1
        last *= _number_at(extents + 8 * left)
    if not last:
        return
    lines, jump = 1, 0
    if left:
        left -= 1
        lines, jump = _number_at(extents + 8 * left), _number_at(strides + 8 * left)
    rows = 1
    for axis in range(left):
        rows *= _number_at(extents + 8 * axis)
    for row in range(rows):
        rest, place = row, source
        for axis in range(left - 1, -1, -1):
            extent = _number_at(extents + 8 * axis)
            place += rest % extent * _number_at(strides + 8 * axis)
            rest //= extent
        _copy_lines(place, jump, lines, step, last, size, out)
        out += last * size * lines


@kernel
def copy_bytes(source, out):
    """Copies bytes: a function that writes to its input gets a copy, so the sample can be processed again."""
    for item in range(source.size):
        out[item] = source[item]


@cache
def _gather_address() -> int:
    signature = types_of(1, 1, 1, 1, 1, 1)
    gather.compile(signature)
    made = gather.overloads[signature]
    return made.library.get_pointer_to_function(made.fndesc.llvm_func_name)
