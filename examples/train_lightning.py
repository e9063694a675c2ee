"""Trains with Lightning from a pipeline, and goes on in the middle of an epoch: python examples/train_lightning.py

The data module makes one iterator. Lightning asks it for its state whenever it saves a checkpoint and gives it back when it
goes on from one, so nothing else is needed; on several processes every one reads its own shard.
"""

import argparse
import logging
import warnings
from pathlib import Path

import numpy as np

import pipeflow
from pipeflow import fn
from pipeflow.distributed import shard

try:
    import lightning
    import torch

    from pipeflow.plugin.pytorch import GenericIterator, LastBatchPolicy
except ModuleNotFoundError as missing:
    raise SystemExit(f"this example needs {missing.name}: pip install lightning") from None


class Blobs:
    """A data set made on the spot: points around one of three centres, and which one it was."""

    centres = np.array([[0, 0], [3, 0], [0, 3]], np.float32)

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        noise = np.random.default_rng(index).standard_normal(2, dtype=np.float32)
        return self.centres[index % 3] + noise, np.array(index % 3)


def jitter(point, label):
    """An augmentation: every point is moved a little, differently in each epoch."""
    return point + fn.random.normal(shape=[2], stddev=0.1), label


class Data(lightning.LightningDataModule):
    """The batches of a pipeline for Lightning's trainer."""

    def train_dataloader(self) -> GenericIterator:
        """One iterator for the whole training: its epochs follow each other."""
        pipe = pipeflow.from_torch_dataset(
            Blobs(), 64, shuffle=True, transform=jitter, num_threads=2, seed=1, **shard()
        )
        return GenericIterator(
            pipe, ["point", "label"], reader_name="dataset", last_batch_policy=LastBatchPolicy.PARTIAL
        )


class Classifier(lightning.LightningModule):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
        self.seen: list[float] = []

    def training_step(self, batches: list, number: int) -> torch.Tensor:
        """A batch is a list with one dictionary a pipeline."""
        (batch,) = batches
        self.seen.append(float(batch["point"].sum()))
        return torch.nn.functional.cross_entropy(self.layers(batch["point"]), batch["label"])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=3e-3)


def train(steps: int, goes_on_from: "str | None" = None, saves_to: "str | None" = None) -> Classifier:
    """A model trained for so many steps in all, from the beginning or from a checkpoint."""
    lightning.seed_everything(0, verbose=False)
    model = Classifier()
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=steps,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, datamodule=Data(), ckpt_path=goes_on_from)
    if saves_to is not None:
        trainer.save_checkpoint(saves_to)
    return model


def main() -> None:
    """Trains in one go and in two parts, and compares."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=40)
    arguments.add_argument("--stop-after", type=int, default=23, help="steps of the first part; an epoch has 16")
    arguments.add_argument("--checkpoint", type=Path, default=Path(__file__).parent / "output" / "train_lightning.ckpt")
    options = arguments.parse_args()
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")

    options.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    whole = train(options.steps)
    first = train(options.stop_after, saves_to=str(options.checkpoint))
    second = train(options.steps, goes_on_from=str(options.checkpoint))
    print(f"in one go {len(whole.seen)} batches, in parts {len(first.seen)} and {len(second.seen)}")
    print("in one go", "=" * len(whole.seen))
    print("in parts ", "=" * len(first.seen) + ">" * len(second.seen))
    print("the same batches:", first.seen + second.seen == whole.seen)
    equal = all(torch.equal(a, b) for a, b in zip(whole.parameters(), second.parameters()))
    print("the same weights:", equal)


if __name__ == "__main__":
    main()
