// RGB of raw data: a colour is the mean of the neighbours that have it. A thread computes a pixel.
// instances: debayer<unsigned char|unsigned short>
#include "divide.cuh"
#include "elements.cuh"

struct BayerRow {
  const void* input;
  void* output;
  int height, width, blue_row, blue_column;  // the place of blue in a tile that starts at the second row and column
  Divider columns;
  unsigned total;
};

template <class T>
__global__ void debayer(const BayerRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const BayerRow& row = rows[place.row];
  const T* input = (const T*)row.input;
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    const unsigned n = (unsigned)place.block * 512 + round * 256 + threadIdx.x;
    if (n >= row.total) return;
    T* output = (T*)row.output + 3LL * n;
    if (row.height < 3 || row.width < 3) {
      output[0] = output[1] = output[2] = 0;
      continue;
    }
    unsigned column = n;
    const int line = (int)divide(column, row.columns);
    // The outermost pixels are copies of their inner neighbours.
    const int y = min(max(line, 1), row.height - 2), x = min(max((int)column, 1), row.width - 2);
    const auto at = [&](int dy, int dx) { return (int)input[(long long)(y + dy) * row.width + x + dx]; };
    const bool blue_line = ((y - 1 - row.blue_row) & 1) == 0, blue_column = ((x - 1 - row.blue_column) & 1) == 0;
    const int sides = (at(0, -1) + at(0, 1) + 1) >> 1, ends = (at(-1, 0) + at(1, 0) + 1) >> 1;
    int red, green, blue;
    if (blue_line == blue_column) {
      const int cross = (at(0, -1) + at(0, 1) + at(-1, 0) + at(1, 0) + 2) >> 2;
      const int corners = (at(-1, -1) + at(-1, 1) + at(1, -1) + at(1, 1) + 2) >> 2;
      green = cross;
      blue = blue_line ? at(0, 0) : corners;
      red = blue_line ? corners : at(0, 0);
    } else {
      green = at(0, 0);
      blue = blue_line ? sides : ends;
      red = blue_line ? ends : sides;
    }
    output[0] = (T)red;
    output[1] = (T)green;
    output[2] = (T)blue;
  }
}
