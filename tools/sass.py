"""The machine code of a kernel as nvdisasm prints it: its instructions, and what a round of its loops costs.

``nvdisasm`` needs no GPU: pip install nvidia-cuda-nvdisasm.
"""

import heapq
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z0-9_]+)([.\w]*)([^;]*);")
LABEL = re.compile(r"\.(L_x_\d+):")
TARGET = re.compile(r"`\(\.(L_x_\d+)\)")
GLOBAL_LOADS, GLOBAL_STORES = {"LDG"}, {"STG"}


def tool(name: str) -> str:
    """The path of a CUDA program: from its wheel, or from PATH."""
    found = sorted(Path(sys.prefix).glob(f"lib/python*/site-packages/nvidia/**/bin/{name}"))
    return str(found[0]) if found else name


@dataclass(frozen=True)
class Instruction:
    """One instruction: LDG, its modifiers (.E.128), whether it is guarded by a predicate, and the label that it jumps to."""

    name: str
    modifiers: str
    conditional: bool
    target: str

    @property
    def width(self) -> int:
        """The bytes of an access to memory."""
        found = re.search(r"\.[US]?(8|16|64|128)\b", self.modifiers)
        return int(found[1]) // 8 if found else 4


@dataclass(frozen=True)
class Round:
    """The cheapest way once around a loop that takes the widest accesses in it."""

    names: Counter[str]
    loaded: int  # bytes
    stored: int
    widest_load: int
    widest_store: int

    @property
    def instructions(self) -> int:
        """The number of instructions of a thread."""
        return self.names.total()


def functions_of(code: bytes) -> dict[str, list[str]]:
    """The lines of each function in a file of machine code."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code)
        file.flush()
        listing = subprocess.run([tool("nvdisasm"), "-c", file.name], capture_output=True, text=True, check=True).stdout
    return {
        name: text.splitlines()
        for name, text in re.findall(r"\.text\.(\S+):\n(.*?)(?=\n\s*\.section|\Z)", listing, re.DOTALL)
    }


def blocks_of(lines: Iterable[str]) -> tuple[list[list[Instruction]], list[list[int]]]:
    """The basic blocks of a function, in the order of the code, and the numbers of the blocks that may follow each."""
    blocks: list[list[Instruction]] = [[]]
    labels: dict[str, int] = {}
    for line in lines:
        label = LABEL.match(line.strip())
        if label:
            if blocks[-1]:
                blocks.append([])
            labels[label[1]] = len(blocks) - 1
        found = INSTRUCTION.search(line)
        if not found:
            continue
        guard, name, modifiers, operands = found.groups()
        target = TARGET.search(operands) if name == "BRA" else None
        # a branch may name a predicate among its operands
        conditional = bool(guard) or bool(name == "BRA" and re.match(r"\s*!?U?P\d", operands))
        blocks[-1].append(Instruction(name, modifiers, conditional, target[1] if target else ""))
        if name in ("BRA", "EXIT", "RET", "BRX"):
            blocks.append([])
    following: list[list[int]] = []
    for number, block in enumerate(blocks):
        last = block[-1] if block else None
        after = [labels[last.target]] if last and last.target else []
        ends = last is not None and last.name in ("BRA", "EXIT", "RET", "BRX") and not last.conditional
        if not ends and number + 1 < len(blocks):
            after.append(number + 1)
        following.append(after)
    return blocks, following


def _ways(
    start: int, blocks: list[list[Instruction]], following: list[list[int]], inside: set[int]
) -> dict[int, list[int]]:
    """The cheapest way from one block to each other one, without leaving some blocks: the blocks passed, ends included."""
    found: dict[int, list[int]] = {}
    waiting = [(len(blocks[start]), [start])]
    while waiting:
        cost, way = heapq.heappop(waiting)
        if way[-1] in found:
            continue
        found[way[-1]] = way
        for other in following[way[-1]]:
            if other in inside and other not in found:
                heapq.heappush(waiting, (cost + len(blocks[other]), [*way, other]))
    return found


def _moved(blocks: list[list[Instruction]], numbers: Iterable[int], names: set[str]) -> list[int]:
    return [one.width for number in numbers for one in blocks[number] if one.name in names]


def rounds_of(lines: Iterable[str]) -> list[Round]:
    """A round of each loop that reads device memory."""
    blocks, following = blocks_of(lines)
    found = []
    for end, after in enumerate(following):
        for start in [number for number in after if number <= end]:
            inside = set(range(start, end + 1))
            from_start = _ways(start, blocks, following, inside)
            if end not in from_start:
                continue
            loop = [number for number in from_start if end in _ways(number, blocks, following, inside)]
            loads, stores = _moved(blocks, loop, GLOBAL_LOADS), _moved(blocks, loop, GLOBAL_STORES)
            if not loads:
                continue
            names, widest = (GLOBAL_STORES, max(stores)) if stores else (GLOBAL_LOADS, max(loads))
            # the widest accesses, and of these blocks the one with the most
            best = max(loop, key=lambda number: _moved(blocks, [number], names).count(widest))
            way = {*from_start[best], *_ways(best, blocks, following, inside)[end]}
            loads, stores = _moved(blocks, way, GLOBAL_LOADS), _moved(blocks, way, GLOBAL_STORES)
            counted = Counter(one.name for number in way for one in blocks[number])
            found.append(Round(counted, sum(loads), sum(stores), max(loads, default=0), max(stores, default=0)))
    return found


def main_round(lines: Iterable[str]) -> Round:
    """A round of the loop that moves the data when all of it is aligned: it has the widest stores, and the most bytes of them."""
    return max(
        rounds_of(lines), key=lambda one: (one.widest_store, one.stored, one.widest_load, one.loaded, -one.instructions)
    )
