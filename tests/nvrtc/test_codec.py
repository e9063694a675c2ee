"""nvImageCodec itself, by its decoders of the CPU, where it is installed: options, parts of images and errors."""

import io
from importlib.util import find_spec

import numpy as np
import pytest
from PIL import Image

from pipeflow import backends
from pipeflow.errors import NoGpu

pytestmark = pytest.mark.skipif(
    find_spec("nvidia") is None or find_spec("nvidia.nvimgcodec") is None, reason="nvImageCodec is not installed"
)


def jpeg(subsampling):
    """A picture with sharp colours."""
    rng = np.random.default_rng(1)
    picture = rng.integers(0, 255, (40, 56, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=90, subsampling=subsampling)
    return np.frombuffer(file.getvalue(), np.uint8)


@pytest.fixture(scope="module")
def codec():
    """A decoder without a GPU."""
    return backends.codec.Codec(backends.codec.ON_CPU)


@pytest.mark.parametrize("subsampling", [0, 2])
def test_colours_are_interpolated(codec, subsampling):
    """4:2:0 and 4:4:4 give what libjpeg-turbo gives."""
    data = jpeg(subsampling)
    (made,) = codec.decode([data], "RGB", True)
    np.testing.assert_array_equal(np.asarray(made.cpu()), np.asarray(Image.open(io.BytesIO(data.tobytes()))))


def test_a_part_of_an_image(codec):
    """Is the same part of the whole image."""
    data = jpeg(2)
    whole = np.asarray(codec.decode([data], "RGB", True)[0].cpu())
    (part,) = codec.decode([data], "RGB", True, regions=[(7, 5, 20, 31)])
    np.testing.assert_array_equal(np.asarray(part.cpu()), whole[7:27, 5:36])


def test_files_that_cannot_be_decoded(codec):
    """Are told apart from a library that decodes nothing."""
    broken = jpeg(0)[:100]
    first, second = codec.decode([np.frombuffer(b"not an image", np.uint8), broken], "RGB", True)
    assert "cannot read it" in first
    assert isinstance(second, str)


def test_a_library_that_decodes_nothing(codec, monkeypatch):
    """Is an error with its likely reasons, while decoding and when it is opened."""

    class Nothing:
        def __init__(self, **_):
            pass

        def decode(self, source, **_):
            return [None] * len(source) if isinstance(source, list) else None

    with monkeypatch.context() as patch:
        patch.setattr(codec, "_decoder", Nothing())
        with pytest.raises(RuntimeError, match="not even a file that is known to be good"):
            codec.decode([jpeg(0)], "RGB", True)
    monkeypatch.setattr(backends.codec.nvimgcodec, "Decoder", Nothing)
    with pytest.raises(NoGpu, match="decodes no JPEG at all: are nvidia-nvimgcodec-cu13 and nvidia-nvjpeg installed"):
        backends.codec.Codec(backends.codec.ON_CPU)
