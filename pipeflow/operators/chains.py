"""Chains of operators as one operator, with which fusion replaces several steps of a plan.

A chain is named by its links, ``resize+flip+crop_mirror_normalize``, and has their arguments with the number of the link:
``size_0``, ``horizontal_1``. Its shapes and random numbers are computed as its links do, one after another. The declarations say
which operators may be links, and have the properties that the fused kernels need: ``line``, ``samples``, ``resamples``,
``ends_sampling``. A table of a chain (``declare/tables.py``) is made of the tables of its links.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from pipeflow.declare import (
    Args,
    KernelArray,
    KernelCalls,
    Link,
    OpFunction,
    Param,
    Role,
    Spec,
    SpecColumn,
    Traits,
    registry,
    require,
)
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.crop_mirror_normalize import FUSED as NORMALIZED
from pipeflow.operators.crop_mirror_normalize import load_kernels
from pipeflow.operators.sampling import AXES, windowed

UINT8, FLOAT = np.dtype(np.uint8), np.dtype(np.float32)
LAST_AXIS = np.array([False, True])


@cache
def chain(operators: tuple[str, ...]) -> OpFunction:
    """The operator that applies the named operators one after another."""
    links = [registry[name] for name in operators]
    run = lines if links[0].line_hook else sampled
    joined: list[Link] = []

    def body(image: np.ndarray, /, *, out: Any, layouts: Sequence[str], **values: Any) -> np.ndarray:
        return run(links, image, layouts[0], [Args(**link.part(values)) for link in op.links], out)

    body.__doc__ = f"Does {', '.join(operators[:-1])} and {operators[-1]} in one pass."
    params = [Param("image", Role.INPUT, np.ndarray)]
    for number, link in enumerate(links):
        own = [param for param in link.params if param.role in (Role.ARG, Role.STATIC, Role.DRAWN)]
        params += [replace(param, name=f"{param.name}_{number}") for param in own]
        joined.append(Link(link, tuple((f"{param.name}_{number}", param.name) for param in own)))
    params += [Param("out", Role.HIDDEN, Any), Param("layouts", Role.HIDDEN, Any)]
    op = OpFunction(
        "+".join(operators),
        body,
        lambda: (tuple(params), 1, None),
        layouts=links[0].layouts,
        sequences=links[0].sequences,
        devices=("cpu", "gpu") if all("gpu" in link.devices for link in links) else ("cpu",),
        hidden=True,
        dtypes=links[0].dtypes,
        base_traits=Traits(),
        staged=links[-1].staged,
        compiled=True,
        gpu_module="chains",
        links=tuple(joined),
        begins_in_numpy=all(link.begins_in_numpy for link in links),
    )
    op.infer(lambda specs, args: inferred(links, specs, [link.part(vars(args)) for link in op.links]))
    if links[0].draw_hook is not None:
        op.draw(lambda key, specs, args: drawn(links[0], key, specs, op.links[0].part(vars(args))))
    table = line_rows if links[0].line_hook else sampling_rows
    if len(links) == 2 and links[0].samples_calls_hook and links[1].ends_sampling_calls_hook:
        op.calls(lambda calls: sampling_calls(op.links, calls))
        op.reads_calls(lambda calls, height, width: sampling_reads(op.links, calls, height, width))
        varying = [
            f"{name}_{number}" for number, link in enumerate(links) for name in link.calls_varying if name != "key"
        ]
        op.varying(*varying, *(["key"] if "key" in links[0].calls_varying else []))
        op.loads(lambda args, _dtype: load_kernels(Args(**op.links[1].part(vars(args))), True))
    if links[0].line_hook:
        op.calls(lambda calls: line_calls(op.links, calls))
        op.varying(*[f"{name}_{number}" for number, link in enumerate(links) for name in link.calls_varying])
    op.rows(lambda specs, args, keys: table(links, specs[0], [link.part(vars(args)) for link in op.links], keys))
    return op


def inferred(links: Sequence[OpFunction], specs: Sequence[Spec], parts: Sequence[dict[str, Any]]) -> Spec:
    """The Spec after the last link."""
    spec = specs[0]
    for link, part in zip(links, parts, strict=True):
        (spec,) = link.specs([Spec(spec.shape, spec.dtype, spec.layout)], part, 1)
    return spec


def drawn(head: OpFunction, key: Any, specs: Sequence[Spec], part: dict[str, Any]) -> dict[str, Any]:
    """The random numbers of the first link."""
    assert head.draw_hook is not None
    return {f"{name}_0": value for name, value in head.draw_hook(key, tuple(specs), Args(**part)).items()}


def one_by_one(
    links: Sequence[OpFunction], image: np.ndarray, layout: str, parts: Sequence[Any], out: Any
) -> np.ndarray:
    """The chain without fusion, for samples that the fused kernels do not support."""
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


def sampled(links: Sequence[OpFunction], image: np.ndarray, layout: str, parts: Sequence[Any], out: Any) -> np.ndarray:
    """A resize and the operators after it: each link changes the source positions of the pixels, and the last link
    computes the pixels.
    """
    head = parts[0]
    between = head.dtype or image.dtype
    types_fit = between in (UINT8, FLOAT) and image.dtype in (UINT8, FLOAT)
    if layout != "HWC" or image.shape[2] != 3 or not image.size or not types_fit or getattr(head, "save_attrs", False):
        return one_by_one(links, image, layout, parts, out)
    axes = links[0].samples_hook(image.shape[:2], head)  # type: ignore[misc]
    for link, part in zip(links[1:-1], parts[1:-1], strict=True):
        axes = link.resamples_hook(axes, part)  # type: ignore[misc]
        if axes is None:
            return one_by_one(links, image, layout, parts, out)
    result = links[-1].ends_sampling_hook(image, axes, head, between, parts[-1], out)  # type: ignore[misc]
    return one_by_one(links, image, layout, parts, out) if result is None else result


def sampling_calls(links: Sequence[Link], calls: KernelCalls) -> None:
    """``sampled`` for a program of kernel calls."""
    head, last = (Args(**link.part(vars(calls.args))) for link in links)
    between = head.dtype or calls.input.dtype
    calls.require(between in (UINT8, FLOAT) and not getattr(head, "save_attrs", False))
    ends = links[1].op.ends_sampling_calls_hook
    assert ends is not None
    ends(calls, links[0].op.samples_calls_hook, head, between, last)


def sampling_reads(links: Sequence[Link], calls: KernelCalls, height: Any, width: Any) -> Sequence[Any]:
    """The part of an image that ``sampling_calls`` read."""
    head, last = (Args(**link.part(vars(calls.args))) for link in links)
    reads = links[1].op.ends_sampling_reads_hook
    assert reads is not None
    return reads(calls, height, width, links[0].op.samples_calls_hook, head, last)


def lines(links: Sequence[OpFunction], image: np.ndarray, layout: str, parts: Sequence[Any], out: Any) -> np.ndarray:
    """Applies the factor, the offset and the rounding of each link to every value, to one block after another in the cache."""
    if image.dtype not in (UINT8, FLOAT) or out.dtype not in (UINT8, FLOAT) or not out.flags.c_contiguous:
        return one_by_one(links, image, layout, parts, out)
    dtype = image.dtype
    steps = []
    for link, part in zip(links, parts, strict=True):
        target = part.dtype or dtype
        if target not in (UINT8, FLOAT):
            return one_by_one(links, image, layout, parts, out)
        steps.append((*link.line_hook(part, dtype, target), float(target == UINT8)))  # type: ignore[misc]
        dtype = target
    return kernels.color.several_lines(image, np.array(steps, np.float32), out)


def line_calls(links: Sequence[Link], calls: KernelCalls) -> None:
    """``lines`` for a program of kernel calls."""
    color, dtypes = kernels.color, [calls.input.dtype]
    for link in links:
        dtypes.append(link.part(vars(calls.args))["dtype"] or dtypes[-1])

    def made(args: Args, count: int) -> np.ndarray:
        steps = np.empty((count, len(links), 3), np.float32)
        for number, (link, dtype, target) in enumerate(zip(links, dtypes, dtypes[1:])):
            assert link.op.line_hook is not None
            steps[:, number, 0], steps[:, number, 1] = link.op.line_hook(Args(**link.part(vars(args))), dtype, target)
            steps[:, number, 2] = target == UINT8
        return steps

    calls.require({*dtypes} <= {UINT8, FLOAT})
    image, out = calls.input, calls.output_like_input(dtypes[-1])
    source, rows = image.flat, calls.row(made)
    first = color.byte_steps([target == UINT8 for target in dtypes[1:]])
    if first and image.dtype == UINT8 and color.fast():
        table = calls.scratch((256,), UINT8)
        calls.call(color.lines_flat, color.VALUES, replace(rows, extents=(first, 3)), table)
        if first == len(links):
            calls.call(color.translate_flat, source, table, out.flat)
            return
        rest = KernelArray(rows.address + first * 3 * FLOAT.itemsize, (len(links) - first, 3), FLOAT)
        calls.call(color.lines_of_table, source, table, rest, out.flat)
        return
    calls.call(color.lines_flat, source, rows, out.flat)


# ----------------------------------------------------------------------------------------------------
# whole batches


@cache
def steps_of_lines(count: int) -> np.dtype:
    """The rows of a chain that multiplies and adds: factor, offset and rounding of each link."""
    return np.dtype([("factor", np.float64, count), ("offset", np.float64, count), ("rounds", np.int32, count)])


def line_rows(links: Sequence[OpFunction], spec: SpecColumn, parts: Sequence[dict[str, Any]], _keys: Any) -> np.ndarray:
    """The factors and offsets of ``lines`` for each sample."""
    table = np.zeros(len(spec.shapes), steps_of_lines(len(links)))
    dtype = spec.dtype
    require(dtype in (UINT8, FLOAT))
    for number, (link, part) in enumerate(zip(links, parts, strict=True)):
        target = part["dtype"] or dtype
        require(target in (UINT8, FLOAT))
        assert link.line_hook is not None
        table["factor"][:, number], table["offset"][:, number] = link.line_hook(Args(**part), dtype, target)
        table["rounds"][:, number] = target == UINT8
        dtype = target
    return table


SAMPLED = np.dtype(
    [
        ("shape", np.int64, (3,)),
        ("axes", AXES, (2,)),
        ("mean", np.float32, (3,)),
        ("factor", np.float32, (3,)),
        ("rounds", np.int32),
    ]
)


def sampling_rows(
    links: Sequence[OpFunction], spec: SpecColumn, parts: Sequence[dict[str, Any]], keys: np.ndarray
) -> np.ndarray:
    """The axes of ``sampled`` for each sample, and the numbers of its normalisation."""
    head, between = parts[0], parts[0]["dtype"] or spec.dtype
    require(spec.layout == "HWC" and not head.get("save_attrs") and {spec.dtype, between} <= {UINT8, FLOAT})
    require((spec.shapes[:, 2] == 3) & (parts[-1]["dtype"] in NORMALIZED))
    own = links[0].rows_hook((spec,), Args(**head), keys)  # type: ignore[misc]
    axes = own["axes"]
    for number, (link, part) in enumerate(zip(links[1:], parts[1:], strict=True), 2):
        last = number == len(links)
        require(last or part.get("dtype") is None)
        own = link.rows_hook((SpecColumn(own["shape"], between, "HWC"),), Args(**part), keys)  # type: ignore[misc]
        require(own["kept"] == own["shape"] if last else own["extents"] == own["shape"])
        turned = own["mirror"][:, None] & LAST_AXIS if last else own["turned"][:, :2]
        axes = windowed(axes, own["low"][:, :2], own["extents"][:, :2], turned)
    table = np.zeros(len(axes), SAMPLED)
    for name in ("shape", "mean", "factor"):
        table[name] = own[name]
    table["axes"], table["rounds"] = axes, between == UINT8
    return table
