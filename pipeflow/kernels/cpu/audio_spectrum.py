"""Spectrograms, and the computations after them: bands, decibels, MFCC.

The Fourier transform is written here. It computes 16 frames at a time, one in each lane of the vector registers, so a block of
frames stays in the first-level cache while it is loaded, windowed, transformed and squared. It supports even sizes whose half
has no prime factor above 5; ``numpy.fft`` computes other sizes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy import fft
from numpy.typing import NDArray

from pipeflow.kernels.cpu.audio_turn import turn
from pipeflow.kernels.cpu.jit import kernel, machine_code
from pipeflow.kernels.cpu.simd.fourier import butterfly2, butterfly3, butterfly4, butterfly5, first4, split_real
from pipeflow.kernels.cpu.simd.frames import bits_of, float_of, load_tile, scale_row, transpose_tile, weighted_lanes
from pipeflow.kernels.cpu.simd.instructions import LANES

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Transform:
    """The tables of one real transform size, which depend only on ``nfft``."""

    nfft: int
    places: NDArray[np.int64]  # row of the work buffers for each complex input value
    radices: NDArray[np.int64]
    twiddles: Floats
    split: Floats


def _radices(size: int) -> list[int] | None:
    factors = []
    for radix in (4, 2, 3, 5):
        while size % radix == 0:
            factors.append(radix)
            size //= radix
    return factors if size == 1 else None


def _digit_reversed(indices: NDArray[np.int64], radices: list[int]) -> NDArray[np.int64]:
    if not radices:
        return indices
    *rest, radix = radices
    return np.concatenate([_digit_reversed(indices[q::radix], rest) for q in range(radix)])


def _unit_circle(angle: NDArray[np.floating]) -> Floats:
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1).astype(np.float32).ravel()


@lru_cache(maxsize=64)
def transform(nfft: int) -> Transform | None:
    """Returns the tables for ``nfft``, or None if the blocked transform does not support this size."""
    half = nfft // 2
    radices = _radices(half) if nfft % 2 == 0 and nfft >= 4 else None
    if radices is None:
        return None
    places = np.empty(half, np.int64)
    places[_digit_reversed(np.arange(half), radices)] = np.arange(half)
    twiddles, length = [], 1
    for radix in radices:
        angle = -2 * np.pi / (radix * length) * np.arange(length)[:, None] * np.arange(1, radix)
        twiddles.append(_unit_circle(angle))
        length *= radix
    split = _unit_circle(-2 * np.pi / nfft * np.arange(half // 2 + 1))
    return Transform(
        nfft, places * LANES, np.array(radices, np.int64), np.concatenate([*twiddles, np.zeros(8, np.float32)]), split
    )


@lru_cache(maxsize=64)
def hann(window_length: int) -> tuple[float, ...]:
    """DALI's default window: Hann, sampled in the middle of each step, so without zeros."""
    return tuple(np.sin(np.pi * (np.arange(window_length) + 0.5) / window_length) ** 2)


@lru_cache(maxsize=64)
def _window_table(window: tuple[float, ...], factor: float) -> Floats:
    table = (np.asarray(window, np.float64) * factor).astype(np.float32)
    table.setflags(write=False)
    return table


@kernel(fastmath=False)
def _reflected(index: int, length: int) -> int:
    """Reflects an index until it is in range, without repeating the end samples."""
    if length == 1:
        return 0
    period = 2 * (length - 1)
    index = index % period
    return index if index < length else period - index


@kernel(fastmath=False)
def _stage(signal, begin, count, reflect, stage):
    """Copies signal[begin:begin+count] to the stage; outside the signal the values are reflected or zero."""
    length = signal.size
    for i in range(count):
        index = begin + i
        if 0 <= index < length:
            stage[i] = signal[index]
        elif reflect:
            stage[i] = signal[_reflected(index, length)]
        else:
            stage[i] = 0


@kernel(fastmath=False)
def _load_frames(source, begin, step, window, places, tile, real, imaginary):
    """Windows LANES frames; even samples become the real parts, odd ones the imaginary parts."""
    width = window.size
    whole = width - width % LANES
    for column in range(0, whole, LANES):
        load_tile(source, begin + column, step, window, column, places, column >> 1, real, imaginary)
    if whole < width:
        transpose_tile(source, begin + whole, step, tile, 0, LANES)
        for row in range(width - whole):
            sample = whole + row
            if sample & 1:
                scale_row(tile, row * LANES, window, sample, imaginary, places[sample >> 1])
            else:
                scale_row(tile, row * LANES, window, sample, real, places[sample >> 1])
    for sample in range(width, 2 * places.size):
        place = places[sample >> 1]
        target = imaginary if sample & 1 else real
        for lane in range(LANES):
            target[place + lane] = 0


@kernel(fastmath=False)
def _transform_block(real, imaginary, radices, twiddles):
    """Transforms digit-reversed rows in place, the shortest butterflies first."""
    size = real.size
    length, first = LANES, 0
    for radix in radices:
        count = length // LANES
        for base in range(0, size, length * radix):
            for j in range(count):
                offset, twiddle = base + j * LANES, first + j * 2 * (radix - 1)
                if radix == 4 and count == 1:
                    first4(real, imaginary, offset, length, twiddles, twiddle)
                elif radix == 4:
                    butterfly4(real, imaginary, offset, length, twiddles, twiddle)
                elif radix == 2:
                    butterfly2(real, imaginary, offset, length, twiddles, twiddle)
                elif radix == 3:
                    butterfly3(real, imaginary, offset, length, twiddles, twiddle)
                else:
                    butterfly5(real, imaginary, offset, length, twiddles, twiddle)
        first += count * 2 * (radix - 1)
        length *= radix


@kernel(fastmath=False)
def _split_block(real, imaginary, split, target, offset, stride, magnitude):
    """Turns the complex half-length transform into the power (or magnitude) of each bin, one row a bin."""
    half = real.size // LANES
    for lane in range(LANES):
        a, b = real[lane] + imaginary[lane], real[lane] - imaginary[lane]
        target[offset + lane] = 4 * a * a
        target[offset + half * stride + lane] = 4 * b * b
    for k in range(1, half // 2 + 1):
        split_real(
            real,
            imaginary,
            k * LANES,
            (half - k) * LANES,
            split,
            2 * k,
            target,
            offset + k * stride,
            offset + (half - k) * stride,
        )
    if magnitude:
        for k in range(half + 1):
            for lane in range(LANES):
                place = offset + k * stride + lane
                target[place] = np.sqrt(target[place])


@kernel(fastmath=False)
def frames_of(signal, out, time_major, offset, step, reflect, magnitude, window, places, radices, twiddles, split):
    half = places.size
    bins = half + 1
    frames = out.shape[0] if time_major else out.shape[1]
    width = window.size
    real, imaginary = np.empty(half * LANES, np.float32), np.empty(half * LANES, np.float32)
    tile = np.empty(LANES * LANES, np.float32)
    power = np.empty(bins * LANES, np.float32)
    span = (LANES - 1) * step + width + LANES
    stage = np.empty(span, np.float32)
    flat = out.reshape(-1)
    for frame in range(0, frames, LANES):
        count = min(LANES, frames - frame)
        begin = frame * step + offset
        if begin >= 0 and begin + span <= signal.size:
            _load_frames(signal, begin, step, window, places, tile, real, imaginary)
        else:
            # Lanes past the last frame are computed from zeros or reflections and never stored.
            _stage(signal, begin, span, reflect, stage)
            _load_frames(stage, 0, step, window, places, tile, real, imaginary)
        _transform_block(real, imaginary, radices, twiddles)
        if count == LANES and not time_major:
            _split_block(real, imaginary, split, flat, frame, frames, magnitude)
            continue
        _split_block(real, imaginary, split, power, 0, LANES, magnitude)
        if time_major:
            turn(power, 0, LANES, bins, count, flat, frame * bins, bins)
        else:
            for row in range(bins):
                for lane in range(count):
                    flat[row * frames + frame + lane] = power[row * LANES + lane]


def spectrogram(
    signal: Floats,
    out: Floats,
    *,
    nfft: int,
    window: tuple[float, ...],
    window_step: int,
    center: bool = True,
    reflect: bool = True,
    power: int = 2,
    time_major: bool = False,
) -> None:
    """Writes the spectrogram of a one-dimensional signal into ``out``: bins by frames, or frames by bins if ``time_major``."""
    tables = frame_tables(nfft, window)
    offset = -(len(window) // 2) if center else 0
    reflect = center and reflect
    if tables is None:
        frames = out.shape[0] if time_major else out.shape[1]
        result = _by_library(signal, frames, nfft, window, window_step, offset, reflect, power)
        out[...] = result if time_major else result.T
        return
    frames_of(signal, out, time_major, offset, window_step, reflect, power == 1, *tables)


def frame_tables(nfft: int, window: tuple[float, ...]) -> "tuple[NDArray, ...] | None":
    """The tables with which ``frames_of`` computes a transform; None for sizes that it does not support."""
    tables = transform(nfft)
    if tables is None:
        return None
    return _window_table(window, 0.5), tables.places, tables.radices, tables.twiddles, tables.split


def _by_library(
    signal: Floats, frames: int, nfft: int, window: tuple[float, ...], step: int, offset: int, reflect: bool, power: int
) -> Floats:
    """The same spectrogram, frames by bins, computed by ``numpy.fft``: for odd sizes and sizes with large prime factors."""
    padded = np.empty((frames - 1) * step + len(window), np.float32)
    _stage(signal, offset, padded.size, reflect, padded)
    view = np.lib.stride_tricks.sliding_window_view(padded, len(window))[::step]
    spectrum = fft.rfft(view * _window_table(window, 1.0), nfft)
    result = spectrum.real**2 + spectrum.imag**2
    return (np.sqrt(result) if power == 1 else result).astype(np.float32, copy=False)


def power_spectrum(values: NDArray, nfft: int, power: int, axis: int) -> Floats:
    """|X|^2 (or |X|) of the real transform along an axis, whose values are cut or padded with zeros to ``nfft``."""
    spectrum = fft.rfft(np.asarray(values, np.float32), nfft, axis=axis)
    result = spectrum.real**2 + spectrum.imag**2
    return (np.sqrt(result) if power == 1 else result).astype(np.float32, copy=False)


@kernel(fastmath=False)
def powers(numbers, root, out):
    """The squares of the sizes of complex numbers, or the sizes; the numbers are pairs."""
    for i in range(out.size):
        real, imaginary = numbers[2 * i], numbers[2 * i + 1]
        total = real * real + imaginary * imaginary
        out[i] = np.sqrt(total) if root else total


def power_spectrum_again(given: Any, args: Any) -> Callable[[NDArray], Floats] | None:
    """`power_spectrum` of float32 numbers of one shape, for many calls; None for other types and wrong arguments."""
    shape, axis = given.shape, args.axis
    if given.dtype != np.float32 or 0 in shape or not -len(shape) <= axis < len(shape):
        return None
    nfft = args.nfft or shape[axis]
    spectrum = fft.rfft(np.zeros(shape, np.float32), nfft, axis=axis)
    extents, pair, root, transformed = spectrum.shape, spectrum.real.dtype, args.power == 1, fft.rfft
    compute = machine_code(powers, np.empty(0, pair), root, np.empty(0, np.float32))

    def run(values: NDArray) -> Floats:
        out = np.empty(extents, np.float32)
        compute(transformed(values, nfft, axis).ravel().view(pair), root, out.ravel())
        return out

    return run


def _slaney_to_hertz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    # Linear below 1000 Hz (15 mel), logarithmic above: 27 mel for each factor of 6.4.
    return np.where(mel < 15, mel * (200 / 3), 1000 * np.exp((mel - 15) * (np.log(6.4) / 27)))


def _hertz_to_slaney(hertz: float) -> float:
    return hertz / (200 / 3) if hertz < 1000 else 15 + np.log(hertz / 1000) * (27 / np.log(6.4))


def _htk_to_hertz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    return 700 * (10 ** (mel / 2595) - 1)


def _hertz_to_htk(hertz: float) -> float:
    return 2595 * np.log10(1 + hertz / 700)


@dataclass(frozen=True, eq=False)
class Bands:
    """A bank of band filters: each band is a run of bins and their weights."""

    first: NDArray[np.int64]  # first bin of each band
    count: NDArray[np.int64]
    start: NDArray[np.int64]  # where the band's weights begin
    weights: Floats


@lru_cache(maxsize=64)
def mel_bands(
    bins: int, bands: int, sample_rate: float, low: float, high: float, formula: str, normalise: bool
) -> Bands:
    """Triangular filters, evenly spaced on the mel scale, for a spectrum of ``bins`` bins from 0 to half the rate."""
    forward, back = (_hertz_to_htk, _htk_to_hertz) if formula == "htk" else (_hertz_to_slaney, _slaney_to_hertz)
    edges = back(np.linspace(forward(low), forward(high), bands + 2))
    frequencies = np.arange(bins) * (sample_rate / max(2 * (bins - 1), 1))
    rising = (frequencies - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - frequencies) / (edges[2:] - edges[1:-1])[:, None]
    weights = np.maximum(0, np.minimum(rising, falling))
    if normalise:
        weights *= (2 / (edges[2:] - edges[:-2]))[:, None]
    first, count, start = [], [], []
    values: list[Any] = []
    for row in weights:
        used = np.flatnonzero(row)
        begin, end = (used[0], used[-1] + 1) if used.size else (0, 0)
        first.append(begin)
        count.append(end - begin)
        start.append(len(values))
        values.extend(row[begin:end])
    return Bands(
        np.array(first, np.int64),
        np.array(count, np.int64),
        np.array(start, np.int64),
        np.array(values or [0.0], np.float32),
    )


@kernel(fastmath=False)
def weigh(spectrum, out, first, count, start, weights):
    """Weights the middle axis of (outer, bins, inner) into (outer, bands, inner)."""
    inner = spectrum.shape[2]
    bins, bands = spectrum.shape[1], out.shape[1]
    source, target = spectrum.reshape(-1), out.reshape(-1)
    whole = inner - inner % LANES
    for outer in range(spectrum.shape[0]):
        # Band by band, so that memory is read along its rows. The second band that reads a row finds it in the cache.
        for band in range(bands):
            for column in range(0, whole, LANES):
                weighted_lanes(
                    source,
                    (outer * bins + first[band]) * inner + column,
                    inner,
                    weights,
                    start[band],
                    count[band],
                    target,
                    (outer * bands + band) * inner + column,
                )
        for column in range(whole, inner):
            for band in range(bands):
                total = np.float32(0)
                for i in range(count[band]):
                    total += weights[start[band] + i] * spectrum[outer, first[band] + i, column]
                out[outer, band, column] = total


@kernel(fastmath=False)
def weigh_last(spectrum, out, first, count, start, weights):
    """Weights the last axis of (frames, bins): LANES frames at a time are transposed, weighted and transposed back."""
    frames, bins = spectrum.shape
    bands = out.shape[1]
    source, target = spectrum.reshape(-1), out.reshape(-1)
    turned = np.empty((bins + LANES) * LANES, np.float32)
    weighted = np.empty((bands + LANES) * LANES, np.float32)
    for frame in range(0, frames, LANES):
        lanes = min(LANES, frames - frame)
        turn(source, frame * bins, bins, lanes, bins, turned, 0, LANES)
        for band in range(bands):
            weighted_lanes(
                turned, first[band] * LANES, LANES, weights, start[band], count[band], weighted, band * LANES
            )
        turn(weighted, 0, LANES, bands, lanes, target, frame * bands, bands)


def apply_bands(spectrum: Floats, out: Floats, bands: Bands, axis: int) -> None:
    """Weights the bins along ``axis`` into bands."""
    if not out.size:
        return
    bins, inner = spectrum.shape[axis], prod(spectrum.shape[axis + 1 :])
    tables = bands.first, bands.count, bands.start, bands.weights
    contiguous = np.ascontiguousarray(spectrum)
    if inner == 1:
        weigh_last(contiguous.reshape(-1, bins), out.reshape(-1, out.shape[axis]), *tables)
    else:
        weigh(contiguous.reshape(-1, bins, inner), out.reshape(-1, out.shape[axis], inner), *tables)


def _log2_coefficients() -> tuple[np.float32, ...]:
    """log2(1 + x) / x on [sqrt(1/2) - 1, sqrt(2) - 1] as a polynomial, to the precision of float32."""
    low, high = np.sqrt(0.5) - 1, np.sqrt(2) - 1
    fitted = np.polynomial.Chebyshev.interpolate(lambda x: np.log2(1 + x) / x, 9, domain=[low, high])
    return tuple(np.float32(c) for c in fitted.convert(kind=np.polynomial.Polynomial).coef)


_C0, _C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9 = _log2_coefficients()
_SMALLEST = np.float32(np.finfo(np.float32).tiny)
_INFINITY = np.float32(np.inf)
_HALF_ROOT_BITS = np.int32(np.float32(np.sqrt(0.5)).view(np.int32))


_WIDTH = 64  # values that are compared at once


@kernel(fastmath=False)
def _largest(values):
    """The largest value that is not NaN, -inf if there is none. The order of the comparisons does not change it."""
    lanes = np.full(_WIDTH, -np.inf, np.float32)
    whole = values.size - values.size % _WIDTH
    for i in range(0, whole, _WIDTH):
        for k in range(_WIDTH):
            value = values[i + k]
            lanes[k] = value if value > lanes[k] else lanes[k]
    largest = np.float32(-np.inf)
    for value in lanes:
        largest = value if value > largest else largest
    for value in values[whole:]:
        largest = value if value > largest else largest
    return largest


@kernel(fastmath=False)
def decibels(values, out, factor, reference, cutoff):
    """Decibels relative to the reference, or to the largest value if the reference is negative."""
    reference = reference if reference >= 0 else _largest(values)
    for i in range(values.size):
        ratio = values[i] / reference
        # The test is written so that NaN and numbers that are not positive fail it.
        audible = ratio >= _SMALLEST
        value = ratio if audible else np.float32(1)
        bits = bits_of(value)
        exponent = (bits - _HALF_ROOT_BITS) >> np.int32(23)
        x = float_of(bits - (exponent << np.int32(23))) - np.float32(1)
        tail = _C5 + x * (_C6 + x * (_C7 + x * (_C8 + x * _C9)))
        logarithm = np.float32(exponent) + x * (_C0 + x * (_C1 + x * (_C2 + x * (_C3 + x * (_C4 + x * tail)))))
        result = factor * logarithm
        result = result if audible and result > cutoff else cutoff
        out[i] = result if value < _INFINITY else _INFINITY


def to_decibels(values: Floats, out: Floats, *, multiplier: float, reference: float, cutoff_db: float) -> None:
    """Computes multiplier * log10(value / reference), at least ``cutoff_db``; a reference of 0 means the largest value."""
    flat = np.ascontiguousarray(values).reshape(-1)
    if not flat.size:
        return
    decibels(flat, out.reshape(-1), *scale_of_decibels(multiplier, reference, cutoff_db))


def scale_of_decibels(multiplier: float, reference: float, cutoff_db: float) -> tuple[np.float32, ...]:
    """Factor of the binary logarithm, reference and lowest value, as ``decibels`` gets them."""
    level = reference if reference > 0 else -1.0
    return np.float32(multiplier * np.log10(2)), np.float32(level), np.float32(cutoff_db)


@lru_cache(maxsize=64)
def cosine_table(size: int, count: int, kind: int, normalise: bool, lifter: float) -> Floats:
    """The first ``count`` rows of the discrete cosine transform of a type, scaled by the sine lifter."""
    j, k = np.arange(size), np.arange(count)[:, None]
    if kind == 1:
        table = np.cos(np.pi / max(size - 1, 1) * k * j)
        table[:, [0, -1]] *= 0.5
    elif kind == 2:
        table = np.cos(np.pi / size * k * (j + 0.5))
    elif kind == 3:
        table = np.cos(np.pi / size * (k + 0.5) * j)
        table[:, 0] *= 0.5
    else:
        table = np.cos(np.pi / size * (k + 0.5) * (j + 0.5))
    if normalise:
        table *= np.sqrt(2 / size)
        if kind == 2:
            table[0] *= np.sqrt(0.5)
        elif kind == 3:
            table[:, 0] *= np.sqrt(2)
    if lifter > 0:
        table *= 1 + lifter / 2 * np.sin(np.pi / lifter * (k + 1))
    return table.astype(np.float32)


@kernel(fastmath=False)
def _apply_table(values, out, table):
    """Multiplies a (count, size) table with the middle axis of (outer, size, inner)."""
    count, size = table.shape
    inner = values.shape[2]
    source, target, weights = values.reshape(-1), out.reshape(-1), table.reshape(-1)
    whole = inner - inner % LANES
    for outer in range(values.shape[0]):
        for column in range(0, whole, LANES):
            for row in range(count):
                weighted_lanes(
                    source,
                    outer * size * inner + column,
                    inner,
                    weights,
                    row * size,
                    size,
                    target,
                    (outer * count + row) * inner + column,
                )
        for column in range(whole, inner):
            for row in range(count):
                total = np.float32(0)
                for j in range(size):
                    total += table[row, j] * values[outer, j, column]
                out[outer, row, column] = total


@kernel(fastmath=False)
def _apply_table_last(values, out, transposed):
    """Multiplies the rows of (outer, size) with a (size, count) table."""
    for outer in range(values.shape[0]):
        for k in range(out.shape[1]):
            out[outer, k] = 0
        for j in range(values.shape[1]):
            value = values[outer, j]
            for k in range(out.shape[1]):
                out[outer, k] += value * transposed[j, k]


def mfcc_again(
    shape: tuple[int, ...], axis: int, count: int, kind: int, normalise: bool, lifter: float
) -> Callable[[Floats, Floats], Floats]:
    """`mfcc` of spectra of one shape, for many calls."""
    size, inner = shape[axis], prod(shape[axis + 1 :])
    table = cosine_table(size, count, kind, normalise, lifter)
    last = inner == 1
    given, wanted = ((-1, size), (-1, count)) if last else ((-1, size, inner), (-1, count, inner))
    compute, table = (_apply_table_last, np.ascontiguousarray(table.T)) if last else (_apply_table, table)
    like = np.empty((0,) * len(given), np.float32)
    work = machine_code(compute, like, like, table)

    def run(values: Floats, out: Floats) -> Floats:
        work(values.astype(np.float32, "C", copy=False).reshape(given), out.reshape(wanted), table)
        return out

    return run


def mfcc(values: Floats, out: Floats, *, axis: int, kind: int, normalise: bool, lifter: float) -> None:
    """Writes MFCC along ``axis``; the extent of ``out`` there is the number of coefficients."""
    size, count = values.shape[axis], out.shape[axis]
    if not out.size:
        return
    table = cosine_table(size, count, kind, normalise, lifter)
    inner = prod(values.shape[axis + 1 :])
    contiguous = np.ascontiguousarray(values)
    if inner == 1:
        _apply_table_last(contiguous.reshape(-1, size), out.reshape(-1, count), np.ascontiguousarray(table.T))
    else:
        _apply_table(contiguous.reshape(-1, size, inner), out.reshape(-1, count, inner), table)
