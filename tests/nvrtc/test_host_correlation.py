"""Filters, histograms and pasting on the GPU give on the host what the CPU gives."""

import numpy as np
import pytest
from host_device import assert_same, call_of, on_host

from pipeflow import fn, types
from pipeflow.declare import registry
from pipeflow.tensors import TensorListCPU
from pipeflow.types import NUMBERS, in_order

F = np.float32
TYPES = [dtype for dtype in in_order(NUMBERS) if dtype.kind != "b"]
SIZES = [(5, 7), (1, 1), (33, 2), (24, 65)]
BORDERS = ["reflect_101", "reflect_1001", "clamp", "wrap", "constant"]


def images(dtype=np.uint8, sizes=SIZES, channels=(3,)):
    """Ragged images of random numbers."""
    rng = np.random.default_rng(1)
    return [rng.integers(0, 120, (*size, *channels)).astype(dtype) for size in sizes]


def kernels(*sizes):
    """A kernel of random numbers for each image."""
    rng = np.random.default_rng(2)
    return [rng.uniform(-0.3, 0.4, sizes).astype(F) for _ in SIZES]


def close(dtype):
    """Sums are in another order: an integer may be one off where it lies between two."""
    return {"atol": 1, "few": 0.03} if np.dtype(dtype).kind in "ui" else {"rtol": 2e-3, "atol": 2e-3}


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("size", [(1, 1), (3, 3), (2, 5), (9, 4)])
def test_borders_and_anchors(border, size):
    """Kernels smaller and larger than the image, at their middle and at a corner; a fill value of its own type."""
    assert_same(lambda: fn.filter(images(), kernels(*size), border=border), **close(np.uint8))
    assert_same(lambda: fn.filter(images(F), kernels(*size), border=border, anchor=(0, size[1] - 1)), **close(F))
    fills = [np.int16(n + 3) for n in range(len(SIZES))]
    assert_same(lambda: fn.filter(images(), kernels(*size), fills, border="constant"), **close(np.uint8))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_types(dtype):
    """Every type, also to FLOAT, and kernels of other types."""
    assert_same(lambda: fn.filter(images(dtype), kernels(3, 3)), **close(dtype))
    whole = [np.rint(k * 5).astype(np.int32) for k in kernels(3, 3)]
    assert_same(lambda: fn.filter(images(dtype), whole, dtype=types.FLOAT), **close(F))
    assert_same(lambda: fn.laplacian(images(dtype), dtype=types.FLOAT), **close(F))
    assert_same(lambda: fn.laplacian(images(dtype), scale=0.1), **close(dtype))


def test_only_what_needs_nothing_from_outside():
    """mode="valid" gives less than the image; a kernel larger than it is refused."""
    large = images(sizes=[(12, 13), (9, 40)])
    assert_same(lambda: fn.filter(large, kernels(4, 5)[:2], mode="valid"), **close(np.uint8))
    with pytest.raises(ValueError, match="is larger than the data"):
        on_host(call_of(lambda: fn.filter(images(), kernels(9, 9), mode="valid")))


@pytest.mark.parametrize("layout", ["CHW", "HW", "FHWC", "FCHW", "DHWC", "CDHW", "DHW", "FDHWC"])
def test_layouts(layout):
    """Planes, frames and volumes."""
    rng = np.random.default_rng(3)
    extents = {"F": 2, "D": 4, "C": 3, "H": 6, "W": 7}
    data = TensorListCPU(
        [rng.integers(0, 120, [extents[x] + more for x in layout]).astype(np.uint8) for more in (0, 1)], layout
    )
    window = kernels(2, 3, 3)[:2] if "D" in layout else kernels(3, 2)[:2]
    assert_same(lambda: fn.filter(data, window), **close(np.uint8))
    assert_same(lambda: fn.laplacian(data, dtype=types.FLOAT, smoothing_size=1), **close(F))


def test_laplacians():
    """Windows for each image, large ones, and factors."""
    sizes = TensorListCPU([np.int32([3, 5 + 2 * (n % 3)]) for n in range(len(SIZES))])
    assert_same(lambda: fn.laplacian(images(), window_size=sizes, dtype=types.FLOAT), **close(F))
    assert_same(lambda: fn.laplacian(images(), window_size=5, normalized_kernel=True), **close(np.uint8))
    scales = TensorListCPU([F([0.1, n]) for n in range(len(SIZES))])
    assert_same(lambda: fn.laplacian(images(F), scale=scales), **close(F))


@pytest.mark.parametrize("layout", ["HWC", "CHW", "HW", "FHWC", "FCHW"])
def test_equalize(layout):
    """Byte for byte; single values stay as they are, and large images take several blocks."""
    rng = np.random.default_rng(4)
    data = []
    for height, width in [*SIZES, (200, 150)]:
        extents = {"F": 2, "C": 3, "H": height, "W": width}
        values = rng.normal(120, rng.uniform(1, 60), [extents[x] for x in layout])
        data.append(values.clip(0, 255).astype(np.uint8))
    data.append(np.full_like(data[0], 7))
    assert_same(lambda: fn.equalize(TensorListCPU(data, layout)))


TONES = {
    "invert": (lambda x: fn.invert(x), {}),
    "posterize": (lambda x: fn.posterize(x, bits=TensorListCPU([np.int32(n % 9) for n in range(len(x))])), {}),
    "solarize": (lambda x: fn.solarize(x, threshold=99.5), {}),
    "solarize_add": (lambda x: fn.solarize_add(x, shift=-30, threshold=140.0), {}),
    "autocontrast": (lambda x: fn.autocontrast(x), {}),
    "contrast_about_mean": (lambda x: fn.contrast_about_mean(x, contrast=1.6), {"atol": 1, "few": 0.01}),
}


@pytest.mark.parametrize(
    ("name", "layout"),
    [(name, layout) for name in TONES for layout in ("HWC", "FHWC", "CHW", "HW") if layout in registry[name].layouts],
)
def test_tones(name, layout):
    """By tables that the host makes, and by what is counted in the image; single values and large images too."""
    operator, slack = TONES[name]
    rng = np.random.default_rng(5)
    data = []
    for height, width in [*SIZES, (200, 150)]:
        extents = {"F": 2, "C": 3, "H": height, "W": width}
        data.append(rng.normal(120, rng.uniform(1, 60), [extents[x] for x in layout]).clip(0, 255).astype(np.uint8))
    data.append(np.full_like(data[0], 7))
    assert_same(lambda: operator(TensorListCPU(data, layout)), **slack)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_paste_and_grid_mask(dtype):
    """Canvases and grids of each image's own."""
    ratios = TensorListCPU([F(1 + n / 3) for n in range(len(SIZES))])
    assert_same(lambda: fn.paste(images(dtype), ratio=ratios, fill_value=(1, 2, 3), paste_x=0.2, min_canvas_size=9.0))
    tiles = TensorListCPU([np.int32(3 + n) for n in range(len(SIZES))])
    assert_same(lambda: fn.grid_mask(images(dtype), tile=tiles, angle=0.4, shift_x=1.5, ratio=0.6))
    planes = TensorListCPU([x.transpose(2, 0, 1).copy() for x in images(dtype)], "CHW")
    assert_same(lambda: fn.grid_mask(planes, tile=4))
    with pytest.raises(ValueError, match="tile must be at least 1"):
        on_host(call_of(lambda: fn.grid_mask(images(dtype), tile=0)))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int16])
def test_multi_paste(dtype):
    """Parts that overlap, canvases without parts, sequences, another type, several inputs."""

    def ids(*rows):
        return TensorListCPU([np.array(x, np.int32) for x in rows])

    options = {
        "in_ids": ids([0, 3, 2], [], [1], [3, 3]), "output_size": (40, 70), "shapes_rel": None,
        "out_anchors": ids([[0, 0], [1, 2], [3, 1]], np.zeros((0, 2)), [[5, 5]], [[0, 0], [9, 3]]),
    }  # fmt: skip
    assert_same(lambda: fn.multi_paste(images(dtype), **options))
    assert_same(lambda: fn.multi_paste(images(dtype), dtype=types.FLOAT, **options))
    clips = TensorListCPU([np.stack([x, x[::-1]]) for x in images(dtype)], "FHWC")
    assert_same(lambda: fn.multi_paste(clips, **options))
    several = [images(dtype), [x + 1 for x in images(dtype)]]
    assert_same(lambda: fn.multi_paste(*several, output_size=(50, 80), out_anchors=[0, 0, 9, 4]))
    with pytest.raises(ValueError, match="leaves its canvas"):
        on_host(call_of(lambda: fn.multi_paste(images(dtype), in_ids=[0], output_size=(2, 2))))


def test_images_without_pixels_are_refused():
    """As on the CPU, by both operators."""
    nothing = [np.empty((0, 5, 3), np.uint8)]
    for run in (lambda: fn.filter(nothing, [np.ones((3, 3), F)]), lambda: fn.laplacian(nothing)):
        with pytest.raises(ValueError, match="no pixels"):
            on_host(call_of(run))
