"""Annotations of fn.readers.coco saved in a folder: what is read again, DALI's files, and damaged ones."""

import json
import struct

import numpy as np
import pytest
from image.oracle import ask, case, random
from readers.conformance import check_reader

from pipeflow import fn, pipeline_def
from pipeflow.errors import BadData
from pipeflow.operators.readers.coco import CocoReader

FORMS = [
    {},
    {"ltrb": True, "ratio": True, "image_ids": True},
    {"polygon_masks": True, "image_ids": True},
    {"polygon_masks": True, "ratio": True},
    {"masks": True},
    {"pixelwise_masks": True, "image_ids": True},
    {"skip_empty": True, "size_threshold": 3.5},
    {"include_iscrowd": False, "avoid_class_remapping": True},
    {"images": ["3.jpg", "0.jpg", "5.jpg"], "image_ids": True},
]
KEPT = ("polygon_masks", "masks", "pixelwise_masks", "image_ids")  # they say what is returned, not what is saved


def drawn_runs(rng, height, width):
    """Run lengths of a random mask, none of them 0 and the last one outside: DALI draws two masks otherwise wrongly."""
    ends = np.sort(rng.choice(np.arange(1, height * width), 2 * int(rng.integers(1, 4)), replace=False))
    return np.diff([0, *ends, height * width]).tolist()


def as_text(counts):
    """The run lengths as COCO's tools write them: five bits in a character, differences from the fourth number on."""
    text = ""
    for place, number in enumerate(counts):
        number -= counts[place - 2] if place > 2 else 0
        while True:
            bits, number = number & 31, number >> 5
            more = number != (-1 if bits & 16 else 0)
            text += chr(48 + (bits | (32 if more else 0)))
            if not more:
                break
    return text


def data_set(folder, rng, images=7):
    """Images that are only their names, with boxes, several polygons an object, run lengths as numbers and as text."""
    entries, objects = [], []
    for number in rng.permutation(images).tolist():
        height, width = (int(x) for x in rng.integers(4, 30, 2))
        entries.append({"id": 3 * number + 1, "width": width, "height": height, "file_name": f"{number}.jpg"})
        (folder / f"{number}.jpg").write_bytes(b"image %d" % number)
        # No label twice in an image: DALI then drops masks of run lengths.
        for category in rng.permutation([70, 3, 11, 5])[: int(rng.choice([0, 1, 1, 2, 4]))].tolist():
            form, runs = int(rng.integers(4)), drawn_runs(rng, height, width)
            corners = [
                rng.uniform(0, [width, height] * int(rng.integers(3, 6))).round(2).tolist() for _ in range(1 + form)
            ]
            segmentation = [corners, corners, {"size": [height, width], "counts": runs}, {}][form]
            if form == 3:
                segmentation = {"size": [height, width], "counts": as_text(runs)}
            objects.append(
                {"id": len(objects) + 1, "image_id": 3 * number + 1, "category_id": category}
                | {"bbox": rng.uniform(0, 9, 4).round(2).tolist(), "iscrowd": form // 2, "segmentation": segmentation}
            )
    categories = [{"id": number, "name": str(number)} for number in (70, 3, 11, 5)]
    (folder / "a.json").write_text(json.dumps({"images": entries, "annotations": objects, "categories": categories}))
    return {"file_root": str(folder), "annotations_file": str(folder / "a.json")}


def saving(folder):
    return {"save_preprocessed_annotations": True, "save_preprocessed_annotations_dir": str(folder)}


def again(folder, form):
    """The arguments that read a saved folder."""
    kept = {name: value for name, value in form.items() if name in KEPT}
    return {"file_root": str(folder.parent), "preprocessed_annotations": str(folder), **kept}


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_what_is_saved_is_read_again(tmp_path, form):
    """Every output, with all the promises of a reader."""
    arguments, folder = data_set(tmp_path, np.random.default_rng(4)), tmp_path / "saved"
    samples = CocoReader(**arguments, **form, **saving(folder))
    expected = [samples.fetch(place) for place in range(len(samples))]
    check_reader(lambda: CocoReader(**again(folder, form)), expected)
    assert not list(folder.glob("*.part"))


def test_the_tables_of_a_small_data_set(tmp_path):
    """Worked out by hand: two objects on the first image, none on the second."""
    entries = [{"id": 5, "width": 4, "height": 2, "file_name": "a b.jpg"}]
    entries += [{"id": 6, "width": 4, "height": 2, "file_name": "ä.jpg"}]
    box = {"image_id": 5, "category_id": 9, "bbox": [1, 0, 2, 1]}
    objects = [
        {"id": 1, **box, "segmentation": [[1, 0, 3, 0, 3, 1]]},
        {"id": 2, **box, "segmentation": {"size": [2, 4], "counts": [3, 2, 3]}},
    ]
    (tmp_path / "a.json").write_text(json.dumps({"images": entries, "annotations": objects, "categories": [{"id": 9}]}))
    CocoReader(
        annotations_file=str(tmp_path / "a.json"), pixelwise_masks=True, image_ids=True, **saving(tmp_path / "s")
    )
    found = {path.name: path.read_bytes() for path in (tmp_path / "s").iterdir()}
    assert found == {
        "filenames.dat": "a b.jpg\nä.jpg\n".encode(),
        "counts.dat": struct.pack("<3i", 2, 2, 0),
        "offsets.dat": struct.pack("<3i", 2, 0, 2),
        "boxes.dat": struct.pack("<i8f", 8, 1, 0, 2, 1, 1, 0, 2, 1),
        "labels.dat": struct.pack("<3i", 2, 1, 1),
        "original_ids.dat": struct.pack("<3i", 2, 5, 6),
        "heights.dat": struct.pack("<3i", 2, 2, 2),
        "widths.dat": struct.pack("<3i", 2, 4, 4),
        "polygon_data.dat": struct.pack("<4i", 1, 0, 0, 3),
        "polygons_count.dat": struct.pack("<i2q", 2, 1, 0),
        "polygon_offset.dat": struct.pack("<i2q", 2, 0, 1),
        "vertices.dat": struct.pack("<i6f", 3, 1, 0, 3, 0, 3, 1),
        "vertices_count.dat": struct.pack("<i2q", 2, 3, 0),
        "vertices_offset.dat": struct.pack("<i2q", 2, 0, 3),
        "mask_count.dat": struct.pack("<i2q", 2, 1, 0),
        "masks_offset.dat": struct.pack("<i2q", 2, 0, 1),
        "masks_rles_idx.dat": struct.pack("<2i", 1, 1),
        "masks_rles.dat": struct.pack("<i3Q3I", 1, 2, 4, 3, 3, 2, 3),
    }


@pytest.fixture
def saved(tmp_path):
    """A folder with every table."""
    CocoReader(
        **data_set(tmp_path, np.random.default_rng(5)),
        pixelwise_masks=True,
        image_ids=True,
        **saving(tmp_path / "saved"),
    )
    return tmp_path / "saved"


EVERYTHING = {"pixelwise_masks": True, "image_ids": True}


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("counts.dat", lambda data: data[:-1], r"counts\.dat states 7 rows, which take 32 bytes, and has 31"),
        ("counts.dat", lambda data: b"\xff\xff\xff\x7f" + data[4:], "states 2147483647 rows"),
        ("counts.dat", lambda data: b"\xff\xff\xff\xff" + data[4:], "states -1 rows"),
        ("counts.dat", lambda _: b"", "states -1 rows"),
        ("counts.dat", lambda data: data[:4] + struct.pack("<i", -1) + data[8:], "has the number -1"),
        ("counts.dat", lambda data: data[:-4] + struct.pack("<i", 50), r"boxes\.dat has \d+ rows, but \d+ are needed"),
        ("offsets.dat", lambda data: data[:-4] + bytes(4), r"offsets\.dat does not agree with counts\.dat"),
        ("boxes.dat", lambda data: struct.pack("<i", 3) + data[4:16], r"boxes\.dat has 3 rows, but"),
        ("boxes.dat", lambda data: data[:-4] + struct.pack("<f", np.inf), "a number that is not finite"),
        ("labels.dat", lambda data: struct.pack("<2i", 1, 1), r"labels\.dat has 1 rows, but"),
        ("filenames.dat", lambda data: data[:-1], "a name on each line"),
        ("filenames.dat", lambda data: b"\n" + data, "a name on each line"),
        ("filenames.dat", lambda data: b"\xff\n" + data, "is not text"),
        ("filenames.dat", lambda data: b"a.jpg\n" + data, r"counts\.dat has 7 rows, but 8 are needed"),
        ("polygon_data.dat", lambda data: data[:4] + struct.pack("<i", 99) + data[8:], "polygon 0 has the object and vertices"),
        ("polygon_data.dat", lambda data: data[:12] + struct.pack("<i", 9999) + data[16:], "polygon 0 has the object"),
        ("vertices.dat", lambda data: data[:-4] + struct.pack("<f", np.nan), "leaves the image by more than"),
        ("vertices_count.dat", lambda data: data[:4] + struct.pack("<q", 2**62) + data[12:], "has the number"),
        ("heights.dat", lambda data: data[:4] + bytes(4) + data[8:], "an extent below 1"),
        ("masks_rles_idx.dat", lambda data: data[:4] + struct.pack("<i", 77) + data[8:], "an object that its image"),
        ("masks_rles.dat", lambda data: struct.pack("<i", 99) + data[4:], r"masks_rles\.dat does not have \d+ masks"),
        ("masks_rles.dat", lambda data: data[:-2], "run lengths at byte"),
        ("masks_rles.dat", lambda data: data[:10], "ends inside of a mask"),
        ("masks_rles.dat", lambda data: data + b"abcd", "4 bytes after its last mask"),
        ("masks_rles.dat", lambda data: data[:20] + struct.pack("<Q", 2**63) + data[28:], "run lengths at byte 4 of"),
    ],
)  # fmt: skip
def test_damaged_tables_are_named(saved, name, change, message):
    """Each by its path; nothing is allocated for a number that a table states."""
    (saved / name).write_bytes(change((saved / name).read_bytes()))
    with pytest.raises(BadData, match=message) as caught:
        CocoReader(**again(saved, EVERYTHING))
    assert str(saved) in str(caught.value)


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ({"polygon_masks": True}, "polygon_data.dat"),
        ({"masks": True}, "vertices.dat"),
        ({"pixelwise_masks": True}, "masks_rles.dat"),
        ({"pixelwise_masks": True}, "heights.dat"),
        ({"image_ids": True}, "original_ids.dat"),
    ],
)
def test_a_table_that_was_not_saved_is_named(saved, form, name):
    """With the argument that has it saved."""
    (saved / name).unlink()
    with pytest.raises(FileNotFoundError, match=name) as caught:
        CocoReader(**again(saved, form))
    assert caught.value.__notes__ == [
        f"{next(iter(form))} needs this file: save the annotations with {next(iter(form))} too"
    ]


def test_any_damage_is_an_error_of_the_data_or_data(saved):
    """Bytes of any table changed at random, or its end cut off."""
    rng, refused = np.random.default_rng(6), 0
    good = {path: path.read_bytes() for path in sorted(saved.iterdir())}
    for _ in range(500):
        path = list(good)[int(rng.integers(len(good)))]
        bad = np.frombuffer(good[path], np.uint8).copy()
        bad[rng.integers(0, min(len(bad), 40), 2)] = rng.integers(0, 256, 2)
        path.write_bytes(bad[: None if rng.integers(3) else int(rng.integers(len(bad)))].tobytes())
        try:
            samples = CocoReader(**again(saved, EVERYTHING), max_pixels=10**6)
            for place in range(len(samples)):
                samples.fetch(place)
        except (BadData, FileNotFoundError):  # a name of a file may be another one
            refused += 1
        path.write_bytes(good[path])
    assert 100 < refused < 500


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give one of 'annotations_file' and 'preprocessed_annotations'"),
        ({"annotations_file": "a", "preprocessed_annotations": "b"}, "give one of"),
        ({"annotations_file": "a", "save_preprocessed_annotations": True}, "need each other"),
        ({"annotations_file": "a", "save_preprocessed_annotations_dir": "b"}, "need each other"),
        (
            {"preprocessed_annotations": "b", "ltrb": True, "skip_empty": True},
            "'ltrb', 'skip_empty': not possible with",
        ),
        ({"preprocessed_annotations": "b", "size_threshold": 2.0}, "'size_threshold': not possible with"),
        ({"preprocessed_annotations": "b", "images": ["x"]}, "'images': not possible with"),
    ],
)
def test_arguments_that_exclude_each_other(arguments, message):
    """What a folder was saved with cannot be changed when it is read."""
    with pytest.raises(ValueError, match=message):
        CocoReader(**arguments)


def test_former_names_of_the_arguments_in_a_pipeline(tmp_path):
    """They save and read the same folder, with a warning for each."""
    arguments = data_set(tmp_path, np.random.default_rng(7))

    @pipeline_def(batch_size=3, num_threads=1, device_id=None)
    def define(**options):
        return tuple(fn.readers.coco(file_root=str(tmp_path), **options))

    with pytest.warns(DeprecationWarning, match="is called"):
        saved = define(
            annotations_file=arguments["annotations_file"],
            save_img_ids=True,
            dump_meta_files=True,
            dump_meta_files_path=str(tmp_path / "old"),
        )
    first = saved.run()
    with pytest.warns(DeprecationWarning, match="'preprocessed_annotations'"):
        read = define(meta_files_path=str(tmp_path / "old"), image_ids=True)
    for one, other in zip(first, read.run(), strict=True):
        for ours, theirs in zip(one.samples(), other.samples(), strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.oracle
@pytest.mark.parametrize("number", range(3))
def test_dali_writes_and_reads_the_same_files(tmp_path, number):
    """Every file of every form is equal byte for byte, and each side reads the folder of the other."""
    arguments = data_set(tmp_path, random(number), images=8)
    cases = []
    for place, form in enumerate(FORMS):
        (tmp_path / f"theirs{place}").mkdir()
        samples = CocoReader(**arguments, **form, **saving(tmp_path / f"ours{place}"))
        cases.append((case("readers.coco", **arguments, **form, **saving(tmp_path / f"theirs{place}")), samples, form))
    for outputs, text in ask([one for one, _, _ in cases]):
        assert not isinstance(outputs, str), text
    for place in range(len(FORMS)):
        ours, theirs = (
            {path.name: path.read_bytes() for path in (tmp_path / f"{side}{place}").iterdir()}
            for side in ("ours", "theirs")
        )
        assert ours.keys() == theirs.keys(), FORMS[place]
        for name, content in ours.items():
            assert content == theirs[name], (FORMS[place], name)
    reading = [
        (again(tmp_path / f"{side}{place}", form), samples, shard)
        for place, (_, samples, form) in enumerate(cases)
        for side in ("ours", "theirs")
        for shard in range(len(samples))
    ]
    answers = ask([case("readers.coco", **how, num_shards=len(s), shard_id=shard) for how, s, shard in reading])
    for (how, samples, shard), (outputs, text) in zip(reading, answers, strict=True):
        assert not isinstance(outputs, str), text
        expected, found = samples.fetch(shard), CocoReader(**how).fetch(shard)
        for one, other, theirs in zip(expected, found, outputs, strict=True):
            assert one.dtype == other.dtype == theirs.dtype
            np.testing.assert_array_equal(one, other)
            np.testing.assert_allclose(one, theirs, atol=1e-6)
