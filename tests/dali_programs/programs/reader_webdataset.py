"""fn.readers.webdataset: components by extension, alternatives, and missing components."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import encoded, write_tar
from nvidia.dali import pipeline_def
from shown import show

members = []
for k in range(5):
    members.append((f"{k:04d}.jpg", encoded(k).tobytes()))
    members.append((f"{k:04d}.cls", str(k).encode()))
    if k % 2:
        members.append((f"{k:04d}.bin", np.float32([k, k + 0.5]).tobytes()))
tar = write_tar("data.tar", members)


@pipeline_def(batch_size=3, num_threads=2, device_id=None)
def wds_pipeline():
    img, cls = fn.readers.webdataset(
        paths=[tar], ext=["jpg;png", "cls"], missing_component_behavior="error", name="wds"
    )
    return fn.decoders.image(img, device="cpu"), cls


@pipeline_def(batch_size=3, num_threads=2, device_id=None)
def with_missing(behavior):
    binary, cls = fn.readers.webdataset(
        paths=tar, ext=["bin", "cls"], missing_component_behavior=behavior, dtypes=[types.FLOAT, types.UINT8]
    )
    return binary, cls


pipe = wds_pipeline()
pipe.build()
show(pipe.run(), pipe.run(), pipe.epoch_size("wds"))
for behavior in ("empty", "skip"):
    pipe = with_missing(behavior)
    pipe.build()
    show(pipe.run())
