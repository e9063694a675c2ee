"""Converts the arguments of ``show`` to one form: outputs with samples, a layout and the sources of the samples."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeflow.errors import count_of
from pipeflow.pictures.looks import image_layout
from pipeflow.tensors import Metadata, as_sample


@dataclass(eq=False)
class Output:
    """The samples of one output."""

    samples: list[np.ndarray]
    layout: str
    sources: Sequence[str] = ()
    name: str = ""


def outputs_of(data: Any, layout: "str | None" = None) -> list[Output]:
    """The outputs of data that can be shown: batches, results of ``run()`` (one or several), or arrays."""
    if isinstance(data, list) and len(data) == 1 and isinstance(data[0], Mapping):
        data = data[0]  # iterators with named outputs return a list with one dictionary
    if isinstance(data, list) and data and all(isinstance(item, tuple) and all(map(_is_batch, item)) for item in data):
        runs = [outputs_of(item, layout) for item in data]
        return [_joined(parts) for parts in zip(*runs)]
    if isinstance(data, Mapping):
        found = [_one(value, layout, str(name)) for name, value in data.items()]
    elif isinstance(data, (tuple, list)) and data and all(_is_batch(item) for item in data):
        several = len(data) > 1
        found = [_one(value, layout, f"output {index}" * several) for index, value in enumerate(data)]
    else:
        found = [_one(data, layout, "")]
    if not found:
        raise ValueError("there is nothing to show: no output was given")
    sizes = {len(output.samples) for output in found}
    if len(sizes) > 1:
        told = ", ".join(f"{output.name} {len(output.samples)}" for output in found)
        raise ValueError(f"outputs that are shown together have the same number of samples, got {told}")
    return found


def _joined(parts: Sequence[Output]) -> Output:
    """Joins the batches that several runs returned for one output."""
    sources = [source for part in parts for source in part.sources]
    return Output([sample for part in parts for sample in part.samples], parts[0].layout, sources, parts[0].name)


def _is_batch(item: Any) -> bool:
    return isinstance(item, Metadata) and hasattr(item, "at")


def _one(value: Any, layout: "str | None", name: str) -> Output:
    if isinstance(value, Metadata):
        value = value.as_cpu()  # type: ignore[attr-defined]
        several = hasattr(value, "at")
        own = layout if layout is not None else value.layout()
        if not several:
            return Output([value.array], own, [value.source_info()] if value.source_info() else (), name)
        sources = value.source_info()
        return Output(list(value.samples()), own, sources if any(sources) else (), name)
    value = _on_cpu(value)
    if isinstance(value, (str, bytes)):
        return Output([as_sample(value)], "", (), name)
    if isinstance(value, np.ndarray):
        return Output(_split(value, layout), _inner(layout, value), (), name)
    if isinstance(value, Iterable):
        samples = [as_sample(_on_cpu(item)) for item in value]
        return Output(samples, layout or "", (), name)
    raise TypeError(
        f"show() takes batches, arrays and lists of arrays, got {type(value).__name__}; the batch of a pipeline is pipe.run()"
    )


def _on_cpu(value: Any) -> Any:
    """Arrays and tensors of other libraries as arrays of NumPy; other objects are returned unchanged."""
    if isinstance(value, (np.ndarray, str, bytes, list, tuple)):
        return value
    if hasattr(value, "detach"):
        value = value.detach()
    if hasattr(value, "__cuda_array_interface__") or getattr(getattr(value, "device", None), "type", "cpu") != "cpu":
        value = value.get() if hasattr(value, "get") else value.cpu()
    return as_sample(value) if hasattr(value, "__array__") or hasattr(value, "__dlpack__") else value


def _split(array: np.ndarray, layout: "str | None") -> list[np.ndarray]:
    """The samples of an array: its rows, or the array itself if it is one image."""
    if array.ndim == 0:
        return [array]
    if layout:
        if len(layout) == array.ndim and layout[0] != "N":
            return [array]
        return [array[index, ...] for index in range(len(array))]
    image = array.ndim in (2, 3) and image_layout(array) in ("HW", "HWC")
    return [array] if image else [array[index, ...] for index in range(len(array))]


def _inner(layout: "str | None", array: np.ndarray) -> str:
    """The layout of one sample."""
    text = layout or ""
    if text.startswith("N") and len(text) == array.ndim:
        return text[1:]
    if text and len(text) not in (array.ndim, array.ndim - 1):
        raise ValueError(
            f"layout {text!r} has {len(text)} axes and an array of shape {array.shape} was given to be shown"
        )
    return text


def entries(value: Any, name: str, outputs: Sequence[Output], count: int) -> list[Any]:
    """The labels, boxes, masks or keypoints of each sample."""
    chosen: Output | None = None
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if not 0 <= value < len(outputs):
            raise ValueError(f"{name}={value} is the number of no output: there are {count_of(len(outputs), 'output')}")
        chosen = outputs[int(value)]
    elif isinstance(value, str):
        chosen = next((output for output in outputs if output.name == value), None)
        if chosen is None:
            raise ValueError(f"{name}={value!r} is the name of no output: {', '.join(o.name for o in outputs)}")
    if chosen is not None:
        return list(chosen.samples)
    found: list[Any]
    if isinstance(value, Metadata) and hasattr(value, "at"):
        found = list(value.as_cpu().samples())  # type: ignore[attr-defined]
    else:
        found = [item if isinstance(item, (str, bytes)) else _on_cpu(item) for item in _on_cpu(value)]
    if len(found) < count:
        raise ValueError(f"{name} has {count_of(len(found), 'entry', 'entries')} for {count_of(count, 'sample')}")
    return found
