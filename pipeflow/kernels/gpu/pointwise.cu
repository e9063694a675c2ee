// Arithmetic, comparison, bitwise and mathematical operators with broadcasting.
//
// C has all numbers of the common type of the operands: int for integers up to 32 bits, long long and unsigned long long for the
// others, float for FLOAT16 and FLOAT, double for FLOAT64. Integers wrap around when the result is stored.
// instances: arithmetic<COMPUTED>; functions<COMPUTED>
#include "operands.cuh"
#include "operations.cuh"

struct PointwiseRow {
  Operand operands[3];
  void* output;
  const Axis* axes;
  long long total, inner;
  int ndim, operation, output_type;
  int in_half;  // the common type is FLOAT16: operands of other types are rounded to it
};

template <class C> struct Unsigned { typedef C type; };
template <> struct Unsigned<int> { typedef unsigned type; };
template <> struct Unsigned<long long> { typedef word64 type; };

// Integers are computed as unsigned ones, for which overflow is defined.
#define WRAPPING(a, symbol, b) ((C)((typename Unsigned<C>::type)(a)symbol(typename Unsigned<C>::type)(b)))

// The operation is chosen once for eight elements.
#define EACH(result)                                    \
  {                                                     \
    _Pragma("unroll") for (int k = 0; k < EIGHT; ++k) { \
      const C x = a[k], y = b[k];                       \
      a[k] = (C)(result);                               \
    }                                                   \
    return;                                             \
  }

template <class C>
__device__ __forceinline__ void light(int operation, C (&a)[EIGHT], const C (&b)[EIGHT], const C (&c)[EIGHT]) {
  if constexpr (Number<C>::floating) {
    switch (operation) {
      case ADD: EACH(x + y)
      case SUB: EACH(x - y)
      case MUL: EACH(x * y)
      case DIV: EACH(x / y)
      case NEGATE: EACH(-x)
      case ABSOLUTE: EACH(fabs(x))
    }
  } else {
    const C bits = (C)(8 * sizeof(C));
    switch (operation) {
      case ADD: EACH(WRAPPING(x, +, y))
      case SUB: EACH(WRAPPING(x, -, y))
      case MUL: EACH(WRAPPING(x, *, y))
      case NEGATE: EACH(WRAPPING(0, -, x))
      case ABSOLUTE: EACH(x < 0 ? WRAPPING(0, -, x) : x)
      case BIT_AND: EACH(x & y)
      case BIT_OR: EACH(x | y)
      case BIT_XOR: EACH(x ^ y)
      case BIT_NOT: EACH(~x)
      case SHIFT_LEFT: EACH(y < 0 || y >= bits ? (C)0 : WRAPPING(x, <<, y))
      case SHIFT_RIGHT: EACH(y < 0 || y >= bits ? (x < 0 ? (C)-1 : (C)0) : (C)(x >> y))
    }
  }
  switch (operation) {
    case MINIMUM: EACH(smaller(x, y))
    case MAXIMUM: EACH(larger(x, y))
    case CLAMP: EACH(smaller(larger(x, y), c[k]))
    case EQUAL: EACH(x == y)
    case NOT_EQUAL: EACH(x != y)
    case LESS: EACH(x < y)
    case LESS_EQUAL: EACH(x <= y)
    case GREATER: EACH(x > y)
    case GREATER_EQUAL: EACH(x >= y)
  }
}

#define FUNCTION(name)                                                            \
  __device__ __forceinline__ float of_##name(float x) { return name##f(x); }      \
  __device__ __forceinline__ double of_##name(double x) { return name(x); }
FUNCTION(sqrt) FUNCTION(cbrt) FUNCTION(exp) FUNCTION(log) FUNCTION(log2) FUNCTION(log10) FUNCTION(floor) FUNCTION(ceil)
FUNCTION(sin) FUNCTION(cos) FUNCTION(tan) FUNCTION(asin) FUNCTION(acos) FUNCTION(atan) FUNCTION(sinh) FUNCTION(cosh)
FUNCTION(tanh) FUNCTION(asinh) FUNCTION(acosh) FUNCTION(atanh)
__device__ __forceinline__ float of_fmod(float a, float b) { return fmodf(a, b); }
__device__ __forceinline__ double of_fmod(double a, double b) { return fmod(a, b); }
__device__ __forceinline__ float of_pow(float a, float b) { return powf(a, b); }
__device__ __forceinline__ double of_pow(double a, double b) { return pow(a, b); }
__device__ __forceinline__ float of_atan2(float a, float b) { return atan2f(a, b); }
__device__ __forceinline__ double of_atan2(double a, double b) { return atan2(a, b); }

// Division by zero, which the CPU refuses, gives 0 here: no kernel can raise an error.
template <class C> __device__ __forceinline__ C heavy(int operation, C a, C b) {
  if constexpr (Number<C>::floating) {
    switch (operation) {
      case REMAINDER: return of_fmod(a, b);
      case POWER: return of_pow(a, b);
      case ARCTANGENT_OF_TWO: return of_atan2(a, b);
      case SQUARE_ROOT: return of_sqrt(a);
      case INVERSE_ROOT: return (C)1 / of_sqrt(a);
      case CUBE_ROOT: return of_cbrt(a);
      case EXPONENTIAL: return of_exp(a);
      case LOGARITHM: return of_log(a);
      case LOGARITHM_2: return of_log2(a);
      case LOGARITHM_10: return of_log10(a);
      case FLOOR: return of_floor(a);
      case CEILING: return of_ceil(a);
      case SINE: return of_sin(a);
      case COSINE: return of_cos(a);
      case TANGENT: return of_tan(a);
      case ARCSINE: return of_asin(a);
      case ARCCOSINE: return of_acos(a);
      case ARCTANGENT: return of_atan(a);
      case HYPERBOLIC_SINE: return of_sinh(a);
      case HYPERBOLIC_COSINE: return of_cosh(a);
      case HYPERBOLIC_TANGENT: return of_tanh(a);
      case INVERSE_SINH: return of_asinh(a);
      case INVERSE_COSH: return of_acosh(a);
      case INVERSE_TANH: return of_atanh(a);
    }
  } else {
    if (operation == POWER) {
      if (b < 0) return 0;
      C result = 1;
      for (; b; b >>= 1) {
        if (b & 1) result = WRAPPING(result, *, a);
        a = WRAPPING(a, *, a);
      }
      return result;
    }
    if (b == 0) return 0;
    const bool overflows = Limits<C>::is_signed && b == (C)-1;  // the smallest number has no positive form
    if (operation == QUOTIENT) return overflows ? WRAPPING(0, -, a) : a / b;
    return overflows ? (C)0 : a % b;
  }
  return a;
}

template <class C>
__device__ __forceinline__ void operand_in_type(C (&v)[EIGHT], const PointwiseRow& row, int which, long long i) {
  load_operand(v, row.operands[which], which, i, row.total, row.inner, row.axes, row.ndim);
  if constexpr (Same<C, float>::value)
    if (row.in_half && row.operands[which].type != FLOAT16) {
#pragma unroll
      for (int k = 0; k < EIGHT; ++k) v[k] = __half2float(__float2half_rn(v[k]));
    }
}

// There may be a third operand, the upper limit of CLAMP. It is usually a single number, so its elements are read one by one.
template <class C> __device__ __forceinline__ void read_third(C (&v)[EIGHT], const PointwiseRow& row, long long i) {
#pragma unroll
  for (int k = 0; k < EIGHT; ++k) {
    const long long element = min(i + k, row.total - 1);
    long long at = row.operands[2].form == SINGLE ? 0 : element;
    if (row.operands[2].form > SINGLE) at = offset_of(element, 2, row.axes, row.ndim);
    v[k] = load_one<C>(row.operands[2].data, row.operands[2].type, at);
    if constexpr (Same<C, float>::value)
      if (row.in_half) v[k] = __half2float(__float2half_rn(v[k]));
  }
}

template <class C>
__global__ void arithmetic(const PointwiseRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const PointwiseRow& row = rows[place.row];
  over_eights(place.block, row.total, [&](long long i) {
    C a[EIGHT], b[EIGHT] = {}, c[EIGHT] = {};
    operand_in_type(a, row, 0, i);
    if (row.operands[1].data) operand_in_type(b, row, 1, i);
    if (row.operands[2].data) read_third(c, row, i);
    light(row.operation, a, b, c);
    store_eight<false>(row.output, row.output_type, i, row.total, a);
  });
}

// Functions whose computation takes most of the time: one element after another.
template <class C>
__global__ void functions(const PointwiseRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const PointwiseRow& row = rows[place.row];
  over_eights(place.block, row.total, [&](long long i) {
    C a[EIGHT], b[EIGHT] = {};
    operand_in_type(a, row, 0, i);
    if (row.operands[1].data) operand_in_type(b, row, 1, i);
#pragma unroll 1
    for (int k = 0; k < EIGHT; ++k) a[k] = heavy(row.operation, a[k], b[k]);
    store_eight<false>(row.output, row.output_type, i, row.total, a);
  });
}
