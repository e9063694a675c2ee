// Quotients by divisors that the host knows: a multiplication and a shift instead of a division; for numbers below 2**31.
#pragma once

struct Divider {
  unsigned extent, multiplier;
  int shift;
};

// The quotient; `n` becomes the remainder.
__device__ __forceinline__ unsigned divide(unsigned& n, const Divider& by) {
  const unsigned quotient = (__umulhi(n, by.multiplier) + n) >> by.shift;
  n -= quotient * by.extent;
  return quotient;
}
