"""The CUDA kernels: where their sources are, and every instance of a template that the operators may launch.

A kernel is written once in CUDA C++ (``*.cu`` beside this file, shared pieces in ``*.cuh``) and named "file.cu:name<types>".
Only instances listed here can be launched: the checks without a device compile every one of them and run them on the host.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent

# The C++ name of every element type.
TYPES = {
    "bool": "bool",
    "uint8": "unsigned char",
    "int8": "signed char",
    "uint16": "unsigned short",
    "int16": "short",
    "uint32": "unsigned int",
    "int32": "int",
    "uint64": "unsigned long long",
    "int64": "long long",
    "float16": "__half",
    "float32": "float",
    "float64": "double",
}

# The number of an element type in rows of descriptors: enum Type of elements.cuh.
TYPE_CODES = {np.dtype(name): code for code, name in enumerate(TYPES)}

# An unsigned type for every element size, for kernels that move elements without looking at them.
WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}

# What elementwise kernels compute with.
COMPUTED = ("int", "long long", "unsigned long long", "float", "double")

# What reductions add up: floats, signed and unsigned integers.
ACCUMULATED = ("double", "long long", "unsigned long long")

# What crop_mirror_normalize has kernels of its own for: input, output, channels side by side.
NORMALIZED = [
    (source, target, channels)
    for source in ("uint8", "float32")
    for target in ("float32", "float16", "uint8", "int8")
    for channels in (1, 3)
]

# What images are resized, turned and warped between by kernels of their own.
RESIZED = [(source, target) for source in ("uint8", "float32") for target in ("uint8", "float32")]

INSTANCES: dict[str, list[str]] = {
    "boxes.cu": ["best_anchors", "encode_boxes"],
    "cast.cu": [*[f"cast<{kind}>" for kind in COMPUTED], "line<float>", "line<double>"],
    "color.cu": ["colors<3, 3>", "colors<3, 1>", "colors<1, 3>"],
    "audio.cu": ["preemphasis", "cut_frames", "power_of", "weigh", "decibels", "resample_sound", "nonsilent"],
    "correlation.cu": ["correlate<unsigned char, unsigned char>", "correlate<float, float>", "correlate_any<float>"],
    "displacement.cu": [
        "look_up<unsigned char>",
        "look_up<float>",
        "look_up_any<float>",
        "look_up_any<double>",
        *[f"look_up_nearest<{word}>" for word in WORDS.values()],
    ],
    "filter.cu": [
        *[
            f"blur<{source}, {target}>"
            for source in ("unsigned char", "float")
            for target in ("unsigned char", "float")
        ],
        "filter_axis<unsigned char, float>",
        "filter_axis<float, float>",
        "filter_axis<float, unsigned char>",
    ],
    "histograms.cu": ["count_values", "spread_values", "replace_values", "stretch_values"],
    "jpeg.cu": ["compress", "restore"],
    "masking.cu": [f"mask_squares<{word}>" for word in WORDS.values()],
    "random.cu": [
        "random_numbers",
        "gaussian_noise",
        *[f"salt_and_pepper<{word}>" for word in WORDS.values()],
        "shot_noise",
    ],
    "morphology.cu": ["find_extremes<float>", "find_extremes<double>", "find_medians"],
    "debayer.cu": ["debayer<unsigned char>", "debayer<unsigned short>"],
    "reduce.cu": [
        *[f"{name}<{kind}>" for name in ("reduce", "finish") for kind in ACCUMULATED],
        *[f"reduce_span<{kind}, {inner}>" for kind in ACCUMULATED for inner in (1, 3)],
        "normalize",
    ],
    "pointwise.cu": [f"{name}<{kind}>" for name in ("arithmetic", "functions") for kind in COMPUTED],
    "crop_mirror_normalize.cu": [
        *[f"normalize_pixels<{TYPES[source]}, {TYPES[target]}, {channels}>" for source, target, channels in NORMALIZED],
        "normalize_any<float>",
        "normalize_any<double>",
    ],
    "resize_tiles.cu": [f"resize_tiles<{TYPES[source]}, {TYPES[target]}>" for source, target in RESIZED],
    "resize.cu": ["resize_axis<float>", "resize_axis<double>", *[f"pick<{word}>" for word in WORDS.values()]],
    "values.cu": [
        *[f"{name}<{word}>" for name in ("one_hot", "look_up") for word in WORDS.values()],
        "transform_points<double>",
    ],
    "warp.cu": [
        *[f"warp<{TYPES[source]}, {TYPES[target]}>" for source, target in RESIZED],
        "warp_any<float>",
        "warp_any<double>",
        *[f"warp_nearest<{word}>" for word in WORDS.values()],
    ],
    "move.cu": [*[f"move<{word}>" for word in WORDS.values()], "move_runs<unsigned char>"],
}


def instances() -> list[str]:
    """All instances, as "file.cu:name<types>"."""
    return [f"{file}:{name}" for file, names in INSTANCES.items() for name in names]


def source(file: str) -> str:
    """The text of a kernel file."""
    return (FOLDER / file).read_text()


def __getattr__(name: str) -> Any:
    """The door to numba-cuda, which is imported by the first pipeline that needs it."""
    if name != "numba_cuda":
        raise AttributeError(f"pipeflow has no GPU kernel module {name!r}")
    return import_module(f"{__name__}.numba_cuda")
