"""Takes the pixels of an image from other positions: perspective, maps, waves, lenses, jitter.

Every operation computes, for one row at a time, the source position of each pixel of the output; all other work is the same.
Positions are in pixels, and the centre of the first pixel is at 0. Results are rounded half to even, as OpenCV does.
"""

from collections.abc import Callable

import numpy as np

from pipeflow.kernels.cpu.simd.places import GROUP, OUTSIDE, all_inside, four_places
from pipeflow.kernels.cpu.simd.sums import round_row

from .blending import blend_pixels
from .casting import as_type, cast
from .jit import kernel, machine_code, plain
from .moving import row_of_places, take_pixels
from .noise import GOLDEN, mixed

FAST = {np.dtype(np.uint8), np.dtype(np.float32)}
NEAREST, LINEAR, CUBIC = 0, 1, 2
CONSTANT, REPLICATE, REFLECT, REFLECT_101, WRAP = range(5)
FAR = 1e9  # pixels; positions that are further away, or NaN, are moved to this distance


@kernel
def border_index(index, size, border):
    """The index of the element that replaces one outside; -1 for the fill value."""
    if 0 <= index < size:
        return index
    if border == CONSTANT:
        return -1
    if border == REPLICATE or size == 1:
        return 0 if index < 0 else size - 1
    if border == WRAP:
        return index % size
    period = 2 * size if border == REFLECT else 2 * size - 2
    index %= period
    if index < size:
        return index
    return period - 1 - index if border == REFLECT else period - index


@kernel
def value_at(source, y, x, channel, border, fill):
    """A pixel's value, also outside the image."""
    row, column = border_index(y, source.shape[0], border), border_index(x, source.shape[1], border)
    return np.float32(fill[channel]) if row < 0 or column < 0 else np.float32(source[row, column, channel])


@kernel
def limited(place):
    """The position, or one far away if it is not a number or too large."""
    return place if -FAR < place < FAR else -FAR


@kernel
def nearest_row(source, xs, ys, border, fill, out, places, i):
    """Copies the nearest pixels: first computes all places, several at a time, then copies."""
    height, width, channels = source.shape
    wide, tall = float(width), float(height)
    for j in range(xs.size):
        x, y = np.floor(xs[j] + 0.5), np.floor(ys[j] + 0.5)
        inside = (x >= 0.0) & (y >= 0.0) & (x < wide) & (y < tall)
        places[j] = places.dtype.type(y * wide + x) if inside else places.dtype.type(-1)
    if border != CONSTANT:
        for j in range(xs.size):
            if places[j] < 0:
                column = border_index(np.int64(np.floor(limited(xs[j]) + 0.5)), width, border)
                places[j] = border_index(np.int64(np.floor(limited(ys[j]) + 0.5)), height, border) * width + column
    take_pixels(source.reshape(source.size), places, channels, fill, out.reshape(out.size), i * xs.size * channels)


@kernel
def linear_places(xs, ys, height, width, channels, places, us, vs):
    """The places of the four nearest pixels, and the weights of the second ones; True if some of them are outside the image."""
    right = (
        width - 1 - (4 * ((channels + 3) // 4) + channels - 1) // channels
    )  # a blend may read elements after the pixel
    return four_places(xs, ys, width, height, right, channels, places, us, vs, xs.size)


@kernel
def fill_pixels(fill, first, last, line):
    """Sets some pixels of a row to the fill value; three channels are written without a loop over them."""
    channels = fill.size
    if channels == 3:
        red, green, blue = np.float32(fill[0]), np.float32(fill[1]), np.float32(fill[2])
        for j in range(first, last):
            line[3 * j], line[3 * j + 1], line[3 * j + 2] = red, green, blue
        return
    for j in range(first, last):
        for k in range(channels):
            line[j * channels + k] = np.float32(fill[k])


@kernel
def border_blend(source, x, y, border, fill, line, at):
    """Blends four pixels of which some may be outside the image."""
    height, width, channels = source.shape
    one = np.float32(1)
    left, top = np.floor(x), np.floor(y)
    p, q = np.int64(left), np.int64(top)
    u, v = np.float32(x - left), np.float32(y - top)
    # indices of rows and columns once for each pixel: computed for each channel they took half the time of a remap
    above, below = border_index(q, height, border), border_index(q + 1, height, border)
    before, after = border_index(p, width, border), border_index(p + 1, width, border)
    for k in range(channels):
        empty = np.float32(fill[k])
        a = empty if above < 0 or before < 0 else np.float32(source[above, before, k])
        b = empty if above < 0 or after < 0 else np.float32(source[above, after, k])
        c = empty if below < 0 or before < 0 else np.float32(source[below, before, k])
        d = empty if below < 0 or after < 0 else np.float32(source[below, after, k])
        upper, lower = (one - u) * a + u * b, (one - u) * c + u * d
        line[at + k] = (one - v) * upper + v * lower


@kernel
def linear_borders(source, xs, ys, border, fill, places, line):
    """The blends of a row that need pixels outside the image."""
    channels, j, count = source.shape[2], 0, xs.size
    while j < count:
        if places[j] >= 0:
            j += 1
            while j + GROUP <= count and all_inside(places, j):
                j += GROUP
        elif border == CONSTANT and places[j] == OUTSIDE:
            first = j
            while j < count and places[j] == OUTSIDE:
                j += 1
            fill_pixels(fill, first, j, line)
        else:
            border_blend(
                source, limited(np.float64(xs[j])), limited(np.float64(ys[j])), border, fill, line, j * channels
            )
            j += 1


@kernel
def linear_row(source, xs, ys, border, fill, places, us, vs, line):
    """Blends the four nearest pixels: first computes all places, several at a time, then the pixels, then those at the border."""
    height, width, channels = source.shape
    rest = linear_places(xs, ys, height, width, channels, places, us, vs)
    blend_pixels(source.reshape(source.size), places, us, vs, channels, width * channels, line)
    if rest:
        linear_borders(source, xs, ys, border, fill, places, line)


@kernel
def cubic_weights(t, weights):
    """The four weights of cubic interpolation, with the slope that OpenCV uses."""
    a = np.float32(-0.75)
    one = np.float32(1)
    weights[0] = ((a * (t + one) - 5 * a) * (t + one) + 8 * a) * (t + one) - 4 * a
    weights[1] = ((a + 2) * t - (a + 3)) * t * t + one
    weights[2] = ((a + 2) * (one - t) - (a + 3)) * (one - t) * (one - t) + one
    weights[3] = one - weights[0] - weights[1] - weights[2]


@kernel
def cubic_row(source, xs, ys, border, fill, line):
    """Blends of sixteen pixels."""
    channels = source.shape[2]
    across, down = np.empty(4, np.float32), np.empty(4, np.float32)
    for j in range(xs.size):
        x, y = limited(xs[j]), limited(ys[j])
        left, top = np.floor(x), np.floor(y)
        p, q = np.int64(left), np.int64(top)
        cubic_weights(np.float32(x - left), across)
        cubic_weights(np.float32(y - top), down)
        for k in range(channels):
            total = np.float32(0)
            for r in range(4):
                part = np.float32(0)
                for c in range(4):
                    part += across[c] * value_at(source, q + r - 1, p + c - 1, k, border, fill)
                total += down[r] * part
            line[j * channels + k] = total


@kernel
def put_row(line, out, i):
    """Row i of the output, rounded."""
    size = out.shape[1] * out.shape[2]
    round_row(line, 0, out.reshape(out.size), i * size, size)


@kernel
def perspective_places(matrix, origin, even, i, xs, ys):
    """The source positions of row i by a projective matrix; the centre of a pixel is `origin` from its corner."""
    y = i + origin
    a, b, c = matrix[1] * y + matrix[2], matrix[4] * y + matrix[5], matrix[7] * y + matrix[8]
    d, e, f = matrix[0], matrix[3], matrix[6]
    for j in range(xs.size):
        x = np.float64(np.int32(j)) + origin
        depth = 1.0 / (f * x + c)
        xs[j] = (d * x + a) * depth - origin
        ys[j] = (e * x + b) * depth - origin
    if even:
        for j in range(xs.size):
            xs[j], ys[j] = np.rint(xs[j]), np.rint(ys[j])


@kernel
def map_places(map_x, map_y, shift, even, i, xs, ys):
    """The source positions of row i from two maps; float32 is exact enough for weights of bytes."""
    row_x, row_y, less = map_x[i], map_y[i], xs.dtype.type(shift)
    for j in range(xs.size):
        xs[j] = row_x[j] - less
    for j in range(xs.size):
        ys[j] = row_y[j] - less
    if even:
        for j in range(xs.size):
            xs[j], ys[j] = np.rint(xs[j]), np.rint(ys[j])


@kernel
def wave_places(lines, columns, i, xs, ys):
    """The source positions of row i if rows move sideways and columns move up and down."""
    for j in range(xs.size):
        xs[j] = j + lines[i] - 0.5
        ys[j] = i + columns[j] - 0.5


@kernel(fastmath=False)
def lens_places(height, width, i, xs, ys):
    """The source positions of row i in a magnifying sphere: the distance from the centre is multiplied by its ratio to half the
    longer side.

    It is computed in float32 without fused steps, as in DALI: positions at the edge of a pixel are common here.
    """
    half = np.float32(0.5)
    middle_x, middle_y = np.float32(width) * half, np.float32(height) * half
    radius = np.float32(max(width // 2, height // 2, 1))
    y = np.float32(i) + half - middle_y
    for j in range(xs.size):
        x = np.float32(j) + half - middle_x
        scale = np.sqrt(x * x + y * y) / radius
        xs[j] = np.float64(middle_x + scale * x) - 0.5
        ys[j] = np.float64(middle_y + scale * y) - 0.5


@kernel
def scattered_places(key, degree, width, i, xs, ys):
    """The source positions of row i if every pixel moves by up to half of `degree` along each axis."""
    step = degree * 2.0**-32
    for j in range(xs.size):
        word = mixed(key ^ mixed(np.uint64(i * width + j + 1) * GOLDEN))
        xs[j] = j + np.float64(word >> np.uint64(32)) * step - 0.5 * degree
        ys[j] = i + np.float64(word & np.uint64(0xFFFFFFFF)) * step - 0.5 * degree


# Each interpolation has kernels of its own: with both in one, the linear one takes 1.6 times as long.
@kernel
def through_matrix_linear(source, room, matrix, origin, border, fill, line, out):
    """Computes perspective; blends four pixels."""
    xs, ys = np.empty(out.shape[1]), np.empty(out.shape[1])
    places, us, vs = room
    for i in range(out.shape[0]):
        perspective_places(matrix, origin, False, i, xs, ys)
        linear_row(source, xs, ys, border, fill, places, us, vs, line)
        put_row(line, out, i)


@kernel
def through_matrix_cubic(source, _room, matrix, origin, border, fill, line, out):
    """Computes perspective; blends sixteen pixels."""
    xs, ys = np.empty(out.shape[1]), np.empty(out.shape[1])
    for i in range(out.shape[0]):
        perspective_places(matrix, origin, False, i, xs, ys)
        cubic_row(source, xs, ys, border, fill, line)
        put_row(line, out, i)


@kernel
def through_matrix_nearest(source, places, matrix, origin, border, fill, out):
    """Computes perspective; copies the nearest pixel."""
    xs, ys = np.empty(out.shape[1]), np.empty(out.shape[1])
    for i in range(out.shape[0]):
        perspective_places(matrix, origin, True, i, xs, ys)
        nearest_row(source, xs, ys, border, fill, out, places, i)


@kernel
def through_maps_linear(source, room, map_x, map_y, shift, border, fill, line, out):
    """Computes remap; blends four pixels."""
    xs, ys = np.empty(out.shape[1], np.float32), np.empty(out.shape[1], np.float32)
    places, us, vs = room
    for i in range(out.shape[0]):
        map_places(map_x, map_y, shift, False, i, xs, ys)
        linear_row(source, xs, ys, border, fill, places, us, vs, line)
        put_row(line, out, i)


@kernel
def through_maps_cubic(source, _room, map_x, map_y, shift, border, fill, line, out):
    """Computes remap; blends sixteen pixels."""
    xs, ys = np.empty(out.shape[1], np.float32), np.empty(out.shape[1], np.float32)
    for i in range(out.shape[0]):
        map_places(map_x, map_y, shift, False, i, xs, ys)
        cubic_row(source, xs, ys, border, fill, line)
        put_row(line, out, i)


@kernel
def through_maps_nearest(source, places, map_x, map_y, shift, border, fill, out):
    """Computes remap; copies the nearest pixel."""
    xs, ys = np.empty(out.shape[1]), np.empty(out.shape[1])
    for i in range(out.shape[0]):
        map_places(map_x, map_y, shift, True, i, xs, ys)
        nearest_row(source, xs, ys, border, fill, out, places, i)


WAVES, LENS, SCATTER = range(3)


@kernel
def effect_places(kind, lines, columns, key, degree, height, width, i, xs, ys):
    """The source positions of row i by one of the effects."""
    if kind == WAVES:
        wave_places(lines, columns, i, xs, ys)
    elif kind == LENS:
        lens_places(height, width, i, xs, ys)
    else:
        scattered_places(key, degree, width, i, xs, ys)


@kernel
def through_effect(source, room, kind, lines, columns, key, degree, fill, line, out):
    """Computes an effect; interpolates."""
    xs, ys = np.empty(out.shape[1]), np.empty(out.shape[1])
    places, us, vs = room
    for i in range(out.shape[0]):
        effect_places(kind, lines, columns, key, degree, source.shape[0], source.shape[1], i, xs, ys)
        linear_row(source, xs, ys, CONSTANT, fill, places, us, vs, line)
        put_row(line, out, i)


@kernel
def through_effect_nearest(source, places, kind, lines, columns, key, degree, fill, out):
    """Computes an effect; copies the nearest pixel."""
    xs, ys = np.empty(out.shape[1]), np.empty(out.shape[1])
    for i in range(out.shape[0]):
        effect_places(kind, lines, columns, key, degree, source.shape[0], source.shape[1], i, xs, ys)
        nearest_row(source, xs, ys, CONSTANT, fill, out, places, i)


def raw(array: np.ndarray) -> np.ndarray:
    """The array as a type that kernels copy."""
    return array.view(np.uint16) if array.dtype == np.float16 else array


def copied(kernel_of: object, source: np.ndarray, fill: np.ndarray, out: np.ndarray, *arguments: object) -> np.ndarray:
    """Runs a kernel that looks up nearest pixels."""
    values = as_type(np.ascontiguousarray(fill, np.float64), source.dtype)
    places = row_of_places(source, out.shape[1])
    kernel_of(plain(raw(source)), places, *arguments, raw(values), raw(out))  # type: ignore[operator]
    return out


def blended(kernel_of: object, source: np.ndarray, fill: np.ndarray, out: np.ndarray, *arguments: object) -> np.ndarray:
    """Runs a kernel that interpolates; types that it does not read or write are converted to float32."""
    image = source if source.dtype in FAST else as_type(source, np.dtype(np.float32))
    target = out if out.dtype in FAST else np.empty(out.shape, np.float32)
    columns = out.shape[1]
    line = np.empty(columns * out.shape[2] + 16, np.float32)
    room = row_of_places(source, columns), np.empty(columns, np.float32), np.empty(columns, np.float32)
    values = np.ascontiguousarray(fill, np.float32)
    kernel_of(plain(image), room, *arguments, values, line, target)  # type: ignore[operator]
    if target is out:
        return out
    return cast(np.rint(target) if out.dtype.kind in "iu" else target, out)


def perspective(
    source: np.ndarray,
    matrix: np.ndarray,
    origin: float,
    border: int,
    fill: np.ndarray,
    interpolation: int,
    out: np.ndarray,
) -> np.ndarray:
    """Warps an image (H, W, C) by a projective matrix of nine numbers from output to input coordinates."""
    numbers = np.ascontiguousarray(matrix, np.float64).reshape(9)
    if interpolation == NEAREST:
        return copied(through_matrix_nearest, source, fill, out, numbers, origin, border)
    through = through_matrix_linear if interpolation == LINEAR else through_matrix_cubic
    return blended(through, source, fill, out, numbers, origin, border)


def _again(
    kernels_of: tuple[object, ...], dtype: np.dtype, fill: np.ndarray, interpolation: int, *arguments: object
) -> Callable[..., np.ndarray] | None:
    """The kernel of an interpolation for many images: ``(source, out, *arguments)``, of the types of these arguments; None for
    images that are converted. The images have less than MOST elements.
    """
    nearest, kernel_of = interpolation == NEAREST, kernels_of[interpolation]
    if dtype not in FAST:
        return None
    like, few, empty, single = np.empty((1, 1, 1), dtype), np.empty(0, np.float32), np.empty, np.dtype(np.float32)
    whole = row_of_places(like, 0).dtype
    if nearest:
        copies = as_type(np.ascontiguousarray(fill, np.float64), dtype)
        copy = machine_code(kernel_of, like, empty(0, whole), *arguments, copies, like)  # type: ignore[arg-type]

        def run_nearest(source: np.ndarray, out: np.ndarray, *given: object) -> np.ndarray:
            copy(source, empty(out.shape[1], whole), *given, copies, out)
            return out

        return run_nearest
    values = np.ascontiguousarray(fill, np.float32)
    compute = machine_code(kernel_of, like, (empty(0, whole), few, few), *arguments, values, few, like)  # type: ignore[arg-type]

    def run(source: np.ndarray, out: np.ndarray, *given: object) -> np.ndarray:
        _, columns, channels = out.shape
        line, right, down = empty(columns * channels + 16, single), empty(columns, single), empty(columns, single)
        compute(source, (empty(columns, whole), right, down), *given, values, line, out)
        return out

    return run


MOST = 2**31  # elements of an image; in larger ones, places have another type


def perspective_again(
    dtype: np.dtype, origin: float, border: int, fill: np.ndarray, interpolation: int
) -> Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray] | None:
    """`perspective` for many calls; None for types that are converted."""
    through = through_matrix_nearest, through_matrix_linear, through_matrix_cubic
    compute = _again(through, dtype, fill, interpolation, np.empty(9), origin, border)
    if compute is None:
        return None

    def run(source: np.ndarray, matrix: np.ndarray, out: np.ndarray) -> np.ndarray:
        if source.size >= MOST or not source.flags.c_contiguous:
            return perspective(source, matrix, origin, border, fill, interpolation, out)
        return compute(source, out, matrix, origin, border)

    return run


def remap_again(
    dtype: np.dtype, channels: int, shift: float, interpolation: int
) -> Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray] | None:
    """`remap` for many calls with maps of float32; None for types that are converted."""
    values, plane = np.zeros(channels), np.empty((1, 1), np.float32)
    through = through_maps_nearest, through_maps_linear, through_maps_cubic
    compute = _again(through, dtype, values, interpolation, plane, plane, shift, CONSTANT)
    if compute is None:
        return None

    def run(source: np.ndarray, map_x: np.ndarray, map_y: np.ndarray, out: np.ndarray) -> np.ndarray:
        whole = source.flags.c_contiguous and map_x.flags.c_contiguous and map_y.flags.c_contiguous
        if source.size >= MOST or not whole:
            return remap(source, map_x, map_y, shift, CONSTANT, values, interpolation, out)
        return compute(source, out, map_x, map_y, shift, CONSTANT)

    return run


def effect_again(
    dtype: np.dtype, kind: int, lines: np.ndarray, columns: np.ndarray, degree: float, fill: np.ndarray, nearest: int
) -> Callable[[np.ndarray, int, np.ndarray], np.ndarray] | None:
    """`effect` for many calls ``(source, key, out)``; None for types that are converted."""
    start, degree = np.uint64(0), float(degree)
    through = through_effect_nearest, through_effect
    compute = _again(through, dtype, fill, nearest, kind, lines, columns, start, degree)
    if compute is None:
        return None

    def run(source: np.ndarray, key: int, out: np.ndarray) -> np.ndarray:
        if source.size >= MOST or not source.flags.c_contiguous:
            return effect(source, kind, lines, columns, key, degree, fill, nearest, out)
        return compute(source, out, kind, lines, columns, np.uint64(key), degree)

    return run


def remap(
    source: np.ndarray,
    map_x: np.ndarray,
    map_y: np.ndarray,
    shift: float,
    border: int,
    fill: np.ndarray,
    interpolation: int,
    out: np.ndarray,
) -> np.ndarray:
    """Takes the pixels of an image (H, W, C) from the positions in two maps, minus `shift`."""
    maps = plain(as_type(map_x, np.dtype(np.float32))), plain(as_type(map_y, np.dtype(np.float32)))
    if interpolation == NEAREST:
        return copied(through_maps_nearest, source, fill, out, *maps, shift, border)
    through = through_maps_linear if interpolation == LINEAR else through_maps_cubic
    return blended(through, source, fill, out, *maps, shift, border)


def effect(
    source: np.ndarray,
    kind: int,
    lines: np.ndarray,
    columns: np.ndarray,
    key: int,
    degree: float,
    fill: np.ndarray,
    interpolation: int,
    out: np.ndarray,
) -> np.ndarray:
    """Applies an effect to an image (H, W, C): waves (the distances by which lines and columns move), a lens or a scatter."""
    arguments = kind, lines, columns, np.uint64(key), float(degree)
    if interpolation == NEAREST:
        return copied(through_effect_nearest, source, fill, out, *arguments)
    return blended(through_effect, source, fill, out, *arguments)
