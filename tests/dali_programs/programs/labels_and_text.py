"""Labels beside images: file lists with spaces, several labels of an image, text as bytes, and names read as files."""

from pathlib import Path

import numpy as np
from material import FILES, PICTURES
from nvidia.dali import fn, pipeline_def, types
from shown import show, show_error

Path("list.txt").write_text(
    "".join(f"{Path(name).relative_to(PICTURES)} {number * 10}\n" for number, name in enumerate(FILES))
)


def run(function, batches=2, size=3, **options):
    @pipeline_def(batch_size=size, num_threads=2, device_id=None)
    def definition():
        made = function()
        return tuple(made) if isinstance(made, (list, tuple)) else made

    pipe = definition()
    pipe.build()
    return [pipe.run() for _ in range(batches)]


def read(**options):
    encoded, label = fn.readers.file(**options)
    return fn.decoders.image(encoded).shape(), label


show(run(lambda: read(file_root=PICTURES, file_list="list.txt")))
show(run(lambda: read(files=FILES[:4], labels=[7, 1, 1, -3])))
show(run(lambda: read(files=FILES[:4])))
show(run(lambda: read(file_root=PICTURES, dir_filters=["b*"], file_filters=["*e*.jpg"])))
show(run(lambda: read(file_root=PICTURES, file_filters=["*.png"], files=FILES[:2])))


def several():
    encoded, number = fn.readers.file(files=FILES, labels=list(range(len(FILES))))
    table = np.float32(np.arange(2 * len(FILES)).reshape(-1, 2))
    return fn.python_function(number, function=lambda n: table[n[0]]), fn.one_hot(
        number, num_classes=8, dtype=types.UINT8
    )


def named():
    paths = fn.external_source(lambda: [np.frombuffer(name.encode(), np.uint8) for name in FILES[:3]])
    return fn.peek_image_shape(fn.io.file.read(paths))


show(run(several), run(named, batches=1))
show(run(lambda: fn.get_property(fn.readers.file(files=["list.txt"] * 3)[0], key="source_info"), batches=1))
show(run(lambda: fn.readers.file(files=["list.txt"] * 3)[0], batches=1))
show_error(lambda: run(lambda: read(file_list="list.txt", files=FILES)))
show_error(lambda: run(lambda: read(file_root=PICTURES, file_filters=["*.tiff"])))
show_error(lambda: run(lambda: read(files=FILES, labels=[1])))
show_error(lambda: run(lambda: fn.io.file.read(np.frombuffer(b"missing", np.uint8))))
