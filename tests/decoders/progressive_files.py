"""Progressive JPEG files written coefficient by coefficient: any order of scans, any bands, any number of bits left for later."""

import struct
from itertools import pairwise

import numpy as np
from decoders.jpeg_files import SAMPLINGS, Bits, number, random_code, segment

LONGEST_RUN = 0x7FFF  # blocks that one symbol can skip


class Symbols:
    """The symbols and bits of an interval of a scan: ((class, chroma), symbol, bits, their number), or None and bits alone."""

    def __init__(self, rng, early):
        self.items, self.empty, self.later, self.chroma = [], 0, [], False
        self.rng, self.early = (
            rng,
            early,
        )  # the share of the blocks after which the others are skipped by another symbol

    def put(self, kind, symbol, value=0, size=0):
        self.items.append(((kind, self.chroma), symbol, value, size))

    def bits(self, values):
        self.items += [(None, 0, value, 1) for value in values]

    def skip(self):
        """Writes how many blocks had no symbols, and the bits of their coefficients."""
        if self.empty:
            size = self.empty.bit_length() - 1
            self.put(1, size << 4, self.empty - (1 << size), size)
            self.empty = 0
        self.bits(self.later)
        self.later = []

    def means(self, value, before, missing):
        size, bits = number((value >> missing) - (before >> missing))
        self.put(0, size, bits, size)

    def band(self, values, missing):
        """The upper bits of a block's coefficients."""
        values = np.sign(values) * (np.abs(values) >> missing)
        run = 0
        for value in values[: 1 + int(np.max(np.flatnonzero(values), initial=-1))]:
            if value == 0:
                run += 1
                continue
            self.skip()
            while run > 15:
                self.put(1, 0xF0)
                run -= 16
            size, bits = number(int(value))
            self.put(1, run << 4 | size, bits, size)
            run = 0
        if not len(values) or values[-1] == 0:
            self.empty += 1
            if self.empty == LONGEST_RUN or self.rng.random() < self.early:
                self.skip()

    def more_bits(self, values, missing):
        """The next bit of a block's coefficients."""
        sizes, run, own = np.abs(values) >> missing, 0, []
        last = int(np.max(np.flatnonzero(sizes == 1), initial=-1))
        for k, size in enumerate(sizes):
            if size == 0:
                run += 1
                continue
            while run > 15 and k <= last:
                self.skip()
                self.put(1, 0xF0)
                self.bits(own)
                run, own = run - 16, []
            if size > 1:
                own.append(int(size) & 1)
                continue
            self.skip()
            self.put(1, run << 4 | 1, int(values[k] > 0), 1)
            self.bits(own)
            run, own = 0, []
        if run or own:
            self.empty += 1
            self.later += own
            if self.empty == LONGEST_RUN or len(self.later) > 900 or self.rng.random() < self.early:
                self.skip()


def random_scans(count, rng, most_missing=3):
    """A random list of scans, complete and in a possible order: (components, first place, last place, missing before, after)."""

    def parts():
        cuts = [1, *sorted(set(rng.integers(2, 64, int(rng.integers(0, 4))).tolist())), 64]
        return [(a, b - 1) for a, b in pairwise(cuts)]

    low = int(rng.integers(most_missing + 1))
    means = [[(list(range(count)), 0, 0, 0, low)]]
    if rng.random() < 0.4:
        means = [[([c], 0, 0, 0, low) for c in range(count)]]
    means += [[(list(range(count)), 0, 0, bit + 1, bit)] for bit in reversed(range(low))]
    queues = [[scan for group in means for scan in group]]
    for c in range(count):
        low = int(rng.integers(most_missing + 1))
        own = [([c], *part, 0, low) for part in parts()]
        for bit in reversed(range(low)):
            own += [([c], *part, bit + 1, bit) for part in parts()]
        queues.append(own)
    scans = [queues[0].pop(0) for _ in range(count if len(means[0]) > 1 else 1)]
    while any(queues):
        queue = queues[int(rng.choice([i for i, queue in enumerate(queues) if queue]))]
        scans.append(queue.pop(0))
    return scans


def write_progressive(
    height, width, sampling, coefficients, factors, rng, *, scans=None, restart=0, fill=0, tail=b"", early=0.1
):
    """A progressive file of given coefficients, which are arranged as for `jpeg_files.write`."""
    count = len(coefficients)
    across, down = SAMPLINGS[sampling] or (1, 1)
    shape = [(across, down)] + [(1, 1)] * (count - 1)
    padding = b"\xff" * fill
    file = b"\xff\xd8" + segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0")
    for i in range(min(count, 2)):
        file += padding + segment(0xDB, bytes([i]) + bytes(int(x) for x in factors[i]))
    frame = struct.pack(">BHHB", 8, height, width, count)
    for c, (h, v) in enumerate(shape):
        frame += bytes([c + 1, h << 4 | v, min(c, 1)])
    file += padding + segment(0xC2, frame)
    if restart:
        file += segment(0xDD, struct.pack(">H", restart))
    for scan in random_scans(count, rng) if scans is None else scans:
        file += padding + _scan(scan, height, width, shape, coefficients, rng, restart, padding, early)
    return file + padding + b"\xff\xd9" + tail


def _units(components, height, width, shape):
    """The blocks of each unit of a scan: (component, row, column)."""
    across, down = shape[0]
    if len(components) == 1:
        h, v = shape[components[0]]
        columns, rows = -(-width * h // (8 * across)), -(-height * v // (8 * down))
        return [[(components[0], y, x)] for y in range(rows) for x in range(columns)]
    columns, rows = -(-width // (8 * across)), -(-height // (8 * down))
    return [
        [(c, y * shape[c][1] + j, x * shape[c][0] + i) for c in components for j, i in np.ndindex(shape[c][::-1])]
        for y in range(rows)
        for x in range(columns)
    ]


def _scan(scan, height, width, shape, coefficients, rng, restart, padding, early):
    components, first, last, before, missing = scan
    units = _units(components, height, width, shape)
    intervals = [units[i : i + restart] for i in range(0, len(units), restart)] if restart else [units]
    coded, used = [], {}
    for interval in intervals:
        symbols, previous = Symbols(rng, early), dict.fromkeys(components, 0)
        for c, y, x in (place for unit in interval for place in unit):
            block, symbols.chroma = coefficients[c][y, x], c > 0
            if first == 0 and before:
                symbols.bits([int(block[0]) >> missing & 1])
            elif first == 0:
                symbols.means(int(block[0]), previous[c], missing)
                previous[c] = int(block[0])
            else:
                (symbols.more_bits if before else symbols.band)(block[first : last + 1], missing)
        symbols.skip()
        coded.append(symbols.items)
        for table, symbol, _, _ in symbols.items:
            if table is not None:
                used.setdefault(table, set()).add(symbol)
    if first:
        used.setdefault((1, components[0] > 0), set())  # a scan of bits alone has a code, too
    data, codes = b"", {}
    for (kind, chroma), symbols in used.items():
        counts, order, codes[kind, chroma] = random_code(sorted(symbols | {0, 1}), rng)
        data += segment(0xC4, bytes([kind << 4 | chroma]) + bytes(counts) + bytes(order))
    selectors = b"".join(bytes([c + 1, (c > 0) << 4 | (c > 0)]) for c in components)
    data += segment(0xDA, bytes([len(components)]) + selectors + bytes([first, last, before << 4 | missing]))
    for i, items in enumerate(coded):
        bits = Bits()
        for table, symbol, value, size in items:
            if table is not None:
                bits.put(*codes[table][symbol])
            bits.put(value, size)
        data += bits.end()
        if i + 1 < len(coded):
            data += padding + bytes([0xFF, 0xD0 + i % 8])
    return data
