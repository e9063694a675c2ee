"""What does each image operator cost on one thread, compared with DALI?

Each operator has one pipeline with 16 images of 480 x 360 from memory. The figures are microseconds of CPU time per
sample, minus those of the same pipeline with only the shapes of the images as output (the row "source": in DALI a
pipeline that returned the images would copy them, which the pipeline of an operator does not do). The last column
compares the whole pipelines. The smallest figure of all repetitions counts, because other programs on the machine can
only make it larger. `python benchmarks/image_operators.py resize flip` measures only the cases whose names begin with
these words.
"""

from __future__ import annotations

import importlib
import sys
from time import process_time

import numpy as np
from _harness import Measures, Side, Target, header, measure, save, start, table, verdicts

# The parent reads the cases too; each side takes the constants of its own library.
TYPES = importlib.import_module("nvidia.dali.types" if sys.argv[-1] == "dali" else "pipeflow.types")
BATCH = 16
RNG = np.random.default_rng(0)
IMAGES = [RNG.integers(0, 256, (360, 480, 3), dtype=np.uint8) for _ in range(4)] * 4
LARGE = [RNG.integers(0, 256, (400, 500, 3), dtype=np.uint8) for _ in range(4)] * 4
GREY = [image[..., :1].copy() for image in IMAGES]
FLOATS = [image.astype(np.float32) for image in IMAGES]
PLANES = [image.transpose(2, 0, 1).copy() for image in IMAGES]
# Waves, because noise is very different from a photograph for a JPEG encoder.
SMOOTH = [
    np.rint(
        127.5
        + 60 * np.sin(np.arange(360)[:, None, None] / (9 + k)) * np.cos(np.arange(480)[:, None] / (7 + k))
        + 20 * np.sin(np.arange(480)[:, None] * np.arange(3) / 5)
        + RNG.normal(0, 3, (360, 480, 3))
    ).astype(np.uint8)
    for k in range(4)
] * 4
WINDOW = np.array([[-1, -1, -1], [-1, 9, -1], [-1, -1, -1]], np.float32)
BOXES = [np.sort(RNG.random((20, 2, 2), np.float32), axis=1).reshape(20, 4) for _ in range(BATCH)]
MASKS = [np.zeros((360, 480), np.int32) for _ in range(BATCH)]
for _number, _mask in enumerate(MASKS):
    _mask[40 : 90 + _number, 60:200] = 1
    _mask[150:300, 250:400] = 2
NUMBERS = [np.array([3], np.int32)] * BATCH
MATRIX = (0.9, 0.2, 10.0, -0.2, 0.9, 20.0)
UINT8, FLOAT16, FLOAT = (getattr(TYPES, name) for name in ("UINT8", "FLOAT16", "FLOAT"))
RGB, GRAY, YCBCR, NEAREST, CUBIC = (
    getattr(TYPES, name) for name in ("RGB", "GRAY", "YCbCr", "INTERP_NN", "INTERP_CUBIC")
)
NORM = {"mean": [120.0, 110.0, 100.0], "std": [60.0, 61.0, 62.0]}

# name: (samples, layout, call with (fn, data), the speed to reach as a multiple of DALI's)
CASES = {
    "source": (IMAGES, "HWC", lambda _, x: x.shape(), 0),
    "resize 500x400 to 224x224": (LARGE, "HWC", lambda fn, x: fn.resize(x, size=(224, 224)), 12),
    "resize without antialias": (IMAGES, "HWC", lambda fn, x: fn.resize(x, size=(224, 224), antialias=False), 1),
    "resize nearest": (IMAGES, "HWC", lambda fn, x: fn.resize(x, size=(224, 224), interp_type=NEAREST), 1),
    "resize cubic": (IMAGES, "HWC", lambda fn, x: fn.resize(x, size=(224, 224), interp_type=CUBIC), 1),
    "resize up to 800x600": (IMAGES, "HWC", lambda fn, x: fn.resize(x, size=(600, 800)), 1),
    "resize planes": (PLANES, "CHW", lambda fn, x: fn.resize(x, size=(224, 224)), 1),
    "random_resized_crop": (IMAGES, "HWC", lambda fn, x: fn.random_resized_crop(x, size=(224, 224)), 1),
    "resize_crop_mirror": (
        IMAGES, "HWC", lambda fn, x: fn.resize_crop_mirror(x, resize_shorter=256, crop=(224, 224), mirror=1), 1,
    ),
    "crop": (IMAGES, "HWC", lambda fn, x: fn.crop(x, crop=(224, 224)), 1),
    "slice": (IMAGES, "HWC", lambda fn, x: fn.slice(x, start=(20, 30), shape=(224, 224), axes=(0, 1)), 1),
    "crop_mirror_normalize CHW": (
        IMAGES, "HWC", lambda fn, x: fn.crop_mirror_normalize(x, crop=(224, 224), mirror=1, **NORM), 1.8,
    ),
    "crop_mirror_normalize HWC": (
        IMAGES, "HWC", lambda fn, x: fn.crop_mirror_normalize(x, crop=(224, 224), output_layout="HWC", **NORM), 1.8,
    ),
    "crop_mirror_normalize float16": (
        IMAGES, "HWC", lambda fn, x: fn.crop_mirror_normalize(x, crop=(224, 224), dtype=FLOAT16, **NORM), 1.8,
    ),
    "resize + crop_mirror_normalize": (
        IMAGES, "HWC", lambda fn, x: fn.crop_mirror_normalize(fn.resize(x, size=(224, 224)), mirror=1, **NORM), 1,
    ),
    "flip horizontal": (IMAGES, "HWC", lambda fn, x: fn.flip(x), 1),
    "flip vertical": (IMAGES, "HWC", lambda fn, x: fn.flip(x, horizontal=0, vertical=1), 1),
    "rotate": (IMAGES, "HWC", lambda fn, x: fn.rotate(x, angle=25.0, keep_size=True, fill_value=0), 1),
    "warp_affine": (IMAGES, "HWC", lambda fn, x: fn.warp_affine(x, matrix=MATRIX, fill_value=0), 3),
    "warp_affine nearest": (
        IMAGES, "HWC",
        lambda fn, x: fn.warp_affine(x, matrix=MATRIX, fill_value=0, interp_type=NEAREST), 1,
    ),
    "pad": (IMAGES, "HWC", lambda fn, x: fn.pad(x, axes=(0, 1), shape=(400, 512)), 1),
    "erase": (IMAGES, "HWC", lambda fn, x: fn.erase(x, anchor=(20.0, 30.0), shape=(100.0, 120.0), fill_value=7), 1),
    "transpose": (IMAGES, "HWC", lambda fn, x: fn.transpose(x, perm=(2, 0, 1)), 1),
    "color_twist": (IMAGES, "HWC", lambda fn, x: fn.color_twist(x, hue=30.0, saturation=1.2, contrast=0.9), 10),
    "hsv": (IMAGES, "HWC", lambda fn, x: fn.hsv(x, hue=30.0), 1),
    "hue": (IMAGES, "HWC", lambda fn, x: fn.hue(x, hue=30.0), 1),
    "saturation": (IMAGES, "HWC", lambda fn, x: fn.saturation(x, saturation=0.5), 1),
    "brightness": (IMAGES, "HWC", lambda fn, x: fn.brightness(x, brightness=0.9), 1),
    "contrast": (IMAGES, "HWC", lambda fn, x: fn.contrast(x, contrast=0.9), 1),
    "brightness_contrast": (IMAGES, "HWC", lambda fn, x: fn.brightness_contrast(x, brightness=0.9, contrast=1.1), 1),
    "color_space_conversion": (
        IMAGES, "HWC", lambda fn, x: fn.color_space_conversion(x, image_type=RGB, output_type=YCBCR), 1,
    ),
    "color_space_conversion to grey": (
        IMAGES, "HWC", lambda fn, x: fn.color_space_conversion(x, image_type=RGB, output_type=GRAY), 1,
    ),
    "gaussian_blur 5": (IMAGES, "HWC", lambda fn, x: fn.gaussian_blur(x, window_size=5), 3),
    "gaussian_blur 15": (IMAGES, "HWC", lambda fn, x: fn.gaussian_blur(x, window_size=15), 3),
    "normalize": (IMAGES, "HWC", lambda fn, x: fn.normalize(x), 1),
    "normalize by channel": (IMAGES, "HWC", lambda fn, x: fn.normalize(x, axes=(0, 1)), 1),
    "cast to float": (IMAGES, "HWC", lambda fn, x: fn.cast(x, dtype=FLOAT), 1),
    "cast to bytes": (FLOATS, "HWC", lambda fn, x: fn.cast(x, dtype=UINT8), 1),
    "one_hot": (NUMBERS, "", lambda fn, x: fn.one_hot(x, num_classes=1000), 1),
    "reshape": (IMAGES, "HWC", lambda fn, x: fn.reshape(x, shape=(-1,)), 1),
    "cat": (IMAGES, "HWC", lambda fn, x: fn.cat(x, x, axis=2), 1),
    "stack": (IMAGES, "HWC", lambda fn, x: fn.stack(x, x), 1),
    "lookup_table": (
        GREY, "HWC", lambda fn, x: fn.lookup_table(x, keys=list(range(256)), values=[0.5] * 256, dtype=FLOAT), 1,
    ),
    "reductions.sum": (IMAGES, "HWC", lambda fn, x: fn.reductions.sum(x), 1),
    "reductions.mean": (IMAGES, "HWC", lambda fn, x: fn.reductions.mean(x, axes=(0, 1)), 1),
    "reductions.max": (IMAGES, "HWC", lambda fn, x: fn.reductions.max(x, axes=(0, 1)), 1),
    "reductions.std_dev": (IMAGES, "HWC", lambda fn, x: fn.reductions.std_dev(x, fn.reductions.mean(x)), 1),
    "jpeg_compression_distortion": (SMOOTH, "HWC", lambda fn, x: fn.jpeg_compression_distortion(x, quality=60), 1),
    "noise.gaussian": (IMAGES, "HWC", lambda fn, x: fn.noise.gaussian(x, stddev=20.0), 1),
    "equalize": (SMOOTH, "HWC", lambda fn, x: fn.equalize(x), 1),
    "clahe": (SMOOTH, "HWC", lambda fn, x: fn.clahe(x, tiles_x=8, tiles_y=8, clip_limit=2.0), 1),
    "filter 3x3": (IMAGES, "HWC", lambda fn, x: fn.filter(x, TYPES.Constant(WINDOW)), 1),
    "laplacian": (IMAGES, "HWC", lambda fn, x: fn.laplacian(x, dtype=FLOAT), 1),
    "debayer": (
        GREY, "HWC", lambda fn, x: fn.debayer(x, blue_position=[0, 0], algorithm="bilinear_ocv"), 1,
    ),
    "water": (IMAGES, "HWC", lambda fn, x: fn.water(x, ampl_x=5.0, ampl_y=5.0), 1),
    "sphere": (IMAGES, "HWC", lambda fn, x: fn.sphere(x), 1),
    "grid_mask": (IMAGES, "HWC", lambda fn, x: fn.grid_mask(x, tile=40, angle=0.3), 1),
    "paste": (IMAGES, "HWC", lambda fn, x: fn.paste(x, ratio=1.5, fill_value=7), 1),
    "multi_paste": (
        IMAGES, "HWC",
        lambda fn, x: fn.multi_paste(
            x, in_ids=TYPES.Constant(np.array([0, 1], np.int32)), output_size=(360, 480),
            out_anchors=TYPES.Constant(np.array([[0, 0], [100, 120]], np.int32)),
            shapes=TYPES.Constant(np.array([[200, 200], [150, 150]], np.int32)),
        ), 1,
    ),
    "warp_perspective": (
        IMAGES, "HWC", lambda fn, x: fn.experimental.warp_perspective(x, matrix=[1, 0.1, 3, 0, 1, 5, 0, 0.0002, 1]), 1,
    ),
    "tensor_resize": (IMAGES, "HWC", lambda fn, x: fn.tensor_resize(x, sizes=[200, 300], axes=[0, 1]), 1),
    "noise.salt_and_pepper": (IMAGES, "HWC", lambda fn, x: fn.noise.salt_and_pepper(x, prob=0.05), 1),
    "noise.shot": (IMAGES, "HWC", lambda fn, x: fn.noise.shot(x, factor=20.0), 1),
    "bb_flip": (BOXES, "", lambda fn, x: fn.bb_flip(x, ltrb=True, horizontal=1), 1),
    "bbox_paste": (BOXES, "", lambda fn, x: fn.bbox_paste(x, ltrb=True, ratio=1.5), 1),
    "segmentation.random_object_bbox": (
        MASKS, "HW", lambda fn, x: fn.segmentation.random_object_bbox(x, format="box"), 1,
    ),
    "permute_batch": (
        IMAGES, "HWC", lambda fn, x: fn.permute_batch(x, indices=fn.batch_permutation()), 1,
    ),
}  # fmt: skip


def prepare_with(library: str):
    def prepare(name: str):
        fn = importlib.import_module(f"{library}.fn")
        samples, layout, call, _ = CASES[name]

        def build(work):
            @importlib.import_module(library).pipeline_def(
                batch_size=BATCH, num_threads=1, device_id=None, seed=1, prefetch_queue_depth=1
            )
            def pipeline():
                data = fn.external_source(lambda: samples, layout=layout or None, no_copy=True)
                return work(fn, data)

            pipe = pipeline()
            pipe.build()
            return pipe

        pipes = build(call), build(CASES["source"][2])

        def repetition() -> Measures:
            costs = []
            for pipe in pipes:
                begin = process_time()
                for _ in range(2):
                    pipe.run()
                costs.append((process_time() - begin) / (2 * BATCH))
            return {"operator": costs[0] * 1e6, "source": costs[1] * 1e6 if name != "source" else 0.0}

        return repetition

    return prepare


# The first batches, until the kernels are loaded, are another benchmark (first_batch.py).
SIDES = [
    Side("pipeflow", prepare_with("pipeflow"), variables={"PIPEFLOW_START": "wait"}),
    Side("dali", prepare_with("nvidia.dali"), "dali"),
]


def least(rows: list[Measures], name: str) -> float:
    """The smallest of all repetitions: a disturbance can only make a measurement larger."""
    return min(row[name] for row in rows)


def main() -> int:
    reading = header(__doc__.splitlines()[0])
    asked = [name for name in CASES if not sys.argv[1:] or name.startswith(tuple(sys.argv[1:]))]
    results = measure(__file__, SIDES, asked, {})
    rows, targets = [], []
    for case, by_side in results.items():
        costs = {side: least(values, "operator") - least(values, "source") for side, values in by_side.items()}
        ratio = costs["dali"] / max(costs["pipeflow"], 0.1) if "dali" in costs else float("nan")
        whole = {side: least(values, "operator") for side, values in by_side.items()}
        of_all = whole["dali"] / whole["pipeflow"] if "dali" in whole else float("nan")
        rows.append((case, *costs.values(), ratio, of_all))
        if CASES[case][3] and "dali" in costs:
            targets.append(Target(f"{case}: times DALI", ratio, CASES[case][3], at_most=False))
    names = [side.name for side in SIDES if side.installed]
    columns = ["operator", *names, "times DALI", "with its source"]
    table("Microseconds of one thread per sample, without the source", columns, rows)
    verdicts(targets)
    save("image_operators", reading, results, targets)
    return 0


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, {}) else 0)
