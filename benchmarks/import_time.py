"""How long does the import take, without the time of NumPy?"""

from __future__ import annotations

import subprocess
import sys

from _harness import Measures, Side, Target, header, measure, median, save, start, table, verdicts

PROGRAM = """
from time import perf_counter
begin = perf_counter(); import numpy; middle = perf_counter(); import {library}; end = perf_counter()
print(middle - begin, end - middle)
"""


def prepare_with(library: str):
    def prepare(_: str):
        def repetition() -> Measures:
            command = [sys.executable, "-c", PROGRAM.format(library=library)]
            output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            numpy_seconds, net = map(float, output.split())
            return {"numpy": numpy_seconds, "net": net}

        return repetition

    return prepare


SIDES = [Side("pipeflow", prepare_with("pipeflow")), Side("dali", prepare_with("nvidia.dali"), "dali")]


def main() -> int:
    reading = header(__doc__)
    results = measure(__file__, SIDES, ["import"], {}, repetitions=5)
    net = {side: median(rows, lambda row: row["net"] * 1e3) for side, rows in results["import"].items()}
    table("Milliseconds, net of NumPy (median of 5 new processes)", ["side", "net"], list(net.items()))
    targets = [Target("import pipeflow: ms net of NumPy", net["pipeflow"], 120.0)]
    verdicts(targets)
    save("import_time", reading, results, targets)
    return 0


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, {}) else 0)
