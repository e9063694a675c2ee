"""What is shown of batches, arrays and pipelines: the pixels, the words above them, and nothing stretched or invented."""

import io
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import LONG
from PIL import Image

import pipeflow
from pipeflow import fn, pictures, pipeline_def
from pipeflow.pictures import colors as colors_of
from pipeflow.pictures import graph_drawing, graphs, grid, looks, marks, sound, summary, tiles
from pipeflow.tensors import TensorCPU, TensorListCPU

ROOT = Path(__file__).parents[2]


def colors(picture):
    return np.array(Image.open(io.BytesIO(picture.png)))


def has(picture, color):
    """How many pixels of a picture have exactly one colour."""
    return int((colors(picture) == np.array(color)).all(-1).sum())


def quarters(height=16, width=24):
    """An image (HWC) of four flat colours, which no scaling by whole factors changes."""
    image = np.zeros((height, width, 3), np.uint8)
    image[: height // 2, : width // 2] = (255, 10, 20)
    image[: height // 2, width // 2 :] = (10, 250, 30)
    image[height // 2 :, : width // 2] = (20, 30, 240)
    image[height // 2 :, width // 2 :] = (90, 91, 92)
    return image


LAYOUTS = {
    "HWC": quarters(),
    "CHW": quarters().transpose(2, 0, 1),
    "FHWC": np.stack([quarters()] * 3),
    "FCHW": np.stack([quarters()] * 3).transpose(0, 3, 1, 2),
    "CDHW": np.stack([quarters()] * 9).transpose(3, 0, 1, 2),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("named", [True, False])
def test_every_layout_shows_the_same_colours_in_the_same_places(layout, named):
    """Images, sequences and volumes, their channels first or last, with a layout and without one."""
    batch = TensorListCPU(np.stack([LAYOUTS[layout]] * 2), layout if named else None)
    pixels = colors(batch.show())
    red, blue = ((pixels == np.array(color)).all(-1) for color in ((255, 10, 20), (20, 30, 240)))
    assert red.sum() == blue.sum() > 0
    left = np.argwhere(red)[:, 1].min()
    assert left == np.argwhere(blue)[:, 1].min()
    assert np.argwhere(red)[:, 0].min() < np.argwhere(blue)[:, 0].min()


@pytest.mark.parametrize(
    ("values", "black", "white", "words"),
    [
        (np.array([[0, 200]], np.uint8), 0, 255, "0 ... 200, shown as they are"),
        (np.array([[0, 0.5]], np.float32), 0, 1, "0 ... 0.5, shown as 0 ... 1"),
        (np.array([[-1, 0.9]], np.float32), -1, 1, "-1 ... 0.9, shown as -1 ... 1"),
        (np.array([[-2.1, 2.6]], np.float32), -2.1, 2.6, "-2.1 ... 2.6, shown stretched"),
        (np.array([[0, 4095]], np.uint16), 0, 4095, "0 ... 4095, shown stretched"),
        (np.array([[-7, np.nan, 7]], np.float64), -7, 7, "1 not finite (pink)"),
        (np.array([[True, False]]), 0, 1, "true is white"),
        (np.array([[5.0, 5.0]], np.float64), 4, 6, "all are the same"),
    ],
)
def test_the_range_of_values_is_found_and_said(values, black, white, words):
    """Bytes stay as they are; floats are 0 to 1, -1 to 1, or between their extremes; 16 bits are stretched."""
    look = looks.look_at([values[..., None]], "HWC")
    assert (look.low, look.high) == pytest.approx((black, white))
    assert words in look.words


def test_whole_numbers_below_32_are_classes_and_their_colours_do_not_mix():
    """A mask of classes is drawn in a colour each, made smaller without new colours."""
    mask = np.arange(4, dtype=np.int32).repeat(300).reshape(4, 300).repeat(75, 0)
    look = looks.look_at([mask], "HW")
    assert look.classes
    pixels = tiles.draw(mask, look, (97, 97)).pixels
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) == 4


@pytest.mark.parametrize(
    ("color", "black"),
    [((255, 255, 255), True), ((0, 0, 0), False), ((0, 255, 0), True), ((0, 220, 0), False), ((255, 0, 255), False)],
)
def test_words_on_a_colour_are_black_where_the_eye_sees_it_as_bright(color, black):
    """Green counts 0.587, red 0.299, blue 0.114; from 140 of 255 up words are black: 0.587 * 255 is 150, * 220 is 129."""
    assert colors_of.ink_on(color) == (colors_of.INK if black else colors_of.PAPER)


def test_a_summary_has_its_title_its_name_and_every_figure(monkeypatch):
    """All words that are given are written, the title in two lines at most, none over another."""
    written = []

    def text(self, x, y, words, *rest, size=14, **more):
        written.append((words, x, y))

    monkeypatch.setattr(summary.Canvas, "text", text)
    figures = [(f"value {number}", f"words {number}") for number in range(6)]
    bars = [("step one", "3 ms", 0.5, 0.25), ("step two", "1 ms", 0.25, 0.0)]
    summary.draw("The title of the picture", "train.py", figures, bars, {1: 10.0, 2: 19.0}, None)
    words = [entry[0] for entry in written]
    for expected in ("The title of the picture", "train.py", "step one", "3 ms", "step two", *sum(figures, ())):
        assert expected in words
    assert len({entry[1:] for entry in written}) == len(written)


def test_every_kind_of_data_has_its_form():
    """Width and height before the tile is fitted: images their own, four frames of a video side by side, others fixed."""
    form = lambda sample, layout="": tiles.shape_of(looks.look_at([sample], layout), sample)
    assert form(quarters(), "HWC") == (24, 16)
    assert form(np.zeros((3, 16, 24), np.uint8), "CHW") == (24, 16)
    assert form(np.zeros((16, 24), np.uint8), "HW") == (24, 16)
    assert form(np.zeros((2, 16, 24, 3), np.uint8), "FHWC") == (48, 16)
    assert form(np.zeros((99, 16, 24, 3), np.uint8), "FHWC") == (tiles.FRAMES * 24, 16)
    fixed = {"sound": (300, 180), "spectrum": (300, 150), "text": (220, 120), "file": (200, 150), "values": (220, 110)}
    for kind, size in fixed.items():
        assert tiles.shape_of(SimpleNamespace(kind=kind), None) == size


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_a_picture_without_objects_stays_as_it_is(dtype):
    """No masks at all are no error."""
    image = quarters()
    assert (marks.masked(image, np.zeros((0, 16, 24), dtype)) == image).all()
    assert (marks.masked(image, np.zeros((16, 24), dtype)) == image).all()


@pytest.mark.parametrize(("low", "high", "middle"), [(-1.0, 1.0, 127), (0.0, 1.0, 245)])  # 255 * (1 - 3.01 / 80)
def test_a_spectrum_is_drawn_in_decibels_unless_it_has_negative_values(low, high, middle):
    """Half of the highest value is 3.01 dB below it, and the range is 80 dB; with signs zero is in the middle."""
    values = np.array([[low, (low + high) / 2, high]])
    drawn = sound.spectrum(values, looks.Look("spectrum", low=low, high=high), (3, 1))
    np.testing.assert_array_equal(drawn[0], sound.SCALE[[0, middle, 255]])


def test_pixels_stay_square():
    """A small picture grows by a whole factor, a large one shrinks in both directions alike."""
    look = looks.look_at([quarters()], "HWC")
    assert tiles.draw(quarters(), look, (100, 100)).pixels.shape == (64, 96, 3)
    large = np.zeros((300, 900, 3), np.uint8)
    assert tiles.draw(large, look, (90, 90)).pixels.shape == (30, 90, 3)


def test_values_that_are_no_numbers_are_pink():
    image = np.zeros((8, 8, 3), np.float32)
    image[2:4, 2:4, 1] = np.nan
    pixels = tiles.colored(image, looks.look_at([image], "HWC"))
    assert (pixels == (204, 121, 167)).all(-1).sum() == 4


def test_boxes_are_where_they_say_in_pixels_and_in_parts():
    """A box in pixels, the same in parts of the image, and as width and height, are one picture."""
    image = np.zeros((100, 200, 3), np.uint8)
    expected = marks.boxed(image, np.array([[20, 30, 120, 80]]), (200, 100), "ltrb", [])
    parts = marks.boxed(image, np.array([[0.1, 0.3, 0.6, 0.8]]), (200, 100), "ltrb", [])
    sides = marks.boxed(image, np.array([[20, 30, 100, 50]]), (200, 100), "xywh", [])
    assert (expected == parts).all()
    assert (expected == sides).all()
    where = np.argwhere((expected == (230, 159, 0)).all(-1))
    assert where.min(0).tolist() == [30, 20]
    assert where.max(0).tolist() == [80, 120]


def test_masks_and_points_have_the_colours_of_their_numbers():
    """Object 2 has the second colour at its edge, and of points that are not visible nothing is drawn."""
    image = np.zeros((40, 40, 3), np.uint8)
    numbers = np.zeros((20, 20), np.int32)
    numbers[5:10, 5:10] = 2
    pixels = marks.masked(image, numbers)
    assert (pixels[10, 10] == (86, 180, 233)).all()
    assert pixels[:10].max() == 0
    points = np.array([[5.0, 6.0, 1.0], [30.0, 30.0, 0.0]])
    pixels = marks.pointed(image, points, (40, 40))
    assert (pixels[6, 5] == (230, 159, 0)).all()
    assert pixels[25:, 25:].max() == 0


def test_labels_names_and_sources_are_written_below():
    """The words make the picture higher, and a label that has no name says so."""
    batch = TensorListCPU(np.stack([quarters()] * 4), "HWC", source_info=[f"/data/{i}.jpg" for i in range(4)])
    plain = TensorListCPU(np.stack([quarters()] * 4), "HWC")
    heights = [picture.size[1] for picture in (plain.show(), batch.show(), batch.show(labels=[0, 1, 2, 3]))]
    assert heights == sorted(set(heights))
    both = pictures.show({"image": batch, "label": np.array([0, 1, 2, 3])}, labels="label")
    assert both.png == pictures.show({"image": batch, "label": np.array([0, 1, 2, 3])}, labels=1).png
    named = colors(batch.show(labels=[0, 1, 0, 1], names=["cat", "dog"]))
    assert (named != colors(batch.show(labels=[0, 1, 0, 1], names=["cat", "cow"]))).any()


@pytest.mark.parametrize(
    ("label", "boxes", "words"),
    [
        (3, False, ["3"]),
        ([4], False, ["4"]),
        ([1, 2], False, ["1, 2"]),
        (range(8), False, ["0, 1, 2, 3, 4, 5"]),
        ([1, 2], True, []),  # they are drawn at the boxes
        ([4], True, ["4"]),
        ([], False, [""]),
    ],
)
def test_several_labels_of_a_sample_are_one_line(label, boxes, words):
    """The first six; those of boxes are no line."""
    marked = {"labels": [np.array(label)], **({"boxes": [np.zeros((2, 4))]} if boxes else {})}
    assert grid._label(marked, 0, None) == words


def test_a_tone_is_bright_where_its_frequency_is():
    """The brightest row of the spectrogram of 1000 Hz at 8000 Hz is a quarter of the way up."""
    signal = np.sin(2 * np.pi * 1000 * np.arange(8000) / 8000)
    power = sound.decibels(signal).mean(1)
    assert abs(power.argmax() / (len(power) - 1) - 0.25) < 0.02
    assert pictures.show([signal.astype(np.float32)] * 2).size[0] > 300


@pytest.mark.parametrize(
    "data",
    [
        ["some text", "more"],
        np.zeros((2, 3, 4), np.float32),
        [np.frombuffer(b"RIFF....WAVE", np.uint8)],
        [np.frombuffer(b"plain words", np.uint8)],
        np.zeros((0, 4, 4, 3), np.uint8),
        {"image": np.stack([quarters()] * 2), "label": np.array([1, 2])},
        TensorCPU(quarters(), "HWC"),
        np.zeros((2, 9, 9, 2), np.float32),
        np.array(["a", "b"], dtype=object),
    ],
    ids=str,
)
def test_anything_a_pipeline_gives_can_be_shown(data):
    """Text, numbers, files that are no images, nothing at all, dicts, one sample: each is a picture."""
    assert min(pictures.show(data).size) > 30


def test_an_encoded_image_is_shown_decoded():
    file = io.BytesIO()
    Image.fromarray(quarters(64, 64)).save(file, "PNG")
    shown = pictures.show([np.frombuffer(file.getvalue(), np.uint8)])
    assert has(shown, (255, 10, 20)) > 500


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n is how many samples are shown, at least 1; got 0"),
        ({"labels": 3}, "labels=3 is the number of no output: there is 1 output"),
        ({"labels": "x"}, "labels='x' is the name of no output"),
        ({"boxes": [np.zeros((1, 4))]}, "boxes has 1 entry for 2 samples"),
        ({"path": "here.jpg"}, "must end with .png; got 'here.jpg'"),
        ({"boxes": np.zeros((2, 1, 4)), "box_format": "cxcywh"}, "box_format must be 'ltrb' or 'xywh'"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_its_value(arguments, message):
    batch = TensorListCPU(np.stack([quarters()] * 2), "HWC")
    with pytest.raises(
        ValueError, match=message.replace("(", r"\(").replace("1 output", "1 output|there are 1 output")
    ):
        batch.show(**arguments)


@pipeline_def(batch_size=4, num_threads=1, device_id=None, seed=1)
def numbered():
    images = fn.external_source(
        lambda sample: np.full((10, 12, 3), sample.idx_in_epoch, np.uint8), batch=False, layout="HWC"
    )
    angle = fn.random.uniform(range=(0.0, 1.0))
    return fn.python_function(images, function=brighter, output_layouts="HWC"), angle


def brighter(image):
    return image + 100


def test_a_pipeline_is_shown_from_its_beginning_and_does_not_move(tmp_path):
    """show(6) takes two batches of four from a run of its own; the pipeline's next batch is the one it would have been."""
    pipe = numbered()
    pipe.run()
    picture = pipe.show(6, path=tmp_path / "batch.png")
    assert (tmp_path / "batch.png").read_bytes() == picture.png
    assert [has(picture, (100 + number,) * 3) > 0 for number in range(8)] == [True] * 6 + [False] * 2
    assert int(pipe.run()[0].at(0)[0, 0, 0]) == 104


def test_a_notebook_gets_graph_settings_thumbnails_and_values():
    """The HTML of a pipeline has its operators and settings, that of a batch its picture and range; repr is one line."""
    pipe = numbered()
    assert (
        repr(pipe)
        == "<Pipeline batch_size=4, num_threads=1: external_source -> random.uniform -> python_function: brighter>"
    )
    page = pipe._repr_html_()
    for word in ("<svg", "python_function: brighter", "output 1", "num_threads", "test_pictures.py"):
        assert word in page
    images, angles = pipe.run()
    page = images._repr_html_()
    for word in ("data:image/png;base64,", "10 x 12 x 3", "100 ... 103", "UINT8", "HWC"):
        assert word in page
    assert "1 not finite" in TensorListCPU([np.array([np.nan, 1])])._repr_html_()
    assert "FLOAT" in angles._repr_html_()
    ragged = [np.zeros(extent) for extent in (4, 1, 5, 2, 3)]
    assert ">1, 2, 3 and 2 more<" in TensorListCPU(ragged)._repr_html_()
    assert ">1, 2, 3<" in TensorListCPU(ragged[1:4:2] + ragged[4:])._repr_html_()
    assert "python_function" in pipe.plan._repr_html_()
    heading, table = pipe.plan._repr_html_().split("<table", 1)
    assert re.search(r">Plan, \d+ stages?, \d+ steps?</b>", heading)
    assert table.count("<th ") == 4
    assert len(repr(pipe.plan).splitlines()) == 1


def test_the_drawing_of_a_graph_puts_no_box_on_another():
    """A graph with edges that pass levels: boxes of one level are apart, and every node is below what it reads."""
    nodes = [pictures_drawn(reads) for reads in ((), (), (0,), (2, 1), (0, 3), (3,), (4, 5, 2))]
    text = graph_drawing.svg(nodes)
    assert text.count("<rect") == 1 + len(nodes)
    for node in nodes:
        assert all(nodes[other].level < node.level for other in node.reads)
        for other in nodes:
            if other is not node and other.level == node.level:
                assert abs(node.x - other.x) >= (node.width + other.width) / 2


def test_a_box_has_two_settings_if_they_fit_into_a_line():
    """36 characters are a line; a setting of more than 26 is left out, and so are functions and arrays."""
    node = lambda device="cpu", **constants: SimpleNamespace(constants=constants, device=device)
    assert graphs.line_of(node(a="x" * 13, b="y" * 13)) == f"a='{'x' * 13}', b='{'y' * 13}'"  # 17 + 2 + 17 characters
    assert graphs.line_of(node(a="x" * 13, b="y" * 14)) == f"a='{'x' * 13}'"
    assert (
        graphs.line_of(node("gpu", long="x" * 22, function=len, table=np.zeros(3), one=(7,), no=None)) == "gpu, one=7"
    )
    assert graphs.line_of(node(long="x" * 19)) == f"long='{'x' * 19}'"
    assert graphs.line_of(node("gpu")) == "gpu"


def test_a_box_has_settings_as_they_are_written():
    """Whole numbers without a fraction, one number without its tuple, and what is known of an output."""

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def pipe():
        image = fn.external_source(lambda: [quarters()], layout="HWC")
        return fn.crop_mirror_normalize(image, crop=(4, 4), mean=[120.5])

    nodes = graphs.drawn_nodes(pipe().graph)
    assert [node.line for node in nodes] == ["layout='HWC'", "crop=(4, 4), mean=120.5", "float32 ?x4x4 CHW"]


def pictures_drawn(reads):
    return graph_drawing.Drawn("an operator", reads=reads)


def test_without_pillow_the_message_has_the_command():
    """Where Pillow is missing, show() says what to install, and the HTML of a batch still has its facts."""
    program = (
        "import sys; sys.modules['PIL'] = None\n"
        "import numpy as np, pipeflow\n"
        "batch = pipeflow.tensors.TensorListCPU(np.zeros((2, 9, 9, 3), np.uint8), 'HWC')\n"
        "assert '9 x 9 x 3' in batch._repr_html_() and 'pip install pillow' in batch._repr_html_()\n"
        "pipeflow.show(batch)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LONG, cwd=ROOT)
    assert done.stderr.splitlines()[-1].endswith("pictures need Pillow, which is not installed: pip install pillow")


def test_show_is_one_of_the_names_of_the_package():
    assert pipeflow.show is pictures.show


def test_what_cannot_be_shown_is_refused():
    """A number of Python, for example: the error says what can be."""
    with pytest.raises(
        TypeError, match=r"show\(\) takes batches, arrays and lists of arrays, got int; .* pipe.run\(\)"
    ):
        pipeflow.show(5)


def test_only_floating_point_numbers_are_taken_for_a_range_of_signs():
    """From -1 to 1 as they are; integers of the same range are stretched to what they are."""
    signs = np.array([[-1, 0], [1, 1]])
    assert looks.look_at([signs.astype(np.float32)], "HW").words.endswith("shown as -1 ... 1")
    assert looks.look_at([signs.astype(np.int8)], "HW").words.endswith("shown stretched")


def test_an_image_without_pixels_is_a_list_of_numbers():
    """There is nothing to draw."""
    assert looks.look_at([np.zeros((0, 4, 3), np.uint8)], "HWC").kind == "numbers"
    assert looks.look_at([np.zeros((2, 4, 3), np.uint8)], "HWC").kind == "picture"


def test_objects_have_the_colours_of_their_numbers_in_both_forms_of_masks():
    """One array of numbers, or one mask an object: the first object is number 1."""
    pixels = np.full((6, 8, 3), 100, np.uint8)
    numbers = np.zeros((6, 8), np.uint8)
    numbers[:3, :4], numbers[3:, 4:] = 1, 2
    one = marks.masked(pixels, numbers)
    np.testing.assert_array_equal(one, marks.masked(pixels, np.stack([numbers == 1, numbers == 2])))
    np.testing.assert_array_equal(one[:3, 4:], pixels[:3, 4:])
    for number, (row, column) in enumerate([(2, 3), (3, 4)]):  # at the edges of the objects
        assert one[row, column].tolist() == list(colors_of.of_class(number))
