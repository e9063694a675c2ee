"""nvidia.dali.math in a pipeline."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.math as math
from nvidia.dali import pipeline_def
from shown import show

data = [np.float32([-1.5, -0.25, 0.0, 0.5, 2.0]), np.float32([1e-3, 0.1, 1.0, 3.0, 30.0])]


@pipeline_def(batch_size=2, num_threads=2, device_id=None)
def functions():
    x = fn.external_source(lambda: data)
    positive = math.abs(x) + 0.125
    inside = math.clamp(x, -1.0, 1.0)
    return (
        math.sqrt(positive),
        math.rsqrt(positive),
        math.cbrt(x),
        math.exp(x),
        math.log(positive),
        math.log2(positive),
        math.log10(positive),
        math.fabs(x),
        math.floor(x),
        math.ceil(x),
        math.pow(positive, 1.5),
        math.fpow(positive, 2),
        math.sin(x),
        math.cos(x),
        math.tan(x),
        math.asin(inside),
        math.acos(inside),
        math.atan(x),
        math.atan2(x, positive),
        math.sinh(inside),
        math.cosh(inside),
        math.tanh(x),
        math.asinh(x),
        math.acosh(positive + 1),
        math.atanh(inside / 2),
        math.min(x, 1),
        math.max(0.25, x),
        x // 0.3,
        x % 0.7,
    )


pipe = functions()
pipe.build()
show(pipe.run(), within=2e-4)
