"""Values and functions as data that can be stored or sent. Checkpoints, saved graphs and workers use it."""
