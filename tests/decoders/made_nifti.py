"""NIfTI files made by the tests."""

import struct

CODES = {"u1": 2, "i2": 4, "i4": 8, "f4": 16, "f8": 64, "i1": 256, "u2": 512, "u4": 768, "i8": 1024, "u8": 1280}


def nifti(array, *, version=1, order="<", slope=0.0, intercept=0.0, code=None, magic=None, extents=None):
    """A file of an array whose axes are width, height, depth, time ..., the first varying fastest."""
    size = 348 if version == 1 else 540
    head = bytearray(size + 4)
    extents = [array.ndim, *array.shape, *[1] * (7 - array.ndim)] if extents is None else extents
    code = CODES[array.dtype.str[1:]] if code is None else code
    struct.pack_into(order + "i", head, 0, size)
    if version == 1:
        struct.pack_into(order + "8h", head, 40, *extents)
        struct.pack_into(order + "2h", head, 70, code, 8 * array.itemsize)
        struct.pack_into(order + "3f", head, 108, size + 4, slope, intercept)
        head[344:348] = b"n+1\0" if magic is None else magic
    else:
        head[4:12] = b"n+2\0\r\n\x1a\n" if magic is None else magic
        struct.pack_into(order + "2h", head, 12, code, 8 * array.itemsize)
        struct.pack_into(order + "8q", head, 16, *extents)
        struct.pack_into(order + "q2d", head, 168, size + 4, slope, intercept)
    return bytes(head) + array.astype(array.dtype.newbyteorder(order)).tobytes(order="F")
