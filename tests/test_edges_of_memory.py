"""No operator reads or writes beside its arrays: every one runs where the next byte cannot be touched."""

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from generate_docs import examples, public

pytestmark = pytest.mark.usefixtures("elsewhere")

SCRIPT = Path(__file__).with_name("edges_of_memory.py")
EXAMPLES = [text for op in public() if op.factory is None and not op.nodes_only for text in examples(op)]
FILTERS = ["NN", "LINEAR", "CUBIC", "LANCZOS3", "TRIANGULAR", "GAUSSIAN"]
# Widths around those of the vector registers, shrunk and stretched, so that the last pixels are taken more than once.
RESIZES = [
    f"fn.resize({name}, size=({height}, {width}), interp_type=types.INTERP_{kind}, dtype=types.{dtype})"
    for name, (height, width), kind, dtype in product(
        ["image", "gray", "planes", "frames"], [(3, 5), (41, 61), (97, 181)], FILTERS, ["UINT8", "FLOAT"]
    )
] + [
    f"fn.crop_mirror_normalize({name}, crop=({height}, {width}), crop_pos_x={x}, crop_pos_y={x}, mirror={mirror}, "
    f"mean=[1.0], std=[2.0], dtype=types.{dtype}, output_layout='{layout}')"
    for name, (height, width), x, mirror, dtype, layout in product(
        ["image", "gray"],
        [(40, 60), (7, 13), (1, 1)],
        [0.0, 1.0],
        [0, 1],
        ["FLOAT", "FLOAT16", "UINT8"],
        ["CHW", "HWC"],
    )
]
WARPS = (
    [
        f"fn.warp_affine({name}, matrix=(0.9, 0.3, -4, -0.2, 1.1, 2), interp_type=types.INTERP_{kind}, size=({height}, {width}))"
        for name, kind, (height, width) in product(["image", "gray"], ["NN", "LINEAR"], [(40, 60), (55, 71)])
    ]
    + [
        f"fn.warp_affine({name}, matrix={matrix}, interp_type=types.INTERP_NN, size=(90, 140), fill_value=3)"  # long rows inside
        for name, matrix in product(
            ["image", "gray"], [(0.5, 0, 0, 0, 0.5, 0), (0.4, 0.1, -3, -0.1, 0.45, 5), (-0.5, 0, 60, 0, -0.5, 40)]
        )
    ]
)
SOUNDS = [
    f"fn.audio_resample({name}, scale={scale}, quality={quality})"
    for name, scale, quality in product(["signal", "stereo"], [0.5, 2.0, 0.73215, 1.31415], [0, 50, 100])
]


PARTS = {f"examples {start}": EXAMPLES[start : start + 60] for start in range(0, len(EXAMPLES), 60)}
PARTS |= {"images": RESIZES, "warps": WARPS, "sounds": SOUNDS}


@pytest.mark.timeout(600)  # without a cache the kernels of all operators are compiled first
@pytest.mark.parametrize("part", PARTS)
def test_no_operator_leaves_its_memory(part):
    """The inputs and the results of every call stand beside memory that ends the process when it is touched."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, SCRIPT],
        input="\n".join(PARTS[part]),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stdout.splitlines()[-1] if done.stdout else "before the first call"
    assert last == "all", f"ended with {done.returncode} in: {last}\n{done.stderr[-2000:]}"
