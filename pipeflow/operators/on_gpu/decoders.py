"""Decoding on the GPU by nvImageCodec: image by image what it cannot decode is decoded on the CPU, and the reason is kept."""

from pipeflow.device.runtime import FunctionCall
from pipeflow.kernels import cpu as kernels
from pipeflow.operators import decoders
from pipeflow.types import DALIImageType

decoders.image.gpu_needs("nvImageCodec")


@decoders.image.gpu
def _(call: FunctionCall) -> None:
    args = call.args
    limits = decoders.limits_of(args)
    files, sources = [], [call.source(index) for index in range(call.size)]
    for index in range(call.size):
        try:
            data = decoders.encoded(call.array(0, index))
            kernels.images.peek(data, limits)
        except Exception as error:
            call.failed[index] = error
            continue
        files.append((index, data))
    color = DALIImageType(args.output_type).name
    made = call.runtime.decode([data for _, data in files], color, args.adjust_orientation)
    found = {index: image for (index, _), image in zip(files, made, strict=True)}
    for index in range(call.size):
        if index in call.failed:
            call.leave_out()
        elif isinstance(found[index], str):
            call.note(found[index])
            try:
                image = decoders.decode(call.array(0, index), args, kernels.images.new_array, sources[index])
            except Exception as error:
                call.failed[index] = error
                call.leave_out()
                continue
            call.keep(0, image)
        else:
            call.keep(0, found[index])
