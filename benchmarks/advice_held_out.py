"""Are predictions and automatic settings as good for ten pipelines that nothing was adapted to?

`advice.py` says how it is measured. Its forty pipelines were at hand while the model was made; these ten were not.
"""

from __future__ import annotations

import sys

import _held_out
import advice

if __name__ == "__main__":
    sys.exit(advice.main(_held_out.cases, "advice_held_out", __doc__))
