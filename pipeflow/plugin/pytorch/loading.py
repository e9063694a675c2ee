"""The parts of torch that ``pipeflow.loader`` uses: tensors, random numbers, orders, and information about workers."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import RandomSampler
from torch.utils.data._utils import worker as torch_worker

from pipeflow import types
from pipeflow.device.tensors import TensorListGPU
from pipeflow.plugin.pytorch.torch_utils import as_tensor, to_tensor

# Arrays of types that NumPy does not have are sent as a type of the same size that it has.
_CARRIERS = {torch.bfloat16: torch.int16, torch.float8_e4m3fn: torch.uint8, torch.float8_e5m2: torch.uint8}
_CARRIED = {str(kind): kind for kind in _CARRIERS}
_KINDS = frozenset("biufc")


class TorchLoading:
    """The functions that a loader uses if batches are tensors."""

    name = "torch"

    def is_tensor(self, value: Any) -> bool:
        """True for a tensor of torch."""
        return isinstance(value, torch.Tensor)

    def stack_tensors(self, values: Sequence[Any]) -> Any:
        """One tensor made from the tensors of a batch."""
        return torch.stack(list(values))

    def stack_arrays(self, values: Sequence[np.ndarray]) -> Any:
        """One tensor made from the arrays of a batch."""
        return torch.stack([torch.as_tensor(x) for x in values])

    def numbers(self, values: Sequence[Any]) -> Any:
        """One tensor made from the numbers of a batch."""
        if isinstance(values[0], (np.bool_, np.number)):
            return torch.as_tensor(np.asarray(values) if len({type(x) for x in values}) == 1 else values)
        return torch.tensor(values, dtype=torch.float64 if isinstance(values[0], float) else None)

    def converted(self, value: Any) -> Any:
        """An array of an item as a tensor, if items are not joined to batches."""
        return torch.as_tensor(value) if not self.is_tensor(value) and self.takes(value.dtype) else value

    def kind_of(self, array: np.ndarray) -> str | None:
        """The name of the type that an array becomes again after it was sent; None if only torch can tell."""
        return "tensor" if type(array) is np.ndarray and array.dtype.kind in _KINDS and array.dtype.isnative else None

    def array_of(self, value: Any) -> tuple[np.ndarray, str] | None:
        """The array of a tensor and the type to make from it again; None for a value that is pickled unchanged."""
        if type(value) is not torch.Tensor:
            return None
        if value.requires_grad or value.layout is not torch.strided or value.device.type != "cpu" or value.is_quantized:
            return None
        value = value.resolve_conj().resolve_neg()
        if value.dtype in _CARRIERS:
            return value.contiguous().view(_CARRIERS[value.dtype]).numpy(), str(value.dtype)
        try:
            return value.numpy(), "tensor"
        except TypeError:  # a type that NumPy does not have
            return None

    def restored(self, array: np.ndarray, kind: str) -> torch.Tensor:
        """The tensor of an array that came from a worker, on the same memory."""
        tensor = to_tensor(array)
        return tensor.view(_CARRIED[kind]) if kind in _CARRIED else tensor

    def takes(self, dtype: np.dtype) -> bool:
        """True if arrays of this type can be joined."""
        return dtype.kind not in "OSUVa"

    def batch_of(self, batch: Any) -> Any:
        """The output of a pipeline as one tensor; a list of tensors if shapes differ, a list of strings for text."""
        if isinstance(batch, TensorListGPU):
            return torch.from_dlpack(batch.as_tensor())
        if batch.dtype == types.STRING:
            return [x.item() for x in batch.samples()]
        return as_tensor(batch) if batch.is_dense_tensor() else [to_tensor(x) for x in batch.samples()]

    def pinned(self, tensor: Any) -> Any:
        """The tensor in page-locked memory."""
        return tensor.pin_memory() if isinstance(tensor, torch.Tensor) else tensor

    def can_pin(self) -> bool:
        """True if there is a device for which page-locked memory is useful."""
        return torch.cuda.is_available()

    def seed(self, number: int) -> None:
        """Sets torch's own generator of random numbers."""
        torch.default_generator.manual_seed(number)  # a worker does not use the generators of devices

    def enter_worker(self, number: int, workers: int, seed: int, dataset: Any) -> None:
        """Makes ``torch.utils.data.get_worker_info()`` return the worker of this process."""
        torch_worker._worker_info = torch_worker.WorkerInfo(id=number, num_workers=workers, seed=seed, dataset=dataset)

    def base_seed(self, generator: Any) -> int:
        """A number that torch's DataLoader draws at the beginning of every epoch."""
        return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())

    def shuffled(self, size: int, generator: Any, seed: int | None) -> Iterator[int]:
        """The shuffled order of torch's DataLoader: by the user's generator, else by a number drawn for the epoch."""
        if generator is None:
            generator = torch.Generator()
            generator.manual_seed(0 if seed is None else seed)
        return iter(RandomSampler(range(size), generator=generator))

    def state_of(self, generator: Any) -> str:
        """The state of a generator, or of the global one, as text."""
        state = torch.get_rng_state() if generator is None else generator.get_state()
        return bytes(state.numpy()).hex()

    def set_state(self, generator: Any, state: str) -> None:
        """Sets a generator, or the global one, to a saved state."""
        tensor = torch.from_numpy(np.frombuffer(bytes.fromhex(state), np.uint8).copy())
        if generator is None:
            torch.set_rng_state(tensor)
        else:
            generator.set_state(tensor)
