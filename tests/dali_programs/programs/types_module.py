"""nvidia.dali.types by itself."""

import numpy as np
import nvidia.dali.types as types
from nvidia.dali.types import Constant, DALIDataType, DALIImageType, DALIInterpType, ScalarConstant
from shown import show, show_error

show(
    types.FLOAT == DALIDataType.FLOAT, types.RGB == DALIImageType.RGB, types.INTERP_CUBIC == DALIInterpType.INTERP_CUBIC
)
show(
    [
        types.to_numpy_type(t) == n
        for t, n in ((types.UINT8, np.uint8), (types.FLOAT16, np.float16), (types.BOOL, np.bool_))
    ]
)
show([types.to_dali_type(t) for t in (np.float32, np.int64, np.dtype("uint16"))])
show(int(types.INT32), int(types.FLOAT64), DALIDataType(9) == types.FLOAT, [DALIDataType(k) for k in (0, 4, 11)])
constant = Constant(10)
show(
    isinstance(constant, ScalarConstant),
    constant.value,
    constant.dtype,
    constant.uint8().value,
    constant.float32().dtype,
)
show(Constant(2.5).int32().value, Constant(True).value, Constant(True).dtype, Constant(2.5).dtype)
show_error(lambda: Constant(1) + Constant(2))
show_error(lambda: Constant("text"))
show(
    types.CPU_ONLY_DEVICE_ID,
    types.NHWC,
    types.NCHW,
    types.SampleInfo(1, 2, 3, 4).idx_in_epoch,
    types.BatchInfo(5, 6).epoch_idx,
)
