"""Decoding on the GPU by nvImageCodec. Images that it cannot decode are decoded on the CPU, and the reason is kept."""

from collections.abc import Callable
from typing import Any

from pipeflow.device.runtime import FunctionCall
from pipeflow.kernels import cpu as kernels
from pipeflow.operators import decoders
from pipeflow.types import DALIImageType

TURNED = "it is turned by its EXIF data, and a part of it is wanted"
OUTSIDE = "the part is not inside of the image"


def decode(call: FunctionCall, region_of: Callable[[FunctionCall, int, Any], Any] | None = None) -> None:
    """Decodes a batch. ``region_of(call, index, args)`` returns a function: from the extents of a sample it computes the part to
    decode.
    """
    color = DALIImageType(call.args.output_type).name
    chosen: dict[int, Any] = {}  # sample -> the file to decode on the GPU, and the part of its image
    on_cpu: dict[int, str] = {}
    regions: dict[int, Any] = {}
    for index in range(call.size):
        try:
            args = call.args_of(index)
            data = decoders.encoded(call.array(0, index))
            kernels.images.peek(data, decoders.limits_of(args))
            if region_of is None:
                chosen[index] = data, None
                continue
            regions[index] = region_of(call, index, args)
            reason, part = _part(data, color, args.adjust_orientation, regions[index])
        except Exception as error:
            call.failed[index] = error
            continue
        if reason:
            on_cpu[index] = reason
        else:
            chosen[index] = data, part
    files, parts = [data for data, _ in chosen.values()], [part for _, part in chosen.values()]
    made = call.runtime.decode(files, color, call.args.adjust_orientation, None if region_of is None else parts)
    images: dict[int, Any] = dict(zip(chosen, made, strict=True))
    on_cpu |= {index: image for index, image in images.items() if isinstance(image, str)}
    for index in range(call.size):
        if index in on_cpu:
            call.note(on_cpu[index])
            try:
                images[index] = decoders.decode(
                    call.array(0, index),
                    call.args_of(index),
                    kernels.images.new_array,
                    call.source(index),
                    regions.get(index),
                )
            except Exception as error:
                call.failed[index] = error
        if index in call.failed:
            call.leave_out()
        else:
            call.keep(0, images[index])


def _part(data: Any, color: str, adjust_orientation: bool, region: Any) -> tuple[str, Any]:
    """(reason, part): the wanted part of an image; the reason is not "" if the GPU cannot decode only this part."""
    header = kernels.image_headers.read(memoryview(data.data))
    height, width, _ = kernels.image_headers.shape_of(header, color, adjust_orientation)
    if adjust_orientation and header.orientation > 1:
        return TURNED, None
    top, left, rows, columns = region(height, width)
    inside = min(top, left) >= 0 and min(rows, columns) > 0 and top + rows <= height and left + columns <= width
    return ("" if inside else OUTSIDE), (top, left, rows, columns)


decoders.image.gpu_needs("nvImageCodec")


@decoders.image.gpu
def _(call: FunctionCall) -> None:
    decode(call)
