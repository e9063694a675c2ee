"""One draw for several operators, probabilities of augmentations by arithmetic, and switches that change nothing."""

import numpy as np
from material import PICTURES, image
from nvidia.dali import fn, pipeline_def, types
from shown import show, show_form


def maybe(probability, changed, data):
    keep = fn.cast(fn.random.coin_flip(probability=probability), dtype=types.BOOL)
    return keep * changed + (keep ^ True) * data


@pipeline_def(batch_size=4, num_threads=2, device_id=None, seed=3)
def definite():
    data = fn.external_source(lambda: [image(6, 8, seed=number) for number in range(4)], layout="HWC")
    always, never = fn.random.coin_flip(probability=1.0), fn.random.coin_flip(probability=0.0)
    same = fn.random.uniform(values=[0.5])
    return (
        fn.flip(data, horizontal=always, vertical=never),
        maybe(1.0, fn.flip(data), data),
        maybe(0.0, fn.flip(data), data),
        fn.crop(data, crop=(4, 4), crop_pos_x=same, crop_pos_y=same),
        fn.crop_mirror_normalize(data, crop=(4, 4), mirror=always, crop_pos_x=same, mean=[1.0], std=[2.0]),
        fn.brightness_contrast(data, brightness=same, contrast=same),
        fn.random.uniform(values=[4.0]),
        fn.random.normal(mean=2.0, stddev=0.0, shape=[3]),
        fn.random.choice([7]),
    )


@pipeline_def(batch_size=3, num_threads=2, device_id=None, seed=3)
def training():
    jpegs, labels = fn.readers.file(file_root=PICTURES, random_shuffle=True, initial_fill=8, name="Reader")
    pictures = fn.decoders.image_random_crop(jpegs, random_area=[0.3, 1.0], random_aspect_ratio=[0.8, 1.25])
    pictures = fn.resize(pictures, size=(16, 16), interp_type=types.INTERP_LINEAR)
    pictures = fn.color_twist(
        pictures,
        brightness=fn.random.uniform(range=[0.6, 1.4]),
        contrast=fn.random.uniform(range=[0.6, 1.4]),
        saturation=fn.random.uniform(range=[0.6, 1.4]),
        hue=fn.random.uniform(range=[-10.0, 10.0]),
    )
    pictures = fn.rotate(pictures, angle=fn.random.uniform(range=[-10, 10]), keep_size=True, fill_value=0)
    return (
        fn.crop_mirror_normalize(pictures, mirror=fn.random.coin_flip(), dtype=types.FLOAT16, output_layout="CHW"),
        fn.one_hot(labels, num_classes=3),
        fn.random.uniform(range=[0.0, 1.0], shape=[2, 2]),
        fn.random.normal(dtype=types.FLOAT64, shape=4),
        fn.random.coin_flip(shape=[5], dtype=types.UINT8),
        fn.random.choice([1.5, 2.5], shape=[3]),
        fn.batch_permutation(),
    )


show(definite().run(), within=1)
show_form(training().run())
pipe = training()
show(pipe.epoch_size("Reader"), np.unique([np.array(x) for _ in range(8) for x in pipe.run()[6]]).tolist())
