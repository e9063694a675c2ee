"""Programs of chains: the work of several steps on a first sample is recorded, and repeated by compiled code for others.

``kernels/cpu/kernel_calls.py`` has the code that repeats it.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from math import prod
from typing import Any, Protocol

import numpy as np

from pipeflow.backends.cpu import Arena, HeapPool
from pipeflow.declare import (
    Args,
    KernelArray,
    KernelCalls,
    MakeRows,
    NoTable,
    Number,
    OfThread,
    Real,
    Spec,
    argument_column,
    require,
)
from pipeflow.declare.bound import PLAIN_ERRORS
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.runners.sample_step import ChunkRows, SampleStep, is_large
from pipeflow.kernels import counts
from pipeflow.kernels import cpu as kernels

MOST = 1 << 31  # bytes of an array; samples with larger arrays are computed one by one
LARGEST = 1 << 28  # bytes of memory for a sample; samples that need more are computed one by one
BLOCK = 1 << 26  # bytes of results that are allocated at once, unless one sample needs more
SCRATCH = -1  # the slot of an arena for data between the calls
BYTE = np.dtype(np.uint8)
NO_MEMORY = np.empty(0, np.uint8)


class Members(Protocol):
    """The steps of a program."""

    steps: Sequence[SampleStep]
    inputs: tuple[int, ...]  # the slots that they read and do not fill
    used: set[int]  # the slots that they fill and others read
    later: bool  # True if other steps of the stage follow


def held_by(batch: BatchRun, slot: int, sample: int) -> np.ndarray:
    """The value of a slot for a sample."""
    held = batch.values[slot]
    return held[sample] if type(held) is list else held[sample, ...]


class Program:
    """The work of a chain, recorded with a first sample, for samples like it."""

    def __init__(self, chain: Members) -> None:
        self.chain = chain
        self._size = 0
        self._keys: list[tuple[int, int]] = []  # register, slot of the keys
        self._columns: list[tuple[int, int, Any, bool]] = []  # register, slot of an argument, its kind, True for floats
        self._tables: list[_BatchTable] = []
        self._counted: list[str] = []
        self._later: list[tuple[KernelArray, KernelArray]] = []  # results that are copied past the caches
        self._start: list[int] = []  # the first value of every register
        self._constants: dict[int, Number] = {}
        self._instructions: list[tuple[int, int, int, int]] = []
        self._calls: list[_KernelCall] = []
        self.step = 0  # the number of the step that is recorded
        self.places: list[_Place] = []
        self.given: list[tuple[int, str, np.ndarray]] = []  # results that are the same for all samples
        self.read: list[tuple[int, int]] = []  # register of the address of each input, number of its axes
        self.layouts: dict[int, str] = {}
        self._made: dict[int, KernelCalls] = {}  # the calls of each step
        self._threads = threading.local()

    def record(self, batch: BatchRun, sample: int, arrays: Sequence[np.ndarray]) -> None:
        """Records the work on a first sample."""
        self._size = batch.size
        columns: dict[int, KernelArray] = {}
        layouts = {slot: batch.layouts[slot] or "" for slot in self.chain.inputs}
        for slot, array in zip(self.chain.inputs, arrays):
            address = self._register(kernels.kernel_calls.address_of(array))
            extents = tuple([self._register(extent) for extent in array.shape])
            self.read.append((address.register, array.ndim))
            columns[slot] = KernelArray(address, extents, array.dtype)
        for number, step in enumerate(self.chain.steps):
            self.step = number
            self._declare(number, step, columns, layouts, batch, sample)
        self._made.clear()  # they refer to the batch
        self._finish()

    def _calls_of(self, number: int, batch: BatchRun, sample: int) -> KernelCalls:
        """The calls of a step, to which its operator adds. They also tell the step before which part of an image this step
        reads.
        """
        if number in self._made:
            return self._made[number]
        step = self.chain.steps[number]
        varying = {name: self._argument(batch, slot, step.kind_of(name), sample) for name, slot, _ in step.arguments}
        key = None
        if step.random:
            key = self._register(_signed(batch.keys[step.key_slot][sample]))
            self._keys.append((key.register, step.key_slot))

        def place(output: int, extents: tuple[Any, ...], dtype: np.dtype) -> KernelArray:
            return self._output(step, output, extents, dtype)

        def part(height: Any, width: Any) -> Sequence[Any]:
            following = self.chain.steps[number + 1].op.reads_calls_hook
            assert following is not None
            self.step = number + 1
            read = following(self._calls_of(number + 1, batch, sample), height, width)
            self.step = number
            return read

        def rows(make: MakeRows, numbers: bool) -> KernelArray | Sequence[Real]:
            table = _BatchTable(len(self._start), step, make, numbers)
            made = table.of(batch)
            self._tables.append(table)
            if numbers:
                return [Real(self._register(_bits(value)).register, value) for value in made[sample].tolist()]
            address = self._register(kernels.kernel_calls.address_of(made) + sample * made.strides[0])
            return KernelArray(address, made.shape[1:], made.dtype)

        args = Args(**{**step.op.defaults, **step.constants, **varying})
        private = part if self._is_private(number) else None
        made = self._made[number] = KernelCalls(self, place, args, key, private, rows)
        return made

    def _is_private(self, number: int) -> bool:
        """True if only the next step reads the output of a step, and knows which part of it."""
        steps = self.chain.steps
        slot = steps[number].step.outputs[0]
        return (
            number + 1 < len(steps)
            and slot not in self.chain.used
            and steps[number + 1].step.inputs == (slot,)
            and steps[number + 1].op.reads_calls_hook is not None
            and sum(slot in step.step.inputs for step in steps) == 1
        )

    def _declare(
        self,
        number: int,
        step: SampleStep,
        columns: dict[int, KernelArray],
        layouts: dict[int, str],
        batch: BatchRun,
        sample: int,
    ) -> None:
        """Records one step."""
        slots, op = step.step.outputs, step.op
        inputs = [columns[slot] for slot in step.step.inputs]
        op.check_dtype(inputs[0].dtype)
        require(not op.layouts or layouts[step.step.inputs[0]] in op.layouts)
        calls = self._calls_of(number, batch, sample)
        calls.inputs, calls.layouts = inputs, [layouts[slot] for slot in step.step.inputs]
        assert op.calls_hook is not None
        op.calls_hook(calls)
        for made, kept in self._later:
            self.call(kernels.streaming.stream, (made, kept), now=False)
        self._later.clear()
        arguments = {name: _plain_value(value) for name, value in vars(calls.args).items()}
        specs = [
            Spec(tuple([_value(extent) for extent in memory.extents]), memory.dtype, layouts[slot])
            for slot, memory in zip(step.step.inputs, inputs)
        ]
        for output, spec in enumerate(op.specs(tuple(specs), arguments, step.count)):
            layouts[slots[output]] = self.layouts[slots[output]] = spec.layout or ""
        for output, memory in calls.outputs.items():
            columns[slots[output]] = memory
        for output, value in calls.constants.items():
            if slots[output] in self.chain.used:
                self.given.append((slots[output], step.storages[output], value))

    # The methods that declarations call.

    def _register(self, value: int | None) -> Number:
        self._start.append(value or 0)
        return Number(self, len(self._start) - 1, value)

    def _argument(self, batch: BatchRun, slot: int, kind: Any, sample: int) -> Number | Real:
        """An argument that differs from sample to sample."""
        column = batch.column(slot, kind)
        require(column is not None)
        assert column is not None
        value = column[sample]
        real = type(value) is float
        require(batch.numbers(slot, kind, real) is not None)
        number = self._register(_bits(value) if real else int(value))
        self._columns.append((number.register, slot, kind, real))
        return Real(number.register, value) if real else number

    def count(self, what: str) -> None:
        self._counted.append(what)

    def _number(self, given: Any) -> Number | Real:
        """The register of a number; constants have registers too."""
        if isinstance(given, (Number, Real)):
            return given
        value = int(given)
        if value not in self._constants:
            self._constants[value] = self._register(value)
        return self._constants[value]

    def computed(self, operation: str, one: Any, other: Any, value: int | None) -> Number:
        target = self._register(value)
        code = kernels.kernel_calls.OPERATIONS.index(operation)
        self._instructions.append((code, target.register, self._number(one).register, self._number(other).register))
        return target

    def check(self, condition: Number, fixed: bool) -> None:
        tools = kernels.kernel_calls
        status = tools.UNDESCRIBED if fixed else tools.REFUSED
        self._instructions.append((tools.CHECK, status, condition.register, 0))

    def memory(self, nbytes: Any) -> Number:
        return self._memory(kernels.kernel_calls.MEMORY, nbytes)

    def _memory(self, operation: int, nbytes: Any) -> Number:
        nbytes = self._number(nbytes)
        self.check(nbytes < MOST, fixed=False)
        self.check(nbytes >= 0, fixed=False)
        target = self._register(None)
        self._instructions.append((operation, target.register, nbytes.register, 0))
        return target

    def call(self, kernel: Callable[..., Any], arguments: Sequence[Any], now: bool) -> Sequence[Number]:
        call = _KernelCall(kernel, arguments, self.step)
        results = [self._register(value) for value in (call.make(arguments) if now else [None] * len(call.results))]
        call.registers = [number.register for number in results]
        call.moved = [(self._number(value).register, offset) for value, offset in call.numbers(arguments)]
        self._instructions.append((kernels.kernel_calls.CALL, len(self._calls), 0, 0))
        self._calls.append(call)
        return results

    def _output(self, step: SampleStep, output: int, extents: tuple[Any, ...], dtype: np.dtype) -> KernelArray:
        slot, storage, spec = step.step.outputs[output], step.storages[output], step.step.specs[output]
        require(spec.dtype in (None, dtype))
        if slot not in self.chain.used:
            return KernelArray(self.memory(prod(extents) * dtype.itemsize), extents, dtype)
        if storage == "dense":  # the memory belongs to the batch
            for extent, known in zip(extents, spec.shape, strict=True):
                self.check(self._number(extent) == known, fixed=False)
            address = self._register(None)
        else:
            address = self._memory(kernels.kernel_calls.RESULT, prod(extents) * dtype.itemsize)
        registers = [self._number(extent).register for extent in extents]
        self.places.append(_Place(slot, storage, address.register, registers, dtype, step.sent[output]))
        if storage == "dense" and step.streams and is_large(spec.shape, dtype, self._size):
            nbytes = prod(extents) * dtype.itemsize
            made = self.memory(nbytes)
            self._later.append((KernelArray(made, (nbytes,), BYTE), KernelArray(address, (nbytes,), BYTE)))
            address = made
        return KernelArray(address, extents, dtype)

    def _finish(self) -> None:
        """Makes arrays of the lists. Every thread copies the records."""
        starts = np.cumsum([0, *(len(call.record) for call in self._calls)])
        self._record = np.concatenate([call.record for call in self._calls] or [np.empty(0, np.uint8)])
        moves: list[tuple[int, int, int]] = []
        calls = []
        for call, start in zip(self._calls, starts.tolist()):
            first = len(moves)
            moves += [(register, start + offset, 0) for register, offset in call.moved]
            moves += [(register, start + offset, 1) for register, offset in zip(call.registers, call.results)]
            calls.append((call.entry.address, call.entry.function, first, len(moves), call.step))
        self._starts = starts[:-1]
        self._table = np.array(calls, np.int64).reshape(-1, 5)
        self._moves = np.array(moves, np.int64).reshape(-1, 3)
        self._program = np.array(self._instructions, np.int64).reshape(-1, 4)
        self._first = np.array(self._start, np.int64)
        self._scratch = 1 << 16  # bytes of memory for a sample
        self._results = float(1 << 12)  # bytes of results of a sample, on average
        self._own = [
            (start + offset, find) for call, start in zip(self._calls, starts.tolist()) for offset, find in call.own
        ]  # arrays of the thread, and the places of their addresses in the records

    # Running.

    def run(
        self,
        batch: BatchRun,
        samples: np.ndarray,
        numbers: np.ndarray,
        rows: ChunkRows,
        arena: Arena,
        pool: HeapPool,
        spent: np.ndarray,
    ) -> np.ndarray | None:
        """Runs it for samples, of whose inputs ``numbers`` has the addresses and extents; returns None if all are done, else the
        status of each: 0 if it is done, UNDESCRIBED if another program may describe it.
        """
        tools = kernels.kernel_calls
        count = len(samples)
        registers = np.empty((count, len(self._first)), np.int64)
        registers[:] = self._first
        registers[:, : numbers.shape[1]] = numbers
        memory, results = pool, False
        for place in self.places:
            if place.storage == "dense":
                registers[:, place.address] = self._addresses(batch.values[place.slot], samples)
            else:
                memory, results = pool.for_device if place.sent else memory, True
        for register, slot in self._keys:
            registers[:, register] = batch.column_of_keys(slot)[samples]
        for register, slot, argument, real in self._columns:
            column = batch.numbers(slot, argument, real)
            if column is None:
                return np.full(count, tools.REFUSED, np.int32)
            registers[:, register] = column[samples]
        try:
            for table in self._tables:
                made, begin = table.of(batch), table.register
                if table.numbers:
                    registers[:, begin : begin + made.shape[1]] = made.view(np.int64)[samples]
                else:
                    registers[:, begin] = self._addresses(made, samples)
        except (NoTable, *PLAIN_ERRORS):  # the steps themselves report the error
            return np.full(count, tools.REFUSED, np.int32)
        record = self._record_of_thread()
        status = np.empty(count, np.int32)
        blocks: list[tuple[int, np.ndarray]] = []  # first sample, its results and those of the following ones
        begin, least = 0, 0
        block, block_address = NO_MEMORY, 0
        while begin < count:
            scratch = arena.block(SCRATCH, self._scratch + tools.ALIGNMENT)
            if record.scratch is not scratch:
                record.scratch, record.scratch_address = scratch, tools.aligned(scratch)
            if results:
                block = memory.take(max(least, min(int(1.25 * self._results * (count - begin)), BLOCK)))
                block_address = tools.address_of(block)
                blocks.append((begin, block))
            begin, more, least = tools.runner()(
                self._program,
                self._table,
                record.moves,
                record.starts,
                registers,
                begin,
                status,
                (record.scratch_address, len(scratch) - tools.ALIGNMENT),
                (block_address, len(block)),
                *tools.clock(),
                spent,
            )
            if max(more, least) > LARGEST:
                status[begin] = tools.REFUSED
                begin, least = begin + 1, 0
            else:
                self._scratch = max(self._scratch, more)
        failed = status.any()
        good = np.flatnonzero(status == 0) if failed else np.arange(count)
        if len(good):
            self._keep_results(batch, samples, good, rows, registers, blocks)
            for what in self._counted:
                counts.count(what, len(good))
        return status if failed else None

    def _addresses(self, values: Any, samples: np.ndarray) -> Any:
        """The addresses of the results of samples in memory of the batch."""
        if type(values) is list:
            return [kernels.kernel_calls.address_of(values[sample]) for sample in samples]
        return samples * values.strides[0] + kernels.kernel_calls.address_of(values)

    def _record_of_thread(self) -> "_Record":
        """The records of the calls for the calling thread, which writes the numbers of a sample in them."""
        known = getattr(self._threads, "record", None)
        if known is None:
            known = self._threads.record = _Record(self._record, self._own, self._moves, self._starts)
        return known

    def _keep_results(
        self,
        batch: BatchRun,
        samples: np.ndarray,
        good: np.ndarray,
        rows: ChunkRows,
        registers: np.ndarray,
        blocks: Sequence[tuple[int, np.ndarray]],
    ) -> None:
        """Stores the results of the samples with these places in their slots."""
        for slot, layout in self.layouts.items():
            if batch.layouts[slot] is None:
                batch.layouts[slot] = layout
        later = self.chain.later
        if not (later or blocks or self.given):
            return
        chosen = samples[good].tolist()
        for slot, storage, value in self.given:
            for sample in chosen if storage == "dense" else ():
                held_by(batch, slot, sample)[...] = value
            _keep(batch, rows, slot, storage, chosen, repeat(value), later)
        nbytes = 0
        for place in self.places:
            if place.storage != "dense":
                made = place.of_samples(good, registers, blocks)
                nbytes += sum(result.nbytes for result in made) + kernels.kernel_calls.ALIGNMENT * len(good)
                _keep(batch, rows, place.slot, place.storage, chosen, made, later)
            elif later:
                for sample in chosen:
                    rows[sample][place.slot] = held_by(batch, place.slot, sample)
        if blocks:
            self._results = 0.8 * self._results + 0.2 * nbytes / len(good)


class _BatchTable:
    """A table that an operator computes for a batch from the arguments of all samples."""

    def __init__(self, register: int, step: SampleStep, make: MakeRows, numbers: bool) -> None:
        self.register = register  # of the address of a row, or of its first number
        self.numbers = numbers
        self._step, self._make = step, make

    def of(self, batch: BatchRun) -> np.ndarray:
        """The table of a batch."""
        known = batch.columns.get(self)
        if known is None:
            op = self._step.op
            given = {
                name: argument_column(op.arguments[name], batch.values[slot]) for name, slot, _ in self._step.arguments
            }
            args = Args(**{**op.defaults, **self._step.constants, **given})
            known = batch.columns[self] = np.ascontiguousarray(self._make(args, batch.size))
        return known


class _Record:
    """The records of the calls of a program for one thread."""

    def __init__(
        self,
        record: np.ndarray,
        own: Sequence[tuple[int, Callable[[], np.ndarray]]],
        moves: np.ndarray,
        starts: np.ndarray,
    ) -> None:
        address_of = kernels.kernel_calls.address_of
        self.record = record.copy()
        self._own = [find() for _, find in own]  # kept as long as their addresses
        integers = self.record.view(np.int64)
        for (offset, _), array in zip(own, self._own):
            integers[offset // 8] = address_of(array)
        base = address_of(self.record)
        self.moves, self.starts = moves + (0, base, 0), base + starts
        self.scratch = NO_MEMORY
        self.scratch_address = 0


def _keep(
    batch: BatchRun,
    rows: ChunkRows,
    slot: int,
    storage: str,
    samples: Sequence[int],
    results: Iterable[np.ndarray],
    later: bool,
) -> None:
    values = batch.values[slot]
    for sample, result in zip(samples, results):
        if storage == "table":
            values[sample] = result
        if later:
            rows[sample][slot] = result


def _bits(value: float) -> int:
    """The integer that has the bits of a floating-point number."""
    return int(np.float64(value).view(np.int64))


def _signed(key: int) -> int:
    """The signed number of 64 bits with the bits of a key."""
    return key - (1 << 64) if key >> 63 else key


def _plain_value(given: Any) -> Any:
    """The value of an argument; if it differs from sample to sample, that of the first sample."""
    return given.value if isinstance(given, (Number, Real)) else given


def _value(given: Any) -> int:
    if isinstance(given, Real):
        return _bits(given.value)
    if not isinstance(given, Number):
        return int(given)
    if given.value is None:
        raise NoTable
    return given.value


class _Place:
    """A result that is read after the chain."""

    def __init__(self, slot: int, storage: str, address: int, extents: list[int], dtype: np.dtype, sent: bool) -> None:
        self.slot, self.storage, self.address, self.extents, self.dtype = slot, storage, address, extents, dtype
        self.sent = sent  # it is only copied to the device

    def of_samples(
        self, chosen: np.ndarray, registers: np.ndarray, blocks: Sequence[tuple[int, np.ndarray]]
    ) -> list[np.ndarray]:
        """The results of samples, in the memory of several."""
        itemsize, found = self.dtype.itemsize, []
        for (first, block), (end, _) in zip(blocks, [*blocks[1:], (len(registers), NO_MEMORY)]):
            those = registers[chosen[(chosen >= first) & (chosen < end)]]
            whole = block[: len(block) // itemsize * itemsize].view(self.dtype)
            begins = (those[:, self.address] - kernels.kernel_calls.address_of(block)) // itemsize
            for begin, shape in zip(begins.tolist(), those[:, self.extents].tolist()):
                found.append(whole[begin : begin + prod(shape)].reshape(shape))
        return found


def _example(argument: Any) -> Any:
    return 0 if isinstance(argument, Number) else 0.0 if isinstance(argument, Real) else argument


class _KernelCall:
    """A call of a kernel: its record, with the constants written in it."""

    def __init__(self, kernel: Callable[..., Any], arguments: Sequence[Any], step: int) -> None:
        tools = kernels.kernel_calls
        types = [
            tools.array_type(x.dtype, len(x.extents))
            if isinstance(x, KernelArray)
            else tools.array_type(x.find().dtype, x.find().ndim)
            if isinstance(x, OfThread)
            else tools.type_of(_example(x))
            for x in arguments
        ]
        self.entry = tools.entry_of(kernel, tuple(types))
        self.step = step
        self.registers: list[int] = []  # registers of the results
        self.moved: list[tuple[int, int]] = []  # register, place in the record
        self.constants = [x for x in arguments if isinstance(x, np.ndarray)]  # kept as long as the call
        self.offsets = tools.offsets_of(self.entry.row)
        self.results = [offset for name, offset in self.offsets.items() if name[0] == "r"]
        self.own: list[tuple[int, Callable[[], np.ndarray]]] = []  # place in the record, array of the thread
        row = np.zeros(1, self.entry.row)
        for number, argument in enumerate(arguments):
            if isinstance(argument, OfThread):
                self.own.append((self.offsets[str(number)], argument.find))
                argument = argument.find()
            if isinstance(argument, np.ndarray):
                require(argument.flags.c_contiguous)
                row[str(number)] = tools.address_of(argument)
                for axis, extent in enumerate(argument.shape):
                    row[f"{number}_{axis}"] = extent
            elif not isinstance(argument, (KernelArray, Number, Real)):
                row[str(number)] = argument
        self.record = row.view(np.uint8)

    def numbers(self, arguments: Sequence[Any]) -> list[tuple[Any, int]]:
        """The numbers that are written to the record for each sample, and their places there."""
        found: list[tuple[Any, int]] = []
        for number, argument in enumerate(arguments):
            if isinstance(argument, KernelArray):
                offset = self.offsets[str(number)]
                parts = (argument.address, *argument.extents)
                found += [(part, offset + 8 * place) for place, part in enumerate(parts)]
            elif isinstance(argument, (Number, Real)):
                found.append((argument, self.offsets[str(number)]))
        return found

    def make(self, arguments: Sequence[Any]) -> list[int]:
        """Makes the call for the first sample, whose numbers are all known; returns its results."""
        record = self.record.copy()
        integers = record.view(np.int64)
        for number, offset in self.numbers(arguments):
            integers[offset // 8] = _value(number)
        tools = kernels.kernel_calls
        require(not tools.call(self.entry.address, self.entry.function, tools.address_of(record)))
        return [int(integers[offset // 8]) for offset in self.results]
