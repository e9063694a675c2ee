"""Kernels for the signal itself: sample types, channels, preemphasis, and the begin and end of sound."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeflow.kernels.cpu.jit import kernel, machine_code

Floats = NDArray[np.float32]

# The running sum is computed again after this number of samples, so that rounding errors do not add up in a long recording.
REBUILD = 8192

# Powers of ten beyond this are infinite.
_LOUDEST = 300.0


def full_scale(dtype: np.dtype) -> tuple[float, float]:
    """The value for 1 and the value for silence, as DALI normalises integers."""
    largest = float(np.iinfo(dtype).max)
    return (largest, 0.0) if dtype.kind == "i" else (largest / 2, largest / 2)


def normalised(samples: NDArray) -> Floats:
    """The samples as float32: integers become -1...1, floats do not change."""
    if samples.dtype.kind == "f":
        return np.ascontiguousarray(samples, np.float32)
    scale, silence = full_scale(samples.dtype)
    wide: Any = np.float64 if samples.dtype.itemsize > 2 else np.float32
    return ((samples.astype(wide) - wide(silence)) * wide(1 / scale)).astype(np.float32)


def store(samples: Floats, out: NDArray) -> None:
    """Writes float32 numbers from -1 to 1 in the type of ``out``, rounded and saturated."""
    if out.dtype.kind == "f":
        out[...] = samples
        return
    scale, silence = full_scale(out.dtype)
    saturate(samples.astype(np.float64) * scale + silence, out)


def saturate(values: NDArray, out: NDArray) -> None:
    """Writes numbers in the type of ``out``. For integers they are rounded half away from zero and saturated; NaN becomes 0."""
    if out.dtype.kind == "f":
        out[...] = values
        return
    limits = np.iinfo(out.dtype)
    rounded = np.copysign(np.floor(np.abs(values.astype(np.float64)) + 0.5), values)
    np.copyto(out, np.clip(np.nan_to_num(rounded), limits.min, limits.max), casting="unsafe")


@kernel(fastmath=False)
def scaled(stored, factor, silence, out):
    """Converts integers as a file stores them to float32."""
    for i in range(stored.size):
        out[i] = np.float32(stored[i]) * factor - silence


def scaling(dtype: np.dtype) -> tuple[np.float32, np.float32]:
    """The factor of integers of a file, and the value of silence."""
    return np.float32(1 / (1 << (8 * dtype.itemsize - 1))), np.float32(dtype.kind == "u")


def decoded(stored: NDArray, out: Floats) -> None:
    """Converts samples as a file stores them to float32: full scale is a power of two, as in every decoder."""
    if stored.dtype.kind == "f":
        out[...] = stored
        return
    scaled(stored.reshape(-1), *scaling(stored.dtype), out.reshape(-1))


def shifted(stored: NDArray, out: NDArray) -> None:
    """Converts integer samples as a file stores them to int16 or int32 by moving the bits."""
    up = 8 * (out.dtype.itemsize - stored.dtype.itemsize)
    values = stored.astype(np.int32)
    if stored.dtype.kind == "u":
        values -= 1 << (8 * stored.dtype.itemsize - 1)
    np.copyto(out, values << up if up >= 0 else values >> -up, casting="unsafe")


@kernel(fastmath=False)
def mix(samples, out):
    """The mean of the channels."""
    channels = samples.shape[1]
    factor = np.float32(1 / channels)
    for i in range(samples.shape[0]):
        total = np.float32(0)
        for channel in range(channels):
            total += samples[i, channel]
        out[i] = total * factor


def downmix(samples: Floats) -> Floats:
    """The mean of the channels of (time, channels)."""
    if samples.shape[1] == 1:
        return samples.reshape(-1)
    mixed = np.empty(len(samples), np.float32)
    mix(samples, mixed)
    return mixed


# By the border: the index of the value that is used before the first one; -1 for zero.
FIRST = {"clamp": 0, "reflect": 1, "zero": -1}


@kernel(fastmath=False)
def _preemphasis(signal, coefficient, before, out):
    for channel in range(signal.shape[1]):
        out[0, channel] = signal[0, channel] - coefficient * before[channel]
    for i in range(1, signal.shape[0]):
        for channel in range(signal.shape[1]):
            out[i, channel] = signal[i, channel] - coefficient * signal[i - 1, channel]


@kernel(fastmath=False)
def preemphasis_mono(signal, coefficient, first, out):
    """The filter for one channel; ``first`` is the index of the value that is used before the first one, -1 for zero."""
    out[0] = signal[0] - coefficient * (signal[min(first, signal.size - 1)] if first >= 0 else np.float32(0))
    for i in range(1, signal.size):
        out[i] = signal[i] - coefficient * signal[i - 1]


def preemphasis(signal: Floats, out: Floats, coefficient: float, border: str) -> None:
    """Computes y[t] = x[t] - coefficient * x[t - 1] along the first axis; ``border`` determines x[-1]."""
    if not signal.size:
        return
    factor = np.float32(coefficient)
    if signal.size == len(signal):
        preemphasis_mono(np.ascontiguousarray(signal).reshape(-1), factor, FIRST[border], out.reshape(-1))
    else:
        before = {"clamp": signal[0], "reflect": signal[min(1, len(signal) - 1)], "zero": np.zeros_like(signal[0])}
        wide = np.ascontiguousarray(signal).reshape(len(signal), -1)
        first = np.ascontiguousarray(before[border], np.float32).reshape(-1)
        _preemphasis(wide, factor, first, out.reshape(len(signal), -1))


@kernel(fastmath=False)
def _mean_square(signal, window, out):
    factor = 1.0 / window
    total = 0.0
    for i in range(signal.size):
        if i % REBUILD == 0:
            total = 0.0
            for k in range(max(0, i - window + 1), i + 1):
                total += np.float64(signal[k]) * np.float64(signal[k])
        else:
            gained = np.float64(signal[i]) * np.float64(signal[i])
            lost = 0.0 if i < window else np.float64(signal[i - window]) * np.float64(signal[i - window])
            total += gained - lost
        out[i] = total * factor


@kernel(fastmath=False)
def _span(power, threshold):
    first, last = 0, power.size - 1
    while first <= last and not power[first] >= threshold:
        first += 1
    while last >= first and not power[last] >= threshold:
        last -= 1
    return first, last


@kernel
def _nonsilent(signal, window_length, given, factor, begin, length):
    """`nonsilent_region`, into two arrays of one number; False if a power is not finite."""
    power = np.empty(signal.size)
    _mean_square(signal, window_length, power)
    loudest = power[0]
    for i in range(1, power.size):
        loudest = power[i] if power[i] > loudest or power[i] != power[i] else loudest
    reference = given if given > 0 else loudest
    if not np.isfinite(loudest) or not np.isfinite(reference):
        return False
    first, last = _span(power, reference * factor)
    begin[0] = 0 if first > last else max(first - window_length + 1, 0)
    length[0] = 0 if first > last else last - begin[0] + 1
    return True


def nonsilent_again(dtype: np.dtype, cutoff_db: float, reference_power: float, window_length: int) -> Any:
    """`nonsilent_region` for many calls ``(signal, out)``; for a signal that has no power it raises an error without a reason."""
    options, number = (window_length, reference_power, 10 ** min(cutoff_db / 10, _LOUDEST)), np.empty(0, np.int32)
    compute = machine_code(_nonsilent, np.empty(0, dtype), *options, number, number)

    def run(signal: NDArray, out: tuple[NDArray, NDArray]) -> tuple[NDArray, NDArray]:
        if not compute(signal.ravel(), *options, out[0].ravel(), out[1].ravel()):
            raise ValueError
        return out

    return run


def nonsilent_region(
    signal: NDArray, *, cutoff_db: float, reference_power: float, window_length: int
) -> tuple[int, int]:
    """The begin and the length of the part whose short-time power reaches the cutoff.

    ``reference_power`` 0 means the largest short-time power of the signal itself.
    """
    power = np.empty(signal.size, np.float64)
    _mean_square(signal, window_length, power)
    reference = reference_power if reference_power > 0 else float(power.max())
    if not np.isfinite(power[-1]) or not np.isfinite(reference) or not np.isfinite(power).all():
        where = int(np.flatnonzero(~np.isfinite(signal))[0])
        raise ValueError(f"the signal has {signal[where]} at index {where}: its power is undefined")
    first, last = _span(power, reference * 10 ** min(cutoff_db / 10, _LOUDEST))
    if first > last:
        return 0, 0
    begin = max(first - window_length + 1, 0)
    return begin, last - begin + 1
