// A matrix over the channels of each pixel, in float.
// instances: colors<3, 3>; colors<3, 1>; colors<1, 3>
#include "elements.cuh"

struct ColorRow {
  const void* input;
  void* output;
  long long pixels;
  float matrix[9];  // one row an output channel
  float offset[3];
  int input_type, output_type;
};

// A thread takes eight pixels. From three channels the sum begins with the offset and is fused, as on the CPU; a line over one
// channel is rounded twice, also as there.
template <int FROM, int TO>
__global__ void colors(const ColorRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const ColorRow row = rows[place.row];
  over_eights(place.block, row.pixels, [&](long long i) {
    float in[FROM][EIGHT], out[TO][EIGHT];
#pragma unroll
    for (int part = 0; part < FROM; ++part)
      load_eight(in[part], row.input, row.input_type, i * FROM + part * EIGHT, row.pixels * FROM);
#pragma unroll
    for (int pixel = 0; pixel < EIGHT; ++pixel)
#pragma unroll
      for (int to = 0; to < TO; ++to) {
        float sum = row.offset[to];
        if (FROM == 1) {
          sum = __fadd_rn(__fmul_rn(in[0][pixel], row.matrix[to]), sum);
        } else {
#pragma unroll
          for (int from = 0; from < FROM; ++from) {
            const int at = pixel * FROM + from;
            sum = __fmaf_rn(in[at / EIGHT][at % EIGHT], row.matrix[to * FROM + from], sum);
          }
        }
        const int at = pixel * TO + to;
        out[at / EIGHT][at % EIGHT] = sum;
      }
#pragma unroll
    for (int part = 0; part < TO; ++part)
      store_eight<true>(row.output, row.output_type, i * TO + part * EIGHT, row.pixels * TO, out[part]);
  });
}
