"""A picture of each operator, from the example of its declaration: what it makes, its code, and its time.

The examples are calls over the arrays of tools/example_data.py. Here the image is a drawn scene, and what belongs to it, such
as masks, planes and frames, is made from it.
"""

import contextlib
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import example_data
import numpy as np
from generate_docs import examples, public, subject

import pipeflow
import pipeflow.operators
from pipeflow import fn, tfrecord, types

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from augmentation_gallery import SCENE

ROUNDS = 5
HEAD = """
## A picture an operator

Each card is the first example of an operator's declaration, run on one sample when this page was built: what it makes, its
code, and its time (the median of five calls outside of a pipeline, on one thread). The title leads to its arguments.

::::{grid} 2 2 3 3
:gutter: 2

"""


def arrays() -> dict[str, Any]:
    """The arrays of the examples, with the scene as the image."""
    rows, columns = np.mgrid[: SCENE.shape[0], : SCENE.shape[1]]
    red, green, blue = (SCENE[..., channel] for channel in range(3))
    bayer = np.where(rows % 2, np.where(columns % 2, blue, green), np.where(columns % 2, green, red))
    frames = np.stack([SCENE, np.roll(SCENE, 20, 1), np.roll(SCENE, 40, 1)])
    made = {
        "image": SCENE,
        "gray": SCENE[..., 1:2].copy(),
        "plane": SCENE[..., 1].copy(),
        "planes": SCENE.transpose(2, 0, 1).copy(),
        "frames": frames,
        "frame_planes": frames.transpose(0, 3, 1, 2).copy(),
        "volume": frames,
        "mask": (rows > columns).astype(np.int32)[..., None],
        "bayer": bayer,
    }
    return {**example_data.arrays(), **made}


def cards(folder: Path) -> str:
    """The cards of all operators whose example can be called outside of a pipeline; the pictures go into the folder."""
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as place,
        contextlib.chdir(place),
    ):  # fn.dump_image writes into the current folder
        return _cards(folder)


def _cards(folder: Path) -> str:
    names = {"fn": fn, "types": types, "tfrecord": tfrecord, "np": np}
    parts = [HEAD]
    for operator in public():
        name = operator.name
        code = next((text for text in examples(operator) if "\n" not in text), "")
        if not code or operator.factory is not None:
            continue  # it makes nodes, and has no example of its own
        picture = folder / f"{name}.png"
        try:
            seconds = drawn(code, {**names, **arrays()}, picture)
        except Exception:  # the sizes in it are those of the small image
            try:
                seconds = drawn(code, {**names, **example_data.arrays()}, picture)
            except Exception as error:
                print(f"{name} has no picture: {type(error).__name__}: {error}".splitlines()[0])
                continue
        page = f"operators/{subject(operator)}"
        parts.append(
            f":::{{grid-item-card}} {name}\n:link: {page}\n:link-type: doc\n\n![{name}](gallery/{name}.png)\n\n"
            f"`{code}`\n\n{1e3 * seconds:.2f} ms\n:::\n\n"
        )
    return "".join([*parts, "::::\n"])


def drawn(code: str, known: dict[str, Any], path: Path) -> float:
    """Saves the picture of a call, and returns its time in seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = eval(code, dict(known))
        spent = []
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            eval(code, dict(known))
            spent.append(time.perf_counter() - begun)
        pipeflow.show(**shown(made)).save(path)
    return sorted(spent)[ROUNDS // 2]


def shown(made: Any) -> dict[str, Any]:
    """The first sample of a result, with its layout if it is known."""
    value = made[0] if isinstance(made, (tuple, list)) else made
    return {"data": [np.asarray(value)], "n": 1}


if __name__ == "__main__":
    target = Path(sys.argv[1])
    print(cards(target))
