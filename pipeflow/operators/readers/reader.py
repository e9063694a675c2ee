"""Makes an operator from a class with `__len__`, `fetch(i)` and optionally `source_info(i)` and `source_name(i)`.

    @reader("readers.mine", outputs=2)  # becomes fn.readers.mine
    class MyReader:
        def __init__(self, *, path: str) -> None: ...
        def __len__(self) -> int: ...
        def fetch(self, index: int) -> tuple[np.ndarray, np.ndarray]: ...

`source_info` returns the whole path of a sample, for messages. `source_name` returns the text that users get, if it is different.

The order of the samples (shuffling, shards, padding, epochs, checkpoints) is added here; `order.py` defines it. `fetch` is
called by the pipeline's threads, several at a time. The arrays that it returns then belong to the pipeline: a reader that keeps
its arrays must return copies. A reader with ``far = True`` is read ahead on other threads (`ahead.py`). If it knows where the
bytes of a sample are, it has ``spans(index)`` and ``assembled(index, parts)``. A reader with ``in_groups = True`` reads groups
of samples, which are requested in advance (`groups_ahead.py`). A reader with ``fetch_many(indices, room)`` can return several
samples in one call, if the steps after it run for several samples too. One with ``files_to_read(indices)`` lets compiled code
read its files.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np

from pipeflow.declare import Ending, Feed, Fetched, FilesToRead, Request, Room, Source, Spec, parameters, source
from pipeflow.operators.readers.ahead import ReadAhead
from pipeflow.operators.readers.groups_ahead import GroupsAhead
from pipeflow.operators.readers.order import Order, Sampler
from pipeflow.operators.readers.view import CACHE, RemoteView, opened, using

ORDER = parameters(
    shard_id=(int, 0, "number of the shard that this reader reads, from 0"),
    num_shards=(int, 1, "number of shards into which the data is divided, one for each reader"),
    random_shuffle=(bool, False, "read the samples of each epoch in a random order"),
    shuffle_after_epoch=(
        bool,
        False,
        "shuffle the whole data again for every epoch; a shard then has other samples in each epoch",
    ),
    shuffle_after_epoch_seed=(int, None, "seed of that shuffling; default: a fixed one, the same on every shard"),
    stick_to_shard=(bool, False, "read the same shard in every epoch; False: the next one"),
    pad_last_batch=(bool, False, "fill the last batch of an epoch with copies of its last sample"),
    lazy_init=(bool, False, "open the data with the first batch; False: when the pipeline is built"),
)
_NO_EFFECT = {
    "initial_fill": "shuffling is a permutation of the whole epoch, there is no buffer to fill",
    "prefetch_queue_depth": "the pipeline's threads read as far ahead as the pipeline's own prefetch_queue_depth",
    "read_ahead": "the pipeline's threads read ahead anyway",
    "skip_cached_images": "readers keep no decoded images; `fn.cache` does",
    "tensor_init_bytes": "memory is allocated once the size of a file is known",
    "dont_use_mmap": "whole files are read, not mapped",
    "use_o_direct": "files are read through the page cache",
}


class _Sources(Sequence[str]):
    """The sources of a batch's samples, as the user gets them: without `file_root`, as in DALI. ``place`` returns the whole path,
    for errors. Each text is made when it is read.
    """

    def __init__(self, reader: Any, indices: np.ndarray) -> None:
        self._reader = reader
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice | list[int]) -> Sequence[str]: ...
    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, (slice, list)):
            return _Sources(self._reader, self._indices[place])
        name = getattr(self._reader, "source_name", self._reader.source_info)
        return name(int(self._indices[place]))

    def place(self, place: int) -> str:
        """The file and, if it has several samples, the place in it."""
        return self._reader.source_info(int(self._indices[place]))


_UNOPENED = {"unopened": True}  # the state at the beginning of a reader with `lazy_init` that has not opened its data


class Reader(Source):
    """A source that walks a reader's samples in its order; the pipeline's threads fetch them."""

    def __init__(
        self, make: Callable[[], Any], order: Mapping[str, Any], lazy: bool = False, view: RemoteView | None = None
    ) -> None:
        self._make = make
        self.view = view or RemoteView()  # of files at URLs
        self._order = dict(order)
        self._samples: Any = None
        self._sampler: Sampler | None = None
        self._saved: Mapping[str, Any] | None = None
        self._ahead: ReadAhead | None = None  # for samples on a server
        self._groups: GroupsAhead | None = None  # for samples that are read in groups
        if not lazy:
            self.samples  # noqa: B018  a wrong path is an error of build(), not of the first batch

    @property
    def samples(self) -> Any:
        """The object with `__len__` and `fetch`."""
        if self._samples is None:
            with using(self.view):
                self._samples = self._make()
        return self._samples

    @property
    def order(self) -> Order:
        """The order of the samples."""
        order = Order(size=len(self.samples), **self._order)
        return self.samples.arranged(order) if hasattr(self.samples, "arranged") else order

    @property
    def foreseen(self) -> bool:
        """True if the order of the next batches is known, and nothing is requested with it."""
        if self._sampler is None or self._ahead is not None or self._groups is not None:
            return False
        return self._sampler.order.foreseeable

    def next(self, request: Request) -> Feed:
        """The indices of the next batch. The request says in which way epochs end."""
        sampler = self._sampler or self._started(request.batch_size, request.key)
        picks, samples = sampler.take(request.batch_size, request.ending), self.samples
        indices = picks.index
        if getattr(samples, "far", False):
            self._ahead = self._ahead or ReadAhead(samples, self.view_of)
            self._ahead.serve(indices, sampler, request)
        if getattr(samples, "in_groups", False):
            self._groups = self._groups or GroupsAhead(samples)
            self._groups.serve(indices, sampler, request)
        return Feed(
            len(indices),
            [indices],
            owned=True,
            positions=picks.position,
            epochs=picks.epoch,
            source_info=self.sources(indices),
            padding=picks.padding if sampler.pads and picks.padding.any() else None,
            ends_epoch=sampler.ended,
        )

    def _started(self, batch_size: int, key: int) -> Sampler:
        if self._sampler is None:
            self._sampler = Sampler(self._keyed(key), batch_size)
            if self._saved is not None:
                self._sampler.restore(self._saved)
        return self._sampler

    def _keyed(self, key: int) -> Order:
        """The order, shuffled by the reader's own seed, or else by a key that is made from the pipeline's seed."""
        order = self.order
        return order if "seed" in self._order else replace(order, seed=key)

    def shared_permutation(self, key: int) -> int | None:
        """The seed that all shards must share if they visit one permutation; None if each has its own samples."""
        order = self._keyed(key)
        return order.permutation_seed if order.strided and order.num_shards > 1 else None

    def sources(self, indices: np.ndarray) -> Sequence[str] | None:
        """The source_info of these samples; None if the reader has none."""
        samples = self.samples
        return _Sources(samples, indices) if hasattr(samples, "source_info") else None

    def view_of(self, index: int) -> RemoteView:
        """The view of the files of a sample."""
        del index
        return self.view

    def shared_files(self) -> list[str]:
        """The files that have several samples each; those at URLs with their versions, if these are known."""
        if not hasattr(self.samples, "shared_files"):
            return []
        with using(self.view):
            return self.samples.shared_files()

    def cache_figures(self) -> dict[str, int] | None:
        """Numbers of reads and bytes of the folder that keeps what was read from URLs; None without such a folder."""
        return None if self.view.parts is None else self.view.parts.counts.sums()

    def fetch(self, index: int) -> tuple[np.ndarray, ...]:
        """One sample; an error names its source."""
        try:
            with using(self.view):
                return self.samples.fetch(index) if self._ahead is None else self._ahead.take(index)
        except Exception as error:
            if hasattr(self.samples, "source_info"):
                source = self.samples.source_info(index)
                if source not in str(error):
                    error.add_note(f"while reading {source}")
            raise

    def fetch_many(self, indices: np.ndarray, room: Room) -> Fetched | None:
        """Several samples at once, if the reader can read them so."""
        read = getattr(self.samples, "fetch_many", None)
        if read is None or self._ahead is not None or getattr(self.samples, "far", False):
            return super().fetch_many(indices, room)
        return read(indices, room)

    def files_to_read(self, indices: np.ndarray) -> FilesToRead | None:
        """The files of several samples, if compiled code may read them."""
        samples = self.samples
        find = getattr(samples, "files_to_read", None)
        return None if find is None or self._ahead is not None or getattr(samples, "far", False) else find(indices)

    def reset(self) -> None:
        """Does nothing: a reader's epochs follow each other by themselves."""

    def state(self) -> dict[str, Any]:
        """The place in the order, as a few numbers."""
        if self._sampler is not None:
            return self._sampler.state()
        if self._saved is not None:
            return dict(self._saved)
        return dict(_UNOPENED) if self._samples is None else self._begun()

    def _begun(self) -> dict[str, Any]:
        begun = Sampler(self.order, 1).state()
        del begun["seed"]  # it is known only with the pipeline's key
        return begun

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restores a saved position."""
        if state == _UNOPENED:
            if self._samples is None:
                return
            state = self._begun()
        self._saved = dict(state)
        if self._sampler is not None:
            self._sampler.restore(state)
        else:
            Sampler(self.order, 1).restore(state)

    def next_epoch(self) -> None:
        """Leaves an epoch that has begun for the next one."""
        if self._sampler is not None:
            self._sampler.next_epoch()
        elif self._saved is not None:
            sampler = Sampler(self.order, 1)
            sampler.restore(self._saved)
            sampler.next_epoch()
            self._saved = sampler.state()

    def seek(self, step: int, epoch: int, batch_size: int, key: int) -> None:
        """Goes directly to batch ``step`` of ``epoch``."""
        self._started(batch_size, key).seek(step * batch_size, epoch)

    def batches_left(self, state: Mapping[str, Any], batch_size: int, ending: Ending) -> int:
        """The number of batches that the epoch of a saved state still has, on this and on every other shard."""
        sampler = Sampler(self.order, batch_size)
        sampler.restore(self._begun() if state == _UNOPENED else state)
        return sampler.batches_left(ending)

    def reader_meta(self) -> dict[str, int]:
        """DALI's `reader_meta`."""
        order = self.order
        largest = -(-order.size // order.num_shards)
        return {
            "epoch_size": order.size,
            "epoch_size_padded": largest * order.num_shards if order.pad_last_batch else order.size,
            "number_of_shards": order.num_shards,
            "shard_id": order.shard_id,
            "pad_last_batch": int(order.pad_last_batch),
            "stick_to_shard": int(order.stick_to_shard or order.shuffle_after_epoch),
        }


def build_reader(
    cls: type, *, seed: int | None = None, lazy_init: bool = False, view: RemoteView | None = None, **arguments: Any
) -> Reader:
    """A Reader of `cls(...)`, with all arguments except those of the order."""
    order = {name: arguments.pop(name, param.default) for name, param in ORDER.items() if name != "lazy_init"}
    if seed is not None:
        order["seed"] = seed
    return Reader(lambda: cls(**arguments), order, lazy_init, view)


def build_reader_of_urls(cls: type, *, cache: str | None = None, cache_bytes: Any = None, **arguments: Any) -> Reader:
    """The same for a reader with the arguments of the cache."""
    return build_reader(cls, view=opened(cache, cache_bytes), **arguments)


def reader(
    name: str,
    *,
    outputs: int | Callable[[Any], int] = 1,
    no_effect: Mapping[str, str] | None = None,
    former: Mapping[str, str] | None = None,
    examples: Sequence[str] = (),
    layout: str | None = None,
    hidden: bool = False,
    urls: bool = False,
) -> Callable[[type], type]:
    """Declares a reader. The keywords of the class's constructor become arguments, and so do those of the order.

    `outputs` may be a function of the arguments; `layout` is that of a single output. With `urls` it has the arguments of the
    cache for files at URLs. The class itself is not changed.
    """

    def declare(cls: type) -> type:
        own = inspect.signature(cls).parameters
        ignored = {key: reason for key, reason in _NO_EFFECT.items() if key not in own}
        op = source(
            name,
            outputs=outputs if isinstance(outputs, int) else 0,
            fetches=True,
            takes=ORDER | CACHE if urls else ORDER,
            build=build_reader_of_urls if urls else build_reader,
            no_effect=ignored | dict(no_effect or {}),
            former=former,
            examples=examples,
        )(cls)
        if not isinstance(outputs, int):
            op.outputs(outputs)
        if layout is not None:
            spec = Spec((None,) * len(layout), None, layout)
            op.infer(lambda *_: spec)
        op.hidden = hidden
        return cls

    return declare
