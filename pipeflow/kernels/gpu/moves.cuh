// The common parts of the kernels that move boxes of elements: their rows, and groups of neighbours.
#pragma once
#include "ragged.cuh"

const int AXES = 6;

struct MoveRow {
  const void* input;
  void* output;
  const void* input_end;      // end of the sample with the box
  unsigned total;             // elements of a box, or cells of all runs
  unsigned run;               // bytes that are next to each other in input and output, for move_runs
  int ndim;
  unsigned extents[AXES];     // innermost first
  unsigned multipliers[AXES]; // quotients without a division: (mulhi(n, multiplier) + n) >> shift
  int shifts[AXES];
  long long inputs[AXES];     // strides, in elements; in bytes for move_runs
  long long outputs[AXES];
};

// Offsets of element n of a box, from its coordinates along all axes.
__device__ __forceinline__ void offsets_of(const MoveRow& row, unsigned n, int axis, long long& from, long long& to) {
  for (; axis < row.ndim; ++axis) {
    const unsigned rest = (__umulhi(n, row.multipliers[axis]) + n) >> row.shifts[axis];
    const long long i = n - rest * row.extents[axis];
    from += i * row.inputs[axis];
    to += i * row.outputs[axis];
    n = rest;
  }
}

struct Three { unsigned char at[3]; };  // a pixel

// The type in which four neighbours are stored at once, and their alignment.
template <class T> struct Joined { static const int alignment = sizeof(T) * 4; };
template <> struct Joined<Three> { static const int alignment = 4; };

template <class T> struct alignas(sizeof(T) * 4) Four { T at[4]; };

template <class T> __device__ __forceinline__ void store_four(T* output, const T (&value)[4]) {
  Four<T> word;
#pragma unroll
  for (int k = 0; k < 4; ++k) word.at[k] = value[k];
  *(Four<T>*)output = word;
}

template <> __device__ __forceinline__ void store_four<Three>(Three* output, const Three (&value)[4]) {
  unsigned* words = (unsigned*)output;
#pragma unroll
  for (int word = 0; word < 3; ++word) {
    unsigned bits = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) bits |= (unsigned)value[(word * 4 + k) / 3].at[(word * 4 + k) % 3] << (8 * k);
    words[word] = bits;
  }
}
