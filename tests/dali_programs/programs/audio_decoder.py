"""Decoding audio: channels, mixing down, types and resampling."""

import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import tone, write_wav
from nvidia.dali import pipeline_def
from shown import show

files = [write_wav(f"{k}.wav", tone(400 + 100 * k, channels=1 + k % 2)) for k in range(3)]


@pipeline_def(batch_size=3, num_threads=2, device_id=None)
def audio_decoder_pipe(arguments):
    encoded, _ = fn.readers.file(files=files)
    audio, sr = fn.decoders.audio(encoded, **arguments)
    return audio, sr


for arguments in (dict(dtype=types.INT16), dict(), dict(downmix=True), dict(dtype=types.INT32, downmix=True)):
    pipe = audio_decoder_pipe(arguments)
    pipe.build()
    show(pipe.run(), within=1e-4)
