// Resizes along one axis at a time, for volumes, extreme scales and every pair of types; and picks the nearest pixels.
// instances: resize_axis<float|double>; pick<WORD>
#include "divide.cuh"
#include "elements.cuh"

struct AxisRow {
  const void* input;   // outer x extent x inner
  void* output;        // outer x result x inner
  const int* starts;
  const float* weights;
  long long extent;    // of the input along the axis
  Divider inner, result;
  int taps;
  unsigned total;
  int input_type, output_type;
};

// The weighted sum along the axis in float32, as on the CPU; C is a type that has the numbers of the input.
template <class C>
__global__ void resize_axis(const AxisRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const AxisRow& row = rows[place.row];
#pragma unroll 1
  for (int round = 0; round < 4; ++round) {
    const unsigned n = (unsigned)place.block * 1024 + round * 256 + threadIdx.x;
    if (n >= row.total) return;
    unsigned at = n;
    unsigned o = divide(at, row.inner);
    const unsigned outer = divide(o, row.result);
    const long long from = (outer * row.extent + row.starts[o]) * row.inner.extent + at;
    const float* weights = row.weights + (long long)o * row.taps;
    float sum = 0;
    with_type<C>(row.input_type, row.input, [&](auto* typed) {
      for (int k = 0; k < row.taps; ++k)
        sum = twice_rounded(weights[k], (float)(C)plain_number(typed[from + (long long)k * row.inner.extent]), sum);
    });
    store_one<true, float>(row.output, row.output_type, n, sum);
  }
}

struct PickRow {
  const void* input;
  void* output;
  const int* rows;
  const int* columns;
  long long input_plane, input_row;
  Divider pixel, width, height;
  unsigned total;
};

template <class T> struct alignas(sizeof(T) * 4) Four { T at[4]; };

// Copies elements of any type from the nearest pixels: a thread copies four neighbours.
template <class T>
__global__ void pick(const PickRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const PickRow& row = rows[place.row];
  const unsigned start = ((unsigned)place.block * 256 + threadIdx.x) * 4;
  T* target = (T*)row.output + start;
  Four<T> found;
#pragma unroll
  for (unsigned k = 0; k < 4; ++k) {
    unsigned c = start + k;
    if (c >= row.total) break;
    unsigned x = divide(c, row.pixel), y = divide(x, row.width);
    const unsigned plane = divide(y, row.height);
    const T* source = (const T*)row.input + plane * row.input_plane + row.rows[y] * row.input_row;
    found.at[k] = source[(long long)row.columns[x] * row.pixel.extent + c];
  }
  if (start + 4 <= row.total && ((word64)target & (sizeof(Four<T>) - 1)) == 0) {
    *(Four<T>*)target = found;
  } else {
#pragma unroll
    for (unsigned k = 0; k < 4; ++k)
      if (start + k < row.total) target[k] = found.at[k];
  }
}
