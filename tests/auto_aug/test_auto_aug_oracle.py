"""Automatic augmentation against the real DALI: every value of every augmentation, and every policy."""

import pickle
import subprocess

import numpy as np
import pytest
from image.oracle import PYTHON, random

from pipeflow import fn, pipeline_def, types
from pipeflow.auto_aug import augmentations, auto_augment, rand_augment, trivial_augment
from pipeflow.auto_aug.core import signed_bin

pytestmark = pytest.mark.oracle
BINS = 11

# What both libraries run: every augmentation of the module and of the suites, with every bin and both signs.
SHARED = '''
def everything(modules):
    """(name, augmentation) of all that there are."""
    augmentations, auto_augment, rand_augment, trivial_augment = modules
    kind = type(augmentations.shear_x)
    found = {name: one for name, one in vars(augmentations).items() if isinstance(one, kind)}
    for shape in (False, True):
        found.update({f"rand {shape} {one.name}": one for one in rand_augment.get_rand_augment_suite(shape)})
        apart, trivial = rand_augment.get_rand_augment_non_monotonic_suite, trivial_augment.get_trivial_augment_wide_suite
        found.update({f"apart {shape} {one.name}": one for one in apart(shape)})
        found.update({f"trivial {shape} {one.name}": one for one in trivial(shape)})
    for name in ("image_net", "svhn", "reduced_cifar10", "reduced_image_net"):
        policy = getattr(auto_augment, f"get_{name}_policy")()
        found.update({f"{name} {one.name}": one for one in policy.augmentations.values()})
    return found


def settings(one):
    """What its parameters are."""
    magnitudes = [] if one.mag_range is None else np.linspace(*one.mag_range, BINS, dtype=np.float32)
    signs = (1, -1) if one.randomly_negate else (1,)
    parameters = [np.asarray(one.mag_to_param(sign * m), np.float64).tolist() for m in magnitudes for sign in signs]
    return one.name, one.randomly_negate, parameters


def policies(auto_augment):
    """The rows of all policies."""
    names = ("image_net", "svhn", "reduced_cifar10")
    made = [getattr(auto_augment, f"get_{name}_policy")() for name in (*names, "reduced_image_net")]
    made += [getattr(auto_augment, f"get_{name}_policy")(True, None, 0.5) for name in names]
    return [(p.name, p.num_magnitude_bins, [[(s[0].name, *s[1:]) for s in row] for row in p.sub_policies],
             {name: settings(one) for name, one in p.augmentations.items()}) for p in made]


def values(one, image, options, library):
    """The image augmented with every bin and both signs."""
    fn, types, pipeline_def, signed_bin = library
    bins, signs = np.arange(2 * BINS, dtype=np.int32) // 2, np.arange(2 * BINS, dtype=np.int32) % 2

    def fed(batch, layout=None):
        return fn.external_source(source=lambda: list(batch), batch=True, layout=layout)

    @pipeline_def(batch_size=2 * BINS, num_threads=1, device_id=None, prefetch_queue_depth=1)
    def define():
        data = fed([image] * (2 * BINS), "HWC")
        strength = signed_bin(fed(bins), random_sign=fed(signs))
        return one(data, magnitude_bin=strength, num_magnitude_bins=BINS, shape=image.shape, **options)

    pipe = define()
    pipe.build()
    (output,) = pipe.run()
    return [np.array(output[i]) for i in range(2 * BINS)]
'''
SCRIPT = f"""
import pickle, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.auto_aug import augmentations, auto_augment, rand_augment, trivial_augment
from nvidia.dali.auto_aug.core import signed_bin
BINS = {BINS}
{SHARED}
image, forms = pickle.load(sys.stdin.buffer)
all_of_them = everything((augmentations, auto_augment, rand_augment, trivial_augment))
plain = [name for name in all_of_them if " " not in name]
answer = ({{name: settings(one) for name, one in all_of_them.items()}}, policies(auto_augment),
          {{(name, form): values(all_of_them[name], image, options, (fn, types, pipeline_def, signed_bin))
            for name in plain for form, options in enumerate(forms)}})
sys.stdout.buffer.write(b"ANSWER" + pickle.dumps(answer))
"""
# Around moved images either the fill or their own border.
FORMS = [{}, {"fill_value": 7}, {"fill_value": None}]


@pytest.fixture(scope="module")
def image():
    rng = random(8)
    smooth = np.add.outer(np.arange(30) * 4, np.arange(41) * 3)[..., None] + rng.integers(0, 20, (30, 41, 3))
    return np.clip(smooth, 3, 250).astype(np.uint8)


@pytest.fixture(scope="module")
def theirs(image):
    done = subprocess.run(
        [PYTHON, "-c", SCRIPT], input=pickle.dumps((image, FORMS)), capture_output=True, check=True, timeout=280
    )
    return pickle.loads(done.stdout.partition(b"ANSWER")[2])


@pytest.fixture(scope="module")
def shared():
    space = {"np": np, "BINS": BINS}
    exec(SHARED, space)
    return space


def test_names_signs_and_parameters(theirs, shared):
    """Of every augmentation, alone, in every suite and in every policy."""
    ours = shared["everything"]((augmentations, auto_augment, rand_augment, trivial_augment))
    assert list(ours) == list(theirs[0])
    for name, one in ours.items():
        assert shared["settings"](one)[:2] == theirs[0][name][:2], name
        np.testing.assert_allclose(shared["settings"](one)[2], theirs[0][name][2], atol=1e-6, err_msg=name)


def test_policies(theirs, shared):
    """Every sub-policy: augmentations, probabilities, bins."""
    for ours, other in zip(shared["policies"](auto_augment), theirs[1], strict=True):
        assert ours[:2] == other[:2]
        # Numbers before equal names follow the order of a set in DALI.
        assert [[step[1:] for step in row] for row in ours[2]] == [[step[1:] for step in row] for row in other[2]]
        assert [[step[0].split("__")[-1] for step in row] for row in ours[2]] == [
            [step[0].split("__")[-1] for step in row] for row in other[2]
        ]


def test_values_of_every_augmentation(theirs, shared, image):
    """With all bins and signs; moved images may differ by one where a half is rounded."""
    library = (fn, types, pipeline_def, signed_bin)
    for (name, form), expected in theirs[2].items():
        found = shared["values"](getattr(augmentations, name), image, FORMS[form], library)
        for place, (ours, other) in enumerate(zip(found, expected, strict=True)):
            assert ours.dtype == other.dtype == np.uint8
            differs = np.abs(ours.astype(int) - other)
            assert differs.max() <= 1, (name, FORMS[form], place, differs.max())
            assert (differs > 0).mean() < 0.035, (name, FORMS[form], place)
