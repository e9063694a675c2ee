// Moves boxes of elements from one place to another: crop, slice, pad, transpose, flip, cat, stack, copies.
//
// A box has up to six axes, each with a stride in the input and in the output; axes that can be joined are joined
// (operators/on_gpu/moves.py). A stride of 0 repeats an element, to fill; a negative stride mirrors. Indices within a box have
// 32 bits: a larger box has several rows.
// instances: move<WORD>; move<Three>; move_runs<unsigned char>
#include "moves.cuh"

// Moves elements one by one. A thread moves four neighbours of small elements, so that they can be stored as words; if they
// follow one another along the innermost axis, all four have one offset. For wider elements, neighbouring threads move
// neighbours.
template <class T>
__global__ void move(const MoveRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const MoveRow& row = rows[place.row];
  const T* input = global((const T*)row.input);
  T* output = global((T*)row.output);
  const bool joined = sizeof(T) < 4;
  const unsigned start = (unsigned)place.block * 2048;
#pragma unroll 1
  for (unsigned round = 0; round < 2; ++round) {
    const unsigned n = start + round * 1024 + threadIdx.x * (joined ? 4 : 1);
    const unsigned step = joined ? 1 : 256;
    long long from[4] = {}, to[4] = {};
    T value[4];
    if (joined && n + 3 < row.total) {
      const unsigned rest = (__umulhi(n, row.multipliers[0]) + n) >> row.shifts[0];
      const unsigned i = n - rest * row.extents[0];
      if (i + 3 < row.extents[0]) {
        const long long across = row.inputs[0], along = row.outputs[0];
        long long begin = i * across, goal = i * along;
        offsets_of(row, rest, 1, begin, goal);
#pragma unroll
        for (int k = 0; k < 4; ++k) value[k] = input[begin + k * across];
        if (along == 1 && ((unsigned long long)(output + goal) & (Joined<T>::alignment - 1)) == 0) {
          store_four(output + goal, value);
        } else {
#pragma unroll
          for (int k = 0; k < 4; ++k) output[goal + k * along] = value[k];
        }
        continue;
      }
    }
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (n + k * step < row.total) {
        offsets_of(row, n + k * step, 0, from[k], to[k]);
        value[k] = input[from[k]];
      }
    if (joined && n + 3 < row.total && to[1] == to[0] + 1 && to[2] == to[0] + 2 && to[3] == to[0] + 3 &&
        ((unsigned long long)(output + to[0]) & (Joined<T>::alignment - 1)) == 0) {
      store_four(output + to[0], value);
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (n + k * step < row.total) output[to[k]] = value[k];
    }
  }
}

// Moves runs of bytes. A thread fills a cell of 16 aligned bytes of the output from any place in the input. Axis 0 counts the
// cells of a run; the first and the last cell may be cut.
template <class Byte>
__global__ void move_runs(const MoveRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const MoveRow& row = rows[place.row];
  const unsigned start = (unsigned)place.block * 1024;
#pragma unroll
  for (unsigned round = 0; round < 4; ++round) {
    const unsigned n = start + round * 256 + threadIdx.x;
    if (n >= row.total) return;
    const unsigned line = (__umulhi(n, row.multipliers[0]) + n) >> row.shifts[0];
    const unsigned cell = n - line * row.extents[0];
    long long from = 0, to = 0;
    offsets_of(row, line, 1, from, to);
    const Byte* input = global((const Byte*)row.input) + from;
    Byte* output = global((Byte*)row.output) + to;
    // the cell's place, counted from the start of the run, which is somewhere in the first cell
    const long long begin = (long long)cell * 16 - (long long)((unsigned long long)output & 15);
    const long long end = begin + 16;
    const Byte* source = input + begin;
    if (begin >= 0 && end <= row.run) {
      const unsigned odd = (unsigned)((unsigned long long)source & 3);
      const unsigned* words = (const unsigned*)(source - odd);
      if (((unsigned long long)source & 15) == 0) {
        *(uint4*)(output + begin) = *(const uint4*)source;
        continue;
      }
      if (odd == 0) {
        *(uint4*)(output + begin) = uint4{words[0], words[1], words[2], words[3]};
        continue;
      }
      // Whole words around the bytes, if they are in the memory of the sample: not at its start and its end.
      if (words >= row.input && words + 5 <= row.input_end) {
        const unsigned w1 = words[1], w2 = words[2], w3 = words[3], bits = odd * 8;
        *(uint4*)(output + begin) = uint4{__funnelshift_r(words[0], w1, bits), __funnelshift_r(w1, w2, bits),
                                          __funnelshift_r(w2, w3, bits), __funnelshift_r(w3, words[4], bits)};
        continue;
      }
    }
    for (long long i = max(begin, 0LL); i < min(end, (long long)row.run); ++i) output[i] = input[i];
  }
}
