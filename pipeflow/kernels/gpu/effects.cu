// Sharpens images by the differences from a blurred form.
// instances: sharpen
#include "elements.cuh"

const int VALUES = 4096;  // values that a block works on

struct SharpenRow {
  const byte* input;
  const float* blurred;
  byte* output;
  long long total;
  float amount, threshold;
};

__global__ void sharpen(const SharpenRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const SharpenRow& row = rows[place.row];
  const long long start = (long long)place.block * VALUES, end = min(start + VALUES, row.total);
  for (long long i = start + threadIdx.x; i < end; i += blockDim.x) {
    const float value = row.input[i], difference = __fadd_rn(value, -row.blurred[i]);
    const float sharp = __fmaf_rn(row.amount, difference, value);
    const float kept = fabsf(difference) > row.threshold ? sharp : value;
    row.output[i] = (byte)(int)(fminf(fmaxf(kept, 0.0f), 255.0f) + 0.5f);
  }
}
