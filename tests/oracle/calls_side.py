"""Makes drawn calls under one library and writes what came out of each: `python calls_side.py LIBRARY CALLS ANSWERS`.

A child process makes the calls; where it dies of one, or one does not return, the next child goes on behind that call.
"""

import faulthandler
import importlib
import mmap
import os
import pickle
import struct
import sys
import warnings
from operator import attrgetter
from types import SimpleNamespace

import numpy as np

CRASHED = "crashed"
# Seconds after which a call counts as one that does not return. The first call of a kernel compiles it, which took more than a
# minute on a busy machine; calls of DALI return within milliseconds or never.
HANGS = {"pipeflow": 240}
QUICK = 10


def named(types, value):
    if isinstance(value, str) and value.startswith("types."):
        return getattr(types, value[6:])
    return [named(types, item) for item in value] if isinstance(value, list) else value


def answer(library, call):
    """What a call gives: the type, layout and samples of each output; or the classes and the text of its exception."""
    fn, types = library.fn, library.types
    size = max(
        [len(x[0]) for x in call.inputs] + [len(x) for x in call.per_sample.values()] + [2 if not call.inputs else 1]
    )

    def feed(samples, layout=None):
        return fn.external_source(lambda: samples, layout=layout or None)

    def made(inputs):
        keywords = {name: named(types, value) for name, value in call.constants.items()}
        keywords.update({name: feed(samples) for name, samples in call.per_sample.items()})
        out = attrgetter(call.operator)(fn)(*inputs, **keywords)
        return tuple(out) if isinstance(out, (list, tuple)) else (out,)

    def define():
        return made([feed(*x) for x in call.inputs])

    def divided():
        inputs = [feed(*x) for x in call.inputs]
        side = feed([np.array(index % 2 == 0) for index in range(size)])
        if side:
            out = made(inputs)
        else:
            out = made(inputs)
        return out

    options = {"batch_size": size, "num_threads": 1, "device_id": None, "seed": 7, "prefetch_queue_depth": 1}
    try:
        define = divided if call.around else define
        pipe = library.pipeline_def(define, enable_conditionals=bool(call.around), **options)()
        pipe.build()
        outputs = pipe.run()
        return [(o.dtype.name, o.layout(), [np.array(o.at(i)) for i in range(len(o))]) for o in outputs]
    except Exception as error:
        text = str(error).split("encountered:")[-1].strip()
        return [cls.__name__ for cls in type(error).__mro__], text[:400]


def run(library, drawn, place, file, progress):
    """Answers the calls from a place on; where the answer begins in the file is known to whoever goes on after a crash."""
    for number in range(place, len(drawn)):
        progress[:16] = struct.pack("qq", number, file.tell())
        faulthandler.dump_traceback_later(HANGS.get(library.__name__, QUICK), exit=True)
        pickle.dump(answer(library, drawn[number]), file)
        file.flush()


def main():
    name, calls, answers = sys.argv[1:]
    library = importlib.import_module(name)
    library.fn, library.types = importlib.import_module(f"{name}.fn"), importlib.import_module(f"{name}.types")
    warnings.simplefilter("ignore")
    with open(calls, "rb") as file:
        drawn = [SimpleNamespace(**call) for call in pickle.load(file)]
    progress = mmap.mmap(-1, 16)  # shared with the children: the number of a call, and where its answer begins
    place = 0
    while place < len(drawn):
        child = os.fork()
        if not child:
            with open(answers, "ab") as file:
                run(library, drawn, place, file, progress)
            os._exit(0)  # what threads and buffers are left does not matter
        if os.waitpid(child, 0)[1] == 0:
            return
        number, start = struct.unpack("qq", progress[:16])
        os.truncate(answers, start)
        with open(answers, "ab") as file:
            pickle.dump(CRASHED, file)
        place = number + 1


if __name__ == "__main__":
    main()
