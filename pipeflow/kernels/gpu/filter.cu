// Separable filters with mirrored borders (the border pixel is not repeated), in float, fused and in the CPU's order.
// instances: blur<unsigned char|float, unsigned char|float>; filter_axis<unsigned char|float, float>
// instances: filter_axis<float, unsigned char>
#include "elements.cuh"

const int TALL = 16, WIDE = 128, MARGIN = 192;  // rows and elements of a tile, and the most elements that it needs on each side
const int FOUR = 4;                             // rows that a thread computes
const int THREADS = 256;

template <class Index> __device__ __forceinline__ Index reflected(Index index, Index size) {
  if (size == 1) return 0;
  while (index < 0 || index >= size) index = index < 0 ? -index : 2 * (size - 1) - index;
  return index;
}

struct BlurRow {
  const void* input;
  void* output;
  const float* heights;  // windows of odd lengths
  const float* widths;
  int height, width;  // width: elements of a row, pixels of `pixel` values
  int pixel, above, beside;
};

// Sums down one column, for four rows at a time, from the first value above the window on; next() returns one value after
// another.
template <class Next>
__device__ __forceinline__ void down_column(const float* __restrict__ weights, int above, float (&sum)[FOUR], Next next) {
  float v0 = next(), v1 = next(), v2 = next();
  for (int k = 0; k <= 2 * above; ++k) {
    const float v3 = next(), weight = weights[k];
    sum[0] = __fmaf_rn(v0, weight, sum[0]);
    sum[1] = __fmaf_rn(v1, weight, sum[1]);
    sum[2] = __fmaf_rn(v2, weight, sum[2]);
    sum[3] = __fmaf_rn(v3, weight, sum[3]);
    v0 = v1;
    v1 = v2;
    v2 = v3;
  }
}

// Both axes of images in one launch: a block filters down the columns of its tile and of the margins on both sides, then along
// the rows. Places within an image are counted in 32 bits. Rows are mirrored only in tiles that extend beyond the border.
template <class In, class Out>
__global__ void blur(const BlurRow* __restrict__ rows, const int* __restrict__ first, int count) {
  __shared__ float middle[TALL][WIDE + 2 * MARGIN];
  const Place place = place_of_block(first, count);
  const BlurRow row = rows[place.row];
  const unsigned across = (unsigned)(row.width + WIDE - 1) / WIDE, down = (unsigned)(row.height + TALL - 1) / TALL;
  const unsigned line = (unsigned)place.block / across, number = line / down;
  const int left = (int)((unsigned)place.block - line * across) * WIDE, top = (int)(line - number * down) * TALL;
  const long long plane = (long long)number * row.height * row.width;
  const In* input = global((const In*)row.input) + plane;
  Out* output = global((Out*)row.output) + plane;
  const int margin = row.beside * row.pixel, span = WIDE + 2 * margin;
  const int pixels = row.width / row.pixel;
  const bool whole = top >= row.above && top + TALL + row.above <= row.height;
  for (int i = (int)threadIdx.x; i < span * (TALL / FOUR); i += THREADS) {
    const int group = i / span, column = i - group * span, start = top + group * FOUR - row.above;
    const int x = left + column - margin;
    if (x >= row.width + margin || top + group * FOUR >= row.height) continue;
    const int shifted = x + margin, pixel = shifted / row.pixel;  // not negative, so the division rounds down
    const In* source = input + reflected(pixel - row.beside, pixels) * row.pixel + (shifted - pixel * row.pixel);
    float sum[FOUR] = {};
    if (whole) {
      const In* at = source + (long long)start * row.width;
      down_column(row.heights, row.above, sum, [&] {
        const float value = (float)*at;
        at += row.width;
        return value;
      });
    } else {
      int y = start;
      down_column(row.heights, row.above, sum,
                  [&] { return (float)source[(long long)reflected(y++, row.height) * row.width]; });
    }
#pragma unroll
    for (int j = 0; j < FOUR; ++j) middle[group * FOUR + j][column] = sum[j];
  }
  __syncthreads();
  const int column = (int)threadIdx.x % WIDE;
  const int x = left + column;
  for (int group = (int)threadIdx.x / WIDE * FOUR; group < TALL; group += THREADS / WIDE * FOUR) {
    if (x >= row.width || top + group >= row.height) continue;
    float sum[FOUR] = {};
    for (int k = 0; k <= 2 * row.beside; ++k) {
      const float weight = row.widths[k];
#pragma unroll
      for (int j = 0; j < FOUR; ++j) sum[j] = __fmaf_rn(middle[group + j][column + k * row.pixel], weight, sum[j]);
    }
#pragma unroll
    for (int j = 0; j < FOUR; ++j)
      if (top + group + j < row.height) output[(long long)(top + group + j) * row.width + x] = saturated<Out>(sum[j]);
  }
}

struct PassRow {
  const void* input;
  void* output;
  const float* window;
  long long total, extent, inner;
  int radius;
};

// One axis of (outer, extent, inner): the depth of volumes, and windows that are too wide for a tile.
template <class In, class Out>
__global__ void filter_axis(const PassRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const PassRow row = rows[place.row];
  over_eights(place.block, row.total, [&](long long begin) {
    for (long long i = begin; i < min(begin + EIGHT, row.total); ++i) {
      const long long outer = i / row.inner, inside = i - outer * row.inner;
      const long long at = outer % row.extent, base = (outer - at) * row.inner + inside;
      float sum = 0;
      for (int k = 0; k <= 2 * row.radius; ++k) {
        const long long from = reflected(at + k - row.radius, row.extent);
        sum = __fmaf_rn((float)((const In*)row.input)[base + from * row.inner], row.window[k], sum);
      }
      ((Out*)row.output)[i] = saturated<Out>(sum);
    }
  });
}
