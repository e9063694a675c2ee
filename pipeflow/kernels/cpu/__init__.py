"""The lazy door to the CPU kernels.

Operators write ``kernels.resample.fused(...)``; the submodule, and with it Numba, OpenCV or any other
heavy library, is imported when the first step that uses it is compiled, never by ``import pipeflow``.
"""

from importlib import import_module
from types import ModuleType

# Library -> extra that installs it, for the message of a missing package.
EXTRAS = {
    "cv2": "image",
    "PIL": "image",
    "simplejpeg": "image",
    "soundfile": "audio",
    "soxr": "audio",
    "scipy": "audio",
}


def __getattr__(name: str) -> ModuleType:
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name == f"{__name__}.{name}":
            raise AttributeError(f"pipeflow has no CPU kernel module {name!r}") from None
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        raise ModuleNotFoundError(
            f'{error.name} is needed for this operator and is not installed: pip install "pipeflow[{extra}]"',
            name=error.name,
        ) from error
