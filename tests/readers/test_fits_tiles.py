"""Compressed images in FITS files, written here as the standard says; and damaged ones."""

import itertools
import zlib

import numpy as np
import pytest
from test_fits import BITS, MOVED, write
from test_fits import unit as plain_unit

from pipeflow.errors import BadData
from pipeflow.operators.readers import fits_tiles
from pipeflow.operators.readers.fits import FitsReader

CODES = {1: (3, 6), 2: (4, 14), 4: (5, 25)}  # bits of the number before a block, and the most low bits


def rice(values, block=32):
    """The bits of Rice coding: for every block the shortest of its forms."""
    width = values.dtype.itemsize
    code_bits, most = CODES[width]
    numbers = [int(x) % 2 ** (8 * width) for x in values]
    text = f"{numbers[0]:0{8 * width}b}"
    last = numbers[0]
    for first in range(0, len(numbers), block):
        folded = []
        for number in numbers[first : first + block]:
            difference = (number - last + 2 ** (8 * width - 1)) % 2 ** (8 * width) - 2 ** (8 * width - 1)
            folded.append(2 * difference if difference >= 0 else -2 * difference - 1)
            last = number
        forms = [f"{most + 1:0{code_bits}b}" + "".join(f"{x:0{8 * width}b}" for x in folded)]
        if not any(folded):
            forms.append("0" * code_bits)
        for low in range(most):
            if sum(x >> low for x in folded) < 4 * len(forms[0]):
                ends = [f"{x % 2**low:0{low}b}" if low else "" for x in folded]
                forms.append(
                    f"{low + 1:0{code_bits}b}" + "".join("0" * (x >> low) + "1" + end for x, end in zip(folded, ends))
                )
        text += min(forms, key=len)
    return int(text.ljust(-(-len(text) // 8) * 8, "0"), 2).to_bytes(-(-len(text) // 8), "big")


def plio(values):
    """Instructions for runs of equal numbers: "the number is", "so many of it", "so many zeros"."""
    words = []
    for value, run in itertools.groupby(int(x) for x in values.ravel()):
        count = len(list(run))
        if value:
            words += [1 << 12 | value & 0xFFF, value >> 12]
        while count:
            words.append((4 if value else 0) << 12 | min(count, 4095))
            count -= min(count, 4095)
    size = len(words) + 7
    return np.array([0, 7, 2**16 - 100, size & 0x7FFF, size >> 15, 0, 0, *words], np.uint16).astype(">u2").tobytes()


GROUPS = {
    "000": 1, "001": 2, "010": 4, "011": 8, "1000": 3, "1001": 5, "1010": 10, "1011": 12, "1100": 15,
    "11010": 6, "11011": 7, "11100": 9, "11101": 11, "11110": 13, "111110": 0, "111111": 14,
}  # fmt: skip
CODE_OF = {group: code for code, group in GROUPS.items()}


def transformed(pixels):
    """Squares of four become their sum and three differences, level by level; the lowest bits of all but one are left out."""
    numbers = pixels.astype(np.int64)
    (height, width), level = pixels.shape, 0
    while max(height, width) > 1:
        unit = 2 ** (level + 1)
        part = np.pad(numbers[:height, :width], ((0, height % 2), (0, width % 2)), mode="edge")
        corners = part[::2, ::2], part[::2, 1::2], part[1::2, ::2], part[1::2, 1::2]
        signs = (1, 1, 1, 1), (-1, 1, -1, 1), (-1, -1, 1, 1), (1, -1, -1, 1)
        made = [sum(sign * corner for sign, corner in zip(row, corners)) >> min(level, 1) for row in signs]
        for number, least in ((0, 2 * unit), (1, unit), (2, unit)):  # rounded, halves away from zero
            half = least // 2
            made[number] = (made[number] + np.where(made[number] >= 0, half, half - 1)) & -least
        upper, before = -(-height // 2), -(-width // 2)
        numbers[:upper, :before], numbers[:upper, before:width] = made[0], made[1][:, : width - before]
        numbers[upper:height, :before] = made[2][: height - upper]
        numbers[upper:height, before:width] = made[3][: height - upper, : width - before]
        height, width, level = upper, before, level + 1
    return numbers


def planes_of(numbers):
    """The bits of a quarter, from the highest plane down: in turn as a tree and as they are."""
    count = int(np.abs(numbers).max(initial=0)).bit_length()
    text = ""
    for plane in reversed(range(count)):
        levels = [(np.abs(numbers) >> plane) & 1]
        groups = []
        while not groups or groups[-1].size > 1:
            bits = np.pad(levels[-1], ((0, levels[-1].shape[0] % 2), (0, levels[-1].shape[1] % 2)))
            groups.append(8 * bits[::2, ::2] + 4 * bits[::2, 1::2] + 2 * bits[1::2, ::2] + bits[1::2, 1::2])
            levels.append((groups[-1] > 0).astype(int))
        if plane % 2:
            text += "0000" + "".join(f"{group:04b}" for group in groups[0].ravel())
            continue
        text += "1111" + CODE_OF[int(groups[-1].item())]
        for level in groups[-2::-1]:
            text += "".join(CODE_OF[int(group)] for group in level.ravel()[::-1] if group)
    return count, text


def hcompressed(tile):
    """The transform of a tile, of at least four by four pixels."""
    pixels = tile.reshape(-1, tile.shape[-1])
    numbers = transformed(pixels)
    total, numbers[0, 0] = int(numbers[0, 0]), 0
    upper, before = (-(-extent // 2) for extent in pixels.shape)
    parts = [numbers[:upper, :before], numbers[:upper, before:], numbers[upper:, :before], numbers[upper:, before:]]
    counts = [planes_of(part)[0] for part in parts]
    kinds = [counts[0], max(counts[1:3]), counts[3]]
    text = ""
    for part, kind in zip(parts, (0, 1, 1, 2)):
        count, planes = planes_of(part)
        text += ("0000" + "0" * 4 * (-(-part.shape[0] // 2) * -(-part.shape[1] // 2))) * (kinds[kind] - count) + planes
    text += "0000"
    text += "0" * (-len(text) % 8) + "".join("01"[number < 0] for number in numbers.ravel().tolist() if number)
    text += "0" * (-len(text) % 8)
    header = b"\xdd\x99" + b"".join(number.to_bytes(4, "big") for number in (*pixels.shape, 0))
    return header + total.to_bytes(8, "big", signed=True) + bytes(kinds) + int(text, 2).to_bytes(len(text) // 8, "big")


def shuffled(values):
    return values.view(np.uint8).reshape(-1, values.dtype.itemsize).T.tobytes()


def gzipped(content):
    made = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    return made.compress(content) + made.flush()


ALGORITHMS = {
    "RICE_1": lambda tile: rice(tile.ravel()),
    "GZIP_1": lambda tile: gzipped(tile.tobytes()),
    "GZIP_2": lambda tile: gzipped(shuffled(tile)),
    "PLIO_1": plio,
    "HCOMPRESS_1": hcompressed,
    "NOCOMPRESS": lambda tile: tile.tobytes(),
}


NARROW, WIDE = ["u1", "i1", "i2", "u2", "i4", "u4"], ["i8", "u8", "f4", "f8"]


def tiles_of(array, tile):
    """The tiles of an array; the last axis varies fastest."""
    places = [range(0, extent, size) for extent, size in zip(array.shape, tile)]
    for corner in itertools.product(*places):
        yield np.ascontiguousarray(array[tuple(slice(at, at + size) for at, size in zip(corner, tile))])


def unit(array, algorithm, tile=None, stored=None, columns=(), pointer="P", left_over=(), gap=0, **cards):
    """A table with an image: ``stored`` are the numbers that are compressed, ``columns`` more columns of single numbers."""
    code = array.dtype.str[1:]
    if code in MOVED:
        code, zero = MOVED[code]
        cards = {"BZERO": zero, "BSCALE": 1, **cards}
        array = (array.astype(object) - zero).astype(code)
    stored = array if stored is None else stored
    tile = tile or (1,) * (array.ndim - 1) + array.shape[-1:]
    heap, rows = b"", []
    pointers = np.dtype(">i4" if pointer == "P" else ">i8")
    element = 2 if algorithm == "PLIO_1" else 1
    for number, (part, whole) in enumerate(zip(tiles_of(stored, tile), tiles_of(array, tile))):
        row, content = (
            b"",
            ALGORITHMS[algorithm](part.astype(part.dtype.newbyteorder(">")) if algorithm != "RICE_1" else part),
        )
        other = whole.astype(whole.dtype.newbyteorder(">")).tobytes()
        contents = [b"" if number in left_over else content, b"", b""]
        if number in left_over:
            contents[1 + number % 2] = other if number % 2 else gzipped(other)
        for place, content in enumerate(contents):
            row += np.array([len(content) // (1 if place else element), len(heap)], pointers).tobytes()
            heap += content
        rows.append(row + b"".join(np.array(values[number], form).tobytes() for _, form, values in columns))
    names = ["COMPRESSED_DATA", "GZIP_COMPRESSED_DATA", "UNCOMPRESSED_DATA", *(name for name, _, _ in columns)]
    forms = [f"1{pointer}{'I' if element == 2 else 'B'}(99)", f"1{pointer}B", f"{pointer}B"]
    forms += [{">f8": "1D", ">f4": "E", ">i4": "1J"}[form] for _, form, _ in columns]
    described = {"ZIMAGE": "T", "ZCMPTYPE": f"'{algorithm}'", "ZBITPIX": BITS[code], "ZNAXIS": array.ndim}
    described |= {f"ZNAXIS{axis}": extent for axis, extent in enumerate(array.shape[::-1], 1)}
    described |= {f"ZTILE{axis}": size for axis, size in enumerate(tile[::-1], 1)}
    if algorithm == "RICE_1":
        described |= {"ZNAME1": "'BLOCKSIZE'", "ZVAL1": 32, "ZNAME2": "'BYTEPIX'", "ZVAL2": stored.dtype.itemsize}
    fields = {f"TTYPE{n}": f"'{name}'" for n, name in enumerate(names, 1)}
    fields |= {f"TFORM{n}": f"'{form}'" for n, form in enumerate(forms, 1)}
    table = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), -1)
    sized = {"PCOUNT": gap + len(heap), "TFIELDS": len(names), **({"THEAP": table.nbytes + gap} if gap else {})}
    header = plain_unit(table, **{"XTENSION": "'BINTABLE'", **sized, **fields, **described, **cards})
    data = table.tobytes() + bytes(gap) + heap
    return header[: -(-table.nbytes // 2880) * -2880] + data.ljust(-(-len(data) // 2880) * 2880, b"\0")


def read(folder, content, **how):
    return FitsReader(files=[write(folder, plain_unit(None, first=True), content)], **how).fetch(0)[0]


def picture(code, shape, seed=0):
    """Smooth data with a flat part, jumps, and the least and the largest number."""
    rng = np.random.default_rng(seed)
    if code[0] == "f":
        return rng.normal(100, 5, shape).astype(code)
    limits = np.iinfo(code)
    middle = int(limits.max // 2 + limits.min // 2)
    data = np.clip(rng.normal(0, 4, shape), -20, 20).astype(np.int64)
    made = (data.astype(object) + middle).astype(code)
    flat = made.reshape(-1)
    flat[40:90] = flat[40]
    flat[3], flat[7] = limits.min, limits.max
    flat[-35:] = rng.integers(limits.min, limits.max, 35, code, endpoint=True)
    return made


def test_transformed_tiles(tmp_path):
    """HCOMPRESS: every type, extents that are no powers of two, and numbers that were divided by a scale."""
    for code, (shape, tile) in itertools.product(
        NARROW, {(4, 31): (4, 9), (23, 30): (23, 30), (3, 9, 17): (1, 9, 17)}.items()
    ):
        array = picture(code, shape)
        np.testing.assert_array_equal(read(tmp_path, unit(array, "HCOMPRESS_1", tile)), array)
    empty = np.zeros((1500, 1500), np.int32)
    np.testing.assert_array_equal(read(tmp_path, unit(empty, "HCOMPRESS_1", empty.shape)), empty)
    content = unit(np.full((8, 8), 24, np.int32), "HCOMPRESS_1", (8, 8))
    mark = content.index(b"\xdd\x99")
    scaled = content[: mark + 10] + (3).to_bytes(4, "big") + content[mark + 14 :]
    np.testing.assert_array_equal(read(tmp_path, scaled), np.full((8, 8), 72))
    with pytest.raises(BadData, match="tile 1 is to be smoothed after decompression, which is not done"):
        read(tmp_path, unit(np.zeros((8, 8), np.int32), "HCOMPRESS_1", (8, 8), ZNAME1="'SMOOTH'", ZVAL1=1))


SHAPES = {(150,): (40,), (23, 31): (5, 31), (3, 20, 33): (2, 7, 10)}


@pytest.mark.parametrize(
    ("algorithm", "code"),
    [
        *itertools.product(["RICE_1"], NARROW),  # there is no code for others
        *itertools.product(["GZIP_1", "GZIP_2", "NOCOMPRESS"], NARROW + WIDE),
    ],
)
def test_every_type_by_every_algorithm(tmp_path, algorithm, code):
    """Rows as tiles, and tiles that do not divide the image; also with 64-bit places, a gap, and other columns."""
    for number, (shape, tile) in enumerate(SHAPES.items()):
        array = picture(code, shape, number)
        for how in ({}, {"tile": tile}, {"tile": tile, "pointer": "Q", "left_over": (0, 3), "gap": 24}):
            found = read(tmp_path, unit(array, algorithm, **how))
            assert found.dtype == array.dtype
            np.testing.assert_array_equal(found, array)


def test_masks(tmp_path):
    """PLIO: runs of zeros and of numbers above 12 bits, longer than one instruction can say."""
    mask = np.zeros((3, 9000), np.int32)
    mask[0, 4000:8500], mask[1, 5], mask[2, -1], mask[2, 8:10] = 7, 1 << 20, 3, 4096
    np.testing.assert_array_equal(read(tmp_path, unit(mask, "PLIO_1")), mask)
    np.testing.assert_array_equal(read(tmp_path, unit(mask.astype("i2"), "PLIO_1")), mask.astype("i2"))


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [
        ([0x1005, 0x0001, 0x4002, 0x2003, 0x4001, 0x3001, 0x4001], [4101, 4101, 4104, 4103]),  # set, up, down
        ([0x5003, 0x6002, 0x7001, 0x0001], [0, 0, 1, 3, 2, 0]),  # zeros and the number, up and one, down and one
        ([], [0, 0]),
    ],
)
def test_each_instruction_for_masks(tmp_path, monkeypatch, instructions, expected):
    """The number is 1 at first; what no instruction gives is 0. A short header has its size in the third word."""
    for head in ([0, 7, -1, len(instructions) + 7, 0, 0, 0], [0, 0, len(instructions) + 3]):
        content = np.array([x - 2**16 if x >= 2**15 else x for x in (*head, *instructions)], ">i2").tobytes()
        monkeypatch.setitem(ALGORITHMS, "PLIO_1", lambda tile, content=content: content)
        assert read(tmp_path, unit(np.zeros(len(expected), np.int32), "PLIO_1")).tolist() == expected


def test_the_random_numbers_are_those_of_the_standard():
    """It gives the number after 10000 steps: 1043618065."""
    numbers = fits_tiles._randoms()
    assert numbers.dtype == np.float32
    assert len(numbers) == 10_000
    assert numbers[0] == np.float32(16807 / (2**31 - 1))
    assert numbers[-1] == np.float32(1043618065 / (2**31 - 1))


def dither(place, count):
    """One by one: the list from a place that the list gives; at its end from the place that the next number gives."""
    numbers, place = fits_tiles._randoms(), place % 10_000
    at = int(numbers[place] * np.float32(500))
    for _ in range(count):
        yield float(numbers[at])
        at += 1
        if at == 10_000:
            place = (place + 1) % 10_000
            at = int(numbers[place] * np.float32(500))


@pytest.mark.parametrize("algorithm", ["RICE_1", "GZIP_1", "GZIP_2"])
@pytest.mark.parametrize("method", ["NO_DITHER", "SUBTRACTIVE_DITHER_1", "SUBTRACTIVE_DITHER_2"])
@pytest.mark.parametrize("code", ["f4", "f8"])
def test_quantized_numbers(tmp_path, algorithm, method, code):
    """(number - random + 1/2) * scale + zero of the tile; missing ones are not a number; method 2 keeps exact zeros."""
    shape, seed = (3, 10_400), 9_999
    rng = np.random.default_rng(1)
    whole = rng.integers(-500, 500, shape).astype(np.int32)
    whole[0, 5], whole[1, 6] = -(2**31) + 1, -(2**31) + 2
    scales, zeros = rng.uniform(0.1, 2, 3), rng.normal(0, 100, 3)
    columns = [("ZSCALE", ">f8", scales), ("ZZERO", ">f8", zeros)]
    array = rng.normal(0, 1, shape).astype(code)
    cards = {"ZQUANTIZ": f"'{method}'", "ZDITHER0": seed, "ZBLANK": -(2**31) + 1}
    found = read(tmp_path, unit(array, algorithm, stored=whole, columns=columns, left_over=(2,), **cards))
    assert found.dtype == code
    for row in range(2):
        random = np.array(list(dither(seed - 1 + row, shape[1])))
        shift = 0 if method == "NO_DITHER" else 0.5 - random
        expected = (whole[row] + shift) * scales[row] + zeros[row]
        if row == 0:
            expected[5] = np.nan
        elif method.endswith("2"):
            expected[6] = 0
        np.testing.assert_allclose(found[row], expected, rtol=1e-6 if code == "f4" else 1e-12)
    np.testing.assert_array_equal(found[2], array[2])
    # one scale for all tiles, in the header
    cards["ZSCALE"], cards["ZZERO"] = "2.5D0", -1
    found = read(tmp_path, unit(array, algorithm, stored=whole, **cards))
    exact = (whole[2] + (0 if method == "NO_DITHER" else 0.5 - np.array(list(dither(seed + 1, shape[1]))))) * 2.5 - 1
    np.testing.assert_allclose(found[2], exact, rtol=1e-6 if code == "f4" else 1e-12)


@pytest.mark.parametrize("blank", ["ZBLANK", "BLANK"])
def test_scales_of_whole_numbers(tmp_path, blank):
    """Factor, offset and the number for missing values are applied after decompression."""
    array = np.array([[1, 2, -9]], np.int16)
    found = read(tmp_path, unit(array, "RICE_1", BSCALE="2.5", BZERO="-1.", **{blank: -9}))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [[1.5, 4, np.nan]])


def test_rows_are_tiles_if_the_header_does_not_say(tmp_path):
    """The settings of Rice coding too have defaults: four bytes, blocks of 32."""
    array = picture("i4", (9, 40))
    content = unit(array, "RICE_1")
    for key in ("ZTILE1", "ZTILE2", "ZNAME1", "ZNAME2"):
        content = content.replace(key.ljust(8).encode(), b"UNUSED  ")
    np.testing.assert_array_equal(read(tmp_path, content), array)


IMAGE = unit(picture("i2", (4, 60)), "RICE_1")


def changed(key, value):
    begin = IMAGE.index(f"{key:<8}= ".encode())
    line = f"{key:<8}= {value:>20} / a remark".ljust(80).encode()
    return IMAGE[:begin] + line + IMAGE[begin + 80 :]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (changed("ZCMPTYPE", "'ZSTD'"), "is compressed by ZSTD, which is not read.*funpack"),
        (changed("ZBITPIX", 17), "a compressed image of 2 axes and ZBITPIX 17"),
        (changed("ZNAXIS", 0), "a compressed image of 0 axes"),
        (changed("ZNAXIS2", 10**12), "bytes cannot hold an image with the extents"),
        (changed("ZNAXIS2", 5), "4 rows for an image of 5 tiles"),
        (changed("ZTILE2", 0), "ZTILE2 must be a whole number from 1"),
        (changed("TFORM1", "'1ZB'"), "TFORM1 is '1ZB', which is no type of a column"),
        (changed("TFORM1", "'1PZ'"), "TFORM1 is '1PZ', which is no type of a column"),
        (changed("TFORM1", "'1D'"), "the column COMPRESSED_DATA has the type 'D', which is not an array in the heap"),
        (changed("TFORM3", "'900QB'"), "the columns take .* a row has 24"),
        (changed("TFIELDS", -1), "TFIELDS must be a whole number"),
        (changed("ZVAL2", 3), "values of 3 bytes"),
        (changed("ZVAL1", 0), "ZVAL1 must be a whole number from 1"),
        (changed("TTYPE1", "'OTHER'"), "tile 1 has 0 bytes for 60 values of 2"),
    ],
)
def test_damaged_tables(tmp_path, content, message):
    """The message names the file, the unit and, where there is one, the tile."""
    with pytest.raises(BadData, match=r"a\.fits: unit 2.*" + message):
        read(tmp_path, content)


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_damaged_tiles_are_errors_of_the_data_or_data(tmp_path, algorithm):
    """Bytes of the rows and of the heap are changed; a place outside of the heap is found before it is read."""
    array = np.abs(picture("i2", (4, 60)) % 50).astype(np.int16)
    content = unit(array, algorithm, (4, 15) if algorithm == "HCOMPRESS_1" else None)
    rows, heap = (begin + len(content) - 2880 for begin in (0, 4 * 24))
    rng = np.random.default_rng(0)
    errors = []
    for number in range(300):
        damaged = bytearray(content)
        for place in rng.integers(rows, heap, 2) if number % 2 else rng.integers(heap, heap + 150, 3):
            damaged[place] = rng.integers(256)
        try:
            assert read(tmp_path, bytes(damaged)).shape == array.shape
        except BadData as error:
            errors.append(str(error))
    assert len(errors) > 50
    assert all("unit 2: tile" in error for error in errors)


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_tiles_that_are_too_short(tmp_path, algorithm):
    """Each size below the whole is an error that names the tile."""
    array = np.arange(40, dtype=np.int32).reshape(4, 10) % 7
    whole = ALGORITHMS[algorithm](array.astype(">i4") if algorithm != "RICE_1" else array.ravel())
    size = len(whole) // (2 if algorithm == "PLIO_1" else 1)
    content = unit(array, algorithm, (4, 10))
    pointer = np.array([size, 0], ">i4").tobytes()
    for less in range(1, size):
        short = content.replace(pointer, np.array([less, 0], ">i4").tobytes(), 1)
        with pytest.raises(BadData, match="unit 2: tile 1"):
            read(tmp_path, short)
