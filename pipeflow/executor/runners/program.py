"""Programs of chains: the work of several steps on a first sample is recorded, and repeated by compiled code for others.

``kernels/cpu/kernel_calls.py`` has the code that repeats it.
"""

import threading
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np

from pipeflow.backends.cpu import Arena, HeapPool
from pipeflow.declare import Args, KernelArray, KernelCalls, MakeRows, NoTable, Number, Real, Several, Spec, require
from pipeflow.declare.bound import PLAIN_ERRORS
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.runners.merge import MergeStep
from pipeflow.executor.runners.program_functions import record_function
from pipeflow.executor.runners.program_guards import ChainGuards, ProgramFlags
from pipeflow.executor.runners.program_parts import (
    BLOCK,
    NO_MEMORY,
    BatchColumns,
    BatchTable,
    CallRecords,
    Guard,
    InputNumbers,
    KernelCall,
    Place,
    bits_of,
    columns_of_part,
    held_by,
    keep_results,
    plain_value,
    value_of,
)
from pipeflow.executor.runners.program_shares import share_memory
from pipeflow.executor.runners.results import ChainResults
from pipeflow.executor.runners.sample_step import ChunkRows, SampleStep, is_large
from pipeflow.kernels import counts
from pipeflow.kernels import cpu as kernels
from pipeflow.tensors import PlacedArrays

MOST = 1 << 31  # bytes of an array; samples with larger arrays are computed one by one
LARGEST = 1 << 28  # bytes of memory for a sample; samples that need more are computed one by one
SCRATCH = -1  # the slot of an arena for data between the calls
BYTE = np.dtype(np.uint8)


class Members(Protocol):
    """The steps of a program."""

    steps: Sequence[SampleStep]
    inputs: tuple[int, ...]  # the slots that they read and do not fill
    constants: tuple[int, ...]  # others, whose values are the same for all samples of all batches
    used: set[int]  # the slots that they fill and others read
    lent: set[int]  # the slots whose memory is that of a result which is read after the chain
    later: bool  # True if other steps of the stage follow
    guards: ChainGuards
    results: ChainResults


class Program:
    """The work of a chain, recorded with a first sample, for samples like it."""

    def __init__(self, chain: Members, flags: int | None = None) -> None:
        self.chain = chain
        self._flags = flags  # for the system call that opens files, if the input is the path of a file
        self._file = 0  # then the register of the room for a file
        self._room = kernels.whole_files.FIRST if flags is not None else 0
        self._size = 0
        self._keys: list[tuple[int, SampleStep]] = []  # register, the step with these keys
        self._columns: list[tuple[int, int, Any, bool]] = []  # register, slot of an argument, its kind, True for floats
        self._tables: list[BatchTable] = []
        self._counted: list[tuple[str, Guard]] = []
        self._permits: list[Callable[[int], int]] = []
        self._guards = ProgramFlags(self, chain.guards)
        self._later: list[tuple[KernelArray, KernelArray]] = []  # results that are copied past the caches
        self._start: list[int] = []  # the first value of every register
        self._constants: dict[int, Number] = {}
        self._instructions: list[tuple[int, int, int, int]] = []
        self._calls: list[KernelCall] = []
        self.step = 0  # the number of the step that is recorded
        self.places: list[Place] = []
        self.given: list[tuple[int, str, np.ndarray, Guard]] = []  # results that are the same for all samples
        self.read: list[tuple[int, int]] = []  # register of the address of each input, number of its axes
        self.layouts: dict[int, tuple[str, Guard]] = {}
        self.lasting: set[int] = set()  # slots of the chain in the memory of results
        self._made: dict[int, KernelCalls] = {}  # the calls of each step
        self._held: list[np.ndarray] = []  # constants, whose addresses the calls have
        # By thread; a look into threading.local costs 10 us after kernels. A later thread with the same number may have it.
        self._records: dict[int, CallRecords] = {}

    def record(self, batch: BatchRun, sample: int, arrays: Sequence[np.ndarray]) -> None:
        """Records the work on a first sample."""
        self._size = batch.size
        columns: dict[int, KernelArray] = {}
        layouts = {slot: batch.layouts[slot] or "" for slot in self.chain.inputs + self.chain.constants}
        for slot, array in zip(self.chain.inputs, arrays):
            if self._flags is not None:
                columns[slot] = self._read_file(self._flags, array)
                continue
            address = self.register(kernels.kernel_calls.address_of(array))
            extents = tuple([self.register(extent) for extent in array.shape])
            self.read.append((address.register, array.ndim))
            columns[slot] = KernelArray(address, extents, array.dtype)
        for slot in self.chain.constants:
            columns[slot] = self._constant(held_by(batch, slot, sample))
        for number, step in enumerate(self.chain.steps):
            self.step = number
            if step.step.guard:
                flag = self._guards.find(step.step.guard, batch, sample)
                begin = len(self._instructions)
                self._instructions.append((0, 0, 0, 0))
            if type(step) is MergeStep:
                first, second, _ = step.step.inputs
                require(layouts[first] == layouts[second])
                (output,) = step.step.outputs
                side = self._guards.merged(step, (columns[first], columns[second]), batch, sample)
                columns[output] = share_memory(self, step, side, side.extents, side.dtype)
                layouts[output] = layouts[first]
                self.layouts[output] = layouts[first], step.step.guard
            else:
                self._declare(number, step, columns, layouts, batch, sample)
            for slot in self.chain.guards.decided.intersection(step.step.outputs):
                self._guards.decide(slot, columns[slot], batch, sample)
            if step.step.guard:
                self._instructions[begin] = (kernels.kernel_calls.SKIP, len(self._instructions), flag.register, 0)
        self._made.clear()  # they refer to the batch
        self._finish()

    def _constant(self, value: Any) -> KernelArray:
        array = np.array(value, order="C")
        self._held.append(array)
        return KernelArray(kernels.kernel_calls.address_of(array), array.shape, array.dtype)

    def _read_file(self, flags: int, example: np.ndarray) -> KernelArray:
        """Records that the input is read from a file; its path is the first register."""
        tools, files = kernels.kernel_calls, kernels.whole_files
        self.step = len(self.chain.steps)  # its time is that of the reader
        path, room = self.register(0), self.register(self._room)
        address, status = self.memory(room), self.memory(files.STATUS)
        functions = files.functions()
        require(functions is not None)
        described = KernelArray(status, (files.STATUS,), BYTE)
        (size,) = self.call(files.read_one, (*functions, flags, path, address, room, described, status), now=False)
        self.check(size >= 0, fixed=False)
        self._instructions.append((tools.CHECK, tools.LARGER_FILE, (size <= room).register, 0))
        self._file = room.register
        address.value, size.value = kernels.kernel_calls.address_of(example), len(example)
        return KernelArray(address, (size,), BYTE)

    def _calls_of(self, number: int, batch: BatchRun, sample: int) -> KernelCalls:
        """The calls of a step, to which its operator adds. They also tell the step before which part of an image this step
        reads.
        """
        if number in self._made:
            return self._made[number]
        step = self.chain.steps[number]
        varying = {
            name: self._argument(batch, name, slot, step.kind_of(name), sample) for name, slot, _ in step.arguments
        }

        def key() -> Number:
            found = self.register(int(step.batch_keys(batch).view(np.int64)[sample]))
            self._keys.append((found.register, step))
            return found

        def place(output: int, extents: tuple[Any, ...], dtype: np.dtype) -> KernelArray:
            return self.output(step, output, extents, dtype)

        def part(height: Any, width: Any) -> Sequence[Any]:
            following = self.chain.steps[number + 1].op.reads_calls_hook
            assert following is not None
            self.step = number + 1
            read = following(self._calls_of(number + 1, batch, sample), height, width)
            self.step = number
            return read

        def rows(make: MakeRows, numbers: bool) -> KernelArray | Sequence[Real] | Sequence[Number]:
            table = BatchTable(len(self._start), step, make, numbers)
            made = table.of(batch)
            self._tables.append(table)
            if numbers and made.dtype == np.int64:
                return [self.register(value) for value in made[sample].tolist()]
            if numbers:
                return [Real(self.register(bits_of(value)).register, value) for value in made[sample].tolist()]
            address = self.register(kernels.kernel_calls.address_of(made) + sample * made.strides[0])
            return KernelArray(address, made.shape[1:], made.dtype)

        def share(data: KernelArray, extents: tuple[Any, ...], dtype: np.dtype) -> KernelArray:
            return share_memory(self, step, data, extents, dtype)

        args = Args(**{**step.op.defaults, **step.constants, **varying})
        private = part if self._is_private(number) else None
        made = self._made[number] = KernelCalls(self, place, args, key, private, rows, step.step.writable, share)
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
            and steps[number + 1].step.guard == steps[number].step.guard
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
        require(all(memory.dtype.kind in "biuf" and memory.dtype.isnative for memory in inputs))  # as for other inputs
        op.check_dtype(inputs[0].dtype)
        given = [layouts[slot] for slot in step.step.inputs]
        require(not op.layouts or given[0] in op.layouts)
        require(given[0][:1] == "F" or not op.frames_of(given))  # an image with a matrix for each frame
        calls = self._calls_of(number, batch, sample)
        calls.inputs, calls.layouts = inputs, given
        assert op.calls_hook is not None
        op.calls_hook(calls)
        for made, kept in self._later:
            self.call(kernels.streaming.stream, (made, kept), now=False)
        self._later.clear()
        arguments = {name: plain_value(value) for name, value in vars(calls.args).items()}
        specs = [
            Spec(tuple([value_of(extent) for extent in memory.extents]), memory.dtype, layouts[slot])
            for slot, memory in zip(step.step.inputs, inputs)
        ]
        for output, spec in enumerate(op.specs(tuple(specs), arguments, step.count)):
            layouts[slots[output]] = spec.layout or ""
            self.layouts[slots[output]] = spec.layout or "", step.step.guard
        for output, memory in calls.outputs.items():
            columns[slots[output]] = memory
        for output, value in calls.constants.items():
            columns[slots[output]] = self._constant(value)
            if slots[output] in self.chain.used:
                self.given.append((slots[output], step.storages[output], value, step.step.guard))

    # The methods that declarations call.

    def register(self, value: int | None) -> Number:
        self._start.append(value or 0)
        return Number(self, len(self._start) - 1, value)

    def _argument(self, batch: BatchRun, name: str, slot: int, kind: Any, sample: int) -> Number | Real | Several:
        """An argument that differs from sample to sample."""
        column = batch.column(slot, kind)
        require(column is not None)
        assert column is not None
        value = column[sample]
        if isinstance(value, tuple):
            return Several(value, name)
        real = type(value) is float
        require(batch.numbers(slot, kind, real) is not None)
        number = self.register(bits_of(value) if real else int(value))
        self._columns.append((number.register, slot, kind, real))
        return Real(number.register, value) if real else number

    def ask(self, permit: Callable[[int], int]) -> None:
        self._permits.append(permit)

    def count(self, what: str) -> None:
        self._counted.append((what, self.chain.steps[self.step].step.guard))

    def number(self, given: Any) -> Number | Real:
        """The register of a number; constants have registers too."""
        if isinstance(given, (Number, Real)):
            return given
        value = int(given)
        if value not in self._constants:
            self._constants[value] = self.register(value)
        return self._constants[value]

    def computed(self, operation: str, one: Any, other: Any, value: int | None) -> Number:
        target = self.register(value)
        code = kernels.kernel_calls.OPERATIONS.index(operation)
        self._instructions.append((code, target.register, self.number(one).register, self.number(other).register))
        return target

    def check(self, condition: Number, fixed: bool) -> None:
        tools = kernels.kernel_calls
        status = tools.UNDESCRIBED if fixed else tools.REFUSED
        self._instructions.append((tools.CHECK, status, condition.register, 0))

    def memory(self, nbytes: Any) -> Number:
        return self.take(kernels.kernel_calls.MEMORY, nbytes)

    def take(self, operation: int, nbytes: Any) -> Number:
        nbytes = self.number(nbytes)
        self.check(nbytes < MOST, fixed=False)
        self.check(nbytes >= 0, fixed=False)
        target = self.register(None)
        self._instructions.append((operation, target.register, nbytes.register, 0))
        return target

    def room(self, kind: int) -> list[Number]:
        """Address and size of the memory that is left, for results or between the calls."""
        address, left = self.register(None), self.register(None)
        tools = kernels.kernel_calls
        self._instructions.append((tools.ROOM, address.register, left.register, int(kind == tools.RESULT)))
        return [address, left]

    def dense_room(self, spec: Spec, dtype: np.dtype) -> list[Any]:
        """The same for a result in the memory of the batch."""
        assert spec.shape is not None
        return [self.register(None), self.number(prod(spec.shape) * dtype.itemsize)]

    def call(self, kernel: Callable[..., Any], arguments: Sequence[Any], now: bool) -> Sequence[Number]:
        call = KernelCall(kernel, arguments, self.step)
        results = [self.register(value) for value in (call.make(arguments) if now else [None] * len(call.results))]
        call.registers = [number.register for number in results]
        call.moved = [(self.number(value).register, offset) for value, offset in call.numbers(arguments)]
        self._instructions.append((kernels.kernel_calls.CALL, len(self._calls), 0, 0))
        self._calls.append(call)
        return results

    def output(self, step: SampleStep, output: int, extents: tuple[Any, ...], dtype: np.dtype) -> KernelArray:
        require(step.step.specs[output].dtype in (None, dtype))
        slot = step.step.outputs[output]
        if slot not in self.chain.used:
            kind = kernels.kernel_calls.MEMORY
            if slot in self.chain.lent:
                kind = kernels.kernel_calls.RESULT
                self.lasting.add(slot)
            return KernelArray(self.take(kind, prod(extents) * dtype.itemsize), extents, dtype)
        if step.storages[output] == "dense":  # the memory belongs to the batch
            address = self.register(None)
        else:
            address = self.take(kernels.kernel_calls.RESULT, prod(extents) * dtype.itemsize)
        self.place(step, output, address, extents, dtype)
        if step.streams and self.is_large(extents, dtype):
            nbytes = prod(extents) * dtype.itemsize
            made = self.memory(nbytes)
            self._later.append((KernelArray(made, (nbytes,), BYTE), KernelArray(address, (nbytes,), BYTE)))
            address = made
        return KernelArray(address, extents, dtype)

    def is_large(self, extents: tuple[Any, ...], dtype: np.dtype) -> bool:
        """True if results like that of the first sample are written without the caches."""
        return is_large(tuple([plain_value(extent) or 0 for extent in extents]), dtype, self._size)

    def place(self, step: SampleStep, output: int, address: Number, extents: tuple[Any, ...], dtype: np.dtype) -> None:
        """Notes a result that is read after the chain."""
        slot, storage, guard = step.step.outputs[output], step.storages[output], step.step.guard
        if storage == "dense":
            for extent, known in zip(extents, step.step.specs[output].shape, strict=True):
                self.check(self.number(extent) == known, fixed=False)
        registers = [self.number(extent).register for extent in extents]
        flag = self._guards.of[guard].register if guard else -1
        self.places.append(Place(slot, storage, address.register, registers, dtype, step.sent[output], guard, flag))

    def function(self, function: Any, inputs: Sequence[KernelArray]) -> Sequence[KernelArray]:
        return record_function(self, self.chain.steps[self.step], function, inputs)

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
        # The slot of the only result of a sample that takes memory, or -1: with more of them, those of a slot have gaps.
        slots = [place.slot for place in self.places if place.storage == "table"]
        taken = [one for one, *_ in self._instructions].count(kernels.kernel_calls.RESULT)
        self._packs = slots[0] if taken == len(slots) == 1 else -1
        self._scratch = 1 << 16  # bytes of memory for a sample
        self._results = float(1 << 12)  # bytes of results of a sample, on average
        self._stored = tuple(self._guards.stored.items())
        self._needed = {slot for guard in self._guards.known for slot, _ in guard}
        self._needed |= {slot for _, slot, _, _ in self._columns}
        self._needed |= {slot for table in self._tables for slot in table.slots}
        # True if all results are stored by the program itself.
        self._plain = not (self.chain.guards.all or self.given or self.chain.later)
        # The slots whose layout is known only now.
        declared = {
            slot for step in self.chain.steps for slot, spec in zip(step.step.outputs, step.step.specs) if spec.layout
        }
        self._undeclared = [slot for slot in self.layouts if slot not in declared]
        # Of the columns that it only reads, if there are any.
        reads = self._guards.known, self._keys, self._columns, self._tables
        self._reads = reads if any(reads) else ()
        self._own = [
            (start + offset, find) for call, start in zip(self._calls, starts.tolist()) for offset, find in call.own
        ]  # arrays of the thread, and the places of their addresses in the records

    # Running.

    def run(
        self,
        batch: BatchRun,
        samples: np.ndarray,
        inputs: InputNumbers,
        rows: ChunkRows,
        arena: Arena,
        pool: HeapPool,
        spent: np.ndarray,
    ) -> np.ndarray | None:
        """Runs it for samples; returns None if all are done, else the status of each: 0 if it is done, UNDESCRIBED if another
        program may describe it.
        """
        tools, columns = kernels.kernel_calls, self._columns_of(batch)
        count = len(samples) if columns.complete else 0
        for permit in self._permits:
            count = permit(count) if count else 0
        refused = len(samples) - count
        if not count:
            return np.full(refused, tools.REFUSED, np.int32)
        if refused:
            samples = samples[:count]
        lines, apart = columns.for_run(count) if columns.apart else (columns.lines, None)
        memory = pool.for_device if columns.sent else pool
        record = self._records.get(threading.get_ident()) or self._record_of_thread()
        if self._flags is not None and record.room != self._room:
            record.held[self._file] = record.room = self._room
        table = record.table_of(lines)
        if len(record.status) < count:
            record.status = np.empty(count, np.int32)
        status = record.status
        blocks: list[tuple[int, np.ndarray]] = []  # first sample, its results and those of the following ones
        begin, least, failed, block, block_address = 0, 0, 0, NO_MEMORY, 0
        while begin < count:
            scratch = arena.block(SCRATCH, self._scratch + tools.ALIGNMENT)
            if record.scratch is not scratch:
                record.scratch, record.scratch_address = scratch, tools.aligned(scratch)
            packed = None
            if columns.results:
                nbytes = 0 if begin else self.chain.results.packed.get(self._packs, 0)
                packed = columns.packed(samples, nbytes, memory) if nbytes else None
                if packed is not None:
                    block, block_address = packed
                else:
                    block = memory.take(max(least, min(int(1.25 * self._results * (count - begin)), BLOCK)))
                    block_address = tools.address_of(block)
                blocks.append((begin, block))
            first = begin
            begin, more, least, lost = tools.runner()(
                self._program,
                self._table,
                record.moves,
                record.starts,
                record.held,
                table,
                inputs.place,
                samples,
                begin,
                status,
                (record.scratch_address, len(scratch) - tools.ALIGNMENT),
                (block_address, len(block), tools.ALIGNMENT if packed is None else 1),
                *tools.clock(),
                spent,
            )
            failed += lost
            if begin == count:
                self._results = 0.8 * self._results + 0.2 * least / (count - first)
            elif max(more, least) > LARGEST:
                status[begin] = tools.REFUSED
                begin, least, failed = begin + 1, 0, failed + 1
            else:
                self._scratch = max(self._scratch, more)
        if failed or refused:
            status = status[:count].copy()
        good = np.flatnonzero(status == 0) if failed else None
        if good is None or len(good):
            done = samples if good is None else samples[good]
            if self._plain and not columns.apart:  # as nearly always
                for slot in self._undeclared:
                    if batch.layouts[slot] is None:
                        batch.layouts[slot] = self.layouts[slot][0]
                if columns.placed:
                    held = [blocks[0][1]] if len(blocks) == 1 else [block for _, block in blocks]
                    for values, _ in columns.placed:
                        values.placed(len(done), held)
            else:
                keep_results(self, batch, samples, done, rows, columns, apart, blocks)
            if self._counted:
                counter = arena.counter = arena.counter or counts.counter()  # to find it costs 15 us after kernels
            for name, guard in self._counted:
                counter[name] += int(self.chain.guards.flags(batch, guard)[done].sum()) if guard else len(done)
        if failed and self._flags is not None and self._room < kernels.whole_files.LARGEST:
            again = np.flatnonzero(status == tools.LARGER_FILE)
            if len(again):
                self._room = min(2 * self._room, kernels.whole_files.LARGEST)
                found = self.run(batch, samples[again], inputs.chosen(again), rows, arena, pool, spent)
                status[again] = 0 if found is None else found
                failed = int(np.count_nonzero(status))
        if refused:
            return np.concatenate([status, np.full(refused, tools.REFUSED, np.int32)])
        return status if failed else None

    def _columns_of(self, batch: BatchRun) -> BatchColumns:
        """The columns that the program reads and fills, made once for the batch. Each sample is used by one thread at a time."""
        known: BatchColumns | None = batch.columns.get(self)
        if known is not None:
            for slot, held in known.held:
                if batch.values[slot] is not held:
                    known = None
                    break
        if known is None:
            known = self._columns_made(batch)
            if known.lasting:
                batch.columns[self] = known
            self.chain.results.keep(batch, self, known, known.of_results)
        return known

    def _columns_made(self, batch: BatchRun) -> BatchColumns:
        tools = kernels.kernel_calls
        made = BatchColumns()
        for place in self.places:
            values = batch.values[place.slot]
            if place.storage == "dense":
                made.held.append((place.slot, values))
                made.of_results = False
                if type(values) is list:
                    made.lasting = False  # rows are made again, in other memory
                    addresses = np.array([[tools.address_of(value)] for value in values], np.int64)
                    made.add(place.address, addresses, tools.LOADED)
                else:
                    made.add(place.address, values, tools.ADDRESS)
                continue
            made.results = True
            made.sent |= place.sent
            # Else the steps that follow read the arrays of the rows.
            whole = type(values) is PlacedArrays and not self.chain.later
            numbers = values.numbers(place.dtype, len(place.extents)) if whole else None
            if numbers is None:
                made.apart.append(place)
            else:
                made.held.append((place.slot, values))
                made.add_row((place.address, *place.extents), numbers, tools.STORED, place.flag, values.address)
                made.placed.append((values, place.guard))
        made.of_results = made.of_results and not (made.apart or self._stored or self._reads)
        for guard, flag in self._stored:
            made.add(flag.register, self.chain.guards.flags(batch, guard), tools.DECIDED)
        try:
            if self._reads:
                made.read(columns_of_part(self, batch, self._needed, *self._reads))
            made.complete = True
        except (NoTable, *PLAIN_ERRORS):  # the steps themselves report the error
            pass
        return made

    def _record_of_thread(self) -> "CallRecords":
        """The records of the calls for the calling thread, which writes the numbers of a sample in them."""
        parts = self._record, self._own, self._moves, self._starts, self._first
        return self._records.setdefault(threading.get_ident(), CallRecords(*parts))
