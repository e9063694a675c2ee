"""Decodes files and reads them in order under one library: `python decoding_side.py LIBRARY FOLDER OUTPUT`."""

import importlib
import sys
from itertools import product
from pathlib import Path

import numpy as np

library, folder, output = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
fn = importlib.import_module(f"{library}.fn")
types = importlib.import_module(f"{library}.types")
pipeline_def = importlib.import_module(library).pipeline_def
results = {}

MODES = {
    "rgb": {}, "bgr": {"output_type": types.BGR}, "gray": {"output_type": types.GRAY},
    "ycbcr": {"output_type": types.YCbCr}, "uint16": {"dtype": types.UINT16}, "int8": {"dtype": types.INT8},
    "float": {"dtype": types.FLOAT}, "unturned": {"adjust_orientation": False},
}  # fmt: skip


def decode(path, name, arguments):
    data = np.fromfile(path, np.uint8)

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def pipeline():
        encoded = fn.external_source(lambda: [data])
        image = fn.decoders.image(encoded, **arguments)
        shape = fn.peek_image_shape(encoded)
        part = fn.decoders.image_slice(encoded, rel_start=(0.1, 0.2), rel_end=(0.55, 0.9))
        return image, shape, part, fn.decoders.image_crop(encoded, crop=(21, 30), crop_pos_x=0.3, crop_pos_y=0.9)

    pipe = pipeline()
    pipe.build()
    image, shape, part, crop = (np.array(batch.at(0)) for batch in pipe.run())
    results[f"{path.name}: {name}"] = image
    if name == "rgb":
        results.update({f"{path.name}: shape": shape, f"{path.name}: slice": part, f"{path.name}: crop": crop})


for path in sorted((folder / "pictures").iterdir()):
    for name, arguments in MODES.items():
        decode(path, name, arguments)


def read_in_order(key, **arguments):
    @pipeline_def(batch_size=4, num_threads=1, device_id=None)
    def order():
        files, labels = fn.readers.file(file_root=str(folder / "files"), name="r", **arguments)
        return files, labels

    pipe = order()
    pipe.build()
    results[key] = np.array([[np.array(batch.at(i))[0] for i in range(4)] for _ in range(8) for batch in pipe.run()])
    results[key + " meta"] = np.array(sorted((name, int(value)) for name, value in pipe.reader_meta("r").items()))


for stick, pad, shards in product([False, True], [False, True], [1, 3]):
    for shard in range(shards):
        read_in_order(
            f"order {stick} {pad} {shards} {shard}",
            stick_to_shard=stick,
            pad_last_batch=pad,
            num_shards=shards,
            shard_id=shard,
        )

REGIONS = [
    {"roi_start": [1, 1], "roi_shape": [2, 3]}, {"roi_end": [2, 2]}, {"roi_start": [3], "roi_axes": [1]},
    {"rel_roi_start": [0.125, 0.3], "rel_roi_shape": [0.5, 0.5]}, {"rel_roi_shape": [0.4, 0.7]},
    {"rel_roi_start": [0.1, 0.1], "rel_roi_end": [0.5, 0.5]}, {"rel_roi_start": [0.05, 0.15], "rel_roi_shape": [0.9, 0.3]},
    {"roi_start": [-1, 3], "roi_shape": [2, 3], "out_of_bounds_policy": "pad", "fill_value": -1.5},
    {"roi_start": [-1, 3], "roi_shape": [2, 3], "out_of_bounds_policy": "trim_to_shape"},
]  # fmt: skip


def read_region(number, region):
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def regions():
        return fn.readers.numpy(files=[str(folder / "c.npy"), str(folder / "fortran.npy")], **region)

    pipe = regions()
    pipe.build()
    (batch,) = pipe.run()
    for index in range(2):
        results[f"region {number} {index}"] = np.array(batch.at(index))


for number, region in enumerate(REGIONS):
    read_region(number, region)

np.savez(output, **results)
