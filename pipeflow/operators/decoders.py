"""Image decoders: bytes of an image file to an array of height x width x channels.

The formats are JPEG, PNG, BMP, PNM, TIFF, WebP, JPEG 2000, the first frame of a GIF, AVIF, HEIF, JPEG XL and EXR. The decoders
of windows are in `decoders_cropped.py`, those of volumes in `decoders_volumes.py`.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Literal

import numpy as np

from pipeflow.declare import (
    UNKNOWN,
    Args,
    ByteArrays,
    DType,
    KernelCalls,
    Many,
    OfThread,
    Out,
    Sample,
    Spec,
    code_of,
    default,
    largest,
    operator,
    parameters,
    require,
)
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.encoded import encoded, path, path_bytes
from pipeflow.operators.readers import npy
from pipeflow.operators.readers.files import OPEN_FLAGS, read_file
from pipeflow.types import GRAY, RGB, UINT8, DALIImageType, as_dtype, saturate

PAGE = """The formats are JPEG, PNG, BMP, PNM, TIFF, WebP, JPEG 2000 and the first frame of a GIF, and AVIF, HEIF, JPEG XL and EXR
with a library for each. [Decoders](../decoders.md) and [More formats](../formats.md) list the supported files and the decoder of
each.
"""


_UINT8, _INT64 = np.dtype(np.uint8), np.dtype(np.int64)

NO_EFFECT = {
    name: reason
    for names, reason in {
        "affine hw_decoder_load hybrid_huffman_threshold": "it steers nvJPEG",
        "device_memory_padding device_memory_padding_jpeg2k host_memory_padding host_memory_padding_jpeg2k "
        "preallocate_height_hint preallocate_width_hint use_chunk_allocator": "memory comes from the pipeline's pool",
        "jpeg_fancy_upsampling": "the CPU decoder always upsamples smoothly, as DALI's does",
        "cache_batch_copy cache_debug cache_size cache_threshold cache_type": "`fn.cache` keeps decoded images",
        "memory_stats split_stages": "deprecated in DALI, where it has no effect either",
    }.items()
    for name in names.split()
}


def image_spec(output_type: Any, dtype: Any, height: Any = UNKNOWN, width: Any = UNKNOWN) -> Spec:
    channels = 1 if output_type == GRAY else 3 if output_type != DALIImageType.ANY_DATA else UNKNOWN
    return Spec((height, width, channels), dtype, "HWC")


def check_options(args: Any) -> None:
    """Raises for types that images cannot have, and for limits below 1."""
    if as_dtype(args.dtype).kind not in "iuf":
        raise ValueError(f"images cannot be decoded to {as_dtype(args.dtype)}; use an integer or floating point type")
    for name in ("max_pixels", "max_bytes"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            raise ValueError(f"{name} must be at least 1, got {getattr(args, name)}")


def decode(data: np.ndarray, args: Any, out: Any, source: Any, region: Any = None) -> np.ndarray:
    """One image, or the part of it that `region(height, width)` returns."""
    allocate = out if callable(out) else lambda _shape, _dtype: out  # an array if the shape was known before
    wanted = _wanted(args.output_type, args.dtype, args.adjust_orientation, args.use_fast_idct)
    return kernels.images.decode(encoded(data), wanted, limits_of(args), allocate, region, source)


@cache
def _wanted(output_type: Any, dtype: Any, adjust_orientation: bool, use_fast_idct: bool) -> Any:
    color = DALIImageType(output_type).name
    return kernels.images.Wanted(color, np.dtype(as_dtype(dtype)), adjust_orientation, use_fast_idct)


def limits_of(args: Any) -> Any:
    """The limits of decoding."""
    return _limits(args.max_pixels, args.max_bytes, args.on_damage)


@cache
def _limits(max_pixels: int | None, max_bytes: int | None, on_damage: str) -> Any:
    return kernels.images.Limits(max_pixels, max_bytes, on_damage == "accept")


ORIENTATION = parameters(adjust_orientation=(bool, True, "turn the image as its EXIF data says"))
DECODE = (
    parameters(
        output_type=(
            DALIImageType,
            RGB,
            "colour space of the result; ANY_DATA keeps the channels of the file, with alpha",
        ),
        dtype=(
            DType,
            _UINT8,
            "type of the result; if the file has another type, values are scaled to the range of this type",
        ),
    )
    | ORIENTATION
    | parameters(
        use_fast_idct=(bool, False, "decode JPEG files by a faster and less exact transform"),
        max_pixels=(int, None, "maximum number of pixels; default: 134217728, and fewer for a file of a few kilobytes"),
        max_bytes=(int, None, "maximum number of bytes of a decoded image; default: 2 GiB"),
        on_damage=(
            Literal["error", "accept"],
            "error",
            "`accept` returns the pixels that a damaged PNG or JPEG file still has, and black or gray for the others",
        ),
    )
)


@operator(
    "decoders.image",
    begins_in_numpy=True,
    takes=DECODE,
    dtypes="uint8 text",
    unsized=True,
    no_effect=NO_EFFECT,
    examples=["fn.decoders.image(encoded_image)"],
    devices=("cpu", "mixed"),
    gpu=True,
)
def image(data: Sample, /, *, args: Args, out: Out, source: Any) -> Sample:
    """Decodes images; the output has the layout HWC.

    ``output_type`` names the colours; ANY_DATA keeps the colours of the file, with alpha. If ``dtype`` is not the stored type,
    values keep their share of the range: 255 becomes 65535 in UINT16 and 1.0 in FLOAT. EXIF orientation is applied unless
    ``adjust_orientation=False``. Images of more than ``max_pixels`` (134217728 unless given, and fewer in a file of a few
    kilobytes) or ``max_bytes`` (2 GiB) are refused before they are decoded. A damaged file is an error; with
    ``on_damage="accept"`` the pixels that can be read from a damaged PNG or JPEG file are returned, and the others are black or
    gray. ``device="mixed"`` returns images on the GPU. nvImageCodec decodes them there if it is installed (``pip install
    nvidia-nvimgcodec-cu13 nvidia-nvjpeg``) and supports the file; else they are decoded on the CPU and copied.
    """
    return decode(data, args, out, source)


def file_calls(calls: KernelCalls, window: Callable[[Any, Any], Sequence[Any]] | None = None) -> None:
    """``decode`` of plain JPEG and BMP files for a program of kernel calls; ``window(height, width)`` returns the region as
    numbers.

    Without a window, if only the next step reads the image, only the part that this step reads is decoded.
    """
    args, data = calls.args, calls.input
    wanted = _wanted(args.output_type, args.dtype, args.adjust_orientation, args.use_fast_idct)
    calls.wait_for(kernels.jpeg_switch.decoding.ready())
    calls.require(len(data.extents) == 1 and data.dtype == _UINT8 and wanted.dtype == _UINT8)
    calls.require(not wanted.fast_idct and args.on_damage == "error" and wanted.color in ("RGB", "BGR", "GRAY"))
    numbers = calls.read(kernels.jpeg_headers.read_size, data)
    if numbers[0].value:
        _jpeg_calls(calls, wanted, numbers, window)
    elif not numbers[0]:  # other samples may have a record for JPEG
        _bmp_calls(calls, wanted, window)


def _bmp_calls(calls: KernelCalls, wanted: Any, window: Any) -> None:
    bmp, data = kernels.image_bmp, calls.input
    calls.require(wanted.color != "GRAY")
    calls.need(bmp.own_kernels())
    known, *stored = calls.read(bmp.read_size, data)
    calls.require(known > 0)
    height, width = stored[:2]
    _check_limits(calls, height * width, data.size)
    wanted_part = window or calls.part
    top, left, rows, columns = (0, 0, height, width) if wanted_part is None else wanted_part(height, width)
    part = (top, left, height, width) if window is None and calls.part else None
    out = calls.output((rows, columns, 3), _UINT8, window_of=part)
    calls.call(bmp.copy_window, data, *stored, top, left, int(wanted.color == "RGB"), replace(out, window_of=None))


def _jpeg_calls(calls: KernelCalls, wanted: Any, numbers: Sequence[Any], window: Any) -> None:
    jpeg, data, size = kernels.jpeg, calls.input, calls.input.size
    known, height, width, components, to_end, *turn = numbers
    swapped, upside_down, sideways = turn
    calls.require(known > 0)
    _check_limits(calls, height * width, size)
    calls.require(height * width <= size * 512 + 511)
    turned = wanted.adjust_orientation and bool(largest(swapped, largest(upside_down, sideways)))
    shown = (_either(swapped, width, height), _either(swapped, height, width)) if turned else (height, width)
    wanted_part = window or calls.part
    top, left, rows, columns = (0, 0, *shown) if wanted_part is None else wanted_part(*shown)
    channels = 1 if wanted.color == "GRAY" else 3
    part = (top, left, *shown) if window is None and calls.part else None
    out = made = calls.output((rows, columns, channels), _UINT8, window_of=part)
    checked = height + 1
    if turned:
        top, left = top + upside_down * (shown[0] - rows - 2 * top), left + sideways * (shown[1] - columns - 2 * left)
        top, left = _either(swapped, left, top), _either(swapped, top, left)
        rows, columns = _either(swapped, columns, rows), _either(swapped, rows, columns)
        made = calls.scratch((rows, columns, channels), _UINT8)
    elif window is not None:  # decoded only as far as libjpeg-turbo would notice damage
        bottom = top + rows + kernels.jpeg_switch.MARGIN
        checked = largest(bottom + height - largest(bottom, height), top + rows + 1)
        checked = largest(checked, to_end * (height + 1))
    own = [OfThread(find) for find in jpeg.FIXED]
    stream, planes, sums, tints = (
        calls.scratch((extent,), dtype) for extent, dtype in zip(jpeg.room(size, width), jpeg.GROWING)
    )
    given = height, width, components, top, left, rows, columns, jpeg.COLORS[wanted.color], checked
    kept = *own[:-5], stream, *own[-5:], planes, sums, tints
    calls.require(calls.call(jpeg.decode_image, data, *given, *kept, made.flat)[0] == 0)
    if turned:
        calls.call(kernels.moving.turn_image, made, *turn, out)
    calls.count(kernels.jpeg_switch.COMPILED)


def _either(flag: Any, one: Any, other: Any) -> Any:
    """The first number if the flag is 1, the second one if it is 0."""
    return other + flag * (one - other)


def _check_limits(calls: KernelCalls, pixels: Any, size: Any) -> None:
    """The limits of ``kernels.image_limits``."""
    args, limits = calls.args, kernels.image_limits
    calls.require(pixels <= (limits.MAX_PIXELS if args.max_pixels is None else args.max_pixels))
    if args.max_pixels is None:
        calls.require(pixels <= largest(limits.SMALL_IMAGE, size * limits.PIXELS_PER_BYTE))
    calls.require(pixels * 3 <= (limits.MAX_BYTES if args.max_bytes is None else args.max_bytes))


image.calls(file_calls)


def load_decoders(_args: Any, _dtype: np.dtype | None) -> None:
    """Loads or compiles the decoders of JPEG."""
    kernels.jpeg_switch.decoding.wait()
    kernels.jpeg_switch.decoding_progressive.wait()


image.loads(load_decoders)


@image.infer
def _(_specs: tuple[Spec, ...], args: Any) -> Spec:
    return image_spec(args.output_type, args.dtype)


image.check(check_options)


@image.codec
def fits_codec(args: Any) -> bool:
    """True if nvImageCodec supports these arguments."""
    return args.output_type in (RGB, GRAY) and (args.dtype is None or args.dtype == "uint8")


@operator("peek_image_shape", takes=ORIENTATION, dtypes="uint8 text", examples=["fn.peek_image_shape(encoded_image)"])
def peek_image_shape(
    data: Sample,
    /,
    *,
    args: Args,
    dtype: DType = default(_INT64, "type of the extents"),
    image_type: DALIImageType = default(RGB, "colour space that the image would be decoded to"),
) -> Sample:
    """The shape (height, width, channels) of the result of ``fn.decoders.image``; only the header is read."""
    header = kernels.image_headers.read(memoryview(encoded(data).data))
    name = DALIImageType(image_type).name
    return np.array(kernels.image_headers.shape_of(header, name, args.adjust_orientation), as_dtype(dtype))


@peek_image_shape.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    """For plain JPEG and BMP files; the body reads the other files, and finds the errors."""
    headers, bmp, turns = kernels.jpeg_headers, kernels.image_bmp, args.adjust_orientation
    if specs[0].dtype != _UINT8 or specs[0].ndim != 1:
        return None
    read_jpeg, read_bmp = (code_of(kernel, kernels.jit.BYTES) for kernel in (headers.read_size, bmp.read_size))
    dtype, channels = as_dtype(args.dtype), {GRAY: 1, DALIImageType.ANY_DATA: 0}.get(args.image_type, 3)
    body, options = peek_image_shape.body, {"args": args, "dtype": args.dtype, "image_type": args.image_type}

    def run(data: np.ndarray) -> np.ndarray:
        data = data.ravel()
        known, height, width, own, _, swapped, _, _ = read_jpeg(data)
        if known and 512 * len(data) >= height * width:
            size = (width, height) if swapped and turns else (height, width)
            return np.array((*size, channels or own), dtype)
        known, height, width, _, _ = read_bmp(data)
        return np.array((height, width, channels or 3), dtype) if known else body(data, **options)

    return run


@peek_image_shape.many
def _(many: Many) -> tuple[np.ndarray]:
    args, files = many.args, [encoded(data) for data in many.inputs[0]]
    sizes = kernels.image_sizes.read_jpegs(files, bool(args.adjust_orientation))
    for place in np.flatnonzero(sizes[:, 0] == 0).tolist():  # other formats
        header = kernels.image_headers.read(memoryview(files[place].data))
        sizes[place] = kernels.image_headers.shape_of(header, "ANY_DATA", args.adjust_orientation)
    if args.image_type != DALIImageType.ANY_DATA:
        sizes[:, 2] = 1 if args.image_type == GRAY else 3
    out = many.empty((3,), as_dtype(args.dtype))
    out[...] = sizes
    require(out == sizes)  # the type may be too small
    return (out,)


peek_image_shape.many_loads = (lambda: kernels.image_sizes.loaded(), lambda: kernels.image_sizes.load())


@peek_image_shape.infer
def _(_specs: tuple[Spec, ...], args: Any) -> Spec:
    return Spec((3,), args.dtype)


@operator("decoders.numpy", dtypes="uint8 text", examples=["fn.decoders.numpy(encoded_array)"])
def numpy(
    data: Sample, /, *, dtype: DType | None = default(None, "type of the result; default: that of the file")
) -> Sample:
    """Decodes the bytes of a .npy file; ``dtype`` converts the elements. Nothing is ever unpickled."""
    array = npy.decode(encoded(data, "an encoded array"))
    return array if dtype is None else saturate(array, as_dtype(dtype))


@numpy.many
def _(many: Many) -> tuple[Any]:
    decoded = [npy.decode(encoded(data, "an encoded array")) for data in many.inputs[0]]
    dtype = many.args.dtype and as_dtype(many.args.dtype)
    if dtype is None or all(array.dtype == dtype for array in decoded):
        return (many.copies(decoded),)
    return ([many.copy(array) if array.dtype == dtype else saturate(array, dtype) for array in decoded],)


@numpy.infer
def _(_specs: tuple[Spec, ...], args: Any) -> Spec:
    return Spec(UNKNOWN, UNKNOWN if args.dtype is None else args.dtype)


@operator(
    "io.file.read",
    dtypes="uint8 int8 text",
    examples=["fn.io.file.read(path)"],
    no_effect={
        "dont_use_mmap": "whole files are read, not mapped",
        "use_o_direct": "files are read through the page cache",
    },
)
def read(filepath: Sample, /) -> Sample:
    """Reads whole files; the input is the path as text, or as bytes with or without a zero at their end."""
    return read_file(path(filepath))


@read.ready
def _(specs: tuple[Spec, ...], _args: Any) -> Any:
    if "numba" not in sys.modules or specs[0].dtype != np.uint8 or len(specs[0].shape) != 1:
        return None
    files = kernels.whole_files
    known, block = files.functions(), kernels.jit.BYTES
    if known is None:
        return None
    whole = files.reading(code_of(files.read_path, *known, OPEN_FLAGS, block, block), known, OPEN_FLAGS)

    def run(name: np.ndarray) -> np.ndarray:
        found = whole(name.ravel())
        return read_file(path(name)) if found is None else found

    return run


@cache
def _whole_files() -> Any:
    return kernels.whole_files.Reading(OPEN_FLAGS)


def _in_memory() -> bool:
    return "pipeflow.kernels.cpu.whole_files" in sys.modules and kernels.whole_files.loaded()


@read.many
def _(many: Many) -> tuple[list[np.ndarray]]:
    """All files in one call; the body reads those at URLs, and finds the errors."""
    require(kernels.whole_files.functions() is not None)
    names = [path_bytes(name) for name in many.inputs[0]]
    require(all(names))
    paths = b"\0".join([*names, b""])
    require(b"://" not in paths)
    ends = np.cumsum([len(name) + 1 for name in names]) - 1
    begins = np.concatenate(([0], ends[:-1] + 1))
    found = ByteArrays(*_whole_files().read(np.frombuffer(paths, np.uint8), begins, ends, many.room))
    require(bool((found.sizes >= 0).all()))
    return ([found[place] for place in range(many.size)],)


read.many_loads = _in_memory, lambda: kernels.whole_files.load()


@read.infer
def _(_specs: tuple[Spec, ...], _args: Any) -> Spec:
    return Spec((UNKNOWN,), UINT8)
