"""Uneven light, clouds and weather: against plain formulas, the same for the same key, and what is refused."""

import numpy as np
import pytest

from pipeflow import fn, pipeline_def, seeds

RNG = np.random.default_rng(5)
IMAGE = RNG.integers(0, 256, (23, 31, 3)).astype(np.uint8)
FLOATS = RNG.random((23, 31, 3), dtype=np.float32)
Y, X = np.mgrid[:23, :31] + 0.5


def assert_near(got, expected):
    """Rounded and limited to bytes; a half may fall to either side."""
    assert got.dtype == np.uint8
    difference = np.abs(got.astype(float) - np.clip(np.rint(expected), 0, 255))
    assert difference.max() <= 1
    assert (difference > 0).mean() < 0.02


def by(pattern, image=IMAGE):
    return image * (1 + pattern[..., None])


def test_linear_light():
    """The factor grows evenly along the direction, from 1 at the outermost corner to 1 + gain at the opposite one."""
    assert_near(fn.illumination.linear(IMAGE, gain=0.5), by(0.5 * X / 31))
    assert_near(fn.illumination.linear(IMAGE, gain=-0.7, angle=90.0), by(-0.7 * (1 - Y / 23)))
    # at 45 degrees light comes from the upper right: (x - y) goes from -23 to 31
    assert_near(fn.illumination.linear(IMAGE, gain=0.4, angle=45.0), by(0.4 * (X - Y + 23) / 54))
    np.testing.assert_allclose(fn.illumination.linear(FLOATS, gain=0.5), by(0.5 * X / 31, FLOATS), rtol=1e-5)


@pytest.mark.parametrize(("corner", "x", "y"), [(0, 31, 23), (1, 0, 23), (2, 0, 0), (3, 31, 0)])
def test_light_from_a_corner(corner, x, y):
    """The factor grows with the distance from the corner that is opposite to the light."""
    distance = np.hypot(X - x, Y - y) / np.hypot(31, 23)
    assert_near(fn.illumination.corner(IMAGE, gain=0.6, corner=corner), by(0.6 * distance))


def test_a_bell_of_light():
    """A normal distribution of relative places around the centre."""
    bell = np.exp(-((X / 31 - 0.25) ** 2 + (Y / 23 - 0.6) ** 2) / (2 * 0.2**2))
    assert_near(fn.illumination.gaussian(IMAGE, gain=0.8, center=[0.25, 0.6], sigma=0.2), by(0.8 * bell))


def cloud(key, roughness, height, width):
    """Random lattices, each twice as fine, linear between their nodes, in plain NumPy."""
    levels = int(np.ceil(np.log2(max(height, width))))
    total = np.zeros((height, width))
    for level in range(levels + 1):
        step = 2 ** (levels - level)
        rows, columns = (height - 1) // step + 2, (width - 1) // step + 2
        nodes = np.empty((rows, columns))
        for i in range(rows):
            words = seeds.bits(key, (columns + 3) // 4, (level << 40) + (i << 20))
            parts = [int(word) >> 16 * part & 0xFFFF for word in words for part in range(4)]
            nodes[i] = (np.array(parts[:columns]) + 0.5) / 65536 - 0.5
        down, across = np.arange(height) / step, np.arange(width) / step
        lines = np.array([np.interp(across, np.arange(columns), row) for row in nodes])
        total += roughness**level * np.array([np.interp(down, np.arange(rows), x) for x in lines.T]).T
    return (total - total.min()) / (total.max() - total.min())


def key_of(number):
    """The key that the eager call with ``key=number`` gives its sample."""
    return int(seeds.sample_keys(number, np.arange(1))[0])


@pytest.mark.parametrize("roughness", [0.0, 0.5, 1.0])
def test_clouds(roughness):
    """Brightness, contrast and shadow follow the cloud of the key, which goes from 0 to 1."""
    p = cloud(key_of(9), roughness, 23, 31)[..., None]
    arguments = {"roughness": roughness, "key": 9}
    assert_near(fn.plasma.brightness(IMAGE, intensity=0.4, **arguments), IMAGE + 0.4 * 255 * (2 * p - 1))
    assert_near(fn.plasma.contrast(IMAGE, intensity=0.8, **arguments), IMAGE + 0.8 * (2 * p - 1) * (IMAGE - 128.0))
    assert_near(fn.plasma.shadow(IMAGE, intensity=0.6, **arguments), IMAGE * (1 - 0.6 * p))
    expected = FLOATS + 0.4 * (2 * p - 1)
    np.testing.assert_allclose(fn.plasma.brightness(FLOATS, intensity=0.4, **arguments), expected, atol=1e-5)


def test_any_number_of_channels_gets_the_same_light():
    """All channels of a pixel are scaled alike, whether there are three of them or not."""
    gray = np.ascontiguousarray(IMAGE[..., :1])
    three = np.asarray(fn.weather.fog(np.repeat(gray, 3, axis=2), density=0.5, key=3))
    for channels in (1, 2, 4):
        found = fn.weather.fog(np.repeat(gray, channels, axis=2), density=0.5, key=3)
        assert found.shape[2] == channels
        for channel in range(channels):
            np.testing.assert_array_equal(found[..., channel], three[..., 0])


def test_fog():
    """White, by the cloud: never thinner than the variation says."""
    p = cloud(key_of(4), 0.4, 23, 31)[..., None]
    thickness = 0.9 * (0.7 + 0.3 * p)
    assert_near(
        fn.weather.fog(IMAGE, density=0.9, variation=0.3, key=4), IMAGE + thickness * (255 - IMAGE.astype(float))
    )


def test_rain_by_hand():
    """Every drop is a leaning stroke from its place, mixed in after the ones before it."""
    expected, key = IMAGE.astype(np.float64), key_of(7)
    color, lean = np.array([200.0, 210.0, 220.0]), np.tan(np.radians(20))
    for drop in range(round(0.05 * (23 + 6) * (31 + lean * 6))):
        across, down = seeds.unit(key, 2, 2 * drop)[::-1]
        first = int(np.floor(down * (23 + 6) - 6))
        left = across * (31 + lean * 6) - lean * 6
        for y in range(max(first, 0), min(first + 6, 23)):
            begin = int(np.floor(left + lean * (y - first)))
            for x in range(max(begin, 0), min(begin + 2, 31)):
                expected[y, x] = np.floor(expected[y, x] + 0.7 * (color - expected[y, x]) + 0.5)
    got = fn.weather.rain(IMAGE, density=0.05, length=6, width=2, angle=20.0, color=color.tolist(), opacity=0.7, key=7)
    assert np.abs(got.astype(float) - expected).max() <= 1
    assert 0.2 < (got != IMAGE).any(-1).mean() < 0.9
    assert (fn.weather.rain(IMAGE, density=0.0) == IMAGE).all()
    floats = fn.weather.rain(FLOATS, color=[255.0], opacity=1.0, key=3)
    assert set(floats[floats != FLOATS]) == {1.0}


def test_rain_falls_everywhere():
    """Drops begin above the image and at its sides, whichever way they lean."""
    black = np.zeros((40, 50, 1), np.uint8)
    for angle in (-45.0, 0.0, 45.0):
        wet = np.mean([fn.weather.rain(black, density=0.01, length=12, angle=angle, key=k) > 0 for k in range(100)], 0)
        for part in (wet[:5], wet[-5:], wet[:, :5], wet[:, -5:]):
            assert abs(part.mean() / wet.mean() - 1) < 0.15


def test_snow_by_hand():
    """Lightness is half the sum of the extremes; what is added to it leaves hue and saturation (HLS) alone."""
    image = np.array([[[10, 20, 60], [0, 0, 0], [200, 210, 250], [90, 90, 90], [255, 255, 255]]], np.uint8)
    got = fn.weather.snow(image, point=0.5, brightness=2.0)
    # (10, 20, 60): lightness 35 becomes 70, so the differences (-25, -15, 25) double: (20, 40, 120). Grey 90 becomes 180.
    assert got.tolist() == [[[20, 40, 120], [0, 0, 0], [200, 210, 250], [180, 180, 180], [255, 255, 255]]]
    # 0.4 * 255 = 102 above 90 times 4 is white, and a colour that becomes white has no differences left
    assert fn.weather.snow(image[:, 3:4], point=0.4, brightness=4.0).tolist() == [[[255, 255, 255]]]
    assert (fn.weather.snow(IMAGE, point=0.0) == IMAGE).all()


def test_frames_have_one_draw():
    """The weather of a sequence stays from frame to frame, and differs from sample to sample."""
    video = np.stack([IMAGE, IMAGE])

    @pipeline_def(batch_size=2, num_threads=1, device_id=None, seed=3, prefetch_queue_depth=1)
    def define():
        frames = fn.external_source(source=lambda: [video] * 2, batch=True, layout="FHWC")
        strength = fn.random.uniform(range=(0.5, 0.9))
        return fn.weather.fog(frames, density=strength), fn.plasma.shadow(frames), fn.weather.rain(frames, density=0.05)

    for output in define().run():
        one, other = (np.asarray(x) for x in output.samples())
        assert (one[0] == one[1]).all()
        assert (one != other).any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fn.illumination.corner(IMAGE, corner=4), "corner must be from 0 to 3, got 4"),
        (lambda: fn.illumination.gaussian(IMAGE, sigma=0.0), "sigma must be above 0, got 0.0"),
        (lambda: fn.illumination.gaussian(IMAGE, center=[0.5]), "center must be two numbers, x and y, got 1"),
        (lambda: fn.illumination.linear(IMAGE[:0]), "the image has no pixels"),
        (lambda: fn.plasma.shadow(IMAGE, roughness=1.5), "roughness must be from 0 to 1, got 1.5"),
        (lambda: fn.plasma.shadow(IMAGE, intensity=-0.5), "intensity must be from 0 to 1, got -0.5"),
        (lambda: fn.weather.fog(IMAGE, density=2.0), "density must be from 0 to 1, got 2.0"),
        (lambda: fn.weather.rain(IMAGE, density=2.0), "density must be from 0 to 1, got 2.0"),
        (lambda: fn.weather.rain(IMAGE, length=0), "length and width must be at least 1, got 0 and 1"),
        (lambda: fn.weather.rain(IMAGE, opacity=2.0), "opacity must be from 0 to 1, got 2.0"),
        (lambda: fn.weather.rain(IMAGE, angle=90.0), "angle must be from -80 to 80, got 90.0"),
        (lambda: fn.weather.rain(IMAGE, color=[1.0, 2.0]), "color must be one number or 3, one a channel, got 2"),
        (lambda: fn.weather.snow(IMAGE, point=2.0), "point must be from 0 to 1, got 2.0"),
        (lambda: fn.weather.snow(IMAGE, brightness=-1.0), "brightness must not be negative, got -1.0"),
        (lambda: fn.weather.snow(IMAGE[..., :1]), "weather.snow needs 3 channels, the image has 1"),
    ],
)
def test_what_is_refused(call, message):
    """The message has the value."""
    with pytest.raises(ValueError, match=message):
        call()
