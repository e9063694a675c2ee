"""Steps on a few numbers that are computed for the whole batch before the samples of their stage: what they give is the same.

Each test compares with a run in which every step of the stage works for one sample after another.
"""

import itertools
from collections import Counter

import numpy as np
import pytest
from test_chains import RNG, ready  # noqa: F401  (a fixture for all tests here)

from pipeflow import fn, math, pipeline_def, types
from pipeflow.auto_aug import auto_augment, rand_augment, trivial_augment
from pipeflow.executor.runners import chain, early, many
from pipeflow.executor.runners.merge import MergeStep
from pipeflow.executor.runners.sample import SampleStage
from pipeflow.executor.runners.sample_step import SampleStep

pytestmark = pytest.mark.timeout(600)  # the first test compiles kernels

IMAGES = [RNG.integers(0, 255, (24 + 2 * (part % 3), 30 - part, 3), np.uint8) for part in range(6)]
BATCHES = 6


def images():
    return fn.external_source(lambda: IMAGES, layout="HWC")


def uniform(low, high, shape=()):
    return fn.random.uniform(range=(low, high), shape=shape)


def coin():
    return fn.random.coin_flip(dtype=types.BOOL)


def matrices():
    turn = fn.transforms.rotation(angle=uniform(-30, 30), center=[15.0, 12.0])
    moved = fn.transforms.combine(turn, fn.transforms.translation(offset=uniform(-3, 3, (2,))))
    return fn.warp_affine(images(), matrix=moved)


def turned_around_the_middle():
    image = images()
    extents = fn.shapes(image)
    middle = fn.cast(fn.stack(extents[1], extents[0]), dtype=types.FLOAT) / 2
    return fn.warp_affine(image, matrix=fn.transforms.rotation(angle=uniform(-30, 30), center=middle)), middle


def computed_in_a_branch():
    image = images()
    if coin():
        image = fn.brightness(image, brightness=uniform(0.5, 1.5) * 1.1)
    return image


def in_both_branches():
    """A number from a branch, a branch in a branch, and results that are read after the chain."""
    image, wide = images(), uniform(-30, 30)
    if coin():
        angle = wide * 2.0
        if angle > 10.0:
            angle = angle - 10.0
    else:
        angle = wide / 2.0
    return fn.rotate(fn.flip(image, horizontal=1), angle=angle), angle


def read_from_tables():
    table = np.array([[0.5, 0.8, 1.0], [1.2, 1.5, 1.9]], np.float32)
    row = fn.cast(uniform(0, 1.99), dtype=types.INT32)
    column = fn.random.uniform(values=[0, 1, 2], dtype=types.INT32)
    factors = types.Constant(table)[row]
    first, picked = fn.brightness(images(), brightness=factors[column]), factors[-2:]
    return fn.flip(first), picked, types.Constant(table)[:, column], types.Constant(table)[row, 1:, np.newaxis]


def joined():
    near, far = uniform(0.0, 0.4), uniform(0.5, 0.9)
    start = fn.stack(near, near)
    ends = fn.cat(fn.stack(far), fn.stack(far), axis=0)
    return fn.slice(fn.flip(images()), rel_start=start, rel_end=ends, axes=(0, 1)), ends


def limited():
    angle = math.clamp(uniform(-30, 30), -10.0, 10.0)
    if coin():
        angle = math.max(angle, 0.0)
    return fn.rotate(images(), angle=angle)


def augmented():
    return auto_augment.auto_augment_image_net(images())


def augmented_twice():
    return rand_augment.rand_augment(images(), n=2, m=9)


def augmented_once():
    return trivial_augment.trivial_augment_wide(images())


DEFINITIONS = [
    matrices,
    turned_around_the_middle,
    computed_in_a_branch,
    in_both_branches,
    read_from_tables,
    joined,
    limited,
]
DEFINITIONS += [augmented, augmented_twice, augmented_once]
NUMBERS = ("math.le", "math.lt", "math.mul", "_subscript", "stack", "cat", "transforms.rotation", "transforms.shear")


def results(definition, monkeypatch, whole, threads=1, count=BATCHES, **options):
    """All outputs of some batches, or the error that ended them; and the calls for single samples in the last batch."""
    calls = Counter()

    def counting(run):
        def counted(self, batch, sample, *rest):
            calls.update([self.step.op] if batch.index == count - 1 else [])
            return run(self, batch, sample, *rest)

        return counted

    options = {"num_threads": threads, "device_id": None, "seed": 7, "enable_conditionals": True} | options
    with monkeypatch.context() as patch:
        for step in (SampleStep, MergeStep):
            patch.setattr(step, "run", counting(step.run))
        if not whole:
            patch.setattr(early, "_fits", lambda _step: False)
            patch.setattr(chain, "_able", lambda _step: False)
            patch.setattr(many, "together", lambda *_: [])
        pipe = pipeline_def(batch_size=len(IMAGES), **options)(definition)()
        pipe.build()
        found = []
        try:
            for _ in range(count):
                outputs = pipe.run()
                found.append([[(x.tobytes(), x.dtype, x.shape) for x in map(np.asarray, one)] for one in outputs])
                found.append([one.layout() for one in outputs])
        except Exception as error:
            found.append((type(error), str(error), error.__notes__))
    return found, calls


def both(definition, monkeypatch, **options):
    """What is found in both ways, which is the same; and the calls for single samples."""
    expected, _ = results(definition, monkeypatch, False, **options)
    found, calls = results(definition, monkeypatch, True, **options)
    assert found == expected
    return found, calls


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.__name__)
def test_results_are_those_of_single_samples(definition, threads, monkeypatch):
    """No step on numbers is called for a sample."""
    _, calls = both(definition, monkeypatch, threads=threads)
    assert not calls.keys() & set(NUMBERS)


@pytest.mark.parametrize("definition", [matrices, computed_in_a_branch, in_both_branches])
def test_chains_read_them(definition, monkeypatch):
    """Then no step is called for a sample."""
    assert not both(definition, monkeypatch)[1]


def divisors(values):
    return fn.external_source(lambda: np.array(values, np.int32), dtype=types.INT32, ndim=0)


def quotients(values, branch):
    """Quotients of integers, of which some divisors are 0."""

    def definition():
        image = images()
        share = given = divisors(values)
        if fn.external_source(lambda: np.array(branch), dtype=types.BOOL, ndim=0):
            share = 100 // given
        return fn.brightness(image, brightness=share / 100), share

    return definition


def test_an_error_of_a_sample_that_does_not_take_the_branch(monkeypatch):
    """It is none: the steps run for one sample after another."""
    found, _ = both(quotients([1, 0, 2, 3, 0, 4], [True, False, True, True, False, True]), monkeypatch)
    assert len(found) == 2 * BATCHES


@pytest.mark.parametrize("rule", ["raise", "skip", "replace"])
def test_an_error_belongs_to_its_sample(rule, monkeypatch):
    """The message, its notes and the rule are those of single samples."""
    found, _ = both(quotients([1, 0, 2, 3, 0, 4], [True] * 3 + [False] * 3), monkeypatch, on_error=rule)
    if rule == "raise":
        kind, text, notes = found[0]
        assert (kind.__name__, text) == ("BadValue", "Integer division by zero.")
        assert "sample 1 of batch 0" in notes[0]
    else:
        assert len(found) == 2 * BATCHES


def test_a_step_that_always_fails_is_left_to_single_samples(monkeypatch):
    """After some batches the chain no longer waits for it, and the other early steps go on."""
    monkeypatch.setattr(early, "MOST_FAILURES", 2)
    stages, made = [], SampleStage.__init__
    monkeypatch.setattr(SampleStage, "__init__", lambda self, *rest: (made(self, *rest), stages.append(self))[0])
    both(quotients([1, 0, 2, 3, 4, 0], [True, False, True, True, True, False]), monkeypatch)
    lost = [step.step.op for stage in stages for number, step in enumerate(stage.steps) if number in stage.early.lost]
    assert lost == ["math.fdiv"]


def test_a_failed_batch_is_made_again(monkeypatch):
    """Samples that replace others get numbers of their own."""

    def definition():
        image = images()
        angle = uniform(-30, 30)
        if coin():
            angle = angle * 2.0
        turned = fn.rotate(image, angle=angle)
        return fn.python_function(turned, function=odd_width, on_error="replace"), angle

    both(definition, monkeypatch)


def odd_width(image):
    if image.shape[1] % 5 == 0:
        raise ValueError("five")
    return image


def test_batches_of_other_sizes(monkeypatch):
    """Each batch has as many numbers as samples."""

    def definition():
        sizes = itertools.cycle([6, 4, 1, 5, 6, 2])

        def given():
            size = next(sizes)
            return IMAGES[:size], [np.array(k, np.float32) for k in range(size)]

        options = {"num_outputs": 2, "layout": ["HWC", ""], "dtype": [types.UINT8, types.FLOAT]}
        picture, factor = fn.external_source(given, **options)
        if coin():
            picture = fn.brightness(picture, brightness=uniform(0.5, 1.5) * 1.1)
        return picture, factor * 2.0

    both(definition, monkeypatch)
