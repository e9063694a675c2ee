"""JPEG and other images decoded on the GPU by nvImageCodec, which is imported only here."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from nvidia import nvimgcodec

from pipeflow.errors import NoGpu

ON_CPU = -99999  # nvImageCodec's number for decoding without a device, on the CPU; for tests
# Chroma is interpolated, as on the CPU: without this option, versions before 0.9 repeat it.
OPTIONS = ":fancy_upsampling=1"
INSTALL = (
    "are nvidia-nvimgcodec-cu13 and nvidia-nvjpeg installed (for CUDA 12: nvidia-nvimgcodec-cu12 and nvidia-nvjpeg-cu12)? "
    'device="cpu" decodes without them'
)
# A gray JPEG of 8 x 8 pixels, which every decoder can decode. If one cannot, the user's files are not the reason.
KNOWN = np.frombuffer(
    base64.b85decode(
        "|JeWF01!$>Nk#wx0RR9200961|JwjV01yid4h#wq4h;?x5fBp?C>j_R78o%jB^@X_Gd(;xGdMRuNL)@pL{~*OI8bd-S6^ahXlFi6ad~iLcwA*?"
        "WB<Sa3kU!R00;pA5di<h02BZL00000000000000000000|HJ?k5CH%H0000000000000000095m00;pA002J#KmXY"
    ),
    np.uint8,
)
Region = tuple[int, int, int, int]  # top, left, height, width


class Codec:
    """A decoder of one device. Raises NoGpu if nvImageCodec cannot decode."""

    def __init__(self, device_id: int) -> None:
        backends = [nvimgcodec.Backend(nvimgcodec.BackendKind.CPU_ONLY)] if device_id == ON_CPU else None
        try:
            self._decoder = nvimgcodec.Decoder(device_id=device_id, backends=backends, options=OPTIONS)
        except RuntimeError as error:
            raise NoGpu(f"nvImageCodec gives no decoder ({error}): {INSTALL}") from None
        if not self.works():
            raise NoGpu(f"nvImageCodec decodes no JPEG at all: {INSTALL}")

    def works(self, stream: int = 0) -> bool:
        """True if the library decodes a valid test file."""
        return self._decoder.decode(nvimgcodec.CodeStream(KNOWN), cuda_stream=stream) is not None

    def decode(
        self,
        files: Sequence[np.ndarray],
        color: str,
        adjust_orientation: bool,
        stream: int = 0,
        regions: Sequence[Region] | None = None,
    ) -> list[Any]:
        """For each file, an image of nvImageCodec (of its region, if given), or a text with the reason why there is none.

        Raises RuntimeError if the library itself fails, and not because of a file.
        """
        specs = nvimgcodec.ColorSpec
        wanted = specs.GRAY if color == "GRAY" else specs.SRGB if hasattr(specs, "SRGB") else specs.RGB
        params = nvimgcodec.DecodeParams(apply_exif_orientation=adjust_orientation, color_spec=wanted)
        results: list[Any] = [None] * len(files)
        opened = {}
        for index, data in enumerate(files):
            try:
                code = nvimgcodec.CodeStream(data)
                _ = code.height  # reads the header now: later, one damaged file would be an error for the whole batch
                if regions is not None:
                    top, left, height, width = regions[index]
                    code = code.get_sub_code_stream(region=nvimgcodec.Region(top, left, top + height, left + width))
                opened[index] = code
            except Exception as error:  # pybind11 raises it, and its type does not tell the reason
                results[index] = f"nvImageCodec cannot read it: {error}"
        if not opened:
            return results
        made = self._decoder.decode(list(opened.values()), params=params, cuda_stream=stream)
        if not any(image is not None for image in made) and not self.works(stream):
            raise RuntimeError(
                "nvImageCodec decodes nothing any more, not even a file that is known to be good: the GPU may have no memory "
                "left, or an earlier kernel may have failed (PIPEFLOW_SYNC=1 says which)"
            )
        for (index, code), image in zip(opened.items(), made, strict=True):
            kind = getattr(code, "codec_name", "image")
            results[index] = f"nvImageCodec cannot decode this {kind}" if image is None else image
        return results
