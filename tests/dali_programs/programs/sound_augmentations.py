"""Sound as models read it: silence cut away, noise and gain, windows of equal length, log-mel features and masks over them."""

import numpy as np
from material import tone, write_wav
from nvidia.dali import fn, math, pipeline_def, types
from shown import show, show_error

FILES = [write_wav(f"{number}.wav", tone(2000 + 400 * number, pitch=300 + 50 * number), 16000) for number in range(3)]


@pipeline_def(batch_size=3, num_threads=2, device_id=None)
def features():
    encoded, label = fn.readers.file(files=FILES, labels=[3, 5, 7])
    audio, rate = fn.decoders.audio(encoded, dtype=types.FLOAT, downmix=True)
    begin, length = fn.nonsilent_region(audio, cutoff_db=-40.0, window_length=256)
    cut = fn.slice(audio, begin, length, axes=[0])
    gain = fn.external_source(lambda: [np.float32(value) for value in (0.5, 1.0, 2.0)])
    loud = cut * gain
    window = fn.slice(
        loud, start=fn.cast(length // 4, dtype=types.INT32), shape=1024, axes=[0], out_of_bounds_policy="pad"
    )
    emphasized = fn.preemphasis_filter(window, preemph_coeff=0.97)
    spectrum = fn.spectrogram(emphasized, nfft=256, window_length=256, window_step=128, center_windows=False)
    mel = fn.mel_filter_bank(spectrum, sample_rate=16000, nfilter=20, freq_high=8000.0)
    decibels = fn.to_decibels(mel, multiplier=10.0, reference=1.0, cutoff_db=-80)
    normal = fn.normalize(decibels, axes=[1], epsilon=1e-5)
    masked = fn.erase(normal, anchor=[2, 1], shape=[3, 2], axes=[0, 1], fill_value=0.0)
    coefficients = fn.mfcc(decibels, axis=0, n_mfcc=8, normalize=True)
    padded = fn.pad(cut, fill_value=0.0)
    peak = fn.reductions.max(math.abs(padded))
    return begin, length, rate, label, masked, coefficients, padded.shape(), padded / (peak + 1e-6)


show(features().run(), within=0.05)
show_error(
    lambda: pipeline_def(
        lambda: fn.decoders.audio(np.zeros(100, np.uint8))[0], batch_size=1, num_threads=1, device_id=None
    )().run()
)
