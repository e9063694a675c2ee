"""Decompression of data that is not an image: decoders.inflate."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeflow.declare import UNKNOWN, Arg, DType, Ints, Layout, Out, Sample, Spec, default, operator, required
from pipeflow.kernels import cpu as kernels

UINT8 = np.dtype(np.uint8)
_MOST_EXPANSION = 255  # LZ4 makes at most this many bytes from one


def chunks_of(length: int, offsets: Sequence[int] | None, sizes: Sequence[int] | None) -> list[tuple[int, int]] | None:
    """The start and end of each chunk; None if the data is one chunk and not a sequence."""
    if offsets is None:
        if sizes is None:
            return None
        ends = np.cumsum(sizes).tolist()
        offsets = [0, *ends][: len(ends)]
    elif sizes is None:
        ends = [*offsets, length][1:]
    else:
        if len(offsets) != len(sizes):
            raise ValueError(f"there are {len(offsets)} chunk_offsets and {len(sizes)} chunk_sizes")
        ends = [begin + size for begin, size in zip(offsets, sizes)]
    found = list(zip(offsets, ends, strict=True))
    for number, (begin, end) in enumerate(found):
        if not 0 <= begin <= end <= length:
            raise ValueError(f"chunk {number} would be the bytes {begin} to {end} of {length}")
    return found


@operator(
    "decoders.inflate",
    compiled=True,
    dtypes="uint8",
    no_effect={"check_output_size": "the sizes of the results are always checked"},
    examples=["fn.decoders.inflate(compressed, shape=(3, 4), dtype=types.FLOAT)"],
)
def inflate(
    data: Sample,
    /,
    *,
    shape: Arg[Ints] = required("shape of the result, or of each chunk's"),
    dtype: DType = default(UINT8, "type of the result"),
    algorithm: str = default("LZ4", "compression method: `LZ4`, in its block format"),
    chunk_offsets: Arg[Ints] = default(None, "start of each chunk, in bytes; default: one after the other"),
    chunk_sizes: Arg[Ints] = default(None, "bytes of each chunk; default: up to the next one"),
    layout: Layout = default("", "layout of the result of a chunk"),
    sequence_axis_name: Layout = default("F", "letter of the axis of the chunks in the layout"),
    out: Out,
) -> Sample:
    """Decompresses data. The results of several chunks are stacked along a new first axis."""
    del algorithm, layout, sequence_axis_name
    if data.ndim != 1:
        raise ValueError(f"compressed data is a list of bytes, got shape {data.shape}")
    _check_shape(shape)
    chunks = chunks_of(len(data), chunk_offsets, chunk_sizes)
    if callable(out):
        out = out(tuple(shape) if chunks is None else (len(chunks), *shape), dtype)
    room = math.prod(shape) * dtype.itemsize
    flat = out.reshape(-1).view(np.uint8)
    for number, (begin, end) in enumerate([(0, len(data))] if chunks is None else chunks):
        problem = kernels.lz4.inflate(data[begin:end], flat[number * room : (number + 1) * room])
        if problem:
            what = "the data" if chunks is None else f"chunk {number}"
            raise ValueError(f"{what} is no LZ4 block of shape {tuple(shape)} and type {dtype}: {problem}")
    return out


def _check_shape(shape: Sequence[int]) -> None:
    if any(extent < 0 for extent in shape):
        raise ValueError(f"shape must not be negative, got {tuple(shape)}")


@inflate.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    if len(specs[0].shape) != 1 or args.chunk_offsets is not None or args.chunk_sizes is not None:
        return None
    size = math.prod(args.shape) * args.dtype.itemsize
    compute = kernels.jit.machine_code(kernels.lz4.decompress, kernels.jit.BYTES, kernels.jit.BYTES)

    def run(data: np.ndarray, out: np.ndarray) -> np.ndarray:
        if compute(data.ravel(), out.ravel().view(np.uint8)) != size:
            raise ValueError
        return out

    return run


@inflate.check
def _(args: Any) -> None:
    if args.shape is not UNKNOWN:
        _check_shape(args.shape)
    if args.algorithm != "LZ4":
        raise ValueError(f"algorithm must be 'LZ4', got {args.algorithm!r}")
    if len(args.sequence_axis_name) != 1:
        raise ValueError(f"sequence_axis_name must be one letter, got {args.sequence_axis_name!r}")
    if args.layout and args.shape is not UNKNOWN and len(args.layout) != len(args.shape):
        raise ValueError(f"layout {args.layout!r} has {len(args.layout)} axes, the shape has {len(args.shape)}")


@inflate.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    many = args.chunk_sizes if args.chunk_sizes is not None else args.chunk_offsets
    layout = args.layout if many is None or not args.layout else args.sequence_axis_name + args.layout
    if args.shape is UNKNOWN:
        return Spec(None, args.dtype, layout)
    outer = () if many is None else (UNKNOWN if many is UNKNOWN else len(many),)
    length = specs[0].shape[0] if specs[0].shape else None
    if length is not None and UNKNOWN not in outer:  # checked before memory is taken for the result
        size = math.prod((*outer, *args.shape)) * args.dtype.itemsize
        if size > _MOST_EXPANSION * length:
            raise ValueError(
                f"the data is no LZ4 block of shape {tuple(args.shape)} and type {args.dtype}: {length} bytes cannot hold {size}"
            )
    return Spec((*outer, *args.shape), args.dtype, layout)
