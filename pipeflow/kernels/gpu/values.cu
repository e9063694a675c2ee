// one_hot, lookup_table and coord_transform.
// instances: one_hot<WORD>; look_up<WORD>; transform_points<double>
#include "divide.cuh"
#include "elements.cuh"

struct OneHotRow {
  const void* input;
  void* output;
  const void* values;       // off, on
  Divider inner, classes;   // extents after the new axis, and along it
  unsigned total;
  int input_type;
};

template <class T>
__global__ void one_hot(const OneHotRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const OneHotRow& row = rows[place.row];
  const T off = ((const T*)row.values)[0], on = ((const T*)row.values)[1];
#pragma unroll 1
  for (int round = 0; round < 4; ++round) {
    const unsigned n = (unsigned)place.block * 1024 + round * 256 + threadIdx.x;
    if (n >= row.total) return;
    unsigned at = n;
    unsigned number = divide(at, row.inner);
    const unsigned outer = divide(number, row.classes);
    const double value = trunc(load_one<double>(row.input, row.input_type, (long long)outer * row.inner.extent + at));
    ((T*)row.output)[n] = value == (double)number ? on : off;
  }
}

struct LookUpRow {
  const void* input;
  void* output;
  const void* table;
  word64 last;       // the entry for numbers without an entry
  long long total;
  int input_type;
};

template <class T>
__global__ void look_up(const LookUpRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const LookUpRow& row = rows[place.row];
  const T* table = (const T*)row.table;
  T* output = (T*)row.output;
  over_eights(place.block, row.total, [&](long long i) {
    long long v[EIGHT];
    load_eight(v, row.input, row.input_type, i, row.total);
    T found[EIGHT];
#pragma unroll
    for (int k = 0; k < EIGHT; ++k) found[k] = table[min((word64)v[k], row.last)];  // negative numbers become very large ones
    if (i + EIGHT <= row.total && aligned(output + i)) {
      write_eight(output, i, found);
    } else {
#pragma unroll
      for (int k = 0; k < EIGHT; ++k)
        if (i + k < row.total) output[i + k] = found[k];
    }
  });
}

struct PointsRow {
  const void* input;
  void* output;
  const double* matrix;   // a row for each output coordinate; none if there is one factor for all
  const double* offset;   // one for each output coordinate
  double factor;
  int size;               // coordinates of a point of the input
  Divider result;         // coordinates of a point of the output
  unsigned total;
  int input_type, output_type;
};

template <class C>
__global__ void transform_points(const PointsRow* __restrict__ rows, const int* __restrict__ first, int count) {
  const Place place = place_of_block(first, count);
  const PointsRow& row = rows[place.row];
#pragma unroll 1
  for (int round = 0; round < 4; ++round) {
    const unsigned n = (unsigned)place.block * 1024 + round * 256 + threadIdx.x;
    if (n >= row.total) return;
    unsigned coordinate = n;
    const long long point = (long long)divide(coordinate, row.result) * row.size;
    C sum = 0;
    if (row.matrix) {
      for (int k = 0; k < row.size; ++k)
        sum += row.matrix[coordinate * row.size + k] * load_one<C>(row.input, row.input_type, point + k);
    } else {
      sum = __dmul_rn(load_one<C>(row.input, row.input_type, n), row.factor);
    }
    store_one<true, C>(row.output, row.output_type, n, __dadd_rn(sum, row.offset[coordinate]));
  }
}
