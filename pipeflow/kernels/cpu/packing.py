"""Packs documents into rows of one length. The longest comes first; each goes to the row with the least room that is enough."""

import numpy as np

from .jit import kernel

# The place of the lowest bit of a power of two, by the top six bits of its product with this number.
_PRODUCT = np.uint64(0x03F79D71B4CB0A89)
_PLACES = np.zeros(64, np.int64)
for _bit in range(64):
    _PLACES[((1 << _bit) * int(_PRODUCT) & 0xFFFFFFFFFFFFFFFF) >> 58] = _bit


@kernel
def lowest(word):
    """The number of the lowest bit that is set."""
    return _PLACES[((word & (~word + np.uint64(1))) * _PRODUCT) >> np.uint64(58)]


@kernel
def first_from(words, summary, start):
    """The first number from `start` on whose bit is set, -1 if there is none; `summary` has a bit for every word
    that is not 0.
    """
    at = start >> 6
    word = words[at] >> np.uint64(start & 63)
    if word:
        return start + lowest(word)
    at += 1
    if at >= words.size:
        return -1
    block = at >> 6
    rest = summary[block] >> np.uint64(at & 63)
    if rest:
        at += lowest(rest)
        return (at << 6) + lowest(words[at])
    for other in range(block + 1, summary.size):
        if summary[other]:
            at = (other << 6) + lowest(summary[other])
            return (at << 6) + lowest(words[at])
    return -1


@kernel
def best_fit(lengths, capacity):
    """Returns (documents row after row, the start of each row among them). No length is above `capacity`, and documents of
    length 0 are left out.
    """
    starts = np.zeros(capacity + 2, np.int64)  # the start of each length, from the longest on
    for length in lengths:
        starts[capacity - length + 1] += 1
    for length in range(capacity + 1):
        starts[length + 1] += starts[length]
    count = starts[capacity]
    order = np.empty(count, np.int32)
    for document in range(lengths.size):
        length = lengths[document]
        if length:
            order[starts[capacity - length]] = document
            starts[capacity - length] += 1
    rows = np.empty(count, np.int32)
    head = np.full(capacity + 1, -1, np.int32)  # the first of the rows with this much room
    following = np.empty(count, np.int32)
    words = np.zeros((capacity >> 6) + 1, np.uint64)
    summary = np.zeros((words.size >> 6) + 1, np.uint64)
    one = np.uint64(1)
    used = 0
    before, room = -1, -1
    for place in range(count):
        length = np.int64(lengths[order[place]])
        if length != before or room < 0 or head[room] < 0:
            room = first_from(words, summary, length)
            before = length
        if room < 0:
            row, left = used, capacity - length
            used += 1
        else:
            row, left = head[room], room - length
            head[room] = following[row]
            if head[room] < 0:
                words[room >> 6] &= ~(one << np.uint64(room & 63))
                if not words[room >> 6]:
                    summary[room >> 12] &= ~(one << np.uint64((room >> 6) & 63))
        rows[place] = row
        if left:
            following[row] = head[left]
            if head[left] < 0:
                words[left >> 6] |= one << np.uint64(left & 63)
                summary[left >> 12] |= one << np.uint64((left >> 6) & 63)
            head[left] = row
            if left >= length and (room < 0 or left < room):
                room = left
    offsets = np.zeros(used + 2, np.int32)
    for row in rows:
        offsets[row + 2] += 1
    for row in range(used):
        offsets[row + 2] += offsets[row + 1]
    members = np.empty(count, np.int32)
    for place in range(count):
        row = rows[place]
        members[offsets[row + 1]] = order[place]
        offsets[row + 1] += 1
    return members, offsets[: used + 1]


@kernel
def in_order(lengths, capacity):
    """The same for rows that are filled in the order of the documents: a row ends if the next document has no room."""
    members = np.empty(lengths.size, np.int32)
    offsets = np.empty(lengths.size + 1, np.int64)
    used = count = room = 0
    for document in range(lengths.size):
        length = lengths[document]
        if length > room:
            offsets[used] = count
            used += 1
            room = np.int64(capacity)
        if length:
            members[count] = document
            count += 1
            room -= length
    offsets[used] = count
    return members[:count], offsets[: used + 1]


@kernel
def cut(lengths, rows, tokens):
    """The ends of batches. A batch has as many items as fit: at most `rows`, and at most `tokens` tokens if all are padded to
    the longest.
    """
    ends = np.empty(lengths.size, np.int64)
    used = count = longest = 0
    for place in range(lengths.size):
        length = max(longest, lengths[place])
        if count == rows or (count > 0 and (count + 1) * length > tokens):
            ends[used] = place
            used += 1
            count = 0
            length = lengths[place]
        count += 1
        longest = length
    if count:
        ends[used] = lengths.size
        used += 1
    return ends[:used]
