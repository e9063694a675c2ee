# Generated from the declarations by tools/generate_stubs.py: run `make docs` to renew it.

"""The class API: arguments at construction, data and per-sample arguments at the call."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from numpy.typing import ArrayLike, DTypeLike

from pipeflow.declare import OpDef
from pipeflow.graph import DataNode

class Operator:
    op: OpDef

class AudioResample(Operator):
    """Resamples a signal (time, or time by channels) by a factor, from one rate to another, or to a length."""

    def __init__(
        self,
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
    ) -> None: ...
    def __call__(self, signal: DataNode | ArrayLike, /, **arguments: Any) -> Any: ...

class BatchPermutation(Operator):
    """The numbers of the samples of the batch, or of the branch it stands in, in a random order; one number a sample."""

    def __init__(
        self,
        *,
        allow_repetitions: bool = False,
        no_fixed_points: bool = False,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
        seed: int | None = None,
    ) -> None: ...
    def __call__(self, **arguments: Any) -> Any: ...

class Copy(Operator):
    """Copies the data; with ``device="gpu"`` to the GPU."""

    def __init__(
        self,
        *,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
    ) -> None: ...
    def __call__(self, data: DataNode | ArrayLike, /, **arguments: Any) -> Any: ...

class ExternalSource(Operator):
    """Data from outside: a callable, an iterable, a generator function, or (without ``source``) from ``feed_input``."""

    def __init__(
        self,
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
    ) -> None: ...
    def __call__(self, **arguments: Any) -> Any: ...

class GetProperty(Operator):
    """A property of each sample, "layout" or "source_info", as the bytes of its text."""

    def __init__(
        self,
        *,
        key: str,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
    ) -> None: ...
    def __call__(self, data: DataNode | ArrayLike, /, **arguments: Any) -> Any: ...

class MelFilterBank(Operator):
    """Weights the frequencies of a spectrogram into ``nfilter`` triangular bands, evenly spaced on the mel scale."""

    def __init__(
        self,
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
    ) -> None: ...
    def __call__(self, spectrum: DataNode | ArrayLike, /, **arguments: Any) -> Any: ...

class Mfcc(Operator):
    """The first ``n_mfcc`` coefficients of the discrete cosine transform of types 1 to 4 along ``axis``."""

    def __init__(
        self,
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
    ) -> None: ...
    def __call__(self, spectrum: DataNode | ArrayLike, /, **arguments: Any) -> Any: ...

class NonsilentRegion(Operator):
    """Finds where a one-dimensional signal is not silent: (begin, length), both INT32; length 0 if nowhere."""

    def __init__(
        self,
        *,
        cutoff_db: float = -60.0,
        window_length: int = 2048,
        reference_power: float = 0.0,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
    ) -> None: ...
    def __call__(self, signal: DataNode | ArrayLike, /, **arguments: Any) -> list[Any]: ...

class PeekImageShape(Operator):
    """The shape that ``fn.decoders.image`` would give (height, width, channels), read from the header alone."""

    def __init__(
        self,
        *,
        dtype: DTypeLike = ...,
        image_type: int = ...,
        adjust_orientation: bool = True,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
    ) -> None: ...
    def __call__(self, data: DataNode | ArrayLike, /, **arguments: Any) -> Any: ...

class PowerSpectrum(Operator):
    """The power of each frequency of the signal along ``axis``, nfft // 2 + 1 of them; with ``power=1`` the magnitude."""

    def __init__(
        self,
        *,
        axis: int = -1,
        nfft: int | None = None,
        power: int = 2,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
    ) -> None: ...
    def __call__(self, signal: DataNode | ArrayLike, /, **arguments: Any) -> Any: ...

class PreemphasisFilter(Operator):
    """y[t] = x[t] - preemph_coeff * x[t - 1], each channel on its own; time is the first axis."""

    def __init__(
        self,
        *,
        preemph_coeff: float | DataNode = 0.97,
        border: Literal['clamp', 'zero', 'reflect'] = 'clamp',
        dtype: DTypeLike = ...,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
    ) -> None: ...
    def __call__(self, signal: DataNode | ArrayLike, /, **arguments: Any) -> Any: ...

class PythonFunction(Operator):
    """Calls a Python function with NumPy arrays, for each sample or (``batch_processing``) once for the batch."""

    def __init__(
        self,
        *,
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
    ) -> None: ...
    def __call__(self, *inputs: DataNode | ArrayLike, **arguments: Any) -> Any: ...

class Shapes(Operator):
    """The extents of each sample."""

    def __init__(
        self,
        *,
        dtype: DTypeLike = ...,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
    ) -> None: ...
    def __call__(self, data: DataNode | ArrayLike, /, **arguments: Any) -> Any: ...

class Spectrogram(Operator):
    """The short-time power spectrum of a one-dimensional signal: nfft // 2 + 1 frequencies by frames."""

    def __init__(
        self,
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
    ) -> None: ...
    def __call__(self, signal: DataNode | ArrayLike, /, **arguments: Any) -> Any: ...

class ToDecibels(Operator):
    """multiplier * log10(x / reference), and at least ``cutoff_db``."""

    def __init__(
        self,
        *,
        multiplier: float = 10.0,
        reference: float = 0.0,
        cutoff_db: float = -200.0,
        name: str | None = None,
        device: Literal["cpu", "gpu", "mixed"] | None = None,
        preserve: bool | None = None,
        bytes_per_sample_hint: int | Sequence[int] | None = None,
    ) -> None: ...
    def __call__(self, magnitude: DataNode | ArrayLike, /, **arguments: Any) -> Any: ...

class decoders:
    class Audio(Operator):
        """Decodes a sound file to (samples, sampling rate): time by channels, or time alone with ``downmix``."""

        def __init__(
            self,
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
        ) -> None: ...
        def __call__(self, encoded: DataNode | ArrayLike, /, **arguments: Any) -> list[Any]: ...

    class Image(Operator):
        """Decodes images; the output has the layout HWC."""

        def __init__(
            self,
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
        ) -> None: ...
        def __call__(self, data: DataNode | ArrayLike, /, **arguments: Any) -> Any: ...

    class Numpy(Operator):
        """Decodes the bytes of a .npy file; ``dtype`` converts the elements. Nothing is ever unpickled."""

        def __init__(
            self,
            *,
            dtype: DTypeLike | None = None,
            name: str | None = None,
            device: Literal["cpu", "gpu", "mixed"] | None = None,
            preserve: bool | None = None,
            bytes_per_sample_hint: int | Sequence[int] | None = None,
        ) -> None: ...
        def __call__(self, data: DataNode | ArrayLike, /, **arguments: Any) -> Any: ...

class experimental:
    class AudioResample(Operator):
        """Resamples a signal (time, or time by channels) by a factor, from one rate to another, or to a length."""

        def __init__(
            self,
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
        ) -> None: ...
        def __call__(self, signal: DataNode | ArrayLike, /, **arguments: Any) -> Any: ...

class io:
    class file:
        class Read(Operator):
            """Reads whole files; the input is the path as bytes, with or without a zero at its end."""

            def __init__(
                self,
                *,
                name: str | None = None,
                device: Literal["cpu", "gpu", "mixed"] | None = None,
                preserve: bool | None = None,
                bytes_per_sample_hint: int | Sequence[int] | None = None,
            ) -> None: ...
            def __call__(self, filepath: DataNode | ArrayLike, /, **arguments: Any) -> Any: ...

class random:
    class Beta(Operator):
        """Numbers in [0, 1] of the beta distribution."""

        def __init__(
            self,
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
        ) -> None: ...
        def __call__(self, shape_like: DataNode | ArrayLike | None = None, /, **arguments: Any) -> Any: ...

    class Choice(Operator):
        """One of the elements along the first axis of ``a``, or of ``range(a)`` when ``a`` is one integer."""

        def __init__(
            self,
            *,
            p: float | Sequence[float] | DataNode | None = None,
            shape: int | Sequence[int] | DataNode | None = None,
            name: str | None = None,
            device: Literal["cpu", "gpu", "mixed"] | None = None,
            preserve: bool | None = None,
            bytes_per_sample_hint: int | Sequence[int] | None = None,
            seed: int | None = None,
        ) -> None: ...
        def __call__(self, a: DataNode | ArrayLike, shape_like: DataNode | ArrayLike | None = None, /, **arguments: Any) -> Any: ...

    class CoinFlip(Operator):
        """1 with the given probability, else 0."""

        def __init__(
            self,
            *,
            probability: float | DataNode = 0.5,
            dtype: DTypeLike | None = None,
            shape: int | Sequence[int] | DataNode | None = None,
            name: str | None = None,
            device: Literal["cpu", "gpu", "mixed"] | None = None,
            preserve: bool | None = None,
            bytes_per_sample_hint: int | Sequence[int] | None = None,
            seed: int | None = None,
        ) -> None: ...
        def __call__(self, shape_like: DataNode | ArrayLike | None = None, /, **arguments: Any) -> Any: ...

    class Normal(Operator):
        """Normally distributed numbers; integer types are rounded and limited to their range."""

        def __init__(
            self,
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
        ) -> None: ...
        def __call__(self, shape_like: DataNode | ArrayLike | None = None, /, **arguments: Any) -> Any: ...

    class Uniform(Operator):
        """Uniformly distributed numbers in ``[low, high)``, or one of ``values``; integer types are rounded."""

        def __init__(
            self,
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
        ) -> None: ...
        def __call__(self, shape_like: DataNode | ArrayLike | None = None, /, **arguments: Any) -> Any: ...

class readers:
    class File(Operator):
        """Reads files and their labels: the bytes of each file, and an integer."""

        def __init__(
            self,
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
        ) -> None: ...
        def __call__(self, **arguments: Any) -> list[Any]: ...

    class NemoAsr(Operator):
        """Reads recordings: samples; and as asked the sampling rate, the transcript (bytes of UTF-8) and the entry's number."""

        def __init__(
            self,
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
        ) -> None: ...
        def __call__(self, **arguments: Any) -> Any: ...

    class Numpy(Operator):
        """Reads arrays from .npy files: all of each file, or the region that the roi arguments cut out."""

        def __init__(
            self,
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
        ) -> None: ...
        def __call__(self, **arguments: Any) -> Any: ...

    class TFRecord(Operator):
        """Reads the named `features` of each record: a dictionary of outputs under the features' names."""

        def __init__(
            self,
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
        ) -> None: ...
        def __call__(self, **arguments: Any) -> Any: ...

    class Webdataset(Operator):
        """Reads samples from tar files: for each element of `ext`, the bytes of the file with that extension."""

        def __init__(
            self,
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
        ) -> None: ...
        def __call__(self, **arguments: Any) -> Any: ...
