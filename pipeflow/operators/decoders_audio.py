"""Sound files to samples: decoders.audio."""

from collections.abc import Callable
from fractions import Fraction
from operator import index

import numpy as np

from pipeflow.declare import (
    UNKNOWN,
    Arg,
    Args,
    DType,
    KernelArray,
    KernelCalls,
    NoTable,
    Out,
    Sample,
    Spec,
    default,
    largest,
    operator,
)
from pipeflow.errors import BadData
from pipeflow.kernels import cpu as kernels
from pipeflow.operators import encoded as files
from pipeflow.operators.audio import FLOAT, as_float
from pipeflow.operators.rates import RESAMPLING, check_quality, factor_of

PAGE = """Sound files become samples. [Sound](../audio.md) has examples of whole pipelines."""


# The default limits of the memory for samples, and the limit for a file of a few bytes. Such a file may be silence, or an attack
# that fills the memory.
MAX_BYTES = 1 << 31
SMALL_SOUND = 1 << 26
BYTES_PER_BYTE = 1024
DECODED_TYPES = {np.dtype(np.int16): "int16", np.dtype(np.int32): "int32", FLOAT: "float32"}


@operator(
    "decoders.audio",
    compiled=True,
    takes=RESAMPLING,
    dtypes="uint8 text",
    unsized=True,
    examples=["fn.decoders.audio(encoded_sound, downmix=True)"],
)
def audio(
    encoded: Sample,
    /,
    *,
    args: Args,
    sample_rate: Arg[float] = default(0.0, "rate to resample to, in samples a second; 0 keeps that of the file"),
    downmix: bool = default(False, "mix the channels into one"),
    dtype: DType = default(FLOAT, "type of the samples: FLOAT (from -1 to 1), INT16 or INT32"),
    max_bytes: int | None = default(
        None,
        "maximum size of the samples in bytes, decoded or resampled; default: 2 GiB, and less for a file of a "
        "few kilobytes",
    ),
    out: Out,
) -> tuple[Sample, Sample]:
    """Decodes a sound file to (samples, sampling rate): time by channels, or time alone with ``downmix``.

    Uncompressed wav files and FLAC are read directly; Ogg Vorbis and Opus, MP3 and AIFF through libsndfile (``pip install
    soundfile``). ``dtype`` is FLOAT, INT16 or INT32; floats are in -1...1. With a ``sample_rate`` above 0 the sound is resampled
    to it; ``quality`` and ``antialias`` are those of ``fn.audio_resample``. A truncated or damaged file is an error. So is a
    file whose samples, decoded or resampled, would take more than ``max_bytes`` (2 GiB unless given, and less for a file of a
    few kilobytes): it is refused before it is decoded.
    """
    samples_out, rate_out = out
    samples, rate = decode_sound(
        files.encoded(encoded, "an encoded sound"),
        lambda shape: samples_out(shape, dtype),
        sample_rate=sample_rate,
        quality=args.quality,
        downmix=downmix,
        dtype=dtype,
        antialias=args.antialias,
        max_bytes=max_bytes,
    )
    rate_array = rate_out((), FLOAT)
    rate_array[...] = rate
    return samples, rate_array


def decode_sound(
    encoded: np.ndarray,
    allocate: Callable[[tuple[int, ...]], np.ndarray],
    *,
    sample_rate: float,
    quality: float,
    downmix: bool,
    dtype: np.dtype,
    antialias: bool = True,
    span: tuple[float, float] | None = None,
    max_bytes: int | None = None,
) -> tuple[np.ndarray, float]:
    """Decodes the bytes of a sound file to samples, in memory from ``allocate``, and their rate.

    With ``span`` (begin, duration), in seconds, only that part is decoded, as far as it is in the file.
    """
    if sample_rate < 0:
        raise ValueError(f"sample_rate must be positive, or 0 for the rate of the file, got {sample_rate}")
    limit = max_bytes or min(MAX_BYTES, max(SMALL_SOUND, BYTES_PER_BYTE * len(encoded)))
    try:
        stored, rate = _stored(np.ascontiguousarray(encoded), dtype, limit)
        kernels.audio_wav.check_size(len(stored), stored.shape[1] * max(dtype.itemsize, stored.dtype.itemsize), limit)
    except kernels.audio_wav.BrokenAudio as error:
        raise BadData(str(error)) from None
    if span is not None:
        begin = round(min(span[0], len(stored)) * rate)
        stored = stored[begin : begin + round(min(span[1], len(stored)) * rate)]
    target = sample_rate or float(rate)
    frames, channels = stored.shape
    if target == rate and (channels == 1 or not downmix):
        samples = allocate((frames,) if downmix else stored.shape)
        _convert(stored, samples.reshape(frames, channels))
        return samples, target
    scale = factor_of(frames, None, rate, target, None)
    length = kernels.audio_resample.output_length(frames, scale)
    if length * channels * FLOAT.itemsize > limit:
        raise BadData(
            f"resampled from {rate} to {target:g} samples a second, {frames} samples of {channels} channels become "
            f"{length}: more than max_bytes={limit}; raise max_bytes if it is meant"
        )
    samples = allocate((length,) if downmix else (length, channels))
    sound = np.empty(stored.shape, np.float32)
    kernels.audio_signal.decoded(stored, sound)
    if downmix:
        sound = kernels.audio_signal.downmix(sound)
    if target != rate:
        direct = samples if dtype == FLOAT else np.empty(samples.shape, np.float32)
        kernels.audio_resample.resample(sound, direct, scale, quality=quality, antialias=antialias)
        sound = direct
    if sound is not samples:
        kernels.audio_signal.store(sound, samples)
    return samples, target


def _stored(encoded: np.ndarray, dtype: np.dtype, limit: int) -> tuple[np.ndarray, int]:
    """The samples as the file stores them, and their rate."""
    wav = kernels.audio_wav.parse(encoded)
    if wav is not None:
        return kernels.audio_wav.samples(encoded, wav), wav.rate
    if encoded[:4].tobytes() == b"fLaC":
        decoded = kernels.audio_flac.decode(encoded, limit, dtype.itemsize)
        if decoded is not None:
            return decoded
    return kernels.audio_files.decode(encoded, DECODED_TYPES[dtype], limit)


def _convert(stored: np.ndarray, samples: np.ndarray) -> None:
    if samples.dtype == FLOAT:
        kernels.audio_signal.decoded(stored, samples)
    elif stored.dtype.kind == "f":
        kernels.audio_signal.store(as_float(stored), samples)
    else:
        kernels.audio_signal.shifted(stored, samples)


@audio.infer
def _(_specs: tuple[Spec, ...], args: Args) -> tuple[Spec, Spec]:
    shape = (UNKNOWN,) if args.downmix else (UNKNOWN, UNKNOWN)
    return Spec(shape, args.dtype, ""), Spec((), FLOAT, "")


@audio.calls
def _(calls: KernelCalls) -> None:
    args, encoded = calls.args, calls.input
    headers, flac = kernels.audio_headers, kernels.audio_flac
    calls.require(len(encoded.extents) == 1 and encoded.dtype == np.uint8 and args.dtype == FLOAT)
    *fixed, begin, frames = calls.read(headers.read, encoded.flat)
    kind, bits, channels, rate, block = map(index, fixed)
    calls.require(kind != headers.UNKNOWN and (kind == headers.WAV or bits == 16) and args.sample_rate >= 0)
    target, mono = args.sample_rate or float(rate), args.downmix or channels == 1
    calls.require(frames > 0)
    factor = factor_of(1, None, rate, target, None)
    calls.require(mono or target == rate)
    if not isinstance(factor, Fraction):
        raise NoTable
    length = (frames * factor.numerator + (factor.denominator - 1)) // factor.denominator
    stored, count = np.dtype({8: "u1", 16: "<i2", 32: "<i4"}[bits]), frames * channels
    limit = args.max_bytes or largest(SMALL_SOUND, encoded.size * BYTES_PER_BYTE)
    width = channels * max(FLOAT.itemsize, stored.itemsize)
    calls.require(largest(frames, length) * width <= limit)
    calls.require(largest(frames, length) * width <= MAX_BYTES)
    if kind == headers.FLAC:
        calls.require(count * stored.itemsize <= kernels.audio_wav.believable_bytes(encoded.size, largest))
        data = calls.scratch((encoded.size + flac.PADDING,), encoded.dtype)
        blocks = calls.scratch((channels, flac.HISTORY + block), np.dtype(np.int32))
        samples = calls.scratch((count,), stored)
        calls.call(headers.padded, encoded.flat, data)
        calls.call(headers.clear, blocks.flat)
        options = data, begin * 8, frames, channels, bits, blocks, samples, 0, flac.CHECKSUMS
        _, decoded = calls.call(flac.decode_frames, *options)
        calls.require(decoded == frames)
    else:
        samples = KernelArray(encoded.address + begin, (count,), stored)
        calls.require_aligned(samples)
    out = calls.output((length,) if args.downmix else (length, channels), FLOAT)
    direct = not mono or (target == rate and channels == 1)
    sound = out.flat if direct else calls.scratch((count,), FLOAT)
    calls.call(kernels.audio_signal.scaled, samples, *kernels.audio_signal.scaling(stored), sound)
    if mono and channels > 1:
        mixed = out if target == rate else calls.scratch((frames,), FLOAT)
        calls.call(kernels.audio_signal.mix, sound.reshaped(frames, channels), mixed)
        sound = mixed
    if target != rate:
        filtered, settings = kernels.audio_resample.filtering(factor, args.quality, args.antialias)
        calls.call(filtered, sound, out.flat, 1, 0, length, *settings)
    calls.give(1, np.array(target, FLOAT))


@audio.check
def _(args: Args) -> None:
    check_quality(args.quality)
    if args.dtype not in DECODED_TYPES:
        raise ValueError(f"dtype must be FLOAT, INT16 or INT32, got {args.dtype}")
    check_max_bytes(args.max_bytes)


def check_max_bytes(value: int | None) -> None:
    """Raises for a limit below 1."""
    if value is not None and value < 1:
        raise ValueError(f"max_bytes must be at least 1, got {value}")
