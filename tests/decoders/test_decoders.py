"""fn.decoders.image and fn.peek_image_shape against Pillow, OpenCV and formulas."""

import io
import logging

import cv2
import numpy as np
import pytest
from decoders.pictures import ALPHA, GRAY, JPEG, LOSSLESS, RGB, bytes_of, deep, exif, pillow
from PIL import Image, ImageOps

from pipeflow import fn, pipeline_def, types
from pipeflow.kernels.cpu import image_headers, images

EVERYTHING = {name: data for name, (data, _) in LOSSLESS.items()} | JPEG

every_lossless = pytest.mark.parametrize("name", LOSSLESS)
every_jpeg = pytest.mark.parametrize("name", JPEG)
every_picture = pytest.mark.parametrize("name", EVERYTHING)


def decode(data, **arguments):
    return fn.decoders.image(bytes_of(data), **arguments)


def opened(data):
    return Image.open(io.BytesIO(data))


def as_rgb(stored):
    """A stored image without alpha, gray repeated, in 8 bits."""
    image = stored[..., :3] if stored.shape[2] >= 3 else np.repeat(stored[..., :1], 3, axis=2)
    return np.floor(image / 257 + 0.5).astype(np.uint8) if image.dtype == np.uint16 else image


@every_lossless
def test_lossless_formats_give_the_stored_pixels(name):
    """ANY_DATA keeps channels, alpha included; a 16-bit file gives its values where 16 bits are asked for."""
    data, stored = LOSSLESS[name]
    dtype = types.UINT16 if stored.dtype == np.uint16 else types.UINT8
    got = decode(data, output_type=types.ANY_DATA, dtype=dtype)
    assert got.flags.c_contiguous
    np.testing.assert_array_equal(got, stored)


@every_lossless
def test_rgb_and_bgr_drop_alpha_and_repeat_gray(name):
    """The default is three channels of 8 bits; 16 bits are rounded to 8; BGR is RGB turned round."""
    data, stored = LOSSLESS[name]
    rgb = decode(data)
    np.testing.assert_array_equal(rgb, as_rgb(stored))
    np.testing.assert_array_equal(decode(data, output_type=types.BGR), rgb[..., ::-1])


@every_lossless
def test_gray_and_ycbcr_follow_bt_601(name):
    """Gray is .299 R + .587 G + .114 B within a level; YCbCr has the studio range 16 to 235, exactly rounded."""
    data, stored = LOSSLESS[name]
    rgb = stored[..., :3] if stored.shape[2] >= 3 else np.repeat(stored[..., :1], 3, axis=2)
    rgb = rgb / (257.0 if stored.dtype == np.uint16 else 1.0)
    gray = decode(data, output_type=types.GRAY)
    assert gray.shape == (*rgb.shape[:2], 1)
    assert np.abs(gray[..., 0] - rgb @ [0.299, 0.587, 0.114]).max() <= 1.01
    matrix = np.array([[65.481, 128.553, 24.966], [-37.797, -74.203, 112.0], [112.0, -93.786, -18.214]]) / 255
    assert np.abs(decode(data, output_type=types.YCbCr) - (rgb @ matrix.T + [16, 128, 128])).max() < 0.501


@every_jpeg
def test_jpeg_equals_pillow_within_a_level(name):
    """Baseline, progressive, gray, CMYK and restart markers decode as Pillow decodes them."""
    expected = np.array(opened(JPEG[name]).convert("RGB")).astype(int)
    assert np.abs(decode(JPEG[name]) - expected).max() <= (2 if "cmyk" in name else 1)


@pytest.mark.parametrize("name", [name for name in JPEG if "cmyk" not in name])
def test_both_jpeg_decoders_give_the_same_bits(name):
    """The strict decoder may stand in for OpenCV because their pixels are equal."""
    flags = cv2.IMREAD_IGNORE_ORIENTATION
    expected = cv2.imdecode(bytes_of(JPEG[name]), flags | cv2.IMREAD_COLOR_RGB)
    np.testing.assert_array_equal(decode(JPEG[name]), expected)
    gray = cv2.imdecode(bytes_of(JPEG[name]), flags | cv2.IMREAD_GRAYSCALE)
    np.testing.assert_array_equal(decode(JPEG[name], output_type=types.GRAY)[..., 0], gray)


def test_any_data_of_a_jpeg_has_its_components():
    """One for gray, three for colour, four for CMYK, those as stored."""
    shapes = {name: decode(data, output_type=types.ANY_DATA).shape[2] for name, data in JPEG.items()}
    assert shapes["jpeg gray"] == 1
    assert shapes["jpeg cmyk"] == 4
    assert shapes["jpeg"] == shapes["jpeg progressive"] == 3


def test_fast_idct_is_close_but_another_transform():
    """use_fast_idct trades a little precision for speed."""
    exact, fast = decode(JPEG["jpeg"]).astype(int), decode(JPEG["jpeg"], use_fast_idct=True).astype(int)
    assert 0 < np.abs(exact - fast).max() < 16


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied_unless_told_not_to(kind, orientation):
    """All eight orientations, in every format that carries them, equal Pillow's exif_transpose; peek agrees."""
    options = {"lossless": True} if kind == "WEBP" else {}
    data = pillow(RGB, kind, exif=exif(orientation), **options)
    plain = np.array(opened(pillow(RGB, kind, **options)).convert("RGB"))
    turned = np.array(ImageOps.exif_transpose(opened(data)).convert("RGB"))
    for adjust, expected in ((True, turned), (False, plain)):
        got = decode(data, adjust_orientation=adjust)
        assert got.shape == expected.shape
        assert np.abs(got.astype(int) - expected).max() <= (1 if kind == "JPEG" else 0)
        assert fn.peek_image_shape(bytes_of(data), adjust_orientation=adjust).tolist() == list(expected.shape)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64])
@pytest.mark.parametrize("image", [RGB, deep(RGB)], ids=["8 bit", "16 bit"])
def test_integers_keep_their_share_of_the_range(dtype, image):
    """The largest stored value becomes the largest of the type; what lies between is rounded in proportion."""
    stored = np.iinfo(image.dtype).max
    image = image.copy()
    image[0, 0] = stored
    data = cv2.imencode(".png", image[..., ::-1])[1].tobytes()
    got = decode(data, dtype=np.dtype(dtype))
    limit = np.iinfo(dtype).max
    assert got.dtype == dtype
    assert got[0, 0].tolist() == [limit] * 3
    exact = np.vectorize(lambda value: value * limit / stored, otypes=[float])(image.astype(object))
    assert np.abs(got.astype(float) - exact).max() <= max(0.5, limit * 2.0**-52)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floating_point_is_between_0_and_1(dtype):
    """255, or 65535 in a 16-bit file, becomes 1.0."""
    got = decode(LOSSLESS["png rgb"][0], dtype=np.dtype(dtype))
    assert got.dtype == dtype
    np.testing.assert_allclose(got, RGB / 255, atol=1e-3 if dtype == np.float16 else 1e-6)
    np.testing.assert_allclose(
        decode(LOSSLESS["png 16 bit"][0], dtype=np.dtype(np.float32)), deep(RGB) / 65535, atol=1e-6
    )


def test_bool_is_no_type_for_an_image():
    """It is refused when the graph is built."""
    with pytest.raises(ValueError, match="images cannot be decoded to bool"):
        decode(JPEG["jpeg"], dtype=types.BOOL)


@every_picture
def test_peek_gives_the_shape_of_the_decoded_image(name):
    """For every format and colour space, without decoding."""
    data = EVERYTHING[name]
    for output_type in (types.RGB, types.GRAY, types.ANY_DATA):
        expected = list(decode(data, output_type=output_type, dtype=types.UINT16).shape)
        assert fn.peek_image_shape(bytes_of(data), image_type=output_type).tolist() == expected
    assert fn.peek_image_shape(bytes_of(data)).dtype == np.int64
    assert fn.peek_image_shape(bytes_of(data), dtype=types.INT32).dtype == np.int32


def test_the_first_frame_of_an_animation_is_decoded():
    """Later frames of a GIF are left."""
    frames = [Image.fromarray(RGB).convert("P"), Image.fromarray(255 - RGB).convert("P")]
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    np.testing.assert_array_equal(decode(file.getvalue()), np.array(frames[0].convert("RGB")))


def test_palette_with_transparency_keeps_its_alpha_as_stored():
    """A palette PNG with transparent entries has four channels in ANY_DATA, three in RGB."""
    source = Image.fromarray(RGB).convert("P")
    data = pillow(source, "PNG", transparency=3)
    expected = np.array(opened(data).convert("RGBA"))
    np.testing.assert_array_equal(decode(data, output_type=types.ANY_DATA), expected)
    assert decode(data).shape == RGB.shape


def test_a_colour_that_stands_for_transparency_becomes_an_alpha_channel():
    """A PNG may name one colour as transparent: its pixels get alpha 0 in ANY_DATA, all others 255."""
    data = pillow(RGB, "PNG", transparency=(250, 20, 10))
    expected = np.dstack([RGB, np.where((RGB == [250, 20, 10]).all(-1), 0, 255)])
    np.testing.assert_array_equal(decode(data, output_type=types.ANY_DATA), expected)
    assert fn.peek_image_shape(bytes_of(data), image_type=types.ANY_DATA).tolist() == list(expected.shape)
    np.testing.assert_array_equal(decode(data), RGB)


def test_a_jpeg_is_decoded_into_the_callers_memory():
    """No copy lies between the decoder and the batch."""
    given = []

    def out(shape, dtype):
        given.append(np.empty(shape, dtype))
        return given[-1]

    result = images.decode(bytes_of(JPEG["jpeg"]), images.Wanted(), images.Limits(), out)
    assert result is given[0]
    assert len(given) == 1


def test_a_region_is_the_same_part_of_the_whole_image():
    """The seam for decoders of regions: same pixels, also turned, and in another dtype."""
    data = pillow(RGB, "JPEG", quality=90, exif=exif(6))
    whole = decode(data, dtype=types.FLOAT)
    wanted = images.Wanted("RGB", np.dtype(np.float32))
    part = images.decode(
        bytes_of(data), wanted, images.Limits(), region=lambda height, width: (height - 20, 3, 15, width - 5)
    )
    np.testing.assert_array_equal(part, whole[33:48, 3:35])
    with pytest.raises(ValueError, match=r"the region of 54 x 1 .* does not lie inside the image of 53 x 37"):
        images.decode(bytes_of(data), wanted, images.Limits(), region=lambda height, width: (0, 0, height + 1, 1))


def test_images_larger_than_max_pixels_are_refused_before_decoding():
    """The limit is on pixels of the header; the default allows 2**27."""
    with pytest.raises(ValueError, match="PNG of 53 x 37 pixels has more than max_pixels=1960 pixels"):
        decode(LOSSLESS["png rgb"][0], max_pixels=53 * 37 - 1)
    decode(LOSSLESS["png rgb"][0], max_pixels=53 * 37)
    with pytest.raises(ValueError, match="GIF of 20000 x 20000 pixels has more than max_pixels=134217728"):
        decode(b"GIF89a" + (20_000).to_bytes(2, "little") * 2 + bytes(20))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the image file is empty"),
        (
            b"just some text",
            "not a JPEG, PNG, BMP, PNM, TIFF, WebP, JPEG 2000, GIF, AVIF, HEIF, JPEG XL or EXR file: it starts with b'just",
        ),
        (b"\xff\xd8\xff\xd9", "no frame header before the image data"),
        (JPEG["jpeg"][:30], "truncated JPEG file: 30 bytes do not hold its header"),
        (JPEG["jpeg"][:-400], "truncated JPEG of 53 x 37 pixels"),
        (LOSSLESS["png rgb"][0][:20], "truncated PNG file"),
        (LOSSLESS["png rgb"][0][:-60], "truncated PNG file: a chunk IDAT states 102 bytes, 58 are left"),
        (LOSSLESS["png rgb"][0][:-118], "truncated PNG file: a chunk IDAT states 102 bytes, 0 are left"),
        (LOSSLESS["bmp rgb"][0][:-1], "truncated BMP file: 53 x 37 pixels need at least 5974 bytes, there are 5973"),
        (LOSSLESS["ppm"][0][:-1], "truncated PNM file"),
        (LOSSLESS["webp"][0][:-9], "truncated WebP file"),
        (b"P6 0 5 255 ", "an empty image"),
        (b"P6 99999999999 5 255 ", "too long"),
        (b"P6 5 5 70000 ", "largest value 70000"),
    ],
)
def test_damaged_files_are_errors_that_say_what_is_wrong(data, message):
    """Truncated files are never decoded in part; a format that is not known is named by its first bytes."""
    with pytest.raises(ValueError, match=message):
        decode(data)


def test_huge_sizes_in_small_files_are_refused_from_the_header():
    """A header that states more pixels than the data could hold is refused before memory is taken."""
    jpeg = bytearray(JPEG["jpeg"])
    place = jpeg.index(b"\xff\xc0")
    jpeg[place + 5 : place + 9] = (11_000).to_bytes(2, "big") * 2
    png = bytearray(LOSSLESS["png rgb"][0])
    png[16:24] = (11_000).to_bytes(4, "big") * 2
    for data in (jpeg, png):
        with pytest.raises(ValueError, match="11000 x 11000 pixels need at least"):
            decode(bytes(data))


def test_a_jpeg_with_hundreds_of_scans_is_refused():
    """Each scan goes over the whole image: a small file could keep a decoder busy for hours."""
    data = JPEG["jpeg progressive"]
    scan = data.rindex(b"\xff\xda")
    with pytest.raises(ValueError, match=r"a progressive JPEG file with \d+ scans"):
        decode(data[:-2] + data[scan:-2] * 600 + data[-2:])


def test_inputs_that_are_no_bytes_are_refused():
    """Decoders take one axis of bytes."""
    with pytest.raises(ValueError, match=r"an array of bytes with one axis, got uint8 of shape \(37, 53, 3\)"):
        fn.decoders.image(RGB)


@pytest.fixture
def unusual():
    """A complete JPEG with stray bytes between two segments, which the strict decoder refuses."""
    return JPEG["jpeg"].replace(b"\xff\xda", b"\x12\x34\xff\xda", 1)


def test_an_unusual_jpeg_gets_a_second_chance_and_is_told_once(unusual, tmp_path, caplog):
    """The tolerant decoder takes it, with the same pixels; one log line names the file."""
    (tmp_path / "odd.jpg").write_bytes(unusual)

    @pipeline_def(batch_size=1, num_threads=1)
    def define():
        data, _ = fn.readers.file(files=[str(tmp_path / "odd.jpg")])
        return fn.decoders.image(data)

    pipeline = define()
    with caplog.at_level(logging.WARNING, logger="pipeflow.decoders"):
        results = [pipeline.run()[0].at(0) for _ in range(3)]
    for result in results:
        np.testing.assert_array_equal(result, decode(JPEG["jpeg"]))
    (record,) = [record for record in caplog.records if record.name == "pipeflow.decoders"]
    assert str(tmp_path / "odd.jpg") in record.getMessage()
    assert "decoded by a tolerant decoder; the strict one said: " in record.getMessage()


def test_a_wrong_extension_does_not_matter(tmp_path):
    """The bytes say the format, not the name."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "really.jpg").write_bytes(LOSSLESS["png rgb"][0])

    @pipeline_def(batch_size=1, num_threads=1)
    def define():
        return fn.decoders.image(fn.readers.file(file_root=str(tmp_path))[0])

    np.testing.assert_array_equal(define().run()[0].at(0), RGB)


def test_headers_say_what_is_stored():
    """Format, size, channels, bits, alpha."""
    assert image_headers.read(LOSSLESS["png rgba"][0]) == image_headers.Header("PNG", 37, 53, 4, 8, 1, True)
    assert image_headers.read(LOSSLESS["tiff 16 bit"][0]) == image_headers.Header("TIFF", 37, 53, 3, 16)
    assert image_headers.read(JPEG["jpeg gray"]) == image_headers.Header("JPEG", 37, 53, 1)
    assert ALPHA.shape[:2] == GRAY.shape


def test_whole_files_are_read_by_name(tmp_path):
    """fn.io.file.read takes the path as bytes, with or without a closing zero; a missing file is named."""
    path = tmp_path / "a.bin"
    path.write_bytes(b"12345")
    for name in (str(path).encode(), str(path).encode() + b"\0"):
        assert fn.io.file.read(bytes_of(name)).tobytes() == b"12345"
    with pytest.raises(FileNotFoundError, match=r"gone\.bin"):
        fn.io.file.read(bytes_of(str(tmp_path / "gone.bin").encode()))
    with pytest.raises(ValueError, match="the path of the file to read is empty"):
        fn.io.file.read(bytes_of(b"\0"))


def test_npy_files_are_decoded_from_memory():
    """fn.decoders.numpy gives the array, in another type if asked for."""
    file = io.BytesIO()
    np.save(file, np.arange(6, dtype=np.int16).reshape(2, 3))
    got = fn.decoders.numpy(bytes_of(file.getvalue()))
    assert got.dtype == np.int16
    assert got.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert fn.decoders.numpy(bytes_of(file.getvalue()), dtype=types.FLOAT).dtype == np.float32
