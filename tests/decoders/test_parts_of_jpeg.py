"""Parts of JPEG files: decoded only down to their last row, and the same as parts of the whole."""

import io

import numpy as np
import pytest
from PIL import Image

from pipeflow import fn, types
from pipeflow.kernels.cpu import image_headers, images

RNG = np.random.default_rng(6)
ROWS, COLUMNS = np.mgrid[0:203, 0:157]
PICTURE = np.stack([ROWS, COLUMNS, (ROWS * COLUMNS) // 90], -1) + RNG.integers(-20, 21, (203, 157, 3))
PICTURE = np.clip(PICTURE, 0, 255).astype(np.uint8)


def encoded(picture=PICTURE, **options):
    """A JPEG file."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=80, **options)
    return np.frombuffer(file.getvalue(), np.uint8)


def with_restarts_stated_first(data):
    """The same file, its restart interval before the frame's header, where the format allows it as well."""
    data = data.tobytes()
    interval, frame = data.index(b"\xff\xdd\0\4"), data.index(b"\xff\xc0")
    assert frame < interval
    moved = data[:frame] + data[interval : interval + 6] + data[frame:interval] + data[interval + 6 :]
    return np.frombuffer(moved, np.uint8)


FILES = {
    "4:4:4": encoded(subsampling=0), "4:2:2": encoded(subsampling=1), "4:2:0": encoded(subsampling=2),
    "gray": encoded(PICTURE[..., 0]), "progressive": encoded(progressive=True), "optimized": encoded(optimize=True),
    "restarts": encoded(restart_marker_rows=1),
    "restarts stated first": with_restarts_stated_first(encoded(restart_marker_rows=1)),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("output_type", [types.RGB, types.BGR, types.GRAY, types.YCbCr])
def test_parts_equal_those_of_the_whole(name, output_type):
    """Whatever row a part ends at, its pixels are those of the whole image."""
    whole = fn.decoders.image(FILES[name], output_type=output_type)
    for top, rows in [(0, 1), (0, 16), (3, 14), (20, 81), (50, 100), (100, 87), (100, 88), (100, 103), (202, 1)]:
        part = fn.decoders.image_slice(
            FILES[name], start=(top, 5), shape=(rows, 90), axes=(0, 1), output_type=output_type
        )
        assert np.array_equal(part, whole[top : top + rows, 5:95]), (top, rows)


@pytest.mark.parametrize("name", FILES)
def test_only_what_is_needed_is_decoded(name, monkeypatch):
    """Plain files are decoded down to the part; progressive ones, and those with restart markers, whole."""
    sizes = []
    decode = images.simplejpeg.decode_jpeg

    def watched(*arguments, buffer, **options):
        sizes.append(buffer.size)
        return decode(*arguments, buffer=buffer, **options)

    monkeypatch.setattr(images.simplejpeg, "decode_jpeg", watched)
    fn.decoders.image_slice(FILES[name], start=(0, 0), shape=(50, 90), axes=(0, 1))
    rows = 203 if name == "progressive" or "restarts" in name else 66
    assert sizes == [rows * 157 * 3]


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 0.99])
def test_truncated_files_are_errors_even_where_the_part_is_whole(share):
    """A file that ends early is never half accepted, whatever part of it is asked for."""
    data = FILES["4:2:0"]
    with pytest.raises(image_headers.BadImage, match="truncated JPEG"):
        fn.decoders.image_slice(data[: int(len(data) * share)], start=(0, 0), shape=(10, 10), axes=(0, 1))


def test_damage_in_a_part_is_treated_as_in_the_whole():
    """Flipped bits above the last row of a part give what the decoder of whole files makes of them."""
    data = FILES["4:2:0"]
    for _ in range(60):
        broken = data.copy()
        broken[RNG.integers(len(data) // 4, len(data) // 2)] ^= 1 << RNG.integers(8)
        try:
            whole = fn.decoders.image(broken)
        except image_headers.BadImage:
            whole = None
        try:
            part = fn.decoders.image_slice(broken, start=(0, 0), shape=(150, 157), axes=(0, 1))
        except image_headers.BadImage:
            assert whole is None
            continue
        if whole is not None:
            assert np.array_equal(part, whole[:150])
