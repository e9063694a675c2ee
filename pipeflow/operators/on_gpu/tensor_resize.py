"""tensor_resize on the GPU: one pass after another, each along one axis."""

from typing import Any

import numpy as np

from pipeflow.device.calls import DeviceCall, Item
from pipeflow.operators import tensor_resize
from pipeflow.operators.on_gpu.elementwise import cast_views
from pipeflow.operators.on_gpu.resize import Plan, Work, add_axis, add_pick
from pipeflow.operators.sampling import Axis, taps_of

FLOAT = np.dtype(np.float32)


@tensor_resize.tensor_resize.gpu_plan
def _(item: Item) -> list[Any]:
    shape = item.input.shape
    chosen = tensor_resize.axes_to_resize(shape, item.layouts[0], item.args)
    if not item.input.size:
        raise ValueError(f"the data has no elements: shape {shape}")
    found = tensor_resize.passes(shape, chosen, 1)
    return [(one, taps_of(one.axes, item.args)[0]) for one in found]


@tensor_resize.tensor_resize.gpu
def _(call: DeviceCall) -> None:
    same = [(item.input, item.output) for item in call.items if not item.plan]
    if same:
        cast_views(call, same)
    work = Work(call)
    now = [item.input for item in call.items]
    for number in range(max(len(item.plan) for item in call.items)):
        for place, item in enumerate(call.items):
            if number >= len(item.plan):
                continue
            (outer, (extent,), (result,), pixel, _), taps = item.plan[number]
            last = number == len(item.plan) - 1
            copied = taps[1].shape[1] == 1 and now[place].dtype == item.output.dtype
            dtype = now[place].dtype if copied else FLOAT
            target = item.output if last else call.scratch_view((outer * result * pixel,), dtype)
            if copied:
                same = taps_of([Axis(1, 0, 1, 1)], item.args)[0]
                add_pick(work, now[place], target, Plan(outer, (extent, 1), (result, 1), pixel, [taps, same]))
            else:
                add_axis(work, now[place], target, outer, extent, result, pixel, taps)
            now[place] = target
        work.launch()
