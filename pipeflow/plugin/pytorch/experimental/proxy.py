"""A pipeline inside torch's DataLoader: a data set calls ``proxy(image)`` for every sample, and the loader gives tensors.

    with DALIServer(pipeline) as server:
        loader = DataLoader(server, ImageFolder(folder, transform=server.proxy, loader=read), batch_size=32, num_workers=4)
        for images, labels in loader: ...

1. `proxy(...)` takes one sample for each input of the pipeline (each `external_source` without a source) and returns
   one reference for each output. It computes nothing, and a worker process of the loader may call it.
2. When the loader joins samples to a batch, the inputs of their calls are packed once and are sent with the batch.
3. The process with the loop runs the pipeline over each batch, in a thread of its own if there are workers, and
   replaces the references by tensors. Batches keep the loader's order.
4. An error names the item of the data set. Leaving the `with` block, or the loop, ends the thread at its next batch.
"""

import contextlib
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data._utils import collate

from pipeflow.errors import BadValue, InvalidState, add_notes, count_of
from pipeflow.pipeline import Pipeline
from pipeflow.plugin.pytorch.torch_utils import to_torch_tensor

__all__ = ["DALIOutputBatchRef", "DALIOutputSampleRef", "DALIServer", "DataLoader"]

_item: ContextVar[Any] = ContextVar("pipeflow_item_of_data_set", default=None)


class _ProxyCall:
    """One call of a proxy: the samples that it got, and the item of the data set for which it was made."""

    def __init__(self, inputs: dict[str, np.ndarray], item: Any) -> None:
        self.inputs, self.item = inputs, item
        self.batch: _Batch | None = None


class _Batch:
    """The inputs of the calls that make one batch, packed into one block of bytes for each input."""

    def __init__(self, calls: Sequence[_ProxyCall]) -> None:
        self.items = [call.item for call in calls]
        self.packed = {name: _pack([call.inputs[name] for call in calls]) for name in calls[0].inputs}
        for call in calls:
            call.batch = self

    def inputs(self) -> dict[str, list[np.ndarray]]:
        """The samples of every input."""
        return {name: _unpack(*packed) for name, packed in self.packed.items()}


def _pack(samples: list[np.ndarray]) -> tuple[torch.Tensor, list[tuple[np.dtype, tuple[int, ...]]]]:
    """The samples one after another as a tensor of bytes, which torch sends to other processes without a copy."""
    raw = np.concatenate([np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in samples])
    return torch.from_numpy(raw), [(x.dtype, x.shape) for x in samples]


def _unpack(raw: torch.Tensor, forms: list[tuple[np.dtype, tuple[int, ...]]]) -> list[np.ndarray]:
    ends = np.cumsum([0, *[dtype.itemsize * int(np.prod(shape)) for dtype, shape in forms]])
    block = raw.numpy()
    return [
        block[begin:end].view(dtype).reshape(shape)
        for begin, end, (dtype, shape) in zip(ends, ends[1:], forms, strict=False)
    ]


@dataclass(eq=False)
class DALIOutputSampleRef:
    """A reference to one output of the pipeline for one sample."""

    call: _ProxyCall
    output: int


@dataclass(eq=False)
class DALIOutputBatchRef:
    """A reference to one output of the pipeline for a batch."""

    batch: _Batch
    output: int


def _join(references: Sequence[DALIOutputSampleRef], **_: Any) -> DALIOutputBatchRef:
    """Joins references to samples to a reference to a batch; torch's default_collate calls it."""
    calls = [reference.call for reference in references]
    batch = calls[0].batch
    if batch is None or any(call.batch is not batch for call in calls):
        batch = _Batch(calls)
    return DALIOutputBatchRef(batch, references[0].output)


collate.default_collate_fn_map[DALIOutputSampleRef] = _join


class Proxy:
    """The object that a data set calls instead of the pipeline; it can be sent to worker processes."""

    def __init__(self, inputs: Sequence[str], outputs: int) -> None:
        self._inputs, self._outputs = tuple(inputs), outputs

    def __call__(self, *samples: Any, **named: Any) -> Any:
        """References to the outputs for one sample; several inputs are passed by name."""
        if len(samples) == 1 and not named and len(self._inputs) == 1:
            named = {self._inputs[0]: samples[0]}
        elif samples or set(named) != set(self._inputs):
            expected = ", ".join(f"{name}=..." for name in self._inputs)
            given = ", ".join([*["..."] * len(samples), *[f"{name}=..." for name in named]])
            raise BadValue(f"Expected signature is proxy({expected}), got proxy({given})")
        call = _ProxyCall({name: _array(named[name]) for name in self._inputs}, _item.get())
        references = tuple([DALIOutputSampleRef(call, output) for output in range(self._outputs)])
        return references[0] if len(references) == 1 else references


def _array(sample: Any) -> np.ndarray:
    array = sample.numpy() if isinstance(sample, torch.Tensor) else np.asarray(sample)
    if array.dtype.hasobject:
        raise TypeError(f"a sample must be a tensor, an array or a number, got {type(sample).__name__} {sample!r:.80}")
    return array


class DALIServer:
    """Runs a pipeline over the batches of a DataLoader; a context manager.

    ``deterministic`` changes nothing: batches always come in the loader's order.
    """

    def __init__(self, pipeline: Pipeline, deterministic: bool = False) -> None:
        del deterministic
        pipeline.build()
        self._pipeline = pipeline
        self._inputs = pipeline.fed_inputs()
        if not self._inputs:
            raise BadValue("the pipeline has no input: give it an external_source with a name and without a source")
        self._open = False
        self._running: list[_Ahead] = []

    @property
    def proxy(self) -> Proxy:
        """The data set calls ``proxy(sample)``, or ``proxy(image=..., label=...)`` with several inputs."""
        return Proxy(self._inputs, self._pipeline.num_outputs)

    def __enter__(self) -> "DALIServer":
        self.start_thread()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop_thread()

    def start_thread(self) -> None:
        """Begins to serve, as ``with`` does."""
        self._open = True

    def stop_thread(self) -> None:
        """Ends all loops over loaders of this server, as leaving the ``with`` block does."""
        self._open = False
        while self._running:
            self._running.pop().close()

    def check_open(self) -> None:
        """Raises an error outside the ``with`` block."""
        if not self._open:
            raise InvalidState(
                "the server is not running: loop over the loader inside `with DALIServer(pipeline) as server:`"
            )

    def check_size(self, size: int | None) -> None:
        """Raises an error for batches that are larger than the pipeline's."""
        largest = self._pipeline.max_batch_size
        if size is not None and size > largest:
            raise BadValue(
                f"the loader's batch has {count_of(size, 'sample')} and the pipeline's batch_size is {largest}"
            )

    def produce_data(self, obj: Any) -> Any:
        """A batch of the loader in which tensors replace the references."""
        made: dict[_Batch, Any] = {}
        loose: list[_ProxyCall] = []
        _collect(obj, loose)
        if loose:
            _Batch(loose)

        def tensor_of(reference: Any) -> torch.Tensor:
            single = isinstance(reference, DALIOutputSampleRef)
            batch = reference.call.batch if single else reference.batch
            if batch not in made:
                made[batch] = self._run(batch)
            output = made[batch][reference.output]
            if single:
                return to_torch_tensor(output[loose.index(reference.call)], False)
            return to_torch_tensor(output, False)

        return _replaced(obj, tensor_of)

    def _run(self, batch: _Batch) -> Any:
        count = len(batch.items)
        self.check_size(count)
        try:
            outputs = self._pipeline.run(**batch.inputs())
        except Exception as error:
            if any(item is not None for item in batch.items):
                add_notes(error, [f"the batch holds the items {batch.items} of the data set, in this order"])
            raise
        for output in outputs:
            if len(output) != count:
                raise BadValue(
                    f"the pipeline gave {count_of(len(output), 'sample')} for {count}, and labels would not fit any more: "
                    "use on_error='replace' in place of 'skip'"
                )
        return outputs

    def ahead(self, batches: Iterator[Any]) -> "_Ahead":
        """The batches; a thread makes them ahead."""
        self._running = [one for one in self._running if not one.closed]
        self._running.append(_Ahead(self, batches))
        return self._running[-1]


def _collect(obj: Any, loose: list[_ProxyCall]) -> None:
    """The calls of references that are not joined to a batch, each call once, in the order in which they are found."""
    if isinstance(obj, DALIOutputSampleRef):
        if obj.call not in loose:
            loose.append(obj.call)
    elif isinstance(obj, Mapping):
        for item in obj.values():
            _collect(item, loose)
    elif isinstance(obj, (list, tuple)):
        for item in obj:
            _collect(item, loose)


def _replaced(obj: Any, tensor_of: Any) -> Any:
    """A nested structure in which tensors replace the references."""
    if isinstance(obj, (DALIOutputSampleRef, DALIOutputBatchRef)):
        return tensor_of(obj)
    if isinstance(obj, Mapping):
        return {key: _replaced(item, tensor_of) for key, item in obj.items()}
    if isinstance(obj, (list, tuple)):
        items = [_replaced(item, tensor_of) for item in obj]
        return type(obj)(*items) if hasattr(obj, "_fields") else type(obj)(items)
    return obj


class _Ahead:
    """Batches that a thread makes, at most two before the loop needs them."""

    def __init__(self, server: DALIServer, batches: Iterator[Any]) -> None:
        self.closed = False
        self._ready: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=2)
        self._thread = threading.Thread(target=self._make, args=(server, batches), name="proxy", daemon=True)
        self._thread.start()

    def _make(self, server: DALIServer, batches: Iterator[Any]) -> None:
        try:
            for batch in batches:
                if not self._give("batch", server.produce_data(batch)):
                    return
            self._give("end", None)
        except BaseException as error:
            self._give("error", error)

    def _give(self, kind: str, value: Any) -> bool:
        """True if the loop needs more batches."""
        while not self.closed:
            with contextlib.suppress(queue.Full):
                self._ready.put((kind, value), timeout=0.05)
                return True
        return False

    def __iter__(self) -> Iterator[Any]:
        try:
            while True:
                kind, value = self._ready.get()
                if kind == "error":
                    raise value
                if kind == "end":
                    return
                yield value
        finally:
            self.close()

    def close(self) -> None:
        """Ends the thread; a batch that it has begun is finished."""
        self.closed = True
        with contextlib.suppress(queue.Empty):
            while True:
                self._ready.get_nowait()
        with contextlib.suppress(queue.Full):
            self._ready.put_nowait(("error", InvalidState("the server was stopped in the middle of a loop")))
        if self._thread is not threading.current_thread():
            self._thread.join()


class _NumberedItems(torch.utils.data.Dataset):
    """The user's data set, whose calls of a proxy also note the item that they belong to."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __getitem__(self, item: Any) -> Any:
        token = _item.set(item)
        try:
            return self._dataset[item]
        except Exception as error:
            add_notes(error, [f"in item {item} of the data set"])
            raise
        finally:
            _item.reset(token)

    def __len__(self) -> int:
        return len(self._dataset)

    def __getattr__(self, name: str) -> Any:
        if name == "_dataset":
            raise AttributeError(name)
        return getattr(self._dataset, name)


class DataLoader(torch.utils.data.DataLoader):
    """torch's DataLoader over a data set that calls a server's proxy; it takes torch's arguments after the server."""

    def __init__(self, dali_server: DALIServer, dataset: Any, *args: Any, **kwargs: Any) -> None:
        self._server = dali_server
        if not isinstance(dataset, torch.utils.data.IterableDataset):
            dataset = _NumberedItems(dataset)
        super().__init__(dataset, *args, **kwargs)
        dali_server.check_size(self.batch_size)

    def __iter__(self) -> Any:
        self._server.check_open()
        batches = super().__iter__()
        if self.num_workers == 0:
            return map(self._server.produce_data, batches)
        return iter(self._server.ahead(batches))
