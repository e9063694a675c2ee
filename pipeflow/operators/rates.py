"""Rates of sound: the arguments of resampling, and the factor of the length that follows from them."""

from fractions import Fraction
from typing import Any

import numpy as np

from pipeflow.declare import UNKNOWN, Arg, KernelCalls, NoTable, parameters, require
from pipeflow.kernels import cpu as kernels

FLOAT = np.dtype(np.float32)

RESAMPLING = parameters(
    quality=(float, 50.0, "quality of the resampling, from 0 (a filter of 3 lobes) by 50 (16) to 100 (64)"),
    antialias=(bool, True, "remove frequencies that a lower rate cannot represent; False: keep them, as DALI does"),
)


RATES = parameters(
    scale=(Arg[float], None, "factor of the length"),
    in_rate=(Arg[float], None, "rate of the signal, together with out_rate"),
    out_rate=(Arg[float], None, "rate of the result"),
    out_length=(Arg[int], None, "length of the result"),
)


def check_quality(quality: Any) -> None:
    if quality is not UNKNOWN and not 0 <= quality <= 100:
        raise ValueError(f"quality must be from 0 to 100, got {quality}")


def resampling_factor(shape: tuple[int, ...], args: Any) -> Fraction | float:
    """The factor for a signal of this shape."""
    if len(shape) not in (1, 2):
        raise ValueError(f"the signal must be time, or time by channels, got shape {shape}")
    return factor_of(shape[0], args.scale, args.in_rate, args.out_rate, args.out_length)


def factor_of(length: int, scale: Any, in_rate: Any, out_rate: Any, out_length: Any) -> Fraction | float:
    """out_rate / in_rate, as exactly as the arguments give it; ValueError if it is not valid."""
    if out_length is not None:
        if out_length < 0:
            raise ValueError(f"out_length must not be negative, got {out_length}")
        in_rate, out_rate = (length, out_length) if length and out_length else (1, 1)
    elif scale is not None:
        if scale <= 0:
            raise ValueError(f"scale must be positive, got {scale}")
        in_rate, out_rate = 1, scale
    else:
        for name, rate in (("in_rate", in_rate), ("out_rate", out_rate)):
            if rate <= 0:
                raise ValueError(f"{name} must be positive, got {rate}")
        # A rate that differs from sample to sample is float32: a constant one of equal value must be equal to it.
        in_rate, out_rate = float(np.float32(in_rate)), float(np.float32(out_rate))
    if out_rate / in_rate < kernels.audio_resample.SMALLEST:
        raise ValueError(f"the factor {out_rate / in_rate:g} is too small: the lowest is 1/4096")
    return kernels.audio_resample.quotient(out_rate, in_rate)


def resampled(calls: KernelCalls) -> None:
    """The resampling of a signal of one channel as a call of a compiled kernel."""
    args, signal = calls.args, calls.input
    require(args.out_length is None and args.dtype in (None, FLOAT))
    factor = factor_of(1, args.scale, args.in_rate, args.out_rate, None)
    calls.require(signal.dtype == FLOAT and signal.extents[1:] in ((), (1,)) and signal.size > 0)
    if not isinstance(factor, Fraction) or factor == 1:  # the body computes a length that is not exact
        raise NoTable
    length = (signal.extents[0] * factor.numerator + (factor.denominator - 1)) // factor.denominator
    filtered, settings = kernels.audio_resample.filtering(factor, args.quality, args.antialias)
    out = calls.output((length, *signal.extents[1:]), FLOAT)
    calls.call(filtered, signal.flat, out.flat, 1, 0, length, *settings)
