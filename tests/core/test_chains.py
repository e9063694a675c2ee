"""Every operator that declares its work as calls of kernels gives in a chain what its body gives, bit for bit.

The calls are the examples of the declarations: with samples of several sizes, with drawn arguments, in a branch, on sequences
and on other types. Particular cases of an operator are in the tests of its programs.
"""

import ast
import itertools
import threading

import example_data
import numpy as np
import pytest
import simplejpeg
from generate_docs import examples, public
from helpers import chains_counted

from pipeflow import fn, math, pipeline_def, types
from pipeflow.declare import NoTable
from pipeflow.executor.ahead import MOST_BATCHES, MadeAhead
from pipeflow.executor.clocks import Clock
from pipeflow.executor.runners import chain, program_parts
from pipeflow.executor.runners.chain import ChainTimes
from pipeflow.executor.runners.sample import SampleStage
from pipeflow.kernels.cpu import image_programs, jit, jpeg, jpeg_switch, kernel_calls, later, start

pytestmark = pytest.mark.timeout(600)  # the first test compiles kernels

RNG = np.random.default_rng(9)
# Functions of the user are in tests/functions/test_jit_in_chains.py, single numbers in test_late_conditions.py.
OPERATORS = [op for op in public() if op.calls_hook and op.calls_for is None and not op.calls_small]
EXAMPLES = [(op, text) for op in OPERATORS for text in examples(op)]
marked = pytest.mark.parametrize(("op", "text"), EXAMPLES, ids=[text for _, text in EXAMPLES])
LEFT_TO_BODIES = {  # with a mean from another step of the stage
    "fn.reductions.variance(image, fn.reductions.mean(image))",
    "fn.reductions.std_dev(image, fn.reductions.mean(image))",
}
FLAGS = [True, False, False, True]
OTHERS = [True, True, False, False]
SIZES = [1.0, 0.5, 0.8, 1.0]  # of the samples of a batch, as parts of the example
LARGER = {
    "array": RNG.random((40, 30), np.float32),  # samples of a few elements are left to the bodies
    "frames": RNG.integers(
        0, 256, (6, 12, 16, 3), np.uint8
    ),  # the smallest sample has the frames that the examples name
}
TYPES = [np.uint8, np.int16, np.float32, np.float64]
DRAWN = {  # argument -> limits of the numbers; others are factors
    "brightness_shift": (-0.3, 0.3),
    "contrast_center": (0, 200),
    "crop_pos_x": (0, 1),
    "crop_pos_y": (0, 1),
    "angle": (-90, 90),
    "hue": (-90, 90),
    "matrix": (0.2, 1.2),
    "sigma": (0.2, 3.0),
}
OTHER_CALLS = {  # for arguments that exclude one of the example, or need more of them
    **{f"crop_{letter}": ("crop", f"fn.crop(image, crop_{other}=20)") for letter, other in ("hw", "wh")},
    "rel_start": ("slice", "fn.slice(image, rel_end=(0.9, 0.8))"),
    "end": ("slice", "fn.slice(image, start=(5, 8))"),
    "rel_end": ("slice", "fn.slice(image, start=(1, 2), axes=(0, 1))"),
    "rel_shape": ("slice", "fn.slice(image, rel_start=(0.1, 0.2), axes=(0, 1))"),
}
RESIZED = ("resize_x", "resize_y", "resize_shorter", "resize_longer", "size")
OTHER_CALLS |= dict.fromkeys(RESIZED, ("resize", "fn.resize(image)"))
DRAWN |= dict.fromkeys(RESIZED, (5, 40))
DRAWN |= {"threshold": (-20, 300), "shift": (-300, 300), "bits": (0, 8.9), "contrast": (-1, 3)}
DRAWN |= {  # numbers for each axis, and limits in elements
    "anchor": (0, 30),
    "crop_h": (5, 20),
    "crop_w": (5, 20),
    "end": (9, 20),
    "rel_end": (0.4, 0.9),
    "rel_shape": (0.2, 0.7),
    "rel_start": (0.0, 0.3),
    "shape": (1, 12),
    "start": (0, 10),
}
SEVERAL = dict.fromkeys(
    ("anchor", "end", "rel_end", "rel_shape", "rel_start", "shape", "sigma", "size", "start", "window_size"), 2
)


def varying():
    """Each operator with each argument that may differ from sample to sample."""
    for op, text in EXAMPLES:
        for name in sorted(op.calls_varying & op.arguments.keys() - {"crop_d", "crop_pos_z", "depthwise"}):
            other, call = OTHER_CALLS.get(name, ("", ""))
            if op.name == f"experimental.{other}":
                other, call = op.name, call.replace("fn.", "fn.experimental.")
            if (other, op.name) == ("slice", "decoders.image_slice"):
                other, call = op.name, call.replace("slice(image", "decoders.image_slice(encoded_image")
            yield op, call if other == op.name else text, name


VARYING = list(varying())


def jpeg_of(part):
    pixels = RNG.integers(0, 256, (int(60 * part), int(90 * part), 3), np.uint8)
    return np.frombuffer(simplejpeg.encode_jpeg(pixels), np.uint8)


PHOTOGRAPHS = [jpeg_of(part) for part in SIZES]


def samples_of(name):
    """Samples like an example, of several sizes."""
    if name == "encoded_image":
        return list(PHOTOGRAPHS)
    whole = LARGER.get(name, example_data.arrays()[name])
    if whole.ndim == 0 or name == "matrix" or name.startswith("encoded"):
        return [whole] * len(SIZES)
    spatial = slice(None, 2) if whole.shape[-1] <= 4 else slice(None)
    found = []
    for part in SIZES:
        extents = list(whole.shape)
        extents[spatial] = [max(1, int(extent * part)) for extent in extents[spatial]]
        found.append(np.ascontiguousarray(whole[tuple([slice(0, extent) for extent in extents])]))
    return found


def used(text):
    names = [node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)]
    return [name for name in names if name in example_data.arrays()]


@pytest.fixture(autouse=True)
def ready(monkeypatch, caplog):
    """The kernels are compiled, as they are some seconds after the start of a program; a failed test says what no program did."""
    caplog.set_level("DEBUG", "pipeflow.chains")
    monkeypatch.setattr(start.state, "starting", False)
    monkeypatch.setattr(start.state, "choosing", False)
    monkeypatch.setattr(start.Readiness, "begin", lambda _self: None)
    monkeypatch.setenv("PIPEFLOW_START", "wait")
    kernel_calls.load()
    jpeg.load()
    for planes in (True, False):
        image_programs.load(image_programs.normalizing_kernel(False, planes, np.dtype(np.float32)))
    for dtype in (np.uint8, np.float32):
        image_programs.load(image_programs.resizing_kernel(np.dtype(dtype)))
    switch = jpeg_switch.Switch("JPEG files are decoded", "jpeg", jpeg_switch.decoders_agree)
    switch.on = True
    monkeypatch.setattr(jpeg_switch, "decoding", switch)


def batches(definition, monkeypatch, chained):
    """Two batches: the bytes, the types and the shapes of all outputs; and how many samples chains have done in the first."""
    with chains_counted(monkeypatch, chained) as done:
        options = {"num_threads": 1, "device_id": None, "seed": 5, "enable_conditionals": True}
        pipe = pipeline_def(batch_size=len(SIZES), **options)(definition)()
        pipe.build()
        results = []
        for _ in range(2):
            results += [[(x.tobytes(), x.dtype, x.shape) for x in map(np.asarray, output)] for output in pipe.run()]
    return results, len(done)


def outcome(definition, monkeypatch, chained):
    """The batches, or the error."""
    try:
        return batches(definition, monkeypatch, chained)
    except (ValueError, TypeError, RuntimeError) as error:
        return str(error), 0


def both(definition, monkeypatch):
    """The number of samples that chains have done; the results are those of the bodies."""
    found, done = outcome(definition, monkeypatch, True)
    expected, none = outcome(definition, monkeypatch, False)
    assert found == expected
    assert none == 0
    return done


def called(text, given, **more):
    """The outputs of an example, with other inputs and more arguments."""
    call = ast.parse(text, mode="eval").body
    call.keywords = [one for one in call.keywords if one.arg not in more]
    call.keywords += [ast.keyword(name, ast.Name(f"more_{name}", ast.Load())) for name in more]
    text = ast.unparse(ast.fix_missing_locations(call))
    names = {"fn": fn, "types": types, "np": np, **given, **{f"more_{name}": value for name, value in more.items()}}
    made = eval(text, names)
    return tuple(made) if isinstance(made, (tuple, list)) else made


def computing(op, definition):
    """With a step that computes after an operator whose results are memory of its input: a chain of these alone does nothing."""
    return (lambda: fn.reductions.sum(definition())) if only_shares(op) else definition


def only_shares(op):
    """True if the results of an operator are always memory of its input."""
    return op.returns_views or op.calls_share


def done_by_chains(text):
    """How many samples of an example are done by chains."""
    return 0 if text in LEFT_TO_BODIES else len(SIZES)


def fed(text, convert=lambda x: x, **options):
    def source(name):
        samples = [convert(x) for x in samples_of(name)]
        fits = len(options.get("layout", "")) == np.ndim(samples[0])
        return fn.external_source(lambda: samples, name=name, **(options if fits else {}))

    return {name: source(name) for name in used(text)}


def layout_of(op, text):
    """The layout of the example, if its operator needs one."""
    whole = example_data.arrays()[used(text)[0]]
    fitting = [one for one in op.layouts or () if len(one) == whole.ndim]
    return {"layout": "HWC" if "HWC" in fitting else fitting[0]} if fitting else {}


@marked
def test_examples(op, text, monkeypatch):
    """With samples of several sizes; all are done by chains, so the comparison is one."""
    layout = layout_of(op, text)
    assert both(computing(op, lambda: called(text, fed(text, **layout))), monkeypatch) == done_by_chains(text)


@pytest.mark.parametrize(("op", "text", "name"), VARYING, ids=[f"{name} of {text}" for _, text, name in VARYING])
def test_drawn_arguments(op, text, name, monkeypatch):
    """Each argument that may differ from sample to sample."""

    def definition():
        limits = DRAWN.get(name, (0.3, 1.8))
        options = {"shape": SEVERAL[name]} if name in SEVERAL else {}
        if name == "matrix":
            options = {"shape": 9 if "perspective" in op.name else 6}
        if name == "window_size":
            drawn_sizes = np.array([[3, 5], [7, 1], [9, 3], [1, 1]], np.int32)
            return called(
                text, fed(text, layout="HWC"), window_size=fn.external_source(lambda: drawn_sizes, batch=True)
            )
        flag = op.arguments[name].type is bool
        drawn = fn.random.coin_flip() if flag else fn.random.uniform(range=limits, **options)
        return called(text, fed(text, **layout_of(op, text)), **{name: drawn})

    assert both(computing(op, definition), monkeypatch) == len(SIZES)


@marked
def test_in_a_branch(op, text, monkeypatch):
    """Samples of the other branch are those of the source. Chains do all of them: guards are columns."""

    def definition():
        data = fed(text, **layout_of(op, text))
        if fn.external_source(lambda: [np.array(flag) for flag in FLAGS]):
            made = called(text, data)
        else:
            made = called(text, data)
        return made

    assert both(definition, monkeypatch) == (0 if only_shares(op) else done_by_chains(text))


@marked
def test_merged_and_read_again(op, text, monkeypatch):
    """Only some samples take the branch; what it gives, or the source, is read by the next step, within another condition."""
    name = used(text)[0]

    def definition():
        data = fed(text, **layout_of(op, text))
        flags = fn.external_source(lambda: [np.array(flag) for flag in FLAGS])
        others = fn.external_source(lambda: [np.array(flag) for flag in OTHERS])
        made = fn.cast(data[name], dtype=types.FLOAT)
        if flags:
            found = called(text, data)
            first = fn.cast(found[0] if isinstance(found, tuple) else found, dtype=types.FLOAT)
            if others:
                made = fn.cast(first, dtype=types.FLOAT)
            else:
                made = first
        return fn.cast(made, dtype=types.FLOAT64), made

    both(definition, monkeypatch)


@marked
@pytest.mark.parametrize("dtype", TYPES)
def test_types(op, text, dtype, monkeypatch):
    """Each type gives the result of the body, or its error."""
    if used(text)[0].startswith("encoded"):
        pytest.skip("it reads bytes")
    options = layout_of(op, text)
    both(lambda: called(text, fed(text, lambda x: x.astype(dtype), **options)), monkeypatch)


@marked
def test_sequences(op, text, monkeypatch):
    """Three frames of each sample."""
    layout = layout_of(op, text).get("layout")
    if not op.sequences or layout is None:
        pytest.skip("it takes no sequences")
    both(lambda: called(text, fed(text, lambda x: np.stack([x, x[::-1], x]), layout=f"F{layout}")), monkeypatch)


@marked
def test_samples_without_elements(op, text, monkeypatch):
    """A sample without elements gives the result or the error of the body, and the others theirs."""
    samples = samples_of(used(text)[0])
    samples[1] = samples[1][:0]
    options = layout_of(op, text)

    def definition():
        return called(text, {**fed(text), used(text)[0]: fn.external_source(lambda: samples, **options)})

    both(definition, monkeypatch)


@marked
def test_results_that_are_read_twice(op, text, monkeypatch):
    """A result that another step of the stage reads is delivered too."""

    def definition():
        made = called(text, fed(text, **layout_of(op, text)))
        first = made[0] if isinstance(made, tuple) else made
        return first, fn.cast(first, dtype=types.FLOAT), fn.reductions.max(first)

    both(definition, monkeypatch)


SHAPES = {"HWC": (20, 30, 3), "CHW": (3, 20, 30), "DHWC": (4, 20, 30, 2), "FHWC": (2, 20, 30, 3), "HW": (20, 30)}
CASES = {  # call: layouts
    "fn.crop(x, crop=(24, 12), out_of_bounds_policy='pad')": "HWC CHW DHWC FHWC",
    "fn.crop(x, crop=(12, 34), out_of_bounds_policy='pad', fill_values=(7.0,), crop_pos_x=0.1)": "HWC CHW",
    "fn.crop(x, crop=(5, 34), out_of_bounds_policy='pad', fill_values=(1.0, 2.0, 3.0))": "HWC",
    "fn.crop(x, crop=(24, 34), out_of_bounds_policy='trim_to_shape')": "HWC CHW DHWC",
    "fn.crop(x, crop=(9, 7), rounding='truncate', dtype=types.FLOAT)": "HWC CHW",
    "fn.crop(x, crop=(9, 40), out_of_bounds_policy='pad', dtype=types.FLOAT)": "HWC",
    "fn.crop(x, crop=(2, 9, 7), crop_pos_z=0.7)": "DHWC",
    "fn.crop(x, crop_d=fn.random.uniform(range=(1, 3)), crop_h=5.7, crop_w=4)": "DHWC",
    "fn.crop(x, crop=fn.random.uniform(range=(1, 9), shape=2))": "HWC",
    "fn.crop(x, crop=(5, 6), crop_pos_x=1.5)": "HWC",
    "fn.crop(x, crop=(18, 6))": "HWC",
    "fn.slice(x, rel_start=(-0.3, 0.2), rel_end=(1.2, 0.7), out_of_bounds_policy='pad')": "HWC CHW HW",
    "fn.slice(x, rel_start=(-0.3, 0.2), rel_end=(1.2, 0.7), out_of_bounds_policy='trim_to_shape')": "HWC HW",
    "fn.slice(x, start=(1, 2), end=(9, 3), axes=(2, 0))": "HWC",
    "fn.slice(x, start=3, end=9, axes=0)": "HWC CHW FHWC HW",
    "fn.slice(x, start=(3, 4), end=(9, 2))": "HWC",
    "fn.slice(x, start=(-3, 4), shape=(9, 12), out_of_bounds_policy='pad', fill_values=(300.0,))": "HWC",
    "fn.slice(x, axis_names='W', start=(4,), shape=(40,))": "HWC",
    "fn.flip(x, vertical=1)": "HWC CHW DHWC FHWC",
    "fn.flip(x, horizontal=0, vertical=1)": "HWC CHW DHWC FHWC",
    "fn.flip(x, horizontal=0)": "HWC CHW",
    "fn.flip(x, horizontal=fn.random.coin_flip(), depthwise=fn.random.coin_flip())": "HWC DHWC",
    "fn.pad(x, axes=(0, 1), shape=(24, 8))": "HWC CHW FHWC HW",
    "fn.pad(x, axes=(1,), shape=(33,), align=(8,), fill_value=5.0)": "HWC CHW HW",
    "fn.pad(x, axis_names='HW', shape=(1, 1), align=16)": "HWC CHW",
    "fn.transpose(x, perm=(2, 0, 1))": "HWC CHW",
    "fn.transpose(x, perm=(1, 2, 0))": "HWC CHW",
    "fn.transpose(x, perm=(1, 0, 2))": "HWC CHW",
    "fn.transpose(x)": "HWC HW DHWC",
    "fn.erase(x, anchor=(-2.0, 3.5), shape=(9.0, 4.0), fill_value=(1.0, 2.0, 300.0))": "HWC",
    "fn.erase(x, anchor=(0.2, 0.1, 0.6, 0.5), shape=(0.3, 0.4, 0.9, 0.1), normalized=True, axis_names='WH')": "HWC CHW",
    "fn.erase(x, anchor=(0.5, 7.0), shape=(0.3, 4.0), normalized_anchor=True, centered_anchor=True, axes=(0, 1))": "HWC HW",
    "fn.erase(x, shape=(3.0, 1e30), fill_value=9)": "HWC HW",
    "fn.erase(x, anchor=(1.0,), shape=(2.0,), axis_names='C')": "HWC CHW",
    "fn.erase(x, anchor=(1.0,), shape=(2.0,))": "HWC",
    "fn.erase(x, anchor=(1.0, 1.0), shape=(2.0, 2.0), fill_value=(1.0, 2.0))": "HWC",
    "fn.grayscale(x, channels=1)": "HWC FHWC",
    "fn.color_space_conversion(x, image_type=types.BGR, output_type=types.GRAY)": "HWC FHWC",
    "fn.color_space_conversion(x, image_type=types.YCbCr, output_type=types.GRAY)": "HWC",
    "fn.color_space_conversion(x, image_type=types.RGB, output_type=types.BGR)": "HWC",
    "fn.color_space_conversion(x, image_type=types.YCbCr, output_type=types.RGB)": "HWC",
    "fn.color_space_conversion(x, image_type=types.RGB, output_type=types.RGB)": "HWC",
    "fn.rotate(x, angle=fn.random.uniform(range=(-400, 400)))": "HWC FHWC",
    "fn.rotate(x, angle=45.0, fill_value=300)": "HWC",
    "fn.rotate(x, angle=33.0, keep_size=True, fill_value=9.6, interp_type=types.INTERP_NN)": "HWC",
    "fn.rotate(x, angle=-200.0, size=(12.5, 11), dtype=types.FLOAT)": "HWC",
    "fn.rotate(x, angle=33.0, axis=(0.0, 0.0, 1.0))": "DHWC",
    "fn.rotate(x, angle=33.0, size=fn.random.uniform(range=(5, 20), shape=2))": "HWC",
    "fn.warp_affine(x)": "HWC",
    "fn.warp_affine(x, matrix=(1.0, 0.2, 3.0, -0.1, 0.9, 1.0), inverse_map=False, fill_value=4)": "HWC FHWC",
    "fn.warp_affine(x, matrix=(1.0, 0.2, 3.0, 1.0, 0.2, 1.0), inverse_map=False)": "HWC",
    "fn.warp_affine(x, matrix=fn.random.uniform(range=(-1, 1), shape=6), inverse_map=False, size=(9, 8))": "HWC",
    "fn.warp_affine(x, fn.transforms.rotation(angle=fn.random.uniform(range=(-9, 9))), interp_type=types.INTERP_NN)": "HWC",
    "fn.warp_affine(x, matrix=(1.0, 0.2, 3.0))": "HWC",
    "fn.warp_perspective(x, matrix=(0.9, 0.2, 3, -0.1, 1.1, 2, 0.001, 0.002, 1), interp_type=types.INTERP_CUBIC)": "HWC",
    "fn.warp_perspective(x, matrix=fn.random.uniform(range=(0.1, 1), shape=9), inverse_map=False, size=(9, 8))": "HWC",
    "fn.warp_perspective(x, matrix=(1, 0, 3, 0, 1, 2, 0, 0, 1), interp_type=types.INTERP_NN, fill_value=(1.0, 2, 3))": "HWC",
    "fn.warp_perspective(x, matrix=(1, 0, 3, 0, 1, 2, 0, 0, 1), border_mode='wrap', fill_value=(1.0, 2, 3))": "HWC CHW",
    "fn.gaussian_blur(x, sigma=fn.random.uniform(range=(0, 9)))": "HWC CHW HW FHWC",
    "fn.gaussian_blur(x, sigma=fn.random.uniform(range=(20, 30)))": "HWC",
    "fn.gaussian_blur(x, sigma=1.2, window_size=5, dtype=types.FLOAT)": "HWC HW DHWC",
    "fn.gaussian_blur(x, sigma=(0.8, 3.3))": "HWC",
    "fn.gaussian_blur(x, sigma=fn.random.uniform(range=(-1, 1)))": "HWC",
    "fn.gaussian_blur(x, window_size=4)": "HWC",
    "fn.resize(x, resize_x=fn.random.uniform(range=(5, 40)), mode='stretch')": "HWC CHW FHWC",
    "fn.invert(x)": "HWC CHW HW FHWC",
    "fn.posterize(x, bits=fn.random.uniform(range=(0, 20), dtype=types.INT32))": "HWC FHWC",
    "fn.solarize(x, threshold=fn.random.uniform(range=(-1, 1)))": "HWC CHW HW FHWC",
    "fn.solarize(x, threshold=255.5)": "HWC",
    "fn.solarize_add(x, shift=300, threshold=fn.random.uniform(range=(-1, 300)))": "HWC CHW FHWC",
    "fn.channel_shift(x, shift=[20.0, -10.0, 5.0])": "HWC FHWC",
    "fn.channel_shift(x, shift=[20.0, -10.0])": "HWC",
    "fn.channel_shift(x, shift=fn.random.uniform(range=(-99, 99)))": "HWC",
    "fn.autocontrast(x)": "HWC CHW HW FHWC",
    "fn.equalize(x)": "HWC CHW HW FHWC",
    "fn.contrast_about_mean(x, contrast=1.7)": "HWC FHWC",
    "fn.resize(x, resize_x=fn.random.uniform(range=(5, 40)), resize_y=20, mode='not_larger')": "HWC",
    "fn.resize(x, resize_y=fn.random.uniform(range=(-9, 9)), subpixel_scale=False)": "HWC",
    "fn.resize(x, size=fn.random.uniform(values=[0.0, 20.0], shape=2))": "HWC",
    "fn.resize(x, size=fn.random.uniform(values=[0.0, 20.0], shape=2), mode='stretch')": "HWC",
    "fn.resize(x, size=fn.random.uniform(range=(5, 40), shape=1), mode='not_smaller', interp_type=types.INTERP_NN)": "HWC",
    "fn.resize(x, size=fn.random.uniform(range=(5, 40), shape=3))": "HWC",
    "fn.resize(x, resize_longer=fn.random.uniform(range=(5, 40)), max_size=20)": "HWC",
}
SEVERAL_CASES = [(text, layout) for text, layouts in CASES.items() for layout in layouts.split()]


@pytest.mark.parametrize(("text", "layout"), SEVERAL_CASES)
def test_cases(text, layout, monkeypatch):
    """Cases of the operators that the examples do not show, on bytes, half precision, floats and numbers of eight bytes; also as
    a step before another one.
    """
    shape = [int(extent) for extent in SHAPES[layout]]
    for dtype in (np.uint8, np.float16, np.float32, np.int64):
        samples = [RNG.integers(0, 255, (shape[0] - part, *shape[1:])).astype(dtype) for part in (0, 1, 1, 0)]

        def one(samples=samples, **names):
            data = fn.external_source(lambda: samples, layout=layout)
            return eval(text, {"fn": fn, "types": types, "x": data, **names})

        both(one, monkeypatch)
        both(lambda: fn.flip(one()), monkeypatch)


ARITHMETIC = [
    "x * 2 + 1",
    "x * 2.5 - fn.random.uniform(range=(1.0, 2.0))",
    "(3 - x) / 7",
    "1.0 / x",
    "x / 0",
    "x * 100000000 * 100 + 2000000000",
    "x + x * x",
    "x - fn.flip(x)",
    "math.max(x, 100)",
    "math.min(100.5, x)",
    "math.max(math.min(x, fn.flip(x)), x / 0)",
    "math.clamp(x, 20, fn.random.uniform(range=(50.0, 90.0)))",
    "math.max(0 * x, -0.0) / math.min(-0.0, x * 0.0)",
    "x & np.uint8(12)",
    "np.uint8(3) | x ^ np.uint8(77)",
    "x & 12",
    "(x - 0.5) * np.float32([1.0, 2.0, 3.0])",
    "x * fn.random.uniform(range=(1.0, 2.0), shape=3)",
    "x + np.int64(3)",
    "x + True",
]


@pytest.mark.parametrize("text", ARITHMETIC)
@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32, np.int16])
def test_arithmetic(text, dtype, monkeypatch):
    """After an image operator, with numbers and arrays on both sides."""
    samples = [RNG.integers(0, 255, (20 - part, 30, 3)).astype(dtype) for part in range(4)]

    def definition():
        data = fn.flip(fn.external_source(lambda: samples, layout="HWC"), vertical=1)
        return eval(text, {"fn": fn, "np": np, "x": data, "math": math})

    both(definition, monkeypatch)


def test_arithmetic_is_part_of_a_chain_but_makes_none(monkeypatch):
    """After a compiled step it runs without the interpreter; alone it is NumPy's."""
    samples = [RNG.integers(0, 255, (20 - part, 30, 3), np.uint8) for part in range(4)]

    def alone():
        return fn.external_source(lambda: samples, layout="HWC") * 2.0 - 1

    def after():
        return fn.flip(fn.external_source(lambda: samples, layout="HWC")) * 2.0 - fn.random.uniform()

    assert both(alone, monkeypatch) == 0
    assert both(after, monkeypatch) == len(SIZES)


@pytest.mark.parametrize(
    "text",
    ["x", "x * 2.0 - 1", "x - fn.random.uniform()", "fn.flip(x) / np.float32([1.0, 2.0, 3.0])", "x ** 2", "x * True"],
)
@pytest.mark.parametrize("read", [False, True])
def test_decoded_images(text, read, tmp_path, monkeypatch):
    """A decoder alone is a chain, and it stays one whatever is computed with the image. Constants do not keep it from reading
    the files.
    """
    for number, data in enumerate(PHOTOGRAPHS):
        (tmp_path / f"{number}.jpg").write_bytes(data.tobytes())
    files, run = [], chain.Chain.run
    monkeypatch.setattr(chain.Chain, "run", lambda *args: files.append(args[-1]) or run(*args))
    monkeypatch.setattr(chain, "UNTIL_SHORTER", 1)
    monkeypatch.setattr(SampleStage, "chunk", lambda self, left, threads, batches: 1)

    def definition():
        data = (
            fn.readers.file(files=sorted(map(str, tmp_path.iterdir())))[0]
            if read
            else fn.external_source(lambda: PHOTOGRAPHS)
        )
        return eval(text, {"fn": fn, "np": np, "x": fn.decoders.image(data)})

    unable = "True" in text or "np" in text  # the first sample shows that the last step is not for chains
    assert both(definition, monkeypatch) == len(SIZES) - unable
    assert any(files) == (read and "random" not in text)


EDGES = {
    np.uint8: [0, 1, 127, 128, 255, 3],
    np.int32: [-(2**31), 2**31 - 1, -1, 0, 1, 16777217],
    np.float32: [np.nan, np.inf, -np.inf, -0.0, 1e-45, 3.4e38],
}


@pytest.mark.parametrize("symbol", "+-*/")
@pytest.mark.parametrize(("left", "right"), list(itertools.product(EDGES, EDGES)))
def test_arithmetic_of_edges(left, right, symbol, monkeypatch):
    """Largest and smallest numbers, and those that are none: arrays of one shape, and a number of each sample on either side."""
    one = np.repeat(np.array(EDGES[left], left), 6).reshape(3, 4, 3)
    other = np.tile(np.array(EDGES[right], right), 6).reshape(3, 4, 3)
    small = left == right == np.uint8 and symbol != "/"

    def operands():
        a, b = (fn.flip(fn.external_source(lambda x=x: [x, x[1:], x[:0], x], layout="HWC")) for x in (one, other))
        numbers = [fn.external_source(lambda x=x: [np.array(x.flat[k]) for k in (0, 7, 14, 35)]) for x in (one, other)]
        return a, b, *numbers

    def arrays():
        a, b, *_ = operands()
        return eval(f"a {symbol} b", {"a": a, "b": b})

    def with_numbers():
        a, b, first, second = operands()
        return tuple(
            eval(text, {"a": a, "b": b, "m": first, "n": second}) for text in (f"a {symbol} n", f"m {symbol} b")
        )

    found = both(arrays, monkeypatch), both(with_numbers, monkeypatch)
    assert small or min(found) >= len(SIZES) - 1  # the sample without elements may be left to the bodies


def test_arithmetic_in_branches(monkeypatch):
    """Guards, merges, and an input that two steps read; samples of unequal extents are NumPy's."""
    samples = [RNG.integers(0, 255, (20 - part, 30, 3), np.uint8) for part in range(4)]
    wide = [RNG.random((20 - part, 1 if part == 2 else 30, 3), np.float32) for part in range(4)]

    def definition():
        data = fn.external_source(lambda: samples, layout="HWC")
        if fn.external_source(lambda: [np.array(flag) for flag in FLAGS]):
            made = fn.flip(data) * 2.0
        else:
            made = data - fn.flip(data) * 0.5
        return made * made - fn.external_source(lambda: wide, layout="HWC")

    assert both(definition, monkeypatch) == len(SIZES) - 1


CUTS = [
    "fn.crop(x, crop=(20, 31), crop_pos_x=fn.random.uniform(range=(0.0, 1.0)))",
    "fn.crop(x, crop=(50, 90), out_of_bounds_policy='pad', fill_values=(4.0,))",
    "fn.crop(x, crop=(50, 90), out_of_bounds_policy='trim_to_shape', crop_pos_y=0.3)",
    "fn.crop(x, crop=(20, 31), dtype=types.FLOAT)",
]


@pytest.mark.parametrize("text", CUTS)
def test_parts_of_files(text, monkeypatch):
    """Only the window of a crop is decoded; the result is that of the whole image."""

    def definition():
        files = fn.external_source(lambda: PHOTOGRAPHS)
        return eval(text, {"fn": fn, "types": types, "x": fn.decoders.image(files)})

    def turned():
        return fn.flip(definition(), vertical=fn.random.coin_flip())

    assert both(definition, monkeypatch) == both(turned, monkeypatch) == len(SIZES)


@pytest.mark.parametrize("size", [(16, 17), (400, 410)])
def test_results_of_any_extents_past_the_caches(size, monkeypatch):
    """Planes whose number is not known before: a small batch, and one that is larger than the caches."""
    samples = [RNG.integers(0, 255, (410 - part, 420, 3), np.uint8) for part in range(4)]

    def definition():
        data = fn.external_source(lambda: samples, layout="HWC")
        return fn.crop_mirror_normalize(data, crop=size, mirror=fn.random.coin_flip(), std=[3.0])

    assert both(definition, monkeypatch) == len(SIZES)


def test_rows_of_another_length_are_left_to_the_bodies(monkeypatch):
    """The number of rectangles differs from batch to batch: a program is for the number of the first one."""
    image = RNG.integers(0, 255, (20, 30, 3), np.uint8)

    def definition():
        numbers = itertools.cycle([2, 4])

        def each():
            return [np.full(number, 3.0, np.float32) for number in [next(numbers)] * len(SIZES)]

        data = fn.external_source(lambda: [image] * len(SIZES), layout="HWC")
        boxes = fn.external_source(each)
        return fn.erase(data, anchor=boxes, shape=boxes, fill_value=1)

    assert both(definition, monkeypatch) == len(SIZES)


def test_no_batch_waits_for_kernels_of_chains(monkeypatch):
    """A thread compiles a kernel that only chains call; until then it is not ready."""
    monkeypatch.delenv("PIPEFLOW_START")
    compiled = jit.kernel(lambda x: x + 1)
    wanted = [(compiled, jit.types_of(1))]
    gate, load = threading.Event(), later._load
    monkeypatch.setattr(later, "_load", lambda kernels: gate.wait(60) and load(kernels))
    ready = [later.ready(wanted), later.ready(wanted)]
    gate.set()
    for thread in threading.enumerate():
        if thread.name == "pipeflow programs":
            thread.join()
    assert [*ready, later.ready(wanted)] == [False, False, True]


@pytest.mark.parametrize("flag", [False, True])
@pytest.mark.parametrize("rule", ["raise", "skip", "replace"])
def test_a_damaged_sample_in_a_branch(flag, rule, monkeypatch):
    """A sample that does not take a branch is not decoded there; one that takes it fails as in the body."""
    files = [PHOTOGRAPHS[0], PHOTOGRAPHS[1][:20], *PHOTOGRAPHS[2:]]

    def definition():
        encoded = fn.external_source(lambda: files)
        if fn.external_source(lambda: [np.array(one) for one in (True, flag, False, True)]):
            made = fn.decoders.image(encoded, on_error=rule)
        else:
            made = fn.constant(idata=[7], shape=(2, 2, 1), dtype=types.UINT8)
        return made, fn.cast(made, dtype=types.FLOAT)

    done = both(definition, monkeypatch)
    if not flag:
        assert done


def test_the_times_of_a_chain_are_those_of_its_steps():
    """Only what is new is added, and only samples that a step ran for; the thread was on a processor half of the time."""
    times, clocks, second = ChainTimes(2), [Clock(), Clock(), Clock()], 1_000_000_000
    times.spent[:] = 2 * second, 6 * second, 0
    times.calls, times.skipped[0] = 10, 4
    for _ in range(2):
        times.settle(clocks, 0.5)
        assert [(clock.seconds, clock.busy, clock.calls) for clock in clocks] == [
            (2.0, 1.0, 6),
            (6.0, 3.0, 10),
            (0.0, 0.0, 0),
        ]
    times.spent[:] = 2 * second, 7 * second, second
    times.calls, times.files = 12, 2
    times.settle(clocks, 0.5)
    assert [(clock.seconds, clock.calls) for clock in clocks] == [(2.0, 8), (7.0, 12), (1.0, 2)]


@pytest.mark.parametrize("fails", [False, True])
def test_numbers_of_programs_are_made_once_for_many_batches(fails, monkeypatch):
    """Each batch gets its rows of them. If they cannot be made for all, each batch makes its own."""
    made, sizes, size = program_parts.columns_read, [], len(SIZES)

    def noted(batch, *parts):
        sizes.append(batch.size)
        if fails and batch.size > size:
            raise NoTable
        return made(batch, *parts)

    def definition():
        pictures = fn.external_source(lambda: samples_of("image"), layout="HWC")
        turned = fn.crop_mirror_normalize(pictures, mirror=fn.random.coin_flip(), output_layout="HWC")
        return fn.brightness(turned, brightness=fn.random.uniform(range=(0.5, 1.5)))

    def found():
        alone = {"exec_async": False, "exec_pipelined": False}  # no batch is made before it is needed
        pipe = pipeline_def(batch_size=size, num_threads=1, device_id=None, seed=5, **alone)(definition)()
        return [[x.tobytes() for x in map(np.asarray, *pipe.run())] for _ in range(12)]

    monkeypatch.setattr(program_parts, "columns_read", noted)
    together = found()
    counted, sizes[:] = list(sizes), []
    monkeypatch.setattr(MadeAhead, "give", lambda *_: False)
    assert found() == together
    assert sizes == [size] * 12
    assert counted == [size, MOST_BATCHES * size] + [size] * (11 if fails else 0)  # the first batch has its own
