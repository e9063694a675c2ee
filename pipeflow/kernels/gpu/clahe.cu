// clahe: values spread tile by tile, with limited contrast, and blended between the tiles; all steps are those of OpenCV.
// instances: lightness; tile_tables; spread_channel; spread_lightness
#include "borders.cuh"
#include "divide.cuh"
#include "elements.cuh"

const int THREADS = 256, VALUES = 4096;  // pixels that a block works on
const int ROOTS = 3072;                  // entries of the table of cube roots

// The colour space Lab in whole numbers: linear light in 11 bits, the three sums in units of 2**-12, roots in 2**-15. What is
// computed back from Lab is in units of 2**-14.
struct LightRow {
  const byte* input;             // RGB
  byte* output;
  const unsigned* linear;        // 256: linear light
  const unsigned* roots;
  long long total;               // pixels
};

__device__ __forceinline__ int root_of(const unsigned* roots, int r, int g, int b, int x, int y, int z) {
  return (int)roots[(r * x + g * y + b * z + 2048) >> 12];
}

__device__ __forceinline__ int luma_root(const unsigned* roots, int r, int g, int b) {
  return root_of(roots, r, g, b, 871, 2929, 296);
}

__global__ void lightness(const LightRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const LightRow& row = rows[place.row];
  __shared__ unsigned linear[256];
  linear[threadIdx.x] = row.linear[threadIdx.x];
  __syncthreads();
  const long long start = (long long)place.block * VALUES, end = min(start + VALUES, row.total);
  for (long long i = start + threadIdx.x; i < end; i += THREADS) {
    const byte* pixel = row.input + 3 * i;
    const int root = luma_root(row.roots, (int)linear[pixel[0]], (int)linear[pixel[1]], (int)linear[pixel[2]]);
    row.output[i] = (byte)((296 * root - 1336934 + (1 << 14)) >> 15);
  }
}

struct TilesRow {
  const byte* input;    // the first value of a plane, or of a channel
  byte* tables;         // 256 entries for each tile
  int height, width;
  int tall, wide;       // of a tile; tiles at the right and the bottom reach over the mirrored border
  int across;           // tiles from left to right
  int step;             // from value to value
  int limit;            // the largest count; 0: none
  float scale;          // 255 / pixels of a tile
};

// A block makes the table of a tile.
__global__ void tile_tables(const TilesRow* __restrict__ rows, const int* __restrict__ first, int count) {
  __shared__ int counts[256];
  __shared__ int excess;
  const Place place = place_of_block(first, count);
  const TilesRow& row = rows[place.row];
  const int me = (int)threadIdx.x;
  counts[me] = 0;
  if (me == 0) excess = 0;
  __syncthreads();
  const int top = place.block / row.across * row.tall, left = place.block % row.across * row.wide;
  const int pixels = row.tall * row.wide;
  for (int i = me; i < pixels; i += THREADS) {
    const long long y = border_index(top + i / row.wide, row.height, REFLECT_101);
    const int x = border_index(left + i % row.wide, row.width, REFLECT_101);
    atomicAdd(&counts[row.input[(y * row.width + x) * row.step]], 1);
  }
  __syncthreads();
  if (row.limit > 0) {
    const int more = counts[me] - row.limit;
    if (more > 0) {
      atomicAdd(&excess, more);
      counts[me] = row.limit;
    }
    __syncthreads();
    const int rest = excess % 256, apart = rest ? max(256 / rest, 1) : 1;
    counts[me] += excess / 256 + (me % apart == 0 && me / apart < rest);
    __syncthreads();
  }
  for (int step = 1; step < 256; step *= 2) {  // sums of all counts up to each value
    const int below = me >= step ? counts[me - step] : 0;
    __syncthreads();
    counts[me] += below;
    __syncthreads();
  }
  const float value = rintf(__fmul_rn((float)counts[me], row.scale));
  row.tables[256 * place.block + me] = (byte)(int)fminf(value, 255.0f);
}

struct SpreadRow {
  const byte* input;
  const byte* light;             // the lightness; none: the values are spread themselves
  byte* output;
  const byte* tables;
  const unsigned* linear;
  const unsigned* roots;
  const unsigned* lumas;         // 256: luma and its root, of each lightness
  const byte* shades;            // 4096: the value of linear light
  Divider width;
  int total;                     // pixels
  int across, down;              // tiles
  float inverse_tall, inverse_wide;
  int step;                      // from value to value
};

// The two tiles that a row or a column is between, and the share of the second one.
struct Between {
  int near, far;
  float share;
};

__device__ __forceinline__ Between between(int place, float inverse, int tiles) {
  const float exact = __fadd_rn(__fmul_rn((float)place, inverse), -0.5f), whole = floorf(exact);
  const int near = (int)whole;
  return {max(near, 0), min(near + 1, tiles - 1), __fadd_rn(exact, -whole)};
}

__device__ __forceinline__ float blend(float near, float far, float share) {
  return __fadd_rn(__fmul_rn(near, __fadd_rn(1.0f, -share)), __fmul_rn(far, share));
}

__device__ __forceinline__ int spread_value(const SpreadRow& row, int i, int value) {
  unsigned column = (unsigned)i;
  const int line = (int)divide(column, row.width);
  const Between y = between(line, row.inverse_tall, row.down), x = between((int)column, row.inverse_wide, row.across);
  const byte* tables = row.tables + value;
  const float upper = blend(tables[256 * (y.near * row.across + x.near)], tables[256 * (y.near * row.across + x.far)], x.share);
  const float lower = blend(tables[256 * (y.far * row.across + x.near)], tables[256 * (y.far * row.across + x.far)], x.share);
  return (int)rintf(fminf(blend(upper, lower, y.share), 255.0f));
}

__global__ void spread_channel(const SpreadRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const SpreadRow& row = rows[place.row];
  const int start = place.block * VALUES, end = min(start + VALUES, row.total);
  for (int i = start + (int)threadIdx.x; i < end; i += THREADS) {
    const long long at = (long long)i * row.step;
    row.output[at] = (byte)spread_value(row, i, row.input[at]);
  }
}

// Light by its root: a cube, and a line below it.
__device__ __forceinline__ int light_of(int root) {
  return root <= 3390 ? root * 108 / 841 - 290 : (((root * root) >> 14) * root) >> 14;
}

__device__ __forceinline__ byte shade_of(const byte* shades, int light) {
  return shades[min(max((light + (1 << 13)) >> 14, 0), 4095)];
}

__global__ void spread_lightness(const SpreadRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const SpreadRow& row = rows[place.row];
  __shared__ unsigned linear[256];
  linear[threadIdx.x] = row.linear[threadIdx.x];
  __syncthreads();
  const int start = place.block * VALUES, end = min(start + VALUES, row.total);
  for (int i = start + (int)threadIdx.x; i < end; i += THREADS) {
    const byte* pixel = row.input + 3ll * i;
    const int r = (int)linear[pixel[0]], g = (int)linear[pixel[1]], b = (int)linear[pixel[2]];
    const int middle = luma_root(row.roots, r, g, b), half = (128 << 15) + (1 << 14);
    // the two differences, each rounded to whole numbers as in an image of bytes
    const int red = (500 * (root_of(row.roots, r, g, b, 1777, 1541, 778) - middle) + half) >> 15;
    const int blue = (200 * (middle - root_of(row.roots, r, g, b, 73, 448, 3575)) + half) >> 15;
    const unsigned both = row.lumas[spread_value(row, i, row.light[i])];
    const int y = (int)(both & 0xFFFF), root = (int)(both >> 16);
    const int x = light_of(root + ((red * 268435 + 128) >> 13) - 4194);
    const int z = light_of(root - ((blue * 41943 + 16) >> 9) + 10484);
    byte* result = row.output + 3ll * i;
    result[0] = shade_of(row.shades, 12615 * x - 6296 * y - 2223 * z);
    result[1] = shade_of(row.shades, -3773 * x + 7684 * y + 185 * z);
    result[2] = shade_of(row.shades, 217 * x - 836 * y + 4715 * z);
  }
}
