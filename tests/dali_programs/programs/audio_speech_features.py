"""The features of a speech recognition model: silence cut off, preemphasis, log-mel, normalization, padding."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import tone, write_wav
from nvidia.dali import pipeline_def
from shown import show

quiet = np.zeros((1600, 1), np.int16)
files = [
    write_wav(f"{k}.wav", np.concatenate([quiet, tone(3000 + 500 * k, pitch=250.0 + 100 * k), quiet])) for k in range(3)
]


@pipeline_def(batch_size=3, num_threads=2, device_id=None)
def speech():
    encoded, labels = fn.readers.file(files=files, labels=[5, 6, 7])
    audio, rate = fn.decoders.audio(encoded, dtype=types.FLOAT, downmix=True)
    begin, length = fn.nonsilent_region(audio, cutoff_db=-40, window_length=256)
    trimmed = fn.slice(audio, begin, length, axes=[0])
    emphasized = fn.preemphasis_filter(trimmed, preemph_coeff=0.97)
    spectrogram = fn.spectrogram(emphasized, nfft=512, window_length=320, window_step=160)
    mel = fn.mel_filter_bank(spectrogram, sample_rate=16000, nfilter=40, freq_high=8000.0)
    logs = fn.to_decibels(mel + 1e-20, multiplier=np.log(10), reference=1.0, cutoff_db=-80)
    normalized = fn.normalize(logs, axes=[1])
    padded = fn.pad(normalized, axes=[1], align=16, fill_value=0)
    return audio, begin, length, emphasized, logs, padded, labels, rate, logs.shape()[1]


pipe = speech()
pipe.build()
for batch in pipe.run():
    show(batch, within=2e-2)
