"""Automatic augmentation: AutoAugment, RandAugment, TrivialAugment; each operator runs only for samples that drew it.

The modules are `auto_augment`, `rand_augment` and `trivial_augment`. `augmentations` has the transformations from which
they choose, and `core` has the parts from which you make your own.
"""
