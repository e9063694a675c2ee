"""A pipeline as a ``tf.data.Dataset``: each iteration begins with the first batch, and none ends."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import tensorflow as tf

from pipeflow.errors import count_of, nearest
from pipeflow.plugin.tf.tensors import OutputArrays, device_of, runs

# Arguments of DALI's executors: this one has only one queue.
NO_EFFECT = "exec_separated", "exec_dynamic", "cpu_prefetch_queue_depth", "gpu_prefetch_queue_depth"


@dataclass(frozen=True)
class Input:
    """A data set of TensorFlow as the data of an ``external_source``: its elements are samples, or with ``batch`` batches."""

    dataset: Any
    layout: str | None = None
    batch: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.dataset, tf.data.Dataset):
            raise TypeError(f"an Input takes a tf.data.Dataset, got {self.dataset!r}")

    def batches(self, size: int) -> Iterator[Any]:
        """The elements as batches; the last one may be shorter."""
        elements = self.dataset.as_numpy_iterator()
        if self.batch:
            yield from elements
            return
        samples: list[np.ndarray] = []
        for element in elements:
            samples.append(element)
            if len(samples) == size:
                yield samples
                samples = []
        if samples:
            yield samples


class DALIDatasetWithInputs(tf.data.Dataset):
    """The batches of a pipeline as tuples of tensors, without an end; each iteration begins with the first batch.

    ``output_dtypes`` is a type of TensorFlow for each output, and ``output_shapes`` a shape, with the batch as first axis: axes
    of length 1 that it does not have are removed. Without ``output_dtypes``, the first batch is made to find the types.
    ``batch_size``, ``num_threads``, ``device_id`` and ``prefetch_queue_depth`` replace the settings of the pipeline.
    ``input_datasets`` has a ``tf.data.Dataset`` or an ``Input`` for each ``external_source`` without a source: the iteration ends
    with the first one that ends. Tensors are in the memory of the host.
    """

    def __init__(
        self,
        pipeline: Any,
        output_dtypes: Any = None,
        output_shapes: Any = None,
        fail_on_device_mismatch: bool = True,
        *,
        input_datasets: "Mapping[str, tf.data.Dataset | Input] | None" = None,
        batch_size: int | None = None,
        dtypes: Any = None,
        shapes: Any = None,
        **settings: Any,
    ) -> None:
        del fail_on_device_mismatch  # TensorFlow copies the tensors to the device of the program
        settings = {name: value for name, value in settings.items() if name not in NO_EFFECT}
        unknown = settings.keys() - {"num_threads", "device_id", "prefetch_queue_depth"}
        if unknown:
            raise TypeError(f"{type(self).__name__} has no argument {sorted(unknown)[0]!r}")
        if "device_id" in settings:
            settings["device_id"] = device_of(settings["device_id"])
        if batch_size is None:
            batch_size = 1
            if pipeline.max_batch_size != 1:
                warnings.warn(
                    f"the batches have one sample, as in DALI, and not the {pipeline.max_batch_size} of the pipeline: "
                    "give batch_size",
                    stacklevel=2,
                )
        self._pipeline = pipeline.again(batch_size=batch_size, **settings)
        self._inputs_by_name = self._checked_inputs(input_datasets or {})
        dtypes = _of_two_names("dtypes", output_dtypes, dtypes)
        shapes = _of_two_names("shapes", output_shapes, shapes)
        if dtypes is None:
            if self._inputs_by_name:
                raise TypeError(
                    "output_dtypes is needed with input_datasets: give a type of TensorFlow for each output"
                )
            self._outputs = OutputArrays.of_batch(self._pipeline.first_batches(1)[0], shapes)
        else:
            self._outputs = OutputArrays(self._pipeline.num_outputs, dtypes, shapes)
        self._dataset = tf.data.Dataset.from_generator(self._batches, output_signature=self._outputs.signature)
        super().__init__(self._dataset._variant_tensor)

    def _checked_inputs(self, inputs: "Mapping[str, Any]") -> dict[str, Input]:
        if not isinstance(inputs, Mapping):
            raise TypeError(f"input_datasets must be a dictionary from names of inputs to data sets, got {inputs!r}")
        given = {name: each if isinstance(each, Input) else Input(each) for name, each in inputs.items()}
        wanted = self._pipeline.fed_inputs()
        for name in given:
            if name not in wanted:
                raise ValueError(
                    f"the pipeline has no external_source {name!r} without a source{nearest(name, wanted)}: {wanted}"
                )
        missing = [name for name in wanted if name not in given]
        if missing:
            raise ValueError(
                f"the pipeline has {count_of(len(missing), 'external_source')} without data: {missing}; give each a source, or a "
                "data set in experimental.DALIDatasetWithInputs(input_datasets=...)"
            )
        return given

    def _batches(self) -> Iterator[tuple[np.ndarray, ...]]:
        pipe = self._pipeline.again()
        for batch in self._fed(pipe) if self._inputs_by_name else runs(pipe):
            yield self._outputs.arrays(batch)

    def _fed(self, pipe: Any) -> Iterator[Sequence[Any]]:
        """The batches of a pipeline whose inputs are fed as far ahead as it works."""
        data = {name: each.batches(pipe.max_batch_size) for name, each in self._inputs_by_name.items()}
        ahead, waiting, made = min(map(pipe.input_feed_count, data)), 0, runs(pipe)
        while True:
            while waiting < ahead:
                batches = [next(each, None) for each in data.values()]
                if any(batch is None for batch in batches):
                    ahead = 0
                    break
                for (name, each), batch in zip(self._inputs_by_name.items(), batches):
                    pipe.feed_input(name, batch, layout=each.layout)
                waiting += 1
            if not waiting:
                return
            yield from islice(made, 1)
            waiting -= 1

    def _inputs(self) -> list[Any]:
        return [self._dataset]

    @property
    def element_spec(self) -> Any:
        """The types and shapes of the tensors."""
        return self._dataset.element_spec


class DALIDataset(DALIDatasetWithInputs):
    """The batches of a pipeline as tuples of tensors, without an end; each iteration begins with the first batch.

    The arguments are those of ``experimental.DALIDatasetWithInputs``, without ``input_datasets``.
    """

    def __init__(
        self, pipeline: Any, output_dtypes: Any = None, output_shapes: Any = None, *args: Any, **options: Any
    ) -> None:
        if "input_datasets" in options:
            raise TypeError(
                "DALIDataset has no argument 'input_datasets': it is one of experimental.DALIDatasetWithInputs"
            )
        super().__init__(pipeline, output_dtypes, output_shapes, *args, **options)


def _of_two_names(name: str, new: Any, old: Any) -> Any:
    """An argument that has two names."""
    if old is None:
        return new
    if new is not None:
        raise ValueError(f"{name} is the former name of output_{name}: give one of the two")
    warnings.warn(f"{name} is deprecated: use output_{name}, a tuple", DeprecationWarning, stacklevel=3)
    return tuple(old) if isinstance(old, list) else old
