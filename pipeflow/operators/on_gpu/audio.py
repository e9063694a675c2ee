"""Sound on the GPU, with the windows, filters and tables of the CPU form; cuFFT computes the transform itself."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pipeflow.device.calls import DeviceCall, Item, View, ceil_div, row_type
from pipeflow.kernels import cpu as kernels
from pipeflow.kernels.gpu import TYPE_CODES
from pipeflow.operators import audio, rates
from pipeflow.operators.on_gpu.color import launch_line
from pipeflow.operators.on_gpu.elementwise import BLOCK, cast_views
from pipeflow.operators.on_gpu.reductions import (
    AS_IT_IS,
    LARGEST_NUMBER,
    Reduction,
    launch_finish,
    launch_reductions,
    place_partials,
)

FLOAT, COMPLEX = np.dtype(np.float32), np.dtype(np.complex64)
THREADS, TILE = 256, 32
FRAMES_AT_ONCE = 1 << 25  # numbers in frames that are transformed together: 128 MB

PREEMPHASIS_ROW = row_type(
    input="u8", output="u8", total="i8", inner="i8", coefficient="f4", border="i4", input_type="i4", output_type="i4"
)
FRAME_ROW = row_type(
    input="u8",
    output="u8",
    window="u8",
    length="i8",
    total="i8",
    begin="i8",
    size="i4",
    width="i4",
    step="i4",
    reflects="i4",
)
POWER_ROW = row_type(input="u8", output="u8", frames="i8", bins="i8", magnitude="i4", time_major="i4")
WEIGH_ROW = row_type(
    input="u8", output="u8", weights="u8", bands="u8", total="i8", size="i8", inner="i8", band_count="i8"
)
DECIBEL_ROW = row_type(input="u8", output="u8", reference="u8", total="i8", factor="f4", cutoff="f4", input_type="i4")
RESAMPLE_ROW = row_type(
    input="u8",
    output="u8",
    table="u8",
    scale="f8",
    length="i8",
    total="i8",
    numerator="i8",
    denominator="i8",
    channels="i4",
    taps="i4",
    row_length="i4",
    phases="i4",
)
SILENCE_ROW = row_type(
    input="u8",
    sums="u8",
    begin="u8",
    length="u8",
    total="i8",
    reference="f8",
    fraction="f8",
    window="i4",
    input_type="i4",
)


def in_float(call: DeviceCall, views: Sequence[View]) -> list[View]:
    """The arrays in FLOAT; arrays of this type are not copied."""
    if views[0].dtype == FLOAT:
        return list(views)
    typed = [call.scratch_view(view.shape, FLOAT) for view in views]
    cast_views(call, list(zip(views, typed, strict=True)))
    return typed


# ----------------------------------------------------------------------------------------------------
# The signal


@audio.preemphasis_filter.gpu
def _(call: DeviceCall) -> None:
    border = ("clamp", "zero", "reflect").index(call.items[0].args.border)
    rows = [
        (
            x.input.address,
            x.output.address,
            x.input.size,
            math.prod(x.input.shape[1:]),
            x.args.preemph_coeff,
            border,
            TYPE_CODES[x.input.dtype],
            TYPE_CODES[x.output.dtype],
        )
        for x in call.items
    ]
    call.launch(
        "audio.cu:preemphasis", np.array(rows, PREEMPHASIS_ROW), [ceil_div(x.input.size, BLOCK) for x in call.items]
    )


@audio.nonsilent_region.gpu_plan
def _(item: Item) -> None:
    audio.one_channel(item.input.shape)


@audio.nonsilent_region.gpu
def _(call: DeviceCall) -> None:
    args = call.items[0].args
    fraction, kind = 10 ** (args.cutoff_db / 10), TYPE_CODES[call.items[0].input.dtype]
    sums = call.scratch(8 * sum(item.input.size for item in call.items))
    rows = []
    for item in call.items:
        begin, length = item.outputs
        rows.append(
            (
                item.input.address,
                sums,
                begin.address,
                length.address,
                item.input.size,
                args.reference_power,
                fraction,
                args.window_length,
                kind,
            )
        )
        sums += 8 * item.input.size
    call.launch("audio.cu:nonsilent", np.array(rows, SILENCE_ROW), [1] * len(rows), THREADS)


@audio.audio_resample.gpu_plan
def _(item: Item) -> Fraction | float:
    return rates.resampling_factor(item.input.shape, item.args)


@audio.audio_resample.gpu
def resample(call: DeviceCall) -> None:
    """Resamples every item by its own factor; equal filters are uploaded once."""
    same = [x for x in call.items if x.plan == 1 and x.output.dtype == x.input.dtype]
    if same:
        cast_views(call, [(item.input, item.output) for item in same])
    items = [item for item in call.items if not (item.plan == 1 and item.output.dtype == item.input.dtype)]
    if not items:
        return
    sources = [item.input for item in items]
    if sources[0].dtype.kind == "f":
        sources = in_float(call, sources)
    else:
        # integers count as fractions of their full scale
        scale, silence = kernels.audio_signal.full_scale(sources[0].dtype)
        sources = [call.scratch_view(view.shape, FLOAT) for view in sources]
        pairs = list(zip([item.input for item in items], sources, strict=True))
        launch_line(call, "cast.cu:line<double>", pairs, [(1 / scale, -silence / scale)] * len(pairs))
    targets = [item.output for item in items]
    if targets[0].dtype != FLOAT:
        targets = [call.scratch_view(view.shape, FLOAT) for view in targets]
    tables: dict[Any, tuple[Any, int]] = {}
    rows = []
    for item, source, target in zip(items, sources, targets, strict=True):
        factor = item.plan
        if factor not in tables:
            chosen = kernels.audio_resample.design(factor, item.args.quality, item.args.antialias)
            tables[factor] = chosen, call.upload(chosen.table)
        chosen, address = tables[factor]
        length, channels = source.shape[0], math.prod(source.shape[1:])
        rows.append(
            (
                source.address,
                target.address,
                address,
                float(factor),
                length,
                target.size,
                chosen.numerator,
                chosen.denominator,
                channels,
                chosen.taps,
                chosen.row,
                chosen.phases,
            )
        )
    blocks = [ceil_div(target.size, THREADS) for target in targets]
    call.launch("audio.cu:resample_sound", np.array(rows, RESAMPLE_ROW), blocks, THREADS)
    if targets[0].dtype == items[0].output.dtype:
        return
    final = list(zip(targets, [item.output for item in items], strict=True))
    if final[0][1].dtype.kind == "f":
        cast_views(call, final)
    else:
        scale, silence = kernels.audio_signal.full_scale(final[0][1].dtype)
        launch_line(call, "cast.cu:line<double>", final, [(scale, silence)] * len(final))


# ----------------------------------------------------------------------------------------------------
# Spectra


def _transform(module: Any, frames: Any, spectra: Any) -> None:
    spectra[...] = module.fft.rfft(frames, axis=1)


audio.spectrogram.gpu_needs("cuFFT")


@audio.spectrogram.gpu_plan
def _(item: Item) -> None:
    audio.one_channel_of_spectrogram(item.input.shape)


@audio.spectrogram.gpu
def _(call: DeviceCall) -> None:
    args = call.items[0].args
    size, width = args.nfft or args.window_length, args.window_length
    bins = size // 2 + 1
    window = call.upload(np.asarray(args.window_fn or kernels.audio_spectrum.hann(width), np.float32))
    begin = -(width // 2) if args.center_windows else 0
    reflects = args.center_windows and args.reflect_padding
    signals = in_float(call, [item.input for item in call.items])
    counts = [item.output.size // bins for item in call.items]
    parts = _parts(counts, max(1, FRAMES_AT_ONCE // size))
    most = common_size(max(sum(counts[number] for number in part) for part in parts))
    # the parts of the batch use the same memory, one after another
    frames, spectra = call.scratch_view((most, size), FLOAT), call.scratch_view((most, bins), COMPLEX)
    for part in parts:
        cut, powers, done = [], [], 0
        for number in part:
            signal, item, count = signals[number], call.items[number], counts[number]
            cut.append(
                (
                    signal.address,
                    frames.address + 4 * done * size,
                    window,
                    signal.size,
                    count * size,
                    begin,
                    size,
                    width,
                    args.window_step,
                    reflects,
                )
            )
            powers.append(
                (
                    spectra.address + 8 * done * bins,
                    item.output.address,
                    count,
                    bins,
                    args.power == 1,
                    args.layout == "tf",
                )
            )
            done += count
        call.launch("audio.cu:cut_frames", np.array(cut, FRAME_ROW), [ceil_div(row[4], BLOCK) for row in cut])
        if done:
            together = common_size(done)
            call.run(_transform, frames._replace(shape=(together, size)), spectra._replace(shape=(together, bins)))
        blocks = [ceil_div(row[2], TILE) * ceil_div(bins, TILE) for row in powers]
        call.launch("audio.cu:power_of", np.array(powers, POWER_ROW), blocks, THREADS)


def common_size(count: int) -> int:
    """The count, rounded up by at most an eighth, to one of eight numbers for each power of two.

    CuPy keeps the plans of sixteen transforms, by their number of frames; to plan a new one takes up to a millisecond. The
    frames beyond the count contain any old data of the memory; nothing reads their spectra.
    """
    step = max(1, 1 << max(count.bit_length() - 4, 0))
    return ceil_div(count, step) * step


def _parts(counts: Sequence[int], most: int) -> list[list[int]]:
    """Groups of consecutive items that have at most ``most`` frames together, unless a single item has more."""
    parts: list[list[int]] = [[]]
    together = 0
    for number, count in enumerate(counts):
        if parts[-1] and together + count > most:
            parts.append([])
            together = 0
        parts[-1].append(number)
        together += count
    return parts


def launch_weighing(call: DeviceCall, tables: list[tuple[int, int]], axes: list[int]) -> None:
    """Weighted sums along an axis; ``tables`` are the addresses of each item's weights and bands."""
    sources = in_float(call, [item.input for item in call.items])
    rows = []
    for item, source, (weights, bands), axis in zip(call.items, sources, tables, axes, strict=True):
        shape = source.shape
        rows.append(
            (
                source.address,
                item.output.address,
                weights,
                bands,
                item.output.size,
                shape[axis],
                math.prod(shape[axis + 1 :]),
                item.output.shape[axis],
            )
        )
    blocks = [ceil_div(item.output.size, THREADS) for item in call.items]
    call.launch("audio.cu:weigh", np.array(rows, WEIGH_ROW), blocks, THREADS)


@audio.mel_filter_bank.gpu_plan
def _(item: Item) -> tuple[int, Any]:
    return audio.bands_of(item.input.shape, item.layouts[0], item.args)


@audio.mel_filter_bank.gpu
def _(call: DeviceCall) -> None:
    found: dict[int, tuple[int, int]] = {}  # by the number of frequencies: the addresses of the tables
    tables = []
    for item in call.items:
        axis, bands = item.plan
        size = item.input.shape[axis]
        if size not in found:
            places = np.stack([bands.first, bands.count, bands.start], axis=1).astype(np.int32)
            found[size] = call.upload(bands.weights), call.upload(places)
        tables.append(found[size])
    launch_weighing(call, tables, [item.plan[0] for item in call.items])


@audio.mfcc.gpu_plan
def _(item: Item) -> int:
    audio.check_transform(item.input.shape, item.args)
    return item.args.axis % len(item.input.shape)


@audio.mfcc.gpu
def _(call: DeviceCall) -> None:
    found: dict[int, tuple[int, int]] = {}
    tables = []
    for item in call.items:
        size, count, args = item.input.shape[item.plan], item.output.shape[item.plan], item.args
        if size not in found:
            # Without frequencies, every sum is empty.
            table = kernels.audio_spectrum.cosine_table(max(size, 1), count, args.dct_type, args.normalize, args.lifter)
            places = [(0, size, row * size) for row in range(count)]
            found[size] = call.upload(table), call.upload(np.array(places, np.int32).reshape(-1, 3))
        tables.append(found[size])
    launch_weighing(call, tables, [item.plan for item in call.items])


@audio.to_decibels.gpu
def _(call: DeviceCall) -> None:
    args, items = call.items[0].args, call.items
    if args.reference > 0:
        levels = [call.upload(np.array([args.reference], np.float32))] * len(items)
    else:
        # the largest value of each item, without NaN
        plans = [Reduction.of(item.input, range(len(item.input.shape))) for item in items]
        found = call.scratch(4 * len(items))
        levels = [found + 4 * number for number in range(len(items))]
        place_partials(call, plans)
        launch_reductions(call, plans, LARGEST_NUMBER, "double")
        code = TYPE_CODES[FLOAT]
        launch_finish(
            call,
            "double",
            [
                (plan.partials, level, 1, plan.chunks, 1, 0, 0, LARGEST_NUMBER, AS_IT_IS, code, False)
                for plan, level in zip(plans, levels, strict=True)
            ],
        )
    factor = args.multiplier * np.log10(2)
    rows = [
        (x.input.address, x.output.address, level, x.input.size, factor, args.cutoff_db, TYPE_CODES[x.input.dtype])
        for x, level in zip(items, levels, strict=True)
    ]
    call.launch("audio.cu:decibels", np.array(rows, DECIBEL_ROW), [ceil_div(x.input.size, BLOCK) for x in items])
