"""The compiled code keeps its numbers in registers, and leaves room for enough threads."""

import pytest
import sass
from machine_code import accesses_of, facts_of
from nvrtc_compiler import ARCHITECTURES, compiled

from pipeflow.kernels import gpu

# Registers of a thread above which fewer than two blocks of 256 threads fit on a multiprocessor of 65536.
MOST_REGISTERS = 128
# Kernels that call functions of their own, or of the library, have a frame for the return; those of loops over data have none.
WITHOUT_STACK = {"move.cu", "transpose.cu", "arithmetic.cu", "warp.cu", "filter.cu", "debayer.cu"}
WITHOUT_STACK |= {"crop_mirror_normalize.cu", "resize_tiles.cu"}
# With some numbers in memory, more blocks fit into a multiprocessor of an H100: measured, that is 6 % and 10 % faster.
FEWER_REGISTERS = {"warp.cu", "resize_tiles.cu"}

# The figures are those of the H200 and of the oldest GPUs. The compiler arranges code for the others a little differently, and
# unrolls more loops of long kernels.
MEASURED = (75, 90)
MARGIN, MARGIN_OF_LENGTH = 1.15, 1.3


def most(figure, architecture, margin=MARGIN):
    """The limit of a figure for an architecture."""
    return figure if architecture in MEASURED else figure * margin


# Kernels whose accesses name their memory: registers and instructions that they may have, and the widths of vectors in bytes that
# their loads and stores must have.
TUNED = {
    "cast.cu": {
        "cast_values<unsigned char, float>": (64, 450, {"LDG": 4, "STG": 16}),
        "cast_values<float, unsigned char>": (64, 550, {"LDG": 16, "STG": 4}),
        "cast_values<unsigned char, __half>": (64, 550, {"LDG": 8, "STG": 16}),
        "line_values<unsigned char, unsigned char>": (64, 1300, {"LDG": 16, "STG": 16}),
        "line_values<float, float>": (64, 450, {"LDG": 16, "STG": 16}),
    },
    "color.cu": {
        "color_pixels<unsigned char, unsigned char, 3, 3>": (64, 1300, {"LDG": 4, "STG": 4}),
        "color_pixels<float, float, 3, 3>": (64, 1300, {"LDG": 16, "STG": 16}),
    },
    "crop_mirror_normalize.cu": {
        "normalize_pixels<unsigned char, float, 3>": (64, 700, {"LDG": 4, "STG": 16}),
        "normalize_pixels<unsigned char, __half, 3>": (64, 750, {"LDG": 4, "STG": 8}),
    },
    "resize_tiles.cu": {
        "resize_tiles<unsigned char, unsigned char, 3>": (80, 1400, {"LDG": 4}),
        "resize_normalize<unsigned char, float>": (80, 1500, {"LDG": 4}),
    },
    "transpose.cu": {
        "transpose<unsigned char>": (64, 850, {"STG": 4}),
        "split_pixels<unsigned char>": (56, 600, {"LDG": 4, "STG": 4}),
        "split_pixels<unsigned int>": (56, 600, {"LDG": 16, "STG": 16}),
        "join_pixels<unsigned char>": (56, 600, {"LDG": 4, "STG": 4}),
    },
    "arithmetic.cu": {
        "arithmetic_values<float, float, float>": (64, 3200, {"LDG": 16, "STG": 16}),
        "arithmetic_values<unsigned char, float, float>": (64, 3200, {"LDG": 16, "STG": 16}),
        "arithmetic_values<unsigned char, unsigned char, unsigned char>": (64, 3200, {"LDG": 16, "STG": 16}),
    },
    "move.cu": {"move<Three>": (64, 1500, {"STG": 4}), "move_runs<unsigned char>": (64, 1700, {"LDG": 16, "STG": 16})},
    "spans.cu": {
        "span<unsigned char, 3, 4>": (64, 1300, {"LDG": 4}),
        "span<float, 1, 3>": (64, 1000, {"LDG": 16}),
        "span<float, 3, 1>": (64, 1300, {"LDG": 16}),
    },
    "filter.cu": {"blur<unsigned char, unsigned char>": (64, 2000, {})},
    "warp.cu": {"warp<unsigned char, unsigned char>": (80, 1900, {})},
    "reduce.cu": {
        "sum_span<unsigned char, 3, 1>": (64, 1500, {"LDG": 4}),
        "normalize_span<unsigned char, 3>": (64, 800, {"LDG": 4, "STG": 16}),
        "normalize_span<float, 1>": (64, 800, {"LDG": 16, "STG": 16}),
        "sum_span<float, 1, 2>": (64, 1800, {"LDG": 16}),
    },
}

# The main loop of a kernel: how many values a thread makes in a round, and how many instructions it may need for each.
ROUNDS = {
    "transpose.cu": {
        "transpose<unsigned char>": (16, 6.5),
        "transpose<unsigned int>": (4, 14),
        "transpose<Three>": (4, 20),
        "split_pixels<unsigned char>": (12, 6.7),
        "split_pixels<unsigned int>": (12, 6.3),
        "join_pixels<unsigned char>": (12, 6.7),
    },
    "arithmetic.cu": {
        "arithmetic_values<float, float, float>": (12, 3.4),
        "arithmetic_values<unsigned char, float, float>": (12, 5.5),
        "arithmetic_values<unsigned char, unsigned char, unsigned char>": (48, 3.7),
        "arithmetic_values<float, float, bool>": (12, 5.0),
    },
    "cast.cu": {
        "cast_values<unsigned char, float>": (16, 4.5),
        "cast_values<float, unsigned char>": (16, 6.2),
        "cast_values<float, __half>": (16, 3.5),
        "line_values<unsigned char, unsigned char>": (64, 10.2),
        "line_values<float, float>": (16, 4.0),
    },
    "crop_mirror_normalize.cu": {
        "normalize_pixels<unsigned char, float, 3>": (12, 16),
        "normalize_pixels<unsigned char, __half, 3>": (12, 18),
    },
    "color.cu": {
        "color_pixels<unsigned char, unsigned char, 3, 3>": (24, 11),
        "color_pixels<float, float, 3, 3>": (24, 5),
    },
    "move.cu": {"move<Three>": (12, 8.5)},
    "reduce.cu": {"normalize_span<float, 1>": (8, 7.5), "normalize_span<unsigned char, 3>": (12, 8)},
}

# Loops over weights: how many of which products a round has, the most instructions for one, and the slow ones that it has not.
PRODUCTS = {
    "resize_tiles.cu": {
        "resize_tiles<unsigned char, unsigned char, 3>": ("FMUL", 16, 48, 0, 7.7, {"I2F"}),
        "resize_normalize<unsigned char, float>": ("FMUL", 16, 48, 0, 7.7, {"I2F"}),
    }
}


@pytest.mark.parametrize("file", PRODUCTS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_instructions_for_a_product(compilations, file, architecture):
    """The rows that a resize blends: without branches, in few instructions."""
    names, future = gpu.instances_of(file), compilations.get((file, architecture))
    code, lowered = compiled(gpu.source(file), file, names, architecture) if future is None else future.result()
    functions = sass.functions_of(code)
    for name, (product, count, loaded, stored, figure, absent) in PRODUCTS[file].items():
        rounds = [
            one
            for one in sass.rounds_of(functions[lowered[names.index(name)]])
            if (one.names[product], one.loaded, one.stored) == (count, loaded, stored)
        ]
        assert rounds, name
        for one in rounds:
            assert one.instructions / count <= most(figure, architecture), (name, one)
            assert sum(one.names[other] for other in absent) <= (absent == {"BRA"}), (name, one)


@pytest.mark.parametrize("file", ROUNDS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_instructions_for_a_value(compilations, file, architecture):
    """The loops over values of common types stay short."""
    names, future = gpu.instances_of(file), compilations.get((file, architecture))
    code, lowered = compiled(gpu.source(file), file, names, architecture) if future is None else future.result()
    functions = sass.functions_of(code)
    for name, (values, figure) in ROUNDS[file].items():
        found = sass.main_round(functions[lowered[names.index(name)]])
        assert found.stored, name
        assert found.instructions / values <= most(figure, architecture), (name, found)


@pytest.mark.parametrize("file", TUNED)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_accesses_to_memory(compilations, file, architecture):
    """Kernels for common types read and write vectors, in memory that the instructions name, and stay short."""
    names, future = gpu.instances_of(file), compilations.get((file, architecture))
    code, lowered = compiled(gpu.source(file), file, names, architecture) if future is None else future.result()
    facts = facts_of(code)
    for name, (most_registers, most_instructions, widths) in TUNED[file].items():
        shown = lowered[names.index(name)]
        accesses, instructions = accesses_of(code, shown)
        assert {access for access, _ in accesses} <= {"LDG", "STG"}, name
        assert facts[shown][0] <= most_registers, name
        assert instructions <= most(most_instructions, architecture, MARGIN_OF_LENGTH), (name, instructions)
        for access, width in widths.items():
            assert accesses[access, width], (name, access, accesses)


@pytest.mark.parametrize("file", gpu.files())
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_registers_and_stack(compilations, file, architecture):
    """No instance needs more registers than two blocks have, and the kernels over images use no memory of a thread."""
    names, future = gpu.instances_of(file), compilations.get((file, architecture))
    code, lowered = compiled(gpu.source(file), file, names, architecture) if future is None else future.result()
    facts = facts_of(code)
    for name, shown in zip(names, lowered, strict=True):
        registers, stack = facts[shown]
        assert 0 < registers <= MOST_REGISTERS, f"{name} has {registers} registers"
        allowed = 64 if file in FEWER_REGISTERS and architecture >= 80 else 0
        assert file not in WITHOUT_STACK or stack <= allowed, f"{name} has {stack} bytes of stack"
