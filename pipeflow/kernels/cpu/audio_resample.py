"""Changing the sampling rate with a windowed sinc.

The filter is DALI's: a sinc under a Hann window of 3 (quality 0) to 64 (quality 100) lobes. Where the rate goes down,
the filter is widened so that it also removes what the new rate cannot hold; ``antialias=False`` leaves that out.
A ratio of small integers has few different filter phases, and each is tabulated exactly; any other ratio blends the
two nearest of 512 tabulated phases.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pipeflow.kernels.cpu.audio_simd import LANES, dot

Floats = NDArray[np.float32]

# The error of linear blending is (pi / PHASES)**2 / 8, 5e-6 of the signal: below the window's own error.
PHASES = 512
# Above this many phases the exact table leaves the second-level cache, and blending is as fast.
EXACT_PHASES = 1024


def lobes(quality: float) -> int:
    """The number of lobes of the sinc on either side for a quality from 0 to 100."""
    return round(0.007 * quality * quality - 0.09 * quality + 3)


def output_length(length: int, scale: Fraction | float) -> int:
    """The number of samples that cover the same time after scaling, a last incomplete one counted."""
    # A product such as 0.1 * 30 is 3.0000000000000004 in binary: that is 3 samples, not 4.
    return ceil(length * scale) if isinstance(scale, Fraction) else ceil(length * scale * (1 - 1e-12))


@dataclass(frozen=True, eq=False)
class Filter:
    """A tabulated filter: one row of taps a phase, padded to whole vectors."""

    table: Floats
    row: int  # padded length of a row
    taps: int
    numerator: int  # of the scale where the phases are exact, else 0
    denominator: int


def simplest(scale: Fraction | float) -> Fraction | float:
    """``scale`` as a ratio of small integers where it is one, also after a passage through float32; else a float."""
    exact = Fraction(scale)
    near = exact.limit_denominator(EXACT_PHASES)
    if not 0 < near.numerator <= EXACT_PHASES:
        return float(exact)
    passed = float(np.float32(float(near))) == float(exact)
    return near if passed or abs(near - exact) <= exact * Fraction(1, 10**12) else float(exact)


@lru_cache(maxsize=32)
def design(scale: Fraction | float, quality: float, antialias: bool) -> Filter:
    """Tabulates the filter of one ratio and quality."""
    half_width = lobes(quality)
    cutoff = min(1.0, float(scale)) if antialias else 1.0
    taps = 2 * ceil(half_width / cutoff)
    row = -(-taps // LANES) * LANES
    exact = isinstance(scale, Fraction)
    phases = scale.numerator if isinstance(scale, Fraction) else PHASES
    fractions = np.arange(phases if exact else phases + 1) / phases
    distance = (np.arange(taps) - (taps // 2 - 1) - fractions[:, None]) * cutoff
    window = np.where(np.abs(distance) < half_width, 0.5 + 0.5 * np.cos(np.pi * distance / half_width), 0)
    table = np.zeros((len(fractions), row), np.float32)
    table[:, :taps] = np.sinc(distance) * window * cutoff
    if isinstance(scale, Fraction):
        return Filter(table.ravel(), row, taps, scale.numerator, scale.denominator)
    return Filter(table.ravel(), row, taps, 0, 0)


@njit(nogil=True, cache=True)
def _edge(signal, begin, table, offset, taps):
    """One output near an end of the signal, which is silent outside."""
    total = np.float32(0)
    for k in range(max(0, -begin), min(taps, signal.size - begin)):
        total += signal[begin + k] * table[offset + k]
    return total


@njit(nogil=True, cache=True)
def _resample_exact(signal, out, channels, channel, length, numerator, denominator, table, row, taps):
    middle = taps // 2 - 1
    position, phase = 0, 0
    whole, part = denominator // numerator, denominator % numerator
    last = signal.size - row
    for i in range(length):
        begin = position - middle
        if begin >= 0 and begin <= last:
            out[i * channels + channel] = dot(signal, begin, table, phase * row, row)
        else:
            out[i * channels + channel] = _edge(signal, begin, table, phase * row, taps)
        position += whole
        phase += part
        if phase >= numerator:
            phase -= numerator
            position += 1


@njit(nogil=True, cache=True)
def _resample_blended(signal, out, channels, channel, length, scale, table, row, taps):
    middle = taps // 2 - 1
    last = signal.size - row
    for i in range(length):
        time = i / scale
        position = int(time)
        fraction = (time - position) * PHASES
        phase = int(fraction)
        blend = np.float32(fraction - phase)
        begin = position - middle
        if begin >= 0 and begin <= last:
            low = dot(signal, begin, table, phase * row, row)
            high = dot(signal, begin, table, phase * row + row, row)
        else:
            low = _edge(signal, begin, table, phase * row, taps)
            high = _edge(signal, begin, table, phase * row + row, taps)
        out[i * channels + channel] = low + blend * (high - low)


def resample(
    signal: Floats, out: Floats, scale: Fraction | float, *, quality: float = 50.0, antialias: bool = True
) -> None:
    """Resamples ``signal`` (samples, or samples by channels) into ``out``, whose length may be any."""
    if not signal.size or not out.size:
        out[...] = 0
        return
    filtered = design(scale, quality, antialias)
    channels = 1 if signal.ndim == 1 else signal.shape[1]
    flat = out.reshape(-1)
    for channel in range(channels):
        one = np.ascontiguousarray(signal if signal.ndim == 1 else signal[:, channel])
        if filtered.numerator:
            _resample_exact(
                one, flat, channels, channel, len(out), filtered.numerator, filtered.denominator,
                filtered.table, filtered.row, filtered.taps,
            )
        else:
            _resample_blended(
                one, flat, channels, channel, len(out), float(scale), filtered.table, filtered.row, filtered.taps
            )
