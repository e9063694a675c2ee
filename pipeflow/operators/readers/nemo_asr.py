"""`fn.readers.nemo_asr`: recordings and transcripts listed in NeMo's manifests, with a JSON object in each line."""

import json
import math
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeflow.declare import Args, DType, default, required
from pipeflow.errors import BadData, OutOfRange
from pipeflow.operators.audio import FLOAT
from pipeflow.operators.decoders_audio import DECODED_TYPES, check_max_bytes, decode_sound
from pipeflow.operators.readers import remote
from pipeflow.operators.readers.files import Listing, Paths, joined, read_file, read_lines
from pipeflow.operators.readers.places import expanded, local
from pipeflow.operators.readers.reader import reader


def _outputs(args: Args) -> int:
    return 1 + sum([args.read_sample_rate, args.read_text, args.read_idxs])


@reader(
    "readers.nemo_asr",
    urls=True,
    outputs=_outputs,
    no_effect={
        "normalize_text": "the transcript is returned as it is in the manifest; DALI does not change it any more either"
    },
    examples=['fn.readers.nemo_asr(manifest_filepaths=["train.json"], sample_rate=16000)'],
)
class NemoAsrReader:
    """Reads the samples of recordings and, if requested, the sampling rate, the transcript (bytes of UTF-8) and the
    entry's number.

    Each line of a manifest is a JSON object with `audio_filepath` (relative to the manifest's folder), and optionally `duration`
    and `offset` in seconds, which choose a part of the recording, and `text`. Entries longer than `max_duration` or shorter than
    `min_duration` are left out; 0 is no limit. Samples are decoded as by `fn.decoders.audio`, with its `max_bytes`. If
    `sample_rate` is above 0, they are resampled to it, and it is the rate that is returned.
    """

    def __init__(
        self,
        *,
        manifest_filepaths: Any = required("paths or URLs of the manifests"),
        read_sample_rate: bool = default(True, "return the sampling rate as an output"),
        read_text: bool = default(True, "return the transcript as an output"),
        read_idxs: bool = default(False, "return the number of the entry as an output"),
        sample_rate: float = default(
            -1.0, "rate to resample to, in samples a second; 0 or less keeps that of the file"
        ),
        quality: float = default(50.0, "quality of the resampling, from 0 to 100"),
        downmix: bool = default(True, "mix the channels into one"),
        dtype: DType = default(FLOAT, "type of the samples: FLOAT, INT16 or INT32"),
        min_duration: float = default(0.0, "leave out shorter recordings, in seconds; 0: none"),
        max_duration: float = default(0.0, "leave out longer recordings, in seconds; 0: none"),
        max_bytes: int | None = default(
            None, "maximum size of the samples of a recording in bytes; default: 2 GiB, and less for a small file"
        ),
    ) -> None:
        if dtype not in DECODED_TYPES:
            raise ValueError(f"dtype must be FLOAT, INT16 or INT32, got {dtype}")
        if not 0 <= quality <= 100:
            raise ValueError(f"quality must be from 0 to 100, got {quality}")
        if math.isnan(sample_rate) or math.isinf(sample_rate):
            raise ValueError(f"sample_rate must be positive, or -1 for the rate of the file, got {sample_rate}")
        check_max_bytes(max_bytes)
        manifests = expanded(manifest_filepaths, "manifest_filepaths")
        if not manifests:
            raise ValueError("'manifest_filepaths' is an empty list")
        entries = [entry for path in manifests for entry in _entries(path)]
        kept = [entry for entry in entries if _in_range(entry.duration, min_duration, max_duration)]
        if not kept:
            raise BadData(f"no recordings of the wanted duration in {', '.join(manifests)}: {len(entries)} are listed")
        self._paths = Paths(entry.path for entry in kept)
        self.far = any(map(remote.is_url, self._paths))
        self._spans = np.array([(entry.offset, entry.duration) for entry in kept], np.float64)
        self._texts = Paths(entry.text for entry in kept)
        self._listings = {path: Listing(path, [entry.line for entry in kept]) for path in manifests}
        self._manifests = Paths(entry.manifest for entry in kept)
        self._wanted = read_sample_rate, read_text, read_idxs
        self._sound: dict[str, Any] = {
            "sample_rate": max(sample_rate, 0.0),
            "quality": quality,
            "downmix": downmix,
            "dtype": dtype,
            "max_bytes": max_bytes,
        }

    def __len__(self) -> int:
        return len(self._paths)

    def fetch(self, index: int) -> tuple[np.ndarray, ...]:
        """The samples of an entry, and the other outputs."""
        with self._listings[self._manifests[index]].naming(index):
            return self._read(index)

    def _read(self, index: int) -> tuple[np.ndarray, ...]:
        begin, duration = self._spans[index].tolist()
        samples, rate = decode_sound(
            read_file(self._paths[index]), self._allocate, span=(begin, duration), **self._sound
        )
        if begin and not len(samples):
            raise OutOfRange(f"{self._paths[index]} is shorter than the offset {begin} s of its entry")
        with_rate, with_text, with_number = self._wanted
        results: list[np.ndarray] = [samples]
        if with_rate:
            results.append(np.array(rate, np.float32))
        if with_text:
            results.append(np.frombuffer(bytearray(os.fsencode(self._texts[index])), np.uint8))
        if with_number:
            results.append(np.array([index], np.int64))
        return tuple(results)

    def _allocate(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.empty(shape, self._sound["dtype"])

    def source_info(self, index: int) -> str:
        """The recording's path."""
        return self._paths[index]


def _in_range(duration: float, shortest: float, longest: float) -> bool:
    # An entry without a duration is a whole file of unknown length: the limits do not exclude it.
    return math.isinf(duration) or (duration >= shortest and (longest <= 0 or duration <= longest))


@dataclass(frozen=True)
class _ManifestLine:
    manifest: str
    line: int
    path: str
    offset: float
    duration: float
    text: str


def _entries(manifest: str) -> Iterator[_ManifestLine]:
    """The entries of a manifest, one for each line."""
    folder = os.path.dirname(manifest)
    for number, line in read_lines(manifest):
        place = f"{manifest}, line {number}"
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:  # also for numbers of thousands of digits and nested brackets
            raise BadData(f"{place} is not JSON: {error}") from None
        if not isinstance(entry, dict) or not isinstance(entry.get("audio_filepath"), str):
            raise BadData(f"{place} has no audio_filepath")
        path, text = joined(folder, local(entry["audio_filepath"])), str(entry.get("text") or "")
        for name, value in (("audio_filepath", path), ("text", text)):
            try:
                encoded = os.fsencode(value)
            except UnicodeEncodeError as error:
                raise BadData(f"{place}: {name} is not text: {error}") from None
            if name == "audio_filepath" and b"\0" in encoded:
                raise BadData(f"{place}: audio_filepath has a zero in it, got {path!r}")
        offset, duration = _seconds(entry, "offset", 0.0, place), _seconds(entry, "duration", math.inf, place)
        yield _ManifestLine(manifest, number, path, offset, duration, text)


def _seconds(entry: dict[str, Any], name: str, default: float, place: str) -> float:
    value = entry.get(name)
    if value is None:
        return default
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 <= value <= sys.float_info.max:
        beyond = isinstance(value, int) and abs(value) > sys.float_info.max
        shown = "a number of hundreds of digits" if beyond else repr(value)
        raise BadData(f"{place}: {name} must be a number of seconds, got {shown[:80]}")
    return float(value)
