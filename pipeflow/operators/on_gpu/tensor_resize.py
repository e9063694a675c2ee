"""tensor_resize on the GPU: one pass after another, each along one axis."""

from collections.abc import Sequence

import numpy as np

from pipeflow.device.calls import DeviceCall, Item, View
from pipeflow.device.tables import ArrayColumn
from pipeflow.operators import tensor_resize
from pipeflow.operators.on_gpu.elementwise import cast_views
from pipeflow.operators.on_gpu.resize import make_taps, pass_along, pick
from pipeflow.operators.on_gpu.resize_rows import tap_counts
from pipeflow.operators.sampling import axes_row

FLOAT = np.dtype(np.float32)
Step = tuple[tensor_resize.AxisPass, np.ndarray]


@tensor_resize.tensor_resize.gpu_plan
def _(item: Item) -> list[Step]:
    shape = item.input.shape
    chosen = tensor_resize.axes_to_resize(shape, item.layouts[0], item.args)
    if not item.input.size:
        raise ValueError(f"the data has no elements: shape {shape}")
    return [(one, axes_row(one.axes, item.args)) for one in tensor_resize.passes(shape, chosen, 1)]


@tensor_resize.tensor_resize.gpu
def _(call: DeviceCall) -> None:
    same = [(item.input, item.output) for item in call.items if not item.plan]
    if same:
        cast_views(call, same)
    antialias = call.items[0].args.antialias
    now = [item.input for item in call.items]
    for number in range(max(len(item.plan) for item in call.items)):
        alike: dict[tuple[np.dtype, np.dtype, bool], list[tuple[View, View, Step]]] = {}
        for place, item in enumerate(call.items):
            if number >= len(item.plan):
                continue
            one, axes = item.plan[number]
            copied = tap_counts(axes[None], antialias)[0, 0] == 1 and now[place].dtype == item.output.dtype
            dtype = now[place].dtype if copied else FLOAT
            last = number == len(item.plan) - 1
            target = item.output if last else call.scratch_view((one.outer * one.wanted[0] * one.pixel,), dtype)
            alike.setdefault((now[place].dtype, target.dtype, copied), []).append((now[place], target, (one, axes)))
            now[place] = target
        for (*_, copied), several in alike.items():
            along(call, several, copied, antialias)


def along(call: DeviceCall, several: Sequence[tuple[View, View, Step]], copied: bool, antialias: bool) -> None:
    """Queues a pass over several samples of equal types."""
    source, target = (
        ArrayColumn.of([view.reshape(view.size) for view in views])
        for views in zip(*[(before, after) for before, after, _ in several])
    )
    steps = [(one.outer, *one.given, *one.wanted, one.pixel) for _, _, (one, _) in several]
    outer, extent, result, pixel = np.array(steps, np.int64).T
    (taps,) = make_taps(call, np.stack([axes for *_, (_, axes) in several]), antialias)
    if copied:
        one = np.ones_like(extent)
        only = np.full(len(several), call.upload(np.zeros(1, np.int32)))  # one column, which does not move
        every = np.ones(len(several), bool)
        pick(call, source, target, (extent, one), (result, one), pixel, taps.starts, only, every)
    else:
        pass_along(call, source, target, outer, extent, result, pixel, taps)
