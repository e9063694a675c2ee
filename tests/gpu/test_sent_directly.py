"""Results of CPU stages that only go to the device are made in page-locked memory, and copied from where they are."""

import numpy as np
import pytest
from fake_device import mirror
from helpers import chains_counted

from pipeflow import fn, pipeline_def
from pipeflow.executor.device import work
from pipeflow.executor.device.device import SendingPool
from pipeflow.kernels.cpu import kernel_calls
from pipeflow.tensors import TensorCPU

rng = np.random.default_rng(1)
EQUAL = [rng.integers(0, 255, (150, 160, 3), np.uint8) for _ in range(4)]
RAGGED = [rng.integers(0, 255, (150 + 7 * k, 160 - k, 3), np.uint8) for k in range(4)]


def build(define, **options):
    """A pipeline on the device."""
    options = {"batch_size": 4, "num_threads": 2, "device_id": 0, "seed": 3, **options}
    return pipeline_def(define, **options)()


def same(batch, images):
    """A batch has these samples."""
    for one, image in zip(batch.as_cpu().samples(), images, strict=True):
        np.testing.assert_array_equal(one, image)


@pytest.fixture
def staged(monkeypatch):
    """The numbers of samples that are copied to staging memory."""
    seen = []
    copy_all = work.copy_all
    monkeypatch.setattr(work, "copy_all", lambda pairs: seen.append(len(pairs)) or copy_all(pairs))
    return seen


def negative(x):
    """The negative of an image."""
    return 255 - x


STAGES = {
    "a source": lambda images: (fn.external_source(lambda: images, layout="HWC"), images),
    "operators": lambda images: (
        fn.flip(fn.external_source(lambda: images, layout="HWC"), vertical=1),
        [x[::-1, ::-1] for x in images],
    ),
    "a function, in turn": lambda images: (
        fn.python_function(fn.external_source(lambda: images, layout="HWC"), function=negative, output_layouts="HWC"),
        [255 - x for x in images],
    ),
    "a function in threads": lambda images: (
        fn.python_function(
            fn.external_source(lambda: images, layout="HWC"),
            function=negative,
            output_layouts="HWC",
            parallel="threads",
        ),
        [255 - x for x in images],
    ),
    "an operator on the batch": lambda images: (
        fn.permute_batch(
            fn.external_source(lambda: images, layout="HWC") + np.uint8(0), indices=list(range(len(images)))[::-1]
        ),
        images[::-1],
    ),
    "arithmetic": lambda images: (
        fn.external_source(lambda: images, layout="HWC") + np.uint8(1),
        [x + np.uint8(1) for x in images],
    ),
}
FROM_THE_POOL = [name for name in STAGES if name != "an operator on the batch"]  # its results are views


@pytest.mark.parametrize("images", [EQUAL, RAGGED], ids=["equal", "ragged"])
@pytest.mark.parametrize("stage", STAGES)
def test_results_of_every_kind_of_stage(device, staged, stage, images):
    """Are right, and those that a stage puts into its own memory need no staging memory."""
    expected = STAGES[stage](images)[1]
    pipe = build(lambda: mirror(STAGES[stage](images)[0].gpu(), horizontal=0))
    for _ in range(6):
        same(pipe.run()[0], expected)
    assert bool(staged) == (stage not in FROM_THE_POOL)


CHAINS = {
    "shapes of the samples": lambda x: fn.brightness(fn.flip(x), brightness=0.5),
    "one shape": lambda x: fn.brightness(fn.crop(x, crop=(144, 156)), brightness=0.5),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("images", [EQUAL, RAGGED], ids=["equal", "ragged"])
@pytest.mark.parametrize("chain", CHAINS)
def test_results_of_chains(device, staged, monkeypatch, chain, images, threads):
    """Compiled code writes them into page-locked memory, of which one copy is made if the samples follow one another there."""
    monkeypatch.setenv("PIPEFLOW_START", "wait")
    kernel_calls.load()
    expected = [CHAINS[chain](TensorCPU(image, "HWC")) for image in images]
    with chains_counted(monkeypatch) as done:
        pipe = build(
            lambda: CHAINS[chain](fn.external_source(lambda: images, layout="HWC")).gpu(),
            num_threads=threads,
            prefetch_queue_depth=1,
        )
        for _ in range(6):
            same(pipe.run()[0], expected)
    assert sorted(done) == [0, 1, 2, 3]
    assert not staged
    pipe._executor.close()
    uploads = device.counts["upload"]
    if images is EQUAL or chain == "one shape":
        assert uploads <= 9 + 4 * (chain != "one shape")  # in the first batch the shapes are not known to be equal


def test_equal_samples_are_one_copy(device):
    """They follow one another in the memory of the batch."""
    pipe = build(lambda: fn.external_source(lambda: EQUAL, layout="HWC").gpu())
    for _ in range(3):
        same(pipe.run()[0], EQUAL)
    pipe._executor.close()
    assert device.counts["upload"] == pipe.executor_statistics()["gpu"]["uploads"] <= 6


def test_small_samples_go_through_staging_memory(device, staged):
    """A copy of each would take longer."""
    images = [np.full((3 + k, 4, 3), k, np.uint8) for k in range(4)]
    pipe = build(lambda: fn.external_source(lambda: images, layout="HWC").gpu())
    same(pipe.run()[0], images)
    assert set(staged) == {4}


def test_an_output_that_the_user_gets_too(device, staged):
    """Is not copied from where it is: the user may write to it at once."""

    def define():
        images = fn.external_source(lambda: EQUAL, layout="HWC") + np.uint8(1)
        return images, images.gpu()

    pipe = build(define, exec_async=False, exec_pipelined=False)
    for _ in range(3):
        here, there = pipe.run()
        here.as_array()[...] = 0
        same(there, [x + np.uint8(1) for x in EQUAL])
    assert set(staged) == {4}


def test_page_locked_memory_does_not_grow(device):
    """Ragged batches of ever new sizes are cut out of blocks of one size."""
    sizes = np.random.default_rng(5)

    def image():
        return np.full((*sizes.integers(100, 300, 2), 3), 7, np.uint8)

    def counts_of(**options):
        pipe = build(lambda: (fn.external_source(image, batch=False, layout="HWC") + np.uint8(1)).gpu(), **options)
        counts, before = [], device.counts["pinned"]
        for _ in range(60):
            pipe.run()
            counts.append(device.counts["pinned"] - before)
        return counts

    alone = counts_of(exec_async=False, exec_pipelined=False)
    assert alone[-1] == alone[30]
    # When batches are first made ahead depends on the threads, and with them the memory that is needed at once.
    assert counts_of()[-1] <= 3 * alone[-1]


def test_blocks_of_one_size(device):
    """Arrays share a block until it is full; larger blocks replace small ones when many are needed, or one array needs them."""
    pool = SendingPool(device)
    whole = SendingPool.FIRST
    held = [pool.take(whole // 2) for _ in range(4)]
    assert (pool.allocations, pool.reserved) == (2, 2 * whole)
    del held
    held = [pool.take(whole // 2) for _ in range(4)]
    assert pool.allocations == 2
    held += [pool.take(whole) for _ in range(3)]  # the third does not fit into four blocks of the first size
    assert (pool.allocations, pool.reserved) == (5, 4 * whole + 2 * whole)
    large = pool.take(5 * whole)
    assert len(large) == 5 * whole
    del held, large
    pool.take(5 * whole)
    again = pool.take(whole)
    assert (pool.allocations, len(again)) == (6, whole)
    assert pool.reserved == 5 * whole


def test_with_hints_the_memory_is_there_after_build(device):
    """On both sides of the copy, and the staging memory is not made for these samples."""
    hint = 200 * 200 * 3
    pipe = build(lambda: fn.external_source(lambda: RAGGED, layout="HWC", bytes_per_sample_hint=hint).gpu())
    pipe.build()
    before = dict(device.counts)
    for _ in range(12):
        same(pipe.run()[0], RAGGED)
    assert device.counts["allocate"] == before["allocate"] == 4
    assert device.counts["pinned"] == before["pinned"] == 4
