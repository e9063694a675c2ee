// Affine warps: every output pixel is taken from a position of the input; a thread makes one pixel with all its channels.
//
// Positions are computed as on the CPU, with the same fused steps, so that both take the same pixels. Pixels outside the image
// have the fill value, which is also interpolated, or if clamped, the value of the border pixel.
// instances: warp<unsigned char|float, unsigned char|float>; warp_any<float|double>; warp_nearest<WORD>
#include "divide.cuh"
#include "elements.cuh"
#include "words.cuh"

struct WarpRow {
  const void* input;
  void* output;
  const void* fill;           // one value for each channel: float32, or the bytes of an element for warp_nearest
  const float* given;         // a matrix in device memory, or none
  double matrix[12];          // output to input, x first; rows of three or four
  int ndim, invert;
  int depth, height, width;   // of the input; depth is 1 for images
  int channels;
  int clamped, nearest;
  Divider columns, lines;     // of the output
  unsigned total;             // pixels of the output
  int input_type, output_type;
};

// The matrix that maps output to input: the host's, or one from device memory, inverted if requested. Every loop is unrolled, so
// that the numbers stay in registers: with an index that is known only at run time they would be in memory.
__device__ __forceinline__ void load_matrix(const WarpRow& row, double (&m)[12]) {
  if (!row.given) {
#pragma unroll
    for (int k = 0; k < 12; ++k) m[k] = row.matrix[k];
    return;
  }
  double a[12];
#pragma unroll
  for (int k = 0; k < 12; ++k) a[k] = k < 6 || row.ndim == 3 ? global(row.given)[k] : 0;
  if (!row.invert) {
#pragma unroll
    for (int k = 0; k < 12; ++k) m[k] = a[k];
  } else if (row.ndim == 2) {
    const double scale = 1 / (a[0] * a[4] - a[1] * a[3]);
    m[0] = a[4] * scale; m[1] = -a[1] * scale; m[3] = -a[3] * scale; m[4] = a[0] * scale;
    m[2] = -(m[0] * a[2] + m[1] * a[5]);
    m[5] = -(m[3] * a[2] + m[4] * a[5]);
  } else {
#pragma unroll
    for (int i = 0; i < 3; ++i)
#pragma unroll
      for (int j = 0; j < 3; ++j) {
        const int i1 = (i + 1) % 3, i2 = (i + 2) % 3, j1 = (j + 1) % 3, j2 = (j + 2) % 3;
        m[j * 4 + i] = a[i1 * 4 + j1] * a[i2 * 4 + j2] - a[i1 * 4 + j2] * a[i2 * 4 + j1];
      }
    const double scale = 1 / (a[0] * m[0] + a[1] * m[4] + a[2] * m[8]);
#pragma unroll
    for (int i = 0; i < 3; ++i)
#pragma unroll
      for (int j = 0; j < 3; ++j) m[i * 4 + j] *= scale;
#pragma unroll
    for (int i = 0; i < 3; ++i) m[i * 4 + 3] = -(m[i * 4] * a[3] + m[i * 4 + 1] * a[7] + m[i * 4 + 2] * a[11]);
  }
}

__device__ __forceinline__ float limited(float x, float low, float high) { return fminf(fmaxf(x, low), high); }
__device__ __forceinline__ double limited(double x, double low, double high) { return fmin(fmax(x, low), high); }

// The index of the pixel at a whole position, -1 if it is outside. The type Index counts elements: 32 bits are enough for almost
// all images.
template <class Index> __device__ __forceinline__ Index place_of(int x, int y, const WarpRow& row) {
  if (row.clamped) {
    x = min(max(x, 0), row.width - 1);
    y = min(max(y, 0), row.height - 1);
  }
  const bool inside = x >= 0 && y >= 0 && x < row.width && y < row.height;
  return inside ? (Index)y * row.width + x : -1;
}

__device__ __forceinline__ int nearest_of(double a, double i, double c, int last) {
  return (int)limited(floor(__fma_rn(a, i, c)), -1.0, (double)last);
}

// The nearest pixel of an image for output (i, j).
template <class Index>
__device__ __forceinline__ Index nearest_place(const WarpRow& row, const double (&m)[12], int i, int j) {
  const double c = __fma_rn(m[1], i + 0.5, m[2]), d = __fma_rn(m[4], i + 0.5, m[5]);
  return place_of<Index>(nearest_of(m[0], j + 0.5, c, row.width + 1), nearest_of(m[3], j + 0.5, d, row.height + 1), row);
}

// Two neighbouring pixels of three channels; `end` is behind the memory that may be read, which begins at `begin`.
__device__ __forceinline__ void two_pixels(float (&v)[6], const byte* source, const byte* begin, const byte* end) {
  const unsigned odd = (unsigned)((word64)source & 3);
  const unsigned* words = (const unsigned*)(source - odd);
  if ((const byte*)words >= begin && (const byte*)(words + 3) <= end) {
    const unsigned before = __funnelshift_r(words[0], words[1], odd * 8), after = __funnelshift_r(words[1], words[2], odd * 8);
#pragma unroll
    for (int k = 0; k < 6; ++k) v[k] = byte_of(k < 4 ? before : after, k % 4);
  } else {
#pragma unroll
    for (int k = 0; k < 6; ++k) v[k] = source[k];
  }
}

__device__ __forceinline__ void two_pixels(float (&v)[6], const float* source, const float*, const float*) {
#pragma unroll
  for (int k = 0; k < 6; ++k) v[k] = source[k];
}

// A pixel of an image, or of a slice of a volume: load(element) returns a float, read(element, values) gives two neighbouring
// pixels of three channels, store(channel, float) gets the results.
template <class Index, class Load, class Read, class Store>
__device__ __forceinline__ void warp_image(const WarpRow& row, const double (&m)[12], int i, int j, Load load, Read read,
                                           Store store) {
  const float* fill = global((const float*)row.fill);
  if (row.nearest) {
    const Index at = nearest_place<Index>(row, m, i, j);
    for (int c = 0; c < row.channels; ++c) store(c, at < 0 ? fill[c] : load(at * row.channels + c));
    return;
  }
  const float x0 = (float)__fma_rn(m[1], i + 0.5, m[2]), y0 = (float)__fma_rn(m[4], i + 0.5, m[5]);
  const float centre = (float)j + 0.5f;
  // Far outside, where the conversion to an integer would overflow, every pixel is fill or border.
  const float x = limited(__fadd_rn(__fmaf_rn((float)m[0], centre, x0), -0.5f), -2.0f, (float)(row.width + 1));
  const float y = limited(__fadd_rn(__fmaf_rn((float)m[3], centre, y0), -0.5f), -2.0f, (float)(row.height + 1));
  const float left = floorf(x), top = floorf(y);
  const int p = (int)left, q = (int)top;
  const float u = x - left, v = y - top;
  if (p >= 0 && q >= 0 && p < row.width - 1 && q < row.height - 1) {
    const Index at = ((Index)q * row.width + p) * row.channels, below = at + (Index)row.width * row.channels;
    const auto between = [&](float a, float b, float c, float d) {
      const float upper = __fmaf_rn(u, b - a, a), lower = __fmaf_rn(u, d - c, c);
      return __fmaf_rn(v, lower - upper, upper);
    };
    if (row.channels == 3) {
      float upper[6], lower[6];
      read(at, upper);
      read(below, lower);
#pragma unroll
      for (int c = 0; c < 3; ++c) store(c, between(upper[c], upper[c + 3], lower[c], lower[c + 3]));
      return;
    }
#pragma unroll 1
    for (int c = 0; c < row.channels; ++c)
      store(c, between(load(at + c), load(at + row.channels + c), load(below + c), load(below + row.channels + c)));
    return;
  }
  const bool beside = !row.clamped && (p < -1 || q < -1 || p >= row.width || q >= row.height);
  Index corners[4];
  float weights[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    corners[k] = beside ? -1 : place_of<Index>(p + (k & 1), q + (k >> 1), row);
    weights[k] = __fmul_rn(k & 1 ? u : 1 - u, k >> 1 ? v : 1 - v);
  }
#pragma unroll 1
  for (int c = 0; c < row.channels; ++c) {
    const float outside = fill[c];
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float value = corners[k] < 0 ? outside : load(corners[k] * row.channels + c);
      sum = __fadd_rn(sum, __fmul_rn(weights[k], value));
    }
    store(c, sum);
  }
}

template <class Index, class Load, class Store>
__device__ __forceinline__ void warp_volume(const WarpRow& row, const double (&m)[12], int i, int j, int k, Load load,
                                            Store store) {
  double place[3];
#pragma unroll
  for (int axis = 0; axis < 3; ++axis) {
    const double sum = __fma_rn(m[axis * 4], k + 0.5, __dmul_rn(m[axis * 4 + 1], j + 0.5));
    place[axis] = __dadd_rn(__fma_rn(m[axis * 4 + 2], i + 0.5, sum), m[axis * 4 + 3]) - (row.nearest ? 0 : 0.5);
  }
  const double x = limited(place[0], -2.0, row.width + 1.0), y = limited(place[1], -2.0, row.height + 1.0);
  const double z = limited(place[2], -2.0, row.depth + 1.0);
  const int p = (int)floor(x), q = (int)floor(y), r = (int)floor(z);
  const float u = (float)(x - p), v = (float)(y - q), w = (float)(z - r);
  const int reach = row.nearest ? 1 : 8;
  for (int c = 0; c < row.channels; ++c) {
    float sum = 0;
    for (int corner = 0; corner < reach; ++corner) {
      const int dx = corner & 1, dy = corner >> 1 & 1, dz = corner >> 2;
      int deep = r + dz;
      if (row.clamped) deep = min(max(deep, 0), row.depth - 1);
      const Index flat = place_of<Index>(p + dx, q + dy, row);
      const bool inside = flat >= 0 && deep >= 0 && deep < row.depth;
      const float value =
          inside ? load(((Index)deep * row.height * row.width + flat) * row.channels + c) : global((const float*)row.fill)[c];
      const float weight = row.nearest ? 1.0f : (dx ? u : 1 - u) * (dy ? v : 1 - v) * (dz ? w : 1 - w);
      sum = row.nearest ? value : __fmaf_rn(weight, value, sum);
    }
    store(c, sum);
  }
}

template <class Index, class Load, class Read, class Store>
__device__ __forceinline__ void warp_pixels(const WarpRow& row, int block, Load load, Read read, Store store) {
  double m[12];
  load_matrix(row, m);
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    const unsigned n = (unsigned)block * 512 + round * 256 + threadIdx.x;
    if (n >= row.total) return;
    unsigned k = n, j = divide(k, row.columns);
    const auto put = [&](int c, float value) { store((Index)n * row.channels + c, value); };
    if (row.ndim == 2) {
      warp_image<Index>(row, m, (int)j, (int)k, load, read, put);
    } else {
      const unsigned i = divide(j, row.lines);
      warp_volume<Index>(row, m, (int)i, (int)j, (int)k, load, put);
    }
  }
}

// For inputs and outputs of fewer than 2**31 elements.
template <class In, class Out>
__global__ void __launch_bounds__(256, 5) warp(const WarpRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const WarpRow& row = rows[place.row];
  const In* input = global((const In*)row.input);
  const In* end = input + (long long)row.height * row.width * row.channels;  // of an image
  Out* output = global((Out*)row.output);
  warp_pixels<int>(
      row, place.block, [&](int i) { return (float)input[i]; },
      [&](int i, float(&values)[6]) { two_pixels(values, input + i, input, end); },
      [&](int i, float value) { output[i] = saturated<Out>(value); });
}

// Every other pair of types, and more elements; C is a type that has the numbers of the input.
template <class C>
__global__ void warp_any(const WarpRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const WarpRow& row = rows[place.row];
  const auto load = [&](long long i) { return (float)load_one<C>(row.input, row.input_type, i); };
  warp_pixels<long long>(
      row, place.block, load,
      [&](long long i, float(&values)[6]) {
#pragma unroll
        for (int k = 0; k < 6; ++k) values[k] = load(i + k);
      },
      [&](long long i, float value) { store_one<true, float>(row.output, row.output_type, i, value); });
}

// The nearest pixels of images without a change of type: elements are copied.
template <class T>
__global__ void warp_nearest(const WarpRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const WarpRow& row = rows[place.row];
  const T* input = (const T*)row.input;
  const T* fill = (const T*)row.fill;
  double m[12];
  load_matrix(row, m);
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    const unsigned n = (unsigned)place.block * 512 + round * 256 + threadIdx.x;
    if (n >= row.total) return;
    unsigned j = n;
    const unsigned i = divide(j, row.columns);
    const long long at = nearest_place<long long>(row, m, (int)i, (int)j);
    T* output = (T*)row.output + (long long)n * row.channels;
    for (int c = 0; c < row.channels; ++c) output[c] = at < 0 ? fill[c] : input[at * row.channels + c];
  }
}
