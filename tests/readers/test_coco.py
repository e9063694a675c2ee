"""fn.readers.coco: boxes, labels, masks and ids of annotations, and what is wrong with them."""

import json

import numpy as np
import pytest
from image.oracle import ask, case
from readers.conformance import check_reader

from pipeflow import fn, pipeline_def
from pipeflow.errors import BadData
from pipeflow.operators.readers.coco import CocoReader
from pipeflow.operators.readers.coco_masks import decoded_counts, filled

IMAGES = [
    {"id": 9, "width": 8, "height": 4, "file_name": "b.jpg"},
    {"id": 2, "width": 6, "height": 5, "file_name": "a.jpg"},
    {"id": 11, "width": 3, "height": 3, "file_name": "c.jpg"},
    {"id": 12, "width": 4, "height": 4, "file_name": "d.jpg"},
]
RUNS = {"size": [4, 8], "counts": [5, 2, 2, 2, 21]}  # rows 1 and 2 of the columns 1 and 2
ANNOTATIONS = [
    {"id": 1, "image_id": 2, "category_id": 70, "bbox": [1, 1, 3, 2], "segmentation": [[1, 1, 4, 1, 4, 3, 1, 3]]},
    {"id": 2, "image_id": 2, "category_id": 3, "bbox": [0, 0, 2, 2], "segmentation": [[0, 0, 2, 0, 2, 2, 0, 2]]},
    {"id": 3, "image_id": 9, "category_id": 3, "bbox": [1, 1, 2, 2], "iscrowd": 1, "segmentation": RUNS},
    {"id": 4, "image_id": 12, "category_id": 3, "bbox": [0.5, 0, 0.05, 3], "segmentation": []},
    {"id": 5, "image_id": 999, "category_id": 3, "bbox": [0, 0, 1, 1]},
]
CATEGORIES = [{"id": 70}, {"id": 3}]


def write(folder, images=IMAGES, annotations=ANNOTATIONS, categories=CATEGORIES):
    """A data set of four images that are only their names."""
    for entry in IMAGES:
        (folder / entry["file_name"]).write_bytes(entry["file_name"].encode())
    (folder / "a.json").write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))
    return {"file_root": str(folder), "annotations_file": str(folder / "a.json")}


def read(folder, **options):
    samples = CocoReader(**write(folder), **options)
    return [samples.fetch(place) for place in range(len(samples))]


def test_the_promises_of_every_reader(tmp_path):
    """Images in the order of their ids, objects in the order of the file, narrow boxes left out."""
    arguments = write(tmp_path)
    rows = [("a.jpg", [[1, 1, 3, 2], [0, 0, 2, 2]], [1, 2]), ("b.jpg", [[1, 1, 2, 2]], [2])]
    rows += [("c.jpg", [], []), ("d.jpg", [], [])]
    expected = [
        (np.frombuffer(name.encode(), np.uint8), np.array(boxes, np.float32).reshape(-1, 4), np.array(labels, np.int32))
        for name, boxes, labels in rows
    ]
    check_reader(lambda: CocoReader(**arguments), expected)


def test_forms_of_boxes(tmp_path):
    """Corners, and parts of the width and height."""
    assert read(tmp_path, ltrb=True)[0][1].tolist() == [[1, 1, 4, 3], [0, 0, 2, 2]]
    np.testing.assert_allclose(read(tmp_path, ratio=True)[1][1], [[1 / 8, 1 / 4, 2 / 8, 2 / 4]])
    np.testing.assert_allclose(read(tmp_path, ratio=True, ltrb=True)[1][1], [[1 / 8, 1 / 4, 3 / 8, 3 / 4]])


def test_what_is_chosen(tmp_path):
    """Images without boxes, crowds, small boxes, named images, ids of categories."""
    assert len(read(tmp_path, skip_empty=True)) == 2
    assert read(tmp_path, include_iscrowd=False)[1][2].tolist() == []
    assert read(tmp_path, size_threshold=2.5)[0][2].tolist() == []
    assert read(tmp_path, size_threshold=0.01)[3][2].tolist() == [2]
    assert read(tmp_path, avoid_class_remapping=True)[0][2].tolist() == [70, 3]
    named = read(tmp_path, images=["c.jpg", "a.jpg"], image_ids=True)
    assert [sample[-1].tolist() for sample in named] == [[11], [2]]


def test_images_of_one_file_and_categories_of_one_id(tmp_path):
    """Every image is read with its own boxes; a name in `images` means all its images; a category has its first place."""
    again = {"id": 5, "width": 6, "height": 5, "file_name": "a.jpg"}
    other = {"id": 6, "image_id": 5, "category_id": 3, "bbox": [1, 0, 2, 2], "segmentation": []}
    options = {"annotations_file": str(tmp_path / "a.json"), "file_root": str(tmp_path), "image_ids": True}
    write(tmp_path, [*IMAGES, again], [*ANNOTATIONS, other], [*CATEGORIES, {"id": 70}])
    samples = CocoReader(**options)
    found = [samples.fetch(place) for place in range(len(samples))]
    assert [sample[3].tolist() for sample in found] == [[2], [5], [9], [11], [12]]
    assert [sample[2].tolist() for sample in found[:2]] == [[1, 2], [2]]
    assert [sample[0].tobytes() for sample in found[:2]] == [b"a.jpg", b"a.jpg"]
    named = CocoReader(**options, images=["c.jpg", "a.jpg"])
    assert [named.fetch(place)[3].tolist() for place in range(len(named))] == [[11], [2], [5]]


def test_polygons(tmp_path):
    """Rows of object, start and end, in vertices or in numbers; a mask of run lengths has none."""
    table, vertices = read(tmp_path, polygon_masks=True)[0][3:]
    assert table.tolist() == [[0, 0, 4], [1, 4, 8]]
    assert vertices.tolist() == [[1, 1], [4, 1], [4, 3], [1, 3], [0, 0], [2, 0], [2, 2], [0, 2]]
    assert read(tmp_path, masks=True)[0][3].tolist() == [[0, 0, 8], [1, 8, 16]]
    table, vertices = read(tmp_path, polygon_masks=True, ratio=True)[1][3:]
    assert table.shape == (0, 3)
    assert vertices.shape == (0, 2)


def test_pixels(tmp_path):
    """The higher label lies above the lower one; run lengths go down the columns."""
    image = read(tmp_path, pixelwise_masks=True)[0][3]
    assert image.dtype == np.int32
    assert image[:, :, 0].tolist() == [[2, 2, 0, 0, 0, 0], [2, 2, 1, 1, 0, 0], [0, 1, 1, 1, 0, 0], [0] * 6, [0] * 6]
    crowd = np.zeros((4, 8, 1), np.int32)
    crowd[1:3, 1:3] = 2
    np.testing.assert_array_equal(read(tmp_path, pixelwise_masks=True)[1][3], crowd)


def test_counts_as_text():
    """Five bits in a character, differences from the fourth number on."""
    assert decoded_counts("52203") == [5, 2, 2, 2, 5]
    assert decoded_counts("P1") == [32]
    assert decoded_counts("O") == [-1]
    assert decoded_counts("P") is None
    assert decoded_counts("é") is None


def test_a_polygon_covers_what_its_edges_enclose():
    """All pixels whose centre is well inside, none whose centre is well outside, for drawn triangles."""
    rng = np.random.default_rng(5)
    rows, columns = np.mgrid[:24, :32] + 0.5
    for _ in range(50):
        a, b, c = rng.uniform((-5, -5), (37, 29), (3, 2))
        if (b - a)[0] * (c - a)[1] < (b - a)[1] * (c - a)[0]:
            b, c = c, b
        distance = np.min(
            [
                ((q - p)[0] * (rows - p[1]) - (q - p)[1] * (columns - p[0])) / np.hypot(*(q - p))
                for p, q in [(a, b), (b, c), (c, a)]
            ],
            axis=0,
        )
        mask = filled(np.array([a, b, c], np.float32), 24, 32)
        assert mask[distance > 1].all()
        assert not mask[distance < -1].any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bbox": None}, "annotation 1: bbox must be four numbers x, y, width, height, got None"),
        ({"bbox": [1, 2, 3]}, "bbox must be four numbers"),
        ({"bbox": [1, 2, 3, float("nan")]}, "bbox must be four numbers"),
        ({"category_id": 5}, "category 5 is not among the categories of the file"),
        ({"image_id": "2"}, "image_id must be a whole number of 32 bits, got 2"),
        ({"segmentation": [[1, 2, 3]]}, "a polygon must be a list of numbers x, y"),
        ({"segmentation": [[1, 2, 3, -1e6]]}, "a polygon leaves the image by more than 100000 pixels"),
        ({"segmentation": {"size": [5, 6], "counts": "P"}}, "segmentation must be polygons, or size and counts"),
        ({"segmentation": {"size": [5, 6], "counts": [-1]}}, "segmentation must be polygons, or size and counts"),
    ],
)
def test_wrong_annotations_are_named(tmp_path, change, message):
    """By the file and their id."""
    arguments = write(tmp_path, annotations=[ANNOTATIONS[0] | change])
    with pytest.raises(BadData, match=r"a\.json.*" + message):
        CocoReader(**arguments, pixelwise_masks=True)


def test_a_mask_of_another_size_is_refused(tmp_path):
    """Before anything of its size is allocated."""
    wrong = ANNOTATIONS[0] | {"segmentation": {"size": [5, 6], "counts": [2**31 - 1]}}
    arguments = write(tmp_path, annotations=[wrong])
    with pytest.raises(BadData, match="a mask of 2147483647 pixels for an image of 5 by 6"):
        CocoReader(**arguments, pixelwise_masks=True).fetch(0)


def test_the_size_of_an_image_is_limited(tmp_path):
    """Its file says it, and nothing else bounds what masks take."""
    arguments = write(tmp_path, images=[IMAGES[1] | {"width": 2**31 - 1, "height": 2**31 - 1}])
    CocoReader(**arguments).fetch(0)
    with pytest.raises(BadData, match=r"a\.json: image 2: 2147483647 by 2147483647 are more than max_pixels=134217728"):
        CocoReader(**arguments, pixelwise_masks=True)
    with pytest.raises(BadData, match="image 2: 5 by 6 are more than max_pixels=29"):
        CocoReader(**write(tmp_path), pixelwise_masks=True, max_pixels=29)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "is not JSON"),
        ("[]", "expected an object with images and annotations, got list"),
        ("{}", "'images' must be a list of objects"),
        ('{"images": []}', "has no images to read"),
        ('{"images": [{"id": 1, "width": 2, "height": 0, "file_name": "a"}]}', "the size is 2 by 0"),
        ('{"images": [{"id": 1, "width": 2, "height": 2, "file_name": "a\\u0000"}]}', "file_name must be a name"),
        ('{"images": [{"id": 1, "width": 2, "height": 2, "file_name": "a\\n"}]}', "file_name must be a name"),
    ],
)
def test_files_that_are_no_annotations(tmp_path, text, message):
    """The message says what was expected."""
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(BadData, match=message):
        CocoReader(annotations_file=str(tmp_path / "a.json"))


def test_wrong_arguments(tmp_path):
    """Forms of masks exclude each other, and chosen images must be there."""
    with pytest.raises(ValueError, match="only one of 'polygon_masks', 'masks' and 'pixelwise_masks'"):
        CocoReader(**write(tmp_path), polygon_masks=True, pixelwise_masks=True)
    with pytest.raises(ValueError, match=r"'images' names 'z\.jpg', which is not among the images"):
        CocoReader(**write(tmp_path), images=["z.jpg"])


def test_the_number_of_outputs_in_a_pipeline(tmp_path):
    """Three, and those that are asked for."""
    arguments = write(tmp_path)

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def define():
        _, boxes, labels, table, vertices, ids = fn.readers.coco(**arguments, polygon_masks=True, image_ids=True)
        return boxes, labels, table, vertices, ids

    assert [np.asarray(sample).tolist() for sample in define().run()[-1].samples()] == [[2], [9]]

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def with_pixels():
        return tuple(fn.readers.coco(**arguments, pixelwise_masks=True, image_ids=True))

    assert [batch.layout() for batch in with_pixels().run()] == ["", "", "", "HWC", ""]


@pytest.mark.oracle
def test_dali_reads_the_same(tmp_path):
    """Every output in every form; rectangles are drawn alike."""
    arguments = write(tmp_path)
    forms = [
        {},
        {"ltrb": True, "ratio": True},
        {"polygon_masks": True, "ratio": True, "image_ids": True},
        {"masks": True},
        {"pixelwise_masks": True, "image_ids": True},
        {"skip_empty": True},
        {"include_iscrowd": False},
        {"avoid_class_remapping": True},
        {"size_threshold": 2.5},
        {"images": ["c.jpg", "a.jpg"]},
    ]
    for form in forms:
        samples = CocoReader(**arguments, **form)
        cases = [
            case("readers.coco", **arguments, **form, num_shards=len(samples), shard_id=shard)
            for shard in range(len(samples))
        ]
        for place, (outputs, text) in enumerate(ask(cases)):
            assert not isinstance(outputs, str), (form, outputs, text)
            for ours, theirs in zip(samples.fetch(place), outputs, strict=True):
                assert ours.dtype == theirs.dtype
                np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.oracle
def test_dali_draws_the_same_polygons(tmp_path):
    """Drawn at random: inside of the image, over its border, with sides that cross."""
    rng = np.random.default_rng(1)
    images, annotations = [], []
    for number in range(60):
        height, width = (int(extent) for extent in rng.integers(10, 40, 2))
        images.append({"id": number, "width": width, "height": height, "file_name": f"{number}.jpg"})
        (tmp_path / f"{number}.jpg").write_bytes(b"x")
        reach = (0, 1) if number < 30 else (-0.5, 1.5)
        corners = (rng.uniform(*reach, (int(rng.integers(3, 7)), 2)) * [width, height]).round(2).ravel().tolist()
        box = {"category_id": 3, "bbox": [1, 1, 5, 5]}
        annotations.append({"id": number, "image_id": number, "segmentation": [corners], **box})
    arguments = write(tmp_path, images, annotations)
    samples = CocoReader(**arguments, pixelwise_masks=True)
    cases = [
        case("readers.coco", **arguments, pixelwise_masks=True, num_shards=60, shard_id=shard) for shard in range(60)
    ]
    for place, (outputs, _) in enumerate(ask(cases)):
        np.testing.assert_array_equal(samples.fetch(place)[3], outputs[3])
