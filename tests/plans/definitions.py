"""Pipelines that show what the compiler decides: test_plans.py keeps the plan of each as a text file."""

import numpy as np

from pipeflow import fn, types

IMAGE = {"layout": "HWC", "dtype": np.uint8, "ndim": 3}
JPEG_FILES = ["cat.jpg", "dog.jpg"]


def images():
    return [np.zeros((20, 30, 3), np.uint8)] * 2


def numbers():
    return [np.float32(1)] * 2


def vectors():
    return np.zeros((2, 3), np.float32)


def add_one(x):
    return x + 1


def invert(x):
    x[...] = 255 - x
    return x


def files_to_tensors():
    """One stage from the file to the tensor, dense where the shape is known, with its random numbers as columns."""
    encoded, label = fn.readers.file(files=JPEG_FILES, random_shuffle=True, name="files")
    decoded = fn.decoders.image(encoded)
    resized = fn.random_resized_crop(decoded, size=(16, 24))
    mirror = fn.random.coin_flip(probability=0.5)
    return fn.crop_mirror_normalize(resized, mean=[9.0], std=[3.0], mirror=mirror), fn.one_hot(label, num_classes=2)


def fused():
    """The same with fusion: one step for the resize and the normalisation, one for three lines over the values."""
    encoded, _ = fn.readers.file(files=JPEG_FILES, name="files")
    decoded = fn.decoders.image(encoded)
    resized = fn.resize(decoded, size=(16, 24))
    turned = fn.flip(fn.crop(resized, crop=(8, 9)), horizontal=fn.random.coin_flip())
    lines = fn.cast(fn.contrast(fn.brightness(decoded, brightness=1.5), contrast=0.5), dtype=types.FLOAT)
    return fn.crop_mirror_normalize(turned, mean=[9.0], std=[3.0]), lines


def unused_and_equal():
    """What no output needs is left out, equal calls are one step, a preserved step stays; two draws are never one."""
    data = fn.external_source(source=images, **IMAGE)
    fn.flip(data)
    fn.rotate(data, angle=3.0, preserve=True, name="kept")
    left, right = fn.resize(data, size=(4, 5)), fn.resize(data, size=(4, 5))
    return left + right, fn.random.uniform(), fn.random.uniform(), fn.random.uniform(seed=3) + fn.random.uniform(seed=3)


def branches():
    """Steps of a branch carry its guard, and the merge reads the side that a sample took; one is made at the stage's end."""
    data = fn.external_source(source=vectors, dtype=np.float32, ndim=1, layout="")
    if fn.random.coin_flip():
        moved = data * 2
        moved = moved + 1
    else:
        moved = data - 1
    again = -moved
    if fn.random.uniform(range=[0.0, 1.0]) < 0.5:
        again = again + 3
    return again


def early_return():
    """After a return in a branch, what follows is guarded by a predicate that is itself a merge."""
    number = fn.external_source(source=numbers, dtype=np.float32, ndim=0)
    if number > 1:
        if number > 2:
            return number * 2
        number = number + 1
    return number - 1


def functions_and_rights():
    """What a function may write: its input, where nothing else needs that memory; views and constants count."""
    data = fn.external_source(source=images, **IMAGE)
    view = fn.crop(data, crop=(8, 8))
    alone = fn.python_function(fn.copy(data), function=invert, parallel="threads", name="alone")
    shared = fn.python_function(view, function=invert, parallel="threads", name="shared")
    constant = fn.python_function(np.zeros(3, np.uint8), function=add_one, name="constant")
    return alone, shared, constant, fn.reshape(view, shape=(-1,))


def functions_in_order():
    """Two serial functions are stages of their own, one after the other, and each sees whole batches."""
    data = fn.external_source(source=images, **IMAGE)
    first = fn.python_function(data, function=add_one, name="first")
    second = fn.python_function(data, function=add_one, name="second")
    return fn.flip(first), fn.flip(second)


def worker_processes():
    """What workers alone read is written straight into memory shared with them."""
    data = fn.external_source(source=images, **IMAGE)
    made = fn.python_function(fn.resize(data, size=(4, 5)), function=add_one, parallel="processes", name="made")
    return fn.cast(made, dtype=types.FLOAT), fn.cast(data, dtype=types.FLOAT)


def on_the_gpu():
    """A decoder for the GPU, where no GPU library takes it over: decoded on the CPU, sent once, one segment for the rest."""
    encoded, label = fn.readers.file(files=JPEG_FILES, name="files")
    decoded = fn.decoders.image(encoded, device="mixed")
    resized = fn.resize(decoded, size=(16, 24))
    mirror = fn.random.coin_flip()
    return fn.crop_mirror_normalize(resized, mean=[9.0], std=[3.0], mirror=mirror), label.gpu()


def there_and_back():
    """A function with data on the GPU ends a segment, and what comes back to the CPU is waited for."""
    data = fn.external_source(source=images, **IMAGE).gpu()
    flipped = fn.flip(data)
    changed = fn.python_function(flipped, function=add_one, device="gpu", name="changed")
    return fn.cast(fn.rotate(changed, angle=10.0).cpu(), dtype=types.FLOAT), flipped


FUSED = (fused,)
ALL = (
    files_to_tensors,
    fused,
    unused_and_equal,
    branches,
    early_return,
    functions_and_rights,
    functions_in_order,
    worker_processes,
    on_the_gpu,
    there_and_back,
)
