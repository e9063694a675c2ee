"""Sound as pixels: a waveform above a spectrogram; also spectrograms that the pipeline has computed."""

import itertools

import numpy as np

from pipeflow.pictures.canvas import Canvas, resized
from pipeflow.pictures.colors import FAINT, PALETTE, SCALE, SHADE
from pipeflow.pictures.looks import Look

FLOOR = 80  # values up to this many decibels below the loudest are visible
WINDOW = 256


def wave_and_spectrogram(signal: np.ndarray, room: tuple[int, int], sample_rate: float | None = None) -> np.ndarray:
    """The waveform of each channel over time, and below it the spectrogram of their mean; the signal is channels by samples."""
    signal = np.nan_to_num(signal.astype(np.float64))
    width, height = room[0], min(room[1], max(120, room[0] // 2))
    upper = height * 2 // 5
    sheet = Canvas(width, height, SHADE)
    band = upper / len(signal)
    largest = max(float(np.abs(signal).max(initial=0.0)), 1e-12)
    for channel, values in enumerate(signal):
        middle = band * (channel + 0.5)
        sheet.line([(0, middle), (width, middle)], (210, 214, 220))
        edges = np.linspace(0, max(len(values), 1), width + 1).astype(int)
        for x, (start, end) in enumerate(itertools.pairwise(edges)):
            part = values[start : max(end, start + 1)]
            if part.size:
                top, bottom = (middle - value / largest * (band / 2 - 1) for value in (part.max(), part.min()))
                sheet.line([(x, top), (x, bottom)], PALETTE[4 if channel == 0 else 5])
    lower = decibels(signal.mean(0)) if signal.size else np.zeros((2, 2))
    sheet.put(_stretched(_scaled(lower, lower.max() - FLOOR, lower.max()), width, height - upper - 2), 0, upper + 2)
    if sample_rate:
        sheet.text(4, 2, f"{signal.shape[1] / sample_rate:.2f} s", FAINT)
    return sheet.pixels()


def decibels(signal: np.ndarray) -> np.ndarray:
    """The short-time spectrum of a signal in decibels, low frequencies first, time along the second axis."""
    window = min(WINDOW, max(16, len(signal) // 8))
    signal = np.pad(signal, (0, max(0, window - len(signal))))
    starts = np.linspace(0, len(signal) - window, min(400, max(2, len(signal) // (window // 2)))).astype(int)
    frames = signal[starts[:, None] + np.arange(window)] * np.hanning(window)
    return 20 * np.log10(np.abs(np.fft.rfft(frames, axis=1)).T + 1e-10)


def spectrum(values: np.ndarray, look: Look, room: tuple[int, int]) -> np.ndarray:
    """A spectrogram (frequencies by frames) with low frequencies at the bottom; positive values of a wide range are
    in decibels.
    """
    values = np.nan_to_num(values.astype(np.float64))
    low, high = look.low, look.high
    if low >= 0 and high > 0:
        values = 10 * np.log10(np.maximum(values, 1e-10 * high))
        high = 10 * np.log10(high)
        low = high - FLOOR
    return resized(_scaled(values, low, high), (room[0], room[1]))


def _scaled(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Numbers as colours of the scale, with the first row at the bottom."""
    place = ((values - low) * (255 / max(high - low, 1e-12))).clip(0, 255).astype(np.uint8)
    return SCALE[place[::-1]]


def _stretched(pixels: np.ndarray, width: int, height: int) -> np.ndarray:
    """The pixels stretched to exactly this size, because time and frequency have no natural proportion."""
    rows = np.arange(height) * pixels.shape[0] // height
    columns = np.arange(width) * pixels.shape[1] // width
    return pixels[rows][:, columns]
