"""A manifest of speech: sound, rate, text and index of each line, resampled, mixed down and limited in length."""

import json

from material import tone, write_wav
from nvidia.dali import fn, pipeline_def, types
from shown import show, show_error

LINES = []
for number, (length, rate, channels) in enumerate([(800, 8000, 1), (1600, 16000, 2), (2400, 8000, 1)]):
    path = write_wav(f"{number}.wav", tone(length, rate=rate, channels=channels, pitch=300 + 100 * number), rate)
    LINES.append({"audio_filepath": path, "duration": length / rate, "text": f"sentence {number} é"})
with open("manifest.json", "w") as file:
    file.writelines(json.dumps(line) + "\n" for line in LINES)


def read(batches=2, **options):
    @pipeline_def(batch_size=2, num_threads=2, device_id=None)
    def definition():
        outputs = fn.readers.nemo_asr(manifest_filepaths=["manifest.json"], name="R", **options)
        return tuple(outputs) if isinstance(outputs, (list, tuple)) else outputs

    pipe = definition()
    pipe.build()
    return [pipe.run() for _ in range(batches)], pipe.epoch_size("R")


show(read(), within=1e-4)
show(read(read_sample_rate=False, read_idxs=True), within=1e-4)
show(read(read_text=False, dtype=types.INT16, downmix=False, batches=1), within=1)
show(read(max_duration=0.15, batches=1), within=1e-4)
show(read(min_duration=0.15, batches=1), within=1e-4)
show_error(lambda: read(read_text=False, min_duration=100.0))
show_error(lambda: read(sample_rate="fast"))
