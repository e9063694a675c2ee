"""Pipelines whose results must be the same on the CPU and on a device: every declared example, and graphs of many operators.

``tests/nvrtc/test_late_pipelines.py`` runs them on the fake device with the kernels built by g++, ``test_on_gpu.py`` on a GPU.
"""

import dataclasses

import example_data
import numpy as np
from generate_docs import examples, public
from helpers import calls_of

from pipeflow import declare, fn, pipeline_def, types
from pipeflow.tensors import TensorListCPU

# Operator -> why it is left out here.
NOT_HERE = {"permute_batch": "its example names the samples of a batch of one"}
EXAMPLES = [
    (op, text)
    for op in public()
    if "gpu" in op.devices and op.factory is None and not op.name.endswith("_function") and op.name not in NOT_HERE
    for text in examples(op)
]
NAMES = {"fn": fn, "types": types, "np": np, **example_data.arrays()}
BATCHES = 3
# For a function that numba-cuda compiles: of fewer than 128 blocks Numba warns, and warnings are errors here.
NUMBA_GRID = {"blocks": [16, 16], "threads_per_block": [16, 16]}


def call_of(text):
    """The call that an example makes: its last one, the calls inside it run at once."""
    return calls_of(lambda: eval(text, dict(NAMES)), declare.eager)[-1]


def source(array, layout=None):
    """A node with the same sample twice."""
    samples = [np.asarray(array)] * 2
    return fn.external_source(lambda: samples, layout=layout or None)


def run(define, device_id=None, batches=BATCHES, **options):
    """The batches of a pipeline, copied to the CPU."""
    options = {"batch_size": 2, "num_threads": 2, "seed": 5, "enable_conditionals": True, **options}
    pipe = pipeline_def(define, device_id=device_id, **options)()
    return [[batch.as_cpu() for batch in pipe.run()] for _ in range(batches)]


def assert_same(one, other, atol=1e-3, rtol=1e-4):
    """Batches are equal: integers but for one step of rounding, floating point numbers within a tolerance."""
    assert len(one) == len(other)
    for left, right in zip(one, other):
        assert len(left) == len(right)
        for a, b in zip(left, right):
            assert a.layout() == b.layout()
            assert len(a) == len(b)
            for x, y in zip(a.samples(), b.samples()):
                assert (x.dtype, x.shape) == (y.dtype, y.shape)
                if x.dtype.kind == "f":
                    loose = 1e-2 if x.dtype.itemsize == 2 else rtol
                    np.testing.assert_allclose(x.astype(float), y.astype(float), atol=atol, rtol=loose, equal_nan=True)
                elif x.size:
                    assert np.abs(x.astype(np.int64) - y.astype(np.int64)).max() <= (x.dtype != bool)


def compare_example(text, device_id=0):
    """An example gives in a pipeline on the device what it gives in one on the CPU."""
    call = call_of(text)

    def define(on_gpu):
        inputs = [x.samples()[0] if isinstance(x, TensorListCPU) else x for x in call.inputs]
        layouts = [call.op.layout_of_array(np.ndim(x)) if not place else "" for place, x in enumerate(inputs)]
        nodes = [source(x, layout) for x, layout in zip(inputs, layouts)]
        nodes = [node.gpu() if on_gpu else node for node in nodes]
        named = {name: source(x.samples()[0]) for name, x in call.arguments.items()}
        device = "gpu" if on_gpu else None
        made = declare.interpreter.get()(
            dataclasses.replace(call, inputs=tuple(nodes), arguments=named, key=None, device=device, name="example")
        )
        return tuple(made) if isinstance(made, (list, tuple)) else made

    on_cpu = run(lambda: define(False))
    assert_same(run(lambda: define(True), device_id), on_cpu)


rng = np.random.default_rng(0)
IMAGES = [[rng.integers(0, 255, (*rng.integers(30, 50, 2), 3), np.uint8) for _ in range(4)] for _ in range(BATCHES)]


def image_graph(on_gpu):
    """Augmentations, arithmetic with constants, reductions, indexing, shapes, branches and random numbers."""
    images = fn.external_source(IMAGES, layout="HWC", cycle="quiet")
    images = images.gpu() if on_gpu else images
    coin = fn.random.coin_flip(name="coin")
    cropped = fn.random_resized_crop(images, size=(20, 24), name="crop")
    normal = fn.crop_mirror_normalize(cropped, mirror=coin, mean=[1.0, 2.0, 3.0], std=[4.0, 5.0, 6.0])
    small = fn.color_twist(fn.resize(images, size=(12, 13)), hue=20.0, contrast=1.2)
    chosen = small
    if coin:
        chosen = fn.flip(chosen)
    else:
        chosen = fn.flip(chosen, horizontal=0, vertical=1)
    noise = fn.random.uniform(images, range=[0, 1], name="noise")
    return (
        cropped,
        normal,
        small * 2 + 1.5,
        fn.reductions.mean(small, axes=[0, 1]),
        images[3:20, :, 0],
        fn.reshape(small, shape=[-1]),
        chosen,
        noise,
        fn.cast(small, dtype=types.FLOAT16),
        fn.shapes(images),
        255 - images,
    )


def compare_images(device_id=0):
    """The graph of images, with ragged batches."""
    on_cpu = run(lambda: image_graph(False), batch_size=4)
    assert_same(run(lambda: image_graph(True), device_id, batch_size=4), on_cpu)
