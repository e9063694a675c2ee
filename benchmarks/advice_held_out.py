"""Are predictions and automatic settings as good for 32 pipelines that nothing was adapted to?

`advice.py` says how it is measured. Its forty pipelines were at hand while the model was made; these were not. The second ten
were written after the automatic settings compared in turns, the last twelve ("users") are of kinds that users have.
"""

from __future__ import annotations

import sys
from pathlib import Path

import _held_out
import _held_out_later
import _held_out_users
import advice


def cases(folder: Path):
    return _held_out.cases(folder) + _held_out_later.cases(folder) + _held_out_users.cases(folder)


if __name__ == "__main__":
    sys.exit(advice.main(cases, "advice_held_out", __doc__))
