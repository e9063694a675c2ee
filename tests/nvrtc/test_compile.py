"""Every instance of every kernel compiles with NVRTC for every architecture that is supported; no driver is needed."""

import importlib

import pytest

from pipeflow.kernels import gpu

ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)


@pytest.fixture(scope="module")
def nvrtc():
    """CuPy's thin layer over NVRTC, which asks for no device, unlike cupy.RawModule."""
    try:
        layer = importlib.import_module("cupy").cuda.nvrtc
        layer.getVersion()
    except (ImportError, RuntimeError) as error:
        pytest.fail(f'NVRTC cannot be used: {error}. Install it: pip install "pipeflow[cuda13]"', pytrace=False)
    return layer


@pytest.fixture(scope="module")
def headers():
    """The folder of cuda_fp16.h, from the wheel of the CUDA runtime."""
    folder = importlib.import_module("cuda.pathfinder").find_nvidia_header_directory("cudart")
    assert folder, 'the headers of the CUDA runtime are missing: pip install "pipeflow[cuda13]"'
    return folder


def compiled(nvrtc, headers, text, file, names, architecture):
    """The machine code, and the lowered names of the instances; RuntimeError with the compiler's messages."""
    program = nvrtc.createProgram(text, file, [], [])
    try:
        for name in names:
            nvrtc.addNameExpression(program, name)
        options = [f"-arch=sm_{architecture}", "--std=c++17", f"-I{gpu.FOLDER}", f"-I{headers}"]
        try:
            nvrtc.compileProgram(program, options)
        except nvrtc.NVRTCError:
            raise RuntimeError(nvrtc.getProgramLog(program)) from None
        return nvrtc.getCUBIN(program), [nvrtc.getLoweredName(program, name) for name in names]
    finally:
        nvrtc.destroyProgram(program)


@pytest.mark.parametrize("file", sorted(gpu.INSTANCES))
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_kernels_compile(nvrtc, headers, file, architecture):
    """One program a file, with all its instances, to machine code of the architecture."""
    names = gpu.INSTANCES[file]
    code, lowered = compiled(nvrtc, headers, gpu.source(file), file, names, architecture)
    assert code[:4] == b"\x7fELF"
    assert len(set(lowered)) == len(names)
    for name in lowered:
        assert (name if isinstance(name, bytes) else name.encode()) in code


def test_an_error_names_file_and_line(nvrtc, headers):
    """What the compiler says of a mistake in a kernel tells where it is."""
    text = gpu.source("move.cu")
    line = text[: text.index("const Place place")].count("\n") + 1
    with pytest.raises(RuntimeError, match=rf"move\.cu\({line}\): error: .*no_such_type"):
        compiled(nvrtc, headers, text.replace("const Place place", "no_such_type place"), "move.cu", ["move<int>"], 90)
