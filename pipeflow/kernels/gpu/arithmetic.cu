// Arithmetic and comparison of bytes and floats: whole arrays, single numbers, and one number for each of three channels.
//
// The types are known in advance, and the operation is chosen once for all elements of a block. pointwise.cu computes all other
// types, forms and operations, with equal results.
// instances: arithmetic_values<float, float, float>; arithmetic_values<unsigned char, float, float>
// instances: arithmetic_values<float, unsigned char, float>; arithmetic_values<unsigned char, unsigned char, unsigned char>
// instances: arithmetic_values<unsigned char, unsigned char, float>; arithmetic_values<float, float, bool>
// instances: arithmetic_values<unsigned char, unsigned char, bool>; arithmetic_values<unsigned char, float, bool>
#include "elements.cuh"
#include "operations.cuh"

const int THREADS = 256, AT_ONCE = 3;
const int SHARE = 12288;  // elements that a block works on: a multiple of three, so that each block begins with channel 0

struct ValuesRow {
  const void* operands[2];
  void* output;
  long long total;
  int periods[2];  // after so many values an operand repeats: 1 or 3; 0 if it has as many values as the result
  int operation;
};

// Two bytes are computed in int, all other operands in float.
template <class A, class B, class Out> struct Meet { typedef float type; };
template <class Out> struct Meet<byte, byte, Out> { typedef int type; };
template <> struct Meet<byte, byte, float> { typedef float type; };

// N values as they are loaded, in words: each byte would need a register until it is used.
template <class T, int N> struct alignas(N * sizeof(T)) Part { unsigned words[N * sizeof(T) / 4]; };

template <class C, int N> __device__ __forceinline__ C value_of(const Part<byte, N>& part, int j) {
  return (C)(part.words[j / 4] >> (8 * (j % 4)) & 255);
}
template <class C, int N> __device__ __forceinline__ C value_of(const Part<float, N>& part, int j) {
  return (C)__uint_as_float(part.words[j]);
}
__device__ __forceinline__ unsigned word_of(const byte (&x)[3], int k) {
  return x[k % 3] | x[(k + 1) % 3] << 8 | x[(k + 2) % 3] << 16 | (unsigned)x[k % 3] << 24;
}
__device__ __forceinline__ unsigned word_of(const float (&x)[3], int k) { return __float_as_uint(x[k % 3]); }

template <class T, int N> __device__ __forceinline__ bool on_vectors(const T* data, int period) {
  return period || ((word64)data & (alignof(Part<T, N>) - 1)) == 0;
}

// The values of an operand that repeat, for each load of a thread. Neighbouring loads of a thread are THREADS * N elements
// apart, which is one more than a multiple of three. Three loads make a round, which is a multiple of three. So these values are
// the same in all rounds. The same holds for the words of bytes.
template <class T, int N>
__device__ __forceinline__ void repeated(Part<T, N> (&part)[AT_ONCE], const T* data, int period) {
  static_assert(THREADS * N % 3 == 1, "see above");
  if (!period) return;
  const int phase = (int)threadIdx.x * N % 3;
  T turned[3];
#pragma unroll
  for (int k = 0; k < 3; ++k) turned[k] = data[period == 3 ? (phase + k) % 3 : 0];
#pragma unroll
  for (int k = 0; k < AT_ONCE; ++k)
#pragma unroll
    for (int word = 0; word < N * (int)sizeof(T) / 4; ++word) part[k].words[word] = word_of(turned, k + word);
}

template <class A, class B, class Out, class F>
__device__ __forceinline__ void over_values(const ValuesRow& row, int block, F f) {
  typedef typename Meet<A, B, Out>::type C;
  const int widest = sizeof(A) > sizeof(B) ? sizeof(A) : sizeof(B);
  const int N = 16 / (widest > (int)sizeof(Out) ? widest : (int)sizeof(Out)), STEP = THREADS * N;
  const long long start = (long long)block * SHARE;
  const int period_a = row.periods[0], period_b = row.periods[1];
  const A* __restrict__ a = global((const A*)row.operands[0] + (period_a ? 0 : start));
  const B* __restrict__ b = global((const B*)row.operands[1] + (period_b ? 0 : start));
  Out* __restrict__ output = global((Out*)row.output + start);
  const int end = (int)min(row.total - start, (long long)SHARE);
  int done = 0;
  if (on_vectors<A, N>(a, period_a) && on_vectors<B, N>(b, period_b) && ((word64)output & (alignof(Several<Out, N>) - 1)) == 0) {
    Part<A, N> x[AT_ONCE];
    Part<B, N> y[AT_ONCE];
    repeated<A, N>(x, a, period_a);
    repeated<B, N>(y, b, period_b);
#pragma unroll 1
    for (; done + AT_ONCE * STEP <= end; done += AT_ONCE * STEP) {
      const int i = done + (int)threadIdx.x * N;
      if (!period_a)
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) x[k] = *(const Part<A, N>*)(a + i + k * STEP);
      if (!period_b)
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) y[k] = *(const Part<B, N>*)(b + i + k * STEP);
#pragma unroll
      for (int k = 0; k < AT_ONCE; ++k) {
        Several<Out, N> result;
#pragma unroll
        for (int j = 0; j < N; ++j) result.at[j] = (Out)f(value_of<C>(x[k], j), value_of<C>(y[k], j));
        *(Several<Out, N>*)(output + i + k * STEP) = result;
      }
    }
  }
#pragma unroll 1
  for (int i = done + (int)threadIdx.x; i < end; i += THREADS)
    output[i] = (Out)f((C)a[period_a ? i % period_a : i], (C)b[period_b ? i % period_b : i]);
}

template <class A, class B, class Out>
__global__ void __launch_bounds__(THREADS, 4) arithmetic_values(const ValuesRow* __restrict__ rows, const int* __restrict__ first, int count) {
  typedef typename Meet<A, B, Out>::type C;
  const Place place = place_of_block(first, count);
  const ValuesRow& row = rows[place.row];
#define CASE(name, result) \
  case name: over_values<A, B, Out>(row, place.block, [](C x, C y) { return result; }); return;
  if constexpr (Same<Out, bool>::value) {
    switch (row.operation) {
      CASE(EQUAL, x == y)
      CASE(NOT_EQUAL, x != y)
      CASE(LESS, x < y)
      CASE(LESS_EQUAL, x <= y)
      CASE(GREATER, x > y)
      CASE(GREATER_EQUAL, x >= y)
    }
  } else if constexpr (Same<A, byte>::value && Same<B, byte>::value && Same<Out, float>::value) {
    over_values<A, B, Out>(row, place.block, [](C x, C y) { return x / y; });
  } else {
    switch (row.operation) {
      CASE(ADD, x + y)
      CASE(SUB, x - y)
      CASE(MUL, x * y)
      CASE(MINIMUM, smaller(x, y))
      CASE(MAXIMUM, larger(x, y))
    }
    if constexpr (Same<C, float>::value) switch (row.operation) {
      CASE(DIV, x / y)
    }
  }
#undef CASE
}
