"""Makes drawn calls under pipeflow and under the real DALI, and says what differs.

`python tests/oracle/comparing_calls.py crop 17` shows call 17 of fn.crop; without a number, what differs in its first 500.
"""

import os
import pickle
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from calls_side import CRASHED

FOLDER = Path(__file__).parent
OURS, REAL = "pipeflow", "nvidia.dali"


def answers(library, python, calls, folder):
    """The answers to all calls; one that kills the process is answered by "crashed"."""
    questions, answer = Path(folder, "calls"), Path(folder, library)
    questions.write_bytes(pickle.dumps([vars(call) for call in calls]))
    answer.write_bytes(b"")
    roots = [FOLDER, FOLDER.parents[1], FOLDER.parents[1] / "tools"] if library == OURS else [FOLDER]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, roots))}
    command = [python, FOLDER / "calls_side.py", library, questions, answer]
    subprocess.run(
        command, env=environment, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    with answer.open("rb") as file:
        return [pickle.load(file) for _ in calls]


def both(calls, real_python=None, python=sys.executable):
    """The answers of pipeflow and of DALI to the same calls."""
    real_python = real_python or os.environ["PIPEFLOW_ORACLE_PYTHON"]
    with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs, ThreadPoolExecutor(2) as two:
        futures = [
            two.submit(answers, OURS, python, calls, ours),
            two.submit(answers, REAL, real_python, calls, theirs),
        ]
        return futures[0].result(), futures[1].result()


ROUNDED = (
    1e-2  # of the largest number: floats that differ by less, and whole numbers that differ by 1, are rounded otherwise
)


def raised(answer):
    return isinstance(answer, tuple)


def difference(ours, theirs, random=False, steps=0.0, relative=1e-4):
    """(kind, words) of what differs between two answers; None where nothing does."""
    if CRASHED in (ours, theirs):
        return (
            None
            if theirs == CRASHED and ours != CRASHED
            else ("crash", f"pipeflow: {ours!r:.200}, DALI: {theirs!r:.200}")
        )
    if raised(theirs):
        if not raised(ours):
            return "only DALI refuses", f"{theirs[0][0]}: {theirs[1][:200]}"
        if theirs[0][0] not in ours[0]:
            return "kind of exception", f"{theirs[0][0]}: {theirs[1][:200]} | {ours[0][0]}: {ours[1][:200]}"
        return None
    if raised(ours):
        return "only pipeflow refuses", f"{ours[0][0]}: {ours[1][:300]}"
    if len(ours) != len(theirs):
        return "outputs", f"{len(theirs)} in DALI, {len(ours)} here"
    for one, other in zip(ours, theirs):
        if one[0] != other[0]:
            return "type", f"{other[0]} in DALI, {one[0]} here"
        if one[1] != other[1]:
            return "layout", f"{other[1]!r} in DALI, {one[1]!r} here"
        shapes = [[x.shape for x in side[2]] for side in (one, other)]
        if shapes[0] != shapes[1] and not random:
            return "shape", f"{shapes[1]} in DALI, {shapes[0]} here"
        if random:
            if [len(x) for x in shapes[0]] != [len(x) for x in shapes[1]]:
                return "shape", f"{shapes[1]} in DALI, {shapes[0]} here"
            continue
        for mine, real in zip(one[2], other[2]):
            text = unequal(mine, real, steps, relative)
            if text:
                return "values" if unequal(mine, real, 1.0, ROUNDED) else "last digit", text
    return None


def unequal(mine, real, steps, relative):
    """How far two arrays of one type and shape are apart, or nothing."""
    if mine.dtype.kind in "SUO" or not mine.size:
        return "" if mine.tolist() == real.tolist() else f"{real!r:.80} in DALI, {mine!r:.80} here"
    if mine.dtype.kind in "biu":
        apart = np.abs(mine.astype(np.longdouble) - real.astype(np.longdouble))
        close = apart <= steps
    else:
        with np.errstate(all="ignore"):
            size = np.max(np.abs(real[np.isfinite(real)]), initial=1e-3)
            apart = np.abs(mine.astype(np.float64) - real)
            allowed = (2e-3 if mine.dtype == np.float16 else relative) * size
            close = (apart <= allowed) | (mine == real) | (np.isnan(mine) & np.isnan(real))
    if np.all(close):
        return ""
    at = tuple(np.argwhere(~close)[0])
    return f"{int(np.sum(~close))} of {mine.size} values, at {tuple(map(int, at))} {real[at]} in DALI, {mine[at]} here"


def show(name, number=None, count=500):
    """Prints one call and both answers, or the differences among the first calls of an operator."""
    from drawing import Drawer, operators

    op = next(op for op in operators() if op.name == name)
    drawer = Drawer(op)
    calls = [drawer.draw(number)] if number is not None else [drawer.draw(k) for k in range(count)]
    ours, theirs = both(calls)
    for call, mine, real in zip(calls, ours, theirs):
        found = difference(mine, real, op.random)
        if number is not None:
            sys.stdout.write(f"{call}\n  pipeflow: {mine}\n  DALI:     {real}\n")
        if found:
            sys.stdout.write(f"{call.number:5} {found[0]}: {str(call)[:300]}\n      {found[1]}\n")


if __name__ == "__main__":
    show(sys.argv[1], *map(int, sys.argv[2:3]))
