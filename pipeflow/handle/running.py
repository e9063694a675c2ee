"""Running a pipeline batch after batch, and feeding its inputs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeflow import compile as compiling
from pipeflow import types
from pipeflow.errors import InvalidState, UnknownInput, nearest
from pipeflow.executor import Delivered, Settings
from pipeflow.executor.batch import Handing
from pipeflow.handle.built import Built
from pipeflow.handle.definition import DebugDefinition
from pipeflow.record.recorder import DataNode
from pipeflow.tensors import TensorListCPU, made_on

if TYPE_CHECKING:
    from pipeflow.executor import Executor
    from pipeflow.handle.debug import DebugRun


class Running(Built):
    """A pipeline that is run by ``run()``, or by ``schedule_run()`` and ``outputs()``."""

    def __init__(self, settings: Settings, seed_given: bool) -> None:
        super().__init__(settings, seed_given)
        self._api = types.PipelineAPIType.BASIC
        self._check_api = True
        self._shared: list[Any] = []

    def run(self, cuda_stream: Any = None, /, **pipeline_inputs: Any) -> tuple[TensorListCPU, ...]:
        """The next batch, as a tuple with one batch for each output. Keywords feed external sources by their names."""
        if isinstance(cuda_stream, (np.ndarray, list, tuple, TensorListCPU)):
            raise TypeError("inputs are passed by the names of their sources: run(name=data)")
        del cuda_stream  # the GPU backend uses an event instead
        handing = Handing()
        if self._executor is not None:
            self._executor.check_caller()
        with self._turn:
            delivered = self._run(handing, pipeline_inputs)
        return delivered.to(handing)

    def _check_caller(self) -> None:
        """Raises an error for a call from a function of this pipeline: it would wait for its own batch."""
        if self._executor is not None:
            self._executor.check_caller()

    def _run(self, handing: Handing, inputs: Mapping[str, Any]) -> Delivered:
        # What follows has few calls: it runs after kernels, when each function takes 2 us or more until it is in the caches.
        executor: Executor | DebugRun | None = self._executor
        if executor is None or self._api is not types.PipelineAPIType.BASIC or executor.course.ending != "fill":
            self._use(types.PipelineAPIType.BASIC)
        if inputs:
            if self._executor is not None and self._executor.in_flight:
                raise InvalidState(
                    "run() with named inputs must return the batch of these inputs, and earlier batches are "
                    "still being made"
                )
            for name, data in inputs.items():
                self.feed_input(name, data)
        if executor is None:
            executor = self._built()
        self.iter_setup()
        depth = self._depth()
        return self._take(executor, handing, depth - 1, 1 if inputs else depth)

    def _take(self, executor: "Executor | DebugRun", handing: Handing, ahead: int = 0, first: int = 0) -> Delivered:
        delivered = executor.take(handing, ahead, first)
        if self._settings.promises:
            delivered = self._checked(delivered)
        self._note(handing, delivered)
        compiling.first_batches.batch_taken()
        return delivered

    def _note(self, handing: Handing, delivered: Delivered) -> None:
        """Notes a batch as the last one, as soon as the caller has it."""
        self._last.change(handing, (delivered.size, delivered.padding))

    def schedule_run(self) -> None:
        """Starts one more batch without waiting for it."""
        self._check_caller()
        with self._turn:
            self._use(types.PipelineAPIType.SCHEDULED)
            self.build()
            self.iter_setup()
            self._compiled().schedule()

    def share_outputs(self) -> tuple[TensorListCPU, ...]:
        """The oldest scheduled batch; call release_outputs() when done with it."""
        handing = Handing()
        self._check_caller()
        with self._turn:
            self._use(types.PipelineAPIType.SCHEDULED)
            delivered = self._take(self._built(), handing)
            if delivered.error is None:
                self._shared.append((handing, delivered))
        return delivered.to(handing)

    def release_outputs(self) -> None:
        """Releases the batch that share_outputs() returned. It stays valid as long as anything refers to it."""
        self._use(types.PipelineAPIType.SCHEDULED)
        self._shared = [(handing, outputs) for handing, outputs in self._shared if handing.done][1:]

    def outputs(self) -> tuple[TensorListCPU, ...]:
        """The oldest scheduled batch; batches that share_outputs() returned are released."""
        handing = Handing()
        self._check_caller()
        with self._turn:
            self._use(types.PipelineAPIType.SCHEDULED)
            self._shared.clear()
            delivered = self._take(self._built(), handing)
        return delivered.to(handing)

    def enable_api_check(self, enable: bool) -> None:
        """With True, mixing run() with schedule_run() or outputs() is an error."""
        self._check_api = enable

    def _use(self, api: types.PipelineAPIType) -> None:
        """Notes if run() or schedule_run() is used, and raises an error for the other one in the same epoch."""
        if isinstance(self._define, DebugDefinition):
            self.build()  # so that its first batch too ends an epoch as this call needs
        executor = self._executor or self._debug
        if api is not self._api:
            used = executor is not None and (executor.in_flight or self._last.get() is not None)
            if self._check_api and used:
                raise RuntimeError(
                    "Mixing pipeline API type. Currently used: "
                    f"{self._api.name}, but trying to use: {api.name}; call reset() in between"
                )
            self._api = api
        if executor is not None and api is not types.PipelineAPIType.ITERATOR:
            executor.end_epochs("fill")  # run() has no end of an epoch: readers begin again

    def reset(self) -> None:
        """Starts the next epoch: drops batches that were not delivered, and rewinds the sources that can be rewound."""
        if self._executor is not None:
            self._executor.reset()
        if self._debug is not None:
            self._debug.reset()
        self._begin_at({})
        self._shared.clear()

    def iter_setup(self) -> None:
        """Called before each run; subclasses override it to feed inputs."""

    @property
    def _sets_up(self) -> bool:
        """True if a subclass feeds inputs in ``iter_setup``."""
        return type(self).iter_setup is not Running.iter_setup

    def empty(self) -> bool:
        """True if no batch is scheduled."""
        return self._executor is None or not self._executor.in_flight

    def feed_input(
        self,
        data_node: "DataNode | str",
        data: Any,
        layout: str | None = None,
        cuda_stream: Any = None,
        use_copy_kernel: bool = False,
    ) -> None:
        """Queues a batch for an external_source without a source: an array, a list of arrays, or a batch.

        ``cuda_stream`` is the stream of torch or CuPy that data on the GPU is made on; default: the current one.
        """
        del use_copy_kernel  # NO_EFFECT in declare has the reason
        self.build()
        if not isinstance(data_node, (str, DataNode)):
            raise TypeError(f"feed_input takes the name of an input or its DataNode, got {data_node!r}")
        name = self._name_of(data_node)
        if self._debug is not None:
            self._debug.feed(name, data, layout)
            return
        assert self._executor is not None
        source = self._executor.course.source(name)
        if source is None:
            names = [self._known_as(item.step.name) for item in self._executor.sources]
            raise UnknownInput(
                f'Could not find an input operator with name "{name}"{nearest(name, names)}: this pipeline has {names}'
            )
        if not source.takes_data:
            raise RuntimeError(f"{name!r} is not an external_source and cannot be fed")
        with made_on(cuda_stream, data):
            source.feed(data, layout, self._executor.course.batch_size)

    def fed_inputs(self) -> list[str]:
        """The names of the inputs without a source, which get their data from ``feed_input`` or ``run(name=...)``."""
        return [self._known_as(item.step.name) for item in self._compiled().sources if item.source.fed is not None]

    def input_feed_count(self, input_name: str) -> int:
        """The number of batches to feed before the next run(): the prefetch depth at first, then one."""
        self.build()
        if self._debug is not None:
            return 1
        executor = self._compiled()
        if executor.course.source(self._name_of(input_name)) is None:
            raise UnknownInput(f'Could not find an input operator with name "{input_name}" in this pipeline')
        return 1 if self._last.get() is not None or executor.in_flight else self._depth()

    def _checked(self, delivered: Delivered) -> Delivered:
        """The batch, with an error if it differs from output_dtype, output_ndim or output_layout."""
        for index, batch in enumerate(delivered.outputs):
            for name, actual in (("dtype", batch.dtype), ("ndim", batch.ndim), ("layout", batch.layout())):
                expected = self._expected(name)
                expected = expected[index] if isinstance(expected, (list, tuple)) else expected
                if expected is None or not len(batch):
                    continue
                if expected != actual:
                    error = RuntimeError(f"Output {index} was declared with {name} {expected!r} and has {actual!r}")
                    return replace(delivered, error=error)
        return delivered
