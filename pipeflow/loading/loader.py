"""`pipeflow.loader`: batches of a data set, with the arguments of torch's DataLoader."""

import sys
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pipeflow import loading, seeds
from pipeflow.declare import Ending, framework
from pipeflow.errors import InvalidState
from pipeflow.loading.buckets import Buckets
from pipeflow.loading.carriers import Inline, PendingBatch, Threads
from pipeflow.loading.leaves import mapped
from pipeflow.loading.mixtures import Mixture
from pipeflow.loading.tables import TableRows, is_table
from pipeflow.loading.walks import BatchItems, BucketWalk, OrderedWalk, SampledWalk, StreamWalk, Walk, in_batches
from pipeflow.loading.work import ItemReader, frame_of
from pipeflow.operators.readers.order import Order

_FORM = 1  # the version of the saved state


class Loader:
    """Batches of a data set: ``for batch in loader`` is an epoch, and each such loop the next one.
    ``pipeflow.loader`` makes it.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Sequence[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        in_order: bool = True,
        seed: int | None = None,
        shard_id: int = 0,
        num_shards: int = 1,
        workers: Literal["processes", "threads"] = "processes",
        framework: Literal["torch", "numpy"] | None = None,
        bucket_by: Any = None,
        max_tokens: int | None = None,
    ) -> None:
        del in_order  # batches always come in order
        self.dataset = dataset = TableRows(dataset) if is_table(dataset) else dataset
        self.stream = is_stream(dataset)
        self.batch_size = None if batch_sampler is not None else batch_size
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self.num_workers = num_workers
        self.collate_fn = collate_fn
        self.pin_memory = pin_memory
        self.drop_last = drop_last
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.prefetch_factor = 2 if prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self.shuffle = bool(shuffle)
        self._mixed = dataset.order(self.shuffle) if isinstance(dataset, Mixture) else None
        self.shard_id, self.num_shards = shard_id, num_shards
        self.workers = workers
        self.framework = _framework(framework)
        self._frame = frame_of(self.framework)
        self._check(batch_size, shuffle, prefetch_factor)
        self.buckets = self._buckets(bucket_by, max_tokens)
        self.seed = seed
        self._drawn_seed = seeds.system_seed() if seed is None else seed
        self.epoch = 0  # the epoch of the present loop, or of the next one
        self._begun = False  # True if that epoch has begun
        self._saved: Mapping[str, Any] | None = None
        self._pass: weakref.ref[LoaderEpoch] | None = None
        self._place: LoaderProgress | None = None
        self._carrier: Any = None  # the workers with persistent_workers=True
        self._serial = 0
        self.model: Any = None  # the structure of the items, if a pipeline reads them
        if pin_memory and not (hasattr(self._frame, "can_pin") and self._frame.can_pin()):
            warnings.warn("pin_memory=True has no effect: torch sees no GPU here", stacklevel=3)
            self.pin_memory = False

    def _check(self, batch_size: int | None, shuffle: bool | None, prefetch_factor: int | None) -> None:
        """Raises an error for arguments that contradict each other."""
        if self.workers not in ("processes", "threads"):
            raise ValueError(f'workers must be "processes" or "threads", got {self.workers!r}')
        if self.num_workers < 0 or self.timeout < 0:
            name = "num_workers" if self.num_workers < 0 else "timeout"
            raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.num_workers == 0:
            for name, given in (
                ("prefetch_factor", prefetch_factor is not None),
                ("persistent_workers", self.persistent_workers),
                ("timeout", self.timeout > 0),
            ):
                if given:
                    raise ValueError(f"{name} needs workers, and num_workers is 0: use num_workers=1 or more")
        if self.prefetch_factor < 1:
            raise ValueError(f"prefetch_factor must be at least 1, got {self.prefetch_factor}")
        if batch_size is not None and (isinstance(batch_size, bool) or batch_size < 1):
            raise ValueError(f"batch_size must be at least 1, or None for single items, got {batch_size!r}")
        if self.sampler is not None and shuffle:
            raise ValueError("sampler and shuffle cannot be given together: the sampler decides the order")
        if self.batch_sampler is not None and (
            batch_size != 1 or shuffle or self.sampler is not None or self.drop_last
        ):
            raise ValueError(
                "batch_sampler decides the batches: do not give batch_size, shuffle, sampler or drop_last with it"
            )
        if batch_size is None and self.drop_last:
            raise ValueError("drop_last=True needs a batch_size: with batch_size=None every item is a batch by itself")
        if self.num_shards != 1 and (self.sampler is not None or self.batch_sampler is not None):
            raise ValueError("num_shards and a sampler cannot be given together: the sampler chooses the items itself")
        if self._mixed is not None and (self.sampler is not None or self.batch_sampler is not None):
            raise ValueError("a mixture decides the order itself: do not give sampler or batch_sampler with it")
        if self.stream:
            for name in ("shuffle", "sampler", "batch_sampler"):
                if getattr(self, name):
                    raise ValueError(
                        f"{name} needs a data set with an index, and {type(self.dataset).__name__} can only be iterated over"
                    )
            if self.num_shards != 1:
                raise ValueError(
                    f"num_shards needs a data set with an index: {type(self.dataset).__name__} decides itself "
                    "what it gives here"
                )
        elif not hasattr(self.dataset, "__getitem__"):
            raise TypeError(
                f"{type(self.dataset).__name__} is not a data set: it has neither __getitem__ and __len__, nor __iter__"
            )
        elif self.sampler is None and self.batch_sampler is None and not hasattr(self.dataset, "__len__"):
            raise TypeError(f"{type(self.dataset).__name__} has no __len__: give sampler or batch_sampler, or add it")

    def _buckets(self, bucket_by: Any, max_tokens: int | None) -> Buckets | None:
        """The batches of items of similar length, if ``bucket_by`` is given; else None."""
        if bucket_by is None:
            if max_tokens is not None:
                raise ValueError("max_tokens needs bucket_by, the lengths of the items")
            return None
        if self.stream or self.sampler is not None or self.batch_sampler is not None or self._mixed is not None:
            raise ValueError(
                "bucket_by makes the batches itself: it needs a data set with an index, and no sampler or mixture"
            )
        # without batch_size, only the tokens limit the number of items
        if max_tokens is not None and self.batch_size == 1:
            self.batch_size = None
        if max_tokens is None and (self.batch_size or 1) == 1:
            raise ValueError("bucket_by needs a batch_size above 1, or max_tokens, to make batches")
        return Buckets(
            bucket_by,
            len(self.dataset),
            batch_size=self.batch_size,
            max_tokens=max_tokens,
            shuffle=self.shuffle,
            drop_last=self.drop_last,
        )

    # The epoch

    def __iter__(self) -> "LoaderEpoch":
        """The batches of the next epoch, or the rest of the one whose state was loaded."""
        if self._begun:
            self._saved = None
            self.epoch += 1
        self._begun = True
        self._serial += 1
        saved, self._saved = self._saved, None
        opening = self._opening() if saved is None else dict(saved["opening"])
        walk = self._walk(opening, None) if saved is None else self._walk_again(opening, saved["walk"])
        seed = opening.get("seed", self._drawn_seed)
        self._place = LoaderProgress(self.epoch, self._kind(), opening, walk)
        made = LoaderEpoch(self, self._carrier_of(seed), self._place)
        self._pass = weakref.ref(made)
        return made

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        if self.batch_sampler is not None:
            return len(self.batch_sampler)  # type: ignore[arg-type]
        if not self.stream and self.sampler is None:
            if not len(self.dataset):
                return 0
            if self.buckets is not None:
                batches = self.buckets.of_epoch(self._drawn_seed, self.epoch)
                return BucketWalk.rounds(len(batches.ends), self.num_shards, self._ending)
            return OrderedWalk.length(self._order(0), self.batch_size or 1, self._ending)
        items = len(self.dataset if self.sampler is None else self.sampler)  # type: ignore[arg-type]
        size = self.batch_size or 1
        return items // size if self.drop_last else -(-items // size)

    @property
    def _ending(self) -> Ending:
        return "drop" if self.drop_last else "partial"

    def _order(self, seed: int) -> Order:
        if self._mixed is not None:
            return replace(self._mixed, shard_id=self.shard_id, num_shards=self.num_shards, seed=seed)
        return Order(len(self.dataset), self.shard_id, self.num_shards, random_shuffle=self.shuffle, seed=seed)

    @property
    def _by_torch(self) -> bool:
        """True if torch's generators determine the order and the random numbers, as in torch's DataLoader."""
        own = self._mixed is not None or self.buckets is not None or self.num_shards > 1
        return self.seed is None and self.framework == "torch" and not own

    def _opening(self) -> dict[str, Any]:
        """Draws the numbers that an epoch needs at its beginning."""
        if not self._by_torch:
            if (self.shuffle or self._mixed is not None) and self.num_shards > 1 and self.seed is None:
                raise ValueError(
                    "the shards of a data set that is shuffled or mixed must agree on its order: give all of them the same seed="
                )
            return {"seed": self._drawn_seed}
        source = self._generator()
        opening = {}
        if source is not None or self.sampler is not None or self.batch_sampler is not None:
            opening["generator"] = self._frame.state_of(source)
        opening["seed"] = self._frame.base_seed(self.generator)
        if self.shuffle and self.generator is None:
            opening["shuffle"] = self._frame.base_seed(None)
        return opening

    def _generator(self) -> Any:
        """The generator that determines the order; None for torch's global one."""
        for holder in (self, self.sampler, self.batch_sampler, getattr(self.batch_sampler, "sampler", None)):
            found = getattr(holder, "generator", None)
            if found is not None:
                return found
        return None

    def _walk_again(self, opening: Mapping[str, Any], saved: Mapping[str, Any]) -> Walk:
        """The rest of a walk. The same numbers are drawn in the same order as before; the global generator does not change."""
        if "generator" not in opening:
            return self._walk(opening, saved)
        source = self._generator()
        kept = self._frame.state_of(None)
        self._frame.set_state(source, opening["generator"])
        if source is None or source is self.generator:
            self._frame.base_seed(source)
        walk = self._walk(opening, saved)
        if source is None:
            assert isinstance(walk, SampledWalk)
            walk.draw_all()
            self._frame.set_state(None, kept)
        return walk

    def _walk(self, opening: Mapping[str, Any], saved: Mapping[str, Any] | None) -> Walk:
        seed = opening["seed"]
        if self.stream:
            slots = self.num_workers if self.workers == "processes" else 0
            return StreamWalk(max(1, slots), self.batch_size, seed, self.epoch, self._serial, saved)
        if self.batch_sampler is not None:
            batches: Iterator[Any] = map(list, self.batch_sampler)
            return SampledWalk(batches, seed, self.epoch, saved)
        if self.sampler is not None or (self.shuffle and self._by_torch):
            indices: Any = self.sampler
            if indices is None:
                size = len(self.dataset)
                indices = self._frame.shuffled(size, self.generator, opening.get("shuffle")) if size else ()
            return SampledWalk(in_batches(indices, self.batch_size, self.drop_last), seed, self.epoch, saved)
        if not len(self.dataset):
            return SampledWalk(iter(()), seed, self.epoch, None)
        if self.buckets is not None:
            return BucketWalk(self.buckets, (self.shard_id, self.num_shards), self._ending, seed, self.epoch, saved)
        return OrderedWalk(self._order(seed), self.batch_size, self._ending, self.epoch, saved)

    def first_item(self) -> Any:
        """One item, which shows the structure of all items."""
        if self.stream:
            return next(iter(self.dataset))
        if not len(self.dataset):
            raise ValueError(f"{type(self.dataset).__name__} has no items")
        return self._reader().item(0)

    def start(self) -> None:
        """Starts the workers, which stay until ``close()``."""
        self.persistent_workers = True
        self._carrier_of(self._drawn_seed)

    def batch_of(self, batch: Any) -> Any:
        """An output of a pipeline as an array or tensor of the loader's framework."""
        return self._frame.batch_of(batch)

    def _reader(self) -> ItemReader:
        reader = ItemReader(
            self.dataset,
            stream=self.stream,
            frame=self.framework,
            batch_size=self.batch_size,
            drop_last=self.drop_last,
            collate_fn=self.collate_fn,
        )
        reader.model = self.model
        return reader

    def _carrier_of(self, seed: int) -> Any:
        """The object that reads the batches: persistent workers, or new ones."""
        if self._carrier is not None:
            return self._carrier
        timeout = self.timeout or None
        carrier: Any
        if not self.num_workers:
            carrier = Inline(self._reader())
        elif self.workers == "threads":
            carrier = Threads(self._reader(), self.num_workers, self.prefetch_factor, timeout)
            if self.worker_init_fn is not None:
                raise ValueError(
                    'worker_init_fn is called in worker processes; with workers="threads" call it yourself'
                )
        else:
            context, start = self.multiprocessing_context, self.worker_init_fn
            carrier = loading.processes.Processes(
                self._reader(), self.num_workers, self.prefetch_factor, timeout, context, seed, start
            )
        if self.persistent_workers:
            self._carrier = carrier
        return carrier

    def close(self) -> None:
        """Ends the workers; the next loop starts new ones."""
        made = self._pass() if self._pass is not None else None
        if made is not None:
            made.close()
        if self._carrier is not None:
            self._carrier.close()
            self._carrier = None

    # The state

    def state_dict(self) -> dict[str, Any]:
        """The position after the last batch that the loop received, as plain data for ``load_state_dict``."""
        if self._place is not None:
            return self._place.state()
        return {"loader": _FORM, "epoch": self.epoch, "now": self._saved}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Loads a saved state: the next loop returns the rest of that epoch, or the next epoch if it was over."""
        if not isinstance(state, Mapping) or state.get("loader") != _FORM:
            raise InvalidState(f"this is not a state of a loader of this version: {str(state)[:80]}")
        made = self._pass() if self._pass is not None else None
        if made is not None:
            made.close()
        self._pass = self._place = None
        self.epoch, self._begun = state["epoch"], False
        now = state["now"]
        if now is None:
            self._saved = None
            return
        kind = self._kind()
        if now["kind"] != kind:
            raise InvalidState(f"the saved state is of a loader over {now['kind']}, and this one is over {kind}")
        self._saved = now

    def next_epoch(self) -> None:
        """Leaves the rest of an epoch whose state was loaded for the next epoch."""
        if self._saved is not None:
            self._saved = None
            self.epoch += 1

    def _kind(self) -> str:
        if self.stream:
            return "a stream"
        if self.batch_sampler is not None or self.sampler is not None:
            return "the indices of a sampler"
        if self._mixed is not None:
            return "a mixture"
        if self.buckets is not None:
            return "a data set in batches of similar length"
        return "a data set shuffled by torch" if self.shuffle and self._by_torch else "a data set with an index"

    def finished(self, batch: Any) -> Any:
        """The batch in the form that the loop receives."""
        if not self.pin_memory:
            return batch
        return mapped(lambda _, leaf: leaf.pin_memory() if hasattr(leaf, "pin_memory") else leaf, batch)


class LoaderProgress:
    """The progress of a pass. It exists longer than the pass, because a loop may end early."""

    def __init__(self, epoch: int, kind: str, opening: Mapping[str, Any], walk: Walk) -> None:
        self.epoch, self.kind, self.opening, self.walk = epoch, kind, opening, walk
        self.announced = False  # True if the loop has received the end of the epoch

    def state(self) -> dict[str, Any]:
        """The state of the loader after the last batch that was delivered."""
        if self.announced:
            return {"loader": _FORM, "epoch": self.epoch + 1, "now": None}
        now = {"kind": self.kind, "opening": dict(self.opening), "walk": self.walk.state()}
        return {"loader": _FORM, "epoch": self.epoch, "now": now}


class LoaderEpoch:
    """The batches of one epoch."""

    def __init__(self, loader: Loader, carrier: Any, place: LoaderProgress) -> None:
        self._loader, self._carrier, self._place, self._walk = loader, carrier, place, place.walk
        self._own = carrier is not loader._carrier
        self._waiting: deque[tuple[BatchItems, PendingBatch]] = deque()
        self._more = True
        self._closed = False
        self._fill(carrier.ahead)

    def __iter__(self) -> "LoaderEpoch":
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def _fill(self, count: int) -> None:
        while self._more and len(self._waiting) < count:
            wanted = self._walk.next()
            if wanted is None:
                self._more = False
            else:
                self._waiting.append((wanted, self._carrier.submit(wanted)))

    def __next__(self) -> Any:
        while not self._closed:
            self._fill(max(1, self._carrier.ahead))
            if not self._waiting:
                self._end()
                break
            wanted, pending = self._waiting.popleft()
            try:
                read = pending.result()
            except KeyboardInterrupt:  # the loop has not received this batch yet
                self._waiting.appendleft((wanted, pending))
                raise
            except BaseException:
                self._walk.delivered(wanted, ended=False)
                raise
            self._walk.delivered(wanted, read.ended)
            if read.ended:
                for later, other in [x for x in self._waiting if x[0].slot == wanted.slot]:
                    other.cancel()
                    self._waiting.remove((later, other))
            self._fill(self._carrier.ahead)
            if read.items or not read.ended:
                return self._loader.finished(read.batch)
        raise StopIteration

    def _end(self) -> None:
        """Ends the epoch, and its workers."""
        if not self._closed and self._own:
            self._carrier.close()
        self._closed = self._place.announced = True

    def close(self) -> None:
        """Drops the batches that were read ahead."""
        if not self._closed:
            self._closed = True
            for _, pending in self._waiting:
                pending.cancel()
            self._waiting.clear()
            if self._own:
                self._carrier.close(wait=False)

    def __del__(self) -> None:
        # at the end of the interpreter modules may be None already
        if not getattr(self, "_closed", True) and sys is not None and not sys.is_finalizing():
            self.close()


def is_stream(dataset: Any) -> bool:
    """True if a data set can only be iterated over."""
    torch_data = sys.modules.get("torch.utils.data")
    if torch_data is not None and isinstance(dataset, torch_data.IterableDataset):
        return True
    return hasattr(dataset, "__iter__") and not hasattr(dataset, "__getitem__")


def _framework(name: str | None) -> str:
    if name is None:
        return "torch" if "torch" in sys.modules else "numpy"
    if name not in ("torch", "numpy"):
        raise ValueError(f'framework must be "torch" or "numpy", got {name!r}')
    framework(name)  # raises an error that says what to install
    return name
