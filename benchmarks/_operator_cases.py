"""The calls of image_operators.py, and the data for them: the same lines for both libraries."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import numpy as np
from _pictures import jpeg

# The parent reads the cases too; each side takes the constants of its own library.
TYPES = importlib.import_module("nvidia.dali.types" if sys.argv[-1] == "dali" else "pipeflow.types")
BATCH = int(os.environ.get("BATCH", "16"))  # a multiple of 4
RNG = np.random.default_rng(0)
IMAGES = [RNG.integers(0, 256, (360, 480, 3), dtype=np.uint8) for _ in range(4)] * (BATCH // 4)
LARGE = [RNG.integers(0, 256, (400, 500, 3), dtype=np.uint8) for _ in range(4)] * (BATCH // 4)
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
] * (BATCH // 4)
WINDOW = np.array([[-1, -1, -1], [-1, 9, -1], [-1, -1, -1]], np.float32)
BOXES = [np.sort(RNG.random((20, 2, 2), np.float32), axis=1).reshape(20, 4) for _ in range(BATCH)]
MASKS = [np.zeros((360, 480), np.int32) for _ in range(BATCH)]
for _number, _mask in enumerate(MASKS):
    _mask[40 : 90 + _number, 60:200] = 1
    _mask[150:300, 250:400] = 2
NUMBERS = [np.array([3], np.int32)] * BATCH
BATCH_OF_ONE = [np.array([k], np.int32) for k in range(BATCH)]
FRAMES = [np.stack([image[:90, :120]] * 8) for image in IMAGES]
POINTS = [RNG.random((500, 2), np.float32) for _ in range(BATCH)]
LABELS = [np.arange(20, dtype=np.int32) % 5 for _ in range(BATCH)]
ANCHORS = np.sort(RNG.random((2000, 2, 2), np.float32), axis=1).reshape(-1).tolist()
POLYGONS = (
    [np.array([1, 3], np.int32)] * BATCH,
    [np.array([[k % 5, 10 * k, 10 * k + 10] for k in range(30)], np.int32)] * BATCH,
    [RNG.random((300, 2), np.float32)] * BATCH,
)
SETTINGS: dict[str, str] = {}  # "folder": of the files that `write_files` has written


def write_files(folder: Path) -> None:
    """Writes the pictures and arrays for the operators that read files: DALI's environment has no encoder."""
    for number in range(4):
        folder.joinpath(f"{number}.jpg").write_bytes(jpeg(np.random.default_rng(number), 360, 480))
        np.save(folder / f"{number}.npy", IMAGES[number])


def names() -> list[np.ndarray]:
    return [np.frombuffer(f"{SETTINGS['folder']}/{number}.jpg".encode(), np.uint8) for number in range(4)] * (
        BATCH // 4
    )


def encoded(ending: str) -> list[np.ndarray]:
    return [np.fromfile(f"{SETTINGS['folder']}/{number}.{ending}", np.uint8) for number in range(4)] * (BATCH // 4)


def jpegs() -> list[np.ndarray]:
    return encoded("jpg")


def arrays() -> list[np.ndarray]:
    return encoded("npy")


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
    # what is computed of the sizes and places of images, of boxes, points and masks
    "bbox_rotate": (
        BOXES, "", lambda fn, x: fn.bbox_rotate(x, angle=30.0, input_shape=(360, 480), bbox_layout="xyXY"), 1,
    ),
    "box_encoder": ((BOXES, LABELS), "", lambda fn, x, y: fn.box_encoder(x, y, anchors=ANCHORS, offset=True), 1),
    "coord_flip": (POINTS, "", lambda fn, x: fn.coord_flip(x, layout="xy", flip_y=1), 1),
    "coord_transform": (POINTS, "", lambda fn, x: fn.coord_transform(x, MT=[1.0, 0.1, 3.0, -0.1, 1.0, 5.0]), 1),
    "random_bbox_crop": (
        (BOXES, LABELS), "",
        lambda fn, x, y: fn.random_bbox_crop(
            x, y, bbox_layout="xyXY", thresholds=[0.1, 0.3, 0.5], scaling=[0.3, 1.0], aspect_ratio=[0.5, 2.0],
            num_attempts=20, allow_no_crop=False, total_num_attempts=60,
        ), 1,
    ),
    "ssd_random_crop": ((IMAGES, BOXES, LABELS), "", lambda fn, x, y, z: fn.ssd_random_crop(x, y, z, num_attempts=5), 1),
    "random_crop_generator": (IMAGES, "HWC", lambda fn, x: fn.random_crop_generator(x.shape()), 1),
    "roi_random_crop": (
        None, "", lambda fn: fn.roi_random_crop(roi_start=[10, 20], roi_shape=[90, 80], crop_shape=[60, 50]), 1,
    ),
    "segmentation.random_mask_pixel": (
        MASKS, "HW", lambda fn, x: fn.segmentation.random_mask_pixel(x, foreground=1), 1,
    ),
    "segmentation.select_masks": (POLYGONS, "", lambda fn, *x: fn.segmentation.select_masks(*x), 1),
    # the structure of data
    "cast_like": ((IMAGES, FLOATS), "HWC", lambda fn, x, y: fn.cast_like(x, y), 1),
    "copy": (IMAGES, "HWC", lambda fn, x: fn.copy(x), 1),
    "element_extract": (FRAMES, "FHWC", lambda fn, x: fn.element_extract(x, element_map=[1, 5]), 1),
    "sequence_rearrange": (FRAMES, "FHWC", lambda fn, x: fn.sequence_rearrange(x, new_order=[7, 6, 5, 4, 3, 2]), 1),
    "per_frame": (FRAMES, "DHWC", lambda fn, x: fn.per_frame(x, replace=True), 1),
    "expand_dims": (IMAGES, "HWC", lambda fn, x: fn.expand_dims(x, axes=[0]), 1),
    "squeeze": (GREY, "HWC", lambda fn, x: fn.squeeze(x, axes=[2]), 1),
    "reinterpret": (IMAGES, "HWC", lambda fn, x: fn.reinterpret(x, dtype=TYPES.INT8), 1),
    "get_property": (IMAGES, "HWC", lambda fn, x: fn.get_property(x, key="layout"), 1),
    "shapes": (IMAGES, "HWC", lambda fn, x: fn.shapes(x), 0),
    "fast_resize_crop_mirror": (
        IMAGES, "HWC", lambda fn, x: fn.fast_resize_crop_mirror(x, resize_shorter=256, crop=(224, 224), mirror=1), 1,
    ),
    "reductions.min": (IMAGES, "HWC", lambda fn, x: fn.reductions.min(x, axes=(0, 1)), 1),
    "reductions.mean_square": (IMAGES, "HWC", lambda fn, x: fn.reductions.mean_square(x), 1),
    "reductions.rms": (IMAGES, "HWC", lambda fn, x: fn.reductions.rms(x, axes=(0, 1)), 1),
    "reductions.variance": (IMAGES, "HWC", lambda fn, x: fn.reductions.variance(x, fn.reductions.mean(x)), 1),
    # values that no input has
    "random.uniform": (None, "", lambda fn: fn.random.uniform(range=(0.0, 2.0)), 1),
    "random.uniform of 1000": (None, "", lambda fn: fn.random.uniform(range=(0.0, 2.0), shape=1000), 1),
    "random.normal": (None, "", lambda fn: fn.random.normal(stddev=2.0), 1),
    "random.normal of 1000": (None, "", lambda fn: fn.random.normal(stddev=2.0, shape=1000), 1),
    "random.coin_flip": (None, "", lambda fn: fn.random.coin_flip(), 1),
    "random.beta": (None, "", lambda fn: fn.random.beta(alpha=0.4, beta=0.4), 1),
    "random.choice": (None, "", lambda fn: fn.random.choice(10), 1),
    "batch_permutation": (None, "", lambda fn: fn.batch_permutation(), 1),
    "constant": (None, "", lambda fn: fn.constant(fdata=[1.0, 2.0, 3.0]), 1),
    "full": (None, "", lambda fn: fn.full(3.0, shape=[100, 200]), 1),
    "zeros": (None, "", lambda fn: fn.zeros(shape=[100, 200]), 1),
    "ones": (None, "", lambda fn: fn.ones(shape=[100, 200]), 1),
    "full_like": (IMAGES, "HWC", lambda fn, x: fn.full_like(x, 7), 1),
    "zeros_like": (IMAGES, "HWC", lambda fn, x: fn.zeros_like(x), 1),
    "ones_like": (IMAGES, "HWC", lambda fn, x: fn.ones_like(x), 1),
    **{
        f"transforms.{name}": (None, "", call, 1) for name, call in {
            "rotation": lambda fn: fn.transforms.rotation(angle=fn.random.uniform(range=(0.0, 90.0)), center=[50.0, 60.0]),
            "scale": lambda fn: fn.transforms.scale(scale=fn.random.uniform(range=(0.5, 2.0), shape=2)),
            "shear": lambda fn: fn.transforms.shear(angles=fn.random.uniform(range=(-20.0, 20.0), shape=2)),
            "translation": lambda fn: fn.transforms.translation(offset=fn.random.uniform(range=(-9.0, 9.0), shape=2)),
            "crop": lambda fn: fn.transforms.crop(from_end=fn.random.uniform(range=(0.5, 2.0), shape=2)),
            "combine": lambda fn: fn.transforms.combine(
                fn.transforms.rotation(angle=fn.random.uniform(range=(0.0, 90.0))),
                fn.transforms.scale(scale=fn.random.uniform(range=(0.5, 2.0), shape=2)),
            ),
        }.items()
    },
    # files and encoded data; jpeg.py has more of decoding
    "io.file.read": (names, "", lambda fn, x: fn.io.file.read(x), 1),
    "peek_image_shape": (jpegs, "", lambda fn, x: fn.peek_image_shape(x), 1),
    "decoders.image": (jpegs, "", lambda fn, x: fn.decoders.image(x), 1),
    "decoders.image_crop": (jpegs, "", lambda fn, x: fn.decoders.image_crop(x, crop=(224, 224)), 1),
    "decoders.image_random_crop": (jpegs, "", lambda fn, x: fn.decoders.image_random_crop(x), 1),
    "decoders.image_slice": (
        jpegs, "", lambda fn, x: fn.decoders.image_slice(x, start=(20, 30), shape=(224, 224), axes=(0, 1)), 1,
    ),
    "decoders.numpy": (arrays, "", lambda fn, x: fn.decoders.numpy(x, dtype=UINT8), 1),
    "dump_image": (GREY[:1] * BATCH, "HWC", lambda fn, x: fn.dump_image(x, suffix="dumped"), 1),
}  # fmt: skip

# Operators of DALI's processor that other benchmarks measure.
ELSEWHERE = {
    "audio_operators.py": "audio_resample mel_filter_bank mfcc nonsilent_region power_spectrum preemphasis_filter spectrogram "
    "to_decibels",
    "audio_pipeline.py": "decoders.audio",
    "python_function_cost.py": "python_function dl_tensor_python_function",
    "empty_pipeline.py": "external_source",
}
