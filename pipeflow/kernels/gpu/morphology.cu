// The largest, smallest and middle value of a window around every pixel: a thread computes an element.
// instances: find_extremes<float|double>; find_medians
#include "borders.cuh"
#include "divide.cuh"
#include "elements.cuh"

struct WindowRow {
  const void* input;
  void* output;
  int height, width;
  int tall, wide, above, left;   // the window, and its extents above and to the left of the pixel
  Divider columns, pixel;        // width and channels
  unsigned total;                // elements
  int largest, border, type;
};

struct Element { int x, y, channel; };

__device__ __forceinline__ Element element_of(const WindowRow& row, unsigned n) {
  unsigned channel = n;
  unsigned x = divide(channel, row.pixel);
  const unsigned y = divide(x, row.columns);
  return {(int)x, (int)y, (int)channel};
}

// C has the numbers exactly.
template <class C>
__global__ void find_extremes(const WindowRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const WindowRow& row = rows[place.row];
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    const unsigned n = (unsigned)place.block * 512 + round * 256 + threadIdx.x;
    if (n >= row.total) return;
    const Element at = element_of(row, n);
    C best = 0;
    bool any = false;
    for (int b = 0; b < row.tall; ++b) {
      const int line = border_index(at.y + b - row.above, row.height, row.border);
      if (line < 0) continue;
      for (int a = 0; a < row.wide; ++a) {
        const int column = border_index(at.x + a - row.left, row.width, row.border);
        if (column < 0) continue;
        const long long where = ((long long)line * row.width + column) * row.pixel.extent + at.channel;
        const C value = load_one<C>(row.input, row.type, where);
        if (!any || (row.largest ? value > best : value < best)) best = value;
        any = true;
      }
    }
    store_one<true, C>(row.output, row.type, n, best);
  }
}

// Numbers as unsigned integers of the same order.
__device__ __forceinline__ word64 ordered(double value) {
  long long bits;
  memcpy(&bits, &value, 8);
  return bits < 0 ? ~(word64)bits : (word64)bits | 0x8000000000000000ULL;
}
__device__ __forceinline__ double as_number(word64 order) {
  const word64 bits = order & 0x8000000000000000ULL ? order & 0x7FFFFFFFFFFFFFFFULL : ~order;
  double value;
  memcpy(&value, &bits, 8);
  return value;
}

// The middle value is found bit by bit, from the highest bit on; outside the image the border pixel is repeated.
__global__ void find_medians(const WindowRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const WindowRow& row = rows[place.row];
  // Not all 64 bits of a double are needed: float32 needs 29 fewer, and whole numbers 20 fewer.
  const int last = row.type == FLOAT64 ? 0 : row.type >= FLOAT16 ? 29 : 20;
  for (int round = 0; round < 2; ++round) {
    const unsigned n = (unsigned)place.block * 512 + round * 256 + threadIdx.x;
    if (n >= row.total) return;
    const Element at = element_of(row, n);
    int wanted = row.tall * row.wide / 2;  // the number of smaller values
    word64 known = 0;
    for (int bit = 63; bit >= last; --bit) {
      int zeros = 0;
      for (int b = 0; b < row.tall; ++b) {
        const int line = min(max(at.y + b - row.above, 0), row.height - 1);
        for (int a = 0; a < row.wide; ++a) {
          const int column = min(max(at.x + a - row.left, 0), row.width - 1);
          const long long where = ((long long)line * row.width + column) * row.pixel.extent + at.channel;
          const word64 value = ordered(load_one<double>(row.input, row.type, where));
          zeros += (value >> bit) == (known >> bit);
        }
      }
      if (zeros <= wanted) {
        wanted -= zeros;
        known |= 1ULL << bit;
      }
    }
    // For a negative number, all bits below the ones that were found are ones.
    if (!(known >> 63)) known |= (1ULL << last) - 1;
    store_one<true, double>(row.output, row.type, n, as_number(known));
  }
}
