// Random numbers: each is a function of the sample's key and the place of the element, the one of seeds.py, so that the
// numbers are the CPU's.
#include "elements.cuh"
#include "randomness.cuh"

enum Distribution { UNIFORM, LISTED, NORMAL, COIN };

struct RandomRow {
  void* output;
  const double* values;  // of LISTED, as they are to come out
  word64 key;
  double low, high;  // of UNIFORM; mean and deviation of NORMAL; the probability of COIN
  double top;        // the largest number below `high` in the output's type
  long long total;
  int listed, distribution, output_type;
};

// Half away from zero as NumPy's floor makes it.
__device__ __forceinline__ double rounded(double x) { return copysign(floor(__dadd_rn(fabs(x), 0.5)), x); }

// FLOAT16 straight from double: by way of float some numbers would be rounded twice.
__device__ __forceinline__ double through_half(double x) { return (double)__half2float(__double2half(x)); }

__device__ __forceinline__ double number_of(const RandomRow& row, long long i, bool whole) {
  switch (row.distribution) {
    case NORMAL: {
      const double radius = sqrt(-2.0 * log1p(-unit_of(row.key, 2 * i)));
      const double angle = 6.283185307179586 * unit_of(row.key, 2 * i + 1);
      const double value = __dadd_rn(__dmul_rn(radius * cos(angle), row.high), row.low);
      return whole ? rounded(value) : value;
    }
    case COIN: return unit_of(row.key, i) < row.low ? 1.0 : 0.0;
    case LISTED: return row.values[(long long)(unit_of(row.key, i) * row.listed)];
  }
  const double value = __dadd_rn(row.low, __dmul_rn(unit_of(row.key, i), row.high - row.low));
  if (whole) return rounded(value);
  // rounding to the output's type must not reach the excluded end
  const double in_type = row.output_type == FLOAT64   ? value
                         : row.output_type == FLOAT32 ? (double)(float)value
                                                      : through_half(value);
  return in_type < row.top ? in_type : row.top;
}

// `random` is a function of the C library.
__global__ void random_numbers(const RandomRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const RandomRow row = rows[place.row];
  const bool whole = row.output_type < FLOAT16;
  over_eights(place.block, row.total, [&](long long i) {
    double v[EIGHT];
#pragma unroll 1
    for (int k = 0; k < EIGHT; ++k) {
      const double value = number_of(row, i + k, whole);
      v[k] = row.output_type == FLOAT16 ? through_half(value) : value;
    }
    store_eight<true>(row.output, row.output_type, i, row.total, v);
  });
}

struct NoiseRow {
  const void* input;
  void* output;
  word64 key;
  long long total;
  float mean, deviation;
  int input_type, output_type;
};

// Elements 2 i and 2 i + 1 share one pair of uniform numbers (Box and Muller).
__global__ void gaussian_noise(const NoiseRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const NoiseRow row = rows[place.row];
  over_eights(place.block, row.total, [&](long long i) {
    float v[EIGHT];
    load_eight(v, row.input, row.input_type, i, row.total);
#pragma unroll
    for (int k = 0; k < EIGHT; k += 2) {
      const word64 word = bits_of(row.key, (i + k) / 2);
      // 24 bits each: exact in float, and never 0 under the logarithm
      const float step = 1.0f / 16777216.0f;
      const float one = __fmul_rn(__fadd_rn((float)(unsigned)(word >> 40), 0.5f), step);
      const float other = (float)(unsigned)((word >> 8) & 0xFFFFFF) * step;
      const float radius = row.deviation * sqrtf(-2.0f * logf(one));
      const float angle = 6.2831855f * other;
      v[k] += __fadd_rn(row.mean, __fmul_rn(radius, cosf(angle)));
      v[k + 1] += __fadd_rn(row.mean, __fmul_rn(radius, sinf(angle)));
    }
    store_eight<true>(row.output, row.output_type, i, row.total, v);
  });
}
