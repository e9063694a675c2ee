"""The compiled code of the CUDA kernels: registers, stack, instructions and loops of each instance; it needs no GPU.

    python tools/gpu_code.py move.cu warp.cu [--architecture 90]

Needs CuPy with NVRTC, and cuobjdump and nvdisasm: pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import sass

from pipeflow import backends
from pipeflow.backends import cuda_programs
from pipeflow.kernels import gpu as kernels


def main() -> None:
    """Prints a line for each instance, and one for each of its loops."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--architecture", type=int, default=90)
    options = parser.parse_args()
    for file in options.files:
        names = kernels.instances_of(file)
        made = cuda_programs.compiled(
            backends.gpu.cupy.cuda.nvrtc,
            file,
            kernels.source(file),
            names,
            options.architecture,
            backends.gpu.headers_folder(),
        )
        with tempfile.NamedTemporaryFile(suffix=".cubin") as code:
            code.write(made.code)
            code.flush()
            usage = subprocess.run(
                [sass.tool("cuobjdump"), "-res-usage", code.name], capture_output=True, text=True, check=True
            )
        facts = dict(re.findall(r"Function (\S+):\s*\n\s*(.*)", usage.stdout + usage.stderr))
        texts = sass.functions_of(made.code)
        for name, lowered in made.lowered.items():
            numbers = dict(re.findall(r"(REG|STACK|SHARED):(\d+)", facts[lowered]))
            counts = Counter(one.name for block in sass.blocks_of(texts[lowered])[0] for one in block)
            shown = " ".join(f"{key} {counts[key]}" for key in ("LDG", "LD", "STG", "ST", "LDL", "STL", "IMAD", "FFMA"))
            print(
                f"{file} {name}: {' '.join(f'{k} {v}' for k, v in numbers.items())} instructions {counts.total()} {shown}"
            )
            for one in sass.rounds_of(texts[lowered]):
                most = dict(one.names.most_common(8))
                print(f"    a round of {one.instructions} loads {one.loaded} bytes, stores {one.stored}: {most}")


if __name__ == "__main__":
    main()
