"""Chains of operators as one operator: what the fusion of a plan puts in the place of several steps.

A chain is named by its links, ``resize+flip+crop_mirror_normalize``, and has their arguments with the number of the
link: ``size_0``, ``horizontal_1``. It infers and draws as its links do, one after another.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from pipeflow.declare import Args, Operator, Param, Role, Spec, Traits, composers, registry
from pipeflow.kernels import cpu as kernels
from pipeflow.operators import resize as resizing
from pipeflow.operators.color import contrast_line, full_range
from pipeflow.operators.image import channel_first, per_channel, scaled
from pipeflow.operators.windows import crop_extents, place_window

HEADS = ("resize", "random_resized_crop", "resize_crop_mirror")
WINDOWS = ("crop", "flip")
TAIL = "crop_mirror_normalize"
LINES = ("brightness", "contrast", "brightness_contrast", "cast")
FAST_OUT = {np.dtype(np.float32), np.dtype(np.float16), np.dtype(np.uint8), np.dtype(np.int8)}
Names = list[list[tuple[str, str]]]  # of every link: the names of its arguments in the chain and in itself
UINT8, FLOAT = np.dtype(np.uint8), np.dtype(np.float32)


@cache
def chain(operators: tuple[str, ...]) -> Operator:
    """The operator that does the named ones one after another."""
    links = [registry[name] for name in operators]
    run = lines if operators[0] in LINES else resize_and_normalize
    names: Names = []

    def body(image: np.ndarray, /, *, out: Any, layouts: Sequence[str], **values: Any) -> np.ndarray:
        return run(links, image, layouts[0], [Args(**part) for part in parts_of(values, names)], out)

    body.__doc__ = f"Does {', '.join(operators[:-1])} and {operators[-1]} in one pass."
    params = [Param("image", Role.INPUT, np.ndarray)]
    for number, link in enumerate(links):
        own = [param for param in link.params if param.role in (Role.ARG, Role.STATIC, Role.DRAWN)]
        params += [replace(param, name=f"{param.name}_{number}") for param in own]
        names.append([(f"{param.name}_{number}", param.name) for param in own])
    params += [Param("out", Role.HIDDEN, Any), Param("layouts", Role.HIDDEN, Any)]
    op = Operator(
        "+".join(operators),
        body,
        tuple(params),
        1,
        layouts=links[0].layouts,
        sequences=links[0].sequences,
        hidden=True,
        dtypes=links[0].dtypes,
        base_traits=Traits(),
        staged=links[-1].staged,
    )
    op.infer(lambda specs, args: inferred(links, specs, parts_of(dict(vars(args)), names)))
    if links[0].draw_hook is not None:
        op.draw(lambda key, specs, args: drawn(links[0], key, specs, parts_of(dict(vars(args)), names)[0]))
    return op


composers.append(chain)


def parts_of(values: dict[str, Any], names: Names) -> list[dict[str, Any]]:
    """The arguments of each link; ``size_0`` is the argument ``size`` of link 0."""
    return [{own: values[name] for name, own in link if name in values} for link in names]


def inferred(links: Sequence[Operator], specs: Sequence[Spec], parts: Sequence[dict[str, Any]]) -> Spec:
    """The Spec behind the last link."""
    spec = specs[0]
    for link, part in zip(links, parts, strict=True):
        (spec,) = link.specs([Spec(spec.shape, spec.dtype, spec.layout)], part, 1)
    return spec


def drawn(head: Operator, key: Any, specs: Sequence[Spec], part: dict[str, Any]) -> dict[str, Any]:
    """What the first link draws."""
    assert head.draw_hook is not None
    return {f"{name}_0": value for name, value in head.draw_hook(key, tuple(specs), Args(**part)).items()}


def one_by_one(links: Sequence[Operator], image: np.ndarray, layout: str, parts: Sequence[Any], out: Any) -> np.ndarray:
    """The chain without fusion, for samples that no fused kernel is made for."""
    for number, (link, part) in enumerate(zip(links, parts, strict=True)):
        (spec,) = link.specs([Spec(image.shape, image.dtype, layout)], vars(part), 1)
        hidden: dict[str, Any] = {"layouts": (layout,)} if "layouts" in link.wants else {}
        if "out" in link.wants:
            last = number == len(links) - 1
            given = out if last and not callable(out) else (out if last else np.empty)(spec.shape, spec.dtype)
            hidden["out"] = given
        image = link.body(image, **link.keywords(vars(part)), **hidden)
        layout = spec.layout or ""
    return image


def resize_and_normalize(
    links: Sequence[Operator], image: np.ndarray, layout: str, parts: Sequence[Any], out: Any
) -> np.ndarray:
    """Resize, crop, flip and normalise: one kernel for interleaved images of three channels."""
    head, tail = parts[0], parts[-1]
    between = head.dtype or image.dtype
    types_fit = tail.dtype in FAST_OUT and between in (UINT8, FLOAT) and image.dtype in (UINT8, FLOAT)
    if layout != "HWC" or image.shape[2] != 3 or not image.size or not types_fit or tail.pad_output:
        return one_by_one(links, image, layout, parts, out)
    if any(getattr(part, "dtype", None) is not None for part in parts[1:-1]) or getattr(head, "save_attrs", False):
        return one_by_one(links, image, layout, parts, out)
    axes = head_axes(links[0].name, image, head)
    for link, part in zip(links[1:], parts[1:], strict=True):
        if link.name == "flip":
            axes = [turned(axes[0], part.vertical), turned(axes[1], part.horizontal)]
            continue
        cut = windowed(axes, part)
        if cut is None:
            return one_by_one(links, image, layout, parts, out)
        axes = cut
    if tail.mirror:
        axes = [axes[0], turned(axes[1], True)]
    first = channel_first(tail.output_layout)
    if callable(out):
        extents = (axes[0].extent, axes[1].extent)
        out = out((3, *extents) if first else (*extents, 3), tail.dtype)
    if not out.flags.c_contiguous:
        return one_by_one(links, image, layout, parts, out)
    tables = resizing.taps_of(axes, head)
    means, factors = per_channel(tail.mean, 3, "mean"), scaled(tail.std, 3, tail.scale)
    return kernels.fused.resample_normalize(
        image, *tables, means, factors, float(tail.shift), between == UINT8, out, first
    )


def head_axes(name: str, image: np.ndarray, args: Any) -> list[resizing.Axis]:
    """What the first link does, as a description of both axes."""
    if name == "random_resized_crop":
        return resizing.window_axes(image.shape[:2], args.size, args.window)
    if name == "resize_crop_mirror":
        return resizing.cropped_axes(image.shape[:2], "HW", args)
    return resizing.resize_axes(image.shape[:2], "HW", args)


def turned(axis: resizing.Axis, mirror: bool) -> resizing.Axis:
    """The axis mirrored after everything that was done before."""
    if not mirror:
        return axis
    return resizing.Axis(axis.size, axis.low, axis.high, axis.full, axis.first, axis.count, not axis.mirror)


def windowed(axes: Sequence[resizing.Axis], args: Any) -> list[resizing.Axis] | None:
    """The axes cropped; None where the window leaves the image, which is the crop's own business."""
    if not (args.crop or args.crop_h or args.crop_w):
        return list(axes)
    extents = [axis.extent for axis in axes]
    sizes = crop_extents("HW", extents, args)
    anchors = place_window("HW", extents, sizes, args)
    result = []
    for axis, extent, anchor, size in zip(axes, extents, anchors, sizes, strict=True):
        if anchor < 0 or anchor + size > extent:
            return None
        # In a mirrored axis the window is counted from the other end of the grid.
        first = axis.first + (extent - anchor - size if axis.mirror else anchor)
        result.append(replace(axis, first=first, count=size))
    return result


def lines(links: Sequence[Operator], image: np.ndarray, layout: str, parts: Sequence[Any], out: Any) -> np.ndarray:
    """Lines over every value: factor, offset and rounding of each link, applied to a block while it is in cache."""
    if image.dtype not in (UINT8, FLOAT) or out.dtype not in (UINT8, FLOAT) or not out.flags.c_contiguous:
        return one_by_one(links, image, layout, parts, out)
    dtype = image.dtype
    steps = []
    for link, part in zip(links, parts, strict=True):
        target = part.dtype or dtype
        if target not in (UINT8, FLOAT):
            return one_by_one(links, image, layout, parts, out)
        steps.append((*line_of(link.name, part, dtype, target), float(target == UINT8)))
        dtype = target
    return kernels.color.several_lines(image, np.array(steps, np.float32), out)


def line_of(name: str, args: Any, dtype: np.dtype, target: np.dtype) -> tuple[float, float]:
    """Factor and offset of one link."""
    if name == "cast":
        return 1.0, 0.0
    if name == "brightness":
        return args.brightness, args.brightness_shift * full_range(target)
    gain, shift = (1.0, 0.0) if name == "contrast" else (args.brightness, args.brightness_shift)
    return contrast_line(dtype, target, gain, shift, args.contrast, args.contrast_center)
