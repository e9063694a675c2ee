"""A rank of a job that torchrun starts: two epochs with a journal and a collective call for each batch.

It kills itself at the place that its arguments name for this start of the job: a rank, the number of a batch since the
start, and whether that is before or after the collective call.
"""

import json
import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as distributed
from loop.journal_jobs import noted, reading


def main(folder, places):
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    start = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    fatal = places[start] if start < len(places) else None
    # A file for each start: in the store of torchrun, gloo finds the addresses of ranks that were killed.
    meeting = f"file://{folder}/meeting{start}"
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=ranks)

    def share(busy):
        """How many ranks have a batch."""
        total = torch.tensor([busy])
        distributed.all_reduce(total)
        return int(total)

    batches = noted(reading(rank, ranks), f"{folder}/run.journal", f"{folder}/log{rank}")
    for number, _ in enumerate(batches, 1):
        for place in ("before", "after"):
            if place == "after":
                share(1)
            if fatal == [rank, number, place]:
                Path(folder, f"killed{start}").touch()
                os.kill(os.getpid(), signal.SIGKILL)
    # After a kill the ranks may be a batch apart: the one that is ahead takes part until all have ended.
    while share(0):
        pass


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
