// Whole words from any address.
#pragma once

// Four bytes from an address that need not be a multiple of four. Words around them are read where they lie between `begin` and
// `end`, the memory of the sample; at its very edges the bytes one by one.
__device__ __forceinline__ unsigned bytes_at(const unsigned char* source, const void* begin, const void* end) {
  const unsigned odd = (unsigned)((unsigned long long)source & 3);
  const unsigned* words = (const unsigned*)(source - odd);
  if (odd == 0) return words[0];
  if (words >= begin && words + 2 <= end) return __funnelshift_r(words[0], words[1], odd * 8);
  return source[0] | source[1] << 8 | source[2] << 16 | (unsigned)source[3] << 24;
}
