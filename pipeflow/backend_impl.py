"""The names of ``pipeflow.backend`` under the other module from which programs for DALI import them."""

from pipeflow.backend import *  # noqa: F403  (every name of the other module, which lists them)
from pipeflow.backend import __all__  # noqa: F401  (what this module exports)
