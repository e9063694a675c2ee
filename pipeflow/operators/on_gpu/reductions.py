"""Reductions over axes on the GPU."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pipeflow.declare import OpDef, registry
from pipeflow.device.calls import DeviceCall, Item, View, ceil_div, row_type
from pipeflow.kernels.gpu import TYPE_CODES, TYPES
from pipeflow.operators.reductions import divisor, reduced_axes, some_elements

SUM, SQUARES, DISTANCES, SMALLEST, LARGEST, LARGEST_NUMBER = range(6)  # enum Reduction of reduce.cu
AS_IT_IS, MEAN, ROOT, FACTOR = range(4)  # enum Finish
THREADS = 256
CHUNK = 16384  # elements of one result that a block takes
FEW = 64  # one thread takes a whole result of up to this number of elements
FLOAT64 = np.dtype(np.float64)

EXTENT = np.dtype([("extent", "i8"), ("stride", "i8")])
REDUCE_ROW = row_type(
    input="u8",
    partials="u8",
    means="u8",
    kept="u8",
    reduced="u8",
    results="i8",
    inner="i8",
    count="i8",
    chunk="i8",
    kept_ndim="i4",
    reduced_ndim="i4",
    input_type="i4",
    means_type="i4",
    one_mean="i4",
    operation="i4",
    one_by_one="i4",
)
MOMENTS_ROW = row_type(
    partials="u8",
    means="u8",
    factors="u8",
    results="i8",
    chunks="i8",
    count="f8",
    divisor="f8",
    epsilon="f8",
    scale="f8",
)
SUMMED = {np.dtype(np.uint8), np.dtype(np.float32)}  # the types that sum_span adds up
FINISH_ROW = row_type(
    partials="u8",
    output="u8",
    results="i8",
    chunks="i8",
    count="f8",
    epsilon="f8",
    scale="f8",
    operation="i4",
    finish="i4",
    output_type="i4",
    truncates="i4",
)
Extents = list[tuple[int, int]]


@dataclass
class Reduction:
    """How one array is reduced: its axes (neighbouring axes of one kind are joined), and the share of a block."""

    view: View
    kept: Extents
    reduced: Extents
    inner: int
    spread: Extents  # all axes, with their strides among the results
    partials: int = 0  # an address

    @classmethod
    def of(cls, view: View, axes: Sequence[int]) -> "Reduction":
        """The reduction of an array over some axes."""
        joined: list[tuple[bool, int, int]] = []  # True if reduced, extent, stride; innermost first
        stride = 1
        for axis in range(len(view.shape) - 1, -1, -1):
            extent, gone = view.shape[axis], axis in axes
            if joined and joined[-1][0] == gone:
                joined[-1] = (gone, joined[-1][1] * extent, joined[-1][2])
            elif extent != 1:
                joined.append((gone, extent, stride))
            stride *= extent
        spread, results = [], 1
        for gone, extent, _ in joined:
            spread.append((extent, 0 if gone else results))
            results *= 1 if gone else extent
        inner = joined.pop(0)[1] if joined and not joined[0][0] else 1
        kept = [(extent, stride) for gone, extent, stride in reversed(joined) if not gone]
        reduced = [(extent, stride) for gone, extent, stride in reversed(joined) if gone]
        return cls(view, kept, reduced, inner, spread[::-1])

    @property
    def results(self) -> int:
        """The number of results."""
        return math.prod(extent for extent, _ in self.kept) * self.inner

    @property
    def count(self) -> int:
        """The number of elements of each result."""
        return math.prod(extent for extent, _ in self.reduced)

    @property
    def kernel(self) -> str:
        """The kernel for this reduction."""
        if not self.one_by_one and len(self.reduced) == 1 and self.inner in (1, 3):
            return f"reduce_span<{{}}, {self.inner}>"
        return "reduce<{}>"

    @property
    def spans(self) -> bool:
        """True if the kernel sum_span can add up the values."""
        return "span" in self.kernel and self.view.dtype in SUMMED

    @property
    def one_by_one(self) -> bool:
        """True if one thread computes a whole result."""
        return self.count <= FEW or (self.count <= 4 * FEW and self.results >= 8192)

    @property
    def chunks(self) -> int:
        """The number of parts into which the elements of one result are cut."""
        return 1 if self.one_by_one else ceil_div(self.count, CHUNK)

    @property
    def blocks(self) -> int:
        """The number of blocks for this reduction."""
        if not self.results:
            return 0
        if self.one_by_one:
            return ceil_div(self.results, THREADS)
        outer = self.results // self.inner
        tiles = 1 if self.kernel != "reduce<{}>" else ceil_div(self.inner, min(self.inner, THREADS))
        return outer * tiles * self.chunks

    @property
    def nbytes(self) -> int:
        """The bytes of the partial results."""
        return 8 * self.results * self.chunks


def accumulated(dtype: np.dtype, operation: int = SUM) -> str:
    """The type in which values of a type, or their squares, are added up. The squares of large integers do not fit
    into 64 bits.
    """
    if operation == DISTANCES or (operation == SQUARES and dtype.itemsize >= 4):
        return "double"
    return {"f": "double", "i": "long long"}.get(dtype.kind, "unsigned long long")


def tables(call: DeviceCall, lists: Sequence[Extents]) -> list[int]:
    """The device addresses of several tables of axes."""
    flat = [axis for axes in lists for axis in axes]
    start = call.upload(np.array(flat or [(1, 0)], EXTENT))
    ends = np.cumsum([0, *[len(axes) for axes in lists]])
    return [start + int(end) * EXTENT.itemsize for end in ends[:-1]]


def place_partials(call: DeviceCall, plans: Sequence[Reduction], times: int = 1) -> None:
    """Gives the reductions memory for ``times`` sets of partial results, one after another."""
    address = call.scratch(times * sum(plan.nbytes for plan in plans))
    for plan in plans:
        plan.partials = address
        address += times * plan.nbytes


def launch_reductions(
    call: DeviceCall,
    plans: Sequence[Reduction],
    operation: int,
    kind: str,
    means: Sequence[View] | None = None,
    moments: int = 1,
) -> None:
    """The first step: every block reduces a chunk. ``means`` are for DISTANCES; ``moments`` is 2 for the two sums of sum_span."""
    addresses = tables(call, [axes for plan in plans for axes in (plan.kept, plan.reduced)])
    groups: dict[str, list[tuple[tuple, int]]] = {}
    for number, plan in enumerate(plans):
        kept, reduced = addresses[2 * number : 2 * number + 2]
        mean, mean_type, single = 0, 0, False
        if means is not None:
            mean, mean_type, single = means[number].address, TYPE_CODES[means[number].dtype], means[number].size == 1
        row = (
            plan.view.address,
            plan.partials,
            mean,
            kept,
            reduced,
            plan.results,
            plan.inner,
            plan.count,
            CHUNK,
            len(plan.kept),
            len(plan.reduced),
            TYPE_CODES[plan.view.dtype],
            mean_type,
            single,
            operation,
            plan.one_by_one,
        )
        kernel = plan.kernel.format(kind)
        element = TYPES[plan.view.dtype]
        if operation == SUM and plan.spans:
            kernel = f"sum_span<{element}, {plan.inner}, {moments}>"
        elif operation <= LARGEST and plan.spans and plan.count:
            kernel = f"span<{element}, {plan.inner}, {operation}>"
        groups.setdefault(kernel, []).append((row, plan.blocks))
    for kernel, rows in groups.items():
        call.launch(
            f"{'spans' if kernel.startswith('span<') else 'reduce'}.cu:{kernel}",
            np.array([row for row, _ in rows], REDUCE_ROW),
            [blocks for _, blocks in rows],
            THREADS,
        )


def launch_moments(call: DeviceCall, rows: Sequence[tuple]) -> None:
    """The second step for two moments: computes means and factors."""
    table = np.array(rows, MOMENTS_ROW)
    call.launch("reduce.cu:finish_moments", table, [ceil_div(int(n), THREADS) for n in table["results"]], THREADS)


def launch_finish(call: DeviceCall, kind: str, rows: Sequence[tuple]) -> None:
    """The second step: a thread joins the parts of one result."""
    table = np.array(rows, FINISH_ROW)
    call.launch(f"reduce.cu:finish<{kind}>", table, [ceil_div(int(n), THREADS) for n in table["results"]], THREADS)


# ----------------------------------------------------------------------------------------------------
# The operators

KINDS = {
    "sum": (SUM, AS_IT_IS), "mean": (SUM, MEAN), "mean_square": (SQUARES, MEAN), "rms": (SQUARES, ROOT),
    "min": (SMALLEST, AS_IT_IS), "max": (LARGEST, AS_IT_IS), "variance": (DISTANCES, MEAN), "std_dev": (DISTANCES, ROOT),
}  # fmt: skip


def _reduction(op: OpDef, operation: int, finish: int) -> None:
    @op.gpu_plan
    def _(item: Item) -> tuple[Reduction, int]:
        axes = reduced_axes(item.layouts[0], len(item.input.shape), item.args)
        plan = Reduction.of(item.input, axes)
        if operation == DISTANCES:
            return plan, divisor(op.leaf, item.input, item.inputs[1], axes, item.args.ddof)
        if op.leaf != "sum":
            some_elements(op.leaf, item.input, axes)
        return plan, plan.count

    @op.gpu
    def _(call: DeviceCall) -> None:
        plans = [replace(item.plan[0], view=item.input) for item in call.items]
        first = call.items[0]
        kind = accumulated(first.input.dtype, operation)
        place_partials(call, plans)
        launch_reductions(
            call, plans, operation, kind, [x.inputs[1] for x in call.items] if operation == DISTANCES else None
        )
        target = first.output.dtype
        truncates = target.kind in "iu" and (kind == "double" or finish != AS_IT_IS)
        rows = [
            (
                plan.partials,
                x.output.address,
                plan.results,
                plan.chunks,
                count,
                0,
                0,
                operation,
                finish,
                TYPE_CODES[target],
                truncates,
            )
            for x, plan, count in zip(call.items, plans, [item.plan[1] for item in call.items], strict=True)
        ]
        launch_finish(call, kind, rows)


for _name, _kinds in KINDS.items():
    _reduction(registry[f"reductions.{_name}"], *_kinds)
