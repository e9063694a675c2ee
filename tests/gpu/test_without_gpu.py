"""Pipelines written for a GPU on a machine, or with a setting, that has none."""

import numpy as np
import pytest

from pipeflow import fn, pipeline_def, types
from pipeflow.errors import NoGpu

JPEG = (
    pytest.importorskip("cv2")
    .imencode(".jpg", np.arange(48 * 64 * 3, dtype=np.uint32).reshape(48, 64, 3) % 251)[1]
    .ravel()
)


def images(info):
    return JPEG


def written_for_a_gpu(data):
    """The shape of most training pipelines."""
    decoded = fn.decoders.image(data, device="mixed", output_type=types.RGB)
    cropped = fn.random_resized_crop(decoded, size=(20, 30), device="gpu")
    mirror = fn.random.coin_flip()
    normal = fn.crop_mirror_normalize(cropped.gpu(), dtype=types.FLOAT, mean=[1, 2, 3], std=[4, 5, 6], mirror=mirror)
    return normal, normal.cpu(), fn.reductions.mean(normal, axes=(1, 2)).gpu()


def written_for_the_cpu(data):
    decoded = fn.decoders.image(data, output_type=types.RGB)
    cropped = fn.random_resized_crop(decoded, size=(20, 30))
    mirror = fn.random.coin_flip()
    normal = fn.crop_mirror_normalize(cropped, dtype=types.FLOAT, mean=[1, 2, 3], std=[4, 5, 6], mirror=mirror)
    return normal, normal, fn.reductions.mean(normal, axes=(1, 2))


def define(graph, **settings):
    return pipeline_def(
        lambda: graph(fn.external_source(images, batch=False)),
        **{"batch_size": 3, "num_threads": 1, "seed": 5, **settings},
    )()


def test_a_script_for_a_gpu_runs_on_the_cpu_with_one_warning():
    """The samples are those of the same pipeline written for the CPU; the warning says what moved and how to change it."""
    pipe = define(written_for_a_gpu, device_id=None)
    with pytest.warns(UserWarning, match="so this runs on the CPU: fn.decoders.image") as caught:
        pipe.build()
    assert len(caught) == 1
    assert "PIPEFLOW_DEVICE=strict" in str(caught[0].message)
    assert caught[0].filename == __file__
    for got, expected in zip(pipe.run(), define(written_for_the_cpu, device_id=None).run(), strict=True):
        np.testing.assert_array_equal(got.as_array(), expected.as_array())


def test_the_environment_can_take_the_gpu_from_every_pipeline(monkeypatch):
    """PIPEFLOW_DEVICE=cpu runs a script with device_id=0 on a laptop."""
    monkeypatch.setenv("PIPEFLOW_DEVICE", "cpu")
    pipe = define(written_for_a_gpu, device_id=0)
    with pytest.warns(UserWarning, match="this pipeline has no GPU"):
        pipe.build()
    assert pipe.device_id is None
    assert pipe.run()[0].as_array().shape == (3, 3, 20, 30)


def test_strict_makes_it_an_error(monkeypatch):
    """For programs that must not slow down silently."""
    monkeypatch.setenv("PIPEFLOW_DEVICE", "strict")
    with pytest.raises(NoGpu, match=r"work for a GPU and no device_id: fn.decoders.image\(device=\"mixed\"\)"):
        define(written_for_a_gpu, device_id=None).build()
    define(written_for_the_cpu, device_id=None).build()


def test_conditions_names_and_sources_of_the_gpu_work_too():
    """Branches, several outputs, per-sample arguments and functions."""

    @pipeline_def(batch_size=4, num_threads=2, device_id=None, seed=3, enable_conditionals=True)
    def define_branches(device):
        data = fn.external_source(lambda info: np.full((2, 3), info.idx_in_epoch, np.float32), batch=False)
        if device == "gpu":
            data = data.gpu()
        if fn.random.coin_flip(dtype=types.BOOL):
            data = data + 10
        else:
            data = fn.python_function(data, function=np.negative, device=device)
        return fn.pad(data, name="padded"), data

    pipe = define_branches("gpu")
    with pytest.warns(UserWarning, match="this pipeline has no GPU"):
        pipe.build()
    for got, expected in zip(pipe.run(), define_branches("cpu").run(), strict=True):
        np.testing.assert_array_equal(got.as_array(), expected.as_array())


def test_a_missing_gpu_names_the_switch():
    """device_id=0 on a machine without a GPU says why, and how to go on without one."""
    with pytest.raises(NoGpu) as caught:
        define(written_for_a_gpu, device_id=0).build()
    assert "to run this pipeline on the CPU, set the environment variable PIPEFLOW_DEVICE=cpu" in caught.value.__notes__
