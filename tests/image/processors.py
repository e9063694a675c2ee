"""A program that tests run for other processors: `digest` prints what kernels return, `machines` what code they become.

The processor is chosen by NUMBA_CPU_NAME and NUMBA_CPU_FEATURES, which Numba reads when it is imported.
"""

import hashlib
import json
import re
import sys
from types import SimpleNamespace

import numpy as np
from decoders.jpeg_files import SAMPLINGS, encoded, photograph
from llvmlite import binding
from numba.core import codegen

from pipeflow.kernels.cpu import everyday, fused, jpeg, jpeg_forward, jpeg_progressive, normalize, resample
from pipeflow.kernels.cpu.simd import instructions

FACTORS = np.array([110.0, 120.0, 130.0], np.float32), np.array([0.017, 0.018, 0.019], np.float32)


def resized(rng, dtype):
    image = rng.integers(0, 256, (61, 83, 3), np.uint8)
    taps = [resample.axis_taps(n, 0.0, float(n), full, everyday.TRIANGULAR, True) for n, full in ((61, 40), (83, 97))]
    out = np.zeros((3, 40, 97), dtype)
    return fused.resample_normalize(image, *taps, *FACTORS, 0.1, True, out, True)


def cut(rng, dtype):
    image = rng.integers(0, 256, (61, 83, 3), np.uint8)
    out = np.zeros((3, 40, 50), dtype)
    return normalize.normalize_window(image, False, 3, 5, True, *FACTORS, 0.1, out, True)


def decoded(_rng, _dtype):
    for number, sampling in enumerate(SAMPLINGS):
        file = np.frombuffer(encoded(photograph(53, 71, number), sampling, restart=number % 3), np.uint8)
        for window in ((0, 0, 53, 71), (7, 9, 21, 37)):
            size = (53, 71, 1 if sampling == "gray" else 3)
            out = np.zeros((*window[2:], 3), np.uint8)
            assert jpeg.decode(file, size, "RGB", window, 53, out)
            yield out


def progressive(_rng, _dtype):
    for number, sampling in enumerate(SAMPLINGS):
        data = encoded(photograph(53, 71, number), sampling, restart=number % 3, progressive=True)
        for window in ((0, 0, 53, 71), (7, 9, 21, 37)):
            size = (53, 71, 1 if sampling == "gray" else 3)
            out = np.zeros((*window[2:], 3), np.uint8)
            assert jpeg_progressive.decode(np.frombuffer(data, np.uint8), size, "RGB", window, out)
            yield out


def compressed(_rng, _dtype):
    for quality in (10, 50, 95):
        out = np.zeros((53, 71, 3), np.uint8)
        assert jpeg_forward.distort(photograph(53, 71), quality, out)
        yield out


WORK = {"resized": resized, "cut": cut, "decoded": decoded, "progressive": progressive, "compressed": compressed}


def digest(names):
    """The digest of the results of each kind of work."""
    found = {}
    for name in names:
        results = WORK[name](np.random.default_rng(0), np.float32)
        results = [results] if isinstance(results, np.ndarray) else list(results)
        found[name] = hashlib.sha256(b"".join(one.tobytes() for one in results)).hexdigest()[:16]
    return found


KERNELS = {
    "resized": "resample_to_planes",
    "cut": "to_planes",
    "decoded": "decode_image",
    "progressive": "decode_progressive",
    "compressed": "distort_image",
}
TOGETHER = {"fmadd", "fmsub", "fnmadd", "fnmsub", "fmla", "fmls", "vfmadd132ps", "vfmadd213ps", "vfmadd231ps"}


def captured(names):
    """The code of the kernels as LLVM has optimised it, before it is made into instructions of this processor."""
    finalize, found = codegen.JITCodeLibrary._finalize_final_module, {}

    def keep(library):
        for name in names:
            if f"{KERNELS[name]}[" in library.name or library.name == KERNELS[name]:
                found[name] = str(library._final_module)
        finalize(library)

    codegen.JITCodeLibrary._finalize_final_module = keep
    digest(names)
    codegen.JITCodeLibrary._finalize_final_module = finalize
    return found


def instructions_of(machine, code):
    """The names of the instructions that the code becomes on a machine."""
    code = re.sub(r"^target (triple|datalayout) = .*$", "", code, flags=re.MULTILINE)
    code = re.sub(r'"target-(cpu|features)"="[^"]*"', "", code)
    # Numba's counters of references are written for x86 already; elsewhere they would be other functions.
    code = code.replace("@llvm.x86.atomic", "@counter")
    parsed = binding.parse_assembly(f'target triple = "{machine.triple}"\n{code}')
    parsed.data_layout = str(machine.target_data)
    lines = machine.emit_assembly(parsed).splitlines()
    return [line.split()[0] for line in lines if line.startswith("\t") and not line.startswith("\t.")]


def machines(names):
    """For arm64 and a newer processor of Intel: how many instructions, and how many that round a product and sum together."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    instructions.binding = SimpleNamespace(get_process_triple=lambda: "aarch64-unknown-linux-gnu")
    found = {}
    for name, code in captured(names).items():
        for triple, cpu in (("aarch64-unknown-linux-gnu", "generic"), ("x86_64-unknown-linux-gnu", "haswell")):
            machine = binding.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=2)
            words = instructions_of(machine, code)
            found[f"{name} {cpu}"] = len(words), sum(word in TOGETHER for word in words)
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"digest": digest, "machines": machines}[sys.argv[1]](sys.argv[2:])))
