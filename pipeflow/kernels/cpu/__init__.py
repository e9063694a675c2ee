"""The CPU kernels, imported when they are first used.

Operators write ``kernels.resample.fused(...)``. The submodule, and with it Numba, OpenCV or any other large library, is imported
when the first step that uses it is compiled, never by ``import pipeflow``.
"""

from importlib import import_module
from types import ModuleType

# Imported name -> name of the library to install, for the message if it is missing.
LIBRARIES = {
    "cv2": "opencv-python-headless",
    "PIL": "pillow",
    "simplejpeg": "simplejpeg",
    "soundfile": "soundfile",
    "soxr": "soxr",
    "scipy": "scipy",
    "imagecodecs": "imagecodecs",
    "pillow_heif": "pillow-heif",
    "OpenEXR": "openexr",
    "pydicom": "pydicom",
}


def __getattr__(name: str) -> ModuleType:
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name == f"{__name__}.{name}":
            raise AttributeError(f"pipeflow has no CPU kernel module {name!r}") from None
        library = LIBRARIES.get((error.name or "").partition(".")[0])
        if library is None:
            raise
        raise ModuleNotFoundError(
            f"{error.name} is needed for this operator and is not installed: pip install {library}", name=error.name
        ) from error
