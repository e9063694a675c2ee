// Resizes images in one pass. A block makes a tile of the output: it blends the rows of the input into the tile's rows in shared
// memory, then the columns of these. Tap tables come from taps.cu, with the weights that the CPU uses; sums are float32 in the
// same order. resize_normalize also normalises the pixels of RGB images, instead of a second kernel.
// instances: resize_tiles<unsigned char|float, unsigned char|float, 0|1|3>
// instances: resize_normalize<unsigned char|float, float|__half|unsigned char|signed char>
#include "elements.cuh"
#include "words.cuh"

const int TILE_ROWS = 8;       // one for each warp of a block of 256 threads
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
  int pixel;                            // interleaved channels
  int y_taps, x_taps;
  int tile_width, tiles_x, tiles_y;     // the width is a power of two
};

template <bool INSIDE> __device__ __forceinline__ void read_four(float (&v)[4], const byte* source, const TileRow& row) {
  const unsigned word = INSIDE ? bytes_inside(source) : bytes_at(source, row.input, row.input_end);
#pragma unroll
  for (int k = 0; k < 4; ++k) v[k] = byte_of(word, k);
}

template <bool INSIDE> __device__ __forceinline__ void read_four(float (&v)[4], const float* source, const TileRow&) {
  if (((word64)source & 15) == 0) {
    const float4 part = *(const float4*)source;
    v[0] = part.x; v[1] = part.y; v[2] = part.z; v[3] = part.w;
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) v[k] = source[k];
}

// The sums of four neighbours over consecutive rows. INSIDE: the words around all of them are in the memory of the sample.
template <bool INSIDE, class In>
__device__ __forceinline__ void blend_four(float (&sum)[4], const In* source, const float* weights, const TileRow& row) {
  const int taps = row.y_taps, step = row.input_row;
  for (int k = 0; k < taps; ++k, source += step) {
    const float weight = weights[k];
    float v[4];
    read_four<INSIDE>(v, source, row);
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i] = twice_rounded(weight, v[i], sum[i]);
  }
}

struct Tile {
  int plane, top, left, lines, columns;  // of the output
  int low, pitch;                        // the first pixel of the blended rows, and the distance between two rows
};

// Blends rows of the input to the rows of a tile; each warp makes one. PIXEL is the number of channels, 0 for any.
template <class In, int PIXEL>
__device__ __forceinline__ Tile blend_rows(float* blended, const TileRow& row, int block) {
  Tile tile;
  const int tiles = row.tiles_x * row.tiles_y, pixel = PIXEL ? PIXEL : row.pixel;
  tile.plane = block / tiles;
  const int number = block - tile.plane * tiles, tile_y = number / row.tiles_x, tile_x = number - tile_y * row.tiles_x;
  tile.top = tile_y * TILE_ROWS;
  tile.left = tile_x * row.tile_width;
  tile.lines = min(TILE_ROWS, row.height - tile.top);
  tile.columns = min(row.tile_width, row.width - tile.left);
  // the first input pixels of neighbouring outputs rise, or fall if the image is mirrored
  const int* x_starts = global(row.x_starts) + tile.left;
  const int one = x_starts[0], other = x_starts[tile.columns - 1];
  tile.low = min(one, other);
  const int span = (max(one, other) + row.x_taps - tile.low) * pixel;
  tile.pitch = (span + 3) / 4 * 4;
  const int line = (int)threadIdx.x / 32;
  if (line < tile.lines) {
    const int start = global(row.y_starts)[tile.top + line], taps = row.y_taps, step = row.input_row;
    const In* input = global((const In*)row.input) + tile.plane * row.input_plane + tile.low * pixel + (long long)start * step;
    const float* weights = global(row.y_weights) + (tile.top + line) * taps;
    float* target = blended + line * tile.pitch;
    for (int at = (int)threadIdx.x % 32 * 4; at < span; at += 128) {
      const In* source = input + at;
      float sum[4] = {0, 0, 0, 0};
      if (at + 4 <= span) {
        const byte *low = (const byte*)source - 3, *high = (const byte*)(source + (long long)(taps - 1) * step) + 8;
        const bool bytes = Same<In, byte>::value;  // floats are read one by one, or as aligned vectors
        if (!bytes || (low >= row.input && high <= row.input_end)) blend_four<true>(sum, source, weights, row);
        else blend_four<false>(sum, source, weights, row);
      } else {
        for (int k = 0; k < taps; ++k, source += step)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            if (at + i < span) sum[i] = twice_rounded(weights[k], (float)source[i], sum[i]);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) target[at + i] = sum[i];
    }
  }
  __syncthreads();
  return tile;
}

// Calls store(line, column, channel, value) for the values of the tile, counted from the corner of the image.
template <int PIXEL, class Store>
__device__ __forceinline__ void blend_columns(const float* blended, const TileRow& row, const Tile& tile, Store store) {
  const int pixel = PIXEL ? PIXEL : row.pixel, taps = row.x_taps, shift = 31 - __clz(row.tile_width);
  for (int n = threadIdx.x; n < tile.lines << shift; n += blockDim.x) {
    const int line = n >> shift, inside = n - (line << shift), column = tile.left + inside;
    if (inside >= tile.columns) continue;
    const float* weights = global(row.x_weights) + column * taps;
    const float* source = blended + line * tile.pitch + (global(row.x_starts)[column] - tile.low) * pixel;
    if constexpr (PIXEL > 0) {
      float sum[PIXEL] = {};
      for (int k = 0; k < taps; ++k, source += PIXEL) {
        const float weight = weights[k];
#pragma unroll
        for (int c = 0; c < PIXEL; ++c) sum[c] = twice_rounded(weight, source[c], sum[c]);
      }
#pragma unroll
      for (int c = 0; c < PIXEL; ++c) store(tile.top + line, column, c, sum[c]);
    } else {
      for (int c = 0; c < pixel; c += 4) {
        float sum[4] = {0, 0, 0, 0};
        for (int k = 0; k < taps; ++k)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            if (c + i < pixel) sum[i] = twice_rounded(weights[k], source[k * pixel + c + i], sum[i]);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (c + i < pixel) store(tile.top + line, column, c + i, sum[i]);
      }
    }
  }
}

template <class In, class Out, int PIXEL>
__global__ void __launch_bounds__(256, sizeof(In) == 1 ? 4 : 3)
    resize_tiles(const TileRow* __restrict__ rows, const int* __restrict__ first, int count) {
  __shared__ float blended[TILE_FLOATS];
  const Place place = place_of_block(first, count);
  const TileRow& row = rows[place.row];
  const Tile tile = blend_rows<In, PIXEL>(blended, row, place.block);
  const int pixel = PIXEL ? PIXEL : row.pixel, width = row.width;
  Out* output = global((Out*)row.output) + tile.plane * row.output_plane;
  blend_columns<PIXEL>(blended, row, tile, [&](int line, int column, int channel, float value) {
    output[((long long)line * width + column) * pixel + channel] = saturated<Out>(value);
  });
}

struct NormalTileRow {
  TileRow tile;
  float mean[3], factor[3];
  float shift;
  int rounds;  // 1 if the pixels are rounded to bytes between resizing and normalising
  int output_row, output_pixel;  // strides in elements
  long long output_channel;
};

// The steps and roundings are those of resize_tiles and of normalize_pixels in crop_mirror_normalize.cu.
template <class In, class Out>
__global__ void resize_normalize(const NormalTileRow* __restrict__ rows, const int* __restrict__ first, int count) {
  __shared__ float blended[TILE_FLOATS];
  const Place place = place_of_block(first, count);
  const NormalTileRow& row = rows[place.row];
  const Tile tile = blend_rows<In, 3>(blended, row.tile, place.block);
  Out* output = global((Out*)row.tile.output) + tile.plane * row.tile.output_plane;
  float mean[3], factor[3];
#pragma unroll
  for (int c = 0; c < 3; ++c) { mean[c] = row.mean[c]; factor[c] = row.factor[c]; }
  const float shift = row.shift;
  const bool rounds = row.rounds;
  const long long along[3] = {row.output_row, row.output_pixel, row.output_channel};
  blend_columns<3>(blended, row.tile, tile, [&](int line, int column, int channel, float value) {
    const float x = rounds ? (float)saturated<byte>(value) : value;
    output[line * along[0] + column * along[1] + channel * along[2]] =
        saturated<Out>(twice_rounded(x - mean[channel], factor[channel], shift));
  });
}
