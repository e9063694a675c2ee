"""Changes the sampling rate with a windowed sinc.

The filter is DALI's: a sinc under a Hann window of 3 (quality 0) to 64 (quality 100) lobes. If the new rate is lower,
the filter is widened so that it also removes the frequencies that the new rate cannot represent; ``antialias=False``
does not widen it.

A ratio of small integers, L to M, has L different filter phases, and repeats after M inputs. Each phase is tabulated exactly,
and 16 stretches of the signal are filtered at once, one in each lane of the vector registers. For any other ratio, each output
blends the two nearest of the tabulated phases.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeflow.kernels.cpu.audio_turn import turn
from pipeflow.kernels.cpu.jit import kernel, machine_code
from pipeflow.kernels.cpu.simd.frames import dot_between, weighted_lanes
from pipeflow.kernels.cpu.simd.instructions import LANES

Floats = NDArray[np.float32]

# The error of linear blending is (pi / PHASES)**2 / 8, 5e-6 of the signal: below the window's own error.
PHASES = 512
# The tables of more phases, or of longer filters, do not fit into the second-level cache.
EXACT_PHASES = 1024
EXACT_TAPS = 1024
# A stretch has at least this many outputs, so that the work for a stretch as a whole takes little time.
STRETCH = 64
# The filter of a smaller factor would have more taps than most recordings have samples.
SMALLEST = 1 / 4096


def lobes(quality: float) -> int:
    """The number of lobes of the sinc on either side for a quality from 0 to 100."""
    return round(0.007 * quality * quality - 0.09 * quality + 3)


def output_length(length: int, scale: Fraction | float) -> int:
    """The number of samples that cover the same time after scaling; a last incomplete sample is counted."""
    if isinstance(scale, Fraction):
        return -(-length * scale.numerator // scale.denominator)
    # A product such as 0.1 * 30 is 3.0000000000000004 in binary: that is 3 samples, not 4.
    return ceil(length * scale * (1 - 1e-12))


@dataclass(frozen=True, eq=False)
class Filter:
    """A tabulated filter: a row of taps for each phase, padded to whole vectors; and the ratio if it is exact."""

    table: Floats
    row: int  # padded length of a row
    taps: int
    phases: int
    numerator: int  # 0 if the phases are blended
    denominator: int


@lru_cache(maxsize=256)
def quotient(out_rate: float, in_rate: float) -> Fraction | float:
    """out_rate / in_rate as a ratio of small integers if it is one, also after rounding to float32."""
    exact = Fraction(out_rate) / Fraction(in_rate)
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
    exact = scale if isinstance(scale, Fraction) and taps <= EXACT_TAPS else None
    # A widened filter is smoother, and needs proportionally fewer phases.
    phases = exact.numerator if exact else ceil(PHASES * cutoff)
    fractions = np.arange(phases if exact else phases + 1) / phases
    distance = (np.arange(taps) - (taps // 2 - 1) - fractions[:, None]) * cutoff
    window = np.where(np.abs(distance) < half_width, 0.5 + 0.5 * np.cos(np.pi * distance / half_width), 0)
    table = np.zeros((len(fractions), row), np.float32)
    table[:, :taps] = np.sinc(distance) * window * cutoff
    numerator, denominator = (exact.numerator, exact.denominator) if exact else (0, 0)
    return Filter(table.ravel(), row, taps, phases, numerator, denominator)


@kernel(fastmath=False)
def stretches(signal, out, channels, channel, length, numerator, denominator, repeats, table, row, taps):
    """Filters LANES stretches at a time. Each has ``repeats`` periods, and begins at the end of the one before."""
    inputs, outputs = denominator * repeats, numerator * repeats
    tile = np.empty((inputs + taps + LANES) * LANES, np.float32)
    results = np.empty(outputs * LANES, np.float32)
    rows = inputs + taps
    span = (LANES - 1) * inputs + rows
    stage = np.empty(span, np.float32)
    for first in range(0, length, LANES * outputs):
        begin = first // outputs * inputs - (taps // 2 - 1)
        if begin >= 0 and begin + span <= signal.size:
            turn(signal, begin, inputs, LANES, rows, tile, 0, LANES)
        else:
            for k in range(span):
                stage[k] = signal[begin + k] if 0 <= begin + k < signal.size else 0
            turn(stage, 0, inputs, LANES, rows, tile, 0, LANES)
        position, phase = 0, 0
        for i in range(outputs):
            weighted_lanes(tile, position * LANES, LANES, table, phase * row, taps, results, i * LANES)
            phase += denominator
            position += phase // numerator
            phase %= numerator
        if channels == 1 and first + LANES * outputs <= length:
            turn(results, 0, LANES, outputs, LANES, out, first, outputs)
            continue
        for lane in range(LANES):
            for i in range(min(outputs, length - first - lane * outputs)):
                out[(first + lane * outputs + i) * channels + channel] = results[i * LANES + lane]


@kernel(fastmath=False)
def blended(signal, out, channels, channel, length, scale, phases, table, row, taps):
    middle = taps // 2 - 1
    stage = np.zeros(row, np.float32)
    for i in range(length):
        time = i / scale
        position = int(time)
        fraction = (time - position) * phases
        phase = int(fraction)
        blend = np.float32(fraction - phase)
        begin = position - middle
        if begin >= 0 and begin + row <= signal.size:
            value = dot_between(signal, begin, table, phase * row, row, blend)
        else:
            # Near the ends the signal continues with silence.
            for k in range(row):
                stage[k] = signal[begin + k] if 0 <= begin + k < signal.size else 0
            value = dot_between(stage, 0, table, phase * row, row, blend)
        out[i * channels + channel] = value


def resample(
    signal: Floats, out: Floats, scale: Fraction | float, *, quality: float = 50.0, antialias: bool = True
) -> None:
    """Resamples ``signal`` (samples, or samples by channels) into ``out``, which may have any length."""
    if not signal.size or not out.size:
        out[...] = 0
        return
    filtered, options = filtering(scale, quality, antialias)
    channels = 1 if signal.ndim == 1 else signal.shape[1]
    flat, length = out.reshape(-1), len(out)
    for channel in range(channels):
        one = np.ascontiguousarray(signal if signal.ndim == 1 else signal[:, channel]).view()
        one.flags.writeable = False  # Numba would compile again for a writable array
        filtered(one, flat, channels, channel, length, *options)


def resampling(
    length: int, scale: Fraction | float, quality: float, antialias: bool
) -> Callable[[Floats, Floats], Floats]:
    """`resample` of signals of one channel to this length, for many calls."""
    filtered, options = filtering(scale, quality, antialias)
    like = np.empty(0, np.float32)
    given = like.view()
    given.flags.writeable = False
    compute = machine_code(filtered, given, like, 1, 0, length, *options)  # type: ignore[arg-type]

    def run(signal: Floats, out: Floats) -> Floats:
        compute(signal.ravel(), out, 1, 0, length, *options)
        return out

    return run


@lru_cache(maxsize=32)
def filtering(scale: Fraction | float, quality: float, antialias: bool) -> tuple[Callable[..., None], tuple[Any, ...]]:
    """The kernel for a ratio, and its arguments after (signal, result, channels, channel, length of the result)."""
    chosen = design(scale, quality, antialias)
    if not chosen.numerator:
        return blended, (float(scale), chosen.phases, chosen.table, chosen.row, chosen.taps)
    repeats = max(-(-STRETCH // chosen.numerator), -(-chosen.taps // (2 * chosen.denominator)))
    return stretches, (chosen.numerator, chosen.denominator, repeats, chosen.table, chosen.row, chosen.taps)
