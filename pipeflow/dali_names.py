"""Names of DALI that are absent here, and those that mean something else: one table for messages, `port` and the docs.

A name is written as after a port: ``fn.readers.video``, ``plugin_manager``. An entry is also valid for all names that
begin with it. An entry is not used if pipeflow has its name.
"""

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from opcode import opmap
from types import ModuleType
from typing import Any, NamedTuple

from pipeflow.errors import nearest


class Absent(NamedTuple):
    """Why a name of DALI is absent, and what to write instead."""

    why: str
    instead: str


_VIDEO = Absent(
    "pipeflow does not decode video",
    "read the frames with OpenCV or PyAV in a function for `fn.external_source`, with `layout='FHWC'`",
)
_DECODER = Absent(
    "DALI replaced it",
    '`ops.decoders.Image`, `ImageCrop`, `ImageRandomCrop` or `ImageSlice`, with `device="mixed"` for a GPU',
)
_BINARY = Absent(
    "it belongs to DALI's library in C++", "write the operator in Python: `fn.python_function`, `fn.numba_function`"
)
_BINARY_MEMORY = Absent("it belongs to DALI's library in C++ and its memory", "leave it out")
_BACKEND = """
    CUDAStreamSynchronize CheckDLPackCapsule DLDeviceType ExternalContextCheckpoint GetCUDACurrentDevice GetCUDAStreamDevice
    GetCudaVersion GetCufftVersion GetCxx11AbiFlag GetDeviceBufferGrowthFactor GetHostBufferGrowthFactor
    GetHostBufferShrinkThreshold GetNppVersion GetNvimgcodecVersion GetNvjpegVersion GetOpenCVVersion GetSchema
    GetSchemaAndTarget Init IsDriverInitialized LoadDefaultPlugins LoadDirectory LoadLibrary OpSchema OpSpec PipelineDebug
    SetCUDACurrentDevice SharedMem Stream TryGetSchema check_cuda_runtime
"""
_PICKLES = Absent("functions are sent to worker processes without it", "leave `py_callback_pickler` out")
_EAGER = Absent(
    "calls on arrays run at once and need no other module", "`fn.resize(array, size=(2, 3))` returns an array"
)

ABSENT: dict[str, Absent] = {
    "fn.readers.video": _VIDEO,
    "fn.readers.video_resize": _VIDEO,
    "fn.experimental.readers.video": _VIDEO,
    "fn.experimental.inputs.video": _VIDEO,
    "fn.experimental.decoders.video": _VIDEO,
    "fn.decoders.video": _VIDEO,
    "fn.video_reader": _VIDEO,
    "fn.video_reader_resize": _VIDEO,
    "ops.HostDecoder": _DECODER,
    "ops.HostDecoderCrop": _DECODER,
    "ops.HostDecoderRandomCrop": _DECODER,
    "ops.HostDecoderSlice": _DECODER,
    "ops.nvJPEGDecoder": _DECODER,
    "ops.nvJPEGDecoderCrop": _DECODER,
    "ops.nvJPEGDecoderRandomCrop": _DECODER,
    "ops.nvJPEGDecoderSlice": _DECODER,
    "ops.NormalizePermute": Absent("DALI removed it", "`ops.CropMirrorNormalize` without `crop`"),
    "ops.Reload": _BINARY,
    "ops.python_op_factory": _BINARY,
    "ops.register_cpu_op": _BINARY,
    "ops.register_gpu_op": _BINARY,
    "plugin_manager": _BINARY,
    "sysconfig": _BINARY,
    **dict.fromkeys([f"backend.{name}" for name in _BACKEND.split()], _BINARY_MEMORY),
    "trace": Absent(
        "it marks ranges for NVIDIA's profiler", "`pipe.statistics()` and `pipe.advice()` say what takes time"
    ),
    "pickling": _PICKLES,
    "reducers": _PICKLES,
    "external_source": Absent("the module has no other use", "`fn.external_source` or `ops.ExternalSource`"),
    "python_function_plugin": _BINARY,
    "types.CUDAStream": Absent("streams are those of CuPy or torch", "pass the stream object itself"),
    "experimental.dynamic": _EAGER,
    "experimental.eager": _EAGER,
    **dict.fromkeys(
        [f"experimental.dynamic.{name}" for name in ("Batch", "batch", "as_batch")],
        Absent("a list of arrays is a batch", "`tensors.TensorListCPU(arrays, layout)` if the samples need a layout"),
    ),
    **dict.fromkeys(
        [f"experimental.dynamic.{name}" for name in ("Tensor", "tensor", "as_tensor")],
        Absent("an array is a sample", "`tensors.TensorCPU(array, layout)` if the sample needs a layout"),
    ),
    "experimental.dynamic.readers": Absent(
        "readers are operators of pipelines", "`for batch in pipe.epoch()`, or an iterator of `plugin`"
    ),
    "experimental.dynamic.random.RNG": Absent(
        "calls on arrays take a key", "`fn.random.uniform(key=1)`: the same key gives the same numbers"
    ),
    "experimental.dynamic.checkpoint": Absent("checkpoints are those of pipelines", "`pipe.checkpoint()`"),
    "experimental.torchvision": Absent(
        "there are no transforms of torchvision", "`from_torch_dataset(..., transform=...)` with operators of `fn`"
    ),
    "plugin.mxnet": Absent("MXNet is no longer developed", "`plugin.numpy.GenericIterator`"),
    "plugin.triton": Absent("there is no backend of Triton", "`pipe.serialize()`, and a Python model that loads it"),
}

# Names that exist but do something else, on which a program may depend; the page of differences has the rest.
DIFFERENT: dict[str, str] = {
    "fn.readers": "`random_shuffle` permutes the whole epoch; all shards need the same `seed`",
    "fn.random": "the same seed gives different numbers; they depend on seed, operator, epoch and position",
    "fn.noise": "the same seed gives different numbers; they depend on seed, operator, epoch and position",
    "fn.python_function": "exceptions keep their class; DALI makes each a RuntimeError",
    "fn.audio_resample": "removes frequencies that the lower rate cannot represent; `antialias=False` gives DALI's numbers",
    "fn.preemphasis_filter": "filters each channel by itself",
    "fn.random_bbox_crop": "the search ends after 20000 windows",
    "fn.noise.shot": "`factor=0` does not change the data",
    "Pipeline": "`py_start_method` is 'forkserver' by default",
    "pipeline_def": "`py_start_method` is 'forkserver' by default",
    "backend.ReleaseUnusedMemory": "does nothing: memory goes with its pipeline",
    "backend.PreallocateDeviceMemory": "does nothing: a pipeline takes its memory once",
    "backend.PreallocatePinnedMemory": "does nothing: a pipeline takes its memory once",
    **dict.fromkeys(
        (
            "backend.SetBufferGrowthFactor",
            "backend.SetDeviceBufferGrowthFactor",
            "backend.SetHostBufferGrowthFactor",
            "backend.SetHostBufferShrinkThreshold",
        ),
        "does nothing: a pipeline uses its memory again",
    ),
}  # fmt: skip


def entry(name: str, table: Mapping[str, Any]) -> Any:
    """The entry to which a dotted name belongs; None if there is none."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        found = table.get(".".join(parts[:end]))
        if found is not None:
            return found
    return None


def absent(name: str) -> Absent | None:
    """The entry of a name that does not exist here; a class of ``ops`` has the entry of its operator."""
    if name.startswith("ops."):
        name, table = name.lower(), _CLASSES
    else:
        table = ABSENT
    inside = [found for other, found in table.items() if other.startswith(f"{name}.")]
    return entry(name, table) or (inside[0] if inside else None)


_CLASSES = {
    name.replace("fn.", "ops.").replace("_", "").lower(): found
    for name, found in ABSENT.items()
    if name.startswith(("fn.", "ops."))
}


def message(name: str, known: Iterable[str]) -> str:
    """The message of an error: DALI has the name but pipeflow does not, or neither has it; then the nearest name."""
    found = absent(name)
    if found is not None:
        return f"{name} of DALI is not part of pipeflow: {found.why}. Instead: {found.instead}".replace("`", "")
    place, _, leaf = name.rpartition(".")
    public = [other for other in known if not other.startswith("_")]
    return f"{place or 'pipeflow'} has no {leaf!r}{_elsewhere(leaf, place) or nearest(leaf, public)}"


def _elsewhere(leaf: str, place: str) -> str:
    """`` (did you mean 'fn.random.uniform'?)`` if another namespace has the name, else nothing."""
    root = f"pipeflow.{place.partition('.')[0]}."
    for name, module in sorted(sys.modules.items()):
        if name.startswith(root) and leaf in dir(module):
            return f" (did you mean {name.removeprefix('pipeflow.') + '.' + leaf!r}?)"
    return ""


def speaking(place: str, names: Callable[[], Iterable[str]], depth: int = 1) -> Callable[[str], Any]:
    """A ``__getattr__`` for a module: its errors explain why a name is absent.

    ``depth`` is the number of frames between it and the code that reads the name.
    """

    def __getattr__(name: str) -> Any:
        if re.fullmatch("__.*__", name):
            raise AttributeError(name)
        text = message(f"{place}.{name}".removeprefix("."), names())
        caller = sys._getframe(depth)
        # `from pipeflow import name` would replace the message of an AttributeError with its own message.
        if 0 <= caller.f_lasti < len(caller.f_code.co_code) and caller.f_code.co_code[caller.f_lasti] == _IMPORT_FROM:
            raise ImportError(text, name=name)
        raise AttributeError(text)

    return __getattr__


_IMPORT_FROM = opmap["IMPORT_FROM"]


class AbsentModules:
    """Explains why a module that DALI has is absent from pipeflow; it never finds a module."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        """The import system calls this for a module that no other finder has found."""
        del path, target
        package, _, name = fullname.partition(".")
        if package == __package__ and absent(name) is not None:
            raise ModuleNotFoundError(message(name, ()), name=fullname)


def install(root: str, *modules: ModuleType) -> None:
    """Makes these modules of the package ``root`` explain why a name is absent, and imports why a module is."""
    for module in modules:
        place = module.__name__.removeprefix(root).removeprefix(".")
        vars(module)["__getattr__"] = speaking(place, partial(getattr, module, "__all__", vars(module)))
    if not any(isinstance(finder, AbsentModules) for finder in sys.meta_path):
        sys.meta_path.append(AbsentModules())
