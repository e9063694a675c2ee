"""Mistakes that appear only with data: the kinds of exceptions, and that the same mistakes come again."""

import numpy as np
from material import image
from nvidia.dali import fn, pipeline_def, types
from shown import show_error

SAMPLES = [image(6, 8), image(4, 4)]


def run(function, samples=SAMPLES, layout="HWC", **options):
    @pipeline_def(batch_size=len(samples), num_threads=2, device_id=None, **options)
    def definition():
        made = function(fn.external_source(lambda: samples, layout=layout))
        return tuple(made) if isinstance(made, (list, tuple)) else made

    return definition().run()


for function in (
    lambda x: fn.crop(x, crop=(5, 5)),
    lambda x: fn.crop(x, crop=(2, 2), crop_pos_x=1.5),
    lambda x: fn.slice(x, start=[5], end=[6], axes=[0]),
    lambda x: fn.resize(x, size=[-3.0, 0.0], mode="unknown"),
    lambda x: fn.cat(x, x, axis=5),
    lambda x: fn.stack(x, x[:2]),
    lambda x: fn.reshape(x, shape=[7, 7]),
    lambda x: fn.transpose(x, perm=[0, 1]),
    lambda x: fn.color_space_conversion(x[:, :, :2], image_type=types.RGB, output_type=types.GRAY),
    lambda x: fn.hsv(x[:, :, 0], hue=20.0),
    lambda x: fn.one_hot(x, num_classes=-1),
    lambda x: fn.normalize(x, axes=[9]),
    lambda x: fn.reductions.sum(x, axes=[3]),
    lambda x: fn.reductions.sum(x, axis_names="Q"),
    lambda x: fn.decoders.image(x),
    lambda x: fn.decoders.audio(fn.reshape(x, shape=[-1]))[0],
    lambda x: fn.squeeze(x, axes=[0]),
    lambda x: fn.expand_dims(x, axes=[7]),
    lambda x: fn.pad(x, axis_names="Z"),
    lambda x: fn.permute_batch(x, indices=[5, 5]),
    lambda x: fn.element_extract(x, element_map=[40]),
    lambda x: x[:, 9],
    lambda x: x % fn.zeros_like(x),
    lambda x: x @ x,
    lambda x: fn.crop(x, crops=(2, 2)),
    lambda x: fn.crop(x, x, crop=(2, 2)),
    lambda x: fn.crop(crop=(2, 2)),
    lambda x: fn.no_such_operator(x),
    lambda x: fn.readers.no_such_reader(x),
    lambda x: types.NO_SUCH_TYPE,
):
    show_error(lambda: run(function))
show_error(lambda: run(lambda x: x, [image(2, 2), np.float32([1])]))
show_error(lambda: run(lambda x: x, [image(2, 2)[..., 0]] * 2))
show_error(lambda: run(lambda x: x, output_dtype=types.FLOAT))
show_error(lambda: run(lambda x: x, unknown_argument=1))
