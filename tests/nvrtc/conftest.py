"""The tests of the CUDA kernels without a device; all are marked `nvrtc` and run by `make test-nvrtc`.

The kernels run here on the CPU, built by g++: nothing in this folder says that anything ran on a GPU.
"""

import os
import shutil
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from host_device import LAUNCHED
from nvrtc_compiler import compiled

from pipeflow.kernels import gpu

HERE = Path(__file__).parent
SANITIZED = bool(os.environ.get("PIPEFLOW_SANITIZE"))
# Which part of the host tests `make test-nvrtc` runs: one in so many, by their names.
SHARE = int(os.environ.get("SHARE") or 1)
# How rows are checked is tested in the process that is not sanitized.
HOST_FILES = sorted(path for path in HERE.glob("test_host_*.py") if path.name != "test_host_machinery.py")
# They run the same kernels in whole pipelines. All of their tests run, and what they launch is compared by the tests above.
PIPELINE_FILES = [HERE / f"test_{name}.py" for name in ("late_pipelines", "first_run_parts", "gpu_benchmark_cases")]
EVERY_INSTANCE, SANITIZER, COMPILE, CODE = (
    HERE / f"test_{name}.py" for name in ("every_instance", "sanitizer", "compile", "machine_code")
)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config, items):
    """Marks the tests of this folder. Where all run, those that launch kernels do so in the processes of ``sanitized``."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.nvrtc)
    yield
    files = {item.path for item in items}
    whole = all(path in files for path in HOST_FILES) and not config.option.keyword
    if SANITIZED:
        left_out: tuple[Path, ...] = ()
    elif whole:
        left_out = (*HOST_FILES, *PIPELINE_FILES)
    else:
        left_out = (EVERY_INSTANCE, SANITIZER)

    def kept_here(item):
        if item.path in left_out or (SHARE > 1 and item.name == "test_every_listed_instance_was_launched"):
            return False
        return not (SANITIZED and item.path in HOST_FILES and zlib.crc32(item.nodeid.encode()) % SHARE)

    config.hook.pytest_deselected(items=[item for item in items if not kept_here(item)])
    # Those that need what others did, or what is compiled in the background, come last.
    last = (COMPILE, CODE, EVERY_INSTANCE, SANITIZER)
    kept = [item for item in items if kept_here(item)]
    items[:] = sorted(kept, key=lambda item: last.index(item.path) if item.path in last else -1)


def pytest_sessionfinish():
    """Writes down what the host tests of a sanitized process launched."""
    if SANITIZED and "PIPEFLOW_LAUNCHED" in os.environ:
        Path(os.environ["PIPEFLOW_LAUNCHED"], str(os.getpid())).write_text("\n".join(LAUNCHED))


@pytest.fixture(autouse=True)
def launched_by_host_tests(request):
    """What only whole pipelines launch is not in ``LAUNCHED``: they are compared less strictly."""
    before = set(LAUNCHED)
    yield
    if request.path in PIPELINE_FILES:
        LAUNCHED.intersection_update(before)


@pytest.fixture(scope="session", autouse=True)
def compiler():
    """Without g++ nothing here can run, and that is a failure."""
    if shutil.which("g++") is None:
        pytest.fail("the CUDA kernels are checked by building them with g++: apt-get install g++", pytrace=False)


@pytest.fixture(scope="session", autouse=True)
def compilations(request):
    """Futures of what NVRTC makes of each file for each architecture, in a thread beside the other tests."""
    cases = [
        item.callspec.params for item in request.session.items if item.path == COMPILE and hasattr(item, "callspec")
    ]
    keys = [(case["file"], case["architecture"]) for case in cases if "architecture" in case]
    executor = ThreadPoolExecutor(1)
    yield {
        (file, architecture): executor.submit(compiled, gpu.source(file), file, gpu.instances_of(file), architecture)
        for file, architecture in keys
    }
    executor.shutdown(cancel_futures=True)


@pytest.fixture(scope="session", autouse=True)
def sanitizing(request, compiler, tmp_path_factory):
    """The processes, side by side, that run all that launches kernels, under AddressSanitizer; and what they launch."""
    if SANITIZED or not any(item.path == SANITIZER for item in request.session.items):
        yield None
        return
    runtime = subprocess.run(["g++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    folder = tmp_path_factory.mktemp("launched")
    environment = {
        **os.environ,
        "PIPEFLOW_SANITIZE": "1",
        "PIPEFLOW_LAUNCHED": str(folder),
        "LD_PRELOAD": runtime.stdout.strip(),
        # Python itself keeps memory to its end, and fibers move between stacks.
        "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=0",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-m", "nvrtc", "--timeout=300", "-p", "no:cacheprovider"]
    command += ["-n", "auto", "--dist", "worksteal", "--tb=short", "--durations=10"]
    process = subprocess.Popen(
        [*command, *map(str, (*HOST_FILES, *PIPELINE_FILES))],
        cwd=HERE.parents[1],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    yield process, folder
    process.kill()
    process.wait()


@pytest.fixture(scope="session")
def sanitized(sanitizing):
    """Their exit status, what they printed, and every instance that their host tests launched."""
    process, folder = sanitizing
    output, _ = process.communicate()
    launched = {name for path in folder.iterdir() for name in path.read_text().split("\n")}
    return SimpleNamespace(status=process.returncode, output=output, launched=launched)
