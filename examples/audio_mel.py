"""A folder of sound files to batches of log-mel spectrograms, augmented, for a training loop.

    python examples/audio_mel.py [folder] [--augment operators|function|none] [--picture spectrograms.png]

The folder has a sub-folder a class, of wav, FLAC or Ogg files at any rate. Without one, the example makes four kinds of
tones, and trains a small classifier on them: what it is worth shows on files it has not heard.
"""

import argparse
import tempfile
import wave
from pathlib import Path

import numpy as np

from pipeflow import fn, pipeline_def

try:
    import cv2
except ModuleNotFoundError as missing:
    raise SystemExit(f"this example needs {missing.name}: pip install opencv-python-headless") from None

RATE = 16000
BANDS = 80
BATCH = 32


def spec_augment(mel, rng):
    """SpecAugment as a Python function: two masks of bands and two of frames."""
    mel = mel.copy()
    for extent, widest in ((mel.shape[0], 12), (mel.shape[1], 20)):
        for _ in range(2):
            width = int(rng.integers(0, min(widest, extent)))
            start = int(rng.integers(0, extent - width + 1))
            if extent == mel.shape[0]:
                mel[start : start + width] = 0
            else:
                mel[:, start : start + width] = 0
    return mel


def spec_augment_of_operators(mel):
    """The same of operators: a mask of up to 15 bands, and one of up to a tenth of the time."""
    band, bands = fn.random.uniform(range=(0.0, BANDS - 15.0)), fn.random.uniform(range=(0.0, 15.0))
    time, times = fn.random.uniform(range=(0.0, 0.9)), fn.random.uniform(range=(0.0, 0.1))
    mel = fn.erase(mel, anchor=band, shape=bands, axes=[0])
    return fn.erase(mel, anchor=time, shape=times, axes=[1], normalized=True)


@pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, seed=7)
def log_mel(folder, augment):
    """Padded spectrograms, the shape each had before, and labels."""
    encoded, labels = fn.readers.file(file_root=folder, random_shuffle=augment != "none", name="files")
    sound, _ = fn.decoders.audio(encoded, sample_rate=RATE, downmix=True)
    if augment != "none":
        # Speed perturbation: a tenth longer and lower, or shorter and higher.
        sound = fn.audio_resample(sound, scale=fn.random.uniform(range=(0.9, 1.1)))
    sound = fn.preemphasis_filter(sound)
    spectrum = fn.spectrogram(sound, nfft=512, window_length=320, window_step=160)
    mel = fn.mel_filter_bank(spectrum, nfilter=BANDS, sample_rate=RATE)
    mel = fn.normalize(fn.to_decibels(mel, cutoff_db=-80.0))
    if augment == "operators":
        mel = spec_augment_of_operators(mel)
    elif augment == "function":
        mel = fn.python_function(mel, function=spec_augment, output_layouts="ft")
    return fn.pad(mel, axes=[1]), mel.shape(), labels


def batches(folder, augment, count=None):
    """(spectrograms, numbers of frames, labels) as arrays; one epoch unless ``count`` says more."""
    pipe = log_mel(folder, augment)
    pipe.build()
    count = count or -(-pipe.reader_meta("files")["epoch_size"] // BATCH)
    for _ in range(count):
        mel, shapes, labels = pipe.run()
        yield np.asarray(mel.as_array()), np.asarray(shapes.as_array())[:, 1], np.asarray(labels.as_array())[:, 0]


# --- a data set and a model to show that it works ------------------------------------------------

KINDS = ("chord", "noise", "tone", "warble")


def make_tones(folder, each, seed):
    """Writes ``each`` wav files of every kind, of different pitch, length, loudness and rate."""
    rng = np.random.default_rng(seed)
    for kind in KINDS:
        (folder / kind).mkdir(parents=True)
        for number in range(each):
            rate = int(rng.choice([16000, 22050, 44100]))
            time = np.arange(int(rate * rng.uniform(0.5, 1.2))) / rate
            pitch = rng.uniform(200, 1500)
            phase = 2 * np.pi * pitch * time
            sound = {
                "chord": lambda phase=phase: np.sin(phase) + np.sin(1.5 * phase) + np.sin(2.4 * phase),
                "noise": lambda time=time: rng.normal(size=time.size),
                "tone": lambda phase=phase: np.sin(phase),
                "warble": lambda phase=phase, time=time: np.sin(phase + 12 * np.sin(2 * np.pi * 6 * time)),
            }[kind]()
            sound = sound / abs(sound).max() * rng.uniform(0.1, 0.7) + 0.003 * rng.normal(size=time.size)
            with wave.open(str(folder / kind / f"{number:03}.wav"), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(rate)
                file.writeframes((sound.clip(-1, 1) * 32767).astype("<i2").tobytes())


def features(mel, frames):
    """How loud, how uneven and how restless the loudest bands are: the same for a sound at another pitch."""
    rows = []
    for spectrogram, count in zip(mel, frames):
        inside = spectrogram[:, :count]
        measures = inside.mean(1), inside.std(1), np.abs(np.diff(inside, axis=1)).mean(1)
        rows.append(np.concatenate([np.sort(measure)[::-1][:24] for measure in measures]))
    return np.array(rows)


class Classifier:
    """A layer of 48 hidden units and one of classes, trained a batch at a time (Adam)."""

    def __init__(self, classes):
        rng = np.random.default_rng(0)
        self.layers = [rng.normal(size=(73, 48)) * 0.2, rng.normal(size=(49, classes)) * 0.2]
        self.moments = [[np.zeros_like(layer), np.zeros_like(layer)] for layer in self.layers]
        self.steps = 0

    def probabilities(self, inputs):
        self.inputs = np.c_[inputs, np.ones(len(inputs))]
        self.hidden = np.c_[np.tanh(self.inputs @ self.layers[0]), np.ones(len(inputs))]
        scores = self.hidden @ self.layers[1]
        powers = np.exp(scores - scores.max(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True)

    def train(self, inputs, labels, rate=0.01):
        """One step of gradient descent; returns the loss before it."""
        error = self.probabilities(inputs)
        loss = -np.log(error[np.arange(len(labels)), labels] + 1e-12).mean()
        error[np.arange(len(labels)), labels] -= 1
        back = (error @ self.layers[1].T * (1 - self.hidden**2))[:, :-1]
        self.steps += 1
        slopes = self.inputs.T @ back / len(labels), self.hidden.T @ error / len(labels)
        for layer, (first, second), slope in zip(self.layers, self.moments, slopes):
            first += 0.1 * (slope - first)
            second += 0.01 * (slope**2 - second)
            scale = np.sqrt(second / (1 - 0.99**self.steps)) + 1e-8
            layer -= rate * first / (1 - 0.9**self.steps) / scale
        return loss

    def accuracy(self, folder):
        right = total = 0
        for mel, frames, labels in batches(folder, "none"):
            right += (self.probabilities(features(mel, frames)).argmax(1) == labels).sum()
            total += len(labels)
        return right / total


def picture(mel, frames, labels, path, columns=4):
    """Draws the first spectrograms of a batch, low frequencies at the bottom."""
    tiles = []
    for spectrogram, count, label in list(zip(mel, frames, labels))[: 2 * columns]:
        gray = np.interp(spectrogram[::-1, :count], (-2.5, 2.5), (0, 255)).astype(np.uint8)
        tile = cv2.applyColorMap(cv2.resize(gray, (240, 160), interpolation=cv2.INTER_NEAREST), cv2.COLORMAP_VIRIDIS)
        cv2.putText(tile, f"class {label}", (6, 16), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (255, 255, 255), 1, cv2.LINE_AA)
        tiles.append(cv2.copyMakeBorder(tile, 4, 4, 4, 4, cv2.BORDER_CONSTANT, value=(255, 255, 255)))
    while len(tiles) % columns:
        tiles.append(np.full_like(tiles[0], 255))
    rows = [np.concatenate(tiles[i : i + columns], 1) for i in range(0, len(tiles), columns)]
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.concatenate(rows, 0))
    print(f"picture: {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", help="a folder with a sub-folder of sound files a class")
    parser.add_argument("--augment", choices=["operators", "function", "none"], default="operators")
    parser.add_argument("--steps", type=int, default=120, help="training steps on the made-up tones")
    parser.add_argument("--picture", type=Path, default=Path(__file__).parent / "output" / "audio_mel.png")
    options = parser.parse_args()

    if options.folder:
        for mel, frames, labels in batches(options.folder, options.augment, 1):
            print(f"a batch: {mel.shape} {mel.dtype}, {frames.min()} to {frames.max()} frames, labels {labels[:8]} ...")
            picture(mel, frames, labels, options.picture)
        return
    with tempfile.TemporaryDirectory() as made:
        heard, unheard = Path(made) / "heard", Path(made) / "unheard"
        make_tones(heard, 48, seed=1)
        make_tones(unheard, 16, seed=2)
        model = Classifier(len(KINDS))
        print(f"before training: {model.accuracy(str(unheard)):.0%} of the unheard files are classified right")
        for step, (mel, frames, labels) in enumerate(batches(str(heard), options.augment, options.steps)):
            loss = model.train(features(mel, frames), labels)
            if step % 20 == 0:
                print(f"  step {step:3}: batch {mel.shape}, loss {loss:.3f}")
        print(f"after training:  {model.accuracy(str(unheard)):.0%}")
        picture(mel, frames, labels, options.picture)


if __name__ == "__main__":
    main()
