"""Every bit depth and colour model: the stored pixels, exactly, and what a second decoder makes of the same file."""

import io

import cv2
import numpy as np
import pytest
from decoders.made import bmp, png, pnm, tiff
from decoders.pictures import ALPHA, GRAY, RGB, bytes_of, exif, opencv, pillow
from decoders.zoo import ZOO, filled, numbers
from PIL import Image, ImageOps

from pipeflow import fn, types

every_file = pytest.mark.parametrize("name", ZOO)

# Neither Pillow nor OpenCV gives these as they are stored. tifffile and imagecodecs give the TIFF and JPEG 2000 files
# so; the masks of BMP and the largest values of PNM are arithmetic.
ALONE = {
    "tiff white is zero 16", "tiff planar 16", "tiff planar strips 16", "tiff planar tiles 16", "tiff planar differences 16",
    "tiff gray and alpha 16", "tiff planar alpha 16", "tiff float 16", "tiff float differences 16", "bmp 16 without masks",
    "bmp 555 masks", "bmp 565 masks", "bmp 444 masks", "bmp 655 masks", "bmp 32 masks the other way round",
    "bmp 32 masks of 10 bits", *(f"pnm P{kind} up to {largest}" for kind in (2, 3, 5, 6) for largest in (100, 1000)),
    *(f"pnm P{kind} up to {largest}" for kind in (3, 6) for largest in (256, 4095)), *(f"j2k gray {n}" for n in range(9, 16)),
}  # fmt: skip


def decode(data, **arguments):
    return fn.decoders.image(data if isinstance(data, np.ndarray) else bytes_of(data), **arguments)


def stored_as(made):
    return {"output_type": types.ANY_DATA, "dtype": made.pixels.dtype}


@every_file
def test_the_stored_pixels_come_out(name):
    """ANY_DATA in the stored type gives exactly what the file was made of, again and again; peek knows the shape."""
    made = ZOO[name]
    for _ in range(2):
        got = decode(made.data, **stored_as(made))
        assert got.dtype == made.pixels.dtype
        np.testing.assert_array_equal(got, made.pixels)
    peeked = fn.peek_image_shape(bytes_of(made.data), image_type=types.ANY_DATA)
    assert peeked.tolist() == list(made.pixels.shape)


@every_file
def test_the_result_is_memory_of_its_own(name):
    """Writing into it changes neither the file's bytes nor another result."""
    made = ZOO[name]
    data = np.array(bytes_of(made.data))
    got = decode(data, **stored_as(made))
    assert not np.may_share_memory(got, data)
    got[...] = 0
    assert data.tobytes() == made.data


@every_file
def test_colours_in_eight_bits_are_those_pixels(name):
    """RGB in 8 bits: without alpha, gray repeated, the share of the range rounded; signed numbers have none."""
    made = ZOO[name]
    if made.pixels.dtype.kind == "i":
        with pytest.raises(
            ValueError, match=r"an image of signed numbers \(int\d+\) has no values of uint8: give dtype="
        ):
            decode(made.data)
        return
    colors = made.pixels[..., : made.pixels.shape[2] - made.alpha].astype(np.float64)
    colors /= 1 if made.pixels.dtype.kind == "f" else np.iinfo(made.pixels.dtype).max
    if name == "tiff cmyk":
        colors = (1 - colors[..., :3]) * (1 - colors[..., 3:])
    exact = np.repeat(colors, 3, axis=2) if colors.shape[2] == 1 else colors
    got = decode(made.data)
    assert got.shape == exact.shape
    assert np.abs(got - exact * 255).max() <= 0.5 + 1e-4


def by_opencv(made):
    image = cv2.imdecode(bytes_of(made.data), cv2.IMREAD_UNCHANGED)
    if image is None:
        return None
    image = image if image.ndim == 3 else image[..., None]
    return image[..., [2, 1, 0, 3][: image.shape[2]]] if image.shape[2] > 1 else image


def by_pillow(made):
    try:
        picture = Image.open(io.BytesIO(made.data))
        if picture.mode in ("P", "1"):
            picture = picture.convert("L" if picture.mode == "1" else "RGBA" if made.alpha else "RGB")
        image = np.array(picture)
    except (OSError, KeyError, ValueError):
        return None
    return image if image.ndim == 3 else image[..., None]


def agrees(image, pixels):
    if image is None:
        return False
    if (pixels.shape[2], image.shape[2]) == (1, 3):
        pixels = np.repeat(pixels, 3, axis=2)
    elif (pixels.shape[2], image.shape[2]) == (2, 4):
        image = image[..., [0, 3]]
    return image.shape == pixels.shape and np.array_equal(image.astype(float), pixels.astype(float))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_second_decoder_agrees():
    """Of every file but those that both libraries get wrong or refuse, Pillow or OpenCV gives the same pixels."""
    alone = {
        name for name, made in ZOO.items() if not any(agrees(by(made), made.pixels) for by in (by_opencv, by_pillow))
    }
    assert alone <= ALONE


@pytest.mark.parametrize("compression", ["group3", "group4", "tiff_ccitt", "jpeg", "lzma"])
@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_other_compressions_of_tiff_come_from_pillow(compression, orientation):
    """Fax, JPEG and LZMA data, turned or as stored."""
    source = Image.fromarray(RGB)
    source = source if compression in ("jpeg", "lzma") else source.convert("1")
    plain = pillow(source, "TIFF", compression=compression)
    data = pillow(source, "TIFF", compression=compression, exif=exif(orientation))
    expected = np.array(Image.open(io.BytesIO(plain)).convert("RGB"))
    np.testing.assert_array_equal(decode(data, adjust_orientation=False), expected)
    turned = Image.fromarray(expected)
    turned.getexif()[0x0112] = orientation
    np.testing.assert_array_equal(decode(data), np.array(ImageOps.exif_transpose(turned)))


@pytest.mark.parametrize("bits", [10, 12, 14])
def test_tiff_of_odd_depths(bits):
    """Numbers of 10 to 14 bits are packed without gaps and fill the range of 16."""
    values = numbers(bits, 3)
    np.testing.assert_array_equal(
        decode(tiff(values, bits), output_type=types.ANY_DATA, dtype=types.UINT16), filled(values, bits)
    )


def test_tiff_with_the_lowest_bit_first():
    """FillOrder 2 turns the bits of every byte round."""
    values = numbers(1, 1)
    data = tiff(values, 1, tags={266: (3, [2])}.items())
    turned = bytearray(data)
    start = 8
    size = 37 * 7
    turned[start : start + size] = bytes(int(f"{byte:08b}"[::-1], 2) for byte in data[start : start + size])
    np.testing.assert_array_equal(decode(bytes(turned), output_type=types.ANY_DATA), filled(values, 1))


@pytest.mark.parametrize(("options", "message"), [
    ({"photometric": 8}, "3 samples and photometric 8 is not decoded"),
    ({"tags": [(258, (3, [8, 8, 16]))]}, r"3 samples of \[8, 16\] bits is not decoded"),
    ({"tags": [(259, (3, [12345]))]}, "compression 12345 is not decoded"),
    ({"tags": [(259, (3, [7])), (284, (3, [2]))]}, "8 bits with compression 7 is not decoded"),
    ({"tags": [(317, (3, [3]))], "compression": 8}, "predictor 3 is not decoded"),
    ({"tags": [(258, (3, [24, 24, 24]))]}, "3 samples of 24 bits in format 1"),
    ({"tile": (16, 16), "tags": [(322, (4, [1 << 20]))]}, "parts of 1048576 x 16 pixels"),
    ({"tile": (16, 16), "tags": [(322, (4, [0]))]}, "parts of 0 x 16 pixels"),
    ({"tags": [(273, (4, [1 << 30]))]}, "its data go to byte 10737"),
])  # fmt: skip
def test_what_is_no_tiff_that_is_read_is_refused_by_name(options, message):
    """Unknown colours, depths, compressions and predictors, impossible tiles, data behind the end."""
    options = dict(options)
    planar = 2 if (284, (3, [2])) in options.get("tags", ()) else 1
    values = numbers(8, 3)
    data = tiff(values, 8, planar=planar, **options)
    with pytest.raises(ValueError, match=message):
        decode(data)


@pytest.mark.parametrize("compression", [1, 32773])
@pytest.mark.parametrize("planar", [1, 2])
def test_a_predictor_counts_only_where_there_can_be_one(compression, planar):
    """Plain data and PackBits have none, whatever the tag says: libtiff ignores it there."""
    values = numbers(8, 3)
    plain, tagged = (
        tiff(values, 8, compression=compression, planar=planar, tags=tags) for tags in ((), [(317, (3, [2]))])
    )
    np.testing.assert_array_equal(decode(tagged), decode(plain))
    np.testing.assert_array_equal(decode(tagged), np.asarray(Image.open(io.BytesIO(tagged))))


def test_cut_parts_of_tiff_files_are_refused():
    """Every compression notices that a strip is too short, wherever it is cut."""
    for compression in (1, 5, 8, 32773):
        whole = tiff(numbers(8, 3), 8, compression=compression)
        directory = int.from_bytes(whole[4:8], "little")
        entry = whole.index((279).to_bytes(2, "little") + b"\4\0\1\0\0\0", directory)
        size = int.from_bytes(whole[entry + 8 : entry + 12], "little")
        for shorter in range(0, size, 97):
            with pytest.raises(ValueError, match=r"truncated|damaged"):
                decode(changed(whole, entry + 8, shorter.to_bytes(4, "little")))


def runs_bmp(stream, halves=False, width=6, height=3):
    """A BMP of run lengths with a palette of gray."""
    bits = 4 if halves else 8
    base = bmp(np.zeros((height, width), np.uint64), bits, palette=[(i * 15, i * 15, i * 15) for i in range(16)],
               compression=2 if halves else 1)  # fmt: skip
    begin = int.from_bytes(base[10:14], "little")
    return base[:begin] + stream


def test_run_lengths_of_bmp():
    """Runs, literal stretches, ends of lines and jumps; the bottom row comes first."""
    stream = bytes([4, 5, 0, 0, 0, 3, 1, 2, 3, 0, 0, 2, 1, 1, 2, 7, 0, 1])
    expected = np.zeros((3, 6), int)
    expected[2, :4] = 5
    expected[1, :3] = [1, 2, 3]
    expected[0, 4:] = 7
    np.testing.assert_array_equal(decode(runs_bmp(stream), output_type=types.ANY_DATA)[..., 0], expected * 15)
    halves = bytes([5, 0x12, 0, 0, 0, 4, 0x34, 0x56, 0, 1])
    expected = np.zeros((3, 6), int)
    expected[2, :5] = [1, 2, 1, 2, 1]
    expected[1, :4] = [3, 4, 5, 6]
    np.testing.assert_array_equal(decode(runs_bmp(halves, True), output_type=types.ANY_DATA)[..., 0], expected * 15)
    for damaged in (stream[:-2], bytes([7, 5, 0, 1]), bytes([0, 2, 7, 0, 0, 1]), bytes([0, 9, 1, 2])):
        with pytest.raises(ValueError, match="run lengths do not end with the end of the image"):
            decode(runs_bmp(damaged))


@pytest.mark.parametrize(("data", "message"), [
    (bmp(numbers(16, 1)[..., 0], 16, masks=(0x7C00, 0x7C00, 0x1F)), "the masks 0x7c00, 0x7c00, 0x1f, 0x0 of 16 bits"),
    (bmp(numbers(16, 1)[..., 0], 16, masks=(0x7400, 0x3E0, 0x1F)), "the masks 0x7400"),
    (bmp(numbers(16, 1)[..., 0], 16, masks=(0x7C00, 0, 0x1F)), "a colour without a mask"),
    (bmp(numbers(8, 1)[..., 0], 8, palette=[(1, 2, 3)] * 16), "of a palette of 16"),
    (b"\x20".join([bmp(numbers(8, 1)[..., 0], 24)[:10], bmp(numbers(8, 1)[..., 0], 24)[11:]]), "begin at byte 32, inside"),
    (bmp(numbers(8, 1)[..., 0], 24, compression=4), "BMP file with compression 4 of 24 bits: it is not decoded"),
    (pnm(numbers(8, 1), 5, 100), "a value of 255 where the largest is 100"),
    (pnm(numbers(8, 1), 2, 100), "no number up to 100 at byte"),
    (pnm(numbers(8, 1), 2)[:-9] + b"x 1 2 3 4", "no number up to 255 at byte"),
])  # fmt: skip
def test_impossible_numbers_of_bmp_and_pnm_are_refused(data, message):
    """Masks that overlap or have gaps, colours that the palette lacks, numbers above the largest one."""
    with pytest.raises(ValueError, match=message):
        decode(data)


def test_jpeg_2000_with_alpha_and_in_tiles():
    """Gray with alpha, RGB with alpha, several tiles."""
    pair = Image.merge("LA", [Image.fromarray(GRAY)] * 2)
    np.testing.assert_array_equal(decode(pillow(pair, "JPEG2000"), output_type=types.ANY_DATA), np.dstack([GRAY, GRAY]))
    np.testing.assert_array_equal(decode(pillow(ALPHA, "JPEG2000"), output_type=types.ANY_DATA), ALPHA)
    np.testing.assert_array_equal(decode(pillow(RGB, "JPEG2000", tile_size=(16, 16))), RGB)


def changed(data, place, value):
    return data[:place] + value + data[place + len(value) :]


def test_what_is_no_jpeg_2000_that_is_read_is_refused_by_name():
    """Signed or differing components, too many bits, a box with a length of 64 bits that is beyond the file."""
    stream = pillow(RGB, "JPEG2000", no_jp2=True)
    depth = stream.index(b"\xff\x51") + 40
    for value, message in ((b"\x87", "components that differ"), (b"\x07\2\2", "components that differ")):
        with pytest.raises(ValueError, match=message):
            decode(changed(stream, depth, value))
    for bits, what in ((0x87, "signed numbers"), (3, "4 bits"), (20, "21 bits")):
        other = bytearray(stream)
        other[depth : depth + 9 : 3] = bytes([bits] * 3)
        with pytest.raises(ValueError, match=f"a JPEG 2000 file of {what} is not decoded"):
            decode(bytes(other))
    boxes = pillow(RGB, "JPEG2000")
    place = boxes.index(b"jp2h") - 4
    long = boxes[:place] + (1).to_bytes(4, "big") + b"jp2h" + (1 << 63).to_bytes(8, "big") + boxes[place + 8 :]
    with pytest.raises(ValueError, match=r"a box b'jp2h' of 9223372036854775808 bytes at byte \d+ of"):
        decode(long)


def test_jpeg_2000_needs_all_of_its_tiles():
    """Cut anywhere, with the mark of the end or without, a tile is missing."""
    stream = pillow(RGB, "JPEG2000", no_jp2=True, tile_size=(16, 16))
    for size in range(100, len(stream), 61):
        for end in (b"", b"\xff\xd9"):
            with pytest.raises(ValueError, match=r"truncated|damaged"):
                decode(stream[:size] + end)


def frame_of(marker, bits=8):
    """A JPEG whose frame header is of another kind."""
    data = bytearray(pillow(RGB, "JPEG"))
    place = data.index(b"\xff\xc0")
    data[place + 1], data[place + 4] = marker, bits
    return bytes(data)


@pytest.mark.parametrize(("data", "message"), [
    (frame_of(0xC3), "a lossless JPEG file is not decoded; baseline and progressive ones are"),
    (frame_of(0xC5), "a hierarchical JPEG file is not decoded"),
    (frame_of(0xC1, 12), "a JPEG file of 12 bits is not decoded; those of 8 bits are"),
])  # fmt: skip
def test_rare_kinds_of_jpeg_are_refused_by_name(data, message):
    """Lossless and hierarchical ones, and those of 12 bits."""
    with pytest.raises(ValueError, match=message):
        decode(data)


def test_png_with_every_filter_and_chunk():
    """The zoo's files use all filters; text and unknown chunks before the pixels change nothing."""
    values = numbers(8, 3)
    from_pillow = np.array(Image.open(io.BytesIO(png(values, 8, 2, filters=(0, 1, 2, 3, 4)))))
    np.testing.assert_array_equal(from_pillow, values)
    np.testing.assert_array_equal(decode(opencv(RGB, ".png")), RGB)
