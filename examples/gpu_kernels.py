"""CUDA kernels of your own inside a pipeline: an ElementwiseKernel, a RawKernel, and a function of CuPy's arrays.

    python examples/gpu_kernels.py [--batches 20]

The functions get arrays of CuPy and work on the pipeline's stream: nothing waits for the GPU, and nothing is copied to
the CPU. It needs a GPU and
`pip install cupy-cuda13x nvidia-cuda-nvrtc nvidia-cuda-runtime`; without them it says what is missing.
"""

import argparse
from pathlib import Path
from time import perf_counter

import numpy as np

from pipeflow import fn, pipeline_def, types
from pipeflow.errors import NoGpu

try:
    import cupy
except ImportError:
    cupy = None  # building the pipeline says so

SOLARIZE = """
extern "C" __global__ void solarize(const unsigned char* image, unsigned char* result, int size, int threshold) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) result[i] = image[i] < threshold ? image[i] : 255 - image[i];
}
"""


def kernels():
    """The kernels; making them costs nothing yet, they are compiled when the first batch comes."""
    gamma = cupy.ElementwiseKernel("uint8 x, float32 g", "uint8 y", "y = 255 * powf(x / 255.0f, g) + 0.5f", "gamma")
    return gamma, cupy.RawKernel(SOLARIZE, "solarize")


def source(sample):
    """A picture of waves, made on the CPU."""
    rng = np.random.default_rng(sample.idx_in_epoch)
    rows, columns = np.mgrid[0:240, 0:320] / rng.uniform(5, 20)
    return (127 + 120 * np.stack([np.sin(rows), np.sin(columns), np.cos(rows + columns)], -1)).astype(np.uint8)


@pipeline_def(batch_size=32, num_threads=4, device_id=0, seed=7, enable_conditionals=True)
def pipeline():
    gamma, raw = kernels() if cupy is not None else (None, None)

    def brighten(image, exponent):
        return gamma(image, exponent.astype(cupy.float32))

    def solarize(image):
        result = cupy.empty_like(image)
        raw((-(-image.size // 256),), (256,), (image, result, np.int32(image.size), np.int32(128)))
        return result

    images = fn.external_source(source, batch=False, layout="HWC", dtype=types.UINT8).gpu()
    exponent = fn.random.uniform(range=[0.5, 2.0]).gpu()
    images = fn.python_function(images, exponent, function=brighten, output_layouts="HWC")
    if fn.random.coin_flip(probability=0.3, dtype=types.BOOL):
        images = fn.python_function(images, function=solarize, output_layouts="HWC")
    return fn.crop_mirror_normalize(
        images, crop=(224, 224), mirror=fn.random.coin_flip(), mean=[127.0] * 3, std=[60.0] * 3
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--batches", type=int, default=20)
    count = parser.parse_args().batches
    pipe = pipeline()
    try:
        pipe.build()
    except NoGpu as error:
        print(error)
        return
    begun = perf_counter()
    for _ in range(count):
        (batch,) = pipe.run()
    mean = float(cupy.from_dlpack(batch.as_tensor()).mean())  # the first thing that waits for the GPU
    seconds = perf_counter() - begun
    print(f"{count * len(batch) / seconds:.0f} images/s; the mean of the last batch is {mean:.3f}")
    target = Path(__file__).parent / "output" / "gpu_kernels.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    batch.show(path=target)
    print(f"the last batch: {target}")


if __name__ == "__main__":
    main()
