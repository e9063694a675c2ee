"""Every bit depth and colour model of the formats that pipeflow reads: name -> file, and the pixels as they are stored.

Pixels are in the type that ANY_DATA gives: whole numbers of less than 8 bits fill 8, of 9 to 15 bits fill 16.
"""

from dataclasses import dataclass

import numpy as np
from decoders.made import bmp, jp2_of_depth, png, pnm, tiff

HEIGHT, WIDTH = 37, 53


@dataclass(frozen=True)
class Made:
    """A file and what it holds: height x width x channels, alpha included."""

    data: bytes
    pixels: np.ndarray
    alpha: bool = False


def numbers(bits, samples, seed=0):
    """Noise over a ramp that uses the whole range of `bits`."""
    largest = (1 << bits) - 1
    ramp = np.linspace(0, largest, HEIGHT * WIDTH * samples).reshape(HEIGHT, WIDTH, samples)
    noise = np.random.default_rng(seed).integers(0, max(largest // 4, 1) + 1, ramp.shape)
    return np.where(noise % 3 == 0, noise, ramp).astype(np.uint64)


def filled(values, bits):
    """Numbers of `bits` bits in the whole range of 8 or 16 bits (rounded to the nearest)."""
    full = 8 if bits <= 8 else 16 if bits <= 16 else bits
    if bits == full:
        return values.astype(f"u{full // 8}")
    largest, wanted = (1 << bits) - 1, (1 << full) - 1
    return ((values.astype(np.int64) * wanted * 2 + largest) // (2 * largest)).astype(f"u{full // 8}")


def _palette(size, seed=5):
    return np.random.default_rng(seed).integers(0, 256, (size, 3))


def _tiffs():
    for bits in (1, 2, 4, 8, 16):
        gray = numbers(bits, 1)
        yield f"tiff gray {bits}", Made(tiff(gray, bits), filled(gray, bits))
        black = (1 << bits) - 1 - gray.astype(np.int64)
        yield f"tiff white is zero {bits}", Made(tiff(gray, bits, photometric=0), filled(black, bits))
    for bits in (8, 16):
        color = numbers(bits, 3)
        stored = filled(color, bits)
        for name, options in {
            "plain": {},
            "big endian": {"order": ">"},
            "planar": {"planar": 2},
            "planar strips": {"planar": 2, "rows_per_strip": 5},
            "strips": {"rows_per_strip": 7},
            "tiles": {"tile": (16, 32)},
            "planar tiles": {"tile": (16, 16), "planar": 2},
            "lzw": {"compression": 5},
            "deflate": {"compression": 8},
            "old deflate": {"compression": 32946},
            "packbits": {"compression": 32773},
            "differences": {"compression": 5, "predictor": 2, "rows_per_strip": 10},
            "planar differences": {"compression": 8, "predictor": 2, "planar": 2},
            "big endian differences": {"compression": 8, "predictor": 2, "order": ">"},
            "tiles of differences": {"tile": (32, 16), "compression": 5, "predictor": 2},
            "big": {"big": True},
        }.items():
            yield f"tiff {name} {bits}", Made(tiff(color, bits, **options), stored)
        four = numbers(bits, 4)
        for name, extra in (("unassociated", (2,)), ("unspecified", (0,))):
            yield f"tiff {name} alpha {bits}", Made(tiff(four, bits, extra=extra), filled(four, bits), True)
        four[..., :3] = four[..., :3] * four[..., 3:] // ((1 << bits) - 1)
        yield f"tiff associated alpha {bits}", Made(tiff(four, bits, extra=(1,)), filled(four, bits), True)
        two = numbers(bits, 2)
        yield f"tiff gray and alpha {bits}", Made(tiff(two, bits, extra=(2,)), filled(two, bits), True)
        yield f"tiff planar alpha {bits}", Made(tiff(four, bits, extra=(2,), planar=2), filled(four, bits), True)
        signed = color.astype(np.int64) - (1 << bits - 1)
        yield f"tiff signed {bits}", Made(tiff(signed, bits, kind=2), signed.astype(f"i{bits // 8}"))
        yield (
            f"tiff signed gray {bits}",
            Made(tiff(signed[..., :1], bits, kind=2), signed[..., :1].astype(f"i{bits // 8}")),
        )
    for bits in (1, 2, 4, 8):
        places = numbers(bits, 1)
        colors = _palette(1 << bits)
        pixels = colors[places[..., 0].astype(int)].astype(np.uint8)
        yield f"tiff palette {bits}", Made(tiff(places, bits, photometric=3, palette=colors * 257), pixels)
    for bits in (16, 32, 64):
        value = (numbers(16, 3) / 65535).astype(f"f{bits // 8}")
        yield f"tiff float {bits}", Made(tiff(value, bits, kind=3), value)
        yield f"tiff float differences {bits}", Made(tiff(value, bits, kind=3, compression=8, predictor=3), value)
    wide = numbers(32, 1)
    yield "tiff gray 32", Made(tiff(wide, 32), wide.astype(np.uint32))
    cmyk = numbers(8, 4)
    yield "tiff cmyk", Made(tiff(cmyk, 8, photometric=5), cmyk.astype(np.uint8))


def _bmps():
    rgb = numbers(8, 3)
    red, green, blue = (rgb[..., i] for i in range(3))
    for name, widths in (("555", (5, 5, 5)), ("565", (5, 6, 5)), ("444", (4, 4, 4)), ("655", (6, 5, 5))):
        parts = [channel >> np.uint64(8 - bits) for channel, bits in zip((red, green, blue), widths)]
        shifts = (widths[1] + widths[2], widths[2], 0)
        stored = sum(part << np.uint64(shift) for part, shift in zip(parts, shifts))
        masks = [(1 << bits) - 1 << shift for bits, shift in zip(widths, shifts)]
        pixels = np.stack([filled(part, bits) for part, bits in zip(parts, widths)], -1)
        if name == "555":
            yield "bmp 16 without masks", Made(bmp(stored, 16), pixels)
        yield f"bmp {name} masks", Made(bmp(stored, 16, masks=masks), pixels)
    pixels = rgb.astype(np.uint8)
    plain = red << np.uint64(16) | green << np.uint64(8) | blue
    yield "bmp 24", Made(bmp(plain, 24), pixels)
    yield "bmp 24 from the top", Made(bmp(plain, 24, top_down=True), pixels)
    yield "bmp 32", Made(bmp(plain | np.uint64(0xFF000000), 32), pixels)
    yield "bmp 32 with zeros", Made(bmp(plain, 32), pixels)
    turned = blue << np.uint64(16) | green << np.uint64(8) | red
    yield "bmp 32 masks the other way round", Made(bmp(turned, 32, masks=(0xFF, 0xFF00, 0xFF0000)), pixels)
    high = red << np.uint64(24) | green << np.uint64(16) | blue << np.uint64(8)
    yield "bmp 32 masks in the upper bytes", Made(bmp(high, 32, masks=(0xFF000000, 0xFF0000, 0xFF00)), pixels)
    alpha = numbers(8, 1, 3)[..., 0]
    masks = (0xFF0000, 0xFF00, 0xFF, 0xFF000000)
    yield (
        "bmp 32 masks with alpha",
        Made(
            bmp(plain | alpha << np.uint64(24), 32, masks=masks, header=108),
            np.dstack([pixels, alpha.astype(np.uint8)]),
            True,
        ),
    )
    ten = [numbers(10, 1, seed)[..., 0] for seed in range(3)]
    yield (
        "bmp 32 masks of 10 bits",
        Made(
            bmp(
                ten[0] << np.uint64(20) | ten[1] << np.uint64(10) | ten[2], 32, masks=(0x3FF << 20, 0x3FF << 10, 0x3FF)
            ),
            np.stack([(part.astype(np.int64) * 255 * 2 + 1023) // 2046 for part in ten], -1).astype(np.uint8),
        ),
    )
    for bits in (1, 4, 8):
        places = numbers(bits, 1)[..., 0]
        colors = _palette(1 << bits)
        yield (
            f"bmp palette {bits}",
            Made(bmp(places, bits, palette=colors), colors[places.astype(int)].astype(np.uint8)),
        )


def _pnms():
    for largest in (1, 3, 100, 255, 256, 1000, 4095, 65535):
        color = numbers(16, 3) % np.uint64(largest + 1)
        full = 255 if largest < 256 else 65535
        stored = ((color.astype(np.int64) * full * 2 + largest) // (2 * largest)).astype(
            np.uint8 if full == 255 else np.uint16
        )
        for kind, values in ((2, color[..., :1]), (3, color), (5, color[..., :1]), (6, color)):
            yield f"pnm P{kind} up to {largest}", Made(pnm(values, kind, largest), stored[..., : values.shape[2]])
    black = numbers(1, 1)
    for kind in (1, 4):
        yield f"pnm P{kind}", Made(pnm(black, kind), ((1 - black) * 255).astype(np.uint8))


def _pngs():
    for interlaced in (False, True):
        kind = " interlaced" if interlaced else ""
        for bits in (1, 2, 4, 8, 16):
            gray = numbers(bits, 1)
            options = {"interlaced": interlaced, "filters": (0, 1, 2, 3, 4)}
            yield f"png gray {bits}{kind}", Made(png(gray, bits, 0, **options), filled(gray, bits))
            if bits <= 8:
                colors = _palette(1 << bits)
                pixels = colors[gray[..., 0].astype(int)].astype(np.uint8)
                yield f"png palette {bits}{kind}", Made(png(gray, bits, 3, palette=colors, **options), pixels)
                alpha = np.arange(1 << bits) % 256
                yield (
                    f"png palette with alpha {bits}{kind}",
                    Made(
                        png(gray, bits, 3, palette=colors, transparent=alpha.astype(np.uint8).tobytes(), **options),
                        np.dstack([pixels, alpha[gray[..., 0].astype(int)].astype(np.uint8)]),
                        True,
                    ),
                )
            if bits >= 8:
                for samples, color in ((3, 2), (2, 4), (4, 6)):
                    values = numbers(bits, samples)
                    yield (
                        f"png {samples} samples of {bits}{kind}",
                        Made(png(values, bits, color, **options), filled(values, bits), samples in (2, 4)),
                    )


def _jp2s():
    for bits in range(9, 16):
        gray = numbers(bits, 1)
        yield f"j2k gray {bits}", Made(jp2_of_depth(gray[..., 0], bits), filled(gray, bits))


ZOO = {name: made for make in (_tiffs, _bmps, _pnms, _pngs, _jp2s) for name, made in make()}
