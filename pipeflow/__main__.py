"""``python -m pipeflow VERB``: the command line, as ``pipeflow VERB``."""

import sys

from pipeflow.commands import main

if __name__ == "__main__":
    sys.exit(main())
