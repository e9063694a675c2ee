"""Spectrogram, mel filter bank, decibels and MFCC of a signal."""

import numpy as np
import nvidia.dali.fn as fn
from material import tone
from nvidia.dali import pipeline_def
from shown import show

signal = [
    (tone(2000, pitch=300.0)[:, 0] / 32768).astype(np.float32),
    (tone(1500, pitch=900.0)[:, 0] / 32768).astype(np.float32),
]


@pipeline_def(batch_size=2, num_threads=2, device_id=None)
def spectrogram_pipe():
    audio = fn.external_source(lambda: signal)
    spectrogram = fn.spectrogram(audio, nfft=256, window_length=200, window_step=100)
    centered = fn.spectrogram(audio, nfft=128, window_length=128, window_step=64, center_windows=False, power=1)
    window = fn.spectrogram(
        audio, nfft=64, window_length=64, window_step=64, window_fn=np.hamming(64).astype(np.float32).tolist()
    )
    time_first = fn.spectrogram(audio, nfft=128, window_length=128, window_step=64, layout="tf", reflect_padding=False)
    mel = fn.mel_filter_bank(spectrogram, sample_rate=16000, nfilter=20, freq_high=8000.0)
    htk = fn.mel_filter_bank(spectrogram, sample_rate=16000, nfilter=12, mel_formula="htk", normalize=False)
    decibels = fn.to_decibels(mel, multiplier=10.0, cutoff_db=-80)
    mfcc = fn.mfcc(decibels, axis=0, dct_type=2, n_mfcc=12)
    return (
        spectrogram,
        centered,
        window,
        time_first,
        mel,
        htk,
        decibels,
        mfcc,
        fn.mfcc(decibels, n_mfcc=8, normalize=True, lifter=22),
    )


pipe = spectrogram_pipe()
pipe.build()
for batch in pipe.run():
    show(batch, within=2e-2)
