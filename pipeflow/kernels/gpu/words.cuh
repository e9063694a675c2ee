// Whole words from any address.
#pragma once

// Four bytes from an address that need not be a multiple of four. If the words around them are between `begin` and `end`, in the
// memory of the sample, the words are read; at its edges, the bytes are read one by one.
__device__ __forceinline__ unsigned bytes_at(const unsigned char* source, const void* begin, const void* end) {
  const unsigned odd = (unsigned)((unsigned long long)source & 3);
  const unsigned* words = (const unsigned*)(source - odd);
  if (odd == 0) return words[0];
  if (words >= begin && words + 2 <= end) return __funnelshift_r(words[0], words[1], odd * 8);
  return source[0] | source[1] << 8 | source[2] << 16 | (unsigned)source[3] << 24;
}

// The same if the words around the bytes are known to be in the memory of the sample.
__device__ __forceinline__ unsigned bytes_inside(const unsigned char* source) {
  const unsigned odd = (unsigned)((unsigned long long)source & 3);
  const unsigned* words = (const unsigned*)(source - odd);
  return __funnelshift_r(words[0], words[1], odd * 8);
}

// Byte k of a word as a number: the mantissa of a float from 2**23 on has whole numbers. The compiler would use the conversion
// instruction for bytes, which is four times as slow as other instructions.
__device__ __forceinline__ float byte_of(unsigned word, int k) {
  return __fadd_rn(__uint_as_float(__byte_perm(word, 0x4b000000u, 0x7650 + k)), -8388608.0f);
}
