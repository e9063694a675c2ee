// The effect of JPEG compression on an image, without a file, in the integer arithmetic of the standard's sample code; libjpeg's
// results are equal, bit by bit. Chroma has half the resolution in both directions (4:2:0).
// instances: compress; restore
#include "elements.cuh"

const int THREADS = 256;
const int UNITS = 4;     // squares of 16 x 16 pixels that a block of threads works on
const int SQUARES = 6;   // squares of 8 x 8 samples in each: four of luma, one of each chroma
const int BITS = 13, EXTRA = 2;

struct JpegRow {
  const byte* input;
  byte* output;
  byte* luma;  // planes in between, whole squares of 16 x 16 (8 x 8)
  byte* blue;
  byte* red;
  const int* steps;  // steps of quantisation: 64 for luma, 64 for chroma
  int height, width, across, down;
};

__device__ __forceinline__ int scaled_down(int x, int bits) { return (x + (1 << (bits - 1))) >> bits; }
__device__ __forceinline__ byte in_byte(int x) { return (byte)(x < 0 ? 0 : x > 255 ? 255 : x); }

__device__ __forceinline__ int luma_of(const byte* p) { return (19595 * p[0] + 38470 * p[1] + 7471 * p[2] + 32768) >> 16; }
__device__ __forceinline__ int blue_of(const byte* p) {
  return (-11059 * p[0] - 21709 * p[1] + 32768 * p[2] + (128 << 16) + 32767) >> 16;
}
__device__ __forceinline__ int red_of(const byte* p) {
  return (32768 * p[0] - 27439 * p[1] - 5329 * p[2] + (128 << 16) + 32767) >> 16;
}

// The odd part, which is the same in both directions.
__device__ __forceinline__ void odd_part(int (&t)[4]) {
  const int z1 = (t[0] + t[3]) * -7373, z2 = (t[1] + t[2]) * -20995;
  const int z5 = (t[0] + t[2] + t[1] + t[3]) * 9633;
  const int z3 = (t[0] + t[2]) * -16069 + z5, z4 = (t[1] + t[3]) * -3196 + z5;
  t[0] = t[0] * 2446 + z1 + z3;
  t[1] = t[1] * 16819 + z2 + z4;
  t[2] = t[2] * 25172 + z2 + z3;
  t[3] = t[3] * 12299 + z1 + z4;
}

// Cosine transform of eight values; the first pass keeps EXTRA more bits, the second rounds them away.
__device__ __forceinline__ void forward(int (&d)[8], bool second) {
  int odd[4] = {d[3] - d[4], d[2] - d[5], d[1] - d[6], d[0] - d[7]};
  const int s0 = d[0] + d[7], s1 = d[1] + d[6], s2 = d[2] + d[5], s3 = d[3] + d[4];
  const int bits = second ? BITS + EXTRA : BITS - EXTRA;
  const int a = s0 + s3, b = s1 + s2, c = s1 - s2, e = s0 - s3;
  d[0] = second ? scaled_down(a + b, EXTRA) : (a + b) * (1 << EXTRA);
  d[4] = second ? scaled_down(a - b, EXTRA) : (a - b) * (1 << EXTRA);
  const int z = (c + e) * 4433;
  d[2] = scaled_down(z + e * 6270, bits);
  d[6] = scaled_down(z - c * 15137, bits);
  odd_part(odd);
  d[7] = scaled_down(odd[0], bits);
  d[5] = scaled_down(odd[1], bits);
  d[3] = scaled_down(odd[2], bits);
  d[1] = scaled_down(odd[3], bits);
}

__device__ __forceinline__ void backward(int (&c)[8], bool second) {
  const int bits = second ? BITS + EXTRA + 3 : BITS - EXTRA;
  const int z = (c[2] + c[6]) * 4433, even2 = z - c[6] * 15137, even3 = z + c[2] * 6270;
  const int sum = (c[0] + c[4]) * (1 << BITS), difference = (c[0] - c[4]) * (1 << BITS);
  const int e0 = sum + even3, e3 = sum - even3, e1 = difference + even2, e2 = difference - even2;
  int odd[4] = {c[7], c[5], c[3], c[1]};
  odd_part(odd);
  c[0] = scaled_down(e0 + odd[3], bits);
  c[7] = scaled_down(e0 - odd[3], bits);
  c[1] = scaled_down(e1 + odd[2], bits);
  c[6] = scaled_down(e1 - odd[2], bits);
  c[2] = scaled_down(e2 + odd[1], bits);
  c[5] = scaled_down(e2 - odd[1], bits);
  c[3] = scaled_down(e3 + odd[0], bits);
  c[4] = scaled_down(e3 - odd[0], bits);
}

// Colours, cosine transform and quantisation, and the same back without the colours.
__global__ void compress(const JpegRow* __restrict__ rows, const int* __restrict__ first, int count) {
  __shared__ int squares[UNITS * SQUARES][8][9];
  const Place place = place_of_block(first, count);
  const JpegRow row = rows[place.row];
  const int me = (int)threadIdx.x, units = row.across * row.down;
  const long long stride = (long long)row.width * 3;
  for (int i = me; i < UNITS * 256; i += THREADS) {
    const int unit = place.block * UNITS + i / 256, y = i % 256 / 16, x = i % 16;
    if (unit >= units) break;
    const int top = min(unit / row.across * 16 + y, row.height - 1), left = min(unit % row.across * 16 + x, row.width - 1);
    squares[i / 256 * SQUARES + y / 8 * 2 + x / 8][y % 8][x % 8] = luma_of(row.input + top * stride + left * 3) - 128;
  }
  {
    const int unit = place.block * UNITS + me / 64, y = me % 64 / 8, x = me % 8;
    if (unit < units) {
      // below the image the last row of chroma is repeated, to its right the last pixel
      const int across = (unit % row.across * 8 + x) * 2;
      const int top = min(unit / row.across * 8 + y, (row.height + 1) / 2 - 1) * 2, bottom = min(top + 1, row.height - 1);
      const int left = min(across, row.width - 1) * 3, right = min(across + 1, row.width - 1) * 3;
      const byte* upper = row.input + top * stride;
      const byte* lower = row.input + bottom * stride;
      const int bias = x % 2 ? 2 : 1;
      const int blue = blue_of(upper + left) + blue_of(upper + right) + blue_of(lower + left) + blue_of(lower + right);
      const int red = red_of(upper + left) + red_of(upper + right) + red_of(lower + left) + red_of(lower + right);
      squares[me / 64 * SQUARES + 4][y][x] = ((blue + bias) >> 2) - 128;
      squares[me / 64 * SQUARES + 5][y][x] = ((red + bias) >> 2) - 128;
    }
  }
  __syncthreads();
  const int square = me / 8, line = me % 8, unit = place.block * UNITS + square / SQUARES, part = square % SQUARES;
  const bool active = square < UNITS * SQUARES && unit < units;
  int values[8];
  if (active) {
#pragma unroll
    for (int k = 0; k < 8; ++k) values[k] = squares[square][line][k];
    forward(values, false);
#pragma unroll
    for (int k = 0; k < 8; ++k) squares[square][line][k] = values[k];
  }
  __syncthreads();
  if (active) {
    const int* steps = row.steps + (part < 4 ? 0 : 64) + line;
#pragma unroll
    for (int k = 0; k < 8; ++k) values[k] = squares[square][k][line];
    forward(values, true);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const int step = steps[8 * k], size = (abs(values[k]) + 4 * step) / (8 * step);  // rounded half away from zero
      values[k] = (values[k] < 0 ? -size : size) * step;
    }
    backward(values, false);
#pragma unroll
    for (int k = 0; k < 8; ++k) squares[square][k][line] = values[k];
  }
  __syncthreads();
  if (!active) return;
#pragma unroll
  for (int k = 0; k < 8; ++k) values[k] = squares[square][line][k];
  backward(values, true);
  const long long down = unit / row.across, across = unit % row.across;
  byte* target = part == 4 ? row.blue : row.red;
  if (part < 4) target = row.luma + (down * 16 + part / 2 * 8 + line) * (row.across * 16LL) + across * 16 + part % 2 * 8;
  else target += (down * 8 + line) * (row.across * 8LL) + across * 8;
#pragma unroll
  for (int k = 0; k < 8; ++k) target[k] = in_byte(values[k] + 128);
}

// A value of chroma at full resolution: the nearest row and column have the weight 3, the next ones 1.
__device__ __forceinline__ int smoothed(const byte* plane, long long stride, int height, int width, int y, int x) {
  const int row = y / 2, column = x / 2;
  if (width <= 2) return plane[row * stride + column];
  const byte* near = plane + row * stride;
  const byte* far = plane + (y % 2 ? min(row + 1, height - 1) : max(row - 1, 0)) * stride;
  const int here = near[column] * 3 + far[column];
  const int other = x % 2 ? column + 1 : column - 1;
  if (other < 0) return (here * 4 + 8) >> 4;
  if (other >= width) return (here * 4 + 7) >> 4;
  return (here * 3 + near[other] * 3 + far[other] + (x % 2 ? 7 : 8)) >> 4;
}

__global__ void restore(const JpegRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const JpegRow row = rows[place.row];
  const long long pixels = (long long)row.height * row.width;
  const long long end = min((place.block + 1LL) * 1024, pixels);
  for (long long i = place.block * 1024LL + threadIdx.x; i < end; i += THREADS) {
    const int y = (int)(i / row.width), x = (int)(i - (long long)y * row.width);
    const int luma = row.luma[y * (row.across * 16LL) + x];
    const int height = (row.height + 1) / 2, width = (row.width + 1) / 2;
    const int blue = smoothed(row.blue, row.across * 8LL, height, width, y, x) - 128;
    const int red = smoothed(row.red, row.across * 8LL, height, width, y, x) - 128;
    row.output[i * 3] = in_byte(luma + ((91881 * red + 32768) >> 16));
    row.output[i * 3 + 1] = in_byte(luma + ((-22554 * blue - 46802 * red + 32768) >> 16));
    row.output[i * 3 + 2] = in_byte(luma + ((116130 * blue + 32768) >> 16));
  }
}
