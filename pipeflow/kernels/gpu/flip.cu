// Mirrors images; elements are moved as words of their size.
#include "ragged.cuh"

struct FlipRow {
  const void* input;
  void* output;
  long long planes, depth, height, width, channels;  // outer axes joined; a missing depth is 1
  int mirror_depth, mirror_height, mirror_width;
};

template <class T>
__global__ void flip(const FlipRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const FlipRow row = rows[place.row];
  const long long total = row.planes * row.depth * row.height * row.width * row.channels;
  const long long start = ((long long)place.block * blockDim.x + threadIdx.x) * 4;
  for (long long i = start; i < min(start + 4, total); ++i) {
    long long rest = i;
    const long long c = rest % row.channels; rest /= row.channels;
    long long x = rest % row.width; rest /= row.width;
    long long y = rest % row.height; rest /= row.height;
    long long z = rest % row.depth; rest /= row.depth;
    if (row.mirror_width) x = row.width - 1 - x;
    if (row.mirror_height) y = row.height - 1 - y;
    if (row.mirror_depth) z = row.depth - 1 - z;
    const long long from = (((rest * row.depth + z) * row.height + y) * row.width + x) * row.channels + c;
    ((T*)row.output)[i] = ((const T*)row.input)[from];
  }
}
