"""Trains a colour transform that is a step of the pipeline: python examples/learnable_color.py [--picture learnable_color.png]

A camera with a colour cast took the pictures. The transform (a gain and a gamma for each channel and a matrix that mixes them)
is a torch module which the pipeline calls; with differentiable=True the loss of the training loop reaches its parameters. The
picture shows what the transform makes of the camera's pictures before and after training, and how they should look.
"""

import argparse
from pathlib import Path
from time import perf_counter

import numpy as np

from pipeflow import fn, pipeline_def, types

try:
    import torch
    from PIL import Image

    from pipeflow.plugin.pytorch import GenericIterator, as_tensor
except ModuleNotFoundError as missing:
    raise SystemExit(f"this example needs {missing.name}: pip install torch pillow") from None

SIDE = 64
ROWS, COLUMNS = np.mgrid[0:SIDE, 0:SIDE] / SIDE
CAST = np.array([[0.80, 0.25, 0.05], [0.10, 0.60, 0.10], [0.00, 0.15, 0.45]])  # red and green leak, blue is weak


def scene(sample):
    """A picture of a sky, a meadow and balls of all colours."""
    rng = np.random.default_rng(sample.idx_in_epoch)
    image = np.where((rng.uniform(0.4, 0.7) < ROWS)[..., None], [0.25, 0.65, 0.2], [0.45, 0.65, 0.95])
    for _ in range(6):
        row, column, radius = rng.uniform(0, 1), rng.uniform(0, 1), rng.uniform(0.08, 0.2)
        distance = np.hypot(ROWS - row, COLUMNS - column) / radius
        light = np.clip(1.2 - distance, 0.3, 1)[..., None]
        image = np.where((distance < 1)[..., None], rng.uniform(0, 1, 3) * light, image)
    return image.astype(np.float32)


def camera(image, rng):
    """What the camera makes of it: channels that leak into each other, another gamma, and noise."""
    seen = np.clip(image @ CAST.T, 0, 1) ** 1.4
    return np.clip(seen + rng.normal(0, 0.01, seen.shape), 0, 1).astype(np.float32)


class ColourTransform(torch.nn.Module):
    """Gamma, gain and a mixing matrix; to begin with it changes nothing."""

    def __init__(self):
        super().__init__()
        self.log_gamma = torch.nn.Parameter(torch.zeros(3))
        self.log_gain = torch.nn.Parameter(torch.zeros(3))
        self.matrix = torch.nn.Parameter(torch.eye(3))

    def forward(self, image):
        """One picture, HWC."""
        linear = (image + 1e-4) ** self.log_gamma.exp() * self.log_gain.exp()
        return linear @ self.matrix.T


def pipeline_of(transform, batch_size):
    """Scenes, what the camera saw, and what the transform makes of that."""

    @pipeline_def(batch_size=batch_size, num_threads=2, seed=7, exec_async=False, prefetch_queue_depth=1)
    def definition():
        wanted = fn.external_source(scene, batch=False, dtype=types.FLOAT, layout="HWC")
        wanted = fn.flip(wanted, horizontal=fn.random.coin_flip())
        seen = fn.python_function(wanted, function=camera, output_layouts="HWC")
        made = fn.py_function(transform, [seen], np.float32, differentiable=True)
        return seen, made, wanted

    return definition()


def picture(rows):
    """Rows of pictures, one below the other, with a line between them."""
    line = np.full((4, 2 * SIDE * len(rows[0]), 3), 255, np.uint8)
    strips = [np.concatenate(list((np.clip(row, 0, 1) * 255).astype(np.uint8)), axis=1) for row in rows]
    return np.concatenate([part for strip in strips for part in (strip.repeat(2, 0).repeat(2, 1), line)][:-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--picture", type=Path, default=Path(__file__).parent / "output" / "learnable_color.png")
    options = parser.parse_args()

    torch.manual_seed(0)
    transform = ColourTransform()
    with torch.no_grad():  # without gradients: to look at it only
        seen, before, wanted = [as_tensor(batch)[:6].numpy() for batch in pipeline_of(transform, 8).run()]

    loader = GenericIterator(pipeline_of(transform, 8), ["seen", "made", "wanted"], size=8 * options.steps)
    optimizer = torch.optim.Adam(transform.parameters(), lr=0.03)
    begun = perf_counter()
    losses = []
    for (batch,) in loader:
        loss = torch.nn.functional.mse_loss(batch["made"], batch["wanted"])
        optimizer.zero_grad()
        loss.backward()  # through the pipeline's function, to the parameters of the transform
        optimizer.step()
        losses.append(loss.item())
    print(f"{options.steps} steps in {perf_counter() - begun:.1f} s: loss {losses[0]:.4f}, at the end {losses[-1]:.4f}")

    with torch.no_grad():
        after = torch.stack([transform(torch.from_numpy(image)) for image in seen]).numpy()
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture([before, after, wanted])).save(options.picture)
    print(f"before, after and wanted: {options.picture}")


if __name__ == "__main__":
    main()
