"""Kernels over bytes against what NumPy moves and computes, at sizes that vectors divide and that they do not."""

import numpy as np
import pytest

from pipeflow import fn, seeds, types
from pipeflow.kernels import cpu as kernels

SIZES = [(1, 1), (1, 2), (2, 6), (3, 5), (4, 4), (6, 6), (9, 7), (5, 23), (40, 57), (3, 600), (600, 3), (395, 9)]


@pytest.mark.parametrize("size", SIZES)
def test_pixels_of_bytes_are_moved_whole(size):
    """Mirrored, turned and with channels in another order, for widths that vectors divide and that they do not."""
    image = np.random.default_rng(sum(size)).integers(0, 256, (*size, 3), dtype=np.uint8)
    np.testing.assert_array_equal(fn.flip(image), image[:, ::-1])
    np.testing.assert_array_equal(fn.flip(image, vertical=True), image[::-1, ::-1])
    np.testing.assert_array_equal(fn.transpose(image, perm=[1, 0, 2]), image.transpose(1, 0, 2))
    for times in range(4):
        np.testing.assert_array_equal(fn.rotate90(image, times=times), np.rot90(image, times))
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        out = np.empty_like(image)
        np.testing.assert_array_equal(kernels.effects.in_order(image, order, out), image[..., order])
    expected = image.copy()
    expected[..., [0, 2]] = 9
    np.testing.assert_array_equal(kernels.effects.filled(image, [2, 0], np.uint8(9), np.empty_like(image)), expected)


@pytest.mark.parametrize("offset", [0, 1, 63])
def test_rows_are_copied_whole_from_any_place_to_any_place(offset):
    """Rows around the lengths of vectors and blocks, at the begin of a line and not; the bytes around them stay."""
    rng = np.random.default_rng(offset)
    for size in (1, 63, 64, 65, 127, 128, 129, 255, 256, 257, 319, 320, 383, 512, 575, 640, 641, 2500):
        data = rng.integers(0, 256, 3 * size + offset, dtype=np.uint8)[offset:]
        memory = np.full(3 * size + 200, 7, np.uint8)
        begin = (-memory.ctypes.data) % 64 + offset
        out = memory[begin : begin + 3 * size]
        kernels.moving.last_row_first(data, size, out)
        np.testing.assert_array_equal(out.reshape(3, size), data.reshape(3, size)[::-1])
        assert (memory[:begin] == 7).all()
        assert (memory[begin + 3 * size :] == 7).all()


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("columns", [80, 85, 86, 107, 150, 300])
def test_windows_of_rows_around_the_long_ones(columns, step):
    """Rows of 240 to 900 bytes, with and without bytes between them, in memory that begins anywhere."""
    image = np.random.default_rng(columns).integers(0, 256, (7, 300, 3), dtype=np.uint8)
    room = np.full(5 * columns * 3 + 130, 7, np.uint8)
    for offset in (0, 1, 63):
        out = room[offset + 1 :][: 5 * columns * 3].reshape(5, columns, 3)
        kernels.moving.cut_pixels(image, 1 if step > 0 else 5, 300 - columns, step, out)
        np.testing.assert_array_equal(out, image[1:6, 300 - columns :][::step])
        assert (room[: offset + 1] == 7).all()
        assert (room[offset + 1 + out.size :] == 7).all()
        room[:] = 7


@pytest.mark.parametrize("upside_down", [False, True])
def test_rows_of_every_width_are_mirrored_and_the_bytes_around_them_stay(upside_down):
    """Widths with and without a whole group of pixels, the same place of one written twice among them."""
    mirror, order = kernels.normalize.mirror_rgb_rows, kernels.normalize.MIRRORED
    for width in (*range(1, 50), 63, 64, 65, 126, 127, 500):
        image = np.random.default_rng(width).integers(0, 256, (3, width, 3), dtype=np.uint8)
        memory = np.full(image.size + 128, 7, np.uint8)
        out = memory[64:-64]
        mirror(image.reshape(-1), 3 * width, upside_down, order, out)
        np.testing.assert_array_equal(out.reshape(image.shape), image[:: -1 if upside_down else 1, ::-1])
        assert (memory[:64] == 7).all()
        assert (memory[-64:] == 7).all()


@pytest.mark.parametrize("size", [1, 31, 32, 33, 63, 64, 65, 255, 2047, 2048, 5003])
def test_a_table_says_what_the_arithmetic_says(size):
    """Bytes looked up, however many, are those that are computed one by one."""
    rng = np.random.default_rng(size)
    data, table = rng.integers(0, 256, size, dtype=np.uint8), rng.integers(0, 256, 256, dtype=np.uint8)
    np.testing.assert_array_equal(kernels.byte_tables.translated(data, table, np.empty_like(data)), table[data])
    for factor, offset in ((1.2, 0.0), (-0.7, 200.25), (3.0, -77.5)):
        exact = np.float32(factor) * data.astype(np.float64) + offset
        got = kernels.color.linear_values(data, factor, offset, np.empty_like(data))
        assert np.abs(got - np.clip(exact, 0, 255)).max() <= 0.5 + 1e-4


@pytest.mark.parametrize(("factor", "offset"), [(1.2, -25.6), (-0.7, 200.25), (0.5, 0.0), (1e38, -3e38), (1e39, 1.0)])
def test_a_factor_and_an_offset_of_bytes_are_rounded_as_their_floats(factor, offset):
    """Any number of bytes becomes the floats that are halves rounded up and saturated; what is no number becomes 0."""
    for size in (1, 31, 32, 33, 63, 64, 65, 300):
        data = np.arange(size).astype(np.uint8)
        memory = np.full(size + 64, 7, np.uint8)
        floats = np.empty(size, np.float32)
        kernels.color.line(data, factor, offset, memory[32:-32])
        kernels.color.line(data, factor, offset, floats)
        expected = np.floor(np.nan_to_num(floats, nan=0.0, posinf=255, neginf=0).clip(0, 255) + np.float32(0.5)).clip(
            0, 255
        )
        np.testing.assert_array_equal(memory[32:-32], expected)
        assert (memory[:32] == 7).all()
        assert (memory[-32:] == 7).all()


def test_grey_of_three_equal_rows():
    """A matrix whose rows are equal makes the three channels alike, as the whole matrix would."""
    image = np.random.default_rng(4).integers(0, 256, (41, 113, 3), dtype=np.uint8)
    row = np.array([0.3, 0.5, 0.25], np.float32)
    out = kernels.color.linear_colors(image, np.tile(row, (3, 1)), np.full(3, 4.0), np.empty_like(image))
    assert (out == out[..., :1]).all()
    assert np.abs(out[..., 0] - np.clip(image @ row.astype(np.float64) + 4, 0, 255)).max() <= 0.5 + 1e-4


@pytest.mark.parametrize("size", [1, 2, 2047, 2048, 2049, 6001])
def test_normal_numbers_are_those_of_the_formula(size):
    """Box and Muller in float64 from the same words; pairs, blocks and what remains of them."""
    key = 0x123456789ABCDEF
    got = kernels.noise.add_gaussian(np.zeros(size, np.float32), key, 0.0, 3.0, np.empty(size, np.float32))
    numbers = np.arange(1, (size + 1) // 2 + 1, dtype=np.uint64)
    words = seeds.mix_array(np.uint64(key) ^ seeds.mix_array(numbers * np.uint64(seeds.GOLDEN)))
    first = ((words >> np.uint64(40)).astype(np.float64) + 0.5) * 2.0**-24
    turn = 2 * np.pi * ((words >> np.uint64(8)) & np.uint64(0xFFFFFF)).astype(np.float64) * 2.0**-24
    radius = 3 * np.sqrt(-2 * np.log(first))
    expected = np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=1).reshape(-1)[:size]
    np.testing.assert_allclose(got, expected, atol=2e-5)


@pytest.mark.parametrize(("low", "high"), [(2, 3), (0, 4), (5, 0), (-1, 2), (-2, -3)])
@pytest.mark.parametrize("fill", [(0.0,), (7.0,)])
def test_a_slice_outside_fills_only_what_is_outside(low, high, fill):
    """Margins on any side of a window that is padded, also where nothing of the data is in it."""
    image = np.random.default_rng(8).integers(10, 256, (6, 9, 3), dtype=np.uint8)
    shape = (6 + low + high, 9 + low + high)
    got = fn.slice(image, start=(-low, -low), shape=shape, axes=(0, 1), out_of_bounds_policy="pad", fill_values=fill)
    expected = np.empty((*shape, 3), np.uint8)
    expected[:] = fill
    for i in range(shape[0]):
        for j in range(shape[1]):
            if 0 <= i - low < 6 and 0 <= j - low < 9:
                expected[i, j] = image[i - low, j - low]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("start", "fill"), [((0, 12), (7.0,)), ((9, 2), (0.0,)), ((-9, -9), (3.0,))])
def test_a_slice_that_has_nothing_of_the_data_is_filled(start, fill):
    """A window before or after the whole image is filled, to the last element."""
    image = np.full((6, 9, 3), 200, np.uint8)
    expected = np.full((2, 5, 3), fill, np.uint8)
    for _ in range(4):  # memory that was used before holds other values
        np.full((2, 5, 3), 99, np.uint8)
        options = {"shape": (2, 5), "axes": (0, 1), "out_of_bounds_policy": "pad", "fill_values": fill}
        np.testing.assert_array_equal(fn.slice(image, start=start, **options), expected)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32])
@pytest.mark.parametrize("fill", [0, 5])
def test_padding_by_rows(dtype, fill):
    """Rows are copied whole where one byte fills the rest, of images and of planes."""
    rng = np.random.default_rng(3)
    for shape in ((4, 5, 3), (4, 5), (1, 1, 2, 3)):
        data = rng.integers(0, 200, shape).astype(dtype)
        got = fn.pad(data, axes=(0, 1), shape=(6, 9), fill_value=fill)
        expected = np.full((6, 9, *shape[2:]), fill, dtype)
        expected[: shape[0], : shape[1]] = data
        np.testing.assert_array_equal(got, expected)


def test_grayscale_is_the_grey_of_color_space_conversion():
    """One channel or three that are equal; floats are not rounded."""
    image = np.random.default_rng(5).integers(0, 256, (31, 150, 3), dtype=np.uint8)
    grey = fn.color_space_conversion(image, image_type=types.RGB, output_type=types.GRAY)
    np.testing.assert_array_equal(fn.grayscale(image, channels=1), grey)
    np.testing.assert_array_equal(fn.grayscale(image), np.repeat(grey, 3, axis=2))
    floats = image.astype(np.float32) / 255
    expected = floats @ np.array([0.299, 0.587, 0.114])
    for channels in (1, 3):
        got = fn.grayscale(floats, channels=channels)
        np.testing.assert_allclose(got, np.repeat(expected[..., None], channels, axis=2), atol=1e-4)
    with pytest.raises(ValueError, match="channels must be 3 or 1, got 2"):
        fn.grayscale(image, channels=2)
    with pytest.raises(ValueError, match="grayscale needs 3 channels, the image has 1"):
        fn.grayscale(grey)


@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.parametrize("shape", [(1, 1, 3), (2, 3, 1), (5, 90, 3), (70, 4, 4), (3, 41, 2)])
def test_medians_of_bytes_by_sorting(size, shape):
    """Small windows are compared in vectors: equal to sorting each window, with the border pixels repeated."""
    rng = np.random.default_rng(9)
    image = rng.integers(0, 256 // int(rng.integers(1, 60)), shape, dtype=np.uint8)
    reach = size // 2
    wide = np.pad(image, ((reach, reach), (reach, reach), (0, 0)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(wide, (size, size), axis=(0, 1))
    expected = np.median(windows.reshape(*shape, -1), axis=-1).astype(np.uint8)
    np.testing.assert_array_equal(fn.median_blur(image, window_size=(size, size)), expected)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("size", [1, 15, 16, 17, 40, 100])
def test_pixels_are_taken_from_their_places(size, kind):
    """Groups with all places in the image, with none, and with some; the last pixel of the image too."""
    rng = np.random.default_rng(size)
    image = rng.integers(0, 256, (7, 9, 3), np.uint8)
    fill = np.array([9, 8, 7], np.uint8)
    for places in (rng.integers(0, 63, size), rng.integers(-1, 63, size), np.full(size, -1), np.full(size, 62)):
        out = np.full(3 * size + 20, 99, np.uint8)
        kernels.moving.take_rgb_bytes(image.reshape(-1), places.astype(kind), fill, out, 0)
        expected = np.where(places[:, None] < 0, fill, image.reshape(-1, 3)[np.maximum(places, 0)])
        np.testing.assert_array_equal(out[: 3 * size].reshape(-1, 3), expected)
        assert (out[3 * size :] == 99).all()


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("number", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 15, 16, 33])
@pytest.mark.parametrize(("height", "width"), [(5, 9), (1, 1), (1, 4), (4, 2), (2, 3)])
def test_places_of_four_pixels(height, width, size, number, kind):
    """The place of the upper left pixel and the weights; positions near a border, far outside and not numbers."""
    channels = 3
    rng = np.random.default_rng(size)
    xs, ys = rng.uniform(-3, width + 2, size).astype(number), rng.uniform(-3, height + 2, size).astype(number)
    special = [0.0, -1.0, -1.5, -0.25, 3.0, 4.0, 5.0, 8.0, 9.0, np.nan, np.inf, -np.inf, 1e30, -1e30]
    for i in range(min(size, len(special)) - 1):
        xs[i], ys[-i] = special[i], special[i]
    places, us, vs = np.empty(size, kind), np.empty(size, np.float32), np.empty(size, np.float32)
    rest = kernels.displacement.linear_places(xs, ys, height, width, channels, places, us, vs)
    last = width - 1 - (4 + 2) // 3  # a blend reads eight bytes from a place
    blended = 0
    for x, y, place, u, v in zip(xs, ys, places, us, vs, strict=True):
        left, top = np.floor(x), np.floor(y)
        if 0 <= left <= last and 0 <= top < height - 1:
            assert place == (top * width + left) * channels
            assert (u, v) == (np.float32(x - left), np.float32(y - top))
            blended += 1
        else:
            assert place == (-1 if -1 <= left < width and -1 <= top < height else -2)
    assert rest == (blended < size)
