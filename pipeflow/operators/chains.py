"""Chains of operators as one operator, with which fusion replaces several steps of a plan.

A chain is named by its links, ``resize+flip+crop_mirror_normalize``, and has their arguments with the number of the
link: ``size_0``, ``horizontal_1``. It infers and draws as its links do, one after another. The declarations say which
operators may be links, and have the properties that the fused kernels need: ``line``, ``samples``, ``resamples``,
``ends_sampling``.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from pipeflow.declare import Args, Operator, Param, Role, Spec, Traits, makes_chains, registry
from pipeflow.kernels import cpu as kernels

Names = list[list[tuple[str, str]]]  # for every link, the names of its arguments in the chain and in its operator
UINT8, FLOAT = np.dtype(np.uint8), np.dtype(np.float32)


@cache
def chain(operators: tuple[str, ...]) -> Operator:
    """The operator that applies the named operators one after another."""
    links = [registry[name] for name in operators]
    run = lines if links[0].line_hook else sampled
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
        compiled=True,
    )
    op.infer(lambda specs, args: inferred(links, specs, parts_of(dict(vars(args)), names)))
    if links[0].draw_hook is not None:
        op.draw(lambda key, specs, args: drawn(links[0], key, specs, parts_of(dict(vars(args)), names)[0]))
    return op


makes_chains(chain)


def parts_of(values: dict[str, Any], names: Names) -> list[dict[str, Any]]:
    """The arguments of each link; ``size_0`` is the argument ``size`` of link 0."""
    return [{own: values[name] for name, own in link if name in values} for link in names]


def inferred(links: Sequence[Operator], specs: Sequence[Spec], parts: Sequence[dict[str, Any]]) -> Spec:
    """The Spec after the last link."""
    spec = specs[0]
    for link, part in zip(links, parts, strict=True):
        (spec,) = link.specs([Spec(spec.shape, spec.dtype, spec.layout)], part, 1)
    return spec


def drawn(head: Operator, key: Any, specs: Sequence[Spec], part: dict[str, Any]) -> dict[str, Any]:
    """The random numbers of the first link."""
    assert head.draw_hook is not None
    return {f"{name}_0": value for name, value in head.draw_hook(key, tuple(specs), Args(**part)).items()}


def one_by_one(links: Sequence[Operator], image: np.ndarray, layout: str, parts: Sequence[Any], out: Any) -> np.ndarray:
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


def sampled(links: Sequence[Operator], image: np.ndarray, layout: str, parts: Sequence[Any], out: Any) -> np.ndarray:
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
        steps.append((*link.line_hook(part, dtype, target), float(target == UINT8)))  # type: ignore[misc]
        dtype = target
    return kernels.color.several_lines(image, np.array(steps, np.float32), out)
