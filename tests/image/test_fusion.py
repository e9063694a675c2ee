"""Fusion: what is joined, what is left alone, and that no result changes."""

import numpy as np
import pytest

from pipeflow import fn, pipeline_def, types
from pipeflow.compile import fusion
from pipeflow.declare import find

RNG = np.random.default_rng(5)
IMAGES = [RNG.integers(0, 256, (40 + 7 * i, 61 - 5 * i, 3), dtype=np.uint8) for i in range(4)]
NORM = {"mean": [120.0, 110.0, 100.0], "std": [60.0, 61.0, 62.0]}


def images(layout="HWC", samples=IMAGES):
    """The same batch for ever."""
    return fn.external_source(source=lambda: samples, layout=layout)


def both(define, batches=2, **options):
    """The outputs of the pipeline with and without fusion, and the fused plan's text."""
    results, texts = [], []
    for fuse in (True, False):
        pipe = pipeline_def(define, batch_size=4, num_threads=2, seed=11, **options)(fuse=fuse)
        pipe.build()
        texts.append(str(pipe._plan))
        results.append([[np.asarray(out.at(i)) for out in pipe.run() for i in range(4)] for _ in range(batches)])
    return results[0], results[1], texts


def same(left, right):
    """Equal to the last bit."""
    for batch, other in zip(left, right):
        for a, b in zip(batch, other):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_array_equal(a, b)


CHAINS = {
    "resize+crop_mirror_normalize": lambda: fn.crop_mirror_normalize(
        fn.resize(images(), resize_shorter=30), crop=(24, 24), mirror=fn.random.coin_flip(), **NORM
    ),
    "random_resized_crop+crop_mirror_normalize": lambda: fn.crop_mirror_normalize(
        fn.random_resized_crop(images(), size=(24, 20)), mirror=fn.random.coin_flip(), **NORM
    ),
    "random_resized_crop+flip+crop_mirror_normalize": lambda: fn.crop_mirror_normalize(
        fn.flip(fn.random_resized_crop(images(), size=(24, 20)), horizontal=fn.random.coin_flip()),
        dtype=types.FLOAT16,
        **NORM,
    ),
    "resize+crop+flip+crop_mirror_normalize": lambda: fn.crop_mirror_normalize(
        fn.flip(fn.crop(fn.resize(images(), size=(30, 36)), crop=(22, 25), crop_pos_x=0.2), vertical=1, horizontal=1),
        crop=(20, 20),
        crop_pos_y=0.1,
        mirror=1,
        output_layout="HWC",
        dtype=types.UINT8,
        scale=3.0,
        shift=9.0,
        **NORM,
    ),
    "resize_crop_mirror+crop_mirror_normalize": lambda: fn.crop_mirror_normalize(
        fn.resize_crop_mirror(images(), size=(30, 36), crop=(22, 25), mirror=fn.random.coin_flip(), dtype=types.FLOAT),
        **NORM,
    ),
    "contrast+cast+brightness": lambda: fn.brightness(
        fn.cast(
            fn.contrast(images(), contrast=fn.random.uniform(range=(0.5, 1.5)), dtype=types.FLOAT), dtype=types.UINT8
        ),
        brightness=0.9,
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_fused_chain_gives_the_bits_of_its_links(name):
    """The plan shows the chain as one step, and every byte is that of the separate steps."""
    fused, chained, (text, plain) = both(CHAINS[name])
    assert f"fn.{name}(" in text
    assert "+" not in plain.replace("e+", "")
    same(fused, chained)


GREY = [image[..., :1] for image in IMAGES]
CLIPS = [np.stack([image, image[::-1]]) for image in IMAGES]
FLOATS = [(image / 255).astype(np.float32) for image in IMAGES]
SHORTS = [image.astype(np.int16) for image in IMAGES]


@pytest.mark.parametrize("kind", ["grey", "clips", "floats", "shorts"])
def test_data_that_the_kernel_is_not_made_for_goes_link_by_link(kind):
    """One channel, sequences and other types give the chain's own results inside the one step."""
    samples = {"grey": GREY, "clips": CLIPS, "floats": FLOATS, "shorts": SHORTS}[kind]
    layout = "FHWC" if kind == "clips" else "HWC"

    def define():
        small = fn.resize(images(layout, samples), resize_shorter=30)
        return fn.crop_mirror_normalize(fn.crop(small, crop=(20, 24)), mirror=1, pad_output=True, mean=[3.0])

    fused, chained, (text, _) = both(define)
    assert "resize+crop+crop_mirror_normalize" in text
    same(fused, chained)


def test_a_window_that_leaves_the_image_is_padded_as_ever():
    """Out-of-bounds windows are the crop's own business, also inside a chain."""

    def define():
        small = fn.resize(images(), size=(20, 22))
        return fn.crop_mirror_normalize(small, crop=(30, 30), out_of_bounds_policy="pad", fill_values=[7.0], **NORM)

    fused, chained, _ = both(define)
    same(fused, chained)


def test_an_error_inside_a_chain_names_the_link_that_failed():
    """The crop that does not fit is refused with its own words."""

    def define():
        return fn.crop_mirror_normalize(fn.resize(images(), size=(20, 22)), crop=(30, 30))

    pipe = pipeline_def(define, batch_size=4, num_threads=1)()
    with pytest.raises(RuntimeError, match="Slice can't be placed out of bounds") as caught:
        pipe.run()
    assert any("resize+crop_mirror_normalize" in note for note in caught.value.__notes__)


def test_a_link_that_somebody_else_reads_is_not_fused_away():
    """A resize that is an output too, or has a second reader, stays a step of its own."""

    def define():
        small = fn.resize(images(), size=(20, 22))
        return small, fn.crop_mirror_normalize(small, **NORM), fn.cast(fn.brightness(small), dtype=types.FLOAT)

    fused, chained, (text, _) = both(define)
    assert "fn.resize(" in text
    assert "fn.brightness+cast(" in text
    same(fused, chained)


def test_only_the_last_link_becomes_the_chain():
    """The links before it stay as they are, and nothing reads them."""

    @pipeline_def(batch_size=4, num_threads=1)
    def define():
        bright = fn.brightness(images(), brightness=1.5)
        return fn.brightness(fn.contrast(bright, contrast=0.5), brightness=2.0)

    graph = define().graph
    before = [node.op.name for node in graph.nodes]
    after = [node.op.name for node in fusion.fuse(graph).nodes]
    assert after[:-1] == before[:-1] == ["external_source", "brightness", "contrast"]
    assert after[-1] != before[-1]


def test_fusion_leaves_the_identity_of_a_plan_alone():
    """Fingerprints, and so checkpoints, are the same with and without fusion."""
    plans = []
    for fuse in (True, False):
        pipe = pipeline_def(CHAINS["random_resized_crop+crop_mirror_normalize"], batch_size=4, num_threads=1, seed=3)(
            fuse=fuse
        )
        pipe.build()
        plans.append(pipe._plan)
    assert plans[0].fingerprint() == plans[1].fingerprint()


def test_the_operator_of_a_chain_is_found_by_its_name():
    """A plan that travels names the chain; the other side makes it."""
    op = find("resize+crop_mirror_normalize")
    assert find("resize+crop_mirror_normalize") is op
    assert {"size_0", "mean_1"} <= set(op.arguments)
    with pytest.raises(KeyError, match="no_such"):
        find("resize+no_such")


@pytest.mark.parametrize(
    ("first", "second", "fused"), [("skip", "skip", True), ("skip", "replace", False), (9, 9, False)]
)
def test_only_links_with_the_same_rule_for_failures_are_fused(first, second, fused):
    """A chain has one rule; a value is for the outputs of one link only."""

    def define():
        return fn.cast(fn.brightness(images(), on_error=first), dtype=types.FLOAT, on_error=second)

    pipe = pipeline_def(define, batch_size=4, num_threads=1)()
    pipe.build()
    assert ("fn.brightness+cast(" in str(pipe.plan)) == fused
