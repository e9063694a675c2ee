"""Machine code of the CUDA kernels: NVRTC compiles a file with all its instances, and the result is kept on disk.

The options are exactly those of the tests. CuPy's own compilation adds ``-ftz=true``, which makes very small numbers 0.
``nvrtc`` is CuPy's thin layer over the compiler; it needs neither a driver nor a GPU.
"""

import hashlib
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pipeflow.errors import NoGpu
from pipeflow.kernels import gpu as kernels
from pipeflow.kernels import kept_code
from pipeflow.system import processors

FOLDER = "cuda-kernels"


class CudaProgram(NamedTuple):
    """A compiled file."""

    code: bytes
    lowered: dict[str, str]  # instance -> its name in the code


def options(architecture: int, headers: str) -> tuple[str, ...]:
    """The options of NVRTC.

    A multiplication and an addition are not fused, so that results are equal to the CPU's. Lambdas are device functions: older
    compilers, such as those of CUDA 12.0 and 13.0, take those inside other lambdas for host functions otherwise.
    """
    own = ("--std=c++17", "--fmad=false", "--device-as-default-execution-space")
    return (f"-arch=sm_{architecture}", *own, f"-I{kernels.FOLDER}", f"-I{headers}")


def architecture_for(capability: int, supported: Sequence[int], version: tuple[int, int]) -> int:
    """The newest architecture of the GPU's generation that the compiler knows and the GPU can run."""
    usable = [known for known in supported if known <= capability and known // 10 == capability // 10]
    if not usable:
        known = f"sm_{min(supported)} to sm_{max(supported)}" if supported else "none"
        raise NoGpu(
            f"the GPU has architecture sm_{capability}, and NVRTC {version[0]}.{version[1]} compiles for {known}: install "
            "a newer nvidia-cuda-nvrtc, or an older one for an old GPU"
        )
    return max(usable)


def compiled(nvrtc: Any, file: str, text: str, names: Sequence[str], architecture: int, headers: str) -> CudaProgram:
    """The compiled code of a file; raises RuntimeError with the messages of NVRTC if it cannot be compiled."""
    program = nvrtc.createProgram(text, file, [], [])
    try:
        for name in names:
            nvrtc.addNameExpression(program, name)
        try:
            nvrtc.compileProgram(program, options(architecture, headers))
        except nvrtc.NVRTCError:
            raise RuntimeError(nvrtc.getProgramLog(program)) from None
        lowered = {}
        for name in names:
            found = nvrtc.getLoweredName(program, name)
            lowered[name] = found.decode() if isinstance(found, bytes) else found
        return CudaProgram(nvrtc.getCUBIN(program) + b"\0", lowered)  # CuPy cuts the last byte off, which is 0
    finally:
        nvrtc.destroyProgram(program)


@cache
def shared_digest(headers: str) -> str:
    """A digest of the headers that kernel files include: those of this package, and CUDA's."""
    digest = hashlib.sha256()
    for path in (*sorted(kernels.FOLDER.glob("*.cuh")), *sorted(Path(headers).glob("cuda_fp16.h*"))):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def key_of(nvrtc: Any, file: str, architecture: int, headers: str) -> tuple[Any, ...]:
    """Everything that the code depends on. Names of folders are left out: they differ between environments with the same
    contents.
    """
    text = hashlib.sha256(kernels.source(file).encode()).hexdigest()
    flags = [option for option in options(architecture, headers) if not option.startswith("-I")]
    return (text, kernels.instances_of(file), shared_digest(headers), tuple(flags), nvrtc.getVersion())


def _kept_or_compiled(nvrtc: Any, file: str, architecture: int, headers: str) -> CudaProgram:
    def made() -> CudaProgram:
        return compiled(nvrtc, file, kernels.source(file), kernels.instances_of(file), architecture, headers)

    folder = kept_code.folder_for(FOLDER)
    if folder is None:
        return made()
    store = kept_code.KernelFiles(folder, Path(file).stem)
    key = key_of(nvrtc, file, architecture, headers)
    turns = kept_code.Turns(folder)
    with turns.given_back():  # one of the ranks of a job compiles a file, the others wait for it
        found = store.load(key) if turns.wait(store.path(key)) else None
        if found is None:
            found = made()
            store.save(key, tuple(found))
    return CudaProgram(*found)


_lock = threading.Lock()
_programs: dict[tuple[str, int], Future[CudaProgram]] = {}  # the programs of this process


def program(nvrtc: Any, file: str, architecture: int, headers: str) -> CudaProgram:
    """A compiled file: kept in this process, read from the disk, or compiled now. Other threads wait while it is compiled."""
    with _lock:
        future = _programs.get((file, architecture))
        mine = future is None
        if future is None:
            future = _programs[file, architecture] = Future()
    if mine:
        try:
            future.set_result(_kept_or_compiled(nvrtc, file, architecture, headers))
        except BaseException as error:
            with _lock:
                del _programs[file, architecture]  # the next call tries again
            future.set_exception(error)
    return future.result()


def prepare(nvrtc: Any, files: Sequence[str], architecture: int, headers: str) -> None:
    """Compiles several files at the same time: NVRTC works without Python's lock."""
    if len(files) < 2:
        for file in files:
            program(nvrtc, file, architecture, headers)
        return
    with ThreadPoolExecutor(min(len(files), len(processors()))) as pool:
        list(pool.map(lambda file: program(nvrtc, file, architecture, headers), files))
