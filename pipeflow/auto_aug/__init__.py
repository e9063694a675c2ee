"""Automatic augmentation: AutoAugment, RandAugment and TrivialAugment, made of operators, each run for the samples that drew it.

`auto_augment`, `rand_augment` and `trivial_augment` are the three; `augmentations` has the transformations they choose from,
`core` what your own are made with.
"""
