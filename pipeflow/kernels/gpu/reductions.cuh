// The common parts of reductions: their rows, how two partial results are joined, and how a stretch of memory is read.
#pragma once
#include "elements.cuh"

enum Reduction { SUM, SQUARES, DISTANCES, SMALLEST, LARGEST, LARGEST_NUMBER };  // the last one ignores NaN
enum Finish { AS_IT_IS, MEAN, ROOT, FACTOR };

const int THREADS = 256;

struct Extent {
  long long extent, stride;
};

struct ReduceRow {
  const void* input;
  void* partials;         // A[chunks][results]
  const void* means;      // for DISTANCES: one number, or one for each result
  const Extent* kept;     // outermost first, without the innermost axis if that is kept
  const Extent* reduced;
  long long results, inner;  // inner: extent of the innermost axis if it is kept, else 1
  long long count, chunk;    // elements of a result; a block reduces `chunk` of them
  int kept_ndim, reduced_ndim, input_type, means_type, one_mean, operation;
  int one_by_one;            // 1 if each thread makes a whole result
};

template <class A> struct Extreme;
template <> struct Extreme<double> {
  static __device__ __forceinline__ double low() { return -__longlong_as_double(0x7ff0000000000000LL); }
  static __device__ __forceinline__ double high() { return __longlong_as_double(0x7ff0000000000000LL); }
};
template <> struct Extreme<long long> {
  static __device__ __forceinline__ long long low() { return Limits<long long>::low; }
  static __device__ __forceinline__ long long high() { return Limits<long long>::high; }
};
template <> struct Extreme<word64> {
  static __device__ __forceinline__ word64 low() { return 0; }
  static __device__ __forceinline__ word64 high() { return Limits<word64>::high; }
};

template <class A> __device__ __forceinline__ A neutral(int operation) {
  return operation == SMALLEST ? Extreme<A>::high() : operation >= LARGEST ? Extreme<A>::low() : (A)0;
}

// NaN stays: nothing is smaller or larger than NaN.
template <class A> __device__ __forceinline__ A joined(int operation, A a, A b) {
  switch (operation) {
    case SMALLEST: return b < a || b != b ? b : a;
    case LARGEST: return b > a || b != b ? b : a;
    case LARGEST_NUMBER: return b > a ? b : a;
  }
  return a + b;
}

template <class A> __device__ __forceinline__ A term(int operation, A value, A mean) {
  switch (operation) {
    case SQUARES: return value * value;
    case DISTANCES: return (value - mean) * (value - mean);
  }
  return value;
}

__device__ __noinline__ long long offset_in(const Extent* table, int ndim, long long i) {
  const Extent* axes = global(table);
  long long offset = 0;
  for (int axis = ndim - 1; axis > 0; --axis) {
    const long long rest = i / axes[axis].extent;
    offset += (i - rest * axes[axis].extent) * axes[axis].stride;
    i = rest;
  }
  return ndim ? offset + i * axes[0].stride : 0;
}

template <class A> __device__ __forceinline__ A mean_of(const ReduceRow& row, long long result) {
  if (row.operation != DISTANCES) return (A)0;
  return (A)load_one<double>(row.means, row.means_type, row.one_mean ? 0 : result);
}

// Threads that hold partial results `width` apart join them; the first `width` threads have the result.
template <class A> __device__ __forceinline__ A over_lanes(int operation, A value, int width, int lanes, A* shared) {
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int count = lanes; count > 1;) {
    const int half = (count + 1) / 2;
    const int lane = (int)threadIdx.x / width;
    if (lane < count - half) shared[threadIdx.x] = joined(operation, shared[threadIdx.x], shared[threadIdx.x + half * width]);
    __syncthreads();
    count = half;
  }
  return shared[threadIdx.x];
}

// Calls add(channel, value) for this thread's groups of the values from `begin` to `end`; INNER channels are interleaved.
template <class In, int INNER, class F>
__device__ __forceinline__ void over_span(const In* __restrict__ input, long long begin, long long end, F add) {
  const int GROUP = 4;                      // values of a load
  const int AT_ONCE = INNER == 1 || sizeof(In) == 1 ? 4 : 2;  // loads that are in flight
  const int step = GROUP * INNER, stride = THREADS * step;
  long long i = begin + (long long)threadIdx.x * step;
  if (((word64)(input + begin) & (sizeof(In) * GROUP - 1)) == 0)
    for (; i + (AT_ONCE - 1) * stride + step <= end; i += AT_ONCE * stride) {
      Several<In, GROUP> part[AT_ONCE * INNER];
#pragma unroll
      for (int k = 0; k < AT_ONCE * INNER; ++k)
        part[k] = ((const Several<In, GROUP>*)(input + i + k / INNER * stride))[k % INNER];
#pragma unroll
      for (int k = 0; k < AT_ONCE * step; ++k) add(k % INNER, part[k / GROUP].at[k % GROUP]);
    }
#pragma unroll 1
  for (; i < end; i += stride)
#pragma unroll
    for (int k = 0; k < step; ++k)
      if (i + k < end) add(k % INNER, input[i + k]);
}
