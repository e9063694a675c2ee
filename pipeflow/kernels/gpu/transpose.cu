// Moves boxes whose innermost axis differs between input and output, so that both are accessed in the order of their memory.
//
// Axis 0 of a row is the innermost axis of the output, axis 1 that of the input. The multipliers and shifts of these two are for
// their numbers of blocks (operators/on_gpu/transposes.py).
// instances: transpose<WORD>; transpose<Three>; split_pixels<WORD>; join_pixels<WORD>
#include "moves.cuh"

const int THREADS = 256;

// The tile of a block in shared memory. A column of it is a line of the output, and its pitch is an odd number of words: so
// threads that store to neighbouring columns, or load from neighbouring cells, use different banks.
template <class T> struct Tile {
  typedef T Cell;
  static const int side = sizeof(T) <= 2 ? 64 : 32;
  static const int pitch = sizeof(T) >= 4 ? side + 1 : side + 4 / (int)sizeof(T);
  static const int group = sizeof(T) >= 4 ? 1 : 4 / (int)sizeof(T);  // elements that a thread stores at once
};
template <> struct Tile<Three> {
  typedef unsigned Cell;
  static const int side = 32, pitch = 33, group = 4;
};

__device__ __forceinline__ unsigned cell_of(Three x) { return x.at[0] | x.at[1] << 8 | (unsigned)x.at[2] << 16; }
template <class T> __device__ __forceinline__ T cell_of(T x) { return x; }

// Stores neighbours of a column. WHOLE: all of them are stored, at an address that is a multiple of four.
template <bool WHOLE, class T> __device__ __forceinline__ void store_cells(T* output, const T* cells, int count) {
  typedef Tile<T> tile;
  if constexpr (tile::group == 1) {
    NOTE_SHARED(cells);
    *output = *cells;
  } else {
    struct alignas(4) Group { T at[tile::group]; };
    NOTE_SHARED((const Group*)cells);
    const Group word = *(const Group*)cells;
    if (WHOLE) {
      *(Group*)output = word;
    } else {
#pragma unroll
      for (int k = 0; k < tile::group; ++k)
        if (k < count) output[k] = word.at[k];
    }
  }
}

template <bool WHOLE> __device__ __forceinline__ void store_cells(Three* output, const unsigned* cells, int count) {
  unsigned x[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    NOTE_SHARED(cells + k);
    x[k] = cells[k];
  }
  if (WHOLE) {
    unsigned* words = (unsigned*)output;
    words[0] = __byte_perm(x[0], x[1], 0x4210);
    words[1] = __byte_perm(x[1], x[2], 0x5421);
    words[2] = __byte_perm(x[2], x[3], 0x6542);
  } else {
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (k < count) output[k] = {{(unsigned char)x[k], (unsigned char)(x[k] >> 8), (unsigned char)(x[k] >> 16)}};
  }
}

// The place of a thread in a tile: it loads cells of the line `x`, and stores groups of cells from `along` on. Neighbouring
// threads load along axis 1 and store along axis 0. Two columns of bytes that a warp reads at once are 16 apart, so they are in
// different banks.
template <class T> struct Threads {
  typedef Tile<T> tile;
  static const int rows = THREADS / tile::side, lanes = tile::side / tile::group, columns = THREADS / lanes;
  int x, y, along, own;
  __device__ __forceinline__ Threads(int t)
      : x(t % tile::side), y(t / tile::side), along(t % lanes * tile::group),
        own(lanes == 16 ? (t / lanes & 1) * 16 + (t / lanes >> 1) : t / lanes) {}
  // The column of store k, counted from the first.
  static __device__ __forceinline__ int column(int k) { return lanes == 16 ? (k & 1) * 8 + (k >> 1) * 32 : k * columns; }
};

// Moves one tile, of which `height` lines and `width` columns remain; `input` and `output` are the addresses of the thread.
template <bool WHOLE, class T>
__device__ __forceinline__ void move_tile(typename Tile<T>::Cell* cells, const Threads<T>& at, const T* input, T* output,
                                          long long step, long long line, int height, int width) {
  typedef Tile<T> tile;
  typename tile::Cell* cell = cells + at.x * tile::pitch + at.y;
  const bool inside = WHOLE || at.x < width;
#pragma unroll
  for (int k = 0; k < tile::side; k += Threads<T>::rows) {
    if (WHOLE || (inside && at.y + k < height)) {
      NOTE_SHARED(cell + k);
      cell[k] = cell_of(*input);
    }
    input += Threads<T>::rows * step;
  }
  __syncthreads();
  cell = cells + at.own * tile::pitch + at.along;
#pragma unroll
  for (int k = 0; k < tile::side / Threads<T>::columns; ++k) {
    const int column = Threads<T>::column(k);
    if (WHOLE || (at.own + column < width && at.along < height))
      store_cells<WHOLE>(output, cell + column * tile::pitch, height - at.along);
    output += (Threads<T>::column(k + 1) - column) * line;
  }
  __syncthreads();
}

// A block moves up to four tiles that follow one another along axis 0.
template <class T>
__global__ void __launch_bounds__(256, 5) transpose(const MoveRow* __restrict__ rows, const int* __restrict__ first, int count) {
  typedef Tile<T> tile;
  const int SIDE = tile::side, TILES = 4;
  alignas(16) __shared__ typename tile::Cell cells[SIDE * tile::pitch];
  const Place place = place_of_block(first, count);
  const MoveRow& row = rows[place.row];
  const unsigned n = (unsigned)place.block;
  const unsigned high = (__umulhi(n, row.multipliers[0]) + n) >> row.shifts[0];
  const unsigned outer = (__umulhi(high, row.multipliers[1]) + high) >> row.shifts[1];
  const int height = (int)row.extents[0], width = (int)row.extents[1];
  const int down = (height + SIDE * TILES - 1) / (SIDE * TILES), across = (width + SIDE - 1) / SIDE;
  const int top = (int)(n - high * down) * SIDE * TILES, left = (int)(high - outer * across) * SIDE;
  long long from = 0, to = 0;
  offsets_of(row, outer, 2, from, to);
  const Threads<T> at((int)threadIdx.x);
  const long long step = row.inputs[0], line = row.outputs[1];
  const T* input = global((const T*)row.input) + from + (left + at.x) + (top + at.y) * step;
  T* output = global((T*)row.output) + to + (top + at.along) + (left + at.own) * line;
  const bool words = tile::group == 1 || ((((unsigned long long)output | (unsigned long long)(line * sizeof(T))) & 3) == 0);
  const bool wide = left + SIDE <= width && words;
#pragma unroll 1
  for (int start = top; start < min(top + SIDE * TILES, height); start += SIDE) {
    if (wide && start + SIDE <= height) move_tile<true>(cells, at, input, output, step, line, SIDE, SIDE);
    else move_tile<false>(cells, at, input, output, step, line, height - start, width - left);
    input += SIDE * step;
    output += SIDE;
  }
}

// Twelve values from memory: four pixels of three channels, or four neighbours of each of three planes.
template <class T> struct Dozen { T at[12]; };

template <class T> __device__ __forceinline__ bool on_groups(const T* data) {
  return ((unsigned long long)data & (alignof(Four<T>) - 1)) == 0;
}

template <class T>
__device__ __forceinline__ void load_pixels(Dozen<T>& v, const T* input, const void* begin, const void* end) {
  if constexpr (sizeof(T) == 1) {
    const unsigned odd = (unsigned)((unsigned long long)input & 3), bits = odd * 8;
    const unsigned* words = (const unsigned*)(input - odd);
    if (words >= begin && words + 4 <= end) {
      const unsigned a = words[0], b = words[1], c = words[2], d = odd ? words[3] : 0;
      const unsigned whole[3] = {__funnelshift_r(a, b, bits), __funnelshift_r(b, c, bits), __funnelshift_r(c, d, bits)};
#pragma unroll
      for (int k = 0; k < 12; ++k) v.at[k] = (T)(whole[k / 4] >> (8 * (k % 4)));
      return;
    }
  } else if (on_groups(input)) {
#pragma unroll
    for (int k = 0; k < 3; ++k) {
      const Four<T> part = ((const Four<T>*)input)[k];
#pragma unroll
      for (int j = 0; j < 4; ++j) v.at[4 * k + j] = part.at[j];
    }
    return;
  }
#pragma unroll
  for (int k = 0; k < 12; ++k) v.at[k] = input[k];
}

template <class T> __device__ __forceinline__ void load_plane(T (&v)[4], const T* input) {
  if (on_groups(input)) {
    const Four<T> part = *(const Four<T>*)input;
#pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = part.at[k];
  } else {
#pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = input[k];
  }
}

template <class T> __device__ __forceinline__ void store_plane(T* output, const T (&v)[4]) {
  if (on_groups(output)) {
    store_four(output, v);
  } else {
#pragma unroll
    for (int k = 0; k < 4; ++k) output[k] = v[k];
  }
}

// Calls whole(number) for each group of four pixels in this block's part of a line, and last(number) for pixels after the groups.
const unsigned SHARE = 4096;

template <class Whole, class Last>
__device__ __forceinline__ void over_pixels(unsigned part, unsigned pixels, Whole whole, Last last) {
  const unsigned end = min(pixels, (part + 1) * SHARE);
#pragma unroll 1
  for (unsigned n = part * SHARE + threadIdx.x * 4; n < end; n += THREADS * 4) {
    if (n + 4 <= end) whole(n);
    else
#pragma unroll 1
      for (unsigned k = n; k < end; ++k) last(k);
  }
}

// Splits pixels of three channels into three planes: axis 0 counts the pixels, which are dense in the input.
template <class T>
__global__ void split_pixels(const MoveRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const MoveRow& row = rows[place.row];
  const unsigned n = (unsigned)place.block, pixels = row.extents[0];
  const unsigned outer = (__umulhi(n, row.multipliers[0]) + n) >> row.shifts[0];
  long long from = 0, to = 0;
  offsets_of(row, outer, 2, from, to);
  const T* input = global((const T*)row.input) + from;
  T* output = global((T*)row.output) + to;
  const long long plane = row.outputs[1];
  const void *begin = row.input, *end = row.input_end;
  over_pixels(
      n - outer * ((pixels + SHARE - 1) / SHARE), pixels,
      [&](unsigned i) {
        Dozen<T> v;
        load_pixels(v, input + 3 * (long long)i, begin, end);
#pragma unroll
        for (int c = 0; c < 3; ++c) {
          const T own[4] = {v.at[c], v.at[c + 3], v.at[c + 6], v.at[c + 9]};
          store_plane(output + i + c * plane, own);
        }
      },
      [&](unsigned i) {
        for (int c = 0; c < 3; ++c) output[i + c * plane] = input[3 * (long long)i + c];
      });
}

// Joins three planes to pixels of three channels: axis 1 counts the pixels, which are dense in the output.
template <class T>
__global__ void join_pixels(const MoveRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const MoveRow& row = rows[place.row];
  const unsigned n = (unsigned)place.block, pixels = row.extents[1];
  const unsigned outer = (__umulhi(n, row.multipliers[1]) + n) >> row.shifts[1];
  long long from = 0, to = 0;
  offsets_of(row, outer, 2, from, to);
  const T* input = global((const T*)row.input) + from;
  T* output = global((T*)row.output) + to;
  const long long plane = row.inputs[0];
  over_pixels(
      n - outer * ((pixels + SHARE - 1) / SHARE), pixels,
      [&](unsigned i) {
        T v[3][4];
#pragma unroll
        for (int c = 0; c < 3; ++c) load_plane(v[c], input + i + c * plane);
        T* goal = output + 3 * (long long)i;
        if (on_groups(goal)) {
#pragma unroll
          for (int k = 0; k < 3; ++k) {
            const T own[4] = {v[4 * k % 3][4 * k / 3], v[(4 * k + 1) % 3][(4 * k + 1) / 3], v[(4 * k + 2) % 3][(4 * k + 2) / 3],
                              v[(4 * k + 3) % 3][(4 * k + 3) / 3]};
            store_four(goal + 4 * k, own);
          }
        } else {
#pragma unroll
          for (int k = 0; k < 12; ++k) goal[k] = v[k % 3][k / 3];
        }
      },
      [&](unsigned i) {
        for (int c = 0; c < 3; ++c) output[3 * (long long)i + c] = input[i + c * plane];
      });
}
