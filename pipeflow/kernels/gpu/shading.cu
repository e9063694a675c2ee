// Makes images lighter, darker or flatter by a pattern, a number for each pixel; random patterns; strokes of rain, and snow.
// instances: shade<unsigned char|float>; refine; find_extremes; draw_rain<unsigned char|float>; relight
#include "divide.cuh"
#include "elements.cuh"
#include "randomness.cuh"

enum Pattern { SUM, ROOT, PRODUCT, CLOUD };

// A float as an integer of the same order.
__device__ __forceinline__ int ordered(float value) {
  const int bits = __float_as_int(value);
  return bits >= 0 ? bits : bits ^ 0x7FFFFFFF;
}
__device__ __forceinline__ float unordered(int bits) { return __int_as_float(bits >= 0 ? bits : bits ^ 0x7FFFFFFF); }

// value + pattern * (slope * value + offset)
struct ShadeRow {
  const void* input;
  void* output;
  const float* lines;      // CLOUD: the field
  const float* columns;
  const int* extremes;     // CLOUD: the smallest and the largest number of the field, as ordered integers
  float slope, offset;
  float times, plus;       // CLOUD: pattern * times + plus
  int pattern, stride;     // CLOUD: numbers in a row of the field
  Divider width, channels;
  unsigned total;          // values
};

template <class T>
__global__ void shade(const ShadeRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const ShadeRow& row = rows[place.row];
  float low = 0, factor = 0;
  if (row.pattern == CLOUD) {
    low = unordered(row.extremes[0]);
    const float high = unordered(row.extremes[1]);
    factor = high > low ? 1.0f / (high - low) : 0.0f;
  }
#pragma unroll 1
  for (int round = 0; round < 4; ++round) {
    const unsigned n = (unsigned)place.block * 1024 + round * 256 + threadIdx.x;
    if (n >= row.total) return;
    unsigned channel = n;
    unsigned j = divide(channel, row.channels);
    const unsigned i = divide(j, row.width);
    float number = 0;
    switch (row.pattern) {
      case SUM: number = __fadd_rn(row.lines[i], row.columns[j]); break;
      case ROOT: number = sqrtf(__fadd_rn(row.lines[i], row.columns[j])); break;
      case PRODUCT: number = __fmul_rn(row.lines[i], row.columns[j]); break;
      case CLOUD: {
        const float share = __fmul_rn(__fadd_rn(row.lines[(long long)i * row.stride + j], -low), factor);
        number = __fadd_rn(__fmul_rn(share, row.times), row.plus);
        break;
      }
    }
    const float value = (float)((const T*)row.input)[n];
    ((T*)row.output)[n] = saturated<T>(__fmaf_rn(number, __fmaf_rn(row.slope, value, row.offset), value));
  }
}

// A random lattice, twice as fine as the one before: the one before, linear between its nodes, plus random numbers. The first
// has only random numbers.
struct LatticeRow {
  const float* coarse;
  float* fine;
  word64 key;
  float strength;
  int level, stride;       // numbers in a row of the coarse lattice
  Divider columns;
  unsigned total;
};

__global__ void refine(const LatticeRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const LatticeRow& row = rows[place.row];
#pragma unroll 1
  for (int round = 0; round < 4; ++round) {
    const unsigned n = (unsigned)place.block * 1024 + round * 256 + threadIdx.x;
    if (n >= row.total) return;
    unsigned j = n;
    const unsigned i = divide(j, row.columns);
    const word64 begin = ((word64)row.level << 40) | ((word64)i << 20);
    const word64 word = bits_of(row.key, begin + j / 4);  // four numbers of 16 bits in each word
    const float noise = (float)(unsigned)((word >> (16 * (j % 4))) & 0xFFFF) * (1.0f / 65536.0f) - (0.5f - 1.0f / 131072.0f);
    if (!row.coarse) {
      row.fine[n] = noise;
      continue;
    }
    const float* above = row.coarse + (long long)(i / 2) * row.stride + j / 2;
    const float* below = row.coarse + (long long)((i + 1) / 2) * row.stride + j / 2;
    float middle = 0.5f * __fadd_rn(above[0], below[0]);
    if (j % 2) middle = 0.5f * __fadd_rn(middle, 0.5f * __fadd_rn(above[1], below[1]));
    row.fine[n] = __fmaf_rn(row.strength, noise, middle);
  }
}

// The smallest and the largest number of the upper left part of a field.
struct ExtremesRow {
  const float* field;
  int* extremes;
  int stride;
  Divider width;
  unsigned total;
};

__global__ void find_extremes(const ExtremesRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const ExtremesRow& row = rows[place.row];
  const unsigned start = (unsigned)place.block * 8192, end = min(start + 8192, row.total);
  int low = 0x7FFFFFFF, high = -0x7FFFFFFF - 1;
  for (unsigned n = start + threadIdx.x; n < end; n += blockDim.x) {
    unsigned j = n;
    const unsigned i = divide(j, row.width);
    const int number = ordered(row.field[(long long)i * row.stride + j]);
    low = min(low, number);
    high = max(high, number);
  }
  if (low <= high) {
    atomicMin(&row.extremes[0], low);
    atomicMax(&row.extremes[1], high);
  }
}

// Mixes strokes into the image one after another. A thread goes through all strokes for its pixel, which keeps their order.
struct RainRow {
  const void* input;
  void* output;
  const int* tops;         // the first row of each stroke
  const double* lefts;     // the column of each stroke in its first row
  const float* color;
  double lean;
  float opacity;
  int strokes, length, thickness, channels;
  Divider width;
  unsigned total;          // pixels
};

template <class T>
__global__ void draw_rain(const RainRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const RainRow& row = rows[place.row];
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    const unsigned n = (unsigned)place.block * 512 + round * 256 + threadIdx.x;
    if (n >= row.total) return;
    unsigned j = n;
    const int i = (int)divide(j, row.width);
    const T* input = (const T*)row.input + (long long)n * row.channels;
    T* output = (T*)row.output + (long long)n * row.channels;
    for (int c = 0; c < row.channels; ++c) output[c] = input[c];
    for (int stroke = 0; stroke < row.strokes; ++stroke) {
      const int line = i - row.tops[stroke];
      if (line < 0 || line >= row.length) continue;
      const int begin = (int)floor(__fma_rn(row.lean, (double)line, row.lefts[stroke]));
      if ((int)j < begin || (int)j >= begin + row.thickness) continue;
      for (int c = 0; c < row.channels; ++c) {
        const float value = (float)output[c];
        output[c] = saturated<T>(__fmaf_rn(row.opacity, __fadd_rn(row.color[c], -value), value));
      }
    }
  }
}

// Changes the lightness of every pixel of three bytes, half the sum of its largest and smallest value; hue and saturation do not
// change.
struct LightRow {
  const byte* input;
  byte* output;
  const float* lightness;  // for each sum of the largest and the smallest value
  const float* scale;      // factor of the distances from the lightness
  long long total;         // pixels
};

__global__ void relight(const LightRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const LightRow& row = rows[place.row];
  const long long start = (long long)place.block * 1024, end = min(start + 1024, row.total);
  for (long long i = start + threadIdx.x; i < end; i += blockDim.x) {
    const byte* pixel = row.input + 3 * i;
    const int red = pixel[0], green = pixel[1], blue = pixel[2];
    const int sum = max(max(red, green), blue) + min(min(red, green), blue);
    const float lightness = row.lightness[sum], scale = row.scale[sum], middle = (float)sum * 0.5f;
    row.output[3 * i] = saturated<byte>(__fmaf_rn(scale, (float)red - middle, lightness));
    row.output[3 * i + 1] = saturated<byte>(__fmaf_rn(scale, (float)green - middle, lightness));
    row.output[3 * i + 2] = saturated<byte>(__fmaf_rn(scale, (float)blue - middle, lightness));
  }
}
