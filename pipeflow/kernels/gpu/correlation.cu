// Filters with a kernel of any numbers along two or three spatial axes: a thread computes an element.
// instances: correlate<unsigned char, unsigned char|float>; correlate<float, float>; correlate_any<float>
#include "borders.cuh"
#include "divide.cuh"
#include "elements.cuh"

struct CorrelationRow {
  const void* input;
  void* output;
  const void* kernel;
  const void* fill;               // the value outside, one number, or none
  int extents[3];                 // of the input: depth, height, width
  int taps[3], before[3];         // extents of the kernel, and the number of its elements before the result
  Divider lines, columns, pixel;  // of the output: height, width, channels
  unsigned total;                 // elements of the output
  int border, even;               // even: integers are rounded half to even, else half away from zero
  int kernel_type, fill_type, input_type, output_type;
};

template <class Load, class Store>
__device__ __forceinline__ void correlate_elements(const CorrelationRow& row, int block, Load load, Store store) {
  const float fill = row.fill ? load_one<float>(row.fill, row.fill_type, 0) : 0.0f;
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    const unsigned n = (unsigned)block * 512 + round * 256 + threadIdx.x;
    if (n >= row.total) return;
    unsigned channel = n;
    unsigned x = divide(channel, row.pixel);
    unsigned y = divide(x, row.columns);
    const unsigned z = divide(y, row.lines);
    const int channels = (int)row.pixel.extent;
    float sum = 0;
    int tap = 0;
    for (int c = 0; c < row.taps[0]; ++c) {
      const int plane = border_index((int)z + c - row.before[0], row.extents[0], row.border);
      for (int b = 0; b < row.taps[1]; ++b) {
        const int line = border_index((int)y + b - row.before[1], row.extents[1], row.border);
        const long long start = ((long long)plane * row.extents[1] + line) * row.extents[2];
        for (int a = 0; a < row.taps[2]; ++a, ++tap) {
          const float weight = load_one<float>(row.kernel, row.kernel_type, tap);
          if (weight == 0) continue;
          const int column = border_index((int)x + a - row.before[2], row.extents[2], row.border);
          const bool outside = plane < 0 || line < 0 || column < 0;
          const float value = outside ? fill : load((start + column) * channels + (int)channel);
          sum = __fmaf_rn(value, weight, sum);
        }
      }
    }
    store(n, sum);
  }
}

template <class In, class Out>
__global__ void correlate(const CorrelationRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const CorrelationRow& row = rows[place.row];
  const In* input = (const In*)row.input;
  Out* output = (Out*)row.output;
  correlate_elements(row, place.block, [&](long long i) { return (float)input[i]; }, [&](long long i, float value) {
    output[i] = saturated<Out>(!Number<Out>::floating && row.even ? rintf(value) : value);
  });
}

// Every other pair of types.
template <class C>
__global__ void correlate_any(const CorrelationRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const CorrelationRow& row = rows[place.row];
  const bool even = row.even && row.output_type < FLOAT16 && row.output_type != BOOL;
  correlate_elements(row, place.block, [&](long long i) { return (float)load_one<C>(row.input, row.input_type, i); },
                     [&](long long i, float value) {
                       store_one<true, float>(row.output, row.output_type, i, even ? rintf(value) : value);
                     });
}
