"""Whole pipelines on the fake device: conditions, failures, memory, checkpoints, neighbours, hand-over, mistakes."""

import os
import threading

import fake_device
import numpy as np
import pytest
from fake_device import mirror

from pipeflow import Pipeline, backends, fn, pipeline_def, types
from pipeflow.device.memory import DeviceArena, DevicePool
from pipeflow.device.tensors import TensorGPU, TensorListGPU
from pipeflow.errors import InvalidState, RaggedBatch

rng = np.random.default_rng(11)
IMAGES = [[rng.integers(0, 255, (4 + k % 3, 5, 3), np.uint8) for k in range(4)] for _ in range(8)]


def build(define, **options):
    """A pipeline on the device."""
    return pipeline_def(define, **{"batch_size": 4, "num_threads": 2, "device_id": 0, "seed": 1, **options})()


def source(**options):
    """The images on the device."""
    return fn.external_source(IMAGES, layout="HWC", cycle="quiet", **options).gpu()


def same(batch, expected):
    """A batch has these samples."""
    arrays = batch.as_cpu().samples()
    assert len(arrays) == len(expected)
    for one, other in zip(arrays, expected):
        assert one.dtype == np.asarray(other).dtype
        np.testing.assert_array_equal(one, other)


class TestConditions:
    """Branches over data on the device act per sample; nothing is copied for them."""

    def test_two_branches_are_merged(self, device):
        """Each sample takes its side; operators run over the samples of their branch alone."""

        def define():
            images = source()
            coin = fn.random.coin_flip(name="coin")
            if coin:
                images = mirror(images, vertical=1)
            else:
                images = mirror(images, horizontal=0, vertical=1)
            return images, coin

        pipe = build(define, enable_conditionals=True)
        pipe.build()
        assert [stage.kind for stage in pipe.plan.stages if stage.kind != "sample"][-1] == "device"
        for images in IMAGES:
            made, coins = pipe.run()
            same(made, [x[::-1, ::-1] if c else x[::-1] for x, c in zip(images, coins.as_array())])
            assert made.layout() == "HWC"

    def test_a_side_that_does_nothing(self, device):
        """The sample of a side that keeps its input is that input: the same memory."""

        def define():
            images = source()
            coin = fn.random.coin_flip(name="coin")
            plain = images
            if coin:
                images = mirror(images)
            return images, plain, coin

        pipe = build(define, enable_conditionals=True)
        for images in IMAGES:
            made, plain, coins = pipe.run()
            same(made, [x[:, ::-1] if c else x for x, c in zip(images, coins.as_array())])
            for k, coin in enumerate(coins.as_array()):
                assert (made[k].data_ptr() == plain[k].data_ptr()) == (not coin)

    def test_functions_in_branches(self, device):
        """A function is called for the samples of its branch, and not at all where there are none."""
        calls = []

        def count(*batch):
            calls.append(len(batch[0]))
            return [x + 1 for x in batch[0]]

        def define():
            images = source()
            coin = fn.random.coin_flip(name="coin")
            if coin:
                images = fn.python_function(images, function=count, batch_processing=True, output_layouts="HWC")
            if coin * 2 == 1:
                images = fn.python_function(images, function=count, batch_processing=True, output_layouts="HWC")
            return images, coin

        pipe = build(define, enable_conditionals=True, exec_async=False, exec_pipelined=False)
        for images in IMAGES:
            made, coins = pipe.run()
            same(made, [x + c for x, c in zip(images, coins.as_array().astype(np.uint8))])
            assert calls == ([int(coins.as_array().sum())] if coins.as_array().any() else [])
            calls.clear()

    def test_down_and_up_in_a_branch(self, device):
        """Data of a branch may come to the CPU, decide there, and go back."""

        def define():
            images = source()
            coin = fn.random.coin_flip(name="coin")
            if coin:
                there = images.cpu()
                if fn.reductions.max(there) > 200:
                    images = mirror(there, vertical=1).gpu()
            return images, coin

        pipe = build(define, enable_conditionals=True)
        for images in IMAGES:
            made, coins = pipe.run()
            flips = [bool(c) and x.max() > 200 for x, c in zip(images, coins.as_array())]
            same(made, [x[::-1, ::-1] if f else x for x, f in zip(images, flips)])

    def test_sides_of_different_kinds(self, device):
        """What the sides are is compared where it was not known before; the message names both."""

        def define():
            images = source()
            if fn.random.coin_flip(name="coin"):
                images = fn.python_function(images, function=lambda x: x.astype(np.float32), output_layouts="HWC")
            return images

        pipe = build(define, enable_conditionals=True)
        with pytest.raises(RuntimeError, match=r"float32.*uint8|uint8.*float32"):
            _ = [pipe.run() for _ in range(8)]


class TestMemory:
    """Where samples lie, and for how long."""

    def test_nothing_is_allocated_after_the_first_batches(self, device):
        """With sufficient hints ragged batches of ever new sizes fit from the start, on the device and in pinned memory.

        When a batch is made ahead depends on the threads: then the most that two batches at once need is the limit.
        """
        sizes = np.random.default_rng(5)
        hint = 40 * 40 * 3

        def image():
            return np.zeros((*sizes.integers(1, 41, 2), 3), np.uint8)

        def define():
            images = fn.external_source(image, batch=False, layout="HWC", bytes_per_sample_hint=hint)
            flipped = mirror(images.gpu(), bytes_per_sample_hint=hint)
            made = fn.python_function(
                flipped, function=lambda x: x + 1, output_layouts="HWC", bytes_per_sample_hint=hint
            )
            return mirror(made, bytes_per_sample_hint=hint), made.cpu()

        def counts_of(**options):
            pipe = build(define, batch_size=16, **options)
            counts = []
            for _ in range(40):
                pipe.run()
                told = pipe.executor_statistics()["gpu"]
                counts.append((told["allocations"], told["pinned_allocations"]))
            return counts

        alone = counts_of(exec_async=False, exec_pipelined=False)
        assert alone[-1] == (device.counts["allocate"], device.counts["pinned"])
        assert alone[4:] == [alone[4]] * len(alone[4:])
        assert all(ahead <= 2 * one for ahead, one in zip(counts_of()[-1], alone[-1]))

    def test_without_hints_memory_grows_by_half(self, device):
        """Batches that grow are served, by ever fewer allocations."""

        def define():
            images = fn.external_source(
                lambda info: np.full((8 * (info.idx_in_epoch // 4) + 64, 64, 3), info.idx_in_batch, np.uint8),
                batch=False,
                batch_info=False,
                layout="HWC",
            )
            return mirror(mirror(images.gpu()), vertical=1)

        pipe, counts = build(define), []
        for batch in range(30):
            (made,) = pipe.run()
            same(made, [np.full((8 * batch + 64, 64, 3), k, np.uint8) for k in range(4)])
            counts.append(device.counts["allocate"])
        assert counts[-1] - counts[15] < counts[15] - counts[0]

    def test_batches_are_kept_untouched(self, device):
        """Whoever keeps one sample, a tensor of the batch or its DLPack capsule keeps its memory."""
        pipe = build(lambda: mirror(source()))
        kept = []
        for _ in IMAGES:
            (batch,) = pipe.run()
            kept.append((batch[2], np.from_dlpack(batch[3]), batch[1].as_array()))
        device.finish_all()
        for (sample, array, other), images in zip(kept, IMAGES):
            np.testing.assert_array_equal(np.asarray(sample.as_cpu()), images[2][:, ::-1])
            np.testing.assert_array_equal(array, images[3][:, ::-1])
            np.testing.assert_array_equal(other, images[1][:, ::-1])

    def test_a_device_that_is_full(self, device):
        """The error names the operator; what others let go of is enough to go on with."""
        pipe = build(lambda: mirror(source()), exec_async=False, exec_pipelined=False)
        for _ in range(3):
            pipe.run()
        device.limit = device.used
        kept = []
        with pytest.raises(MemoryError, match=r"has no .* bytes left") as caught:
            kept.extend(pipe.run()[0] for _ in range(10))
        notes = "\n".join(caught.value.__notes__)
        assert "in fn." in notes
        assert "test_device_pipelines.py" in notes
        assert kept
        kept.clear()
        del caught
        for _ in range(4):
            assert len(pipe.run()[0]) == 4

    def test_idle_blocks_go_to_whoever_needs_them(self, device):
        """Before a full device is an error, blocks that nobody uses are given back."""
        pool = DevicePool(device)
        idle = pool.take(1, 1_000_000, device.computing)
        del idle
        device.limit = device.used
        used = pool.take(2, 1_000_000, device.computing)
        assert (pool.allocations, pool.reserved, device.used) == (2, used.block.nbytes, used.block.nbytes)
        with pytest.raises(MemoryError):
            pool.take(1, 1_000_000, device.computing)

    def test_a_block_that_did_not_fit_is_not_asked_for_again(self, device):
        """After a batch that is too large, the blocks are as large as the next batches need."""
        pool = DevicePool(device)
        pool.take(1, 100_000, device.computing)
        device.limit = 1_000_000
        with pytest.raises(MemoryError):
            pool.take(1, 2_000_000, device.computing)
        assert pool.take(1, 100_000, device.computing).block.nbytes < 110_000

    def test_room_for_growth_is_left_out_where_there_is_none(self, device):
        """Blocks of results and the memory between steps are as large as asked if no more is there."""
        pool = DevicePool(device)
        pool.take(1, 600_000, device.computing)
        device.limit = 1_000_000
        assert pool.take(1, 990_000, device.computing).block.nbytes == 990_000
        arena = DeviceArena(pool, 0)
        for _ in range(3):
            arena.begin()
            for _ in range(2):
                assert arena.take(450_048)


class TestPipelines:
    """A GPU pipeline is a pipeline."""

    def test_kernels_are_compiled_when_it_is_built(self, device):
        """Those that are known from the types of the inputs; the others when their first sample comes."""

        def define(**known):
            images = fn.external_source(IMAGES, layout="HWC", **known).gpu()
            return mirror(images, vertical=fn.random.coin_flip())

        build(lambda: define()).build()
        assert device.prepared == []
        build(lambda: define(dtype=types.UINT8, ndim=3)).build()
        assert device.prepared == ["mirror.cu:mirror<uint8>"]
        assert device.counts["launch"] == device.counts["allocate"] == 0

    def test_it_is_saved_and_measured(self, device):
        """The graph as JSON keeps the devices; memory statistics count samples on the device."""

        def define():
            images = fn.external_source(name="images", layout="HWC")
            return mirror(images.gpu(), name="there").cpu()

        text = build(define).serialize()
        pipe = Pipeline.deserialize(text, enable_memory_stats=True)
        pipe.feed_input("images", IMAGES[0])
        pipe.feed_input("images", IMAGES[1])
        same(pipe.run()[0], [x[:, ::-1] for x in IMAGES[0]])
        assert pipe.device_id == 0
        sizes = pipe.executor_statistics()["there"]
        assert sizes["real_memory_size"] == [sum(x.nbytes for x in IMAGES[0])]

    def test_text_and_mixtures_stay_on_their_side(self, device):
        """Text cannot go to the GPU, and operators do not read from both sides."""
        with pytest.raises(ValueError, match=r"a GPU operator cannot read input 0, which is on the CPU: use \.gpu\(\)"):
            build(lambda: mirror(fn.external_source(IMAGES), device="gpu"))
        with pytest.raises(ValueError, match=r"a CPU operator cannot read input 0, which is on the GPU: use \.cpu\(\)"):
            build(lambda: mirror(source(), device="cpu"))
        pipe = build(lambda: fn.external_source(name="images"))
        (there,) = build(lambda: fn.copy(fn.external_source([[x[:4] for x in IMAGES[0]]]).gpu())).run()
        with pytest.raises(TypeError, match="is on the GPU, and a CPU array is needed here"):
            pipe.feed_input("images", there)

    def test_text_of_an_unknown_type(self, device):
        """Whose type is known only when it is there is refused with the reason."""
        pipe = build(lambda: fn.external_source(lambda: ["a", "b"]).gpu())
        with pytest.raises(
            TypeError, match="the data is text, and str and bytes stay on the CPU: encode it as numbers"
        ):
            pipe.run()

    def test_a_source_for_the_device(self, device):
        """external_source(device="gpu") takes CPU data there; it is fed by its name as any other."""

        def define():
            images = fn.external_source(name="images", device="gpu", layout="HWC")
            numbers, more = fn.external_source(lambda: (np.arange(4), np.ones(4)), num_outputs=2, device="gpu")
            return mirror(images), numbers, more.cpu()

        pipe = build(define)
        for images in IMAGES[:3]:
            pipe.feed_input("images", images)
        for images in IMAGES[:3]:
            made, numbers, more = pipe.run()
            same(made, [x[:, ::-1] for x in images])
            assert more.as_array().tolist() == [1.0] * 4
            np.testing.assert_array_equal(numbers.as_cpu().as_array(), np.arange(4))

    def test_its_stream(self, device):
        """output_stream() is the handle of the stream that outputs are made on."""
        assert build(lambda: mirror(source())).output_stream() == device.computing.ptr
        assert build(lambda: fn.external_source(IMAGES)).output_stream() is None

    def test_a_debug_run_needs_no_gpu(self):
        """debug=True runs everything on the CPU, with the same numbers."""
        pipe = pipeline_def(lambda: mirror(source()), debug=True, batch_size=4, num_threads=1, device_id=0)()
        for one, other in zip(pipe.run()[0].samples(), IMAGES[0], strict=True):
            np.testing.assert_array_equal(one, other[:, ::-1])

    def test_a_checkpoint(self, device):
        """A pipeline that goes on from a checkpoint gives what the first one gives."""

        def define():
            images = fn.external_source(lambda info: IMAGES[info.iteration % 8][info.idx_in_batch], batch=False)
            return mirror(images.gpu(), vertical=fn.random.coin_flip(name="coin"))

        first = build(define, enable_checkpointing=True)
        for _ in range(3):
            first.run()
        saved = first.checkpoint()
        expected = [[np.asarray(x) for x in first.run()[0].as_cpu()] for _ in range(3)]
        second = build(define, checkpoint=saved, enable_checkpointing=True)
        for images in expected:
            same(second.run()[0], images)

    def test_two_pipelines_at_once(self, device):
        """Each has its own order, memory and results."""
        first, second = build(lambda: mirror(source())), build(lambda: mirror(source(), horizontal=0, vertical=1))
        for images in IMAGES:
            (a,), (b,) = first.run(), second.run()
            same(b, [x[::-1] for x in images])
            same(a, [x[:, ::-1] for x in images])

    def test_the_last_batch_is_smaller(self, device):
        """Batches of any size up to the largest."""
        batches = [IMAGES[0], IMAGES[1][:3], IMAGES[2][:1]]
        pipe = build(lambda: mirror(fn.external_source(batches, layout="HWC").gpu()))
        for images in batches:
            same(pipe.run()[0], [x[:, ::-1] for x in images])
        with pytest.raises(StopIteration):
            pipe.run()

    def test_epochs_and_policies(self, device):
        """Pipeline.epoch() walks batches on the device, also a last one that is cut."""
        pipe = build(lambda: mirror(fn.external_source([IMAGES[0], IMAGES[1][:2]], layout="HWC").gpu()))
        for _ in range(2):
            assert [len(batch[0]) for batch in pipe.epoch()] == [4, 2]

    def test_arguments_from_the_cpu(self, device):
        """Named arguments are columns on the CPU; one on the GPU is an error that says .cpu()."""
        with pytest.raises(ValueError, match=r"argument 'vertical' is on the GPU; .* use .cpu\(\)") as caught:
            build(lambda: mirror(source(), vertical=fn.random.coin_flip().gpu()))
        assert any("test_device_pipelines.py" in note for note in caught.value.__notes__)

    def test_samples_that_cannot_be_planned(self, device):
        """A wrong argument is that sample's failure: its number and source are named, and others may go on."""
        wrong = [np.zeros(1 + (k == 2), np.int32) for k in range(4)]

        def define(rule):
            return lambda: mirror(source(), vertical=fn.external_source([wrong] * 8), on_error=rule).cpu()

        with pytest.raises(ValueError, match="argument 'vertical': must be one number per sample") as caught:
            build(define("raise")).run()
        assert "sample 2 of batch 0" in "\n".join(caught.value.__notes__)
        flipped = [x[:, ::-1] for x in IMAGES[0]]
        pipe = build(define("skip"))
        same(pipe.run()[0], [*flipped[:2], flipped[3]])
        (failure,) = pipe.failures()
        assert (failure.sample, failure.operator) == (2, "fn._mirror")
        same(build(define("replace")).run()[0], [*flipped[:2], flipped[3], flipped[3]])
        given = np.full((2, 2, 3), 9, np.uint8)
        same(build(define(given)).run()[0], [*flipped[:2], given, flipped[3]])

    def test_a_value_for_the_whole_row(self, device):
        """The pipeline's rule gives the outputs of a row, those on the device too."""
        given = np.full((2, 2, 3), 9, np.uint8)
        wrong = [np.zeros(1 + (k == 2), np.int32) for k in range(4)]

        def define():
            images = source()
            return mirror(images, vertical=fn.external_source([wrong] * 8)), images.cpu()

        made, back = build(define, on_error=lambda _: (given, given)).run()
        same(made, [*[x[:, ::-1] for x in IMAGES[0][:2]], given, IMAGES[0][3][:, ::-1]])
        same(back, [*IMAGES[0][:2], given, IMAGES[0][3]])

    def test_replaced_rows_are_whole(self, device):
        """What is made on the device, sent back or looked at as a batch is of the new sample everywhere."""

        def picky(x):
            if x[0, 0, 0] == IMAGES[0][1][0, 0, 0]:
                raise ValueError("this one")
            return x

        def total(xs):
            return [x + np.uint8(sum(len(y) for y in xs)) for x in xs]

        def define():
            images = source()
            back = mirror(images).cpu()
            summed = fn.python_function(images, function=total, batch_processing=True)
            checked = fn.python_function(back, function=lambda x: picky(x[:, ::-1]), on_error="replace")
            return images, back, summed.cpu(), mirror(fn.copy(checked.gpu())).cpu()

        images, back, summed, checked = build(define).run()
        expected = [IMAGES[0][row] for row in (0, 2, 2, 3)]
        same(images, expected)
        same(back, [x[:, ::-1] for x in expected])
        same(summed, total(expected))
        same(checked, [x[:, ::-1] for x in expected])

    def test_functions_on_the_device_that_replace(self, device):
        """The copies to the CPU of a function's results are those of the new samples, and so are given values."""

        def picky(x):
            if len(x) == 5:
                raise ValueError("five rows")
            return x + 1

        def define(rule):
            made = fn.python_function(source(), function=picky, on_error=rule)
            return made, made.cpu(), mirror(made).cpu()

        expected = [x + 1 for x in IMAGES[0]]
        expected[1] = expected[2]
        for batch, rows in zip(build(lambda: define("replace")).run(), (1, 1, -1)):
            same(batch, [x[:, ::rows] for x in expected])
        given = np.full((2, 2, 3), 9, np.uint8)
        expected[1] = given
        for batch, rows in zip(build(lambda: define(given)).run(), (1, 1, -1)):
            same(batch, [x[:, ::rows] for x in expected])

    def test_empty_samples(self, device):
        """Extents of 0 are no special case."""
        short = [np.zeros((4, 4, 3), np.uint8), np.zeros((2, 4, 3), np.uint8), np.zeros((0, 4, 3), np.uint8)]
        (made,) = build(lambda: mirror(fn.external_source([short], layout="HWC").gpu()), batch_size=3).run()
        same(made, short)


class TestHandOver:
    """TensorListGPU and TensorGPU."""

    def test_what_a_batch_tells(self, device):
        """Sizes, types, layout, indexing, and its copy on the CPU."""
        (batch,) = build(lambda: mirror(source())).run()
        assert isinstance(batch, TensorListGPU)
        assert (len(batch), batch.ndim, batch.layout(), batch.device_id()) == (4, 3, "HWC", 0)
        assert batch.shape() == [x.shape for x in IMAGES[0]]
        assert not batch.is_dense_tensor()
        assert isinstance(batch[-1], TensorGPU)
        assert batch.at(1).shape() == list(IMAGES[0][1].shape)
        assert batch[1].layout() == batch[1].get_property("layout") == "HWC"
        with pytest.raises(IndexError, match="TensorListGPU index out of range: there is no sample 4 in a batch of 4"):
            batch[4]
        with pytest.raises(RaggedBatch, match="different shapes"):
            batch.as_tensor()
        assert "TensorListGPU(num_samples=4" in repr(batch)
        assert "TensorGPU(shape=(4, 5, 3)" in repr(batch[0])
        np.testing.assert_array_equal(batch[0].as_cpu().array, IMAGES[0][0][:, ::-1])

    def test_a_dense_batch_is_not_copied(self, device):
        """Equal samples lie side by side, whatever their size: as_tensor() is where they are."""
        rows = [[np.arange(3, dtype=np.uint8) + k for k in range(4)]]
        pipe = build(lambda: fn.copy(fn.external_source(rows).gpu()))
        (batch,) = pipe.run()
        assert batch.as_tensor().data_ptr() == batch[0].data_ptr()
        assert batch.as_tensor().shape() == [4, 3]
        whole = np.from_dlpack(batch)
        device.finish_all()
        np.testing.assert_array_equal(whole, np.stack(rows[0]))

    def test_samples_from_several_places_are_joined(self, device):
        """A merged batch of equal shapes becomes one tensor by a copy on the device."""
        equal = [[x[:4] for x in images] for images in IMAGES]

        def define():
            images = fn.external_source(equal, layout="HWC").gpu()
            if fn.random.coin_flip(name="coin"):
                images = mirror(images)
            return images, images.cpu()

        pipe = build(define, enable_conditionals=True)
        for _ in equal:
            joined, back = pipe.run()
            np.testing.assert_array_equal(joined.as_cpu().as_array(), back.as_array())
            np.testing.assert_array_equal(np.from_dlpack(joined), back.as_array())

    def test_the_array_interface(self, device):
        """Version 3, with the stream that the consumer must wait for."""
        (batch,) = build(lambda: mirror(source())).run()
        interface = batch[0].__cuda_array_interface__
        assert interface["version"] == 3
        assert interface["stream"] == device.computing.ptr
        assert interface["shape"] == (4, 5, 3)
        assert interface["typestr"] == "|u1"
        assert interface["strides"] is None
        assert interface["data"] == (batch[0].data_ptr(), False)

    def test_streams_of_dlpack(self, device):
        """None and 1 are the legacy default stream, 2 the thread's, -1 nobody's; 0 is refused."""
        (batch,) = build(lambda: mirror(source())).run()
        waited = []
        device.wait = lambda stream, event: waited.append(stream)
        consumer = device.stream("consumer")
        for stream in (None, 1, 2, -1, consumer.ptr):
            batch[0].__dlpack__(stream=stream)
        assert waited == [device.legacy, device.legacy, device.per_thread, consumer]
        with pytest.raises(ValueError, match="stream 0 is ambiguous"):
            batch[0].__dlpack__(stream=0)

    def test_batches_of_the_users_arrays(self, device):
        """Arrays on the device become a batch; arrays on the CPU, and mixtures, are refused with what to do."""
        there = [fake_device.fake(x) for x in IMAGES[0]]
        batch = TensorListGPU(there, "HWC")
        assert (len(batch), batch.layout(), batch.shape()[0]) == (4, "HWC", (4, 5, 3))
        assert batch[0].as_array() is there[0]
        assert len(TensorListGPU(fake_device.fake(np.zeros((5, 2))))) == 5
        with pytest.raises(TypeError, match="ndarray is in CPU memory, and a batch on the GPU takes arrays on the GPU"):
            TensorListGPU([there[0], IMAGES[0][1]])
        with pytest.raises(TypeError, match="ndarray is in CPU memory"):
            TensorGPU(IMAGES[0][0])
        with pytest.raises(TypeError, match="a batch has one type"):
            TensorListGPU([there[0], there[1].astype(np.float32)])
        with pytest.raises(ValueError, match="a batch has one number of axes"):
            TensorListGPU([there[0], there[1][0]])
        with pytest.raises(TypeError, match="a batch has one layout: that of sample 0 is 'HWC'"):
            TensorListGPU([TensorGPU(there[0], "HWC"), there[1], TensorGPU(there[2], "CHW")])
        with pytest.raises(ValueError, match="layout 'HW' has 2 axes"):
            TensorGPU(there[0], "HW")


class TestMistakes:
    """What goes wrong is said with the operator and the user's line."""

    def test_an_asynchronous_error_is_pinned_to_its_operator(self, device, monkeypatch):
        """PIPEFLOW_SYNC=1 waits after every operator, so the one whose kernel failed is named."""

        def launcher(kernel, grid, threads, rows, first, count):
            (row,) = fake_device.at(rows, (1,), fake_device.MIRROR_ROW)
            if row["vertical"]:
                raise RuntimeError("an illegal memory access was encountered")
            fake_device.by_numpy(kernel, grid, threads, rows, first, count)

        device.launcher = launcher

        def define():
            flipped = mirror(source(), name="fine")
            return mirror(mirror(flipped, vertical=1, name="broken"), name="later")

        monkeypatch.setenv("PIPEFLOW_SYNC", "1")
        with pytest.raises(RuntimeError, match="illegal memory access") as caught:
            build(define).run()
        assert "in fn._mirror 'broken'" in "\n".join(caught.value.__notes__)

    def test_after_a_fork(self, device):
        """A device that cannot be used any more says why; nothing hangs."""
        pipe = build(lambda: mirror(source()), exec_async=False, exec_pipelined=False)
        pipe.run()
        device.broken = "CUDA was initialised in process 1, and this one (2) was forked from it"
        with pytest.raises(InvalidState, match="was forked from it"):
            pipe.run()

    def test_the_reasons_of_the_probe(self, monkeypatch):
        """A process that was forked after CUDA began is told so, with both numbers."""
        monkeypatch.setattr(backends.gpu, "_initialised", [os.getpid() + 1])
        reason = backends.gpu.why_not(0)
        assert f"initialised in process {os.getpid() + 1}" in reason
        assert str(os.getpid()) in reason
        assert "spawn or forkserver" in reason

    def test_an_error_does_not_end_the_pipeline(self, device):
        """A failing batch is consumed; the next ones come."""
        calls = []

        def sometimes(x):
            calls.append(1)
            if len(calls) == 2:
                raise ValueError("the second")
            return x

        pipe = build(lambda: mirror(fn.python_function(source(), function=sometimes, output_layouts="HWC")))
        with pytest.raises(ValueError, match="the second"):
            pipe.run()
        for images in IMAGES[1:]:
            same(pipe.run()[0], [x[:, ::-1] for x in images])

    def test_threads_that_let_go(self, device):
        """Batches may be collected in any thread, while others are made."""
        pipe = build(lambda: mirror(source()), num_threads=3)
        box = []
        for images in IMAGES * 3:
            box.append(pipe.run()[0])
            thread = threading.Thread(target=box.clear if len(box) > 2 else len, args=() if len(box) > 2 else (box,))
            same(box[-1], [x[:, ::-1] for x in images])
            thread.start()
            thread.join()
