"""Draws calls of operators: from the examples of their declarations, with other arguments, inputs, types and layouts.

Call number k of an operator is a function of the operator's name, k and the seed, so that one that differs can be made again:
`PIPEFLOW_CALLS_SEED=0 python tests/oracle/comparing_calls.py crop 17`. The first calls change one argument of an example each;
the others draw one to three arguments, each constant or per sample, and the inputs. A seed other than 0 also draws extents of
one, and boxes, labels, points, masks and windows in place of the example's, among them none at all.
"""

import os
import typing
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter
from typing import Any, Literal

import example_data
import numpy as np
from generate_docs import examples, public

from pipeflow import fn, types
from pipeflow.declare import OpDef, Param
from pipeflow.declare.parameters import Role

SEED = int(os.environ.get("PIPEFLOW_CALLS_SEED", "0"))
TYPES = [kind.name for kind in types.DALIDataType if 0 <= kind <= types.BOOL]
NUMBERS = [types.to_numpy_type(types.DALIDataType[name]) for name in TYPES]
LETTERS = {"D": (2, 4), "F": (2, 3), "H": (3, 8), "W": (3, 9), "C": (1, 4)}
# Arrays of tools/example_data.py that may be replaced by others of the same rank.
FREE = ("image", "gray", "plane", "planes", "frames", "frame_planes", "volume", "volume_planes", "array", "vector")
SOUND = ("signal", "stereo", "spectrogram")

OWN = """
    autocontrast bbox_crop bbox_remap bbox_warp channel_dropout channel_shift channel_shuffle color_jitter contrast_about_mean
    coord_crop coord_remap coord_warp cutmix dilate distortions.elastic distortions.grid distortions.optical
    distortions.jigsaw distortions.thin_plate enhance erode illumination.corner illumination.gaussian illumination.linear invert
    jigsaw median_blur mixup motion_blur photometric_distort planckian_jitter plasma.brightness plasma.contrast plasma.shadow
    posterize remap rotate90 sharpen solarize solarize_add transforms.perspective unsharp_mask warp_perspective weather.fog
    weather.rain weather.snow
"""
# Operators that are not drawn, and why.
LEFT_OUT = {
    "dl_tensor_python_function": "takes a function",
    "experimental.numba_function": "takes a function",
    "numba_function": "takes a function",
    "python_function": "takes a function",
    "external_source": "takes a function or data",
    "io.file.read": "takes a path",
    "permute_batch": "works on the batch; in programs.py",
    **dict.fromkeys(OWN.split(), "not in DALI by this name"),
    **dict.fromkeys(
        [
            "experimental.dilate",
            "experimental.erode",
            "experimental.median_blur",
            "experimental.remap",
            "jitter",
            "experimental.resize",
            "optical_flow",
            "decoders.inflate",
        ],
        "DALI has it for the GPU alone",
    ),
    "element_extract": "its number of outputs is an argument; in programs.py",
}

# Values of arguments by name, where those of their kind say little.
VALUES: dict[str, list[Any]] = {
    "alignment": [0.0, 0.5, [0.0, 1.0]],
    "anchor": [[1.0], [1.0, 2.0], [0.4, 0.3], [-1.0, 1.0], [1.0, 2.0, 0.0], [2, 1], [1, 0, 3, 2]],
    "angle": [0.0, 30.0, 90.0, 180.0, -45.0, 400.0],
    "axes": [[0], [1], [0, 1], [1, 0], [-1], [-1, 0], [], [0, 0], [5], [2, 1, 0], 0, 1],
    "axis": [0, 1, -1, 2, 5, [0, 0, 1], [1.0, 2.0, 0.5]],
    "axis_name": ["H", "C", "F", "N", "", "HW", "Q"],
    "axis_names": ["H", "W", "HW", "WH", "C", "HWC", "Q", "", "t"],
    "crop": [[2, 3], [3], [2.0, 2.0], [2, 2, 2], [2.6, 3.2], [20, 20], [0, 0], [2, -1]],
    "crop_h": [2.0, 3.6, 0.0, 20.0, -1.0],
    "crop_w": [2.0, 3.6, 0.0, 20.0, -1.0],
    "crop_d": [1.0, 2.0, 0.0, 20.0],
    "crop_pos_x": [0.0, 0.3, 0.7, 1.0, 1.5, -0.1],
    "crop_pos_y": [0.0, 0.3, 0.7, 1.0, 1.5, -0.1],
    "crop_pos_z": [0.0, 0.3, 0.7, 1.0, 1.5],
    "cutoff_db": [-80.0, -20.0, 0.0, 3.0],
    "element_map": [[0], [1, 0], [-1], [9], []],
    "end": [[3], [3, 4], [9, 9], [2, 2, 2], [-1, -1], []],
    "fill_value": [0, 7, 2.5, -3, 300, [1, 2, 3], [4], []],
    "fill_values": [0.0, 7.0, [1.0, 2.0, 3.0], [4.0], [-3.0], [300.0], [1.0, 2.0], []],
    "hue": [0.0, 30.0, 120.0, -400.0],
    "image_type": ["types.RGB", "types.BGR", "types.GRAY", "types.YCbCr", "types.ANY_DATA"],
    "key": ["layout", "source_info", "other"],
    "layout": ["HWC", "CHW", "HW", "XYZ", "", "ABCD", "t"],
    "matrix": [[1.0, 0.2, 0.5, -0.1, 0.9, 1.0], [1.0, 0.0, 0.0, 0.0, 1.0, 0.0], [0.0] * 6, [1.0] * 5, [1.0] * 12],
    "max_size": [4.0, [5.0, 6.0], 100.0, 0.0, [3.0, 4.0, 5.0]],
    "mirror": [0, 1, 2, 3, 4, True, 8],
    "missing": [[], [1]],
    "mode": ["default", "stretch", "not_larger", "not_smaller", "other"],
    "n_mfcc": [1, 4, 20, 0, -1],
    "new_axis_names": ["F", "H", "FG", "", "FF"],
    "new_order": [[0], [1, 0], [0, 0, 1], [-1], [9], []],
    "nfft": [8, 16, 7, 64, 0, -1],
    "normalized": [True, False],
    "out_of_bounds_policy": ["error", "pad", "trim_to_shape", "other"],
    "output_layout": ["HWC", "CHW", "XYZ", "", "AB", "ABCD"],
    "perm": [[1, 0], [0, 1], [2, 0, 1], [2, 1, 0], [0, 1, 2], [0, 0], [1], [], [-1, 0, 1]],
    "power": [1, 2, 3, 0],
    "probability": [0.0, 0.3, 1.0, 1.5, -0.1],
    "quality": [1, 50, 99, 100, 0, 101, -1],
    "range": [[0.0, 1.0], [-3.0, 3.0], [5.0, 5.0], [2.0, 1.0], [1.0], [1.0, 2.0, 3.0]],
    "ratio": [1.0, 0.5, 2.0, 0.0, -1.0],
    "reference_frame": [0],
    "rel_end": [[0.5], [0.5, 0.9], [1.0, 1.0], [2.0, 1.0], [-0.5, 0.5]],
    "rel_shape": [[0.5], [0.5, 0.5], [1.0, -1.0], [2.0, 0.5], [1.0], [0.5, 1.0, 1.0], [1.0, 1.0, 1.0], [-1.0]],
    "rel_start": [[0.2], [0.25, 0.5], [0.0, 0.0], [-0.5, 0.0], [0.9, 0.9]],
    "resize_longer": [5.0, 3.4, 0.0, -2.0],
    "resize_shorter": [5.0, 3.4, 0.0, -2.0],
    "resize_x": [5.0, 3.4, 0.0, -4.0],
    "resize_y": [5.0, 3.4, 0.0, -4.0],
    "resize_z": [2.0, 3.4, 0.0, -4.0],
    "roi_end": [[3.0, 4.0], [0.9, 0.8], [1.0, 1.0], [0.0, 0.0], [3.0], [20.0, 20.0]],
    "roi_start": [[1.0, 1.0], [0.1, 0.2], [3.0, 4.0], [1.0], [0.5, 0.5]],
    "rounding": ["round", "truncate", "other"],
    "sample_rate": [0.0, 4000.0, 8000.0, 16000.0, 3000.0, -1.0],
    "saturation": [0.0, 0.5, 1.0, 2.0, -1.0],
    "shape": [[4], [2, 3], [3, -1], [6, 5], [2, 3, 4], [-1], [], [0], 4, [2.0, 3.0], [0.5, 0.5], [9, 9]],
    "sigma": [0.0, 0.5, 1.0, 2.3, [1.0, 2.0], -1.0, [1.0, 2.0, 3.0]],
    "size": [[4, 5], [3], [4.5, 3.2], [-4, 5], [0, 5], [0, 0], [3, 4, 5], [30, 2], [1, 1]],
    "src_dims": [[1, 0], [0, 1], [0, 1, 2], [2, 0, 1], [-1, 0], [-1, 0, 1, 2], [], [0], [5], [0, 0]],
    "start": [[1], [1, 2], [0, 0], [-1, 1], [20, 20], [1, 1, 0], []],
    "scales": [[0.5, 0.5], [2.0, 1.0], [1.5], [0.0, 1.0]],
    "shift": [0.0, 0.5, -3.0, 100.0],
    "scale": [1.0, 0.5, 255.0, -1.0, [1.0, 2.0], [0.0, 1.0], [2.0]],
    "std": [[1.0], [2.0, 3.0, 4.0], [0.0], [1.0, 2.0]],
    "mean": [[0.5], [1.0, 2.0, 3.0], [0.0], [1.0, 2.0], 0.5, 3.0],
    "stddev": [1.0, 0.5, 0.0, -1.0],
    "tile": [2, 4, 0, -1],
    "axis_order": [[0, 1]],
    "values": [[1.0, 2.0, 5.0], [3.0], []],
    "window_fn": [[], [1.0] * 16, [0.5, 1.0, 0.5], [1.0] * 8],
    "window_length": [4, 8, 16, 1, 0, -1, 100],
    "window_size": [1, 3, 5, [3, 5], 0, 4, [3, 3, 3], -1],
    "window_step": [1, 2, 4, 8, 0, -1],
}
FITTING = {
    "crop": [2, 3], "size": [4, 5], "shape": [2, 2], "anchor": [1.0, 1.0], "start": [1, 1], "end": [2, 3], "new_order": [1, 0, 1],
    "window_length": 8, "window_step": 4, "nfft": 8, "element_map": [1, 0],
}  # fmt: skip
KEPT = ("reshape", "reinterpret", "full", "zeros", "ones", "random.uniform")  # whose examples go with their inputs
BY_KIND: dict[Any, list[Any]] = {
    bool: [True, False, 1, 0],
    int: [0, 1, 2, 3, -1, 7],
    float: [0.0, 0.5, 1.0, -1.5, 2.7, 100.0],
    "ints": [[1], [2, 1], [0, 1, 2], [-1], [3, 3], [], 1],
    "floats": [[0.5], [0.5, 1.5], [1.0, 2.0, 3.0], [0.0], [-1.0], [], 0.5],
    "dtype": [f"types.{name}" for name in TYPES],
    "layout": ["HWC", "CHW", "", "ABC", "AB"],
    str: ["", "other"],
}
WRONG: dict[Any, list[Any]] = {  # values of another kind
    bool: ["text"], int: [2.5, "text", [1, 2]], float: ["text", [1.0, 2.0]], "ints": ["text", [1.5]], "floats": ["text"],
    "dtype": ["text", 2.5], "layout": [3], str: [3],
}  # fmt: skip


@dataclass
class DrawnCall:
    """A call as both libraries can make it: samples for the inputs, and arguments; ``types.X`` in text names a type."""

    operator: str
    number: int
    inputs: list[tuple[list[np.ndarray], str]] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    per_sample: dict[str, list[np.ndarray]] = field(default_factory=dict)
    around: str = ""  # "if": the call stands in both branches of a condition

    def __str__(self) -> str:
        data = [f"{x[0][0].dtype}{[list(one.shape) for one in x[0]]}{x[1] and ' ' + x[1]}" for x in self.inputs]
        named = [f"{name}={value!r}" for name, value in self.constants.items()]
        each = [f"{name}=each {[x.tolist() for x in value]}" for name, value in self.per_sample.items()]
        return f"fn.{self.operator}({', '.join([*data, *named, *each])})" + (
            f" in {self.around}" if self.around else ""
        )


class Captured:
    """A call in an example, not made."""

    def __init__(self, path: str, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.path, self.inputs, self.keywords = path, inputs, keywords

    def made(self) -> Any:
        return attrgetter(self.path)(fn)(*self.inputs, **self.keywords)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.made())

    def __getitem__(self, index: Any) -> Any:
        return self.made()[index]


class Capturing:
    """``fn`` of an example: calls inside the last one are made at once."""

    def __init__(self, path: str = "") -> None:
        self.path = path

    def __getattr__(self, name: str) -> "Capturing":
        return Capturing(f"{self.path}.{name}" if self.path else name)

    def __call__(self, *inputs: Any, **keywords: Any) -> Captured:
        made = [x.made() if isinstance(x, Captured) else x for x in inputs]
        return Captured(self.path, tuple(made), keywords)


def operators() -> list[OpDef]:
    """Those that are drawn; which of them DALI has, it says itself."""
    return [
        op for op in public() if op.factory is None and not op.nodes_only and not op.order and op.name not in LEFT_OUT
    ]


def plain(value: Any) -> Any:
    """An argument of an example as both libraries take it."""
    if isinstance(value, Enum):
        return f"types.{value.name}"
    if isinstance(value, np.ndarray):
        return plain(value.ravel().tolist())
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return f"types.{types.to_dali_type(value).name}"
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


class Drawer:
    """Draws the calls of one operator."""

    def __init__(self, op: OpDef, seed: int = SEED) -> None:
        self.op, self.seed = op, seed
        self.bases = []
        arrays = example_data.arrays()
        names = {"fn": Capturing(), "types": types, "np": np, **arrays}
        self.known = {id(value): name for name, value in arrays.items()}
        self.arrays = arrays
        for text in examples(op):
            captured = eval(text, dict(names))
            keywords = {name: self.fitting(op, name, plain(x)) for name, x in captured.keywords.items()}
            self.bases.append((captured.inputs, keywords))
        self.singles = [
            (base, name, value)
            for base in range(len(self.bases))
            for name, param in op.arguments.items()
            for value in [None, *self.values(param), *self.wrong(param)]
        ]

    def fitting(self, op: OpDef, name: str, value: Any) -> Any:
        """A value of an example for inputs that are smaller than the example's."""
        if op.name in KEPT or name not in FITTING or np.shape(value) != np.shape(FITTING[name]):
            return value
        return FITTING[name]

    def values(self, param: Param) -> list[Any]:
        if param.name in VALUES:
            return VALUES[param.name]
        if isinstance(param.type, type) and issubclass(param.type, Enum):
            return [f"types.{member.name}" for member in param.type]
        if typing.get_origin(param.type) is Literal:
            return [*typing.get_args(param.type), "other"]
        return BY_KIND.get(param.type, [0, 1.5, "text"])

    def wrong(self, param: Param) -> list[Any]:
        return WRONG.get(param.type, ["text"])

    def draw(self, number: int) -> DrawnCall:
        """Call ``number`` of this operator."""
        rng = np.random.default_rng([zlib.crc32(self.op.name.encode()), number, *([self.seed] if self.seed else [])])
        call = DrawnCall(self.op.name, number)
        size = int(rng.integers(1, 4))
        if number < len(self.singles):
            base, name, value = self.singles[number]
            chosen = {name: value}
            given, keywords = self.bases[base]
            changes = 0.0
        else:
            given, keywords = self.bases[rng.integers(len(self.bases))]
            params = list(self.op.arguments.values())
            picked = rng.permutation(len(params))[: rng.choice([0, 1, 1, 2, 2, 2, 3])]
            chosen = {params[i].name: self.pick(rng, params[i]) for i in picked}
            changes = 0.5
        call.constants = {
            name: value for name, value in {**keywords, **chosen}.items() if value is not None or name in chosen
        }
        call.inputs = self.inputs(rng, given, size, changes)
        if number >= len(self.singles):
            for name in list(call.constants):
                if self.op.arguments[name].role is Role.ARG and rng.random() < 0.25:
                    self.spread(rng, call, name, size)
            if call.inputs and rng.random() < 0.06:
                call.around = "if"
        return call

    def pick(self, rng: np.random.Generator, param: Param) -> Any:
        values = self.values(param)
        return values[rng.integers(len(values))]

    def spread(self, rng: np.random.Generator, call: DrawnCall, name: str, size: int) -> None:
        """Makes an argument differ from sample to sample."""
        param = self.op.arguments[name]
        now = call.constants[name]
        alike = [
            x for x in [now, *self.values(param)] if np.shape(x) == np.shape(now) and _numeric(x) and _numeric(now)
        ]
        if not alike:
            return
        kind = np.float32 if param.type in (float, "floats") else np.int32
        picked = [alike[rng.integers(len(alike))] for _ in range(size)]
        if kind == np.int32 and any(np.asarray(x).dtype.kind == "f" for x in picked):
            kind = np.float32
        call.per_sample[name] = [np.asarray(x, kind) for x in picked]
        del call.constants[name]

    def inputs(
        self, rng: np.random.Generator, given: Any, size: int, changes: float
    ) -> list[tuple[list[np.ndarray], str]]:
        """Samples for every input: others in place of the example's, in other extents, types, layouts and ranks."""
        extents: dict[tuple[tuple[int, ...], int], tuple[int, ...]] = {}
        ragged = rng.random() < 0.5
        tiny = bool(self.seed) and rng.random() < 0.15
        counts, others = rng.integers(0, 5, size), self.seed and not self.op.random and rng.random() < 0.7
        dtype = NUMBERS[rng.integers(len(NUMBERS))] if rng.random() < changes * 0.7 else None
        layout = None
        if self.op.layouts and given:
            layout = str(rng.choice(self.op.layouts)) if rng.random() < max(changes, 0.2) else None
            if layout and self.op.sequences and rng.random() < 0.2 and "F" not in layout:
                layout = "F" + layout
        result = []
        for value in given:
            name = self.known.get(id(value), "")
            array = np.asarray(value)
            own_layout = ""
            if name in (*FREE, *SOUND) and self.op.name not in KEPT:
                own_layout = _layout_of(name)
                if name in FREE and layout and (name != "array" or self.op.layouts):
                    own_layout = layout
                kind = array.dtype if dtype is None else dtype
                letters = own_layout or "?" * array.ndim
                if not self.op.layouts and rng.random() < changes * 0.6:
                    rank = int(rng.integers(0, 5))
                    letters = str(rng.choice(["?" * rank, "HWC", "CHW", "HW", "FHWC", "AB", "X"]))
                samples = []
                for index in range(size):
                    mark = (letters, index if ragged else 0)
                    if mark not in extents:
                        extents[mark] = tuple(
                            1 if tiny and rng.random() < 0.6 else _extent(rng, letter, name) for letter in letters
                        )
                    samples.append(_numbers(rng, extents[mark], kind))
                own_layout = "" if "?" in letters else letters
                if rng.random() < changes * 0.2:
                    own_layout = str(rng.choice(["", "HWC", "XYZ", "CHW", own_layout[::-1]]))
                    own_layout = own_layout if len(own_layout) == len(letters) else ""
                elif not self.op.layouts and name in ("array", "vector") and letters[:1] == "?":
                    own_layout = ""
            elif others and name in OTHERS:
                samples = [OTHERS[name](rng, int(count)).astype(array.dtype) for count in counts]
            else:
                samples = [array] * size
                if dtype is not None and array.dtype.kind in "fiu" and array.dtype != np.uint8 and rng.random() < 0.3:
                    samples = [array.astype(dtype)] * size
            result.append((samples, own_layout))
        if result and rng.random() < changes * 0.06:
            result = result[:-1] if rng.random() < 0.5 else [*result, result[0]]
        return result


def _boxes(rng: np.random.Generator, count: int) -> np.ndarray:
    """Boxes inside the image, a few without extent, a few as large as the image."""
    corners = np.sort(rng.random((count, 2, 2)), axis=1)
    kind = rng.random(count)
    corners[kind < 0.1, 1] = corners[kind < 0.1, 0]
    corners[kind > 0.95] = [[0, 0], [1, 1]]
    return corners.reshape(count, 4)


# Data of an example that a seed replaces: the numbers of boxes, labels and points are drawn once for each sample.
OTHERS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "boxes": _boxes,
    "labels": lambda rng, count: rng.integers(-3, 9, count),
    "points": lambda rng, count: rng.uniform(-0.5, 1.5, (count, 2)),
    "mask": lambda rng, _: rng.integers(0, 3, (*rng.integers(1, 9, 2), 1)),
    "window": lambda rng, _: rng.uniform(-1, 1, rng.integers(1, 6, 2)),
}


def _numeric(value: Any) -> bool:
    return not isinstance(value, str) and value is not None and np.asarray(value).dtype.kind in "biuf"


def _layout_of(name: str) -> str:
    return next((layout for layout, known in example_data.BY_LAYOUT.items() if known == name and layout.isupper()), "")


def _extent(rng: np.random.Generator, letter: str, name: str) -> int:
    if name in SOUND:
        return int(rng.integers(5, 60))
    return int(rng.integers(*LETTERS.get(letter, (1, 5))))


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return rng.random(shape) < 0.5
    if kind.kind == "f":
        low, high = ((0, 1), (-3, 3), (0, 255))[rng.integers(3)]
        return np.asarray(rng.uniform(low, high, shape)).astype(kind)
    low, high = (0 if kind.kind == "u" else -100, 255 if kind == np.uint8 else 120)
    return np.asarray(rng.integers(low, high, shape)).astype(kind)
