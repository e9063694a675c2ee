"""Conversion of functions: the converted copy calls *hooks* at every condition, return and call.

If a condition is a DataNode, both branches run while the graph is built, so no branch has to become a function. The copy is
straight-line code in which locals stay locals::

    if c: A             k = hooks.choice(c, ...)
    else: B             if k.then(locals()): A
                        if k.other(locals()): B        (variables get the values they had before A)
                        if k.end(locals()): reload the merged variables
    x if c else y       (k := hooks.ternary(c)).end(x if k.then(..) else U, y if k.other(..) else U)
    p and q             (k := hooks.logical(p, "and")).end(q if k.then(..) else U)
    f(x)                hooks.call(f)(x)
    return v            frame.ret(v), and the statements after it go under `if frame.alive:`; only where it is conditional
    break, continue     loop.jump(...), likewise

Every generated node has the position of the user's code that it replaces, so tracebacks, debuggers and coverage show the user's
file. Nested functions keep their own code. They are converted only if converted code calls them.

While nothing is recorded, ``hooks`` behaves like plain Python. The hooks for a recording are in record/conditional.
"""

from pipeflow.record.autograph.converting import convert, converted
from pipeflow.record.autograph.plain import UNSET, Hooks, hooks

__all__ = ["UNSET", "Hooks", "convert", "converted", "hooks"]
