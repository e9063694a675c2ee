"""A mark in an image is where its point is: every operator that moves pixels, with the one that moves points."""

import numpy as np
import pytest

from pipeflow import fn

HEIGHT, WIDTH = 90, 120
SHAPE = (HEIGHT, WIDTH)


def marked(points):
    """An image of one smooth mark, at a point in relative coordinates."""
    rows, columns = np.mgrid[:HEIGHT, :WIDTH] + 0.5
    x, y = np.multiply(points[0], (WIDTH, HEIGHT))
    return np.exp(-((rows - y) ** 2 + (columns - x) ** 2) / 8).astype(np.float32)[..., None]


def place(image):
    """Where the mark of an image is, in relative coordinates."""
    weights = np.where(image[..., 0] > 0.02, image[..., 0], 0)
    rows, columns = np.mgrid[: image.shape[0], : image.shape[1]] + 0.5
    return (
        np.array([(weights * columns).sum() / image.shape[1], (weights * rows).sum() / image.shape[0]]) / weights.sum()
    )


def rotation(angle):
    return fn.transforms.rotation(angle=angle, center=(WIDTH / 2, HEIGHT / 2))


def through_maps(draw):
    def moved(image, points):
        maps = draw(image)
        return fn.remap(image, *maps), fn.coord_remap(points, *maps)

    return moved


def warped(matrix, perspective=False):
    operator = fn.warp_perspective if perspective else fn.warp_affine

    def moved(image, points):
        image = operator(image, matrix=matrix, fill_value=0, inverse_map=False)
        return image, fn.coord_warp(points, matrix=matrix, inverse_map=False, input_shape=SHAPE)

    return moved


def pasted(image, points):
    """The scale and shift of the canvas, as boxes are moved."""
    box = np.concatenate([points - 0.01, points + 0.01], 1).astype(np.float32)
    how = {"ratio": 1.5, "paste_x": 0.3, "paste_y": 0.9}
    box = fn.bbox_paste(box, ltrb=True, **how)
    return fn.paste(image, fill_value=(0,), **how), (box[:, :2] + box[:, 2:]) / 2


def cropped(image, points):
    window = {"anchor": (20 / WIDTH, 10 / HEIGHT), "shape": (80 / WIDTH, 70 / HEIGHT)}
    part = fn.slice(image, start=(10, 20), shape=(70, 80), axes=(0, 1))
    return part, fn.coord_crop(points, **window)


MOVES = {
    "flip": lambda image, points: (fn.flip(image, horizontal=1, vertical=1), fn.coord_flip(points, flip_x=1, flip_y=1)),
    "rotate": lambda image, points: (
        fn.rotate(image, angle=25.0, keep_size=True),
        fn.coord_warp(points, matrix=rotation(-25.0), inverse_map=False, input_shape=SHAPE),
    ),
    "warp_affine": warped([1.1, 0.2, -9.0, -0.15, 0.9, 12.0]),
    "warp_perspective": warped([0.9, 0.1, 4.0, -0.05, 1.0, 3.0, 0.0008, -0.0005, 1.0], perspective=True),
    "crop": cropped,
    "paste": pasted,
    "distortions.elastic": through_maps(lambda image: fn.distortions.elastic(image, alpha=150.0, sigma=12.0, key=3)),
    "distortions.grid": through_maps(lambda image: fn.distortions.grid(image, limit=0.3, key=3)),
    "distortions.optical": through_maps(lambda image: fn.distortions.optical(image, strength=2.0)),
    "distortions.thin_plate": through_maps(lambda image: fn.distortions.thin_plate(image, scale=0.04, key=3)),
}


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("point", [(0.5, 0.5), (0.4, 0.35), (0.6, 0.45), (0.38, 0.62)])
def test_a_point_moves_with_its_pixel(name, point):
    """Within a pixel and a half: a mark is a few pixels wide, and a distortion bends it."""
    points = np.array([point], np.float32)
    image, moved = MOVES[name](marked(points), points)
    assert moved.shape == (1, 2)
    apart = (place(np.asarray(image)) - np.asarray(moved)[0]) * (image.shape[1], image.shape[0])
    assert np.abs(apart).max() < 1.5, apart
    if point != (0.5, 0.5):
        still = (place(np.asarray(image)) - points[0]) * (image.shape[1], image.shape[0])
        assert np.abs(still).max() > 0.05  # the operator has moved it


def test_a_mark_in_quarter_turns_and_their_boxes():
    """rotate90 with the box that bbox_rotate gives for the same angle."""
    points = np.array([[0.3, 0.4]], np.float32)
    box = np.array([[0.25, 0.35, 0.35, 0.45]], np.float32)
    for quarters in range(4):
        image = fn.rotate90(marked(points), times=quarters) if quarters else marked(points)
        found = fn.bbox_rotate(box, angle=90.0 * quarters, input_shape=SHAPE)
        middle = (found[0, :2] + found[0, 2:]) / 2
        assert np.abs((place(image) - middle) * (image.shape[1], image.shape[0])).max() < 0.1
