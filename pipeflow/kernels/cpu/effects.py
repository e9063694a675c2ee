"""Effects on pixels: channels in another order, sharpening by a blurred image."""

import numpy as np

from pipeflow.kernels.cpu.jit import kernel, plain


@kernel
def order_channels(source, order, out):
    """The channels of interleaved values in another order."""
    channels = order.size
    if channels == 3:
        first, second, third = np.uint64(order[0]), np.uint64(order[1]), np.uint64(order[2])
        one, two, step = np.uint64(1), np.uint64(2), np.uint64(3)
        place, end = np.uint64(0), np.uint64(source.size)
        while place < end:
            out[place] = source[place + first]
            out[place + one] = source[place + second]
            out[place + two] = source[place + third]
            place += step
        return
    for i in range(0, source.size, channels):
        for k in range(channels):
            out[i + k] = source[i + order[k]]


def in_order(source: np.ndarray, order: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Channels last; of any type."""
    raw = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[source.dtype.itemsize]
    order_channels(plain(source).reshape(-1).view(raw), np.asarray(order, np.int64), out.reshape(-1).view(raw))
    return out


@kernel
def unsharp_bytes(source, blurred, amount, threshold, out):
    """Differences from the blurred image that are larger than a threshold are amplified."""
    for i in range(source.size):
        value = np.float32(source[i])
        difference = value - blurred[i]
        sharp = value + amount * difference
        kept = sharp if abs(difference) > threshold else value
        out[i] = np.uint8(np.int32(min(max(kept, np.float32(0)), np.float32(255)) + np.float32(0.5)))


def unsharp(source: np.ndarray, blurred: np.ndarray, amount: float, threshold: float, out: np.ndarray) -> np.ndarray:
    """Bytes and their blurred form in float32."""
    unsharp_bytes(
        plain(source).reshape(-1), blurred.reshape(-1), np.float32(amount), np.float32(threshold), out.reshape(-1)
    )
    return out
