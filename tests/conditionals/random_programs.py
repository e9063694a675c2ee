"""Random programs: every statement that may stand under a condition, for the comparison with plain Python.

A program is a function of one number ``i``; helpers, a class and a module-level variable stand beside it. In plain Python it
runs on one sample; converted, on a batch. The left side of % is never negative, for there operators differ from Python.
"""

import random

NAMES = ("a", "b", "c")

HEADER = """
class Box:
    def __init__(self, v, w):
        self.v = v
        if w > 2:
            self.w = w
        else:
            self.w = w + 1

    def bump(self, x):
        if abs(x) % 3 == 1:
            self.v = self.v + x
            return self.w
        self.w = x
        return self.v

def pick(x, y, box, items):
    if abs(x) % 4 == 0:
        box.v = y
        return x
    for k in range(2):
        if abs(x + k) % 3 == 0:
            items[k] = x
            break
        if abs(y) % 5 == k:
            continue
        items[0] = items[0] + 1
    else:
        items[1] = y
    if abs(y) % 2 == 0:
        return y + box.v
    box.w = x
    return x - y

def store(x):
    global G
    if abs(x) % 3 == 0:
        G = x
        return x + 1
    G = G + 1
    return x
"""

START = """def f{}(i):
    global G
    G = i
    a, b, c = i, i * 2, i - 1
    l = [i, i + 1]
    d = {{'x': i, 'y': i * 3}}
    o = Box(i, 3)
    z = i

    def bind(v):
        nonlocal z
        z = v + 1
        return z - 1

    def maybe(v):
        nonlocal z
        if abs(v) % 2 == 0:
            z = v
            return v
        return 7
"""


class Program:
    """The text of one random program, by a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.loops = 0
        body = self.block(self.random.choice((1, 2, 2, 3)), 1, True, 0)
        self.text = "\n".join([START.format(seed), *body, f"    return {self.results()}"])

    def results(self) -> str:
        return "a + b + c, l[0] + l[1] + d['x'] + d['y'], o.v + o.w, G + z"

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def expression(self, depth: int = 2) -> str:
        kind = self.random.randrange(12 if depth else 3)
        if kind == 0:
            return self.random.choice(NAMES)
        if kind == 1:
            return str(self.random.randrange(-3, 8))
        if kind == 2:
            return self.pick("l[0]", "l[1]", "d['x']", "i", "d['y']", "o.v", "o.w", "G", "z")
        if kind in (3, 4):
            return f"({self.expression(depth - 1)} if {self.condition(depth - 1)} else {self.expression(depth - 1)})"
        if kind == 5:
            return self.call()
        if kind == 6:  # kept small: numbers of a program never overflow
            return f"(abs({self.expression(depth - 1)} * {self.expression(depth - 1)}) % 97)"
        return f"({self.expression(depth - 1)} {self.pick('+', '-')} {self.expression(depth - 1)})"

    def call(self) -> str:
        x, y = self.expression(0), self.expression(0)
        return self.pick(
            f"pick({x}, {y}, o, l)",
            f"store({x})",
            f"o.bump({x})",
            f"bind({x})",
            f"maybe({x})",
            f"(lambda q: q * 2 if abs(q) % 3 == 1 else q)({x})",
            f"[(q + 1 if abs(q) % 2 == 0 else q) for q in ({x}, {y})][1]",
        )

    def condition(self, depth: int = 2) -> str:
        kind = self.random.randrange(7 if depth > 0 else 2)
        if kind <= 1:
            left = f"abs(i + {self.pick(*NAMES, 'o.v', 'l[0]')})"
            return (
                f"{left} % {self.random.randrange(2, 5)} {self.pick('<', '==', '>', '!=')} {self.random.randrange(3)}"
            )
        if kind == 2:
            return f"({self.condition(depth - 1)} and {self.condition(depth - 1)})"
        if kind == 3:
            return f"({self.condition(depth - 1)} or {self.condition(depth - 1)})"
        if kind == 4:
            return f"(not {self.condition(depth - 1)})"
        if kind == 5:
            return f"(abs({self.call()}) % 2 == 0)"
        return f"(0 <= (i % 5) < {self.random.randrange(1, 5)})"

    def simple(self) -> str:
        kind = self.random.randrange(9)
        if kind < 3:
            return f"{self.random.choice(NAMES)} = {self.expression()}"
        if kind == 3:
            return f"l[{self.random.randrange(2)}] = {self.expression()}"
        if kind == 4:
            return f"d['{self.pick('x', 'y')}'] = {self.expression()}"
        if kind == 5:
            return (
                f"{self.random.choice(NAMES)}, {self.random.choice(NAMES)} = {self.expression()}, {self.expression()}"
            )
        if kind == 6:
            return f"o.{self.pick('v', 'w')} = {self.expression()}"
        if kind == 7:
            return f"G {self.pick('=', '+=')} {self.expression(1)}"
        return f"{self.random.choice(NAMES)} += {self.call()}"

    def block(self, depth: int, indent: int, may_return: bool, loop: int) -> list[str]:
        lines: list[str] = []
        space = "    " * indent
        for _ in range(self.random.randrange(1, 4)):
            kind = self.random.randrange(14)
            if kind < 5 or depth == 0:
                lines.append(space + self.simple())
            elif kind in (5, 6) and loop < 2:
                self.loops += 1
                counter = f"k{self.loops}"
                if kind == 5:
                    lines.append(f"{space}for {counter} in range({self.random.randrange(1, 4)}):")
                else:
                    lines += [f"{space}{counter} = 0", f"{space}while {counter} < 3:", f"{space}    {counter} += 1"]
                lines += self.block(depth - 1, indent + 1, may_return, loop + 1)
                if self.random.random() < 0.3:
                    lines += [f"{space}else:", *self.block(depth - 1, indent + 1, may_return, loop)]
            elif kind == 7 and may_return:
                lines.append(f"{space}if {self.condition()}: return {self.results()}")
            elif kind == 8 and may_return:
                lines.append(f"{space}return {self.results()}")
                break
            elif kind in (9, 10) and loop:
                lines += [f"{space}if {self.condition()}:", *self.block(0, indent + 1, False, loop)]
                lines.append(f"{space}    {self.pick('continue', 'break')}")
            elif kind == 11:
                # What a `finally` assigns is refused for samples that left the `try` early: either or.
                leaves = self.random.random() < 0.5
                lines += [
                    f"{space}try:",
                    *self.block(depth - 1, indent + 1, may_return and leaves, loop if leaves else 0),
                ]
                lines += [f"{space}finally:", f"{space}    {'pass' if leaves else self.simple()}"]
                if self.random.random() < 0.5:
                    lines[-2:-2] = [
                        f"{space}except KeyError:",
                        f"{space}    a = 5",
                        f"{space}else:",
                        f"{space}    b = a",
                    ]
            else:
                lines += [f"{space}if {self.condition()}:", *self.block(depth - 1, indent + 1, may_return, loop)]
                if self.random.random() < 0.3:
                    lines += [f"{space}elif {self.condition()}:", *self.block(depth - 1, indent + 1, may_return, loop)]
                if self.random.random() < 0.6:
                    lines += [f"{space}else:", *self.block(depth - 1, indent + 1, may_return, loop)]
        return lines
