// A matrix for the channels of each pixel, in float. color_pixels is for the common types, colors for all types.
// instances: colors<3, 3|1>; color_pixels<unsigned char|float, unsigned char|float, 3, 3>
// instances: color_pixels<unsigned char, unsigned char, 3, 1>; color_pixels<unsigned char, unsigned char, 1, 3>
#include "elements.cuh"

struct ColorRow {
  const void* input;
  void* output;
  long long pixels;
  float matrix[9];  // a row for each output channel
  float offset[3];
  int input_type, output_type;
};

// As on the CPU, a sum over three channels begins with the offset and is fused, and a sum over one channel is rounded twice.
template <int FROM> __device__ __forceinline__ float channel_of(const float (&in)[FROM], const float* matrix, float offset) {
  if constexpr (FROM == 1) return __fadd_rn(__fmul_rn(in[0], matrix[0]), offset);
  float sum = offset;
#pragma unroll
  for (int from = 0; from < FROM; ++from) sum = __fmaf_rn(in[from], matrix[from], sum);
  return sum;
}

// N values, loaded by words: of 4 bytes for bytes, of 16 bytes for floats.
template <class T> struct Word { static const int size = (sizeof(T) == 1 ? 4 : 16) / sizeof(T); };

template <class T> __device__ __forceinline__ bool in_words(const T* data) {
  return ((word64)data & (Word<T>::size * sizeof(T) - 1)) == 0;
}

template <class T, int N> __device__ __forceinline__ void read_words(T (&v)[N], const T* data) {
  const int each = Word<T>::size;
#pragma unroll
  for (int part = 0; part < N / each; ++part) {
    const Several<T, each> word = ((const Several<T, each>*)data)[part];
#pragma unroll
    for (int k = 0; k < each; ++k) v[part * each + k] = word.at[k];
  }
}

template <class T, int N> __device__ __forceinline__ void write_words(T* data, const T (&v)[N]) {
  const int each = Word<T>::size;
#pragma unroll
  for (int part = 0; part < N / each; ++part) {
    Several<T, each> word;
#pragma unroll
    for (int k = 0; k < each; ++k) word.at[k] = v[part * each + k];
    ((Several<T, each>*)data)[part] = word;
  }
}

// A thread loads four pixels, which are whole words for bytes, and the next four pixels before it writes the first.
template <class In, class Out, int FROM, int TO>
__global__ void color_pixels(const ColorRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const int FOUR = 4, TWO = 2;
  const Place place = place_of_block(first, count);
  const ColorRow& row = rows[place.row];
  const In* __restrict__ input = global((const In*)row.input);
  Out* __restrict__ output = global((Out*)row.output);
  float matrix[TO * FROM], offset[TO];
#pragma unroll
  for (int k = 0; k < TO * FROM; ++k) matrix[k] = row.matrix[k];
#pragma unroll
  for (int k = 0; k < TO; ++k) offset[k] = row.offset[k];
  const long long start = (long long)place.block * BLOCK_ELEMENTS, end = min(start + BLOCK_ELEMENTS, row.pixels);
  const auto color = [&](const In* pixel, Out* result) {
    float values[FROM];
#pragma unroll
    for (int c = 0; c < FROM; ++c) values[c] = (float)pixel[c];
#pragma unroll
    for (int to = 0; to < TO; ++to) result[to] = saturated<Out>(channel_of<FROM>(values, matrix + to * FROM, offset[to]));
  };
  const int step = (int)blockDim.x * FOUR;
  long long i = start + (long long)threadIdx.x * FOUR;
  if (in_words(input) && in_words(output))
    for (; i + step + FOUR <= end; i += TWO * step) {
      In in[TWO][FOUR * FROM];
#pragma unroll
      for (int part = 0; part < TWO; ++part) read_words(in[part], input + (i + part * step) * FROM);
#pragma unroll
      for (int part = 0; part < TWO; ++part) {
        Out out[FOUR * TO];
#pragma unroll
        for (int k = 0; k < FOUR; ++k) color(in[part] + k * FROM, out + k * TO);
        write_words(output + (i + part * step) * TO, out);
      }
    }
#pragma unroll 1
  for (; i < end; i += step)
#pragma unroll 1
    for (long long k = i; k < min(i + FOUR, end); ++k) color(input + k * FROM, output + k * TO);
}

// Every other pair of types: a thread computes eight pixels.
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
        float values[FROM];
#pragma unroll
        for (int from = 0; from < FROM; ++from) values[from] = in[(pixel * FROM + from) / EIGHT][(pixel * FROM + from) % EIGHT];
        const int at = pixel * TO + to;
        out[at / EIGHT][at % EIGHT] = channel_of<FROM>(values, row.matrix + to * FROM, row.offset[to]);
      }
#pragma unroll
    for (int part = 0; part < TO; ++part)
      store_eight<true>(row.output, row.output_type, i * TO + part * EIGHT, row.pixels * TO, out[part]);
  });
}
