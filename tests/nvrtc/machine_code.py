"""What the code of a kernel says of itself: registers, bytes of stack and accesses to memory, read from the ELF file of NVRTC.

Each function has its entries in the section ``.nv.info``: a byte of form, a byte of kind, two bytes of size, and for those
read here the number of a symbol and a value.
"""

import struct
from collections import Counter

STACK, REGISTERS = 0x11, 0x2F  # kinds of entries
SIZED = 0x04  # the form of an entry with bytes of its own


def sections_of(code):
    """The sections of a 64-bit ELF file, by name: type, bytes and size of an entry."""
    (start,) = struct.unpack_from("<Q", code, 40)
    size, count, names = struct.unpack_from("<HHH", code, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", code, start + size * number) for number in range(count)]
    base = headers[names][4]
    found = {}
    for name, kind, _, _, offset, length, _, _, _, entry in headers:
        end = code.index(b"\0", base + name)
        found[code[base + name : end].decode()] = (kind, code[offset : offset + length], entry)
    return found


def facts_of(code):
    """By the name of each function: its registers, and the bytes of stack of a thread."""
    sections = sections_of(code)
    (_, symbols, entry), (_, texts, _) = sections[".symtab"], sections[".strtab"]
    names = []
    for place in range(0, len(symbols), entry):
        (name,) = struct.unpack_from("<I", symbols, place)
        names.append(texts[name : texts.index(b"\0", name)].decode())
    found = {}
    info, place = sections[".nv.info"][1], 0
    while place < len(info):
        form, kind, size = struct.unpack_from("<BBH", info, place)
        if form == SIZED:
            if kind in (STACK, REGISTERS):
                symbol, value = struct.unpack_from("<II", info, place + 4)
                found.setdefault(names[symbol], {})[kind] = value
            place += 4 + size
        else:
            place += 4
    return {name: (values.get(REGISTERS, 0), values.get(STACK, 0)) for name, values in found.items()}


# Accesses to memory by the last nine bits of an instruction, since sm_70. "LD" and "ST" look up which memory an address is of,
# those of "LDL" and "STL" are in the memory of a thread.
ACCESSES = {0x180: "LD", 0x181: "LDG", 0x183: "LDL", 0x185: "ST", 0x186: "STG", 0x187: "STL"}
BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 8, 6: 16}  # of one access, by three of its bits


def accesses_of(code, name):
    """How often a function has each access to memory, by its name and number of bytes, and its number of instructions."""
    _, text, _ = sections_of(code)[f".text.{name}"]
    found = Counter()
    for first, second in struct.iter_unpack("<QQ", text):
        access = ACCESSES.get(first & 0x1FF)
        if access:
            found[access, BYTES.get(second >> 9 & 7, 0)] += 1
    return found, len(text) // 16
