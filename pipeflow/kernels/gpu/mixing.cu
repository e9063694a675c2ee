// mixup and cutmix: two arrays mixed by a share, and the labels of two samples.
// instances: mix_values<unsigned char|float>; mix_any; mix_labels
#include "elements.cuh"

struct MixRow {
  const void* first;
  const void* second;
  void* output;
  long long total;
  float share;  // of the first array
  int type;     // of all three
};

__device__ __forceinline__ float mixed(float first, float second, float share) {
  return __fmaf_rn(share, first - second, second);
}

// For the usual types: vectors of 16 bytes if the three arrays begin at such an address.
template <class T>
__global__ void mix_values(const MixRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const MixRow& row = rows[place.row];
  const T* one = global((const T*)row.first);
  const T* other = global((const T*)row.second);
  T* output = global((T*)row.output);
  const float share = row.share;
  const int N = 16 / sizeof(T);
  typedef Several<T, N> Vector;
  const long long start = (long long)place.block * BLOCK_ELEMENTS, end = min(start + BLOCK_ELEMENTS, row.total);
  const int step = (int)blockDim.x * N;
  const bool vectors = (((word64)one | (word64)other | (word64)output) & (alignof(Vector) - 1)) == 0;
  long long i = start + (long long)threadIdx.x * N;
  if (vectors)
#pragma unroll 2
    for (; i + N <= end; i += step) {
      const Vector a = *(const Vector*)(one + i), b = *(const Vector*)(other + i);
      Vector result;
#pragma unroll
      for (int k = 0; k < N; ++k) result.at[k] = saturated<T>(mixed((float)a.at[k], (float)b.at[k], share));
      *(Vector*)(output + i) = result;
    }
#pragma unroll 1
  for (; i < end; i += step)
#pragma unroll 1
    for (long long j = i; j < min(i + N, end); ++j)
      output[j] = saturated<T>(mixed((float)one[j], (float)other[j], share));
}

__global__ void mix_any(const MixRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const MixRow& row = rows[place.row];
  over_eights(place.block, row.total, [&](long long i) {
    float a[EIGHT], b[EIGHT];
    load_eight(a, row.first, row.type, i, row.total);
    load_eight(b, row.second, row.type, i, row.total);
#pragma unroll
    for (int k = 0; k < EIGHT; ++k) a[k] = mixed(a[k], b[k], row.share);
    store_eight<true>(row.output, row.type, i, row.total, a);
  });
}

struct LabelsRow {
  const void* first;   // a vector of floats, or the number of a class
  const void* second;
  void* output;
  long long total;     // numbers of a vector of the output
  double share;
  int first_type, second_type;
  int output_type;
  int classes;         // not 0: labels are numbers of classes
};

// second + share * (first - second), each step rounded to the type, as NumPy does it.
__device__ __forceinline__ double stepwise(double first, double second, double share, int type) {
  if (type == FLOAT64) return twice_rounded(share, __dadd_rn(first, -second), second);
  const float part = (float)share, a = (float)first, b = (float)second;
  if (type == FLOAT32) return twice_rounded(part, __fadd_rn(a, -b), b);
  const auto half = [](float x) { return __half2float(__float2half_rn(x)); };
  return half(half(half(part) * half(a - b)) + b);
}

__global__ void mix_labels(const LabelsRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const LabelsRow& row = rows[place.row];
#pragma unroll 1
  for (int round = 0; round < 4; ++round) {
    const long long i = (long long)place.block * 1024 + round * 256 + threadIdx.x;
    if (i >= row.total) return;
    double one, other;
    if (row.classes) {
      one = load_one<long long>(row.first, row.first_type, 0) == i;
      other = load_one<long long>(row.second, row.second_type, 0) == i;
    } else {
      one = load_one<double>(row.first, row.first_type, i);
      other = load_one<double>(row.second, row.second_type, i);
    }
    store_one<true>(row.output, row.output_type, i, stepwise(one, other, row.share, row.output_type));
  }
}
