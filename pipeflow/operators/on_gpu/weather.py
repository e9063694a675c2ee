"""Rain, snow and fog on the GPU."""

import numpy as np

from pipeflow import seeds
from pipeflow.device.calls import DeviceCall, Item, ceil_div, row_type
from pipeflow.kernels.gpu import TYPES
from pipeflow.operators import weather
from pipeflow.operators.color import full_range, three_channels
from pipeflow.operators.on_gpu.moves import DIVIDER, DeviceTables, divide_by
from pipeflow.operators.on_gpu.shading import check_size, clouds, shade
from pipeflow.operators.shading import check_roughness

RAIN_ROW = np.dtype(
    [
        ("input", "u8"),
        ("output", "u8"),
        ("tops", "u8"),
        ("lefts", "u8"),
        ("color", "u8"),
        ("lean", "f8"),
        ("opacity", "f4"),
        ("strokes", "i4"),
        ("length", "i4"),
        ("thickness", "i4"),
        ("channels", "i4"),
        ("width", DIVIDER),
        ("total", "u4"),
    ],
    align=True,
)
LIGHT_ROW = row_type(input="u8", output="u8", lightness="u8", scale="u8", total="i8")
RAINED, LIT = 512, 1024  # pixels that a block works on


@weather.rain.gpu_plan
def _(item: Item) -> weather.Strokes:
    check_size(item)
    return weather.strokes_of(item.input.shape, item.input.dtype, item.args)


@weather.rain.gpu
def _(call: DeviceCall) -> None:
    rows = np.zeros(len(call.items), RAIN_ROW)
    for row, item in zip(rows, call.items, strict=True):
        plan, (height, width, channels) = item.plan, item.input.shape
        units = seeds.Key(item.key).units(2 * plan.number)
        tops = np.floor(units[::2] * (height + plan.length) - plan.length)
        lefts = units[1::2] * (width + abs(plan.lean) * plan.length) - max(plan.lean, 0.0) * plan.length
        row["input"], row["output"] = item.input.address, item.output.address
        row["tops"], row["lefts"] = call.upload(tops.astype(np.int32)), call.upload(lefts)
        row["color"], row["opacity"] = call.upload(plan.color.astype(np.float32)), item.args.opacity
        row["lean"], row["strokes"], row["length"] = plan.lean, plan.number, plan.length
        row["thickness"], row["channels"] = plan.width, channels
        row["width"], row["total"] = divide_by(width), height * width
    kernel = f"shading.cu:draw_rain<{TYPES[call.items[0].input.dtype]}>"
    call.launch(kernel, rows, ceil_div(rows["total"].astype(np.int64), RAINED))


@weather.snow.gpu_plan
def _(item: Item) -> tuple[np.ndarray, np.ndarray]:
    three_channels(item.input.shape, "weather.snow")
    return weather.snow_tables(item.args.point, item.args.brightness)


@weather.snow.gpu
def _(call: DeviceCall) -> None:
    tables, rows = DeviceTables(call), np.zeros(len(call.items), LIGHT_ROW)
    for row, item in zip(rows, call.items, strict=True):
        row["input"], row["output"], row["total"] = item.input.address, item.output.address, item.input.size // 3
        row["lightness"], row["scale"] = (tables.address(table) for table in item.plan)
    call.launch("shading.cu:relight", rows, ceil_div(rows["total"], LIT))


@weather.fog.gpu_plan
def _(item: Item) -> None:
    check_size(item)
    weather.check_fog(item.args)
    check_roughness(item.args.roughness)


@weather.fog.gpu
def _(call: DeviceCall) -> None:
    rows = clouds(call, [item.args.roughness for item in call.items])
    for row, item in zip(rows, call.items, strict=True):
        args = item.args
        row["times"], row["plus"] = args.variation, 1 - args.variation
        row["slope"], row["offset"] = -args.density, args.density * full_range(item.input.dtype)
    shade(call, rows)
