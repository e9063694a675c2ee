# Generated from the declarations by tools/generate_stubs.py: run `make docs` to renew it.

"""The functional API: every operator of the registry by its name."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from pipeflow.record.choices import maybe as maybe
from pipeflow.record.choices import one_of as one_of
from pipeflow.record.recorder import DataNode
from pipeflow.tensors import TensorListCPU
from pipeflow.types import DALIDataType

# The result is of the kind of the input: a node in a pipeline definition, arrays everywhere else.
Data = TypeVar("Data", DataNode, TensorListCPU, np.ndarray, list[Any])

def audio_resample(
    signal: Data,
    /,
    *,
    scale: float | DataNode | None = None,
    in_rate: float | DataNode | None = None,
    out_rate: float | DataNode | None = None,
    out_length: int | DataNode | None = None,
    quality: float | None = 50.0,
    antialias: bool | Literal[0, 1] | None = True,
    dtype: DTypeLike | DALIDataType | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Resamples a signal (time, or time by channels) by a factor, from one rate to another, or to a length.

    Arguments:
        scale: factor of the length
        in_rate: rate of the signal, together with out_rate
        out_rate: rate of the result
        out_length: length of the result
        quality: quality of the resampling, from 0 (a filter of 3 lobes) by 50 (16) to 100 (64)
        antialias: remove frequencies that a lower rate cannot represent; False: keep them, as DALI does
        dtype: type of the result; default: that of the input
    """

def autocontrast(
    image: Data,
    /,
    *,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Stretches every channel so that its smallest value becomes 0 and its largest 255; a channel with only one value does not change."""

def batch_permutation(
    *,
    allow_repetitions: bool | Literal[0, 1] | None = False,
    no_fixed_points: bool | Literal[0, 1] | None = False,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> DataNode:
    """The numbers of the samples of the batch, or of the branch, in a random order: one number for each sample.

    Arguments:
        allow_repetitions: draw each number from all samples, so that some may come twice
        no_fixed_points: no sample gets its own number, unless it is the only one
    """

def bb_flip(
    boxes: Data,
    /,
    *,
    ltrb: bool | Literal[0, 1] | None = False,
    horizontal: bool | Literal[0, 1] | DataNode | None = True,
    vertical: bool | Literal[0, 1] | DataNode | None = False,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Mirrors boxes in relative coordinates, as flip mirrors their image.

    Arguments:
        ltrb: True: boxes are left, top, right and bottom; False: left, top, width and height
        horizontal: mirror left to right
        vertical: mirror top to bottom
    """

@overload
def bbox_crop(
    boxes: Data,
    /,
    *,
    anchor: float | Sequence[float] | DataNode,
    shape: float | Sequence[float] | DataNode,
    input_shape: int | Sequence[int] | DataNode | None = None,
    bbox_layout: str | None = 'xyXY',
    bbox_normalized: bool | Literal[0, 1] | None = True,
    shape_layout: str | None = 'HW',
    remove_threshold: float | None = 0.1,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Moves boxes into a window that slice or crop cuts out, and limits them to it; boxes that are mostly outside are dropped.

    Arguments:
        anchor: start of the window, x and y, as for slice; relative to the image
        shape: width and height of the window, relative to the image
        input_shape: shape of the image; with it, anchor and shape are pixels
        bbox_layout: `xyXY` for left, top, right and bottom; `xyWH` for left, top, width and height
        bbox_normalized: the coordinates are relative to the image; otherwise they are pixels
        shape_layout: order of the extents in `input_shape`
        remove_threshold: a box remains if at least this share of its area is on the result
    """

@overload
def bbox_crop(
    boxes: Data,
    labels: DataNode | ArrayLike,
    /,
    *,
    anchor: float | Sequence[float] | DataNode,
    shape: float | Sequence[float] | DataNode,
    input_shape: int | Sequence[int] | DataNode | None = None,
    bbox_layout: str | None = 'xyXY',
    bbox_normalized: bool | Literal[0, 1] | None = True,
    shape_layout: str | None = 'HW',
    remove_threshold: float | None = 0.1,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> list[Data]:
    """Moves boxes into a window that slice or crop cuts out, and limits them to it; boxes that are mostly outside are dropped.

    Arguments:
        anchor: start of the window, x and y, as for slice; relative to the image
        shape: width and height of the window, relative to the image
        input_shape: shape of the image; with it, anchor and shape are pixels
        bbox_layout: `xyXY` for left, top, right and bottom; `xyWH` for left, top, width and height
        bbox_normalized: the coordinates are relative to the image; otherwise they are pixels
        shape_layout: order of the extents in `input_shape`
        remove_threshold: a box remains if at least this share of its area is on the result
    """

def bbox_paste(
    boxes: Data,
    /,
    *,
    ratio: float | DataNode,
    ltrb: bool | Literal[0, 1] | None = False,
    paste_x: float | DataNode | None = 0.5,
    paste_y: float | DataNode | None = 0.5,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Moves boxes in relative coordinates onto a larger canvas, as paste moves their image.

    Arguments:
        ratio: how many times wider and higher the canvas is than the image
        ltrb: True: boxes are left, top, right and bottom; False: left, top, width and height
        paste_x: where the image is in the canvas, from 0 at the left to 1 at the right
        paste_y: where the image is in the canvas, from 0 at the top to 1 at the bottom
    """

@overload
def bbox_remap(
    boxes: Data,
    mapx: DataNode | ArrayLike,
    mapy: DataNode | ArrayLike,
    /,
    *,
    input_shape: int | Sequence[int] | DataNode | None = None,
    pixel_origin: str | None = 'corner',
    bbox_layout: str | None = 'xyXY',
    bbox_normalized: bool | Literal[0, 1] | None = True,
    shape_layout: str | None = 'HW',
    remove_threshold: float | None = 0.1,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Moves boxes as remap moves their image: each becomes the box around the pixels that come from inside it.

    Arguments:
        input_shape: shape of the image before the remap; default: that of the maps
        pixel_origin: position of (0, 0): the `corner` of the first pixel or, as in OpenCV, its `center`
        bbox_layout: `xyXY` for left, top, right and bottom; `xyWH` for left, top, width and height
        bbox_normalized: the coordinates are relative to the image; otherwise they are pixels
        shape_layout: order of the extents in `input_shape`
        remove_threshold: a box remains if its new area is at least this share of its old one
    """

@overload
def bbox_remap(
    boxes: Data,
    mapx: DataNode | ArrayLike,
    mapy: DataNode | ArrayLike,
    labels: DataNode | ArrayLike,
    /,
    *,
    input_shape: int | Sequence[int] | DataNode | None = None,
    pixel_origin: str | None = 'corner',
    bbox_layout: str | None = 'xyXY',
    bbox_normalized: bool | Literal[0, 1] | None = True,
    shape_layout: str | None = 'HW',
    remove_threshold: float | None = 0.1,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> list[Data]:
    """Moves boxes as remap moves their image: each becomes the box around the pixels that come from inside it.

    Arguments:
        input_shape: shape of the image before the remap; default: that of the maps
        pixel_origin: position of (0, 0): the `corner` of the first pixel or, as in OpenCV, its `center`
        bbox_layout: `xyXY` for left, top, right and bottom; `xyWH` for left, top, width and height
        bbox_normalized: the coordinates are relative to the image; otherwise they are pixels
        shape_layout: order of the extents in `input_shape`
        remove_threshold: a box remains if its new area is at least this share of its old one
    """

@overload
def bbox_rotate(
    boxes: Data,
    /,
    *,
    angle: float | DataNode,
    input_shape: int | Sequence[int] | DataNode,
    bbox_layout: str | None = 'xyXY',
    bbox_normalized: bool | Literal[0, 1] | None = True,
    shape_layout: str | None = 'HW',
    keep_size: bool | Literal[0, 1] | None = False,
    size: float | Sequence[float] | DataNode | None = (),
    mode: str | None = 'expand',
    remove_threshold: float | None = 0.1,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Turns boxes as rotate turns their image; those that mostly leave it are dropped, with their labels.

    Arguments:
        angle: angle in degrees, counter-clockwise
        input_shape: shape of the image before it is turned
        bbox_layout: `xyXY` for left, top, right and bottom; `xyWH` for left, top, width and height
        bbox_normalized: the coordinates are relative to the image; otherwise they are pixels
        shape_layout: order of the extents in `input_shape`
        keep_size: the turned image has the extents of the input; False: the canvas contains the turned image
        size: height and width of the canvas, if rotate has them as an argument
        mode: `expand` gives the box around the turned box, `fixed` keeps its extents, `halfway` is the mean of both
        remove_threshold: a box remains if at least this share of its turned area is on the canvas
    """

@overload
def bbox_rotate(
    boxes: Data,
    labels: DataNode | ArrayLike,
    /,
    *,
    angle: float | DataNode,
    input_shape: int | Sequence[int] | DataNode,
    bbox_layout: str | None = 'xyXY',
    bbox_normalized: bool | Literal[0, 1] | None = True,
    shape_layout: str | None = 'HW',
    keep_size: bool | Literal[0, 1] | None = False,
    size: float | Sequence[float] | DataNode | None = (),
    mode: str | None = 'expand',
    remove_threshold: float | None = 0.1,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> list[Data]:
    """Turns boxes as rotate turns their image; those that mostly leave it are dropped, with their labels.

    Arguments:
        angle: angle in degrees, counter-clockwise
        input_shape: shape of the image before it is turned
        bbox_layout: `xyXY` for left, top, right and bottom; `xyWH` for left, top, width and height
        bbox_normalized: the coordinates are relative to the image; otherwise they are pixels
        shape_layout: order of the extents in `input_shape`
        keep_size: the turned image has the extents of the input; False: the canvas contains the turned image
        size: height and width of the canvas, if rotate has them as an argument
        mode: `expand` gives the box around the turned box, `fixed` keeps its extents, `halfway` is the mean of both
        remove_threshold: a box remains if at least this share of its turned area is on the canvas
    """

@overload
def bbox_warp(
    boxes: Data,
    /,
    *,
    matrix: float | Sequence[float] | DataNode,
    input_shape: int | Sequence[int] | DataNode,
    size: float | Sequence[float] | DataNode | None = (),
    inverse_map: bool | Literal[0, 1] | None = True,
    bbox_layout: str | None = 'xyXY',
    bbox_normalized: bool | Literal[0, 1] | None = True,
    shape_layout: str | None = 'HW',
    remove_threshold: float | None = 0.1,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Moves boxes as warp_affine or warp_perspective moves their image; those that mostly leave it are dropped.

    Arguments:
        matrix: matrix of the warp, six numbers or nine
        input_shape: shape of the image before the warp
        size: height and width of the result, if the warp has them as an argument; default: those of the image
        inverse_map: the matrix maps positions of the result to positions of the image, as in the warp
        bbox_layout: `xyXY` for left, top, right and bottom; `xyWH` for left, top, width and height
        bbox_normalized: the coordinates are relative to the image; otherwise they are pixels
        shape_layout: order of the extents in `input_shape`
        remove_threshold: a box remains if at least this share of its moved area is on the result
    """

@overload
def bbox_warp(
    boxes: Data,
    labels: DataNode | ArrayLike,
    /,
    *,
    matrix: float | Sequence[float] | DataNode,
    input_shape: int | Sequence[int] | DataNode,
    size: float | Sequence[float] | DataNode | None = (),
    inverse_map: bool | Literal[0, 1] | None = True,
    bbox_layout: str | None = 'xyXY',
    bbox_normalized: bool | Literal[0, 1] | None = True,
    shape_layout: str | None = 'HW',
    remove_threshold: float | None = 0.1,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> list[Data]:
    """Moves boxes as warp_affine or warp_perspective moves their image; those that mostly leave it are dropped.

    Arguments:
        matrix: matrix of the warp, six numbers or nine
        input_shape: shape of the image before the warp
        size: height and width of the result, if the warp has them as an argument; default: those of the image
        inverse_map: the matrix maps positions of the result to positions of the image, as in the warp
        bbox_layout: `xyXY` for left, top, right and bottom; `xyWH` for left, top, width and height
        bbox_normalized: the coordinates are relative to the image; otherwise they are pixels
        shape_layout: order of the extents in `input_shape`
        remove_threshold: a box remains if at least this share of its moved area is on the result
    """

def box_encoder(
    boxes: Data,
    labels: DataNode | ArrayLike,
    /,
    *,
    anchors: float | Sequence[float],
    criteria: float | None = 0.5,
    offset: bool | Literal[0, 1] | None = False,
    means: float | Sequence[float] | None = (0.0, 0.0, 0.0, 0.0),
    stds: float | Sequence[float] | None = (1.0, 1.0, 1.0, 1.0),
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> list[Data]:
    """Returns for every anchor of a detector the box and the class that it should learn; class 0 is the background.

    Arguments:
        anchors: anchors of the detector, four numbers each
        criteria: an anchor learns a box if their intersection over union is larger than this
        offset: return offsets from the anchor: that of the centre in widths and heights of the anchor, and the logarithms of the ratios of the extents; 0 for the background
        means: values that are subtracted from the four offsets
        stds: values by which the four differences are divided
    """

def brightness(
    image: Data,
    /,
    *,
    brightness: float | DataNode | None = 1.0,
    brightness_shift: float | DataNode | None = 0.0,
    dtype: DTypeLike | DALIDataType | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Changes brightness: ``shift * range + brightness * image``, where range is the output type's maximum (1 for floats).

    Arguments:
        brightness: factor of the brightness
        brightness_shift: value that is added, as a share of the output type's maximum (of 1 for floats)
        dtype: type of the result; default: that of the input
    """

def brightness_contrast(
    image: Data,
    /,
    *,
    brightness: float | DataNode | None = 1.0,
    brightness_shift: float | DataNode | None = 0.0,
    contrast: float | DataNode | None = 1.0,
    contrast_center: float | DataNode | None = None,
    dtype: DTypeLike | DALIDataType | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Changes brightness and contrast: ``shift * range + brightness * (center + contrast * (image - center))``.

    Arguments:
        brightness: factor of the brightness
        brightness_shift: value that is added, as a share of the output type's maximum (of 1 for floats)
        contrast: factor of the distance from the centre
        contrast_center: value of the input that contrast does not change; default: the middle of its type's range (0.5 for floats)
        dtype: type of the result; default: that of the input
    """

def cache(
    data: Data,
    /,
    *,
    memory: int | None = None,
    disk: str | None = None,
    disk_bytes: int | None = None,
    key: str | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Stores samples, so that later epochs do not run the operators before it for these samples.

    Arguments:
        memory: bytes of memory of this machine that it may take, for all processes together
        disk: folder where samples are kept when memory is full, and for later runs
        disk_bytes: bytes that all caches in that folder may take; default: no limit
        key: name of the data, if it is not read from files; change it when the data changes
    """

def cast(
    data: Data,
    /,
    *,
    dtype: DTypeLike | DALIDataType,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Converts to another type: rounded half away from zero and limited to its range. For BOOL every number except 0 is true.

    Arguments:
        dtype: type of the result
    """

def cast_like(
    data: Data,
    like: DataNode | ArrayLike,
    /,
    *,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Converts to the type of the second input."""

def cat(
    *inputs: Data,
    axis: int | None = 0,
    axis_name: str | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Joins the inputs along an existing axis.

    Arguments:
        axis: axis along which the inputs are joined; negative: from the end
        axis_name: the same axis by its letter in the layout
    """

def channel_dropout(
    image: Data,
    /,
    *,
    count: int | DataNode | None = 1,
    fill: float | DataNode | None = 0.0,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> Data:
    """Fills random channels with one value.

    Arguments:
        count: number of channels that are dropped
        fill: value of dropped channels
    """

def channel_shift(
    image: Data,
    /,
    *,
    shift: float | Sequence[float] | DataNode,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Adds a number to each channel; results are limited to 0 to 255.

    Arguments:
        shift: added value, one number or one for each channel
    """

def channel_shuffle(
    image: Data,
    /,
    *,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> Data:
    """Puts the channels into a random order, one for all frames of a sequence."""

def clahe(
    image: Data,
    /,
    *,
    tiles_x: int,
    tiles_y: int,
    clip_limit: float,
    luma_only: bool | Literal[0, 1] | None = True,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Spreads the values tile by tile, with limited contrast, and blends between the tiles (CLAHE), as OpenCV does.

    Arguments:
        tiles_x: the number of tiles from left to right
        tiles_y: the number of tiles from top to bottom
        clip_limit: largest count of a class, in multiples of the mean count of a histogram; the excess is spread over all classes; 0: no limit
        luma_only: with three channels only the lightness is spread, in the colour space Lab; False: each channel by itself
    """

def color_jitter(
    image: Data,
    /,
    *,
    brightness: float | Sequence[float] | DataNode | None = (0.8, 1.2),
    contrast: float | Sequence[float] | DataNode | None = (0.8, 1.2),
    saturation: float | Sequence[float] | DataNode | None = (0.8, 1.2),
    hue: float | Sequence[float] | DataNode | None = (-18.0, 18.0),
    dtype: DTypeLike | DALIDataType | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> Data:
    """Changes brightness, contrast, saturation and hue by random numbers, in random order.

    Arguments:
        brightness: smallest and largest factor of the brightness
        contrast: smallest and largest factor of the distance from the middle: 128 for integers, 0.5 for floats
        saturation: smallest and largest factor of the saturation
        hue: smallest and largest turn of the colours, in degrees
        dtype: type of the result; default: that of the input
    """

def color_space_conversion(
    image: Data,
    /,
    *,
    image_type: int,
    output_type: int,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Converts between RGB, BGR, YCbCr (studio range) and GRAY.

    Arguments:
        image_type: colour space of the input: RGB, BGR, GRAY or YCbCr
        output_type: colour space of the result
    """

def color_twist(
    image: Data,
    /,
    *,
    image_type: int | None = ...,
    dtype: DTypeLike | DALIDataType | None = None,
    hue: float | DataNode | None = 0.0,
    saturation: float | DataNode | None = 1.0,
    brightness: float | DataNode | None = 1.0,
    contrast: float | DataNode | None = 1.0,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Changes hue (degrees), saturation, brightness and contrast in one pass.

    Arguments:
        image_type: colour space of the image; only RGB is supported
        dtype: type of the result; default: that of the input
        hue: turn of the colours, in degrees
        saturation: factor of the saturation; 0 gives grey
        brightness: factor of the brightness
        contrast: factor of the distance from the middle: 128 for integers, 0.5 for floats
    """

def constant(
    *,
    fdata: float | Sequence[float] | None = None,
    idata: int | Sequence[int] | None = None,
    shape: int | Sequence[int] | None = None,
    dtype: DTypeLike | DALIDataType | None = None,
    layout: str | None = '',
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> DataNode:
    """The same numbers for every sample.

    Arguments:
        fdata: the numbers, one after another
        idata: the numbers as integers, in place of fdata
        shape: shape of the result; a single number is repeated to fill it; default: a list
        dtype: type of the result; default: FLOAT for fdata, INT32 for idata
        layout: layout of the result
    """

def contrast(
    image: Data,
    /,
    *,
    contrast: float | DataNode | None = 1.0,
    contrast_center: float | DataNode | None = None,
    dtype: DTypeLike | DALIDataType | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Changes contrast around ``contrast_center``, by default the middle of the input type's range (0.5 for floats).

    Arguments:
        contrast: factor of the distance from the centre
        contrast_center: value of the input that contrast does not change; default: the middle of its type's range (0.5 for floats)
        dtype: type of the result; default: that of the input
    """

def contrast_about_mean(
    image: Data,
    /,
    *,
    contrast: float | DataNode | None = 1.0,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Changes contrast around the mean grey of the image, as Pillow and torchvision do.

    Arguments:
        contrast: factor of the distance from the mean
    """

@overload
def coord_crop(
    points: Data,
    /,
    *,
    anchor: float | Sequence[float] | DataNode,
    shape: float | Sequence[float] | DataNode,
    input_shape: int | Sequence[int] | DataNode | None = None,
    shape_layout: str | None = 'HW',
    normalized: bool | Literal[0, 1] | None = True,
    remove_outside: bool | Literal[0, 1] | None = True,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Moves points (x, y) into a window that slice or crop cuts out; points outside it are dropped, with their labels.

    Arguments:
        anchor: start of the window, x and y, as for slice; relative to the image
        shape: width and height of the window, relative to the image
        input_shape: shape of the image; with it, anchor and shape are pixels
        shape_layout: order of the extents in `input_shape`
        normalized: the coordinates are relative to the image; False: pixels
        remove_outside: drop the points that are outside the result; False: keep all
    """

@overload
def coord_crop(
    points: Data,
    labels: DataNode | ArrayLike,
    /,
    *,
    anchor: float | Sequence[float] | DataNode,
    shape: float | Sequence[float] | DataNode,
    input_shape: int | Sequence[int] | DataNode | None = None,
    shape_layout: str | None = 'HW',
    normalized: bool | Literal[0, 1] | None = True,
    remove_outside: bool | Literal[0, 1] | None = True,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> list[Data]:
    """Moves points (x, y) into a window that slice or crop cuts out; points outside it are dropped, with their labels.

    Arguments:
        anchor: start of the window, x and y, as for slice; relative to the image
        shape: width and height of the window, relative to the image
        input_shape: shape of the image; with it, anchor and shape are pixels
        shape_layout: order of the extents in `input_shape`
        normalized: the coordinates are relative to the image; False: pixels
        remove_outside: drop the points that are outside the result; False: keep all
    """

def coord_flip(
    points: Data,
    /,
    *,
    flip_x: bool | Literal[0, 1] | DataNode | None = True,
    flip_y: bool | Literal[0, 1] | DataNode | None = False,
    flip_z: bool | Literal[0, 1] | DataNode | None = False,
    center_x: float | DataNode | None = 0.5,
    center_y: float | DataNode | None = 0.5,
    center_z: float | DataNode | None = 0.5,
    layout: str | None = '',
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Mirrors points about a centre, coordinate by coordinate. A coordinate that the points do not have is not mirrored.

    Arguments:
        flip_x: mirror the horizontal coordinates
        flip_y: mirror the vertical coordinates
        flip_z: mirror the depths
        center_x: the middle between a horizontal coordinate and its mirror image; 0.5 for relative coordinates
        center_y: the same for the vertical coordinates
        center_z: the same for the depths
        layout: order of the coordinates of a point; default: `xyz`, or its first letters
    """

@overload
def coord_remap(
    points: Data,
    mapx: DataNode | ArrayLike,
    mapy: DataNode | ArrayLike,
    /,
    *,
    input_shape: int | Sequence[int] | DataNode | None = None,
    pixel_origin: str | None = 'corner',
    shape_layout: str | None = 'HW',
    normalized: bool | Literal[0, 1] | None = True,
    remove_outside: bool | Literal[0, 1] | None = True,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Moves points (x, y) as remap moves their image; those that leave it are dropped, with their labels.

    Arguments:
        input_shape: shape of the image before the remap; default: that of the maps
        pixel_origin: position of (0, 0): the `corner` of the first pixel or, as in OpenCV, its `center`
        shape_layout: order of the extents in `input_shape`
        normalized: the coordinates are relative to the image; False: pixels
        remove_outside: drop the points that are outside the result; False: keep all
    """

@overload
def coord_remap(
    points: Data,
    mapx: DataNode | ArrayLike,
    mapy: DataNode | ArrayLike,
    labels: DataNode | ArrayLike,
    /,
    *,
    input_shape: int | Sequence[int] | DataNode | None = None,
    pixel_origin: str | None = 'corner',
    shape_layout: str | None = 'HW',
    normalized: bool | Literal[0, 1] | None = True,
    remove_outside: bool | Literal[0, 1] | None = True,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> list[Data]:
    """Moves points (x, y) as remap moves their image; those that leave it are dropped, with their labels.

    Arguments:
        input_shape: shape of the image before the remap; default: that of the maps
        pixel_origin: position of (0, 0): the `corner` of the first pixel or, as in OpenCV, its `center`
        shape_layout: order of the extents in `input_shape`
        normalized: the coordinates are relative to the image; False: pixels
        remove_outside: drop the points that are outside the result; False: keep all
    """

def coord_transform(
    points: Data,
    /,
    *,
    M: Any = None,
    T: Any = None,
    MT: Any = None,
    dtype: DTypeLike | DALIDataType | None = ...,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Applies a matrix and a translation to points: the last axis holds the coordinates.

    Arguments:
        M: matrix, row by row; one number: a uniform scale
        T: value added to each coordinate; one number: the same for all
        MT: matrix and translation in one, the translation in the last column
        dtype: type of the result
    """

@overload
def coord_warp(
    points: Data,
    /,
    *,
    matrix: float | Sequence[float] | DataNode,
    input_shape: int | Sequence[int] | DataNode,
    size: float | Sequence[float] | DataNode | None = (),
    inverse_map: bool | Literal[0, 1] | None = True,
    shape_layout: str | None = 'HW',
    normalized: bool | Literal[0, 1] | None = True,
    remove_outside: bool | Literal[0, 1] | None = True,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Moves points (x, y) as warp_affine or warp_perspective moves their image; those that leave it are dropped.

    Arguments:
        matrix: matrix of the warp, six numbers or nine
        input_shape: shape of the image before the warp
        size: height and width of the result, if the warp has them as an argument; default: those of the image
        inverse_map: the matrix maps positions of the result to positions of the image, as in the warp
        shape_layout: order of the extents in `input_shape`
        normalized: the coordinates are relative to the image; otherwise they are pixels
        remove_outside: drop the points that are outside the result; False: keep all
    """

@overload
def coord_warp(
    points: Data,
    labels: DataNode | ArrayLike,
    /,
    *,
    matrix: float | Sequence[float] | DataNode,
    input_shape: int | Sequence[int] | DataNode,
    size: float | Sequence[float] | DataNode | None = (),
    inverse_map: bool | Literal[0, 1] | None = True,
    shape_layout: str | None = 'HW',
    normalized: bool | Literal[0, 1] | None = True,
    remove_outside: bool | Literal[0, 1] | None = True,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> list[Data]:
    """Moves points (x, y) as warp_affine or warp_perspective moves their image; those that leave it are dropped.

    Arguments:
        matrix: matrix of the warp, six numbers or nine
        input_shape: shape of the image before the warp
        size: height and width of the result, if the warp has them as an argument; default: those of the image
        inverse_map: the matrix maps positions of the result to positions of the image, as in the warp
        shape_layout: order of the extents in `input_shape`
        normalized: the coordinates are relative to the image; otherwise they are pixels
        remove_outside: drop the points that are outside the result; False: keep all
    """

def copy(
    data: Data,
    /,
    *,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Copies the data; with ``device="gpu"`` to the GPU."""

def crop(
    image: Data,
    /,
    *,
    crop: float | Sequence[float] | DataNode | None = None,
    crop_h: float | DataNode | None = 0.0,
    crop_w: float | DataNode | None = 0.0,
    crop_d: float | DataNode | None = 0.0,
    crop_pos_x: float | DataNode | None = 0.5,
    crop_pos_y: float | DataNode | None = 0.5,
    crop_pos_z: float | DataNode | None = 0.5,
    rounding: str | None = 'round',
    out_of_bounds_policy: str | None = 'error',
    fill_values: float | Sequence[float] | None = (0.0,),
    dtype: DTypeLike | DALIDataType | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Cuts a window out of the image, by default at its centre.

    Arguments:
        crop: extents of the window in the order of the layout (depth, height, width); one number: the same for all
        crop_h: height of the window; 0: the whole height
        crop_w: width of the window; 0: the whole width
        crop_d: depth of the window in a volume; 0: the whole depth
        crop_pos_x: position of the window along the width: 0 is at the left, 1 at the right
        crop_pos_y: position of the window along the height: 0 is at the top, 1 at the bottom
        crop_pos_z: position of the window along the depth of a volume: 0 is in front, 1 at the back
        rounding: rounding of a start between two pixels: `round` to the nearer one, or `truncate`
        out_of_bounds_policy: for a window that leaves the data: `error`, `pad` it with fill_values, or `trim_to_shape` of the data
        fill_values: value for `pad`: one number, or one for each channel
        dtype: type of the result; default: that of the input
    """

def crop_mirror_normalize(
    image: Data,
    /,
    *,
    crop: float | Sequence[float] | DataNode | None = None,
    crop_h: float | DataNode | None = 0.0,
    crop_w: float | DataNode | None = 0.0,
    crop_d: float | DataNode | None = 0.0,
    crop_pos_x: float | DataNode | None = 0.5,
    crop_pos_y: float | DataNode | None = 0.5,
    crop_pos_z: float | DataNode | None = 0.5,
    rounding: str | None = 'round',
    out_of_bounds_policy: str | None = 'error',
    fill_values: float | Sequence[float] | None = (0.0,),
    mirror: bool | Literal[0, 1] | DataNode | None = False,
    mean: float | Sequence[float] | DataNode | None = (0.0,),
    std: float | Sequence[float] | DataNode | None = (1.0,),
    scale: float | None = 1.0,
    shift: float | None = 0.0,
    output_layout: str | None = 'CHW',
    pad_output: bool | Literal[0, 1] | None = False,
    dtype: DTypeLike | DALIDataType | None = ...,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Cuts a window out, mirrors it left to right if ``mirror`` is given, and normalises: ``scale * (x - mean) / std + shift``.

    Arguments:
        crop: extents of the window in the order of the layout (depth, height, width); one number: the same for all
        crop_h: height of the window; 0: the whole height
        crop_w: width of the window; 0: the whole width
        crop_d: depth of the window in a volume; 0: the whole depth
        crop_pos_x: position of the window along the width: 0 is at the left, 1 at the right
        crop_pos_y: position of the window along the height: 0 is at the top, 1 at the bottom
        crop_pos_z: position of the window along the depth of a volume: 0 is in front, 1 at the back
        rounding: rounding of a start between two pixels: `round` to the nearer one, or `truncate`
        out_of_bounds_policy: for a window that leaves the data: `error`, `pad` it with fill_values, or `trim_to_shape` of the data
        fill_values: value for `pad`: one number, or one for each channel
        mirror: mirror the window left to right
        mean: value that is subtracted: one number, or one for each channel
        std: value by which the difference is divided: one number, or one for each channel
        scale: factor of the quotient
        shift: value that is added at the end
        output_layout: layout of the result: `CHW` has the channels before the pixels, `HWC` after them
        pad_output: add channels until their number is a power of two: of zeros, or of `fill_values` with `out_of_bounds_policy='pad'`
        dtype: type of the result; integers are rounded and limited to their range
    """

def cutmix(
    images: Data,
    labels: DataNode | ArrayLike,
    /,
    *,
    alpha: float | DataNode | None = 1.0,
    share: float | DataNode | None = None,
    partner: int | DataNode | None = None,
    num_classes: int | None = 0,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> list[Data]:
    """Puts a window of another image of the batch into each; labels are mixed by the areas.

    Arguments:
        alpha: both parameters of the beta distribution of the shares; the smaller, the less is mixed
        share: share of the image itself, from 0 to 1; default: random
        partner: index in the batch of the sample that is mixed in; default: random
        num_classes: number of classes, if labels are class numbers; each label then becomes a vector
    """

def debayer(
    data: Data,
    /,
    *,
    blue_position: int | Sequence[int] | DataNode,
    algorithm: str | None = 'bilinear_ocv',
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Converts the data of a sensor whose pixels have one colour each to RGB or grey, as OpenCV does.

    Arguments:
        blue_position: row and column of blue in a tile that starts at the second row and column: (0, 0) is BG, (0, 1) GB, (1, 0) GR, (1, 1) RG
        algorithm: `bilinear_ocv`, `edgeaware_ocv`, `vng_ocv` (UINT8 only) or `gray_ocv`; `default_npp` is the first
    """

def dilate(
    image: Data,
    /,
    *,
    mask_size: int | Sequence[int] | DataNode | None = (3, 3),
    anchor: int | Sequence[int] | DataNode | None = (-1, -1),
    border_mode: str | None = 'constant',
    iterations: int | None = 1,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Replaces every pixel by the largest value in a window around it, channel by channel: bright areas grow.

    Arguments:
        mask_size: width and height of the window; one number for both
        anchor: position of the pixel in its window, to the right and down; -1 is the middle
        border_mode: values outside the image: none (`constant`), or `replicate`, `reflect`, `reflect_101` or `wrap`
        iterations: number of repetitions
    """

@overload
def dl_tensor_python_function(
    first: Data,
    /,
    *inputs: DataNode | ArrayLike,
    function: Callable[..., Any],
    num_outputs: int | None = 1,
    output_layouts: Any = None,
    batch_processing: bool | Literal[0, 1] | None = True,
    synchronize_stream: bool | Literal[0, 1] | None = True,
    parallel: Literal['serial', 'threads', 'processes'] | None = 'serial',
    timeout: float | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Any:
    """Calls a function with lists of DLPack capsules, one for each sample; with ``batch_processing=False``, once for each sample.

    Arguments:
        function: function to call with a list of DLPack capsules for each input
        num_outputs: number of arrays that the function returns; 0: none
        output_layouts: layout of every output, or a list of layouts
        batch_processing: call the function once for the batch, with a list of capsules for each input
        synchronize_stream: let the work on a GPU finish before the call
        parallel: where the calls run: `serial` one after another in the order of the samples, `threads` on several threads at once, `processes` in worker processes
        timeout: longest time of a call, in seconds; a longer call is an error; default: no limit
    """

@overload
def dl_tensor_python_function(
    *,
    function: Callable[..., Any],
    num_outputs: int | None = 1,
    output_layouts: Any = None,
    batch_processing: bool | Literal[0, 1] | None = True,
    synchronize_stream: bool | Literal[0, 1] | None = True,
    parallel: Literal['serial', 'threads', 'processes'] | None = 'serial',
    timeout: float | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Any:
    """Calls a function with lists of DLPack capsules, one for each sample; with ``batch_processing=False``, once for each sample.

    Arguments:
        function: function to call with a list of DLPack capsules for each input
        num_outputs: number of arrays that the function returns; 0: none
        output_layouts: layout of every output, or a list of layouts
        batch_processing: call the function once for the batch, with a list of capsules for each input
        synchronize_stream: let the work on a GPU finish before the call
        parallel: where the calls run: `serial` one after another in the order of the samples, `threads` on several threads at once, `processes` in worker processes
        timeout: longest time of a call, in seconds; a longer call is an error; default: no limit
    """

def dump_image(
    image: Data,
    /,
    *,
    suffix: str | None = '',
    input_layout: str | None = 'HWC',
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Writes the images to the current folder and passes them on.

    Arguments:
        suffix: part of the names of the files
        input_layout: layout of the images; only HWC is supported
    """

def element_extract(
    data: Data,
    /,
    *,
    element_map: int | Sequence[int],
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Any:
    """Takes single elements out of a sequence, one output for each index.

    Arguments:
        element_map: numbers of the elements, one for each output
    """

def enhance(
    image: Data,
    /,
    *,
    mode: str | None = 'edges',
    alpha: float | DataNode | None = 0.75,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Mixes the image with a form of it that has stronger edges or details, like Pillow's filters of these names.

    Arguments:
        mode: the effect: `edges`, or the softer `details`
        alpha: share of the enhanced image in the result, from 0 to 1
    """

def equalize(
    image: Data,
    /,
    *,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Spreads the values of every channel so that all parts of the range have about the same number of pixels."""

def erase(
    data: Data,
    /,
    *,
    anchor: float | Sequence[float] | DataNode | None = (),
    shape: float | Sequence[float] | DataNode | None = (),
    axes: int | Sequence[int] | None = None,
    axis_names: str | None = None,
    fill_value: float | Sequence[float] | DataNode | None = (0.0,),
    normalized: bool | Literal[0, 1] | None = False,
    normalized_anchor: bool | Literal[0, 1] | None = False,
    normalized_shape: bool | Literal[0, 1] | None = False,
    centered_anchor: bool | Literal[0, 1] | None = False,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Overwrites rectangles with a value, or one value for each channel.

    Arguments:
        anchor: start of each rectangle, along each of the axes
        shape: extents of each rectangle, along each of the axes
        axes: axes of the rectangles, by number; default: height and width
        axis_names: the same axes by their letters in the layout
        fill_value: value that is written: one number, or one for each channel
        normalized: anchor and shape are shares of the extents; False: elements
        normalized_anchor: the anchor is a share of the extents; False: in elements
        normalized_shape: the shape is a share of the extents; False: in elements
        centered_anchor: the anchor is the middle of the rectangle; False: its beginning
    """

def erode(
    image: Data,
    /,
    *,
    mask_size: int | Sequence[int] | DataNode | None = (3, 3),
    anchor: int | Sequence[int] | DataNode | None = (-1, -1),
    border_mode: str | None = 'constant',
    iterations: int | None = 1,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Replaces every pixel by the smallest value in a window around it, channel by channel: bright areas shrink.

    Arguments:
        mask_size: width and height of the window; one number for both
        anchor: position of the pixel in its window, to the right and down; -1 is the middle
        border_mode: values outside the image: none (`constant`), or `replicate`, `reflect`, `reflect_101` or `wrap`
        iterations: number of repetitions
    """

def expand_dims(
    data: Data,
    /,
    *,
    axes: int | Sequence[int],
    new_axis_names: str | None = '',
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Inserts axes of extent 1; ``axes`` are their places in the result.

    Arguments:
        axes: positions of the new axes in the result
        new_axis_names: letters of the new axes in the layout
    """

@overload
def external_source(
    source: Any = None,
    num_outputs: None = None,
    *,
    batch: bool | Literal[0, 1] | None = None,
    cycle: Literal['no', 'quiet', 'raise', False, True] | None = None,
    dtype: Any = None,
    ndim: Any = None,
    layout: Any = None,
    repeat_last: bool | Literal[0, 1] | None = False,
    batch_info: bool | Literal[0, 1] | None = False,
    no_copy: bool | Literal[0, 1] | None = False,
    blocking: bool | Literal[0, 1] | None = False,
    parallel: bool | Literal[0, 1] | None = False,
    prefetch_queue_depth: int | None = 1,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> DataNode:
    """Brings your own data into the pipeline: from a callable, an iterable, a generator function, or (without ``source``) from ``feed_input``.

    Arguments:
        source: callable, iterable or generator function with the data; default: the data comes from `feed_input`
        num_outputs: number of outputs that the source returns in a list or tuple; default: one output, without a list
        batch: the source returns whole batches; False: single samples
        cycle: what happens at the end of an iterable: `no` ends the data, `quiet` (or True) starts over, `raise` ends the epoch and starts over in the next
        dtype: type that each output must have: one, or a list
        ndim: number of axes that each sample must have: one, or a list
        layout: layout of each output: one, or a list
        repeat_last: use the last batch again if no new one was fed
        batch_info: call the source with a BatchInfo; False: with the number of the iteration
        no_copy: do not copy arrays; they must not be changed afterwards
        blocking: wait for data to be fed; False: that is an error
        parallel: call the source in worker processes, ahead of time
        prefetch_queue_depth: number of batches that the worker processes make ahead
    """

@overload
def external_source(
    source: Any = None,
    *,
    num_outputs: int,
    batch: bool | Literal[0, 1] | None = None,
    cycle: Literal['no', 'quiet', 'raise', False, True] | None = None,
    dtype: Any = None,
    ndim: Any = None,
    layout: Any = None,
    repeat_last: bool | Literal[0, 1] | None = False,
    batch_info: bool | Literal[0, 1] | None = False,
    no_copy: bool | Literal[0, 1] | None = False,
    blocking: bool | Literal[0, 1] | None = False,
    parallel: bool | Literal[0, 1] | None = False,
    prefetch_queue_depth: int | None = 1,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> list[DataNode]:
    """Brings your own data into the pipeline: from a callable, an iterable, a generator function, or (without ``source``) from ``feed_input``.

    Arguments:
        source: callable, iterable or generator function with the data; default: the data comes from `feed_input`
        num_outputs: number of outputs that the source returns in a list or tuple; default: one output, without a list
        batch: the source returns whole batches; False: single samples
        cycle: what happens at the end of an iterable: `no` ends the data, `quiet` (or True) starts over, `raise` ends the epoch and starts over in the next
        dtype: type that each output must have: one, or a list
        ndim: number of axes that each sample must have: one, or a list
        layout: layout of each output: one, or a list
        repeat_last: use the last batch again if no new one was fed
        batch_info: call the source with a BatchInfo; False: with the number of the iteration
        no_copy: do not copy arrays; they must not be changed afterwards
        blocking: wait for data to be fed; False: that is an error
        parallel: call the source in worker processes, ahead of time
        prefetch_queue_depth: number of batches that the worker processes make ahead
    """

@overload
def external_source(
    source: Any = None,
    num_outputs: int | None = None,
    *,
    batch: bool | Literal[0, 1] | None = None,
    cycle: Literal['no', 'quiet', 'raise', False, True] | None = None,
    dtype: Any = None,
    ndim: Any = None,
    layout: Any = None,
    repeat_last: bool | Literal[0, 1] | None = False,
    batch_info: bool | Literal[0, 1] | None = False,
    no_copy: bool | Literal[0, 1] | None = False,
    blocking: bool | Literal[0, 1] | None = False,
    parallel: bool | Literal[0, 1] | None = False,
    prefetch_queue_depth: int | None = 1,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> Any:
    """Brings your own data into the pipeline: from a callable, an iterable, a generator function, or (without ``source``) from ``feed_input``.

    Arguments:
        source: callable, iterable or generator function with the data; default: the data comes from `feed_input`
        num_outputs: number of outputs that the source returns in a list or tuple; default: one output, without a list
        batch: the source returns whole batches; False: single samples
        cycle: what happens at the end of an iterable: `no` ends the data, `quiet` (or True) starts over, `raise` ends the epoch and starts over in the next
        dtype: type that each output must have: one, or a list
        ndim: number of axes that each sample must have: one, or a list
        layout: layout of each output: one, or a list
        repeat_last: use the last batch again if no new one was fed
        batch_info: call the source with a BatchInfo; False: with the number of the iteration
        no_copy: do not copy arrays; they must not be changed afterwards
        blocking: wait for data to be fed; False: that is an error
        parallel: call the source in worker processes, ahead of time
        prefetch_queue_depth: number of batches that the worker processes make ahead
    """

def filter(
    data: Data,
    kernel: DataNode | ArrayLike,
    fill: DataNode | ArrayLike | None = None,
    /,
    *,
    anchor: int | Sequence[int] | DataNode | None = (-1,),
    border: str | None = 'reflect_101',
    mode: str | None = 'same',
    dtype: DTypeLike | DALIDataType | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Correlates images or volumes with a kernel: the second input, of two or three axes.

    Arguments:
        anchor: the element of the kernel over the result, one number or one an axis; -1 is its middle
        border: values outside the data: `reflect_101`, `reflect_1001`, `clamp`, `wrap` or `constant`
        mode: `same` keeps the extents; `valid` returns only results that need no values from outside
        dtype: the type of the result; that of the data by default
    """

def flip(
    image: Data,
    /,
    *,
    horizontal: bool | Literal[0, 1] | DataNode | None = True,
    vertical: bool | Literal[0, 1] | DataNode | None = False,
    depthwise: bool | Literal[0, 1] | DataNode | None = False,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Mirrors the image left to right; with ``vertical`` top to bottom, with ``depthwise`` front to back.

    Arguments:
        horizontal: mirror left to right
        vertical: mirror top to bottom
        depthwise: mirror front to back, where the layout has a D
    """

def full(
    fill: Data,
    /,
    *,
    shape: int | Sequence[int] | DataNode | None = None,
    layout: str | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """The input repeated, by NumPy's broadcasting, to the given shape.

    Arguments:
        shape: shape of the result; default: that of the input
        layout: layout of the result
    """

def full_like(
    data: Data,
    fill: DataNode | ArrayLike,
    /,
    *,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """The second input repeated to the shape of the first, in the type of the first."""

def gaussian_blur(
    image: Data,
    /,
    *,
    sigma: float | Sequence[float] | DataNode | None = (0.0,),
    window_size: int | Sequence[int] | DataNode | None = (0,),
    dtype: DTypeLike | DALIDataType | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Blurs with a Gaussian window along every spatial axis; borders are mirrored without repeating the border pixel.

    Arguments:
        sigma: standard deviation in pixels: one number, or one for each spatial axis; 0: from the window
        window_size: extent of the window, odd: one number, or one for each spatial axis; 0: from sigma
        dtype: type of the result: that of the input, or FLOAT
    """

def get_property(
    data: Data,
    /,
    *,
    key: str,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """A property of each sample, "layout" or "source_info", as the bytes of its text.

    Arguments:
        key: "layout" or "source_info"
    """

def gradients(
    ys: DataNode | Sequence[DataNode | ArrayLike],
    xs: DataNode | Sequence[DataNode | ArrayLike],
    name: str | None = None,
    *,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> list[DataNode]:
    """Computes the derivatives of the sum of ``ys`` with respect to each of ``xs``, through ``fn.py_function``, arithmetic, casts and indexing."""

def grayscale(
    image: Data,
    /,
    *,
    channels: int | None = 3,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Makes the image grey, with the weights of ``color_space_conversion`` to GRAY.

    Arguments:
        channels: number of channels of the result: 3 that are equal, or 1
    """

def grid_mask(
    image: Data,
    /,
    *,
    tile: int | DataNode | None = 100,
    ratio: float | DataNode | None = 0.5,
    angle: float | DataNode | None = 0.0,
    shift_x: float | DataNode | None = 0.0,
    shift_y: float | DataNode | None = 0.0,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Sets a grid of squares to 0.

    Arguments:
        tile: the distance from square to square in pixels
        ratio: the side of a square as a share of that distance
        angle: angle of the grid, in radians
        shift_x: shift of the grid to the right after the turn, in pixels
        shift_y: shift of the grid down after the turn, in pixels
    """

def hsv(
    image: Data,
    /,
    *,
    dtype: DTypeLike | DALIDataType | None = ...,
    hue: float | DataNode | None = 0.0,
    saturation: float | DataNode | None = 1.0,
    value: float | DataNode | None = 1.0,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Turns the hue by an angle in degrees, scales saturation and value; the result is UINT8 unless ``dtype`` says otherwise.

    Arguments:
        dtype: type of the result
        hue: turn of the colours, in degrees
        saturation: factor of the saturation; 0 gives grey
        value: factor of the brightness
    """

def hue(
    image: Data,
    /,
    *,
    image_type: int | None = ...,
    dtype: DTypeLike | DALIDataType | None = None,
    hue: float | DataNode | None = 0.0,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Turns the hue by an angle in degrees.

    Arguments:
        image_type: colour space of the image; only RGB is supported
        dtype: type of the result; default: that of the input
        hue: turn of the colours, in degrees
    """

def invert(
    image: Data,
    /,
    *,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Replaces every value x by 255 - x."""

def jigsaw(
    image: Data,
    /,
    *,
    grid: int | Sequence[int] | DataNode | None = (4, 4),
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> Data:
    """Puts the parts of a grid into a random order; only parts of equal size change places.

    Arguments:
        grid: number of rows and columns of parts
    """

def jitter(
    image: Data,
    /,
    *,
    mask: int | DataNode | None = 1,
    fill_value: float | None = 0.0,
    interp_type: int | None = ...,
    nDegree: int | DataNode | None = 2,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> Data:
    """Takes every pixel from a random position near it.

    Arguments:
        mask: 0: the image is not changed
        fill_value: value outside the image
        interp_type: interpolation: INTERP_NN or INTERP_LINEAR
        nDegree: the random positions are at most half of this many pixels away along each axis
    """

def jpeg_compression_distortion(
    image: Data,
    /,
    *,
    quality: int | DataNode | None = 50,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Compresses the image as JPEG (4:2:0) with the given quality, 1 to 100, and decodes it again.

    Arguments:
        quality: quality of the compression, from 1 to 100
    """

def laplacian(
    image: Data,
    /,
    *,
    window_size: int | Sequence[int] | DataNode | None = (3,),
    smoothing_size: int | Sequence[int] | DataNode | None = None,
    scale: float | Sequence[float] | DataNode | None = (1.0,),
    normalized_kernel: bool | Literal[0, 1] | None = False,
    dtype: DTypeLike | DALIDataType | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Adds up the second derivatives along all spatial axes, each smoothed along the other ones.

    Arguments:
        window_size: the size of the derivative's window, one odd number from 3 to 31 or one an axis
        smoothing_size: the size of the window that smooths, odd, from 1 to 31, one or one an axis; default: that of the derivative
        scale: factors of the derivatives, one number or one an axis
        normalized_kernel: scales every window so that flat areas and edges keep their size
        dtype: the type of the result; that of the image by default
    """

def lookup_table(
    data: Data,
    /,
    *,
    keys: int | Sequence[int] | None = (),
    values: float | Sequence[float] | None = (),
    default_value: float | None = 0.0,
    dtype: DTypeLike | DALIDataType | None = ...,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Replaces each key by its value and everything else by ``default_value``; keys are between 0 and 65535.

    Arguments:
        keys: values of the input that are replaced, from 0 to 65535
        values: the value for each key
        default_value: value for all other numbers
        dtype: type of the result
    """

def median_blur(
    image: Data,
    /,
    *,
    window_size: int | Sequence[int] | DataNode | None = (3, 3),
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Replaces every pixel by the median of a window around it, channel by channel; outside the image the border pixels are repeated.

    Arguments:
        window_size: width and height of the window, both odd; one number for both
    """

def mel_filter_bank(
    spectrum: Data,
    /,
    *,
    nfilter: int | None = 128,
    sample_rate: float | None = 44100.0,
    freq_low: float | None = 0.0,
    freq_high: float | None = 0.0,
    mel_formula: Literal['slaney', 'htk'] | None = 'slaney',
    normalize: bool | Literal[0, 1] | None = True,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Weights the frequencies of a spectrogram into ``nfilter`` triangular bands, evenly spaced on the mel scale.

    Arguments:
        nfilter: number of bands
        sample_rate: rate of the signal, in samples a second
        freq_low: lowest frequency, in hertz
        freq_high: highest frequency, in hertz; 0: half the rate
        mel_formula: scale of the bands: `slaney` or `htk`
        normalize: give each filter an area of 1
    """

def mfcc(
    spectrum: Data,
    /,
    *,
    axis: int | None = 0,
    dct_type: int | None = 2,
    n_mfcc: int | None = 20,
    normalize: bool | Literal[0, 1] | None = False,
    lifter: float | None = 0.0,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """The first ``n_mfcc`` coefficients of the discrete cosine transform of types 1 to 4 along ``axis``.

    Arguments:
        axis: axis of the bands
        dct_type: type of the cosine transform, 1 to 4
        n_mfcc: number of coefficients
        normalize: make the transform orthonormal; not for type 1
        lifter: strength of the liftering of the coefficients; 0: none
    """

def mix(
    sources: Any,
    *,
    weights: Any = None,
    epoch_size: int | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> Any:
    """Mixes the samples of several readers, in proportions that are right from the first samples on. `sources` has the output of each reader, or a tuple of its outputs; operators come after the mixture. Only the seed determines which sample is at which position: the number of threads and shards and a restart change nothing. The readers keep their own order; a shuffled reader is shuffled again each time that it begins again. All readers must have the same arguments for shards.

    Arguments:
        sources: the output of each reader, or a tuple of its outputs
        weights: proportions of the sources, in any unit, or a function from the number of the epoch to them; default: the sizes of the sources, so that each sample comes once in an epoch
        epoch_size: number of samples in an epoch of all shards together; default: that of all samples of the sources
    """

def mixup(
    images: Data,
    labels: DataNode | ArrayLike,
    /,
    *,
    alpha: float | DataNode | None = 1.0,
    share: float | DataNode | None = None,
    partner: int | DataNode | None = None,
    num_classes: int | None = 0,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> list[Data]:
    """Mixes each image, and its labels, with another one of the batch: ``share`` of one and ``1 - share`` of the other.

    Arguments:
        alpha: both parameters of the beta distribution of the shares; the smaller, the less is mixed
        share: share of the image itself, from 0 to 1; default: random
        partner: index in the batch of the sample that is mixed in; default: random
        num_classes: number of classes, if labels are class numbers; each label then becomes a vector
    """

def motion_blur(
    image: Data,
    /,
    *,
    size: int | DataNode | None = 5,
    angle: float | DataNode | None = 0.0,
    direction: float | DataNode | None = 0.0,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Blurs along a line, like the movement of a camera.

    Arguments:
        size: length of the movement in pixels, an odd number
        angle: angle of the movement in degrees, counter-clockwise from the right
        direction: from -1 to 1: a larger value gives the end more weight than the beginning
    """

def multi_paste(
    *images: Data,
    in_ids: int | Sequence[int] | DataNode | None = None,
    output_size: int | Sequence[int] | DataNode | None = None,
    in_anchors: int | Sequence[int] | DataNode | None = None,
    in_anchors_rel: float | Sequence[float] | DataNode | None = None,
    shapes: int | Sequence[int] | DataNode | None = None,
    shapes_rel: float | Sequence[float] | DataNode | None = None,
    out_anchors: int | Sequence[int] | DataNode | None = None,
    out_anchors_rel: float | Sequence[float] | DataNode | None = None,
    dtype: DTypeLike | DALIDataType | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Puts parts of several images onto the canvas of each sample: mosaics, cut-mix.

    Arguments:
        in_ids: for each canvas the numbers of the samples in the batch that its parts come from
        output_size: height and width of the canvas; by default those of the sample
        in_anchors: start of each part in its image; its first pixel by default
        in_anchors_rel: the same relative to the image, rounded down
        shapes: height and width of each part; by default all after its beginning
        shapes_rel: the same relative to the image, rounded up
        out_anchors: start of each part on the canvas; its first pixel by default
        out_anchors_rel: the same relative to the canvas, rounded down
        dtype: the type of the canvas; that of the images by default
    """

def nonsilent_region(
    signal: Data,
    /,
    *,
    cutoff_db: float | None = -60.0,
    window_length: int | None = 2048,
    reference_power: float | None = 0.0,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> list[Data]:
    """Finds the part of a one-dimensional signal that is not silent: (begin, length), both INT32; length 0 if all of it is silent.

    Arguments:
        cutoff_db: power below which the signal is silent, in decibels of the reference
        window_length: number of samples over which the power is averaged
        reference_power: power that counts as 0 dB; 0: the largest of the signal
    """

def normalize(
    data: Data,
    /,
    *,
    mean: Any = None,
    stddev: Any = None,
    axes: int | Sequence[int] | None = None,
    axis_names: str | None = None,
    batch: bool | Literal[0, 1] | None = False,
    ddof: int | None = 0,
    epsilon: float | None = 0.0,
    scale: float | None = 1.0,
    shift: float | None = 0.0,
    dtype: DTypeLike | DALIDataType | None = ...,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Normalises the data: ``scale * (x - mean) / stddev + shift``, with the mean and deviation of the data itself by default.

    Arguments:
        mean: value that is subtracted, an array that can be broadcast to the data; default: the mean of the data
        stddev: value by which the difference is divided; default: the standard deviation of the data
        axes: axes of the mean and the deviation; default: the axes along which a given mean or deviation has one value, else all
        axis_names: the same axes by their letters in the layout
        batch: compute the mean and the deviation over the whole batch
        ddof: subtracted from the number of elements by which the variance is divided
        epsilon: added to the variance, to avoid a division by 0
        scale: factor of the quotient
        shift: value that is added at the end
        dtype: type of the result
    """

def numba_function(
    *inputs: Data,
    run_fn: Callable[..., Any],
    out_types: Any,
    in_types: Any,
    outs_ndim: int | Sequence[int],
    ins_ndim: int | Sequence[int],
    batch_processing: bool | Literal[0, 1] | None = False,
    blocks: int | Sequence[int] | None = None,
    threads_per_block: int | Sequence[int] | None = None,
    setup_fn: Callable[..., Any] | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Any:
    """Calls a function compiled by Numba that fills its outputs: ``run_fn(*outputs, *inputs)``.

    Arguments:
        run_fn: function that is compiled and called with the outputs and the inputs
        out_types: types of the outputs
        in_types: types of the inputs
        outs_ndim: numbers of axes of the outputs
        ins_ndim: numbers of axes of the inputs
        batch_processing: call the function once for the batch, with a list of arrays for each output and input
        blocks: blocks of the grid of the launch, for device="gpu"
        threads_per_block: threads of a block of that grid, for device="gpu"
        setup_fn: function that writes the shapes of the outputs; default: an output has the shape of the input with its number
    """

@overload
def numpy_function(
    func: Callable[..., Any],
    inp: DataNode | Sequence[DataNode | ArrayLike],
    Tout: type[Any] | np.dtype[Any] | str | DALIDataType,
    stateful: bool | Literal[0, 1] | None = True,
    name: str | None = None,
    *,
    parallel: Literal['serial', 'threads', 'processes'] | None = 'serial',
    timeout: float | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> DataNode:
    """Calls a Python function with the NumPy arrays of each sample; its results have the types ``Tout``.

    Arguments:
        func: function to call with an array for each input
        Tout: type of the result, or a list of types; [] for none
        stateful: False: the result depends only on the inputs; equal calls run once, unused calls do not run, and calls may run at once
        parallel: where the calls run: `serial` one after another in the order of the samples, `threads` on several threads at once, `processes` in worker processes
        timeout: longest time of a call, in seconds; a longer call is an error; default: no limit
    """

@overload
def numpy_function(
    func: Callable[..., Any],
    inp: DataNode | Sequence[DataNode | ArrayLike],
    Tout: list[Any] | tuple[Any, ...],
    stateful: bool | Literal[0, 1] | None = True,
    name: str | None = None,
    *,
    parallel: Literal['serial', 'threads', 'processes'] | None = 'serial',
    timeout: float | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> list[DataNode]:
    """Calls a Python function with the NumPy arrays of each sample; its results have the types ``Tout``.

    Arguments:
        func: function to call with an array for each input
        Tout: type of the result, or a list of types; [] for none
        stateful: False: the result depends only on the inputs; equal calls run once, unused calls do not run, and calls may run at once
        parallel: where the calls run: `serial` one after another in the order of the samples, `threads` on several threads at once, `processes` in worker processes
        timeout: longest time of a call, in seconds; a longer call is an error; default: no limit
    """

@overload
def numpy_function(
    func: Callable[..., Any],
    inp: DataNode | Sequence[DataNode | ArrayLike],
    Tout: Any,
    stateful: bool | Literal[0, 1] | None = True,
    name: str | None = None,
    *,
    parallel: Literal['serial', 'threads', 'processes'] | None = 'serial',
    timeout: float | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Any:
    """Calls a Python function with the NumPy arrays of each sample; its results have the types ``Tout``.

    Arguments:
        func: function to call with an array for each input
        Tout: type of the result, or a list of types; [] for none
        stateful: False: the result depends only on the inputs; equal calls run once, unused calls do not run, and calls may run at once
        parallel: where the calls run: `serial` one after another in the order of the samples, `threads` on several threads at once, `processes` in worker processes
        timeout: longest time of a call, in seconds; a longer call is an error; default: no limit
    """

def one_hot(
    data: Data,
    /,
    *,
    num_classes: int | None = 0,
    axis: int | None = None,
    axis_name: str | None = None,
    on_value: float | None = 1.0,
    off_value: float | None = 0.0,
    dtype: DTypeLike | DALIDataType | None = ...,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Makes a vector for each number n: ``on_value`` at index n, ``off_value`` elsewhere. If n is not a valid index, all values are ``off_value``.

    Arguments:
        num_classes: number of classes, the extent of the new axis
        axis: place of the new axis in the result; negative: from the end; default: the last one, and a vector for one number
        axis_name: letter of the new axis in the layout
        on_value: value at the index of the class
        off_value: value everywhere else
        dtype: type of the result
    """

def ones(
    *,
    shape: int | Sequence[int] | DataNode | None = (),
    dtype: DTypeLike | DALIDataType | None = ...,
    layout: str | None = '',
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> DataNode:
    """Ones of the given shape.

    Arguments:
        shape: shape of the result
        dtype: type of the result
        layout: layout of the result
    """

def ones_like(
    data: Data,
    /,
    *,
    dtype: DTypeLike | DALIDataType | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Ones of the input's shape, in its type unless ``dtype`` is given.

    Arguments:
        dtype: type of the result; default: that of the input
    """

def optical_flow(
    clip: Data,
    hints: DataNode | ArrayLike | None = None,
    /,
    *,
    preset: float | None = 0.0,
    output_grid: int | None = 4,
    hint_grid: int | None = 4,
    enable_temporal_hints: bool | Literal[0, 1] | None = False,
    enable_external_hints: bool | Literal[0, 1] | None = False,
    image_type: int | None = ...,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Returns the movement (x, y) of every square of pixels from each frame of a sequence to the next.

    Arguments:
        preset: speed and quality: 0.0 is slow and exact, 0.5 between, 1.0 fast
        output_grid: side of the squares of pixels that have a common movement: 1, 2, 4 or 8
        hint_grid: side of the squares of the hints
        enable_temporal_hints: begin the search with the previous movement
        enable_external_hints: begin the search with the movements of the second input
        image_type: colours of the frames: RGB, or GRAY for one channel
    """

def pad(
    data: Data,
    /,
    *,
    fill_value: float | DataNode | None = 0.0,
    axes: int | Sequence[int] | DataNode | None = None,
    axis_names: str | None = None,
    shape: int | Sequence[int] | DataNode | None = None,
    align: int | Sequence[int] | DataNode | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Pads the data at its end up to ``shape`` and to multiples of ``align`` along the chosen axes.

    Arguments:
        fill_value: value of the added elements
        axes: axes that are padded, by number; default: all
        axis_names: the same axes by their letters in the layout
        shape: extents to pad to; default or -1: those of the largest sample of the batch
        align: pad to multiples of this: one number, or one for each axis
    """

def paste(
    image: Data,
    /,
    *,
    fill_value: int | Sequence[int],
    ratio: float | DataNode,
    paste_x: float | DataNode | None = 0.5,
    paste_y: float | DataNode | None = 0.5,
    min_canvas_size: float | DataNode | None = 0.0,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Puts the image on a larger canvas.

    Arguments:
        fill_value: the value of the canvas, one or one a channel
        ratio: factor from the width and height of the image to those of the canvas
        paste_x: position of the image, from 0 at the left to 1 at the right
        paste_y: position of the image, from 0 at the top to 1 at the bottom
        min_canvas_size: minimum width and height of the canvas, in pixels
    """

def peek_image_shape(
    data: Data,
    /,
    *,
    adjust_orientation: bool | Literal[0, 1] | None = True,
    dtype: DTypeLike | DALIDataType | None = ...,
    image_type: int | None = ...,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """The shape (height, width, channels) of the result of ``fn.decoders.image``; only the header is read.

    Arguments:
        adjust_orientation: turn the image as its EXIF data says
        dtype: type of the extents
        image_type: colour space that the image would be decoded to
    """

def per_frame(
    data: Data,
    /,
    *,
    replace: bool | Literal[0, 1] | None = False,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Marks the first axis as frames, so that an argument has a value for each frame of a sequence.

    Arguments:
        replace: rename the first axis to F if it has another letter
    """

def permute_batch(
    data: Data,
    /,
    *,
    indices: int | Sequence[int] | DataNode,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Returns as sample i the input sample ``indices[i]`` of the same batch; samples may be repeated or left out.

    Arguments:
        indices: number of the input sample for each output sample
    """

def photometric_distort(
    image: Data,
    /,
    *,
    brightness: float | Sequence[float] | DataNode | None = (0.875, 1.125),
    contrast: float | Sequence[float] | DataNode | None = (0.5, 1.5),
    saturation: float | Sequence[float] | DataNode | None = (0.5, 1.5),
    hue: float | Sequence[float] | DataNode | None = (-18.0, 18.0),
    dtype: DTypeLike | DALIDataType | None = None,
    prob: float | DataNode | None = 0.5,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> Data:
    """Distorts colours as the training of SSD does: each change is made with a probability, and contrast comes before or after saturation and hue.

    Arguments:
        brightness: smallest and largest factor of the brightness
        contrast: smallest and largest factor of the distance from the middle: 128 for integers, 0.5 for floats
        saturation: smallest and largest factor of the saturation
        hue: smallest and largest turn of the colours, in degrees
        dtype: type of the result; default: that of the input
        prob: probability of each change
    """

def planckian_jitter(
    image: Data,
    /,
    *,
    dtype: DTypeLike | DALIDataType | None = None,
    temperature: float | DataNode | None = None,
    between: float | Sequence[float] | None = (3000.0, 15000.0),
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> Data:
    """Changes the image as if a black body lit it: reddish below 6500 kelvin, bluish above.

    Arguments:
        dtype: type of the result; default: that of the input
        temperature: temperature of the light in kelvin, from 1000 to 40000; default: a random one
        between: lowest and highest random temperature
    """

def posterize(
    image: Data,
    /,
    *,
    bits: int | DataNode | None = 4,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Keeps the high bits of every value and clears the others.

    Arguments:
        bits: number of high bits of a value that are kept, from 0 to 8
    """

def power_spectrum(
    signal: Data,
    /,
    *,
    axis: int | None = -1,
    nfft: int | None = None,
    power: int | None = 2,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """The power of each of the nfft // 2 + 1 frequencies of the signal along ``axis``; with ``power=1`` the magnitude.

    Arguments:
        axis: axis of time
        nfft: length to which the signal is cut or padded; default: its own
        power: 2 for the power, 1 for the magnitude
    """

def preemphasis_filter(
    signal: Data,
    /,
    *,
    preemph_coeff: float | DataNode | None = 0.97,
    border: Literal['clamp', 'zero', 'reflect'] | None = 'clamp',
    dtype: DTypeLike | DALIDataType | None = ...,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Computes y[t] = x[t] - preemph_coeff * x[t - 1] for each channel; time is the first axis.

    Arguments:
        preemph_coeff: factor of the value before, which is subtracted
        border: the value before the first one: the first value (`clamp`), the second one (`reflect`) or `zero`
        dtype: type of the result
    """

@overload
def py_func(
    func: Callable[..., Any],
    inp: DataNode | Sequence[DataNode | ArrayLike],
    Tout: type[Any] | np.dtype[Any] | str | DALIDataType,
    stateful: bool | Literal[0, 1] | None = True,
    name: str | None = None,
    *,
    parallel: Literal['serial', 'threads', 'processes'] | None = 'serial',
    timeout: float | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> DataNode:
    """Calls a Python function with the NumPy arrays of each sample: the older name of ``fn.numpy_function``.

    Arguments:
        func: function to call with an array for each input
        Tout: type of the result, or a list of types; [] for none
        stateful: False: the result depends only on the inputs; equal calls run once, unused calls do not run, and calls may run at once
        parallel: where the calls run: `serial` one after another in the order of the samples, `threads` on several threads at once, `processes` in worker processes
        timeout: longest time of a call, in seconds; a longer call is an error; default: no limit
    """

@overload
def py_func(
    func: Callable[..., Any],
    inp: DataNode | Sequence[DataNode | ArrayLike],
    Tout: list[Any] | tuple[Any, ...],
    stateful: bool | Literal[0, 1] | None = True,
    name: str | None = None,
    *,
    parallel: Literal['serial', 'threads', 'processes'] | None = 'serial',
    timeout: float | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> list[DataNode]:
    """Calls a Python function with the NumPy arrays of each sample: the older name of ``fn.numpy_function``.

    Arguments:
        func: function to call with an array for each input
        Tout: type of the result, or a list of types; [] for none
        stateful: False: the result depends only on the inputs; equal calls run once, unused calls do not run, and calls may run at once
        parallel: where the calls run: `serial` one after another in the order of the samples, `threads` on several threads at once, `processes` in worker processes
        timeout: longest time of a call, in seconds; a longer call is an error; default: no limit
    """

@overload
def py_func(
    func: Callable[..., Any],
    inp: DataNode | Sequence[DataNode | ArrayLike],
    Tout: Any,
    stateful: bool | Literal[0, 1] | None = True,
    name: str | None = None,
    *,
    parallel: Literal['serial', 'threads', 'processes'] | None = 'serial',
    timeout: float | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Any:
    """Calls a Python function with the NumPy arrays of each sample: the older name of ``fn.numpy_function``.

    Arguments:
        func: function to call with an array for each input
        Tout: type of the result, or a list of types; [] for none
        stateful: False: the result depends only on the inputs; equal calls run once, unused calls do not run, and calls may run at once
        parallel: where the calls run: `serial` one after another in the order of the samples, `threads` on several threads at once, `processes` in worker processes
        timeout: longest time of a call, in seconds; a longer call is an error; default: no limit
    """

@overload
def py_function(
    func: Callable[..., Any],
    inp: DataNode | Sequence[DataNode | ArrayLike],
    Tout: type[Any] | np.dtype[Any] | str | DALIDataType,
    name: str | None = None,
    *,
    parallel: Literal['serial', 'threads', 'processes'] | None = 'serial',
    timeout: float | None = None,
    differentiable: bool | Literal[0, 1] | None = False,
    framework: str | None = 'torch',
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> DataNode:
    """Calls a Python function with eager tensors of each sample; any Python control flow may be inside.

    Arguments:
        func: function to call with a tensor for each input
        Tout: type of the result, or a list of types; [] for none
        parallel: where the calls run: `serial` one after another in the order of the samples, `threads` on several threads at once, `processes` in worker processes
        timeout: longest time of a call, in seconds; a longer call is an error; default: no limit
        differentiable: keep the history of gradients, so that loss.backward() reaches the function's parameters
        framework: library of the tensors: `torch`, `jax` or `numpy`
    """

@overload
def py_function(
    func: Callable[..., Any],
    inp: DataNode | Sequence[DataNode | ArrayLike],
    Tout: list[Any] | tuple[Any, ...],
    name: str | None = None,
    *,
    parallel: Literal['serial', 'threads', 'processes'] | None = 'serial',
    timeout: float | None = None,
    differentiable: bool | Literal[0, 1] | None = False,
    framework: str | None = 'torch',
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> list[DataNode]:
    """Calls a Python function with eager tensors of each sample; any Python control flow may be inside.

    Arguments:
        func: function to call with a tensor for each input
        Tout: type of the result, or a list of types; [] for none
        parallel: where the calls run: `serial` one after another in the order of the samples, `threads` on several threads at once, `processes` in worker processes
        timeout: longest time of a call, in seconds; a longer call is an error; default: no limit
        differentiable: keep the history of gradients, so that loss.backward() reaches the function's parameters
        framework: library of the tensors: `torch`, `jax` or `numpy`
    """

@overload
def py_function(
    func: Callable[..., Any],
    inp: DataNode | Sequence[DataNode | ArrayLike],
    Tout: Any,
    name: str | None = None,
    *,
    parallel: Literal['serial', 'threads', 'processes'] | None = 'serial',
    timeout: float | None = None,
    differentiable: bool | Literal[0, 1] | None = False,
    framework: str | None = 'torch',
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Any:
    """Calls a Python function with eager tensors of each sample; any Python control flow may be inside.

    Arguments:
        func: function to call with a tensor for each input
        Tout: type of the result, or a list of types; [] for none
        parallel: where the calls run: `serial` one after another in the order of the samples, `threads` on several threads at once, `processes` in worker processes
        timeout: longest time of a call, in seconds; a longer call is an error; default: no limit
        differentiable: keep the history of gradients, so that loss.backward() reaches the function's parameters
        framework: library of the tensors: `torch`, `jax` or `numpy`
    """

@overload
def python_function(
    first: Data,
    /,
    *inputs: DataNode | ArrayLike,
    function: Callable[..., Any],
    num_outputs: Literal[1] = ...,
    output_layouts: Any = None,
    batch_processing: bool | Literal[0, 1] | None = False,
    parallel: Literal['serial', 'threads', 'processes', 'auto'] | None = 'serial',
    timeout: float | None = None,
    outputs: None = None,
    jit: Any = False,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> Data:
    """Calls a Python function with NumPy arrays, for each sample or (``batch_processing``) once for the batch.

    Arguments:
        function: function to call with an array for each input
        num_outputs: number of arrays that the function returns; 0: none
        output_layouts: layout of every output, or a list of layouts
        batch_processing: call the function once for the batch, with a list of arrays for each input
        parallel: where the calls run: `serial` one after another in the order of the samples, `threads` on several threads at once, `processes` in worker processes, `auto` on threads if the code of the function shows that it keeps no state, else `serial`
        timeout: longest time of a call, in seconds; a longer call is an error; default: no limit
        outputs: declaration of the results: a Spec(dtype, shape, layout), or a list or dict of them
        jit: True: Numba compiles the function for the types of the first sample; `auto`: only if the results stay the same
    """

@overload
def python_function(
    first: Data,
    /,
    *inputs: DataNode | ArrayLike,
    function: Callable[..., Any],
    num_outputs: int,
    output_layouts: Any = None,
    batch_processing: bool | Literal[0, 1] | None = False,
    parallel: Literal['serial', 'threads', 'processes', 'auto'] | None = 'serial',
    timeout: float | None = None,
    outputs: None = None,
    jit: Any = False,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> list[Data]:
    """Calls a Python function with NumPy arrays, for each sample or (``batch_processing``) once for the batch.

    Arguments:
        function: function to call with an array for each input
        num_outputs: number of arrays that the function returns; 0: none
        output_layouts: layout of every output, or a list of layouts
        batch_processing: call the function once for the batch, with a list of arrays for each input
        parallel: where the calls run: `serial` one after another in the order of the samples, `threads` on several threads at once, `processes` in worker processes, `auto` on threads if the code of the function shows that it keeps no state, else `serial`
        timeout: longest time of a call, in seconds; a longer call is an error; default: no limit
        outputs: declaration of the results: a Spec(dtype, shape, layout), or a list or dict of them
        jit: True: Numba compiles the function for the types of the first sample; `auto`: only if the results stay the same
    """

@overload
def python_function(
    first: Data,
    /,
    *inputs: DataNode | ArrayLike,
    function: Callable[..., Any],
    num_outputs: int | None = 1,
    output_layouts: Any = None,
    batch_processing: bool | Literal[0, 1] | None = False,
    parallel: Literal['serial', 'threads', 'processes', 'auto'] | None = 'serial',
    timeout: float | None = None,
    outputs: Any = None,
    jit: Any = False,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> Any:
    """Calls a Python function with NumPy arrays, for each sample or (``batch_processing``) once for the batch.

    Arguments:
        function: function to call with an array for each input
        num_outputs: number of arrays that the function returns; 0: none
        output_layouts: layout of every output, or a list of layouts
        batch_processing: call the function once for the batch, with a list of arrays for each input
        parallel: where the calls run: `serial` one after another in the order of the samples, `threads` on several threads at once, `processes` in worker processes, `auto` on threads if the code of the function shows that it keeps no state, else `serial`
        timeout: longest time of a call, in seconds; a longer call is an error; default: no limit
        outputs: declaration of the results: a Spec(dtype, shape, layout), or a list or dict of them
        jit: True: Numba compiles the function for the types of the first sample; `auto`: only if the results stay the same
    """

@overload
def python_function(
    *,
    function: Callable[..., Any],
    num_outputs: Literal[1] = ...,
    output_layouts: Any = None,
    batch_processing: bool | Literal[0, 1] | None = False,
    parallel: Literal['serial', 'threads', 'processes', 'auto'] | None = 'serial',
    timeout: float | None = None,
    outputs: None = None,
    jit: Any = False,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> DataNode:
    """Calls a Python function with NumPy arrays, for each sample or (``batch_processing``) once for the batch.

    Arguments:
        function: function to call with an array for each input
        num_outputs: number of arrays that the function returns; 0: none
        output_layouts: layout of every output, or a list of layouts
        batch_processing: call the function once for the batch, with a list of arrays for each input
        parallel: where the calls run: `serial` one after another in the order of the samples, `threads` on several threads at once, `processes` in worker processes, `auto` on threads if the code of the function shows that it keeps no state, else `serial`
        timeout: longest time of a call, in seconds; a longer call is an error; default: no limit
        outputs: declaration of the results: a Spec(dtype, shape, layout), or a list or dict of them
        jit: True: Numba compiles the function for the types of the first sample; `auto`: only if the results stay the same
    """

@overload
def python_function(
    *,
    function: Callable[..., Any],
    num_outputs: int,
    output_layouts: Any = None,
    batch_processing: bool | Literal[0, 1] | None = False,
    parallel: Literal['serial', 'threads', 'processes', 'auto'] | None = 'serial',
    timeout: float | None = None,
    outputs: None = None,
    jit: Any = False,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> list[DataNode]:
    """Calls a Python function with NumPy arrays, for each sample or (``batch_processing``) once for the batch.

    Arguments:
        function: function to call with an array for each input
        num_outputs: number of arrays that the function returns; 0: none
        output_layouts: layout of every output, or a list of layouts
        batch_processing: call the function once for the batch, with a list of arrays for each input
        parallel: where the calls run: `serial` one after another in the order of the samples, `threads` on several threads at once, `processes` in worker processes, `auto` on threads if the code of the function shows that it keeps no state, else `serial`
        timeout: longest time of a call, in seconds; a longer call is an error; default: no limit
        outputs: declaration of the results: a Spec(dtype, shape, layout), or a list or dict of them
        jit: True: Numba compiles the function for the types of the first sample; `auto`: only if the results stay the same
    """

@overload
def python_function(
    *,
    function: Callable[..., Any],
    num_outputs: int | None = 1,
    output_layouts: Any = None,
    batch_processing: bool | Literal[0, 1] | None = False,
    parallel: Literal['serial', 'threads', 'processes', 'auto'] | None = 'serial',
    timeout: float | None = None,
    outputs: Any = None,
    jit: Any = False,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> Any:
    """Calls a Python function with NumPy arrays, for each sample or (``batch_processing``) once for the batch.

    Arguments:
        function: function to call with an array for each input
        num_outputs: number of arrays that the function returns; 0: none
        output_layouts: layout of every output, or a list of layouts
        batch_processing: call the function once for the batch, with a list of arrays for each input
        parallel: where the calls run: `serial` one after another in the order of the samples, `threads` on several threads at once, `processes` in worker processes, `auto` on threads if the code of the function shows that it keeps no state, else `serial`
        timeout: longest time of a call, in seconds; a longer call is an error; default: no limit
        outputs: declaration of the results: a Spec(dtype, shape, layout), or a list or dict of them
        jit: True: Numba compiles the function for the types of the first sample; `auto`: only if the results stay the same
    """

def random_bbox_crop(
    boxes: Data,
    labels: DataNode | ArrayLike | None = None,
    /,
    *,
    thresholds: float | Sequence[float] | None = (0.0,),
    threshold_type: str | None = 'iou',
    all_boxes_above_threshold: bool | Literal[0, 1] | None = True,
    scaling: float | Sequence[float] | None = (1.0, 1.0),
    aspect_ratio: float | Sequence[float] | None = (1.0, 1.0),
    crop_shape: int | Sequence[int] | DataNode | None = None,
    input_shape: int | Sequence[int] | DataNode | None = None,
    shape_layout: str | None = '',
    allow_no_crop: bool | Literal[0, 1] | None = True,
    num_attempts: int | None = 1,
    total_num_attempts: int | None = -1,
    bbox_layout: str | None = '',
    ltrb: bool | Literal[0, 1] | None = True,
    bbox_prune_threshold: float | None = None,
    output_bbox_indices: bool | Literal[0, 1] | None = False,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> list[Data]:
    """Draws a window for a crop that keeps boxes: its start, its extents, the boxes in it and their labels.

    Arguments:
        thresholds: minimum overlaps; one of them is drawn for every num_attempts windows
        threshold_type: measure of the overlap: `iou`, the intersection over union of the box and the window, or `overlap`, the share of the box that is in the window
        all_boxes_above_threshold: all boxes must have this overlap; False: one box is enough
        scaling: the least and the largest extent of a window, relative to the image; a window of more than 1 contains the image: cut it with `out_of_bounds_policy='pad'`
        aspect_ratio: the least and the largest ratio of width to height; for boxes in space one such range, or one for each of width / height, width / depth and height / depth
        crop_shape: extents of every window in pixels, instead of scaling and aspect ratio
        input_shape: extents of the image in pixels; without them the aspect ratio is that of relative coordinates
        shape_layout: order of the extents in crop_shape and input_shape; default: `WH` or `WHD`
        allow_no_crop: the whole image is one of the possible results
        num_attempts: number of windows that are tried before another threshold is drawn
        total_num_attempts: number of windows after which the best one is taken; -1: twenty thousand
        bbox_layout: order of the numbers of a box; default: `xyXY` or `xyzXYZ`; W, H and D are extents
        ltrb: without bbox_layout: the layout is `xyXY`; False: `xyWH`
        bbox_prune_threshold: a box remains if this share of it is in the window; default: if its centre is
        output_bbox_indices: return the numbers of the remaining boxes as an additional output
    """

def random_crop_generator(
    shape: Data,
    /,
    *,
    random_area: float | Sequence[float] | None = (0.08, 1.0),
    random_aspect_ratio: float | Sequence[float] | None = (0.75, 1.3333333333333333),
    num_attempts: int | None = 10,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> list[Data]:
    """Draws a window like random_resized_crop: its start and its extents, height before width.

    Arguments:
        random_area: smallest and largest share of the image's area that the window has
        random_aspect_ratio: smallest and largest ratio of the window's width to its height
        num_attempts: maximum number of windows that are drawn; if none fits, the largest centred one is taken
    """

def random_resized_crop(
    image: Data,
    /,
    *,
    size: float | Sequence[float] | DataNode,
    random_area: float | Sequence[float] | None = (0.08, 1.0),
    random_aspect_ratio: float | Sequence[float] | None = (0.75, 1.3333333333333333),
    num_attempts: int | None = 10,
    interp_type: int | DataNode | None = ...,
    min_filter: int | DataNode | None = None,
    mag_filter: int | DataNode | None = None,
    antialias: bool | Literal[0, 1] | None = True,
    dtype: DTypeLike | DALIDataType | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> Data:
    """Crops a random window, by area and aspect ratio, and resizes it to ``size``.

    Arguments:
        size: height and width of the result; one number: a square
        random_area: smallest and largest share of the image's area that the window has
        random_aspect_ratio: smallest and largest ratio of the window's width to its height
        num_attempts: maximum number of windows that are drawn; if none fits, the largest centred one is taken
        interp_type: filter, unless min_filter or mag_filter is given
        min_filter: filter for axes that become smaller
        mag_filter: filter for axes that become larger
        antialias: widen the filter if an axis becomes smaller, so that every pixel of the input contributes
        dtype: type of the result; default: that of the input
    """

def reinterpret(
    data: Data,
    shape_input: DataNode | ArrayLike | None = None,
    /,
    *,
    shape: int | Sequence[int] | DataNode | None = None,
    rel_shape: float | Sequence[float] | DataNode | None = None,
    src_dims: int | Sequence[int] | DataNode | None = None,
    layout: str | None = None,
    dtype: DTypeLike | DALIDataType | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Reads the same bytes as another type and shape.

    Arguments:
        shape: shape of the result; one extent may be -1, and then follows from the others
        rel_shape: shape of the result in shares of the input's extents; -1 as for shape
        src_dims: for each axis of the result, the axis of the input; -1: a new axis of extent 1
        layout: layout of the result
        dtype: type of the result; default: that of the input
    """

def remap(
    image: Data,
    mapx: DataNode | ArrayLike,
    mapy: DataNode | ArrayLike,
    /,
    *,
    pixel_origin: str | None = 'corner',
    interp: int | None = ...,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Takes each pixel of the output from the position that two maps give for it; the output is as large as the maps.

    Arguments:
        pixel_origin: position of (0, 0): the `corner` of the first pixel or, as in OpenCV, its `center`
        interp: interpolation: INTERP_NN, INTERP_LINEAR or INTERP_CUBIC
    """

def reshape(
    data: Data,
    shape_input: DataNode | ArrayLike | None = None,
    /,
    *,
    shape: int | Sequence[int] | DataNode | None = None,
    rel_shape: float | Sequence[float] | DataNode | None = None,
    src_dims: int | Sequence[int] | DataNode | None = None,
    layout: str | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Changes the shape, the layout or the order of the extents, without changing the elements.

    Arguments:
        shape: shape of the result; one extent may be -1, and then follows from the others
        rel_shape: shape of the result in shares of the input's extents; -1 as for shape
        src_dims: for each axis of the result, the axis of the input; -1: a new axis of extent 1
        layout: layout of the result
    """

@overload
def resize(
    image: Data,
    /,
    *,
    size: float | Sequence[float] | DataNode | None = None,
    resize_x: float | DataNode | None = None,
    resize_y: float | DataNode | None = None,
    resize_z: float | DataNode | None = None,
    resize_shorter: float | DataNode | None = None,
    resize_longer: float | DataNode | None = None,
    mode: str | None = 'default',
    max_size: float | Sequence[float] | None = None,
    subpixel_scale: bool | Literal[0, 1] | None = True,
    interp_type: int | DataNode | None = ...,
    min_filter: int | DataNode | None = None,
    mag_filter: int | DataNode | None = None,
    antialias: bool | Literal[0, 1] | None = True,
    roi_start: float | Sequence[float] | DataNode | None = None,
    roi_end: float | Sequence[float] | DataNode | None = None,
    roi_relative: bool | Literal[0, 1] | None = False,
    save_attrs: Literal[False] = ...,
    dtype: DTypeLike | DALIDataType | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Resizes images, volumes and sequences of them.

    Arguments:
        size: extents of the result in the order of the layout; 0 keeps the ratio, negative ones mirror
        resize_x: width of the result; 0 keeps the ratio, a negative one mirrors
        resize_y: height of the result; 0 keeps the ratio, a negative one mirrors
        resize_z: depth of the result; 0 keeps the ratio, a negative one mirrors
        resize_shorter: extent of the shorter side of the result, with the ratio kept
        resize_longer: extent of the longer side of the result, with the ratio kept
        mode: meaning of the extents: `default` (missing ones follow the ratio), `stretch` (missing ones do not change), `not_larger` or `not_smaller` (limits, with the ratio kept)
        max_size: limit of the extents of the result: one number, or one for each axis
        subpixel_scale: change the region by the fraction that rounding changes the result, so that the scale is exact
        interp_type: filter, unless min_filter or mag_filter is given
        min_filter: filter for axes that become smaller
        mag_filter: filter for axes that become larger
        antialias: widen the filter if an axis becomes smaller, so that every pixel of the input contributes
        roi_start: start of the region that is resized instead of the whole image
        roi_end: end of that region; an end before the start mirrors
        roi_relative: the region is in shares of the extents; False: in pixels
        save_attrs: return the extents of the input as a second output
        dtype: type of the result; default: that of the input
    """

@overload
def resize(
    image: Data,
    /,
    *,
    save_attrs: Literal[True],
    size: float | Sequence[float] | DataNode | None = None,
    resize_x: float | DataNode | None = None,
    resize_y: float | DataNode | None = None,
    resize_z: float | DataNode | None = None,
    resize_shorter: float | DataNode | None = None,
    resize_longer: float | DataNode | None = None,
    mode: str | None = 'default',
    max_size: float | Sequence[float] | None = None,
    subpixel_scale: bool | Literal[0, 1] | None = True,
    interp_type: int | DataNode | None = ...,
    min_filter: int | DataNode | None = None,
    mag_filter: int | DataNode | None = None,
    antialias: bool | Literal[0, 1] | None = True,
    roi_start: float | Sequence[float] | DataNode | None = None,
    roi_end: float | Sequence[float] | DataNode | None = None,
    roi_relative: bool | Literal[0, 1] | None = False,
    dtype: DTypeLike | DALIDataType | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> list[Data]:
    """Resizes images, volumes and sequences of them.

    Arguments:
        size: extents of the result in the order of the layout; 0 keeps the ratio, negative ones mirror
        resize_x: width of the result; 0 keeps the ratio, a negative one mirrors
        resize_y: height of the result; 0 keeps the ratio, a negative one mirrors
        resize_z: depth of the result; 0 keeps the ratio, a negative one mirrors
        resize_shorter: extent of the shorter side of the result, with the ratio kept
        resize_longer: extent of the longer side of the result, with the ratio kept
        mode: meaning of the extents: `default` (missing ones follow the ratio), `stretch` (missing ones do not change), `not_larger` or `not_smaller` (limits, with the ratio kept)
        max_size: limit of the extents of the result: one number, or one for each axis
        subpixel_scale: change the region by the fraction that rounding changes the result, so that the scale is exact
        interp_type: filter, unless min_filter or mag_filter is given
        min_filter: filter for axes that become smaller
        mag_filter: filter for axes that become larger
        antialias: widen the filter if an axis becomes smaller, so that every pixel of the input contributes
        roi_start: start of the region that is resized instead of the whole image
        roi_end: end of that region; an end before the start mirrors
        roi_relative: the region is in shares of the extents; False: in pixels
        save_attrs: return the extents of the input as a second output
        dtype: type of the result; default: that of the input
    """

@overload
def resize(
    image: Data,
    /,
    *,
    size: float | Sequence[float] | DataNode | None = None,
    resize_x: float | DataNode | None = None,
    resize_y: float | DataNode | None = None,
    resize_z: float | DataNode | None = None,
    resize_shorter: float | DataNode | None = None,
    resize_longer: float | DataNode | None = None,
    mode: str | None = 'default',
    max_size: float | Sequence[float] | None = None,
    subpixel_scale: bool | Literal[0, 1] | None = True,
    interp_type: int | DataNode | None = ...,
    min_filter: int | DataNode | None = None,
    mag_filter: int | DataNode | None = None,
    antialias: bool | Literal[0, 1] | None = True,
    roi_start: float | Sequence[float] | DataNode | None = None,
    roi_end: float | Sequence[float] | DataNode | None = None,
    roi_relative: bool | Literal[0, 1] | None = False,
    save_attrs: bool | Literal[0, 1] | None = False,
    dtype: DTypeLike | DALIDataType | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Any:
    """Resizes images, volumes and sequences of them.

    Arguments:
        size: extents of the result in the order of the layout; 0 keeps the ratio, negative ones mirror
        resize_x: width of the result; 0 keeps the ratio, a negative one mirrors
        resize_y: height of the result; 0 keeps the ratio, a negative one mirrors
        resize_z: depth of the result; 0 keeps the ratio, a negative one mirrors
        resize_shorter: extent of the shorter side of the result, with the ratio kept
        resize_longer: extent of the longer side of the result, with the ratio kept
        mode: meaning of the extents: `default` (missing ones follow the ratio), `stretch` (missing ones do not change), `not_larger` or `not_smaller` (limits, with the ratio kept)
        max_size: limit of the extents of the result: one number, or one for each axis
        subpixel_scale: change the region by the fraction that rounding changes the result, so that the scale is exact
        interp_type: filter, unless min_filter or mag_filter is given
        min_filter: filter for axes that become smaller
        mag_filter: filter for axes that become larger
        antialias: widen the filter if an axis becomes smaller, so that every pixel of the input contributes
        roi_start: start of the region that is resized instead of the whole image
        roi_end: end of that region; an end before the start mirrors
        roi_relative: the region is in shares of the extents; False: in pixels
        save_attrs: return the extents of the input as a second output
        dtype: type of the result; default: that of the input
    """

def resize_crop_mirror(
    image: Data,
    /,
    *,
    size: float | Sequence[float] | DataNode | None = None,
    resize_x: float | DataNode | None = None,
    resize_y: float | DataNode | None = None,
    resize_z: float | DataNode | None = None,
    resize_shorter: float | DataNode | None = None,
    resize_longer: float | DataNode | None = None,
    mode: str | None = 'default',
    max_size: float | Sequence[float] | None = None,
    subpixel_scale: bool | Literal[0, 1] | None = True,
    interp_type: int | DataNode | None = ...,
    min_filter: int | DataNode | None = None,
    mag_filter: int | DataNode | None = None,
    antialias: bool | Literal[0, 1] | None = True,
    roi_start: float | Sequence[float] | DataNode | None = None,
    roi_end: float | Sequence[float] | DataNode | None = None,
    roi_relative: bool | Literal[0, 1] | None = False,
    crop: float | Sequence[float] | DataNode | None = None,
    crop_h: float | DataNode | None = 0.0,
    crop_w: float | DataNode | None = 0.0,
    crop_d: float | DataNode | None = 0.0,
    crop_pos_x: float | DataNode | None = 0.5,
    crop_pos_y: float | DataNode | None = 0.5,
    crop_pos_z: float | DataNode | None = 0.5,
    rounding: str | None = 'round',
    mirror: int | DataNode | None = 0,
    dtype: DTypeLike | DALIDataType | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Resizes, crops the result and mirrors it in one pass over the input; only the kept window is computed.

    Arguments:
        size: extents of the result in the order of the layout; 0 keeps the ratio, negative ones mirror
        resize_x: width of the result; 0 keeps the ratio, a negative one mirrors
        resize_y: height of the result; 0 keeps the ratio, a negative one mirrors
        resize_z: depth of the result; 0 keeps the ratio, a negative one mirrors
        resize_shorter: extent of the shorter side of the result, with the ratio kept
        resize_longer: extent of the longer side of the result, with the ratio kept
        mode: meaning of the extents: `default` (missing ones follow the ratio), `stretch` (missing ones do not change), `not_larger` or `not_smaller` (limits, with the ratio kept)
        max_size: limit of the extents of the result: one number, or one for each axis
        subpixel_scale: change the region by the fraction that rounding changes the result, so that the scale is exact
        interp_type: filter, unless min_filter or mag_filter is given
        min_filter: filter for axes that become smaller
        mag_filter: filter for axes that become larger
        antialias: widen the filter if an axis becomes smaller, so that every pixel of the input contributes
        roi_start: start of the region that is resized instead of the whole image
        roi_end: end of that region; an end before the start mirrors
        roi_relative: the region is in shares of the extents; False: in pixels
        crop: extents of the window in the order of the layout (depth, height, width); one number: the same for all
        crop_h: height of the window; 0: the whole height
        crop_w: width of the window; 0: the whole width
        crop_d: depth of the window in a volume; 0: the whole depth
        crop_pos_x: position of the window along the width: 0 is at the left, 1 at the right
        crop_pos_y: position of the window along the height: 0 is at the top, 1 at the bottom
        crop_pos_z: position of the window along the depth of a volume: 0 is in front, 1 at the back
        rounding: rounding of a start between two pixels: `round` to the nearer one, or `truncate`
        mirror: 1 mirrors left to right, 2 top to bottom, 4 front to back; or a sum of them
        dtype: type of the result; default: that of the input
    """

@overload
def roi_random_crop(
    data: Data,
    /,
    *,
    crop_shape: int | Sequence[int] | DataNode,
    roi_start: int | Sequence[int] | DataNode,
    roi_end: int | Sequence[int] | DataNode | None = None,
    roi_shape: int | Sequence[int] | DataNode | None = None,
    in_shape: int | Sequence[int] | DataNode | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> Data:
    """Draws the start of a window that is inside a region, or contains it if the window is larger.

    Arguments:
        crop_shape: extents of the window
        roi_start: first element of the region
        roi_end: first element after the region
        roi_shape: extents of the region, instead of its end
        in_shape: extents of the data, if it is not an input; windows stay inside
    """

@overload
def roi_random_crop(
    *,
    crop_shape: int | Sequence[int] | DataNode,
    roi_start: int | Sequence[int] | DataNode,
    roi_end: int | Sequence[int] | DataNode | None = None,
    roi_shape: int | Sequence[int] | DataNode | None = None,
    in_shape: int | Sequence[int] | DataNode | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> DataNode:
    """Draws the start of a window that is inside a region, or contains it if the window is larger.

    Arguments:
        crop_shape: extents of the window
        roi_start: first element of the region
        roi_end: first element after the region
        roi_shape: extents of the region, instead of its end
        in_shape: extents of the data, if it is not an input; windows stay inside
    """

def rotate(
    image: Data,
    /,
    *,
    angle: float | DataNode,
    fill_value: float | None = None,
    interp_type: int | None = ...,
    dtype: DTypeLike | DALIDataType | None = None,
    axis: float | Sequence[float] | DataNode | None = None,
    size: float | Sequence[float] | DataNode | None = None,
    keep_size: bool | Literal[0, 1] | None = False,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Turns the image counter-clockwise by an angle in degrees; volumes around ``axis`` (x, y, z).

    Arguments:
        angle: angle in degrees, counter-clockwise
        fill_value: value outside the image; default: that of the nearest border pixel
        interp_type: filter: INTERP_LINEAR or INTERP_NN
        dtype: type of the result; default: that of the input
        axis: axis (x, y, z) of the rotation, for volumes
        size: extents of the result in the order of the layout
        keep_size: keep the extents of the input; False: the canvas contains the turned image
    """

def rotate90(
    image: Data,
    /,
    *,
    times: int | DataNode | None = 1,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Turns the image by quarter turns; no value changes.

    Arguments:
        times: number of quarter turns, counter-clockwise
    """

def saturation(
    image: Data,
    /,
    *,
    image_type: int | None = ...,
    dtype: DTypeLike | DALIDataType | None = None,
    saturation: float | DataNode | None = 1.0,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Scales the saturation; 0 gives grey.

    Arguments:
        image_type: colour space of the image; only RGB is supported
        dtype: type of the result; default: that of the input
        saturation: factor of the saturation; 0 gives grey
    """

def sequence_rearrange(
    data: Data,
    /,
    *,
    new_order: int | Sequence[int] | DataNode,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Takes the frames of a sequence in another order; frames may be repeated or left out.

    Arguments:
        new_order: numbers of the frames in their new order
    """

def shapes(
    data: Data,
    /,
    *,
    dtype: DTypeLike | DALIDataType | None = ...,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """The extents of each sample.

    Arguments:
        dtype: type of the extents
    """

def sharpen(
    image: Data,
    /,
    *,
    alpha: float | DataNode | None = 0.3,
    lightness: float | DataNode | None = 1.0,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Mixes the image with a sharpened form of it: each pixel plus its differences from its eight neighbours.

    Arguments:
        alpha: share of the sharp image in the result, from 0 to 1
        lightness: weight of the pixel itself in the sharp image; above 1 it is lighter
    """

def slice(
    data: Data,
    anchor: DataNode | ArrayLike | None = None,
    shape_input: DataNode | ArrayLike | None = None,
    /,
    *,
    start: int | Sequence[int] | DataNode | None = None,
    rel_start: float | Sequence[float] | DataNode | None = None,
    end: int | Sequence[int] | DataNode | None = None,
    rel_end: float | Sequence[float] | DataNode | None = None,
    shape: int | Sequence[int] | DataNode | None = None,
    rel_shape: float | Sequence[float] | DataNode | None = None,
    axes: int | Sequence[int] | DataNode | None = None,
    axis_names: str | None = None,
    normalized_anchor: bool | Literal[0, 1] | None = True,
    normalized_shape: bool | Literal[0, 1] | None = True,
    out_of_bounds_policy: str | None = 'error',
    fill_values: float | Sequence[float] | None = (0.0,),
    dtype: DTypeLike | DALIDataType | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Cuts a part out of the data by start and end, or start and shape, in elements or relative to the extent.

    Arguments:
        start: first element of the part, along each of the axes
        rel_start: the same as a share of the extent, from 0 to 1
        end: first element after the part, along each of the axes; default: the end of the data
        rel_end: the same as a share of the extent, from 0 to 1
        shape: extent of the part along each of the axes, instead of its end
        rel_shape: the same as a share of the extent, from 0 to 1
        axes: axes of the values, by number; default: width and height; empty: all
        axis_names: the same axes by their letters in the layout
        normalized_anchor: an anchor input of floats is a share of the extent; False: in elements
        normalized_shape: a shape input of floats is a share of the extent; False: in elements
        out_of_bounds_policy: for a window that leaves the data: `error`, `pad` it with fill_values, or `trim_to_shape` of the data
        fill_values: value for `pad`: one number, or one for each channel
        dtype: type of the result; default: that of the input
    """

def solarize(
    image: Data,
    /,
    *,
    threshold: float | DataNode | None = 128.0,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Inverts the values that are not below a threshold.

    Arguments:
        threshold: values from this one on are inverted
    """

def solarize_add(
    image: Data,
    /,
    *,
    shift: int | DataNode | None = 50,
    threshold: float | DataNode | None = 128.0,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Adds a number to the values below a threshold; results are limited to 0 to 255.

    Arguments:
        shift: number that is added
        threshold: values from this one on do not change
    """

def spectrogram(
    signal: Data,
    /,
    *,
    nfft: int | None = None,
    window_length: int | None = 512,
    window_step: int | None = 256,
    window_fn: float | Sequence[float] | None = (),
    power: int | None = 2,
    center_windows: bool | Literal[0, 1] | None = True,
    reflect_padding: bool | Literal[0, 1] | None = True,
    layout: Literal['ft', 'tf'] | None = 'ft',
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """The short-time power spectrum of a one-dimensional signal: nfft // 2 + 1 frequencies by frames.

    Arguments:
        nfft: length of the transform of a window; default: window_length
        window_length: number of samples in a window
        window_step: number of samples from a window to the next
        window_fn: factors of the samples of a window; default: a Hann window
        power: 2 for the power, 1 for the magnitude
        center_windows: windows are centred on their samples; False: they begin there
        reflect_padding: the signal is reflected at its ends; False: it continues with zeros
        layout: `ft` for frequencies by frames, `tf` for frames by frequencies
    """

def sphere(
    image: Data,
    /,
    *,
    mask: int | DataNode | None = 1,
    fill_value: float | None = 0.0,
    interp_type: int | None = ...,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Shows the image as through a magnifying sphere.

    Arguments:
        mask: 0: the image is not changed
        fill_value: value outside the image
        interp_type: interpolation: INTERP_NN or INTERP_LINEAR
    """

def squeeze(
    data: Data,
    /,
    *,
    axes: int | Sequence[int] | DataNode | None = None,
    axis_names: str | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Removes axes of extent 1.

    Arguments:
        axes: axes of extent 1 that are removed, by number
        axis_names: the same axes by their letters in the layout
    """

def ssd_random_crop(
    image: Data,
    boxes: DataNode | ArrayLike,
    labels: DataNode | ArrayLike,
    /,
    *,
    num_attempts: int | None = 1,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
    seed: int | None = None,
) -> list[Data]:
    """Crops image, boxes and labels as in the training of SSD; random_bbox_crop and slice do the same with more arguments.

    Arguments:
        num_attempts: number of windows that are tried before another overlap is drawn
    """

def stack(
    *inputs: Data,
    axis: int | None = 0,
    axis_name: str | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Joins the inputs along a new axis.

    Arguments:
        axis: position of the new axis in the result; negative: from the end
        axis_name: letter of the new axis in the layout
    """

def tensor_resize(
    data: Data,
    /,
    *,
    sizes: float | Sequence[float] | DataNode | None = None,
    scales: float | Sequence[float] | DataNode | None = None,
    axes: int | Sequence[int] | None = None,
    axis_names: str | None = None,
    mode: str | None = 'default',
    max_size: float | Sequence[float] | None = None,
    size_rounding: str | None = 'round',
    subpixel_scale: bool | Literal[0, 1] | None = True,
    alignment: float | Sequence[float] | DataNode | None = (0.5,),
    interp_type: int | DataNode | None = ...,
    min_filter: int | DataNode | None = None,
    mag_filter: int | DataNode | None = None,
    antialias: bool | Literal[0, 1] | None = True,
    roi_start: float | Sequence[float] | DataNode | None = None,
    roi_end: float | Sequence[float] | DataNode | None = None,
    roi_relative: bool | Literal[0, 1] | None = False,
    dtype: DTypeLike | DALIDataType | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Resizes data along any of its axes.

    Arguments:
        sizes: extents of the result along the axes; 0 keeps the ratio, negative ones mirror
        scales: factors of the extents, instead of sizes; negative ones mirror
        axes: axes of the values, by number; default: all
        axis_names: the same axes by their letters in the layout
        mode: meaning of the extents: `default` (missing ones follow the ratio), `stretch` (missing ones do not change), `not_larger` or `not_smaller` (limits, with the ratio kept)
        max_size: limit of the extents of the result: one number, or one for each axis
        size_rounding: rounding of extents to whole numbers: `round`, `truncate` or `ceil`
        subpixel_scale: move the ends of the region by the fraction that rounding takes off the result, so that the scale is exact
        alignment: the point of the region that does not move in this: 0 its start, 1 its end
        interp_type: filter, unless min_filter or mag_filter is given
        min_filter: filter for axes that become smaller
        mag_filter: filter for axes that become larger
        antialias: widen the filter if an axis becomes smaller, so that every pixel of the input contributes
        roi_start: start of the region that is resized instead of the whole image
        roi_end: end of that region; an end before the start mirrors
        roi_relative: the region is in shares of the extents; False: in pixels
        dtype: type of the result; default: that of the input
    """

def to_decibels(
    magnitude: Data,
    /,
    *,
    multiplier: float | None = 10.0,
    reference: float | None = 0.0,
    cutoff_db: float | None = -200.0,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Computes multiplier * log10(x / reference); the result is at least ``cutoff_db``.

    Arguments:
        multiplier: factor of the logarithm: 10 for powers, 20 for magnitudes
        reference: value of 0 dB; 0: the largest of the sample
        cutoff_db: lowest value of the result
    """

def transpose(
    data: Data,
    /,
    *,
    perm: int | Sequence[int] | None = None,
    transpose_layout: bool | Literal[0, 1] | None = True,
    output_layout: str | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Changes the order of the axes; the default reverses them.

    Arguments:
        perm: for each axis of the result, the axis of the input; default: in reverse
        transpose_layout: let the layout follow the axes; False: keep it
        output_layout: layout of the result, instead of the one that follows from perm
    """

def unsharp_mask(
    image: Data,
    /,
    *,
    sigma: float | DataNode | None = 1.0,
    amount: float | DataNode | None = 0.5,
    threshold: float | DataNode | None = 0.0,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Increases the differences from a blurred form of the image.

    Arguments:
        sigma: deviation of the Gaussian window that blurs
        amount: factor of the differences from the blurred image
        threshold: differences up to this value are not amplified
    """

def warp_affine(
    image: Data,
    matrix_input: DataNode | ArrayLike | None = None,
    /,
    *,
    size: float | Sequence[float] | DataNode | None = None,
    fill_value: float | None = None,
    interp_type: int | None = ...,
    dtype: DTypeLike | DALIDataType | None = None,
    matrix: float | Sequence[float] | DataNode | None = (),
    inverse_map: bool | Literal[0, 1] | None = True,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Warps the image by an affine matrix, given row by row or as the second input.

    Arguments:
        size: extents of the result in the order of the layout; default: those of the input
        fill_value: value outside the image; default: that of the nearest border pixel
        interp_type: filter: INTERP_LINEAR or INTERP_NN
        dtype: type of the result; default: that of the input
        matrix: matrix, row by row: from positions of the result to positions of the image, x first
        inverse_map: the matrix maps the result to the image; False: the image to the result
    """

def warp_perspective(
    image: Data,
    matrix_input: DataNode | ArrayLike | None = None,
    /,
    *,
    pixel_origin: str | None = 'corner',
    matrix: float | Sequence[float] | DataNode | None = (),
    size: float | Sequence[float] | DataNode | None = (),
    inverse_map: bool | Literal[0, 1] | None = True,
    border_mode: str | None = 'constant',
    fill_value: float | Sequence[float] | None = (),
    interp_type: int | None = ...,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Warps the image by a projective matrix of 3 x 3 numbers, given as an argument or as the second input.

    Arguments:
        pixel_origin: position of (0, 0): the `corner` of the first pixel or, as in OpenCV, its `center`
        matrix: the nine numbers row by row; the matrix maps positions (x, y, 1)
        size: height and width of the output; those of the input by default
        inverse_map: the matrix maps positions of the output to positions of the input; False: the other way round
        border_mode: values outside the image: `constant` (the fill value), `replicate`, `reflect`, `reflect_101` or `wrap`
        fill_value: the value outside, one or one a channel; 0 by default
        interp_type: interpolation: INTERP_NN, INTERP_LINEAR or INTERP_CUBIC
    """

def water(
    image: Data,
    /,
    *,
    ampl_x: float | DataNode | None = 10.0,
    ampl_y: float | DataNode | None = 10.0,
    freq_x: float | DataNode | None = 0.04908738521234052,
    freq_y: float | DataNode | None = 0.04908738521234052,
    phase_x: float | DataNode | None = 0.0,
    phase_y: float | DataNode | None = 0.0,
    mask: int | DataNode | None = 1,
    fill_value: float | None = 0.0,
    interp_type: int | None = ...,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Bends the image in waves: ``x + ampl_x * sin(freq_x * y + phase_x)`` and ``y + ampl_y * cos(freq_y * x + phase_y)``.

    Arguments:
        ampl_x: distance by which lines move sideways, in pixels
        ampl_y: distance by which columns move up and down, in pixels
        freq_x: frequency of the sideways waves, in radians a line
        freq_y: frequency of the waves up and down, in radians a column
        phase_x: phase of the sideways waves, in radians
        phase_y: phase of the waves up and down, in radians
        mask: 0: the image is not changed
        fill_value: value outside the image
        interp_type: interpolation: INTERP_NN or INTERP_LINEAR
    """

def zeros(
    *,
    shape: int | Sequence[int] | DataNode | None = (),
    dtype: DTypeLike | DALIDataType | None = ...,
    layout: str | None = '',
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> DataNode:
    """Zeros of the given shape.

    Arguments:
        shape: shape of the result
        dtype: type of the result
        layout: layout of the result
    """

def zeros_like(
    data: Data,
    /,
    *,
    dtype: DTypeLike | DALIDataType | None = None,
    name: str | None = None,
    device: Literal['cpu', 'gpu', 'mixed'] | None = None,
    preserve: bool | Literal[0, 1] | None = False,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    on_error: Any = None,
) -> Data:
    """Zeros of the input's shape, in its type unless ``dtype`` is given.

    Arguments:
        dtype: type of the result; default: that of the input
    """

class decoders:
    @staticmethod
    def audio(
        encoded: Data,
        /,
        *,
        quality: float | None = 50.0,
        antialias: bool | Literal[0, 1] | None = True,
        sample_rate: float | DataNode | None = 0.0,
        downmix: bool | Literal[0, 1] | None = False,
        dtype: DTypeLike | DALIDataType | None = ...,
        max_bytes: int | None = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> list[Data]:
        """Decodes a sound file to (samples, sampling rate): time by channels, or time alone with ``downmix``.

        Arguments:
            quality: quality of the resampling, from 0 (a filter of 3 lobes) by 50 (16) to 100 (64)
            antialias: remove frequencies that a lower rate cannot represent; False: keep them, as DALI does
            sample_rate: rate to resample to, in samples a second; 0 keeps that of the file
            downmix: mix the channels into one
            dtype: type of the samples: FLOAT (from -1 to 1), INT16 or INT32
            max_bytes: maximum size of the samples in bytes, decoded or resampled; default: 2 GiB, and less for a file of a few kilobytes
        """

    @staticmethod
    def image(
        data: Data,
        /,
        *,
        output_type: int | None = ...,
        dtype: DTypeLike | DALIDataType | None = ...,
        adjust_orientation: bool | Literal[0, 1] | None = True,
        use_fast_idct: bool | Literal[0, 1] | None = False,
        max_pixels: int | None = None,
        max_bytes: int | None = None,
        on_damage: Literal['error', 'accept'] | None = 'error',
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """Decodes images; the output has the layout HWC.

        Arguments:
            output_type: colour space of the result; ANY_DATA keeps the channels of the file, with alpha
            dtype: type of the result; if the file has another type, values are scaled to the range of this type
            adjust_orientation: turn the image as its EXIF data says
            use_fast_idct: decode JPEG files by a faster and less exact transform
            max_pixels: maximum number of pixels; default: 134217728, and fewer for a file of a few kilobytes
            max_bytes: maximum number of bytes of a decoded image; default: 2 GiB
            on_damage: `accept` returns the pixels that a damaged PNG or JPEG file still has, and black or gray for the others
        """

    @staticmethod
    def image_crop(
        data: Data,
        /,
        *,
        crop: float | Sequence[float] | DataNode | None = None,
        crop_h: float | DataNode | None = 0.0,
        crop_w: float | DataNode | None = 0.0,
        crop_pos_x: float | DataNode | None = 0.5,
        crop_pos_y: float | DataNode | None = 0.5,
        rounding: str | None = 'round',
        output_type: int | None = ...,
        dtype: DTypeLike | DALIDataType | None = ...,
        adjust_orientation: bool | Literal[0, 1] | None = True,
        use_fast_idct: bool | Literal[0, 1] | None = False,
        max_pixels: int | None = None,
        max_bytes: int | None = None,
        on_damage: Literal['error', 'accept'] | None = 'error',
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """Decodes a window of each image, given as in ``fn.crop``; it must be inside the image.

        Arguments:
            crop: extents of the window in the order of the layout (depth, height, width); one number: the same for all
            crop_h: height of the window; 0: the whole height
            crop_w: width of the window; 0: the whole width
            crop_pos_x: position of the window along the width: 0 is at the left, 1 at the right
            crop_pos_y: position of the window along the height: 0 is at the top, 1 at the bottom
            rounding: rounding of a start between two pixels: `round` to the nearer one, or `truncate`
            output_type: colour space of the result; ANY_DATA keeps the channels of the file, with alpha
            dtype: type of the result; if the file has another type, values are scaled to the range of this type
            adjust_orientation: turn the image as its EXIF data says
            use_fast_idct: decode JPEG files by a faster and less exact transform
            max_pixels: maximum number of pixels; default: 134217728, and fewer for a file of a few kilobytes
            max_bytes: maximum number of bytes of a decoded image; default: 2 GiB
            on_damage: `accept` returns the pixels that a damaged PNG or JPEG file still has, and black or gray for the others
        """

    @staticmethod
    def image_random_crop(
        data: Data,
        /,
        *,
        random_area: float | Sequence[float] | None = (0.08, 1.0),
        random_aspect_ratio: float | Sequence[float] | None = (0.75, 1.3333333333333333),
        num_attempts: int | None = 10,
        output_type: int | None = ...,
        dtype: DTypeLike | DALIDataType | None = ...,
        adjust_orientation: bool | Literal[0, 1] | None = True,
        use_fast_idct: bool | Literal[0, 1] | None = False,
        max_pixels: int | None = None,
        max_bytes: int | None = None,
        on_damage: Literal['error', 'accept'] | None = 'error',
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> Data:
        """Decodes a random window of each image, chosen by its share of the area and its aspect ratio.

        Arguments:
            random_area: smallest and largest share of the image's area that the window has
            random_aspect_ratio: smallest and largest ratio of the window's width to its height
            num_attempts: maximum number of windows that are drawn; if none fits, the largest centred one is taken
            output_type: colour space of the result; ANY_DATA keeps the channels of the file, with alpha
            dtype: type of the result; if the file has another type, values are scaled to the range of this type
            adjust_orientation: turn the image as its EXIF data says
            use_fast_idct: decode JPEG files by a faster and less exact transform
            max_pixels: maximum number of pixels; default: 134217728, and fewer for a file of a few kilobytes
            max_bytes: maximum number of bytes of a decoded image; default: 2 GiB
            on_damage: `accept` returns the pixels that a damaged PNG or JPEG file still has, and black or gray for the others
        """

    @staticmethod
    def image_slice(
        data: Data,
        anchor: DataNode | ArrayLike | None = None,
        shape_input: DataNode | ArrayLike | None = None,
        /,
        *,
        start: int | Sequence[int] | DataNode | None = None,
        rel_start: float | Sequence[float] | DataNode | None = None,
        end: int | Sequence[int] | DataNode | None = None,
        rel_end: float | Sequence[float] | DataNode | None = None,
        shape: int | Sequence[int] | DataNode | None = None,
        rel_shape: float | Sequence[float] | DataNode | None = None,
        axes: int | Sequence[int] | DataNode | None = None,
        axis_names: str | None = None,
        normalized_anchor: bool | Literal[0, 1] | None = True,
        normalized_shape: bool | Literal[0, 1] | None = True,
        output_type: int | None = ...,
        dtype: DTypeLike | DALIDataType | None = ...,
        adjust_orientation: bool | Literal[0, 1] | None = True,
        use_fast_idct: bool | Literal[0, 1] | None = False,
        max_pixels: int | None = None,
        max_bytes: int | None = None,
        on_damage: Literal['error', 'accept'] | None = 'error',
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """Decodes a part of each image, given as in ``fn.slice``; it must be inside the image.

        Arguments:
            start: first element of the part, along each of the axes
            rel_start: the same as a share of the extent, from 0 to 1
            end: first element after the part, along each of the axes; default: the end of the data
            rel_end: the same as a share of the extent, from 0 to 1
            shape: extent of the part along each of the axes, instead of its end
            rel_shape: the same as a share of the extent, from 0 to 1
            axes: axes of the values, by number; default: width and height; empty: all
            axis_names: the same axes by their letters in the layout
            normalized_anchor: an anchor input of floats is a share of the extent; False: in elements
            normalized_shape: a shape input of floats is a share of the extent; False: in elements
            output_type: colour space of the result; ANY_DATA keeps the channels of the file, with alpha
            dtype: type of the result; if the file has another type, values are scaled to the range of this type
            adjust_orientation: turn the image as its EXIF data says
            use_fast_idct: decode JPEG files by a faster and less exact transform
            max_pixels: maximum number of pixels; default: 134217728, and fewer for a file of a few kilobytes
            max_bytes: maximum number of bytes of a decoded image; default: 2 GiB
            on_damage: `accept` returns the pixels that a damaged PNG or JPEG file still has, and black or gray for the others
        """

    @staticmethod
    def inflate(
        data: Data,
        /,
        *,
        shape: int | Sequence[int] | DataNode,
        dtype: DTypeLike | DALIDataType | None = ...,
        algorithm: str | None = 'LZ4',
        chunk_offsets: int | Sequence[int] | DataNode | None = None,
        chunk_sizes: int | Sequence[int] | DataNode | None = None,
        layout: str | None = '',
        sequence_axis_name: str | None = 'F',
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """Decompresses data. The results of several chunks are stacked along a new first axis.

        Arguments:
            shape: shape of the result, or of each chunk's
            dtype: type of the result
            algorithm: compression method: `LZ4`, in its block format
            chunk_offsets: start of each chunk, in bytes; default: one after the other
            chunk_sizes: bytes of each chunk; default: up to the next one
            layout: layout of the result of a chunk
            sequence_axis_name: letter of the axis of the chunks in the layout
        """

    @staticmethod
    def numpy(
        data: Data,
        /,
        *,
        dtype: DTypeLike | DALIDataType | None = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """Decodes the bytes of a .npy file; ``dtype`` converts the elements. Nothing is ever unpickled.

        Arguments:
            dtype: type of the result; default: that of the file
        """

    @staticmethod
    def volume(
        data: Data,
        /,
        *,
        dtype: DTypeLike | DALIDataType | None = ...,
        rescale: bool | Literal[0, 1] | None = True,
        max_pixels: int | None = None,
        max_bytes: int | None = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """Decodes DICOM and NIfTI files; the output has the layout DHWC.

        Arguments:
            dtype: type of the result; values are rounded and limited to its range, not scaled to it
            rescale: multiply by the slope of the file and add its intercept, which gives Hounsfield units for CT; False: as stored
            max_pixels: maximum number of voxels; default: 134217728, and fewer for a file of a few kilobytes
            max_bytes: maximum number of bytes of a decoded volume; default: 2 GiB
        """

    @staticmethod
    def volume_crop(
        data: Data,
        /,
        *,
        crop: float | Sequence[float] | DataNode | None = None,
        crop_h: float | DataNode | None = 0.0,
        crop_w: float | DataNode | None = 0.0,
        crop_d: float | DataNode | None = 0.0,
        crop_pos_x: float | DataNode | None = 0.5,
        crop_pos_y: float | DataNode | None = 0.5,
        crop_pos_z: float | DataNode | None = 0.5,
        rounding: str | None = 'round',
        dtype: DTypeLike | DALIDataType | None = ...,
        rescale: bool | Literal[0, 1] | None = True,
        max_pixels: int | None = None,
        max_bytes: int | None = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """Decodes a window of each volume, given as in ``fn.crop``; frames of DICOM outside of it are not decoded.

        Arguments:
            crop: extents of the window in the order of the layout (depth, height, width); one number: the same for all
            crop_h: height of the window; 0: the whole height
            crop_w: width of the window; 0: the whole width
            crop_d: depth of the window in a volume; 0: the whole depth
            crop_pos_x: position of the window along the width: 0 is at the left, 1 at the right
            crop_pos_y: position of the window along the height: 0 is at the top, 1 at the bottom
            crop_pos_z: position of the window along the depth of a volume: 0 is in front, 1 at the back
            rounding: rounding of a start between two pixels: `round` to the nearer one, or `truncate`
            dtype: type of the result; values are rounded and limited to its range, not scaled to it
            rescale: multiply by the slope of the file and add its intercept, which gives Hounsfield units for CT; False: as stored
            max_pixels: maximum number of voxels; default: 134217728, and fewer for a file of a few kilobytes
            max_bytes: maximum number of bytes of a decoded volume; default: 2 GiB
        """

class distortions:
    @staticmethod
    def elastic(
        image: Data,
        /,
        *,
        alpha: float | DataNode | None = 50.0,
        sigma: float | DataNode | None = 5.0,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> list[Data]:
        """Moves every pixel by random numbers from -1 to 1, smoothed and multiplied by `alpha`.

        Arguments:
            alpha: factor of the displacements, in pixels
            sigma: smoothness of the displacements: the deviation of the Gaussian window in pixels
        """

    @staticmethod
    def grid(
        image: Data,
        /,
        *,
        cells: int | Sequence[int] | DataNode | None = (5, 5),
        limit: float | DataNode | None = 0.3,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> list[Data]:
        """Moves the nodes of a grid at random, except those on the border; the pixels between them move along.

        Arguments:
            cells: number of rows and columns of the grid
            limit: largest movement of a node, in shares of a cell; below 0.5 the image does not fold
        """

    @staticmethod
    def jigsaw(
        image: Data,
        /,
        *,
        grid: int | Sequence[int] | DataNode | None = (4, 4),
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> list[Data]:
        """Puts the parts of a grid into a random order, as `fn.jigsaw` does; only parts of equal size change places.

        Arguments:
            grid: number of rows and columns of parts
        """

    @staticmethod
    def optical(
        image: Data,
        /,
        *,
        strength: float | DataNode | None = 0.3,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> list[Data]:
        """Distorts like a lens: the relative change of a distance from the middle grows with its square.

        Arguments:
            strength: movement of the corners as a share of their distance: above 0 barrel, below 0 pincushion
        """

    @staticmethod
    def thin_plate(
        image: Data,
        /,
        *,
        points: int | None = 4,
        scale: float | DataNode | None = 0.1,
        moves: float | Sequence[float] | DataNode | None = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> list[Data]:
        """Bends a thin plate through a grid of points that are moved at random (thin plate spline).

        Arguments:
            points: the number of points in a row and in a column
            scale: deviation of the moves of the points, in shares of the extents
            moves: movements of the points, row by row, x and y, in shares of the extents; default: random
        """

class experimental:
    @staticmethod
    def dilate(
        image: Data,
        /,
        *,
        mask_size: int | Sequence[int] | DataNode | None = (3, 3),
        anchor: int | Sequence[int] | DataNode | None = (-1, -1),
        border_mode: str | None = 'constant',
        iterations: int | None = 1,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """Replaces every pixel by the largest value in a window around it, channel by channel: bright areas grow.

        Arguments:
            mask_size: width and height of the window; one number for both
            anchor: position of the pixel in its window, to the right and down; -1 is the middle
            border_mode: values outside the image: none (`constant`), or `replicate`, `reflect`, `reflect_101` or `wrap`
            iterations: number of repetitions
        """

    @staticmethod
    def erode(
        image: Data,
        /,
        *,
        mask_size: int | Sequence[int] | DataNode | None = (3, 3),
        anchor: int | Sequence[int] | DataNode | None = (-1, -1),
        border_mode: str | None = 'constant',
        iterations: int | None = 1,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """Replaces every pixel by the smallest value in a window around it, channel by channel: bright areas shrink.

        Arguments:
            mask_size: width and height of the window; one number for both
            anchor: position of the pixel in its window, to the right and down; -1 is the middle
            border_mode: values outside the image: none (`constant`), or `replicate`, `reflect`, `reflect_101` or `wrap`
            iterations: number of repetitions
        """

    @staticmethod
    def median_blur(
        image: Data,
        /,
        *,
        window_size: int | Sequence[int] | DataNode | None = (3, 3),
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """Replaces every pixel by the median of a window around it, channel by channel; outside the image the border pixels are repeated.

        Arguments:
            window_size: width and height of the window, both odd; one number for both
        """

    @staticmethod
    def numba_function(
        *inputs: Data,
        run_fn: Callable[..., Any],
        out_types: Any,
        in_types: Any,
        outs_ndim: int | Sequence[int],
        ins_ndim: int | Sequence[int],
        batch_processing: bool | Literal[0, 1] | None = False,
        blocks: int | Sequence[int] | None = None,
        threads_per_block: int | Sequence[int] | None = None,
        setup_fn: Callable[..., Any] | None = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Any:
        """Calls a function compiled by Numba that fills its outputs: ``run_fn(*outputs, *inputs)``.

        Arguments:
            run_fn: function that is compiled and called with the outputs and the inputs
            out_types: types of the outputs
            in_types: types of the inputs
            outs_ndim: numbers of axes of the outputs
            ins_ndim: numbers of axes of the inputs
            batch_processing: call the function once for the batch, with a list of arrays for each output and input
            blocks: blocks of the grid of the launch, for device="gpu"
            threads_per_block: threads of a block of that grid, for device="gpu"
            setup_fn: function that writes the shapes of the outputs; default: an output has the shape of the input with its number
        """

    @staticmethod
    def remap(
        image: Data,
        mapx: DataNode | ArrayLike,
        mapy: DataNode | ArrayLike,
        /,
        *,
        pixel_origin: str | None = 'corner',
        interp: int | None = ...,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """Takes each pixel of the output from the position that two maps give for it; the output is as large as the maps.

        Arguments:
            pixel_origin: position of (0, 0): the `corner` of the first pixel or, as in OpenCV, its `center`
            interp: interpolation: INTERP_NN, INTERP_LINEAR or INTERP_CUBIC
        """

    @overload
    @staticmethod
    def resize(
        image: Data,
        /,
        *,
        size: float | Sequence[float] | DataNode | None = None,
        resize_x: float | DataNode | None = None,
        resize_y: float | DataNode | None = None,
        resize_z: float | DataNode | None = None,
        resize_shorter: float | DataNode | None = None,
        resize_longer: float | DataNode | None = None,
        mode: str | None = 'default',
        max_size: float | Sequence[float] | None = None,
        subpixel_scale: bool | Literal[0, 1] | None = True,
        interp_type: int | DataNode | None = ...,
        min_filter: int | DataNode | None = None,
        mag_filter: int | DataNode | None = None,
        antialias: bool | Literal[0, 1] | None = True,
        roi_start: float | Sequence[float] | DataNode | None = None,
        roi_end: float | Sequence[float] | DataNode | None = None,
        roi_relative: bool | Literal[0, 1] | None = False,
        save_attrs: Literal[False] = ...,
        dtype: DTypeLike | DALIDataType | None = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """Resizes images, volumes and sequences of them.

        Arguments:
            size: extents of the result in the order of the layout; 0 keeps the ratio, negative ones mirror
            resize_x: width of the result; 0 keeps the ratio, a negative one mirrors
            resize_y: height of the result; 0 keeps the ratio, a negative one mirrors
            resize_z: depth of the result; 0 keeps the ratio, a negative one mirrors
            resize_shorter: extent of the shorter side of the result, with the ratio kept
            resize_longer: extent of the longer side of the result, with the ratio kept
            mode: meaning of the extents: `default` (missing ones follow the ratio), `stretch` (missing ones do not change), `not_larger` or `not_smaller` (limits, with the ratio kept)
            max_size: limit of the extents of the result: one number, or one for each axis
            subpixel_scale: change the region by the fraction that rounding changes the result, so that the scale is exact
            interp_type: filter, unless min_filter or mag_filter is given
            min_filter: filter for axes that become smaller
            mag_filter: filter for axes that become larger
            antialias: widen the filter if an axis becomes smaller, so that every pixel of the input contributes
            roi_start: start of the region that is resized instead of the whole image
            roi_end: end of that region; an end before the start mirrors
            roi_relative: the region is in shares of the extents; False: in pixels
            save_attrs: return the extents of the input as a second output
            dtype: type of the result; default: that of the input
        """

    @overload
    @staticmethod
    def resize(
        image: Data,
        /,
        *,
        save_attrs: Literal[True],
        size: float | Sequence[float] | DataNode | None = None,
        resize_x: float | DataNode | None = None,
        resize_y: float | DataNode | None = None,
        resize_z: float | DataNode | None = None,
        resize_shorter: float | DataNode | None = None,
        resize_longer: float | DataNode | None = None,
        mode: str | None = 'default',
        max_size: float | Sequence[float] | None = None,
        subpixel_scale: bool | Literal[0, 1] | None = True,
        interp_type: int | DataNode | None = ...,
        min_filter: int | DataNode | None = None,
        mag_filter: int | DataNode | None = None,
        antialias: bool | Literal[0, 1] | None = True,
        roi_start: float | Sequence[float] | DataNode | None = None,
        roi_end: float | Sequence[float] | DataNode | None = None,
        roi_relative: bool | Literal[0, 1] | None = False,
        dtype: DTypeLike | DALIDataType | None = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> list[Data]:
        """Resizes images, volumes and sequences of them.

        Arguments:
            size: extents of the result in the order of the layout; 0 keeps the ratio, negative ones mirror
            resize_x: width of the result; 0 keeps the ratio, a negative one mirrors
            resize_y: height of the result; 0 keeps the ratio, a negative one mirrors
            resize_z: depth of the result; 0 keeps the ratio, a negative one mirrors
            resize_shorter: extent of the shorter side of the result, with the ratio kept
            resize_longer: extent of the longer side of the result, with the ratio kept
            mode: meaning of the extents: `default` (missing ones follow the ratio), `stretch` (missing ones do not change), `not_larger` or `not_smaller` (limits, with the ratio kept)
            max_size: limit of the extents of the result: one number, or one for each axis
            subpixel_scale: change the region by the fraction that rounding changes the result, so that the scale is exact
            interp_type: filter, unless min_filter or mag_filter is given
            min_filter: filter for axes that become smaller
            mag_filter: filter for axes that become larger
            antialias: widen the filter if an axis becomes smaller, so that every pixel of the input contributes
            roi_start: start of the region that is resized instead of the whole image
            roi_end: end of that region; an end before the start mirrors
            roi_relative: the region is in shares of the extents; False: in pixels
            save_attrs: return the extents of the input as a second output
            dtype: type of the result; default: that of the input
        """

    @overload
    @staticmethod
    def resize(
        image: Data,
        /,
        *,
        size: float | Sequence[float] | DataNode | None = None,
        resize_x: float | DataNode | None = None,
        resize_y: float | DataNode | None = None,
        resize_z: float | DataNode | None = None,
        resize_shorter: float | DataNode | None = None,
        resize_longer: float | DataNode | None = None,
        mode: str | None = 'default',
        max_size: float | Sequence[float] | None = None,
        subpixel_scale: bool | Literal[0, 1] | None = True,
        interp_type: int | DataNode | None = ...,
        min_filter: int | DataNode | None = None,
        mag_filter: int | DataNode | None = None,
        antialias: bool | Literal[0, 1] | None = True,
        roi_start: float | Sequence[float] | DataNode | None = None,
        roi_end: float | Sequence[float] | DataNode | None = None,
        roi_relative: bool | Literal[0, 1] | None = False,
        save_attrs: bool | Literal[0, 1] | None = False,
        dtype: DTypeLike | DALIDataType | None = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Any:
        """Resizes images, volumes and sequences of them.

        Arguments:
            size: extents of the result in the order of the layout; 0 keeps the ratio, negative ones mirror
            resize_x: width of the result; 0 keeps the ratio, a negative one mirrors
            resize_y: height of the result; 0 keeps the ratio, a negative one mirrors
            resize_z: depth of the result; 0 keeps the ratio, a negative one mirrors
            resize_shorter: extent of the shorter side of the result, with the ratio kept
            resize_longer: extent of the longer side of the result, with the ratio kept
            mode: meaning of the extents: `default` (missing ones follow the ratio), `stretch` (missing ones do not change), `not_larger` or `not_smaller` (limits, with the ratio kept)
            max_size: limit of the extents of the result: one number, or one for each axis
            subpixel_scale: change the region by the fraction that rounding changes the result, so that the scale is exact
            interp_type: filter, unless min_filter or mag_filter is given
            min_filter: filter for axes that become smaller
            mag_filter: filter for axes that become larger
            antialias: widen the filter if an axis becomes smaller, so that every pixel of the input contributes
            roi_start: start of the region that is resized instead of the whole image
            roi_end: end of that region; an end before the start mirrors
            roi_relative: the region is in shares of the extents; False: in pixels
            save_attrs: return the extents of the input as a second output
            dtype: type of the result; default: that of the input
        """

    @staticmethod
    def warp_perspective(
        image: Data,
        matrix_input: DataNode | ArrayLike | None = None,
        /,
        *,
        pixel_origin: str | None = 'corner',
        matrix: float | Sequence[float] | DataNode | None = (),
        size: float | Sequence[float] | DataNode | None = (),
        inverse_map: bool | Literal[0, 1] | None = True,
        border_mode: str | None = 'constant',
        fill_value: float | Sequence[float] | None = (),
        interp_type: int | None = ...,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """Warps the image by a projective matrix of 3 x 3 numbers, given as an argument or as the second input.

        Arguments:
            pixel_origin: position of (0, 0): the `corner` of the first pixel or, as in OpenCV, its `center`
            matrix: the nine numbers row by row; the matrix maps positions (x, y, 1)
            size: height and width of the output; those of the input by default
            inverse_map: the matrix maps positions of the output to positions of the input; False: the other way round
            border_mode: values outside the image: `constant` (the fill value), `replicate`, `reflect`, `reflect_101` or `wrap`
            fill_value: the value outside, one or one a channel; 0 by default
            interp_type: interpolation: INTERP_NN, INTERP_LINEAR or INTERP_CUBIC
        """

    class readers:
        @staticmethod
        def fits(
            *,
            file_root: str | None = None,
            files: Any = None,
            file_list: str | None = None,
            file_filter: str | None = '*.fits',
            hdu_indices: int | Sequence[int] | None = (2,),
            dtypes: Any = None,
            shard_id: int | None = 0,
            num_shards: int | None = 1,
            random_shuffle: bool | Literal[0, 1] | None = False,
            shuffle_after_epoch: bool | Literal[0, 1] | None = False,
            shuffle_after_epoch_seed: int | None = None,
            stick_to_shard: bool | Literal[0, 1] | None = False,
            pad_last_batch: bool | Literal[0, 1] | None = False,
            lazy_init: bool | Literal[0, 1] | None = False,
            cache: str | None = None,
            cache_bytes: Any = None,
            name: str | None = None,
            device: Literal['cpu', 'gpu', 'mixed'] | None = None,
            preserve: bool | Literal[0, 1] | None = False,
            bytes_per_sample_hint: int | Sequence[int] | None = None,
            on_error: Any = None,
            seed: int | None = None,
        ) -> DataNode:
            """Reads images from the units of FITS files, one output for each of `hdu_indices`, the first unit being 1.

            Arguments:
                file_root: folder of the files, or of relative paths
                files: paths of the files
                file_list: path of a text file with a path in each line
                file_filter: pattern that the names of files match
                hdu_indices: numbers of the units that are read, from 1
                dtypes: types that the units must have, one or a list; default: any
                shard_id: number of the shard that this reader reads, from 0
                num_shards: number of shards into which the data is divided, one for each reader
                random_shuffle: read the samples of each epoch in a random order
                shuffle_after_epoch: shuffle the whole data again for every epoch; a shard then has other samples in each epoch
                shuffle_after_epoch_seed: seed of that shuffling; default: a fixed one, the same on every shard
                stick_to_shard: read the same shard in every epoch; False: the next one
                pad_last_batch: fill the last batch of an epoch with copies of its last sample
                lazy_init: open the data with the first batch; False: when the pipeline is built
                cache: folder of this machine that keeps what was read from URLs, for later epochs, other processes and later runs
                cache_bytes: limit of the size of that folder, such as "500MB"; default: "10GB"
            """

class illumination:
    @staticmethod
    def corner(
        image: Data,
        /,
        *,
        gain: float | DataNode | None = 0.2,
        corner: int | DataNode | None = 0,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """Multiplies the image by a factor that grows from 1 in one corner to ``1 + gain`` in the opposite one, with the distance.

        Arguments:
            gain: change at the lightest point, as a share of the value; below 0 it becomes darker
            corner: corner of the light, 0 to 3: upper left, upper right, lower right, lower left
        """

    @staticmethod
    def gaussian(
        image: Data,
        /,
        *,
        gain: float | DataNode | None = 0.2,
        center: float | Sequence[float] | DataNode | None = (0.5, 0.5),
        sigma: float | DataNode | None = 0.3,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """Multiplies the image by a factor that is ``1 + gain`` at one point and decreases to 1 around it, like a bell.

        Arguments:
            gain: change at the lightest point, as a share of the value; below 0 it becomes darker
            center: position of the light, x and y in shares of the extents
            sigma: width of the light: the deviation in shares of the extents
        """

    @staticmethod
    def linear(
        image: Data,
        /,
        *,
        gain: float | DataNode | None = 0.2,
        angle: float | DataNode | None = 0.0,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """Multiplies the image by a factor that grows evenly from 1 at one end to ``1 + gain`` at the other.

        Arguments:
            gain: change at the lightest point, as a share of the value; below 0 it becomes darker
            angle: direction of the light in degrees, counter-clockwise from the right
        """

class io:
    class file:
        @staticmethod
        def read(
            filepath: Data,
            /,
            *,
            name: str | None = None,
            device: Literal['cpu', 'gpu', 'mixed'] | None = None,
            preserve: bool | Literal[0, 1] | None = False,
            bytes_per_sample_hint: int | Sequence[int] | None = None,
            on_error: Any = None,
        ) -> Data:
            """Reads whole files; the input is the path as text, or as bytes with or without a zero at their end."""

class noise:
    @staticmethod
    def gaussian(
        data: Data,
        /,
        *,
        mean: float | DataNode | None = 0.0,
        stddev: float | DataNode | None = 1.0,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> Data:
        """Adds normally distributed noise; integers are rounded and limited to their range.

        Arguments:
            mean: mean of the noise
            stddev: standard deviation of the noise
        """

    @staticmethod
    def salt_and_pepper(
        data: Data,
        /,
        *,
        prob: float | DataNode | None = 0.05,
        salt_vs_pepper: float | DataNode | None = 0.5,
        salt_val: float | DataNode | None = None,
        pepper_val: float | DataNode | None = None,
        per_channel: bool | Literal[0, 1] | None = False,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> Data:
        """Sets some elements to the largest value and some to the smallest one.

        Arguments:
            prob: probability that an element, or a pixel, becomes salt or pepper
            salt_vs_pepper: probability of salt among these
            salt_val: value of salt; default: the largest of an integer type, 1 for floats
            pepper_val: value of pepper; default: the smallest of an integer type, -1 for floats
            per_channel: each channel is set by itself; False: all channels of a pixel together
        """

    @staticmethod
    def shot(
        data: Data,
        /,
        *,
        factor: float | DataNode | None = 12.0,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> Data:
        """Adds the noise of counted light: each value becomes a Poisson number with this mean, in units of ``factor``.

        Arguments:
            factor: value of one count: a larger value makes more noise; 0 does not change the data
        """

class plasma:
    @staticmethod
    def brightness(
        image: Data,
        /,
        *,
        roughness: float | DataNode | None = 0.5,
        intensity: float | DataNode | None = 0.3,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> Data:
        """Adds a cloud, from ``-intensity`` at its darkest points to ``intensity`` at its lightest.

        Arguments:
            roughness: strength of each level of detail in relation to the coarser one before it, from 0 to 1
            intensity: largest change, as a share of 255 (of 1 for floats)
        """

    @staticmethod
    def contrast(
        image: Data,
        /,
        *,
        roughness: float | DataNode | None = 0.5,
        intensity: float | DataNode | None = 0.5,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> Data:
        """Changes contrast by a cloud: multiplies distances from the middle, 128 (0.5 for floats), by ``1 - intensity`` to ``1 + intensity``.

        Arguments:
            roughness: strength of each level of detail in relation to the coarser one before it, from 0 to 1
            intensity: largest difference of the factor of the contrast from 1
        """

    @staticmethod
    def shadow(
        image: Data,
        /,
        *,
        roughness: float | DataNode | None = 0.5,
        intensity: float | DataNode | None = 0.5,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> Data:
        """Darkens the image by the shadow of a cloud.

        Arguments:
            roughness: strength of each level of detail in relation to the coarser one before it, from 0 to 1
            intensity: darkening at the thickest points of the cloud, from 0 to 1
        """

class random:
    @overload
    @staticmethod
    def beta(
        shape_like: Data,
        /,
        *,
        dtype: DTypeLike | DALIDataType | None = None,
        shape: int | Sequence[int] | DataNode | None = None,
        alpha: float | DataNode | None = 1.0,
        beta: float | DataNode | None = 1.0,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> Data:
        """Numbers in [0, 1] of the beta distribution.

        Arguments:
            dtype: type of the numbers; default: FLOAT
            shape: shape of a sample; default: that of the input, or a single number
            alpha: first parameter of the distribution, above 0
            beta: second parameter of the distribution, above 0
        """

    @overload
    @staticmethod
    def beta(
        *,
        dtype: DTypeLike | DALIDataType | None = None,
        shape: int | Sequence[int] | DataNode | None = None,
        alpha: float | DataNode | None = 1.0,
        beta: float | DataNode | None = 1.0,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> DataNode:
        """Numbers in [0, 1] of the beta distribution.

        Arguments:
            dtype: type of the numbers; default: FLOAT
            shape: shape of a sample; default: that of the input, or a single number
            alpha: first parameter of the distribution, above 0
            beta: second parameter of the distribution, above 0
        """

    @staticmethod
    def choice(
        a: Data,
        shape_like: DataNode | ArrayLike | None = None,
        /,
        *,
        shape: int | Sequence[int] | DataNode | None = None,
        p: float | Sequence[float] | DataNode | None = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> Data:
        """One of the elements along the first axis of ``a``, or of ``range(a)`` when ``a`` is one integer.

        Arguments:
            shape: shape of a sample; default: that of the input, or a single number
            p: probability of each element; default: equal ones
        """

    @overload
    @staticmethod
    def coin_flip(
        shape_like: Data,
        /,
        *,
        dtype: DTypeLike | DALIDataType | None = None,
        shape: int | Sequence[int] | DataNode | None = None,
        probability: float | DataNode | None = 0.5,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> Data:
        """1 with the given probability, else 0.

        Arguments:
            dtype: type of the numbers; default: INT32
            shape: shape of a sample; default: that of the input, or a single number
            probability: probability of a 1
        """

    @overload
    @staticmethod
    def coin_flip(
        *,
        dtype: DTypeLike | DALIDataType | None = None,
        shape: int | Sequence[int] | DataNode | None = None,
        probability: float | DataNode | None = 0.5,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> DataNode:
        """1 with the given probability, else 0.

        Arguments:
            dtype: type of the numbers; default: INT32
            shape: shape of a sample; default: that of the input, or a single number
            probability: probability of a 1
        """

    @overload
    @staticmethod
    def normal(
        shape_like: Data,
        /,
        *,
        dtype: DTypeLike | DALIDataType | None = None,
        shape: int | Sequence[int] | DataNode | None = None,
        mean: float | DataNode | None = 0.0,
        stddev: float | DataNode | None = 1.0,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> Data:
        """Normally distributed numbers; integer types are rounded and limited to their range.

        Arguments:
            dtype: type of the numbers; default: FLOAT
            shape: shape of a sample; default: that of the input, or a single number
            mean: mean of the distribution
            stddev: standard deviation of the distribution
        """

    @overload
    @staticmethod
    def normal(
        *,
        dtype: DTypeLike | DALIDataType | None = None,
        shape: int | Sequence[int] | DataNode | None = None,
        mean: float | DataNode | None = 0.0,
        stddev: float | DataNode | None = 1.0,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> DataNode:
        """Normally distributed numbers; integer types are rounded and limited to their range.

        Arguments:
            dtype: type of the numbers; default: FLOAT
            shape: shape of a sample; default: that of the input, or a single number
            mean: mean of the distribution
            stddev: standard deviation of the distribution
        """

    @overload
    @staticmethod
    def uniform(
        shape_like: Data,
        /,
        *,
        dtype: DTypeLike | DALIDataType | None = None,
        shape: int | Sequence[int] | DataNode | None = None,
        range: float | Sequence[float] | DataNode | None = (-1.0, 1.0),
        values: float | Sequence[float] | DataNode | None = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> Data:
        """Uniformly distributed numbers in ``[low, high)``, or one of ``values``; integer types are rounded.

        Arguments:
            dtype: type of the numbers; default: FLOAT
            shape: shape of a sample; default: that of the input, or a single number
            range: the ends of the range: the lower end is included, the upper end is not
            values: numbers to choose from, instead of a range
        """

    @overload
    @staticmethod
    def uniform(
        *,
        dtype: DTypeLike | DALIDataType | None = None,
        shape: int | Sequence[int] | DataNode | None = None,
        range: float | Sequence[float] | DataNode | None = (-1.0, 1.0),
        values: float | Sequence[float] | DataNode | None = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> DataNode:
        """Uniformly distributed numbers in ``[low, high)``, or one of ``values``; integer types are rounded.

        Arguments:
            dtype: type of the numbers; default: FLOAT
            shape: shape of a sample; default: that of the input, or a single number
            range: the ends of the range: the lower end is included, the upper end is not
            values: numbers to choose from, instead of a range
        """

class readers:
    @overload
    @staticmethod
    def caffe(
        *,
        path: Any,
        image_available: Literal[True] = ...,
        label_available: Literal[True] = ...,
        shard_id: int | None = 0,
        num_shards: int | None = 1,
        random_shuffle: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool | Literal[0, 1] | None = False,
        pad_last_batch: bool | Literal[0, 1] | None = False,
        lazy_init: bool | Literal[0, 1] | None = False,
        cache: str | None = None,
        cache_bytes: Any = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> list[DataNode]:
        """Reads the encoded image (bytes) and the label (int32 of shape (1,)) of each record of Caffe's LMDB databases.

        Arguments:
            path: folders of the databases, or their files or URLs; several are read one after the other
            image_available: give the image
            label_available: give the label
            shard_id: number of the shard that this reader reads, from 0
            num_shards: number of shards into which the data is divided, one for each reader
            random_shuffle: read the samples of each epoch in a random order
            shuffle_after_epoch: shuffle the whole data again for every epoch; a shard then has other samples in each epoch
            shuffle_after_epoch_seed: seed of that shuffling; default: a fixed one, the same on every shard
            stick_to_shard: read the same shard in every epoch; False: the next one
            pad_last_batch: fill the last batch of an epoch with copies of its last sample
            lazy_init: open the data with the first batch; False: when the pipeline is built
            cache: folder of this machine that keeps what was read from URLs, for later epochs, other processes and later runs
            cache_bytes: limit of the size of that folder, such as "500MB"; default: "10GB"
        """

    @overload
    @staticmethod
    def caffe(
        *,
        path: Any,
        image_available: Literal[False],
        label_available: Literal[True] = ...,
        shard_id: int | None = 0,
        num_shards: int | None = 1,
        random_shuffle: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool | Literal[0, 1] | None = False,
        pad_last_batch: bool | Literal[0, 1] | None = False,
        lazy_init: bool | Literal[0, 1] | None = False,
        cache: str | None = None,
        cache_bytes: Any = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> DataNode:
        """Reads the encoded image (bytes) and the label (int32 of shape (1,)) of each record of Caffe's LMDB databases.

        Arguments:
            path: folders of the databases, or their files or URLs; several are read one after the other
            image_available: give the image
            label_available: give the label
            shard_id: number of the shard that this reader reads, from 0
            num_shards: number of shards into which the data is divided, one for each reader
            random_shuffle: read the samples of each epoch in a random order
            shuffle_after_epoch: shuffle the whole data again for every epoch; a shard then has other samples in each epoch
            shuffle_after_epoch_seed: seed of that shuffling; default: a fixed one, the same on every shard
            stick_to_shard: read the same shard in every epoch; False: the next one
            pad_last_batch: fill the last batch of an epoch with copies of its last sample
            lazy_init: open the data with the first batch; False: when the pipeline is built
            cache: folder of this machine that keeps what was read from URLs, for later epochs, other processes and later runs
            cache_bytes: limit of the size of that folder, such as "500MB"; default: "10GB"
        """

    @overload
    @staticmethod
    def caffe(
        *,
        path: Any,
        label_available: Literal[False],
        image_available: Literal[True] = ...,
        shard_id: int | None = 0,
        num_shards: int | None = 1,
        random_shuffle: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool | Literal[0, 1] | None = False,
        pad_last_batch: bool | Literal[0, 1] | None = False,
        lazy_init: bool | Literal[0, 1] | None = False,
        cache: str | None = None,
        cache_bytes: Any = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> DataNode:
        """Reads the encoded image (bytes) and the label (int32 of shape (1,)) of each record of Caffe's LMDB databases.

        Arguments:
            path: folders of the databases, or their files or URLs; several are read one after the other
            image_available: give the image
            label_available: give the label
            shard_id: number of the shard that this reader reads, from 0
            num_shards: number of shards into which the data is divided, one for each reader
            random_shuffle: read the samples of each epoch in a random order
            shuffle_after_epoch: shuffle the whole data again for every epoch; a shard then has other samples in each epoch
            shuffle_after_epoch_seed: seed of that shuffling; default: a fixed one, the same on every shard
            stick_to_shard: read the same shard in every epoch; False: the next one
            pad_last_batch: fill the last batch of an epoch with copies of its last sample
            lazy_init: open the data with the first batch; False: when the pipeline is built
            cache: folder of this machine that keeps what was read from URLs, for later epochs, other processes and later runs
            cache_bytes: limit of the size of that folder, such as "500MB"; default: "10GB"
        """

    @overload
    @staticmethod
    def caffe(
        *,
        path: Any,
        image_available: bool | Literal[0, 1] | None = True,
        label_available: bool | Literal[0, 1] | None = True,
        shard_id: int | None = 0,
        num_shards: int | None = 1,
        random_shuffle: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool | Literal[0, 1] | None = False,
        pad_last_batch: bool | Literal[0, 1] | None = False,
        lazy_init: bool | Literal[0, 1] | None = False,
        cache: str | None = None,
        cache_bytes: Any = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> Any:
        """Reads the encoded image (bytes) and the label (int32 of shape (1,)) of each record of Caffe's LMDB databases.

        Arguments:
            path: folders of the databases, or their files or URLs; several are read one after the other
            image_available: give the image
            label_available: give the label
            shard_id: number of the shard that this reader reads, from 0
            num_shards: number of shards into which the data is divided, one for each reader
            random_shuffle: read the samples of each epoch in a random order
            shuffle_after_epoch: shuffle the whole data again for every epoch; a shard then has other samples in each epoch
            shuffle_after_epoch_seed: seed of that shuffling; default: a fixed one, the same on every shard
            stick_to_shard: read the same shard in every epoch; False: the next one
            pad_last_batch: fill the last batch of an epoch with copies of its last sample
            lazy_init: open the data with the first batch; False: when the pipeline is built
            cache: folder of this machine that keeps what was read from URLs, for later epochs, other processes and later runs
            cache_bytes: limit of the size of that folder, such as "500MB"; default: "10GB"
        """

    @overload
    @staticmethod
    def caffe2(
        *,
        path: Any,
        image_available: Literal[True] = ...,
        label_type: Literal[0] = ...,
        num_labels: int | None = 1,
        additional_inputs: Literal[0] = ...,
        bbox: Literal[False] = ...,
        shard_id: int | None = 0,
        num_shards: int | None = 1,
        random_shuffle: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool | Literal[0, 1] | None = False,
        pad_last_batch: bool | Literal[0, 1] | None = False,
        lazy_init: bool | Literal[0, 1] | None = False,
        cache: str | None = None,
        cache_bytes: Any = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> list[DataNode]:
        """Reads the encoded image, the label and other data of each record of Caffe2's LMDB databases.

        Arguments:
            path: folders of the databases, or their files or URLs; several are read one after the other
            image_available: return the image, the first tensor of a record
            label_type: 0 one label, 1 several, 2 a vector, 3 several with weights, 4 none
            num_labels: number of the classes, for `label_type` 1 and 3
            additional_inputs: number of tensors after the labels that are returned too
            bbox: return the box, the last tensor
            shard_id: number of the shard that this reader reads, from 0
            num_shards: number of shards into which the data is divided, one for each reader
            random_shuffle: read the samples of each epoch in a random order
            shuffle_after_epoch: shuffle the whole data again for every epoch; a shard then has other samples in each epoch
            shuffle_after_epoch_seed: seed of that shuffling; default: a fixed one, the same on every shard
            stick_to_shard: read the same shard in every epoch; False: the next one
            pad_last_batch: fill the last batch of an epoch with copies of its last sample
            lazy_init: open the data with the first batch; False: when the pipeline is built
            cache: folder of this machine that keeps what was read from URLs, for later epochs, other processes and later runs
            cache_bytes: limit of the size of that folder, such as "500MB"; default: "10GB"
        """

    @overload
    @staticmethod
    def caffe2(
        *,
        path: Any,
        image_available: Literal[False],
        label_type: Literal[0] = ...,
        num_labels: int | None = 1,
        additional_inputs: Literal[0] = ...,
        bbox: Literal[False] = ...,
        shard_id: int | None = 0,
        num_shards: int | None = 1,
        random_shuffle: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool | Literal[0, 1] | None = False,
        pad_last_batch: bool | Literal[0, 1] | None = False,
        lazy_init: bool | Literal[0, 1] | None = False,
        cache: str | None = None,
        cache_bytes: Any = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> DataNode:
        """Reads the encoded image, the label and other data of each record of Caffe2's LMDB databases.

        Arguments:
            path: folders of the databases, or their files or URLs; several are read one after the other
            image_available: return the image, the first tensor of a record
            label_type: 0 one label, 1 several, 2 a vector, 3 several with weights, 4 none
            num_labels: number of the classes, for `label_type` 1 and 3
            additional_inputs: number of tensors after the labels that are returned too
            bbox: return the box, the last tensor
            shard_id: number of the shard that this reader reads, from 0
            num_shards: number of shards into which the data is divided, one for each reader
            random_shuffle: read the samples of each epoch in a random order
            shuffle_after_epoch: shuffle the whole data again for every epoch; a shard then has other samples in each epoch
            shuffle_after_epoch_seed: seed of that shuffling; default: a fixed one, the same on every shard
            stick_to_shard: read the same shard in every epoch; False: the next one
            pad_last_batch: fill the last batch of an epoch with copies of its last sample
            lazy_init: open the data with the first batch; False: when the pipeline is built
            cache: folder of this machine that keeps what was read from URLs, for later epochs, other processes and later runs
            cache_bytes: limit of the size of that folder, such as "500MB"; default: "10GB"
        """

    @overload
    @staticmethod
    def caffe2(
        *,
        path: Any,
        label_type: int,
        image_available: Literal[True] = ...,
        num_labels: int | None = 1,
        additional_inputs: Literal[0] = ...,
        bbox: Literal[False] = ...,
        shard_id: int | None = 0,
        num_shards: int | None = 1,
        random_shuffle: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool | Literal[0, 1] | None = False,
        pad_last_batch: bool | Literal[0, 1] | None = False,
        lazy_init: bool | Literal[0, 1] | None = False,
        cache: str | None = None,
        cache_bytes: Any = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> list[DataNode]:
        """Reads the encoded image, the label and other data of each record of Caffe2's LMDB databases.

        Arguments:
            path: folders of the databases, or their files or URLs; several are read one after the other
            image_available: return the image, the first tensor of a record
            label_type: 0 one label, 1 several, 2 a vector, 3 several with weights, 4 none
            num_labels: number of the classes, for `label_type` 1 and 3
            additional_inputs: number of tensors after the labels that are returned too
            bbox: return the box, the last tensor
            shard_id: number of the shard that this reader reads, from 0
            num_shards: number of shards into which the data is divided, one for each reader
            random_shuffle: read the samples of each epoch in a random order
            shuffle_after_epoch: shuffle the whole data again for every epoch; a shard then has other samples in each epoch
            shuffle_after_epoch_seed: seed of that shuffling; default: a fixed one, the same on every shard
            stick_to_shard: read the same shard in every epoch; False: the next one
            pad_last_batch: fill the last batch of an epoch with copies of its last sample
            lazy_init: open the data with the first batch; False: when the pipeline is built
            cache: folder of this machine that keeps what was read from URLs, for later epochs, other processes and later runs
            cache_bytes: limit of the size of that folder, such as "500MB"; default: "10GB"
        """

    @overload
    @staticmethod
    def caffe2(
        *,
        path: Any,
        additional_inputs: int,
        image_available: Literal[True] = ...,
        label_type: Literal[0] = ...,
        num_labels: int | None = 1,
        bbox: Literal[False] = ...,
        shard_id: int | None = 0,
        num_shards: int | None = 1,
        random_shuffle: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool | Literal[0, 1] | None = False,
        pad_last_batch: bool | Literal[0, 1] | None = False,
        lazy_init: bool | Literal[0, 1] | None = False,
        cache: str | None = None,
        cache_bytes: Any = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> list[DataNode]:
        """Reads the encoded image, the label and other data of each record of Caffe2's LMDB databases.

        Arguments:
            path: folders of the databases, or their files or URLs; several are read one after the other
            image_available: return the image, the first tensor of a record
            label_type: 0 one label, 1 several, 2 a vector, 3 several with weights, 4 none
            num_labels: number of the classes, for `label_type` 1 and 3
            additional_inputs: number of tensors after the labels that are returned too
            bbox: return the box, the last tensor
            shard_id: number of the shard that this reader reads, from 0
            num_shards: number of shards into which the data is divided, one for each reader
            random_shuffle: read the samples of each epoch in a random order
            shuffle_after_epoch: shuffle the whole data again for every epoch; a shard then has other samples in each epoch
            shuffle_after_epoch_seed: seed of that shuffling; default: a fixed one, the same on every shard
            stick_to_shard: read the same shard in every epoch; False: the next one
            pad_last_batch: fill the last batch of an epoch with copies of its last sample
            lazy_init: open the data with the first batch; False: when the pipeline is built
            cache: folder of this machine that keeps what was read from URLs, for later epochs, other processes and later runs
            cache_bytes: limit of the size of that folder, such as "500MB"; default: "10GB"
        """

    @overload
    @staticmethod
    def caffe2(
        *,
        path: Any,
        bbox: Literal[True],
        image_available: Literal[True] = ...,
        label_type: Literal[0] = ...,
        num_labels: int | None = 1,
        additional_inputs: Literal[0] = ...,
        shard_id: int | None = 0,
        num_shards: int | None = 1,
        random_shuffle: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool | Literal[0, 1] | None = False,
        pad_last_batch: bool | Literal[0, 1] | None = False,
        lazy_init: bool | Literal[0, 1] | None = False,
        cache: str | None = None,
        cache_bytes: Any = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> list[DataNode]:
        """Reads the encoded image, the label and other data of each record of Caffe2's LMDB databases.

        Arguments:
            path: folders of the databases, or their files or URLs; several are read one after the other
            image_available: return the image, the first tensor of a record
            label_type: 0 one label, 1 several, 2 a vector, 3 several with weights, 4 none
            num_labels: number of the classes, for `label_type` 1 and 3
            additional_inputs: number of tensors after the labels that are returned too
            bbox: return the box, the last tensor
            shard_id: number of the shard that this reader reads, from 0
            num_shards: number of shards into which the data is divided, one for each reader
            random_shuffle: read the samples of each epoch in a random order
            shuffle_after_epoch: shuffle the whole data again for every epoch; a shard then has other samples in each epoch
            shuffle_after_epoch_seed: seed of that shuffling; default: a fixed one, the same on every shard
            stick_to_shard: read the same shard in every epoch; False: the next one
            pad_last_batch: fill the last batch of an epoch with copies of its last sample
            lazy_init: open the data with the first batch; False: when the pipeline is built
            cache: folder of this machine that keeps what was read from URLs, for later epochs, other processes and later runs
            cache_bytes: limit of the size of that folder, such as "500MB"; default: "10GB"
        """

    @overload
    @staticmethod
    def caffe2(
        *,
        path: Any,
        image_available: bool | Literal[0, 1] | None = True,
        label_type: int | None = 0,
        num_labels: int | None = 1,
        additional_inputs: int | None = 0,
        bbox: bool | Literal[0, 1] | None = False,
        shard_id: int | None = 0,
        num_shards: int | None = 1,
        random_shuffle: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool | Literal[0, 1] | None = False,
        pad_last_batch: bool | Literal[0, 1] | None = False,
        lazy_init: bool | Literal[0, 1] | None = False,
        cache: str | None = None,
        cache_bytes: Any = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> Any:
        """Reads the encoded image, the label and other data of each record of Caffe2's LMDB databases.

        Arguments:
            path: folders of the databases, or their files or URLs; several are read one after the other
            image_available: return the image, the first tensor of a record
            label_type: 0 one label, 1 several, 2 a vector, 3 several with weights, 4 none
            num_labels: number of the classes, for `label_type` 1 and 3
            additional_inputs: number of tensors after the labels that are returned too
            bbox: return the box, the last tensor
            shard_id: number of the shard that this reader reads, from 0
            num_shards: number of shards into which the data is divided, one for each reader
            random_shuffle: read the samples of each epoch in a random order
            shuffle_after_epoch: shuffle the whole data again for every epoch; a shard then has other samples in each epoch
            shuffle_after_epoch_seed: seed of that shuffling; default: a fixed one, the same on every shard
            stick_to_shard: read the same shard in every epoch; False: the next one
            pad_last_batch: fill the last batch of an epoch with copies of its last sample
            lazy_init: open the data with the first batch; False: when the pipeline is built
            cache: folder of this machine that keeps what was read from URLs, for later epochs, other processes and later runs
            cache_bytes: limit of the size of that folder, such as "500MB"; default: "10GB"
        """

    @staticmethod
    def coco(
        *,
        file_root: Any = None,
        annotations_file: str | None = None,
        preprocessed_annotations: str | None = '',
        save_preprocessed_annotations: bool | Literal[0, 1] | None = False,
        save_preprocessed_annotations_dir: str | None = '',
        ltrb: bool | Literal[0, 1] | None = False,
        ratio: bool | Literal[0, 1] | None = False,
        polygon_masks: bool | Literal[0, 1] | None = False,
        masks: bool | Literal[0, 1] | None = False,
        pixelwise_masks: bool | Literal[0, 1] | None = False,
        image_ids: bool | Literal[0, 1] | None = False,
        skip_empty: bool | Literal[0, 1] | None = False,
        size_threshold: float | None = 0.1,
        include_iscrowd: bool | Literal[0, 1] | None = True,
        avoid_class_remapping: bool | Literal[0, 1] | None = False,
        images: Any = None,
        max_pixels: int | None = 134217728,
        shard_id: int | None = 0,
        num_shards: int | None = 1,
        random_shuffle: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool | Literal[0, 1] | None = False,
        pad_last_batch: bool | Literal[0, 1] | None = False,
        lazy_init: bool | Literal[0, 1] | None = False,
        cache: str | None = None,
        cache_bytes: Any = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> list[DataNode]:
        """Reads encoded images with the boxes and the labels of their objects.

        Arguments:
            file_root: folder of the names of the images, or its URL
            annotations_file: path or URL of the annotations, a JSON file
            preprocessed_annotations: folder of saved annotations, instead of `annotations_file`
            save_preprocessed_annotations: save the annotations for `preprocessed_annotations`
            save_preprocessed_annotations_dir: the folder in which they are saved
            ltrb: return boxes as left, top, right, bottom; False: x, y, width, height
            ratio: return coordinates as fractions of the image's width and height
            polygon_masks: add the polygons of the masks: rows of (object, start, end), and vertices
            masks: add the polygons with starts and ends that count numbers, two for each vertex
            pixelwise_masks: add an image with the label of the object at each pixel
            image_ids: add the id of the image, the last output
            skip_empty: leave out images without a box
            size_threshold: boxes with a side of fewer pixels are left out
            include_iscrowd: read annotations of crowds too
            avoid_class_remapping: labels are the categories' ids; False: their numbers in the file, from 1
            images: names of the images to read, in this order; default: all of the file
            max_pixels: maximum number of pixels of an image for `pixelwise_masks`
            shard_id: number of the shard that this reader reads, from 0
            num_shards: number of shards into which the data is divided, one for each reader
            random_shuffle: read the samples of each epoch in a random order
            shuffle_after_epoch: shuffle the whole data again for every epoch; a shard then has other samples in each epoch
            shuffle_after_epoch_seed: seed of that shuffling; default: a fixed one, the same on every shard
            stick_to_shard: read the same shard in every epoch; False: the next one
            pad_last_batch: fill the last batch of an epoch with copies of its last sample
            lazy_init: open the data with the first batch; False: when the pipeline is built
            cache: folder of this machine that keeps what was read from URLs, for later epochs, other processes and later runs
            cache_bytes: limit of the size of that folder, such as "500MB"; default: "10GB"
        """

    @overload
    @staticmethod
    def dataset(
        dataset: Any,
        *,
        num_outputs: Literal[1] = ...,
        keys: None = None,
        shard_id: int | None = 0,
        num_shards: int | None = 1,
        random_shuffle: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool | Literal[0, 1] | None = False,
        pad_last_batch: bool | Literal[0, 1] | None = False,
        lazy_init: bool | Literal[0, 1] | None = False,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> DataNode:
        """Reads `dataset[i]`, in the pipeline's threads: arrays, tensors, images and numbers become arrays, text stays text.

        Arguments:
            dataset: object with a length and an index
            num_outputs: number of values in an item that is a tuple
            keys: names of the values that are taken from an item that is a dictionary, in this order
            shard_id: number of the shard that this reader reads, from 0
            num_shards: number of shards into which the data is divided, one for each reader
            random_shuffle: read the samples of each epoch in a random order
            shuffle_after_epoch: shuffle the whole data again for every epoch; a shard then has other samples in each epoch
            shuffle_after_epoch_seed: seed of that shuffling; default: a fixed one, the same on every shard
            stick_to_shard: read the same shard in every epoch; False: the next one
            pad_last_batch: fill the last batch of an epoch with copies of its last sample
            lazy_init: open the data with the first batch; False: when the pipeline is built
        """

    @overload
    @staticmethod
    def dataset(
        dataset: Any,
        *,
        num_outputs: int,
        keys: None = None,
        shard_id: int | None = 0,
        num_shards: int | None = 1,
        random_shuffle: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool | Literal[0, 1] | None = False,
        pad_last_batch: bool | Literal[0, 1] | None = False,
        lazy_init: bool | Literal[0, 1] | None = False,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> list[DataNode]:
        """Reads `dataset[i]`, in the pipeline's threads: arrays, tensors, images and numbers become arrays, text stays text.

        Arguments:
            dataset: object with a length and an index
            num_outputs: number of values in an item that is a tuple
            keys: names of the values that are taken from an item that is a dictionary, in this order
            shard_id: number of the shard that this reader reads, from 0
            num_shards: number of shards into which the data is divided, one for each reader
            random_shuffle: read the samples of each epoch in a random order
            shuffle_after_epoch: shuffle the whole data again for every epoch; a shard then has other samples in each epoch
            shuffle_after_epoch_seed: seed of that shuffling; default: a fixed one, the same on every shard
            stick_to_shard: read the same shard in every epoch; False: the next one
            pad_last_batch: fill the last batch of an epoch with copies of its last sample
            lazy_init: open the data with the first batch; False: when the pipeline is built
        """

    @overload
    @staticmethod
    def dataset(
        dataset: Any,
        *,
        num_outputs: int | None = 1,
        keys: Any = None,
        shard_id: int | None = 0,
        num_shards: int | None = 1,
        random_shuffle: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool | Literal[0, 1] | None = False,
        pad_last_batch: bool | Literal[0, 1] | None = False,
        lazy_init: bool | Literal[0, 1] | None = False,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> Any:
        """Reads `dataset[i]`, in the pipeline's threads: arrays, tensors, images and numbers become arrays, text stays text.

        Arguments:
            dataset: object with a length and an index
            num_outputs: number of values in an item that is a tuple
            keys: names of the values that are taken from an item that is a dictionary, in this order
            shard_id: number of the shard that this reader reads, from 0
            num_shards: number of shards into which the data is divided, one for each reader
            random_shuffle: read the samples of each epoch in a random order
            shuffle_after_epoch: shuffle the whole data again for every epoch; a shard then has other samples in each epoch
            shuffle_after_epoch_seed: seed of that shuffling; default: a fixed one, the same on every shard
            stick_to_shard: read the same shard in every epoch; False: the next one
            pad_last_batch: fill the last batch of an epoch with copies of its last sample
            lazy_init: open the data with the first batch; False: when the pipeline is built
        """

    @staticmethod
    def file(
        *,
        file_root: str | None = None,
        files: Any = None,
        labels: Any = None,
        file_list: str | None = None,
        file_filters: Any = ('*.jpg', '*.jpeg', '*.png', '*.bmp', '*.tif', '*.tiff', '*.pnm', '*.ppm', '*.pgm', '*.pbm', '*.jp2', '*.webp', '*.flac', '*.ogg', '*.wav'),
        dir_filters: Any = None,
        case_sensitive_filter: bool | Literal[0, 1] | None = False,
        shard_id: int | None = 0,
        num_shards: int | None = 1,
        random_shuffle: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool | Literal[0, 1] | None = False,
        pad_last_batch: bool | Literal[0, 1] | None = False,
        lazy_init: bool | Literal[0, 1] | None = False,
        cache: str | None = None,
        cache_bytes: Any = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> list[DataNode]:
        """Reads files and their labels: the bytes of each file, and an integer.

        Arguments:
            file_root: folder of the files, or of relative paths
            files: paths of the files
            labels: label of each of the files; default: numbered from 0
            file_list: path of a text file with a path and a label in each line
            file_filters: patterns that the names of files match
            dir_filters: patterns that the names of the sub-folders match; default: all sub-folders
            case_sensitive_filter: patterns distinguish small and capital letters
            shard_id: number of the shard that this reader reads, from 0
            num_shards: number of shards into which the data is divided, one for each reader
            random_shuffle: read the samples of each epoch in a random order
            shuffle_after_epoch: shuffle the whole data again for every epoch; a shard then has other samples in each epoch
            shuffle_after_epoch_seed: seed of that shuffling; default: a fixed one, the same on every shard
            stick_to_shard: read the same shard in every epoch; False: the next one
            pad_last_batch: fill the last batch of an epoch with copies of its last sample
            lazy_init: open the data with the first batch; False: when the pipeline is built
            cache: folder of this machine that keeps what was read from URLs, for later epochs, other processes and later runs
            cache_bytes: limit of the size of that folder, such as "500MB"; default: "10GB"
        """

    @staticmethod
    def fits(
        *,
        file_root: str | None = None,
        files: Any = None,
        file_list: str | None = None,
        file_filter: str | None = '*.fits',
        hdu_indices: int | Sequence[int] | None = (2,),
        dtypes: Any = None,
        shard_id: int | None = 0,
        num_shards: int | None = 1,
        random_shuffle: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool | Literal[0, 1] | None = False,
        pad_last_batch: bool | Literal[0, 1] | None = False,
        lazy_init: bool | Literal[0, 1] | None = False,
        cache: str | None = None,
        cache_bytes: Any = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> DataNode:
        """Reads images from the units of FITS files, one output for each of `hdu_indices`, the first unit being 1.

        Arguments:
            file_root: folder of the files, or of relative paths
            files: paths of the files
            file_list: path of a text file with a path in each line
            file_filter: pattern that the names of files match
            hdu_indices: numbers of the units that are read, from 1
            dtypes: types that the units must have, one or a list; default: any
            shard_id: number of the shard that this reader reads, from 0
            num_shards: number of shards into which the data is divided, one for each reader
            random_shuffle: read the samples of each epoch in a random order
            shuffle_after_epoch: shuffle the whole data again for every epoch; a shard then has other samples in each epoch
            shuffle_after_epoch_seed: seed of that shuffling; default: a fixed one, the same on every shard
            stick_to_shard: read the same shard in every epoch; False: the next one
            pad_last_batch: fill the last batch of an epoch with copies of its last sample
            lazy_init: open the data with the first batch; False: when the pipeline is built
            cache: folder of this machine that keeps what was read from URLs, for later epochs, other processes and later runs
            cache_bytes: limit of the size of that folder, such as "500MB"; default: "10GB"
        """

    @staticmethod
    def mxnet(
        *,
        path: Any,
        index_path: Any,
        shard_id: int | None = 0,
        num_shards: int | None = 1,
        random_shuffle: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool | Literal[0, 1] | None = False,
        pad_last_batch: bool | Literal[0, 1] | None = False,
        lazy_init: bool | Literal[0, 1] | None = False,
        cache: str | None = None,
        cache_bytes: Any = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> list[DataNode]:
        """Reads the encoded image (bytes) and the labels (float32, one or several) of each record.

        Arguments:
            path: paths of the RecordIO files; several files are read one after another
            index_path: path of the index, or a list with this path
            shard_id: number of the shard that this reader reads, from 0
            num_shards: number of shards into which the data is divided, one for each reader
            random_shuffle: read the samples of each epoch in a random order
            shuffle_after_epoch: shuffle the whole data again for every epoch; a shard then has other samples in each epoch
            shuffle_after_epoch_seed: seed of that shuffling; default: a fixed one, the same on every shard
            stick_to_shard: read the same shard in every epoch; False: the next one
            pad_last_batch: fill the last batch of an epoch with copies of its last sample
            lazy_init: open the data with the first batch; False: when the pipeline is built
            cache: folder of this machine that keeps what was read from URLs, for later epochs, other processes and later runs
            cache_bytes: limit of the size of that folder, such as "500MB"; default: "10GB"
        """

    @staticmethod
    def nemo_asr(
        *,
        manifest_filepaths: Any,
        read_sample_rate: bool | Literal[0, 1] | None = True,
        read_text: bool | Literal[0, 1] | None = True,
        read_idxs: bool | Literal[0, 1] | None = False,
        sample_rate: float | None = -1.0,
        quality: float | None = 50.0,
        downmix: bool | Literal[0, 1] | None = True,
        dtype: DTypeLike | DALIDataType | None = ...,
        min_duration: float | None = 0.0,
        max_duration: float | None = 0.0,
        max_bytes: int | None = None,
        shard_id: int | None = 0,
        num_shards: int | None = 1,
        random_shuffle: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool | Literal[0, 1] | None = False,
        pad_last_batch: bool | Literal[0, 1] | None = False,
        lazy_init: bool | Literal[0, 1] | None = False,
        cache: str | None = None,
        cache_bytes: Any = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> list[DataNode]:
        """Reads the samples of recordings and, if requested, the sampling rate, the transcript (bytes of UTF-8) and the entry's number.

        Arguments:
            manifest_filepaths: paths or URLs of the manifests
            read_sample_rate: return the sampling rate as an output
            read_text: return the transcript as an output
            read_idxs: return the number of the entry as an output
            sample_rate: rate to resample to, in samples a second; 0 or less keeps that of the file
            quality: quality of the resampling, from 0 to 100
            downmix: mix the channels into one
            dtype: type of the samples: FLOAT, INT16 or INT32
            min_duration: leave out shorter recordings, in seconds; 0: none
            max_duration: leave out longer recordings, in seconds; 0: none
            max_bytes: maximum size of the samples of a recording in bytes; default: 2 GiB, and less for a small file
            shard_id: number of the shard that this reader reads, from 0
            num_shards: number of shards into which the data is divided, one for each reader
            random_shuffle: read the samples of each epoch in a random order
            shuffle_after_epoch: shuffle the whole data again for every epoch; a shard then has other samples in each epoch
            shuffle_after_epoch_seed: seed of that shuffling; default: a fixed one, the same on every shard
            stick_to_shard: read the same shard in every epoch; False: the next one
            pad_last_batch: fill the last batch of an epoch with copies of its last sample
            lazy_init: open the data with the first batch; False: when the pipeline is built
            cache: folder of this machine that keeps what was read from URLs, for later epochs, other processes and later runs
            cache_bytes: limit of the size of that folder, such as "500MB"; default: "10GB"
        """

    @staticmethod
    def numpy(
        *,
        file_root: str | None = None,
        files: Any = None,
        file_list: str | None = None,
        file_filter: str | None = '*.npy',
        roi_start: int | Sequence[int] | None = None,
        roi_end: int | Sequence[int] | None = None,
        roi_shape: int | Sequence[int] | None = None,
        rel_roi_start: float | Sequence[float] | None = None,
        rel_roi_end: float | Sequence[float] | None = None,
        rel_roi_shape: float | Sequence[float] | None = None,
        roi_axes: int | Sequence[int] | None = (),
        out_of_bounds_policy: Literal['error', 'pad', 'trim_to_shape'] | None = 'error',
        fill_value: float | None = 0.0,
        dont_use_mmap: bool | Literal[0, 1] | None = False,
        shard_id: int | None = 0,
        num_shards: int | None = 1,
        random_shuffle: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool | Literal[0, 1] | None = False,
        pad_last_batch: bool | Literal[0, 1] | None = False,
        lazy_init: bool | Literal[0, 1] | None = False,
        cache: str | None = None,
        cache_bytes: Any = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> DataNode:
        """Reads arrays from .npy files: whole files, or the region of the roi arguments.

        Arguments:
            file_root: folder of the files, or of relative paths
            files: paths of the files
            file_list: path of a text file with a path in each line
            file_filter: pattern that the names of files match
            roi_start: first element of the region, along each of the axes
            roi_end: first element after the region, along each of the axes
            roi_shape: extents of the region, instead of its end
            rel_roi_start: start of the region, as a share of the extents
            rel_roi_end: end of the region, as a share of the extents
            rel_roi_shape: extents of the region, as a share of those of the array
            roi_axes: axes of the values; default: all
            out_of_bounds_policy: for a region that leaves the array: `error`, `pad` it, or `trim_to_shape` of the array
            fill_value: value for `pad`
            dont_use_mmap: read the file, without memory mapping
            shard_id: number of the shard that this reader reads, from 0
            num_shards: number of shards into which the data is divided, one for each reader
            random_shuffle: read the samples of each epoch in a random order
            shuffle_after_epoch: shuffle the whole data again for every epoch; a shard then has other samples in each epoch
            shuffle_after_epoch_seed: seed of that shuffling; default: a fixed one, the same on every shard
            stick_to_shard: read the same shard in every epoch; False: the next one
            pad_last_batch: fill the last batch of an epoch with copies of its last sample
            lazy_init: open the data with the first batch; False: when the pipeline is built
            cache: folder of this machine that keeps what was read from URLs, for later epochs, other processes and later runs
            cache_bytes: limit of the size of that folder, such as "500MB"; default: "10GB"
        """

    @staticmethod
    def parquet(
        paths: Any,
        columns: Any,
        *,
        decoded_bytes: int | None = 1073741824,
        shuffle_window: int | None = None,
        shard_id: int | None = 0,
        num_shards: int | None = 1,
        random_shuffle: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool | Literal[0, 1] | None = False,
        pad_last_batch: bool | Literal[0, 1] | None = False,
        lazy_init: bool | Literal[0, 1] | None = False,
        cache: str | None = None,
        cache_bytes: Any = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> Any:
        """Reads `columns` of the rows of Parquet files: numbers, lists of numbers, text, and bytes as the input of decoders.

        Arguments:
            paths: files, folders of `.parquet` files, or patterns with `*`; one, or a list
            columns: names of the columns, one output each; `image.bytes` is a field of a structure
            decoded_bytes: size of decoded groups of rows that are kept in memory
            shuffle_window: number of rows, rounded to whole groups, that are shuffled together; two windows are kept in memory whatever `decoded_bytes` is; default: all rows of the epoch
            shard_id: number of the shard that this reader reads, from 0
            num_shards: number of shards into which the data is divided, one for each reader
            random_shuffle: read the samples of each epoch in a random order
            shuffle_after_epoch: shuffle the whole data again for every epoch; a shard then has other samples in each epoch
            shuffle_after_epoch_seed: seed of that shuffling; default: a fixed one, the same on every shard
            stick_to_shard: read the same shard in every epoch; False: the next one
            pad_last_batch: fill the last batch of an epoch with copies of its last sample
            lazy_init: open the data with the first batch; False: when the pipeline is built
            cache: folder of this machine that keeps what was read from URLs, for later epochs, other processes and later runs
            cache_bytes: limit of the size of that folder, such as "500MB"; default: "10GB"
        """

    @staticmethod
    def sequence(
        *,
        file_root: str,
        sequence_length: int,
        step: int | None = 1,
        stride: int | None = 1,
        image_type: int | None = ...,
        shard_id: int | None = 0,
        num_shards: int | None = 1,
        random_shuffle: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool | Literal[0, 1] | None = False,
        pad_last_batch: bool | Literal[0, 1] | None = False,
        lazy_init: bool | Literal[0, 1] | None = False,
        cache: str | None = None,
        cache_bytes: Any = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> DataNode:
        """Reads sequences of frames, decoded, uint8 in the layout FHWC.

        Arguments:
            file_root: folder of the folders of frames, or its URL
            sequence_length: number of frames of a sequence
            step: frames between the beginnings of two sequences
            stride: frames from one frame of a sequence to the next
            image_type: colour space of the frames: RGB, BGR, GRAY, or ANY_DATA as stored
            shard_id: number of the shard that this reader reads, from 0
            num_shards: number of shards into which the data is divided, one for each reader
            random_shuffle: read the samples of each epoch in a random order
            shuffle_after_epoch: shuffle the whole data again for every epoch; a shard then has other samples in each epoch
            shuffle_after_epoch_seed: seed of that shuffling; default: a fixed one, the same on every shard
            stick_to_shard: read the same shard in every epoch; False: the next one
            pad_last_batch: fill the last batch of an epoch with copies of its last sample
            lazy_init: open the data with the first batch; False: when the pipeline is built
            cache: folder of this machine that keeps what was read from URLs, for later epochs, other processes and later runs
            cache_bytes: limit of the size of that folder, such as "500MB"; default: "10GB"
        """

    @staticmethod
    def tfrecord(
        *,
        path: Any,
        features: Any,
        index_path: Any = None,
        shard_id: int | None = 0,
        num_shards: int | None = 1,
        random_shuffle: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool | Literal[0, 1] | None = False,
        pad_last_batch: bool | Literal[0, 1] | None = False,
        lazy_init: bool | Literal[0, 1] | None = False,
        cache: str | None = None,
        cache_bytes: Any = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> dict[str, DataNode]:
        """Reads the named `features` of each record: a dictionary of outputs under the features' names.

        Arguments:
            path: paths of the files
            features: features to read, a dictionary from their names to FixedLenFeature or VarLenFeature
            index_path: path of the index of each file; default: the files are scanned at the start
            shard_id: number of the shard that this reader reads, from 0
            num_shards: number of shards into which the data is divided, one for each reader
            random_shuffle: read the samples of each epoch in a random order
            shuffle_after_epoch: shuffle the whole data again for every epoch; a shard then has other samples in each epoch
            shuffle_after_epoch_seed: seed of that shuffling; default: a fixed one, the same on every shard
            stick_to_shard: read the same shard in every epoch; False: the next one
            pad_last_batch: fill the last batch of an epoch with copies of its last sample
            lazy_init: open the data with the first batch; False: when the pipeline is built
            cache: folder of this machine that keeps what was read from URLs, for later epochs, other processes and later runs
            cache_bytes: limit of the size of that folder, such as "500MB"; default: "10GB"
        """

    @staticmethod
    def webdataset(
        *,
        paths: Any,
        ext: Any,
        index_paths: Any = None,
        missing_component_behavior: str | None = '',
        dtypes: Any = None,
        case_sensitive_extensions: bool | Literal[0, 1] | None = True,
        shard_id: int | None = 0,
        num_shards: int | None = 1,
        random_shuffle: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch: bool | Literal[0, 1] | None = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool | Literal[0, 1] | None = False,
        pad_last_batch: bool | Literal[0, 1] | None = False,
        lazy_init: bool | Literal[0, 1] | None = False,
        cache: str | None = None,
        cache_bytes: Any = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> Any:
        """Reads samples from tar files: for each element of `ext`, the bytes of the file with that extension.

        Arguments:
            paths: paths of the tar files
            ext: extensions of the components, one for each output; `jpg;png` takes the first of several
            index_paths: path of the index of each file; default: the files are scanned at the start
            missing_component_behavior: for a sample that lacks a component: `empty` returns an empty array (the default), `skip` leaves the sample out, `error` raises
            dtypes: type that the bytes of each component are read as; default: UINT8
            case_sensitive_extensions: extensions distinguish small and capital letters
            shard_id: number of the shard that this reader reads, from 0
            num_shards: number of shards into which the data is divided, one for each reader
            random_shuffle: read the samples of each epoch in a random order
            shuffle_after_epoch: shuffle the whole data again for every epoch; a shard then has other samples in each epoch
            shuffle_after_epoch_seed: seed of that shuffling; default: a fixed one, the same on every shard
            stick_to_shard: read the same shard in every epoch; False: the next one
            pad_last_batch: fill the last batch of an epoch with copies of its last sample
            lazy_init: open the data with the first batch; False: when the pipeline is built
            cache: folder of this machine that keeps what was read from URLs, for later epochs, other processes and later runs
            cache_bytes: limit of the size of that folder, such as "500MB"; default: "10GB"
        """

class reductions:
    @staticmethod
    def max(
        data: Data,
        /,
        *,
        axes: int | Sequence[int] | None = None,
        axis_names: str | None = None,
        keep_dims: bool | Literal[0, 1] | None = False,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """The largest element over some or all axes.

        Arguments:
            axes: axes that are reduced; default: all
            axis_names: the same axes by their letters in the layout
            keep_dims: keep the reduced axes with an extent of 1
        """

    @staticmethod
    def mean(
        data: Data,
        /,
        *,
        axes: int | Sequence[int] | None = None,
        axis_names: str | None = None,
        keep_dims: bool | Literal[0, 1] | None = False,
        dtype: DTypeLike | DALIDataType | None = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """The mean over some or all axes.

        Arguments:
            axes: axes that are reduced; default: all
            axis_names: the same axes by their letters in the layout
            keep_dims: keep the reduced axes with an extent of 1
            dtype: type of the result; default: FLOAT, or FLOAT64 for data of that type
        """

    @staticmethod
    def mean_square(
        data: Data,
        /,
        *,
        axes: int | Sequence[int] | None = None,
        axis_names: str | None = None,
        keep_dims: bool | Literal[0, 1] | None = False,
        dtype: DTypeLike | DALIDataType | None = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """The mean of the squares over some or all axes.

        Arguments:
            axes: axes that are reduced; default: all
            axis_names: the same axes by their letters in the layout
            keep_dims: keep the reduced axes with an extent of 1
            dtype: type of the result; default: FLOAT, or FLOAT64 for data of that type
        """

    @staticmethod
    def min(
        data: Data,
        /,
        *,
        axes: int | Sequence[int] | None = None,
        axis_names: str | None = None,
        keep_dims: bool | Literal[0, 1] | None = False,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """The smallest element over some or all axes.

        Arguments:
            axes: axes that are reduced; default: all
            axis_names: the same axes by their letters in the layout
            keep_dims: keep the reduced axes with an extent of 1
        """

    @staticmethod
    def rms(
        data: Data,
        /,
        *,
        axes: int | Sequence[int] | None = None,
        axis_names: str | None = None,
        keep_dims: bool | Literal[0, 1] | None = False,
        dtype: DTypeLike | DALIDataType | None = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """The root of the mean of the squares.

        Arguments:
            axes: axes that are reduced; default: all
            axis_names: the same axes by their letters in the layout
            keep_dims: keep the reduced axes with an extent of 1
            dtype: type of the result; default: FLOAT, or FLOAT64 for data of that type
        """

    @staticmethod
    def std_dev(
        data: Data,
        mean: DataNode | ArrayLike,
        /,
        *,
        axes: int | Sequence[int] | None = None,
        axis_names: str | None = None,
        keep_dims: bool | Literal[0, 1] | None = False,
        ddof: int | None = 0,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """The standard deviation over some or all axes, from the data and its mean; ``ddof`` is subtracted from the count.

        Arguments:
            axes: axes that are reduced; default: all
            axis_names: the same axes by their letters in the layout
            keep_dims: keep the reduced axes with an extent of 1
            ddof: subtracted from the number of elements by which the sum of squares is divided
        """

    @staticmethod
    def sum(
        data: Data,
        /,
        *,
        axes: int | Sequence[int] | None = None,
        axis_names: str | None = None,
        keep_dims: bool | Literal[0, 1] | None = False,
        dtype: DTypeLike | DALIDataType | None = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """The sum over some or all axes. The sum of integers has 64 bits unless ``dtype`` says otherwise.

        Arguments:
            axes: axes that are reduced; default: all
            axis_names: the same axes by their letters in the layout
            keep_dims: keep the reduced axes with an extent of 1
            dtype: type of the result; default: 64 bits for integers, else that of the data
        """

    @staticmethod
    def variance(
        data: Data,
        mean: DataNode | ArrayLike,
        /,
        *,
        axes: int | Sequence[int] | None = None,
        axis_names: str | None = None,
        keep_dims: bool | Literal[0, 1] | None = False,
        ddof: int | None = 0,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """The variance over some or all axes, from the data and its mean; ``ddof`` is subtracted from the count.

        Arguments:
            axes: axes that are reduced; default: all
            axis_names: the same axes by their letters in the layout
            keep_dims: keep the reduced axes with an extent of 1
            ddof: subtracted from the number of elements by which the sum of squares is divided
        """

class segmentation:
    @staticmethod
    def random_mask_pixel(
        mask: Data,
        /,
        *,
        foreground: bool | Literal[0, 1] | DataNode | None = False,
        value: int | DataNode | None = None,
        threshold: float | DataNode | None = 0.0,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> Data:
        """Chooses an element of the mask at random and returns its position, an index for each axis.

        Arguments:
            foreground: choose among the foreground; False: among all elements
            value: value of the foreground
            threshold: values larger than this are the foreground
        """

    @staticmethod
    def random_object_bbox(
        mask: Data,
        /,
        *,
        foreground_prob: float | DataNode | None = 1.0,
        background: int | DataNode | None = None,
        classes: int | Sequence[int] | DataNode | None = None,
        class_weights: float | Sequence[float] | DataNode | None = None,
        k_largest: int | None = None,
        threshold: int | Sequence[int] | DataNode | None = None,
        ignore_class: bool | Literal[0, 1] | None = False,
        output_class: bool | Literal[0, 1] | None = False,
        format: str | None = 'anchor_shape',
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> list[Data]:
        """Chooses an object of the mask at random and returns the box around it; an object is a set of elements that are connected by faces.

        Arguments:
            foreground_prob: probability that an object is chosen, and not the whole mask
            background: value of the background; default: 0, or if 0 is a class, the next one below
            classes: values of objects; default: all values except the background
            class_weights: relative probabilities of the classes; without classes, those of the values 1, 2, and so on
            k_largest: choose among this many of the largest boxes of the class
            threshold: smallest extents of a box: one number, or one for each axis
            ignore_class: all values except the background are one class; touching objects are one object
            output_class: return the class of the object, or of the background, as an additional output
            format: `anchor_shape`: two outputs, `start_end`: two outputs, or `box`: one, starts before ends
        """

    @staticmethod
    def select_masks(
        mask_ids: Data,
        polygons: DataNode | ArrayLike,
        vertices: DataNode | ArrayLike,
        /,
        *,
        reindex_masks: bool | Literal[0, 1] | None = False,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> list[Data]:
        """Keeps the polygons of some masks, in the order of the given ids, with their vertices.

        Arguments:
            reindex_masks: the masks get the numbers 0, 1, ... in the order of the ids; False: they keep their numbers
        """

class transforms:
    @staticmethod
    def combine(
        *matrices: Data,
        reverse_order: bool | Literal[0, 1] | None = False,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """Combines transforms into one: the first is applied first, or last with ``reverse_order``.

        Arguments:
            reverse_order: apply the first transform last
        """

    @overload
    @staticmethod
    def crop(
        matrix: Data,
        /,
        *,
        reverse_order: bool | Literal[0, 1] | None = False,
        from_start: float | Sequence[float] | DataNode | None = (0.0,),
        from_end: float | Sequence[float] | DataNode | None = (1.0,),
        to_start: float | Sequence[float] | DataNode | None = (0.0,),
        to_end: float | Sequence[float] | DataNode | None = (1.0,),
        absolute: bool | Literal[0, 1] | None = False,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """Maps the box from ``from_start`` to ``from_end`` onto the box from ``to_start`` to ``to_end``.

        Arguments:
            reverse_order: apply the new transform before the given one; False: after it
            from_start: one corner of the box that is mapped
            from_end: the opposite corner of that box
            to_start: position of the first corner after the mapping
            to_end: position of the opposite corner after the mapping
            absolute: exchange bounds that are in the wrong order; False: they mirror
        """

    @overload
    @staticmethod
    def crop(
        *,
        reverse_order: bool | Literal[0, 1] | None = False,
        from_start: float | Sequence[float] | DataNode | None = (0.0,),
        from_end: float | Sequence[float] | DataNode | None = (1.0,),
        to_start: float | Sequence[float] | DataNode | None = (0.0,),
        to_end: float | Sequence[float] | DataNode | None = (1.0,),
        absolute: bool | Literal[0, 1] | None = False,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> DataNode:
        """Maps the box from ``from_start`` to ``from_end`` onto the box from ``to_start`` to ``to_end``.

        Arguments:
            reverse_order: apply the new transform before the given one; False: after it
            from_start: one corner of the box that is mapped
            from_end: the opposite corner of that box
            to_start: position of the first corner after the mapping
            to_end: position of the opposite corner after the mapping
            absolute: exchange bounds that are in the wrong order; False: they mirror
        """

    @staticmethod
    def perspective(
        *,
        source: float | Sequence[float] | DataNode,
        target: float | Sequence[float] | DataNode,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> DataNode:
        """The 3 x 3 matrix that takes four points to four others; for `fn.warp_perspective(..., inverse_map=False)`.

        Arguments:
            source: four points, x and y of each: eight numbers
            target: positions of these points after the mapping
        """

    @overload
    @staticmethod
    def rotation(
        matrix: Data,
        /,
        *,
        angle: float | DataNode,
        center: float | Sequence[float] | DataNode | None = None,
        reverse_order: bool | Literal[0, 1] | None = False,
        axis: float | Sequence[float] | DataNode | None = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """Turns by an angle in degrees: in the plane, or in space around ``axis``.

        Arguments:
            angle: angle in degrees, counter-clockwise
            center: point that does not move; default: the origin
            reverse_order: apply the new transform before the given one; False: after it
            axis: axis (x, y, z) of a rotation in space; default: a rotation in the plane
        """

    @overload
    @staticmethod
    def rotation(
        *,
        angle: float | DataNode,
        center: float | Sequence[float] | DataNode | None = None,
        reverse_order: bool | Literal[0, 1] | None = False,
        axis: float | Sequence[float] | DataNode | None = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> DataNode:
        """Turns by an angle in degrees: in the plane, or in space around ``axis``.

        Arguments:
            angle: angle in degrees, counter-clockwise
            center: point that does not move; default: the origin
            reverse_order: apply the new transform before the given one; False: after it
            axis: axis (x, y, z) of a rotation in space; default: a rotation in the plane
        """

    @overload
    @staticmethod
    def scale(
        matrix: Data,
        /,
        *,
        scale: float | Sequence[float] | DataNode,
        center: float | Sequence[float] | DataNode | None = None,
        reverse_order: bool | Literal[0, 1] | None = False,
        ndim: int | None = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """Scales along each dimension, about the origin or ``center``.

        Arguments:
            scale: factor of each dimension; one number: the same for all
            center: point that does not move; default: the origin
            reverse_order: apply the new transform before the given one; False: after it
            ndim: number of dimensions, if scale is one number; 0: not given
        """

    @overload
    @staticmethod
    def scale(
        *,
        scale: float | Sequence[float] | DataNode,
        center: float | Sequence[float] | DataNode | None = None,
        reverse_order: bool | Literal[0, 1] | None = False,
        ndim: int | None = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> DataNode:
        """Scales along each dimension, about the origin or ``center``.

        Arguments:
            scale: factor of each dimension; one number: the same for all
            center: point that does not move; default: the origin
            reverse_order: apply the new transform before the given one; False: after it
            ndim: number of dimensions, if scale is one number; 0: not given
        """

    @overload
    @staticmethod
    def shear(
        matrix: Data,
        /,
        *,
        center: float | Sequence[float] | DataNode | None = None,
        reverse_order: bool | Literal[0, 1] | None = False,
        shear: float | Sequence[float] | DataNode | None = None,
        angles: float | Sequence[float] | DataNode | None = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """Shears by factors or by angles in degrees: (xy, yx), or in space (xy, xz, yx, yz, zx, zy).

        Arguments:
            center: point that does not move; default: the origin
            reverse_order: apply the new transform before the given one; False: after it
            shear: factors: (xy, yx), or in space (xy, xz, yx, yz, zx, zy)
            angles: angles in degrees, instead of the factors and in their order
        """

    @overload
    @staticmethod
    def shear(
        *,
        center: float | Sequence[float] | DataNode | None = None,
        reverse_order: bool | Literal[0, 1] | None = False,
        shear: float | Sequence[float] | DataNode | None = None,
        angles: float | Sequence[float] | DataNode | None = None,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> DataNode:
        """Shears by factors or by angles in degrees: (xy, yx), or in space (xy, xz, yx, yz, zx, zy).

        Arguments:
            center: point that does not move; default: the origin
            reverse_order: apply the new transform before the given one; False: after it
            shear: factors: (xy, yx), or in space (xy, xz, yx, yz, zx, zy)
            angles: angles in degrees, instead of the factors and in their order
        """

    @overload
    @staticmethod
    def translation(
        matrix: Data,
        /,
        *,
        offset: float | Sequence[float] | DataNode,
        reverse_order: bool | Literal[0, 1] | None = False,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """Moves by an offset.

        Arguments:
            offset: shift along each dimension; one number: the same for all
            reverse_order: apply the new transform before the given one; False: after it
        """

    @overload
    @staticmethod
    def translation(
        *,
        offset: float | Sequence[float] | DataNode,
        reverse_order: bool | Literal[0, 1] | None = False,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> DataNode:
        """Moves by an offset.

        Arguments:
            offset: shift along each dimension; one number: the same for all
            reverse_order: apply the new transform before the given one; False: after it
        """

class weather:
    @staticmethod
    def fog(
        image: Data,
        /,
        *,
        density: float | DataNode | None = 0.6,
        variation: float | DataNode | None = 0.5,
        roughness: float | DataNode | None = 0.4,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> Data:
        """Mixes the image with white, by a random cloud.

        Arguments:
            density: share of white at the thickest points of the fog, from 0 to 1
            variation: reduction at the thinnest points of the fog, from 0 to 1
            roughness: strength of small details, from 0 to 1
        """

    @staticmethod
    def rain(
        image: Data,
        /,
        *,
        density: float | DataNode | None = 0.002,
        length: int | DataNode | None = 20,
        width: int | DataNode | None = 1,
        angle: float | DataNode | None = 10.0,
        color: float | Sequence[float] | DataNode | None = (200.0,),
        opacity: float | DataNode | None = 0.6,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
        seed: int | None = None,
    ) -> Data:
        """Draws drops of rain: straight strokes at random places, mixed into the image.

        Arguments:
            density: number of drops for each pixel
            length: number of rows that a drop crosses
            width: width of a drop in pixels
            angle: angle of the rain in degrees: above 0 it falls to the right
            color: colour of the drops, one number or one a channel, of 255 also for floats
            opacity: share of the drop's colour in its pixels, from 0 to 1
        """

    @staticmethod
    def snow(
        image: Data,
        /,
        *,
        point: float | DataNode | None = 0.5,
        brightness: float | DataNode | None = 2.5,
        name: str | None = None,
        device: Literal['cpu', 'gpu', 'mixed'] | None = None,
        preserve: bool | Literal[0, 1] | None = False,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        on_error: Any = None,
    ) -> Data:
        """Covers dark pixels with snow: pixels with a lightness below ``point`` become lighter; hue and saturation do not change (HLS).

        Arguments:
            point: lightness below which pixels are covered with snow, from 0 to 1
            brightness: factor of the lightness there
        """
