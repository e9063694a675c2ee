"""Nobody can see from the result which decoder a JPEG file went to, nor when the compiled one took over."""

import io
import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from decoders.jpeg_files import SAMPLINGS, encoded, photograph, write
from decoders.jpeg_fuzzing import corpus, window_of
from decoders.pictures import exif
from decoders.progressive_files import write_progressive
from decoders.test_fuzz import mutant
from helpers import LONG
from PIL import Image

from pipeflow import fn, pipeline_def, types
from pipeflow.kernels import kept_code
from pipeflow.kernels.cpu import images, jpeg, jpeg_progressive, jpeg_switch

pytestmark = pytest.mark.timeout(600)  # the first test compiles the decoder

PACKAGE = Path(jpeg_switch.__file__).parents[3]


def new_switch():
    return jpeg_switch.Switch("JPEG files are decoded", "jpeg", jpeg_switch.decoders_agree)


@pytest.fixture(scope="module")
def loaded():
    """Compiles the decoders, once."""
    jpeg.load()
    jpeg_progressive.load()


@pytest.fixture
def turn(monkeypatch, loaded):
    """A function that turns the compiled decoders on or off."""
    switches = {name: new_switch() for name in ("decoding", "decoding_progressive")}
    for name, switch in switches.items():
        switch._off = True
        monkeypatch.setattr(jpeg_switch, name, switch)

    def turn(on):
        for switch in switches.values():
            switch.on = on

    return turn


def outcome(data, wanted, window, limits):
    """The pixels of an image, or the type and text of the error."""
    try:
        region = None if window is None else lambda _height, _width: window
        return images.decode(np.frombuffer(data, np.uint8), wanted, limits, region=region)
    except (ValueError, RuntimeError) as error:
        return type(error), str(error)


def equal(first, second):
    if isinstance(first, tuple) or isinstance(second, tuple):
        return first == second
    return first.dtype == second.dtype and np.array_equal(first, second)


def turned(data, orientation, progressive=False):
    """The same file with an EXIF orientation."""
    picture = Image.open(io.BytesIO(data))
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=90, exif=exif(orientation), progressive=progressive)
    return file.getvalue()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("color", ["RGB", "BGR", "GRAY", "YCbCr", "ANY_DATA"])
def test_results_do_not_depend_on_the_decoder(turn, orientation, color):
    """All colours, types and orientations, whole images and windows, gray files too."""
    rng = np.random.default_rng(orientation)
    picture = photograph(53, 71)
    for sampling, progressive in (("4:2:0", False), ("4:4:4", False), ("gray", False), ("4:2:0", True)):
        data = turned(encoded(picture, sampling), orientation, progressive)
        for dtype in (np.uint8, np.uint16, np.float32):
            wanted = images.Wanted(color, np.dtype(dtype), adjust_orientation=bool(rng.integers(4)))
            height, width = (53, 71) if orientation < 5 or not wanted.adjust_orientation else (71, 53)
            for window in (None, (3, 5, 20, 30), (0, 0, height, width), (height - 1, width - 1, 1, 1)):
                results = []
                for on in (False, True):
                    turn(on)
                    results.append(outcome(data, wanted, window, images.Limits()))
                assert not isinstance(results[0], tuple)
                assert equal(*results), (sampling, dtype, window)


def outcomes(turn, data, window=None, **limits):
    """What comes of a file with and without the compiled decoders."""
    results = []
    for on in (False, True):
        turn(on)
        results.append(outcome(data, images.Wanted(), window, images.Limits(**limits)))
    return results


@pytest.mark.parametrize("progressive", [False, True])
def test_cut_files_have_one_outcome(turn, progressive):
    """At every byte, with and without a mark of the end."""
    data = encoded(photograph(24, 40), "4:2:0", 60, progressive=progressive)
    for end in range(len(data)):
        for tail in (b"", b"\xff\xd9"):
            assert equal(*outcomes(turn, data[:end] + tail)), (end, tail)


@pytest.mark.parametrize("progressive", [False, True])
def test_unusual_files_have_one_outcome(turn, progressive):
    """Other bits, components, extents, kinds of frames, and segments between the others."""
    data = encoded(photograph(24, 40), "4:2:0", 60, progressive=progressive)
    frame, scan = data.index(b"\xff\xc2" if progressive else b"\xff\xc0"), data.index(b"\xff\xda")
    changed = {
        frame + 1: [b"\xc0", b"\xc1", b"\xc2", b"\xc3", b"\xc5", b"\xc9", b"\xca"], frame + 4: [b"\x0c"],
        frame + 5: [b"\0\0", b"\0\x19", b"\0\x17", b"\xff\xff\xff\xff"], frame + 9: [b"\1", b"\2", b"\4"],
        frame + 11: [b"\x12", b"\x42", b"\x44"], frame + 14: [b"\x12", b"\x22"],
    }  # fmt: skip
    inserted = [
        b"\xff" * 9, b"\0", data[:2], b"\xff\xdd\0\4\0\0", b"\xff\xdd\0\4\x27\x0f", b"\xff\xdd\0\4\0\1", b"\xff\xc4\0\2",
        b"\xff\xdc\0\4\0\x18", b"\xff\xfe\0\2", b"\xff\xfe\0\1", b"\xff\xe2\0\3a", b"\xff\xd0", b"\xff\xd9", b"\xff\x01",
    ]  # fmt: skip
    files = [data[:at] + x + data[at + len(x) :] for at, values in changed.items() for x in values]
    files += [data[:at] + x + data[at:] for at in (2, frame, scan, len(data) - 40, len(data)) for x in inserted]
    for file in files:
        for window in (None, (0, 0, 5, 40), (23, 39, 1, 1)):
            assert equal(*outcomes(turn, file, window)), file
    for limits in (
        {"max_pixels": 959},
        {"max_pixels": 960},
        {"max_bytes": 2879},
        {"max_bytes": 2880},
        {"damaged": True},
    ):
        assert equal(*outcomes(turn, data, **limits))
        assert equal(*outcomes(turn, data[:-60], **limits))


@pytest.mark.parametrize("extents", [(65500, 1), (65501, 1), (65535, 1), (1, 65500), (1, 65501), (1, 65535)])
def test_the_largest_extents_have_one_outcome(turn, extents):
    """libjpeg-turbo refuses more than 65,500 rows or columns."""
    rng, blocks = np.random.default_rng(0), [-(-extent // 8) for extent in extents]
    coefficients = [rng.integers(-20, 20, (*blocks, 64)) * (np.arange(64) == 0)]
    scans = [([0], 0, 0, 0, 0), ([0], 1, 63, 0, 0)]
    for data in (
        write(*extents, "gray", coefficients, np.full((1, 64), 5), rng),
        write_progressive(*extents, "gray", coefficients, np.full((1, 64), 5), rng, scans=scans),
    ):
        results = outcomes(turn, data)
        assert equal(*results)
        assert isinstance(results[0], tuple) == (max(extents) > 65500)


@pytest.mark.parametrize("damaged", [False, True])
def test_damaged_files_have_one_outcome(turn, mutants, damaged, caplog):
    """The same pixels or the same error from both, for whole images and windows, strict and tolerant."""
    caplog.set_level(logging.CRITICAL)
    files, decoded = corpus(), 0
    for seed in range(5 * mutants):
        rng = np.random.default_rng(seed + 10**6)
        data = mutant(files[seed % len(files)], rng)
        wanted = images.Wanted(("RGB", "GRAY", "BGR", "YCbCr")[seed % 4])
        limits = images.Limits(max_pixels=1 << 16, damaged=damaged)
        try:
            header = images.peek(np.frombuffer(data, np.uint8), limits)
        except ValueError:
            continue
        window = window_of(rng, *header.oriented_size) if seed % 3 else None
        results = []
        for on in (False, True):
            turn(on)
            results.append(outcome(data, wanted, window, limits))
        assert equal(*results), seed
        decoded += not isinstance(results[0], tuple)
    assert decoded > mutants


def pictures(folder, count=24):
    for i in range(count):
        sampling = list(SAMPLINGS)[i % len(SAMPLINGS)]
        folder.joinpath(f"{i:02}.jpg").write_bytes(encoded(photograph(60 + i, 90 - i, i), sampling))


def test_the_change_in_the_middle_of_an_epoch_shows_nowhere(turn, tmp_path):
    """A pipeline whose decoder changes between two batches gives the pixels of one where it never does, and counts both."""
    pictures(tmp_path)

    @pipeline_def(batch_size=4, num_threads=2, seed=3, prefetch_queue_depth=1)
    def pipeline():
        files, _ = fn.readers.file(file_root=str(tmp_path), files=sorted(os.listdir(tmp_path)))
        part = fn.decoders.image_random_crop(files)
        return fn.resize(part, size=(32, 32)), fn.decoders.image(files, output_type=types.GRAY)

    def run(change_at):
        turn(False)
        pipe = pipeline()
        pipe.build()
        batches = []
        for i in range(6):
            turn(i >= change_at)
            batches.append([np.array(sample) for output in pipe.run() for sample in output])
        return batches, pipe.executor_statistics().get("counts", {})

    expected, counted = run(6)
    assert set(counted) == {jpeg_switch.LIBRARY}
    for change_at in (0, 3):
        got, counted = run(change_at)
        for one, other in zip(expected, got, strict=True):
            for a, b in zip(one, other, strict=True):
                assert np.array_equal(a, b)
        assert counted[jpeg_switch.COMPILED] > 0
        assert set(counted) <= {jpeg_switch.LIBRARY, jpeg_switch.COMPILED}


class FakeProcess:
    """A compiling process that ends when it is told to."""

    def __init__(self):
        self.returncode = None

    def poll(self):
        return self.returncode


@pytest.fixture
def cold(monkeypatch, tmp_path, loaded):
    """A switch in a process that finds nothing compiled; the list of the processes it has started."""
    started = []

    def start(_module):
        started.append(FakeProcess())
        return started[-1]

    monkeypatch.setattr(jpeg_switch, "compile_elsewhere", start)
    monkeypatch.setattr(jpeg_switch, "EVERY", 2)
    monkeypatch.setattr(jpeg, "kept", lambda: False)
    monkeypatch.setattr(jpeg_switch.kernels.jit, "cache_folder", lambda: tmp_path)
    monkeypatch.delenv("PIPEFLOW_JPEG")
    switch = new_switch()

    def ask():
        return [switch.ready() for _ in range(2)][-1]

    return ask, started, switch


def test_nobody_waits_for_the_compiler(cold, monkeypatch, caplog):
    """One process is started; when the compiled decoder is there it is used, and a line says so each time."""
    caplog.set_level(logging.INFO)
    ask, started, _ = cold
    assert [ask() for _ in range(5)] == [False] * 5
    assert len(started) == 1
    assert "until the kernel for it is compiled" in caplog.text
    started[0].returncode = 0
    monkeypatch.setattr(jpeg, "kept", lambda: True)
    assert ask()
    assert "decoded by a compiled kernel from now on" in caplog.text


def test_a_compiler_that_fails_is_told_once(cold, caplog):
    """The library decodes on, and nothing is started again."""
    ask, started, _ = cold
    ask()
    started[0].returncode = 1
    assert [ask() for _ in range(4)] == [False] * 4
    assert len(started) == 1
    assert caplog.text.count("ended with code 1") == 1


def test_one_process_compiles_for_all(cold, tmp_path):
    """While somebody holds the lock nobody starts a second compiler; if that one fails another may try."""
    ask, started, _ = cold
    with jpeg_switch.compiling_alone("jpeg") as alone:
        assert alone
        ask()
        assert started == []
    ask()
    assert len(started) == 1
    started[0].returncode = jpeg_switch.COMPILED_ELSEWHERE
    ask()
    ask()
    assert len(started) == 2


def test_a_decoder_that_differs_is_not_used(cold, monkeypatch, caplog):
    """The two are compared before the change: on a machine where they differ the library decodes on."""
    ask, _, switch = cold
    monkeypatch.setattr(jpeg, "kept", lambda: True)
    switch.agrees = lambda: False
    assert not ask()
    assert "other pixels" in caplog.text
    assert not switch.ready()


def test_the_comparison_notices_one_pixel(loaded, monkeypatch):
    """What is compared are all pixels of all ways of sampling."""
    jpeg_switch.decoders_agree.cache_clear()
    assert jpeg_switch.decoders_agree()
    jpeg_switch.decoders_agree.cache_clear()
    decode = jpeg.decode

    def wrong(*arguments):
        done = decode(*arguments)
        if arguments[1][2] == 1:
            arguments[-1][40, 50, 2] ^= 1
        return done

    monkeypatch.setattr(jpeg, "decode", wrong)
    assert not jpeg_switch.decoders_agree()
    jpeg_switch.decoders_agree.cache_clear()


def test_the_library_alone(monkeypatch):
    """PIPEFLOW_JPEG=library turns the compiled decoder off for good."""
    monkeypatch.setenv("PIPEFLOW_JPEG", "library")
    switch = new_switch()
    assert not any(switch.ready() for _ in range(100))


def test_without_a_folder_nothing_is_compiled(cold, monkeypatch, caplog):
    """What could not be kept would be compiled by every process."""
    caplog.set_level(logging.INFO)
    ask, started, _ = cold
    monkeypatch.setattr(jpeg_switch.kernels.jit, "cache_folder", lambda: None)
    assert not ask()
    assert started == []
    assert "no folder" in caplog.text


def test_the_compiling_process_compiles(loaded):
    """It ends well, which takes no time where the decoder is there already."""
    process = jpeg_switch.compile_elsewhere("jpeg")
    assert process.wait(LONG) == 0
    process.stdin.close()


def test_the_compiling_process_ends_with_its_parent(tmp_path):
    """When its input ends, so does it, in the middle of its work."""
    environment = {**os.environ, "PIPEFLOW_CACHE_DIR": str(tmp_path)}
    program = f"import sys; sys.path[:0] = [{str(PACKAGE)!r}]; from pipeflow.kernels.cpu import jpeg_switch; " + (
        "jpeg_switch.kernels.jpeg.load = lambda: __import__('threading').Event().wait(); jpeg_switch.compile_here('jpeg')"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, env=environment)
    assert process.poll() is None
    process.stdin.close()
    assert process.wait(LONG) == 1


def test_a_kernel_is_kept_under_the_name_that_is_looked_for(loaded, monkeypatch, tmp_path):
    """`kept` looks for the file that loading reads."""
    assert jpeg.kept()
    monkeypatch.setattr(jpeg.decode_image, "overloads", {})
    assert jpeg.kept()
    monkeypatch.setattr(kept_code.KernelFiles, "path", lambda _self, key: tmp_path / "absent")
    assert not jpeg.kept()


def test_memory_is_allocated_once(turn):
    """A file that the compiled decoder leaves to the library goes into the memory that was made for it."""
    turn(True)
    made, progressive = [], io.BytesIO()
    Image.fromarray(photograph(40, 40)).save(progressive, "JPEG", progressive=True)
    data = np.frombuffer(progressive.getvalue(), np.uint8)

    def allocate(shape, dtype):
        made.append(np.empty(shape, dtype))
        return made[-1]

    image = images.decode(data, images.Wanted(), images.Limits(), allocate)
    assert len(made) == 1
    assert image is made[0]
