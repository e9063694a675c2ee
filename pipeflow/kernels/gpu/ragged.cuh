// The beginning of every kernel for a ragged batch: the row that a block works on, and the number of the block in the row.
#pragma once

// The tests without a device define this macro, to see which banks of shared memory threads use at the same time.
#ifndef NOTE_SHARED
#define NOTE_SHARED(pointer)
#endif

// A pointer to global memory. Rows have plain addresses: without this, the compiler uses instructions that find out at each
// access which kind of memory an address is in.
template <class T> __device__ __forceinline__ T* global(T* data) {
#ifdef __CUDACC__
#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ < 1303
  if constexpr (sizeof(T) == 3) return data;  // these compilers fail if they are to assume something of a pointer to a struct
#endif
  __builtin_assume(__isGlobal(data));
#endif
  return data;
}

struct Place {
  int row;    // the number of the row of descriptors
  int block;  // the number of the block among those of this row
};

// `first` has count + 1 ascending entries; row i has the blocks first[i] .. first[i + 1] - 1, and an empty row has none.
__device__ __forceinline__ Place place_of_block(const int* __restrict__ first, int count) {
  int low = 0, high = count - 1, block = (int)blockIdx.x;
  // Samples of one size have equally many blocks: then the row is computed from the number of the block, and no load waits for
  // another. 0.5 is the middle of the block: at its begin, rounding could give the row before.
  const int guess = min((int)(((float)block + 0.5f) * __fdividef((float)count, (float)gridDim.x)), high);
  if (first[guess] <= block && block < first[guess + 1]) return {guess, block - first[guess]};
  while (low < high) {
    int middle = (low + high + 1) >> 1;
    if (first[middle] <= block) low = middle;
    else high = middle - 1;
  }
  return {low, block - first[low]};
}
