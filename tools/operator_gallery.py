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
# Calls that show more than the first example of the declaration, whose image is small or whose arguments are the defaults.
PICTURES = {
    "brightness": "fn.brightness(image, brightness=1.4)",
    "brightness_contrast": "fn.brightness_contrast(image, brightness=0.7, contrast=0.5)",
    "channel_shift": "fn.channel_shift(image, shift=[60.0, -40.0, 0.0])",
    "color_jitter": "fn.color_jitter(image, brightness=(0.7, 1.3), hue=(-60.0, 60.0))",
    "color_twist": "fn.color_twist(image, hue=200.0, saturation=1.3, brightness=1.1, contrast=1.2)",
    "contrast": "fn.contrast(image, contrast=1.8)",
    "contrast_about_mean": "fn.contrast_about_mean(image, contrast=1.8)",
    "crop": "fn.crop(image, crop=(100, 100), crop_pos_x=0.15, crop_pos_y=0.6)",
    "crop_mirror_normalize": "fn.crop_mirror_normalize(image, crop=(120, 160), mirror=1, mean=[90.0], std=[60.0])",
    "cutmix": "fn.cutmix([image, 255 - image], [vector, vector], share=0.6, partner=1)",
    "debayer": "fn.debayer(bayer, blue_position=(0, 0))",
    "dilate": "fn.dilate(image, mask_size=(7, 7))",
    "distortions.elastic": "fn.remap(image, *fn.distortions.elastic(image, alpha=150.0, sigma=6.0))",
    "distortions.grid": "fn.remap(image, *fn.distortions.grid(image, limit=0.45))",
    "distortions.jigsaw": "fn.remap(image, *fn.distortions.jigsaw(image, grid=(3, 4)))",
    "distortions.optical": "fn.remap(image, *fn.distortions.optical(image, strength=0.6))",
    "distortions.thin_plate": "fn.remap(image, *fn.distortions.thin_plate(image, scale=0.06))",
    "enhance": "fn.enhance(image, alpha=1.0)",
    "erase": "fn.erase(image, anchor=(30, 20, 80, 120), shape=(50, 60, 40, 50), fill_value=[250, 120, 60])",
    "erode": "fn.erode(image, mask_size=(7, 7))",
    "filter": "fn.filter(image, np.float32([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]))",
    "gaussian_blur": "fn.gaussian_blur(image, sigma=3.0)",
    "hsv": "fn.hsv(image, hue=-40.0, saturation=1.4, value=0.8)",
    "hue": "fn.hue(image, hue=120.0)",
    "jpeg_compression_distortion": "fn.jpeg_compression_distortion(image, quality=4)",
    "lookup_table": "fn.lookup_table(image, keys=range(256), values=[v // 64 * 85 for v in range(256)], dtype=types.UINT8)",
    "mel_filter_bank": "fn.to_decibels(fn.mel_filter_bank(fn.spectrogram(sound, nfft=512), nfilter=40), cutoff_db=-60.0)",
    "median_blur": "fn.median_blur(image, window_size=(7, 7))",
    "mixup": "fn.mixup([image, 255 - image[:, ::-1]], [vector, vector], share=0.6, partner=1)",
    "motion_blur": "fn.motion_blur(image, size=15, angle=30.0)",
    "multi_paste": "fn.multi_paste(image, in_ids=[0, 0], out_anchors=[0, 0, 75, 100], output_size=(225, 300))",
    "normalize": "fn.normalize(image, axes=(0, 1), scale=60.0, shift=128.0, dtype=types.UINT8)",
    "pad": "fn.pad(image, axes=(0, 1), shape=(200, 260), fill_value=40)",
    "random_resized_crop": "fn.random_resized_crop(image, size=(150, 200), random_area=(0.2, 0.5))",
    "remap": "fn.remap(image, columns + 6 * np.sin(rows / 8), rows + 4 * np.sin(columns / 9))",
    "resize": "fn.resize(image, size=(40, 60))",
    "resize_crop_mirror": "fn.resize_crop_mirror(image, resize_shorter=220, crop=(150, 200), mirror=1)",
    "saturation": "fn.saturation(image, saturation=2.5)",
    "slice": "fn.slice(image, rel_start=(0.5, 0.1), rel_end=(1.0, 0.9), axes=(1, 0))",
    "solarize": "fn.solarize(image, threshold=128.0)",
    "spectrogram": "fn.to_decibels(fn.spectrogram(sound, nfft=512), cutoff_db=-60.0)",
    "ssd_random_crop": "fn.ssd_random_crop(image, boxes, labels, key=5)",
    "transpose": "fn.transpose(image, perm=(1, 0, 2))",
    "unsharp_mask": "fn.unsharp_mask(image, sigma=3.0, amount=1.5)",
    "water": "fn.water(image, ampl_x=4.0, ampl_y=4.0, freq_x=0.1, freq_y=0.1)",
}
HEAD = """
## A picture an operator

Each card is a call of an operator, run when this page was built: what it makes, its code, and its time (the median of five
calls outside of a pipeline, on one thread). The title leads to its arguments.

::::{grid} 2 2 3 3
:gutter: 2

"""


def arrays() -> dict[str, Any]:
    """The arrays of the examples, with the scene as the image."""
    rows, columns = np.mgrid[: SCENE.shape[0], : SCENE.shape[1]]
    red, green, blue = (SCENE[..., channel] for channel in range(3))
    bayer = np.where(rows % 2, np.where(columns % 2, blue, green), np.where(columns % 2, green, red))
    frames = np.stack([SCENE, np.roll(SCENE, 20, 1), np.roll(SCENE, 40, 1)])
    seconds = np.arange(32000) / 16000
    made = {
        "sound": np.sin(2 * np.pi * (300 + 1500 * seconds) * seconds).astype(np.float32),  # rises
        "image": SCENE,
        "gray": SCENE[..., 1:2].copy(),
        "plane": SCENE[..., 1].copy(),
        "planes": SCENE.transpose(2, 0, 1).copy(),
        "frames": frames,
        "frame_planes": frames.transpose(0, 3, 1, 2).copy(),
        "volume": frames,
        "mask": (rows > columns).astype(np.int32)[..., None],
        "bayer": bayer,
        "rows": rows.astype(np.float32),
        "columns": columns.astype(np.float32),
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
        code = picture_of(name) or next((text for text in examples(operator) if "\n" not in text), "")
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


def picture_of(name: str) -> str:
    """The call of PICTURES for an operator or its experimental name; empty if there is none."""
    present = name.removeprefix("experimental.")
    return PICTURES.get(present, "").replace(f"fn.{present}(", f"fn.{name}(")


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
