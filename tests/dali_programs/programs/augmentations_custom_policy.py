"""Augmentations of one's own in a policy of AutoAugment and RandAugment, as in the tutorial of auto_aug."""

import numpy as np
from material import image
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.auto_aug import augmentations, auto_augment, rand_augment, trivial_augment
from nvidia.dali.auto_aug.core import Policy, augmentation
from shown import show, show_error, show_form


@augmentation(mag_range=(0, 100), randomly_negate=False, mag_to_param=lambda magnitude: np.uint8(magnitude))
def lifted(data, level, fill_value=None):
    return fn.cast_like(fn.cast(data, dtype=types.INT32) * 0 + level, data)


@augmentation
def inverted(data, _):
    return 255 - data


@augmentation(mag_range=(0, 2), mag_to_param=lambda magnitude: np.int32(magnitude))
def kept(data, pair):
    return data


def run(definition, **options):
    made = pipeline_def(definition, batch_size=3, num_threads=2, device_id=None, enable_conditionals=True, seed=4)
    return made(**options).run()


def pictures():
    return fn.external_source(lambda: [image(8, 10, seed=index) for index in range(3)], layout="HWC")


always = Policy("always", num_magnitude_bins=5, sub_policies=[[(lifted, 1.0, 2)], [(lifted, 1.0, 2)]])
show(always.num_magnitude_bins, len(always.sub_policies), [entry[0][2] for entry in always.sub_policies])
show(run(lambda: auto_augment.apply_auto_augment(always, pictures())))
twice = Policy("twice", num_magnitude_bins=5, sub_policies=[[(inverted, 1.0, None), (inverted, 1.0, None)]])
show(run(lambda: auto_augment.apply_auto_augment(twice, pictures())))
never = Policy("never", num_magnitude_bins=5, sub_policies=[[(inverted, 0.0, None)]])
show(run(lambda: auto_augment.apply_auto_augment(never, pictures())))
show(run(lambda: rand_augment.apply_rand_augment([inverted], pictures(), n=2, m=1)))
show(run(lambda: rand_augment.apply_rand_augment([lifted], pictures(), n=1, m=4, num_magnitude_bins=5)))
show(run(lambda: trivial_augment.apply_trivial_augment([kept], pictures(), num_magnitude_bins=3)))
show(run(lambda: augmentations.invert(pictures())))
show_form(run(lambda: auto_augment.auto_augment(pictures(), "reduced_cifar10", shape=[8, 10])))
show_form(run(lambda: rand_augment.rand_augment(pictures(), n=1, m=3, excluded=["rotate"], monotonic_mag=False)))
show_error(lambda: Policy("bad", num_magnitude_bins=5, sub_policies=[[(lifted, 2.0, 2)]]))
show_error(lambda: Policy("bad", num_magnitude_bins=5, sub_policies=[[(lifted, 0.5, 7)]]))
show_error(lambda: Policy("bad", num_magnitude_bins=5, sub_policies=[(lifted, 0.5, 1)]))
show_error(lambda: run(lambda: auto_augment.auto_augment(pictures(), "no_such_policy")))
show_error(lambda: run(lambda: rand_augment.rand_augment(pictures(), n=1, m=50)))
show_error(lambda: run(lambda: rand_augment.rand_augment(pictures(), n=1, m=3, excluded=["nothing"])))
