"""Chains of operators that run as compiled programs: their results are those of the bodies, which eager calls run."""

import io

import numpy as np
import pytest
import soundfile

import pipeflow.operators  # noqa: F401  (fills the registry)
from pipeflow import fn, pipeline_def, types
from pipeflow.declare import Number, registry
from pipeflow.errors import BadData
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.runners import chain, late_code, program
from pipeflow.executor.runners.sample import SampleStage
from pipeflow.kernels.cpu import audio_headers, audio_wav, image_programs, jit, kernel_calls, later

RNG = np.random.default_rng(3)
SOUNDS = [RNG.normal(size=int(size)).astype(np.float32) for size in (700, 3000, 1, 40, 9000, 641)]
SPECTRA = [np.abs(RNG.normal(size=(17, int(size)))).astype(np.float32) for size in (40, 1, 700, 3, 16, 33)]


TURNED = [np.ascontiguousarray(x.T) for x in SPECTRA]


def file(values, kind="WAV", subtype="PCM_16", rate=22050):
    """The bytes of a sound file."""
    stream = io.BytesIO()
    soundfile.write(stream, values, rate, format=kind, subtype=subtype)
    return np.frombuffer(stream.getvalue(), np.uint8)


MONO, STEREO = RNG.normal(size=1500) * 0.2, RNG.normal(size=(900, 2)) * 0.2
FILES = [
    file(MONO),
    file(MONO[:600], "FLAC"),
    file(STEREO),
    file(STEREO, "FLAC"),
    file(MONO, subtype="PCM_U8"),
    file(MONO, subtype="PCM_32"),
    file(MONO[:333], rate=16000),
    file(MONO, subtype="PCM_24"),
    file(MONO, subtype="FLOAT"),
    file(MONO, "FLAC", "PCM_24"),
    file(MONO, "FLAC", "PCM_S8"),
    file(MONO, "OGG", "VORBIS"),
    file(MONO[:0]),
]


class Ran:
    """The number of samples of the first batch that chains have done."""

    done = 0


@pytest.fixture
def ran(monkeypatch, caplog):
    """Counts what chains do in the first batch of a pipeline; a failed test shows why they do not describe a sample."""
    caplog.set_level("DEBUG", "pipeflow.chains")
    counts, run = Ran(), chain.Chain.run

    def counted(self, batch, rows, *rest):
        done = run(self, batch, rows, *rest)
        if batch.index == 0:  # others are made ahead
            counts.done += len(done)
        return done

    monkeypatch.setattr(chain.Chain, "run", counted)
    return counts


def through(operator, samples, threads=1, layout=None, **options):
    """The outputs of a pipeline for these samples; each sample is an element of a list of a batch."""

    @pipeline_def(batch_size=len(samples), num_threads=threads, device_id=None, **options)
    def pipeline():
        data = fn.external_source(source=lambda: samples, layout=layout)
        return operator(data)

    pipe = pipeline()
    pipe.build()
    return [[np.array(value) for value in output] for output in pipe.run()]


def assert_equal(outputs, operator, samples):
    """The outputs are bit for bit those of eager calls."""
    for number, sample in enumerate(samples):
        expected = operator(sample)
        expected = expected if isinstance(expected, (tuple, list)) else [expected]
        for output, value in zip(outputs, expected, strict=True):
            value = np.asarray(value)
            assert output[number].dtype == value.dtype
            assert output[number].shape == value.shape
            assert output[number].tobytes() == value.tobytes()


SHAPES = [(24, 36, 3), (1, 1, 3), (7, 11, 3), (40, 5, 3), (64, 64, 3), (13, 1, 3)]
IMAGES = [RNG.integers(0, 256, shape).astype(np.uint8) for shape in SHAPES]
FLOATS = [(RNG.normal(size=shape) * 30).astype(np.float32) for shape in SHAPES]
WHOLE = [(RNG.normal(size=shape) * 1e4).astype(np.int32) for shape in SHAPES]


LEVELS = [np.round(x * 9).astype(np.uint8) for x in SPECTRA]


def reductions(name, *more):
    """Cases of a reduction: over all axes, some, and one; of several types."""
    function = getattr(fn.reductions, name)
    return [
        *[(function, data, 6) for data in (IMAGES, FLOATS, WHOLE, [x.astype(np.float64) for x in FLOATS])],
        (lambda x: function(x, axes=[0, 1]), IMAGES, 6),
        (lambda x: function(x, axes=[0, 1], keep_dims=True), FLOATS, 6),
        (lambda x: function(x, axes=[1]), FLOATS, 6),
        (lambda x: function(x, axes=[2], keep_dims=True), WHOLE, 6),
        (lambda x: function(x, axes=[0, 2]), IMAGES, 0),
        (function, [x.astype(np.float16) for x in FLOATS], 0),
        *more,
    ]


def spread(name):
    """Cases of a deviation, from the data and its mean."""
    function = getattr(fn.reductions, name)
    return [
        (lambda x: function(x, fn.reductions.mean(x)), IMAGES, 6),
        (lambda x: function(x, fn.reductions.mean(x, axes=[0, 1]), axes=[0, 1]), FLOATS, 6),
        (lambda x: function(x, fn.reductions.mean(x, axes=[1], keep_dims=True), axes=[1], keep_dims=True), WHOLE, 6),
        (lambda x: function(x, fn.reductions.mean(x), ddof=2, axes=[0, 1, 2]), IMAGES, 6),
        (lambda x: function(x, fn.reductions.mean(x), axes=[0, 1]), FLOATS, 0),
    ]


CASES = {
    "preemphasis_filter": [
        (lambda x: fn.preemphasis_filter(x), SOUNDS, 6),
        (lambda x: fn.preemphasis_filter(x, border="reflect", preemph_coeff=0.5), SOUNDS, 6),
        (lambda x: fn.preemphasis_filter(x, border="zero"), [x[:, None] for x in SOUNDS], 6),
        (lambda x: fn.preemphasis_filter(x), [*SOUNDS, np.zeros(0, np.float32)], 6),
        (lambda x: fn.preemphasis_filter(x), [np.stack([x, x[::-1]], 1) for x in SOUNDS], 0),
        (lambda x: fn.preemphasis_filter(x, dtype=types.INT16), SOUNDS, 0),
    ],
    "spectrogram": [
        (lambda x: fn.spectrogram(x, window_length=64, window_step=16), SOUNDS, 6),
        (lambda x: fn.spectrogram(x, nfft=128, window_length=50, power=1, layout="tf"), SOUNDS, 6),
        (lambda x: fn.spectrogram(x, window_length=40, window_step=9, center_windows=False), SOUNDS[3:], 3),
        (lambda x: fn.spectrogram(x, nfft=16, window_length=9, reflect_padding=False, window_fn=[0.5] * 9), SOUNDS, 6),
        (lambda x: fn.spectrogram(x, nfft=202, window_length=64), SOUNDS, 0),
        (lambda x: fn.spectrogram(x, window_length=64), [x.astype(np.float64) for x in SOUNDS], 0),
    ],
    "mel_filter_bank": [
        (lambda x: fn.mel_filter_bank(x, nfilter=8, sample_rate=16000), SPECTRA, 6),
        (lambda x: fn.mel_filter_bank(x, nfilter=3, mel_formula="htk", normalize=False), TURNED, 6),
        (lambda x: fn.mel_filter_bank(x, nfilter=5), [np.ascontiguousarray(x[:, 0]) for x in SPECTRA], 6),
        (lambda x: fn.mel_filter_bank(x, nfilter=8), [np.stack([x, 2 * x]) for x in SPECTRA], 6),
    ],
    "to_decibels": [
        (lambda x: fn.to_decibels(x, cutoff_db=-80.0), [*SPECTRA, np.array([[np.nan, 0, 3]], np.float32)], 7),
        (lambda x: fn.to_decibels(x, multiplier=20.0, reference=0.3), SPECTRA, 6),
        (lambda x: fn.to_decibels(x, reference=1e-60), [*SPECTRA, np.full((1, 3), np.nan, np.float32)], 7),
    ],
    "normalize": [
        (lambda x: fn.normalize(x, axes=[1]), SPECTRA, 6),
        (lambda x: fn.normalize(x, ddof=1, epsilon=0.1, scale=3, shift=2), SPECTRA, 6),
        (lambda x: fn.normalize(x, axes=[0]), SPECTRA, 5),
        (lambda x: fn.normalize(x, axes=[0], ddof=1, epsilon=0.1, scale=3, shift=2), LEVELS, 5),
        (lambda x: fn.normalize(x, mean=1.0), SPECTRA, 0),
        (lambda x: fn.normalize(x, mean=1.0, stddev=2.0, epsilon=0.5), SPECTRA, 6),
        (lambda x: fn.normalize(x, dtype=types.UINT8, scale=30, shift=128), IMAGES, 6),
        (lambda x: fn.normalize(x), [*IMAGES, np.full((8, 8, 3), 7, np.uint8)], 7),
        (lambda x: fn.normalize(x, axes=[0, 1]), [*IMAGES, np.full((8, 8, 3), 7, np.uint8)], 7),
        (lambda x: fn.normalize(x, axes=[0, 1], dtype=types.FLOAT16, shift=0.5), IMAGES, 6),
        (lambda x: fn.normalize(x, axes=[0, 1], mean=[100.0, 110.5, 90], stddev=[50.0, 60, 70]), IMAGES, 6),
        (lambda x: fn.normalize(x, axes=[0, 1], mean=[100.0, 110.5, 90], stddev=2.0, dtype=types.INT8), IMAGES, 6),
        (lambda x: fn.normalize(x, mean=np.full((1, 1, 3), 99.0), stddev=np.full((1, 1, 3), 3.0), shift=1), IMAGES, 6),
        (lambda x: fn.normalize(x, axes=[1, 2]), IMAGES, 0),
        (lambda x: fn.normalize(x, axes=[0, 2]), IMAGES, 0),
    ],
    "reductions.mean": reductions("mean", (lambda x: fn.reductions.mean(x, dtype=types.INT16), FLOATS, 6)),
    "reductions.mean_square": reductions("mean_square"),
    "reductions.rms": reductions("rms"),
    "reductions.sum": reductions(
        "sum",
        (lambda x: fn.reductions.sum(x, dtype=types.FLOAT), WHOLE, 6),
        (lambda x: fn.reductions.sum(x, dtype=types.INT16), IMAGES, 6),
        (lambda x: fn.reductions.sum(x, dtype=types.INT32), FLOATS, 0),
    ),
    "reductions.max": [case for case in reductions("max") if case[1][0].dtype.kind != "f"],
    "reductions.min": [case for case in reductions("min") if case[1][0].dtype.kind != "f"],
    "reductions.std_dev": spread("std_dev"),
    "reductions.variance": spread("variance"),
    "decoders.audio": [
        (lambda x: fn.decoders.audio(x, downmix=True), FILES, 7),
        (lambda x: fn.decoders.audio(x), FILES, 7),
        (lambda x: fn.decoders.audio(x, sample_rate=16000, downmix=True), FILES, 7),
        (lambda x: fn.decoders.audio(x, sample_rate=16000), FILES, 5),
        (lambda x: fn.decoders.audio(x, sample_rate=30001, downmix=True, quality=0, antialias=False), FILES, 0),
        (lambda x: fn.decoders.audio(x, dtype=types.INT16), FILES, 0),
    ],
}  # fmt: skip


def test_every_operator_with_calls_is_here():
    """The table of cases has each operator that declares its work as calls of kernels; others are in test_image_programs.py,
    test_color_programs.py and test_chains.py.
    """
    images = {
        "decoders.image", "decoders.image_crop", "decoders.image_random_crop", "decoders.image_slice", "resize",
        "experimental.resize", "random_resized_crop", "crop_mirror_normalize",
    }  # fmt: skip
    colors = {"brightness", "contrast", "brightness_contrast", "color_twist", "hsv", "hue", "saturation", "cast"}
    colors |= {"grayscale", "color_space_conversion", "warp_perspective", "experimental.warp_perspective"}
    moves = {"crop", "slice", "flip", "pad", "erase", "transpose", "rotate", "warp_affine", "gaussian_blur"}
    moves |= {
        f"math.{name}" for name in ("add", "sub", "mul", "div", "min", "max", "clamp", "bitand", "bitor", "bitxor")
    }
    tones = {
        "invert",
        "solarize",
        "solarize_add",
        "posterize",
        "channel_shift",
        "autocontrast",
        "equalize",
        "contrast_about_mean",
    }
    declared = {
        op.name for op in registry.values() if op.calls_hook and not (op.links or op.calls_for or op.calls_small)
    }
    shapes = {"expand_dims", "squeeze"}  # in test_shared_memory.py
    drawn = {"segmentation.random_mask_pixel"}  # in test_segmentation.py
    frames = {"per_frame", "sequence_rearrange"}  # in test_chains.py, as audio_resample
    assert set(CASES) | images | colors | moves | tones | shapes | drawn | frames | {"audio_resample"} == declared


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name, cases in CASES.items() for number in range(len(cases))]
)
def test_programs_give_what_the_bodies_give(name, number, ran, monkeypatch):
    """Bit for bit, in one batch of samples of different sizes and kinds, of which some are computed by the body. The batch is one
    chunk: after failures in a chunk the next one has a shorter chain, and the times of samples decide how many chunks there are.
    """
    monkeypatch.setattr(SampleStage, "chunk", lambda self, left, threads, batches: left)
    operator, samples, described = CASES[name][number]
    outputs = through(operator, samples)
    assert_equal(outputs, operator, samples)
    assert ran.done == described


def log_mel(encoded):
    sound, rate = fn.decoders.audio(encoded, sample_rate=16000, downmix=True)
    spectrum = fn.spectrogram(fn.preemphasis_filter(sound), nfft=512, window_length=320, window_step=160)
    mel = fn.mel_filter_bank(spectrum, nfilter=20, sample_rate=16000)
    return [fn.normalize(fn.to_decibels(mel, cutoff_db=-80.0), axes=[1]), mel, rate]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_chain_of_operators_gives_what_the_bodies_give(ran, threads):
    """Results inside the chain that are also outputs are right too."""
    samples = FILES[:-1] * 2
    assert_equal(through(log_mel, samples, threads), log_mel, samples)
    assert ran.done == 14


@pytest.mark.parametrize(
    "change",
    [
        lambda rate: fn.expand_dims(rate, axes=0),
        lambda rate: fn.squeeze(fn.expand_dims(rate, axes=0), axes=0),
        lambda rate: fn.reductions.sum(rate),
        lambda rate: rate * 2,
    ],
)
def test_a_result_that_all_samples_have_may_be_read(change, ran):
    """The rate of sounds is no memory of a sample; later steps of the chain read it, or copy it."""

    def definition(encoded):
        sound, rate = fn.decoders.audio(encoded)
        return [sound, change(rate)]

    outputs = through(definition, FILES[:2])
    assert_equal(outputs, definition, FILES[:2])


def test_other_operators_may_follow(ran):
    """What a chain makes can be read in the same stage by operators without calls."""
    operator = lambda x: fn.power_spectrum(fn.decoders.audio(x, downmix=True)[0], nfft=32) * 2.0
    assert_equal(through(operator, FILES[:7]), operator, FILES[:7])
    assert ran.done == 7


def test_a_debug_run_gives_what_the_bodies_give():
    """Each step is a chain by itself there, and every result can be looked at."""
    assert_equal(through(log_mel, FILES[:7], debug=True), log_mel, FILES[:7])


def test_memory_grows_with_the_samples(monkeypatch, ran):
    """Samples that need more memory than any before are run again with more; larger ones than the limit by the body."""
    samples = [file(np.resize(MONO, size)) for size in (50, 200_000, 60, 400_000, 70)]
    assert_equal(through(log_mel, samples), log_mel, samples)
    assert ran.done == 5
    monkeypatch.setattr(program, "LARGEST", 1 << 20)
    assert_equal(through(log_mel, samples), log_mel, samples)
    assert ran.done == 8


def test_results_keep_their_memory():
    """An array of one sample stays as it is when the batch is gone and the memory could be used again."""

    @pipeline_def(batch_size=4, num_threads=1, device_id=None)
    def pipeline():
        return fn.preemphasis_filter(fn.external_source(source=lambda info: SOUNDS[info.idx_in_epoch % 6], batch=False))

    pipe = pipeline()
    pipe.build()
    kept = [pipe.run()[0].at(0) for _ in range(6)]
    for number, value in enumerate(kept):
        np.testing.assert_array_equal(value, fn.preemphasis_filter(SOUNDS[number * 4 % 6]))


def test_a_damaged_file_fails_alone_with_the_error_of_the_body(ran):
    """A file that a program refuses or cannot decode is reported by the body: the same type, text and notes."""
    damaged = FILES[1].copy()
    damaged[len(damaged) // 2 :] = 0
    cut = FILES[0][:1000]
    for bad in (damaged, cut):
        with pytest.raises(BadData) as alone:
            fn.decoders.audio(bad)
        with pytest.raises(BadData, match=r"wav|sound file|flac") as raised:
            through(lambda x: fn.decoders.audio(x, downmix=True), [FILES[0], bad, FILES[1]])
        assert str(raised.value).startswith(str(alone.value))
        assert any("sample 1 of" in note for note in raised.value.__notes__)


def test_rules_for_failures_hold_in_chains(ran):
    """A damaged file is left out, or replaced by a given value; the other samples are done by the chain."""
    samples = [FILES[0], FILES[0][:1000], FILES[1], FILES[2]]
    good = [samples[0], *samples[2:]]
    outputs = through(log_mel, samples, on_error="skip")
    assert_equal(outputs, log_mel, good)
    assert ran.done == 3
    silence = np.zeros(100, np.float32)
    decode = lambda x: fn.decoders.audio(x, downmix=True, on_error=(silence, np.float32(0)))[0]
    (outputs,) = through(lambda x: fn.preemphasis_filter(decode(x)), samples)
    np.testing.assert_array_equal(outputs[1], silence)


def test_programs_are_limited(monkeypatch, ran):
    """Files of more kinds than a chain has programs are decoded by the body."""
    monkeypatch.setattr(chain, "PROGRAMS", 2)
    rates = [8000, 9000, 10000, 8000, 11000]
    samples = [file(MONO[:300], rate=rate) for rate in rates]
    operator = lambda x: fn.decoders.audio(x, sample_rate=16000, downmix=True)
    assert_equal(through(operator, samples), operator, samples)
    assert 0 < ran.done < 5


def test_guarded_steps_are_no_members(ran):
    """A step in a branch runs for the samples of that branch, by its body."""

    @pipeline_def(batch_size=6, num_threads=1, device_id=None, enable_conditionals=True)
    def pipeline():
        sound = fn.external_source(source=lambda: SOUNDS)
        loud = fn.external_source(source=lambda: [np.array(number % 2 == 0) for number in range(6)])
        if loud:
            result = fn.preemphasis_filter(sound)
        else:
            result = sound + 0.0
        return fn.to_decibels(result)

    pipe = pipeline()
    pipe.build()
    (outputs,) = pipe.run()
    for number, sound in enumerate(SOUNDS):
        chosen = fn.preemphasis_filter(sound) if number % 2 == 0 else sound
        np.testing.assert_array_equal(outputs.at(number), fn.to_decibels(chosen))


def test_steps_have_their_times():
    """Every step of a chain has its seconds and its calls while a pipeline is measured."""

    @pipeline_def(batch_size=4, num_threads=1, device_id=None)
    def pipeline():
        return tuple(log_mel(fn.external_source(source=lambda: FILES[:4]))[:1])

    pipe = pipeline()
    pipe.build()
    with pipe.measure():
        for _ in range(4):
            pipe.run()
        clocks = {
            item.step.op: item.clock
            for runner in pipe._executor.stages
            for item in runner.steps
            if isinstance(runner, SampleStage)
        }
    names = {"decoders.audio", "preemphasis_filter", "spectrogram", "mel_filter_bank", "to_decibels", "normalize"}
    assert clocks.keys() == names
    # The report joins the steps if other work took most of the time of their stage, as on a busy machine.
    assert all(clock.seconds > 0 and clock.calls > 0 for clock in clocks.values())


def test_headers_are_read_as_the_decoder_reads_them(mutants):
    """A damaged wav header is described only if the decoder finds the same in it."""
    rng = np.random.default_rng(5)
    whole = file(MONO[:40])
    described = 0
    for _ in range(max(mutants, 300)):
        data = whole[: int(rng.integers(8, len(whole) + 1)) if rng.random() < 0.5 else None].copy()
        for place in rng.integers(0, min(60, len(data)), int(rng.integers(0, 3))):
            data[place] = rng.integers(256)
        kind, bits, channels, rate, _, begin, frames = audio_headers.read(data)
        if kind == audio_headers.WAV:
            wav = audio_wav.parse(data)
            assert (wav.kind, wav.bits, wav.channels, wav.rate, wav.begin, wav.frames) == (
                audio_wav.PCM, bits, channels, rate, begin, frames,
            )  # fmt: skip
            assert begin + frames * channels * bits // 8 <= len(data)
            described += 1
    assert described > 10


def test_flac_headers_are_read_inside_the_file():
    """Lengths of metadata that point beyond the end describe nothing."""
    whole = FILES[1]
    assert audio_headers.read(whole)[0] == audio_headers.FLAC
    for size in range(42):
        assert audio_headers.read(whole[:size].copy())[0] == audio_headers.UNKNOWN
    far = whole.copy()
    far[5:8] = 255
    far[4] &= 0x7F
    assert audio_headers.read(far)[0] == audio_headers.UNKNOWN


class Recorded:
    """A trace that computes nothing: it notes what is recorded."""

    def __init__(self):
        self.operations, self.checks = [], []

    def computed(self, operation, one, other, value):
        self.operations.append(operation)
        return Number(self, len(self.operations), value)

    def check(self, condition, fixed):
        self.checks.append((condition.value, fixed))


def test_numbers_record_what_is_computed_of_them():
    """Arithmetic gives numbers with the value of the first sample; a condition that decides is recorded."""
    trace = Recorded()
    n = Number(trace, 0, 7)
    values = [n + 1, 1 + n, n - 2, n * 3, 3 * n, n // 2, n == 7, n != 7, n < 7, n <= 7, n > 6, n >= 8]
    assert [number.value for number in values] == [8, 8, 5, 21, 21, 3, 1, 0, 0, 1, 1, 0]
    assert n * 1 is n
    assert not trace.checks
    assert n > 3
    assert range(10)[n] == 7
    assert trace.checks == [(1, True), (1, True)]
    with pytest.raises(TypeError, match="unhashable"):
        hash(n)


@pytest.mark.parametrize("dtype", [np.uint8, np.bool_, np.float16, np.complex128, "M8[s]", ">i4"])
def test_addresses_of_arrays(dtype):
    """Also of arrays that ctypes cannot read: without elements, read-only, with other strides, or of a type of their own."""
    array = np.zeros((4, 6), dtype)
    fixed = array.copy()
    fixed.flags.writeable = False
    for one in (array, fixed, array[1:, 2:], array[::2], array.T, array[4:], array[2, 3, ...]):
        assert kernel_calls.address_of(one) == one.ctypes.data


def test_a_kernel_that_raises_ends_its_sample():
    """The status of a kernel's exception leaves the sample to the body; the others are done."""
    compiled = kernel_calls.kernel(raises_for_three)
    values = np.array([1, 3, 5])
    entry = kernel_calls.entry_of(compiled, (kernel_calls.array_type(values.dtype, 1),))
    record = np.zeros(1, entry.row)
    for value, status in zip(values, (0, kernel_calls.STOPPED, 0)):
        one = np.array([value])
        record["0"], record["0_0"] = kernel_calls.address_of(one), 1
        assert kernel_calls.call(entry.address, entry.function, record.ctypes.data) == status
    assert record["r0"] == 50


def raises_for_three(values):
    if values[0] == 3:
        raise ValueError("three")
    return 10 * values[0]


def late(done):
    return late_code.LateCode("test", lambda: bool(done), lambda: done.append(1))


def test_no_batch_waits_for_the_code_that_runs_programs(monkeypatch):
    """Without PIPEFLOW_START=wait a thread loads it after the second batch; until then, the bodies work."""
    done = []
    monkeypatch.delenv("PIPEFLOW_START", raising=False)
    driver = late(done)
    for index in (0, 1):
        assert not driver.ready(BatchRun(index, 0))
        assert driver._thread is None
    driver.ready(BatchRun(2, 0))
    driver._thread.join()
    assert driver.ready(BatchRun(3, 0))
    assert done == [1]


def test_missing_kernels_of_data_of_unknown_type_are_loaded(monkeypatch, ran):
    """`build` cannot load them, because the source does not say what it gives."""
    kept, asked = jit.kept, []
    monkeypatch.setattr(jit, "kept", lambda kernel, types: asked and kept(kernel, types))
    monkeypatch.setattr(later, "ready", lambda wanted: asked.extend(wanted) or True)
    through(lambda x: fn.resize(x, size=(5, 6)), IMAGES, layout="HWC")
    assert ran.done == 0
    assert image_programs.resizing_kernel(np.dtype(np.uint8)) in asked
    assert set(image_programs.geometry_kernels()) <= {*asked}


def test_with_a_wish_to_wait_it_is_loaded_at_once(monkeypatch):
    """PIPEFLOW_START=wait: the first batch already has it."""
    done = []
    monkeypatch.setenv("PIPEFLOW_START", "wait")
    assert late(done).ready(BatchRun(0, 0))
    assert done == [1]


def doubled(x):
    return x * 2


def test_results_for_worker_processes_are_made_in_chains(ran):
    """Worker processes get copies of them, which takes less time than the steps one by one."""

    def operator(x):
        spectrum = fn.spectrogram(x, window_length=64, window_step=16)
        return fn.python_function(spectrum, function=doubled, parallel="processes")

    (found,) = through(operator, SOUNDS)
    assert ran.done == len(SOUNDS)
    for x, sample in zip(found, SOUNDS, strict=True):
        expected = np.asarray(fn.spectrogram(sample, window_length=64, window_step=16)) * 2
        assert (x.dtype, x.shape, x.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())
