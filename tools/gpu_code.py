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

from pipeflow import backends
from pipeflow.backends import cuda_programs
from pipeflow.kernels import gpu as kernels

INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9_]+)(.*)")
LABEL = re.compile(r"\.(L_x_\d+):")


def tool(name: str) -> str:
    """The path of a CUDA program: from its wheel, or from PATH."""
    found = sorted(Path(sys.prefix).glob(f"lib/python*/site-packages/nvidia/**/bin/{name}"))
    return str(found[0]) if found else name


def loops_of(lines: list[str]) -> list[Counter[str]]:
    """The instructions of each loop that has no other one in it."""
    labels: dict[str, int] = {}
    body: list[str] = []
    ranges = []
    for line in lines:
        label = LABEL.match(line.strip())
        if label:
            labels[label[1]] = len(body)
        found = INSTRUCTION.search(line)
        if found:
            body.append(found[1])
            back = re.search(r"(L_x_\d+)", found[2])
            if found[1] == "BRA" and back and back[1] in labels:
                ranges.append((labels[back[1]], len(body)))
    inner = [
        one for one in ranges if not any(one != other and one[0] <= other[0] <= other[1] <= one[1] for other in ranges)
    ]
    return [Counter(body[begin:end]) for begin, end in inner if end - begin > 2]


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
                [tool("cuobjdump"), "-res-usage", code.name], capture_output=True, text=True, check=True
            )
            listing = subprocess.run([tool("nvdisasm"), "-c", code.name], capture_output=True, text=True, check=True)
        facts = dict(re.findall(r"Function (\S+):\s*\n\s*(.*)", usage.stdout + usage.stderr))
        texts = {
            part[0]: part[1] for part in re.findall(r"\.text\.(\S+):\n(.*?)(?=\n\s*\.section|\Z)", listing.stdout, re.S)
        }
        for name, lowered in made.lowered.items():
            numbers = dict(re.findall(r"(REG|STACK|SHARED):(\d+)", facts[lowered]))
            lines = texts[lowered].splitlines()
            counts = Counter(found[1] for found in map(INSTRUCTION.search, lines) if found)
            shown = " ".join(f"{key} {counts[key]}" for key in ("LDG", "LD", "STG", "ST", "LDL", "STL", "IMAD", "FFMA"))
            print(
                f"{file} {name}: {' '.join(f'{k} {v}' for k, v in numbers.items())} instructions {counts.total()} {shown}"
            )
            for loop in loops_of(lines):
                print(f"    a loop of {loop.total()}: {dict(loop.most_common(8))}")


if __name__ == "__main__":
    main()
