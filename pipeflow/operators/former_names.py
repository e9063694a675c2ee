"""Former names of operators, which DALI still accepts: ``fn.image_decoder`` is ``fn.decoders.image``.

They call the present operator and warn; they have no page and no stub.
"""

import warnings
from collections.abc import Callable
from typing import Any

from pipeflow.declare import OpFunction, outside_package

FORMER_NAMES = {
    "audio_decoder": "decoders.audio",
    "caffe2_reader": "readers.caffe2",
    "caffe_reader": "readers.caffe",
    "coco_reader": "readers.coco",
    "coin_flip": "random.coin_flip",
    "experimental.audio_resample": "audio_resample",
    "experimental.decoders.image": "decoders.image",
    "experimental.decoders.image_crop": "decoders.image_crop",
    "experimental.decoders.image_random_crop": "decoders.image_random_crop",
    "experimental.decoders.image_slice": "decoders.image_slice",
    "experimental.debayer": "debayer",
    "experimental.equalize": "equalize",
    "experimental.filter": "filter",
    "experimental.inflate": "decoders.inflate",
    "experimental.peek_image_shape": "peek_image_shape",
    "experimental.tensor_resize": "tensor_resize",
    "fast_resize_crop_mirror": "resize_crop_mirror",
    "file_reader": "readers.file",
    "image_decoder": "decoders.image",
    "image_decoder_crop": "decoders.image_crop",
    "image_decoder_random_crop": "decoders.image_random_crop",
    "image_decoder_slice": "decoders.image_slice",
    "mxnet_reader": "readers.mxnet",
    "nemo_asr_reader": "readers.nemo_asr",
    "normal_distribution": "random.normal",
    "numpy_reader": "readers.numpy",
    "sequence_reader": "readers.sequence",
    "tfrecord_reader": "readers.tfrecord",
    "transform_translation": "transforms.translation",
    "uniform": "random.uniform",
}
# DALI has many of these names a second time in modules named "hidden", and three names only there.
FORMER_NAMES |= {
    ".".join([*former.split(".")[:-1], "hidden", former.split(".")[-1]]): present
    for former, present in [
        *FORMER_NAMES.items(),
        ("constant", "constant"),
        ("shapes", "shapes"),
        ("ssd_random_crop", "ssd_random_crop"),
        ("readers.sequence", "readers.sequence"),
    ]
}


def function(former: str, op: OpFunction) -> Callable[..., Any]:
    """The operator under a former name."""

    def call(*inputs: Any, **arguments: Any) -> Any:
        warn(f"fn.{former}", op.title)
        return op(*inputs, **arguments)

    call.__name__ = call.__qualname__ = former.rpartition(".")[2]
    call.__doc__ = f"The former name of {op.title}."
    return call


def warn(former: str, present: str) -> None:
    """Says what to write instead, at the user's line."""
    warnings.warn(f"{former} is a former name: write {present}", DeprecationWarning, stacklevel=outside_package())
