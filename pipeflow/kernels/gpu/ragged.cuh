// The beginning of every kernel over a ragged batch: the row that a block works on, and its number in the row.
#pragma once

// The tests without a device define this, to see which banks of shared memory threads use at the same time.
#ifndef NOTE_SHARED
#define NOTE_SHARED(pointer)
#endif

// A pointer to global memory. Rows hold plain addresses: without this, the compiler uses instructions that look up at each access
// which memory an address belongs to.
template <class T> __device__ __forceinline__ T* global(T* data) {
#ifdef __CUDACC__
  __builtin_assume(__isGlobal(data));
#endif
  return data;
}

struct Place {
  int row;    // which row of descriptors
  int block;  // which of the blocks of that row
};

// `first` has count + 1 ascending entries; row i owns the blocks first[i] .. first[i + 1] - 1, none for an empty one.
__device__ __forceinline__ Place place_of_block(const int* __restrict__ first, int count) {
  int low = 0, high = count - 1, block = (int)blockIdx.x;
  // Samples of one size have as many blocks each: then the place follows from the number, and no load waits for another.
  // The middle of the block: at its begin, the rounded quotient could be that of the row before.
  const int guess = min((int)(((float)block + 0.5f) * __fdividef((float)count, (float)gridDim.x)), high);
  if (first[guess] <= block && block < first[guess + 1]) return {guess, block - first[guess]};
  while (low < high) {
    int middle = (low + high + 1) >> 1;
    if (first[middle] <= block) low = middle;
    else high = middle - 1;
  }
  return {low, block - first[low]};
}
