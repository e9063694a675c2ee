"""With PIPEFLOW_START=wait, `build()` loads the kernels that the plan may use, and no others."""

import numpy as np
import simplejpeg

from pipeflow import fn, pipeline_def, types
from pipeflow.kernels.cpu import kernel_calls, keys, parts, whole_files

IMAGES = np.zeros((4, 20, 30, 3), np.uint8)

DRAWING, READING = {keys.keys_at, keys.units}, {whole_files.read_files, whole_files.read_one}
MOVING = {parts.mirror_rgb, parts.mirror}
WATCHED = {kernel_calls.run, *DRAWING, *READING, *MOVING}


def loaded(definition, monkeypatch):
    """The kernels that are wanted in `build()`; those that three batches want are among them."""
    wanted = []
    monkeypatch.setenv("PIPEFLOW_START", "wait")
    for kernel in WATCHED:
        monkeypatch.setattr(kernel, "compile", noted(kernel, wanted, kernel.compile))
    pipe = pipeline_def(batch_size=4, num_threads=1, device_id=None, seed=3)(definition)()
    pipe.build()
    built = list(wanted)
    for _ in range(3):
        pipe.run()
    assert set(wanted) == set(built)
    return built


def noted(kernel, wanted, compiling):
    def compile_it(signature):
        wanted.append(kernel)
        return compiling(signature)

    return compile_it


def images(dtype=types.UINT8):
    data = IMAGES.astype(types.as_dtype(dtype))
    return fn.external_source(lambda: data, layout="HWC", dtype=dtype, ndim=3)


def test_only_those_of_the_plan(monkeypatch):
    """Without random numbers and files; bytes need no kernel of floats."""
    built = loaded(lambda: fn.color_twist(fn.flip(images()), hue=10.0), monkeypatch)
    assert sorted(map(str, built)) == sorted(map(str, {kernel_calls.run, *MOVING}))  # each for one type


def test_keys_of_random_numbers(monkeypatch):
    built = loaded(lambda: fn.flip(images(), horizontal=fn.random.coin_flip()), monkeypatch)
    assert set(built) >= DRAWING
    assert not set(built) & READING


def test_kernels_that_read_files(tmp_path, monkeypatch):
    for number in range(4):
        (tmp_path / f"{number}.jpg").write_bytes(simplejpeg.encode_jpeg(IMAGES[0]))

    def definition():
        return fn.flip(fn.decoders.image(fn.readers.file(files=sorted(map(str, tmp_path.iterdir())))[0]))

    built = loaded(definition, monkeypatch)
    assert set(built) >= READING
    assert not set(built) & DRAWING
