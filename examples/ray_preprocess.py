"""Prepares a folder of arrays on a Ray cluster (a local one here) and reads the result: python examples/ray_preprocess.py"""

import tempfile
from pathlib import Path

import numpy as np

import pipeflow
from pipeflow import fn, pipeline_def

try:
    import ray

    from pipeflow.distributed.ray import read
except ModuleNotFoundError as missing:
    raise SystemExit(f'this example needs {missing.name}: pip install "ray[data]"') from None


@pipeline_def(batch_size=16, num_threads=1, seed=1)
def prepare(folder):
    """Reads, crops at random and normalises."""
    image = fn.readers.numpy(file_root=folder, file_filter="*.npy", random_shuffle=True)
    crop = fn.crop(image, crop=(24, 24), crop_pos_x=fn.random.uniform(range=(0.0, 1.0)))
    return fn.cast(crop, dtype="float32") / 255.0


def main() -> None:
    """Makes the data, prepares it with two workers, prints what came out."""
    with tempfile.TemporaryDirectory() as folder:
        generator = np.random.default_rng(0)
        for number in range(200):
            np.save(Path(folder) / f"{number:04}.npy", generator.integers(0, 255, (32, 32, 3), np.uint8))
        ray.init(
            num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.2"
        )  # this machine only
        try:
            dataset = read(prepare(folder), num_shards=4, output_map=["image"])
            count, total = 0, 0.0
            for batch in dataset.iter_batches(batch_size=50):
                count += len(batch["image"])
                total += float(batch["image"].mean()) * len(batch["image"])
            target = Path(__file__).parent / "output" / "ray_preprocess.png"
            target.parent.mkdir(parents=True, exist_ok=True)
            pipeflow.show(batch["image"], layout="NHWC", path=target)
            print(f"{count} images of {batch['image'].shape[1:]}, mean {total / count:.3f}; pictures: {target}")
        finally:
            ray.shutdown()


if __name__ == "__main__":
    main()
