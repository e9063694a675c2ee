"""Blurring, JPEG's distortion, and normalize, which is three reductions and a line, on the GPU."""

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pipeflow.device.calls import DeviceCall, Item, View, ceil_div, row_type
from pipeflow.kernels.gpu import TYPE_CODES, TYPES
from pipeflow.operators import image
from pipeflow.operators.axes import some_pixels, spatial
from pipeflow.operators.on_gpu.elementwise import BLOCK, blocks_of, cast_views
from pipeflow.operators.on_gpu.reductions import (
    DISTANCES,
    FACTOR,
    FLOAT64,
    MEAN,
    SUM,
    Reduction,
    accumulated,
    launch_finish,
    launch_moments,
    launch_reductions,
    place_partials,
    tables,
)

TALL, WIDE, MARGIN = 16, 128, 192  # of filter.cu
DIRECT = {np.dtype(np.uint8), np.dtype(np.float32)}  # the types that the kernels read and write without a conversion
FLOAT = np.dtype(np.float32)

BLUR_ROW = row_type(
    input="u8", output="u8", heights="u8", widths="u8", height="i4", width="i4", pixel="i4", above="i4", beside="i4"
)
PASS_ROW = row_type(input="u8", output="u8", window="u8", total="i8", extent="i8", inner="i8", radius="i4")


def in_scratch(call: DeviceCall, views: list[View]) -> list[View]:
    """Arrays of the same shapes in FLOAT, for results between two launches."""
    addresses = call.scratch_each(np.array([4 * view.size for view in views]))
    return [View(address, view.shape, FLOAT) for view, address in zip(views, addresses.tolist())]


def launch_passes(
    call: DeviceCall, sources: list[View], targets: list[View], windows: list[tuple[int, int]], axes: list[int]
) -> None:
    """Queues the filter along one axis of each array; ``windows`` are addresses and lengths."""
    rows = [
        (
            source.address,
            target.address,
            address,
            source.size,
            source.shape[axis],
            math.prod(source.shape[axis + 1 :]),
            size // 2,
        )
        for source, target, (address, size), axis in zip(sources, targets, windows, axes, strict=True)
    ]
    kernel = f"filter.cu:filter_axis<{TYPES[sources[0].dtype]}, {TYPES[targets[0].dtype]}>"
    call.launch(kernel, np.array(rows, PASS_ROW), [ceil_div(source.size, BLOCK) for source in sources])


@image.gaussian_blur.gpu_plan
def _(item: Item) -> Any:
    axes = spatial(item.layouts[0])
    windows = image.blur_windows(item.args.sigma, item.args.window_size, len(axes))
    some_pixels(item.input.shape)
    line = math.prod(item.input.shape[axes[-1] :])
    if line >= 1 << 30:
        raise ValueError(f"a row of the image has {line} values; the GPU form filters rows of fewer than 2**30")
    return windows


@image.gaussian_blur.gpu
def _(call: DeviceCall) -> None:
    items = call.items
    axes = [spatial(item.layouts[0])[-2:] for item in items]
    start = call.upload(np.concatenate([window for item in items for window in item.plan]))
    tables: list[list[tuple[int, int]]] = []
    for item in items:
        tables.append([])
        for window in item.plan:
            tables[-1].append((start, len(window)))
            start += window.nbytes
    sources, targets = [item.input for item in items], [item.output for item in items]
    if sources[0].dtype not in DIRECT:
        typed = in_scratch(call, sources)
        cast_views(call, list(zip(sources, typed, strict=True)))
        sources = typed
    if targets[0].dtype not in DIRECT:
        targets = in_scratch(call, targets)
    if len(items[0].plan) == 3:
        deep = in_scratch(call, sources)
        depths = [spatial(item.layouts[0])[0] for item in items]
        launch_passes(call, sources, deep, [own[0] for own in tables], depths)
        sources = deep
    wide = [_margin(source, own, pair) > MARGIN for source, own, pair in zip(sources, tables, axes, strict=True)]
    if any(wide):
        middle = in_scratch(call, sources)
        launch_passes(call, sources, middle, [own[-2] for own in tables], [pair[0] for pair in axes])
        launch_passes(call, middle, targets, [own[-1] for own in tables], [pair[1] for pair in axes])
    else:
        _launch_blur(call, sources, targets, tables, axes)
    if targets[0] != items[0].output:
        cast_views(call, [(view, item.output) for view, item in zip(targets, items, strict=True)])


def _margin(source: View, own: list[tuple[int, int]], pair: list[int]) -> int:
    return own[-1][1] // 2 * math.prod(source.shape[pair[1] + 1 :])


def _launch_blur(
    call: DeviceCall,
    sources: list[View],
    targets: list[View],
    tables: list[list[tuple[int, int]]],
    axes: list[list[int]],
) -> None:
    rows, blocks = [], []
    for source, target, own, (vertical, horizontal) in zip(sources, targets, tables, axes, strict=True):
        height, pixel = source.shape[vertical], math.prod(source.shape[horizontal + 1 :])
        width = source.shape[horizontal] * pixel
        (heights, tall), (widths, wide) = own[-2:]
        rows.append((source.address, target.address, heights, widths, height, width, pixel, tall // 2, wide // 2))
        blocks.append(math.prod(source.shape[:vertical]) * ceil_div(height, TALL) * ceil_div(width, WIDE))
    kernel = f"filter.cu:blur<{TYPES[sources[0].dtype]}, {TYPES[targets[0].dtype]}>"
    call.launch(kernel, np.array(rows, BLUR_ROW), blocks)


# ----------------------------------------------------------------------------------------------------
# jpeg_compression_distortion

JPEG_ROW = row_type(
    input="u8", output="u8", luma="u8", blue="u8", red="u8", steps="u8", height="i4", width="i4", across="i4", down="i4"
)
UNITS, PIXELS = 4, 1024  # squares of 16 x 16, and pixels, of a block of jpeg.cu

# The steps of quantisation that the JPEG standard gives as an example, for quality 50.
LUMA_STEPS = (
    16, 11, 10, 16, 24, 40, 51, 61,
    12, 12, 14, 19, 26, 58, 60, 55,
    14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62,
    18, 22, 37, 56, 68, 109, 103, 77,
    24, 35, 55, 64, 81, 104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101,
    72, 92, 95, 98, 112, 100, 103, 99,
)  # fmt: skip
CHROMA_STEPS = (
    17, 18, 24, 47, 99, 99, 99, 99,
    18, 21, 26, 66, 99, 99, 99, 99,
    24, 26, 56, 99, 99, 99, 99, 99,
    47, 66, 99, 99, 99, 99, 99, 99,
    *[99] * 32,
)  # fmt: skip


@functools.lru_cache(maxsize=128)
def quantisation(quality: int) -> np.ndarray:
    """The steps for a quality from 1 to 100, luma before chroma."""
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    return np.clip((np.array(LUMA_STEPS + CHROMA_STEPS) * scale + 50) // 100, 1, 255).astype(np.int32)


@image.jpeg_compression_distortion.gpu_plan
def _(item: Item) -> None:
    image.check_compressible(item.input.shape, item.args.quality)


@image.jpeg_compression_distortion.gpu
def _(call: DeviceCall) -> None:
    qualities = sorted({item.args.quality for item in call.items})
    steps = call.upload(np.concatenate([quantisation(quality) for quality in qualities]))
    rows = []
    for item in call.items:
        height, width, _channels = item.input.shape
        across, down = ceil_div(width, 16), ceil_div(height, 16)
        luma = call.scratch(across * down * 384)
        blue = luma + across * down * 256
        own = steps + 512 * qualities.index(item.args.quality)
        addresses = item.input.address, item.output.address, luma, blue, blue + across * down * 64, own
        rows.append((*addresses, height, width, across, down))
    table = np.array(rows, JPEG_ROW)
    call.launch("jpeg.cu:compress", table, [ceil_div(row[-1] * row[-2], UNITS) for row in rows])
    call.launch("jpeg.cu:restore", table, [ceil_div(row[-3] * row[-4], PIXELS) for row in rows])


# ----------------------------------------------------------------------------------------------------
# normalize

NORMALIZE_ROW = row_type(
    input="u8",
    output="u8",
    means="u8",
    factors="u8",
    axes="u8",
    total="i8",
    shift="f4",
    ndim="i4",
    input_type="i4",
    output_type="i4",
)


def _given(
    call: DeviceCall, plans: Sequence[Reduction], keeps: Sequence[list[int]], values: Sequence[Any]
) -> list[int]:
    """The addresses of given means or factors, one number for each result."""
    arrays = [
        np.broadcast_to(image.given_statistic(value, kept), kept).ravel()
        for value, kept in zip(values, keeps, strict=True)
    ]
    address = call.upload(np.concatenate(arrays).astype(np.float64))
    return _one_after_another(address, plans)


def _one_after_another(address: int, plans: Sequence[Reduction]) -> list[int]:
    ends = np.cumsum([0, *[8 * plan.results for plan in plans]])
    return [address + int(end) for end in ends[:-1]]


SPAN_ROW = row_type(input="u8", output="u8", means="u8", factors="u8", count="i8", shift="f4")


def _normalize_spans(
    call: DeviceCall, plans: list[Reduction], means: list[int], factors: list[int], args: list[Any]
) -> None:
    """Normalises bytes and floats to FLOAT, if each mean is for values that are next to each other in memory."""
    groups: dict[int, list[tuple[tuple, int]]] = {}
    for item, plan, mean, factor, one in zip(call.items, plans, means, factors, args, strict=True):
        size = plan.count * plan.inner
        row = item.input.address, item.output.address, mean, factor, size, one.shift
        groups.setdefault(plan.inner, []).append((row, plan.results // plan.inner * ceil_div(size, BLOCK)))
    for inner, rows in groups.items():
        kernel = f"reduce.cu:normalize_span<{TYPES[plans[0].view.dtype]}, {inner}>"
        call.launch(kernel, np.array([row for row, _ in rows], SPAN_ROW), [blocks for _, blocks in rows])


@image.normalize.gpu_plan
def _(item: Item) -> tuple[Reduction, list[int]]:
    shape, args = item.input.shape, item.args
    axes = image.normalized_axes(item.layouts[0], len(shape), args)
    kept = [1 if axis in axes else extent for axis, extent in enumerate(shape)]
    for given in (args.mean, args.stddev):
        if given is not None:
            np.broadcast_to(image.given_statistic(given, kept), kept)
    return Reduction.of(item.input, axes), kept


@image.normalize.gpu
def _(call: DeviceCall) -> None:
    plans = [replace(item.plan[0], view=item.input) for item in call.items]
    keeps = [item.plan[1] for item in call.items]
    args = [item.args for item in call.items]
    if args[0].batch:
        # the whole batch has one mean and one deviation: if they are given, those of the first sample
        args = args[:1] * len(args)
        for item, kept in zip(call.items, keeps, strict=True):
            if kept != keeps[0]:
                raise ValueError(
                    f"with batch=True all samples must have one shape but for the reduced axes: {item.input.shape} "
                    f"is unlike {call.items[0].input.shape}"
                )
    means, factors = _statistics(call, plans, keeps, args)
    if call.items[0].output.dtype == FLOAT and all(plan.spans for plan in plans):
        _normalize_spans(call, plans, means, factors, args)
        return
    axis_tables = tables(call, [plan.spread for plan in plans])
    rows = [
        (
            item.input.address,
            item.output.address,
            mean,
            factor,
            axes,
            item.output.size,
            args.shift,
            len(plan.spread),
            TYPE_CODES[item.input.dtype],
            TYPE_CODES[item.output.dtype],
        )
        for item, args, plan, mean, factor, axes in zip(
            call.items, args, plans, means, factors, axis_tables, strict=True
        )
    ]
    call.launch("reduce.cu:normalize", np.array(rows, NORMALIZE_ROW), blocks_of(call.items))


def _moments(call: DeviceCall, plans: list[Reduction], args: list[Any]) -> tuple[list[int], list[int]]:
    """Queues the means and factors of bytes or floats, which are read only once."""
    place_partials(call, plans, 3)
    own = sum(plan.results for plan in plans)
    means, factors = (_one_after_another(call.scratch(8 * own), plans) for _ in range(2))
    launch_reductions(call, plans, SUM, "", moments=2)
    rows = [
        (
            plan.partials,
            mean,
            factor,
            plan.results,
            plan.chunks,
            plan.count,
            max(plan.count - one.ddof, 1),
            one.epsilon,
            one.scale,
        )
        for plan, mean, factor, one in zip(plans, means, factors, args, strict=True)
    ]
    launch_moments(call, rows)
    return means, factors


def _statistics(
    call: DeviceCall, plans: list[Reduction], keeps: list[list[int]], args: list[Any]
) -> tuple[list[int], list[int]]:
    """The addresses of each item's means and factors, FLOAT64; with ``batch`` they are the same for all items."""
    first, together = args[0], args[0].batch
    groups = [plans] if together else [[plan] for plan in plans]
    heads = [group[0] for group in groups]
    counts = [sum(plan.count for plan in group) for group in groups]
    chunks = [sum(plan.chunks for plan in group) for group in groups]
    own = sum(plan.results for plan in heads)
    double = TYPE_CODES[FLOAT64]
    if (
        not together
        and first.mean is None
        and first.stddev is None
        and all(plan.spans and plan.count for plan in plans)
    ):
        return _moments(call, plans, args)
    place_partials(call, plans)

    def finish(target: list[int], kind: str, divisors: list[int], operation: int, how: int) -> None:
        rows = [
            (
                plan.partials,
                address,
                plan.results,
                parts,
                divided,
                args.epsilon,
                args.scale,
                operation,
                how,
                double,
                False,
            )
            for plan, address, parts, divided, args in zip(heads, target, chunks, divisors, every, strict=True)
        ]
        launch_finish(call, kind, rows)

    every = args[: len(heads)]
    shares = len(plans) if together else 1
    if first.mean is None:
        means = _one_after_another(call.scratch(8 * own), heads)
        kind = accumulated(plans[0].view.dtype)
        launch_reductions(call, plans, SUM, kind)
        finish(means, kind, [max(count, 1) for count in counts], SUM, MEAN)
    else:
        means = _given(call, heads, keeps[: len(heads)], [x.mean for x in every])
    if first.stddev is None:
        factors = _one_after_another(call.scratch(8 * own), heads)
        views = [View(mean, (plan.results,), FLOAT64) for mean, plan in zip(means * shares, plans, strict=True)]
        launch_reductions(call, plans, DISTANCES, "double", views)
        divisors = [max(count - first.ddof, 1) for count in counts]
        finish(factors, "double", divisors, DISTANCES, FACTOR)
    else:
        deviations = [image.given_deviation(x.stddev, kept, x.epsilon) for x, kept in zip(every, keeps)]
        given = [image.factor_of(deviation, x.scale) for deviation, x in zip(deviations, every, strict=True)]
        factors = _given(call, heads, keeps[: len(heads)], given)
    return means * shares, factors * shares
