# Generated from the declarations by tools/generate_stubs.py: run `make docs` to renew it.

"""The functional API: every operator of the registry by its name."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from pipeflow.graph import DataNode
from pipeflow.tensors import TensorListCPU

# What goes in comes out: a node inside a pipeline definition, arrays at once everywhere else.
Data = TypeVar("Data", DataNode, TensorListCPU, np.ndarray, list[Any])

def audio_resample(
    signal: Data,
    /,
    *,
    scale: float | DataNode | None = None,
    in_rate: float | DataNode | None = None,
    out_rate: float | DataNode | None = None,
    out_length: int | DataNode | None = None,
    quality: float = 50.0,
    dtype: DTypeLike | None = None,
    antialias: bool = True,
    name: str | None = None,
    device: Literal["cpu", "gpu", "mixed"] | None = None,
    preserve: bool | None = None,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
) -> Data:
    """Resamples a signal (time, or time by channels) by a factor, from one rate to another, or to a length."""

def batch_permutation(
    *,
    allow_repetitions: bool = False,
    no_fixed_points: bool = False,
    name: str | None = None,
    device: Literal["cpu", "gpu", "mixed"] | None = None,
    preserve: bool | None = None,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    seed: int | None = None,
) -> DataNode:
    """The numbers of the samples of the batch, or of the branch it stands in, in a random order; one number a sample."""

def copy(
    data: Data,
    /,
    *,
    name: str | None = None,
    device: Literal["cpu", "gpu", "mixed"] | None = None,
    preserve: bool | None = None,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
) -> Data:
    """Copies the data; with ``device="gpu"`` to the GPU."""

def external_source(
    *,
    source: Any = None,
    num_outputs: int | None = None,
    batch: bool | None = None,
    cycle: Literal['no', 'quiet', 'raise', False, True] | None = None,
    dtype: Any = None,
    ndim: Any = None,
    layout: Any = None,
    repeat_last: bool = False,
    batch_info: bool = False,
    no_copy: bool = False,
    blocking: bool = False,
    parallel: bool = False,
    prefetch_queue_depth: int = 1,
    name: str | None = None,
    device: Literal["cpu", "gpu", "mixed"] | None = None,
    preserve: bool | None = None,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    seed: int | None = None,
) -> Any:
    """Data from outside: a callable, an iterable, a generator function, or (without ``source``) from ``feed_input``."""

def get_property(
    data: Data,
    /,
    *,
    key: str,
    name: str | None = None,
    device: Literal["cpu", "gpu", "mixed"] | None = None,
    preserve: bool | None = None,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
) -> Data:
    """A property of each sample, "layout" or "source_info", as the bytes of its text."""

def mel_filter_bank(
    spectrum: Data,
    /,
    *,
    nfilter: int = 128,
    sample_rate: float = 44100.0,
    freq_low: float = 0.0,
    freq_high: float = 0.0,
    mel_formula: Literal['slaney', 'htk'] = 'slaney',
    normalize: bool = True,
    name: str | None = None,
    device: Literal["cpu", "gpu", "mixed"] | None = None,
    preserve: bool | None = None,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
) -> Data:
    """Weights the frequencies of a spectrogram into ``nfilter`` triangular bands, evenly spaced on the mel scale."""

def mfcc(
    spectrum: Data,
    /,
    *,
    axis: int = 0,
    dct_type: int = 2,
    n_mfcc: int = 20,
    normalize: bool = False,
    lifter: float = 0.0,
    name: str | None = None,
    device: Literal["cpu", "gpu", "mixed"] | None = None,
    preserve: bool | None = None,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
) -> Data:
    """The first ``n_mfcc`` coefficients of the discrete cosine transform of types 1 to 4 along ``axis``."""

def nonsilent_region(
    signal: Data,
    /,
    *,
    cutoff_db: float = -60.0,
    window_length: int = 2048,
    reference_power: float = 0.0,
    name: str | None = None,
    device: Literal["cpu", "gpu", "mixed"] | None = None,
    preserve: bool | None = None,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
) -> list[Data]:
    """Finds where a one-dimensional signal is not silent: (begin, length), both INT32; length 0 if nowhere."""

def peek_image_shape(
    data: Data,
    /,
    *,
    dtype: DTypeLike = ...,
    image_type: int = ...,
    adjust_orientation: bool = True,
    name: str | None = None,
    device: Literal["cpu", "gpu", "mixed"] | None = None,
    preserve: bool | None = None,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
) -> Data:
    """The shape that ``fn.decoders.image`` would give (height, width, channels), read from the header alone."""

def power_spectrum(
    signal: Data,
    /,
    *,
    axis: int = -1,
    nfft: int | None = None,
    power: int = 2,
    name: str | None = None,
    device: Literal["cpu", "gpu", "mixed"] | None = None,
    preserve: bool | None = None,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
) -> Data:
    """The power of each frequency of the signal along ``axis``, nfft // 2 + 1 of them; with ``power=1`` the magnitude."""

def preemphasis_filter(
    signal: Data,
    /,
    *,
    preemph_coeff: float | DataNode = 0.97,
    border: Literal['clamp', 'zero', 'reflect'] = 'clamp',
    dtype: DTypeLike = ...,
    name: str | None = None,
    device: Literal["cpu", "gpu", "mixed"] | None = None,
    preserve: bool | None = None,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
) -> Data:
    """y[t] = x[t] - preemph_coeff * x[t - 1], each channel on its own; time is the first axis."""

def python_function(
    *inputs: DataNode | ArrayLike,
    function: Callable[..., Any],
    num_outputs: int = 1,
    batch_processing: bool = False,
    output_layouts: Any = None,
    parallel: Literal['serial', 'threads'] = 'serial',
    name: str | None = None,
    device: Literal["cpu", "gpu", "mixed"] | None = None,
    preserve: bool | None = None,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
    seed: int | None = None,
) -> Any:
    """Calls a Python function with NumPy arrays, for each sample or (``batch_processing``) once for the batch."""

def shapes(
    data: Data,
    /,
    *,
    dtype: DTypeLike = ...,
    name: str | None = None,
    device: Literal["cpu", "gpu", "mixed"] | None = None,
    preserve: bool | None = None,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
) -> Data:
    """The extents of each sample."""

def spectrogram(
    signal: Data,
    /,
    *,
    nfft: int | None = None,
    window_length: int = 512,
    window_step: int = 256,
    window_fn: float | Sequence[float] = (),
    power: int = 2,
    center_windows: bool = True,
    reflect_padding: bool = True,
    layout: Literal['ft', 'tf'] = 'ft',
    name: str | None = None,
    device: Literal["cpu", "gpu", "mixed"] | None = None,
    preserve: bool | None = None,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
) -> Data:
    """The short-time power spectrum of a one-dimensional signal: nfft // 2 + 1 frequencies by frames."""

def to_decibels(
    magnitude: Data,
    /,
    *,
    multiplier: float = 10.0,
    reference: float = 0.0,
    cutoff_db: float = -200.0,
    name: str | None = None,
    device: Literal["cpu", "gpu", "mixed"] | None = None,
    preserve: bool | None = None,
    bytes_per_sample_hint: int | Sequence[int] | None = None,
) -> Data:
    """multiplier * log10(x / reference), and at least ``cutoff_db``."""

class decoders:
    @staticmethod
    def audio(
        encoded: Data,
        /,
        *,
        sample_rate: float | DataNode = 0.0,
        quality: float = 50.0,
        downmix: bool = False,
        dtype: DTypeLike = ...,
        antialias: bool = True,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
    ) -> list[Data]:
        """Decodes a sound file to (samples, sampling rate): time by channels, or time alone with ``downmix``."""

    @staticmethod
    def image(
        data: Data,
        /,
        *,
        output_type: int = ...,
        dtype: DTypeLike = ...,
        adjust_orientation: bool = True,
        use_fast_idct: bool = False,
        max_pixels: int = 134217728,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
    ) -> Data:
        """Decodes images; the output has the layout HWC."""

    @staticmethod
    def numpy(
        data: Data,
        /,
        *,
        dtype: DTypeLike | None = None,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
    ) -> Data:
        """Decodes the bytes of a .npy file; ``dtype`` converts the elements. Nothing is ever unpickled."""

class experimental:
    @staticmethod
    def audio_resample(
        signal: Data,
        /,
        *,
        scale: float | DataNode | None = None,
        in_rate: float | DataNode | None = None,
        out_rate: float | DataNode | None = None,
        out_length: int | DataNode | None = None,
        quality: float = 50.0,
        dtype: DTypeLike | None = None,
        antialias: bool = True,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
    ) -> Data:
        """Resamples a signal (time, or time by channels) by a factor, from one rate to another, or to a length."""

class io:
    class file:
        @staticmethod
        def read(
            filepath: Data,
            /,
            *,
            name: str | None = None,
            device: Literal["cpu", "gpu", "mixed"] | None = None,
            preserve: bool | None = None,
            bytes_per_sample_hint: int | Sequence[int] | None = None,
        ) -> Data:
            """Reads whole files; the input is the path as bytes, with or without a zero at its end."""

class random:
    @staticmethod
    def beta(
        shape_like: DataNode | ArrayLike | None = None,
        /,
        *,
        alpha: float | DataNode = 1.0,
        beta: float | DataNode = 1.0,
        dtype: DTypeLike | None = None,
        shape: int | Sequence[int] | DataNode | None = None,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        seed: int | None = None,
    ) -> Any:
        """Numbers in [0, 1] of the beta distribution."""

    @staticmethod
    def choice(
        a: Data,
        shape_like: DataNode | ArrayLike | None = None,
        /,
        *,
        p: float | Sequence[float] | DataNode | None = None,
        shape: int | Sequence[int] | DataNode | None = None,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        seed: int | None = None,
    ) -> Data:
        """One of the elements along the first axis of ``a``, or of ``range(a)`` when ``a`` is one integer."""

    @staticmethod
    def coin_flip(
        shape_like: DataNode | ArrayLike | None = None,
        /,
        *,
        probability: float | DataNode = 0.5,
        dtype: DTypeLike | None = None,
        shape: int | Sequence[int] | DataNode | None = None,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        seed: int | None = None,
    ) -> Any:
        """1 with the given probability, else 0."""

    @staticmethod
    def normal(
        shape_like: DataNode | ArrayLike | None = None,
        /,
        *,
        mean: float | DataNode = 0.0,
        stddev: float | DataNode = 1.0,
        dtype: DTypeLike | None = None,
        shape: int | Sequence[int] | DataNode | None = None,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        seed: int | None = None,
    ) -> Any:
        """Normally distributed numbers; integer types are rounded and limited to their range."""

    @staticmethod
    def uniform(
        shape_like: DataNode | ArrayLike | None = None,
        /,
        *,
        range: float | Sequence[float] | DataNode = (-1.0, 1.0),
        values: float | Sequence[float] | DataNode | None = None,
        dtype: DTypeLike | None = None,
        shape: int | Sequence[int] | DataNode | None = None,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        seed: int | None = None,
    ) -> Any:
        """Uniformly distributed numbers in ``[low, high)``, or one of ``values``; integer types are rounded."""

class readers:
    @staticmethod
    def file(
        *,
        file_root: str | None = None,
        files: Any = None,
        labels: Any = None,
        file_list: str | None = None,
        file_filters: Any = ('*.jpg', '*.jpeg', '*.png', '*.bmp', '*.tif', '*.tiff', '*.pnm', '*.ppm', '*.pgm', '*.pbm', '*.jp2', '*.webp', '*.flac', '*.ogg', '*.wav'),
        dir_filters: Any = None,
        case_sensitive_filter: bool = False,
        shard_id: int = 0,
        num_shards: int = 1,
        random_shuffle: bool = False,
        shuffle_after_epoch: bool = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool = False,
        pad_last_batch: bool = False,
        lazy_init: bool = False,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        seed: int | None = None,
    ) -> list[DataNode]:
        """Reads files and their labels: the bytes of each file, and an integer."""

    @staticmethod
    def nemo_asr(
        *,
        manifest_filepaths: Any,
        read_sample_rate: bool = True,
        read_text: bool = True,
        read_idxs: bool = False,
        sample_rate: float = -1.0,
        quality: float = 50.0,
        downmix: bool = True,
        dtype: DTypeLike = ...,
        min_duration: float = 0.0,
        max_duration: float = 0.0,
        shard_id: int = 0,
        num_shards: int = 1,
        random_shuffle: bool = False,
        shuffle_after_epoch: bool = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool = False,
        pad_last_batch: bool = False,
        lazy_init: bool = False,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        seed: int | None = None,
    ) -> Any:
        """Reads recordings: samples; and as asked the sampling rate, the transcript (bytes of UTF-8) and the entry's number."""

    @staticmethod
    def numpy(
        *,
        file_root: str | None = None,
        files: Any = None,
        file_list: str | None = None,
        file_filter: str = '*.npy',
        roi_start: int | Sequence[int] | None = None,
        roi_end: int | Sequence[int] | None = None,
        roi_shape: int | Sequence[int] | None = None,
        rel_roi_start: float | Sequence[float] | None = None,
        rel_roi_end: float | Sequence[float] | None = None,
        rel_roi_shape: float | Sequence[float] | None = None,
        roi_axes: int | Sequence[int] = (),
        out_of_bounds_policy: Literal['error', 'pad', 'trim_to_shape'] = 'error',
        fill_value: float = 0.0,
        dont_use_mmap: bool = False,
        shard_id: int = 0,
        num_shards: int = 1,
        random_shuffle: bool = False,
        shuffle_after_epoch: bool = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool = False,
        pad_last_batch: bool = False,
        lazy_init: bool = False,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        seed: int | None = None,
    ) -> DataNode:
        """Reads arrays from .npy files: all of each file, or the region that the roi arguments cut out."""

    @staticmethod
    def tfrecord(
        *,
        path: Any,
        features: Any,
        index_path: Any = None,
        shard_id: int = 0,
        num_shards: int = 1,
        random_shuffle: bool = False,
        shuffle_after_epoch: bool = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool = False,
        pad_last_batch: bool = False,
        lazy_init: bool = False,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        seed: int | None = None,
    ) -> Any:
        """Reads the named `features` of each record: a dictionary of outputs under the features' names."""

    @staticmethod
    def webdataset(
        *,
        paths: Any,
        ext: Any,
        index_paths: Any = None,
        missing_component_behavior: str = '',
        dtypes: Any = None,
        case_sensitive_extensions: bool = True,
        shard_id: int = 0,
        num_shards: int = 1,
        random_shuffle: bool = False,
        shuffle_after_epoch: bool = False,
        shuffle_after_epoch_seed: int | None = None,
        stick_to_shard: bool = False,
        pad_last_batch: bool = False,
        lazy_init: bool = False,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        seed: int | None = None,
    ) -> Any:
        """Reads samples from tar files: for each element of `ext`, the bytes of the file with that extension."""
