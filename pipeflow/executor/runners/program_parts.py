"""The parts of programs: calls of kernels and their records, tables of batches, and the places of results."""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, repeat
from struct import Struct
from typing import Any

import numpy as np

from pipeflow.backends.cpu import HeapPool
from pipeflow.declare import (
    Args,
    KernelArray,
    MakeRows,
    NoTable,
    Number,
    OfThread,
    Real,
    Several,
    argument_column,
    require,
)
from pipeflow.declare.bound import PLAIN_ERRORS
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.runners.sample_step import ChunkRows, SampleStep
from pipeflow.kernels import cpu as kernels
from pipeflow.tensors import PlacedArrays

Guard = tuple[tuple[int, bool], ...]
Line = tuple[int, int, int, int, int]  # of a column: see ``run`` in kernels/cpu/kernel_calls.py
NO_MEMORY = np.empty(0, np.uint8)
BLOCK = 1 << 26  # bytes of results that are allocated at once, unless one sample needs more


class BatchTable:
    """A table that an operator computes for a batch from the arguments of all samples."""

    def __init__(self, register: int, step: SampleStep, make: MakeRows, numbers: bool) -> None:
        self.register = register  # of the address of a row, or of its first number
        self.numbers = numbers
        self._step, self._make = step, make
        self.slots = [slot for _, slot, _ in step.arguments]  # whose values it needs
        self._form: Any = None  # extents of a row and type of the first batch, for which the program is recorded

    def of(self, batch: BatchRun) -> np.ndarray:
        """The table of a batch."""
        known = batch.columns.get(self)
        if known is None:
            op = self._step.op
            given = {
                name: argument_column(op.arguments[name], batch.values[slot]) for name, slot, _ in self._step.arguments
            }
            args = Args(**{**op.defaults, **self._step.constants, **given})
            known = np.ascontiguousarray(self._make(args, batch.size))
            self._form = self._form or (known.shape[1:], known.dtype)
            require(self._form == (known.shape[1:], known.dtype))
            batch.columns[self] = known
        return known


class CallRecords:
    """The records of the calls of a program for one thread."""

    def __init__(
        self,
        record: np.ndarray,
        own: Sequence[tuple[int, Callable[[], np.ndarray]]],
        moves: np.ndarray,
        starts: np.ndarray,
        first: np.ndarray,
    ) -> None:
        address_of = kernels.kernel_calls.address_of
        self.record = record.copy()
        self.held = first.copy()  # the registers
        self._own = [find() for _, find in own]  # kept as long as their addresses
        integers = self.record.view(np.int64)
        for (offset, _), array in zip(own, self._own):
            integers[offset // 8] = address_of(array)
        base = address_of(self.record)
        self.moves, self.starts = moves + (0, base, 0), base + starts
        self.room = -1
        self.scratch = NO_MEMORY
        self.scratch_address = 0
        self.status = np.empty(0, np.int32)  # of the samples of a run
        self._table, self._numbers = np.empty((0, 5), np.int64), Struct("")
        self._cells = self._table.data
        self._lines: Sequence[Line] = ()  # those that are in the table

    def table_of(self, lines: "Sequence[Line]") -> np.ndarray:
        """The lines of columns as an array, which those of the next batch replace."""
        if lines is self._lines:
            return self._table
        self._lines = lines
        if len(lines) != len(self._table):
            self._table, self._numbers = np.empty((len(lines), 5), np.int64), Struct(f"{5 * len(lines)}q")
            self._cells = self._table.data
        self._numbers.pack_into(self._cells, 0, *chain.from_iterable(lines))
        return self._table


class Place:
    """A result that is read after the chain."""

    def __init__(
        self,
        slot: int,
        storage: str,
        address: int,
        extents: list[int],
        dtype: np.dtype,
        sent: bool,
        guard: Guard,
        flag: int,
    ) -> None:
        self.slot, self.storage, self.address, self.extents, self.dtype = slot, storage, address, extents, dtype
        self.sent = sent  # it is only copied to the device
        self.guard, self.flag = guard, flag  # only samples with this guard have it; the register of it, or -1

    def of_samples(
        self, chosen: np.ndarray, numbers: np.ndarray, blocks: Sequence[tuple[int, np.ndarray]]
    ) -> list[np.ndarray]:
        """The arrays of samples, whose addresses and extents these are, in the memory of several."""
        found = []
        for (first, block), (end, _) in zip(blocks, [*blocks[1:], (len(numbers), NO_MEMORY)]):
            begin = kernels.kernel_calls.address_of(block)
            for address, *shape in numbers[chosen[(chosen >= first) & (chosen < end)]].tolist():
                found.append(np.ndarray(shape, self.dtype, block, address - begin))
        return found


class BatchColumns:
    """The columns of numbers that a program reads and fills for the samples of a batch."""

    def __init__(self) -> None:
        self.complete = False  # if it stays False, the steps themselves have to process the samples
        self.held: list[tuple[int, Any]] = []  # slots, and their values to which the columns belong
        self.placed: list[tuple[PlacedArrays, Guard]] = []  # results that stay columns
        self.apart: list[Place] = []  # the results that become arrays at once
        self.lasting = True  # False if they belong only to one run
        self.of_results = True  # True if all of them are columns of results, and none has numbers of the batch
        self.results = self.sent = False  # True if results take memory of their own; if it is only copied to the device
        self.lines: list[Line] = []
        self._kept: list[Any] = []  # the memory of the columns

    def add(self, register: int, column: np.ndarray, what: int) -> None:
        """Adds a column: numbers of 8 bytes."""
        self._kept.append(column)
        self.lines.append((register, kernels.kernel_calls.address_of(column), column.strides[0], what, -1))

    def add_row(
        self, registers: Iterable[int], column: np.ndarray, what: int, flag: int = -1, address: int = 0
    ) -> None:
        """Adds a column for each register: the numbers of a row belong to a sample. With a ``flag`` they are those of samples for
        which this register is not 0.
        """
        self._kept.append(column)
        address, distance = address or kernels.kernel_calls.address_of(column), column.strides[0]
        for register in registers:
            self.lines.append((register, address, distance, what, flag))
            address += 8

    def for_run(self, count: int) -> tuple[list[Line], np.ndarray]:
        """The lines with those of results that become arrays at once, and the columns of these for so many samples."""
        tools = kernels.kernel_calls
        registers = [register for place in self.apart for register in (place.address, *place.extents)]
        apart = np.empty((count, len(registers)), np.int64)
        begin, far, what = tools.address_of(apart), apart.strides[0], tools.STORED + tools.BY_ROW
        return self.lines + [(register, begin + 8 * k, far, what, -1) for k, register in enumerate(registers)], apart

    def packed(self, samples: np.ndarray, nbytes: int, memory: HeapPool) -> tuple[np.ndarray, int] | None:
        """Memory, and its address, for results that are likely to have one shape, and so many bytes each: they follow one another
        without gaps, and the batch becomes one array. None if they cannot.
        """
        if len(self.placed) != 1:
            return None
        values, count, first = self.placed[0][0], len(samples), 0
        if count < len(values):  # a call of NumPy is slow here
            first = int(samples[0])
            if samples[-1] - first >= count:
                return None
        # Results that begin anywhere in a line of the cache take longer to write: a twentieth of the time of a decoder.
        if not 0 < nbytes * count <= BLOCK or nbytes % kernels.kernel_calls.ALIGNMENT:
            return None
        return values.part(first, first + count, nbytes, memory.take)

    def read(self, given: "tuple[BatchColumns, int]") -> None:
        """Adds columns that are only read, those of the samples from this one on."""
        read, first = given
        self._kept.append(read._kept)
        for register, at, far, what, flag in read.lines:
            self.lines.append((register, at + first * far, far, what, flag))


def columns_read(
    batch: BatchRun,
    flags: Mapping[Guard, Number],
    keys: Sequence[tuple[int, SampleStep]],
    arguments: Sequence[tuple[int, int, Any, bool]],
    tables: Sequence[BatchTable],
) -> BatchColumns:
    """The columns of guards, keys, arguments and tables, which a program only reads."""
    tools, read = kernels.kernel_calls, BatchColumns()
    for guard, flag in flags.items():
        read.add(flag.register, batch.flags(guard), tools.LOADED)
    for register, step in keys:
        read.add(register, step.batch_keys(batch), tools.LOADED)
    for register, slot, kind, real in arguments:
        column = batch.numbers(slot, kind, real)
        require(column is not None)
        assert column is not None
        read.add(register, column, tools.LOADED)
    for table in tables:
        rows = table.of(batch)
        if table.numbers:
            read.add_row(range(table.register, table.register + rows.shape[1]), rows, tools.LOADED)
        else:
            read.add(table.register, rows, tools.ADDRESS)
    return read


def columns_of_part(program: Any, batch: BatchRun, needed: Iterable[int], *parts: Any) -> tuple[BatchColumns, int]:
    """The same for a program that needs these slots, and the number of the first sample there. If the batch is a part of a long
    one, they are made once for that.
    """
    if batch.part_of is None:
        return columns_read(batch, *parts), 0
    long, first = batch.part_of
    for slot in needed:  # unless its values are no longer those that were made with the long one
        if slot not in batch.ahead or batch.values[slot] is not batch.ahead[slot]:
            return columns_read(batch, *parts), 0
        if long.values[slot] is not long.ahead[slot]:
            return columns_read(batch, *parts), 0
    if program not in long.columns:
        long.columns[program] = None
        with contextlib.suppress(NoTable, *PLAIN_ERRORS):  # of another batch
            long.columns[program] = columns_read(long, *parts)
    known = long.columns[program]
    return (columns_read(batch, *parts), 0) if known is None else (known, first)


class InputNumbers:
    """Address and extents of the inputs: a row for each of some samples, or for each sample of the batch."""

    def __init__(self, numbers: np.ndarray, by_row: bool, address: int | None = None) -> None:
        self._numbers, self._by_row = numbers, by_row
        begin = kernels.kernel_calls.address_of(numbers) if address is None else address
        self.place = begin, numbers.strides[0], numbers.shape[1], int(by_row)

    @property
    def width(self) -> int:
        """How many numbers a row has."""
        return self._numbers.shape[1]

    def following(self, first: int) -> "InputNumbers":
        """The same for a batch whose first sample has this row."""
        return InputNumbers(self._numbers, False, self.place[0] + first * self.place[1])

    def chosen(self, places: Any) -> "InputNumbers":
        """The same for some of the samples."""
        return InputNumbers(np.ascontiguousarray(self._numbers[places]), True) if self._by_row else self


def _example(argument: Any) -> Any:
    return 0 if isinstance(argument, Number) else 0.0 if isinstance(argument, Real) else argument


def _type(argument: Any) -> Any:
    """The type of an argument of a kernel."""
    if isinstance(argument, KernelArray):
        return kernels.kernel_calls.array_type(argument.dtype, len(argument.extents))
    if isinstance(argument, OfThread):
        return kernels.kernel_calls.array_type(argument.find().dtype, argument.find().ndim)
    return kernels.kernel_calls.type_of(_example(argument))


class KernelCall:
    """A call of a kernel: its record, with the constants written in it."""

    def __init__(self, kernel: Any, arguments: Sequence[Any], step: int) -> None:
        tools = kernels.kernel_calls
        self.entry = kernel if isinstance(kernel, tools.Entry) else tools.entry_of(kernel, tuple(map(_type, arguments)))
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
            integers[offset // 8] = value_of(number)
        tools = kernels.kernel_calls
        require(not tools.call(self.entry.address, self.entry.function, tools.address_of(record)))
        return [int(integers[offset // 8]) for offset in self.results]


def bits_of(value: float) -> int:
    """The integer that has the bits of a floating-point number."""
    return int(np.float64(value).view(np.int64))


def held_by(batch: BatchRun, slot: int, sample: int) -> np.ndarray:
    """The value of a slot for a sample."""
    held = batch.values[slot]
    return held[sample] if type(held) is list else held[sample, ...]


def plain_value(given: Any) -> Any:
    """The value of an argument; if it differs from sample to sample, that of the first sample."""
    return given.value if isinstance(given, (Number, Real, Several)) else given


def value_of(given: Any) -> int:
    if isinstance(given, Real):
        return bits_of(given.value)
    if not isinstance(given, Number):
        return int(given)
    if given.value is None:
        raise NoTable
    return given.value


def keep(
    batch: BatchRun,
    rows: ChunkRows,
    slot: int,
    storage: str,
    samples: Sequence[int],
    results: Iterable[np.ndarray],
    later: bool,
) -> None:
    """Stores the results of samples in their slot."""
    values = batch.values[slot]
    if later or storage != "table":
        for sample, result in zip(samples, results) if later else ():
            if storage == "table":
                values[sample] = result
            rows[sample][slot] = result
        return
    for sample, result in zip(samples, results):
        values[sample] = result


def keep_results(
    program: Any,
    batch: BatchRun,
    samples: np.ndarray,
    done: np.ndarray,
    rows: ChunkRows,
    columns: BatchColumns,
    apart: np.ndarray | None,
    blocks: Sequence[tuple[int, np.ndarray]],
) -> None:
    """Stores the results of the samples that are done in their slots."""
    active: dict[Guard, np.ndarray] = {(): done}  # those for which a guard is true
    for guard in program.chain.guards.all:
        active[guard] = done[program.chain.guards.flags(batch, guard)[done] != 0]
    for slot, (layout, guard) in program.layouts.items():
        if batch.layouts[slot] is None and len(active[guard]):
            batch.layouts[slot] = layout
    later = program.chain.later
    memory = [block for _, block in blocks]
    for values, guard in columns.placed:
        values.placed(len(active[guard]), memory)
    if not (later or columns.apart or program.given):
        return
    for slot, storage, value, guard in program.given:
        chosen = active[guard].tolist()
        for sample in chosen if storage == "dense" else ():
            held_by(batch, slot, sample)[...] = value
        keep(batch, rows, slot, storage, chosen, repeat(value), later)
    first = 0
    for place in columns.apart:
        assert apart is not None
        numbers = apart[:, first : first + 1 + len(place.extents)]
        first += numbers.shape[1]
        chosen = active[place.guard]
        made = place.of_samples(np.searchsorted(samples, chosen), numbers, blocks)
        keep(batch, rows, place.slot, place.storage, chosen.tolist(), made, later)
    for place in program.places if later else ():
        if place.storage == "dense":
            for sample in active[place.guard].tolist():
                rows[sample][place.slot] = held_by(batch, place.slot, sample)
