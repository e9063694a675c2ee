"""JPEG and other images on the GPU by nvImageCodec, which is imported here and nowhere else."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from nvidia import nvimgcodec

ON_CPU = -99999  # nvImageCodec's number for no device: its decoders of the CPU, for tests


class Codec:
    """A decoder of one device."""

    def __init__(self, device_id: int) -> None:
        backends = [nvimgcodec.Backend(nvimgcodec.BackendKind.CPU_ONLY)] if device_id == ON_CPU else None
        self._decoder = nvimgcodec.Decoder(device_id=device_id, backends=backends)
        if self._decoder is None or not hasattr(self._decoder, "decode"):
            raise RuntimeError(
                "nvImageCodec gives no decoder: are nvidia-nvimgcodec-cu13 and nvidia-nvjpeg installed "
                "(for CUDA 12: nvidia-nvimgcodec-cu12 and nvidia-nvjpeg-cu12)?"
            )

    def decode(self, files: Sequence[np.ndarray], color: str, adjust_orientation: bool, stream: int = 0) -> list[Any]:
        """An image of nvImageCodec for each file, or a text that says why there is none."""
        specs = nvimgcodec.ColorSpec
        wanted = specs.GRAY if color == "GRAY" else specs.SRGB if hasattr(specs, "SRGB") else specs.RGB
        params = nvimgcodec.DecodeParams(apply_exif_orientation=adjust_orientation, color_spec=wanted)
        results: list[Any] = [None] * len(files)
        opened = {}
        for index, data in enumerate(files):
            try:
                code = nvimgcodec.CodeStream(data)
                _ = code.height  # reads the header: one bad file would be an error of the whole batch
                opened[index] = code
            except Exception as error:  # of pybind11: its types say nothing
                results[index] = f"nvImageCodec cannot read it: {error}"
        if opened:
            made = self._decoder.decode(list(opened.values()), params=params, cuda_stream=stream)
            for (index, code), image in zip(opened.items(), made, strict=True):
                kind = getattr(code, "codec_name", "image")
                results[index] = f"nvImageCodec cannot decode this {kind}" if image is None else image
        return results
