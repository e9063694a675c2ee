"""How much of the bandwidth of the device does each GPU operator use?

    python benchmarks/gpu_operators.py [names of cases]

There are 128 images of 500 x 400. The launches of an operator over a batch on the GPU are repeated alone and timed as
gpu_clock.py says. The bytes that the operator must read and write, divided by that time, are compared with the
bandwidth of a copy within the device in the same run: a copy reads and writes as well. If torchvision v2 and kornia
are installed, they do the same work on the same GPU, with the same images in one stack.

The aim is 0.7 of the copy, 0.85 for crop_mirror_normalize and cast, and more speed than the others on every operator.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from _harness import Target, header, save, table, verdicts
from gpu_clock import SETS, copy_bandwidth, queue_seconds

from pipeflow import backends, declare, fn, seeds, types
from pipeflow.device.calls import DevicePlanner, SampleValues, View
from pipeflow.device.tables import TablePlanner

BATCH, HEIGHT, WIDTH = 128, 400, 500
ROUNDS = 20
RNG = np.random.default_rng(0)
IMAGE = RNG.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
FLOATS = IMAGE.astype(np.float32)
MEAN, STD = [123.7, 116.3, 103.5], [58.4, 57.1, 57.4]

CASES: dict[str, Callable[[], Any]] = {
    "cast": lambda: fn.cast(IMAGE, dtype=types.FLOAT),
    "crop_mirror_normalize": lambda: fn.crop_mirror_normalize(IMAGE, crop=(224, 224), mirror=1, mean=MEAN, std=STD),
    "crop_mirror_normalize float16": lambda: fn.crop_mirror_normalize(
        IMAGE, crop=(224, 224), mirror=1, mean=MEAN, std=STD, dtype=types.FLOAT16
    ),
    "flip": lambda: fn.flip(IMAGE),
    "crop": lambda: fn.crop(IMAGE, crop=(224, 224)),
    "transpose": lambda: fn.transpose(IMAGE, perm=[2, 0, 1]),
    "resize": lambda: fn.resize(IMAGE, size=(224, 224)),
    "rotate": lambda: fn.rotate(IMAGE, angle=30.0, fill_value=0),
    "color_twist": lambda: fn.color_twist(IMAGE, hue=30.0, saturation=1.2, brightness=1.1, contrast=0.9),
    "brightness_contrast": lambda: fn.brightness_contrast(IMAGE, brightness=1.1, contrast=0.9),
    "gaussian_blur": lambda: fn.gaussian_blur(IMAGE, sigma=2.0),
    "add": lambda: declare.registry["math.add"](FLOATS, FLOATS),
    "reductions.mean": lambda: fn.reductions.mean(IMAGE, axes=[0, 1]),
    "normalize": lambda: fn.normalize(FLOATS),
}
AIMS = {"cast": 0.85, "crop_mirror_normalize": 0.85, "crop_mirror_normalize float16": 0.85}

PEERS = {
    "cast": ("x.float()", "x.float()"),
    "flip": ("v2.functional.horizontal_flip(x)", "K.geometry.transform.hflip(f)"),
    "resize": (
        "v2.functional.resize(x, [224, 224], antialias=True)", "K.geometry.transform.resize(f, (224, 224), antialias=True)",
    ),
    "crop": ("v2.functional.center_crop(x, [224, 224])", "K.geometry.transform.center_crop(f, (224, 224))"),
    "rotate": ("v2.functional.rotate(x, 30.0, v2.InterpolationMode.BILINEAR)", "K.geometry.transform.rotate(f, a)"),
    "brightness_contrast": (
        "v2.functional.adjust_contrast(v2.functional.adjust_brightness(x, 1.1), 0.9)",
        "K.enhance.adjust_contrast(K.enhance.adjust_brightness(f, 0.1), 0.9)",
    ),
    "gaussian_blur": (
        "v2.functional.gaussian_blur(x, [13, 13], [2.0, 2.0])", "K.filters.gaussian_blur2d(f, (13, 13), (2.0, 2.0))",
    ),
    "crop_mirror_normalize": (
        "v2.functional.normalize(v2.functional.horizontal_flip(v2.functional.center_crop(x, [224, 224])).float(), MEAN, STD)",
        "K.enhance.normalize(K.geometry.transform.hflip(K.geometry.transform.center_crop(f, (224, 224))), m, s)",
    ),
}  # fmt: skip


@dataclass
class Launches:
    """Device memory of one call that remembers what it launches; see device_calls.DeviceMemory."""

    runtime: Any
    kept: list[Any]
    queue: list[Callable[[], None]]

    def allocate(self, _output: int, sizes: Sequence[int]) -> list[int]:
        """Allocates one block for all samples, without gaps."""
        base = self.scratch(max(sum(sizes), 1))
        return [base + sum(sizes[:index]) for index in range(len(sizes))]

    def view(self, _output: int, views: Sequence[View]) -> list[int]:
        """Views stay where they are."""
        return [view.address for view in views]

    def scratch(self, nbytes: int) -> int:
        """Allocates memory that only this call uses."""
        self.kept.append(self.runtime.allocate(max(nbytes, 1)))
        return self.kept[-1].address

    def upload(self, array: np.ndarray) -> int:
        """Copies a table to the device."""
        address = self.scratch(array.nbytes)
        host = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.runtime.upload(self.runtime.computing, address, host)
        self.runtime.drain(self.runtime.computing)
        return address

    def launch(self, *launch: Any) -> None:
        """Remembers a kernel."""
        self.queue.append(lambda: self.runtime.launch(self.runtime.computing, *launch))

    def run(self, function: Callable[..., None], views: Sequence[View]) -> None:
        """Remembers a function."""
        arrays = [self.runtime.array(view.address, view.shape, view.dtype, None) for view in views]
        self.queue.append(lambda: self.runtime.run(self.runtime.computing, function, arrays))


def call_of(function: Callable[[], Any]) -> declare.Call:
    """The call that a case makes; it is not run."""
    calls: list[declare.Call] = []
    token = declare.interpreter.set(calls.append)
    try:
        function()
    finally:
        declare.interpreter.reset(token)
    return calls[-1]


def prepared(runtime: Any, call: declare.Call) -> tuple[Launches, int]:
    """The launches of a call over the batch, and the bytes that it must move."""
    memory = Launches(runtime, [], [])
    inputs = [np.asarray(x) for x in call.inputs]
    columns = []
    for array in inputs:
        base = memory.upload(np.stack([array] * BATCH))
        columns.append([View(base + index * array.nbytes, array.shape, array.dtype) for index in range(BATCH)])
    keys = seeds.sample_keys(5, np.arange(BATCH)).tolist()
    samples = [SampleValues([column[index] for column in columns], {}, keys[index]) for index in range(BATCH)]
    planner = TablePlanner(DevicePlanner(call.op, call.constants, call.op.outputs_of(call.constants)))
    layouts = [call.op.layout_of_array(array.ndim) for array in inputs]
    outputs, _ = planner.plan(samples, layouts, memory)
    written = sum(view.nbytes for views in outputs for view in views)
    cropped = "crop" in call.constants  # pixels outside of the window need not be read
    read = (
        sum(view.size for views in outputs for view in views)
        if cropped
        else (sum(array.nbytes for array in inputs) * BATCH)
    )
    return memory, read + written


def peer_seconds(name: str) -> dict[str, float]:
    """The same work by torchvision and kornia, if they are installed."""
    found: dict[str, float] = {}
    if name not in PEERS or importlib.util.find_spec("torch") is None:
        return found
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        return found
    x = torch.from_numpy(IMAGE).permute(2, 0, 1).contiguous().cuda().expand(BATCH, -1, -1, -1).contiguous()
    scope = {
        "x": x,
        "f": x.float() / 255,
        "MEAN": MEAN,
        "STD": STD,
        "a": torch.full((BATCH,), 30.0).cuda(),
        "m": torch.tensor(MEAN).cuda() / 255,
        "s": torch.tensor(STD).cuda() / 255,
    }
    for library, text in zip(("torchvision", "kornia"), PEERS[name]):
        if importlib.util.find_spec(library) is None:
            continue
        scope["v2" if library == "torchvision" else "K"] = importlib.import_module(
            "torchvision.transforms.v2" if library == "torchvision" else "kornia"
        )
        code = compile(text, library, "eval")
        seconds = []
        for _ in range(ROUNDS + 3):
            before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            before.record()
            eval(code, scope)
            after.record()
            after.synchronize()
            seconds.append(before.elapsed_time(after) / 1000)
        found[library] = statistics.median(seconds[3:])
    return found


def main() -> None:
    """Measures and prints."""
    reason = backends.gpu.why_not(0)
    if reason:
        print(f"gpu_operators.py measures nothing here: {reason}")
        return
    runtime = backends.gpu.open_device(0)
    reading = header("How near does each GPU operator come to the bandwidth of the device?")
    bandwidth = copy_bandwidth(runtime, BATCH * IMAGE.nbytes)
    print(f"a copy within the device: {bandwidth / 1e9:.0f} GB/s read and written")
    wanted = sys.argv[1:]
    rows, targets, results = [], [], {"copy": bandwidth}
    for name, function in CASES.items():
        if wanted and not any(name.startswith(prefix) for prefix in wanted):
            continue
        with runtime.active():
            made = [prepared(runtime, call_of(function)) for _ in range(SETS)]
            queue, moved = made[0][0].queue, made[0][1]
            seconds = queue_seconds(runtime, [memory.queue for memory, _ in made])
        peers = peer_seconds(name)
        share = moved / seconds / bandwidth
        rows.append(
            [
                name,
                f"{seconds * 1e6:.0f} us",
                f"{moved / seconds / 1e9:.0f} GB/s",
                f"{share:.2f}",
                str(len(queue)),
                *[f"{peers[x] / seconds:.2f}x" if x in peers else "-" for x in ("torchvision", "kornia")],
            ]
        )
        results[name] = {"seconds": seconds, "share": share, "launches": len(queue), **peers}
        aim = AIMS.get(name, 0.7)
        targets.append(Target(f"{name}: {aim} of the copy's bandwidth", share, aim, at_most=False))
        targets += [Target(f"{name} beside {x}", peers[x] / seconds, 1.0, at_most=False) for x in peers]
    table(
        "128 images of 500 x 400",
        ["case", "a batch", "moved", "of the copy", "launches", "torchvision", "kornia"],
        rows,
    )
    verdicts(targets)
    reading["machine"]["gpu"] = backends.gpu.cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    save("gpu_operators", reading, results, targets)


if __name__ == "__main__":
    main()
