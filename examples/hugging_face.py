"""A Hugging Face data set in, torch tensors out: python examples/hugging_face.py

The data set is made on the spot; load_dataset("cifar10", split="train") gives one of the same kind.
"""

from pathlib import Path

import numpy as np

import pipeflow
from pipeflow import fn, types

try:
    import datasets
    from PIL import Image

    from pipeflow.plugin.pytorch import GenericIterator, LastBatchPolicy
except ModuleNotFoundError as missing:
    raise SystemExit(f"this example needs {missing.name}: pip install datasets pillow torch") from None


def pictures(count: int) -> datasets.Dataset:
    """Pictures of different sizes, each of one grey value, with a label."""
    images = [Image.fromarray(np.full((20 + n % 7, 30 + n % 5, 3), n, np.uint8)) for n in range(count)]
    columns = {"image": images, "label": [n % 3 for n in range(count)]}
    kinds = {"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog", "owl"])}
    return datasets.Dataset.from_dict(columns, datasets.Features(kinds))


def prepare(image, label):
    """What happens to every sample: the pipeline's operators on its columns."""
    image = fn.resize(image, size=[24, 24])
    return fn.crop_mirror_normalize(image, dtype=types.FLOAT, std=[255.0], mirror=fn.random.coin_flip()), label


def main() -> None:
    """Two epochs."""
    rows = pictures(100).with_format("numpy")
    pipe = pipeflow.from_torch_dataset(rows, batch_size=32, shuffle=True, transform=prepare, num_threads=2, seed=1)
    loader = GenericIterator(pipe, ["image", "label"], reader_name="dataset", last_batch_policy=LastBatchPolicy.PARTIAL)
    for epoch in range(2):
        seen = []
        for (batch,) in loader:
            seen += [round(255 * float(image.mean())) for image in batch["image"]]
        print(
            f"epoch {epoch + 1}: {len(loader)} batches, the last {tuple(batch['image'].shape)} of {batch['image'].dtype},",
            f"every picture once: {sorted(seen) == list(range(100))}",
        )
    target = Path(__file__).parent / "output" / "hugging_face.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    pipe.show(16, labels=1, names=["cat", "dog", "owl"], path=target)
    print(f"the first pictures: {target}")


if __name__ == "__main__":
    main()
