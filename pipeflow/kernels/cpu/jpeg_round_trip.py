"""What JPEG compression does to a picture: encoded and decoded again, in memory."""

import cv2
import numpy as np

# Newer versions decode to R, G, B themselves, which saves a pass.
READ_RGB = getattr(cv2, "IMREAD_COLOR_RGB", None)


def distort(image: np.ndarray, quality: int, out: np.ndarray) -> np.ndarray:
    """An RGB image through JPEG with 4:2:0 chroma."""
    # The encoder takes B, G, R; the decoder gives it back, so one swap each way keeps the luma weights right.
    options = [
        cv2.IMWRITE_JPEG_QUALITY,
        quality,
        cv2.IMWRITE_JPEG_SAMPLING_FACTOR,
        cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420,
    ]
    done, data = cv2.imencode(".jpg", cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2BGR), options)
    if not done:
        raise RuntimeError(f"an image of shape {image.shape} cannot be encoded as JPEG")
    if READ_RGB is not None:
        out[...] = cv2.imdecode(data, READ_RGB)
        return out
    cv2.cvtColor(cv2.imdecode(data, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB, dst=out)
    return out
