"""Operations on contiguous arrays run over one axis, also in functions that do more than work by elements: NumPy's bits."""

import itertools

import numpy as np
import pytest

from pipeflow.kernels import cpu, kept_code

LEVELS = (20, 60, 100)
COLOURS = np.array([0.25, 0.5, 2.0], np.float32)


def plus_one(x):
    return x + 1


def fused(x):
    y = x.astype(np.float32)
    return (y[1:] - y[:-1]) * np.float32(0.5) / np.float32(3) if x.shape[1] > 1 else y


def of_a_helper(x):
    return plus_one(x) * 2


def in_branches(x):
    if x.shape[0] > 3:
        return x * 2
    return -(x + 1)


def with_a_number_of_the_array(x):
    return np.abs(x) * np.float64(x[0, 0, 0])


def counted(x):
    result = np.zeros(x.shape, np.int32)
    for level in LEVELS:
        result += x > level
    return result


def wrapping(x):
    return x[1:] + x[:-1] * 3 - 7


def bits(x):
    y = x[1:].astype(np.int16)
    y |= 5
    return (y ^ 3) & ((x[1:] > 9) | (x[1:] == 4))


def of_two_types(x):
    return (x[:] + x.astype(np.int16)) / x.astype(np.float64)[:]


def in_colours(x):
    return x[1:] * COLOURS


def every_other(x):
    return x[::2] + x[::2]


FLAT = [
    every_other,
    in_colours,
    fused,
    of_a_helper,
    in_branches,
    with_a_number_of_the_array,
    counted,
    wrapping,
    bits,
    of_two_types,
]


def turned(x):
    return x.transpose() + x.transpose()


def of_one_axis(x):
    return x[0, 0] + x[0, 0]


def divided(x):
    return x[1:].astype(np.int16) // 3


def shifted(x):
    return x[1:].astype(np.uint8) << 3


OTHERS = [turned, of_one_axis, divided, shifted]


@pytest.fixture
def flat(monkeypatch):
    """The texts of the operations that run over one axis."""
    return watched(monkeypatch, "_loop")


@pytest.fixture
def in_an_image(monkeypatch):
    """The texts of the operations that read the colours of an image where they are."""
    return watched(monkeypatch, "_loop_over_colours")


def watched(monkeypatch, name):
    """The texts of the loops that a function of ``flat_loops`` makes."""
    found, make = [], getattr(cpu.flat_loops, name)

    def noting(text, *rest):
        found.append(text)
        return make(text, *rest)

    monkeypatch.setattr(cpu.flat_loops, name, noting)
    return found


def new(function):
    """The function compiled again: no code of an earlier test is used."""
    copied = type(function)(function.__code__, function.__globals__, function.__name__, closure=function.__closure__)
    return cpu.exact_functions.compiled(copied, True)


def inputs(dtype, shape):
    x = (np.random.default_rng(len(shape)).random(shape) * 255).astype(dtype)
    x.flags.writeable = False
    return x


def same(one, two):
    one, two = np.asarray(one), np.asarray(two)
    assert (one.dtype, one.shape, one.tobytes()) == (two.dtype, two.shape, two.tobytes())


@pytest.mark.parametrize(
    ("function", "dtype"),
    [*itertools.product(FLAT, [np.uint8, np.float32]), *zip(OTHERS, itertools.cycle([np.float32, np.uint8]))],
)
def test_the_bits_are_those_of_numpy(function, dtype, flat):
    """For several shapes, one of them without elements."""
    compiled = new(function)
    for shape in [(5, 7, 3), (2, 1, 3), (4, 9, 3), (6, 0, 3)]:
        if shape[1] or function not in (with_a_number_of_the_array, of_one_axis):
            with np.errstate(all="ignore"):
                same(compiled(inputs(dtype, shape)), function(inputs(dtype, shape)))
    assert bool(flat) == (function in FLAT)


def test_floats_are_fused(flat):
    """A chain of operations with one type is one loop."""
    new(fused)(inputs(np.float32, (5, 7, 3)))
    assert [text.count("(") for text in flat] == [3]


@pytest.mark.parametrize("extents", [(4, 3), (1, 3), (4, 1)])
def test_extents_that_differ_are_broadcast(extents, flat):
    """They are known only when the code runs."""

    def combined(x, y):
        result = x[:] * y
        result += y
        return result

    x, y = inputs(np.float32, (4, 3)), inputs(np.float32, extents)
    same(new(combined)(x, y), combined(x, y))
    assert flat == ["(y0[i] * y1[i])", "np.float32(y0[i]) + np.float32(y1[i])"]


def test_arrays_of_fewer_axes(flat):
    """They have the last extents of the result, or some that are 1; or the result is larger than the array with all axes."""

    def combined(x, y, z):
        result = (x[:] - y) / z
        return result, result > z

    def in_place(x, y, z):
        result = x[:] * np.float32(2)
        result -= y
        result /= z
        return result

    compiled, compiled_in_place = new(combined), new(in_place)
    fewer = [((3,), (7, 3)), ((1,), (1, 3)), ((3,), (7, 1)), ((1,), (7, 1)), ((3,), (1, 1)), ((3,), (3, 3))]
    for shape in [(5, 7, 3), (1, 7, 3), (990, 7, 3), (5, 7, 1), (0, 7, 3), (2, 3, 3)]:
        for extents in fewer:
            given = [inputs(np.float32, one) + 1 for one in (shape, *extents)]
            try:
                result = np.broadcast_shapes(shape, *extents)
            except ValueError:
                result = ()
            if result:
                for one, two in zip(compiled(*given), combined(*given), strict=True):
                    same(one, two)
            if result == shape:
                same(compiled_in_place(*given), in_place(*given))
            else:
                with pytest.raises(ValueError, match="broadcast"):
                    compiled_in_place(*given)
    assert flat


def test_extents_that_are_one_anywhere(flat):
    """In both arrays."""

    def combined(x, y):
        return x[:] * y

    compiled = new(combined)
    for one, two in [
        ((3, 1, 5), (3, 4, 5)),
        ((1, 4, 1), (3, 4, 5)),
        ((1, 1, 1), (99, 4, 5)),
        ((3, 9, 1), (1, 1, 3)),
        ((9, 9, 1), (9, 9, 40)),
    ]:
        for given in [(one, two), (two, one)]:
            arrays = [inputs(np.uint8, shape) for shape in given]
            same(compiled(*arrays), combined(*arrays))
    assert flat


@pytest.mark.parametrize("extents", [(5, 3), (4, 2), (2,), (4,)])
def test_extents_that_do_not_fit_raise(extents):
    """The plain function then reports them."""

    def combined(x, y):
        return x + y

    with pytest.raises(ValueError, match="broadcast"):
        new(combined)(inputs(np.float32, (4, 3)), inputs(np.float32, extents))


def test_the_array_itself_is_changed_in_place(flat):
    """Another name of it sees the change."""

    def both(x):
        result = x[:1].copy()
        other = result
        other += x[:1]
        return result

    x = inputs(np.int16, (3, 4, 2))
    same(new(both)(x), both(x))
    assert flat == ["np.int16(y0[i]) + np.int16(y1[i])"]


def gray(x):
    return np.float32(0.299) * x[..., 0] + np.float32(0.587) * x[..., 1] + np.float32(0.114) * x[..., 2]


def gray_by_slices(x):
    red, green, blue = x[:, :, 0], x[:, :, 1], x[:, :, 2]
    return red * 0.299 + green * 0.587 + blue * 0.114


def redder(x):
    return np.where(x[..., 0] > x[..., 2], x[..., 0] - x[..., 2], x[..., 1])


def of_a_new_image(x):
    y = x * 2
    return y[..., 1] - y[..., 0]


def changed_between(x):
    y = x.copy()
    red = y[..., 0]
    y[..., 0] = y[..., 1]
    return red + y[..., 2]


def cut_first(x):
    return x[1:, :, 1].astype(np.float32) + x[1:][..., 0]


COLOURED = [gray, gray_by_slices, redder, of_a_new_image, changed_between]


def of_two_images(x):
    y = x + 1
    return x[..., 0] + y[..., 1]


def of_columns(x):
    return x[:, 0] + x[:, 1]


def of_a_mirrored_image(x):
    y = x[:, ::-1]
    return y[..., 0] + y[..., 1]


def of_parts(x):
    return x[::2, :, 0] + x[::2, :, 1]


def with_a_whole_array(x):
    weights = np.ones(x.shape[:2], x.dtype)
    return x[..., 0] + weights


def of_a_chosen_colour(x):
    number = x.shape[2] - 1
    return x[..., number] + x[..., number]


def of_an_earlier_image(x):
    for number in range(3):
        y = x * (number + 1)
        if number == 0:
            red = y[..., 0]
    return red + red


def of_the_image_before(x):
    y = red = x[..., 0]
    for number in range(3):
        image = x * (number + 1)
        y = red - red * 2
        red = image[..., 0]
    return y


NOT_COLOURED = [
    of_the_image_before,
    of_an_earlier_image,
    cut_first,
    of_two_images,
    of_columns,
    of_a_mirrored_image,
    of_parts,
    with_a_whole_array,
    of_a_chosen_colour,
]


@pytest.mark.parametrize(
    ("function", "dtype"),
    [*itertools.product(COLOURED, [np.uint8, np.float32]), *zip(NOT_COLOURED, itertools.cycle([np.uint8, np.float32]))],
)
def test_colours_are_read_in_their_image(function, dtype, in_an_image):
    """With three colours, with four, and without elements. Others are arrays of their own."""
    compiled = new(function)
    for shape in [(5, 7, 3), (4, 33, 4), (3, 1, 3), (4, 0, 3)]:
        if shape[1] > 1 or function is not of_columns:
            with np.errstate(all="ignore"):
                same(compiled(inputs(dtype, shape)), function(inputs(dtype, shape)))
    assert bool(in_an_image) == (function in COLOURED)


def test_a_colour_that_is_not_there_is_an_error():
    """As in NumPy."""
    for function in (gray, gray_by_slices):
        with pytest.raises(IndexError):
            new(function)(inputs(np.float32, (4, 5, 2)))


def test_colours_of_other_images():
    """With more axes, such as a video, and with two."""

    def of_a_video(x):
        return x[..., 0] * 2 + x[..., 1]

    for shape in [(2, 5, 7, 3), (6, 3)]:
        same(new(of_a_video)(inputs(np.float32, shape)), of_a_video(inputs(np.float32, shape)))


def test_special_numbers_keep_their_bits():
    """NaN with a payload, infinities and negative zero."""
    x = np.array([0x7FC12345, 0xFFC00001, 0x7F800000, 0x80000000, 1, 0x42F00000] * 4, np.uint32).view(np.float32)

    def scaled(x):
        return x[:] * 2 + 1

    same(new(scaled)(x.reshape(4, 6)), scaled(x.reshape(4, 6)))


def test_the_code_is_kept_on_disk(tmp_path, monkeypatch, request):
    """With the loops that it calls: the next program does not compile them."""
    monkeypatch.setenv("PIPEFLOW_CACHE_DIR", str(tmp_path))
    kept_code.folder_for.cache_clear()  # it is chosen once for each process
    request.addfinalizer(kept_code.folder_for.cache_clear)
    x, read = inputs(np.uint8, (5, 7, 3)), []
    for _ in range(2):
        made = cpu.exact_functions.compiled.__wrapped__(counted, True)
        cpu.user_functions.kept_on_disk(made, counted, "of_this_test")
        same(made(x), counted(x))
        read.append(sum(made.stats.cache_hits.values()))
    assert read == [0, 1]
