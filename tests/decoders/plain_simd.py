"""The vector functions of the JPEG kernels again, without vectors: one element after the other, every access checked.

Numba takes a negative index for one from the end, so each function refuses those by itself.
"""

import numba
import numpy as np

checked = numba.njit(boundscheck=True, error_model="python")


@checked
def at(offset):
    if offset < 0:
        raise IndexError("negative offset")
    return offset


@checked
def load_big_endian(source, offset):
    value = np.uint64(0)
    for i in range(8):
        value = value << np.uint64(8) | np.uint64(source[at(offset + i)])
    return value


@checked
def trailing_zeros(word):
    count = 0
    while count < 64 and word >> np.uint64(count) & np.uint64(1) == np.uint64(0):
        count += 1
    return np.uint64(count)


@checked
def move_plain_bytes(source, offset, limit, out, out_offset):
    done = 0
    while offset + done + 32 <= limit:
        for i in range(32):
            out[at(out_offset + done + i)] = source[at(offset + done + i)]
        for i in range(32):
            if source[at(offset + done + i)] == 0xFF:
                return done + i
        done += 32
    return done


@checked
def word(value):
    """The lowest 16 bits as a signed number."""
    return (value + 32768) % 65536 - 32768


@checked
def saturated(value, low, high):
    return min(max(value, low), high)


# Lines of a block are handled in place, without slices: an assignment to a slice takes Numba seconds to compile.
@checked
def line(table, start, step):
    """Every `step`th value of a flat block."""
    return (
        table[at(start)],
        table[at(start + step)],
        table[at(start + 2 * step)],
        table[at(start + 3 * step)],
        table[at(start + 4 * step)],
        table[at(start + 5 * step)],
        table[at(start + 6 * step)],
        table[at(start + 7 * step)],
    )


@checked
def cosines(table, start, step, shift):
    """Makes eight values of one line, in the steps of jidctint.c with 16-bit sums where vector code has them."""
    v = line(table, start, step)
    a, b = word(v[0] + v[4]) << 13, word(v[0] - v[4]) << 13
    c, d = v[2] * 10703 + v[6] * 4433, v[2] * 4433 - v[6] * 10704
    upper = (a + c, b + d, b - d, a - c)
    z3, z4 = word(v[7] + v[3]), word(v[5] + v[1])
    m3, m4 = z3 * -6436 + z4 * 9633, z3 * 9633 + z4 * 6437
    lower = (
        v[7] * -7373 + v[1] * 4926 + m4,
        v[5] * -20995 + v[3] * 4177 + m3,
        v[5] * -4176 + v[3] * -20995 + m4,
        v[7] * -4927 + v[1] * -7373 + m3,
    )
    for i in range(4):
        table[at(start + i * step)] = rounded(upper[i] + lower[i], shift)
        table[at(start + (7 - i) * step)] = rounded(upper[i] - lower[i], shift)


@checked
def rounded(value, shift):
    """Divided in 32 bits, and saturated to 16."""
    value = (value + (1 << (shift - 1)) + 2**31) % 2**32 - 2**31
    return saturated(value >> shift, -32768, 32767)


@checked
def inverse_block(blocks, start, factors, factors_at, planes, target, stride):
    table = np.zeros(64, np.int64)
    flat = True
    for i in range(64):
        flat = flat and (i < 8 or blocks[at(start + i)] == 0)
        table[i] = word(np.int64(blocks[at(start + i)]) * np.int64(factors[at(factors_at + i)]))
        blocks[at(start + i)] = 0
    for x in range(8):
        if flat:
            value = word(table[x] * 4)
            for y in range(8):
                table[8 * y + x] = value
        else:
            cosines(table, x, 8, 11)
    for y in range(8):
        cosines(table, 8 * y, 1, 18)
        for x in range(8):
            planes[at(target + y * stride + x)] = saturated(table[8 * y + x], -128, 127) + 128


@checked
def inverse_cosines(blocks, start, factors, factors_a, factors_b, planes, target_a, target_b, stride_a, stride_b):
    inverse_block(blocks, start, factors, factors_a, planes, target_a, stride_a)
    inverse_block(blocks, start + 64, factors, factors_b, planes, target_b, stride_b)


@checked
def fill_square(value, plane, plane_at, stride):
    for y in range(8):
        for x in range(8):
            plane[at(plane_at + y * stride + x)] = value


@checked
def blend_rows(plane, near, far, near_weight, far_weight, count, sums, sums_at):
    for i in range(count):
        sums[at(sums_at + i)] = near_weight * plane[at(near + i)] + far_weight * plane[at(far + i)]


@checked
def quarter_sums(sums, sums_at, bias, count, out, out_at):
    for i in range(count):
        out[at(out_at + i)] = (sums[at(sums_at + i)] + bias) >> 2


@checked
def put_pixel(luma, blue, red, backwards, out, place):
    """By the formula of JFIF, in libjpeg's fixed point."""
    red, blue = red - 128, blue - 128
    colors = (
        luma + ((91881 * red + 32768) >> 16),
        luma + ((-22554 * blue - 46802 * red + 32768) >> 16),
        luma + ((116130 * blue + 32768) >> 16),
    )
    for c in range(3):
        out[at(place + (2 - c if backwards else c))] = saturated(colors[c], 0, 255)


@checked
def color_row(luma, luma_at, blue, blue_at, red, red_at, backwards, count, out, out_at):
    for i in range(count):
        samples = np.int64(luma[at(luma_at + i)]), np.int64(blue[at(blue_at + i)]), np.int64(red[at(red_at + i)])
        put_pixel(samples[0], samples[1], samples[2], backwards, out, out_at + 3 * i)


@checked
def color_doubled_row(luma, luma_at, sums, blue_at, red_at, even, odd, backwards, count, out, out_at):
    for i in range(count):
        for j in range(2):
            step, bias = (1, odd) if j else (-1, even)
            blue = (3 * np.int64(sums[at(blue_at + i)]) + sums[at(blue_at + i + step)] + bias) >> 4
            red = (3 * np.int64(sums[at(red_at + i)]) + sums[at(red_at + i + step)] + bias) >> 4
            pixel = 2 * i + j
            put_pixel(np.int64(luma[at(luma_at + pixel)]), blue, red, backwards, out, out_at + 3 * pixel)


@checked
def copy_row(source, source_at, count, out, out_at):
    for i in range(count):
        out[at(out_at + i)] = source[at(source_at + i)]


@checked
def repeat_gray(luma, luma_at, count, out, out_at):
    for i in range(count):
        for c in range(3):
            out[at(out_at + 3 * i + c)] = luma[at(luma_at + i)]


@checked
def split_colors(source, source_at, count, luma, luma_at, blue, blue_at, red, red_at):
    for i in range(count):
        place = at(source_at + 3 * i)
        r, g, b = np.int64(source[place]), np.int64(source[place + 1]), np.int64(source[place + 2])
        luma[at(luma_at + i)] = (19595 * r + 38470 * g + 7471 * b + 32768) >> 16
        blue[at(blue_at + i)] = (-11059 * r - 21709 * g + 32768 * b + (128 << 16) + 32767) >> 16
        red[at(red_at + i)] = (32768 * r - 27439 * g - 5329 * b + (128 << 16) + 32767) >> 16


@checked
def halve_rows(plane, near, far, count, out, out_at):
    for i in range(count):
        total = 1 + i % 2
        for row in (near, far):
            total += np.int64(plane[at(row + 2 * i)]) + np.int64(plane[at(row + 2 * i + 1)])
        out[at(out_at + i)] = total >> 2


@checked
def forward_line(table, start, step, first):
    """Transforms eight values of one line, in the steps of jfdctint.c."""
    v = line(table, start, step)
    t0, t1, t2, t3 = v[0] + v[7], v[1] + v[6], v[2] + v[5], v[3] + v[4]
    t7, t6, t5, t4 = v[0] - v[7], v[1] - v[6], v[2] - v[5], v[3] - v[4]
    a, b, c, d = t0 + t3, t1 + t2, t1 - t2, t0 - t3
    shift = 11 if first else 15
    table[at(start)] = (a + b) * 4 if first else (a + b + 2) >> 2
    table[at(start + 4 * step)] = (a - b) * 4 if first else (a - b + 2) >> 2
    table[at(start + 2 * step)] = rounded((c + d) * 4433 + d * 6270, shift)
    table[at(start + 6 * step)] = rounded((c + d) * 4433 - c * 15137, shift)
    z1, z2, z3, z4 = (t4 + t7) * -7373, (t5 + t6) * -20995, t4 + t6, t5 + t7
    z5 = (z3 + z4) * 9633
    z3, z4 = z3 * -16069 + z5, z4 * -3196 + z5
    table[at(start + 7 * step)] = rounded(t4 * 2446 + z1 + z3, shift)
    table[at(start + 5 * step)] = rounded(t5 * 16819 + z2 + z4, shift)
    table[at(start + 3 * step)] = rounded(t6 * 25172 + z2 + z3, shift)
    table[at(start + step)] = rounded(t7 * 12299 + z1 + z4, shift)


@checked
def forward_block(planes, source, stride, divisors, divisors_at, blocks, start):
    table = np.zeros(64, np.int64)
    for y in range(8):
        for x in range(8):
            table[8 * y + x] = np.int64(planes[at(source + y * stride + x)]) - 128
        forward_line(table, 8 * y, 1, True)
    for x in range(8):
        forward_line(table, x, 8, False)
    for i in range(64):
        half = np.int64(divisors[at(divisors_at + i)]) & 0xFFFF
        reciprocal = np.int64(divisors[at(divisors_at + 64 + i)]) & 0xFFFF
        power = np.int64(divisors[at(divisors_at + 128 + i)]) & 0xFFFF
        size = (((abs(table[i]) + half) * reciprocal >> 16) * power) >> 16
        blocks[at(start + i)] = size if table[i] >= 0 else -size


@checked
def forward_cosines(planes, source_a, source_b, stride, divisors, divisors_at, blocks, start):
    forward_block(planes, source_a, stride, divisors, divisors_at, blocks, start)
    forward_block(planes, source_b, stride, divisors, divisors_at, blocks, start + 64)
