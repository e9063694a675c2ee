"""TensorCPU and TensorListCPU: reading, naming, memory by reference, DLPack, text."""

import ctypes
import gc
import threading

import numpy as np
import pytest

from pipeflow import fn, pipeline_def, types
from pipeflow.backends.cpu import SMALL, Arena, HeapPool, size_class
from pipeflow.tensors import Block, Collector, TensorCPU, TensorListCPU, array_in, slab_size
from pipeflow.tensors.traced import Traced, reshaped

DENSE = np.arange(12, dtype=np.float32).reshape(3, 2, 2)


def ragged():
    """Three samples of different shapes."""
    return TensorListCPU([np.arange(n, dtype=np.int32) for n in (1, 3, 2)], "X")


def test_dense_batch():
    """Every way to read a dense batch."""
    batch = TensorListCPU(DENSE, "HW")
    assert len(batch) == 3
    assert batch.shape() == [(2, 2)] * 3
    assert batch.dtype is types.FLOAT
    assert batch.ndim == 2
    assert batch.ndim() == 2  # DALI's batches have it as a method
    assert batch.layout() == "HW"
    assert batch.is_dense_tensor()
    assert batch.as_array() is DENSE
    assert batch.as_cpu() is batch
    assert np.shares_memory(batch.at(1), DENSE)
    assert isinstance(batch[1], TensorCPU)
    assert [tensor.array.tolist() for tensor in batch] == DENSE.tolist()
    assert batch.data_ptr() == DENSE.ctypes.data
    tensor = batch.as_tensor()
    assert tensor.shape() == [3, 2, 2]
    assert tensor.layout() == "NHW"
    assert batch.as_reshaped_tensor((12,)).shape() == [12]


def test_ragged_batch():
    """Samples of different shapes."""
    batch = ragged()
    assert batch.shape() == [(1,), (3,), (2,)]
    assert not batch.is_dense_tensor()
    with pytest.raises(RuntimeError, match=r"different shapes \(\(1,\), \(2,\), \(3,\)\)"):
        batch.as_array()
    with pytest.raises(ValueError, match="pad or crop"):
        batch.as_tensor()


def test_a_table_of_equal_shapes_becomes_dense_once():
    """as_array makes the block and keeps it: afterwards samples are views of it."""
    batch = TensorListCPU([np.zeros(3), np.ones(3)])
    array = batch.as_array()
    assert batch.as_array() is array
    assert np.shares_memory(batch.at(1), array)


@pytest.mark.parametrize("index", [-1, -3, 0, 2])
def test_indices(index):
    """Negative indices count from the end."""
    batch = TensorListCPU(DENSE)
    np.testing.assert_array_equal(batch.at(index), DENSE[index])
    np.testing.assert_array_equal(batch[index].array, DENSE[index])


@pytest.mark.parametrize("index", [3, -4, 100])
def test_index_out_of_range(index):
    """An error that is both an IndexError and DALI's RuntimeError."""
    for error in (IndexError, RuntimeError):
        with pytest.raises(
            error, match=f"TensorListCPU index out of range: there is no sample {index} in a batch of 3"
        ):
            TensorListCPU(DENSE).at(index)


@pytest.mark.parametrize(
    "part", [slice(0, 2), slice(None, None, 2), slice(None, None, -1), slice(-2, None), slice(3, 3)], ids=str
)
@pytest.mark.parametrize("table", [False, True])
def test_a_slice_is_a_batch(part, table):
    """Every kind of slice, of dense and of ragged batches: the samples, their layout and sources."""
    samples = [np.full((2, i + 1) if table else (2, 3), i, np.float32) for i in range(4)]
    batch = TensorListCPU(samples if table else np.stack(samples), "HW", source_info=list("abcd"))
    chosen = batch[part]
    assert isinstance(chosen, TensorListCPU)
    assert [sample.tolist() for sample in chosen.samples()] == [sample.tolist() for sample in samples[part]]
    assert (chosen.layout(), chosen.dtype, chosen.source_info()) == ("HW", types.FLOAT, list("abcd")[part])
    if not table:
        assert chosen.as_array().tolist() == np.stack(samples)[part].tolist()


def test_an_index_is_a_number_or_a_slice():
    """Anything else is refused by name."""
    for index in (1.5, "a", None, (0, 1), [0]):
        with pytest.raises(TypeError, match=r"an integer \(one sample\) or a slice \(several\)"):
            TensorListCPU(DENSE)[index]


def test_tensors_from_dlpack():
    """One array as a tensor, or as a batch whose first axis is the samples; without a copy."""
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor, batch = TensorCPU.from_dlpack(data, "XY"), TensorListCPU.from_dlpack(data.__dlpack__(), "X")
    assert (tensor.layout(), batch.layout(), len(batch)) == ("XY", "X", 2)
    assert np.shares_memory(tensor.array, data)
    assert np.shares_memory(batch.at(1), data)


@pytest.mark.parametrize("shape", [(), (3,), (50, 60, 3), (3, 50, 60, 3), (2, 3, 4, 5, 6), (0, 3)], ids=str)
def test_a_batch_is_shown_on_one_screen(shape):
    """However many samples and axes: at most thirty lines, of a tensor as well."""
    batch = TensorListCPU(np.zeros((64, *shape)))
    assert len(repr(batch).splitlines()) <= 30
    assert len(repr(batch[0]).splitlines()) <= 30
    assert "num_samples=64" in repr(batch)


def test_scalars_are_zero_dimensional_arrays():
    """A batch of numbers gives arrays, not NumPy scalars."""
    batch = TensorListCPU(np.arange(3))
    assert batch.at(1).shape == ()
    assert isinstance(batch.at(1), np.ndarray)
    assert [sample.shape for sample in batch.samples()] == [()] * 3


def test_mixed_batches_are_refused():
    """One type and one number of axes; the first sample that differs is named."""
    with pytest.raises(TypeError, match="sample 0 is float64 and sample 1 is int64"):
        TensorListCPU([np.zeros(1), np.zeros(1, int)])
    with pytest.raises(ValueError, match="sample 0 has 1 and sample 2 has 2"):
        TensorListCPU([np.zeros(1), np.zeros(1), np.zeros((1, 1))])
    with pytest.raises(TypeError, match="needs at least one axis"):
        TensorListCPU(np.float32(1) * np.ones(()))


def test_layouts():
    """A layout has as many letters as there are axes; it can be set and taken away."""
    batch = TensorListCPU(DENSE)
    batch.set_layout("HW")
    assert batch.layout() == "HW"
    batch.set_layout(None)
    assert batch.layout() == ""
    with pytest.raises(ValueError, match="layout 'HWC' has 3 axes and the data has 2"):
        batch.set_layout("HWC")
    assert TensorListCPU(TensorListCPU(DENSE, "HW")).layout() == "HW"
    with pytest.raises(TypeError, match="must be a string"):
        batch.set_layout(5)


def test_squeeze():
    """Axes of extent 1 go, with their letters."""
    tensor = TensorCPU(np.zeros((1, 2, 1), np.uint8), "HWC")
    assert tensor.squeeze(2)
    assert (tensor.shape(), tensor.layout()) == ([1, 2], "HW")
    assert not tensor.squeeze(1)
    batch = TensorListCPU(np.zeros((2, 1, 3)), "HW")
    assert batch.squeeze()
    assert (batch.shape(), batch.layout()) == ([(3,), (3,)], "W")


def test_reinterpret_and_reset():
    """The same bytes as another type of the same size; reset empties a batch."""
    batch = TensorListCPU(np.ones((2, 2), np.float32))
    batch.reinterpret(types.INT32)
    assert batch.dtype is types.INT32
    assert batch.at(0)[0] == np.float32(1).view(np.int32)
    with pytest.raises(RuntimeError, match="element sizes differ"):
        batch.reinterpret(types.UINT8)
    batch.reset()
    assert len(batch) == 0


def test_copy_to_external():
    """To an address, a ctypes pointer, an array or a buffer."""
    batch = TensorListCPU(DENSE)
    target = np.zeros(12, np.float32)
    batch.copy_to_external(target.ctypes.data)
    assert target.tolist() == list(range(12))
    target[:] = 0
    batch.copy_to_external(ctypes.c_void_p(target.ctypes.data))
    assert target.tolist() == list(range(12))
    memory = bytearray(48)
    batch.copy_to_external(memory)
    assert np.frombuffer(memory, np.float32).tolist() == list(range(12))
    with pytest.raises(ValueError, match="8 bytes and 48 are needed"):
        batch.copy_to_external(np.zeros(2, np.float32))


def test_broadcast():
    """One sample as a batch of itself."""
    batch = TensorListCPU.broadcast(TensorCPU(np.arange(2), "X"), 3)
    assert batch.shape() == [(2,)] * 3
    assert batch.layout() == "X"


def test_tensors_are_arguments():
    """A sample of a batch may be an argument of an operator, as the array that it holds."""
    image = np.zeros((4, 5, 3), np.uint8)
    extents = TensorListCPU([np.array([2.0, 3.0], np.float32)])
    assert fn.resize(image, size=extents[0]).shape == (2, 3, 3)
    assert fn.rotate(image, angle=TensorCPU(np.float32(90)), size=extents[0]).shape == (2, 3, 3)

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def define():
        return fn.resize(image, size=extents[0])

    assert define().run()[0].shape() == [(2, 3, 3)]


def test_the_layout_of_a_list_of_tensors():
    """It is that of the first tensor; one without a layout joins, one with another layout does not."""
    first, other, plain = TensorCPU(DENSE, "ABC"), TensorCPU(DENSE, "XYZ"), TensorCPU(DENSE)
    assert TensorListCPU([first, plain, DENSE, first]).layout() == "ABC"
    assert TensorListCPU([plain, DENSE]).layout() == ""
    assert TensorListCPU([first, first], "DEF").layout() == "DEF"
    for unequal in ([first, other], [plain, other], [DENSE, other]):
        with pytest.raises(TypeError, match=r"a batch has one layout: .* sample 1 is 'XYZ'"):
            TensorListCPU(unequal)


def test_source_info():
    """Known places are told for each sample."""
    batch = TensorListCPU(DENSE, source_info=["a.jpg", "b.jpg", "c.jpg"])
    assert batch.source_info() == ["a.jpg", "b.jpg", "c.jpg"]
    assert batch[1].source_info() == "b.jpg"
    assert batch.get_property("source_info")[2] == "c.jpg"
    assert TensorListCPU(batch).source_info() == TensorListCPU(list(batch), "XY").source_info() == batch.source_info()
    assert TensorListCPU([batch[1], DENSE[0]]).source_info() == ["b.jpg", ""]
    assert TensorListCPU(batch, source_info=["d", "e", "f"]).source_info() == ["d", "e", "f"]
    assert TensorListCPU.broadcast(batch[2], 2).source_info() == ["c.jpg"] * 2
    assert TensorListCPU(DENSE).source_info() == ["", "", ""]
    assert TensorCPU(DENSE).get_property("source_info") is None
    assert TensorCPU(DENSE).get_property("layout") is None
    assert TensorCPU(DENSE, "ABC").get_property("layout") == "ABC"
    with pytest.raises(RuntimeError, match="unsupported property key"):
        batch.get_property("colour")


def test_numpy_without_a_copy():
    """np.asarray sees the memory of tensors and dense batches."""
    assert np.shares_memory(np.asarray(TensorCPU(DENSE)), DENSE)
    assert np.shares_memory(np.asarray(TensorListCPU(DENSE)), DENSE)


@pytest.mark.parametrize("make", [TensorCPU, TensorListCPU, lambda array: TensorListCPU(list(array))])
def test_numpy_array_is_a_copy(make):
    """np.array(x) is the user's own, np.array(x, copy=None) need not be; another type is always a copy."""
    held = make(DENSE.copy())
    dense = held.as_array() if isinstance(held, TensorListCPU) else held.array
    mine = np.array(held)
    assert np.array_equal(mine, DENSE)
    assert not np.shares_memory(mine, dense)
    mine[...] = 99
    assert np.array_equal(dense, DENSE)
    assert np.shares_memory(np.array(held, copy=None), dense)
    assert np.array(held, dtype=np.float64).dtype == np.float64
    # Libraries that know NumPy's protocol, but not the other ones, ask this way.
    assert not np.shares_memory(held.__array__(copy=True), dense)
    assert np.shares_memory(held.__array__(copy=False), dense)
    assert held.__array__(np.float64).dtype == np.float64


def test_dlpack_both_ways():
    """Out to any consumer and in from any producer, without a copy."""
    tensor = TensorCPU(DENSE)
    assert tensor.__dlpack_device__() == (1, 0)
    assert np.shares_memory(np.from_dlpack(tensor), DENSE)
    assert np.shares_memory(np.from_dlpack(TensorListCPU(DENSE)), DENSE)
    batch = TensorListCPU.from_dlpack_list([DENSE[0], DENSE[1].__dlpack__()], layout="HW")
    assert np.shares_memory(batch.at(0), DENSE)
    assert np.shares_memory(batch.at(1), DENSE)
    assert TensorListCPU.from_dlpack_list([DENSE[0], DENSE[1]], contiguous=True).as_array().flags.c_contiguous


def test_repr_shows_values():
    """Values, type, layout, number of samples and shapes, shortened where they are many."""
    text = repr(TensorListCPU(DENSE, "HW"))
    for part in ("[[0. 1.]", "types.FLOAT", 'layout="HW"', "num_samples=3", "(2, 2)"):
        assert part in text
    assert "3, 2)" not in repr(TensorCPU(DENSE[0]))
    assert len(repr(TensorListCPU(np.zeros((1000, 100, 100))))) < 3000
    assert "num_samples=0" in repr(TensorListCPU([]))
    assert "[3, 1, 2]" in repr(TensorListCPU([np.int32(number) for number in (3, 1, 2)]))
    assert "14, 15, ...]" in repr(TensorListCPU(np.arange(100)))


class Lazy:
    """Something with __array__."""

    def __array__(self, dtype=None, copy=None):
        return np.array([1.5, 2.5])


@pytest.mark.parametrize(
    "item", [Lazy(), [1.5, 2.5], (1.5, 2.5), memoryview(np.array([1.5, 2.5])), np.array([1.5, 2.5])]
)
def test_what_becomes_a_tensor(item):
    """__array__, lists, buffers and arrays."""
    assert TensorCPU(item).array.tolist() == [1.5, 2.5]


@pytest.mark.parametrize("dtype", [np.clongdouble, "datetime64[s]", np.longdouble])
def test_types_that_cannot_be(dtype):
    """Unsupported element types list the supported ones."""
    with pytest.raises(TypeError, match="supported are uint8"):
        TensorCPU(np.zeros(1, dtype))


def test_foreign_byte_order_is_converted():
    """Big-endian data keeps its values."""
    assert TensorCPU(np.array([1, 2], ">i4")).array.tolist() == [1, 2]
    assert TensorCPU(np.array([1, 2], ">i4")).dtype is types.INT32


def test_leases_return_memory_when_the_last_view_is_gone():
    """Slices, reshapes, memoryviews and DLPack capsules all hold the block."""
    pool = HeapPool()
    array = pool.empty((SMALL,), np.dtype(np.float32))
    holders = [
        array[5:10],
        array.reshape(-1, 2)[3],
        memoryview(array[1:]),
        array[2:].__dlpack__(),
        np.from_dlpack(array)[1:],
    ]
    address = array.ctypes.data
    del array

    def given():
        return pool.empty((SMALL,), np.dtype(np.float32)).ctypes.data

    while holders:
        assert given() != address
        holders.pop()
    gc.collect()
    one = pool.empty((SMALL,), np.dtype(np.float32))
    assert address in {one.ctypes.data, given()}
    assert pool.allocations == 2


def test_the_pool_never_hands_out_memory_twice():
    """Four threads take, mark, check and drop blocks; nobody sees another's mark."""
    pool, wrong = HeapPool(), []

    def work(mark):
        for turn in range(300):
            array = pool.empty((20_000,), np.dtype(np.int64))
            array[:] = mark * 1000 + turn
            view = array[100:200]
            del array
            if not (view == mark * 1000 + turn).all():
                wrong.append((mark, turn))

    workers = [threading.Thread(target=work, args=(mark,)) for mark in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
    assert pool.allocations <= 8


@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (12,), ()])
def test_an_array_in_a_block_returns_it(shape):
    """The array begins with the block, may be written, and gives the block back with its last view."""
    memory, home = np.zeros(96, np.uint8), []
    block = Block("heap", 96, memory.ctypes.data, memory)
    array = array_in(block, home, shape, np.float64)
    array[...] = 1.0
    assert (array.shape, array.dtype, array.ctypes.data) == (shape, np.float64, block.address)
    assert np.count_nonzero(memory.view(np.float64)) == array.size
    view = array.reshape(-1)[:1]
    del array
    assert not home
    del view
    assert home == [block]


def test_the_pool_can_be_trimmed():
    """Unused blocks go back to the system."""
    pool = HeapPool()
    pool.empty((100_000,), np.dtype(np.uint8))
    assert pool.reserved > 0
    assert pool.trim() == size_class(100_000)
    assert pool.reserved == 0


@pytest.mark.parametrize("nbytes", [1, SMALL, SMALL + 1, 100_000, 1 << 20, (1 << 20) + 1, 123_456_789])
def test_size_classes(nbytes):
    """A class holds the request and wastes at most a quarter."""
    assert nbytes <= size_class(nbytes)
    assert size_class(nbytes) <= max(SMALL, 1.25 * nbytes)
    assert size_class(size_class(nbytes)) == size_class(nbytes)


def test_arena_gives_one_memory_per_slot():
    """The same slot gets the same memory again; it grows when it must."""
    arena = Arena()
    first = arena.empty(1, (10,), np.dtype(np.float32))
    assert arena.empty(1, (10,), np.dtype(np.float32)) is first
    assert np.shares_memory(arena.empty(1, (2, 5), np.dtype(np.int32)), first)
    assert not np.shares_memory(arena.empty(2, (10,), np.dtype(np.float32)), first)
    assert arena.empty(1, (100_000,), np.dtype(np.float64)).shape == (100_000,)
    for size in range(2000):
        arena.empty(3, (size,), np.dtype(np.uint8))


def fresh(nbytes):
    """Memory that nothing else uses."""
    return np.full(nbytes, 0xEE, np.uint8)


@pytest.mark.parametrize("hint", [0, 8, 1000])
@pytest.mark.parametrize(
    "shapes", [[(3,)] * 4, [(1,), (2,), (3,)], [(3,), (3,), (2,)], [(0,), (5,)], [()] * 3, [(2, 0)] * 2]
)
def test_collector_keeps_values(shapes, hint):
    """Dense while the shapes agree, a table otherwise; the values are copies."""
    samples = [np.full(shape, index + 1, np.float32) for index, shape in enumerate(shapes)]
    values = Collector(len(samples), fresh, hint).gather(samples)
    assert isinstance(values, np.ndarray) == (len(set(shapes)) == 1)
    for value, sample in zip(values, samples):
        np.testing.assert_array_equal(value, sample)
        assert not np.shares_memory(value, sample)


def test_a_sufficient_hint_needs_one_slab():
    """Whatever the shapes: one piece of memory is taken."""
    taken = []

    def take(nbytes):
        taken.append(nbytes)
        return fresh(nbytes)

    samples = [np.zeros(n, np.float32) for n in (25, 1, 25, 13)]
    Collector(4, take, 100).gather(samples)
    assert taken == [slab_size(4, 100)]


def test_a_view_of_a_differentiable_result_is_reshaped_as_a_plain_array():
    """Only what has a history keeps it in another shape."""
    view = np.arange(4.0).view(Traced)
    found = reshaped(view, [2, 2])
    assert found.tolist() == [[0, 1], [2, 3]]
    assert reshaped(np.arange(4.0), [4, 1]).shape == (4, 1)


@pytest.mark.parametrize("shape", [(2, 3, 4), (0, 3, 4)])
def test_the_type_of_a_batch_is_that_of_its_array(shape):
    """And the first axis is the samples, also if there are none."""
    batch = TensorListCPU(np.zeros(shape, np.int16))
    assert (batch.dtype, batch.ndim(), len(batch)) == (types.INT16, 2, shape[0])
