"""Random changes of colour on the GPU: the matrices are drawn as on the CPU."""

from collections.abc import Callable
from typing import Any

from pipeflow import seeds
from pipeflow.declare import OpDef
from pipeflow.device.calls import DeviceCall, Item
from pipeflow.operators import color_draws
from pipeflow.operators.color import three_channels
from pipeflow.operators.on_gpu.color import launch_colors


def _drawn(op: OpDef, check: Callable[[Any], None], line_of: Callable[[Item, seeds.Key], color_draws.Line]) -> None:
    @op.gpu_plan
    def _(item: Item) -> None:
        three_channels(item.input.shape, op.name)
        check(item.args)

    @op.gpu
    def _(call: DeviceCall) -> None:
        launch_colors(call, [line_of(item, seeds.Key(item.key)) for item in call.items])


def _check_distort(args: Any) -> None:
    color_draws.check_ranges(args)
    color_draws.check_prob(args.prob)


def _check_light(args: Any) -> None:
    if args.temperature is not None:
        color_draws.check_temperature(args.temperature)


_drawn(
    color_draws.color_jitter,
    color_draws.check_ranges,
    lambda item, key: color_draws.jitter_line(item.input.dtype, item.args, key),
)
_drawn(
    color_draws.photometric_distort,
    _check_distort,
    lambda item, key: color_draws.distort_line(item.input.dtype, item.args, key),
)
_drawn(color_draws.planckian_jitter, _check_light, lambda item, key: color_draws.planckian_line(item.args, key))
