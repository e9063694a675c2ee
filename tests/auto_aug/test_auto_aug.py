"""Automatic augmentation: the values of each augmentation, which samples get which, policies, and what is refused."""

import warnings

import numpy as np
import pytest

from pipeflow import fn, pipeline_def, types
from pipeflow.auto_aug import augmentations as a
from pipeflow.auto_aug import auto_augment, rand_augment, trivial_augment
from pipeflow.auto_aug.core import Policy, augmentation, select, signed_bin

SMALL = np.array([[[0, 64, 128], [200, 255, 30]], [[10, 10, 10], [250, 5, 90]]], np.uint8)
RNG = np.random.default_rng(3)
PHOTO = (np.add.outer(np.arange(20) * 5, np.arange(24) * 4)[..., None] + RNG.integers(0, 60, (20, 24, 3))).astype(
    np.uint8
)


def run(define, images, layout="HWC", runs=1, **options):
    """The samples of all outputs of a pipeline over a batch of images."""

    @pipeline_def(batch_size=len(images), num_threads=1, device_id=None, seed=11, prefetch_queue_depth=1, **options)
    def pipe():
        return define(
            fn.external_source(source=lambda: images, batch=True, layout=layout, dtype=types.UINT8, ndim=len(layout))
        )

    built = pipe()
    outputs = [[np.asarray(sample) for output in built.run() for sample in output.samples()] for _ in range(runs)]
    return outputs[0] if runs == 1 else outputs


def applied(one, magnitude, image=SMALL, layout="HWC", **arguments):
    """The image after one augmentation of this very magnitude."""
    exact = one if one.mag_range is None else one.augmentation(np.array([magnitude], np.float32), False)
    keywords = {} if magnitude is None else {"magnitude_bin": 0, "num_magnitude_bins": 1}
    return run(lambda data: exact(data, **keywords, **arguments), [image], layout)[0]


@pytest.mark.parametrize(
    ("name", "magnitude", "expected"),
    [
        ("auto_contrast", None, [0, 60, 255, 204, 255, 43, 10, 5, 0, 255, 0, 173]),  # G: (64 - 5) * 255 / 250 = 60.2
        ("brightness", 0.5, [0, 96, 192, 255, 255, 45, 15, 15, 15, 255, 8, 135]),
        ("contrast", 0.5, [0, 51, 147, 255, 255, 0, 0, 0, 0, 255, 0, 90]),
        ("color", 0.5, [0, 70, 166, 194, 255, 0, 10, 10, 10, 255, 0, 91]),
        ("sharpness", 0.5, [0, 63, 150, 241, 255, 21, 0, 0, 0, 255, 0, 95]),
        ("posterize", 4, [0, 64, 128, 192, 240, 16, 0, 0, 0, 240, 0, 80]),
        ("solarize", 128, [0, 64, 127, 55, 0, 30, 10, 10, 10, 5, 5, 90]),
        ("solarize_add", 50, [50, 114, 128, 200, 255, 80, 60, 60, 60, 250, 55, 140]),
        ("invert", None, (255 - SMALL).ravel().tolist()),
        ("equalize", None, [0, 170, 255, 170, 255, 85, 85, 85, 0, 255, 0, 170]),
        ("identity", None, SMALL.ravel().tolist()),
    ],
)
def test_values_by_hand(name, magnitude, expected):
    """Four pixels, as the real DALI prints them."""
    assert applied(getattr(a, name), magnitude).ravel().tolist() == expected


def test_moves_by_hand():
    """Whole pixels to the right and down, by numbers and by parts of the size, with the fill or the border around."""
    ramp = np.arange(12, dtype=np.uint8).reshape(3, 4, 1) * 10
    right = np.full_like(ramp, 128)
    right[:, 1:] = ramp[:, :-1]
    down = np.full_like(ramp, 128)
    down[2:] = ramp[:1]
    assert (applied(a.translate_x_no_shape, 1.0, ramp) == right).all()
    assert (applied(a.translate_x, 0.25, ramp, shape=(3, 4)) == right).all()
    assert (applied(a.translate_y_no_shape, 2.0, ramp) == down).all()
    assert (applied(a.translate_x_no_shape, 1.0, ramp, fill_value=None)[:, 0] == ramp[:, 0]).all()
    sheared = applied(a.shear_x, 1.0, ramp, interp_type=types.INTERP_NN)
    assert [(row == 128).sum() for row in sheared[..., 0]] in ([0, 1, 2], [1, 2, 3])
    assert (applied(a.rotate, 180.0, ramp) == ramp[::-1, ::-1]).all()


def test_a_video_gets_one_strength_for_all_frames():
    """Frames are augmented as images are; what is measured is measured for each frame."""
    video = np.stack([SMALL, SMALL[::-1], 255 - SMALL])
    for one, magnitude in ((a.contrast, 0.5), (a.auto_contrast, None), (a.sharpness, 0.3), (a.shear_y, 0.2)):
        frames = [applied(one, magnitude, frame) for frame in video]
        assert (applied(one, magnitude, video, "FHWC") == frames).all(), one.name


def test_bins_signs_and_parameters():
    """Bins divide the range evenly; a sign of 1 negates; an array lists the magnitudes; parameters are made of both."""
    seen = augmentation(
        lambda data, parameter: parameter + 0 * fn.cast(data[0, 0, 0], dtype=types.FLOAT), mag_range=(0, 10)
    )
    signed = seen.augmentation(randomly_negate=True, mag_to_param=lambda magnitude: np.float32(magnitude + 100))
    listed = seen.augmentation(mag_range=np.array([3, 1, 4], np.float32))

    def define(data):
        bins = fn.external_source(source=lambda: np.arange(5, dtype=np.int32), batch=True, ndim=0, dtype=types.INT32)
        signs = fn.external_source(
            source=lambda: np.arange(5, dtype=np.int32) % 2, batch=True, ndim=0, dtype=types.INT32
        )
        both = signed_bin(bins, random_sign=signs)
        return (
            seen(data, magnitude_bin=bins, num_magnitude_bins=5),
            seen(data, magnitude_bin=both, num_magnitude_bins=5),
            signed(data, magnitude_bin=both, num_magnitude_bins=5),
            signed(data, magnitude_bin=signed_bin(4, random_sign=signs), num_magnitude_bins=5),
            listed(data, magnitude_bin=bins % 3),
            seen(data, magnitude_bin=3, num_magnitude_bins=5),
        )

    found = np.array(run(define, [SMALL] * 5)).reshape(6, 5)
    assert found.tolist() == [
        [0, 2.5, 5, 7.5, 10],
        [0, 2.5, 5, 7.5, 10],
        [100, 97.5, 105, 92.5, 110],
        [110, 90, 110, 90, 110],
        [3, 1, 4, 3, 1],
        [7.5] * 5,
    ]


def test_signs_are_drawn_where_none_are_given():
    """With a warning, about as many of each, and the same again with the same seed."""
    seen = augmentation(lambda data, parameter: parameter, mag_range=(1, 2), randomly_negate=True)
    with pytest.warns(UserWarning, match="draws the signs itself"):
        found = run(lambda data: seen(data, magnitude_bin=1, num_magnitude_bins=2), [SMALL] * 200)
    assert set(map(float, found)) == {2.0, -2.0}
    drawn = [run(lambda data, seed=seed: signed_bin(0, seed=seed).random_sign, [SMALL] * 200) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert 60 < sum(map(int, drawn[0])) < 140


def suite_results(suite, magnitude_bin, bins, image):
    """What each augmentation of a suite, with either sign, makes of an image, as bytes."""

    def define(data):
        signs = fn.external_source(source=lambda: np.array([0, 1], np.int32), batch=True, ndim=0, dtype=types.INT32)
        strength = signed_bin(magnitude_bin, random_sign=signs)
        keywords = {"magnitude_bin": strength, "num_magnitude_bins": bins, "shape": image.shape}
        return tuple(one(data, **keywords) for one in suite)

    results = run(define, [image] * 2)
    return {one.name: {x.tobytes() for x in results[2 * i : 2 * i + 2]} for i, one in enumerate(suite)}


@pytest.mark.parametrize("conditionals", [False, True])
def test_rand_augment_gives_each_sample_one_of_the_suite(conditionals):
    """With n=1 every result is one of the suite's, all of them occur, and about as often as each other."""
    expected = suite_results(rand_augment.get_rand_augment_suite(max_translate_abs=9), 20, 31, PHOTO)
    counts = dict.fromkeys(expected, 0)
    results = run(
        lambda data: rand_augment.rand_augment(data, 1, 20, max_translate_abs=9),
        [PHOTO] * 140,
        runs=3,
        enable_conditionals=conditionals,
    )
    for result in (sample.tobytes() for batch in results for sample in batch):
        (name,) = [name for name, known in expected.items() if result in known]
        counts[name] += 1
    assert min(counts.values()) > 10
    assert max(counts.values()) < 60


def test_trivial_augment_draws_strengths_too():
    """With two bins every result is of the one or the other, and both occur."""
    suite = trivial_augment.get_trivial_augment_wide_suite(True)
    weak, strong = (suite_results(suite, number, 2, PHOTO) for number in (0, 1))
    results = run(
        lambda data: trivial_augment.trivial_augment_wide(data, 2, shape=fn.shapes(data)), [PHOTO] * 140, runs=2
    )
    found = {sample.tobytes() for batch in results for sample in batch}
    assert found <= set().union(*weak.values(), *strong.values())
    assert found & strong["rotate"]
    assert found & (weak["shear_x"] | weak["rotate"])


def test_an_augmentation_runs_for_its_samples_only():
    """A function in it is called for exactly the samples whose result it is, and the others keep their memory's content."""
    calls = []

    def marked(sample):
        calls.append(int(sample[0, 0, 0]))
        return sample + np.uint8(100)

    mark = augmentation(lambda data, _: fn.python_function(data, function=marked), name="mark")
    images = [np.full((2, 2, 1), i, np.uint8) for i in range(100)]
    results = run(lambda data: rand_augment.apply_rand_augment([mark, a.identity], data, 1, 0), images)
    changed = [i for i, result in enumerate(results) if result[0, 0, 0] == i + 100]
    assert calls == changed
    assert 30 < len(changed) < 70
    assert all(result[0, 0, 0] == i for i, result in enumerate(results) if i not in changed)


def test_a_branch_in_an_augmentation_acts_for_each_sample():
    """An augmentation of the user's is converted like the definition that it is called from."""

    @augmentation
    def up_or_down(data, _):
        if fn.reductions.max(data) < 50:
            return data + types.Constant(100, dtype=types.UINT8)
        return data - types.Constant(50, dtype=types.UINT8)

    images = [np.full((1, 1, 1), i, np.uint8) for i in (10, 60, 49, 50)]
    results = run(lambda data: select([up_or_down], 0, data), images, enable_conditionals=True)
    assert [int(x[0, 0, 0]) for x in results] == [110, 10, 149, 0]


def test_a_policy_runs_its_sequences_by_their_probabilities():
    """One step after the other, each done or not, each sub-policy as often as another."""
    add = augmentation(lambda data, amount: data + amount, mag_range=(0, 10), mag_to_param=np.uint8, name="add")
    double = augmentation(lambda data, _: data * types.Constant(2, dtype=types.UINT8), name="double")
    policy = Policy(
        "mine", 11, [[(add, 1, 3), (double, 1.0, None)], [(double, 0.5, None), (add, 1.0, 10)], [(add, 1, 7)]]
    )
    images = [np.full((1, 1, 1), 1, np.uint8)] * 600
    found = [int(x[0, 0, 0]) for x in run(lambda data: auto_augment.apply_auto_augment(policy, data), images)]
    counts = {value: found.count(value) for value in sorted(set(found))}
    assert list(counts) == [8, 11, 12]  # (1 + 3) * 2 and 1 + 7; 1 + 10; 2 + 10
    assert 320 < counts[8] < 480
    assert 60 < counts[11] < 140
    assert 60 < counts[12] < 140


@pytest.mark.parametrize("name", ["image_net", "reduced_image_net", "svhn", "reduced_cifar10"])
def test_published_policies_run(name):
    """25 sequences of at most two steps in 11 bins; most images change, and a seed gives the same again."""
    policy = getattr(auto_augment, f"get_{name}_policy")()
    assert len(policy.sub_policies) == 25
    assert {len(row) for row in policy.sub_policies} <= {1, 2}
    assert policy.num_magnitude_bins == 11

    def results(seed):
        return run(lambda data: auto_augment.auto_augment(data, name, seed=seed), [PHOTO] * 40)

    first, again, other = results(5), results(5), results(6)
    assert all(map(np.array_equal, first, again))
    assert not all(map(np.array_equal, first, other))
    assert sum(not np.array_equal(result, PHOTO) for result in first) > 25


def test_several_stages_are_drawn_apart():
    """n=2 gives other results than the first augmentation twice, and the parts of a seed are not the same numbers."""
    once = augmentation(lambda data, _: data + types.Constant(1, dtype=types.UINT8), name="one")
    ten = augmentation(lambda data, _: data + types.Constant(10, dtype=types.UINT8), name="ten")
    images = [np.zeros((1, 1, 1), np.uint8)] * 200
    results = run(lambda data: rand_augment.apply_rand_augment([once, ten], data, 2, 0, seed=4), images)
    counts = {value: [int(x[0, 0, 0]) for x in results].count(value) for value in (2, 11, 20)}
    assert sum(counts.values()) == 200
    assert 60 < counts[11] < 140
    assert run(lambda data: auto_augment.auto_augment_image_net(data, max_translate_abs=(3, 4)), [SMALL])


def test_augmentations_that_share_a_name_get_numbers():
    """The policy tells them apart; its table and its text show the names."""
    light, strong = a.color.augmentation((0, 1)), a.color.augmentation((0, 2))
    policy = Policy("two", 3, [[(light, 0.5, 1), (strong, 0.5, 2)], [(light, 1, 0)]])
    assert list(policy.augmentations) == ["0__color", "1__color"]
    assert [[step[0].name for step in row] for row in policy.sub_policies] == [["0__color", "1__color"], ["0__color"]]
    assert repr(policy).startswith("Policy(name='two', num_magnitude_bins=3, sub_policies=[[('0__color', 0.5, 1)")
    assert list(Policy("one", 3, [[(light, 0.5, 1)]]).augmentations) == ["color"]


def pair(data, parameter):
    return data


WITH_RANGE = augmentation(pair, mag_range=(0, 1))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: augmentation(lambda data: data), TypeError, "at least two arguments by position, data and parameter"),
        (
            lambda: augmentation(a.color),
            TypeError,
            "color is an augmentation already: change it with color.augmentation",
        ),
        (lambda: augmentation(3), TypeError, "is for a function of data and parameter, got 3"),
        (lambda: WITH_RANGE(1), TypeError, "'pair' needs num_magnitude_bins, the number of bins"),
        (
            lambda: WITH_RANGE(1, num_magnitude_bins=3),
            TypeError,
            "'pair' has magnitudes: say which with magnitude_bin=",
        ),
        (lambda: WITH_RANGE(1, magnitude_bin=3, num_magnitude_bins=3), ValueError, "has bins from 0 to 2, got 3"),
        (lambda: WITH_RANGE.augmentation(mag_range=3)(1, magnitude_bin=0), ValueError, "must be a pair .* got 3"),
        (
            lambda: WITH_RANGE.augmentation(np.arange(3))(1, magnitude_bin=0, num_magnitude_bins=4),
            ValueError,
            "'pair' has 3 magnitudes, num_magnitude_bins is 4",
        ),
        (
            lambda: WITH_RANGE.augmentation(mag_to_param=lambda x: [x] * int(1 + x), randomly_negate=True)(
                1, magnitude_bin=signed_bin(1, random_sign=0), num_magnitude_bins=2
            ),
            ValueError,
            "must return the same shape and type for all magnitudes",
        ),
        (lambda: signed_bin("x"), TypeError, "magnitude_bin must be a whole number or a DataNode of them, got 'x'"),
        (lambda: signed_bin(1, random_sign=1, seed=3), ValueError, "'random_sign' gives the signs"),
        (lambda: select([], 0), ValueError, "at least one function"),
        (lambda: a.translate_x(1, magnitude_bin=0, num_magnitude_bins=2), TypeError, "needs 'shape'; give the height"),
        (lambda: a.solarize_add_shift(128), ValueError, "from 0 to 127"),
        (lambda: Policy("p", 0, []), ValueError, "num_magnitude_bins must be a whole number of at least 1, got 0"),
        (lambda: Policy("p", 3, "x"), TypeError, "sub_policies must be a list of lists, got str"),
        (lambda: Policy("p", 3, ["x"]), TypeError, "a sub-policy must be a list"),
        (lambda: Policy("p", 3, [[(a.color, 1)]]), TypeError, r"a step of a policy is \(augmentation"),
        (lambda: Policy("p", 3, [[(pair, 1, 1)]]), TypeError, "begins with an augmentation, made by @augmentation"),
        (
            lambda: Policy("p", 3, [[(a.color, 1.5, 1)]]),
            ValueError,
            "probability of 'color' must be from 0 to 1, got 1.5",
        ),
        (lambda: Policy("p", 3, [[(a.color, 1, None)]]), ValueError, "has a range of magnitudes: give a bin"),
        (
            lambda: Policy("p", 3, [[(a.color, 1, 3)]]),
            ValueError,
            "bin of 'color' in policy 'p' must be from 0 to 2, got 3",
        ),
        (lambda: auto_augment.apply_auto_augment(Policy("p", 3, []), 1), ValueError, "policy 'p' has no sub-policies"),
        (lambda: auto_augment.auto_augment(1, "imagenet"), ValueError, r"did you mean 'image_net'\?"),
        (
            lambda: auto_augment.auto_augment(1, "reduced_image_net", shape=(2, 2)),
            ValueError,
            "so 'shape' cannot be given",
        ),
        (
            lambda: auto_augment.auto_augment(1, max_translate_rel=0.5),
            ValueError,
            "max_translate_rel is for images with a shape; give max_translate_abs",
        ),
        (
            lambda: trivial_augment.trivial_augment_wide(1, shape=(2, 2), max_translate_abs=5),
            ValueError,
            "max_translate_abs is for images without a shape; give max_translate_rel",
        ),
        (lambda: rand_augment.get_rand_augment_suite(1), TypeError, "use_shape must be True or False, got 1"),
        (lambda: rand_augment.rand_augment(1, -1, 3), ValueError, "n, how many augmentations a sample gets"),
        (lambda: rand_augment.rand_augment(1, 1, 31), ValueError, "m, the magnitude bin, must be from 0 to 30, got 31"),
        (lambda: rand_augment.rand_augment(1, 1, 0, 0), ValueError, "num_magnitude_bins must be a whole number"),
        (
            lambda: rand_augment.rand_augment(1, 1, 3, excluded=["colour"]),
            ValueError,
            r"'excluded' names 'colour' \(did you mean 'color'\?\)",
        ),
        (lambda: rand_augment.apply_rand_augment([], 1, 1, 3), ValueError, "at least one augmentation to choose from"),
        (
            lambda: rand_augment.apply_rand_augment([a.color], 1, 1, 3, fil_value=3),
            TypeError,
            "none of the augmentations takes 'fil_value'",
        ),
        (
            lambda: trivial_augment.apply_trivial_augment([a.rotate], 1, fil_value=3),
            TypeError,
            r"takes 'fil_value' \(did you mean 'fill_value'\?\)",
        ),
    ],
)
def test_what_is_refused(make, error, message):
    """The message says what is wrong, with which value, and what to write."""
    with pytest.raises(error, match=message):
        make()


def test_what_is_warned_of():
    """Things that have no effect."""
    with pytest.warns(UserWarning, match="'color' in policy 'p' has a probability of 0"):
        Policy("p", 3, [[(a.color, 0, 1)]])
    with pytest.warns(UserWarning, match="'invert' in policy 'p' has no magnitudes: its bin 1 has no effect"):
        Policy("p", 3, [[(a.invert, 1, 1)]])
    with pytest.warns(UserWarning, match="n=0 changes nothing"):
        assert rand_augment.rand_augment("data", 0, 3) == "data"


def test_a_parameter_made_by_an_operator_is_refused():
    """Parameters are computed once, while the graph is built."""
    wrong = augmentation(pair, mag_range=(0, 1), mag_to_param=lambda magnitude: fn.random.uniform(range=(0, magnitude)))
    with pytest.raises(TypeError, match="mag_to_param of augmentation 'pair' returned a DataNode"):
        run(lambda data: wrong(data, magnitude_bin=1, num_magnitude_bins=2), [SMALL])


def test_settings_of_a_changed_augmentation():
    """What is not given stays; None is a setting like any other."""
    changed = a.shear_x.augmentation(mag_range=(0, 0.5), name="mine")
    assert (changed.op, changed.mag_range, changed.name) == (a.shear_x.op, (0, 0.5), "mine")
    assert changed.randomly_negate
    assert changed.mag_to_param is a.warp_x_param
    assert not a.color.augmentation(mag_to_param=None, randomly_negate=False).randomly_negate
    assert a.sharpness.param_device == "auto"
    assert a.color.param_device == "cpu"
    assert "mag_range=(0, 0.5)" in repr(changed)
    assert [a.poster_mask_uint8(m).item() for m in (-1, 0, 1, 4, 7.6, 9)] == [128, 128, 128, 240, 255, 255]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Policy("p", 3, [[(changed, 0.5, 1)]])


@pytest.mark.parametrize(
    ("policy", "count", "probabilities", "magnitudes", "first"),
    [
        (auto_augment._IMAGE_NET, 48, 29.8, 167, (("equalize", 0.8, None), ("shear_y", 0.8, 4))),
        (auto_augment._REDUCED_IMAGE_NET, 49, 31.0, 159, (("posterize", 0.4, 8), ("rotate", 0.6, 9))),
        (auto_augment._SVHN, 49, 32.9, 141, (("shear_x", 0.9, 4), ("invert", 0.2, None))),
        (auto_augment._REDUCED_CIFAR10, 49, 26.5, 187, (("invert", 0.1, None), ("contrast", 0.2, 6))),
    ],
)
def test_the_published_policies_stay_what_they_are(policy, count, probabilities, magnitudes, first):
    """The number of steps, and the sums of their numbers, which notice one that has changed."""
    assert policy[0] == first
    steps = [step for pair in policy for step in pair]
    assert len(steps) == count
    assert sum(probability for _, probability, _ in steps) == pytest.approx(probabilities)
    assert sum(magnitude or 0 for _, _, magnitude in steps) == magnitudes


@pytest.mark.parametrize(
    "augment",
    [
        lambda data: auto_augment.auto_augment_image_net(data, shape=[20, 30]),
        lambda data: rand_augment.rand_augment(data, n=2, m=9, shape=[20, 30]),
        lambda data: trivial_augment.trivial_augment_wide(data, shape=[20, 30]),
    ],
    ids=["auto_augment", "rand_augment", "trivial_augment_wide"],
)
def test_programs_for_a_gpu_run_on_the_cpu_with_the_same_result(augment):
    """Data after .gpu(), where masks and windows are constants on the GPU."""
    images = list(np.random.default_rng(2).integers(0, 256, (12, 20, 30, 3)).astype(np.uint8))

    def run(moved):
        @pipeline_def(batch_size=12, num_threads=2, device_id=None, seed=5, enable_conditionals=True)
        def define():
            data = fn.external_source(lambda: images, layout="HWC")
            return augment(data.gpu() if moved else data)

        return np.stack([np.asarray(sample) for sample in define().run()[0].samples()])

    with pytest.warns(UserWarning, match="GPU|gpu|CPU"):
        moved = run(True)
    np.testing.assert_array_equal(moved, run(False))
    assert (moved != np.stack(images)).any()
