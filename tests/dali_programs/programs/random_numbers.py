"""Random operators: shapes, types, ranges and repetition by seed, not the numbers themselves."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import pipeline_def
from shown import show, show_form


@pipeline_def(batch_size=16, num_threads=2, device_id=None)
def drawn():
    like = fn.external_source(lambda: [np.zeros((2, 3), np.uint8)] * 16)
    return (
        fn.random.uniform(range=[2, 3]),
        fn.random.uniform(values=[1.0, 5.0], shape=[4]),
        fn.random.uniform(like, range=[0, 10], dtype=types.INT32),
        fn.random.normal(mean=5, stddev=0.01, shape=(3,)),
        fn.random.coin_flip(probability=0.25, dtype=types.BOOL),
        fn.random.coin_flip(shape=2),
        fn.random.choice(5),
        fn.random.choice([2, 4, 8], shape=3, p=[0.5, 0.5, 0.0]),
        fn.random.beta(alpha=2, beta=2),
    )


outputs = drawn(seed=5).run()
show_form(outputs)
arrays = [output.as_array() for output in outputs]
show(
    bool((arrays[0] >= 2).all() and (arrays[0] < 3).all()),
    sorted(set(arrays[1].ravel().tolist())),
    bool((arrays[2] <= 10).all()),
)
show(bool((abs(arrays[3] - 5) < 0.1).all()), bool((arrays[6] < 5).all()), sorted(set(arrays[7].ravel().tolist())))
again = drawn(seed=5).run()
show(all((a == b.as_array()).all() for a, b in zip(arrays, again)))


@pipeline_def(batch_size=4, num_threads=1, device_id=None)
def seeded():
    return fn.random.uniform(seed=7), fn.random.uniform(seed=7), fn.random.uniform(seed=8)


one, two, three = [output.as_array() for output in seeded().run()]
show(bool((one == two).all()), bool((one == three).all()))
