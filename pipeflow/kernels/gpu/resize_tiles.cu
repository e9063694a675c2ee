// Resizing images in one pass. A block makes a tile of the output: it blends the rows of the input that the tile's rows need
// into shared memory, then the columns from there. Tap tables come from the host, the same that the CPU uses; sums are float32
// in the same order.
// instances: resize_tiles<unsigned char|float, unsigned char|float>
#include "elements.cuh"
#include "words.cuh"

const int TILE_ROWS = 8;
const int TILE_FLOATS = 6144;  // the host chooses tiles that fit: TILE_FLOATS of on_gpu/resize.py

struct TileRow {
  const void* input;
  void* output;
  const void* input_end;
  const int* y_starts;
  const int* x_starts;
  const float* y_weights;
  const float* x_weights;
  long long input_plane, output_plane;  // strides in elements
  int input_row;                        // stride in elements
  int height, width;                    // of the output
  int pixel;                            // channels that lie together
  int y_taps, x_taps;
  int tile_width, tiles_x, tiles_y;
};

__device__ __forceinline__ void read_four(float (&v)[4], const byte* source, const TileRow& row) {
  const unsigned word = bytes_at(source, row.input, row.input_end);
#pragma unroll
  for (int k = 0; k < 4; ++k) v[k] = (float)(word >> (8 * k) & 255);
}

__device__ __forceinline__ void read_four(float (&v)[4], const float* source, const TileRow&) {
#pragma unroll
  for (int k = 0; k < 4; ++k) v[k] = source[k];
}

template <class In, class Out>
__global__ void resize_tiles(const TileRow* __restrict__ rows, const int* __restrict__ first, int count) {
  __shared__ float tile[TILE_FLOATS];
  const Place place = place_of_block(first, count);
  const TileRow& row = rows[place.row];
  const int tiles = row.tiles_x * row.tiles_y;
  const int plane = place.block / tiles, number = place.block - plane * tiles;
  const int tile_y = number / row.tiles_x, tile_x = number - tile_y * row.tiles_x;
  const int top = tile_y * TILE_ROWS, left = tile_x * row.tile_width;
  const int lines = min(TILE_ROWS, row.height - top), columns = min(row.tile_width, row.width - left);
  const int pixel = row.pixel;
  // the first input pixels of neighbouring outputs rise, or fall where the image is mirrored
  const int one = row.x_starts[left], other = row.x_starts[left + columns - 1];
  const int low = min(one, other), span = (max(one, other) + row.x_taps - low) * pixel;
  const int fours = (span + 3) / 4, pitch = fours * 4;
  const In* input = (const In*)row.input + plane * row.input_plane + low * pixel;
  for (int n = threadIdx.x; n < fours * lines; n += blockDim.x) {
    const int line = n / fours, at = (n - line * fours) * 4;
    const In* source = input + (long long)row.y_starts[top + line] * row.input_row + at;
    const float* weights = row.y_weights + (top + line) * row.y_taps;
    float sum[4] = {0, 0, 0, 0};
    if (at + 4 <= span) {
      for (int k = 0; k < row.y_taps; ++k, source += row.input_row) {
        float v[4];
        read_four(v, source, row);
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[i] = __fmaf_rn(weights[k], v[i], sum[i]);
      }
    } else {
      for (int k = 0; k < row.y_taps; ++k, source += row.input_row)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (at + i < span) sum[i] = __fmaf_rn(weights[k], (float)source[i], sum[i]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) tile[line * pitch + at + i] = sum[i];
  }
  __syncthreads();
  Out* output = (Out*)row.output + plane * row.output_plane;
  for (int n = threadIdx.x; n < lines * columns; n += blockDim.x) {
    const int line = n / columns, column = left + n - line * columns;
    const float* weights = row.x_weights + column * row.x_taps;
    const float* source = tile + line * pitch + (row.x_starts[column] - low) * pixel;
    Out* target = output + ((long long)(top + line) * row.width + column) * pixel;
    for (int c = 0; c < pixel; c += 4) {
      float sum[4] = {0, 0, 0, 0};
      for (int k = 0; k < row.x_taps; ++k)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (c + i < pixel) sum[i] = __fmaf_rn(weights[k], source[k * pixel + c + i], sum[i]);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (c + i < pixel) target[c + i] = saturated<Out>(sum[i]);
    }
  }
}
