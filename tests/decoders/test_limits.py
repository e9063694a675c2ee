"""Limits hold before memory is taken, half a picture is no picture unless one asks for it, and headers are read at once."""

import io
import logging
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from decoders.made import png, tiff
from decoders.pictures import GRAY, JPEG, LOSSLESS, RGB, bytes_of, chunk, pillow
from PIL import Image

from pipeflow import declare, fn, pipeline_def, types
from pipeflow.kernels.cpu import image_boxes

SIDE = 11_000


def decode(data, **arguments):
    return fn.decoders.image(bytes_of(data), **arguments)


def jpeg_2000():
    """A code stream of 171 bytes or so that states 11,000 x 11,000 pixels, all of them black."""
    data = bytearray(pillow(np.zeros((8, 8), np.uint8), "JPEG2000", no_jp2=True))
    data[8:16] = data[24:32] = struct.pack(">II", SIDE, SIDE)
    return bytes(data)


def one_bit_tiff(compression):
    """A TIFF of 220 bytes with one bit a pixel."""
    small = pillow(Image.fromarray(GRAY).convert("1"), "TIFF") if compression == 1 else tiff(
        np.zeros((8, 8, 1), np.uint64), 1, compression=compression if compression in (5, 8, 32773) else 1)  # fmt: skip
    data = bytearray(small)
    place = struct.unpack_from("<I", data, 4)[0]
    for entry in range(place + 2, place + 2 + 12 * struct.unpack_from("<H", data, place)[0], 12):
        tag = struct.unpack_from("<H", data, entry)[0]
        if tag in (256, 257, 278):
            struct.pack_into("<HII", data, entry + 2, 4, 1, SIDE)
        if tag == 259:
            struct.pack_into("<I", data, entry + 8, compression)
    return bytes(data)


def gif():
    """A GIF of 144 bytes or so whose canvas is far larger than what its codes fill."""
    data = bytearray(pillow(np.zeros((8, 8), np.uint8), "GIF"))
    data[6:10] = struct.pack("<HH", SIDE, SIDE)
    return bytes(data)


def webp(lossless):
    """A WebP file of 66 bytes or so."""
    data = bytearray(pillow(np.zeros((8, 8, 3), np.uint8), "WEBP", lossless=lossless))
    if lossless:
        word = struct.unpack_from("<I", data, 21)[0]
        struct.pack_into("<I", data, 21, (word >> 28 << 28) | (SIDE - 1) << 14 | (SIDE - 1))
    else:
        struct.pack_into("<HH", data, 26, SIDE, SIDE)
    return bytes(data)


HUGE = {
    "jpeg 2000": jpeg_2000(), "gif": gif(), "webp": webp(False), "webp lossless": webp(True),
    **{f"tiff {compression}": one_bit_tiff(compression) for compression in (1, 2, 3, 4, 5, 8, 32773)},
    "png": png(np.zeros((8, 8, 1), np.uint64), 1, 0).replace(struct.pack(">II", 8, 8), struct.pack(">II", SIDE, SIDE)),
    "bmp": LOSSLESS["bmp gray"][0][:18] + struct.pack("<ii", SIDE, SIDE) + LOSSLESS["bmp gray"][0][26:],
    "pnm": b"P4 11000 11000 " + bytes(500),
}  # fmt: skip


@pytest.mark.parametrize("name", HUGE)
def test_small_files_that_state_huge_images_are_refused(name):
    """More pixels than the file can hold, or than a file so small may state; the words say which."""
    assert len(HUGE[name]) < 4000
    with pytest.raises(ValueError, match=r"need at least \d+ bytes|more than 2048 pixels a byte; give max_pixels=\d+"):
        decode(HUGE[name])


MEMORY = """
import resource, sys, numpy as np
sys.path[:0] = {path!r}
from decoders.test_limits import HUGE, bytes_of, fn, types
from decoders.pictures import JPEG, LOSSLESS
for data, _ in LOSSLESS.values():
    fn.decoders.image(bytes_of(data))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for data in HUGE.values():
    for arguments in (
        {{}}, {{"output_type": types.ANY_DATA, "dtype": types.FLOAT}}, {{"max_bytes": 1 << 20, "max_pixels": 1 << 40}}
    ):
        for repeat in range(2):
            try:
                fn.decoders.image(bytes_of(data), **arguments)
            except ValueError:
                pass
            else:
                print("decoded")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_refusing_takes_no_memory():
    """A process that refuses all of them, by each of the limits, grows by less than 10 MB."""
    root = Path(__file__).parents[2]
    code = MEMORY.format(path=[str(root), str(root / "tests")])
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(result.stdout) < 10_000


def test_a_blank_image_of_few_bytes_can_be_meant():
    """An explicit max_pixels is taken at its word; without it, small files state small images."""
    blank = np.zeros((4200, 4200), np.uint8)
    data = pillow(blank, "WEBP", lossless=True)
    with pytest.raises(
        ValueError, match=r"WebP of 4200 x 4200 pixels in a file of \d+ bytes.*give max_pixels=17640000 if"
    ):
        decode(data)
    assert decode(data, max_pixels=4200 * 4200, output_type=types.GRAY).shape == (4200, 4200, 1)


@pytest.mark.parametrize("name", LOSSLESS)
def test_max_bytes_bounds_the_result_and_the_stored_pixels(name):
    """The result's bytes count, and the bytes of the pixels that it is made of."""
    data, stored = LOSSLESS[name]
    floats = 37 * 53 * 3 * 4
    assert decode(data, dtype=types.FLOAT, max_bytes=floats).nbytes == floats
    with pytest.raises(ValueError, match=f"takes {floats} bytes, more than max_bytes={floats - 1}; raise max_bytes if"):
        decode(data, dtype=types.FLOAT, max_bytes=floats - 1)
    part = fn.decoders.image_crop(bytes_of(data), crop=(5, 5), max_bytes=stored.nbytes)
    assert part.shape == (5, 5, 3)
    with pytest.raises(ValueError, match="more than max_bytes=75"):
        fn.decoders.image_crop(bytes_of(data), crop=(5, 5), max_bytes=75)


@pytest.mark.parametrize("operator", ["image", "image_crop", "image_slice", "image_random_crop"])
def test_limits_below_one_are_refused(operator):
    """They are a mistake of the call."""
    for name in ("max_pixels", "max_bytes"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
            getattr(fn.decoders, operator)(bytes_of(JPEG["jpeg"]), **{name: 0})


# ----------------------------------------------------------------------------------------------------
# Files that are not whole


def zeroed(data):
    """The second half never arrived: the file had its full length from the start."""
    return data[: len(data) // 2] + bytes(len(data) - len(data) // 2)


PNGS = {name: data for name, (data, _) in LOSSLESS.items() if name.startswith("png")}


@pytest.mark.parametrize("name", PNGS)
def test_png_demands_its_checksums_and_its_end(name):
    """Zeros for the second half, a changed byte anywhere, an end that is missing: always an error."""
    data = PNGS[name]
    with pytest.raises(ValueError, match=r"damaged|truncated"):
        decode(zeroed(data))
    with pytest.raises(ValueError, match=f"truncated PNG file: it ends at byte {len(data) - 12} without an IEND chunk"):
        decode(data[:-12])
    generator = np.random.default_rng(1)
    for place in generator.integers(33, len(data) - 8, 40):
        changed = bytearray(data)
        changed[place] ^= 1 << int(generator.integers(8))
        with pytest.raises(ValueError, match=r"damaged|truncated"):
            decode(bytes(changed))


def test_png_names_the_chunk_with_the_wrong_checksum():
    """The name and the place of the chunk."""
    data = bytearray(PNGS["png rgb"])
    data[data.index(b"IDAT") + 10] ^= 1
    with pytest.raises(ValueError, match="damaged PNG file: the checksum of its chunk IDAT at byte 33 is wrong"):
        decode(bytes(data))


def test_png_with_too_few_rows_behind_right_checksums_is_refused():
    """What the deflate stream lacks is not made up by a second decoder."""
    rows = b"".join(b"\0" + row.tobytes() for row in RGB)
    head = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 53, 37, 8, 2, 0, 0, 0))
    for stream in (zlib.compress(rows[:3000]), zlib.compress(rows)[:-20], zlib.compress(b"\x09" + rows[1:])):
        with pytest.raises(ValueError, match="cannot decode the PNG of 53 x 37 pixels"):
            decode(head + chunk(b"IDAT", stream) + chunk(b"IEND", b""))


def test_the_image_of_an_animated_png_is_its_own():
    """Whatever its frames are or lack: OpenCV would give black where none is stated."""
    still = PNGS["png rgb"]
    begin, end = still.index(b"IDAT") - 4, still.index(b"IEND") - 4
    frame = lambda number, height, width: struct.pack(">IIIIIHHBB", number, width, height, 1, 1, 1, 1, 0, 0)
    small = struct.pack(">I", 2) + zlib.compress(b"\0" + bytes([9, 8, 7] * 5))
    parts = {
        "no frame": (b"acTL", struct.pack(">II", 10**9, 0)),
        "an empty frame": (b"fcTL", frame(0, 0, 0)),
        "a frame that is not the image": (b"fcTL", frame(1, 1, 5)),
    }
    for name, (kind, body) in parts.items():
        counted = b"" if kind == b"acTL" else chunk(b"acTL", struct.pack(">II", 1, 0))
        before = still[:begin] + counted + chunk(kind, body) + still[begin:end]
        for animated in (before + still[end:], before + chunk(b"fdAT", small) + still[end:]):
            np.testing.assert_array_equal(decode(animated), decode(still), err_msg=name)
            np.testing.assert_array_equal(decode(animated, on_damage="accept"), decode(still), err_msg=name)


def test_a_jpeg_without_all_of_its_pixels_is_refused():
    """Also where the mark of the end was put after the half that is there, or is in a thumbnail before it."""
    data = JPEG["jpeg"]
    scan = data.index(b"\xff\xda")
    half = data[: scan + (len(data) - scan) // 2]
    thumbnail = b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0" + pillow(RGB, "JPEG")
    segment = b"\xff\xe1" + struct.pack(">H", len(thumbnail) + 2) + thumbnail
    np.testing.assert_array_equal(decode(data[:2] + segment + data[2:]), decode(data))
    with pytest.raises(ValueError, match=r'damaged JPEG .* premature end of data segment; on_damage="accept" returns'):
        decode(half + b"\xff\xd9")
    with pytest.raises(ValueError, match="truncated JPEG of"):
        decode(half[:2] + segment + half[2:])
    assert decode(half + b"\xff\xd9", on_damage="accept").shape == decode(data).shape


def test_a_webp_that_is_cut_says_how_long_it_should_be():
    """The length that its first bytes announce."""
    data = pillow(RGB, "WEBP")
    with pytest.raises(ValueError, match=f"truncated WebP file: {len(data)} bytes are announced, the file has 100"):
        decode(data[:100])


def test_transparency_that_decoders_pass_over_is_none():
    """A list of alphas before its palette, behind the pixels, or longer than the palette: three channels, as peeked."""
    places, colors = np.arange(37 * 53).reshape(37, 53, 1) % 16, np.arange(48).reshape(16, 3) * 5
    plain = png(places.astype(np.uint64), 4, 3, palette=colors)
    alphas = chunk(b"tRNS", bytes(16))
    head, body = plain.index(b"PLTE") - 4, plain.index(b"IDAT") - 4
    end = plain.index(b"IEND") - 4
    odd = [plain[:at] + alphas + plain[at:] for at in (head, end)] + [
        plain[:body] + chunk(b"tRNS", bytes(17)) + plain[body:]
    ]
    for data in odd:
        assert decode(data, output_type=types.ANY_DATA).shape == (37, 53, 3)
        assert fn.peek_image_shape(bytes_of(data), image_type=types.ANY_DATA).tolist() == [37, 53, 3]
    right = plain[:body] + alphas + plain[body:]
    assert decode(right, output_type=types.ANY_DATA).shape == (37, 53, 4)


@pytest.mark.parametrize("cut", [0.4, 0.9])
@pytest.mark.parametrize("name", ["png rgb", "png palette", "png interlaced", "png 16 bit", "png one bit"])
def test_half_a_png_where_it_is_asked_for(name, cut, caplog):
    """Rows that arrived are as stored, the others black; a log line names the reason."""
    noise = np.random.default_rng(3).integers(0, 256, (60, 50, 3)).astype(np.uint8)
    if name in ("png palette", "png one bit"):
        data = pillow(noise, "PNG", "P" if name == "png palette" else "1")
    elif name == "png interlaced":
        data = png(noise.astype(np.uint64), 8, 2, interlaced=True)
    else:
        data = png(noise.astype(np.uint64) * np.uint64(257 if "16" in name else 1), 16 if "16" in name else 8, 2)
    whole = decode(data)
    for short in (data[: int(len(data) * cut)], data[: int(len(data) * cut)] + bytes(len(data) - int(len(data) * cut))):
        with caplog.at_level(logging.WARNING, logger="pipeflow.decoders"):
            part = decode(short, on_damage="accept")
        assert part.shape == whole.shape
        same = (part == whole).all(axis=(1, 2))
        if name != "png interlaced":
            assert same[: int(60 * cut * 0.4)].all()
            assert not same.all()
            assert (part[-1] == (whole[-1] * 0 if name != "png palette" else part[-1])).all()
        else:
            assert (part == whole).mean() > 0.2
    assert "decoded by a tolerant decoder; the strict one said: " in caplog.text
    np.testing.assert_array_equal(decode(data, on_damage="accept"), whole)


@pytest.mark.parametrize("name", [name for name in JPEG if name != "jpeg cmyk"])
def test_half_a_jpeg_where_it_is_asked_for(name, tmp_path):
    """The rows that arrived are as in the whole image; without asking it is an error. Crops do so too."""
    data = JPEG[name]
    scan = data.index(b"\xff\xda")
    short = data[: scan + (len(data) - scan) // 2]
    with pytest.raises(ValueError, match="truncated JPEG"):
        decode(short)
    part, whole = decode(short, on_damage="accept"), decode(data)
    assert part.shape == whole.shape
    if "progressive" not in name:
        np.testing.assert_array_equal(part[:8], whole[:8])
    assert (part != whole).any()
    np.testing.assert_array_equal(
        fn.decoders.image_crop(bytes_of(short), crop=(30, 20), on_damage="accept"), fn.crop(part, crop=(30, 20))
    )
    (tmp_path / "half.jpg").write_bytes(short)

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def define():
        return fn.decoders.image(fn.readers.file(files=[str(tmp_path / "half.jpg")])[0], on_damage="accept")

    np.testing.assert_array_equal(define().run()[0].at(0), part)


def test_nothing_of_a_picture_is_no_picture():
    """Where not one row can be read, accepting damage does not help."""
    data = bytearray(PNGS["png rgb"])
    place = data.index(b"IDAT")
    data[place + 4 : place + 8] = b"\xff\xff\xff\xff"
    with pytest.raises(ValueError, match="damaged PNG of 53 x 37 pixels: nothing of its pixels can be read"):
        decode(bytes(data), on_damage="accept")
    with pytest.raises(ValueError, match="truncated JPEG file: 30 bytes do not hold its header"):
        decode(JPEG["jpeg"][:30], on_damage="accept")


def test_gif_demands_all_pixels_of_its_first_frame():
    """Cut at any byte of the pixels, or with codes that are none."""
    data = pillow(RGB, "GIF", "P")
    frame = data.index(b"\x2c", 13 + (6 << (data[10] & 7)))
    begin = frame + 10
    for size in range(begin, len(data) - 4, 50):
        with pytest.raises(ValueError, match=r"its first frame has \d+ of 1961 pixels|does not hold|truncated"):
            decode(data[:size])
    np.testing.assert_array_equal(decode(data), np.array(Image.open(io.BytesIO(data)).convert("RGB")))
    inside = bytearray(data)
    inside[frame + 1 : frame + 3] = b"\x20\0"
    with pytest.raises(ValueError, match="a frame of 53 x 37 pixels at row 0, column 32 of 53 x 37"):
        decode(bytes(inside))


# ----------------------------------------------------------------------------------------------------
# Headers that would take long to walk


MANY = 300_000
LONG = {
    "png": PNGS["png rgb"][:33] + chunk(b"teXt", b"") * MANY + PNGS["png rgb"][33:],
    "jpeg segments": JPEG["jpeg"][:2] + b"\xff\xfe\0\2" * MANY + JPEG["jpeg"][2:],
    "webp": b"RIFF" + struct.pack("<I", 22 + 8 * MANY) + b"WEBPVP8X\x0a\0\0\0" + bytes(10) + b"XXXX\0\0\0\0" * MANY,
    "jpeg 2000": LOSSLESS["jp2"][0][:12] + b"\0\0\0\x08free" * MANY + LOSSLESS["jp2"][0][12:],
    "gif": b"GIF89a" + struct.pack("<HHBBB", 5, 5, 0, 0, 0) + b"\x21\xfe\0" * MANY + b"\x3b",
}  # fmt: skip


@pytest.mark.parametrize("name", LONG)
def test_files_of_empty_pieces_are_refused_soon(name):
    """A hundred thousand of them is the end; nobody walks through millions."""
    with pytest.raises(ValueError, match=r"more than 100000 (chunks|segments|boxes|blocks)|cannot decode|truncated"):
        decode(LONG[name])


def lines_of_peeking(data):
    """How many lines of Python reading a header runs through."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    peek = declare.find("peek_image_shape")
    peek.last_call, peek.last_calls = None, {}  # one form of a call takes fewer lines than others
    sys.settrace(trace)
    try:
        fn.peek_image_shape(data)
    finally:
        sys.settrace(before)
    return count


def test_stray_bytes_and_comments_are_passed_over_at_once():
    """Megabytes between two segments of a JPEG, or in a comment of a PNM, cost a search and no walk."""

    def long(size):
        stray = JPEG["jpeg"].replace(b"\xff\xdb", bytes(size) + b"\xff\xdb", 1)
        filling = JPEG["jpeg"].replace(b"\xff\xdb", b"\xff" * size + b"\xff\xdb", 1)
        comment = LOSSLESS["ppm"][0].replace(b"P6\n", b"P6\n#" + b"x" * size + b"\n", 1)
        return [bytes_of(data) for data in (stray, filling, comment)]

    for short, far in zip(long(10), long(3_000_000)):
        for data in (short, short, far, far):  # the second call with arguments of one kind is quicker than the first
            assert fn.peek_image_shape(data).tolist() == [37, 53, 3]
        assert lines_of_peeking(far) == lines_of_peeking(short)


def test_items_of_a_heif_file_have_numbers_of_16_or_32_bits():
    """Version 2 of an entry has the shorter ones, version 3 the longer ones; the four letters of the kind come after them."""

    def entry(version, number, kind):
        body = bytes([version, 0, 0, 0]) + number.to_bytes(2 if version == 2 else 4, "big") + bytes(2) + kind
        return (8 + len(body)).to_bytes(4, "big") + b"infe" + body

    entries = entry(2, 7, b"Exif") + entry(3, 70000, b"hvc1")
    assert image_boxes._kinds(memoryview(bytes(4) + b"\0\2" + entries)) == {7: b"Exif", 70000: b"hvc1"}
    assert image_boxes._kinds(memoryview(b"\1" + bytes(5) + b"\0\2" + entries)) == {7: b"Exif", 70000: b"hvc1"}


def test_the_size_that_av1_codes_is_in_its_sequence_header():
    """Which comes after other units, some of them with a second byte or without a length."""
    bits = f"000110000010011000{640 - 1:010b}{360 - 1:09b}"  # one level; 10 and 9 bits a side
    header = int(bits.ljust(40, "0"), 2).to_bytes(5, "big")
    delimiter, extended, sized, to_the_end = b"\x12\0", b"\x16\0\0", b"\x0a\5" + header, b"\x08" + header
    for units in (sized, delimiter + sized, extended + sized, delimiter + extended + to_the_end):
        assert image_boxes._av1_size(memoryview(units)) == (360, 640)
    assert image_boxes._av1_size(memoryview(delimiter + extended)) is None
