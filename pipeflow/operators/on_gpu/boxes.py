"""Boxes and points on the GPU: a factor and an offset for every coordinate, and the targets of a detector."""

import numpy as np

from pipeflow.device.calls import DeviceCall, Item, ceil_div
from pipeflow.kernels.gpu import TYPE_CODES
from pipeflow.operators import boxes
from pipeflow.operators.on_gpu.elementwise import counted
from pipeflow.operators.on_gpu.moves import DeviceTables
from pipeflow.operators.on_gpu.transforms import launch_points

BOXES_ROW = np.dtype(
    [
        ("anchors", "u8"),
        ("boxes", "u8"),
        ("labels", "u8"),
        ("places", "u8"),
        ("targets", "u8"),
        ("classes", "u8"),
        ("means", "f4", (4,)),
        ("stds", "f4", (4,)),
        ("criteria", "f4"),
        ("anchor_count", "i4"),
        ("box_count", "i4"),
        ("offset", "i4"),
        ("box_type", "i4"),
        ("label_type", "i4"),
    ],
    align=True,
)
THREADS = 256


@boxes.bb_flip.gpu_plan
def _(item: Item) -> boxes.Mapping:
    counted(item)
    boxes.check_four(item.input.shape)
    return boxes.box_flip(item.args.ltrb, item.args.horizontal, item.args.vertical)


@boxes.bbox_paste.gpu_plan
def _(item: Item) -> boxes.Mapping:
    counted(item)
    boxes.check_four(item.input.shape)
    return boxes.box_paste(item.args.ltrb, item.args.ratio, item.args.paste_x, item.args.paste_y)


@boxes.coord_flip.gpu_plan
def _(item: Item) -> boxes.Mapping:
    counted(item)
    args, shape = item.args, item.input.shape
    flips, centers = (args.flip_x, args.flip_y, args.flip_z), (args.center_x, args.center_y, args.center_z)
    return boxes.point_flip(args.layout, shape[-1] if shape else 1, flips, centers)


@boxes.bb_flip.gpu
@boxes.bbox_paste.gpu
@boxes.coord_flip.gpu
def _(call: DeviceCall) -> None:
    launch_points(call, [(matrix, 0.0, offset) for matrix, offset in (item.plan for item in call.items)])


@boxes.box_encoder.gpu_plan
def _(item: Item) -> None:
    shape, labels = item.input.shape, item.inputs[1]
    if len(shape) != 2 or shape[1] != 4:
        raise ValueError(f"boxes have the shape (n, 4), got {shape}")
    if labels.size != shape[0]:
        raise ValueError(f"there are {shape[0]} boxes, and labels of shape {labels.shape}: give one label for each")


@boxes.box_encoder.gpu
def _(call: DeviceCall) -> None:
    tables = DeviceTables(call)
    rows = []
    for item in call.items:
        args, given, labels = item.args, item.input, item.inputs[1]
        anchors = boxes.anchor_table(args.anchors)
        rows.append(
            (
                tables.address(anchors),
                given.address,
                labels.address,
                call.scratch(4 * max(given.shape[0], 1)),
                item.outputs[0].address,
                item.outputs[1].address,
                args.means,
                args.stds,
                args.criteria,
                len(anchors),
                given.shape[0],
                args.offset,
                TYPE_CODES[given.dtype],
                TYPE_CODES[labels.dtype],
            )
        )
    table = np.array(rows, BOXES_ROW)
    call.launch("boxes.cu:best_anchors", table, [item.input.shape[0] for item in call.items], THREADS)
    call.launch(
        "boxes.cu:encode_boxes",
        table,
        [ceil_div(len(boxes.anchor_table(x.args.anchors)), THREADS) for x in call.items],
        THREADS,
    )
