"""Trains a small torch model from a pipeline, and goes on where it stopped: python examples/train_torch.py

Press Ctrl-C at any time and start it again: it continues with the very next batch. With torchrun every process
takes its own shard: torchrun --nproc-per-node 2 examples/train_torch.py
"""

import argparse
from pathlib import Path

import numpy as np

import pipeflow
from pipeflow import fn
from pipeflow.distributed import shard

try:
    import torch

    from pipeflow.plugin.pytorch import GenericIterator, LastBatchPolicy
except ModuleNotFoundError as missing:
    raise SystemExit(f"this example needs {missing.name}: pip install torch") from None


class Blobs:
    """A data set made on the spot: points around one of three centres, and which one it was."""

    centres = np.array([[0, 0], [3, 0], [0, 3]], np.float32)

    def __len__(self) -> int:
        return 3000

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        noise = np.random.default_rng(index).standard_normal(2, dtype=np.float32)
        return self.centres[index % 3] + noise, np.array(index % 3)


def jitter(point, label):
    """An augmentation: every point is moved a little, differently in each epoch."""
    return point + fn.random.normal(shape=[2], stddev=0.1), label


def chart(model: torch.nn.Module) -> str:
    """The plane from (-2, -2) to (5, 5), with the class that the model gives each place, and the centres as numbers."""
    across, up = np.linspace(-2, 5, 48, dtype=np.float32), np.linspace(5, -2, 18, dtype=np.float32)
    places = np.stack(np.meshgrid(across, up), -1).reshape(-1, 2)
    with torch.no_grad():
        classes = model(torch.from_numpy(places)).argmax(1).numpy().reshape(18, 48)
    letters = np.array(list(".+o"))[classes]
    for number, (x, y) in enumerate(Blobs.centres):
        letters[abs(up - y).argmin(), abs(across - x).argmin()] = str(number)
    return "\n".join("".join(row) for row in letters)


def main() -> None:
    """Trains; prints the loss of each epoch."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--epochs", type=int, default=3)
    state = Path(__file__).parent / "output" / "train_torch.pt"
    arguments.add_argument("--state", type=Path, default=state, help="where model and data are saved")
    arguments.add_argument("--save-every", type=int, default=10, help="batches between two saves")
    arguments.add_argument("--stop-after", type=int, default=0, help="interrupt after so many batches, as Ctrl-C would")
    options = arguments.parse_args()

    pipe = pipeflow.from_torch_dataset(
        Blobs(), batch_size=64, shuffle=True, transform=jitter, num_threads=2, seed=1, **shard()
    )
    loader = GenericIterator(
        pipe, ["point", "label"], reader_name="dataset", last_batch_policy=LastBatchPolicy.PARTIAL, mask="valid"
    )
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    options.state.parent.mkdir(parents=True, exist_ok=True)
    if options.state.exists():
        saved = torch.load(options.state, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["data"])
        print(f"continuing in epoch {loader.loop.at.epoch + 1} after batch {loader.loop.at.step} of {len(loader)}")

    def save() -> None:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "data": loader.state_dict()}
        torch.save(state, options.state)

    batches = 0
    try:
        while loader.loop.at.epoch < options.epochs:
            total = 0.0
            for (batch,) in loader:
                loss = torch.nn.functional.cross_entropy(
                    model(batch["point"])[batch["valid"]], batch["label"][batch["valid"]]
                )
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
                batches += 1
                if batches % options.save_every == 0:
                    save()
                if batches == options.stop_after:
                    raise KeyboardInterrupt
            print(f"epoch {loader.loop.at.epoch + 1}: loss of the last batch {loss.item():.3f}")
            loader.reset()
    except KeyboardInterrupt:
        print(f"stopped in epoch {loader.loop.at.epoch + 1} after batch {loader.loop.at.step}; start again to continue")
    save()
    print(chart(model))


if __name__ == "__main__":
    main()
