"""`fn.readers.sequence`: short sequences of frames from folders of images."""

import os

import numpy as np

from pipeflow.declare import default, required
from pipeflow.errors import BadData
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.readers import remote
from pipeflow.operators.readers.files import IMAGES, Paths, matcher, read_file, stated
from pipeflow.operators.readers.places import local
from pipeflow.operators.readers.reader import reader
from pipeflow.types import ANY_DATA, BGR, GRAY, RGB, DALIImageType


@reader(
    "readers.sequence",
    urls=True,
    layout="FHWC",
    examples=['fn.readers.sequence(file_root="videos", sequence_length=8, stride=2)'],
)
class SequenceReader:
    """Reads sequences of frames, decoded, uint8 in the layout FHWC.

    Each sub-folder of `file_root` is a video whose frames are its images, in alphabetical order. A sequence begins at every
    `step`-th frame and takes every `stride`-th frame from there. All its frames are from one video.
    """

    def __init__(
        self,
        *,
        file_root: str = required("folder of the folders of frames, or its URL"),
        sequence_length: int = required("number of frames of a sequence"),
        step: int = default(1, "frames between the beginnings of two sequences"),
        stride: int = default(1, "frames from one frame of a sequence to the next"),
        image_type: DALIImageType = default(RGB, "colour space of the frames: RGB, BGR, GRAY, or ANY_DATA as stored"),
    ) -> None:
        for name, value in (("sequence_length", sequence_length), ("step", step), ("stride", stride)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if image_type not in (RGB, BGR, GRAY, ANY_DATA):
            raise ValueError(f"image_type must be RGB, BGR, GRAY or ANY_DATA, got {image_type!r}")
        self._length, self._stride = sequence_length, stride
        self._wanted = kernels.images.Wanted(DALIImageType(image_type).name, np.dtype(np.uint8), True, False)
        file_root = local(file_root)
        self.far = remote.is_url(file_root)
        videos = _far_videos(file_root) if self.far else _videos(file_root)
        self._paths = Paths(path for video in videos for path in video)
        reach = (sequence_length - 1) * stride
        starts, first = [np.empty(0, np.int64)], 0
        for video in videos:
            starts.append(first + np.arange(0, len(video) - reach, step))
            first += len(video)
        self._starts = np.concatenate(starts)
        if not len(self._starts):
            longest = max(map(len, videos), default=0)
            raise BadData(
                f"no folder in {file_root} has the {reach + 1} images that a sequence reaches over; the longest has {longest}"
            )

    def __len__(self) -> int:
        return len(self._starts)

    def fetch(self, index: int) -> tuple[np.ndarray]:
        """The frames of one sequence."""
        start = int(self._starts[index])
        frames: np.ndarray | None = None
        for place in range(self._length):
            path = self._paths[start + place * self._stride]
            image = self._decoded(path, frames[place] if frames is not None else None)
            if frames is None:
                frames = np.empty((self._length, *image.shape), np.uint8)
            if image.shape != frames.shape[1:]:
                raise BadData(
                    f"{path}: all frames of a sequence must have one shape; this one is {image.shape}, "
                    f"the first one {frames.shape[1:]}"
                )
            if not np.shares_memory(image, frames):
                frames[place] = image
        assert frames is not None
        return (frames,)

    def _decoded(self, path: str, out: np.ndarray | None) -> np.ndarray:
        def allocate(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
            return out if out is not None and out.shape == tuple(shape) else np.empty(shape, dtype)

        data = read_file(path)
        try:
            return kernels.images.decode(data, self._wanted, kernels.images.Limits(), allocate, None, path)
        except Exception as error:
            error.add_note(f"while reading {path}")
            raise

    def shared_files(self) -> list[str]:
        """All frames: a sample has several, and a frame is in several samples."""
        return stated(self._paths)

    def source_info(self, index: int) -> str:
        """The path of the first frame."""
        return self._paths[int(self._starts[index])]


def _videos(root: str) -> list[list[str]]:
    """The images of every sub-folder."""
    wanted = matcher(IMAGES, False)
    with os.scandir(root) as entries:
        folders = sorted(entry.path for entry in entries if entry.is_dir())
    videos = []
    for folder in folders:
        with os.scandir(folder) as entries:
            videos.append(sorted(entry.path for entry in entries if entry.is_file() and wanted.match(entry.name)))
    return videos


def _far_videos(root: str) -> list[list[str]]:
    """The images of every folder below a URL."""
    wanted = matcher(IMAGES, False)
    videos: dict[str, list[str]] = {}
    for path in remote.matching(f"{root.rstrip('/')}/*/*"):
        folder, _, name = path.rpartition("/")
        if wanted.match(name):
            videos.setdefault(folder, []).append(path)
    return [videos[folder] for folder in sorted(videos)]
