"""Which changes of the code do the tests notice? `make mutate COUNT=600 SEED=1`

A mutant is the package with one change of `mutations.py`. For each mutant the tests that run the changed line are run
until one fails (`trials.py`). `--record` notes once which lines each test runs (`covered.py`). The results of all mutants
are kept in build/mutate/results.jsonl, and a run that was stopped continues there. tools/mutants_reviewed.txt lists
changes that make no difference to a user, each with its reason. After a test was written, `--again --tests FILE` tries
the survivors by the tests of this file alone, whose lines need not be recorded.
"""

import argparse
import collections
import contextlib
import gc
import importlib
import json
import multiprocessing
import sys
import time
import warnings
from pathlib import Path

from covered import WORK, Lines, record
from mutations import ROOT, Mutant, choose
from trials import Tree

REVIEWED = ROOT / "tools/mutants_reviewed.txt"
HEAVY = ("pytest", "numba", "numba.core.typing.templates", "numba.np.arraymath", "cv2", "PIL.Image", "simplejpeg",
         "soundfile", "soxr", "scipy.signal", "psutil")  # fmt: skip


def reviewed() -> dict[str, str]:
    """Key -> reason of the changes that make no difference."""
    lines = REVIEWED.read_text().splitlines() if REVIEWED.exists() else []
    entries = [line.rpartition(" | ") for line in lines if line.strip() and not line.startswith("#")]
    return {key: reason for key, _, reason in entries}


def report(results: list[dict], reasons: dict[str, str]) -> str:
    """A table by area, and every mutant that no test noticed, with the tests that were tried."""
    areas = collections.defaultdict(lambda: [0, 0, 0])
    survivors = []
    for result in results:
        row = areas[result["area"]]
        if result["key"] in reasons and not result["noticed"]:
            row[2] += 1
            continue
        row[0] += 1
        row[1] += bool(result["noticed"])
        if not result["noticed"]:
            survivors.append(result)
    areas = dict(sorted(areas.items()))
    areas["all"] = [sum(column) for column in zip(*areas.values())] if areas else [0, 0, 0]
    text = ["| area | mutants | noticed | share | without effect |", "|---|---|---|---|---|"]
    text += [f"| {a} | {n} | {k} | {k / max(1, n):.0%} | {e} |" for a, (n, k, e) in areas.items()]
    for x in survivors:
        old, new = x["what"].split(" -> ", 1)
        text.append(f"\n{x['file']}:{x['line']}: {x['text']}\n- {old}\n+ {new}\n  {len(x['passed'])} of {x['of']} tests passed, "
                    f"among them {', '.join(x['passed'][:3])}")  # fmt: skip
    return "\n".join(text)


def work(number: int, left: list[tuple[Mutant, list[str]]], next_one, lines: Lines, options, file: Path) -> None:
    """One process: takes the next mutant until there is none."""
    tree = Tree(number, lines, options.most, not options.without_host)
    gc.collect()
    gc.freeze()  # so that forked processes need not copy what the collector would touch
    while True:
        with next_one.get_lock():
            place, next_one.value = next_one.value, next_one.value + 1
        if place >= len(left):
            return
        mutant, passed = left[place]
        result = tree.judge(mutant, passed, options.tests)
        with file.open("ab", buffering=0) as out:  # one call: lines of several processes are not mixed
            out.write(json.dumps(result).encode() + b"\n")
        change, seconds = f"{mutant.file}:{mutant.line} {mutant.what}", result["seconds"]
        print(
            time.strftime("%H:%M:%S"),
            f"{place + 1}/{len(left)} {seconds} s",
            result["noticed"] or "SURVIVED",
            change,
            flush=True,
        )


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--record", action="store_true", help="note which tests run which lines; further arguments go to pytest"
    )
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="mutants that are tried at the same time")
    parser.add_argument("--most", type=float, default=60, help="seconds for tests of one mutant that are not specific")
    parser.add_argument("--only", default="", help="paths below pipeflow/ that begin so")
    parser.add_argument("--again", action="store_true", help="try the survivors again, after tests were written")
    parser.add_argument("--areas", default="", help="areas of the table, with commas between them; default: all")
    parser.add_argument("--tests", action="append", default=[], help="a file or test that alone tries the survivors")
    parser.add_argument(
        "--without-host", action="store_true", help="leave out CUDA kernels: built by g++, each takes minutes"
    )
    parser.add_argument("--report", action="store_true", help="only print what is known")
    options, rest = parser.parse_known_args()
    if options.record:
        return record(rest)
    file = WORK / "results.jsonl"
    known = {x["key"]: x for x in map(json.loads, file.read_text().splitlines())} if file.exists() else {}
    mutants = choose(options.count, options.seed, options.only)
    if not options.report:
        reasons, lines = reviewed(), Lines()
        areas = {x.area for x in mutants if not options.areas or x.area in options.areas.split(",")}
        areas -= {"CUDA"} if options.without_host else set()
        left = [(x, known.get(x.key, {}).get("passed", [])) for x in mutants if x.area in areas and x.key not in reasons
                and (options.again and not known[x.key]["noticed"] if x.key in known else not options.tests)]  # fmt: skip
        for name in HEAVY:  # imported once for all runs
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork")
        next_one = multiprocessing.get_context("fork").Value("i", 0)
        jobs = [multiprocessing.get_context("fork").Process(target=work, args=(k, left, next_one, lines, options, file))
                for k in range(options.jobs)]  # fmt: skip
        for job in jobs:
            job.start()
        for job in jobs:
            job.join()
        known = {x["key"]: x for x in map(json.loads, file.read_text().splitlines())}
    text = report([known[x.key] for x in mutants if x.key in known], reviewed())
    (WORK / "report.md").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
