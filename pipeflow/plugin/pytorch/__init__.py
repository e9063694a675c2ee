"""torch: iterators that return its tensors, and its tensors inside user functions (``fn.py_function``)."""

import sys
import types as _python_types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch

from pipeflow import declare, ops, types
from pipeflow.device.runtime import LEGACY
from pipeflow.device.tensors import TensorListGPU
from pipeflow.epochs import BaseIterator, LastBatchPolicy, dense_array, dense_tensor
from pipeflow.errors import WrongIterator, nearest
from pipeflow.operators import tensor_functions
from pipeflow.plugin.pytorch import torch_utils
from pipeflow.plugin.pytorch.loading import TorchLoading
from pipeflow.plugin.pytorch.torch_utils import as_tensor, feed_ndarray, to_array, to_tensor, to_torch_type
from pipeflow.tensors import Traced, traced

__all__ = [
    "ClassificationIterator", "DALIClassificationIterator", "DALIGenericIterator", "DALIRaggedIterator", "GenericIterator",
    "LastBatchPolicy", "RaggedIterator", "TorchPythonFunction", "as_tensor", "feed_ndarray", "to_array", "to_tensor",
    "to_torch_type",
]  # fmt: skip

# ----------------------------------------------------------------------------------------------------
# Iterators

Collate = Literal["dense", "nested", "padded", "list", "coo"]


class GenericIterator(BaseIterator[list[dict[str, torch.Tensor]]]):
    """Returns, for every batch, a list with one dictionary of tensors per pipeline.

    The tensors share the pipeline's memory, without a copy, and are yours to keep. ``pin_memory=True`` copies them to
    page-locked memory, from which copies to the GPU do not wait. ``mask="valid"`` adds a tensor of bools under that name,
    False for samples that only fill the batch; ``container`` chooses "dict", "tuple" or "namedtuple".
    """

    def __init__(
        self, pipelines: Any, output_map: Sequence[str], *args: Any, pin_memory: bool = False, **options: Any
    ) -> None:
        if pin_memory and not torch.cuda.is_available():
            raise RuntimeError("pin_memory=True needs a CUDA device, and torch sees none: leave it out")
        self._pin = pin_memory
        super().__init__(pipelines, output_map, *args, **options)

    def convert(self, batch: Any, name: str) -> Any:
        """The batch as one tensor; on the GPU torch's current stream waits for it, and the host does not."""
        if isinstance(batch, TensorListGPU):
            return torch.from_dlpack(dense_tensor(batch, name))
        tensor = as_tensor(dense_array(batch, name))
        return tensor.pin_memory() if self._pin and isinstance(tensor, torch.Tensor) else tensor

    def convert_mask(self, valid: np.ndarray) -> torch.Tensor:
        """The mask as a tensor of bools."""
        return torch.from_numpy(valid)


class ClassificationIterator(GenericIterator):
    """A GenericIterator of pipelines with two outputs, "data" and "label"."""

    def __init__(self, pipelines: Any, *args: Any, **options: Any) -> None:
        super().__init__(pipelines, ["data", "label"], *args, **options)


class RaggedIterator(GenericIterator):
    """A GenericIterator for samples of different shapes.

    ``output_types`` is the form of each output, or of all: "dense" one tensor, "nested" a nested
    tensor (jagged layout where only the first axis differs), "padded" one tensor filled up with ``fill_value``, "list" a list
    of tensors, "coo" a sparse tensor.
    """

    DENSE_TAG: Collate = "dense"
    SPARSE_LIST_TAG: Collate = "list"
    SPARSE_COO_TAG: Collate = "coo"

    def __init__(
        self,
        pipelines: Any,
        output_map: Sequence[str],
        *args: Any,
        output_types: "Collate | Sequence[Collate] | Mapping[str, Collate] | None" = None,
        fill_value: float = 0,
        **options: Any,
    ) -> None:
        names = list(output_map)
        if output_types is None or isinstance(output_types, str):
            kinds = dict.fromkeys(names, output_types or "list")
        elif isinstance(output_types, Mapping):
            kinds = {name: output_types.get(name, "dense") for name in names}
        else:
            if len(output_types) != len(names):
                raise ValueError(f"output_types has {len(output_types)} entries for {len(names)} outputs")
            kinds = dict(zip(names, output_types))
        for name, kind in kinds.items():
            if kind not in _COLLATE:
                raise WrongIterator(
                    f"the type of output {name!r} is {kind!r}{nearest(str(kind), _COLLATE)}; there are {sorted(_COLLATE)}"
                )
        self._kinds = kinds
        self._fill = fill_value
        super().__init__(pipelines, output_map, *args, **options)

    def convert(self, batch: Any, name: str) -> Any:
        """The samples in the form chosen for this output."""
        kind = self._kinds[name]
        if kind in _OF_NONE and batch.dtype is types.STRING:
            raise TypeError(
                f"output {name!r} is text or other objects, of which torch has no {kind!r} tensor: "
                f"write output_types={{{name!r}: 'list'}}"
            )
        if kind in _OF_NONE and not len(batch):
            return _OF_NONE[kind](super().convert(batch, name))
        if isinstance(batch, TensorListGPU) and kind != "dense":
            tensors = [torch.from_dlpack(sample) for sample in batch.lent(_stream_of(batch.device_id()))]
            return _ON_DEVICE[kind](tensors, self._fill)
        result = super().convert(batch, name) if kind == "dense" else _COLLATE[kind](batch.samples(), self._fill)
        if self._pin and kind == "padded":
            result = result.pin_memory()
        return result


def _stream_of(device_id: int) -> int:
    """The handle of torch's current stream on a GPU, as DLPack numbers streams."""
    handle = torch.cuda.current_stream(device_id).cuda_stream if torch.cuda.is_available() else 0
    return handle or LEGACY


def _nested(samples: Sequence[np.ndarray], _fill: float) -> torch.Tensor:
    tensors = [to_tensor(sample) for sample in samples]
    same_rest = len({sample.shape[1:] for sample in samples}) == 1 and samples[0].ndim > 0
    make = (
        torch.nested.as_nested_tensor if any(map(traced, samples)) else torch.nested.nested_tensor
    )  # keeps the history of gradients
    return make(tensors, layout=torch.jagged if same_rest else torch.strided)


def _padded(samples: Sequence[np.ndarray], fill: float) -> torch.Tensor:
    extents = [max(sizes) for sizes in zip(*[sample.shape for sample in samples])]
    if any(map(traced, samples)):
        rests = [[size - have for have, size in zip(sample.shape, extents)] for sample in samples]
        sides = [[side for rest in reversed(missing) for side in (0, rest)] for missing in rests]
        return torch.stack([torch.nn.functional.pad(to_tensor(x), side, value=fill) for x, side in zip(samples, sides)])
    result = np.full((len(samples), *extents), fill, samples[0].dtype)
    for number, sample in enumerate(samples):
        result[number, ...][tuple(slice(0, extent) for extent in sample.shape)] = sample
    return torch.from_numpy(result)


def _coo(samples: Sequence[np.ndarray], _fill: float) -> torch.Tensor:
    coordinates = [
        np.concatenate([np.full((1, sample.size), number), np.indices(sample.shape).reshape(sample.ndim, sample.size)])
        for number, sample in enumerate(samples)
    ]
    extents = [max(sizes) for sizes in zip(*[sample.shape for sample in samples])]
    values = torch.cat([to_tensor(sample).reshape(-1) for sample in samples])
    indices = torch.from_numpy(np.concatenate(coordinates, axis=1))
    shape = (len(samples), *extents)
    return torch.sparse_coo_tensor(indices, values, shape, is_coalesced=True, check_invariants=True)


_COLLATE: dict[str, Any] = {
    "dense": None,
    "nested": _nested,
    "padded": _padded,
    "coo": _coo,
    "list": lambda samples, _fill: [as_tensor(sample) for sample in samples],
}


def _nested_on_device(tensors: list[torch.Tensor], _fill: float) -> torch.Tensor:
    same_rest = len({tensor.shape[1:] for tensor in tensors}) == 1 and tensors[0].ndim > 0
    return torch.nested.nested_tensor(tensors, layout=torch.jagged if same_rest else torch.strided)


def _padded_on_device(tensors: list[torch.Tensor], fill: float) -> torch.Tensor:
    extents = [max(sizes) for sizes in zip(*[tensor.shape for tensor in tensors])]
    first = tensors[0]
    result = torch.full((len(tensors), *extents), fill, dtype=first.dtype, device=first.device)
    for row, tensor in zip(result, tensors):
        row[tuple(slice(0, extent) for extent in tensor.shape)] = tensor
    return result


def _coo_on_device(tensors: list[torch.Tensor], _fill: float) -> torch.Tensor:
    padded = _padded_on_device(tensors, 0)
    inside = _padded_on_device([torch.ones_like(tensor, dtype=torch.bool) for tensor in tensors], 0)
    return torch.sparse_coo_tensor(
        inside.nonzero().T, padded[inside], padded.shape, is_coalesced=True, check_invariants=True
    )


_ON_DEVICE: dict[str, Any] = {
    "nested": _nested_on_device,
    "padded": _padded_on_device,
    "coo": _coo_on_device,
    "list": lambda tensors, _fill: tensors,
}


def _nested_of_none(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.ndim < 2:
        return torch.nested.nested_tensor([], dtype=tensor.dtype, device=tensor.device)
    offsets = torch.zeros(1, dtype=torch.int64, device=tensor.device)
    return torch.nested.nested_tensor_from_jagged(tensor.flatten(0, 1), offsets=offsets)


# The forms of a batch without samples, made from its dense form.
_OF_NONE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "nested": _nested_of_none,
    "padded": lambda tensor: tensor,
    "coo": lambda tensor: tensor.to_sparse(),
}

DALIGenericIterator = GenericIterator
DALIClassificationIterator = ClassificationIterator
DALIRaggedIterator = RaggedIterator


# ----------------------------------------------------------------------------------------------------
# Tensors inside user functions


def trace(tensor: torch.Tensor) -> Traced:
    """The tensor's memory as an array that keeps the tensor."""
    return Traced.of(to_array(tensor), tensor, lambda tensors: trace(torch.stack(tensors)))


def _differentiate(
    function: Callable[..., Any], tensors: Sequence[torch.Tensor], wanted: Sequence[int]
) -> tuple[Any, Callable[[Sequence[Any]], list[np.ndarray]]]:
    leaves = [tensors[position].requires_grad_(True) for position in wanted]
    result = function(*tensors)
    outputs = result if isinstance(result, (tuple, list)) else (result,)

    def back(weights: Sequence[Any]) -> list[np.ndarray]:
        weighted = [(y, torch.as_tensor(weight)) for y, weight in zip(outputs, weights) if weight is not None]
        attached = [(y, weight) for y, weight in weighted if isinstance(y, torch.Tensor) and y.requires_grad]
        if not attached:
            raise RuntimeError("its results are detached from its inputs (detach(), .item(), no_grad or NumPy inside)")
        ys, given = zip(*attached)
        found = torch.autograd.grad(ys, leaves, given, allow_unused=True, retain_graph=True)
        return [np.zeros(x.shape, to_array(x).dtype) if g is None else to_array(g) for x, g in zip(leaves, found)]

    return result, back


declare.frameworks["torch"] = declare.Framework(
    "torch",
    to_tensor,
    to_array,
    lambda value: isinstance(value, torch.Tensor),
    _differentiate,
    torch.from_dlpack,
    torch.Tensor.detach,
    torch_utils.on_stream,
    trace,
    torch.is_grad_enabled,
    TorchLoading(),
)


class TorchPythonFunction(ops.Operator):
    """The operator of ``fn.torch_python_function`` as a class."""

    op = tensor_functions.torch_python_function


# ``pipeflow.plugin.pytorch.fn.torch_python_function`` is the name that DALI has for it.
fn = _python_types.ModuleType(f"{__name__}.fn", "Operators that call functions of torch tensors.")
fn.torch_python_function = tensor_functions.torch_python_function  # type: ignore[attr-defined]
sys.modules[fn.__name__] = fn
