// Conversion between types, and out = factor * x + offset for every value. cast_values and line_values are for the common types,
// the other kernels for all types.
// instances: cast<COMPUTED>; line<float|double>; lines
// instances: cast_values<unsigned char|__half|float, unsigned char|__half|float>
// instances: line_values<unsigned char|float, unsigned char|float>
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

template <class In, class Out>
__global__ void cast_values(const CastRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const CastRow& row = rows[place.row];
  map_values<In, Out>(row.input, row.output, place.block, row.total, [](In x) {
    if constexpr (Same<In, Out>::value) return x;
    else return saturated<Out>((float)plain_number(x));
  });
}

struct LineRow {
  const void* input;
  void* output;
  long long total;
  double factor, offset;
  int input_type, output_type;
};

// Product and sum are rounded separately, as on the CPU: exact halves are common here.
template <class C>
__global__ void line(const LineRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const LineRow row = rows[place.row];
  const C factor = (C)row.factor, offset = (C)row.offset;
  over_eights(place.block, row.total, [&](long long i) {
    C v[EIGHT];
    load_eight(v, row.input, row.input_type, i, row.total);
#pragma unroll
    for (int k = 0; k < EIGHT; ++k) v[k] = twice_rounded(v[k], factor, offset);
    store_eight<true>(row.output, row.output_type, i, row.total, v);
  });
}

template <class In, class Out>
__global__ void line_values(const LineRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const LineRow& row = rows[place.row];
  const float factor = (float)row.factor, offset = (float)row.offset;
  map_values<In, Out>(row.input, row.output, place.block, row.total,
                      [&](In x) { return saturated<Out>(twice_rounded((float)x, factor, offset)); });
}

struct Step {
  float factor, offset;
  int rounds;  // 1 to round the result to a byte
};

struct LinesRow {
  const void* input;
  void* output;
  const Step* steps;
  long long total;
  int count, input_type, output_type;
};

// Several factors and offsets one after another, for bytes or float32, with the roundings of separate launches.
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
        v[k] = twice_rounded(v[k], step.factor, step.offset);
        if (step.rounds) v[k] = (float)saturated<byte>(v[k]);
      }
    }
    store_eight<true>(row.output, row.output_type, i, row.total, v);
  });
}
