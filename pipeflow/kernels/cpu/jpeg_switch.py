"""Chooses the decoder for JPEG: the compiled kernels (`jpeg`, `jpeg_progressive`, `jpeg_forward`) when they are ready, or
libjpeg-turbo.

Compiling takes many seconds, and no pipeline waits for it. If no process of this user has compiled a kernel before, a process of
low priority compiles it, and libjpeg-turbo decodes until it is done. The pixels of both are equal, bit by bit, so no result
changes; before the change, both are compared on a few images. Files that the compiled decoder does not support, and all
suspicious ones, always go to libjpeg-turbo.

With PIPEFLOW_JPEG=library, libjpeg-turbo decodes every file.
"""

import base64
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import simplejpeg

from pipeflow import timing
from pipeflow.kernels import counts, kept_code
from pipeflow.kernels import cpu as kernels
from pipeflow.kernels.cpu import elsewhere, start
from pipeflow.kernels.cpu.image_base import Header

log = logging.getLogger("pipeflow.decoders")

COMPILED, LIBRARY = "JPEG files decoded by the compiled decoder", "JPEG files decoded by libjpeg-turbo"
EVERY = 16  # images between two checks if the decoder has been compiled

_COLORS = {"RGB": "RGB", "BGR": "BGR", "GRAY": "GRAY", "YCbCr": "RGB"}
MARGIN = 16  # damage is also reported in this number of rows below a window, as with libjpeg-turbo
_UINT8 = np.dtype(np.uint8)

Region = tuple[int, int, int, int]


class Switch:
    """The state of a kernel in this process: off, waiting for another process that compiles it, or on."""

    def __init__(self, work: str, module: str, agrees: Callable[[], bool]) -> None:
        self.work, self.module, self.agrees = work, module, agrees
        self.on = False
        self._off = os.environ.get("PIPEFLOW_JPEG", "") == "library"
        self._lock = threading.Lock()
        self._asked = 0
        self._compiling: subprocess.Popen[bytes] | None = None
        self._since = 0.0

    def ready(self) -> bool:
        """True if the compiled kernel can be used. If it was never compiled, this starts to compile it."""
        if self.on or self._off or start.state.starting or start.state.in_trial:
            return self.on
        self._asked += 1
        if self._asked % EVERY != 1 or not self._lock.acquire(blocking=False):
            return False
        try:
            self._look()
        finally:
            self._lock.release()
        return self.on

    def wait(self) -> None:
        """Loads the compiled kernel, or compiles it, and returns when it is in use."""
        with self._lock:
            if not self.on and not self._off and kernels.jit.cache_folder() is not None:
                self._turn_on()

    def _look(self) -> None:
        if self.on or self._off:
            return
        if kernels.jit.cache_folder() is None:
            log.info("%s by libjpeg-turbo: there is no folder to keep compiled kernels in", self.work)
            self._off = True
        elif getattr(kernels, self.module).kept():
            self._turn_on()
        elif self._compiling is None:
            with compiling_alone(self.module) as alone:
                if not alone:
                    return
            self._compiling = compile_elsewhere(self.module)
            self._since = timing.wall()
            log.info("%s by libjpeg-turbo until the kernel for it is compiled, in another process", self.work)
        elif self._compiling.poll() == COMPILED_ELSEWHERE:
            self._compiling = None
        elif self._compiling.returncode is not None:
            log.warning(
                "%s by libjpeg-turbo: compiling the kernel for it ended with code %d; python -m pipeflow warmup shows why",
                self.work,
                self._compiling.returncode,
            )
            self._off = True

    def _turn_on(self) -> None:
        getattr(kernels, self.module).load()
        if not self.agrees():
            log.warning("%s by libjpeg-turbo: the compiled kernel gives other pixels on this machine", self.work)
            self._off = True
            return
        waited = f" after {timing.wall() - self._since:.1f} s" if self._since else ""
        log.info("%s by a compiled kernel from now on%s", self.work, waited)
        self.on = True


# The exit code of the compiling process if another process compiles already.
COMPILED_ELSEWHERE = 3


def compile_elsewhere(module: str) -> subprocess.Popen[bytes]:
    """Starts a process that compiles the kernel of a module and keeps it on disk. It ends when this process ends,
    if not before.
    """
    return elsewhere.begin(f"from pipeflow.kernels.cpu import jpeg_switch; jpeg_switch.compile_here({module!r})")


def compile_here(module: str) -> None:
    """The work of that process: it compiles unless another process does."""
    elsewhere.given()
    with compiling_alone(module) as alone:
        if not alone:
            sys.exit(COMPILED_ELSEWHERE)
        getattr(kernels, module).load()


@contextmanager
def compiling_alone(module: str) -> Iterator[bool]:
    """Takes the lock of a module in the folder of kernels; False if another process has it."""
    locks = kept_code.locks_of(kernels.jit.cache_folder())
    alone = locks.take(module)
    try:
        yield alone
    finally:
        if alone:
            locks.give(module)


@cache
def decoders_agree() -> bool:
    """True if both decoders return the same pixels for a few images."""
    source = _picture()
    for sampling in ("444", "422", "420", "440", "411", "Gray"):
        if sampling == "Gray":
            file = simplejpeg.encode_jpeg(np.ascontiguousarray(source[..., :1]), 85, "GRAY", "Gray")
        else:
            file = simplejpeg.encode_jpeg(source, 85, "RGB", sampling)
        size, out = (41, 51, 1 if sampling == "Gray" else 3), np.zeros((41, 51, 3), np.uint8)
        done = kernels.jpeg.decode(np.frombuffer(file, np.uint8), size, "RGB", (0, 0, 41, 51), 41, out)
        if not done or not np.array_equal(out, simplejpeg.decode_jpeg(file)):
            return False
    return True


# A progressive file of 27 x 35 noisy pixels with chroma of half the size.
_PROGRESSIVE = (
    "|JeWF01!$>Nk#wx0RR9200961|JwjV01^xh5Dg0w5DpL&6A~30EFBvd7#lVxDIhFBIYdK0IX*o{P-a(0OJPktK3REMVQFo0b8<yheTIB*g=TPa"
    "ZvWc=Lje;M6dM;CG#wo@Zb?2#Zf<UFZf<UFZf<UFZf<UFZf<UFZf<UFZf<UFZf<UFZf<UFZf<UFZf<UFZf<UFZf^g=01*fP8vr8%0U`hb5di}c"
    "0sq7R7ytnQ0RaI300000000000009700IU7!~hln0RaI300000000000000000II3+5ij#0RRFJ0}ucJ0rL^p6Rj%Ab@@_Js0|mimQ7Fp!~h!*"
    "00RI60RaF20000000000009CK5+NWl|Jncu0RaF31p-slg(S(U6p95r*QqpXgH9<DFi*wf|HJ?n5dZ@L000000000000000000mX0sq<n2mu2D"
    "0Y3p(T|fWC02UDd0{{R300000000000000GAR+(S00;pB0RcY&6+i#P02dGd0|5X4000000000000001AR!R{+5iXv0RRR+0-72nfB(b)AP@io"
    "0s;a80{{R300000000015g{=_QGpO~VUf}Q+5iXv0RRC%A(j^OLX_)x8QV6bf|*W#1xDE|AW5ap1W@!Zbl9PVh+Ax(3UTz!zXB}ubJ-d3|Jncy"
    "0|5X600RI301#U<cI?mp!~hu)00RL50RR910000000000009v}5F!8C00;pC0RcY{t3>cp@QjO}|HJ?t5dZ-K2LJ#700000000000003H5g{=_"
    "QE{>V+5iXv0s#R(5J;0W;JIpC|HJ?#5CH%I0|EvD0{{R300000009vIAu&NwVR4b6vC)C>!Qt`$+5iXv0RRC%5HpCkk%MnEWKou*(v1;{W^Eds"
    "&3B{$a}u!<>*uc;2?C|2*Qst%m=*)h{{VHSHV`hNaAEk?h*klK1RdVB48aH>Opo`a2_$S>^-jw`7-K!ZRhR;2<;+{`>rn;8lnZg?>YOr#XQ$@0"
    "1P1L`bxEFVc%@-=ml4ykKt}@ul|WEm@2ZWY<i&sg*#"
)


@cache
def progressive_decoders_agree() -> bool:
    """True if both decoders return the same pixels for a progressive image."""
    file, out = base64.b85decode(_PROGRESSIVE), np.zeros((27, 35, 3), np.uint8)
    done = kernels.jpeg_progressive.decode(np.frombuffer(file, np.uint8), out.shape, "RGB", (0, 0, 27, 35), out)
    return done and np.array_equal(out, simplejpeg.decode_jpeg(file))


@cache
def distortions_agree() -> bool:
    """True if both ways of compression return the same pixels for an image."""
    source = _picture()
    for quality in (10, 50, 85, 100):
        results = np.zeros_like(source), np.zeros_like(source)
        kernels.jpeg_forward.distort(source, quality, results[0])
        kernels.jpeg_round_trip.by_library(source, quality, results[1])
        if not np.array_equal(*results):
            return False
    return True


def _picture() -> np.ndarray:
    """A test image: two gradients and noise, with values from 0 to 255."""
    rng = np.random.default_rng(0)
    slopes = np.add.outer(np.arange(41) * 5, np.arange(51) * 4)[..., None]
    return np.clip(slopes + rng.normal(0, 60, (41, 51, 3)), 0, 255).astype(np.uint8)


decoding = Switch("JPEG files are decoded", "jpeg", decoders_agree)
decoding_progressive = Switch("Progressive JPEG files are decoded", "jpeg_progressive", progressive_decoders_agree)
distorting = Switch("Pictures are compressed as by JPEG", "jpeg_forward", distortions_agree)


def stored_window(window: Region, height: int, width: int, orientation: int) -> Region:
    """The window of the stored image, whose size is given, for a window of the oriented image."""
    top, left, rows, columns = window
    if orientation >= 5:
        height, width = width, height
    if orientation in (2, 3, 6, 7):
        left = width - left - columns
    if orientation in (3, 4, 7, 8):
        top = height - top - rows
    return (left, top, columns, rows) if orientation >= 5 else (top, left, rows, columns)


def decode(
    data: np.ndarray, header: Header, wanted: Any, window: Region | None, turn: int, out: Callable[..., np.ndarray]
) -> np.ndarray | None:
    """The window of a JPEG file in the stored orientation and the wanted colours; None if libjpeg-turbo must decode.

    `window` is in the oriented image. `out` allocates the memory of the result.
    """
    if header.format != "JPEG":
        return None
    switch = decoding_progressive if header.progressive else decoding
    image = _decode(data, header, wanted, window, turn, out) if switch.ready() else None
    counts.count(LIBRARY if image is None else COMPILED)
    return image


def _decode(
    data: np.ndarray, header: Header, wanted: Any, window: Region | None, turn: int, out: Callable[..., np.ndarray]
) -> np.ndarray | None:
    height, width = header.height, header.width
    if header.bits != 8 or header.channels not in (1, 3) or wanted.fast_idct:
        return None
    color = _COLORS.get(wanted.color) or ("GRAY" if header.channels == 1 else "RGB")
    checked = height
    if window is None:
        window = 0, 0, height, width
    else:
        # Damage is noticed if libjpeg-turbo would notice it: if it decodes a file only to the window's end, only down to there.
        bottom = window[0] + window[2] + MARGIN
        if turn == 1 and header.height_at and wanted.color in ("RGB", "BGR", "GRAY") and bottom < height:
            checked = bottom
        window = stored_window(window, height, width, turn)
    image = out((window[2], window[3], 1 if color == "GRAY" else 3), _UINT8)
    if not image.flags.c_contiguous:
        return None
    size = height, width, header.channels
    if header.progressive:
        done = kernels.jpeg_progressive.decode(data, size, color, window, image)
    else:
        done = kernels.jpeg.decode(data, size, color, window, checked, image)
    if not done:
        return None
    return kernels.other_images.recolored(image, wanted.color) if wanted.color == "YCbCr" else image
