"""Values and functions as data that can be stored or sent: checkpoints, saved graphs and workers use it."""
