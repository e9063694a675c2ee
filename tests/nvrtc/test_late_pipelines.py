"""Whole pipelines with device="gpu" on late streams, with the kernels built by g++: they give what the CPU gives."""

import device_cases
import fake_device
import numpy as np
import pytest
from host_device import launch_on_host

from pipeflow import backends, fn, pipeline_def, types


@pytest.fixture
def device(monkeypatch):
    """A fake device that runs the real kernels."""
    runtime = fake_device.FakeRuntime(seed=5, launcher=launch_on_host)
    monkeypatch.setattr(backends.gpu, "open_device", lambda _number: runtime)
    return runtime


@pytest.mark.parametrize(("op", "text"), device_cases.EXAMPLES, ids=[text for _, text in device_cases.EXAMPLES])
def test_every_example(device, op, text):
    """Every declared example of every operator with a GPU form."""
    del op
    device_cases.compare_example(text)


def test_data_without_a_layout(device):
    """Operators that filter all axes of it give results without a layout, as on the CPU."""
    data = np.random.default_rng(4).integers(0, 255, (9, 8, 7), np.uint8)

    def blurred(on_gpu):
        node = device_cases.source(data)
        return (fn.gaussian_blur(node.gpu() if on_gpu else node, sigma=1.0),)

    expected = device_cases.run(lambda: blurred(False))
    assert expected[0][0].layout() == ""
    device_cases.assert_same(device_cases.run(lambda: blurred(True), 0), expected)


def test_properties_of_data_on_the_device(device, tmp_path):
    """The layout and the source of each sample are known on the CPU, and go to the device as bytes."""
    files = [str(tmp_path / name) for name in ("a.bin", "a longer name.bin", "b.bin")]
    for file in files:
        with open(file, "wb") as opened:
            opened.write(b"123456")

    @pipeline_def(batch_size=3, num_threads=2, device_id=0)
    def define():
        data = fn.readers.file(files=files)[0].gpu()
        image = fn.reshape(data, shape=[2, 1, 3], layout="HWC")
        return [fn.get_property(x, key=key) for x in (data, image) for key in ("source_info", "layout")]

    found = [[x.tobytes().decode() for x in batch.as_cpu().samples()] for batch in define().run()]
    assert found == [files, ["", "", ""], files, ["HWC"] * 3]


def test_a_graph_of_images(device):
    """Many operators in one segment: one copy to the device a batch, and what the CPU gives."""
    device_cases.compare_images()
    assert device.counts["upload"] <= 2 * device_cases.BATCHES


IMAGES = [np.arange(189, dtype=np.uint8).reshape(9, 7, 3) + np.uint8(k) for k in range(2)]


def images(on_gpu):
    """A node of images."""
    node = fn.external_source(lambda: IMAGES, layout="HWC")
    return node.gpu() if on_gpu else node


def numbers(on_gpu, dtype=np.float32):
    """A node of single numbers."""
    node = fn.external_source(lambda: [dtype(1), dtype(2)])
    return node.gpu() if on_gpu else node


def refuse(_):
    """A function that always fails."""
    raise ValueError("no result")


TWO = types.Constant(2.0, dtype=types.FLOAT)
SAME = {
    "a number and a constant": lambda there: numbers(there) + 1.5,
    "a constant and a number": lambda there: 255 - numbers(there),
    "a constant with a type": lambda there: fn.stack(numbers(there), TWO),
    "a constant for a function": lambda there: fn.python_function(numbers(there), TWO, function=lambda x, y: x + y),
    "a number in place of a failed sample": lambda there: fn.python_function(
        numbers(there), function=refuse, on_error=lambda failure: np.float32(7 + failure.sample)
    ),
    "one of the numbers below a constant": lambda there: fn.random.choice(
        5, shape=[40], name="choice", device="gpu" if there else "cpu"
    ),
    "the same with probabilities": lambda there: fn.random.choice(
        3, p=[0.1, 0.2, 0.7], shape=[40], name="choice", device="gpu" if there else "cpu"
    ),
    "an index from the CPU": lambda there: images(there)[numbers(False, np.int32)],
    "bounds from the CPU": lambda there: images(there)[numbers(False, np.int32) :, 3, : numbers(False, np.int32)],
}


@pytest.mark.parametrize("case", SAME)
def test_single_numbers_and_constants(device, case):
    """They have the shapes and values that they have on the CPU."""
    expected = device_cases.run(lambda: (SAME[case](False),))
    device_cases.assert_same(device_cases.run(lambda: (SAME[case](True),), 0), expected)


def test_an_index_from_the_device(device):
    """Is copied to the CPU once a batch, and build() says so."""
    expected = device_cases.run(lambda: (images(False)[numbers(False, np.int32)],))
    with pytest.warns(UserWarning, match=r"input 1 of fn\._subscript"):
        found = device_cases.run(lambda: (images(True)[numbers(True, np.int32)],), 0)
    device_cases.assert_same(found, expected)


def test_a_single_number_to_choose_from_on_the_device(device):
    """The CPU would have to read it."""
    with pytest.raises(ValueError, match="read on the CPU, where the choice is made"):
        device_cases.run(lambda: (fn.random.choice(numbers(True, np.int32), shape=[4]),), 0)


@pytest.mark.parametrize("rule", ["replace", "skip"])
def test_rows_are_whole_next_to_steps_that_look_at_the_whole_batch(device, rule):
    """`pad` and `permute_batch` on the device see the batch as it is delivered, as they do on the CPU."""
    images = [np.full((3 + 2 * k, 4, 3), 10 * k, np.uint8) for k in range(5)]  # the last one fails, and is the longest

    def refuse(x):
        if len(x) in (5, 11):
            raise ValueError(f"an image of {len(x)} rows")
        return x

    def results(place):
        @pipeline_def(batch_size=5, num_threads=2, on_error=rule, device_id=0)
        def define():
            image = fn.external_source([images], layout="HWC", cycle=True)
            there = image.gpu() if place == "gpu" else image
            moved = fn.permute_batch(there, indices=[4, 2, 0, 1, 3])
            checked = fn.python_function(image, function=refuse)
            outputs = there, moved, fn.pad(moved, axes=[0], fill_value=7), fn.pad(there, axes=[0], fill_value=7)
            return *[x.cpu() if place == "gpu" else x for x in outputs], checked

        pipe = define()
        return [[np.asarray(x).tolist() for x in batch.samples()] for _ in range(2) for batch in pipe.run()]

    expected = results("cpu")
    found = results("gpu")
    assert [len(x) for x in found] == [len(x) for x in expected] == [5 if rule == "replace" else 1] * 10
    assert found == expected
    if rule == "replace":
        rows = [images[row] for row in (0, 2, 2, 3, 0)]
        assert expected[0] == [x.tolist() for x in rows]
        assert expected[1] == [rows[row].tolist() for row in (4, 2, 0, 1, 3)]
        assert {len(x) for x in expected[3]} == {9}
