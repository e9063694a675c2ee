// Random numbers: each is a function of a key and of its number, the same as in seeds.py.
#pragma once
#include "elements.cuh"

const word64 GOLDEN = 0x9E3779B97F4A7C15ULL;

__device__ __forceinline__ word64 mixed(word64 x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// 64 random bits, number `index` of a key.
__device__ __forceinline__ word64 bits_of(word64 key, word64 index) { return mixed(key ^ mixed((index + 1) * GOLDEN)); }

// A number in [0, 1).
__device__ __forceinline__ double unit_of(word64 key, word64 index) {
  return (double)(long long)(bits_of(key, index) >> 11) * (1.0 / 9007199254740992.0);
}
