// The numbers of operations, and the operations that several files use.
#pragma once

// The order is that of on_gpu/math.py.
enum Operation {
  ADD, SUB, MUL, DIV, MINIMUM, MAXIMUM, CLAMP, NEGATE, KEEP, ABSOLUTE, BIT_AND, BIT_OR, BIT_XOR, BIT_NOT, SHIFT_LEFT, SHIFT_RIGHT,
  EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL,
  // from here on: operations of the kernel `functions`
  QUOTIENT, REMAINDER, POWER, ARCTANGENT_OF_TWO, SQUARE_ROOT, INVERSE_ROOT, CUBE_ROOT, EXPONENTIAL, LOGARITHM, LOGARITHM_2,
  LOGARITHM_10, FLOOR, CEILING, SINE, COSINE, TANGENT, ARCSINE, ARCCOSINE, ARCTANGENT, HYPERBOLIC_SINE, HYPERBOLIC_COSINE,
  HYPERBOLIC_TANGENT, INVERSE_SINH, INVERSE_COSH, INVERSE_TANH,
};

template <class C> __device__ __forceinline__ C smaller(C a, C b) {
  return a < b || a != a ? a : b;  // NaN if one is NaN, as in NumPy
}
template <class C> __device__ __forceinline__ C larger(C a, C b) { return a > b || a != a ? a : b; }
