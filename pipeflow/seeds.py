"""Counter-based randomness: every random number is a function of (seed, operator, epoch, position, index).

There is no generator state, so the numbers do not depend on threads, processes, prefetching, batch
boundaries, shards or restarts. The function is two rounds of a 64-bit finaliser (xor-shift-multiply, the constants
are Stafford's thirteenth mix): ``number(key, index) = mix(key ^ mix(index * GOLDEN + GOLDEN))``. Streams that start at
random places can overlap, but two keys never share a part of their numbers. GPU kernels compute the same function.
"""

import ctypes
import hashlib
import math
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

GOLDEN = 0x9E3779B97F4A7C15
_MASK = 0xFFFFFFFFFFFFFFFF
_M1, _M2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
# Compiled functions that write the results of `keys_of` and `unit` to an array, if a program has loaded them
# (kernels/cpu/keys.py).
compiled: tuple[Callable[..., None], Callable[..., None]] | None = None
_U = np.uint64
_S30, _S27, _S31, _S11, _S32 = _U(30), _U(27), _U(31), _U(11), _U(32)
_LOW = _U(0xFFFFFFFF)
_U1, _U2, _UG = _U(_M1), _U(_M2), _U(GOLDEN)
_TWO_POW_53 = 1.0 / (1 << 53)
ROOT_HALF, LOG_2 = math.sqrt(0.5), math.log(2.0)


def mix(x: int) -> int:
    """The 64-bit finaliser on a Python integer."""
    x = ((x ^ (x >> 30)) * _M1) & _MASK
    x = ((x ^ (x >> 27)) * _M2) & _MASK
    return x ^ (x >> 31)


def mix_array(x: np.ndarray) -> np.ndarray:
    """The same finaliser on an array of uint64, elementwise."""
    y = (
        x >> _S30
    )  # the steps write to two arrays: new memory for each takes as long as the arithmetic on a hundred numbers
    y ^= x
    y *= _U1
    z = y >> _S27
    z ^= y
    z *= _U2
    np.right_shift(z, _S31, out=y)
    y ^= z
    return y


def system_seed() -> int:
    """A fresh seed from the operating system, small enough to be typed again."""
    return int.from_bytes(os.urandom(4), "little")


def node_key(seed: int, name: str) -> int:
    """The key of one random operator, computed from its (or the pipeline's) seed and its name in the recording."""
    digest = hashlib.blake2b(name.encode(), digest_size=8, salt=b"pipeflow").digest()
    return mix((seed & _MASK) ^ mix(int.from_bytes(digest, "little")))


def key_of(own: int | None, seed: int, name: str) -> int:
    """The key of a random operator in a pipeline with this seed: with a seed of its own, operators draw the same numbers, so that
    an image and its mask can be cropped by two operators with one seed; otherwise each has its own numbers.
    """
    return node_key(seed, name) if own is None else node_key(own, "")


def sample_keys(key: int, positions: np.ndarray, epochs: "int | np.ndarray" = 0) -> np.ndarray:
    """The keys (uint64) of samples at one operator, from their positions and their epoch (or epochs)."""
    return keys_at(key, *place_of(positions, epochs))


def place_of(positions: np.ndarray, epochs: "int | np.ndarray") -> tuple[np.ndarray, Any]:
    """The part of the keys of samples that is the same at all operators."""
    where = mix_array(positions.astype(np.uint64) * _UG + _UG)
    if isinstance(epochs, np.ndarray) and epochs.size and (epochs == epochs.flat[0]).all():
        epochs = int(epochs.flat[0])  # of nearly every batch: one number in place of as many as there are samples
    if isinstance(epochs, int):
        return where, _U(mix((epochs * _M2 + _M1) & _MASK))
    return where, mix_array(np.atleast_1d(np.asarray(epochs, np.uint64)) * _U2 + _U1)


def keys_at(key: Any, where: np.ndarray, when: Any) -> np.ndarray:
    """The keys of the samples at one operator; a column of keys gives a row for each of several operators."""
    return mix_array(mix_array(where ^ np.asarray(key, np.uint64)) ^ when)


def keys_of(keys: np.ndarray, positions: np.ndarray, epochs: "int | np.ndarray") -> np.ndarray:
    """The keys of the samples at several operators: a row for each."""
    if compiled is not None and len(positions) and _column(positions, np.int64):
        each = epochs if isinstance(epochs, np.ndarray) else np.full(len(positions), epochs)
        if each.shape == positions.shape and _column(each, np.int64):
            out = np.empty((len(keys), len(positions)), np.uint64)
            compiled[0](keys, positions, each, out)
            return out
    return keys_at(keys[:, None], *place_of(positions, epochs))


def _column(array: np.ndarray, dtype: Any) -> bool:
    return array.ndim == 1 and array.dtype == dtype and array.flags.c_contiguous


_FIRST, _NOW = mix(GOLDEN), mix(_M1)  # position 0 and epoch 0


def first_key(key: int) -> int:
    """The key of the first sample of the first epoch, as a Python integer."""
    x = key & _MASK ^ _FIRST  # `mix` twice, without its calls: every eager call of a random operator needs this key
    x = ((x ^ (x >> 30)) * _M1) & _MASK
    x = ((x ^ (x >> 27)) * _M2) & _MASK
    x ^= (x >> 31) ^ _NOW
    x = ((x ^ (x >> 30)) * _M1) & _MASK
    x = ((x ^ (x >> 27)) * _M2) & _MASK
    return x ^ (x >> 31)


def _counters(count: int, start: int = 0) -> np.ndarray:
    return mix_array(np.arange(start + 1, start + count + 1, dtype=np.uint64) * _UG)


_FEW_COUNTERS = _counters(64)  # of the numbers that are drawn most often


def bits(keys: Any, count: int, start: int = 0) -> np.ndarray:
    """uint64 random bits of shape ``keys.shape + (count,)``: numbers start .. start+count-1 of every key."""
    keys = np.asarray(keys, dtype=np.uint64)
    end = start + count
    counters = _FEW_COUNTERS[start:end] if start >= 0 and end <= len(_FEW_COUNTERS) else _counters(count, start)
    return mix_array(keys[..., None] ^ counters)


def bits_at(keys: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The random bits with these numbers of the keys; both are broadcast to one shape."""
    few = numbers.size and numbers.max() < len(_FEW_COUNTERS)
    counters = _FEW_COUNTERS[numbers] if few else mix_array((numbers + 1).astype(np.uint64) * _UG)
    return mix_array(keys ^ counters)


def units_of(bits: np.ndarray) -> np.ndarray:
    """The floats in [0, 1) that Key.unit makes from random bits."""
    return (bits >> _S11) * _TWO_POW_53


def integers_of(bits: np.ndarray, below: np.ndarray) -> np.ndarray:
    """The integers from 0 that Key.integer makes from random bits; ``below`` is less than 2**32."""
    below = below.astype(np.uint64)
    high, low = bits >> _S32, bits & _LOW
    return ((high * below + (low * below >> _S32)) >> _S32).astype(np.int64)


def unit(keys: Any, count: int, start: int = 0) -> np.ndarray:
    """float64 numbers in [0, 1)."""
    few = start >= 0 and start + count <= len(_FEW_COUNTERS)
    if compiled is not None and few and isinstance(keys, np.ndarray) and _column(keys, np.uint64):
        out = np.empty((len(keys), count))
        compiled[1](keys, _FEW_COUNTERS[start : start + count], out)
        return out
    return units_of(bits(keys, count, start))


def standard_normal(keys: Any, count: int, start: int = 0) -> np.ndarray:
    """float64 standard normal numbers; number i uses the random bits 2i and 2i+1, so a prefix never changes."""
    return normals_of(unit(keys, 2 * count, 2 * start))


# Taylor series: of log(v) / 2s by s * s with s = (v - 1) / (v + 1), and of sin(a) / a and cos(a) by a * a.
LOGARITHM = tuple(1.0 / (2 * k + 1) for k in range(11))
SINE = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(9))
COSINE = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(9))


def normals_of(pair: np.ndarray) -> np.ndarray:
    """The standard normal numbers that are made from pairs of numbers in [0, 1): sqrt(-2 log(1 - first)) cos(2 pi second).

    It uses only operations whose results are the same on every processor: sums, products, quotients and roots. Compiled code does
    the same in the same order (kernels/cpu/draws.py): it returns the same bits in a seventh of the time.
    """
    fraction, power = np.frexp(1.0 - pair[..., 0::2])  # 1 - x has no rounding: x is a multiple of 2**-53
    small = fraction < ROOT_HALF
    fraction, power = np.where(small, 2.0 * fraction, fraction), power - small  # from sqrt(1/2) to sqrt(2)
    s = (fraction - 1.0) / (fraction + 1.0)
    logarithm = 2.0 * s * _polynomial(LOGARITHM, s * s) + power * LOG_2
    turn = pair[..., 1::2]
    quarter = np.floor(4.0 * turn + 0.5)
    angle = (turn - 0.25 * quarter) * (2.0 * np.pi)  # at most an eighth of a turn from one of four directions
    square = angle * angle
    odd = quarter % 2 == 1
    cosine = np.where(odd, angle * _polynomial(SINE, square), _polynomial(COSINE, square))
    cosine = np.where((quarter == 1) | (quarter == 2), -cosine, cosine)
    return np.sqrt(-2.0 * logarithm) * cosine


def _polynomial(coefficients: tuple[float, ...], x: np.ndarray) -> np.ndarray:
    result = np.asarray(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = result * x + coefficient
    return result


_COUNTERS = [int(counter) for counter in _FEW_COUNTERS]


class Key:
    """The random numbers of one sample at one operator; the same call always returns the same number."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        # one key as a Python integer; in a call for a whole column, an array of keys
        self.value: Any = value

    def __repr__(self) -> str:
        return f"Key({self.value!r})"

    def bits(self, index: int) -> int:
        """64 random bits number ``index``."""
        x = self.value ^ (_COUNTERS[index] if 0 <= index < 64 else mix((index + 1) * GOLDEN & _MASK))
        x = ((x ^ (x >> 30)) * _M1) & _MASK  # `mix` without its call
        x = ((x ^ (x >> 27)) * _M2) & _MASK
        return x ^ (x >> 31)

    def unit(self, index: int) -> float:
        """A float in [0, 1), number ``index``."""
        return (self.bits(index) >> 11) * _TWO_POW_53

    def uniform(self, index: int, low: float, high: float) -> float:
        """A float in [low, high), number ``index``."""
        return low + (high - low) * self.unit(index)

    def integer(self, index: int, low: int, high: int) -> int:
        """An integer in [low, high), number ``index``."""
        return low + ((self.bits(index) * (high - low)) >> 64)

    def units(self, count: int, start: int = 0) -> np.ndarray:
        """An array of floats in [0, 1)."""
        return unit(self.value, count, start)

    def normals(self, count: int, start: int = 0) -> np.ndarray:
        """An array of standard normal numbers."""
        return standard_normal(self.value, count, start)

    def generator(self) -> "np.random.Generator":
        """A new NumPy generator with this key, for code that needs a generator."""
        return KeyedGenerator().rekey(self.state())

    def borrowed(self) -> "np.random.Generator":
        """This thread's generator for operators, set to the key: for numbers that are drawn at once, without other calls
        in between. It takes a tenth of the time of a new one.
        """
        return own_generator().rekey(self.state())

    def state(self) -> list[int]:
        """The state of a generator with this key, for KeyedGenerator.rekey."""
        value = int(self.value)
        return [*[mix(value ^ counter) for counter in _STATE_COUNTERS], 1, 0]


_THREAD = threading.local()


def own_generator() -> "KeyedGenerator":
    """The generator of this thread."""
    keyed = getattr(_THREAD, "keyed", None)
    if keyed is None:
        keyed = _THREAD.keyed = KeyedGenerator()
    return keyed


_STATE = 1 << 40  # the first of the three numbers that are the state of a generator
_STATE_COUNTERS = [mix((_STATE + index + 1) * GOLDEN & _MASK) for index in range(3)]


def generator_states(keys: np.ndarray) -> np.ndarray:
    """Generator states (n, 5 words) of the given keys, for KeyedGenerator.rekey."""
    states = np.zeros((len(keys), 5), np.uint64)
    states[:, :3] = bits(keys, 3, start=_STATE)
    states[:, 3] = 1  # SFC64's own counter starts at one; 0 in the fifth word means that no half of a number is kept
    return states


class KeyedGenerator:
    """One NumPy generator that can be set to any sample's key.

    It writes the five words of the state directly into the generator's memory, which takes 0.15 us; the ``state``
    property takes 1 us, and a new generator 12 us. The address is public, and the order of the words is checked at
    construction: if a version of NumPy has another order, the property is used.
    """

    __slots__ = ("_bit_generator", "_state", "_words", "generator")

    def __init__(self) -> None:
        self._bit_generator = np.random.SFC64(0)
        self.generator = np.random.Generator(self._bit_generator)
        self._state = self._bit_generator.state
        self._words: np.ndarray | None = None
        address = self._bit_generator.ctypes.state_address
        words = np.ctypeslib.as_array((ctypes.c_uint64 * 5).from_address(address))
        if np.array_equal(words[:4], self._state["state"]["state"]) and words[4] == 0:
            self._words = words

    def rekey_by(self, write: Callable[[int, np.ndarray], None], key: int) -> "np.random.Generator":
        """`rekey` by a compiled function that writes the state of a key."""
        if self._words is None:
            return self.rekey(Key(key).state())
        write(key, self._words)
        return self.generator

    def rekey(self, state: "np.ndarray | list[int]") -> "np.random.Generator":
        """The generator, set to the beginning of the numbers of ``state``."""
        if self._words is not None:
            self._words[:] = state
        else:
            self._state["state"]["state"] = np.array(state[:4], np.uint64)
            self._state["has_uint32"] = 0
            self._bit_generator.state = self._state
        return self.generator
