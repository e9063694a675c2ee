"""Images whose pixels come from other positions, on the GPU."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pipeflow.device.calls import DeviceCall, Item, View, ceil_div
from pipeflow.kernels import cpu as kernels
from pipeflow.kernels.gpu import TYPE_CODES, TYPES, WORDS
from pipeflow.operators import displacement
from pipeflow.operators.axes import some_pixels
from pipeflow.operators.displacement import BORDERS, INTERPOLATIONS, ORIGINS, fill_of
from pipeflow.operators.on_gpu.moves import DIVIDER, DeviceTables, divide_by, whole
from pipeflow.operators.on_gpu.moves import move as move_boxes
from pipeflow.types import INTERP_NN

ROW = np.dtype(
    [
        ("input", "u8"), ("output", "u8"), ("fill", "u8"), ("across", "u8"), ("down", "u8"), ("given", "u8"), ("key", "u8"),
        ("numbers", "f8", (9,)), ("origin", "f8"), ("kind", "i4"), ("interpolation", "i4"), ("border", "i4"),
        ("invert", "i4"), ("height", "i4"), ("width", "i4"), ("channels", "i4"), ("columns", DIVIDER), ("total", "u4"),
        ("map_type", "i4"), ("input_type", "i4"), ("output_type", "i4"),
    ], align=True,
)  # fmt: skip
MATRIX, MAPS, WAVES, LENS, SCATTER = range(5)  # enum Kind of displacement.cu
FLOAT = np.dtype(np.float32)
DIRECT = {np.dtype(np.uint8), FLOAT}


class Places(NamedTuple):
    """The positions from which an item takes its pixels."""

    kind: int
    fill: np.ndarray
    interpolation: int
    border: int = 0
    origin: float = 0.0
    numbers: np.ndarray = np.zeros(9)
    given: int = 0
    invert: bool = False
    across: int = 0
    down: int = 0
    map_type: int = 0
    key: int = 0


def check_size(item: Item) -> None:
    """Raises an error if there are no pixels, or too many for the kernels."""
    some_pixels(item.input.shape)
    if item.outputs[0].size >= 1 << 31:
        raise ValueError(f"the result has {item.outputs[0].size} values; the GPU form makes fewer than 2**31")


def planes_of(item: Item, places: Places) -> list[tuple[View, View, Places]]:
    """Input and output as (H, W, C); if the channels come first, each plane separately."""
    source, target = item.input, item.output
    layout = item.layouts[0]
    if layout == "HWC":
        return [(source, target, places)]
    if layout == "HW":
        return [(source.reshape(*source.shape, 1), target.reshape(*target.shape, 1), places)]
    found = []
    for channel in range(source.shape[0]):
        one, other = source.frame(channel), target.frame(channel)
        own = places._replace(fill=places.fill[channel : channel + 1])
        found.append((one.reshape(*one.shape, 1), other.reshape(*other.shape, 1), own))
    return found


def launch(call: DeviceCall, items: Sequence[Item], all_places: Sequence[Places]) -> None:
    """Queues the kernel that takes the pixels of these items."""
    tables = DeviceTables(call)
    dtype = items[0].input.dtype
    nearest = all_places[0].interpolation == INTERPOLATIONS[INTERP_NN]
    rows = []
    for item, of_item in zip(items, all_places, strict=True):
        for source, target, places in planes_of(item, of_item):
            height, width, channels = source.shape
            fill = kernels.casting.as_type(np.ascontiguousarray(places.fill, np.float64), dtype if nearest else FLOAT)
            rows.append(
                (
                    source.address,
                    target.address,
                    tables.address(fill),
                    places.across,
                    places.down,
                    places.given,
                    places.key,
                    places.numbers,
                    places.origin,
                    places.kind,
                    places.interpolation,
                    places.border,
                    places.invert,
                    height,
                    width,
                    channels,
                    divide_by(target.shape[1]),
                    target.size // channels,
                    places.map_type,
                    TYPE_CODES[dtype],
                    TYPE_CODES[target.dtype],
                )
            )
    if nearest:
        kernel = f"look_up_nearest<{WORDS[dtype.itemsize]}>"
    elif dtype in DIRECT:
        kernel = f"look_up<{TYPES[dtype]}>"
    else:
        kernel = f"look_up_any<{'double' if dtype == np.float64 else 'float'}>"
    table = np.array(rows, ROW)
    call.launch(f"displacement.cu:{kernel}", table, [ceil_div(int(total), 512) for total in table["total"]])


# ----------------------------------------------------------------------------------------------------
# warp_perspective and remap


@displacement.warp_perspective.gpu_plan
def _(item: Item) -> np.ndarray | None:
    check_size(item)
    if len(item.inputs) == 1:
        return displacement.perspective_matrix(item.args.matrix, item.args.inverse_map)
    matrix = item.inputs[1]
    if matrix.dtype != FLOAT:
        raise TypeError(f"a matrix on the GPU must be float32, got {matrix.dtype}")
    if matrix.size != 9:
        raise ValueError(f"the matrix must have 3 x 3 values, got {matrix.size}")
    return None


@displacement.warp_perspective.gpu
def _(call: DeviceCall) -> None:
    found = []
    for item in call.items:
        args, layout = item.args, item.layouts[0]
        fill = fill_of(args.fill_value, item.input.shape[layout.index("C")] if "C" in layout else 1)
        given = 0 if item.plan is not None else item.inputs[1].address
        found.append(
            Places(
                MATRIX,
                fill,
                INTERPOLATIONS[args.interp_type],
                BORDERS[args.border_mode],
                ORIGINS[args.pixel_origin],
                np.zeros(9) if item.plan is None else item.plan,
                given,
                bool(given) and not args.inverse_map,
            )
        )
    launch(call, call.items, found)


@displacement.remap.gpu_plan
def _(item: Item) -> None:
    check_size(item)
    _, across, down = item.inputs
    if displacement.map_shape(across.shape) != displacement.map_shape(down.shape):
        raise ValueError(f"the maps differ in shape: {across.shape} and {down.shape}")
    if across.dtype != down.dtype:
        raise TypeError(f"the maps differ in type: {across.dtype} and {down.dtype}")


@displacement.remap.gpu
def _(call: DeviceCall) -> None:
    found = []
    for item in call.items:
        _, across, down = item.inputs
        fill, interpolation = np.zeros(item.input.shape[2]), INTERPOLATIONS[item.args.interp]
        found.append(
            Places(
                MAPS,
                fill,
                interpolation,
                origin=ORIGINS[item.args.pixel_origin],
                across=across.address,
                down=down.address,
                map_type=TYPE_CODES[across.dtype],
            )
        )
    launch(call, call.items, found)


# ----------------------------------------------------------------------------------------------------
# Effects


@displacement.water.gpu_plan
@displacement.sphere.gpu_plan
@displacement.jitter.gpu_plan
def _(item: Item) -> None:
    check_size(item)


def launch_effect(call: DeviceCall, kind: int, options: Any) -> None:
    """Queues an effect for the items whose mask is not 0; the others are copied."""
    active = [item for item in call.items if item.args.mask]
    copied = [whole(item.input, item.output) for item in call.items if not item.args.mask]
    if copied:
        move_boxes(call, copied, call.items[0].input.dtype.itemsize)
    if not active:
        return
    found = []
    for item in active:
        fill = np.full(item.input.shape[2], item.args.fill_value, np.float64)
        found.append(Places(kind, fill, INTERPOLATIONS[item.args.interp_type], **options(item)))
    launch(call, active, found)


@displacement.water.gpu
def _(call: DeviceCall) -> None:
    def tables_of(item: Item) -> dict[str, Any]:
        lines, columns = displacement.waves(item.input.shape[0], item.input.shape[1], item.args)
        return {"across": call.upload(lines), "down": call.upload(columns)}

    launch_effect(call, WAVES, tables_of)


@displacement.sphere.gpu
def _(call: DeviceCall) -> None:
    launch_effect(call, LENS, lambda _: {})


@displacement.jitter.gpu
def _(call: DeviceCall) -> None:
    def scatter(item: Item) -> dict[str, Any]:
        displacement.check_degree(item.args.nDegree)
        return {"key": item.key, "numbers": np.array([item.args.nDegree, *[0.0] * 8])}

    launch_effect(call, SCATTER, scatter)
