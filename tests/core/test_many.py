"""Operators that compute several samples in one call (declare/many.py) return what their bodies return, bit for bit."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import pipeflow.operators  # noqa: F401  (fills the registry)
from pipeflow import declare, fn, pipeline_def, types

BATCH = 6
RNG = np.random.default_rng(5)


def fed(*inputs: Any, layout: Any = None) -> Any:
    """Sources of these samples: each input is a list of arrays, one for each sample."""
    found = [
        fn.external_source(lambda x=x: list(x), layout=layout if not place else None) for place, x in enumerate(inputs)
    ]
    return found if len(found) > 1 else found[0]


def per_sample(*shape: int, low: float = 0.0, high: float = 1.0) -> Any:
    """An argument that is drawn for each sample."""
    return fn.random.uniform(range=(low, high), shape=list(shape) or None, seed=7)


def whole(shape: int, low: int, high: int) -> Any:
    """Whole numbers that are drawn for each sample."""
    return fn.random.uniform(range=(low, high), shape=shape, dtype=types.INT64, seed=9)


MATRICES = [RNG.random((2, 3), np.float32) for _ in range(BATCH)]
IN_SPACE = [RNG.random((3, 4), np.float32) for _ in range(BATCH)]


def encoded(number: int) -> np.ndarray:
    """A file: progressive, turned, or plain JPEG in colours and grey, or a PNG."""
    image = Image.fromarray(
        np.full((30 + number, 40, 3), 40 * number, np.uint8)[..., : 1 if number == 2 else 3].squeeze()
    )
    options: dict[str, Any] = {0: {"progressive": True}, 1: {"exif": TURNED}}.get(number, {})
    with io.BytesIO() as file:
        image.save(file, "PNG" if number == 3 else "JPEG", **options)
        return np.frombuffer(file.getvalue(), np.uint8)


def saved(array: np.ndarray) -> np.ndarray:
    """The bytes of a .npy file."""
    with io.BytesIO() as file:
        np.save(file, array)
        return np.frombuffer(file.getvalue(), np.uint8)


TURNED = Image.Exif()
TURNED[0x0112] = 6
FILES = [encoded(k) for k in range(BATCH)]
ARRAYS = [saved(RNG.random((2, 3 + k)) * 300) for k in range(BATCH)]
EQUAL_ARRAYS = [saved(RNG.random((2, 3))) for _ in range(BATCH)]
OTHER_ARRAYS = [saved((RNG.random((2, 3)) * 300).astype("<i2" if k % 2 else ">f4").T) for k in range(BATCH)]
PLANES = [np.zeros((6 + k, 9 - k), np.uint8) for k in range(BATCH)]
SHAPES = [np.array([200 + 30 * k, 300 - 20 * k, 3], np.int32) for k in range(BATCH)]
POINTS = [RNG.random((3 + k, 2), np.float32) for k in range(BATCH)]
RANGES = [np.array([k, k + 1.5], np.float32) for k in range(BATCH)]
BOXES = [np.sort(RNG.random((k, 2, 2), np.float32), axis=1).reshape(k, 4) for k in range(BATCH)]
HALVES = [box.astype(np.float16) for box in BOXES]
CUBES = [np.sort(RNG.random((k, 2, 3), np.float32), axis=1).reshape(k, 6) for k in range(1, BATCH + 1)]
PIXELS = [box * np.array([400, 300, 400, 300], np.float32) for box in BOXES]
SIZED = [np.concatenate([box[:, :2], box[:, 2:] - box[:, :2]], 1) for box in BOXES]
LABELS = [np.arange(k, dtype=np.int32) for k in range(BATCH)]
IMAGES = [RNG.integers(0, 256, (40 + k, 50, 3), dtype=np.uint8) for k in range(BATCH)]
POLYGONS = (
    [np.array([3, 1][: 1 + k % 2], np.int32) for k in range(BATCH)],
    [np.array([[j % 4, 2 * j, 2 * j + k] for j in range(8)], np.int32) for k in range(BATCH)],
    [RNG.random((20 + k, 2), np.float32) for k in range(BATCH)],
)

CLIPS = [RNG.integers(0, 256, (3, 4, 5), dtype=np.uint8) for _ in range(BATCH)]
PATHS = [np.frombuffer(bytes(path), np.uint8) for path in sorted(Path(__file__).parent.glob("test_*.py"))[:BATCH]]


CASES: dict[str, dict[str, Callable[[], Any]]] = {
    "peek_image_shape": {
        "files": lambda: fn.peek_image_shape(fed(FILES)),
        "colours": lambda: fn.peek_image_shape(fed(FILES), image_type=types.ANY_DATA, dtype=types.INT32),
        "as stored": lambda: fn.peek_image_shape(fed(FILES), adjust_orientation=False, image_type=types.GRAY),
    },
    "decoders.numpy": {
        "stored": lambda: fn.decoders.numpy(fed(ARRAYS)),
        "converted": lambda: fn.decoders.numpy(fed(ARRAYS), dtype=types.UINT8),
        "of one shape": lambda: fn.decoders.numpy(fed(EQUAL_ARRAYS)),
        "of several types": lambda: fn.decoders.numpy(fed(OTHER_ARRAYS), dtype=types.INT16),
    },
    "io.file.read": {
        "bytes": lambda: fn.io.file.read(fed(PATHS)),
        "text": lambda: fn.io.file.read(fed([np.array(path.tobytes().decode()) for path in PATHS])),
        "ending with a zero": lambda: fn.io.file.read(fed([np.append(path, [0]).astype(np.int8) for path in PATHS])),
    },
    "element_extract": {
        "one": lambda: fn.element_extract(fed(CLIPS, layout="FHW"), element_map=[2]),
        "several": lambda: fn.element_extract(fed(CLIPS, layout="FHW"), element_map=[1, 0, 1]),
        "an array": lambda: fn.element_extract(per_sample(4, 3), element_map=[3, 0]),
        "numbers": lambda: fn.element_extract(per_sample(4), element_map=[3]),
    },
    "copy": {
        "images": lambda: fn.copy(fed(PLANES)),
        "equal images": lambda: fn.copy(fn.zeros(shape=[3, 4])),
        "equal arrays": lambda: fn.copy(fed(CLIPS)),
        "numbers": lambda: fn.copy(per_sample()),
    },
    "zeros_like": {
        "equal arrays": lambda: fn.zeros_like(fed(CLIPS)),
        "type": lambda: fn.zeros_like(fed(CLIPS), dtype=types.FLOAT16),
    },
    "ones_like": {"equal arrays": lambda: fn.ones_like(fed(CLIPS)), "numbers": lambda: fn.ones_like(per_sample())},
    "shapes": {
        "images": lambda: fn.shapes(fed(PLANES)),
        "type": lambda: fn.shapes(fn.zeros(shape=[3, 4]), dtype=types.INT32),
    },
    "_subscript": {
        "constant": lambda: per_sample(4, 3)[1, ::-2],
        "nodes": lambda: per_sample(4, 3, 2)[fn.cast(per_sample(high=3.9), dtype=types.INT32), :, -1],
        "new axes": lambda: per_sample(4, 3)[np.newaxis, :, fn.cast(per_sample(high=2), dtype=types.UINT8), None],
        "of images": lambda: fed(CLIPS)[1, 1:],
    },
    "stack": {
        "numbers": lambda: fn.stack(per_sample(), per_sample()),
        "last axis": lambda: fn.stack(per_sample(3), per_sample(3), axis=-1),
        "named": lambda: fn.stack(per_sample(3), per_sample(3), axis=1, axis_name="X"),
    },
    "cat": {
        "rows": lambda: fn.cat(per_sample(2), per_sample(3)),
        "columns": lambda: fn.cat(per_sample(2, 3), per_sample(2, 1), axis=-1),
    },
    "one_hot": {
        "numbers": lambda: fn.one_hot(fn.cast(per_sample(low=-2, high=7), dtype=types.INT32), num_classes=5),
        "values": lambda: fn.one_hot(whole(1, 0, 9), num_classes=7, on_value=3.7, off_value=-1, dtype=types.INT8),
    },
    "zeros": {"shape": lambda: fn.zeros(shape=[3, 4], dtype=types.UINT8)},
    "ones": {"shape": lambda: fn.ones(shape=[3, 4], layout="HW"), "number": lambda: fn.ones()},
    "full": {
        "number": lambda: fn.full(3.0, shape=[2, 3]),
        "varying": lambda: fn.full(per_sample(3), shape=[2, 3]),
        "no shape": lambda: fn.full(per_sample(3)),
        "samples": lambda: fn.full(fed(MATRICES), shape=[4, 2, 3]),
    },
    "constant": {
        "numbers": lambda: fn.constant(fdata=[1.0, 2.0, 3.0]),
        "shape": lambda: fn.constant(idata=[1, 2, 3, 4], shape=[2, 2], dtype=types.UINT8),
        "repeated": lambda: fn.constant(fdata=0.5, shape=[2, 2]),
    },
    "bb_flip": {
        "extents": lambda: fn.bb_flip(fed(SIZED), vertical=True),
        "halves": lambda: fn.bb_flip(fed(HALVES), ltrb=True),
    },
    "bbox_paste": {
        "corners": lambda: fn.bbox_paste(fed(BOXES), ratio=1.7, ltrb=True, paste_x=0.3),
        "extents": lambda: fn.bbox_paste(fed(SIZED), ratio=2.3),
    },
    "coord_flip": {
        "points": lambda: fn.coord_flip(fed(POINTS), layout="yx", flip_y=True, center_y=0.3),
        "equal numbers": lambda: fn.coord_flip(per_sample(5, 3), flip_z=True),
    },
    "coord_transform": {
        "matrix": lambda: fn.coord_transform(fed(POINTS), MT=[1.0, 0.1, 3.0, -0.1, 1.0, 5.0]),
        "factor": lambda: fn.coord_transform(fed(POINTS), M=[2.0], T=[1.0, 3.0]),
        "each": lambda: fn.coord_transform(fed(POINTS), MT=fed(MATRICES)),
        "parts": lambda: fn.coord_transform(fed(POINTS), M=per_sample(4), T=per_sample(), dtype=types.INT32),
        "equal numbers": lambda: fn.coord_transform(per_sample(5, 3), MT=[0.5] * 8),
        "wide": lambda: fn.coord_transform(
            fed([x.astype(np.float64) for x in POINTS]), MT=[1.0, 0.1, 3.0, -0.1, 1.0, 5.0]
        ),
        "to wide": lambda: fn.coord_transform(fed(POINTS), MT=fed(MATRICES), dtype=types.FLOAT64),
        "more coordinates": lambda: fn.coord_transform(
            fed(POINTS), M=[1.0, 0.1, -0.1, 1.0, 2.0, 3.0], T=[1.0, 2.0, 3.0]
        ),
    },
    "bbox_rotate": {
        "corners": lambda: fn.bbox_rotate(fed(BOXES), angle=per_sample(high=360), input_shape=[360, 480]),
        "extents": lambda: fn.bbox_rotate(
            *fed(SIZED, LABELS),
            angle=130.0,
            input_shape=fed(SHAPES),
            bbox_layout="xyWH",
            mode="halfway",
            shape_layout="HWC",
        ),
        "pixels": lambda: fn.bbox_rotate(
            *fed(PIXELS, LABELS),
            angle=per_sample(low=-99, high=99),
            input_shape=[300, 400],
            bbox_normalized=False,
            keep_size=True,
            mode="fixed",
            remove_threshold=0.3,
        ),
        "canvas": lambda: fn.bbox_rotate(fed(BOXES), angle=45.0, input_shape=[36, 48], size=[50.0, 40.0]),
        "halves": lambda: fn.bbox_rotate(fed(HALVES), angle=45.0, input_shape=[36, 48], remove_threshold=0.9),
    },
    "random_bbox_crop": {
        "labels": lambda: fn.random_bbox_crop(
            *fed(BOXES, LABELS),
            thresholds=[0.1, 0.3, 0.5],
            scaling=[0.3, 1.0],
            aspect_ratio=[0.5, 2.0],
            num_attempts=20,
            allow_no_crop=False,
            total_num_attempts=60,
            output_bbox_indices=True,
        ),
        "extents": lambda: fn.random_bbox_crop(
            fed(SIZED),
            bbox_layout="xyWH",
            scaling=[0.5, 1.0],
            input_shape=whole(2, 100, 200),
            threshold_type="overlap",
            all_boxes_above_threshold=False,
            bbox_prune_threshold=0.2,
            thresholds=[0.5],
            num_attempts=5,
        ),
        "pixels": lambda: fn.random_bbox_crop(
            *fed(BOXES, LABELS), crop_shape=whole(2, 50, 90), input_shape=[100, 120], shape_layout="HW", num_attempts=3
        ),
        "in space": lambda: fn.random_bbox_crop(
            fed(CUBES), scaling=[0.3, 1.0], aspect_ratio=[0.5, 2.0], num_attempts=9, total_num_attempts=90
        ),
    },
    "ssd_random_crop": {
        "images": lambda: fn.ssd_random_crop(*fed(IMAGES, BOXES, LABELS, layout="HWC"), num_attempts=5)
    },
    "random.uniform": {
        "range": lambda: fn.random.uniform(range=(0.0, 2.0), shape=1000),
        "each": lambda: fn.random.uniform(range=fed(RANGES), shape=[20, 30]),
        "like": lambda: fn.random.uniform(fed(MATRICES)),
        "narrow": lambda: fn.random.uniform(range=(1.0, 1.0000001), shape=500),
    },
    "random.normal": {
        "numbers": lambda: fn.random.normal(stddev=2.0, shape=1000),
        "each": lambda: fn.random.normal(mean=per_sample(), stddev=per_sample(), shape=[9, 11]),
        "integers": lambda: fn.random.normal(fed(MATRICES), stddev=900.0, dtype=types.INT8),
    },
    "segmentation.select_masks": {
        "some": lambda: fn.segmentation.select_masks(*fed(*POLYGONS)),
        "with new numbers": lambda: fn.segmentation.select_masks(*fed(*POLYGONS), reindex_masks=True),
    },
    "roi_random_crop": {
        "constant": lambda: fn.roi_random_crop(roi_start=[10, 20], roi_shape=[90, 80], crop_shape=[60, 50]),
        "varying": lambda: fn.roi_random_crop(
            roi_start=whole(2, 0, 9), roi_end=[40, 50], crop_shape=whole(2, 10, 60), in_shape=[60, 70]
        ),
        "data": lambda: fn.roi_random_crop(
            fed(PLANES), roi_start=whole(2, 0, 2), roi_shape=[2, 2], crop_shape=whole(2, 1, 4)
        ),
    },
    "random_crop_generator": {
        "shapes": lambda: fn.random_crop_generator(fed(SHAPES)),
        "few attempts": lambda: fn.random_crop_generator(
            fed(SHAPES), random_area=(0.9, 1.0), random_aspect_ratio=(1.9, 2.1), num_attempts=2
        ),
    },
    "transforms.translation": {
        "constant": lambda: fn.transforms.translation(offset=[2.0, 3.0]),
        "varying": lambda: fn.transforms.translation(offset=per_sample(3, low=-5)),
        "one number": lambda: fn.transforms.translation(fed(MATRICES), offset=per_sample()),
        "before": lambda: fn.transforms.translation(fed(MATRICES), offset=per_sample(2), reverse_order=True),
    },
    "transforms.scale": {
        "constant": lambda: fn.transforms.scale(scale=[2.0, 3.0], center=[5.0, 7.0]),
        "varying": lambda: fn.transforms.scale(scale=per_sample(2), center=per_sample(2, high=9)),
        "one number": lambda: fn.transforms.scale(scale=per_sample(), ndim=3),
        "center": lambda: fn.transforms.scale(scale=per_sample(), center=[1.0, 2.0, 3.0]),
        "after": lambda: fn.transforms.scale(fed(IN_SPACE), scale=per_sample(3)),
        "before": lambda: fn.transforms.scale(fed(IN_SPACE), scale=per_sample(3), reverse_order=True),
    },
    "transforms.rotation": {
        "constant": lambda: fn.transforms.rotation(angle=30.0),
        "varying": lambda: fn.transforms.rotation(angle=per_sample(high=360), center=per_sample(2, high=99)),
        "after": lambda: fn.transforms.rotation(fed(MATRICES), angle=per_sample(high=360), center=[3.0, 4.0]),
    },
    "transforms.shear": {
        "factors": lambda: fn.transforms.shear(shear=per_sample(2), center=[3.0, 4.0]),
        "angles": lambda: fn.transforms.shear(angles=per_sample(2, high=40)),
        "in space": lambda: fn.transforms.shear(fed(IN_SPACE), angles=per_sample(6, high=40)),
        "constant": lambda: fn.transforms.shear(fed(MATRICES), shear=[0.2, 0.4], center=per_sample(2)),
    },
    "transforms.crop": {
        "varying": lambda: fn.transforms.crop(from_end=per_sample(2, low=0.5, high=2)),
        "mirrored": lambda: fn.transforms.crop(from_start=per_sample(3, low=1, high=2), to_start=[0.9, 0.8, 0.7]),
        "absolute": lambda: fn.transforms.crop(
            fed(MATRICES), from_start=per_sample(2, low=1.1, high=2), to_end=per_sample(), absolute=True
        ),
    },
    "transforms.combine": {
        "two": lambda: fn.transforms.combine(fed(MATRICES), fn.transforms.rotation(angle=per_sample(high=90))),
        "three": lambda: fn.transforms.combine(fed(MATRICES), fed(MATRICES[::-1]), fed(MATRICES), reverse_order=True),
    },
}


@contextmanager
def counted(name: str, active: bool) -> Iterator[list[int]]:
    """Counts the samples that an operator computes in calls for several; without ``active`` it has no such call."""
    op = declare.find(name)
    hook, done = op.many_hook, []

    def counting(many: Any) -> Any:
        outputs = hook(many)
        done.append(many.size)
        return outputs

    op.many_hook = counting if active else None
    try:
        yield done
    finally:
        op.many_hook = hook


def outputs_of(make: Callable[[], Any], name: str, active: bool = True, threads: int = 2) -> tuple[list[Any], int]:
    """The samples of three batches with their layouts, and the number of samples that were computed together."""

    @pipeline_def(batch_size=BATCH, num_threads=threads, device_id=None, seed=3)
    def pipeline() -> Any:
        made = make()
        return tuple(made) if isinstance(made, (list, tuple)) else made

    with counted(name, active) as done:
        pipe = pipeline()
        pipe.build()
        found = [
            (output.layout(), [np.array(output.at(index)) for index in range(len(output))])
            for _ in range(3)
            for output in pipe.run()
        ]
    return found, sum(done)


@pytest.fixture(autouse=True)
def _kernels_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPEFLOW_START", "wait")


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, cases in CASES.items() for case in cases])
def test_many_samples_are_computed_as_by_the_body(name: str, case: str) -> None:
    """Outputs, types and layouts are equal, and the call for several samples has computed at least three batches."""
    found, count = outputs_of(CASES[name][case], name)
    expected, none = outputs_of(CASES[name][case], name, active=False)
    assert none == 0
    assert count >= 3 * BATCH
    for (layout, samples), (other_layout, others) in zip(found, expected, strict=True):
        assert layout == other_layout
        for sample, other in zip(samples, others, strict=True):
            assert (sample.dtype, sample.shape) == (other.dtype, other.shape)
            assert sample.tobytes() == other.tobytes()


def test_every_operator_with_such_a_call_has_cases() -> None:
    """No operator declares ``many`` without a comparison here."""
    declared = {op.name for op in declare.registry.values() if op.many_hook is not None}
    assert declared == set(CASES)


def read_of(paths: list[bytes]) -> list[bytes]:
    """The contents of files, by ``io.file.read``."""

    @pipeline_def(batch_size=len(paths), num_threads=1, device_id=None)
    def pipeline() -> Any:
        return fn.io.file.read(fn.external_source(lambda: [np.frombuffer(path, np.uint8) for path in paths]))

    (out,) = pipeline().run()
    return [np.asarray(out.at(number)).tobytes() for number in range(len(paths))]


def test_files_that_are_not_read_together_are_read_by_the_body(tmp_path: Path) -> None:
    """A pipe, a missing file and a file whose name has a zero are errors; an empty file, and one in a folder "x:", are not."""
    folder = tmp_path / "x:" / "y"
    folder.mkdir(parents=True)
    names = [tmp_path / "empty", folder / "like a URL", tmp_path / "plain"]
    for number, name in enumerate(names):
        name.write_bytes(b"content" * number)
    plain = [bytes(name) for name in names]
    plain[1] = plain[1].replace(b"x:/", b"x://")
    assert read_of(plain) == [b"", b"content", b"contentcontent"]
    with pytest.raises(FileNotFoundError, match="missing") as caught:
        read_of([plain[0], bytes(tmp_path / "missing")])
    assert any("sample 1 of batch 0" in note for note in caught.value.__notes__)
    with pytest.raises(Exception, match="zero in it"):
        read_of([plain[2] + b"\0" + plain[2]])
    with pytest.raises(ValueError, match="is empty"):
        read_of([plain[2], b"\0"])
    with pytest.raises(Exception, match="not a regular file"):
        read_of([bytes(tmp_path)])


def test_points_have_the_numbers_of_the_formula() -> None:
    """float64 in between, also for numbers of all sizes, infinities, negative zeros and numbers that are none."""
    points = np.array(
        [[3e38, 3e38], [-0.0, 0.0], [np.inf, 1.0], [np.nan, 2.0], [1e-45, -1e-45], [1.1, 2.7]], np.float32
    )
    matrix = np.array([[1.5, 0.7, -0.0], [0.0, -1.0, 0.0]], np.float32)
    wide, exact = points.astype(np.float64), matrix.astype(np.float64)
    with np.errstate(all="ignore"):
        expected = np.stack(
            [0.0 + exact[i, 0] * wide[:, 0] + exact[i, 1] * wide[:, 1] + exact[i, 2] for i in (0, 1)], 1
        )
        expected = expected.astype(np.float32)
    assert fn.coord_transform(points, MT=matrix).tobytes() == expected.tobytes()


ENDS = [np.array([1.0 + k, 2.0 if k != 3 else 0.0], np.float32) for k in range(BATCH)]


def test_the_body_reports_the_sample_with_an_error() -> None:
    """Sample 3 maps an empty box; the error is that of the body."""

    @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None)
    def pipeline() -> Any:
        return fn.transforms.crop(from_end=fed(ENDS))

    pipe = pipeline()
    with pytest.raises(ValueError, match=r"the box from .* to \(4\.0, 0\.0\) is empty") as caught:
        pipe.run()
    assert any("sample 3 of batch 0" in note for note in caught.value.__notes__)


def test_a_failed_sample_is_left_out_and_the_others_are_as_before() -> None:
    """With on_error="skip" a batch has five matrices, in their order: each scales by 1 / (1 + k) along the first axis."""

    @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None)
    def pipeline() -> Any:
        return fn.transforms.crop(from_end=fed(ENDS), on_error="skip")

    (matrices,) = pipeline().run()
    factors = [float(matrices.at(index)[0, 0]) for index in range(len(matrices))]
    np.testing.assert_allclose(factors, [1, 1 / 2, 1 / 3, 1 / 5, 1 / 6], rtol=1e-6)


def test_only_the_samples_of_a_branch_are_computed() -> None:
    """Samples 0, 2 and 4 take the branch with the operator, and a later step of the stage reads the result of all."""

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, prefetch_queue_depth=1, enable_conditionals=True)
    def pipeline() -> Any:
        takes = fed([np.array(k % 2 == 0) for k in range(BATCH)])
        points = fed(BOXES)
        if takes:
            points = fn.bbox_rotate(points, angle=180.0, input_shape=[10, 10])
        else:
            points = points + np.float32(1)
        return points, fn.shapes(points)

    with counted("bbox_rotate", active=True) as done:
        turned, shapes = pipeline().run()
    assert sum(done) == 3
    for index, boxes in enumerate(BOXES):
        expected = boxes + 1 if index % 2 else 1 - boxes[:, [2, 3, 0, 1]]
        np.testing.assert_allclose(turned.at(index), expected, atol=1e-6)
        assert shapes.at(index).tolist() == list(expected.shape)


def test_later_steps_of_a_stage_get_the_results_of_their_sample() -> None:
    """The matrix of a sample moves its points, whose number differs, in a function; the result is computed with NumPy."""

    def moved(points: np.ndarray, matrix: np.ndarray) -> np.ndarray:
        return points @ matrix[:, :2].T + matrix[:, 2]

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=None)
    def pipeline() -> Any:
        matrix = fn.transforms.translation(offset=fed(ENDS))
        return fn.python_function(fed(POINTS), matrix, function=moved, parallel="threads"), matrix

    points, matrices = pipeline().run()
    for index in range(BATCH):
        np.testing.assert_array_equal(matrices.at(index)[:, 2], ENDS[index])
        np.testing.assert_allclose(points.at(index), POINTS[index] + ENDS[index], rtol=1e-6)


def test_equal_results_are_rows_of_one_array():
    """The batch is then one array without a copy."""

    @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None)
    def copies() -> Any:
        return fn.copy(fed(CLIPS)), fn.copy(fed(IMAGES))

    pipe = copies()
    pipe.build()
    equal, others = pipe.run()
    assert np.shares_memory(equal.as_array(), equal.at(1))
    assert [x.tobytes() for x in map(np.array, equal)] == [x.tobytes() for x in CLIPS]
    assert [x.tobytes() for x in map(np.array, others)] == [x.tobytes() for x in IMAGES]
