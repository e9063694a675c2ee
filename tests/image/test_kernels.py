"""The image kernels against formulas written out in NumPy, and against libraries that agree by definition."""

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from pipeflow.kernels.cpu import casting, color, enlarging, filters, fused, normalize, resample, warp
from pipeflow.kernels.cpu.simd import near

RNG = np.random.default_rng(7)
FILTERS = {"linear": 1, "cubic": 2, "lanczos3": 3, "triangular": 4, "gaussian": 5}


def image(*shape, dtype=np.uint8):
    """Seeded noise over the type's range."""
    if np.dtype(dtype).kind == "f":
        return RNG.uniform(-50, 300, shape).astype(dtype)
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


def rounded(values, dtype):
    """Half away from zero, saturated."""
    if np.dtype(dtype).kind == "f":
        return values.astype(dtype)
    info = np.iinfo(dtype)
    return np.clip(np.trunc(values + np.copysign(0.5, values)), info.min, info.max).astype(dtype)


def weight(kind, x):
    """The five filters by their definitions."""
    x = abs(x)
    if kind == "cubic":
        return 1.5 * x**3 - 2.5 * x**2 + 1 if x <= 1 else -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2 if x < 2 else 0
    if kind == "lanczos3":
        return np.sinc(x) * np.sinc(x / 3) if x < 3 else 0
    if kind == "gaussian":
        return np.exp(-4 * x * x) if x < 1 else 0
    return max(0, 1 - x)


def matrix(size, low, high, full, kind, antialias):
    """The resampling of one axis as a dense matrix."""
    scale = (high - low) / full
    widen = max(1, abs(scale)) if antialias else 1
    result = np.zeros((full, size))
    for o in range(full):
        centre = low + (o + 0.5) * scale - 0.5
        reach = range(int(centre - 4 * widen) - 2, int(centre + 4 * widen) + 3)
        weights = {p: weight(kind, (p - centre) / widen) for p in reach}
        for p, w in weights.items():
            result[o, min(max(p, 0), size - 1)] += w / sum(weights.values())
    return result


def resized(source, height, width, kind, antialias, dtype):
    """Our kernels on a whole image."""
    tables = [
        resample.axis_taps(source.shape[axis], 0, source.shape[axis], size, FILTERS[kind], antialias)
        for axis, size in enumerate((height, width))
    ]
    out = np.empty((height, width, source.shape[2]), dtype)
    return resample.resample_any(source, 0, tables, out)


@pytest.mark.parametrize("kind", FILTERS)
@pytest.mark.parametrize("antialias", [False, True])
def test_resampling_is_the_product_with_two_dense_matrices(kind, antialias):
    """Every filter, shrinking one axis and stretching the other, equals the float64 definition within
    rounding."""
    source = image(37, 23, 3)
    rows, columns = matrix(37, 0, 37, 16, kind, antialias), matrix(23, 0, 23, 40, kind, antialias)
    exact = np.einsum("ai,bj,ijc->abc", rows, columns, source)
    assert np.abs(resized(source, 16, 40, kind, antialias, np.float32) - exact).max() < 2e-3
    difference = resized(source, 16, 40, kind, antialias, np.uint8).astype(int) - rounded(exact, np.uint8)
    assert np.abs(difference).max() <= 1
    assert (difference != 0).mean() < 2e-3


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("source_type", [np.uint8, np.int16, np.uint16, np.float32])
def test_any_channels_and_types_resample_alike(channels, source_type):
    """Channel counts around the register width and all input types give the definition's result in two
    output types."""
    source = image(30, 33, channels, dtype=source_type)
    rows, columns = matrix(30, 0, 30, 13, "linear", True), matrix(33, 0, 33, 19, "linear", True)
    exact = np.einsum("ai,bj,ijc->abc", rows, columns, source.astype(np.float64))
    scale = np.abs(exact).max()
    assert np.abs(resized(source, 13, 19, "linear", True, np.float32) - exact).max() < 1e-6 * scale + 1e-3
    same = resized(source, 13, 19, "linear", True, source_type).astype(np.float64)
    assert np.abs(same - rounded(exact, source_type)).max() <= 1


def test_tiny_images_and_single_pixels_resample():
    """Images smaller than any register, down to one pixel, read nothing beyond their memory and keep
    constants."""
    for height, width in ((1, 1), (1, 7), (7, 1), (2, 3)):
        for channels in (1, 3):
            constant = np.full((height, width, channels), 91, np.uint8)
            for kind in FILTERS:
                assert (resized(constant, 5, 4, kind, True, np.uint8) == 91).all()


@pytest.mark.skipif(not near.can_choose(), reason="this processor does not choose 16 of 32 numbers in one step")
def test_images_that_become_larger_are_the_same_both_ways():
    """Sixteen results at a time have the bits of the other kernel, for all channels, small images and mirrored ones."""
    used = 0
    for _ in range(150):
        channels, kind = int(RNG.integers(1, 5)), int(RNG.integers(1, 3))
        (h, w), (tall, wide) = RNG.integers(1, 60, 2).tolist(), RNG.integers(1, 90, 2).tolist()
        given = image(h, w, channels)
        y = resample.axis_taps(h, 0.0, h, tall, kind, True)
        x = resample.axis_taps(w, 0.0, w, wide, kind, False, mirror=bool(RNG.integers(2)))
        got, expected = np.empty((2, tall, wide * channels), np.uint8)
        if not enlarging.fits(given, y, x, got.reshape(tall, wide, channels)):
            continue
        rows = given.reshape(h, w * channels)
        used += enlarging.resample_near(rows, channels, y, x, got)
        if channels == 1:
            resample.resample_plane(rows, y, x, expected)
        else:
            resample.resample(rows, channels, y, x, expected)
        np.testing.assert_array_equal(got, expected)
    assert used > 50


def test_a_region_reads_its_surroundings_and_mirrors_when_reversed():
    """A region's filter uses the image's own pixels outside it; a reversed region is the mirrored result."""
    source = image(40, 9, 1)
    dense = matrix(40, 12.5, 30.25, 6, "linear", True)
    start, weights = resample.axis_taps(40, 12.5, 30.25, 6, 1, True)
    spread = np.zeros((6, 40))
    for o in range(6):
        spread[o, start[o] : start[o] + weights.shape[1]] = weights[o]
    assert np.abs(spread - dense).max() < 1e-6
    other = resample.axis_taps(40, 30.25, 12.5, 6, 1, True)
    columns = resample.axis_taps(9, 0, 9, 9, 1, True)
    forward, backward = np.empty((6, 9, 1), np.float32), np.empty((6, 9, 1), np.float32)
    resample.resample_image(source, (start, weights), columns, forward)
    resample.resample_image(source, other, columns, backward)
    assert np.allclose(forward[::-1], backward, atol=1e-3)


def test_windows_of_the_output_grid_are_cut_from_the_whole():
    """`first` and `count` give exactly the rows of the full table, so a fused crop changes no weight."""
    start, weights = resample.axis_taps(50, 0, 50, 31, 1, True)
    part_start, part_weights = resample.axis_taps(50, 0, 50, 31, 1, True, 7, 11)
    dense, part = np.zeros((31, 60), np.float32), np.zeros((11, 60), np.float32)
    for o in range(31):
        dense[o, start[o] : start[o] + weights.shape[1]] = weights[o]
    for o in range(11):
        part[o, part_start[o] : part_start[o] + part_weights.shape[1]] = part_weights[o]
    assert (dense[7:18] == part).all()


def test_nearest_neighbour_takes_the_pixel_under_the_centre():
    """Output o takes input floor((o + 0.5) * scale), for every element type and without arithmetic."""
    for dtype in (np.uint8, np.float16, np.int64, np.float64):
        source = image(11, 14, 2, dtype=dtype)
        tables = [resample.axis_taps(n, 0, n, m, 0, True) for n, m in ((11, 5), (14, 20))]
        out = np.empty((5, 20, 2), dtype)
        resample.resample_any(source, 0, tables, out)
        rows = np.floor((np.arange(5) + 0.5) * 11 / 5).astype(int)
        columns = np.floor((np.arange(20) + 0.5) * 14 / 20).astype(int)
        assert (out == source[rows][:, columns]).all()


def test_pillow_agrees_away_from_the_border():
    """Pillow's bilinear filter is the same triangle with 8-bit weights; it cuts the filter at the border
    instead of clamping."""
    source = image(90, 120, 3)
    ours = resized(source, 40, 50, "linear", True, np.uint8).astype(int)
    theirs = np.asarray(Image.fromarray(source).resize((50, 40), Image.Resampling.BILINEAR)).astype(int)
    assert np.abs(ours - theirs)[2:-2, 2:-2].max() <= 1


def test_volumes_resample_along_three_axes():
    """Depth, height and width each get their own filter, with one rounding at the end."""
    source = image(9, 12, 15, 2)
    matrices = [matrix(n, 0, n, m, "linear", True) for n, m in ((9, 4), (12, 20), (15, 7))]
    exact = np.einsum("ai,bj,ck,ijkd->abcd", *matrices, source.astype(np.float64))
    tables = [resample.axis_taps(n, 0, n, m, 1, True) for n, m in ((9, 4), (12, 20), (15, 7))]
    out = np.empty((4, 20, 7, 2), np.uint8)
    resample.resample_any(source, 0, tables, out)
    assert np.abs(out.astype(int) - rounded(exact, np.uint8)).max() <= 1


TYPES = [
    np.uint8,
    np.int8,
    np.uint16,
    np.int16,
    np.uint32,
    np.int32,
    np.uint64,
    np.int64,
    np.float16,
    np.float32,
    np.float64,
    np.bool_,
]


@pytest.mark.parametrize("source_type", [np.uint8, np.int64, np.uint64, np.float16, np.float32, np.float64, np.bool_])
@pytest.mark.parametrize("target", TYPES)
def test_casting_rounds_half_away_and_saturates(source_type, target):
    """Each pair of types converts as exact arithmetic with rounding half away from zero and saturation
    would."""
    kind = np.dtype(source_type)
    if kind.kind == "f":
        values = np.array([0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, 255.5, -128.5, 3e4, -7e4, 1e10, -1e10, 1e30])
        values = values[np.abs(values) < np.finfo(kind).max].astype(kind)
    elif kind.kind == "b":
        values = np.array([False, True])
    else:
        info = np.iinfo(kind)
        values = np.array([info.min, info.max, 0, 1, 127, min(200, info.max)], kind)
    got = casting.as_type(values, np.dtype(target))
    for value, result in zip(values.tolist(), got.tolist(), strict=True):
        if target is np.bool_:
            assert result == (value != 0)
        elif np.dtype(target).kind == "f":
            with np.errstate(over="ignore"):
                assert result == float(np.dtype(target).type(np.float32(value) if target is np.float16 else value))
        else:
            whole = int(value) if kind.kind != "f" else int(abs(value) + 0.5 if abs(value) < 2**52 else abs(value))
            if kind.kind == "f":
                whole = -whole if value < 0 else whole
                if abs(value) == np.float32(0.49999997):
                    # adding one half in float32 carries this one number over; DALI's roundf does not
                    continue
            info = np.iinfo(target)
            if abs(whole) < 2**53 or kind.kind != "f":
                assert result == min(max(whole, info.min), info.max), (value, result)
            else:
                assert result == (info.max if value > 0 else info.min)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8, np.int8, np.int16, np.float64])
@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("mirror", [False, True])
def test_normalising_a_window_equals_the_formula(dtype, channels, mirror):
    """Every layout pair and output type is (x - mean) * scale + shift of the window in float32, then
    rounded."""
    source = image(20, 40, channels)
    mean = np.linspace(50, 90, channels).astype(np.float32)
    scale = np.linspace(0.5, 1.5, channels).astype(np.float32)
    window = source[3:15, 5:37].astype(np.float32)
    if mirror:
        window = window[:, ::-1]
    exact = rounded((window - mean) * scale, dtype)
    for channel_first in (False, True):
        given = np.ascontiguousarray(source.transpose(2, 0, 1)) if channel_first else source
        for out_first in (False, True):
            out = np.empty((channels, 12, 32) if out_first else (12, 32, channels), dtype)
            normalize.normalize_window(given, channel_first, 3, 5, mirror, mean, scale, 0.0, out, out_first)
            wanted = exact.transpose(2, 0, 1) if out_first else exact
            assert (out == wanted).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8])
@pytest.mark.parametrize("channel_first", [False, True])
@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("width", [7, 33])
def test_fused_resize_and_normalise_is_bitwise_the_chain(dtype, channel_first, mirror, width):
    """Resizing to bytes and normalising in one kernel gives the very bits of the two kernels one after the
    other."""
    source = image(50, 60, 3)
    mean, scale = np.array([120, 110, 100], np.float32), np.array([0.02, 0.03, 0.04], np.float32)
    y = resample.axis_taps(50, 4.5, 41, 29, 1, True, 3, 21)
    x = resample.axis_taps(60, 0, 60, 45, 1, True, 5, width)
    small = np.empty((21, width, 3), np.uint8)
    resample.resample_image(source, y, x, small)
    shape = (3, 21, width) if channel_first else (21, width, 3)
    chain, one = np.empty(shape, dtype), np.empty(shape, dtype)
    normalize.normalize_window(small, False, 0, 0, mirror, mean, scale, 0.25, chain, channel_first)
    if mirror:
        x = (x[0][::-1].copy(), x[1][::-1].copy())
    fused.resample_normalize(source, y, x, mean, scale, 0.25, True, one, channel_first)
    assert (one == chain).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int16, np.float16])
def test_colours_mix_by_the_matrix(dtype):
    """Three channels through a matrix and an offset equal float64 arithmetic within one rounding step."""
    source = image(9, 21, 3)
    weights, offset = RNG.normal(size=(3, 3)), RNG.normal(size=3) * 20
    out = np.empty(source.shape, dtype)
    color.linear_colors(source, weights, offset, out)
    exact = source @ weights.T + offset
    tolerance = 1 if np.dtype(dtype).kind != "f" else 2e-3 * np.abs(exact).max()
    assert np.abs(out.astype(np.float64) - rounded(exact, dtype)).max() <= tolerance
    grey = np.empty((9, 21, 1), dtype)
    color.linear_colors(source, weights[0], offset[:1], grey)
    assert np.abs(grey[..., 0].astype(np.float64) - rounded(exact[..., 0], dtype)).max() <= tolerance


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.float16, np.float64])
def test_a_line_over_values_rounds_once(dtype):
    """source * factor + offset is exact where float64 is, then rounded half away and saturated."""
    source = image(5, 8, 3, dtype=dtype)
    out = np.empty(source.shape, dtype)
    color.linear_values(source, 0.75, 12.5, out)
    exact = source.astype(np.float64) * 0.75 + 12.5
    if np.dtype(dtype).kind == "f":
        assert np.allclose(out, exact, rtol=1e-3)
    else:
        assert np.abs(out.astype(np.float64) - rounded(exact, dtype)).max() <= (dtype is not np.int32)


@pytest.mark.parametrize("size", [3, 7, 15])
@pytest.mark.parametrize("shape", [(20, 31, 3), (4, 5, 1), (1, 9, 3)])
def test_separable_filters_agree_with_scipy(size, shape):
    """Correlation with mirrored borders, also where the window is wider than the image, is scipy's mode
    'mirror'."""
    source = image(*shape)
    window = filters.gaussian_window(size, size / 4)
    out = np.empty(source.shape, np.float32)
    filters.filter_separable(source, [window, window], out)
    exact = source.astype(np.float64)
    for axis in (0, 1):
        exact = ndimage.correlate1d(exact, window.astype(np.float64), axis, mode="mirror")
    assert np.abs(out - exact).max() < 1e-3


def test_volumes_filter_along_three_axes():
    """A volume with one window an axis is scipy's three passes."""
    source = image(6, 7, 8, 2)
    windows = [filters.gaussian_window(size, 1.0) for size in (3, 5, 7)]
    out = np.empty(source.shape, np.float32)
    filters.filter_separable(source, windows, out)
    exact = source.astype(np.float64)
    for axis, window in enumerate(windows):
        exact = ndimage.correlate1d(exact, window.astype(np.float64), axis, mode="mirror")
    assert np.abs(out - exact).max() < 1e-3


def looked_up(source, transform, fill, height, width):
    """A bilinear warp pixel by pixel."""
    out = np.empty((height, width, source.shape[2]))
    for i in range(height):
        for j in range(width):
            x, y = transform @ (j + 0.5, i + 0.5, 1) - 0.5
            p, q = int(np.floor(x)), int(np.floor(y))
            total = 0
            for yy, wy in ((q, 1 - (y - q)), (q + 1, y - q)):
                for xx, wx in ((p, 1 - (x - p)), (p + 1, x - p)):
                    if fill is None:
                        value = source[min(max(yy, 0), source.shape[0] - 1), min(max(xx, 0), source.shape[1] - 1)]
                    else:
                        inside = 0 <= yy < source.shape[0] and 0 <= xx < source.shape[1]
                        value = source[yy, xx] if inside else fill
                    total = (
                        total + wy * wx * value.astype(float) if hasattr(value, "astype") else total + wy * wx * value
                    )
            out[i, j] = total
    return out


@pytest.mark.parametrize("fill", [None, 17.0])
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_warps_interpolate_with_the_border(fill, channels):
    """Bilinear warps equal the pixel-by-pixel definition inside, across the border and beyond it."""
    source = image(12, 15, channels)
    transform = np.array([[0.8, 0.3, -2.2], [-0.25, 0.9, 1.7]])
    out = np.empty((14, 17, channels), np.float32)
    warp.warp(source, transform, fill, False, out)
    assert np.abs(out - looked_up(source, transform, fill, 14, 17)).max() < 0.01


def test_a_warp_that_shifts_by_whole_pixels_copies():
    """A translation by integers moves pixels unchanged in both interpolations, in images and in volumes."""
    source = image(8, 9, 3)
    shift = np.array([[1, 0, 2], [0, 1, -1.0]])
    for nearest in (False, True):
        out = np.empty_like(source)
        warp.warp(source, shift, 5, nearest, out)
        assert (out[1:, :7] == source[:-1, 2:]).all()
        assert (out[0] == 5).all()
        assert (out[:, 7:] == 5).all()
    volume = image(4, 5, 6, 2)
    move = np.array([[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, -1.0]])
    for nearest in (False, True):
        out = np.empty_like(volume)
        warp.warp(volume, move, 0, nearest, out)
        assert (out[1:, :, :5] == volume[:-1, :, 1:]).all()


EXACT = {  # their positions have no rounding, so each pixel can be found by itself
    "turned": [[0, 1, 0], [1, 0, 0]],
    "half": [[0.5, 0, 3], [0, 0.5, -2]],
    "mirrored": [[-1, 0, 90], [0, -1, 80]],
    "through the last pixel": [[0.5, 0, 45], [-0.5, 1, 79]],
    "into the corner": [[1, 0, 0], [0.5, 1, 0]],
    "one column": [[0, 0, 89.5], [1, 0, 0]],
    "far away": [[1, 0, 1e30], [0, 1, 0]],
    "no number": [[1, 0, np.nan], [0, 1, 0]],
    "nearly a row": [[1, 0, 0], [1e-9, 0, 79.5]],
}


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("channels", [1, 3])
def test_nearest_pixels_of_long_rows_are_those_of_each_pixel(name, dtype, channels):
    """Rows of which a part is in the image, and not checked pixel by pixel, with the fill value around it."""
    source, out = image(80, 90, channels).astype(dtype), np.empty((100, 200, channels), dtype)
    transform = np.array(EXACT[name], np.float64)
    warp.warp(source, transform, 7, True, out)
    rows, columns = np.mgrid[:100, :200] + 0.5
    x, y = (np.floor(a * columns + b * rows + c) for a, b, c in transform)
    inside = (x >= 0) & (y >= 0) & (x < 90) & (y < 80)
    wanted = np.full_like(out, 7)
    wanted[inside] = source[y[inside].astype(int), x[inside].astype(int)]
    assert (out == wanted).all()


def test_read_only_and_strided_inputs_are_taken_as_they_are():
    """A read-only or non-contiguous image gives the result of its plain copy and is left unchanged."""
    source = image(24, 26, 3)
    wanted = resized(source[::2, 1:], 9, 8, "linear", True, np.uint8)
    view = source[::2, 1:]
    view.flags.writeable = False
    assert (resized(view, 9, 8, "linear", True, np.uint8) == wanted).all()
    fixed = source.copy()
    fixed.flags.writeable = False
    assert (resized(fixed, 9, 8, "linear", True, np.uint8) == resized(source, 9, 8, "linear", True, np.uint8)).all()
    assert (fixed == source).all()
