"""On a real GPU: `make test-gpu`. Everywhere else these tests are skipped with the reason.

`make test-gpu` also runs the tests of tests/nvrtc/test_host_*.py with every kernel on the GPU instead of the host.
"""

import io
from importlib.util import find_spec

import device_cases
import numpy as np
import pytest
from PIL import Image

from pipeflow import backends, fn, pipeline_def
from pipeflow.device.tensors import TensorListGPU
from pipeflow.errors import WrongResult

pytestmark = pytest.mark.gpu
rng = np.random.default_rng(3)
IMAGES = [[rng.integers(0, 255, (60 + k, 80, 3), np.uint8) for k in range(4)] for _ in range(8)]
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")


@pytest.fixture
def cupy():
    """CuPy."""
    return backends.gpu.cupy


def source(batches=IMAGES):
    """The images on the device."""
    return fn.external_source(batches, layout="HWC", cycle="quiet").gpu()


def build(define, **options):
    """A pipeline on the GPU."""
    return pipeline_def(define, **{"batch_size": 4, "num_threads": 3, "device_id": 0, "seed": 1, **options})()


def same(batch, expected):
    """A batch has these samples."""
    for one, other in zip(batch.as_cpu().samples(), expected, strict=True):
        assert one.dtype == np.asarray(other).dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("op", "text"), device_cases.EXAMPLES, ids=[text for _, text in device_cases.EXAMPLES])
def test_every_operator(op, text):
    """Every declared example gives on the GPU what it gives on the CPU."""
    del op
    device_cases.compare_example(text)


def test_a_graph_of_images():
    """Many operators, branches and random numbers in one pipeline."""
    device_cases.compare_images()


class TestFunctions:
    """The user's functions in all forms."""

    def test_each_sample(self, cupy):
        """CuPy arrays in and out, on the pipeline's stream."""
        streams = set()

        def function(x):
            streams.add(cupy.cuda.get_current_stream().ptr)
            return x[::-1] + 1, x.sum(axis=(0, 1))

        pipe = build(lambda: fn.python_function(source(), function=function, num_outputs=2))
        for images in IMAGES:
            a, b = pipe.run()
            same(a, [x[::-1] + 1 for x in images])
            same(b, [x.sum(axis=(0, 1)) for x in images])
        assert len(streams) == 1
        assert 0 not in streams

    def test_the_whole_batch(self, cupy):
        """Lists in, a list or one array out."""

        def run(function):
            return build(lambda: fn.python_function(source(), function=function, batch_processing=True)).run()[0]

        same(run(lambda batch: cupy.stack([x[:9] for x in batch])), [x[:9] for x in IMAGES[0]])
        same(run(lambda batch: [x * 2 for x in batch]), [x * 2 for x in IMAGES[0]])

    def test_kernels_of_the_user(self, cupy):
        """ElementwiseKernel and RawKernel are launched on the pipeline's stream."""
        halve = cupy.ElementwiseKernel("uint8 x", "float32 y", "y = x * 0.5f", "halve")
        code = (
            'extern "C" __global__ void invert(const unsigned char* x, unsigned char* y, int n) {'
            " int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 255 - x[i]; }"
        )
        raw = cupy.RawKernel(code, "invert")

        def invert(x):
            y = cupy.empty_like(x)
            raw((-(-x.size // 256),), (256,), (x, y, np.int32(x.size)))
            return y

        made = build(lambda: fn.python_function(fn.python_function(source(), function=invert), function=halve)).run()[0]
        same(made, [(255 - x) * np.float32(0.5) for x in IMAGES[0]])

    def test_results_that_are_not_contiguous_or_not_there(self, cupy):
        """Views are laid out; NumPy results are refused."""
        same(
            build(lambda: fn.python_function(source(), function=lambda x: x.T[::-1])).run()[0],
            [x.T[::-1] for x in IMAGES[0]],
        )
        with pytest.raises(WrongResult, match="returned a NumPy array"):
            build(lambda: fn.python_function(source(), function=cupy.asnumpy)).run()

    def test_capsules(self, cupy):
        """dl_tensor_python_function."""
        pipe = build(lambda: fn.dl_tensor_python_function(source(), function=lambda x: x))
        same(pipe.run()[0], IMAGES[0])

    @needs_torch
    def test_torch(self):
        """Tensors of torch on the same stream."""
        from pipeflow.plugin import pytorch

        def define():
            return pytorch.fn.torch_python_function(source(), function=lambda x: x.flip(0) + 1)

        same(build(define).run()[0], [x[::-1] + 1 for x in IMAGES[0]])

    @pytest.mark.skipif(find_spec("numba_cuda") is None, reason="numba-cuda is not installed")
    def test_numba(self):
        """A kernel compiled by numba-cuda."""
        from numba import cuda

        def double(y, x):
            i, j = cuda.grid(2)
            if i < x.shape[0] and j < x.shape[1]:
                for c in range(x.shape[2]):
                    y[i, j, c] = 2 * x[i, j, c]

        kinds = {"in_types": np.uint8, "ins_ndim": 3, "out_types": np.uint8, "outs_ndim": 3}
        same(
            build(lambda: fn.numba_function(source(), run_fn=double, **kinds, **device_cases.NUMBA_GRID)).run()[0],
            [x * 2 for x in IMAGES[0]],
        )


class TestHandOver:
    """Batches in other hands."""

    @needs_torch
    def test_torch_iterators(self):
        """Tensors on the GPU that stay what they are while others are made."""
        from pipeflow.plugin import pytorch

        equal = [[x[:60] for x in images] for images in IMAGES]
        pipe = build(lambda: fn.flip(fn.external_source(equal, layout="HWC").gpu()))
        kept = [batch[0]["data"] for batch in pytorch.DALIGenericIterator(pipe, ["data"])]
        for tensor, images in zip(kept, equal, strict=True):
            assert tensor.is_cuda
            np.testing.assert_array_equal(tensor.cpu().numpy(), np.stack(images)[:, :, ::-1])

    def test_other_streams(self, cupy):
        """A consumer's stream waits, and its batches may be dropped while it still works."""
        pipe, stream = build(lambda: fn.flip(source())), cupy.cuda.Stream(non_blocking=True)
        sums = []
        for _ in range(100):
            (batch,) = pipe.run()
            with stream:
                sums += [cupy.from_dlpack(sample).astype(cupy.int64).sum() for sample in batch]
            del batch
        stream.synchronize()
        expected = [int(x.astype(np.int64).sum()) for images in IMAGES for x in images]
        assert [int(x) for x in sums] == (expected * 13)[: len(sums)]

    def test_the_array_interface(self, cupy):
        """CuPy takes a sample by it, and a list of its arrays is a batch."""
        (batch,) = build(lambda: fn.flip(source())).run()
        np.testing.assert_array_equal(cupy.asnumpy(cupy.asarray(batch[0])), IMAGES[0][0][:, ::-1])
        same(TensorListGPU([cupy.asarray(x) for x in IMAGES[0]]), IMAGES[0])


class TestPipelines:
    """A GPU pipeline is a pipeline."""

    def test_conditions(self):
        """Branches over data on the GPU."""

        def define():
            images = source()
            coin = fn.random.coin_flip(name="coin")
            if coin:
                images = fn.python_function(images, function=lambda x: x + 1, output_layouts="HWC")
            else:
                images = fn.flip(images)
            return images, coin

        pipe = build(define, enable_conditionals=True)
        for images in IMAGES:
            made, coins = pipe.run()
            same(made, [x + 1 if c else x[:, ::-1] for x, c in zip(images, coins.as_array())])

    def test_a_checkpoint(self):
        """It goes on with the same batches."""

        def define():
            images = fn.external_source(lambda info: IMAGES[info.iteration % 8][info.idx_in_batch], batch=False)
            return fn.flip(images.gpu(), vertical=fn.random.coin_flip(name="coin"))

        first = build(define, enable_checkpointing=True)
        for _ in range(3):
            first.run()
        saved = first.checkpoint()
        expected = [np.asarray(x) for x in first.run()[0].as_cpu()]
        same(build(define, checkpoint=saved, enable_checkpointing=True).run()[0], expected)

    def test_two_pipelines_at_once(self):
        """Each has its own streams and memory."""
        first, second = build(lambda: fn.flip(source())), build(lambda: fn.flip(source(), horizontal=0, vertical=1))
        for images in IMAGES * 4:
            (a,), (b,) = first.run(), second.run()
            same(b, [x[::-1] for x in images])
            same(a, [x[:, ::-1] for x in images])

    def test_decoding(self):
        """device="mixed": PNG files come out as they went in, whoever decodes them."""
        files = []
        for picture in IMAGES[0]:
            file = io.BytesIO()
            Image.fromarray(picture).save(file, "PNG")
            files.append(np.frombuffer(file.getvalue(), np.uint8))
        same(build(lambda: fn.decoders.image(fn.external_source([files]), device="mixed")).run()[0], IMAGES[0])

    def test_nothing_is_allocated_after_warming_up(self):
        """With a sufficient hint."""
        hint = 64 * 80 * 3

        def define():
            images = fn.external_source(IMAGES, layout="HWC", cycle="quiet", bytes_per_sample_hint=hint)
            return fn.flip(images.gpu(), bytes_per_sample_hint=hint)

        pipe = build(define)
        for _ in range(8):
            pipe.run()
        before = pipe.executor_statistics()["gpu"]["allocations"]
        for _ in range(50):
            pipe.run()
        assert pipe.executor_statistics()["gpu"]["allocations"] == before
