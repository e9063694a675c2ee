"""The user's functions on the device: called with its arrays, their results checked as on the CPU."""

import contextlib
import dataclasses
import threading

import device_cases
import fake_device
import numpy as np
import pytest
from fake_device import mirror
from numba.core.errors import NumbaPerformanceWarning
from numba.cuda import dispatcher

from pipeflow import Spec, declare, fn, pipeline_def, types
from pipeflow.errors import WrongResult, WrongShape

rng = np.random.default_rng(3)
IMAGES = [[rng.integers(0, 255, (4 + k, 5, 3), np.uint8) for k in range(3)] for _ in range(6)]


def run(define, batches=1, **options):
    """The outputs of some batches of a pipeline on the device."""
    options = {"batch_size": 3, "num_threads": 2, "device_id": 0, "seed": 1, **options}
    pipe = pipeline_def(define, **options)()
    return [pipe.run() for _ in range(batches)]


def source(**options):
    """The images on the device."""
    return fn.external_source(IMAGES, layout="HWC", **options).gpu()


def same(batch, expected):
    """A batch has these samples."""
    arrays = batch.as_cpu().samples()
    assert len(arrays) == len(expected)
    for one, other in zip(arrays, expected):
        assert one.dtype == np.asarray(other).dtype
        np.testing.assert_array_equal(one, other)


def test_each_sample_on_the_compute_stream(device):
    """Arrays of the device come in, one sample at a time and in order; its current stream is the pipeline's."""
    seen = []

    def function(x):
        seen.append((type(x), x.shape, device.current()))
        return x[::-1] + 1, x.sum(axis=(0, 1))

    def define():
        a, b = fn.python_function(source(), function=function, num_outputs=2)
        return a, mirror(fn.copy(a), vertical=1), b.cpu()

    outputs = run(define, 6)
    for (a, flipped, sums), images in zip(outputs, IMAGES):
        same(a, [x[::-1] + 1 for x in images])
        same(sums, [x.sum(axis=(0, 1)) for x in images])
        assert a.layout() == ""
        assert len(flipped) == 3
    assert seen[:3] == [(fake_device.FakeArray, x.shape, device.computing.ptr) for x in IMAGES[0]]


@pytest.mark.parametrize("form", ["list", "array"])
def test_the_whole_batch(device, form):
    """With batch_processing the function gets lists; it returns a list, or one array whose first axis is the samples."""

    def function(images, factors):
        assert all(isinstance(x, fake_device.FakeArray) for x in (*images, *factors))
        made = [x[:4] * factor for x, factor in zip(images, factors)]
        return made if form == "list" else device.module.stack(made)

    def define():
        factor = fn.random.uniform(range=[1, 2]).gpu()
        return fn.python_function(source(), factor, function=function, batch_processing=True), factor.cpu()

    for (made, factors), images in zip(run(define, 6), IMAGES):
        same(made, [x[:4] * f for x, f in zip(images, np.asarray(factors))])
        assert made.is_dense_tensor()


@pytest.mark.parametrize("wrapped", [list, tuple])
def test_the_only_output_in_a_list_of_outputs(device, wrapped):
    """As on the CPU: one entry that is a batch is the output; in a batch of one it is the sample."""

    def define():
        return fn.python_function(source(), function=lambda xs: wrapped([[x + 1 for x in xs]]), batch_processing=True)

    same(run(define)[0][0], [x + 1 for x in IMAGES[0]])


def test_the_samples_own_generator(device):
    """A parameter named rng gets the sample's generator, the same numbers as on the CPU."""

    def on_gpu(x, rng):
        return device.module.full_like(x, rng.integers(255))

    def on_cpu(x, rng):
        return np.full_like(x, rng.integers(255))

    (gpu,) = run(lambda: fn.python_function(source(), function=on_gpu, name="noise"))
    (cpu,) = run(lambda: fn.python_function(fn.external_source(IMAGES), function=on_cpu, name="noise"))
    same(gpu[0], cpu[0].samples())


def test_a_function_may_use_its_buffer_again(device):
    """Results are copied at once, in the order of the stream."""
    buffer = fake_device.fake(np.zeros((4, 5, 3), np.uint8))

    def function(x):
        buffer[...] = x[:4]
        return buffer

    for (made,), images in zip(run(lambda: fn.python_function(source(), function=function), 6), IMAGES):
        same(made, [x[:4] for x in images])


def test_results_that_are_not_contiguous(device):
    """Transposed and reversed views are laid out in order."""
    (made,) = run(lambda: fn.python_function(source(), function=lambda x: x.T[::-1]))[0]
    same(made, [x.T[::-1] for x in IMAGES[0]])


def test_inputs_can_be_written_where_nobody_else_reads_them(device):
    """A lone reader gets the memory itself, others a copy: nobody sees what it writes there."""

    def overwrite(x):
        x[...] = 0
        return x

    def define():
        images = source()
        return fn.python_function(images, function=overwrite), images

    for (zeros, images), expected in zip(run(define, 6), IMAGES):
        same(images, expected)
        same(zeros, [np.zeros_like(x) for x in expected])
    addresses = []
    run(lambda: fn.python_function(source(), function=lambda x: addresses.append(x.ctypes.data) or x))
    assert all(any(m.address <= a < m.address + m.nbytes for m in device.memories) for a in addresses)


@pytest.mark.parametrize(
    ("result", "options", "kind", "text"),
    [
        (
            lambda x: np.zeros(3),
            {},
            WrongResult,
            r"output 0 of .* returned a NumPy array of float64 \(3,\) in a GPU operator",
        ),
        (lambda x: 3.0, {}, WrongResult, r"returned float in a GPU operator, which returns arrays of CuPy"),
        (lambda x: None, {}, WrongResult, "returned None instead of an array"),
        (lambda x: (x, x), {}, WrongShape, "returned 2 outputs, declared is num_outputs=1"),
        (lambda x: x if len(x) == 4 else x[0], {}, WrongShape, "different numbers of axes in one batch"),
        (lambda x: x if len(x) == 4 else x * 1.5, {}, WrongResult, "different types in one batch: uint8 .* sample 1"),
        (lambda x: x.astype(complex), {}, WrongResult, "returned an array of complex128"),
        (lambda x: x, {"outputs": Spec(np.float32)}, TypeError, r"is declared as float32 .* returned uint8"),
        (lambda x: x[:2], {"batch_processing": True}, WrongShape, "has 2 samples in a batch of 3"),
        (lambda x: 7, {"batch_processing": True}, WrongResult, "returned int in a GPU operator"),
        (lambda x: 1 / 0, {}, ZeroDivisionError, "division"),
    ],
)
def test_wrong_results(device, result, options, kind, text):
    """What is wrong is said as on the CPU; the notes name the operator, the sample and the user's line."""
    with pytest.raises(kind, match=text) as caught:
        run(lambda: fn.python_function(source(), function=result, **options))
    notes = "\n".join(caught.value.__notes__)
    assert "in fn.python_function" in notes
    assert "test_device_functions.py" in notes
    assert ("sample 0" in notes or "sample 1" in notes) == (not options.get("batch_processing"))


def test_rules_for_samples_that_fail(device):
    """on_error acts per sample: one is skipped, replaced or given a value while the others go on."""

    def picky(x):
        if len(x) == 5:
            raise ValueError("five rows")
        return x + 1

    def define(**rule):
        return lambda: mirror(fn.python_function(source(), function=picky, output_layouts="HWC", **rule), vertical=1)

    expected = [x[::-1, ::-1] + 1 for x in IMAGES[0]]
    same(run(define(on_error="skip"))[0][0], [expected[0], expected[2]])
    same(run(define(on_error="replace"))[0][0], [expected[0], expected[2], expected[2]])
    given = np.full((2, 2, 3), 9, np.uint8)
    same(run(define(on_error=lambda _: given))[0][0], [expected[0], given, expected[2]])
    with pytest.raises(ValueError, match="five rows"):
        run(define())


def test_arrays_of_dlpack(device):
    """dl_tensor_python_function passes capsules and takes capsules or anything with DLPack back."""
    drained = []
    monitor, device.drain = device.drain, lambda stream: drained.append(stream) or monitor(stream)

    class Array:
        def __init__(self, capsule):
            self.array = np.from_dlpack(Capsule(capsule)).copy()

        def __dlpack__(self, **options):
            return self.array.__dlpack__()

        def __dlpack_device__(self):
            return 1, 0

    class Capsule:
        def __init__(self, capsule):
            self.capsule = capsule

        def __dlpack__(self, **_):
            return self.capsule

        def __dlpack_device__(self):
            return 1, 0

    def define(**options):
        return lambda: fn.dl_tensor_python_function(source(), function=Array, batch_processing=False, **options)

    alone = {"exec_async": False, "exec_pipelined": False}
    same(run(define(), **alone)[0][0], IMAGES[0])
    assert drained == [device.computing] * len(drained) != []
    drained.clear()
    same(run(define(synchronize_stream=False), **alone)[0][0], IMAGES[0])
    assert not drained
    same(run(lambda: fn.dl_tensor_python_function(source(), function=lambda capsule: capsule))[0][0], IMAGES[0])


def test_tensors_of_a_framework(device, monkeypatch):
    """Frameworks get their tensors from arrays of the device while they work on the pipeline's stream."""
    from contextlib import contextmanager

    from pipeflow.operators import tensor_functions

    streams = []

    class Tensor:
        def __init__(self, array):
            self.array = array

    @contextmanager
    def on_stream(number, handle):
        streams.append((number, handle))
        yield

    library = declare.Framework(
        "torch",
        None,
        None,
        lambda value: isinstance(value, Tensor),
        from_device=Tensor,
        to_device=lambda tensor: tensor.array,
        on_stream=on_stream,
    )
    monkeypatch.setitem(declare.frameworks, "torch", library)
    monkeypatch.setitem(declare.frameworks, "jax", library)

    def double(x):
        assert isinstance(x, Tensor)
        return Tensor(x.array * 2)

    same(
        run(lambda: tensor_functions.torch_python_function(source(), function=double))[0][0], [x * 2 for x in IMAGES[0]]
    )
    assert set(streams) == {(0, device.computing.ptr)}
    with pytest.raises(ValueError, match="samples of different shapes"):
        run(lambda: tensor_functions.jax_function(source(), function=double))
    images = fn.external_source
    equal = [np.stack([x[:4] for x in IMAGES[0]])]
    made = run(lambda: tensor_functions.jax_function(images(equal).gpu(), function=double))[0][0]
    same(made, list(equal[0] * 2))


def test_what_cannot_run_on_a_gpu(device):
    """Numba for the CPU, worker processes and kernels without numba-cuda are refused when the pipeline is built."""
    with pytest.raises(ValueError, match="jit=True compiles for the CPU"):
        run(lambda: fn.python_function(source(), function=lambda x: x, jit=True))
    with pytest.raises(ValueError, match="worker processes have no GPU"):
        run(lambda: fn.python_function(source(), function=lambda x: x, parallel="processes"))
    kinds = {"in_types": types.UINT8, "ins_ndim": 3, "out_types": types.UINT8, "outs_ndim": 3}
    with pytest.raises(ValueError, match="needs blocks and threads_per_block") as caught:
        run(lambda: fn.numba_function(source(), run_fn=abs, **kinds))
    assert "test_device_functions.py" in "\n".join(caught.value.__notes__)
    grid = {"blocks": [1, 1, 1], "threads_per_block": [32, 1, 1]}
    with pytest.raises(ValueError, match="batch_processing=True is for the CPU"):
        run(lambda: fn.numba_function(source(), run_fn=abs, batch_processing=True, **kinds, **grid))
    with pytest.raises(ModuleNotFoundError, match=r"numba-cuda is needed .* pip install"):
        run(lambda: fn.numba_function(source(), run_fn=abs, **kinds, **grid))


def test_numba_does_not_warn_of_the_grid_of_the_tests():
    """Numba warns of small grids when one is launched, and on a GPU a warning would be the failure of that test."""
    blocks = (*device_cases.NUMBA_GRID["blocks"], 1)
    dispatcher._LaunchConfiguration(None, blocks, (16, 16, 1), 0, 0)
    with pytest.warns(NumbaPerformanceWarning, match="Grid size 64"):
        dispatcher._LaunchConfiguration(None, (8, 8, 1), (16, 16, 1), 0, 0)


def test_a_function_without_outputs_and_one_without_inputs(device):
    """Neither needs data on the device."""
    seen = []

    def define():
        fn.python_function(source(), function=lambda x: seen.append(x.shape), num_outputs=0)
        return fn.python_function(function=lambda: device.module.arange(4), device="gpu")

    (made,) = run(define)[0]
    same(made, [np.arange(4)] * 3)
    assert sorted(seen[:3]) == sorted(x.shape for x in IMAGES[0])


def test_functions_keep_their_state_in_checkpoints(device):
    """A callable with get_state and set_state goes on where the checkpoint was made."""

    class Counter:
        def __init__(self):
            self.count = 0

        def __call__(self, x):
            self.count += 1
            return device.module.full(2, self.count)

        def get_state(self):
            return self.count

        def set_state(self, state):
            self.count = state

    @pipeline_def(batch_size=3, num_threads=2, device_id=0, enable_checkpointing=True)
    def define():
        images = fn.external_source(lambda info: IMAGES[0][info.idx_in_batch], batch=False)
        return fn.python_function(images.gpu(), function=Counter())

    first = define()
    for _ in range(3):
        first.run()
    saved = first.checkpoint()
    expected = [np.asarray(x) for x in first.run()[0].as_cpu()]
    same(define(checkpoint=saved).run()[0], expected)
    assert expected[0][0] == 10


def test_user_threads_may_drop_batches_meanwhile(device):
    """Batches may be let go in another thread while the pipeline goes on."""

    @pipeline_def(batch_size=3, num_threads=2, device_id=0)
    def define():
        return fn.python_function(fn.external_source(lambda: IMAGES[0]).gpu(), function=lambda x: x + 1)

    pipe, kept = define(), []
    for _ in range(10):
        kept.append(pipe.run())
        if len(kept) == 3:
            thread = threading.Thread(target=kept.clear)
            thread.start()
            thread.join()
    same(kept[-1][0], [x + 1 for x in IMAGES[0]])


class TestTensorFlowNames:
    """fn.py_function works on the device; py_func and numpy_function are for NumPy arrays."""

    def test_arrays_of_the_device(self, device):
        """framework="numpy" gives arrays of the array module; results have the types that are promised."""
        seen = []

        def function(x):
            seen.append(type(x))
            return x + 1, x.sum(dtype=np.int64)

        def define():
            return tuple(fn.py_function(function, [source()], [np.uint8, np.int64], framework="numpy"))

        ((plus, sums),) = run(define)
        same(plus, [x + 1 for x in IMAGES[0]])
        same(sums, [x.sum(dtype=np.int64) for x in IMAGES[0]])
        assert set(seen) == {fake_device.FakeArray}

    def test_tensors_of_a_library(self, device, monkeypatch):
        """Tensors are made of the batch's memory, and the library works on the pipeline's stream."""
        streams = []

        @contextlib.contextmanager
        def on_stream(number, handle):
            streams.append((number, handle))
            yield

        library = dataclasses.replace(
            declare.frameworks["numpy"], name="numbers", from_device=lambda x: x, on_stream=on_stream
        )
        monkeypatch.setitem(declare.frameworks, "numbers", library)
        ((doubled,),) = run(lambda: fn.py_function(lambda x: x * 2, [source()], np.uint8, framework="numbers"))
        same(doubled, [x * 2 for x in IMAGES[0]])
        assert set(streams) == {(0, device.computing.ptr)}

    def test_results_of_another_type(self, device):
        """Are refused as on the CPU."""
        with pytest.raises(TypeError, match=r"declared as float32 \? and the function returned uint8"):
            run(lambda: fn.py_function(lambda x: x, [source()], np.float32, framework="numpy"))

    @pytest.mark.parametrize("name", ["numpy_function", "py_func"])
    def test_functions_of_numpy_arrays(self, name):
        """Say that they are for the CPU."""
        with pytest.raises(
            ValueError, match=rf"fn\.{name} has no gpu implementation, only cpu: give it data on the CPU, x\.cpu\(\)"
        ):
            run(lambda: getattr(fn, name)(lambda x: x, [source()], np.uint8))
