"""Transposing on the GPU, through planes of pixels and tiles in shared memory, gives on the host what NumPy gives."""

import ctypes

import numpy as np
import pytest
from host_device import ON_GPU, HostMemory, assert_same, call_of, library, on_host

from pipeflow import fn
from pipeflow.device.calls import DeviceCall, View
from pipeflow.operators.on_gpu.moves import box_of, move, strides_of

DTYPES = [np.uint8, np.uint16, np.uint32, np.float64]
HWC_TO_CHW, CHW_TO_HWC = (2, 0, 1), (1, 2, 0)


def numbers(shape, dtype=np.uint8, seed=0):
    """Random numbers, all bytes of which differ."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8).view(dtype)[..., 0]


def launched(batch, perm):
    """The kernels that transpose a batch; the results are compared with those of the CPU."""
    assert_same(lambda: fn.transpose(batch, perm=perm))
    launches: list[str] = []
    on_host(call_of(lambda: fn.transpose(batch, perm=perm)), launches)
    return {name.partition(":")[2].partition("<")[0] for name in launches if name.startswith("transpose.cu")}


@pytest.mark.parametrize("dtype", DTYPES)
def test_pixels_and_planes(dtype):
    """HWC to CHW and back: groups of four pixels, the pixels after them, and images of several blocks."""
    sizes = [(8, 8), (5, 7), (3, 2), (65, 64)]
    assert launched([numbers((*size, 3), dtype) for size in sizes], HWC_TO_CHW) == {"split_pixels"}
    assert launched([numbers((3, *size), dtype) for size in sizes], CHW_TO_HWC) == {"join_pixels"}


@pytest.mark.parametrize("dtype", DTYPES)
def test_tiles(dtype):
    """Whole tiles, tiles at both edges, and several tiles a block."""
    sizes = [(64, 64), (65, 131), (70, 300), (300, 40), (16, 17)]
    assert launched([numbers(size, dtype) for size in sizes], (1, 0)) == {"transpose"}


def test_tiles_of_pixels():
    """The rows and columns of RGB images change places; their pixels stay together."""
    launches: list[str] = []
    images = [numbers((*size, 3)) for size in [(64, 64), (33, 66), (70, 135)]]
    assert_same(lambda: fn.transpose(images, perm=(1, 0, 2)))
    on_host(call_of(lambda: fn.transpose(images, perm=(1, 0, 2))), launches)
    assert launches == ["transpose.cu:transpose<Three>"]


def test_axes_around_the_transposed_ones():
    """Frames and further axes outside, inside and between the two, and elements that stay together."""
    clip = numbers((3, 40, 50, 2))
    for perm in [(0, 2, 1, 3), (2, 0, 1, 3), (0, 3, 2, 1), (3, 1, 0, 2), (2, 1, 3, 0)]:
        assert_same(lambda perm=perm: fn.transpose([clip, clip[:, :33, :17].copy()], perm=perm))
    frames = numbers((2, 12, 20, 3), np.float32)
    assert launched([frames, frames[:1].copy()], (0, 3, 1, 2)) == {"split_pixels"}
    assert launched([numbers((2, 3, 12, 20))], (0, 2, 3, 1)) == {"join_pixels"}


def test_small_axes_are_moved_one_by_one():
    """A tile of few columns would be mostly empty."""
    assert launched([numbers((5, 300))], (1, 0)) == set()
    assert launched([numbers((300, 15), np.float32)], (1, 0)) == set()


@pytest.mark.skipif(ON_GPU, reason="writes into the memory of the host")
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize(("shape", "perm"), [((16, 12, 3), HWC_TO_CHW), ((3, 16, 12), CHW_TO_HWC), ((64, 80), (1, 0))])
def test_any_address(shape, perm, dtype):
    """Samples that begin at any element, as those of equal sizes do, on either side."""
    values = numbers(shape, dtype)
    expected = np.ascontiguousarray(values.transpose(perm))
    for before, after in [(0, 1), (1, 0), (2, 3), (3, 3)]:
        memory = HostMemory()
        size = values.dtype.itemsize
        source = memory.upload(np.concatenate([np.zeros(before, dtype), values.ravel()])) + before * size
        target = memory.scratch((values.size + after) * size) + after * size
        inputs = strides_of(values.shape, size)
        box = box_of(View(source, values.shape, values.dtype), View(target, expected.shape, values.dtype))
        box = box._replace(extents=expected.shape, inputs=tuple(inputs[axis] for axis in perm))
        move(DeviceCall(None, [], memory), [box], size)
        assert memory.launches[0].startswith("transpose.cu")
        np.testing.assert_array_equal(memory.array(View(target, expected.shape, values.dtype)), expected)


def conflicts(accesses):
    """The most accesses to one bank of 4 bytes that a warp makes at a time, for different words."""
    worst = 0
    place: dict[tuple[int, int], int] = {}
    requests: dict[tuple[int, int, int, int], dict[int, set[int]]] = {}
    for block, thread, address, size in accesses:
        number = place[block, thread] = place.get((block, thread), -1) + 1
        half = thread % 32 // 16 if size == 8 else 0  # a warp reads 8 bytes a thread in two parts
        banks = requests.setdefault((block, thread // 32, number, half), {})
        for word in range(address // 4, (address + size + 3) // 4):
            banks.setdefault(word % 32, set()).add(word)
            worst = max(worst, len(banks[word % 32]))
    return worst, len(requests)


class SharedAccess(ctypes.Structure):
    """See cuda_on_host.h."""

    _fields_ = [
        ("block", ctypes.c_uint),
        ("thread", ctypes.c_uint),
        ("address", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
    ]


@pytest.mark.skipif(ON_GPU, reason="only the host notes accesses")
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((64, 64), np.uint8),
        ((64, 64), np.uint16),
        ((32, 32), np.float32),
        ((32, 32), np.float64),
        ((64, 64, 3), np.uint8),
    ],
)
def test_no_two_threads_of_a_warp_wait_for_one_bank(shape, dtype):
    """A whole tile is stored to shared memory and read from it with no conflict of banks."""
    built = library("transpose.cu")
    built.noted_shared_accesses.restype = ctypes.POINTER(SharedAccess)
    built.note_shared_accesses(1)
    try:
        assert_same(lambda: fn.transpose([numbers(shape, dtype)], perm=(1, 0, 2)[: len(shape)]))
        count = ctypes.c_size_t()
        found = built.noted_shared_accesses(ctypes.byref(count))
        accesses = [(one.block, one.thread, one.address, one.size) for one in found[: count.value]]
    finally:
        built.note_shared_accesses(0)
    worst, requests = conflicts(accesses)
    assert requests >= 2 * 1024 // 32
    assert worst == 1
