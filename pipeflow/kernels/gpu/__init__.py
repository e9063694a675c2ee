"""The CUDA kernels: their sources, and every instance of a template that the operators may launch.

A kernel is written once in CUDA C++ (``*.cu`` next to this file, shared pieces in ``*.cuh``) and named "file.cu:name<types>".
The lines "// instances:" of a file name the instances that may be launched: the checks without a device compile all of them and
run them on the host.
"""

from functools import cache
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent

# The C++ name of every element type.
TYPES = {
    np.dtype("bool"): "bool",
    np.dtype("uint8"): "unsigned char",
    np.dtype("int8"): "signed char",
    np.dtype("uint16"): "unsigned short",
    np.dtype("int16"): "short",
    np.dtype("uint32"): "unsigned int",
    np.dtype("int32"): "int",
    np.dtype("uint64"): "unsigned long long",
    np.dtype("int64"): "long long",
    np.dtype("float16"): "__half",
    np.dtype("float32"): "float",
    np.dtype("float64"): "double",
}

# The number of an element type in rows of descriptors: enum Type of elements.cuh.
TYPE_CODES = {dtype: code for code, dtype in enumerate(TYPES)}

# An unsigned type for every element size, for kernels that only move elements.
WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}

# The types that elementwise kernels compute with.
COMPUTED = ("int", "long long", "unsigned long long", "float", "double")

# The types of sums in reductions: of floats, signed and unsigned integers.
ACCUMULATED = ("double", "long long", "unsigned long long")

# The cases for which crop_mirror_normalize has its own kernels: input, output, number of interleaved channels.
NORMALIZED = [
    (source, target, channels)
    for source in ("uint8", "float32")
    for target in ("float32", "float16", "uint8", "int8")
    for channels in (1, 3)
]

# The types (input, output) for which resizes, rotations and warps have their own kernels.
RESIZED = [(source, target) for source in ("uint8", "float32") for target in ("uint8", "float32")]

# The types (input, output) for which casts have their own kernels.
CAST = [(source, target) for source in ("uint8", "float16", "float32") for target in ("uint8", "float16", "float32")]

# The words that stand for several types in a line of instances.
TYPE_SETS = {"WORD": tuple(WORDS.values()), "COMPUTED": COMPUTED, "ACCUMULATED": ACCUMULATED}


@cache
def instances_of(file: str) -> tuple[str, ...]:
    """The instances that the lines "// instances:" of a file name.

    ``name<a|b, WORD>`` stands for one instance of each combination; kernels are separated by semicolons.
    """
    found: list[str] = []
    for line in source(file).splitlines():
        if line.startswith("// instances: "):
            for kernel in line.removeprefix("// instances: ").split("; "):
                name, _, arguments = kernel.rstrip(">").partition("<")
                choices = [TYPE_SETS.get(text, text.split("|")) for text in arguments.split(", ")] if arguments else []
                found += [f"{name}<{', '.join(types)}>" if types else name for types in product(*choices)]
    return tuple(found)


def files() -> list[str]:
    """The kernel files."""
    return sorted(path.name for path in FOLDER.glob("*.cu"))


def instances() -> list[str]:
    """All instances, as "file.cu:name<types>"."""
    return [f"{file}:{name}" for file in files() for name in instances_of(file)]


def source(file: str) -> str:
    """The text of a kernel file."""
    return (FOLDER / file).read_text()


def __getattr__(name: str) -> Any:
    """Imports numba-cuda for the first pipeline that needs it."""
    if name != "numba_cuda":
        raise AttributeError(f"pipeflow has no GPU kernel module {name!r}")
    return import_module(f"{__name__}.numba_cuda")
