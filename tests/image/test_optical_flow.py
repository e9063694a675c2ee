"""Movements between frames, files of images on their way, and constants."""

import contextlib

import cv2
import numpy as np
import pytest

from pipeflow import fn, pipeline_def, types
from pipeflow.kernels import cpu as kernels

F = np.float32


def refused(match, kind, call):
    """The call fails with this type and words."""
    with pytest.raises(kind, match=match):
        call()


def moving(steps):
    """A smooth pattern that moves by (x, y) pixels from frame to frame."""
    noise = np.random.default_rng(1).normal(128, 60, (160, 200)).astype(F)
    pattern = cv2.GaussianBlur(noise, (0, 0), 3) * 4 - 384
    frames, x, y = [], 40, 40
    for dx, dy in [(0, 0), *steps]:
        x, y = x - dx, y - dy  # what the window shows moves the other way
        frames.append(pattern[y : y + 80, x : x + 100])
    clip = np.stack(frames)[..., None].repeat(3, 3)
    return clip.clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize("preset", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("grid", [1, 2, 4, 8])
def test_the_movement_is_found(grid, preset):
    """Two frames apart by (3, -2) and (-4, 1) pixels, in every size of squares."""
    steps = [(3, -2), (-4, 1)]
    found = fn.optical_flow(moving(steps), output_grid=grid, preset=preset)
    assert found.shape == (2, -(-80 // grid), -(-100 // grid), 2)
    assert found.dtype == np.float32
    with pytest.warns(DeprecationWarning, match="output_grid. now"):  # its former name
        np.testing.assert_array_equal(fn.optical_flow(moving(steps), output_format=grid, preset=preset), found)
    for one, step in zip(found, steps):
        inside = one[20 // grid : -20 // grid, 20 // grid : -20 // grid]
        assert np.abs(np.median(inside, axis=(0, 1)) - step).max() < 0.3


@pytest.mark.parametrize("shape", [(16, 16), (41, 59)])
@pytest.mark.parametrize("grid", [1, 2, 4, 8])
def test_means_of_squares_are_those_of_numpy(shape, grid):
    """The same bits, also at the edges, where the last pixels are repeated."""
    moves = np.random.default_rng(grid).normal(0, 30, (*shape, 2)).astype(F)
    tall, wide = (-(-extent // grid) for extent in shape)
    whole = np.pad(moves, ((0, tall * grid - shape[0]), (0, wide * grid - shape[1]), (0, 0)), "edge")
    out = np.empty((tall, wide, 2), F)
    kernels.optical_flow.means_of_squares(moves, grid, out)
    np.testing.assert_array_equal(out, whole.reshape(tall, grid, wide, grid, 2).mean((1, 3)))


def test_hints_and_grey_frames():
    """Hints near the truth and the movement before do not spoil what is found; one channel will do."""
    steps = [(3, -2), (3, -2)]
    clip = moving(steps)
    hints = np.full((2, 20, 25, 2), (2.5, -2.0), F)
    for options, inputs in (
        ({"enable_temporal_hints": True}, (clip,)),
        ({"enable_external_hints": True}, (clip, hints)),
        ({}, (clip[..., :1].copy(),)),
    ):
        found = fn.optical_flow(*inputs, **options)
        assert np.abs(np.median(found[:, 5:-5, 5:-5], axis=(1, 2)) - steps).max() < 0.3
    refused("needs two frames, the sequence has 1", ValueError, lambda: fn.optical_flow(clip[:1]))
    refused("16 x 16 pixels at least, got 8 x 100", ValueError, lambda: fn.optical_flow(clip[:, :8]))
    refused(
        "external hints have the shape",
        ValueError,
        lambda: fn.optical_flow(clip, hints[:1], enable_external_hints=True),
    )
    refused("preset must be 0.0, 0.5 or 1.0", ValueError, lambda: fn.optical_flow(clip, preset=0.3))
    refused("output_grid must be 1, 2, 4 or 8", ValueError, lambda: fn.optical_flow(clip, output_grid=3))


def test_images_are_written_on_their_way(tmp_path, monkeypatch):
    """One file for each sample and batch; OpenCV reads the pixels again; a second run goes on counting."""
    monkeypatch.chdir(tmp_path)
    images = [np.random.default_rng(n).integers(0, 256, (4, 5 + n, 3), np.uint8) for n in range(2)]

    @pipeline_def(batch_size=2, num_threads=2, prefetch_queue_depth=1)
    def pipe():
        fn.dump_image(fn.external_source(lambda: images, layout="HWC"), suffix="seen")
        return fn.external_source(lambda: images, layout="HWC")

    for first in (0, 1):
        one = pipe()
        one.run()
        del one
        names = sorted(path.name for path in tmp_path.iterdir())
        assert [f"0-seen-{first}.ppm", f"1-seen-{first}.ppm"] == [
            name for name in names if name.endswith(f"-{first}.ppm")
        ]
    for number, image in enumerate(images):
        read = cv2.imread(str(tmp_path / f"{number}-seen-0.ppm"), cv2.IMREAD_COLOR)
        assert (read[..., ::-1] == image).all()
    assert fn.dump_image(images[0][..., :1].copy(), suffix="grey").shape == (4, 5, 1)
    assert (cv2.imread("0-grey-0.ppm", cv2.IMREAD_GRAYSCALE) == images[0][..., 0]).all()
    refused("needs 1 or 3 channels", ValueError, lambda: fn.dump_image(np.zeros((2, 2, 4), np.uint8)))
    refused("suffix must be a part of a file name", ValueError, lambda: fn.dump_image(images[0], suffix="a/b"))
    refused("input_layout must be 'HWC'", ValueError, lambda: fn.dump_image(images[0], input_layout="CHW"))


def test_constants():
    """Lists, shapes, repeated numbers and types; numbers are limited to the range of theirs."""
    assert fn.constant(fdata=1.5).tolist() == [1.5]
    assert fn.constant(fdata=1.5).dtype == np.float32
    assert fn.constant(idata=(1, 2, 3, 4), shape=(2, 2)).tolist() == [[1, 2], [3, 4]]
    assert fn.constant(idata=(1, 2)).dtype == np.int32
    assert fn.constant(fdata=2.0, shape=(2, 3)).tolist() == [[2] * 3] * 2
    assert fn.constant(idata=(300, -1), dtype=types.UINT8).tolist() == [255, 0]
    assert fn.constant(idata=7, shape=()).shape == ()
    refused("give either fdata or idata", ValueError, lambda: fn.constant())
    refused("give either fdata or idata", ValueError, lambda: fn.constant(fdata=1.0, idata=1))
    refused("2 numbers do not fill the shape", ValueError, lambda: fn.constant(idata=(1, 2), shape=(2, 2)))


def packed(data: bytes, rng) -> bytes:
    """LZ4 blocks of random choices: literal runs of any length and copies of what came before."""
    out, place, literals = bytearray(), 0, bytearray()

    def number(count):
        return bytes([255] * (count // 255) + [count % 255])

    def emit(copy, back):
        token = min(len(literals), 15) << 4 | (min(copy - 4, 15) if copy else 0)
        out.append(token)
        if len(literals) >= 15:
            out.extend(number(len(literals) - 15))
        out.extend(literals)
        literals.clear()
        if copy:
            out.extend(back.to_bytes(2, "little"))
            if copy - 4 >= 15:
                out.extend(number(copy - 4 - 15))

    while place < len(data):
        found = (0, 0)
        for _ in range(4):
            back = int(rng.integers(1, min(place, 65535) + 1)) if place else 0
            copy = 0
            while back and place + copy < len(data) and data[place + copy] == data[place + copy - back] and copy < 700:
                copy += 1
            found = max(found, (copy, back))
        if found[0] >= 4 and place + found[0] < len(data):
            emit(*found)
            place += found[0]
        else:
            literals.append(data[place])
            place += 1
    emit(0, 0)
    return bytes(out)


@pytest.mark.parametrize("seed", range(12))
def test_lz4_blocks(seed):
    """Runs and copies of all lengths, overlapping ones too, in any type and shape."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, rng.choice([1, 2, 3, 200]), int(rng.integers(1, 60)) * 24).astype(np.uint8)
    shape = (len(values) // 8, 2)
    block = np.frombuffer(packed(values.tobytes(), rng), np.uint8)
    found = fn.decoders.inflate(block, shape=shape, dtype=types.INT32)
    assert (found == values.view(np.int32).reshape(shape)).all()


def test_chunks_are_stacked():
    """By sizes, by offsets, or by both with something between them."""
    rng = np.random.default_rng(3)
    parts = [rng.integers(0, 4, 30).astype(np.uint8) for _ in range(3)]
    blocks = [packed(part.tobytes(), rng) for part in parts]
    sizes = [len(block) for block in blocks]
    data = np.frombuffer(b"".join(blocks), np.uint8)
    options = {"shape": (5, 6), "layout": "HW"}
    offsets = [0, sizes[0], sizes[0] + sizes[1]]
    expected = np.stack(parts).reshape(3, 5, 6)
    assert (fn.decoders.inflate(data, chunk_sizes=sizes, **options) == expected).all()
    assert (fn.decoders.inflate(data, chunk_offsets=offsets, **options) == expected).all()
    turned = fn.decoders.inflate(data, chunk_offsets=offsets[::-1], chunk_sizes=sizes[::-1], **options)
    assert (turned == expected[::-1]).all()

    @pipeline_def(batch_size=1, num_threads=1)
    def pipe():
        return fn.decoders.inflate(fn.external_source(lambda: [data]), chunk_sizes=sizes, **options)

    assert pipe().run()[0].layout() == "FHW"
    refused(
        "chunk 2 would be the bytes", ValueError, lambda: fn.decoders.inflate(data, chunk_sizes=[1, 1, 10**6], shape=3)
    )
    refused(
        "3 chunk_offsets and 2 chunk_sizes",
        ValueError,
        lambda: fn.decoders.inflate(data, chunk_offsets=offsets, chunk_sizes=[1, 2], shape=3),
    )
    for none in ({"chunk_offsets": []}, {"chunk_sizes": []}, {"chunk_offsets": [], "chunk_sizes": []}):
        assert fn.decoders.inflate(data, shape=(2, 3), **none).shape == (0, 2, 3)
    for letters in ("", "AB"):
        wrong = {"shape": 3, "sequence_axis_name": letters}
        refused("must be one letter", ValueError, lambda wrong=wrong: fn.decoders.inflate(data, **wrong))
    refused("algorithm must be 'LZ4'", ValueError, lambda: fn.decoders.inflate(data, shape=3, algorithm="zlib"))
    refused(
        "layout 'HW' has 2 axes, the shape has 1", ValueError, lambda: fn.decoders.inflate(data, shape=3, layout="HW")
    )


def test_broken_blocks_are_refused():
    """Every cut, every changed byte: a result of the right size or an error that says what is wrong, never more."""
    rng = np.random.default_rng(4)
    values = rng.integers(0, 3, 200).astype(np.uint8)
    block = np.frombuffer(packed(values.tobytes(), rng), np.uint8)
    refused("it holds 200 bytes, its shape has room for 201", ValueError, lambda: fn.decoders.inflate(block, shape=201))
    refused("more than its shape has room for", ValueError, lambda: fn.decoders.inflate(block, shape=199))
    refused(
        "copies from before its beginning",
        ValueError,
        lambda: fn.decoders.inflate(np.uint8([0x10, 7, 2, 0, 0]), shape=5),
    )
    for cut in range(len(block)):
        refused("is no LZ4 block of shape", ValueError, lambda cut=cut: fn.decoders.inflate(block[:cut], shape=200))
    refused("shape must not be negative", ValueError, lambda: fn.decoders.inflate(block, shape=[2, -1]))

    # A shape that comes with the data takes no memory before it is believed.
    @pipeline_def(batch_size=1, num_threads=1)
    def define():
        return fn.decoders.inflate(fn.external_source([[block]]), shape=fn.external_source([[np.array([1 << 40])]]))

    with pytest.raises(ValueError, match=f"{len(block)} bytes cannot hold {1 << 40}"):
        define().run()
    for place in range(len(block)):
        broken = block.copy()
        broken[place] ^= rng.integers(1, 256, dtype=np.uint8)
        with contextlib.suppress(ValueError):  # another type would be a failure of ours
            assert fn.decoders.inflate(broken, shape=200).shape == (200,)


@pytest.mark.parametrize("preset", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("extents", [(16, 16), (17, 143), (24, 200), (16, 1000), (143, 17)])
def test_small_wide_frames(extents, preset):
    """OpenCV chooses the scales of small frames by their width alone: in a wide frame it then read outside of its memory."""
    clip = np.random.default_rng(2).integers(0, 256, (2, *extents, 3)).astype(np.uint8)
    for _ in range(3):  # also the repeated call
        found = fn.optical_flow(clip, preset=preset, output_grid=8)
        assert np.isfinite(found).all()
    assert found.shape == (1, -(-extents[0] // 8), -(-extents[1] // 8), 2)
