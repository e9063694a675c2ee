"""What part of the local throughput is left if every request to the server of the files takes 50 ms?

JPEG files in tar files are decoded and cropped by two threads, once from the local disk and once from a server of http on this
machine that waits before each answer. Epochs of both take turns, so that other work on the machine affects both in the same
way. An epoch has twice as many bytes as are read ahead. A third pipeline reads from the server with `cache=`; its first epoch,
which fills the cache, is not measured. The server is a process of its own: it needs processor time that a
real one would not take from the pipeline, so the table has the throughput without the server's part too.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import os
import selectors
import socket
import subprocess
import sys
import tarfile
import tempfile
from collections import deque
from pathlib import Path
from time import monotonic, perf_counter, process_time

import _pictures
import numpy as np
from _harness import Measures, Side, Target, header, measure, median, save, settle, spread, start, table, verdicts

LATENCY = 0.05  # seconds
SHARDS, IMAGES = 22, 64
LONGEST = 60  # seconds of a repetition: one that takes longer prints where it is and ends the benchmark
DIFFERENT = 4  # of the shards; the others are the same files by other names
SHAPE = (480, 640)


def write_shards(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for shard in range(DIFFERENT):
        with tarfile.open(folder / f"{shard}.tar", "w") as tar:
            for number in range(IMAGES):
                picture = _pictures.jpeg(rng, *SHAPE)
                member = tarfile.TarInfo(f"{number}.jpg")
                member.size = len(picture)
                tar.addfile(member, io.BytesIO(picture))
    for shard in range(DIFFERENT, SHARDS):
        os.link(folder / f"{shard % DIFFERENT}.tar", folder / f"{shard}.tar")


def serve_files(folder: str) -> None:
    """Answers requests of parts of files, each after the latency; prints its port."""
    files = {f"/{path.name}".encode(): memoryview(path.read_bytes()) for path in Path(folder).iterdir()}
    listening = socket.create_server(("127.0.0.1", 0), backlog=512)
    events, due = selectors.DefaultSelector(), deque()  # (when, connection, bytes), in order
    events.register(listening, selectors.EVENT_READ)
    events.register(sys.stdin, selectors.EVENT_READ)
    print(listening.getsockname()[1], flush=True)
    while True:
        for key, _ in events.select(max(0, due[0][0] - monotonic()) if due else None):
            if key.fileobj is sys.stdin:
                return  # the process that wrote to it has ended
            if key.fileobj is listening:
                connection, _ = listening.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                events.register(connection, selectors.EVENT_READ)
                continue
            request = key.fileobj.recv(4096)  # a client sends one request, and waits for its answer
            if not request:
                events.unregister(key.fileobj)
                key.fileobj.close()
                continue
            data = files[request.split(b" ", 2)[1]]
            wanted = request.partition(b"Range: bytes=")[2].partition(b"\r\n")[0] or b"0-%d" % (len(data) - 1)
            first, last = map(int, wanted.split(b"-"))
            part = data[first : last + 1]
            head = b'HTTP/1.1 206 Partial\r\nETag: "1"\r\nContent-Range: bytes %d-%d/%d\r\nContent-Length: %d\r\n\r\n'
            answer = head % (first, first + len(part) - 1, len(data), len(part))
            due.append((monotonic() + LATENCY, key.fileobj, [answer, part]))
        while due and due[0][0] <= monotonic():
            _, connection, parts = due.popleft()
            with contextlib.suppress(OSError):
                sent = connection.sendmsg(parts)
                connection.sendall(memoryview(b"".join(parts))[sent:]) if sent < sum(map(len, parts)) else None


def processor_of(process: int) -> float:
    """The seconds that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pipeline_over(base: str, index: str, shuffle: bool, cache: str | None = None):
    from pipeflow import fn, pipeline_def

    @pipeline_def(batch_size=32, num_threads=2, seed=1, device_id=None)
    def pipeline():
        files = fn.readers.webdataset(
            paths=[f"{base}/{shard}.tar" for shard in range(SHARDS)],
            index_paths=[f"{index}/{shard}.idx" for shard in range(SHARDS)],
            ext="jpg",
            random_shuffle=shuffle,
            cache=cache,
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
        kept = tempfile.TemporaryDirectory()
        pipes = {
            "local": pipeline_over(folder.name, folder.name, shuffle),
            "remote": pipeline_over(url, folder.name, shuffle),
            "cached": pipeline_over(url, folder.name, shuffle, kept.name),
        }
        sums = {
            name: [int(x.sum()) for batch in pipe.epoch() for x in batch[0].samples()] for name, pipe in pipes.items()
        }

        def repetition() -> Measures:
            faulthandler.dump_traceback_later(LONGEST, exit=True)
            found = {"equal": float(sums["local"] == sums["remote"] == sums["cached"])}
            for name, pipe in pipes.items():
                settle()  # the other pipeline still prepares the first batches of its next epoch
                begin, used, served = perf_counter(), process_time(), processor_of(server.pid)
                found[f"{name} images"] = float(sum(len(batch[0]) for batch in pipe.epoch()))
                found[name], found[f"{name} processor"] = perf_counter() - begin, process_time() - used
                found[f"{name} server"] = processor_of(server.pid) - served
            faulthandler.cancel_dump_traceback_later()
            return found

        repetition.server = (server, folder, kept)  # as long as the repetitions
        return repetition

    return prepare_case


SIDES = [Side("in order", prepare(False)), Side("shuffled", prepare(True))]


def main() -> int:
    reading = header(__doc__.splitlines()[0])
    [by_side] = measure(__file__, SIDES, ["decoded images"], {}, repetitions=5).values()
    rows, targets = [], []
    for side, measured in by_side.items():
        for name in ("local", "remote", "cached"):
            middle, low, high = spread(measured, lambda row, name=name: SHARDS * IMAGES / row[name])
            used = median(measured, lambda row, name=name: 1e6 * row[f"{name} processor"] / (SHARDS * IMAGES))
            server = median(measured, lambda row, name=name: 1e6 * row[f"{name} server"] / (SHARDS * IMAGES))
            # two processors share the work: without the server's half of it, an epoch takes that much less
            alone = median(measured, lambda row, name=name: SHARDS * IMAGES / (row[name] - row[f"{name} server"] / 2))
            rows.append((side, name, middle, f"{low:.4g} .. {high:.4g}", alone, used, server))
        part = median(measured, lambda row: row["local"] / row["remote"])
        targets.append(Target(f"{side}: remote throughput to local", part, 0.95, at_most=False))
    table(
        "Images a second (median of 5 alternated runs), microseconds of CPU time an image",
        ["order", "files", "images/s", "range", "without the server", "CPU", "CPU of the server"],
        rows,
    )
    verdicts(targets)
    save("remote", reading, by_side, targets)
    wrong = [
        row
        for measured in by_side.values()
        for row in measured
        if {row["remote images"], row["cached images"]} != {float(SHARDS * IMAGES)}
    ]
    return int(bool(wrong) or not all(row["equal"] for measured in by_side.values() for row in measured))


if __name__ == "__main__":
    if "--serve" in sys.argv:
        serve_files(sys.argv[sys.argv.index("--serve") + 1])
        sys.exit(0)
    sys.exit(main() if start(SIDES, {}) else 0)
