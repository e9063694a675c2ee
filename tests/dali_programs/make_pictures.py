"""Makes the JPEG files in `pictures/`, once: encoders differ between machines, and the recorded answers need equal bytes."""

from pathlib import Path

import cv2
import numpy as np

SIZES = {
    "bird/gull.jpg": (48, 64), "bird/heron.jpg": (60, 40), "bird/wren.jpg": (33, 47),
    "boat/dinghy.jpg": (40, 80), "boat/ferry.jpg": (56, 56), "boat/kayak.jpg": (31, 90),
    "crane/harbour.jpg": (72, 54), "crane/tower.jpg": (64, 45),
}  # fmt: skip


def picture(number: int, height: int, width: int) -> np.ndarray:
    """A smooth background with a few shapes on it."""
    random = np.random.default_rng(number)
    y, x = np.mgrid[0:height, 0:width]
    waves = [np.sin(x / random.uniform(5, 20) + y / random.uniform(5, 20) + phase) for phase in range(3)]
    image = (110 + 60 * np.stack(waves, -1)).astype(np.uint8)
    for _ in range(4):
        centre = int(random.integers(width)), int(random.integers(height))
        color = [int(value) for value in random.integers(0, 256, 3)]
        cv2.circle(image, centre, int(random.integers(4, 14)), color, -1, cv2.LINE_AA)
    return image


def main() -> None:
    """Writes all of them."""
    folder = Path(__file__).parent / "pictures"
    for number, (name, (height, width)) in enumerate(SIZES.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), picture(number, height, width), [cv2.IMWRITE_JPEG_QUALITY, 85])


if __name__ == "__main__":
    main()
