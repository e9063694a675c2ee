"""pathlib paths where files are named."""

import pathlib

import numpy as np
import nvidia.dali.fn as fn
from material import FILES, PICTURES, write_arrays
from nvidia.dali import pipeline_def
from shown import show

write_arrays("arrays", {"a": np.arange(3), "b": np.arange(4)})
pathlib.Path("list.txt").write_text(f"{FILES[0]} 3\n{FILES[1]} 4\n")


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def paths():
    a, la = fn.readers.file(file_root=pathlib.Path(PICTURES))
    b, lb = fn.readers.file(file_list=pathlib.Path("list.txt"))
    c, lc = fn.readers.file(files=[pathlib.Path(path) for path in FILES[:2]])
    d = fn.readers.numpy(file_root=pathlib.Path("arrays"))
    e = fn.readers.numpy(files=[pathlib.Path("arrays/a.npy")])
    return la, lb, lc, d, e, a.shape(), b.shape(), c.shape()


show(paths().run())
