"""A device made of g++ and NumPy: every .cu file built for the host, and memory in which kernels of a call run at once."""

import ctypes
import functools
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from helpers import calls_of

from pipeflow import backends, declare, seeds, system
from pipeflow.device.calls import DevicePlanner, SampleValues, View
from pipeflow.device.tables import TablePlanner
from pipeflow.kernels import gpu
from pipeflow.tensors import TensorListCPU

HERE = Path(__file__).parent
FLAGS = ["-O2", "-std=c++17", "-shared", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing", "-Wall"]
FLAGS += ["-Wno-unused-function", "-Wno-unknown-pragmas"]
# A device stops at an address that is not a multiple of the type's size; a CPU would go on.
SANITIZED = (
    [
        "-fsanitize=address,alignment,float-cast-overflow",
        "-fno-sanitize-recover=all",
        "-fno-omit-frame-pointer",
        "-g1",
        "-O1",  # twice as fast to build
    ]
    if os.environ.get("PIPEFLOW_SANITIZE")
    else []
)
LAUNCHED: set[str] = set()  # every instance that ran in this process
# The sanitizer that is loaded into this process would be loaded into the compiler too, which becomes slow by it.
COMPILER_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def folder() -> Path:
    """Where what is built is kept for later processes."""
    path = Path(tempfile.gettempdir()) / f"pipeflow-host-kernels-{os.getuid()}"
    path.mkdir(exist_ok=True)
    return path


def digest(*texts: str) -> str:
    """The same for the same texts, flags and headers."""
    headers = [path.read_text() for path in sorted(HERE.glob("*.h"))]
    return hashlib.sha256("".join([*texts, *FLAGS, *SANITIZED, *headers]).encode()).hexdigest()[:16]


def built(path: Path, *arguments: str, text: str | None = None) -> Path:
    """The path of what g++ makes of the arguments, or of the text, once on this machine."""
    with open(path.with_suffix(".lock"), "w") as lock:
        system.wait_for_lock(lock.fileno())  # another process may be building the same
        if not path.exists():
            part = path.with_suffix(".part")
            command = ["g++", *FLAGS, *SANITIZED, *arguments, "-o", str(part)]
            done = subprocess.run(command, input=text, capture_output=True, text=True, env=COMPILER_ENVIRONMENT)
            assert done.returncode == 0, done.stderr
            part.rename(path)
    return path


@functools.cache
def includes() -> list[str]:
    """The folders of headers. The first one has a precompiled one, which takes four fifths of the time of a check away."""
    there = folder() / f"headers-{digest()}"
    there.mkdir(exist_ok=True)
    header = "cuda_on_host.h"
    built(there / f"{header}.gch", "-Wno-pragma-once-outside-header", "-x", "c++-header", str(HERE / header))
    return [f"-I{there}", f"-I{HERE}", f"-I{gpu.FOLDER}"]


@functools.cache
def library(file: str) -> ctypes.CDLL:
    """All instances of one kernel file, built for the host; kept by the contents of everything it is made of."""
    lines = ['#include "cuda_on_host.h"', f'#include "{file}"']
    barriers = "__syncthreads" in gpu.source(file)
    for number, name in enumerate(gpu.instances_of(file)):
        row = f"{name}((decltype(row_of({name}))*)rows, first, count)"
        lines.append(
            f'extern "C" void launch_{number}(unsigned grid, unsigned threads, const void* rows, const int* first, int count)'
            f" {{ on_host::launch(grid, threads, {str(barriers).lower()}, [&] {{ {row}; }}); }}"
        )
    # the type of a kernel's rows, from its first parameter
    lines.insert(1, "template <class R> R row_of(void (*)(const R*, const int*, int));")
    text = "\n".join(lines) + "\n"
    sources = [path.read_text() for path in sorted([gpu.FOLDER / file, *gpu.FOLDER.glob("*.cuh")])]
    path = folder() / f"{Path(file).stem}-{digest(text, *sources)}.so"
    return ctypes.CDLL(str(built(path, *includes(), "-x", "c++", "-", text=text)))


CHECKED: set[tuple[str, str, np.dtype]] = set()


def field_checks(struct: str, layout: np.dtype) -> list[str]:
    """Assertions in C++ that a struct is laid out like this, structs inside it included."""
    checks = [f'static_assert(sizeof({struct}) == {layout.itemsize}, "the size of the row differs");']
    for field, (inner, offset) in ((field, layout.fields[field][:2]) for field in layout.names):
        element, _ = inner.subdtype or (inner, ())
        kind = (
            "std::is_floating_point_v<E>" if element.kind == "f" else "(std::is_integral_v<E> || std::is_pointer_v<E>)"
        )
        kind = "std::is_class_v<E>" if element.names else kind
        checks += [
            f'static_assert(offsetof({struct}, {field}) == {offset}, "{field} lies elsewhere");',
            f'static_assert(sizeof({struct}::{field}) == {inner.itemsize}, "{field} has another size");',
            f"{{ using E = std::remove_all_extents_t<decltype({struct}::{field})>;"
            f' static_assert(sizeof(E) == {element.itemsize} && {kind}, "{field} has another type");',
            *(["{ using Inner = E;", *field_checks("Inner", element), "}"] if element.names else []),
            "}",
        ]
    return checks


def check_rows(kernel: str, layout: np.dtype) -> None:
    """Compares the layout of the rows with that of the struct in the kernel's source, field by field."""
    file, _, name = kernel.partition(":")
    template = (file, name.partition("<")[0], layout)
    if template in CHECKED:
        return
    checks = field_checks("Row", layout)
    text = "\n".join(
        [
            '#include "cuda_on_host.h"',
            "#include <cstddef>",
            "#include <type_traits>",
            f'#include "{file}"',
            "template <class R> R row_of(void (*)(const R*, const int*, int));",
            f"using Row = decltype(row_of({name}));",
            "void check() {",
            *checks,
            "}",
        ]
    )
    command = ["g++", *FLAGS, *SANITIZED, "-fsyntax-only", "-w", *includes(), "-x", "c++", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, env=COMPILER_ENVIRONMENT)
    assert done.returncode == 0, f"{kernel}: the rows are not those of the kernel:\n{done.stderr}"
    CHECKED.add(template)


def launch_on_host(kernel: str, grid: int, threads: int, rows: int, first: int, count: int) -> None:
    """Runs one launch to its end."""
    file, _, name = kernel.partition(":")
    assert name in gpu.instances_of(file), f"{kernel} is in no line of instances in {file}"
    LAUNCHED.add(kernel)
    function = getattr(library(file), f"launch_{gpu.instances_of(file).index(name)}")
    function(
        ctypes.c_uint(grid), ctypes.c_uint(threads), ctypes.c_void_p(rows), ctypes.c_void_p(first), ctypes.c_int(count)
    )


class HostMemory:
    """Device memory of one call, in blocks of exactly the asked size, so that a sanitizer sees every step over an edge."""

    def __init__(self) -> None:
        self.blocks: dict[int, np.ndarray] = {}
        self.launches: list[str] = []

    def _keep(self, block: np.ndarray) -> int:
        address = block.__array_interface__["data"][0]
        self.blocks[address] = block
        return address

    def allocate(self, output: int, sizes) -> list[int]:
        return [self.scratch(nbytes) for nbytes in sizes]

    def scratch(self, nbytes: int) -> int:
        return self._keep(np.full(nbytes, 0xA5, np.uint8))  # what a kernel leaves out is seen

    def view(self, output: int, views) -> list[int]:
        return [view.address for view in views]

    def upload(self, array: np.ndarray) -> int:
        return self._keep(np.array(array, order="C", copy=True))

    def launch(self, kernel, grid, threads, rows, first, count) -> None:
        self.launches.append(kernel)
        check_rows(kernel, self.blocks[rows].dtype)
        launch_on_host(kernel, grid, threads, rows, first, count)

    def run(self, function, views) -> None:
        function(np, *[self.array(view) for view in views])

    def array(self, view: View) -> np.ndarray:
        """The array under a view."""
        if not view.size:
            return np.empty(view.shape, view.dtype)
        memory = (ctypes.c_uint8 * view.nbytes).from_address(view.address)
        return np.frombuffer(memory, view.dtype).reshape(view.shape)


class GpuMemory:
    """The same on a GPU: with PIPEFLOW_ON_GPU=1 (`make test-gpu`) the tests of the kernels run there."""

    def __init__(self) -> None:
        self.runtime = backends.gpu.for_arrays()
        self.kept: list = []
        self.launches: list[str] = []

    def allocate(self, output: int, sizes) -> list[int]:
        return [self.scratch(nbytes) for nbytes in sizes]

    def scratch(self, nbytes: int) -> int:
        return self.upload(np.full(max(nbytes, 1), 0xA5, np.uint8))

    def view(self, output: int, views) -> list[int]:
        return [view.address for view in views]

    def upload(self, array: np.ndarray) -> int:
        with self.runtime.active():
            memory, bytes_ = (
                self.runtime.allocate(max(array.nbytes, 1)),
                np.array(array, order="C").reshape(-1).view(np.uint8),
            )
            self.runtime.upload(self.runtime.computing, memory.address, bytes_)
            self.runtime.drain(self.runtime.computing)
        self.kept.append(memory)
        return memory.address

    def launch(self, kernel, grid, threads, rows, first, count) -> None:
        self.launches.append(kernel)
        with self.runtime.active():
            self.runtime.launch(self.runtime.computing, kernel, grid, threads, rows, first, count)

    def run(self, function, views) -> None:
        arrays = [self.runtime.array(view.address, view.shape, view.dtype, None) for view in views]
        with self.runtime.active():
            self.runtime.run(self.runtime.computing, function, arrays)

    def array(self, view: View) -> np.ndarray:
        """The array under a view, copied to the host."""
        result = np.empty(view.shape, view.dtype)
        if view.size:
            with self.runtime.active():
                self.runtime.download(self.runtime.computing, result.reshape(-1).view(np.uint8), view.address)
                self.runtime.drain(self.runtime.computing)
        return result


ON_GPU = bool(os.environ.get("PIPEFLOW_ON_GPU"))


def call_of(function) -> declare.Call:
    """The operator call that ``function()`` makes, bound and not run: ``lambda: fn.flip([a, b], vertical=1)``."""
    (call,) = calls_of(function)
    if call.op.random and call.key is None:
        call.key = 5
    return call


def on_host(call: declare.Call, launches: list[str] | None = None) -> tuple[list[list[np.ndarray]], tuple[str, ...]]:
    """The GPU form of a call, run on the host: per output the list of its samples; and the layouts.

    The kernels that it launches are added to ``launches``.
    """
    memory = GpuMemory() if ON_GPU else HostMemory()
    memory.launches = memory.launches if launches is None else launches
    batches = [x for x in (*call.inputs, *call.arguments.values()) if isinstance(x, (TensorListCPU, list))]
    size = len(batches[0]) if batches else 1
    inputs = [
        TensorListCPU(x if isinstance(x, list) else [x] * size) if not isinstance(x, TensorListCPU) else x
        for x in call.inputs
    ]
    if call.op.generic and not isinstance(call.inputs[0], TensorListCPU):  # as in the eager call
        inputs[0] = TensorListCPU(inputs[0], call.op.layout_of_array(inputs[0].ndim))
    keys = seeds.sample_keys(call.key or 0, np.arange(size)).tolist()
    arrays = [[np.asarray(x) for x in batch.samples()] for batch in inputs]
    nodes = {name: batch.samples() for name, batch in call.arguments.items()}
    on_device = 1 if call.op.host_inputs else len(arrays)
    samples = [
        SampleValues(
            [
                View(memory.upload(column[index]), column[index].shape, column[index].dtype)
                for column in arrays[:on_device]
            ],
            {name: np.asarray(values[index]) for name, values in nodes.items()},
            keys[index],
            tuple([column[index] for column in arrays[on_device:]]),
        )
        for index in range(size)
    ]
    count = call.op.outputs_of(call.constants)
    per_frame = [name for name, batch in call.arguments.items() if batch.layout()[:1] == "F"]
    planner = DevicePlanner(call.op, call.constants, count, per_frame)
    outputs, layouts = TablePlanner(planner).plan(samples, [batch.layout() for batch in inputs], memory)
    return [[memory.array(views[number]).copy() for views in outputs] for number in range(count)], layouts


def on_cpu(call: declare.Call) -> tuple[list[list[np.ndarray]], tuple[str, ...]]:
    """The same call on the CPU."""
    result = declare.eager(call)
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    batches = [x if isinstance(x, TensorListCPU) else TensorListCPU([np.asarray(x)]) for x in results]
    return [[np.asarray(x) for x in batch.samples()] for batch in batches], tuple(batch.layout() for batch in batches)


def assert_same(function, *, atol=0.0, rtol=0.0, few=1.0) -> None:
    """The GPU form of the call that ``function()`` makes, on the host, gives what the CPU gives.

    ``few`` is the share of elements (but two at least) that may differ within the tolerance, the others are equal.
    """
    call = call_of(function)
    expected, expected_layouts = on_cpu(call)
    found, layouts = on_host(call)
    assert layouts == expected_layouts
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        assert len(one) == len(other)
        for x, y in zip(one, other):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            if atol or rtol:
                np.testing.assert_allclose(x.astype(np.float64), y.astype(np.float64), atol=atol, rtol=rtol)
                assert np.count_nonzero(x != y) <= max(2, few * x.size)
            else:
                np.testing.assert_array_equal(x, y)
