"""A data set in place of DataLoader's, with operators over its items: python examples/data_loader.py --picture sheet.png

A Dataset draws polygons with Pillow, in two worker processes; operators turn, colour and resize them in threads. The loop is
left in the middle of an epoch and goes on there. The picture has a row for each batch.
"""

import argparse
import random
from pathlib import Path

import numpy as np

import pipeflow
from pipeflow import fn

try:
    from PIL import Image, ImageDraw
except ModuleNotFoundError as missing:
    raise SystemExit(f"this example needs {missing.name}: pip install pillow") from None

COLUMNS = 8


class Polygons:
    """Polygons of 3 to 6 corners; what it draws at random depends on the loader's seed alone."""

    def __len__(self) -> int:
        return 4 * COLUMNS

    def __getitem__(self, index: int) -> dict:
        corners = 3 + index % 4
        image = Image.new("RGB", (90 + index, 120), "white")
        middle, radius = (45 + index / 2, 60), random.uniform(25, 40)
        color = tuple(random.choices(range(40, 220), k=3))
        ImageDraw.Draw(image).regular_polygon((middle, radius), corners, random.uniform(0, 360), fill=color)
        return {"image": image, "corners": corners, "name": f"polygon {index}"}


def prepare(item: dict) -> dict:
    """What happens to every item."""
    image = fn.resize(item["image"], size=[96, 96])
    image = fn.rotate(image, angle=fn.random.uniform(range=(-30, 30)), fill_value=255, keep_size=True)
    return {**item, "image": fn.hsv(image, hue=fn.random.uniform(range=(0, 60)))}


def make() -> pipeflow.loading.transformed.TransformedLoader:
    """The loader; every one of them gives the same batches."""
    return pipeflow.loader(
        Polygons(), COLUMNS, shuffle=True, seed=5, num_workers=2, transform=prepare, num_threads=2, framework="numpy"
    )


def main() -> None:
    """One epoch in two parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", type=Path, default=Path(__file__).parent / "output" / "data_loader.png")
    picture = parser.parse_args().picture
    rows = []
    first = make()
    for number, batch in enumerate(first):
        print(f"batch {number}: {batch['corners'].tolist()} corners, {', '.join(batch['name'][:2])}, ...")
        rows.append(batch["image"])
        if number == 1:
            state = first.state_dict()
            break
    first.close()
    second = make()
    second.load_state_dict(state)
    for number, batch in enumerate(second, 2):
        print(f"batch {number}: {batch['corners'].tolist()} corners, {', '.join(batch['name'][:2])}, ...")
        rows.append(batch["image"])
    second.close()
    sheet = np.concatenate([np.concatenate(list(row), axis=1) for row in rows])
    picture.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(sheet).save(picture)
    print(f"picture: {picture}")


if __name__ == "__main__":
    main()
