// Sets a grid of squares to 0.
// instances: mask_squares<WORD>
#include "divide.cuh"
#include "elements.cuh"

struct GridRow {
  const void* input;
  void* output;
  double cos, sin, shift_x, shift_y;  // in tiles
  double ratio;
  Divider columns, pixel;             // width and channels
  unsigned total;
};

template <class T>
__global__ void mask_squares(const GridRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const GridRow& row = rows[place.row];
#pragma unroll 1
  for (int round = 0; round < 4; ++round) {
    const unsigned n = (unsigned)place.block * 1024 + round * 256 + threadIdx.x;
    if (n >= row.total) return;
    unsigned channel = n;
    unsigned x = divide(channel, row.pixel);
    const unsigned y = divide(x, row.columns);
    const double across = __fma_rn(row.cos, x, __fma_rn(-row.sin, y, -row.shift_x));
    const double down = __fma_rn(row.sin, x, __fma_rn(row.cos, y, -row.shift_y));
    const bool hidden = across - floor(across) < row.ratio && down - floor(down) < row.ratio;
    ((T*)row.output)[n] = hidden ? (T)0 : ((const T*)row.input)[n];
  }
}
