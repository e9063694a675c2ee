"""jit="auto" on functions as people write them for images, labels and audio: the bits are those of the plain function."""

import numpy as np
import pytest

from pipeflow.kernels import cpu
from pipeflow.operators.functions import compiling

pytestmark = pytest.mark.usefixtures("own_trials")
trials = cpu.tried_functions
RNG = np.random.default_rng(5)
IMAGES = [(RNG.random((12 - part, 10, 3)) * 255).astype(np.uint8) for part in range(3)]
FLOATS = [x.astype(np.float32) / np.float32(255) for x in IMAGES]
SOUNDS = [RNG.standard_normal(400 + part).astype(np.float32) for part in range(3)]
LABELS = [np.array(number) for number in (3, 0, 9)]
MEAN, STD = np.array([123.7, 116.3, 103.5], np.float32), np.array([58.4, 57.1, 57.4], np.float32)
GAMMA = (255 * (np.arange(256) / 255) ** 0.8).astype(np.uint8)
GAMMA.setflags(write=False)


def normalized_for_a_network(x):
    x = x.astype("float32")
    x -= MEAN
    x /= STD
    return x.transpose(2, 0, 1)


def between_0_and_1(x):
    return x / 255


def between_extremes(x):
    low, high = int(x.min()), int(x.max())
    return (x.astype(np.float32) - low) / max(high - low, 1)


def masked_by_brightness(x):
    out = x.copy()
    out[x.astype(np.int32).sum(axis=2) > 400] = 0
    return out


def mask_of_bright_pixels(x):
    return np.where(x[..., 1] > 128, np.uint8(1), np.uint8(0))


def gray_of_bytes(x):
    return x.mean(axis=2)


def mean_colour(x):
    return np.mean(x, axis=(0, 1))


def brightest(x):
    return x.max(axis=-1) - np.amin(x, 2)


def by_a_table(x):
    return GAMMA[x]


def padded_to_a_square(x):
    out = np.zeros((16, 16, 3), x.dtype)
    out[: x.shape[0], : x.shape[1]] = x
    return out


def cropped_in_the_middle(x):
    height, width = x.shape[:2]
    top, left = (height - 6) // 2, (width - 6) // 2
    return x[top : top + 6, left : left + 6]


def erased(x, rng):
    out = x.copy()
    if rng.random() < 0.5:
        height, width = int(rng.integers(2, 5)), int(rng.integers(2, 5))
        top, left = int(rng.integers(0, x.shape[0] - height)), int(rng.integers(0, x.shape[1] - width))
        out[top : top + height, left : left + width] = 0
    return out


def equalized(x):
    counts = np.bincount(x[..., 0].ravel(), minlength=256)
    sums = counts.cumsum()
    first = sums[sums > 0][0]
    return ((sums - first) * 255 // max(sums[-1] - first, 1)).astype(np.uint8)[x[..., 0]]


def one_hot(label):
    out = np.zeros(10, np.float32)
    out[int(label)] = 1
    return out


def soft_label(label):
    out = np.full(10, 0.1 / 10, np.float32)
    out[label] += np.float32(0.9)
    return out


def mixed(x, y):
    return np.float32(0.7) * x + np.float32(0.3) * y


def laid_over(x, y):
    opacity = y[..., :1]
    return x * opacity + (np.float32(1) - opacity) * np.float32(0.5)


def sums_of_rows(x):
    return np.cumsum(x[..., 0].astype(np.int64), axis=0)


def smallest_values(x):
    return np.sort(x.ravel())[:10]


def early_for_small_ones(x):
    if x.shape[0] < 11:
        return np.zeros((2, 2), np.uint8)
    return x[:2, :2, 0].copy()


def by_kind(x):
    gains = {"dark": np.float32(1.5), "bright": np.float32(0.5)}
    return x * gains["dark" if x.mean() < 127 else "bright"]


def _blurring():
    weights = np.array([1, 2, 1], np.float32) / np.float32(4)

    def blurred(x):
        return x[:, :-2] * weights[0] + x[:, 1:-1] * weights[1] + x[:, 2:] * weights[2]

    return blurred


def emphasized(x):
    return np.append(x[0], x[1:] - np.float32(0.97) * x[:-1])


def framed(x):
    count = 1 + (len(x) - 128) // 64
    return x[np.arange(128)[None, :] + 64 * np.arange(count)[:, None]]


def as_16_bits(x):
    return (np.clip(x, -1, 1) * 32767).astype(np.int16)


def without_silence(x):
    loud = np.nonzero(np.abs(x) > np.float32(1))[0]
    return x[loud[0] : loud[-1] + 1] if len(loud) else x[:0]


def decibels(x):
    return np.float32(20) * np.log10(np.maximum(np.abs(x), np.float32(1e-5)))


def standardized(x):
    return (x - x.mean()) / x.std()


# function, inputs, True if it compiles
SET = [
    (normalized_for_a_network, [IMAGES], True),
    (between_0_and_1, [IMAGES], True),
    (between_extremes, [IMAGES], True),
    (masked_by_brightness, [IMAGES], True),
    (mask_of_bright_pixels, [IMAGES], True),
    (gray_of_bytes, [IMAGES], True),
    (mean_colour, [IMAGES], True),
    (brightest, [IMAGES], True),
    (by_a_table, [IMAGES], True),
    (padded_to_a_square, [IMAGES], True),
    (cropped_in_the_middle, [IMAGES], True),
    (erased, [IMAGES], True),
    (equalized, [IMAGES], True),
    (one_hot, [LABELS], True),
    (soft_label, [LABELS], True),
    (mixed, [FLOATS, FLOATS[:1]], True),
    (laid_over, [FLOATS, FLOATS], True),
    (sums_of_rows, [IMAGES], True),
    (smallest_values, [IMAGES], True),
    (early_for_small_ones, [IMAGES], True),
    (by_kind, [IMAGES], True),
    (_blurring(), [FLOATS], True),
    (emphasized, [SOUNDS], True),
    (framed, [SOUNDS], True),
    (as_16_bits, [SOUNDS], True),
    (without_silence, [SOUNDS], True),
    (decibels, [SOUNDS], False),  # the logarithm
    (standardized, [FLOATS], True),
]
FAST = {"between_0_and_1", "gray_of_bytes", "masked_by_brightness", "standardized"}


def same(left, right):
    assert type(left) is type(right)
    left, right = np.asarray(left), np.asarray(right)
    assert (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())


@pytest.mark.parametrize(
    ("function", "inputs", "compiles"),
    [
        pytest.param(*case, marks=() if case[0].__name__ in FAST else pytest.mark.slow, id=case[0].__name__)
        for case in SET
    ],
)
def test_the_results_are_those_of_the_plain_function(function, inputs, compiles):
    """Before the compiled version is there, while both are compared, and after it has taken over."""
    made = compiling.version_of(function, "auto")
    for number in range(trials.CHECKED + 10):
        given = [each[number % len(each)] for each in inputs]
        if function is mixed:
            given[0] = given[1]
        draws = [{"rng": np.random.default_rng(number)} if function is erased else {} for _ in range(2)]
        same(made(*[x.copy() for x in given], **draws[0]), function(*[x.copy() for x in given], **draws[1]))
        if not number:
            trials.wait_for_trials()
    (report,) = made.reports()
    assert (report.state == "compiled") == compiles, report.reason


INTEGERS = (RNG.random((5, 4, 3, 2)) * 200 - 100).astype(np.int32)


@pytest.mark.parametrize("name", ["mean", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1, -1, (0, 1), (-3, 2), (1, 2, 3)])
@pytest.mark.slow
def test_along_axes(name, axis):
    """Also of arrays that are not contiguous, and with an inner axis of many elements."""
    namespace = {"np": np}
    exec(f"def along(x): return x.{name}(axis={axis!r}), np.{name}(x.transpose(0, 2, 1, 3), {axis!r})", namespace)
    compiled = cpu.exact_functions.compiled(namespace["along"], True)
    for x in (INTEGERS, np.tile(INTEGERS, (1, 1, 1, 40)), INTEGERS.astype(np.int8)):
        for one, two in zip(compiled(x), namespace["along"](x), strict=True):
            same(one, two)


def test_an_axis_without_elements_raises():
    """The plain function then reports it."""
    with pytest.raises(ValueError, match="without elements"):
        cpu.exact_functions.compiled(gray_of_bytes, True)(np.empty((2, 3, 0), np.uint8))


@pytest.mark.parametrize("mask", [(4, 3), (5, 4, 1), (4,)])
def test_a_mask_that_does_not_fit_raises(mask):
    """Elsewhere it would write to other memory."""

    def black(x, mask):
        out = x.copy()
        out[mask] = 0
        return out

    with pytest.raises((IndexError, ValueError)):
        cpu.exact_functions.compiled(black, True)(np.ones((5, 4, 3), np.uint8), np.ones(mask, bool))
