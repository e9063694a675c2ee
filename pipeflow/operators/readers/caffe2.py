"""`fn.readers.caffe2`: images, labels and more from LMDB databases of Caffe2's TensorProtos records.

A record is a list (1) of tensors: extents (1), type (2), and values as floats (3), whole numbers (4), bytes (5) or strings (6).
The image is the first tensor; then come the labels, their weights, additional tensors, and a box.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from pipeflow.declare import default, required
from pipeflow.errors import BadData, count_of
from pipeflow.operators.readers.caffe import Records, check_outputs, image_of
from pipeflow.operators.readers.protobuf import BYTES, VARINT, fields, numbers
from pipeflow.operators.readers.reader import reader

_DIMS, _TYPE, _FLOATS, _INTEGERS, _BYTE_DATA, _STRINGS = 1, 2, 3, 4, 5, 6
_FLOAT, _INT32, _BYTE, _STRING = 1, 2, 3, 4
_SINGLE, _SPARSE, _DENSE, _WEIGHTED, _NONE = range(5)


class Tensor(NamedTuple):
    """One tensor of a record: its type, its extents, its numbers and its bytes."""

    kind: int
    dims: list[int]
    numbers: np.ndarray
    strings: list[memoryview]


def _tensors(record: memoryview) -> Iterator[Tensor]:
    for number, wire, body in fields(record):
        if number == 1 and wire == BYTES:
            yield _tensor(body)


def _tensor(body: memoryview) -> Tensor:
    kind, dims, parts, strings = _FLOAT, [], [], []
    for number, wire, value in fields(body):
        if number == _DIMS:
            dims += numbers("int64", wire, value).tolist()
        elif number == _TYPE and wire == VARINT:
            kind = int(value)
        elif number in (_FLOATS, _INTEGERS):
            parts.append((number, numbers("float32" if number == _FLOATS else "int64", wire, value)))
        elif number in (_BYTE_DATA, _STRINGS) and wire == BYTES:
            strings.append(value)
    wanted = {_FLOAT: _FLOATS, _INT32: _INTEGERS}.get(kind)
    own = [part for number, part in parts if number == wanted]
    dtype = np.float32 if kind == _FLOAT else np.int64
    return Tensor(kind, dims, np.concatenate([np.empty(0, dtype), *own]), strings)


def _outputs(args: Any) -> int:
    return bool(args.image_available) + (args.label_type != _NONE) + args.additional_inputs + bool(args.bbox)


@reader(
    "readers.caffe2",
    urls=True,
    outputs=_outputs,
    examples=['fn.readers.caffe2(path="train_lmdb", label_type=1, num_labels=80)'],
)
class Caffe2Reader:
    """Reads the encoded image, the label and other data of each record of Caffe2's LMDB databases.

    Labels depend on `label_type`: with 0 they are one int32; with 1 an int32 for each of `num_labels` classes, 1 if the record
    has the class, else 0; with 2 the int32 numbers of the record; with 3 the weight of each class, float32; with 4 there are no
    labels. Additional tensors are float32 or int32 as they are stored, without their shape; a box is int32.
    """

    def __init__(
        self,
        *,
        path: Any = required("folders of the databases, or their files or URLs; several are read one after the other"),
        image_available: bool = default(True, "return the image, the first tensor of a record"),
        label_type: int = default(0, "0 one label, 1 several, 2 a vector, 3 several with weights, 4 none"),
        num_labels: int = default(1, "number of the classes, for `label_type` 1 and 3"),
        additional_inputs: int = default(0, "number of tensors after the labels that are returned too"),
        bbox: bool = default(False, "return the box, the last tensor"),
    ) -> None:
        if label_type not in range(5):
            raise ValueError(f"label_type must be from 0 to 4, got {label_type}")
        for name, value, least in (("num_labels", num_labels, 1), ("additional_inputs", additional_inputs, 0)):
            if value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}")
        check_outputs(image_available, label_type != _NONE or additional_inputs > 0 or bbox, "label_type")
        self._image, self._labels, self._classes = image_available, label_type, num_labels
        self._more, self._box = additional_inputs, bbox
        self._records = Records(path)
        self.far = self._records.far

    def __len__(self) -> int:
        return len(self._records)

    def fetch(self, index: int) -> tuple[np.ndarray, ...]:
        """The contents of the record."""
        where = self.source_info(index)
        try:
            tensors = list(_tensors(self._records.read(index).data))
        except ValueError as error:
            if isinstance(error, BadData):
                raise
            raise BadData(f"{where}: damaged TensorProtos: {error}") from None
        labels = {_NONE: 0, _WEIGHTED: 2}.get(self._labels, 1)
        wanted = self._image + labels + self._more + self._box
        if len(tensors) < wanted:
            raise BadData(f"{where}: the record has {count_of(len(tensors), 'tensor')}, {wanted} are needed")
        outputs = [_image(tensors.pop(0), where)] if self._image else []
        if labels:
            outputs.append(self._label(tensors[:labels], where))
        outputs += [_values(tensor, where) for tensor in tensors[labels : labels + self._more]]
        if self._box:
            outputs.append(_values(tensors[labels + self._more], where, np.int32))
        return tuple(outputs)

    def _label(self, tensors: list[Tensor], where: str) -> np.ndarray:
        if self._labels == _DENSE:
            return _values(tensors[0], where)
        classes = _values(tensors[0], where, np.int32)
        if self._labels == _SINGLE:
            if len(classes) != 1:
                raise BadData(f"{where}: {count_of(len(classes), 'label')}; label_type 0 is for one")
            return classes
        weights = (
            _values(tensors[1], where, np.float32) if self._labels == _WEIGHTED else np.ones(len(classes), np.int32)
        )
        if len(weights) != len(classes):
            raise BadData(f"{where}: {count_of(len(weights), 'weight')} for {count_of(len(classes), 'label')}")
        if len(classes) and not 0 <= classes.min() <= classes.max() < self._classes:
            raise BadData(f"{where}: labels {classes.tolist()[:9]} must be from 0 to {self._classes - 1} (num_labels)")
        result = np.zeros(self._classes, weights.dtype)
        result[classes] = weights
        return result

    def shared_files(self) -> list[str]:
        """The files that have several samples each."""
        return self._records.shared_files()

    def source_info(self, index: int) -> str:
        """The file and the record's number in it."""
        return self._records.source_info(index)


def _image(tensor: Tensor, where: str) -> np.ndarray:
    if tensor.kind == _STRING and len(tensor.strings) == 1:
        return np.frombuffer(tensor.strings[0], np.uint8)
    if tensor.kind == _BYTE and len(tensor.strings) == 1 and len(tensor.dims) == 3:
        return image_of(tensor.strings[0], tensor.dims, where)
    raise BadData(
        f"{where}: the image must be one string, or bytes with three extents, of type {tensor.kind} it is neither"
    )


def _values(tensor: Tensor, where: str, dtype: type | None = None) -> np.ndarray:
    """The numbers of a tensor, int32 or float32."""
    found = {_FLOAT: np.float32, _INT32: np.int32}.get(tensor.kind)
    if found is None or (dtype is not None and found is not dtype):
        needed = "floats or whole numbers of 32 bits" if dtype is None else np.dtype(dtype).name
        raise BadData(f"{where}: a tensor of {needed} is needed, got type {tensor.kind}")
    if tensor.kind == _INT32 and len(tensor.numbers) and not (np.abs(tensor.numbers + 0.5) < 2**31).all():
        raise BadData(f"{where}: a number is not one of 32 bits")
    return tensor.numbers.astype(found)
