"""The names of ``pipeflow.backend`` under the other module from which programs for DALI import them."""

from pipeflow.backend import *  # noqa: F403
from pipeflow.backend import __all__  # noqa: F401
