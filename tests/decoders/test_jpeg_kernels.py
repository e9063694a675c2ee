"""The JPEG decoder of the kernels against libjpeg-turbo, bit by bit."""

import numba
import numpy as np
import pytest
import simplejpeg
from decoders import checked_jpeg, plain_simd
from decoders.jpeg_files import SAMPLINGS, encoded, photograph, random_coefficients, write

from pipeflow.kernels.cpu import jpeg, jpeg_forward

pytestmark = pytest.mark.timeout(600)  # the first test compiles the decoder

PICTURE = photograph(64, 64)


def stock(data, color="RGB"):
    """What libjpeg-turbo makes of a file; None where it complains."""
    try:
        return simplejpeg.decode_jpeg(data, color)
    except ValueError:
        return None


def ours(data, color="RGB", window=None, checked=None):
    """What the kernels make of a file of which libjpeg-turbo reads the header; None where they leave it to others."""
    height, width, space, _ = simplejpeg.decode_jpeg_header(data, strict=False)
    top, left, rows, columns = window or (0, 0, height, width)
    out = np.zeros((rows, columns, 1 if color == "GRAY" else 3), np.uint8)
    size = (height, width, 1 if space == "Gray" else 3)
    done = jpeg.decode(
        np.frombuffer(data, np.uint8),
        size,
        color,
        (top, left, rows, columns),
        height if checked is None else checked,
        out,
    )
    return out if done else None


def check(data, color="RGB"):
    expected, got = stock(data, color), ours(data, color)
    assert expected is not None
    assert got is not None
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize(("quality", "restart"), [(35, 0), (90, 0), (100, 0), (75, 1), (92, 3)])
def test_every_size_equals_libjpeg_turbo(sampling, quality, restart):
    """All sizes modulo 16 along both axes, three qualities, with and without restart intervals."""
    for height in range(33, 49):
        for width in range(33, 49):
            check(encoded(PICTURE[:height, :width], sampling, quality, restart))


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("color", ["RGB", "BGR", "GRAY"])
def test_every_color_equals_libjpeg_turbo(sampling, color):
    """Red, green and blue in both orders, and luma alone."""
    for height, width in ((64, 64), (47, 61), (16, 33), (9, 17), (8, 8)):
        check(encoded(PICTURE[:height, :width], sampling), color)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_small_images_are_equal_or_left_to_others(sampling):
    """Down to one pixel; libjpeg-turbo does not smooth the chroma of images of up to four columns."""
    for height in range(1, 19):
        for width in range(1, 19):
            data = encoded(PICTURE[:height, :width], sampling)
            got = ours(data)
            if got is None:
                assert width <= 4
                assert sampling in ("4:2:2", "4:2:0")
            else:
                assert np.array_equal(got, stock(data)), (height, width)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_regions_are_cut_from_the_whole(sampling):
    """Windows of all sizes and places, in files with and without restart markers."""
    rng = np.random.default_rng(3)
    picture = photograph(83, 107)
    for restart in (0, 4):
        data = encoded(picture, sampling, 85, restart)
        whole = {color: stock(data, color) for color in ("RGB", "BGR", "GRAY")}
        for i in range(120):
            top, left = int(rng.integers(83)), int(rng.integers(107))
            rows, columns = int(rng.integers(1, 84 - top)), int(rng.integers(1, 108 - left))
            color = ("RGB", "BGR", "GRAY")[i % 3]
            got = ours(data, color, (top, left, rows, columns), checked=0)
            expected = whole[color].reshape(83, 107, -1)[top : top + rows, left : left + columns]
            assert np.array_equal(got, expected), (top, left, rows, columns)


SCANS = {
    "one scan": None, "component by component": [[0], [1], [2]], "luma alone": [[0], [1, 2]],
    "one color later": [[0, 1], [2]],
}  # fmt: skip


@pytest.mark.parametrize(
    ("sampling", "scans"), [(x, y) for x in SAMPLINGS for y in SCANS if x != "gray" or not SCANS[y]]
)
def test_any_codes_scans_and_markers(sampling, scans):
    """Random Huffman codes up to 16 bits, several scans, restarts, fill bytes, factors of 16 bits, trailing garbage."""
    rng = np.random.default_rng(11)
    for i in range(24):
        height, width = (int(x) for x in rng.integers(5, 60, 2))
        factors = rng.integers(1, 40, (2, 64)) + (200 if i % 4 == 3 else 0) * (np.arange(64) > 3)
        data = write(
            height, width, sampling, random_coefficients(height, width, sampling, rng), factors, rng,
            scans=SCANS[scans], restart=(0, 1, 2, 7)[i % 4], extended=i % 2 == 1, fill=i % 3, wide=i % 4 == 3,
            tail=b"garbage \xff\xd8\xff"[: i % 12],
        )  # fmt: skip
        check(data)
        expected = stock(data)
        top, left = height // 3, width // 3
        got = ours(data, window=(top, left, height - top, width // 2), checked=0)
        assert np.array_equal(got, expected[top:, left : left + width // 2])


@pytest.mark.parametrize("largest", [100, 1023, 2047, 16000])
def test_coefficients_that_no_encoder_makes(largest):
    """Sums that overflow 16 bits come out as from libjpeg-turbo's vector code; so do blocks of a first row alone."""
    rng = np.random.default_rng(largest)
    for i in range(12):
        coefficients = random_coefficients(40, 40, "4:4:4", rng, largest, density=(0.02, 0.3, 2.0)[i % 3])
        if i % 4 == 3:  # only the first row of each block, in zigzag order
            row = np.isin(np.arange(64), [0, 1, 5, 6, 14, 15, 27, 28])
            coefficients = [np.where(row, c, 0) for c in coefficients]
        factors = np.full((2, 64), (1, 7, 255)[i // 4])
        check(write(40, 40, "4:4:4", coefficients, factors, rng, extended=True))


def test_what_is_not_decoded_here_is_left_to_others():
    """Progressive files, colours that are not YCbCr, damaged headers and lengths."""
    good = encoded(PICTURE, "4:2:0")
    for bad in (
        good[:-2], good[:-200] + good[-2:], good[:2] + b"\0" + good[2:], good.replace(b"\xff\xc0", b"\xff\xc2"),
        good.replace(b"JFIF\0\1", b"JFIF\0\2"), good[:-2] + b"\0\xff\xd9",
    ):  # fmt: skip
        assert ours(bad) is None
    assert ours(good) is not None


def array(rng, *shape, dtype=np.uint8, low=0, high=256):
    return rng.integers(low, high, shape).astype(dtype)


def vector_cases(rng):
    """(name, arguments) of calls of every vector function; arrays are changed in place."""
    for _ in range(40):
        offset, stride = int(rng.integers(0, 5)), int(rng.integers(8, 30))
        yield "load_big_endian", (array(rng, 40), int(rng.integers(0, 32)))
        yield "trailing_zeros", (np.uint64(int(rng.integers(1 << 62)) << int(rng.integers(66)) & (1 << 64) - 1),)
        source = array(rng, 200)
        source[rng.random(200) < 0.97] = 7
        yield "move_plain_bytes", (source, offset, int(rng.integers(0, 200)), np.zeros(260, np.uint8), 3)
        reach = int(rng.choice([20, 600, 32768]))
        blocks = array(rng, 160, dtype=np.int16, low=-reach, high=reach)
        blocks[rng.random(160) < rng.choice([0.1, 0.9])] = 0
        if rng.random() < 0.3:
            blocks[offset + 8 : offset + 64] = 0
        factors = array(rng, 256, dtype=np.int16, low=1, high=int(rng.choice([3, 256, 32767])))
        planes = np.zeros(800, np.uint8)
        yield "inverse_cosines", (blocks, offset, factors, 64, 192, planes, 5, 400, stride, 8)
        yield "fill_square", (np.uint8(rng.integers(256)), np.zeros(300, np.uint8), offset, stride)
        count = int(rng.choice([0, 1, 2, 15, 16, 17, 31, 32, 33, 70]))
        sums = array(rng, 300, dtype=np.int16, high=1021)
        yield "blend_rows", (array(rng, 300), 9, 110, np.int16(3), np.int16(1), count, np.zeros(100, np.int16), offset)
        yield "quarter_sums", (sums, 2, np.int16(rng.integers(1, 3)), count, np.zeros(100, np.uint8), offset)
        for backwards in (False, True):
            out = np.zeros(500, np.uint8)
            yield "color_row", (array(rng, 90), 3, array(rng, 90), 7, array(rng, 90), 1, backwards, count, out, offset)
            biases = (np.int16(8), np.int16(7)) if backwards else (np.int16(4), np.int16(8))
            yield "color_doubled_row", (array(rng, 200), 3, sums, 5, 120, *biases, backwards, count, out.copy(), offset)
        colors = array(rng, 300) if rng.random() < 0.5 else (rng.random(300) < 0.5).astype(np.uint8) * np.uint8(255)
        rows = [np.zeros(90, np.uint8) for _ in range(3)]
        yield "split_colors", (colors, 4, count, rows[0], 3, rows[1], 2, rows[2], 5)
        yield "halve_rows", (array(rng, 500), 3, 190, count - count % 2, np.zeros(100, np.uint8), offset)
        square = array(rng, 500) if rng.random() < 0.5 else (rng.random(500) < 0.5).astype(np.uint8) * np.uint8(255)
        tables = jpeg_forward.quantisation(int(rng.integers(1, 101)))
        yield "forward_cosines", (square, 7, 150, stride, tables, 64, np.zeros(140, np.int16), offset)
        yield "copy_row", (array(rng, 90), 3, count, np.zeros(90, np.uint8), offset)
        yield "repeat_gray", (array(rng, 90), 3, count, np.zeros(300, np.uint8), offset)


# Every vector function that the kernels of JPEG call, by its name.
VECTOR_FUNCTIONS = {
    name: value
    for module in checked_jpeg.KERNELS
    for name, value in vars(module).items()
    if type(value).__name__ == "_Intrinsic"
}


def calling(name):
    """A compiled function that does nothing but call a vector function."""
    function = VECTOR_FUNCTIONS[name]
    count = {n: len(a) for n, a in vector_cases(np.random.default_rng(0))}[name]
    names = ", ".join(f"a{i}" for i in range(count))
    scope = {"function": function}
    exec(f"def call({names}):\n    return function({names})", scope)
    return numba.njit(scope["call"])


@pytest.mark.parametrize("name", VECTOR_FUNCTIONS)
def test_vector_functions_equal_their_plain_twins(name):
    """Every element and nothing else is written alike, whatever the extents and the values are."""
    vector, plain = calling(name), getattr(plain_simd, name)
    for case, arguments in vector_cases(np.random.default_rng(5)):
        if case != name:
            continue
        copies = [tuple(x.copy() if isinstance(x, np.ndarray) else x for x in arguments) for _ in range(2)]
        results = [function(*copy) for function, copy in zip((vector, plain), copies, strict=True)]
        assert results[0] == results[1]
        if name == "move_plain_bytes":  # the bytes after the moved ones may be anything
            for copy in copies:
                copy[3][3 + results[0] :] = 0
        for a, b in zip(*copies, strict=True):
            assert np.array_equal(a, b)
