// Spreads the values of a channel over their range: values are counted, then each block makes the table of its channel.
// instances: count_values; spread_values; replace_values; stretch_values
#include "elements.cuh"

const int THREADS = 256, VALUES = 16384;  // values that a block works on

struct HistogramRow {
  const byte* input;    // the first value of a channel
  byte* output;
  unsigned* counts;     // 256 counts
  long long total;      // values of the channel
  int step;             // from value to value
};

__global__ void count_values(const HistogramRow* __restrict__ rows, const int* __restrict__ first, int count) {
  __shared__ unsigned counts[256];
  const Place place = place_of_block(first, count);
  const HistogramRow& row = rows[place.row];
  counts[threadIdx.x] = 0;
  __syncthreads();
  const long long start = (long long)place.block * VALUES, end = min(start + VALUES, row.total);
  for (long long i = start + threadIdx.x; i < end; i += THREADS) atomicAdd(&counts[row.input[i * row.step]], 1u);
  __syncthreads();
  if (counts[threadIdx.x]) atomicAdd(&row.counts[threadIdx.x], counts[threadIdx.x]);
}

__global__ void spread_values(const HistogramRow* __restrict__ rows, const int* __restrict__ first, int count) {
  __shared__ unsigned below[256];
  __shared__ byte table[256];
  const Place place = place_of_block(first, count);
  const HistogramRow& row = rows[place.row];
  const int me = (int)threadIdx.x;
  below[me] = row.counts[me];
  __syncthreads();
  for (int step = 1; step < 256; step *= 2) {  // sums of all counts up to each value
    const unsigned more = me >= step ? below[me - step] : 0;
    __syncthreads();
    below[me] += more;
    __syncthreads();
  }
  int least = 0;
  while (least < 255 && below[least] == 0) ++least;
  const unsigned all = below[255], rest = all - below[least];
  const float factor = rest ? 255.0f / (float)rest : 0.0f;
  const unsigned own = me > least ? below[me] - below[least] : 0;
  table[me] = rest ? (byte)(int)rintf(__fmul_rn((float)own, factor)) : (byte)me;
  __syncthreads();
  const long long start = (long long)place.block * VALUES, end = min(start + VALUES, row.total);
  for (long long i = start + me; i < end; i += THREADS) row.output[i * row.step] = table[row.input[i * row.step]];
}

// Replaces values by those of a table of 256.
struct TableRow {
  const byte* input;
  byte* output;
  const byte* table;
  long long total;
  int step;             // from value to value
};

__global__ void replace_values(const TableRow* __restrict__ rows, const int* __restrict__ first, int count) {
  __shared__ byte table[256];
  const Place place = place_of_block(first, count);
  const TableRow& row = rows[place.row];
  table[threadIdx.x] = row.table[threadIdx.x];
  __syncthreads();
  const long long start = (long long)place.block * VALUES, end = min(start + VALUES, row.total);
  for (long long i = start + threadIdx.x; i < end; i += THREADS) row.output[i * row.step] = table[row.input[i * row.step]];
}

// (value - center) * factor + offset, each step rounded; the numbers are computed from the counts of the channel, or of all
// channels.
struct StretchRow {
  const byte* input;       // the first value of a channel
  byte* output;
  const unsigned* counts;  // 256 of the channel; contrast about the mean: those of every channel, one after the other
  long long total;         // values of the channel
  int step;
  int channels;            // contrast about the mean: the number of channels; 0: from the smallest to the largest value
  float factor;
};

__global__ void stretch_values(const StretchRow* __restrict__ rows, const int* __restrict__ first, int count) {
  __shared__ float line[3];
  __shared__ byte table[256];
  const Place place = place_of_block(first, count);
  const StretchRow& row = rows[place.row];
  const int me = (int)threadIdx.x;
  if (me == 0 && row.channels == 0) {
    int low = 0, high = 255;
    while (low < 255 && row.counts[low] == 0) ++low;
    while (high > low && row.counts[high] == 0) --high;
    line[0] = high > low ? (float)low : 0.0f;
    line[1] = 255.0f / (high > low ? (float)(high - low) : 255.0f);
    line[2] = 0.0f;
  }
  if (me == 0 && row.channels != 0) {
    const float grey[3] = {0.299f, 0.587f, 0.114f};
    float center = 0.0f;
    for (int k = 0; k < row.channels; ++k) {
      long long sum = 0;
      for (int value = 0; value < 256; ++value) sum += (long long)row.counts[256 * k + value] * value;
      const float mean = (float)((double)sum / (double)row.total);
      center = row.channels == 3 ? __fadd_rn(center, __fmul_rn(mean, grey[k])) : __fadd_rn(center, mean);
    }
    line[0] = line[2] = row.channels == 3 ? center : center / (float)row.channels;
    line[1] = row.factor;
  }
  __syncthreads();
  const float value = __fadd_rn(__fmul_rn(__fadd_rn((float)me, -line[0]), line[1]), line[2]);
  table[me] = (byte)(int)rintf(fminf(fmaxf(value, 0.0f), 255.0f));
  __syncthreads();
  const long long start = (long long)place.block * VALUES, end = min(start + VALUES, row.total);
  for (long long i = start + me; i < end; i += THREADS) row.output[i * row.step] = table[row.input[i * row.step]];
}
