// Cuts, mirrors and normalises in one pass: (x - mean) * factor + shift, then the output type.
//
// normalize_pixels is for images of three interleaved channels, or for single planes: a thread reads four neighbouring pixels
// by whole words and writes them by whole words. normalize_any is for all other channels, layouts and types.
// instances: normalize_pixels<unsigned char|float, float|__half|unsigned char|signed char, 1|3>
// instances: normalize_any<float|double>
#include "divide.cuh"
#include "elements.cuh"

struct NormalizeRow {
  const void* input;         // the window's first pixel; if mirrored, the last one of its first row
  void* output;
  const void* input_begin;   // the memory that may be read
  const void* input_end;
  long long input_row;       // strides in elements
  long long output_row, output_pixel, output_channel;
  float mean[3], factor[3];
  float shift;
  unsigned total;            // groups of four pixels
  Divider groups;            // groups in a row
  unsigned width;
  int mirror;
};

// Four pixels of bytes from any address, by the whole words around them if these are inside the image.
template <int C>
__device__ __forceinline__ void read_pixels(float (&v)[4 * C], const byte* source, const NormalizeRow& row) {
  const unsigned odd = (unsigned)((word64)source & 3);
  const unsigned* words = (const unsigned*)(source - odd);
  unsigned part[C];
  if (words >= row.input_begin && words + C + 1 <= row.input_end) {
    unsigned before = words[0];
#pragma unroll
    for (int k = 0; k < C; ++k) {
      const unsigned after = words[k + 1];
      part[k] = __funnelshift_r(before, after, odd * 8);
      before = after;
    }
  } else {
#pragma unroll
    for (int k = 0; k < C; ++k)
      part[k] = source[4 * k] | source[4 * k + 1] << 8 | source[4 * k + 2] << 16 | (unsigned)source[4 * k + 3] << 24;
  }
#pragma unroll
  for (int i = 0; i < 4 * C; ++i) v[i] = (float)(part[i / 4] >> (i % 4 * 8) & 255);
}

template <int C>
__device__ __forceinline__ void read_pixels(float (&v)[4 * C], const float* source, const NormalizeRow&) {
  if (((word64)source & 15) == 0) {
#pragma unroll
    for (int k = 0; k < C; ++k) {
      const float4 part = ((const float4*)source)[k];
      v[4 * k] = part.x; v[4 * k + 1] = part.y; v[4 * k + 2] = part.z; v[4 * k + 3] = part.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < 4 * C; ++i) v[i] = source[i];
  }
}

template <class T> struct alignas(sizeof(T) * 4) Four { T at[4]; };

template <class T> __device__ __forceinline__ bool aligned_four(const T* data) {
  return ((word64)data & (sizeof(T) * 4 - 1)) == 0;
}

template <class In, class Out, int C>
__global__ void normalize_pixels(const NormalizeRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const NormalizeRow& row = rows[place.row];
  float mean[C], factor[C];
#pragma unroll
  for (int c = 0; c < C; ++c) { mean[c] = row.mean[c]; factor[c] = row.factor[c]; }
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    unsigned n = (unsigned)place.block * 512 + round * 256 + threadIdx.x;
    if (n >= row.total) return;
    const unsigned y = divide(n, row.groups), x = n * 4;
    const int pixels = (int)min(4u, row.width - x);
    const In* source = global((const In*)row.input) + y * row.input_row + (row.mirror ? -(long long)x : (long long)x) * C;
    float v[4 * C];
    if (pixels == 4) {
      read_pixels<C>(v, row.mirror ? source - 3 * C : source, row);
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k)
#pragma unroll
        for (int c = 0; c < C; ++c) v[k * C + c] = k < pixels ? (float)source[(row.mirror ? -k : k) * C + c] : 0.0f;
    }
    Out result[C][4];
#pragma unroll
    for (int k = 0; k < 4; ++k)
#pragma unroll
      for (int c = 0; c < C; ++c)
        result[c][k] = saturated<Out>(twice_rounded(v[k * C + c] - mean[c], factor[c], row.shift));
    if (row.mirror && pixels == 4) {
#pragma unroll
      for (int c = 0; c < C; ++c) {
        const Out outer = result[c][0], inner = result[c][1];
        result[c][0] = result[c][3]; result[c][3] = outer;
        result[c][1] = result[c][2]; result[c][2] = inner;
      }
    }
    Out* target = global((Out*)row.output) + y * row.output_row + x * row.output_pixel;
    if (row.output_pixel == 1) {
#pragma unroll
      for (int c = 0; c < C; ++c) {
        Out* plane = target + c * row.output_channel;
        if (pixels == 4 && aligned_four(plane)) {
          Four<Out> word;
#pragma unroll
          for (int k = 0; k < 4; ++k) word.at[k] = result[c][k];
          *(Four<Out>*)plane = word;
        } else {
#pragma unroll
          for (int k = 0; k < 4; ++k)
            if (k < pixels) plane[k] = result[c][k];
        }
      }
    } else if (pixels == 4 && row.output_pixel == C && row.output_channel == 1 && aligned_four(target)) {
#pragma unroll
      for (int part = 0; part < C; ++part) {
        Four<Out> word;
#pragma unroll
        for (int k = 0; k < 4; ++k) word.at[k] = result[(part * 4 + k) % C][(part * 4 + k) / C];
        ((Four<Out>*)target)[part] = word;
      }
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k)
#pragma unroll
        for (int c = 0; c < C; ++c)
          if (k < pixels) target[k * row.output_pixel + c * row.output_channel] = result[c][k];
    }
  }
}

struct NormalizeAnyRow {
  const void* input;
  void* output;
  const float* table;       // mean and factor of each channel
  long long inputs[4];      // strides in elements of channels, slices, rows and pixels
  long long outputs[4];
  Divider order[3];         // the three innermost axes of the output, innermost first
  int axes[4];              // the numbers of these axes, and of the outermost one
  float shift;
  unsigned total;
  int input_type, output_type;
};

template <class C>
__global__ void normalize_any(const NormalizeAnyRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const NormalizeAnyRow& row = rows[place.row];
#pragma unroll 1
  for (int round = 0; round < 4; ++round) {
    unsigned n = (unsigned)place.block * 1024 + round * 256 + threadIdx.x;
    if (n >= row.total) return;
    long long from = 0, to = 0;
    unsigned channel = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      unsigned i = n;
      if (k < 3) n = divide(i, row.order[k]);
      const int axis = row.axes[k];
      if (axis == 0) channel = i;
      from += i * row.inputs[axis];
      to += i * row.outputs[axis];
    }
    const float x = (float)load_one<C>(row.input, row.input_type, from);
    const float result = twice_rounded(x - row.table[2 * channel], row.table[2 * channel + 1], row.shift);
    store_one<true, float>(row.output, row.output_type, to, result);
  }
}
