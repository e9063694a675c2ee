"""The tests of the CUDA kernels without a device; all are marked `nvrtc` and run by `make test-nvrtc`.

The kernels run here on the CPU, built by g++: nothing in this folder says that anything ran on a GPU.
"""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from nvrtc_compiler import compiled

from pipeflow.kernels import gpu

HERE = Path(__file__).parent
SANITIZED = bool(os.environ.get("PIPEFLOW_SANITIZE"))
LAST = ("test_every_instance.py", "test_sanitizer.py")
COMPILE = "test_compile.py"


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config, items):
    """Marks the tests of this folder; the tests about all others come last, and only where all others run too."""
    own = [item for item in items if HERE in item.path.parents]
    for item in own:
        item.add_marker(pytest.mark.nvrtc)
    yield
    last = [item for item in items if item.path.parent == HERE and item.path.name in LAST]
    files = {item.path for item in items}
    whole = all(path in files for path in HERE.glob("test_host_*.py")) and not config.option.keyword
    # what is compiled in the background is asked for when the host tests are done
    others = sorted([item for item in items if item not in last], key=lambda item: item.path == HERE / COMPILE)
    if last and not whole:
        config.hook.pytest_deselected(items=last)
        last = []
    items[:] = [*others, *sorted(last, key=lambda item: LAST.index(item.path.name))]


@pytest.fixture(scope="session", autouse=True)
def compiler():
    """Without g++ nothing here can run, and that is a failure."""
    if shutil.which("g++") is None:
        pytest.fail("the CUDA kernels are checked by building them with g++: apt-get install g++", pytrace=False)


@pytest.fixture(scope="session", autouse=True)
def compilations(request):
    """Futures of what NVRTC makes of each file for each architecture, in a thread beside the host tests."""
    cases = [
        item.callspec.params
        for item in request.session.items
        if item.path == HERE / COMPILE and hasattr(item, "callspec")
    ]
    keys = [(case["file"], case["architecture"]) for case in cases]
    executor = ThreadPoolExecutor(1)
    yield {
        (file, architecture): executor.submit(compiled, gpu.source(file), file, gpu.INSTANCES[file], architecture)
        for file, architecture in keys
    }
    executor.shutdown(cancel_futures=True)


@pytest.fixture(scope="session", autouse=True)
def sanitized(request, compiler):
    """The host tests once more under AddressSanitizer, in a process that runs beside this one."""
    if SANITIZED or not any(item.path.name == "test_sanitizer.py" for item in request.session.items):
        yield None
        return
    runtime = subprocess.run(["g++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    environment = {
        **os.environ,
        "PIPEFLOW_SANITIZE": "1",
        "LD_PRELOAD": runtime.stdout.strip(),
        # Python itself keeps memory to its end, and fibers move between stacks.
        "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=0",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    }
    # how rows are checked is tested in this process, which checks them
    files = sorted(str(path) for path in HERE.glob("test_host_*.py") if path.name != "test_host_machinery.py")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-m",
        "nvrtc",
        "--timeout=300",
        "-p",
        "no:cacheprovider",
        *files,
    ]
    process = subprocess.Popen(
        command, cwd=HERE.parents[1], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    yield process
    process.kill()
    process.wait()
