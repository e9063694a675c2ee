// The index of the element that is used for one outside the data.
#pragma once

enum Border { CONSTANT, REPLICATE, REFLECT, REFLECT_101, WRAP };

// It is -1 for the fill value.
__device__ __forceinline__ int border_index(int index, int size, int border) {
  if (index >= 0 && index < size) return index;
  if (border == CONSTANT) return -1;
  if (border == REPLICATE || size == 1) return index < 0 ? 0 : size - 1;
  const int period = border == WRAP ? size : border == REFLECT ? 2 * size : 2 * size - 2;
  index %= period;
  if (index < 0) index += period;
  if (index < size) return index;
  return border == REFLECT ? period - 1 - index : period - index;
}
