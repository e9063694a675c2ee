// Images whose pixels are taken from other positions. place_of_pixel has a case for each way to compute a position; everything
// after it is the same for all. Positions are in pixels, and the centre of the first pixel is at 0.
// instances: look_up<unsigned char|float>; look_up_any<float|double>; look_up_nearest<WORD>
#include "borders.cuh"
#include "divide.cuh"
#include "elements.cuh"
#include "randomness.cuh"

enum Kind { MATRIX, MAPS, WAVES, LENS, SCATTER };
enum Interpolation { NEAREST, LINEAR, CUBIC };

struct PlacesRow {
  const void* input;
  void* output;
  const void* fill;          // one value for each channel: float32, or elements of the input's type for the nearest pixels
  const void* across;        // MAPS: x of every pixel; WAVES: the distance by which each line moves, as double
  const void* down;          // MAPS: y of every pixel; WAVES: the distance by which each column moves
  const float* given;        // MATRIX: nine numbers in device memory, or none
  word64 key;                // SCATTER
  double numbers[9];         // MATRIX: from output to input; SCATTER: the degree
  double origin;             // position of a pixel's centre
  int kind, interpolation, border, invert;
  int height, width, channels;   // of the input
  Divider columns;               // of the output
  unsigned total;                // pixels of the output
  int map_type, input_type, output_type;
};

struct Where { double x, y; };

__device__ __forceinline__ void matrix_of(const PlacesRow& row, double (&m)[9]) {
  if (!row.given) {
    for (int k = 0; k < 9; ++k) m[k] = row.numbers[k];
    return;
  }
  double a[9];
  for (int k = 0; k < 9; ++k) a[k] = row.given[k];
  if (!row.invert) {
    for (int k = 0; k < 9; ++k) m[k] = a[k];
    return;
  }
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) {
      const int i1 = (i + 1) % 3, i2 = (i + 2) % 3, j1 = (j + 1) % 3, j2 = (j + 2) % 3;
      m[j * 3 + i] = a[i1 * 3 + j1] * a[i2 * 3 + j2] - a[i1 * 3 + j2] * a[i2 * 3 + j1];
    }
  const double scale = 1 / (a[0] * m[0] + a[1] * m[3] + a[2] * m[6]);
  for (int k = 0; k < 9; ++k) m[k] *= scale;
}

// Positions that are further away, or NaN, are moved to this distance.
__device__ __forceinline__ double limited(double place) { return place > -1e9 && place < 1e9 ? place : -1e9; }

__device__ __forceinline__ Where place_of_pixel(const PlacesRow& row, const double (&m)[9], unsigned i, unsigned j) {
  Where at = {0, 0};
  switch (row.kind) {
    case MATRIX: {
      const double x = j + row.origin, y = i + row.origin;
      const double depth = 1.0 / __fma_rn(m[6], x, __fma_rn(m[7], y, m[8]));
      at.x = __fma_rn(__fma_rn(m[0], x, __fma_rn(m[1], y, m[2])), depth, -row.origin);
      at.y = __fma_rn(__fma_rn(m[3], x, __fma_rn(m[4], y, m[5])), depth, -row.origin);
      break;
    }
    case MAPS: {
      const long long n = (long long)i * row.columns.extent + j;
      at.x = (double)load_one<float>(row.across, row.map_type, n) - row.origin;
      at.y = (double)load_one<float>(row.down, row.map_type, n) - row.origin;
      break;
    }
    case WAVES:
      at.x = __dadd_rn(j + ((const double*)row.across)[i], -0.5);
      at.y = __dadd_rn(i + ((const double*)row.down)[j], -0.5);
      break;
    case LENS: {
      const float middle_x = row.width * 0.5f, middle_y = row.height * 0.5f;
      const float radius = (float)max(max(row.width / 2, row.height / 2), 1);
      const float x = (float)j + 0.5f - middle_x, y = (float)i + 0.5f - middle_y;
      const float scale = sqrtf(__fadd_rn(__fmul_rn(x, x), __fmul_rn(y, y))) / radius;
      at.x = (double)__fadd_rn(middle_x, __fmul_rn(scale, x)) - 0.5;
      at.y = (double)__fadd_rn(middle_y, __fmul_rn(scale, y)) - 0.5;
      break;
    }
    case SCATTER: {
      const word64 word = bits_of(row.key, (word64)i * row.width + j);
      const double degree = row.numbers[0], step = degree / 4294967296.0;
      at.x = __dadd_rn(__dadd_rn(j, __dmul_rn((double)(word >> 32), step)), -0.5 * degree);
      at.y = __dadd_rn(__dadd_rn(i, __dmul_rn((double)(word & 0xFFFFFFFFULL), step)), -0.5 * degree);
      break;
    }
  }
  return {limited(at.x), limited(at.y)};
}

// The element of a whole position, -1 for the fill value.
__device__ __forceinline__ long long pixel_at(const PlacesRow& row, int x, int y) {
  const int column = border_index(x, row.width, row.border), line = border_index(y, row.height, row.border);
  return column < 0 || line < 0 ? -1 : ((long long)line * row.width + column) * row.channels;
}

__device__ __forceinline__ long long nearest_pixel(const PlacesRow& row, const double (&m)[9], unsigned i, unsigned j) {
  Where at = place_of_pixel(row, m, i, j);
  if (row.kind == MATRIX || row.kind == MAPS) at = {rint(at.x), rint(at.y)};
  return pixel_at(row, (int)floor(at.x + 0.5), (int)floor(at.y + 0.5));
}

__device__ __forceinline__ void cubic_weights(float t, float (&w)[4]) {
  const float a = -0.75f;
  w[0] = ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a;
  w[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
  w[2] = ((a + 2) * (1 - t) - (a + 3)) * (1 - t) * (1 - t) + 1;
  w[3] = 1 - w[0] - w[1] - w[2];
}

template <class Load, class Store>
__device__ __forceinline__ void look_up_pixels(const PlacesRow& row, int block, Load load, Store store) {
  double m[9];
  matrix_of(row, m);
  const float* fill = (const float*)row.fill;
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    const unsigned n = (unsigned)block * 512 + round * 256 + threadIdx.x;
    if (n >= row.total) return;
    unsigned j = n;
    const unsigned i = divide(j, row.columns);
    const long long first = (long long)n * row.channels;
    const Where at = place_of_pixel(row, m, i, j);
    const double left = floor(at.x), top = floor(at.y);
    const int p = (int)left, q = (int)top;
    const float u = (float)(at.x - left), v = (float)(at.y - top);
    if (row.interpolation == LINEAR) {
      const long long a = pixel_at(row, p, q), b = pixel_at(row, p + 1, q);
      const long long c = pixel_at(row, p, q + 1), d = pixel_at(row, p + 1, q + 1);
      for (int k = 0; k < row.channels; ++k) {
        const float one = a < 0 ? fill[k] : load(a + k), two = b < 0 ? fill[k] : load(b + k);
        const float three = c < 0 ? fill[k] : load(c + k), four = d < 0 ? fill[k] : load(d + k);
        const float upper = __fmaf_rn(u, two - one, one), lower = __fmaf_rn(u, four - three, three);
        store(first + k, __fmaf_rn(v, lower - upper, upper));
      }
      continue;
    }
    float across[4], down[4];
    cubic_weights(u, across);
    cubic_weights(v, down);
    for (int k = 0; k < row.channels; ++k) {
      float total = 0;
      for (int r = 0; r < 4; ++r) {
        float part = 0;
        for (int c = 0; c < 4; ++c) {
          const long long place = pixel_at(row, p + c - 1, q + r - 1);
          part = __fmaf_rn(across[c], place < 0 ? fill[k] : load(place + k), part);
        }
        total = __fmaf_rn(down[r], part, total);
      }
      store(first + k, total);
    }
  }
}

// Integers are rounded half to even.
template <class T> __device__ __forceinline__ float whole(float value) { return Number<T>::floating ? value : rintf(value); }

template <class T>
__global__ void look_up(const PlacesRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const PlacesRow& row = rows[place.row];
  const T* input = (const T*)row.input;
  T* output = (T*)row.output;
  look_up_pixels(row, place.block, [&](long long i) { return (float)input[i]; },
                 [&](long long i, float value) { output[i] = saturated<T>(whole<T>(value)); });
}

// Every other type; C is a type that has the numbers of the input.
template <class C>
__global__ void look_up_any(const PlacesRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const PlacesRow& row = rows[place.row];
  const bool integer = row.output_type < FLOAT16 && row.output_type != BOOL;
  look_up_pixels(row, place.block, [&](long long i) { return (float)load_one<C>(row.input, row.input_type, i); },
                 [&](long long i, float value) {
                   store_one<true, float>(row.output, row.output_type, i, integer ? rintf(value) : value);
                 });
}

// The nearest pixels: elements are copied.
template <class T>
__global__ void look_up_nearest(const PlacesRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const PlacesRow& row = rows[place.row];
  const T* input = (const T*)row.input;
  const T* fill = (const T*)row.fill;
  double m[9];
  matrix_of(row, m);
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    const unsigned n = (unsigned)place.block * 512 + round * 256 + threadIdx.x;
    if (n >= row.total) return;
    unsigned j = n;
    const unsigned i = divide(j, row.columns);
    const long long at = nearest_pixel(row, m, i, j);
    T* output = (T*)row.output + (long long)n * row.channels;
    for (int c = 0; c < row.channels; ++c) output[c] = at < 0 ? fill[c] : input[at + c];
  }
}
