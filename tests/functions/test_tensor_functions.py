"""DLPack functions, and torch and JAX functions where these are installed (`make test-adapters`)."""

import gc

import numpy as np
import pytest
from helpers import LONG

from pipeflow import fn, ops, pipeline_def

BATCH = 4


def images(info):
    return np.arange(12, dtype=np.float32).reshape(3, 4) + info.idx_in_epoch


def ragged(info):
    return np.full((1 + info.idx_in_batch, 2), info.idx_in_epoch, np.float32)


def run(define, batches=1, **settings):
    pipe = pipeline_def(define, **{"batch_size": BATCH, "num_threads": 2, "seed": 1, **settings})()
    return [[[np.array(x) for x in batch.samples()] for batch in pipe.run()] for _ in range(batches)]


class Capsule:
    """What takes a bare capsule in: NumPy wants an object."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


def doubled(capsule):
    return np.from_dlpack(Capsule(capsule)) * 2


@pytest.mark.parametrize("source", [images, ragged])
@pytest.mark.parametrize("whole", [False, True])
def test_dlpack_functions_get_capsules(source, whole):
    """Per sample a capsule, per batch a list of capsules; arrays with DLPack may come back."""

    def function(data):
        return [doubled(capsule) for capsule in data] if whole else doubled(data)

    def define():
        x = fn.external_source(source, batch=False)
        return x, fn.dl_tensor_python_function(x, function=function, batch_processing=whole)

    [[plain, results]] = run(define)
    for sample, result in zip(plain, results):
        np.testing.assert_array_equal(result, sample * 2)


def test_capsules_may_come_back():
    """A function may return the capsules themselves, several of them as several outputs."""

    def define():
        x = fn.external_source(images, batch=False)
        return tuple(fn.dl_tensor_python_function(x, x, function=lambda a, b: (a, b), num_outputs=2))

    [[left, right]] = run(define)
    for sample in range(BATCH):
        np.testing.assert_array_equal(left[sample], np.arange(12).reshape(3, 4) + sample)
        np.testing.assert_array_equal(right[sample], left[sample])


def test_capsules_come_in_lists_by_default():
    """One list for each input, with a capsule for each sample."""
    seen = []

    def function(left, right):
        seen.append((type(left), len(left), type(right), len(right)))
        return [doubled(capsule) for capsule in left]

    def define():
        x = fn.external_source(images, batch=False)
        return x, fn.dl_tensor_python_function(x, x, function=function)

    [[plain, results]] = run(define)
    assert set(seen) == {(list, BATCH, list, BATCH)}
    for sample, result in zip(plain, results):
        np.testing.assert_array_equal(result, sample * 2)


def test_a_capsule_nobody_takes_is_given_back():
    """A function that ignores its capsule leaks nothing and changes nothing."""

    def define():
        x = fn.external_source(images, batch=False)
        return x, fn.dl_tensor_python_function(x, function=lambda capsules: [np.zeros(1)] * len(capsules))

    for plain, _ in run(define, batches=3):
        assert len(plain) == BATCH
    gc.collect()


def test_writing_through_a_capsule_changes_no_other_reader():
    """A capsule is always writable, so a function whose input is read elsewhere gets a copy."""

    def clear(capsule):
        array = np.from_dlpack(Capsule(capsule))
        array = np.asarray(memoryview(array)) if not array.flags.writeable else array
        return array

    def define():
        x = fn.external_source(images, batch=False)
        return x, fn.dl_tensor_python_function(x, function=clear, batch_processing=False)

    [[plain, results]] = run(define)
    np.testing.assert_array_equal(plain, results)


def test_names_of_the_class_api_are_dalis():
    """ops.DLTensorPythonFunction is the operator's class."""
    assert np.array_equal(ops.DLTensorPythonFunction(function=doubled, batch_processing=False)(np.ones(2)), [2, 2])


@pytest.mark.adapters
class TestTorch:
    """Functions of torch tensors."""

    @pytest.mark.parametrize("source", [images, ragged])
    @pytest.mark.parametrize("whole", [False, True])
    def test_functions_get_tensors(self, source, whole):
        """Per sample a tensor, per batch a list of tensors; tensors come back."""
        import torch
        from pipeflow.plugin.pytorch.fn import torch_python_function

        def function(data):
            assert all(isinstance(x, torch.Tensor) for x in (data if whole else [data]))
            return [x * 2 for x in data] if whole else data * 2

        def define():
            x = fn.external_source(source, batch=False)
            return x, torch_python_function(x, function=function, batch_processing=whole)

        [[plain, results]] = run(define)
        for sample, result in zip(plain, results):
            np.testing.assert_array_equal(result, sample * 2)
            assert result.dtype == np.float32

    def test_a_stacked_tensor_is_a_batch(self):
        """A function of a batch may return one tensor whose first axis is the samples."""
        import torch

        from pipeflow.plugin.pytorch import fn as torch_fn

        def define():
            x = fn.external_source(images, batch=False)
            return torch_fn.torch_python_function(x, function=torch.stack, batch_processing=True)

        [[results]] = run(define)
        np.testing.assert_array_equal(results[2], np.arange(12).reshape(3, 4) + 2)

    def test_writing_changes_no_other_reader(self):
        """torch ignores read-only flags: where the input is read elsewhere the tensor is a copy."""
        from pipeflow.plugin.pytorch.fn import torch_python_function

        def define():
            x = fn.external_source(images, batch=False)
            return x, torch_python_function(x, function=lambda t: t.zero_()), fn.numpy_function(np.sum, [x], np.float32)

        for plain, zeros, sums in run(define, batches=2):
            for sample in range(BATCH):
                assert not zeros[sample].any()
                assert plain[sample].any()
                assert sums[sample] == plain[sample].sum()

    def test_the_only_reader_shares_memory(self, monkeypatch):
        """Where nobody else reads the input the tensor is the pipeline's memory: no copy."""
        import torch
        from pipeflow.plugin.pytorch.fn import torch_python_function

        writable = []
        original = torch.from_numpy

        def spy(array):
            writable.append(array.base is not None)  # a view of the batch, no copy of its own
            return original(array)

        def define():
            x = fn.python_function(fn.external_source(images, batch=False), function=lambda x: x)
            return torch_python_function(x, function=lambda t: t)

        monkeypatch.setattr(torch, "from_numpy", spy)
        run(define)
        assert len(writable) >= BATCH
        assert all(writable)

    def test_kept_tensors_stay_as_they_were(self):
        """A tensor that the function keeps holds its memory: later batches do not change it."""
        from pipeflow.plugin.pytorch.fn import torch_python_function

        kept = []

        def function(tensor):
            kept.append((tensor, tensor.clone()))
            return tensor

        def define():
            return torch_python_function(fn.external_source(images, batch=False), function=function)

        run(define, batches=8)
        assert all((tensor == copy).all() for tensor, copy in kept)

    def test_py_function_hands_out_torch_tensors(self):
        """fn.py_function gives torch tensors by default, with Python control flow over their values."""
        import torch

        def log_huber(x, m):
            assert isinstance(x, torch.Tensor)
            return x**2 if abs(x) <= m else m**2 * (1 - 2 * torch.log(m) + torch.log(x**2))

        result = fn.py_function(log_huber, [np.float32(1), np.float32(2)], np.float32)
        assert result == 1
        far = fn.py_function(log_huber, [np.float32(3), np.float32(2)], np.float32)
        np.testing.assert_allclose(far, 4 * (1 - 2 * np.log(2) + np.log(9)), rtol=1e-6)

    def test_py_function_names_the_types(self):
        """A tensor of another type than Tout is an error that names both."""
        with pytest.raises(TypeError, match=r"declared as float32 .* returned float64"):
            fn.py_function(lambda x: x.double(), [np.float32(1)], np.float32)

    def test_bfloat16_is_refused_with_words(self):
        """NumPy has no bfloat16; the error says which output it was."""
        with pytest.raises(TypeError, match=r"bfloat16|BFloat16"):
            fn.py_function(lambda x: x.bfloat16(), [np.float32(1)], np.float32)

    def test_a_transform_of_torchvisions_kind(self):
        """A module with parameters of its own runs inside as it is."""
        import torch
        from pipeflow.plugin.pytorch.fn import torch_python_function

        class Normalize(torch.nn.Module):
            def forward(self, x):
                return (x - x.mean()) / x.std()

        def define():
            return torch_python_function(fn.external_source(images, batch=False), function=Normalize())

        [[results]] = run(define)
        assert all(abs(result.mean()) < 1e-5 for result in results)


@pytest.mark.adapters
class TestJax:
    """Functions of JAX arrays."""

    def test_a_function_gets_the_whole_batch(self):
        """jax_function turns a function of stacked arrays into an operator."""
        import jax
        from pipeflow.plugin.jax.fn import jax_function

        @jax_function
        def flip(batch):
            assert isinstance(batch, jax.Array)
            assert batch.shape == (BATCH, 3, 4)
            return batch[:, :, ::-1]

        def define():
            x = fn.external_source(images, batch=False)
            return x, flip(x)

        [[plain, flipped]] = run(define)
        for sample, result in zip(plain, flipped):
            np.testing.assert_array_equal(result, sample[:, ::-1])

    def test_a_compiled_function_with_two_outputs_per_sample(self):
        """jax.jit inside, samples one by one, several outputs with layouts."""
        import jax
        import jax.numpy as jnp
        from pipeflow.plugin.jax.fn import jax_function

        both = jax_function(jax.jit(lambda x: (x + 1, jnp.sum(x))), num_outputs=2, batch_processing=False)

        def define():
            x = fn.external_source(ragged, batch=False)
            return x, *both(x)

        [[plain, more, sums]] = run(define)
        for sample in range(BATCH):
            np.testing.assert_array_equal(more[sample], plain[sample] + 1)
            assert sums[sample] == plain[sample].sum()

    def test_ragged_batches_are_refused_with_advice(self):
        """Samples of different shapes cannot be one array: the error says what to do."""
        from pipeflow.plugin.jax.fn import jax_function

        def define():
            return jax_function(lambda x: x)(fn.external_source(ragged, batch=False))

        with pytest.raises(ValueError, match=r"different shapes.*batch_processing=False"):
            run(define)

    def test_py_function_hands_out_jax_arrays(self):
        """fn.py_function with framework="jax"."""
        import jax

        def function(x):
            assert isinstance(x, jax.Array)
            return x * 2

        assert fn.py_function(function, [np.float32(4)], np.float32, framework="jax") == 8

    def test_kept_arrays_stay_as_they_were(self):
        """JAX arrays never change, whatever the pipeline does with its memory afterwards."""
        kept = []

        def function(x):
            kept.append((x, np.array(x)))
            return x

        def define():
            return fn.py_function(function, [fn.external_source(images, batch=False)], np.float32, framework="jax")

        run(define, batches=8)
        assert all(np.array_equal(array, copy) for array, copy in kept)

    @pytest.mark.parametrize("whole", [False, True])
    def test_the_only_reader_shares_memory(self, whole):
        """Where nobody else reads the input the JAX array lies on the pipeline's memory; elsewhere it is one copy."""
        from pipeflow.plugin.jax.fn import jax_function

        def large(info):
            return np.full((64, 64), info.idx_in_epoch, np.float32)

        addresses = {"in": set(), "alone": [], "shared": []}

        def spy(array):
            addresses["in"].add(array.__array_interface__["data"][0])
            return array

        def define():
            x = fn.external_source(large, batch=False)
            mine = fn.python_function(x, function=lambda x: x + 1)
            theirs = fn.python_function(x, function=lambda x: x + 2)
            fn.python_function(theirs, function=spy, preserve=True)
            alone = jax_function(function("alone"), batch_processing=whole)(mine)
            return alone, jax_function(function("shared"), batch_processing=whole)(theirs)

        def function(name):
            def called(array):
                addresses[name].append((array.unsafe_buffer_pointer(), np.asarray(array).ravel()[0]))
                return array

            return called

        import jax.numpy as jnp

        seen = []
        original = jnp.from_dlpack
        try:
            jnp.from_dlpack = lambda array: seen.append(array.__array_interface__["data"][0]) or original(array)
            [[first, second]] = run(define)
        finally:
            jnp.from_dlpack = original
        for sample in range(BATCH):
            assert (first[sample] == sample + 1).all()
            assert (second[sample] == sample + 2).all()
        alone = {address for address, _ in addresses["alone"][:BATCH]}
        assert alone <= set(seen)  # no copy; pipelines of other tests may be at their batches ahead
        assert not {address for address, _ in addresses["shared"]} & addresses["in"]

    @pytest.mark.parametrize("dtype", [np.float64, np.int64, np.uint8, np.bool_, np.float16])
    def test_types_become_what_jax_makes_of_them(self, dtype):
        """Without 64-bit types float64 becomes float32, also from memory that could be shared."""
        import jax.numpy as jnp

        kinds = []

        def define():
            x = fn.external_source(lambda info: np.ones(64, dtype), batch=False)
            fn.py_function(lambda t: kinds.append(t.dtype), [x], [], framework="jax")
            return fn.external_source(images, batch=False)

        run(define)
        assert kinds == [jnp.array(np.ones(1, dtype)).dtype] * len(kinds)
        assert kinds


def everywhere(call, **settings):
    """The results of a call one after another, on threads and in worker processes."""
    found = []
    for parallel in ("serial", "threads", "processes"):
        [outputs] = run(lambda parallel=parallel: call(parallel), py_num_workers=2, **settings)
        found.append(outputs)
    return found


FAMILY = {
    "python_function": lambda x, **where: fn.python_function(x, function=np.negative, **where),
    "numpy_function": lambda x, **where: fn.numpy_function(np.negative, [x], np.float32, **where),
    "py_func": lambda x, **where: fn.py_func(np.negative, [x], np.float32, stateful=False, **where),
    "py_function": lambda x, **where: fn.py_function(np.negative, [x], np.float32, framework="numpy", **where),
    "dl_tensor_python_function": lambda x, **where: fn.dl_tensor_python_function(
        x, function=lambda capsule: -np.from_dlpack(Capsule(capsule)), batch_processing=False, **where
    ),
    "dl_tensor_python_function, batch": lambda x, **where: fn.dl_tensor_python_function(
        x, function=lambda data: [-np.from_dlpack(Capsule(y)) for y in data], **where
    ),
}


@pytest.mark.parametrize("name", FAMILY)
def test_every_function_runs_everywhere(name):
    """``parallel`` and ``timeout`` mean the same for the whole family, and no result depends on them."""
    for timeout in (None, 30.0):
        for (outputs,) in everywhere(
            lambda parallel, timeout=timeout: FAMILY[name](
                fn.external_source(ragged, batch=False), parallel=parallel, timeout=timeout
            )
        ):
            for sample, result in enumerate(outputs):
                np.testing.assert_array_equal(result, np.full((1 + sample, 2), -sample, np.float32))


@pytest.mark.parametrize("name", FAMILY)
def test_every_function_checks_its_limit(name):
    """A limit that no call can keep is refused when the pipeline is built."""
    with pytest.raises(ValueError, match="timeout must be a positive number of seconds, got -1"):
        run(lambda: FAMILY[name](fn.external_source(images, batch=False), timeout=-1.0))


@pytest.mark.adapters
def test_tensors_of_frameworks_in_worker_processes():
    """torch and JAX functions run in worker processes as they do here, batches included."""
    from pipeflow.plugin.jax.fn import jax_function
    from pipeflow.plugin.pytorch.fn import torch_python_function

    def call(parallel):
        x = fn.external_source(images, batch=False)
        return (
            torch_python_function(x, function=lambda t: t * 2, parallel=parallel),
            torch_python_function(
                x, function=lambda data: [t + 1 for t in data], batch_processing=True, parallel=parallel
            ),
            jax_function(lambda batch: batch[:, ::-1], parallel=parallel)(x),
            fn.py_function(lambda t: t.sum(), [x], np.float32, parallel=parallel),
            fn.py_function(lambda t: t.sum(), [x], np.float32, framework="jax", parallel=parallel),
        )

    one, other, third = everywhere(call)
    for left, right, more in zip(one, other, third):
        np.testing.assert_array_equal(left, right)
        np.testing.assert_array_equal(left, more)


@pytest.mark.adapters
def test_derivatives_do_not_leave_worker_processes():
    """A function that is differentiated cannot run in worker processes: said when the pipeline is built."""

    def define():
        x = fn.external_source(images, batch=False)
        y = fn.py_function(lambda t: (t * t).sum(), [x], np.float32, parallel="processes")
        return tuple(fn.gradients(y, [x]))

    with pytest.raises(ValueError, match="runs in worker processes, and derivatives cannot leave them"):
        run(define)


@pytest.mark.adapters
def test_derivatives_of_functions_with_a_limit():
    """``timeout`` and ``parallel="threads"`` go with derivatives."""

    def define():
        x = fn.external_source(images, batch=False)
        y = fn.py_function(lambda t: (t * t).sum(), [x], np.float32, parallel="threads", timeout=LONG)
        return x, *fn.gradients(y, [x])

    [[plain, derivatives]] = run(define)
    np.testing.assert_allclose(derivatives, 2 * np.array(plain))


@pytest.mark.adapters
def test_a_limit_holds_where_derivatives_are_taken(gate, clock):
    """A function that hangs is noticed also when it keeps a tape."""

    def slow(t):
        if float(t.detach()[0, 0]) == 2:
            clock.advance(1)
            gate.wait()
        return (t * t).sum()

    def define():
        x = fn.external_source(images, batch=False)
        y = fn.py_function(slow, [x], np.float32, timeout=0.5)
        return tuple(fn.gradients(y, [x]))

    with pytest.raises(TimeoutError, match=r"slow .* did not return within"):
        run(define)
