// Maps for remap: the source position of each pixel of a distorted image.
// instances: spread_nodes; lens
#include "divide.cuh"
#include "elements.cuh"

// The position of every pixel's centre, plus the moves of a grid, in pixels, linear between its nodes.
struct NodesRow {
  const float* nodes;             // moves along x, then moves along y
  float* map_x;
  float* map_y;
  double offset, tall, wide;      // the node of a line is at (line + offset) * tall, that of a column at (column + offset) * wide
  int rows, columns;              // of the grid
  Divider width;
  unsigned total;                 // pixels
};

__device__ __forceinline__ float between(float first, float second, float share) {
  return __fmaf_rn(second, share, __fmul_rn(first, 1.0f - share));
}

__global__ void spread_nodes(const NodesRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const NodesRow& row = rows[place.row];
#pragma unroll 1
  for (int round = 0; round < 4; ++round) {
    const unsigned n = (unsigned)place.block * 1024 + round * 256 + threadIdx.x;
    if (n >= row.total) return;
    unsigned j = n;
    const unsigned i = divide(j, row.width);
    const double y = __dmul_rn(__dadd_rn((double)i, row.offset), row.tall);
    const double x = __dmul_rn(__dadd_rn((double)j, row.offset), row.wide);
    const int top = min((int)y, row.rows - 2), left = min((int)x, row.columns - 2);
    const float down = (float)(y - top), across = (float)(x - left);
    for (int axis = 0; axis < 2; ++axis) {
      const float* upper = row.nodes + ((long long)axis * row.rows + top) * row.columns + left;
      const float* lower = upper + row.columns;
      const float near = between(upper[0], lower[0], down), far = between(upper[1], lower[1], down);
      float* map = axis ? row.map_y : row.map_x;
      map[n] = __fadd_rn(between(near, far, across), (axis ? (float)i : (float)j) + 0.5f);
    }
  }
}

// Moves positions away from the middle by a factor that grows with the square of the distance; the distance is 1 in the corners.
struct LensRow {
  float* map_x;
  float* map_y;
  float strength;
  int height;
  Divider width;
  unsigned total;
};

__global__ void lens(const LensRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const LensRow& row = rows[place.row];
  const float middle_y = 0.5f * (float)row.height, middle_x = 0.5f * (float)row.width.extent;
  const float scale = row.strength / __fmaf_rn(middle_y, middle_y, __fmul_rn(middle_x, middle_x));
#pragma unroll 1
  for (int round = 0; round < 4; ++round) {
    const unsigned n = (unsigned)place.block * 1024 + round * 256 + threadIdx.x;
    if (n >= row.total) return;
    unsigned j = n;
    const unsigned i = divide(j, row.width);
    const float x = (float)j + 0.5f - middle_x, y = (float)i + 0.5f - middle_y;
    const float factor = __fmaf_rn(scale, __fmaf_rn(x, x, __fmul_rn(y, y)), 1.0f);
    row.map_x[n] = __fmaf_rn(x, factor, middle_x);
    row.map_y[n] = __fmaf_rn(y, factor, middle_y);
  }
}
