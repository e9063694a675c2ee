"""Sound: resampling, preemphasis, spectrograms, mel bands, decibels, MFCC, detection of silence.

A signal is a one-dimensional sample, or time by channels. Kernels work on float32; some operators accept integer signals.
"""

from collections.abc import Callable
from math import prod
from operator import index
from typing import Any, Literal

import numpy as np

from pipeflow.declare import DTYPE, UNKNOWN, Arg, Args, DType, Floats, KernelCalls, Out, Sample, Spec, default, operator
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.rates import RATES, RESAMPLING, check_quality, factor_of, resampled, resampling_factor

PAGE = """A signal is a sample of one axis, time, or of two, time by channels. Results are float32; integer signals are
accepted where an operator has a meaning for them. [Sound](../audio.md) has examples of whole pipelines.
"""

FLOAT, INT32 = np.dtype(np.float32), np.dtype(np.int32)


def as_float(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, np.float32)


def _check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, got {value!r}")


def _check_positive(name: str, value: Any) -> None:
    if value is not None and value is not UNKNOWN and not value > 0:
        raise ValueError(f"{name} must be positive, got {value}")


# ----------------------------------------------------------------------------------------------------
# Rates


@operator(
    "audio_resample",
    compiled=True,
    takes=RATES | RESAMPLING | DTYPE,
    dtypes="int8 uint8 int16 uint16 int32 uint32 float",
    gpu=True,
    examples=["fn.audio_resample(signal, in_rate=22050, out_rate=16000)", "fn.audio_resample(signal, scale=0.5)"],
)
def audio_resample(signal: Sample, /, *, args: Args, out: Out) -> Sample:
    """Resamples a signal (time, or time by channels) by a factor, from one rate to another, or to a length.

    Give ``scale``, or ``in_rate`` and ``out_rate``, or ``out_length``. The filter is a sinc under a Hann window of 3 lobes
    (``quality`` 0), 16 (50) or 64 (100). Integers are read as fractions of their full scale, also if ``dtype`` is another type.
    If the new rate is lower, the filter removes the frequencies that it cannot represent; ``antialias=False`` keeps them, as
    DALI does.
    """
    factor = resampling_factor(signal.shape, args)
    if not signal.size or not out.size:
        out[...] = 0  # silence of any length
        return out
    if args.dtype in (None, signal.dtype) and factor == 1:
        np.copyto(out, signal)
        return out
    sound = kernels.audio_signal.normalised(signal)
    if out.dtype == FLOAT:
        kernels.audio_resample.resample(sound, out, factor, quality=args.quality, antialias=args.antialias)
        return out
    direct = np.empty(out.shape, np.float32)
    kernels.audio_resample.resample(sound, direct, factor, quality=args.quality, antialias=args.antialias)
    kernels.audio_signal.store(direct, out)
    return out


@audio_resample.infer
def _infer_resampled(specs: tuple[Spec, ...], args: Args) -> Spec:
    shape: Any = specs[0].shape
    dtype = args.dtype or specs[0].dtype
    if shape is UNKNOWN or not shape:
        return Spec(shape, dtype, specs[0].layout)
    given = (args.scale, args.in_rate, args.out_rate, args.out_length)
    length: Any = UNKNOWN
    if shape[0] is not UNKNOWN and not any(value is UNKNOWN for value in given):
        factor = factor_of(shape[0], *given)
        length = kernels.audio_resample.output_length(shape[0], factor)
        if args.out_length is not None:
            length = args.out_length
    return Spec((length, *shape[1:]), dtype, specs[0].layout)


@audio_resample.check
def _check_resampled(args: Args) -> None:
    check_quality(args.quality)
    rates = args.in_rate is not None or args.out_rate is not None
    ways = [args.scale is not None, args.out_length is not None, rates]
    if sum(ways) != 1 or (args.in_rate is None) != (args.out_rate is None):
        raise ValueError("give exactly one of: scale; in_rate and out_rate; out_length")
    if args.dtype is not None and args.dtype.kind not in "iuf":
        raise ValueError(f"dtype must be an integer or float type, got {args.dtype}")
    constants = {name: getattr(args, name) for name in ("scale", "in_rate", "out_rate")}
    for name, value in constants.items():
        _check_positive(name, value)
    if args.out_length is not None and args.out_length is not UNKNOWN and args.out_length < 0:
        raise ValueError(f"out_length must not be negative, got {args.out_length}")


audio_resample.calls(resampled)


@audio_resample.ready
def _ready_resampled(specs: tuple[Spec, ...], args: Args) -> Any:
    shape, factor = specs[0].shape, resampling_factor(specs[0].shape, args)
    length = _infer_resampled(specs, args).shape[0]
    if len(shape) != 1 or not (shape[0] and length) or specs[0].dtype != FLOAT or args.dtype not in (None, FLOAT):
        return None
    return None if factor == 1 else kernels.audio_resample.resampling(length, factor, args.quality, args.antialias)


# ----------------------------------------------------------------------------------------------------
# The signal


@operator(
    "preemphasis_filter", compiled=True, gpu=True, dtypes="integer float", examples=["fn.preemphasis_filter(signal)"]
)
def preemphasis_filter(
    signal: Sample,
    /,
    *,
    preemph_coeff: Arg[float] = default(0.97, "factor of the value before, which is subtracted"),
    border: Literal["clamp", "zero", "reflect"] = default(
        "clamp", "the value before the first one: the first value (`clamp`), the second one (`reflect`) or `zero`"
    ),
    dtype: DType = default(FLOAT, "type of the result"),
    out: Out,
) -> Sample:
    """Computes y[t] = x[t] - preemph_coeff * x[t - 1] for each channel; time is the first axis.

    ``border`` determines the value before the first one: the first value, zero, or the second value.
    """
    sound = as_float(signal)
    filtered = out if dtype == FLOAT else np.empty(signal.shape, np.float32)
    if signal.ndim == 0:
        sound, filtered = sound.reshape(1), filtered.reshape(1)
    kernels.audio_signal.preemphasis(sound, filtered, preemph_coeff, border)
    if dtype != FLOAT:
        kernels.audio_signal.saturate(filtered.reshape(out.shape), out)
    return out


@preemphasis_filter.infer
def _(specs: tuple[Spec, ...], args: Args) -> Spec:
    return Spec(specs[0].shape, args.dtype, specs[0].layout)


@preemphasis_filter.calls
def _(calls: KernelCalls) -> None:
    signal, args = calls.input, calls.args
    calls.require(signal.dtype == args.dtype == FLOAT and signal.extents[1:] in ((), (1,)) and signal.size > 0)
    out = calls.output(signal.extents, FLOAT)
    first = kernels.audio_signal.FIRST[args.border]
    calls.call(kernels.audio_signal.preemphasis_mono, signal.flat, np.float32(args.preemph_coeff), first, out.flat)


@preemphasis_filter.check
def _(args: Args) -> None:
    if args.dtype.kind not in "iuf":
        raise ValueError(f"dtype must be an integer or float type, got {args.dtype}")


@operator(
    "nonsilent_region",
    compiled=True,
    dtypes="integer float",
    gpu=True,
    no_effect={"reset_interval": "the running sum is kept in float64 and cannot drift"},
    examples=["fn.nonsilent_region(signal, window_length=64)"],
)
def nonsilent_region(
    signal: Sample,
    /,
    *,
    cutoff_db: float = default(-60.0, "power below which the signal is silent, in decibels of the reference"),
    window_length: int = default(2048, "number of samples over which the power is averaged"),
    reference_power: float = default(0.0, "power that counts as 0 dB; 0: the largest of the signal"),
    out: Out,
) -> tuple[Sample, Sample]:
    """Finds the part of a one-dimensional signal that is not silent: (begin, length), both INT32; length 0 if all of it
    is silent.

    The short-time power over ``window_length`` samples is compared with ``cutoff_db`` below ``reference_power``, by
    default the largest short-time power of the signal. A signal of zeros is then not silent anywhere, as in DALI: its
    power equals its own maximum.
    """
    one_channel(signal.shape)
    values = np.ascontiguousarray(signal, np.float32 if signal.dtype == np.float16 else None).reshape(-1)
    options = {"cutoff_db": cutoff_db, "reference_power": reference_power, "window_length": window_length}
    found = kernels.audio_signal.nonsilent_region(values, **options) if signal.size else (0, 0)
    out[0][...], out[1][...] = found
    return out


@nonsilent_region.ready
def _(specs: tuple[Spec, ...], args: Args) -> Any:
    one_channel(specs[0].shape)
    options = specs[0].dtype, args.cutoff_db, args.reference_power, args.window_length
    other = specs[0].dtype == np.float16 or 0 in specs[0].shape
    return None if other else kernels.audio_signal.nonsilent_again(*options)


def one_channel(shape: tuple[int, ...]) -> None:
    """Raises if the input is not one signal."""
    if len(shape) != 1 and prod(shape) != max(shape, default=0):
        raise ValueError(f"the signal must have one channel, got shape {shape}")


@nonsilent_region.infer
def _(_specs: tuple[Spec, ...], _args: Args) -> tuple[Spec, Spec]:
    return Spec((), INT32, ""), Spec((), INT32, "")


@nonsilent_region.check
def _(args: Args) -> None:
    _check_positive("window_length", args.window_length)
    if not args.reference_power >= 0:
        value = args.reference_power
        raise ValueError(f"reference_power must be positive, or 0 for the signal's own maximum, got {value}")


# ----------------------------------------------------------------------------------------------------
# Spectra


@operator("power_spectrum", dtypes="float", examples=["fn.power_spectrum(signal)"])
def power_spectrum(
    signal: Sample,
    /,
    *,
    axis: int = default(-1, "axis of time"),
    nfft: int | None = default(None, "length to which the signal is cut or padded; default: its own"),
    power: int = default(2, "2 for the power, 1 for the magnitude"),
) -> Sample:
    """The power of each of the nfft // 2 + 1 frequencies of the signal along ``axis``; with ``power=1`` the magnitude.

    The signal is cut or padded with zeros to ``nfft``, by default its own length.
    """
    if not -signal.ndim <= axis < signal.ndim:
        raise ValueError(f"axis {axis} is out of range for shape {signal.shape}")
    size = nfft or signal.shape[axis]
    if not size:
        raise ValueError("the spectrum of an empty signal is undefined")
    return kernels.audio_spectrum.power_spectrum(signal, size, power, axis)


power_spectrum.ready(lambda specs, args: kernels.audio_spectrum.power_spectrum_again(specs[0], args))


@power_spectrum.infer
def _(specs: tuple[Spec, ...], args: Args) -> Spec:
    shape: Any = specs[0].shape
    if shape is UNKNOWN or not -len(shape) <= args.axis < len(shape):
        return Spec(UNKNOWN, FLOAT, specs[0].layout)
    sizes = list(shape)
    sizes[args.axis] = (sizes[args.axis] if args.nfft is None else args.nfft) // 2 + 1
    return Spec(tuple(sizes), FLOAT, specs[0].layout)


@power_spectrum.check
def _(args: Args) -> None:
    _check_choice("power", args.power, (1, 2))
    _check_positive("nfft", args.nfft)


@operator(
    "spectrogram",
    compiled=True,
    gpu=True,
    dtypes="float",
    examples=["fn.spectrogram(signal, window_length=64, window_step=16)"],
)
def spectrogram(
    signal: Sample,
    /,
    *,
    nfft: int | None = default(None, "length of the transform of a window; default: window_length"),
    window_length: int = default(512, "number of samples in a window"),
    window_step: int = default(256, "number of samples from a window to the next"),
    window_fn: Floats = default((), "factors of the samples of a window; default: a Hann window"),
    power: int = default(2, "2 for the power, 1 for the magnitude"),
    center_windows: bool = default(True, "windows are centred on their samples; False: they begin there"),
    reflect_padding: bool = default(True, "the signal is reflected at its ends; False: it continues with zeros"),
    layout: Literal["ft", "tf"] = default("ft", "`ft` for frequencies by frames, `tf` for frames by frequencies"),
    out: Out,
) -> Sample:
    """The short-time power spectrum of a one-dimensional signal: nfft // 2 + 1 frequencies by frames.

    Frame t is centred on sample t * window_step, and the signal is reflected at its ends; without ``reflect_padding`` it is
    continued with zeros. Without ``center_windows`` frame t begins at that sample, and only whole frames are used. ``window_fn``
    are window_length factors, by default a Hann window; ``nfft`` is window_length unless given. ``power=1`` gives magnitudes,
    ``layout="tf"`` frames by frequencies.
    """
    one_channel_of_spectrogram(signal.shape)
    kernels.audio_spectrum.spectrogram(
        as_float(signal).reshape(-1),
        out,
        nfft=nfft or window_length,
        window=window_fn or kernels.audio_spectrum.hann(window_length),
        window_step=window_step,
        center=center_windows,
        reflect=reflect_padding,
        power=power,
        time_major=layout == "tf",
    )
    return out


def one_channel_of_spectrogram(shape: tuple[int, ...]) -> None:
    """Raises if the input is not one signal."""
    if len(shape) > 1 and prod(shape) != max(shape):
        raise ValueError(f"the signal must have one channel, got shape {shape}: use downmix=True or pick one")


@spectrogram.infer
def _(specs: tuple[Spec, ...], args: Args) -> Spec:
    shape: Any = specs[0].shape
    length = UNKNOWN if shape is UNKNOWN else prod(shape, start=1)
    frames: Any = UNKNOWN
    if length is not UNKNOWN:
        frames = _frames(length, args.window_length, args.window_step, args.center_windows)
    bins = (args.nfft or args.window_length) // 2 + 1
    return Spec((bins, frames) if args.layout == "ft" else (frames, bins), FLOAT, args.layout)


def _frames(length: int, window_length: int, window_step: int, center: bool) -> int:
    if not length:
        raise ValueError("the signal is empty: it has no spectrogram")
    if not center and length < window_length:
        raise ValueError(
            f"the signal has {length} samples, fewer than window_length {window_length}: "
            "pad it, shorten the window, or use center_windows=True"
        )
    return _frame_count(length, window_length, window_step, center)


def _frame_count(length: Any, window_length: int, window_step: int, center: bool) -> Any:
    return (length if center else length - window_length) // window_step + 1


@spectrogram.calls
def _(calls: KernelCalls) -> None:
    signal, args = calls.input, calls.args
    calls.require(signal.dtype == FLOAT and len(signal.extents) == 1)
    length, nfft = signal.size, args.nfft or args.window_length
    calls.require(length >= (1 if args.center_windows else args.window_length))
    window = args.window_fn or kernels.audio_spectrum.hann(args.window_length)
    tables = kernels.audio_spectrum.frame_tables(nfft, window)
    calls.require(tables is not None)
    extents = nfft // 2 + 1, _frame_count(length, args.window_length, args.window_step, args.center_windows)
    out = calls.output(extents if args.layout == "ft" else extents[::-1], FLOAT)
    offset = -(args.window_length // 2) if args.center_windows else 0
    reflect = args.center_windows and args.reflect_padding
    options = args.layout == "tf", offset, args.window_step, reflect, args.power == 1
    calls.call(kernels.audio_spectrum.frames_of, signal, out, *options, *tables)


@spectrogram.check
def _(args: Args) -> None:
    _check_positive("window_length", args.window_length)
    _check_positive("window_step", args.window_step)
    _check_positive("nfft", args.nfft)
    _check_choice("power", args.power, (1, 2))
    if args.nfft is not None and args.nfft < args.window_length:
        raise ValueError(f"window_length {args.window_length} must not be larger than nfft {args.nfft}")
    if args.window_fn and len(args.window_fn) != args.window_length:
        raise ValueError(f"window_fn has {len(args.window_fn)} values and window_length is {args.window_length}")


def _frequency_axis(layout: str, ndim: int) -> int:
    """The axis of the frequencies: the axis named f, else the last but one."""
    if layout:
        if "f" not in layout:
            raise ValueError(f"the layout {layout!r} has no frequency axis f")
        return layout.index("f")
    return max(ndim - 2, 0)


def _along(spec: Spec, axis_of: Callable[[str, int], int], size: Callable[[Any], Any]) -> Spec:
    """The Spec with another extent along one axis."""
    shape: Any = spec.shape
    if shape is UNKNOWN:
        return Spec(UNKNOWN, FLOAT, spec.layout)
    axis = axis_of(spec.layout or "", len(shape))
    return Spec((*shape[:axis], size(shape[axis]), *shape[axis + 1 :]), FLOAT, spec.layout)


@operator(
    "mel_filter_bank",
    compiled=True,
    gpu=True,
    dtypes="float",
    examples=["fn.mel_filter_bank(spectrogram, nfilter=8, sample_rate=16000)"],
)
def mel_filter_bank(
    spectrum: Sample,
    /,
    *,
    nfilter: int = default(128, "number of bands"),
    sample_rate: float = default(44100.0, "rate of the signal, in samples a second"),
    freq_low: float = default(0.0, "lowest frequency, in hertz"),
    freq_high: float = default(0.0, "highest frequency, in hertz; 0: half the rate"),
    mel_formula: Literal["slaney", "htk"] = default("slaney", "scale of the bands: `slaney` or `htk`"),
    normalize: bool = default(True, "give each filter an area of 1"),
    out: Out,
    layouts: Any,
) -> Sample:
    """Weights the frequencies of a spectrogram into ``nfilter`` triangular bands, evenly spaced on the mel scale.

    The frequencies run along the axis named f, or the last but one, from 0 to half the ``sample_rate``; the bands from
    ``freq_low`` to ``freq_high`` (0: half the rate). With ``normalize`` each filter has unit area. If there are more bands than
    frequencies, some bands are empty: they are 0.
    """
    chosen = Args(
        nfilter=nfilter,
        sample_rate=sample_rate,
        freq_low=freq_low,
        freq_high=freq_high,
        mel_formula=mel_formula,
        normalize=normalize,
    )
    axis, bands = bands_of(spectrum.shape, layouts[0], chosen)
    kernels.audio_spectrum.apply_bands(as_float(spectrum), out, bands, axis)
    return out


def bands_of(shape: tuple[int, ...], layout: str, args: Any) -> tuple[int, Any]:
    """The axis of the frequencies, and the filters for its extent."""
    if not shape:
        raise ValueError("the spectrum must have at least one axis")
    axis, high = _frequency_axis(layout, len(shape)), args.freq_high or args.sample_rate / 2
    if shape[axis] == 0:
        raise ValueError(f"the spectrum has no frequencies: its shape is {shape}")
    return axis, kernels.audio_spectrum.mel_bands(
        shape[axis], args.nfilter, args.sample_rate, args.freq_low, high, args.mel_formula, args.normalize
    )


@mel_filter_bank.infer
def _(specs: tuple[Spec, ...], args: Args) -> Spec:
    return _along(specs[0], _frequency_axis, lambda _: args.nfilter)


@mel_filter_bank.calls
def _(calls: KernelCalls) -> None:
    spectrum, args = calls.input, calls.args
    calls.require(spectrum.dtype == FLOAT and spectrum.size > 0)
    axis = _frequency_axis(calls.layouts[0], len(spectrum.extents))
    bins = index(spectrum.extents[axis])  # the filters are for this number of frequencies
    _, bands = bands_of((*spectrum.extents[:axis], bins, *spectrum.extents[axis + 1 :]), calls.layouts[0], args)
    outer, inner = prod(spectrum.extents[:axis]), prod(spectrum.extents[axis + 1 :])
    out = calls.output((*spectrum.extents[:axis], args.nfilter, *spectrum.extents[axis + 1 :]), FLOAT)
    tables = bands.first, bands.count, bands.start, bands.weights
    if inner == 1:
        last = spectrum.reshaped(outer, bins), out.reshaped(outer, args.nfilter)
        calls.call(kernels.audio_spectrum.weigh_last, *last, *tables)
    else:
        parts = spectrum.reshaped(outer, bins, inner), out.reshaped(outer, args.nfilter, inner)
        calls.call(kernels.audio_spectrum.weigh, *parts, *tables)


@mel_filter_bank.check
def _(args: Args) -> None:
    _check_positive("nfilter", args.nfilter)
    _check_positive("sample_rate", args.sample_rate)
    high = args.freq_high or args.sample_rate / 2
    if not 0 <= args.freq_low < high or not high <= args.sample_rate / 2:
        raise ValueError(
            f"the bands must be between 0 and half the sample_rate: freq_low {args.freq_low}, "
            f"freq_high {high}, sample_rate {args.sample_rate}"
        )


@operator(
    "to_decibels", compiled=True, gpu=True, dtypes="float", examples=["fn.to_decibels(spectrogram, cutoff_db=-80.0)"]
)
def to_decibels(
    magnitude: Sample,
    /,
    *,
    multiplier: float = default(10.0, "factor of the logarithm: 10 for powers, 20 for magnitudes"),
    reference: float = default(0.0, "value of 0 dB; 0: the largest of the sample"),
    cutoff_db: float = default(-200.0, "lowest value of the result"),
    out: Out,
) -> Sample:
    """Computes multiplier * log10(x / reference); the result is at least ``cutoff_db``.

    Without a ``reference`` the largest x is used. Values without a logarithm (zero, negative values, NaN) become
    ``cutoff_db``, as in DALI.
    """
    kernels.audio_spectrum.to_decibels(
        as_float(magnitude), out, multiplier=multiplier, reference=reference, cutoff_db=cutoff_db
    )
    return out


@to_decibels.infer
def _(specs: tuple[Spec, ...], _args: Args) -> Spec:
    return Spec(specs[0].shape, FLOAT, specs[0].layout)


@to_decibels.calls
def _(calls: KernelCalls) -> None:
    magnitude, args = calls.input, calls.args
    calls.require(magnitude.dtype == FLOAT and magnitude.size > 0)
    out = calls.output(magnitude.extents, FLOAT)
    scale = kernels.audio_spectrum.scale_of_decibels(args.multiplier, args.reference, args.cutoff_db)
    calls.call(kernels.audio_spectrum.decibels, magnitude.flat, out.flat, *scale)


@to_decibels.check
def _(args: Args) -> None:
    _check_positive("multiplier", args.multiplier)
    if not args.reference >= 0:
        raise ValueError(f"reference must be positive, or 0 for the largest value, got {args.reference}")


@operator("mfcc", compiled=True, gpu=True, dtypes="float", examples=["fn.mfcc(spectrogram, n_mfcc=4)"])
def mfcc(
    spectrum: Sample,
    /,
    *,
    axis: int = default(0, "axis of the bands"),
    dct_type: int = default(2, "type of the cosine transform, 1 to 4"),
    n_mfcc: int = default(20, "number of coefficients"),
    normalize: bool = default(False, "make the transform orthonormal; not for type 1"),
    lifter: float = default(0.0, "strength of the liftering of the coefficients; 0: none"),
    out: Out,
) -> Sample:
    """The first ``n_mfcc`` coefficients of the discrete cosine transform of types 1 to 4 along ``axis``.

    If the axis is shorter, there are fewer coefficients. ``normalize`` makes the transform orthonormal (not for type 1). A
    ``lifter`` L above 0 multiplies coefficient i by 1 + L / 2 * sin(pi * (i + 1) / L).
    """
    check_transform(spectrum.shape, Args(axis=axis, dct_type=dct_type))
    kernels.audio_spectrum.mfcc(
        as_float(spectrum), out, axis=axis % spectrum.ndim, kind=dct_type, normalise=normalize, lifter=lifter
    )
    assert out.shape[axis] == min(n_mfcc, spectrum.shape[axis])
    return out


@mfcc.ready
def _(specs: tuple[Spec, ...], args: Args) -> Any:
    shape, axis = specs[0].shape, args.axis % len(specs[0].shape)
    check_transform(shape, args)
    options = min(shape[axis], args.n_mfcc), args.dct_type, args.normalize, args.lifter
    return None if 0 in shape else kernels.audio_spectrum.mfcc_again(shape, axis, *options)


def check_transform(shape: tuple[int, ...], args: Any) -> None:
    """Raises if the transform is not defined for this axis."""
    if args.dct_type == 1 and shape[args.axis] == 1:
        raise ValueError("the discrete cosine transform of type 1 needs more than one value along the axis")


@mfcc.infer
def _(specs: tuple[Spec, ...], args: Args) -> Spec:
    def position(_layout: str, ndim: int) -> int:
        if not -ndim <= args.axis < ndim:
            raise ValueError(f"axis {args.axis} is out of range for {ndim} dimensions")
        return args.axis % ndim

    return _along(specs[0], position, lambda size: UNKNOWN if size is UNKNOWN else min(size, args.n_mfcc))


@mfcc.check
def _(args: Args) -> None:
    _check_choice("dct_type", args.dct_type, (1, 2, 3, 4))
    _check_positive("n_mfcc", args.n_mfcc)
    if args.normalize and args.dct_type == 1:
        raise ValueError("normalize is not defined for dct_type 1")
