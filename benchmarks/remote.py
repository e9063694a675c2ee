"""What part of the local throughput is left if every request to the server of the files takes 50 ms?

JPEG files in tar files are decoded and cropped by two threads, once from the local disk and once from a server of http on this
machine that waits before each answer. Epochs of both take turns, so that other work on the machine affects both in the same
way. The server is a process of its own.
"""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import _pictures
import numpy as np
from _harness import Measures, Side, Target, header, measure, median, save, spread, start, table, verdicts

LATENCY = 0.05  # seconds
SHARDS, IMAGES = 4, 64
SHAPE = (480, 640)


def write_shards(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for shard in range(SHARDS):
        with tarfile.open(folder / f"{shard}.tar", "w") as tar:
            for number in range(IMAGES):
                picture = _pictures.jpeg(rng, *SHAPE)
                member = tarfile.TarInfo(f"{number}.jpg")
                member.size = len(picture)
                tar.addfile(member, io.BytesIO(picture))


def serve_files(folder: str) -> None:
    """Answers requests of parts of files, each after the latency; prints its port."""
    files = {f"/{path.name}": path.read_bytes() for path in Path(folder).iterdir()}

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                break  # the client has closed the connection
            data = files[lines[0].split()[1]]
            wanted = next(
                (line[13:] for line in lines if line.lower().startswith("range: bytes=")), f"0-{len(data) - 1}"
            )
            first, last = map(int, wanted.split("-"))
            part = data[first : last + 1]
            await asyncio.sleep(LATENCY)
            place = f"Content-Range: bytes {first}-{first + len(part) - 1}/{len(data)}"
            writer.write(f"HTTP/1.1 206 Partial\r\n{place}\r\nContent-Length: {len(part)}\r\n\r\n".encode() + part)
            await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(client, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.to_thread(sys.stdin.read)  # until the process that reads from it has ended
        os._exit(0)

    asyncio.run(main())


def pipeline_over(base: str, index: str, shuffle: bool):
    from pipeflow import fn, pipeline_def

    @pipeline_def(batch_size=32, num_threads=2, seed=1, device_id=None)
    def pipeline():
        files = fn.readers.webdataset(
            paths=[f"{base}/{shard}.tar" for shard in range(SHARDS)],
            index_paths=[f"{index}/{shard}.idx" for shard in range(SHARDS)],
            ext="jpg",
            random_shuffle=shuffle,
        )
        images = fn.decoders.image(files)
        return fn.resize(fn.crop(images, crop=(400, 400), crop_pos_x=fn.random.uniform(range=(0, 1))), size=(224, 224))

    return pipeline()


def prepare(shuffle: bool):
    def prepare_case(_: str):
        from pipeflow.operators.readers.webdataset import write_index

        folder = tempfile.TemporaryDirectory()
        write_shards(Path(folder.name))
        for shard in range(SHARDS):
            write_index(f"{folder.name}/{shard}.tar", f"{folder.name}/{shard}.idx")
        command = [sys.executable, __file__, "--serve", folder.name]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        pipes = {
            name: pipeline_over(base, folder.name, shuffle) for name, base in (("local", folder.name), ("remote", url))
        }
        sums = {
            name: [int(x.sum()) for batch in pipe.epoch() for x in batch[0].samples()] for name, pipe in pipes.items()
        }

        def repetition() -> Measures:
            found = {"equal": float(sums["local"] == sums["remote"])}
            for name, pipe in pipes.items():
                begin, used = perf_counter(), process_time()
                for _ in pipe.epoch():
                    pass
                found[name], found[f"{name} processor"] = perf_counter() - begin, process_time() - used
            return found

        repetition.server = (server, folder)  # as long as the repetitions
        return repetition

    return prepare_case


SIDES = [Side("in order", prepare(False)), Side("shuffled", prepare(True))]


def main() -> int:
    reading = header(__doc__.splitlines()[0])
    [by_side] = measure(__file__, SIDES, ["decoded images"], {}, repetitions=9).values()
    rows, targets = [], []
    for side, measured in by_side.items():
        for name in ("local", "remote"):
            middle, low, high = spread(measured, lambda row, name=name: SHARDS * IMAGES / row[name])
            used = median(measured, lambda row, name=name: 1e6 * row[f"{name} processor"] / (SHARDS * IMAGES))
            rows.append((side, name, middle, f"{low:.4g} .. {high:.4g}", used))
        part = median(measured, lambda row: row["local"] / row["remote"])
        targets.append(Target(f"{side}: remote throughput to local", part, 0.95, at_most=False))
    table(
        "Images a second (median of 9 alternated runs), microseconds of CPU time an image",
        ["order", "files", "images/s", "range", "CPU"],
        rows,
    )
    verdicts(targets)
    save("remote", reading, by_side, targets)
    return int(not all(row["equal"] for measured in by_side.values() for row in measured))


if __name__ == "__main__":
    if "--serve" in sys.argv:
        serve_files(sys.argv[sys.argv.index("--serve") + 1])
        sys.exit(0)
    sys.exit(main() if start(SIDES, {}) else 0)
