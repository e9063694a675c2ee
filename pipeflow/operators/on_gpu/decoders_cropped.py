"""Decoding parts of images on the GPU: nvImageCodec decodes only the window."""

from typing import Any

from pipeflow import seeds
from pipeflow.device.runtime import FunctionCall
from pipeflow.operators import decoders_cropped
from pipeflow.operators.on_gpu.decoders import decode


@decoders_cropped.image_crop.gpu
def _(call: FunctionCall) -> None:
    decode(call, lambda _call, _index, args: decoders_cropped.crop_region(args))


@decoders_cropped.image_random_crop.gpu
def _(call: FunctionCall) -> None:
    decode(call, lambda call, index, args: decoders_cropped.random_region(seeds.Key(int(call.keys[index])), args))


def _slice(call: FunctionCall, index: int, args: Any) -> Any:
    bounds = [call.array(position, index) for position in range(1, call.num_inputs)]
    anchor, shape = (*bounds, None, None)[:2]
    return decoders_cropped.slice_region(anchor, shape, args)


@decoders_cropped.image_slice.gpu
def _(call: FunctionCall) -> None:
    decode(call, _slice)


for _op in (decoders_cropped.image_crop, decoders_cropped.image_random_crop, decoders_cropped.image_slice):
    _op.gpu_needs("nvImageCodec")
