"""Maps of distortions and effects: against plain formulas, what they draw, and what is refused."""

import cv2
import numpy as np
import pytest
from PIL import Image, ImageFilter

from pipeflow import fn, pipeline_def, types
from pipeflow.kernels.cpu import distortions
from pipeflow.operators.effects import motion_taps

RNG = np.random.default_rng(2)
IMAGE = RNG.integers(0, 256, (24, 31, 3)).astype(np.uint8)
Y, X = np.mgrid[:24, :31] + 0.5


def test_nothing_moves_without_strength():
    """Every map of strength 0 leaves the image as it is, the images' borders included."""
    maps = [
        fn.distortions.elastic(IMAGE, alpha=0.0),
        fn.distortions.grid(IMAGE, limit=0.0),
        fn.distortions.optical(IMAGE, strength=0.0),
        fn.distortions.thin_plate(IMAGE, scale=0.0),
    ]
    for map_x, map_y in maps:
        np.testing.assert_allclose(map_x, X, atol=1e-4)
        np.testing.assert_allclose(map_y, Y, atol=1e-4)
        assert np.abs(fn.remap(IMAGE, map_x, map_y).astype(int) - IMAGE).max() <= 1


def test_elastic_is_smoothed_noise():
    """The displacements are those that a Gaussian filter of plain sums gives, and grow with alpha."""
    noise = RNG.uniform(-1, 1, (2, 24, 31)).astype(np.float32)
    reach = 6
    line = np.exp(-0.5 * (np.arange(-reach, reach + 1) / 1.5) ** 2)
    window = np.outer(line, line) / line.sum() ** 2
    padded = np.pad(noise[0], reach, mode="reflect")
    expected = np.array([[(padded[i : i + 13, j : j + 13] * window).sum() for j in range(31)] for i in range(24)])
    moved = distortions.elastic(lambda shape: (noise + 1).reshape(shape) / 2, 24, 31, 9.0, 1.5)[0] - X
    np.testing.assert_allclose(moved, 9 * expected, atol=2e-2)
    once, twice = (fn.distortions.elastic(IMAGE, alpha=alpha, key=4)[1] - Y for alpha in (10.0, 20.0))
    np.testing.assert_allclose(twice, 2 * once, atol=1e-4)


@pytest.mark.parametrize("sigma", [2.0, 3.0, 5.0, 8.0])
def test_elastic_between_points_is_as_strong_and_as_smooth_as_with_every_pixel(sigma):
    """Deviation and correlation over a distance are those of white noise under a Gaussian window, however far apart the
    points are: 1 / sqrt(12 pi) / sigma, and exp(-distance ** 2 / (4 sigma ** 2))."""
    image = np.zeros((500, 700, 1), np.uint8)
    map_x, map_y = fn.distortions.elastic(image, alpha=30.0, sigma=sigma, key=11)
    for moves in (map_x - np.arange(700) - 0.5, map_y - np.arange(500)[:, None] - 0.5):
        inner = moves[30:-30, 30:-30]
        assert inner.std() == pytest.approx(30 / np.sqrt(12 * np.pi) / sigma, rel=0.1)
        for distance in (1, int(sigma), int(2 * sigma)):
            found = (inner[:, distance:] * inner[:, :-distance]).mean() / inner.var()
            assert found == pytest.approx(np.exp(-(distance**2) / (4 * sigma**2)), abs=0.06)
            found = (inner[distance:] * inner[:-distance]).mean() / inner.var()
            assert found == pytest.approx(np.exp(-(distance**2) / (4 * sigma**2)), abs=0.06)


def test_a_grid_moves_its_nodes():
    """Linear between the nodes of each cell; the border stays, no node moves further than the limit."""
    moves = np.zeros((2, 3, 4), np.float32)
    moves[0, 1, 2] = 5.0
    map_x, map_y = distortions.grid(moves, 24, 31)
    down, across = np.abs(Y / 12 - 1), np.abs(X / (31 / 3) - 2)  # distances from the node, in cells
    np.testing.assert_allclose(map_x - X, 5 * np.clip(1 - down, 0, 1) * np.clip(1 - across, 0, 1), atol=1e-4)
    np.testing.assert_allclose(map_y, Y)
    for key in range(5):
        map_x, map_y = fn.distortions.grid(IMAGE, cells=(4, 5), limit=0.4, key=key)
        assert 0.3 < np.abs(map_x - X).max() <= 0.4 * 31 / 5
        assert (np.diff(map_x, axis=1) > 0).all()  # nothing folds
        assert (np.diff(map_y, axis=0) > 0).all()


def test_a_lens_by_its_formula():
    """Distances from the middle times 1 + strength * r * r, where r is 1 in the corners."""
    map_x, map_y = fn.distortions.optical(IMAGE, strength=0.5)
    r2 = ((X - 15.5) ** 2 + (Y - 12) ** 2) / (15.5**2 + 12**2)
    np.testing.assert_allclose(map_x, 15.5 + (X - 15.5) * (1 + 0.5 * r2), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(map_y, 12 + (Y - 12) * (1 + 0.5 * r2), rtol=1e-5, atol=1e-5)


def test_a_plate_passes_through_its_points():
    """At each point of the grid the map has that point's move; moves that are all alike shift everything."""
    moves = RNG.normal(0, 0.05, (9, 2))
    points = np.stack([axis.ravel() for axis in np.meshgrid([0, 0.5, 1], [0, 0.5, 1])], axis=1)
    map_x, map_y = distortions.thin_plate(moves, 400, 640)
    for (x, y), (move_x, move_y) in zip(points, moves, strict=True):
        row, column = min(int(y * 400), 399), min(int(x * 640), 639)
        assert abs(map_x[row, column] - (column + 0.5) - 640 * move_x) < 2
        assert abs(map_y[row, column] - (row + 0.5) - 400 * move_y) < 2
    map_x, map_y = fn.distortions.thin_plate(IMAGE, points=2, moves=[0.1, 0.25] * 4)
    np.testing.assert_allclose(map_x - X, 3.1, atol=1e-3)
    np.testing.assert_allclose(map_y - Y, 6, atol=1e-3)


def test_one_draw_moves_image_and_mask():
    """In a pipeline the maps of a sample are read by as many remaps as there are; a video has one map for its frames."""
    mask = (IMAGE[..., :1] > 128).astype(np.uint8)
    video = np.stack([IMAGE, IMAGE])

    @pipeline_def(batch_size=2, num_threads=1, device_id=None, seed=3, prefetch_queue_depth=1)
    def define():
        image, frames = (
            fn.external_source(source=lambda data=data: data, batch=True, layout=layout)
            for data, layout in (([IMAGE] * 2, "HWC"), ([video] * 2, "FHWC"))
        )
        part = fn.external_source(source=lambda: [mask] * 2, batch=True, layout="HWC")
        maps = fn.distortions.grid(image, limit=0.4)
        moved = [fn.remap(x, *maps, interp=types.INTERP_NN) for x in (image, part, frames)]
        return (*moved, *fn.distortions.elastic(frames), *maps)

    outputs = [[np.asarray(x) for x in output.samples()] for output in define().run()]
    for image, part, frames, map_x, _, grid_x, grid_y in zip(*outputs, strict=True):
        assert ((image[..., :1] > 128) == part).mean() > 0.99  # outside of the image both are 0
        assert (frames[0] == image).all()
        assert (frames[1] == image).all()
        assert map_x.shape == (24, 31)
        assert np.array_equal(image, fn.remap(IMAGE, grid_x, grid_y, interp=types.INTERP_NN))
    assert not np.array_equal(outputs[0][0], outputs[0][1])


def test_perspective_takes_points_to_points():
    """Each of four points, as OpenCV computes the matrix; three on a line are refused."""
    source = np.array([[0, 0], [80, 0], [80, 60], [0, 60]], np.float32)
    target = np.array([[5, 3], [70, 8], [78, 55], [2, 50]], np.float32)
    matrix = fn.transforms.perspective(source=source.ravel().tolist(), target=target.ravel().tolist())
    np.testing.assert_allclose(matrix, cv2.getPerspectiveTransform(source, target), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="three are on a line"):
        fn.transforms.perspective(source=[0, 0, 1, 1, 2, 2, 0, 5], target=target.ravel().tolist())
    with pytest.raises(ValueError, match="source must be four points, eight numbers, got 3"):
        fn.transforms.perspective(source=[0, 0, 1], target=target.ravel().tolist())


def correlated(image, taps):
    """Plain sums over a reflected border, rounded."""
    reach = taps.shape[0] // 2
    padded = np.pad(image.astype(np.float64), ((reach, reach), (reach, reach), (0, 0)), mode="reflect")
    total = np.zeros(image.shape)
    for i, j in np.ndindex(*taps.shape):
        total += taps[i, j] * padded[i : i + image.shape[0], j : j + image.shape[1]]
    return total


def assert_near(got, expected):
    difference = np.abs(got.astype(float) - np.clip(np.rint(expected), 0, 255))
    assert difference.max() <= 1
    assert (difference > 0).mean() < 0.02


def test_sharpen():
    """A share of the image plus its differences from the neighbours."""
    sharp = correlated(IMAGE, np.array([[-1, -1, -1], [-1, 8.7, -1], [-1, -1, -1]]))
    assert_near(fn.sharpen(IMAGE, alpha=0.4, lightness=0.7), 0.6 * IMAGE + 0.4 * sharp)
    assert (fn.sharpen(IMAGE, alpha=0.0) == IMAGE).all()


def test_enhance():
    """Pillow's two filters inside of the image, by shares; nothing with a share of 0."""
    for mode, taken in (("edges", ImageFilter.EDGE_ENHANCE), ("details", ImageFilter.DETAIL)):
        expected = np.asarray(Image.fromarray(IMAGE).filter(taken)).astype(int)
        inside = (slice(1, -1), slice(1, -1))
        assert np.abs(fn.enhance(IMAGE, mode=mode, alpha=1.0)[inside].astype(int) - expected[inside]).max() <= 1
        taps = {
            "edges": [[-0.5] * 3, [-0.5, 5, -0.5], [-0.5] * 3],
            "details": [[0, -1 / 6, 0], [-1 / 6, 10 / 6, -1 / 6], [0, -1 / 6, 0]],
        }
        sharp = correlated(IMAGE, np.array(taps[mode]))
        assert_near(fn.enhance(IMAGE, mode=mode, alpha=0.3), 0.7 * IMAGE + 0.3 * sharp)
        assert (fn.enhance(IMAGE, mode=mode, alpha=0.0) == IMAGE).all()


def test_motion_blur():
    """Weights along a line: level, upright, between pixels, heavier at one end."""
    np.testing.assert_allclose(motion_taps(5, 0.0, 0.0)[2], 0.2)
    np.testing.assert_allclose(motion_taps(5, 90.0, 0.0)[:, 2], 0.2, atol=1e-6)
    np.testing.assert_allclose(np.diag(motion_taps(3, -45.0, 0.0)), 1 / 3, atol=1e-6)
    np.testing.assert_allclose(motion_taps(3, 0.0, 1.0)[1], [0, 1 / 3, 2 / 3], atol=1e-6)
    for angle in range(0, 360, 25):
        assert abs(motion_taps(9, angle, 0.3).sum() - 1) < 1e-5
    assert_near(fn.motion_blur(IMAGE, size=5, angle=30.0), correlated(IMAGE, motion_taps(5, 30.0, 0.0)))


def test_unsharp_mask():
    """Differences from a Gaussian blur, amplified above the threshold."""
    line = np.exp(-0.5 * (np.arange(-4, 5) / 1.2) ** 2)
    blurred = correlated(IMAGE, np.outer(line, line) / line.sum() ** 2)
    difference = IMAGE - blurred
    expected = np.where(np.abs(difference) > 12, IMAGE + 0.8 * difference, IMAGE)
    assert_near(fn.unsharp_mask(IMAGE, sigma=1.2, amount=0.8, threshold=12.0), expected)


def test_channels():
    """All orders occur, whole channels are filled, any type and number of channels."""
    orders = set()
    for key in range(60):
        shuffled = fn.channel_shuffle(IMAGE, key=key)
        orders.add(tuple(next(k for k in range(3) if (shuffled[..., c] == IMAGE[..., k]).all()) for c in range(3)))
    assert len(orders) == 6
    for dtype, channels in ((np.float64, 4), (np.int16, 2), (np.float16, 5)):
        data = RNG.normal(0, 9, (4, 5, channels)).astype(dtype)
        shuffled = fn.channel_shuffle(data, key=3)
        assert sorted(x.tobytes() for x in shuffled.transpose(2, 0, 1)) == sorted(
            x.tobytes() for x in data.transpose(2, 0, 1)
        )
    dropped = [fn.channel_dropout(IMAGE, count=2, fill=7.0, key=key) for key in range(40)]
    kept = [[k for k in range(3) if (x[..., k] == IMAGE[..., k]).all()] for x in dropped]
    assert {tuple(k) for k in kept} == {(0,), (1,), (2,)}
    assert all((np.delete(x, k, axis=-1) == 7).all() for x, k in zip(dropped, kept, strict=True))


def test_jigsaw_moves_whole_parts():
    """Every part of the result is a part of the image, each once; parts of other sizes stay among themselves."""
    image = np.arange(12 * 15, dtype=np.uint16).reshape(12, 15, 1)

    def parts(x):
        return sorted(x[i : i + 4, j : j + 5].tobytes() for i in range(0, 12, 4) for j in range(0, 15, 5))

    results = [fn.jigsaw(image, grid=(3, 3), key=key) for key in range(5)]
    for result in results:
        assert parts(result) == parts(image)
        assert not np.array_equal(result, image)
    odd = fn.jigsaw(IMAGE, grid=(5, 4), key=1)
    assert sorted(odd.reshape(-1, 3).tolist()) == sorted(IMAGE.reshape(-1, 3).tolist())


def test_the_maps_of_a_jigsaw_move_image_points_and_boxes():
    """Maps and `fn.jigsaw` with one key make the same image; each point keeps its pixel, and a box in one part moves whole."""
    rows, columns, _ = IMAGE.shape
    maps = fn.distortions.jigsaw(IMAGE, grid=(3, 4), key=2)
    moved = fn.jigsaw(IMAGE, grid=(3, 4), key=2)
    np.testing.assert_array_equal(fn.remap(IMAGE, *maps), moved)
    assert not np.array_equal(moved, IMAGE)
    y, x = np.mgrid[:rows, :columns]
    points = fn.coord_remap(np.stack([x.ravel(), y.ravel()], 1).astype(np.float32) + 0.5, *maps, normalized=False)
    assert len(points) == rows * columns
    now_x, now_y = points.astype(int).T
    np.testing.assert_array_equal(moved[now_y, now_x].reshape(IMAGE.shape), IMAGE)
    box = np.array([[0.02, 0.03, 0.15, 0.2]], np.float32)
    found = fn.bbox_remap(box, *maps)
    pixel = np.float32([1 / columns, 1 / rows])
    assert np.all(np.abs((found[:, 2:] - found[:, :2]) - (box[:, 2:] - box[:, :2])) <= 1.01 * pixel)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fn.distortions.jigsaw(IMAGE, grid=(0, 2)), "grid must be one or two numbers of at least 1"),
        (lambda: fn.distortions.elastic(IMAGE, sigma=-1.0), "sigma must not be negative, got -1.0"),
        (
            lambda: fn.distortions.grid(IMAGE, cells=(0, 3)),
            r"cells must be one or two numbers of at least 1, got \[0, 3\]",
        ),
        (lambda: fn.distortions.thin_plate(IMAGE, points=1), "points must be at least 2, got 1"),
        (lambda: fn.distortions.thin_plate(IMAGE, moves=[1.0]), "moves of 16 points are 32 numbers, got 1"),
        (lambda: fn.distortions.thin_plate(IMAGE, scale=-1.0), "scale must not be negative, got -1.0"),
        (lambda: fn.jitter(IMAGE, nDegree=-1), "nDegree must not be negative, got -1"),
        (lambda: fn.distortions.optical(IMAGE[:0]), "the image has no pixels"),
        (lambda: fn.sharpen(IMAGE, alpha=2.0), "alpha must be from 0 to 1, got 2.0"),
        (lambda: fn.enhance(IMAGE, alpha=2.0), "alpha must be from 0 to 1, got 2.0"),
        (lambda: fn.enhance(IMAGE, mode="x"), "mode must be 'edges' or 'details', got 'x'"),
        (lambda: fn.motion_blur(IMAGE, size=4), "size must be an odd number of at least 1, got 4"),
        (lambda: fn.motion_blur(IMAGE, direction=2.0), "direction must be from -1 to 1, got 2.0"),
        (lambda: fn.unsharp_mask(IMAGE, sigma=0.0), "sigma must be above 0, got 0.0"),
        (lambda: fn.channel_dropout(IMAGE, count=4), "count must be from 0 to 3, the number of channels, got 4"),
        (lambda: fn.jigsaw(IMAGE, grid=(0, 2)), r"grid must be one or two numbers of at least 1, got \[0, 2\]"),
    ],
)
def test_what_is_refused(call, message):
    """The message has the value."""
    with pytest.raises(ValueError, match=message):
        call()
