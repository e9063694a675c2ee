"""Readers with drawn arguments give, batch after batch over more than an epoch, what they give under DALI.

Drawn are the data sets, the arguments of each reader, and shards, padding, batch size and the end of epochs.
`PIPEFLOW_CALLS=60 make test-oracle` draws as many calls of each reader.
"""

import os
import struct
import sys

import cv2
import numpy as np
import pytest
from image.oracle import random
from readers import records
from readers.records import message, varint
from test_ported_programs import answers, difference

pytestmark = pytest.mark.oracle
CALLS = int(os.environ.get("PIPEFLOW_CALLS", "12"))

PROGRAM = """
@pipeline_def(batch_size={batch}, num_threads=2, device_id=None)
def pipe():
    result = fn.readers.{reader}(name="r", {arguments})
    return tuple(result) if isinstance(result, (list, tuple)) else result

made = []

def build():
    made.append(pipe())
    made[0].build()

attempt(build)
for _ in range({batches}):
    attempt(lambda: made[0].run())
show(made[0].epoch_size("r") if made else None)
meta = made[0].reader_meta("r") if made else {{}}
show([meta.get(name) for name in {meta}])
"""
META = ["epoch_size", "epoch_size_padded", "number_of_shards", "shard_id", "pad_last_batch", "stick_to_shard"]


def pick(rng, *values):
    """One of the values."""
    return values[int(rng.integers(len(values)))]


def sequence(rng, folder):
    """Clips of PNG files, in folders."""
    for clip in range(int(rng.integers(1, 4))):
        (folder / f"clip{clip}").mkdir(parents=True)
        for frame in range(int(rng.integers(9, 14))):
            pixels = rng.integers(0, 256, (3, 4, 3), dtype=np.uint8)
            cv2.imwrite(str(folder / f"clip{clip}" / f"{frame:03d}.png"), pixels)
    options = {"file_root": str(folder), "sequence_length": int(rng.integers(1, 4))}
    options |= pick(rng, {}, {"step": 2}, {"stride": 2}, {"step": 3, "stride": 2})
    return "sequence", options | pick(rng, {}, {"image_type": "types.GRAY"}, {"image_type": "types.BGR"})


def recordio(rng, folder):
    """One or two MXNet files, which are one stream, with one index."""
    paths, lines, place = [], [], 0
    for number in range(int(rng.integers(1, 3))):
        content = b""
        for _ in range(int(rng.integers(3, 8))):
            body = struct.pack("<IfQQ", 0, float(rng.integers(0, 9)), len(lines), 0)
            body += rng.bytes(int(rng.integers(1, 40)))
            lines.append(f"{len(lines)}\t{place + len(content)}\n")
            content += struct.pack("<II", 0xCED7230A, len(body)) + body + bytes(-len(body) % 4)
        place += len(content)
        paths.append(folder / f"{number}.rec")
        paths[-1].write_bytes(content)
    (folder / "index").write_text("".join(lines))
    return "mxnet", {"path": list(map(str, paths)), "index_path": [str(folder / "index")]}


def lmdb(rng, folder, values):
    """One or two databases with the values; the argument `path`."""
    cut = int(rng.integers(1, len(values) + 1)) if len(values) > 1 else 1
    paths = []
    for name, part in (("a", values[:cut]), ("b", values[cut:])):
        if part:
            (folder / name).mkdir()
            (folder / name / "data.mdb").write_bytes(records.lmdb(part, leaf=int(rng.integers(2, 6))))
            paths.append(str(folder / name))
    return paths if len(paths) > 1 or rng.random() < 0.5 else paths[0]


def caffe(rng, folder):
    """Datums of encoded data, with labels."""
    count = int(rng.integers(3, 9))
    values = [message(f4=rng.bytes(int(rng.integers(1, 60))), f5=int(rng.integers(0, 99)), f7=1) for _ in range(count)]
    parts = pick(rng, {}, {"label_available": False}, {"image_available": False})
    return "caffe", {"path": lmdb(rng, folder, values), **parts}


def tensor(kind, count, **values):
    """A TensorProto of one axis."""
    return b"\x08" + varint(count) + message(f2=kind, **values)


def caffe2(rng, folder):
    """Protos of an image, and a label, several, or none; DALI fails on labels in few numbers."""
    kind, count = pick(rng, 0, 2, 4), int(rng.integers(3, 9))
    whole = rng.random() < 0.5

    def one():
        parts = [tensor(4, 1, f6=rng.bytes(int(rng.integers(1, 60))))]
        numbers = rng.integers(0, 300, 2)
        if kind == 0:
            parts.append(tensor(2, 1, f4=varint(int(numbers[0]))))
        elif kind == 2 and whole:
            parts.append(tensor(2, 2, f4=b"".join(varint(int(n)) for n in numbers)))
        elif kind == 2:
            parts.append(tensor(1, 2, f3=struct.pack("<2f", *rng.random(2))))
        return b"".join(records.field(1, part) for part in parts)

    options = {"path": lmdb(rng, folder, [one() for _ in range(count)]), "label_type": kind}
    return "caffe2", options | ({"num_labels": 2} if kind == 2 else {})


def regions(rng, folder):
    """Arrays of two axes in C and Fortran order, and regions of them."""
    dtype = pick(rng, np.uint8, np.int16, np.float32, np.float64)
    for number in range(int(rng.integers(3, 7))):
        shape = tuple(rng.integers(5, 9, 2))
        array = (rng.random(shape) * 100).astype(dtype)
        np.save(folder / f"{number}.npy", np.asfortranarray(array) if rng.random() < 0.3 else array)
    absolute = [int(n) for n in rng.integers(-1, 3, 2)], [int(n) for n in rng.integers(2, 8, 2)]
    relative = [round(float(n), 2) for n in rng.random(2) * 0.5], [round(float(n), 2) for n in rng.random(2) * 0.7]
    options = pick(
        rng,
        {},
        {"roi_start": absolute[0], "roi_shape": absolute[1]},
        {"roi_start": absolute[0], "roi_end": [a + b for a, b in zip(*absolute)]},
        {"rel_roi_start": relative[0], "rel_roi_shape": relative[1]},
        {"rel_roi_start": relative[0], "rel_roi_end": [1.0, 0.9]},
        {"roi_start": absolute[0][:1], "roi_shape": absolute[1][:1], "roi_axes": [int(rng.integers(2))]},
        {"roi_end": absolute[1]},
        {"rel_roi_start": relative[0], "roi_shape": absolute[1]},
    )
    if options:
        policy = pick(rng, "pad", "trim_to_shape", "error", None)
        options |= {} if policy is None else {"out_of_bounds_policy": policy}
        options |= {"fill_value": 7.5} if policy == "pad" and rng.random() < 0.5 else {}
    return "numpy", {"file_root": str(folder), **options}


READERS = {made.__name__: made for made in (sequence, recordio, caffe, caffe2, regions)}


def common(rng):
    """Shards, padding, and what happens at the end of an epoch."""
    options = {}
    if rng.random() < 0.6:
        shards = int(rng.integers(1, 4))
        options |= {"num_shards": shards, "shard_id": int(rng.integers(shards))}
    for name in ("stick_to_shard", "pad_last_batch", "lazy_init"):
        if rng.random() < 0.3:
            options[name] = True
    return options


def written(value):
    """A value in a program; names of types are not quoted."""
    return value if isinstance(value, str) and value.startswith("types.") else repr(value)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """All programs, with what they show under both libraries."""
    folder, programs = tmp_path_factory.mktemp("readers"), {}
    for kind, made in enumerate(READERS.values()):
        for number in range(CALLS):
            rng = random(1000 * kind + number)
            place = folder / f"{made.__name__}-{number}"
            place.mkdir()
            reader, options = made(rng, place)
            arguments = ", ".join(f"{name}={written(value)}" for name, value in {**options, **common(rng)}.items())
            batch, batches = int(rng.integers(1, 5)), int(rng.integers(3, 8))
            text = PROGRAM.format(reader=reader, arguments=arguments, batch=batch, batches=batches, meta=META)
            programs[made.__name__, number] = text
    ours = answers(sys.executable, "pipeflow", folder, programs)
    return programs, ours, answers(os.environ["PIPEFLOW_ORACLE_PYTHON"], "nvidia.dali", folder, programs, "apart")


@pytest.mark.parametrize("reader", READERS)
def test_drawn_arguments_give_what_they_give_under_dali(reader, both):
    """Every batch, the number of samples, and what the reader says of itself."""
    programs, *shown = both
    wrong, ended = [], 0
    for name in programs:
        if name[0] == reader:
            ours, theirs = (one[name] for one in shown)
            if "signal" in (theirs[0] or {}):  # some shards without samples end the process of DALI
                ended += 1
                continue
            if ended_at := [index for index, one in enumerate(theirs) if isinstance(one, dict) and "raised" in one]:
                ours, theirs = (
                    ours[: ended_at[0] + 1],
                    theirs[: ended_at[0] + 1],
                )  # here the next batch comes after an error
            found = [f"{index}: {text}" for index, pair in enumerate(zip(ours, theirs)) if (text := difference(*pair))]
            if found or len(ours) != len(theirs):
                wrong.append(f"{programs[name]}\n{found[:3] or (len(ours), len(theirs))}")
    assert not wrong, "\n".join(wrong[:4])
    assert ended <= CALLS // 2
