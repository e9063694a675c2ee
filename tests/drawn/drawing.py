"""Draws pipelines as text: programs with operators, functions and conditions in any order.

A template is a call with placeholders: a kind is a value of this kind that the program has, ``2..5`` an integer between the two,
``2~5`` a number that may be a constant, random or made of other values, and ``a|b`` one of the two.
"""

import random
import re

HEAD = '''"""The pipeline with the seed {seed}."""

import numpy as np

from pipeflow import fn, math, pipeline_def, types

BATCHES = 5


def source(info):
    if info.iteration == BATCHES:
        raise StopIteration
    rng = np.random.default_rng(info.idx_in_epoch)
    height, width, frames, length = rng.integers((8, 8, 2, 500), (24, 24, 4, 900))
    return (
        rng.integers(0, 256, (height, width, 3), np.uint8),
        rng.integers(0, 256, (frames, height, width, 3), np.uint8),
        rng.uniform(-1, 1, length).astype(np.float32),
        rng.uniform(-9, 99, rng.integers(3, 9)).astype(np.float32),
        np.float32(rng.integers(0, 9)),
    )


def smaller(x):
    return x[1:, ::-1]


def brighter(x):
    return (x // 2 + 20).astype(x.dtype)


def with_noise(x, rng):
    return (x // 2 + rng.integers(0, 9)).astype(x.dtype)


def of_all(x):
    return np.float32(x.mean())


def sum_of(x, y):
    return np.float32(x) + np.float32(y)


def doubled(x):
    return x * np.float32(2)


@pipeline_def(enable_conditionals=True)
def pipeline():
    image, sequence, sound, vector, number = fn.external_source(
        source=source, batch=False, num_outputs=5, layout=["HWC", "FHWC", "", "", ""]
    )
    shuffled = fn.readers.dataset(dataset=range(13), random_shuffle=True{reader}, name="numbers")
'''

CALLED = "function={smaller|brighter}, output_layouts='HWC'"
TEMPLATES = {
    "image": [
        "fn.resize({image}, size=({5..20}, {5..20}))",
        "fn.resize({image}, resize_x={6~18}, resize_y={6~18}, interp_type=types.{INTERP_LINEAR|INTERP_NN|INTERP_CUBIC})",
        "fn.crop({image}, crop=({2..6}, {2..6}), crop_pos_x={0~1}, crop_pos_y={0~1}, out_of_bounds_policy='pad')",
        "fn.flip({image}, horizontal={0|1|fn.random.coin_flip()}, vertical={0|fn.random.coin_flip()})",
        "fn.rotate({image}, angle={-40~40}, fill_value={0|128}, keep_size={True|False})",
        "fn.warp_affine({image}, matrix=fn.transforms.rotation(angle={-20~20}, center=[3, 4]), fill_value=0)",
        "fn.brightness_contrast({image}, brightness={0.5~1.5}, contrast={0.5~1.5})",
        "fn.hsv({image}, hue={-90~90}, saturation={0.2~1.5})",
        "fn.color_twist({image}, hue={-90~90}, brightness={0.5~1.5}, contrast={0.5~1.5})",
        "fn.gaussian_blur({image}, sigma={0.5~2}, window_size={3|5})",
        "fn.random_resized_crop({image}, size=({5..12}, {5..12}))",
        "fn.slice({image}, start=({0..2}, {0..2}), shape=(3, {2..5}), axes=(0, 1), out_of_bounds_policy='pad')",
        "fn.erase({image}, anchor=(0.2, 0.1), shape=(0.3, 0.4), normalized=True, axis_names='HW', fill_value={0..99})",
        "fn.pad({image}, axes=(0, 1), shape=({5..22}, {5..22}), fill_value={0..99})",
        "fn.jpeg_compression_distortion({image}, quality={30|70})",
        "fn.noise.gaussian({image}, stddev={1~9})",
        "fn.permute_batch({image}, indices=fn.batch_permutation())",
        "fn.cast({image} {+|-|*} {number}, dtype=types.UINT8)",
        "fn.cast({image} * {0.2~1.5} + {number}, dtype=types.UINT8)",
        "fn.cast(math.{min|max}({image}, {number}), dtype=types.UINT8)",
        "fn.reshape(fn.element_extract({sequence}, element_map=1), layout='HWC')",
        f"fn.python_function({{image}}, {CALLED})",
        f"fn.python_function({{image}}, {CALLED}, jit={{True|'auto'}})",
        "fn.python_function({image}, function=with_noise, rng=True, jit={False|True|'auto'}, output_layouts='HWC')",
    ],
    "sequence": [
        "fn.resize({sequence}, size=({4..12}, {4..12}))",
        "fn.crop({sequence}, crop=({2..5}, {2..5}), crop_pos_x={0~1}, out_of_bounds_policy='pad')",
        "fn.flip({sequence}, horizontal=fn.random.coin_flip())",
        "fn.brightness({sequence}, brightness={0.4~1.5})",
        "fn.rotate({sequence}, angle={-30~30}, keep_size=True, fill_value=1)",
        "fn.sequence_rearrange({sequence}, new_order=[{0..1}, {0..1}, {0..1}])",
    ],
    "sound": [
        "fn.preemphasis_filter({sound}, preemph_coeff={0.1~0.9})",
        "fn.normalize({sound})",
        "{sound} * {0.1~2}",
        "fn.slice({sound}, start=[{0..60}], shape=[{200..350}], axes=[0], out_of_bounds_policy='pad')",
        "fn.audio_resample({sound}, scale={0.5~1.6})",
        "fn.python_function({sound}, function=doubled, jit={False|True|'auto'})",
    ],
    "vector": [
        "{vector} {+|-|*} {number}",
        "math.clamp({vector}, {0..1}, {7..50})",
        "fn.cast(math.{sqrt|sin|atan|floor|abs}(math.clamp({vector}, 0, 60)), dtype=types.FLOAT)",
        "fn.stack({number}, {number}, {number})",
        "fn.cat({vector}, {vector})",
        "{vector}[{:2|1:|-2:}]",
        "fn.random.{uniform|normal}(shape=[{1..4}])",
        "fn.pad({vector}, fill_value=3, shape=[{1..9}])",
        "fn.reductions.mean(fn.cast({image}, dtype=types.FLOAT), axes=[0, 1])",
        "fn.python_function({vector}, function=doubled, parallel={None|'threads'})",
        "fn.spectrogram({sound}, nfft=64, window_length=40, window_step=20)[:, 0]",
    ],
    "number": [
        "{number} {+|-|*} {number}",
        "{number} / {2|0.5|3}",
        "fn.reductions.{sum|mean|min|max}({vector})",
        "fn.cast(fn.reductions.{mean|max|sum}({image}), dtype=types.FLOAT)",
        "{image}.shape(dtype=types.FLOAT)[{0|1}]",
        "{vector}[{0|-1}]",
        "fn.random.uniform(range=({-3..1}, {2..20}))",
        "fn.random.normal()",
        "fn.cast(fn.random.coin_flip(), dtype=types.FLOAT)",
        "fn.cast(shuffled, dtype=types.FLOAT)",
        "fn.python_function({number}, {number}, function=sum_of)",
        "fn.python_function({image}, function=of_all, jit={False|True})",
    ],
}
CONDITIONS = [
    "{number} {<|>=} {0|3|40}",
    "fn.random.coin_flip(dtype=types.BOOL)",
    "not fn.random.coin_flip(dtype=types.BOOL)",
    "({number} > 1) {and|or} fn.random.coin_flip(dtype=types.BOOL)",
]
STEPS, BRANCH_STEPS, OUTPUTS = (4, 12), (0, 3), (2, 5)
CONDITIONAL, NESTED = 0.25, 2  # share of the steps, and how deep they are


def program(seed: int) -> str:
    """The text of a module with the function ``pipeline``."""
    drawn = Drawn(seed, TEMPLATES, CONDITIONS)
    reader = random.Random(seed).choice(["", ", seed=7", ", pad_last_batch=True"])
    return (
        f"{HEAD.format(seed=seed, reader=reader)}{drawn.lines}\n    return {', '.join([*drawn.results, 'shuffled'])}\n"
    )


class Drawn:
    """The lines of one program, and the names of some of its values. The program begins with a value for each kind.

    With ``chance`` its numbers may be random in each run.
    """

    def __init__(self, seed: int, templates: dict[str, list[str]], conditions: list[str], chance: bool = True) -> None:
        self._random, self._templates, self._conditions = random.Random(seed), templates, conditions
        self._chance = chance
        self._lines: list[str] = []
        self._known: dict[str, list[str]] = {kind: [kind] for kind in templates}  # kind -> the names of its values
        self._count = 0
        for _ in range(self._random.randint(*STEPS)):
            self._step(0)
        names = [name for known in self._known.values() for name in known[1:]] or [next(iter(templates))]
        self.results = self._random.sample(names, min(len(names), self._random.randint(*OUTPUTS)))
        self.lines = "\n".join(self._lines)

    def _step(self, depth: int) -> None:
        kind = self._random.choice(list(self._templates))
        indent = "    " * (depth + 1)
        if depth < NESTED and self._random.random() < CONDITIONAL:
            changes = self._random.random() < 0.3
            name = self._random.choice(self._known[kind]) if changes else self._new_name()
            self._lines.append(f"{indent}if {self._filled(self._random.choice(self._conditions))}:")
            self._branch(name, kind, depth + 1)
            if not changes or self._random.random() < 0.3:
                self._lines.append(f"{indent}else:")
                self._branch(name, kind, depth + 1)
        else:
            name, whole = self._new_name(), depth and "permute_batch"  # a branch does not have the whole batch
            templates = [each for each in self._templates[kind] if not (whole and whole in each)]
            self._lines.append(f"{indent}{name} = {self._filled(self._random.choice(templates))}")
        if name not in self._known[kind]:
            self._known[kind].append(name)

    def _new_name(self) -> str:
        self._count += 1
        return f"x{self._count}"

    def _branch(self, name: str, kind: str, depth: int) -> None:
        before = {each: list(names) for each, names in self._known.items()}
        for _ in range(self._random.randint(*BRANCH_STEPS)):
            self._step(depth)
        self._lines.append(f"{'    ' * (depth + 1)}{name} = {self._random.choice(self._known[kind][-3:])}")
        self._known = before

    def _filled(self, template: str) -> str:
        return re.sub(r"\{([^{}]+)\}", lambda found: self._drawn(found[1]), template)

    def _drawn(self, place: str) -> str:
        if place in self._templates:
            return self._random.choice(self._known[place])
        if ".." in place:
            return str(self._random.randint(*map(int, place.split(".."))))
        if "~" in place:
            low, high = map(float, place.split("~"))
            way = self._random.randrange(3 if self._chance else 2)
            if way == 0:
                return f"{self._random.uniform(low, high):.3f}"
            if way == 2:
                return f"fn.random.uniform(range=({low}, {high}))"
            return f"math.clamp({self._random.choice(self._known['number'])} * 0.1, {low}, {high})"
        return self._random.choice(place.split("|"))
