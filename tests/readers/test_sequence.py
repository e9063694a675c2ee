"""fn.readers.sequence: which frames a sequence has, how they are decoded, and what is wrong with folders of images."""

import cv2
import numpy as np
import pytest
from image.oracle import ask, case
from readers.conformance import check_reader

from pipeflow import fn, pipeline_def, types
from pipeflow.errors import BadData
from pipeflow.operators.readers.sequence import SequenceReader


def frame(folder, number, height=4):
    return np.array([[[10 * number, ord(folder[0]), len(folder)]] * 6] * height, np.uint8)


@pytest.fixture
def root(tmp_path):
    """Folders of 5, 4, 3, 3, 2 and no frames, with files that are no images."""
    for folder, count in (("b", 5), ("a", 4), ("c10", 3), ("c9", 3), ("short", 2), ("empty", 0)):
        (tmp_path / folder).mkdir()
        for number in range(count):
            cv2.imwrite(str(tmp_path / folder / f"{number}.png"), frame(folder, number)[..., ::-1])
    (tmp_path / "a" / "0.txt").write_text("no image")
    (tmp_path / "a" / "deep").mkdir()
    cv2.imwrite(str(tmp_path / "loose.png"), frame("z", 0))
    return tmp_path


def expected(length, step=1, stride=1):
    return [
        (np.stack([frame(folder, start + k * stride) for k in range(length)]),)
        for folder, count in (("a", 4), ("b", 5), ("c10", 3), ("c9", 3), ("short", 2))
        for start in range(0, count - (length - 1) * stride, step)
    ]


@pytest.mark.parametrize(("length", "step", "stride"), [(3, 1, 1), (2, 2, 2), (1, 3, 1), (2, 1, 3)])
def test_the_promises_of_every_reader(root, length, step, stride):
    """Folders and files in alphabetical order; no sequence goes from one folder to the next."""
    check_reader(
        lambda: SequenceReader(file_root=str(root), sequence_length=length, step=step, stride=stride),
        expected(length, step, stride),
    )


def test_colours_and_the_layout_in_a_pipeline(root):
    """FHWC, in the colour space asked for; by its former name too."""

    @pipeline_def(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=1)
    def define(read, image_type):
        return read(file_root=str(root), sequence_length=2, image_type=image_type)

    (output,) = define(fn.readers.sequence, types.BGR).run()
    assert output.layout() == "FHWC"
    assert (np.asarray(output[0]) == expected(2)[0][0][..., ::-1]).all()
    with pytest.warns(DeprecationWarning, match="readers.sequence"):
        former = define(fn.sequence_reader, types.GRAY)
    assert former.run()[0].shape() == [(2, 4, 6, 1)] * 2


def test_what_is_refused(root):
    """Frames of several shapes, files that are damaged, folders that are too short, numbers below 1."""
    cv2.imwrite(str(root / "c9" / "1.png"), frame("c", 1, height=5))
    (root / "c10" / "2.png").write_bytes(b"no picture")
    samples = SequenceReader(file_root=str(root), sequence_length=3)
    with pytest.raises(BadData, match=r"c9/1\.png: all frames of a sequence must have one shape"):
        samples.fetch(len(samples) - 1)
    with pytest.raises(ValueError, match="it starts with b'no picture'") as caught:
        samples.fetch(len(samples) - 2)
    assert caught.value.__notes__[-1].endswith("c10/2.png")
    assert samples.source_info(len(samples) - 1).endswith("c9/0.png")
    with pytest.raises(BadData, match="has the 9 images that a sequence reaches over; the longest has 5"):
        SequenceReader(file_root=str(root), sequence_length=5, stride=2)
    with pytest.raises(ValueError, match="step must be at least 1, got 0"):
        SequenceReader(file_root=str(root), sequence_length=5, step=0)
    with pytest.raises(ValueError, match="image_type must be RGB, BGR, GRAY or ANY_DATA"):
        SequenceReader(file_root=str(root), sequence_length=5, image_type=types.YCbCr)


@pytest.mark.oracle
def test_dali_reads_the_same(root):
    """Every sequence of several lengths, steps, strides and colour spaces."""
    (root / "a" / "0.txt").unlink()
    forms = [{"sequence_length": 3}, {"sequence_length": 2, "step": 2, "stride": 2}]
    forms += [{"sequence_length": 1, "image_type": types.GRAY}, {"sequence_length": 2, "image_type": types.BGR}]
    for form in forms:
        samples = SequenceReader(file_root=str(root), **form)
        given = {**form, **({"image_type": f"types.{form['image_type'].name}"} if "image_type" in form else {})}
        cases = [
            case("readers.sequence", file_root=str(root), **given, num_shards=len(samples), shard_id=shard)
            for shard in range(len(samples))
        ]
        for place, (outputs, layouts) in enumerate(ask(cases)):
            assert layouts == ["FHWC"], outputs
            np.testing.assert_array_equal(samples.fetch(place)[0], outputs[0])
