// Elements of any type, read and written eight at a time; the conversions are equal to those on the CPU.
#pragma once
#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif
#include "ragged.cuh"

// In the order of pipeflow.kernels.gpu.TYPES.
enum Type { BOOL, UINT8, INT8, UINT16, INT16, UINT32, INT32, UINT64, INT64, FLOAT16, FLOAT32, FLOAT64 };

const int EIGHT = 8;                      // elements that a thread holds at a time
const long long BLOCK_ELEMENTS = 8192;    // elements that a block works on

typedef unsigned char byte;
typedef unsigned long long word64;

template <class A, class B> struct Same { static const bool value = false; };
template <class A> struct Same<A, A> { static const bool value = true; };

// The type in which a kernel computes.
template <class C> struct Number { static const bool floating = false; };
template <> struct Number<float> { static const bool floating = true; };
template <> struct Number<double> { static const bool floating = true; };

// True if a kernel that computes with C may get elements of T: the host chooses C by the types of the operands.
template <class C, class T> struct Reads {
  static const bool integer = !Number<T>::floating && !Same<T, __half>::value;
  static const bool value =
      Number<C>::floating || (integer && sizeof(T) <= sizeof(C) && !(Same<C, int>::value && Same<T, unsigned>::value));
};

// a * b + c, rounded twice, as in kernels of the CPU with the same results on every processor.
__device__ __forceinline__ float twice_rounded(float a, float b, float c) { return __fadd_rn(__fmul_rn(a, b), c); }
__device__ __forceinline__ double twice_rounded(double a, double b, double c) { return __dadd_rn(__dmul_rn(a, b), c); }

template <class T> __device__ __forceinline__ T plain_number(T x) { return x; }
__device__ __forceinline__ float plain_number(__half x) { return __half2float(x); }

template <class T> struct alignas(sizeof(T) >= 2 ? 16 : 8) Eight { T at[EIGHT]; };

// True if eight elements can be moved by the widest instructions.
template <class T> __device__ __forceinline__ bool aligned(const T* data) {
  return ((word64)data & (alignof(Eight<T>) - 1)) == 0;
}

template <class P> struct Pointee;
template <class T> struct Pointee<T*> { typedef T type; };
template <class T> struct Pointee<const T*> { typedef T type; };

// Calls f(T*) with the type of the code; f is a generic lambda. Types that a kernel with C never gets are left out.
template <class C, class F>
__device__ __forceinline__ void with_type(int type, const void* data, F f) {
  switch (type) {
    case BOOL: case UINT8: f((const byte*)data); break;
    case INT8: f((const signed char*)data); break;
    case UINT16: f((const unsigned short*)data); break;
    case INT16: f((const short*)data); break;
    case INT32: if constexpr (Reads<C, int>::value) f((const int*)data); break;
    case UINT32: if constexpr (Reads<C, unsigned>::value) f((const unsigned*)data); break;
    case INT64: if constexpr (Reads<C, long long>::value) f((const long long*)data); break;
    case UINT64: if constexpr (Reads<C, word64>::value) f((const word64*)data); break;
    case FLOAT16: if constexpr (Reads<C, __half>::value) f((const __half*)data); break;
    case FLOAT32: if constexpr (Reads<C, float>::value) f((const float*)data); break;
    case FLOAT64: if constexpr (Reads<C, double>::value) f((const double*)data); break;
  }
}

// One element, for borders, odd addresses and broadcast operands. It is a separate function: inlined, it would be most of a
// kernel.
template <class C> __device__ __noinline__ C load_one(const void* data, int type, long long i) {
  C value = 0;
  with_type<C>(type, data, [&](auto* typed) { value = (C)plain_number(typed[i]); });
  return value;
}

// Eight elements of a contiguous array of `total`; elements after its end are 0.
template <class C>
__device__ __forceinline__ void load_eight(C (&v)[EIGHT], const void* data, int type, long long i, long long total) {
  bool done = false;
  if (i + EIGHT <= total)
    with_type<C>(type, data, [&](auto* typed) {
      if (!aligned(typed + i)) return;
      const auto part = *(const Eight<typename Pointee<decltype(typed)>::type>*)(typed + i);
#pragma unroll
      for (int k = 0; k < EIGHT; ++k) v[k] = (C)plain_number(part.at[k]);
      done = true;
    });
  if (done) return;
#pragma unroll
  for (int k = 0; k < EIGHT; ++k) v[k] = i + k < total ? load_one<C>(data, type, i + k) : (C)0;
}

// ---------------------------------------------------------------------------------------------------
// Conversions

template <class T> struct Limits {
  static const bool is_signed = (T)-1 < (T)0;
  static const T low = is_signed ? (T)((word64)1 << (sizeof(T) * 8 - 1)) : (T)0;
  static const T high = is_signed ? (T)(((word64)1 << (sizeof(T) * 8 - 1)) - 1) : (T)-1;
};

__device__ __forceinline__ float with_sign(float size, float sign) { return copysignf(size, sign); }
__device__ __forceinline__ double with_sign(double size, double sign) { return copysign(size, sign); }

// Rounded half away from zero and limited to the type's range; NaN is 0.
template <class T, class C> __device__ __forceinline__ T saturated(C value) {
  if constexpr (Same<T, float>::value || Same<T, double>::value) {
    return (T)value;
  } else if constexpr (Same<T, __half>::value) {
    return __float2half_rn((float)value);
  } else if constexpr (Number<C>::floating) {
    if constexpr (sizeof(T) <= 2 && Same<C, float>::value) {
      // The device's conversions stop at the limits of 32 bits, and make NaN 0.
      if constexpr (Limits<T>::is_signed)
        return (T)max(min(__float2int_rz(value + copysignf(0.5f, value)), (int)Limits<T>::high), (int)Limits<T>::low);
      else return (T)min(__float2uint_rz(value + 0.5f), (unsigned)Limits<T>::high);
    } else if constexpr (sizeof(T) <= 2) {
      const C low = (C)Limits<T>::low, high = (C)Limits<T>::high;
      const C rounded = value + with_sign((C)0.5, value);
      return (T)(int)(rounded > low ? (rounded < high ? rounded : high) : (value == value ? low : (C)0));
    } else {
      const double exact = (double)value;
      const double rounded = trunc(__dadd_rn(exact, copysign(0.49999999999999994, exact)));
      if (!(rounded == rounded)) return (T)0;
      if (rounded >= (double)Limits<T>::high) return Limits<T>::high;
      if (rounded <= (double)Limits<T>::low) return Limits<T>::low;
      return (T)rounded;
    }
  } else {
    // compared in the number's own type: compared with unsigned limits, a 64-bit number would wrap around
    if constexpr (sizeof(T) >= sizeof(C)) {
      if (Limits<C>::is_signed && !Limits<T>::is_signed) return value < 0 ? (T)0 : (T)value;
      if (!Limits<C>::is_signed && Limits<T>::is_signed && sizeof(T) == sizeof(C))
        return value > (C)Limits<T>::high ? Limits<T>::high : (T)value;
      return (T)value;
    } else {
      const C high = (C)Limits<T>::high;
      if (value > high) return Limits<T>::high;
      if (Limits<C>::is_signed && value < (C)Limits<T>::low) return Limits<T>::low;
      return (T)value;
    }
  }
}

// As C++ converts: integers wrap around.
template <class T, class C> __device__ __forceinline__ T wrapped(C value) {
  if constexpr (Same<T, __half>::value) return __float2half_rn((float)value);
  else return (T)value;
}

// Calls f(T*) with the type of the code; f is a generic lambda. Integers are stored only as integers, and floats only as floats,
// unless they are converted.
template <bool SATURATED, class C, class F> __device__ __forceinline__ void with_result(int type, void* data, F f) {
  if constexpr (SATURATED || !Number<C>::floating) switch (type) {
    case UINT8: f((byte*)data); return;
    case INT8: f((signed char*)data); return;
    case UINT16: f((unsigned short*)data); return;
    case INT16: f((short*)data); return;
    case INT32: f((int*)data); return;
    case UINT32: if constexpr (SATURATED || Same<C, word64>::value) f((unsigned*)data); return;
    case INT64: if constexpr (SATURATED || Same<C, long long>::value) f((long long*)data); return;
    case UINT64: if constexpr (SATURATED || Same<C, word64>::value) f((word64*)data); return;
  }
  if constexpr (SATURATED || Number<C>::floating) switch (type) {
    case FLOAT16: f((__half*)data); break;
    case FLOAT32: f((float*)data); break;
    case FLOAT64: f((double*)data); break;
  }
}

template <bool SATURATED, class T, class C> __device__ __forceinline__ T converted(C value) {
  if constexpr (SATURATED) return saturated<T>(value);
  else return wrapped<T>(value);
}

template <bool SATURATED, class C> __device__ __noinline__ void store_one(void* data, int type, long long i, C value) {
  if (type == BOOL) ((byte*)data)[i] = value != (C)0;
  with_result<SATURATED, C>(type, data, [&](auto* typed) {
    typed[i] = converted<SATURATED, typename Pointee<decltype(typed)>::type>(value);
  });
}

template <class T> __device__ __forceinline__ void write_eight(T* data, long long i, const T (&v)[EIGHT]) {
  Eight<T> part;
#pragma unroll
  for (int k = 0; k < EIGHT; ++k) part.at[k] = v[k];
  *(Eight<T>*)(data + i) = part;
}

// Stores eight numbers in the type of the code, saturated or wrapped around; BOOL is true for numbers that are not 0.
template <bool SATURATED, class C>
__device__ __forceinline__ void store_eight(void* data, int type, long long i, long long total, const C (&v)[EIGHT]) {
  bool done = false;
  if (i + EIGHT <= total) {
    if (type == BOOL && aligned((byte*)data + i)) {
      byte part[EIGHT];
#pragma unroll
      for (int k = 0; k < EIGHT; ++k) part[k] = v[k] != (C)0;
      write_eight((byte*)data, i, part);
      return;
    }
    with_result<SATURATED, C>(type, data, [&](auto* typed) {
      typedef typename Pointee<decltype(typed)>::type T;
      if (!aligned(typed + i)) return;
      T part[EIGHT];
#pragma unroll
      for (int k = 0; k < EIGHT; ++k) part[k] = converted<SATURATED, T>(v[k]);
      write_eight(typed, i, part);
      done = true;
    });
  }
  if (done) return;
#pragma unroll
  for (int k = 0; k < EIGHT; ++k)
    if (i + k < total) store_one<SATURATED>(data, type, i + k, v[k]);
}

// The number of elements of a vector access that has 16 bytes in the wider of two types.
template <class In, class Out> struct Group {
  static const int size = 16 / (sizeof(In) > sizeof(Out) ? sizeof(In) : sizeof(Out));
};
template <class T, int N> struct alignas(sizeof(T) * N <= 16 ? sizeof(T) * N : 16) Several { T at[N]; };

// Writes f(x) for the block's share of `total` elements, for types known in advance. Neighbouring threads load neighbouring
// vectors, and each thread has several loads in flight: four, or as many as fit into the share of a block of 256 threads.
template <class In, class Out, class F>
__device__ __forceinline__ void map_values(const void* from, void* to, int block, long long total, F f) {
  const In* __restrict__ input = global((const In*)from);
  Out* __restrict__ output = global((Out*)to);
  const int N = Group<In, Out>::size, FIT = (int)BLOCK_ELEMENTS / (256 * N), AT_ONCE = FIT < 4 ? FIT : 4;
  typedef Several<In, N> Load;
  typedef Several<Out, N> Store;
  const long long start = (long long)block * BLOCK_ELEMENTS, end = min(start + BLOCK_ELEMENTS, total);
  const int step = (int)blockDim.x * N;
  const bool vectors = (((word64)input & (alignof(Load) - 1)) | ((word64)output & (alignof(Store) - 1))) == 0;
  long long i = start + (long long)threadIdx.x * N;
  if (vectors)
    for (; i + (AT_ONCE - 1) * step + N <= end; i += AT_ONCE * step) {
      Load part[AT_ONCE];
#pragma unroll
      for (int k = 0; k < AT_ONCE; ++k) part[k] = *(const Load*)(input + i + k * step);
#pragma unroll
      for (int k = 0; k < AT_ONCE; ++k) {
        Store result;
#pragma unroll
        for (int j = 0; j < N; ++j) result.at[j] = f(part[k].at[j]);
        *(Store*)(output + i + k * step) = result;
      }
    }
#pragma unroll 1
  for (; i < end; i += step)
#pragma unroll 1
    for (long long j = i; j < min(i + N, end); ++j) output[j] = f(input[j]);
}

// Calls f(i) for the first element of each group of eight that this thread works on.
template <class F> __device__ __forceinline__ void over_eights(int block, long long total, F f) {
  const long long start = (long long)block * BLOCK_ELEMENTS;
  const long long end = min(start + BLOCK_ELEMENTS, total);
  for (long long i = start + (long long)threadIdx.x * EIGHT; i < end; i += (long long)blockDim.x * EIGHT) f(i);
}
