"""The arrays that the examples of the operators use, by name: one sample each.

`python tools/example_data.py` lists them. An example of a declaration is a call over these names, such as
``fn.flip(image, horizontal=True)``; add a name here when an operator needs data of another kind.
"""

import io
import os
import struct
import wave

import numpy as np

rng = np.random.default_rng(7)
rows, columns = np.mgrid[0:40, 0:60]

# pictures, and data that belongs to them
image = np.stack([rows * 6, columns * 4, (rows + columns) * 2], -1).astype(np.uint8)  # HWC
gray = image[..., :1].copy()  # HWC, one channel
plane = image[..., 0].copy()  # HW
planes = image.transpose(2, 0, 1).copy()  # CHW
frames = np.stack([image, 255 - image, image[:, ::-1]])  # FHWC
frame_planes = frames.transpose(0, 3, 1, 2).copy()  # FCHW
volume = np.stack([image, image // 2, image // 3, image // 4])  # DHWC
volume_planes = volume.transpose(3, 0, 1, 2).copy()  # CDHW
mask = (rows > columns).astype(np.int32)[..., None]  # HWC, class numbers
bayer = image[..., 0].copy()  # HW, raw sensor data
boxes = np.array([[0.1, 0.2, 0.5, 0.6], [0.3, 0.3, 0.9, 0.8]], np.float32)  # left, top, right, bottom
labels = np.array([1, 2], np.int32)
number_list = np.array([1, 0], np.int32)
polygons = np.array([[0, 0, 3], [1, 3, 6]], np.int32)  # mask number, first and last vertex
vertices = rng.random((6, 2), dtype=np.float32)
points = rng.random((5, 2), dtype=np.float32)

# sound
signal = np.sin(np.arange(4000) * 0.1).astype(np.float32) * np.linspace(0, 1, 4000, dtype=np.float32)
stereo = np.stack([signal, -signal], -1)
spectrogram = rng.random((33, 20), dtype=np.float32)  # ft

# numbers
array = rng.random((3, 4), dtype=np.float32)
vector = np.arange(6, dtype=np.float32)
number = np.array(3, np.int32)
matrix = np.array([[1.0, 0.2, 3.0], [-0.1, 0.9, 1.0]], np.float32)
window = np.ones((3, 3), np.float32) / 9
text = np.frombuffer(b"pipeflow", np.uint8)


def wav_bytes() -> np.ndarray:
    """A second of 4 kHz sound as the bytes of a WAV file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(4000)
        writer.writeframes((signal * 20000).astype("<i2").tobytes())
    return np.frombuffer(file.getvalue(), np.uint8)


def bmp_bytes() -> np.ndarray:
    """The image as the bytes of a BMP file."""
    height, width, _ = image.shape
    padding = b"\0" * (-3 * width % 4)
    body = b"".join(row[:, ::-1].tobytes() + padding for row in image[::-1])
    header = b"BM" + (54 + len(body)).to_bytes(4, "little") + bytes(4) + (54).to_bytes(4, "little")
    sizes = (40).to_bytes(4, "little") + width.to_bytes(4, "little") + height.to_bytes(4, "little")
    return np.frombuffer(header + sizes + b"\1\0\x18\0" + bytes(24) + body, np.uint8)


def npy_bytes() -> np.ndarray:
    """The array as the bytes of a .npy file."""
    file = io.BytesIO()
    np.save(file, array)
    return np.frombuffer(file.getvalue(), np.uint8)


def lz4_bytes() -> np.ndarray:
    """The array as a block of LZ4 that holds nothing but literal bytes."""
    body = array.tobytes()
    return np.frombuffer(bytes([0xF0, len(body) - 15]) + body, np.uint8)


def nifti_bytes() -> np.ndarray:
    """The first channel of the volume as a NIfTI file."""
    head = bytearray(352)
    numbers = volume[..., 0]
    struct.pack_into("<i", head, 0, 348)
    struct.pack_into("<8h", head, 40, 3, *numbers.shape[::-1], 1, 1, 1, 1)
    struct.pack_into("<2h", head, 70, 2, 8)
    struct.pack_into("<3f", head, 108, 352.0, 1.0, 0.0)
    head[344:348] = b"n+1\0"
    return np.frombuffer(bytes(head) + numbers.tobytes(), np.uint8)


compressed = lz4_bytes()
encoded_sound = wav_bytes()
encoded_image = bmp_bytes()
encoded_volume = nifti_bytes()
encoded_array = npy_bytes()
path = np.frombuffer(os.fsencode(__file__), np.uint8)

# The array for an input with a layout, for examples that are made from an operator's declaration.
BY_LAYOUT = {
    "HWC": "image", "HW": "plane", "CHW": "planes", "FHWC": "frames", "FCHW": "frame_planes", "DHWC": "volume",
    "CDHW": "volume_planes", "ft": "spectrogram", "t": "signal",
}  # fmt: skip


def arrays() -> dict[str, np.ndarray]:
    """The arrays by name."""
    return {name: value for name, value in globals().items() if isinstance(value, np.ndarray) and name not in HELPERS}


HELPERS = ("rows", "columns")

if __name__ == "__main__":
    for name, value in arrays().items():
        print(f"{name:15} {value.dtype!s:8} {'x'.join(map(str, value.shape)) or 'a number'}")
