"""Augmentations of other libraries inside a pipeline, as they are: albumentations, torchvision and kornia.

Each part is left out where its library is not installed: pip install albumentations torchvision kornia
"""

import importlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

import pipeflow
from pipeflow import Spec, fn, pipeline_def

IMAGE = Spec(np.uint8, (64, 64, 3), "HWC")


def picture(info) -> np.ndarray:
    """A drawn picture: a disc on a gradient."""
    y, x = np.mgrid[0:64, 0:64]
    disc = (x - 20 - info.idx_in_epoch) ** 2 + (y - 30) ** 2 < 200
    return np.stack([4 * x, 4 * y, 255 * disc], -1).astype(np.uint8)


def with_albumentations() -> Callable:
    """A function of NumPy arrays whose randomness is the pipeline's: the same pictures on every run."""
    albumentations = importlib.import_module("albumentations")
    transform = albumentations.Compose(
        [albumentations.HorizontalFlip(p=0.5), albumentations.RandomBrightnessContrast(p=1.0)]
    )

    def augment(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        transform.set_random_seed(int(rng.integers(1 << 31)))
        return transform(image=image)["image"]

    return lambda images: fn.python_function(images, function=augment, outputs=IMAGE)


def with_torchvision() -> Callable:
    """A transform of torch tensors with the channels first; in and out the pipeline has them last."""
    transforms = importlib.import_module("torchvision.transforms.v2")
    torch_functions = importlib.import_module("pipeflow.plugin.pytorch.fn")
    transform = transforms.ColorJitter(brightness=0.3, hue=0.1)

    def augment(image):
        return transform(image.permute(2, 0, 1)).permute(1, 2, 0).contiguous()

    return lambda images: torch_functions.torch_python_function(images, function=augment, output_layouts="HWC")


def with_kornia() -> Callable:
    """A transform of batches: the function gets the list of all images and returns one tensor."""
    kornia = importlib.import_module("kornia")
    torch = importlib.import_module("torch")
    torch_functions = importlib.import_module("pipeflow.plugin.pytorch.fn")

    def augment(images):
        batch = torch.stack(images).permute(0, 3, 1, 2) / 255
        blurred = kornia.filters.gaussian_blur2d(batch, (5, 5), (1.5, 1.5))
        return (blurred.permute(0, 2, 3, 1) * 255).round().to(torch.uint8)

    return lambda images: torch_functions.torch_python_function(
        images, function=augment, batch_processing=True, output_layouts="HWC"
    )


def main() -> None:
    """Runs what is installed."""
    for prepare in (with_albumentations, with_torchvision, with_kornia):
        library = prepare.__name__.removeprefix("with_")
        try:
            augmented = prepare()
        except ModuleNotFoundError as error:
            print(f"{library:15} left out: {error.name} is not installed")
            continue

        @pipeline_def(batch_size=8, num_threads=2, seed=7)
        def pipeline(augmented: Callable = augmented):
            images = fn.external_source(picture, batch=False)
            return images, augmented(images)

        plain, changed = pipeline().run()
        difference = np.abs(plain.as_array().astype(int) - changed.as_array()).mean()
        print(f"{library:15} {changed.as_array().shape} {changed.layout()}, mean change {difference:.1f} of 255")
        target = Path(__file__).parent / "output" / f"other_libraries_{library}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        pipeflow.show((plain, changed), title=f"before and after {library}", path=target)


if __name__ == "__main__":
    main()
