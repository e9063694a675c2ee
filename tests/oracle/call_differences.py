"""Why drawn calls differ from DALI; docs/differences-from-dali.md says the same to users.

An entry is (operators, kind of difference, words, reason): the first that fits a difference states it. Operators are
separated by spaces, "*" is any; words are a pattern in the message of the one that refuses, or in the call and the values.
"""

import re

# ruff: noqa: E501 (a rule is a line)
NOT_COMMON = "DALI has no such operator for the CPU"
NUMBERS = "numbers, texts and lists of another kind than the argument's are refused; DALI cuts 2.5 to 2 and takes any text for True"
RANGES = "values without a meaning are refused: empty and negative sizes, probabilities and shares outside 0 to 1"
WIDER = "pipeflow takes more types, ranks, layouts and combinations of arguments than DALI"
ROUNDING = "the last digit of a pixel differs: DALI computes places and weights in float32 with tables"
SATURATED = "numbers outside the range of a type become its ends; DALI wraps around"
TWICE = "an axis that is named twice is refused"
OTHER_CLASS = "the message says what is wrong in another class of exceptions"

RULES = [
    ("*", "only DALI refuses", "", WIDER),
    ("*", "kind of exception", r"has no attribute|not registered for cpu|is not defined for operator", NOT_COMMON),
    ("*", "only pipeflow refuses", r"must be (an integer|a bool|a string|a number|one of)|is not a type|must be .* got (str|float|int|list)", NUMBERS),
    ("*", "only pipeflow refuses", r"not fit|must (not )?be|must lie|needs? |fewer than|give one label|four numbers each|has \d+ values|between|name an axis twice|is larger|is given|cannot|index out of range|exclude|at least|extents?|out of bounds|expects", RANGES),
    ("*", "only pipeflow refuses", r"layout .* is not one of|is empty|math domain|too small|is not inside|is not defined", RANGES),
    ("*", "only pipeflow refuses", r"give either|names axis|background too|along its height|out of range|probabilities for", RANGES),
    ("segmentation.random_object_bbox", "only pipeflow refuses", "does not take", "labels are whole numbers"),
    ("multi_paste normalize", "kind of exception", "", OTHER_CLASS),
    ("*", "kind of exception", r"should not be a 'DataNode'|C\+\+ context|is not a vector type", OTHER_CLASS),
    ("*", "layout", "", "data without a layout gets the one that the operator works with, and keeps it where DALI drops it"),
    ("*", "kind of exception", r"expects|inputs|index out of range", OTHER_CLASS),
    ("audio_resample decoders.audio", "values", "", "resampling removes what the lower rate cannot hold; a rate of 0 gives the file's"),
    ("cast decoders.numpy", "values", "BOOL", "every number but 0 becomes true; DALI rounds first, so that 0.3 is false"),
    ("paste sphere water grid_mask multi_paste", "values", "", "fills become the ends of their type, and layouts other than HWC are understood; DALI reads them as HWC"),
    ("decoders.image", "values", "", "wide integers are scaled exactly; DALI scales in float32"),
    ("reductions.std_dev reductions.variance", "values", "", "a mean of fewer numbers than results is broadcast; DALI reads beyond it"),
    ("reductions.mean reductions.rms reductions.sum reductions.mean_square", "values", "", SATURATED),
    ("to_decibels", "values", "", "a multiplier far from 10 needs more than float32 for DALI's cutoff"),
    ("normalize", "values", "", "where the deviation is 0 the result is the shift, and where ddof leaves no elements they are divided by 1"),
    ("brightness contrast brightness_contrast", "values", r"U?INT(32|64)|u?int(32|64)", "wide integers are exact; DALI computes in float32"),
    ("decoders.image_slice decoders.image_crop decoders.image_random_crop", "values", r"INT", "wide integers are scaled exactly; DALI scales in float32"),
    ("laplacian", "values", "float16", "sums of float16 are finite where they fit into float32"),
    ("bbox_rotate", "shape", r"input_shape", "boxes of an image without extent are kept"),
    ("erase", "values", r"axes", "negative axes count from the last one; DALI leaves them out"),
    ("preemphasis_filter", "values", "", "each channel is filtered by itself; DALI runs through the interleaved values"),
    ("resize_crop_mirror", "values", "", "mirror is for width and height whatever the layout; DALI mirrors other axes where C comes first"),
    ("experimental.warp_perspective", "shape", "", "each sample keeps its channels; DALI gives all those of the first"),
    ("experimental.warp_perspective", "values", "", "each sample keeps its channels; the last digit of a pixel differs"),
    ("crop slice", "values", "UINT8", "floats are rounded to whole numbers; DALI cuts their fraction off"),
    ("nonsilent_region", "values", "", "in a signal that is shorter than the window, the power is that of the window; DALI divides by the signal's length"),
    ("ssd_random_crop", "type", "", "the image keeps its type; DALI makes bytes of it"),
    ("one_hot", "shape", "", "without an axis, a sample of one number gives a vector; DALI does so if all samples of the batch have one number"),
    ("coord_transform", "shape", "0, 2", "no points keep the number of their coordinates"),
    ("full", "shape", "", "without a shape the result has that of the input"),
    ("dump_image", "layout", "", "the layout stays; DALI drops it"),
    ("pad erase slice crop crop_mirror_normalize", "values", "fill_value", SATURATED),
    ("mfcc", "values", "lifter", "a negative lifter is none; DALI divides by it"),
    ("resize tensor_resize resize_crop_mirror", "values", "INTERP_GAUSSIAN", "Gaussian windows are symmetric; DALI leaves out a pixel at the far end"),
    ("rotate warp_affine", "values", "INTERP_NN", "a position between two pixels takes one of them; the last digit of the position decides"),
    ("squeeze", "shape", r"axes=\[-", "negative axes count from the last one; DALI ignores them"),
    ("reshape", "shape", "src_dims", "shares of new axes are of 1"),
    (
        "resize resize_crop_mirror tensor_resize warp_affine rotate brightness contrast brightness_contrast hsv hue saturation color_twist "
        "decoders.image_slice decoders.image_crop decoders.image_random_crop random_resized_crop gaussian_blur sphere water "
        "color_space_conversion filter laplacian clahe jpeg_compression_distortion power_spectrum spectrogram mel_filter_bank",
        "last digit", "", ROUNDING,
    ),
]  # fmt: skip


def reason(call, kind, words):
    """Why a difference stands; None where no rule states it."""
    text = f"{words} {call}"
    for operators, of_kind, pattern, why in RULES:
        fits = kind == of_kind or (kind == "last digit" and of_kind == "values")
        if (operators == "*" or call.operator in operators.split()) and fits and re.search(pattern, text):
            return why
    return None
