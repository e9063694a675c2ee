"""Calls of the GPU form of an operator: rows of descriptors, and launches.

``@flip.gpu``, in operators/on_gpu/, declares a function of one DeviceCall. It runs on the host and uses no device. It
fills one row of numbers for each item, from its shapes, arguments and random numbers, and queues launches. An *item*
is a sample, or one frame of a sequence. Every kernel has the same form,

    template <class T> __global__ void flip(const FlipRow* rows, const int* first, int count)

with one row for each item. Block ``b`` of the grid works on the row ``i`` with ``first[i] <= b < first[i + 1]`` (``ragged.cuh``
finds it), so one launch serves images of different sizes and no block is idle. ``@crop.gpu_plan`` computes the windows and
tables of one item; its exceptions name the sample. ``@reshape.gpu_view`` is for operators whose result is a view of the input,
and ``@pad.gpu_specs`` for shapes that depend on the whole batch. Addresses are plain numbers, so the same call runs on a CUDA
device and, in the tests, on the host.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from pipeflow import seeds
from pipeflow.declare import Args, Bound, OpDef, Spec, check_finite, frames_in, from_sample, refused, shared_extents
from pipeflow.errors import UnsupportedType, count_of

ALIGNMENT = 256  # the alignment of every sample in the memory of a batch


class View(NamedTuple):
    """An array in device memory, C-contiguous, whose bytes the host does not read."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def size(self) -> int:
        """The number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return self.size * self.dtype.itemsize

    def frame(self, index: int) -> "View":
        """The view of one entry of the first axis."""
        inner = View(self.address, self.shape[1:], self.dtype)
        return inner._replace(address=self.address + index * inner.nbytes)

    def reshape(self, *shape: int) -> "View":
        """The same bytes with another shape of as many elements."""
        result = View(self.address, shape, self.dtype)
        assert result.size == self.size, f"{self.shape} as {shape}"
        return result


class Item(NamedTuple):
    """A sample, or a frame of a sequence: the values that a CPU kernel would get."""

    inputs: tuple[View, ...]
    outputs: tuple[View, ...]
    args: Args  # every argument with its value for this item, with defaults and drawn values
    layouts: tuple[str, ...]
    key: int
    plan: Any = (
        None  # the result of the operator's gpu_plan for this item, or for an item with the same shapes and arguments
    )
    numbers: tuple[np.ndarray, ...] = ()  # the inputs after the first, if the host reads them (``host_inputs``)
    source: str = ""  # source_info, if the operator wants it
    known: tuple[np.ndarray | None, ...] = ()  # the inputs that are constants, in CPU memory; None for the others

    @property
    def input(self) -> View:
        """The first input."""
        return self.inputs[0]

    @property
    def output(self) -> View:
        """The first output."""
        return self.outputs[0]


def array_address(array: Any) -> int:
    """The address of an array of the runtime's module."""
    interface = getattr(array, "__cuda_array_interface__", None) or array.__array_interface__
    return int(interface["data"][0])


class DeviceMemory(Protocol):
    """The memory for a call: the executor's segment on a device, an array in tests."""

    def allocate(self, output: int, sizes: Sequence[int] | np.ndarray) -> Sequence[int] | np.ndarray:
        """The addresses of memory with these numbers of bytes, for one output of every sample; of an array, an array."""
        ...

    def view(self, output: int, views: Sequence[View]) -> Sequence[int]:
        """The addresses of an output that is a view of the inputs, for every sample: of the given views, or of copies."""
        ...

    def scratch(self, nbytes: int) -> int:
        """The address of device memory that is not needed after the launches of this call."""
        ...

    def upload(self, array: np.ndarray) -> int:
        """The device address of a copy of a host array, valid for the launches of this call."""
        ...

    def launch(self, kernel: str, grid: int, threads: int, rows: int, first: int, count: int) -> None:
        """Queues one launch; ``kernel`` is "file.cu:name<types>"."""
        ...

    def run(self, function: Callable[..., None], views: Sequence[View]) -> None:
        """Queues ``function(array_module, *arrays)``, for work that a library does better (Fourier transforms)."""
        ...


class Launcher:
    """What GPU forms queue: launches, and the memory for these."""

    __slots__ = ("_memory",)

    def __init__(self, memory: DeviceMemory) -> None:
        self._memory = memory

    def upload(self, array: np.ndarray) -> int:
        """The device address of a table: filter taps, matrices, offsets. Join equal tables of a batch into one."""
        return self._memory.upload(np.ascontiguousarray(array))

    def scratch(self, nbytes: int) -> int:
        """The address of memory for data between two launches of this call."""
        return self._memory.scratch(nbytes)

    def scratch_each(self, sizes: np.ndarray) -> np.ndarray:
        """The addresses of several pieces of such memory, with these numbers of bytes."""
        places, total = aligned_places(sizes)
        return places + self.scratch(total)

    def scratch_view(self, shape: tuple[int, ...], dtype: np.dtype) -> View:
        """An array in memory for data between two launches of this call."""
        view = View(0, shape, dtype)
        return view._replace(address=self._memory.scratch(view.nbytes))

    def launch(self, kernel: str, rows: np.ndarray, blocks: Sequence[int] | np.ndarray, threads: int = 256) -> None:
        """Queues a kernel over rows of descriptors; ``blocks`` says how many blocks work on each of them.

        ``kernel`` is "file.cu:name<types>", one of those listed in pipeflow.kernels.gpu.
        """
        ends = np.asarray(blocks).cumsum()
        grid = int(ends[-1]) if len(ends) else 0
        if grid:
            first = np.empty(len(rows) + 1, np.int32)
            first[0], first[1:] = 0, ends
            memory = self._memory
            memory.launch(kernel, grid, threads, memory.upload(rows), memory.upload(first), len(rows))

    def run(self, function: Callable[..., None], *views: View) -> None:
        """Queues ``function(array_module, *arrays)`` between the launches."""
        self._memory.run(function, views)


class DeviceCall(Launcher):
    """One operator on one batch, as its ``gpu`` function sees it."""

    __slots__ = ("items", "op")

    def __init__(self, op: OpDef, items: Sequence[Item], memory: DeviceMemory) -> None:
        super().__init__(memory)
        self.op = op
        self.items = items


def aligned_places(sizes: np.ndarray) -> tuple[np.ndarray, int]:
    """The aligned places of pieces of memory of these numbers of bytes, one after another, and the end of the last one."""
    places = sizes + (ALIGNMENT - 1) & -ALIGNMENT  # a power of two: without the division of so many numbers
    ends = places.cumsum()
    return ends - places, int(ends[-1])


def ceil_div(amount: Any, share: Any) -> Any:
    """The quotient, rounded up; both numbers may be arrays."""
    return -(-amount // share)


def row_type(**fields: str) -> np.dtype:
    """The layout of a row, equal to the struct of the kernel: fields in C order with C padding ("u8" for pointers)."""
    return np.dtype(list(fields.items()), align=True)


def given_value(op: OpDef, name: str, value: np.ndarray) -> Any:
    """The value of an argument that differs from sample to sample, in the form that the kernel of a sample gets."""
    param = op.arguments[name]
    try:
        return check_finite(param, from_sample(param.type, value))
    except (TypeError, ValueError) as error:
        raise refused(type(error), param, error) from None


@dataclass
class SampleValues:
    """The inputs and per-sample arguments of one sample."""

    inputs: Sequence[View]
    arguments: Mapping[str, np.ndarray]  # per-sample arguments, in CPU memory
    key: int
    numbers: tuple[np.ndarray, ...] = ()  # the inputs after the first, in CPU memory, if the host reads them
    source: str = ""  # source_info, if the operator wants it
    known: tuple[np.ndarray | None, ...] = ()  # the inputs that are constants, in CPU memory; None for the others


class DevicePlanner:
    """The counterpart of declare.Bound for a device: computes arguments, random numbers and shapes of each item, and launches."""

    def __init__(self, op: OpDef, constants: Mapping[str, Any], count: int, per_frame: Sequence[str] = ()) -> None:
        self.op = op
        self.count = count
        self.per_frame = frozenset(per_frame)
        self.constants = constants
        self._kernel = Bound(op, constants, count)
        self.accepted_layouts = self._kernel.accepted_layouts
        self._launch, self._view = op.gpu_hook("launch"), op.gpu_hook("view")
        self._plan_of_item, self._specs_of_batch = op.gpu_hook("plan"), op.gpu_hook("specs")
        # The plans by the shapes of the inputs, if they depend on nothing else.
        self._by_shapes = op.draw_hook is None and self._view is None and self._specs_of_batch is None
        self._known: dict[Any, tuple[tuple[Spec, ...], Item]] = {}

    def __call__(
        self,
        samples: Sequence[SampleValues],
        layouts: Sequence[str],
        memory: DeviceMemory,
        failed: Callable[[int, Exception], None] | None = None,
    ) -> tuple[list[tuple[View, ...] | None], tuple[str, ...]]:
        """Queues the operator on a batch; returns the outputs of every sample, and their layouts.

        A sample that cannot be planned is passed to ``failed`` and has no outputs. Without ``failed`` its exception carries the
        sample's number as ``sample_index``.
        """
        plans: list[_PlannedSample | None] = []
        for index, sample in enumerate(samples):
            try:
                plans.append(self._plan(sample, layouts))
            except Exception as error:
                if failed is None:
                    error.sample_index = index  # type: ignore[attr-defined]
                    raise
                failed(index, error)
                plans.append(None)
        good = [plan for plan in plans if plan is not None]
        if self._specs_of_batch is not None and good:
            for plan, specs in zip(good, self._specs_of_batch([plan.items[0] for plan in good]), strict=True):
                plan.outputs = [_unplaced(spec) for spec in specs]
                plan.layouts = tuple(spec.layout or "" for spec in specs)
        unlabelled = self.op.generic and not layouts[0]
        found = good[0].layouts if good and not unlabelled else ("",) * self.count
        for output in range(self.count):
            views = [plan.outputs[output] for plan in good]
            addresses: Sequence[int] | np.ndarray
            if self._view is not None:
                addresses = memory.view(output, views)
            else:
                addresses = memory.allocate(output, [view.nbytes for view in views])
            for plan, address in zip(good, addresses, strict=True):
                plan.outputs[output] = plan.outputs[output]._replace(address=address)
        items = [item for plan in good for item in plan.placed()]
        if items and self._launch is not None:
            self._launch(DeviceCall(self.op, items, memory))
        return [None if plan is None else tuple(plan.outputs) for plan in plans], found

    def _plan(self, sample: SampleValues, layouts: Sequence[str]) -> "_PlannedSample":
        op, inputs = self.op, sample.inputs
        if inputs:
            op.check_dtype(inputs[0].dtype)
            if any(x.dtype.kind == "c" for x in inputs):
                raise UnsupportedType("complex numbers are computed on the CPU only: use .cpu() before this operator")
        unlabelled = op.generic and not layouts[0]  # the result has no layout either, as on the CPU
        if op.layouts:
            layouts = self.accepted_layouts(layouts, tuple(len(x.shape) for x in inputs))
        if not (op.layouts and layouts and op.frames_of(layouts, {**self.constants, **sample.arguments})):
            specs, item = self._item(sample, layouts)
            found = tuple("" if unlabelled else spec.layout or "" for spec in specs)
            return _PlannedSample(list(item.outputs), found, [item])
        frames = frames_in(inputs, layouts)
        varying = self.per_frame & sample.arguments.keys()
        for name in varying:
            if len(sample.arguments[name]) != frames:
                given = count_of(len(sample.arguments[name]), "value")
                raise ValueError(f"argument {name!r} has {given} for a sequence of {count_of(frames, 'frame')}")
        if not frames:
            raise ValueError(f"{op.title}: the sequence has no frames")
        inner = tuple(layout[1:] if layout[:1] == "F" else layout for layout in layouts)
        items: list[Item] = []
        first: tuple[Spec, ...] = ()
        parts = [
            replace(
                sample,
                inputs=[x.frame(frame) if layout[:1] == "F" else x for x, layout in zip(inputs, layouts, strict=True)],
                arguments={name: v[frame] if name in self.per_frame else v for name, v in sample.arguments.items()},
            )
            for frame in range(frames)
        ]
        shared = {}
        if op.frames_share and varying:
            name, extents_of = op.frames_share
            alone = [(Spec(x.inputs[0].shape, x.inputs[0].dtype, inner[0]), self._infer(x, inner)[1]) for x in parts]
            shared = {name: np.array(shared_extents([extents_of(*frame) for frame in alone]))}
        for frame, part in enumerate(parts):
            if items and not varying:
                items.append(items[0]._replace(inputs=tuple(part.inputs)))
                continue
            specs, item = self._item(replace(part, arguments={**shared, **part.arguments}), inner)
            first = first or specs
            for spec, one in zip(specs, first, strict=True):
                if spec.shape != one.shape:
                    raise ValueError(f"frame {frame} has shape {spec.shape}, the first one {one.shape}")
            items.append(item)
        framed = [spec if number in op.once else spec.framed(frames) for number, spec in enumerate(first)]
        found = tuple([spec.layout or "" for spec in framed])
        return _PlannedSample([_unplaced(spec) for spec in framed], found, items, framed=True, once=op.once)

    def _item(self, sample: SampleValues, layouts: Sequence[str]) -> tuple[tuple[Spec, ...], Item]:
        if sample.arguments or sample.numbers or not self._by_shapes:
            return self._new_item(sample, layouts)
        signature = (tuple([(x.shape, x.dtype) for x in sample.inputs]), tuple(layouts))
        known = self._known.get(signature)
        if known is None:
            known = self._new_item(sample, layouts)
            if len(self._known) < 256:
                self._known[signature] = known
        specs, item = known
        return specs, item._replace(inputs=tuple(sample.inputs), key=sample.key)

    def _new_item(self, sample: SampleValues, layouts: Sequence[str]) -> tuple[tuple[Spec, ...], Item]:
        specs, args = self._infer(sample, layouts)
        item = Item(
            tuple(sample.inputs),
            (),
            args,
            tuple(layouts),
            sample.key,
            None,
            sample.numbers,
            sample.source,
            sample.known,
        )
        if self._view is not None:
            views = self._view(item)
            outputs = (views,) if isinstance(views, View) else tuple(views)
        elif self._specs_of_batch is not None:
            outputs = ()  # set when all items are known
        elif all(spec.static for spec in specs):
            outputs = tuple(_unplaced(spec) for spec in specs)
        else:
            raise ValueError(
                "the shape of the result depends on data on the GPU, and output shapes must be known on the CPU before "
                "the launch: "
                "give it by named arguments, which are on the CPU"
            )
        item = item._replace(outputs=outputs)
        return specs, item if self._plan_of_item is None else item._replace(plan=self._plan_of_item(item))

    def infer(self, sample: SampleValues, layouts: Sequence[str]) -> Spec:
        """The Spec of the first output for one sample."""
        return self._infer(sample, layouts)[0][0]

    def _infer(self, sample: SampleValues, layouts: Sequence[str]) -> tuple[tuple[Spec, ...], Args]:
        op = self.op
        arguments = dict(self._kernel.constants)
        for name, value in sample.arguments.items():
            arguments[name] = given_value(op, name, value)
        inputs: tuple[View | np.ndarray, ...] = (*sample.inputs, *sample.numbers)
        given = tuple(Spec(x.shape, x.dtype, layout) for x, layout in zip(inputs, layouts, strict=True))
        if op.draw_hook is not None:
            arguments.update(op.draw_hook(seeds.Key(sample.key), given, Args(**arguments)))
        return op.specs(given, arguments, self.count), Args(**arguments)


@dataclass
class _PlannedSample:
    """One sample before its outputs have memory."""

    outputs: list[View]
    layouts: tuple[str, ...]
    items: list[Item]  # one, or one for each frame
    framed: bool = False
    once: tuple[int, ...] = ()

    def placed(self) -> list[Item]:
        """The items, after the outputs have memory."""
        if not self.framed:
            return [self.items[0]._replace(outputs=tuple(self.outputs))]
        return [
            item._replace(outputs=tuple(x if i in self.once else x.frame(frame) for i, x in enumerate(self.outputs)))
            for frame, item in enumerate(self.items)
        ]


def _unplaced(spec: Spec) -> View:
    assert spec.shape is not None
    assert spec.dtype is not None
    return View(0, tuple(int(extent) for extent in spec.shape), spec.dtype)
