// Conversion between types, and lines over every value: out = factor * x + offset.
// instances: cast<COMPUTED>; line<float|double>; lines
#include "elements.cuh"

struct CastRow {
  const void* input;
  void* output;
  long long total;
  int input_type, output_type;
};

template <class C>
__global__ void cast(const CastRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const CastRow row = rows[place.row];
  over_eights(place.block, row.total, [&](long long i) {
    C v[EIGHT];
    load_eight(v, row.input, row.input_type, i, row.total);
    store_eight<true>(row.output, row.output_type, i, row.total, v);
  });
}

struct LineRow {
  const void* input;
  void* output;
  long long total;
  double factor, offset;
  int input_type, output_type;
};

__device__ __forceinline__ float on_line(float x, float factor, float offset) {
  return __fadd_rn(__fmul_rn(x, factor), offset);
}
__device__ __forceinline__ double on_line(double x, double factor, double offset) {
  return __dadd_rn(__dmul_rn(x, factor), offset);
}

// Product and sum are rounded each, as on the CPU: exact halves are common here.
template <class C>
__global__ void line(const LineRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const LineRow row = rows[place.row];
  const C factor = (C)row.factor, offset = (C)row.offset;
  over_eights(place.block, row.total, [&](long long i) {
    C v[EIGHT];
    load_eight(v, row.input, row.input_type, i, row.total);
#pragma unroll
    for (int k = 0; k < EIGHT; ++k) v[k] = on_line(v[k], factor, offset);
    store_eight<true>(row.output, row.output_type, i, row.total, v);
  });
}

struct Step {
  float factor, offset;
  int rounds;  // to a byte
};

struct LinesRow {
  const void* input;
  void* output;
  const Step* steps;
  long long total;
  int count, input_type, output_type;
};

// Several lines one after another, over bytes or float32, with the roundings of separate launches.
__global__ void lines(const LinesRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const LinesRow row = rows[place.row];
  over_eights(place.block, row.total, [&](long long i) {
    float v[EIGHT];
    load_eight(v, row.input, row.input_type, i, row.total);
    for (int number = 0; number < row.count; ++number) {
      const Step step = row.steps[number];
#pragma unroll
      for (int k = 0; k < EIGHT; ++k) {
        v[k] = on_line(v[k], step.factor, step.offset);
        if (step.rounds) v[k] = (float)saturated<byte>(v[k]);
      }
    }
    store_eight<true>(row.output, row.output_type, i, row.total, v);
  });
}
