# ruff: noqa: E501 (the table has one row a line)
"""Every image operator against the real DALI: the same arrays, the same arguments, one table.

A row is (operator, inputs, layouts, arguments, tolerance). Tolerances are absolute; 1.0 on bytes is one step where the
exact result lies between two. Different by intent, and so not here: a float between -0.5 and 0.5 casts to BOOL as true,
where DALI rounds it to 0 first; cubic and Lanczos weights are exact, where DALI interpolates a coarse table.
"""

import numpy as np
import oracle
import pytest

from pipeflow import types
from pipeflow.declare import find
from pipeflow.tensors import TensorListCPU

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300)]

RNG = oracle.random(3)
F = np.float32
IMAGE = RNG.integers(0, 256, (37, 53, 3)).astype(np.uint8)
SMALL = RNG.integers(0, 256, (2, 4, 3)).astype(np.uint8)
GREY = IMAGE[..., :1].copy()
PLANES = IMAGE.transpose(2, 0, 1).copy()
FLOATS = (IMAGE / 255).astype(F)
SHORTS = RNG.integers(-900, 900, (11, 12, 3)).astype(np.int16)
VOLUME = RNG.integers(0, 256, (9, 17, 13, 2)).astype(np.uint8)
VOLUME_PLANES = VOLUME.transpose(3, 0, 1, 2).copy()
CLIP = np.stack([IMAGE, IMAGE[::-1], 255 - IMAGE])
MATRIX = np.array([[2, 0, 1], [0, 3, 4]], F)
TURN = [0.8, 0.3, -2.2, -0.25, 0.9, 1.7]

LINEAR_RESIZES = [
    {"size": [20.0, 30.0]}, {"size": [20.0, 0.0]}, {"size": [-20.0, 30.0]}, {"resize_shorter": 20.5},
    {"resize_longer": 20.5}, {"resize_x": 33.3}, {"resize_y": 17.0, "resize_x": 80.0}, {"size": [15.0]},
    {"size": [20.0, 30.0], "mode": "not_larger"}, {"size": [20.0, 30.0], "mode": "not_smaller"},
    {"size": [20.0, 0.0], "mode": "stretch"}, {"resize_shorter": 30.0, "max_size": 35.0},
    {"size": [20.0], "mode": "not_smaller", "max_size": [100.0, 25.0]}, {"size": [40.4, 20.7]},
    {"size": [20.0, 30.0], "roi_start": [3.3, 10.0], "roi_end": [30.0, 40.5]},
    {"size": [20.0, 30.0], "roi_start": [0.9, 0.1], "roi_end": [0.1, 0.8], "roi_relative": True},
    {"resize_shorter": 15.2, "subpixel_scale": False}, {"size": [20.0, 30.0], "max_size": [15.0, 100.0]},
    {"resize_shorter": 15.2, "roi_start": [3.3, 10.0], "roi_end": [30.0, 40.5]},
    {"size": [20.0, 0.0], "max_size": [15.0, 100.0]}, {"size": [20.0, 70.0], "antialias": False},
]  # fmt: skip
CROPS = [
    {"crop": [20.0, 30.0]},
    {"crop": [21.0, 31.0], "crop_pos_x": 0.31, "crop_pos_y": 0.8},
    {"crop_h": 11.0, "crop_w": 9.0},
    {"crop": [21.0, 31.0], "crop_pos_x": 0.31, "rounding": "truncate"},
    {"crop": [50.0, 60.0], "out_of_bounds_policy": "pad", "fill_values": [7.0, 8.0, 9.0]},
    {"crop": [50.0, 30.0], "out_of_bounds_policy": "trim_to_shape"},
]

CASES = [
    *(("resize", [x], [layout], options, 1) for options in LINEAR_RESIZES for x, layout in ((IMAGE, "HWC"), (PLANES, "CHW"))),
    *(("resize", [IMAGE], ["HWC"], {**options, "dtype": "types.FLOAT"}, 0.02) for options in LINEAR_RESIZES),
    *(
        ("resize", [IMAGE], ["HWC"], {"size": [20.0, 90.0], "interp_type": f"types.INTERP_{name}", "antialias": smooth}, 2 if name == "GAUSSIAN" else 1)
        for name in ("NN", "CUBIC", "LANCZOS3", "TRIANGULAR", "GAUSSIAN")
        for smooth in (True, False)
    ),
    ("resize", [IMAGE], ["HWC"], {"size": [20.0, 90.0], "min_filter": "types.INTERP_CUBIC", "mag_filter": "types.INTERP_NN"}, 1),
    ("resize", [SHORTS], ["HWC"], {"size": [5.0, 30.0]}, 1),
    ("resize", [FLOATS], ["HWC"], {"size": [20.0, 30.0]}, 1e-5),
    ("resize", [IMAGE], [""], {"size": [20.0, 30.0]}, 1),
    ("resize", [CLIP], ["FHWC"], {"size": [20.0, 30.0]}, 1),
    ("resize", [CLIP.transpose(3, 0, 1, 2).copy()], ["CFHW"], {"size": [20.0, 30.0]}, 1),
    *(
        ("resize", [x], [layout], options, 1)
        for options in ({"size": [5.0, 20.0, 10.0]}, {"resize_x": 20.0}, {"resize_shorter": 5.0}, {"resize_z": 4.0, "resize_y": 9.0})
        for x, layout in ((VOLUME, "DHWC"), (VOLUME_PLANES, "CDHW"))
    ),
    *(
        ("resize_crop_mirror", [IMAGE], ["HWC"], options, 1)
        for options in (
            {"size": [20.0, 30.0], "crop": [10.0, 12.0], "mirror": 1},
            {"size": [20.0, 30.0], "crop": [11.0, 13.0], "mirror": 3, "crop_pos_x": 0.3, "crop_pos_y": 0.9},
            {"resize_shorter": 25.0, "crop": [20.0, 20.0]},
            {"resize_shorter": 25.0, "crop": [20.0, 20.0], "crop_pos_x": 0.31, "rounding": "truncate"},
            {"size": [20.0, 30.0], "crop": [10.0, 12.0], "roi_start": [3.3, 10.0], "roi_end": [30.0, 40.5], "mirror": 1},
        )
    ),
    *(("crop", [x], [layout], options, 0) for options in CROPS for x, layout in ((IMAGE, "HWC"), (PLANES, "CHW"))),
    ("crop", [VOLUME], ["DHWC"], {"crop": [3.0, 4.0, 5.0], "crop_pos_z": 0.9}, 0),
    ("crop", [CLIP], ["FHWC"], {"crop": [20.0, 30.0], "dtype": "types.FLOAT"}, 0),
    *(
        ("crop_mirror_normalize", [x], [layout], {**options, "mean": [100.0, 110.0, 120.0], "std": [50.0, 60.0, 70.0], **more}, 1e-5)
        for options in CROPS[:5]
        for more in ({}, {"mirror": 1, "output_layout": "HWC"}, {"mirror": 1})
        for x, layout in ((IMAGE, "HWC"), (PLANES, "CHW"))
    ),
    *(
        ("crop_mirror_normalize", [IMAGE], ["HWC"], {"mean": [99.0], "std": [3.7], "scale": 2.0, "shift": 0.5, "dtype": f"types.{t}"}, 2e-3 if t == "FLOAT16" else 2e-5 if t == "FLOAT" else 1)
        for t in ("FLOAT", "FLOAT16", "UINT8", "INT8")
    ),
    ("crop_mirror_normalize", [IMAGE], ["HWC"], {"pad_output": True, "fill_values": [4.0]}, 0),
    ("crop_mirror_normalize", [IMAGE], ["HWC"], {"pad_output": True, "fill_values": [1.0, 2.0, 3.0, 7.0]}, 0),
    ("crop_mirror_normalize", [IMAGE], ["HWC"], {"pad_output": True, "fill_values": [4.0], "out_of_bounds_policy": "pad"}, 0),
    ("crop_mirror_normalize", [IMAGE], ["HWC"], {"pad_output": True, "output_layout": "HWC", "dtype": "types.FLOAT16"}, 0),
    ("crop_mirror_normalize", [CLIP], ["FHWC"], {"crop": [20.0, 30.0], "mirror": 1, "output_layout": "FCHW"}, 0),
    ("crop_mirror_normalize", [VOLUME], ["DHWC"], {"crop": [3.0, 4.0, 5.0], "mirror": 1, "mean": [4.0], "output_layout": "CDHW"}, 0),
    ("crop_mirror_normalize", [SHORTS], ["HWC"], {"mean": [4.0], "std": [2.0]}, 0),
    ("crop_mirror_normalize", [FLOATS], ["HWC"], {"mean": [0.4], "std": [2.0]}, 1e-6),
    *(("flip", [x], [layout], {"horizontal": h, "vertical": v}, 0) for x, layout in ((IMAGE, "HWC"), (PLANES, "CHW"), (CLIP, "FHWC"), (GREY, "HWC")) for h in (0, 1) for v in (0, 1)),
    ("flip", [VOLUME], ["DHWC"], {"depthwise": 1}, 0),
    ("flip", [VOLUME_PLANES], ["CDHW"], {"depthwise": 1, "vertical": 1, "horizontal": 0}, 0),
    *(
        ("rotate", [x], [layout], {"angle": angle, **options}, 1)
        for angle in (30.0, -77.0, 90.0, 180.0, 45.0, 135.0)
        for x, layout in ((IMAGE, "HWC"), (GREY, "HWC"))
        for options in ({"fill_value": 9.0}, {"keep_size": True}, {"fill_value": 0.0, "size": [30.0, 41.0], "interp_type": "types.INTERP_NN"})
    ),
    *(("rotate", [VOLUME], ["DHWC"], {"angle": angle, "axis": [0.0, 0.0, 1.0], "fill_value": 0.0}, 1) for angle in (30.0, 90.0)),
    ("rotate", [VOLUME], ["DHWC"], {"angle": 25.0, "axis": [1.0, 2.0, 3.0], "fill_value": 0.0}, 1),
    *(
        ("warp_affine", [IMAGE], ["HWC"], {"matrix": TURN, **options}, 1)
        for options in (
            {}, {"fill_value": 5.0}, {"size": [30.0, 40.0], "fill_value": 5.0}, {"inverse_map": False, "fill_value": 5.0},
            {"interp_type": "types.INTERP_NN", "fill_value": 5.0}, {"dtype": "types.FLOAT", "fill_value": 5.0},
        )
    ),
    ("warp_affine", [IMAGE, MATRIX], ["HWC", ""], {"fill_value": 1.0}, 1),
    ("warp_affine", [VOLUME], ["DHWC"], {"matrix": [1, 0.1, 0, 1, 0, 0.9, 0.1, 0, 0.05, 0, 1.0, 0.5], "fill_value": 1.0}, 1),
    ("pad", [IMAGE], ["HWC"], {"axes": [0, 1], "shape": [60, 60], "fill_value": 9.0}, 0),
    ("pad", [IMAGE], ["HWC"], {"axis_names": "WH", "align": [16, 8]}, 0),
    ("pad", [IMAGE], ["HWC"], {"axes": [0, 1], "shape": [10, 60], "align": [5, 7]}, 0),
    ("erase", [IMAGE], ["HWC"], {"anchor": [5.0, 8.0], "shape": [10.0, 12.0], "fill_value": [7.0]}, 0),
    ("erase", [IMAGE], ["HWC"], {"anchor": [5.0, 8.0, 20.0, 1.0], "shape": [10.0, 12.0, 30.0, 5.0], "fill_value": [7.0, 8.0, 9.0]}, 0),
    ("erase", [IMAGE], ["HWC"], {"anchor": [0.2, 0.3], "shape": [0.5, 0.25], "normalized": True, "axis_names": "WH"}, 0),
    ("erase", [IMAGE], ["HWC"], {"anchor": [10.0, 20.0], "shape": [7.0, 9.0], "centered_anchor": True}, 0),
    ("slice", [IMAGE], ["HWC"], {"start": [5, 8], "shape": [10, 12], "axes": [0, 1]}, 0),
    ("slice", [IMAGE], ["HWC"], {"start": [5, 8], "shape": [10, 12]}, 0),
    ("slice", [IMAGE], ["HWC"], {"rel_start": [0.15, 0.2], "rel_end": [0.85, 0.7], "axis_names": "HW"}, 0),
    ("slice", [IMAGE], ["HWC"], {"start": [5, 8], "rel_shape": [0.5, 0.5]}, 0),
    ("slice", [IMAGE], ["HWC"], {"end": [5, 8]}, 0),
    ("slice", [IMAGE], ["HWC"], {"start": [-5, 8], "end": [20, 90], "out_of_bounds_policy": "pad", "fill_values": [1.0, 2.0, 3.0]}, 0),
    ("slice", [IMAGE], ["HWC"], {"start": [-5, 8], "end": [20, 90], "out_of_bounds_policy": "trim_to_shape"}, 0),
    ("slice", [IMAGE, np.array([0.2, 0.25], F), np.array([0.4, 0.5], F)], ["HWC", "", ""], {}, 0),
    ("slice", [IMAGE, np.array([2, 1], np.int32), np.array([2, 5], np.int32)], ["HWC", "", ""], {"dtype": "types.FLOAT"}, 0),
    ("slice", [IMAGE, np.array([2, 1], F), np.array([2, 5], F)], ["HWC", "", ""], {"normalized_anchor": False, "normalized_shape": False, "axes": [0, 1]}, 0),
    ("slice", [np.arange(10, dtype=F)], [""], {"start": [2], "shape": [5], "axes": [0]}, 0),
    *(("transpose", [IMAGE], ["HWC"], options, 0) for options in ({}, {"perm": [2, 0, 1]}, {"output_layout": "CHW"}, {"perm": [1, 0, 2], "transpose_layout": False}, {"perm": [1, 0, 2]})),
    ("transpose", [PLANES], ["CHW"], {"perm": [1, 2, 0]}, 0),
    *(
        (name, [x], ["HWC"], {**options, **more}, 1 if x.dtype == np.uint8 and not more else 2e-3)
        for name, options in (
            ("brightness_contrast", {"brightness": 1.2, "contrast": 0.7, "brightness_shift": 0.1}),
            ("brightness_contrast", {"contrast": 0.5, "contrast_center": 0.3}), ("brightness", {"brightness": 0.8}),
            ("brightness", {"brightness_shift": 0.2}), ("contrast", {"contrast": 1.3}), ("hue", {"hue": 77.0}),
            ("saturation", {"saturation": 0.4}), ("hsv", {"hue": -30.0, "saturation": 1.5, "value": 0.9}),
            ("color_twist", {"hue": 30.0, "saturation": 1.5, "brightness": 1.2, "contrast": 0.7}),
        )
        for x in (IMAGE, FLOATS, SHORTS)
        for more in ({}, {"dtype": "types.FLOAT"})
        if not (x is FLOATS and name == "hsv" and not more)
    ),
    ("color_twist", [CLIP], ["FHWC"], {"hue": 30.0}, 1),
    *(
        ("color_space_conversion", [IMAGE if a != "GRAY" else GREY], ["HWC"], {"image_type": f"types.{a}", "output_type": f"types.{b}"}, 1)
        for a in ("RGB", "BGR", "YCbCr", "GRAY")
        for b in ("RGB", "BGR", "YCbCr", "GRAY")
        if a != b
    ),
    *(
        ("gaussian_blur", [x], [layout], options, 1 if "dtype" not in options else 1e-3)
        for x, layout in ((IMAGE, "HWC"), (PLANES, "CHW"), (VOLUME, "DHWC"))
        for options in ({"sigma": [1.5]}, {"window_size": [5]}, {"sigma": [0.8], "window_size": [9]}, {"sigma": [1.1], "dtype": "types.FLOAT"})
    ),
    ("gaussian_blur", [IMAGE], ["HWC"], {"sigma": [1.5, 0.4], "window_size": [5, 3]}, 1),
    *(
        ("normalize", [SMALL], ["HWC"], options, 1e-5)
        for options in (
            {}, {"axes": [0, 1]}, {"axes": [0, 1], "ddof": 1, "epsilon": 2.0, "scale": 3.0, "shift": 4.0},
            {"mean": 4.0, "stddev": 2.0, "dtype": "types.UINT8"}, {"mean": 4.0, "axis_names": "HW"},
            {"mean": np.array([[[1, 2, 3]]], F), "axis_names": "HW"}, {"stddev": 2.0, "epsilon": 4.0},
        )
    ),
    ("normalize", [np.full((2, 2), 5, np.uint8)], [""], {"shift": 3.0}, 0),
    *(
        ("cast", [np.array([-3.5, -2.5, -0.5, 0.5, 1.5, 2.5, 254.5, 300, -300, 0], F)], [""], {"dtype": f"types.{t}"}, 0)
        for t in ("UINT8", "INT8", "INT16", "INT32", "INT64", "FLOAT16", "BOOL")
    ),
    ("cast_like", [np.array([1.6], F), SMALL], ["", ""], {}, 0),
    *(
        ("one_hot", [np.array(x, np.int32)], [""], options, 0)
        for x, options in (
            ([1, 2], {"num_classes": 4}), ([[1], [2]], {"num_classes": 4, "axis": 0}), (2, {"num_classes": 4, "axis_name": "x"}),
            ([1, 9, -1], {"num_classes": 4, "on_value": 5.0, "off_value": 2.0, "dtype": "types.INT32"}), ([2], {"num_classes": 4}),
        )
    ),
    ("lookup_table", [SMALL], ["HWC"], {"keys": [0, 17, 200], "values": [3.0, 4.5, 6.0], "default_value": -1.0}, 0),
    ("lookup_table", [SMALL % 6], ["HWC"], {"keys": [0, 1, 5], "values": [3.0, 4.5, 6.0], "dtype": "types.UINT8"}, 0),
    *(
        (f"reductions.{name}", [x], ["HWC"], options, 1e-2 if name == "mean_square" else 1e-3)
        for name in ("sum", "mean", "mean_square", "rms", "max", "min")
        for x in (IMAGE, SHORTS, FLOATS)
        for options in ({}, {"axes": [0, 1], "keep_dims": True}, {"axis_names": "HW"}, {"axes": [1]}, {"axes": [0, 2]})
    ),
    ("reductions.std_dev", [SMALL, np.array(3.0, F)], ["HWC", ""], {}, 1e-4),
    ("reductions.std_dev", [SMALL, SMALL.astype(F).mean((0, 1))], ["HWC", ""], {"axes": [0, 1], "ddof": 1}, 1e-4),
    ("reductions.variance", [SMALL, SMALL.astype(F).mean((0, 1), keepdims=True)], ["HWC", ""], {"axes": [0, 1]}, 1e-2),
    *(
        (f"transforms.{name}", given, [""] * len(given), options, 1e-5)
        for name, given, options in (
            ("scale", [], {"scale": [2.0, 3.0], "center": [5.0, 7.0]}), ("scale", [MATRIX], {"scale": [5.0, 7.0]}),
            ("scale", [MATRIX], {"scale": [5.0, 7.0], "reverse_order": True}), ("scale", [], {"scale": [2.0], "ndim": 3}),
            ("translation", [MATRIX], {"offset": [2.0, 3.0]}), ("rotation", [], {"angle": 30.0, "center": [1.0, 2.0]}),
            ("rotation", [], {"angle": 30.0, "axis": [1.0, 2.0, 3.0]}), ("shear", [], {"angles": [30.0, 10.0], "center": [1.0, 1.0]}),
            ("shear", [], {"shear": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}), ("combine", [MATRIX, MATRIX[:, ::-1].copy()], {}),
            ("crop", [], {"from_start": [0.0, 1.0], "from_end": [1.0, 3.0], "to_start": [0.2, 0.3], "to_end": [0.8, 0.5]}),
            ("crop", [], {"to_start": [0.8, 0.3], "to_end": [0.2, 0.5], "absolute": True}),
        )
    ),
    *(
        ("coord_transform", [np.array([[1, 2], [3, 4]], F)], [""], options, 1e-5)
        for options in ({"MT": [2.0, 0.0, 1.0, 0.0, 3.0, 4.0]}, {"M": [2.0, 0.0, 0.0, 3.0, 1.0, 1.0], "T": [1.0, 2.0, 3.0]}, {"M": 2.0}, {"T": 2.0})
    ),
    ("coord_transform", [np.array([[1, 2], [3, 4]], np.uint8)], [""], {"M": 1.5, "dtype": "types.UINT8"}, 0),
    ("reshape", [IMAGE], ["HWC"], {"shape": [53, 37, 3]}, 0), ("reshape", [IMAGE], ["HWC"], {"rel_shape": [1.0, -1.0]}, 0),
    ("reshape", [IMAGE], ["HWC"], {"src_dims": [1, 0, 2]}, 0), ("reshape", [IMAGE], ["HWC"], {"layout": "XYZ"}, 0),
    ("reinterpret", [np.arange(24, dtype=np.uint8).reshape(3, 8)], [""], {"dtype": "types.INT32"}, 0),
    ("reinterpret", [np.arange(24, dtype=np.uint8).reshape(3, 8)], [""], {"dtype": "types.INT16", "shape": [2, -1]}, 0),
    ("expand_dims", [IMAGE], ["HWC"], {"axes": [0, 3], "new_axis_names": "FX"}, 0),
    ("squeeze", [GREY], ["HWC"], {"axes": [2]}, 0), ("squeeze", [GREY], ["HWC"], {"axis_names": "C"}, 0),
    ("cat", [IMAGE, IMAGE], ["HWC", "HWC"], {"axis": 1}, 0), ("cat", [IMAGE, GREY], ["HWC", "HWC"], {"axis_name": "C"}, 0),
    ("stack", [IMAGE, IMAGE], ["HWC", "HWC"], {"axis": 1, "axis_name": "F"}, 0), ("stack", [GREY, GREY], ["HWC", ""], {}, 0),
    ("sequence_rearrange", [CLIP], ["FHWC"], {"new_order": [2, 0, 0]}, 0),
    ("full", [np.array([1, 2], np.uint8)], [""], {"shape": [3, 2]}, 0), ("full_like", [SMALL, np.array(3, np.int32)], ["HWC", ""], {}, 0),
    ("zeros", [], [], {"shape": [2, 2], "layout": "HW"}, 0), ("ones", [], [], {"shape": [2], "dtype": "types.FLOAT"}, 0),
    ("ones_like", [SMALL], ["HWC"], {}, 0), ("jpeg_compression_distortion", [CLIP[0]], ["HWC"], {"quality": 70}, 12),
]  # fmt: skip


def name_of(row):
    """The row in words."""
    return f"{row[0]}({', '.join(f'{x.dtype}{list(x.shape)}{layout}' for x, layout in zip(row[1], row[2]))}, {row[3]})"


@pytest.fixture(scope="module")
def answers():
    """What DALI says to all rows, asked at once."""
    return oracle.ask(
        [oracle.case(name, *inputs, layouts=tuple(layouts), **options) for name, inputs, layouts, options, _ in CASES]
    )


def constant(value):
    """An argument as ours: DALI's constants by name, arrays as one value a sample."""
    if isinstance(value, np.ndarray):
        return TensorListCPU([value])
    return getattr(types, value[6:]) if isinstance(value, str) and value.startswith("types.") else value


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{i}-{name_of(row)[:90]}" for i, row in enumerate(CASES)])
def test_dali_gives_the_same(answers, number):
    """Shape, type, layout and values of the output are DALI's."""
    name, inputs, layouts, options, tolerance = CASES[number]
    values, names = answers[number]
    assert isinstance(values, list), f"DALI refuses {name_of(CASES[number])}: {names[-400:]}"
    batches = [TensorListCPU([x], layout) for x, layout in zip(inputs, layouts)]
    result = find(name)(*batches, **{key: constant(value) for key, value in options.items()})
    outputs = result if isinstance(result, list) else [result]
    for output, value, layout in zip(outputs, values, names, strict=True):
        array = np.asarray(output.at(0) if isinstance(output, TensorListCPU) else output)
        assert (array.shape, array.dtype) == (value.shape, value.dtype)
        if isinstance(output, TensorListCPU):
            assert output.layout() == layout
        difference = np.abs(array.astype(np.float64) - value.astype(np.float64))
        limit = (
            tolerance * max(1.0, np.abs(value.astype(np.float64)).max(initial=0) / 1000)
            if value.dtype.kind == "f"
            else tolerance
        )
        assert difference.max(initial=0) <= limit
        if tolerance == 1 and value.dtype == np.uint8:
            assert (difference > 0).mean() < 0.06
