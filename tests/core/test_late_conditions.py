"""Conditions that are computed in the stage of the steps that they decide about: chains give the results of the bodies."""

import itertools
import random

import numpy as np
import pytest
from test_chains import FLAGS, PHOTOGRAPHS, RNG, SIZES, both, outcome, ready  # noqa: F401

import pipeflow.operators  # noqa: F401  (fills the registry)
from pipeflow import fn, types
from pipeflow.declare import Spec, registry
from pipeflow.kernels.cpu import small_numbers
from pipeflow.operators.math import common_type

pytestmark = pytest.mark.timeout(600)  # the first test compiles kernels

IMAGES = [np.full((20 + 4 * k, 30 - 3 * k, 3), level, np.uint8) for k, level in enumerate((40, 200, 90, 160))]


def column():
    """A condition that is known before the stage."""
    return fn.external_source(lambda: [np.array(flag) for flag in FLAGS], ndim=0, dtype=types.BOOL)


def pictures():
    return fn.flip(fn.external_source(lambda: IMAGES, layout="HWC"))


def one_branch():
    image = pictures()
    if fn.reductions.mean(image) > 100:
        image = fn.brightness(image, brightness=0.5)
    return image


def both_branches():
    """With results of different shapes, and a step after the merge."""
    image = pictures()
    if fn.reductions.mean(image) > 100:
        image = fn.resize(image, size=(9, 7))
    else:
        image = fn.brightness(image, brightness=1.5)
    return fn.flip(image, vertical=1)


def nested():
    image = pictures()
    mean = fn.reductions.mean(image)
    made = fn.cast(image, dtype=types.FLOAT)
    if mean > 50:
        if mean / 2 < 90:
            made = fn.cast(fn.brightness(image, brightness=1.5), dtype=types.FLOAT)
        else:
            made = made * 2.0
        if fn.reductions.mean(made) > 100.0:
            made = made - 1.0
    return fn.flip(made), made


def within_a_column():
    """A late condition in a branch that is known before, and the reverse."""
    image, other = pictures(), fn.random.coin_flip(dtype=types.BOOL)
    if column():
        if fn.reductions.mean(image) > 100:
            image = fn.flip(image, vertical=1)
    elif fn.reductions.mean(image) > 50:
        image = fn.brightness(image, brightness=0.5)
    if fn.reductions.sum(image) > 100000 and other:
        image = fn.contrast(image, contrast=1.5)
    return fn.flip(image)


def logic():
    image = pictures()
    mean, height = fn.reductions.mean(image), fn.shapes(image)[0]
    if (mean > 50 and not height % 8 < 1) or -height > -22:
        image = fn.brightness(image, brightness=0.5)
    wide = mean > 150 or height < 25
    return fn.flip(image), wide


def numbers_of_branches():
    """A merge of constants, and one of results of single numbers."""
    image = pictures()
    mean = fn.reductions.mean(image)
    if mean > 100:
        factor, other = 0.5, mean / 2
    else:
        factor, other = 1.5, mean
    return fn.cast(image, dtype=types.FLOAT) * factor - other


def never():
    image = pictures()
    if fn.reductions.mean(image) > 255:
        image = fn.resize(image, size=(9, 7))
    return fn.flip(image), fn.reductions.mean(image)


def always():
    image = pictures()
    if fn.reductions.mean(image) > 0:
        image = fn.resize(image, size=(9, 7))
    return fn.flip(image)


def read_after_the_chain():
    """Merges whose results are delivered, read by another step, and read by a function that chains do not call."""
    image = fn.crop(pictures(), crop=(17, 15))
    mean = fn.reductions.mean(image)
    if mean > 100:
        image = fn.brightness(image, brightness=0.5)
    scaled = fn.cast(image, dtype=types.FLOAT)
    if mean > 150:
        other = scaled * 2.0
    else:
        other = scaled - 1.0
    return other, fn.python_function(fn.flip(other), function=np.cumsum), mean > 150 or mean < 60


def of_one_shape():
    """Results that one array of the batch might hold, next to those of other branches."""
    image = pictures()
    if fn.reductions.mean(image) > 100:
        made = fn.crop(image, crop=(17, 15), dtype=types.FLOAT)
    else:
        made = fn.cast(fn.resize(fn.crop(image, crop=(5, 9)), size=(17, 15)), dtype=types.FLOAT)
    return made, fn.reductions.sum(made)


def of_numbers():
    """Conditions that are no comparisons."""
    image = pictures()
    if fn.shapes(image)[-3] - 24:
        image = fn.flip(image, vertical=1)
    if fn.reductions.mean(image) - 90.0:
        image = fn.brightness(image, brightness=0.5)
    if fn.random.coin_flip():
        image = fn.flip(image, vertical=1)
    return fn.contrast(image, contrast=0.5)


def decoded():
    image = fn.decoders.image(fn.external_source(lambda: PHOTOGRAPHS))
    height, width = fn.shapes(image)[0], fn.shapes(image)[1]
    if height * width > 2000:
        image = fn.crop(image, crop=(20, 30))
    else:
        image = fn.resize(image, size=(20, 30))
    return fn.crop_mirror_normalize(image, mean=[100.0], std=[50.0], mirror=fn.random.coin_flip())


CASES = [
    one_branch,
    both_branches,
    nested,
    within_a_column,
    logic,
    numbers_of_branches,
    never,
    always,
    of_numbers,
    decoded,
    read_after_the_chain,
    of_one_shape,
]


@pytest.mark.parametrize("definition", CASES)
def test_conditions_in_chains(definition, monkeypatch):
    """All samples are done by chains, whatever branch they take."""
    assert both(definition, monkeypatch) == len(SIZES)


def test_a_condition_that_fails(monkeypatch):
    """An integer is divided by zero for one sample: the error is that of the body, and it stops or replaces only this sample."""

    def definition(**options):
        image = pictures()
        height = fn.shapes(image)[0]
        if 100 // (height - 24) > 5:
            image = fn.flip(image, vertical=1)
        return image

    found, _ = outcome(definition, monkeypatch, True)
    assert "division by zero" in found
    assert found == outcome(definition, monkeypatch, False)[0]


@pytest.mark.parametrize("rule", ["skip", "replace"])
@pytest.mark.parametrize("bad", [0, 1, 2])
def test_a_damaged_sample_in_a_late_branch(rule, bad, monkeypatch):
    """A sample that takes the branch fails there as in the body; one that does not take it is not decoded."""
    files = [photo[:40] if number == bad else photo for number, photo in enumerate(PHOTOGRAPHS)]
    numbers = [np.array(k, np.int32) for k in range(len(files))]

    def definition():
        encoded = fn.external_source(lambda: files)
        number = fn.reductions.sum(fn.external_source(lambda: [np.full((2, 2, 1), k) for k in numbers], layout="HWC"))
        if number < 4 * 2:
            made = fn.decoders.image(encoded, on_error=rule)
        else:
            made = fn.constant(idata=[7], shape=(2, 2, 1), dtype=types.UINT8)
        return made, fn.cast(made, dtype=types.FLOAT)

    both(definition, monkeypatch)


VALUES = [0, 1, 2, 7, 100, 127, 128, 255, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1]
REALS = [0.0, -0.0, 1.0, -2.5, 1e-45, 3e38, np.inf, np.nan, 16777217.0, 1e300]


def values_of(dtype):
    with np.errstate(all="ignore"):
        if dtype.kind == "f":
            return np.array(REALS).astype(dtype)
        whole = np.array(VALUES, np.uint64).astype(dtype)
        return np.unique(np.concatenate([whole, -whole]) if dtype.kind == "i" else whole)


def as_bytes(number):
    return np.array([number]).view(np.uint8)


@pytest.mark.parametrize("name", small_numbers.OPERATIONS)
def test_single_numbers(name):
    """Each operation on each pair of types: the result of the operator, or an error where that has one."""
    op, kinds = registry[f"math.{name}"], small_numbers.TYPES
    arity = len(op.inputs)
    for left, right in itertools.product(kinds, kinds) if arity == 2 else zip(kinds, kinds):
        common = common_type([Spec((), left), Spec((), right)])
        try:
            (spec,) = op.specs((Spec((), left), Spec((), right))[:arity], {}, 1)
        except RuntimeError:  # the operator does not take them
            continue
        if common.kind == "f" and name == "mod":
            continue
        for a, b in itertools.product(values_of(left), values_of(right)) if arity == 2 else zip(*[values_of(left)] * 2):
            given, expected, made = (a, b)[:arity], np.empty((), spec.dtype), np.zeros(spec.dtype.itemsize, np.uint8)
            numbers = kinds.index(left), kinds.index(right), small_numbers.OPERATIONS.index(name), kinds.index(common)
            call = as_bytes(a), numbers[0], as_bytes(b), numbers[1], *numbers[2:], made, kinds.index(spec.dtype)
            try:
                with np.errstate(all="ignore"):
                    expected = op.body(*map(np.asarray, given), out=expected)
            except ValueError:
                with pytest.raises(ZeroDivisionError):
                    small_numbers.compute(*call)
                continue
            small_numbers.compute(*call)
            result = made.view(spec.dtype)[0]
            same = made.tobytes() == expected.tobytes() or (result != result and expected != expected)
            assert same, (name, left, right, a, b, result, expected)


@pytest.mark.parametrize("dtype", small_numbers.TYPES)
def test_truth(dtype):
    """As that of NumPy, also of zero with a sign and of a number that is none."""
    for value in values_of(dtype):
        assert small_numbers.truth(as_bytes(value), int(dtype.kind == "f")) == bool(value)


SEEDS = range(900, 924)
HEADER = "from pipeflow import fn, types\n"


class RandomPipeline:
    """The text of a pipeline with random conditions on the image."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        body = self.block(1, 0)
        self.text = "\n".join([f"def f{seed}(image, flag):", *body, "    return fn.flip(image), image"])

    def condition(self, depth=0):
        pick = self.random.choice
        kinds = ["mean", "max", "shape", "flag", "sum"] + ["and", "or", "not"] * (depth < 2)
        kind = pick(kinds)
        compare = pick(["<", ">", "<=", ">=", "!="])
        if kind == "mean":
            return f"fn.reductions.mean(image) * {pick([1, 2, 0.5])} {compare} {pick([60, 90, 100.5, 180])}"
        if kind == "max":
            return f"fn.reductions.max(image) {compare} {pick([40, 90, 160, 255])}"
        if kind == "shape":
            return f"fn.shapes(image)[{pick([0, 1, -1])}] % {pick([2, 3, 7])} {compare} {pick([0, 1, 3])}"
        if kind == "sum":
            return f"fn.reductions.sum(image) // {pick([1000, 70000])}"
        if kind == "flag":
            return "flag"
        if kind == "not":
            return f"(not {self.condition(depth + 1)})"
        sides = [self.condition(depth + 1) for _ in range(2)]
        return f"(({sides[0]}) != 0 {kind} ({sides[1]}) != 0)"

    def block(self, depth, level):
        pad, lines = "    " * depth, []
        for _ in range(self.random.choice([1, 2, 3] if level < 2 else [1, 2])):
            kind = self.random.randrange(5 if level < 2 else 2)
            if kind < 2:
                lines.append(f"{pad}image = {self.step()}")
            else:
                lines += [f"{pad}if {self.condition()}:", *self.block(depth + 1, level + 1)]
                if kind == 4:
                    lines += [f"{pad}else:", *self.block(depth + 1, level + 1)]
        return lines

    def step(self):
        return self.random.choice(
            [
                "fn.brightness(image, brightness=0.5)",
                "fn.flip(image, vertical=1)",
                "fn.resize(image, size=(9, 12))",
                "fn.resize(image, resize_x=17)",
                "fn.crop(image, crop=(8, 9))",
                "fn.crop(image, crop=(9, 22))",
                "fn.contrast(image, contrast=fn.random.uniform(range=(0.5, 1.5)))",
                "fn.pad(image, axes=(0, 1), shape=(24, 24))",
                "fn.hue(image, hue=20.0)",
                "image",
            ]
        )


def test_random_conditions(tmp_path, monkeypatch):
    """Random pipelines, with chains and without."""
    path = tmp_path / "random_conditions.py"
    texts = [RandomPipeline(seed).text for seed in SEEDS]
    path.write_text(HEADER + "\n\n".join(texts))
    names = {"__name__": path.stem, "__file__": str(path)}
    exec(compile(path.read_text(), path, "exec"), names)
    done = 0
    for seed, text in zip(SEEDS, texts):

        def definition(seed=seed):
            return names[f"f{seed}"](pictures(), column())

        try:
            done += both(definition, monkeypatch)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{text}") from error
    assert done > len(SIZES) * len(SEEDS) // 2
