// Random numbers: each is a function of the sample's key and the place of the element, the same as in seeds.py, so that the
// numbers are equal to the CPU's.
// instances: random_numbers; gaussian_noise; salt_and_pepper<WORD>; shot_noise
#include "divide.cuh"
#include "elements.cuh"
#include "randomness.cuh"

enum Distribution { UNIFORM, LISTED, NORMAL, COIN };

struct RandomRow {
  void* output;
  const double* values;  // for LISTED: the values in the form of the result
  word64 key;
  double low, high;  // for UNIFORM; mean and deviation for NORMAL; the probability for COIN
  double top;        // the largest number below `high` in the output's type
  long long total;
  int listed, distribution, output_type;
};

// Rounds half away from zero, as NumPy's floor does.
__device__ __forceinline__ double rounded(double x) { return copysign(floor(__dadd_rn(fabs(x), 0.5)), x); }

// FLOAT16 directly from double: with float between them, some numbers would be rounded twice.
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
  // after rounding to the output's type, the excluded end must not be reached
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

struct SaltRow {
  const void* input;
  void* output;
  const void* values;        // salt, pepper
  word64 key, hit, white;    // hit, white: the probability of noise, and of salt in it, times 2**32
  Divider inner, channels;
  unsigned total;
};

template <class T>
__global__ void salt_and_pepper(const SaltRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const SaltRow& row = rows[place.row];
  const T* values = (const T*)row.values;
#pragma unroll 1
  for (int round = 0; round < 4; ++round) {
    const unsigned n = (unsigned)place.block * 1024 + round * 256 + threadIdx.x;
    if (n >= row.total) return;
    unsigned j = n;
    unsigned channel = divide(j, row.inner);
    const unsigned outer = divide(channel, row.channels);
    const word64 word = bits_of(row.key, (word64)outer * row.inner.extent + j);
    const T value = (word & 0xFFFFFFFFULL) < row.white ? values[0] : values[1];
    ((T*)row.output)[n] = (word >> 32) < row.hit ? value : ((const T*)row.input)[n];
  }
}

struct ShotRow {
  const void* input;
  void* output;
  word64 key;
  double factor;
  long long total;
  int input_type, output_type;
};

// A Poisson number with this mean: by adding numbers if the mean is small, else by transformed rejection.
__device__ __noinline__ double poisson(word64 key, double mean) {
  if (!(mean > 0)) return 0;
  if (mean < 12) {
    double chance = exp(-mean), total = chance;
    const double number = unit_of(key, 0);
    int counted = 0;
    while (number > total && counted < 200) {
      ++counted;
      chance = __dmul_rn(chance, mean / counted);
      total = __dadd_rn(total, chance);
    }
    return counted;
  }
  mean = fmin(mean, 1e15);
  const double root = sqrt(mean), logarithm = log(mean);
  const double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
  const double scale = 1.1239 + 1.1328 / (b - 3.4), limit = 0.9277 - 3.6224 / (b - 2);
  for (word64 counter = 0;; counter += 2) {
    const double u = unit_of(key, counter) - 0.5, v = unit_of(key, counter + 1);
    const double edge = 0.5 - fabs(u);
    if (edge <= 0) continue;
    const double counted = floor((2 * a / edge + b) * u + mean + 0.43);
    if (edge >= 0.07 && v <= limit) return counted;
    if (counted < 0 || (edge < 0.013 && v > edge) || v <= 0) continue;
    if (log(v * scale / (a / (edge * edge) + b)) <= counted * logarithm - mean - lgamma(counted + 1)) return counted;
  }
}

__global__ void shot_noise(const ShotRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const ShotRow& row = rows[place.row];
  for (int round = 0; round < 4; ++round) {
    const long long n = (long long)place.block * 1024 + round * 256 + threadIdx.x;
    if (n >= row.total) return;
    const word64 own = bits_of(row.key, n);
    const double mean = load_one<double>(row.input, row.input_type, n) / row.factor;
    const double value = poisson(own, mean) * row.factor;
    if (row.output_type == FLOAT16) store_one<true, float>(row.output, row.output_type, n, (float)value);
    else store_one<true, double>(row.output, row.output_type, n, value);
  }
}
