"""Values and functions as data that can be stored or sent: the ground of checkpoints, saved graphs and workers."""
