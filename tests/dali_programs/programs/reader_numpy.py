"""fn.readers.numpy: files, filters, regions of interest in absolute and relative numbers, padding."""

import numpy as np
import nvidia.dali.fn as fn
from material import write_arrays
from nvidia.dali import pipeline_def
from shown import show, show_error

arrays = {f"tensor_{k}": np.arange(20 + 5 * k, dtype=np.float32).reshape(4 + k, 5) for k in range(4)}
data_dir = write_arrays("arrays", arrays)
write_arrays(
    "arrays", {"other": np.arange(6, dtype=np.int64), "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3))}
)


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def pipe(arguments):
    return fn.readers.numpy(file_root=data_dir, **arguments)


for arguments in (
    dict(file_filter="tensor_*.npy"),
    dict(files=["tensor_2.npy", "tensor_0.npy"]),
    dict(files=["other.npy"]),
    dict(files=["fortran.npy"]),
    dict(file_filter="tensor_*.npy", roi_start=[1, 2], roi_end=[3, 5]),
    dict(file_filter="tensor_*.npy", rel_roi_start=[0.25, 0.2], rel_roi_shape=[0.5, 0.6]),
    dict(file_filter="tensor_*.npy", roi_start=[1], roi_shape=[2], roi_axes=[1]),
    dict(file_filter="tensor_*.npy", roi_start=[-1, 0], roi_end=[3, 7], out_of_bounds_policy="pad", fill_value=-5),
    dict(file_filter="tensor_*.npy", roi_start=[0, 0], roi_end=[9, 3], out_of_bounds_policy="trim_to_shape"),
):
    made = pipe(arguments)
    made.build()
    show(made.run(), made.run())
show_error(lambda: pipe(dict(files=["missing.npy"])).run())
